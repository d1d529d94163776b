"""MovieLens 100K and 1M, 90:10, seeds 0-2: ACCAMS beside Surprise's CoClustering and bias baseline, from one run.

The split is `default_rng(seed).permutation(E)` over the ratings in the order of the file, its first tenth the test.
Predictions of all methods are clipped to 1..5. The number of stencils is chosen by early stopping on the training part.

Run: python experiments/movielens.py [100k] [1m]       (needs the extra `bench`: scikit-surprise)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter
from zipfile import ZipFile

import numpy as np

from accams import ACCAMS
from accams.data.splits import permutation_test_positions
from common import machine, table, use_local_data

FILES = {"100k": ("ml-100k.zip", "ml-100k/u.data", "\t"), "1m": ("ml-1m.zip", "ml-1m/ratings.dat", "::")}


def ratings(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of ids and ratings in the order of the file."""
    archive, member, separator = FILES[name]
    with ZipFile(Path(os.environ["ACCAMS_DATA"]) / archive) as folder:
        lines = folder.read(member).decode().replace(separator, " ")
    numbers = np.array(lines.split(), dtype=np.int64).reshape(-1, 4)
    return numbers[:, :2], numbers[:, 2].astype(np.float64)


def ours(pairs: np.ndarray, y: np.ndarray, test: np.ndarray, **parameters: object) -> tuple[np.ndarray, str]:
    mask = np.ones(len(y), dtype=bool)
    mask[test] = False
    model = ACCAMS(verbose=False, **parameters).fit(pairs[mask], y[mask])
    return model.predict(pairs[test]), f"{model.n_stencils_} stencils, {model.stencils_.bits / 8000:.0f} KB"


def surprise(algorithm: str, pairs: np.ndarray, y: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, str]:
    import surprise as library
    from surprise import Dataset, Reader

    mask = np.ones(len(y), dtype=bool)
    mask[test] = False
    entries = [(int(u), int(i), float(r), None) for (u, i), r in zip(pairs[mask], y[mask], strict=True)]
    training = Dataset(Reader(rating_scale=(1, 5))).construct_trainset(entries)
    kwargs = {"random_state": 0} if algorithm == "CoClustering" else {}
    model = getattr(library, algorithm)(verbose=False, **kwargs)
    model.fit(training)
    found = [model.predict(int(u), int(i)).est for u, i in pairs[test]]
    return np.array(found), ""


def main(names: list[str]) -> None:
    use_local_data()
    methods = {
        "Surprise BaselineOnly": lambda *a: surprise("BaselineOnly", *a),
        "Surprise CoClustering": lambda *a: surprise("CoClustering", *a),
        "classic co-clustering (s=1, k=10)": lambda *a: ours(*a, n_stencils=1, learning_rate=1.0),
        "ACCAMS() as it comes": lambda *a: ours(*a),
        "ACCAMS, early stopping, learning rate 0.1": lambda *a: ours(
            *a, n_stencils=300, early_stopping=True, learning_rate=0.1, shrinkage=5.0
        ),
    }
    for name in names:
        pairs, y = ratings(name)
        rows = []
        for method, run in methods.items():
            errors, times, notes = [], [], ""
            for seed in (0, 1, 2):
                test = permutation_test_positions(len(y), 0.1, seed)
                began = perf_counter()
                prediction, notes = run(pairs, y, test)
                times.append(perf_counter() - began)
                errors.append(np.sqrt(np.mean((np.clip(prediction, 1, 5) - y[test]) ** 2)))
            shown = ", ".join(f"{e:.4f}" for e in errors)
            rows.append([method, f"{np.mean(errors):.4f}", shown, f"{np.median(times):.1f}", notes])
            print(rows[-1], flush=True)
        print(f"\nMovieLens {name}\n")
        print(table(["method", "test RMSE", "seeds 0, 1, 2", "seconds", "model (last seed)"], rows))
    print(machine("scikit-surprise"))


if __name__ == "__main__":
    main(sys.argv[1:] or ["100k", "1m"])
