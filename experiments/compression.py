"""Accuracy per byte: distilled stencil sums beside quantised SVDs of the same matrix, at the same size on disk.

MovieLens 1M: one posterior mean for all (`BayesianACCAMS()` on the seed-0 90:10 split). Ours is `distill(max_bytes)`,
the rival a truncated SVD of that mean with the same weights, its factors scalar-quantised at 4, 5, 6 or 8 bits (each
column over its range, outliers cut or not) and entropy-coded as our labels are. The rival's best setting of a size is
chosen by the test error itself, and its header is not counted.
Faces: the same of the matrix itself, without weights.

Run: python experiments/compression.py movielens [--model FILE]      (FILE keeps the posterior between runs)
     python experiments/compression.py faces
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "accuracy"))

from common import machine, table, use_local_data

import accams
from accams import BayesianACCAMS
from accams.data import datasets
from accams.data.splits import permutation_test_positions
from accams.fit.distill import distill
from accams.fit.target import Target, of_matrix, of_mean
from accams.model import file
from accams.model.coding import encode_labels
from accams.threads import Threads

BITS = (4, 5, 6, 8)
CUTS = (0.0, 0.001)  # share of each column's numbers beyond which they are cut off, at either end
FILM_SIZES = (10, 16, 33, 60, 90, 150, 300)  # thousand bytes
FACE_SIZES = (20, 50, 100, 200, 400, 700, 1000)
SCALES = 8  # bytes of a column's two scales
NONE = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Rival:
    """One quantised SVD."""

    size: int
    rank: int
    bits: int
    left: np.ndarray
    right: np.ndarray


def quantised(factor: np.ndarray, bits: int, cut: float) -> tuple[np.ndarray, int]:
    """A factor with each column at so many levels over its range, and its bytes, entropy-coded."""
    low, high = np.quantile(factor, [cut, 1.0 - cut], axis=0)
    step = np.maximum(high - low, 1e-12) / (2**bits - 1)
    levels = np.rint((np.clip(factor, low, high) - low) / step).astype(np.uint16)
    coded = encode_labels(list(levels.T), [2**bits] * factor.shape[1])
    return low + step * levels, sum(map(len, coded)) + SCALES * factor.shape[1]


def rivals(target: Target, largest: int) -> Iterator[Rival]:
    """Quantised SVDs of all ranks and bits up to a size."""
    root = np.sqrt(np.maximum(target.singular_values, 1e-12))
    left, right = target.left / root, target.right * root
    for bits in BITS:
        for cut in CUTS:
            rank, size = 1, 0
            while size < largest and rank <= left.shape[1]:
                parts = [quantised(each[:, :rank], bits, cut) for each in (left, right)]
                size = parts[0][1] + parts[1][1]
                yield Rival(size, rank, bits, parts[0][0], parts[1][0])
                rank = max(rank + 1, int(rank * 1.1))


def movielens(model_file: Path | None) -> None:
    from export import lines

    pairs, y = lines("ml-1m")
    test = permutation_test_positions(len(y), 0.1, 0)
    train = np.setdiff1d(np.arange(len(y)), test)
    if model_file is not None and model_file.is_file():
        model = accams.load(model_file)
    else:
        model = BayesianACCAMS().fit(pairs[train], y[train])
        if model_file is not None:
            model.save(model_file)
    i, j = model.row_index_.positions(pairs[test, 0]), model.col_index_.positions(pairs[test, 1])

    def rmse(prediction: np.ndarray) -> float:
        return float(np.sqrt(np.mean((np.clip(prediction, 1, 5) - y[test]) ** 2)))

    print(f"posterior mean of {len(model.posterior_)} draws: {rmse(model.posterior_.predict(i, j)):.4f}\n", flush=True)
    target = of_mean([d.codes for d in model.posterior_.draws], *model.activity_, 150, threads=Threads())
    known = (i >= 0) & (j >= 0)
    found = []
    for each in rivals(target, 1000 * max(FILM_SIZES)):
        prediction = np.full(len(i), target.offset)
        prediction[known] += (each.left[i[known]] * each.right[j[known]]).sum(axis=1)
        found.append((each.size, rmse(prediction), f"rank {each.rank}, {each.bits} bits"))
    rows = []
    for size in FILM_SIZES:
        began = perf_counter()
        small = model.distill(1000 * size, verbose=False)
        took = perf_counter() - began
        bytes_, error = len(file.to_bytes(small)), rmse(small.predict(i, j))
        rival = min((each for each in found if each[0] <= 1000 * size), key=lambda each: each[1])
        rows.append([size, f"{error:.4f}", f"{bytes_:,}", len(small), f"{rival[1]:.4f}", rival[2], f"{took:.0f}"])
        print(*rows[-1], flush=True)
    print(table(["KB", "distilled", "bytes", "stencils", "quantised SVD", "which", "seconds"], rows))


def faces() -> None:
    observations = datasets.faces().observations
    matrix = observations.values.reshape(observations.shape)
    m, n = matrix.shape
    target = of_matrix(matrix, np.ones(m), np.ones(n), m)
    total = float(np.square(matrix - target.offset).sum())
    found = []
    for each in rivals(target, 1000 * max(FACE_SIZES)):
        product = ((matrix - target.offset) @ each.right * each.left).sum()
        square = ((each.left.T @ each.left) * (each.right.T @ each.right)).sum()
        found.append(
            (
                each.size,
                float(np.sqrt((total - 2 * product + square) / matrix.size)),
                f"rank {each.rank}, {each.bits} bits",
            )
        )
    rows = []
    for size in FACE_SIZES:
        began = perf_counter()
        small = distill(target, 1000 * size, NONE)
        took = perf_counter() - began
        bytes_, error = len(file.to_bytes(small)), float(np.sqrt(np.mean((small.dense() - matrix) ** 2)))
        rival = min((each for each in found if each[0] <= 1000 * size), key=lambda each: each[1])
        equal = min((each[0] for each in found if each[1] <= error), default=0)
        rows.append(
            [
                size,
                f"{error:.2f}",
                f"{bytes_:,}",
                len(small),
                f"{rival[1]:.2f}",
                rival[2],
                f"{equal / bytes_:.2f}",
                f"{took:.0f}",
            ]
        )
        print(*rows[-1], flush=True)
    header = [
        "KB",
        "distilled",
        "bytes",
        "stencils",
        "quantised SVD",
        "which",
        "its bytes at our error / ours",
        "seconds",
    ]
    print(table(header, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["movielens", "faces"])
    parser.add_argument("--model", type=Path)
    given = parser.parse_args()
    use_local_data()
    movielens(given.model) if given.what == "movielens" else faces()
    print(machine())


if __name__ == "__main__":
    main()
