"""Write the ratings that `libraries.py` reads: an NPZ file a data set, with rows, cols and values in file order.

The order matters: the split of a seed is a permutation of the lines of the original file, while accams keeps
observations in row order. Positions are those of the accams loader, and the cells and splits are compared with it
before anything is written. The files fall under the terms of the data: keep them out of the
repository.

Run: python experiments/accuracy/export.py --out DIR       (data in $ACCAMS_DATA, else ../shared/data)
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from accams import Observations
from accams.data import datasets
from accams.data.splits import permutation_test_positions
from common import use_local_data
from libraries import test_positions
from paper.sets import ratings
from rivals import Ratings

SETS = ("ml-100k", "ml-1m", "jester")
SEEDS = (0, 1, 2)


def observations(name: str) -> Observations:
    if name.startswith("ml-"):
        return datasets.movielens(name.removeprefix("ml-")).observations
    return datasets.jester().observations


def in_file_order(name: str, obs: Observations) -> Ratings:
    """Positions and ratings, line by line of the original file."""
    if name.startswith("ml-"):
        return ratings(name)
    table = np.loadtxt(Path(os.environ["ACCAMS_DATA"]) / "jester5k.csv.gz", delimiter=",", skiprows=1)
    users, jokes = table[:, :2].astype(np.int64).T
    return Ratings.of(obs.row_index.positions(users), obs.col_index.positions(jokes), table[:, 2], obs.shape)


def lines(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of raw ids and ratings, line by line of the original file."""
    obs = observations(name)
    found = in_file_order(name, obs)
    return np.stack([obs.row_index.ids[found.rows], obs.col_index.ids[found.cols]], axis=1), found.values


def check_cells(obs: Observations, rows: np.ndarray, cols: np.ndarray, values: np.ndarray) -> None:
    """The file has the cells and values of the loader, in another order."""
    order = np.lexsort((cols, rows))
    assert np.array_equal(rows[order], np.repeat(np.arange(obs.shape[0]), np.diff(obs.row_starts)))
    assert np.array_equal(cols[order], obs.cols)
    assert np.array_equal(values[order], obs.values.astype(np.float32))


def export(name: str, folder: Path) -> None:
    obs = observations(name)
    found = in_file_order(name, obs)
    rows, cols, values = found.rows.astype(np.int32), found.cols.astype(np.int32), found.values.astype(np.float32)
    check_cells(obs, rows, cols, values)
    for seed in SEEDS:  # the script beside this one does without accams
        assert np.array_equal(permutation_test_positions(len(values), 0.1, seed), test_positions(len(values), seed))
    file = folder / f"{name}.npz"
    np.savez_compressed(file, rows=rows, cols=cols, values=values)
    held = len(test_positions(len(values), 0))
    print(f"{file}: {obs.shape[0]:,} x {obs.shape[1]:,}, {len(values):,} ratings, {held:,} of them test; splits agree")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the NPZ files")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    use_local_data()
    for name in SETS:
        export(name, folder)


if __name__ == "__main__":
    main()
