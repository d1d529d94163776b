"""Faces as they come back from files of several sizes, and with a bound on the error of each pixel: a figure.

Run: python experiments/compressed_pictures.py -o docs/figures/compressed-faces.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from accams import CompressedMatrix, compress
from accams.data import datasets
from common import use_local_data

SHOWN = (4, 150, 310, 460, 600)
PROMISES: tuple[dict[str, Any], ...] = (
    {"max_bytes": 20_000}, {"max_bytes": 100_000}, {"max_bytes": 400_000}, {"max_error": 7},
)  # fmt: skip


def title(small: CompressedMatrix) -> str:
    name = "max_error = 7\n" if "max_error" in small.summary.promise else ""
    return f"{name}{small.nbytes / 1000:,.0f} KB\nRMSE {small.summary.rmse:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    use_local_data()
    observations = datasets.faces().observations
    matrix = observations.values.reshape(observations.shape).astype(np.uint8)
    columns = [(f"original\n{matrix.nbytes / 1000:,.0f} KB", matrix[list(SHOWN)])]
    for promise in PROMISES:
        small = compress(matrix, **promise)
        columns.append((title(small), small[list(SHOWN)]))
        print(small, small.parts(), flush=True)
    figure = Figure(figsize=(1.55 * len(columns), 1.6 * len(SHOWN)), layout="constrained")
    axes = figure.subplots(len(SHOWN), len(columns))
    for j, (name, images) in enumerate(columns):
        axes[0, j].set_title(name, fontsize=9)
        for i, image in enumerate(images):
            axes[i, j].imshow(image.reshape(120, 128), cmap="gray")
            axes[i, j].set_axis_off()
    figure.savefig(given.output, dpi=90)
    Image.open(given.output).convert("L").quantize(64).save(given.output, optimize=True)


if __name__ == "__main__":
    main()
