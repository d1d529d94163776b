"""Accuracy per byte: stencils beside quantised SVDs of the same matrix, at the same size on disk.

MovieLens 1M: one posterior mean for all (`BayesianACCAMS()` on the seed-0 90:10 split). Ours is `distill(max_bytes)`,
the rival a quantised SVD of that mean with the same weights (`rivals/svd.py`). The rival's best setting of a size is
chosen by the test error itself.
Faces: `compress(matrix, max_bytes)` of the matrix of grey levels, beside the same SVD of it without weights and what
else `rivals/compression.py` knows.

Run: python experiments/compression.py movielens [--model FILE]      (FILE keeps the posterior between runs)
     python experiments/compression.py faces
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "accuracy"))

import accams
from accams import BayesianACCAMS
from accams.data import datasets
from accams.data.splits import permutation_test_positions
from accams.fit.target import of_matrix, of_mean
from accams.model import file
from accams.threads import Threads
from common import machine, table, use_local_data
from rivals.compression import Point, best, bytes_at, face_rivals
from rivals.svd import quantised_svds

FILM_SIZES = (10, 16, 33, 60, 90, 150, 300)  # thousand bytes
FACE_SIZES = (20, 50, 100, 200, 400, 700, 1000)


def movielens(model_file: Path | None) -> None:
    from export import in_file_order, observations

    rows, cols, y = in_file_order("ml-1m", observations("ml-1m"))[:3]
    pairs = np.stack([rows, cols], axis=1)
    test = permutation_test_positions(len(y), 0.1, 0)
    train = np.setdiff1d(np.arange(len(y)), test)
    if model_file is not None and model_file.is_file():
        model = accams.load(model_file)
    else:
        model = BayesianACCAMS().fit(pairs[train], y[train]).model_
        if model_file is not None:
            model.save(model_file)
    assert isinstance(model, accams.Model)
    i, j = model.row_index.positions(pairs[test, 0]), model.col_index.positions(pairs[test, 1])

    def rmse(prediction: np.ndarray) -> float:
        return float(np.sqrt(np.mean((np.clip(prediction, 1, 5) - y[test]) ** 2)))

    posterior = model.posterior
    assert posterior is not None
    print(f"posterior mean of {len(posterior)} draws: {rmse(posterior.predict(i, j)):.4f}\n", flush=True)
    draws = [d.codes for d in posterior.draws]
    target = of_mean(draws, *model.activity, 150, threads=Threads(), linear=posterior.linear)
    known = (i >= 0) & (j >= 0)
    found = []
    for each in quantised_svds(target, 1000 * max(FILM_SIZES), [1000 * size for size in FILM_SIZES]):
        prediction = np.full(len(i), target.offset)
        prediction[known] += (each.left[i[known]] * each.right[j[known]]).sum(axis=1)
        found.append(Point(each.size, rmse(prediction), each.which))
    rows = []
    for size in FILM_SIZES:
        began = perf_counter()
        small = model.distill(1000 * size, verbose=False)
        took = perf_counter() - began
        bytes_, error = len(file.to_bytes(small)), rmse(small.predict(i, j))
        svd = best(found, 1000 * size)
        rows.append([size, f"{error:.4f}", f"{bytes_:,}", len(small), f"{svd.error:.4f}", svd.which, f"{took:.0f}"])
        print(*rows[-1], flush=True)
    print(table(["KB", "distilled", "bytes", "stencils", "quantised SVD", "which", "seconds"], rows))


def faces() -> None:
    observations = datasets.faces().observations
    matrix = observations.values.reshape(observations.shape)
    m, n = matrix.shape
    levels = matrix.astype(np.uint8)
    assert (levels == matrix).all()
    target = of_matrix(matrix, np.ones(m), np.ones(n), m)
    sizes = [1000 * size for size in FACE_SIZES]
    rivals = face_rivals(matrix, target, sizes)
    for name, points in rivals.items():
        print(f"{name}: " + "; ".join(f"{best(points, size).which} {best(points, size).error:.2f}" for size in sizes))
    rows = []
    for size in sizes:
        began = perf_counter()
        content = accams.compress(levels, max_bytes=size, verbose=False).to_bytes()
        took = perf_counter() - began
        error = float(np.sqrt(np.mean((accams.decompress(content) - matrix) ** 2)))
        equal = bytes_at(rivals["quantised SVD"], error) / len(content)
        others = [f"{best(points, size).error:.2f}" for points in rivals.values()]
        rows.append([size // 1000, f"{error:.2f}", f"{len(content):,}", *others, f"{equal:.2f}", f"{took:.0f}"])
        print(*rows[-1], flush=True)
    print(table(["KB", "compress", "bytes", *rivals, "SVD's bytes at our error / ours", "seconds"], rows))


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
