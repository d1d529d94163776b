"""The Netflix Prize ratings, in the original files or in the four combined ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accams.data import netflix as files
from accams.data.datasets._base import Dataset, Source
from accams.data.ids import Index
from accams.data.netflix import Ints, Lines
from accams.data.observations import Observations

CITATION = "J. Bennett and S. Lanning. The Netflix Prize. Proceedings of KDD Cup and Workshop, 2007."
LICENCE = "Netflix Prize rules: research use with citation; no redistribution and no commercial use"
SOURCE = Source(
    "nf_prize_dataset.tar.gz",
    None,
    also=("training_set.tar", "training_set", "netflix-prize-data.zip", "netflix-prize-data", "netflix"),
    advice="Netflix no longer offers it; who took part may have it, in the original files or combined ones.",
)


def netflix(path: str | Path | None = None) -> Dataset:
    """The 100,480,507 ratings of the Netflix Prize (480,189 users, 17,770 films), with dates and titles.

    Parameters
    ----------
    path : str or Path, optional
        The folder or the archive (.tar, .tar.gz, .zip) with ``training_set/mv_0000001.txt`` and so on, with
        ``training_set.tar``, or with ``combined_data_1.txt`` and so on; and with ``movie_titles.txt`` or
        ``.csv`` if there are to be titles. By default it is looked for in ``$ACCAMS_DATA``.

    Returns
    -------
    Dataset
        Rows are users, columns are films, times are seconds since 1970 (of the day of the rating).
    """
    found = SOURCE.find(path)
    titles = dict[int, str]()
    parts = list(files.lines_of(found, titles))
    return Dataset("netflix", _observations(parts), titles or None, CITATION, LICENCE)


def _observations(parts: list[Lines]) -> Observations:
    row_index, rows = _ranked(np.concatenate([part.users for part in parts]))
    col_index, cols = _ranked(np.concatenate([part.films for part in parts]))
    ratings = np.concatenate([part.ratings for part in parts])
    times = np.concatenate([part.times for part in parts])
    parts.clear()  # a few gigabytes
    return Observations.from_coo(rows, cols, ratings, times=times, row_index=row_index, col_index=col_index)


def _ranked(raw: Ints) -> tuple[Index, Ints]:
    """The ids that come up, and the place of each entry's id among them (narrower than `Index.of`)."""
    present = np.zeros(int(raw.max()) + 1, dtype=bool)
    present[raw] = True
    place = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return Index(np.flatnonzero(present)), place[raw]
