"""Jester: continuous ratings of jokes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from accams.data.datasets._base import Dataset, Source, choose, member, read_bytes
from accams.data.ids import Index
from accams.data.observations import Observations

CITATION = (
    "K. Goldberg, T. Roeder, D. Gupta and C. Perkins. Eigentaste: A Constant Time Collaborative Filtering "
    "Algorithm. Information Retrieval 4 (2), 133-151, 2001."
)
LICENCE = "free for research use, with citation"
SOURCES = {  # no checksums are published
    "5k": Source(
        "jester5k.csv.gz",
        None,
        also=("jester5k.csv",),
        advice="The official archives (https://eigentaste.berkeley.edu/dataset/) hold Excel files, which "
        "accams does not read. Write Jester5k of the R package recommenderlab into this file, with the "
        "header user,joke,rating; or use jester('2'), which can be downloaded.",
    ),
    "2": Source(
        "jester_dataset_2.zip",
        "https://eigentaste.berkeley.edu/dataset/archive/jester_dataset_2.zip",
        also=("jester_dataset_2", "jester_ratings.dat"),
    ),
}


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
    """
    source = choose(SOURCES, name, "Jester data set").find(path)
    if name == "5k":
        observations = Observations.from_file(source, row="user", col="joke", value="rating")
    else:
        file = member(source, lambda inner: inner.endswith("jester_ratings.dat"), "jester_ratings.dat")
        observations = _ratings(read_bytes(file))
    return Dataset(f"jester-{name}", observations, None, CITATION, LICENCE)


def _ratings(content: bytes) -> Observations:
    """Parse lines of user, joke and rating, separated by two tabs."""
    table = np.loadtxt(io.BytesIO(content), ndmin=2)
    row_index, rows = Index.of(table[:, 0].astype(np.int64), "user")
    col_index, cols = Index.of(table[:, 1].astype(np.int64), "joke")
    return Observations.from_coo(rows, cols, table[:, 2], row_index=row_index, col_index=col_index)
