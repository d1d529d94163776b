"""Netflix Prize ratings, in the original files or in four combined ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accams.data import netflix as files
from accams.data.datasets._base import Dataset, Source
from accams.data.ids import Index
from accams.data.netflix import Ints, RatingsChunk
from accams.data.observations import Observations

CITATION = "J. Bennett and S. Lanning. The Netflix Prize. Proceedings of KDD Cup and Workshop, 2007."
LICENCE = "Netflix Prize rules: research use with citation; no redistribution and no commercial use"
SOURCE = Source(
    "nf_prize_dataset.tar.gz",
    None,
    also=("training_set.tar", "training_set", "netflix-prize-data.zip", "netflix-prize-data", "netflix"),
    advice="Netflix no longer offers it; participants may have the original files or the combined ones.",
)


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
    """
    titles = dict[int, str]()
    chunks = list(files.read_chunks(SOURCE.find(path), titles))
    return Dataset("netflix", _observations(chunks), titles or None, CITATION, LICENCE)


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
