"""
Compress images
===============

Put a matrix into as few bytes as you allow, or promise how far any cell may be off. Read single rows without the rest.

``compress`` takes any matrix of numbers; images of the same size, one in each row, are a good case, since they have
much in common.
"""

# %%
# So many bytes
# -------------
#
# 800 digits of 8 x 8 pixels with 17 grey levels: 51 KB, a byte for each pixel.

import zlib

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from accams import compress, decompress

digits = load_digits().data[:800].astype(np.uint8)
print(f"{digits.nbytes:,} bytes, {len(zlib.compress(digits.tobytes(), 9)):,} by zlib")
sizes = (2_500, 5_000, 10_000)
files = {size: compress(digits, max_bytes=size, verbose=False) for size in sizes}
for size, file in files.items():
    print(f"{file.nbytes:6,} bytes: RMSE {file.summary.rmse:.2f}, {file.n_stencils[0]} stencils")

# %%
# What comes back, and what went in. 2.5 KB are three bytes an image.

figure, axes = plt.subplots(4, 12, figsize=(8, 2.9), layout="constrained")
lines = {f"{size / 1000:g} KB": decompress(file) for size, file in files.items()} | {"all": digits}
for line, (name, pictures) in zip(axes, lines.items(), strict=True):
    line[0].set_ylabel(name)
    for ax, picture in zip(line, pictures[:12], strict=True):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
plt.show()

# %%
# A promise
# ---------
#
# ``max_error`` bounds the error of every cell, ``max_rmse`` that of all. With integers and a bound of 0, nothing is
# lost.

for bound in (0, 2):
    file = compress(digits, max_error=bound, verbose=False)
    off = np.abs(file[:].astype(int) - digits.astype(int))
    print(f"max_error={bound}: {file.nbytes:6,} bytes, largest error {off.max()}")
    assert off.max() <= bound

# %%
# Beside factors
# --------------
#
# What people would try first: a truncated SVD, whose factors are quantised. The error at the same bytes tells how much
# more stencils get out of each byte where there are few of them.

from accams import baselines  # noqa: E402


def svd_curve(matrix, ranks):
    """Return bytes and RMSE of truncated SVDs with factors of 8 bits."""
    offset = matrix.mean()
    svd = baselines.truncated_svd(matrix - offset, max(ranks))
    points = []
    for rank in ranks:
        factors = svd.truncate(rank).quantised(8)
        back = np.clip(np.rint(offset + factors.left @ factors.right), 0, 16)
        points.append((sum(matrix.shape) * rank, np.sqrt(np.mean((back - matrix) ** 2))))
    return np.array(points)


ours = np.array([(file.nbytes, file.summary.rmse) for file in files.values()])
theirs = svd_curve(digits.astype(float), (1, 2, 3, 4, 6, 8, 12))
figure, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
ax.plot(theirs[:, 0] / 1000, theirs[:, 1], "s--", color="#9aa3b2", label="SVD, factors of 8 bits")
ax.plot(ours[:, 0] / 1000, ours[:, 1], "o-", color="#2563c9", label="compress")
ax.set(xlabel="KB", ylabel="RMSE, in grey levels", ylim=(0, None))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Single rows
# -----------
#
# A compressed matrix is read like an array: only what is asked for is decoded. ``file.save("digits.accams")`` writes
# it, ``accams.load`` reads it, and so does ``accams decompress digits.accams -o back.npy``.

file = files[10_000]
print(file)
print(file[7].reshape(8, 8))

# %%
# This page as a notebook: `in Colab <https://colab.research.google.com/github/accams/accams/blob/main/docs/notebooks/3_compress_images.ipynb>`__.
