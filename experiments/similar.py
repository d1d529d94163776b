"""The films most similar to twenty well-known ones, by a model of MovieLens 1M, as a table for a person to judge.

Run: python experiments/similar.py [--model FILE] [--max-bytes N] [--by weighted|hamming]
     (FILE keeps the posterior between runs; N distils it first)
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "accuracy"))

from common import machine, table, use_local_data

import accams
from accams.data import datasets
from accams.data.titles import read_titles

FILMS = {
    260: "Star Wars IV", 858: "The Godfather", 1: "Toy Story", 2571: "The Matrix", 1214: "Alien",
    1198: "Raiders of the Lost Ark", 296: "Pulp Fiction", 364: "The Lion King", 1374: "Star Trek II",
    589: "Terminator 2", 1036: "Die Hard", 1982: "Halloween", 1219: "Psycho", 1230: "Annie Hall",
    1136: "Monty Python and the Holy Grail", 539: "Sleepless in Seattle", 2947: "Goldfinger",
    1347: "A Nightmare on Elm Street", 527: "Schindler's List", 586: "Home Alone",
}  # fmt: skip
SHOWN = 10


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
        model = accams.BayesianACCAMS().fit(datasets.movielens("1m").observations)
        if given.model is not None:
            model.save(given.model)
    if given.max_bytes is not None:
        model = model.compress(given.max_bytes, ids=False)
    archive = Path(os.environ["ACCAMS_DATA"]) / "ml-1m.zip" / "ml-1m" / "movies.dat"
    titles = read_titles(archive, model.col_index_)
    rows = [
        [name, "; ".join(short(titles[x]) for x, _ in model.similar(film, SHOWN, by=given.by))]
        for film, name in FILMS.items()
    ]
    print(table(["film", "most similar"], rows))
    print(machine())


def short(title: str) -> str:
    """Without the year, and with the article in front."""
    name = title.rsplit(" (", 1)[0]
    for article in ("The", "A", "An"):
        if name.endswith(f", {article}"):
            return f"{article} {name.removesuffix(f', {article}')}"
    return name


if __name__ == "__main__":
    main()
