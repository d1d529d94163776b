"""The best columns for each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.use.scoring import Catalogue, Floats, Positions, Seen
from accams.use.view import View

AVERAGE_ROW = "average row"  # what a row without training data is predicted as


class Recommendation(NamedTuple):
    """One column for one row."""

    row: Any
    col: Any
    rank: int
    score: float
    std: float | None
    rule: str


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations:
    """The best columns for some rows, line by line: the first row's, best first, then the second's.

    Attributes
    ----------
    rows, cols : arrays
        Raw ids.
    ranks : array
        From 1 on for each row.
    scores : array
        Predictions, on the scale of the training values.
    std : array or None
        Standard deviation of an observation there.
    rules : array of str
        "average row" where the row had no training data and is predicted as the average one; else empty.
    """

    rows: NDArray[Any]
    cols: NDArray[Any]
    ranks: NDArray[np.int64]
    scores: Floats
    std: Floats | None
    rules: NDArray[Any]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Recommendation]:
        std = [None] * len(self) if self.std is None else self.std.tolist()
        numbers = self.ranks.tolist(), self.scores.tolist(), std
        return map(Recommendation, self.rows.tolist(), self.cols.tolist(), *numbers, self.rules.tolist())

    def columns(self, row: str = "row", col: str = "col") -> dict[str, NDArray[Any]]:
        """All of it by name, as a table has it."""
        found = {row: self.rows, col: self.cols, "rank": self.ranks, "score": self.scores}
        return found | ({} if self.std is None else {"std": self.std}) | {"rule": self.rules}

    def __repr__(self) -> str:
        lines = [f"{row!r}: {rank:3}. {col!r} {score:.3f}" for row, col, rank, score, _, _ in list(self)[:10]]
        more = [f"... {len(self) - 10:,} more"] if len(self) > 10 else []
        return "\n".join(lines + more) or "no recommendations"


def recommend(
    view: View, rows: Positions, names: NDArray[Any], n: int, seen: tuple[Seen, Positions] | None,
    candidates: Positions | None, return_std: bool, quantile: float | None,
) -> Recommendations:  # fmt: skip
    """The best `n` columns for each of these rows (-1: the average one, called as in `names`).

    `seen` is what is not to be recommended, and which of its rows are these.
    """
    lower = view.check_order(return_std, quantile)
    catalogue = view.catalogue if candidates is None else Catalogue.of(view.sums, candidates)
    noise = view.row_noise(rows) if lower else None
    left_out = catalogue.places_of(rows, None) if seen is None else catalogue.places_of(seen[1], seen[0])
    which, ranks, j = chosen(catalogue.best(rows, n, left_out, noise, lower))
    i = rows[which]
    mean, variance = view.moments(i, j)
    average = np.isin(i, np.append(view.stencils.unseen_rows, -1))
    rules = np.where(average, AVERAGE_ROW, "").astype(object)
    std = np.sqrt(variance) if return_std else None
    return Recommendations(names[which], view.cols.ids[j], ranks, view.clipped(mean), std, rules)


def chosen(best: Positions) -> tuple[Positions, Positions, Positions]:
    """Which row, which rank and which column each line of an answer has."""
    which, place = np.nonzero(best >= 0)
    return which, place + 1, best[which, place]
