"""Features of the users and films of MovieLens 100K and 1M: genres and year; age, sex and occupation."""

from __future__ import annotations

import io
import os
import re
import zipfile
from pathlib import Path

import pandas as pd


def movielens_features(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of users and of films, with the ids in the columns `user` and `item`."""
    with zipfile.ZipFile(Path(os.environ["ACCAMS_DATA"]) / f"ml-{name}.zip") as archive:

        def lines(file: str, separator: str) -> list[list[str]]:
            text = archive.read(f"ml-{name}/{file}").decode("latin-1")
            return [line.split(separator) for line in io.StringIO(text).read().split("\n") if line.strip()]

        if name == "100k":
            genres = [line[0] for line in lines("u.genre", "|")]
            users = [[int(x[0]), int(x[1]), x[2], x[3]] for x in lines("u.user", "|")]
            films = [
                [
                    int(x[0]),
                    _year(x[2]),
                    "|".join(g for g, flag in zip(genres, x[5:], strict=True) if flag.strip() == "1"),
                ]
                for x in lines("u.item", "|")
            ]
        else:
            users = [[int(x[0]), int(x[2]), x[1], x[3]] for x in lines("users.dat", "::")]
            films = [[int(x[0]), _year(x[1]), x[2].strip()] for x in lines("movies.dat", "::")]
    return (
        pd.DataFrame(users, columns=["user", "age", "sex", "occupation"]),
        pd.DataFrame(films, columns=["item", "year", "genres"]),
    )


def _year(text: str) -> float:
    found = re.findall(r"(19\d\d|20\d\d)", text)
    return float(found[-1]) if found else float("nan")
