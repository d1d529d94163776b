"""
A first model
=============

Fit a sum of stencils to a small matrix with missing cells, and look at its templates.

The matrix is planted: a sum of two co-clusterings with three row clusters and three column clusters each,
plus noise, of which six cells in ten are observed.
"""

# %%
# The data
# --------

import matplotlib.pyplot as plt
import numpy as np

from accams import ACCAMS
from accams.data.planted import planted_stencils
from accams.data.splits import random_split

shape = (120, 90)
planted = planted_stencils(shape, n_stencils=2, n_clusters=3, density=0.6, noise=0.2)
train, test = random_split(planted.observations, test=0.1, random_state=0)
print(train)

# %%
# The fit
# -------
#
# Two stencils are enough here. Passing over both of them again (``n_relearn``) lets the first one be fitted
# to what the second explains, and the other way round.

model = ACCAMS(n_stencils=2, n_clusters=3, n_relearn=20, learning_rate=1.0).fit(train)
print(f"RMSE on held-out cells {-model.score(test):.3f}; the planted noise is 0.2")

# %%
# The templates
# -------------
#
# A stencil holds one number per pair of a row cluster and a column cluster. That is all there is to the
# model, besides the labels of rows and columns.

stencils = model.stencils_.stencils
limit = max(np.abs(stencil.template).max() for stencil in stencils)
figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="compressed")
for number, (stencil, axis) in enumerate(zip(stencils, axes, strict=True), start=1):
    image = axis.imshow(stencil.template, cmap="RdBu_r", vmin=-limit, vmax=limit)
    for (row, col), entry in np.ndenumerate(stencil.template):
        color = "white" if abs(entry) > 0.7 * limit else "black"
        axis.text(col, row, f"{entry:.1f}", ha="center", va="center", color=color)
    axis.set(title=f"stencil {number}", xlabel="column cluster", ylabel="row cluster")
    axis.set(xticks=range(3), yticks=range(3))
figure.colorbar(image, ax=axes)
plt.show()

# %%
# The matrix and the model
# ------------------------
#
# Rows and columns are sorted by their labels in the first stencil, then in the second. What is missing in the
# data (white) is completed by the model.

rows = np.lexsort([stencil.row_labels for stencil in reversed(stencils)])
cols = np.lexsort([stencil.col_labels for stencil in reversed(stencils)])
observed = np.full(train.shape, np.nan)
observed[tuple(train.pairs().T)] = train.values
completed = model.stencils_.dense()

figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained", sharey=True)
low, high = np.nanmin(observed), np.nanmax(observed)
for axis, title, matrix in zip(axes, ("data", "model"), (observed, completed), strict=True):
    image = axis.imshow(matrix[np.ix_(rows, cols)], aspect="auto", vmin=low, vmax=high)
    axis.set(title=title, xlabel="column")
axes[0].set_ylabel("row")
figure.colorbar(image, ax=axes)
plt.show()

# %%
# This page as a notebook: `in Colab <https://colab.research.google.com/github/accams/accams/blob/main/docs/notebooks/0_first_model.ipynb>`__.
