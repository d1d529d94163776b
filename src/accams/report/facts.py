"""Gather what a report shows from a model, as plain values: figures and the page only draw them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.model.codes import Codes
from accams.model.interactions import Interactions
from accams.model.posterior import Mixing, Posterior
from accams.model.size import factor_bits
from accams.model.stencils import StencilSum
from accams.use.diagnostics import Diagnostics
from accams.use.evaluation import ActivityGroup, Evaluation
from accams.use.explain import Members
from accams.use.hierarchy import Node, centred_lines, merged, telling

Floats = NDArray[np.float64]
Name = Callable[[Any], str]
SHOWN_STENCILS = 4
ROW_GROUPS, COL_GROUPS = 6, 8  # of labels that are alike, in a picture of a stencil
NAMED = 3  # members of a block
ASKED = 8  # columns whose most similar ones are shown
SIMILAR = 5
POPULAR = 0.25  # share of the columns that are worth naming as similar ones
RANKS = (10, 50)  # of factorisations whose size is shown beside


@dataclass(frozen=True)
class Picture:
    """A stencil as a small table: labels that are alike have been put together.

    Attributes
    ----------
    stencil : int
    table : array (row group, column group)
        What the stencil adds there.
    row_sizes, col_sizes : tuple of int
    names : tuple of tuples of str
        The most active columns of each group.
    """

    stencil: int
    table: Floats
    row_sizes: tuple[int, ...]
    col_sizes: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Weight:
    """So many bytes, of what; `ours` tells our models from what stands beside them."""

    what: str
    bytes: float
    ours: bool


@dataclass(frozen=True)
class Facts:
    """All that a report is made of.

    Attributes
    ----------
    kind : str
        The model's class.
    blanks : bool
        Whether blanks were observed zeros.
    sides : (str, str)
        What rows and columns are called.
    n_observed : int or None
    explained_by : int or None
        Stencils of the small model that explains one of many draws.
    tree : Node
    name : function
        What an id is called.
    """

    kind: str
    blanks: bool
    shape: tuple[int, int]
    sides: tuple[str, str]
    n_observed: int | None
    n_stencils: int
    n_draws: int | None
    explained_by: int | None
    train_rmse: float | None
    tree: Node
    pictures: tuple[Picture, ...]
    similar: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
    weights: tuple[Weight, ...]
    evaluation: Evaluation | None
    course: Diagnostics | None
    mixing: tuple[Mixing, ...]
    name: Name


class Explained(Protocol):
    """The model of a single sum that explains another one."""

    @property
    def stencils(self) -> StencilSum: ...
    @property
    def members(self) -> Members: ...


class Reported(Protocol):
    """What a report asks of a model (`accams.Model` is one)."""

    @property
    def stencils(self) -> StencilSum: ...
    @property
    def posterior(self) -> Posterior | None: ...
    @property
    def explainer(self) -> Explained: ...
    @property
    def items(self) -> NDArray[Any]: ...
    @property
    def interactions(self) -> Interactions | None: ...
    @property
    def zero_weight(self) -> float | None: ...
    @property
    def evaluation(self) -> Evaluation | None: ...
    @property
    def fit_history(self) -> Sequence[Any]: ...
    @property
    def info(self) -> Any: ...
    @property
    def file_size(self) -> int: ...
    def diagnostics(self) -> Diagnostics: ...
    def hierarchy(self, *, candidates: Any = None) -> Node: ...
    def similar(self, which: Any, n: int = 10, *, candidates: Any = None) -> Iterable[Any]: ...


def gather(
    model: Reported, titles: Mapping[Any, str] | None = None, evaluation: Evaluation | None = None,
    size: int | None = None,
) -> Facts:  # fmt: skip
    """Gather the facts of a fitted model.

    Parameters
    ----------
    model : Model or fitted estimator
    titles : mapping, optional
        Names of item ids.
    evaluation : Evaluation, optional
        By default, the model's own.
    size : int, optional
        Bytes of its file; by default, of the file that it would write.

    Returns
    -------
    Facts
    """
    model = getattr(model, "model_", model)
    if not len(model.stencils):
        raise InputError("this model has no stencils: there is nothing to report")
    called = {x: plain(name) for x, name in (titles or {}).items() if isinstance(name, str) and name}

    def name(x: Any) -> str:
        return called.get(x, plain(str(x)))

    explainer, posterior, names = model.explainer, model.posterior, model.info.names
    codes, weights, ids = explainer.stencils.codes, explainer.members.weights[1], model.items
    stencils = telling(codes, 1)[:SHOWN_STENCILS].tolist()
    course = model.diagnostics() if model.fit_history else None
    return Facts(
        kind=model.info.estimator or "StencilSum",
        blanks=model.zero_weight is not None,
        shape=model.stencils.shape,
        sides=("users", "items") if names is None else (_plural(names[0]), _plural(names[1])),
        n_observed=None if model.interactions is None else len(model.interactions),
        n_stencils=len(model.stencils),
        n_draws=None if posterior is None else len(posterior),
        explained_by=None if posterior is None else len(explainer.stencils),
        train_rmse=model.info.training.get("train_rmse_"),
        tree=model.hierarchy(candidates=_worth_naming(weights, ids)),
        pictures=tuple(_picture(codes, s, ids, weights, name) for s in stencils),
        similar=_similar(model, ids, weights, name),
        weights=_weights(model, None if posterior is None else explainer.stencils, size),
        evaluation=evaluation or model.evaluation,
        course=course,
        mixing=() if posterior is None or not posterior.traces else _mixing(course),
        name=name,
    )


def plain(text: str) -> str:
    """Text that can be written to any file: what is half a character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def _plural(name: Any) -> str:
    """What several of them are called: user_id is of users."""
    short = str(name).removesuffix("_id").removesuffix("Id") or str(name)
    return short if short.endswith("s") else f"{short}s"


