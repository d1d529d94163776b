"""Write the ratings that `libraries.py` reads: an NPZ file a data set, with rows, cols and values in file order.

The order matters: the split of a seed is a permutation of the lines of the original file, as in `movielens.py`, while
accams keeps observations in row order. Positions are those of the accams loader, and the cells and splits are
compared with it before anything is written. The files fall under the terms of the data: keep them out of the
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

import movielens
from accams import Observations
from accams.data import datasets
from accams.data.splits import permutation_test_positions
from common import use_local_data
from libraries import test_positions

SETS = ("ml-100k", "ml-1m", "jester")
SEEDS = (0, 1, 2)


def lines(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of raw ids and ratings in the order of the file."""
    if name.startswith("ml-"):
        return movielens.ratings(name.removeprefix("ml-"))
    table = np.loadtxt(Path(os.environ["ACCAMS_DATA"]) / "jester5k.csv.gz", delimiter=",", skiprows=1)
    return table[:, :2].astype(np.int64), table[:, 2]


def observations(name: str) -> Observations:
    if name.startswith("ml-"):
        return datasets.movielens(name.removeprefix("ml-")).observations
    return datasets.jester().observations


def check_cells(obs: Observations, rows: np.ndarray, cols: np.ndarray, values: np.ndarray) -> None:
    """The file has the cells and values of the loader, in another order."""
    order = np.lexsort((cols, rows))
    assert np.array_equal(rows[order], np.repeat(np.arange(obs.shape[0]), np.diff(obs.row_starts)))
    assert np.array_equal(cols[order], obs.cols)
    assert np.array_equal(values[order], obs.values.astype(np.float32))


def check_splits(pairs: np.ndarray, rows: np.ndarray, cols: np.ndarray, obs: Observations) -> None:
    """The test cells of `libraries.py` are those of `movielens.py`, which cuts the lines of the file."""
    for seed in SEEDS:
        ours = pairs[permutation_test_positions(len(pairs), 0.1, seed)]
        rival = test_positions(len(rows), seed)
        cells = zip(obs.row_index.ids[rows[rival]], obs.col_index.ids[cols[rival]], strict=True)
        assert {(int(u), int(i)) for u, i in cells} == {(int(u), int(i)) for u, i in ours}


def export(name: str, folder: Path) -> None:
    pairs, y = lines(name)
    obs = observations(name)
    rows = obs.row_index.positions(pairs[:, 0]).astype(np.int32)
    cols = obs.col_index.positions(pairs[:, 1]).astype(np.int32)
    values = y.astype(np.float32)
    check_cells(obs, rows, cols, values)
    check_splits(pairs, rows, cols, obs)
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
