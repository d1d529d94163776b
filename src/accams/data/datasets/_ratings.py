"""Ratings: Jester (jokes), MovieLens and the Netflix Prize (films)."""

import csv
import io
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from accams.data import netflix as files
from accams.data.archives import clear_errors
from accams.data.datasets._base import Dataset, Source, choose, member, read_bytes
from accams.data.ids import Index
from accams.data.netflix import Ints, RatingsChunk
from accams.data.observations import Observations

JESTER_CITATION = (
    "K. Goldberg, T. Roeder, D. Gupta and C. Perkins. Eigentaste: A Constant Time Collaborative Filtering "
    "Algorithm. Information Retrieval 4 (2), 133-151, 2001."
)
JESTER_LICENCE = "free for research use, with citation"
JESTER = {  # no checksums are published
    "5k": Source(
        "jester5k.csv.gz", None, also=("jester5k.csv",),
        advice="The official archives (https://eigentaste.berkeley.edu/dataset/) hold Excel files, which "
        "accams does not read. Write Jester5k of the R package recommenderlab into this file, with the "
        "header user,joke,rating; or use jester('2'), which can be downloaded.",
    ),
    "2": Source(
        "jester_dataset_2.zip", "https://eigentaste.berkeley.edu/dataset/archive/jester_dataset_2.zip",
        also=("jester_dataset_2", "jester_ratings.dat"),
    ),
}  # fmt: skip


def jester(name: str = "5k", path: str | Path | None = None) -> Dataset:
    """Load ratings of jokes between -10 and 10.

    Parameters
    ----------
    name : {"5k", "2"}
        "5k" is a sample of 5,000 users and 100 jokes (363,209 ratings) from the R package recommenderlab; it is not
        downloaded. "2" is the official second data set (1.7 million ratings of 150 jokes).
    path : str or Path, optional
        ``jester5k.csv.gz``, or ``jester_dataset_2.zip`` or the ``jester_ratings.dat`` inside. By default it
        is searched for in ``$ACCAMS_DATA``, and "2" is then downloaded.

    Returns
    -------
    Dataset
        Rows are users, columns are jokes.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:  # with two ratings
    ...     path = Path(folder, "jester5k.csv")
    ...     _ = path.write_text("user,joke,rating\\nu1,j1,-7.5\\nu1,j2,3\\n")
    ...     jester("5k", path).observations.values.tolist()
    [-7.5, 3.0]
    >>> jester("5k").observations.nnz  # doctest: +SKIP
    363209
    """
    source = choose(JESTER, name, "Jester data set").find(path)
    if name == "5k":
        observations = Observations.from_file(source, row="user", col="joke", value="rating")
    else:
        file = member(source, lambda inner: inner.endswith("jester_ratings.dat"), "jester_ratings.dat")
        with clear_errors(str(file), PARSING):
            observations = _jokes(read_bytes(file))
    return Dataset(f"jester-{name}", observations, None, JESTER_CITATION, JESTER_LICENCE)


def _jokes(content: bytes) -> Observations:
    """Parse lines of user, joke and rating, separated by two tabs."""
    table = np.loadtxt(io.BytesIO(content), ndmin=2)
    row_index, rows = Index.of(table[:, 0].astype(np.int64), "user")
    col_index, cols = Index.of(table[:, 1].astype(np.int64), "joke")
    return Observations.from_coo(rows, cols, table[:, 2], row_index=row_index, col_index=col_index)


PARSING = (ValueError, LookupError, TypeError, csv.Error)  # of lines that are not what they should be
BASE_URL = "https://files.grouplens.org/datasets/movielens/"
MOVIELENS_CITATION = (
    "F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM Transactions on "
    "Interactive Intelligent Systems 5 (4), article 19, 2015. https://doi.org/10.1145/2827872"
)
MOVIELENS_LICENCE = (
    "GroupLens terms: research use with citation; no redistribution and no commercial use without permission"
)


class Edition(NamedTuple):
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
    ratings = member(source, lambda inner: PurePosixPath(inner).name == edition.ratings, edition.ratings)
    observations = Observations.from_file(ratings)
    titles = None
    if ratings != source:  # else the path is that of the ratings alone
        films = member(source, lambda inner: PurePosixPath(inner).name == edition.titles, edition.titles)
        with clear_errors(str(films), PARSING):
            titles = _titles(read_bytes(films).decode(edition.encoding), edition.titles)
    return Dataset(f"ml-{name}", observations, titles, MOVIELENS_CITATION, MOVIELENS_LICENCE)


def _titles(text: str, file: str) -> dict[int, str]:
    if file.endswith(".csv"):
        return {int(line["movieId"]): line["title"] for line in csv.DictReader(io.StringIO(text))}
    separator = "|" if file == "u.item" else "::"
    lines = (line.split(separator) for line in text.split("\n") if line.strip())  # titles may hold a U+0085
    return {int(fields[0]): fields[1] for fields in lines}


NETFLIX_CITATION = "J. Bennett and S. Lanning. The Netflix Prize. Proceedings of KDD Cup and Workshop, 2007."
NETFLIX_LICENCE = "Netflix Prize rules: research use with citation; no redistribution and no commercial use"
NETFLIX = Source(
    "nf_prize_dataset.tar.gz", None,
    also=("training_set.tar", "training_set", "netflix-prize-data.zip", "netflix-prize-data", "netflix"),
    advice="Netflix no longer offers it; participants may have the original files or the combined ones.",
)  # fmt: skip


def netflix(path: str | Path | None = None) -> Dataset:
    """Load the 100,480,507 ratings of the Netflix Prize (480,189 users, 17,770 films), with dates and titles.

    Parameters
    ----------
    path : str or Path, optional
        Folder or archive (.tar, .tar.gz, .zip) with ``training_set/mv_0000001.txt`` and so on,
        ``training_set.tar``, or ``combined_data_1.txt`` and so on; and, for titles, ``movie_titles.txt`` or
        ``.csv``. By default it is searched for in ``$ACCAMS_DATA``.

    Returns
    -------
    Dataset
        Rows are users, columns are films, times are seconds since 1970 (of the day of the rating).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:  # with two ratings of film 8
    ...     _ = Path(folder, "combined_data_1.txt").write_text("8:\\n1488844,3,2005-09-06\\n822109,5,2005-05-13\\n")
    ...     netflix(folder).observations.values.tolist()
    [5.0, 3.0]
    >>> netflix().observations.shape  # doctest: +SKIP
    (480189, 17770)
    """
    titles = dict[int, str]()
    chunks = list(files.read_chunks(NETFLIX.find(path), titles))
    return Dataset("netflix", _observations(chunks), titles or None, NETFLIX_CITATION, NETFLIX_LICENCE)


def _observations(chunks: list[RatingsChunk]) -> Observations:
    row_index, rows = _ranked(np.concatenate([chunk.users for chunk in chunks]))
    col_index, cols = _ranked(np.concatenate([chunk.films for chunk in chunks]))
    ratings = np.concatenate([chunk.ratings for chunk in chunks])
    times = np.concatenate([chunk.times for chunk in chunks])
    chunks.clear()  # a few gigabytes
    return Observations.from_coo(rows, cols, ratings, times=times, row_index=row_index, col_index=col_index)


def _ranked(raw: Ints) -> tuple[Index, Ints]:
    """Return the index of the distinct ids and the position of each entry, in 32 bits, unlike `Index.of`."""
    present = np.zeros(int(raw.max()) + 1, dtype=bool)
    present[raw] = True
    place = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return Index(np.flatnonzero(present)), place[raw]
