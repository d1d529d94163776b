"""Records: a list of results, as named tuples, by column or as a DataFrame of any library."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError, warn_deprecated

SHOWN = 10  # lines of a printed list
AVERAGE_ROW = "average row"  # the rule by which a row without training data is predicted
POPULAR = "popular items"  # the rule by which somebody without a history gets a list


class Recommendation(NamedTuple):
    """One item for one user.

    Attributes
    ----------
    user, item : ids
    rank : int
        From 1 on for each user.
    score : float
        What the list is ranked by: the prediction, on the scale of the training values; or, by choice, how strongly the
        user's history speaks for the item (about 1 for what is surely chosen, 0 for what has nothing to do with it).
    std : float or None
        Standard deviation of an observation, where asked for.
    rule : str
        "average row" where the user had no training data and is predicted as the average user; "popular items" where
        there is no history to rank by; else empty.
    prediction : float or None
        The predicted value beside a score by choice, in models that have both.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix).model_
    >>> best = model.recommend([0], n=2, exclude_seen=False)[0]
    >>> best.user, best.item, best.rank, round(best.score, 2)
    (0, 2, 1, 2.0)
    """

    user: Any
    item: Any
    rank: int
    score: float
    std: float | None
    rule: str
    prediction: float | None = None

    @property
    def row(self) -> Any:
        """Former name of `user`."""
        warn_deprecated("row", "user")
        return self.user

    @property
    def col(self) -> Any:
        """Former name of `item`."""
        warn_deprecated("col", "item")
        return self.item


class SimilarItem(NamedTuple):
    """An item like the one asked for, and how similar it is (1: the same, 0: as different as any two)."""

    item: Any
    score: float


class SimilarUser(NamedTuple):
    """A user like the one asked for, and how similar it is."""

    user: Any
    score: float


class ClusterTrait(NamedTuple):
    """A feature that the members of a cluster have more often than all.

    Attributes
    ----------
    cluster : int
        Label of the cluster in the stencil.
    size : int
        Its members with ratings.
    trait : str
        Name and value of the feature, such as "genres Comedy".
    share, everywhere : float
        How many of the members have it, and of all.
    """

    cluster: int
    size: int
    trait: str
    share: float
    everywhere: float


R = TypeVar("R", bound=tuple[Any, ...])


class Records(Sequence[R], Generic[R]):
    """A list of results: iterate over it for one named tuple per line, or take it by column.

    Parameters
    ----------
    record : class
        Named tuple of one line.
    columns : dict of arrays
        All lines by column, in the order of the record's fields; fields without a column are None.

    Examples
    --------
    >>> found = Records(SimilarItem, {"item": np.array(["Alien", "Heat"]), "score": np.array([0.75, 0.5])})
    >>> found
    item   score
    Alien  0.75
    Heat   0.5
    >>> found[0].item, found["score"].tolist()
    ('Alien', [0.75, 0.5])
    """

    def __init__(self, record: type[R], columns: dict[str, NDArray[Any]]) -> None:
        self._record, self._columns = record, columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __iter__(self) -> Iterator[R]:
        lines = zip(*(self._values(name) for name in self._fields), strict=True)
        return (self._record(*line) for line in lines)

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> "Records[R]": ...
    @overload
    def __getitem__(self, index: str) -> NDArray[Any]: ...
    def __getitem__(self, index: int | slice | str) -> "R | Records[R] | NDArray[Any]":
        """Return one line by its number, some lines by a slice, or a column by its name."""
        if isinstance(index, str):
            return self._columns[index]
        if isinstance(index, slice):
            return Records(self._record, {name: x[index] for name, x in self._columns.items()})
        place = range(len(self))[index]
        return next(iter(self[place : place + 1]))

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return all columns by name."""
        return dict(self._columns)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        return _library("pandas").DataFrame(self._plain())

    def to_polars(self) -> Any:
        """Return a polars DataFrame."""
        return _library("polars").DataFrame(self._plain())

    def to_arrow(self) -> Any:
        """Return a pyarrow Table."""
        return _library("pyarrow").table(self._plain())

    def __repr__(self) -> str:
        names, lines = self._shown()
        widths = [max(map(len, column)) for column in zip(names, *lines, strict=True)]
        text = ["  ".join(x.ljust(w) for x, w in zip(line, widths, strict=True)).rstrip() for line in [names, *lines]]
        return "\n".join([*text, *self._rest()]) if len(self) else "no results"

    def _repr_html_(self) -> str:
        names, lines = self._shown()
        head = "".join(f"<th>{escape(x)}</th>" for x in names)
        body = "".join("<tr>" + "".join(f"<td>{escape(x)}</td>" for x in line) + "</tr>" for line in lines)
        rest = "".join(f"<p>{escape(x)}</p>" for x in self._rest())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    @property
    def _fields(self) -> tuple[str, ...]:
        return self._record._fields  # type: ignore[attr-defined, no-any-return]

    def _values(self, name: str) -> list[Any]:
        return [None] * len(self) if name not in self._columns else self._columns[name].tolist()

    def _plain(self) -> dict[str, Any]:
        """Return columns for any library: arrays of objects become lists."""
        return {name: x.tolist() if x.dtype.kind == "O" else x for name, x in self._columns.items()}

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        names = [name for name, x in self._columns.items() if x.dtype.kind != "O" or any(x[:SHOWN] != "")]
        lines = zip(*(self._columns[name][:SHOWN].tolist() for name in names), strict=True)
        return names, [[f"{x:.4g}" if isinstance(x, float) else str(x) for x in line] for line in lines]

    def _rest(self) -> list[str]:
        return [f"... {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []


def _library(name: str) -> Any:
    """Import a DataFrame library that the user has asked for."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed: pip install {name}") from None


def merged(parts: Sequence[Records[Recommendation]], users: NDArray[Any]) -> Records[Recommendation]:
    """Return the lists of several answers, some by choice and some by value, as one in the order of the users."""
    if len(parts) == 1:
        return parts[0]
    answers = [part.to_dict() for part in parts]
    for each in answers:
        each.setdefault("prediction", each["score"])
    place = {user: p for p, user in reversed(list(enumerate(users.tolist())))}
    order = np.argsort([place[user] for each in answers for user in each["user"].tolist()], kind="stable")
    names = [name for name in answers[0] if all(name in each for each in answers)]
    columns = {name: np.concatenate([each[name] for each in answers])[order] for name in names}
    return Records(Recommendation, columns)


def recommendations(
    users: NDArray[Any], items: NDArray[Any], ranks: NDArray[np.int64], scores: NDArray[np.float64],
    std: NDArray[np.float64] | None, rules: NDArray[Any], predictions: NDArray[np.float64] | None = None,
) -> Records[Recommendation]:  # fmt: skip
    columns: dict[str, NDArray[Any] | None]
    columns = {"user": users, "item": items, "rank": ranks, "score": scores, "std": std, "rule": rules}
    columns["prediction"] = predictions
    return Records(Recommendation, {name: x for name, x in columns.items() if x is not None})
