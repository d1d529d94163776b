"""
Fill a matrix with gaps
=======================

Fill missing cells of a table and of images, see how far to trust what was filled in, and use the imputer in a pipeline.

``ACCAMSImputer`` is a transformer of scikit-learn: what goes in as a DataFrame comes out as one, and cells that were
observed stay as they are.
"""

# %%
# A table
# -------
#
# Chemical measurements of 178 wines, of which a fifth are hidden. Columns of very different scales need no preparation.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - makes IterativeImputer importable
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from accams import ACCAMSImputer

wines, cultivar = load_wine(return_X_y=True, as_frame=True)
random = np.random.default_rng(0)
hidden = random.random(wines.shape) < 0.2
gaps = wines.mask(hidden)
imputer = ACCAMSImputer(random_state=0)
full = imputer.fit_transform(gaps)
print(full.head(3).round(2).to_string())

# %%
# Errors are measured where cells were hidden, in standard deviations of each column.


def error(filled):
    """Return the RMSE of hidden cells, in standard deviations of their columns."""
    off = (np.asarray(filled) - wines.to_numpy()) / wines.std().to_numpy()
    return np.sqrt(np.mean(off[hidden] ** 2))


others = {"means": SimpleImputer(), "KNNImputer": KNNImputer(), "IterativeImputer": IterativeImputer(random_state=0)}
for name, other in others.items():
    print(f"{name:17s} {error(other.fit_transform(gaps)):.3f}")
print(f"{'ACCAMSImputer':17s} {error(full):.3f}")

# %%
# How far to trust it
# -------------------
#
# ``return_std=True`` adds standard deviations, which are 0 where a cell was observed.

filled, std = imputer.transform(gaps, return_std=True)
column = wines.columns.get_loc("flavanoids")
where = hidden[:, column]
truth, guess, spread = (np.asarray(x)[where, column] for x in (wines, filled, std))
figure, ax = plt.subplots(figsize=(4.5, 4), layout="constrained")
ax.errorbar(truth, guess, yerr=1.645 * spread, fmt="o", markersize=4, color="#2563c9", elinewidth=0.8)
ax.plot([0, 5.2], [0, 5.2], ":", color="#9aa3b2")
ax.set(xlabel="flavanoids, measured", ylabel="filled in, with 90 % intervals", xlim=(0, 5.2), ylim=(0, 5.2))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# One filled table hides that its cells are guesses. ``draws`` makes several, with other values in the gaps that are as
# likely as these. How much a result differs from draw to draw tells how much of it rests on guesses.

slopes = [np.polyfit(drawn["flavanoids"], drawn["total_phenols"], 1)[0] for drawn in imputer.draws(gaps, n=20)]
told = np.polyfit(wines["flavanoids"], wines["total_phenols"], 1)[0]
print(f"slope {np.mean(slopes):.3f} ± {np.std(slopes):.3f} by twenty draws; {told:.3f} with nothing hidden")

# %%
# Images
# ------
#
# Any matrix will do. Here each row is an image of a digit, and blocks of 3 x 3 pixels are missing.

digits, number = load_digits(return_X_y=True)
images = digits.reshape(-1, 8, 8)
damaged = images.copy()
for image in damaged:
    down, across = random.integers(0, 6, 2)
    image[down : down + 3, across : across + 3] = np.nan
filled = ACCAMSImputer(random_state=0).fit_transform(damaged.reshape(-1, 64)).reshape(-1, 8, 8)
lost = np.isnan(damaged)
means = SimpleImputer().fit_transform(damaged.reshape(-1, 64)).reshape(-1, 8, 8)
print(f"RMSE of missing pixels {np.sqrt(np.mean((filled - images)[lost] ** 2)):.2f} of 16 levels;")
print(f"by means of each pixel {np.sqrt(np.mean((means - images)[lost] ** 2)):.2f}")

figure, axes = plt.subplots(3, 10, figsize=(8, 2.7), layout="constrained")
for line, (name, pictures) in zip(axes, (("given", damaged), ("filled", filled), ("true", images)), strict=True):
    line[0].set_ylabel(name)
    for ax, picture in zip(line, pictures[10:20], strict=True):
        ax.imshow(picture, cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
        ax.set_facecolor("#f2c9b0")
plt.show()

# %%
# In a pipeline
# -------------
#
# Fit the imputer with the rest, so that it never sees the rows it is judged by. Rows that were not in the fit are
# filled, too.

from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

for name, first in (("means", SimpleImputer()), ("ACCAMSImputer", ACCAMSImputer(random_state=0))):
    steps = make_pipeline(first, StandardScaler(), LogisticRegression())
    scores = cross_val_score(steps, gaps, cultivar, cv=3)
    print(f"accuracy {scores.mean():.3f} with gaps filled by {name}")

# %%
# This page as a notebook: `in Colab <https://colab.research.google.com/github/accams/accams/blob/main/docs/notebooks/2_fill_gaps.ipynb>`__.
