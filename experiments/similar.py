"""The films most similar to twenty well-known ones, and the tree of films, for a person to judge.

By `BayesianACCAMS()` on the training part of MovieLens 1M, seed 0, as in `compression.py`.

Run: python experiments/similar.py [--model FILE] [--max-bytes N] [--by weighted|hamming]
     (FILE keeps the posterior between runs; N distils it first, and then there is no tree)
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "accuracy"))

import numpy as np

import accams
from accams.data.splits import permutation_test_positions
from accams.data.titles import read_titles
from common import machine, table, use_local_data
from export import lines
from paper.hierarchy import short

FILMS = {
    260: "Star Wars IV", 858: "The Godfather", 1: "Toy Story", 2571: "The Matrix", 1214: "Alien",
    1198: "Raiders of the Lost Ark", 296: "Pulp Fiction", 364: "The Lion King", 1374: "Star Trek II",
    589: "Terminator 2", 1036: "Die Hard", 1982: "Halloween", 1219: "Psycho", 1230: "Annie Hall",
    1136: "Monty Python and the Holy Grail", 539: "Sleepless in Seattle", 2947: "Goldfinger",
    1347: "A Nightmare on Elm Street", 527: "Schindler's List", 586: "Home Alone",
}  # fmt: skip
SHOWN = 10
ACTIVE, NAMED = 64, 5  # ratings of a film in the tree, about; films that name a branch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--max-bytes", type=int)
    parser.add_argument("--by", default="weighted")
    given = parser.parse_args()
    use_local_data()
    if given.model is not None and given.model.is_file():
        model = accams.load(given.model)
    else:
        pairs, y = lines("ml-1m")
        train = np.setdiff1d(np.arange(len(y)), permutation_test_positions(len(y), 0.1, 0))
        model = accams.BayesianACCAMS().fit(pairs[train], y[train]).model_
        if given.model is not None:
            model.save(given.model)
    if given.max_bytes is not None:
        model = model.compress(given.max_bytes, ids=False)
    archive = Path(os.environ["ACCAMS_DATA"]) / "ml-1m.zip" / "ml-1m" / "movies.dat"
    titles = read_titles(archive, model.col_index)
    rows = [
        [name, "; ".join(short(titles[x]) for x, _ in model.similar(film, SHOWN, by=given.by))]
        for film, name in FILMS.items()
    ]
    print(table(["film", "most similar"], rows))
    if given.max_bytes is None:
        active = model.col_index.ids[model.activity[1] >= ACTIVE].tolist()
        for depth, node in model.hierarchy(3, candidates=active).walk():
            print(f"{'    ' * depth}{node.size:,}: {', '.join(short(titles[x]) for x in node.members[:NAMED])}")
    print(machine())


if __name__ == "__main__":
    main()
