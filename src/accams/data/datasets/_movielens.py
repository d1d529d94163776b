"""MovieLens: film ratings, collected by GroupLens at the University of Minnesota."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from accams.data.datasets._base import Dataset, Source, choose, member, read_bytes
from accams.data.observations import Observations

BASE_URL = "https://files.grouplens.org/datasets/movielens/"
CITATION = (
    "F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM Transactions on "
    "Interactive Intelligent Systems 5 (4), article 19, 2015. https://doi.org/10.1145/2827872"
)
LICENCE = "GroupLens terms: research use with citation; no redistribution and no commercial use without permission"


@dataclass(frozen=True)
class Edition:
    """Checksum, file names, and encoding of the titles."""

    md5: str | None
    ratings: str
    titles: str
    encoding: str = "utf-8"
    folder: str | None = None


EDITIONS = {
    "100k": Edition("0e33842e24a9c977be4e0107933c0723", "u.data", "u.item", "latin-1"),
    "1m": Edition("c4d9eecfca2ab87c1945afe126590906", "ratings.dat", "movies.dat", "latin-1"),
    "10m": Edition("ce571fd55effeba0271552578f2648bd", "ratings.dat", "movies.dat", folder="ml-10M100K"),
    "20m": Edition("cd245b17a1ae2cc31bb14903e1204af3", "ratings.csv", "movies.csv"),
    "25m": Edition("6b51fb2759a8657d3bfcbfc42b592ada", "ratings.csv", "movies.csv"),
    "32m": Edition("d472be332d4daa821edc399621853b57", "ratings.csv", "movies.csv"),
    "latest-small": Edition(None, "ratings.csv", "movies.csv"),  # regenerated from time to time: no fixed checksum
}


def movielens(name: str = "100k", path: str | Path | None = None) -> Dataset:
    """Load film ratings with times and titles.

    Parameters
    ----------
    name : {"100k", "1m", "10m", "20m", "25m", "32m", "latest-small"}
    path : str or Path, optional
        The archive (``ml-100k.zip``, ...), its unpacked folder, or a folder with either. By default it is
        searched for in ``$ACCAMS_DATA`` and then downloaded.

    Returns
    -------
    Dataset
        Rows are users, columns are the rated films, times are seconds since 1970; ``titles`` covers all films
        of the edition, rated or not.

    Examples
    --------
    >>> movielens("100k").observations.shape  # doctest: +SKIP
    (943, 1682)
    """
    edition = choose(EDITIONS, name, "MovieLens edition")
    file = f"ml-{name}.zip"
    folders = (f"ml-{name}", *((edition.folder,) if edition.folder else ()))
    source = Source(file, BASE_URL + file, edition.md5, folders).find(path)
    ratings = member(source, lambda inner: _name(inner) == edition.ratings, edition.ratings)
    observations = Observations.from_file(ratings)
    titles = None
    if ratings != source:  # else the path is that of the ratings alone
        films = member(source, lambda inner: _name(inner) == edition.titles, edition.titles)
        titles = _titles(read_bytes(films).decode(edition.encoding), edition.titles)
    return Dataset(f"ml-{name}", observations, titles, CITATION, LICENCE)


def _titles(text: str, file: str) -> dict[int, str]:
    if file.endswith(".csv"):
        return {int(line["movieId"]): line["title"] for line in csv.DictReader(io.StringIO(text))}
    separator = "|" if file == "u.item" else "::"
    lines = (line.split(separator) for line in text.split("\n") if line.strip())  # titles may hold a U+0085
    return {int(fields[0]): fields[1] for fields in lines}


def _name(inner: str) -> str:
    return inner.rsplit("/", 1)[-1]