def _worth_naming(weights: Floats, ids: NDArray[Any]) -> list[Any]:
    """The ids that are more active than most; all of them where there are few."""
    few = max(100, round(POPULAR * len(ids)))
    return ids[np.sort(np.argsort(-weights, kind="stable")[:few])].tolist()  # type: ignore[no-any-return]


def _picture(codes: Codes, s: int, ids: NDArray[Any], weights: Floats, name: Name) -> Picture:
    template = np.asarray(codes.template(s)[:-1, :-1], np.float64)
    labels = codes.rows[:-1, s], codes.cols[:-1, s]
    groups = [_ordered(codes, s, side, most) for side, most in ((0, ROW_GROUPS), (1, COL_GROUPS))]
    shares = [np.bincount(x, minlength=k + 1)[:k].astype(float) for x, k in zip(labels, template.shape, strict=True)]
    table = np.array(
        [[_mean(template[np.ix_(a, b)], shares[0][a], shares[1][b]) for b in groups[1]] for a in groups[0]]
    )
    inside = [[np.flatnonzero(np.isin(labels[side], group)) for group in groups[side]] for side in (0, 1)]
    sizes = [tuple(len(x) for x in inside[side]) for side in (0, 1)]
    members = tuple(tuple(map(name, ids[_first(x, weights)].tolist())) for x in inside[1])
    return Picture(s, table, sizes[0], sizes[1], members)


def _ordered(codes: Codes, s: int, side: int, most: int) -> list[list[int]]:
    """Labels of a stencil in groups that are alike, in the order in which they differ most."""
    lines, own, across = centred_lines(codes, s, side)
    groups = merged(lines, own, across, most)
    means = np.array([own[group] @ lines[group] / own[group].sum() for group in groups]) * np.sqrt(across)
    main = np.linalg.svd(means, full_matrices=False)[2][0]
    return [groups[p] for p in np.argsort(means @ main, kind="stable")]


def _mean(block: Floats, rows: Floats, cols: Floats) -> float:
    return float(rows @ block @ cols / (rows.sum() * cols.sum()))


def _first(inside: NDArray[np.int64], weights: Floats) -> NDArray[np.int64]:
    return inside[np.argsort(-weights[inside], kind="stable")[:NAMED]]


def _similar(
    model: Reported, ids: NDArray[Any], weights: Floats, name: Name
) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...]:
    """The most active columns, each with those that are most like it among the more active ones."""
    among = _worth_naming(weights, ids)
    asked: list[Any] = ids[np.argsort(-weights, kind="stable")[:ASKED]].tolist()
    found = []
    for x in asked:
        alike = model.similar(x, min(SIMILAR, len(ids)), candidates=among)
        found.append((name(x), tuple((name(y), score) for y, score in alike)))
    return tuple(found)


def _weights(model: Reported, small: StencilSum | None, size: int | None) -> tuple[Weight, ...]:
    """Bytes of the model and of what one would keep in its place."""
    shape, seen = model.stencils.shape, model.interactions
    found = [Weight("this model", float(model.file_size if size is None else size), True)]
    if small is not None:
        found.append(Weight("distilled to explain it", float(small.size.bytes), True))
    for rank in RANKS:
        if rank < min(shape):
            found.append(Weight(f"SVD of rank {rank}, 32 bits", factor_bits(shape, rank) / 8, False))
    if seen is not None:
        found.append(Weight("the observations, 12 bytes each", 12.0 * len(seen), False))
    found.append(Weight("the whole matrix, 32 bits", 4.0 * shape[0] * shape[1], False))
    return tuple(found)


def _mixing(course: Diagnostics | None) -> tuple[Mixing, ...]:
    """How the chains agree, where ArviZ is there to tell."""
    try:
        return () if course is None else tuple(course.mixing())
    except InputError:
        return ()


def later_gains(course: Diagnostics) -> Floats:
    """What each stencil takes off the mean squared error, on average over the later half of the sweeps."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stencil that was never visited
        return np.asarray(np.nanmean(course.gain[len(course.gain) // 2 :], axis=0))


def group_name(group: ActivityGroup) -> str:
    """How many observations those of a group had at least, in few letters.

    Examples
    --------
    >>> [group_name(ActivityGroup(low, 2 * low + 1, 9, 1.0)) for low in (0, 31, 2047)]
    ['0', '31+', '2k+']
    """
    return f"{group.low / 1000:.0f}k+" if group.low >= 1000 else f"{group.low:.0f}+" if group.low else "0"


def largest_of(values: Floats) -> float:
    """The largest number that is one, for the end of a scale; 1 if there is none above 0."""
    there = values[np.isfinite(values)]
    return float(there.max()) if there.size and there.max() > 1e-9 else 1.0


def significant(largest: float) -> str:
    """The format in which numbers up to this one are written, in few characters.

    Examples
    --------
    >>> significant(1.5), significant(0.0003), significant(2e9)
    ('.2f', '.1e', '.1e')
    """
    return ".2f" if 0.05 <= largest < 1000.0 else ".1e"
