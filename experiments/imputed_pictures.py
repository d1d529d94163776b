"""Faces with missing pixels, and as `ACCAMSImputer` fills them: a figure, and the errors.

Run: python experiments/imputed_pictures.py -o docs/figures/imputed-faces.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from PIL import Image

from accams import ACCAMSImputer
from common import machine, use_local_data
from imputation import Matrix, faces, hidden_cells

SHOWN = (4, 150, 310, 460, 600)
BRIGHT = 160  # grey level that is shown as white: the pictures are dark
MASKS = {"random30": "30 % of the pixels", "blocks": "blocks of 16 x 16"}


def filled(X: Matrix) -> Matrix:
    return np.asarray(ACCAMSImputer(keep_empty_features=True, random_state=0).fit_transform(X))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    use_local_data()
    table = faces()
    shown = list(SHOWN)
    columns = [("original", table.X[shown])]
    for mask, name in MASKS.items():
        hidden = hidden_cells(table, mask, 0)
        X, began = np.where(hidden, np.nan, table.X), perf_counter()
        full = filled(X)
        error = float(np.sqrt(np.mean((full - table.X)[hidden] ** 2)))
        print(f"{name}: RMSE {error:.2f} in {perf_counter() - began:.0f} s", flush=True)
        columns += [(f"{name}\nmissing", X[shown]), (f"filled\nRMSE {error:.1f}", full[shown])]
    figure = Figure(figsize=(1.55 * len(columns), 1.6 * len(SHOWN)), layout="constrained")
    axes = figure.subplots(len(SHOWN), len(columns))
    colours = colormaps["gray"].with_extremes(bad="tab:orange")
    for j, (name, images) in enumerate(columns):
        axes[0, j].set_title(name, fontsize=9)
        for i, image in enumerate(images):
            axes[i, j].imshow(image.reshape(120, 128), cmap=colours, vmin=0, vmax=BRIGHT)
            axes[i, j].set_axis_off()
    figure.savefig(given.output, dpi=90)
    Image.open(given.output).convert("RGB").quantize(64).save(given.output, optimize=True)
    print(machine())


if __name__ == "__main__":
    main()
