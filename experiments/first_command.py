"""Lists from a file of `accams fit ratings.csv`, without any option: MovieLens with ten likes of each user left out.

The command is run as a user would run it, on a table without times; its model is then asked for a list for each user
whom it knows from its own history.

Run: python experiments/first_command.py [--set 100k|1m]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

import accams
from accams.data import datasets
from common import machine, table, use_local_data
from lists.ours import as_lists
from lists.protocols import LENGTH, Task, as_matrix, leave_ten_out
from lists.rivals import popularity


def write(task: Task, path: Path) -> None:
    """Write the training data as a table, with positions as ids."""
    rows, cols = task.ratings.nonzero()
    lines = np.column_stack([rows, cols, task.ratings.data])
    np.savetxt(path, lines, fmt="%d,%d,%g", header="userId,movieId,rating", comments="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="1m", choices=["100k", "1m"])
    given = parser.parse_args()
    use_local_data()
    task = leave_ten_out(as_matrix(datasets.movielens(given.set).observations))
    with TemporaryDirectory() as folder:
        data, path = Path(folder, "ratings.csv"), Path(folder, "model.accams")
        write(task, data)
        began = perf_counter()
        subprocess.run([sys.executable, "-m", "accams", "fit", str(data), "-o", str(path)], check=True)
        seconds, size, model = perf_counter() - began, path.stat().st_size, accams.load(path)
        assert task.users is not None
        found = as_lists(model.recommend(task.users.tolist(), LENGTH), task.users)
    task.check(found)
    known = popularity(task.ratings, "likes").lists(task.history, task.users)
    names = ("NDCG@10", "recall@10", "coverage")
    lines = [
        [name, *(f"{task.measure(lists)[x]:.4f}" for x in names), took, n_bytes]
        for name, lists, took, n_bytes in (
            ("accams fit", found, f"{seconds:.0f}", f"{size:,}"),
            ("popularity", known, "", ""),
        )
    ]
    print(table(["", *names, "seconds", "bytes of the file"], lines))
    print(machine())


if __name__ == "__main__":
    main()
