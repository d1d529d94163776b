"""What a report tells, gathered from a model as plain values: figures and the page only draw it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.estimators.base import StencilEstimator
from accams.estimators.diagnostics import Diagnostics
from accams.estimators.files import to_bytes
from accams.estimators.quality import Group, Quality
from accams.estimators.using import view_of
from accams.model import file
from accams.model.codes import Codes
from accams.model.posterior import Mixing
from accams.model.size import factor_bits
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
    quality: Quality | None
    course: Diagnostics | None
    mixing: tuple[Mixing, ...]
    name: Name


def gather(
    model: StencilEstimator, titles: dict[Any, str] | None = None, quality: Quality | None = None,
    size: int | None = None,
) -> Facts:  # fmt: skip
    """The facts of a fitted model; `size` is that of its file, where it has one."""
    model._check_is_fitted()
    if not len(model.stencils_):
        raise InputError("this model has no stencils: there is nothing to report")
    called = {x: plain(name) for x, name in (titles or {}).items() if isinstance(name, str) and name}

    def name(x: Any) -> str:
        return called.get(x, plain(str(x)))

    view = view_of(model)
    explainer = view.explainer
    codes, weights, ids = explainer.stencils.codes, explainer.members.weights[1], view.cols.ids
    stencils = telling(codes, 1)[:SHOWN_STENCILS].tolist()
    course = model.diagnostics() if getattr(model, "history_", None) else None
    fields = getattr(model, "feature_names_in_", None)
    seen = getattr(model, "seen_", None)
    posterior = view.posterior
    return Facts(
        kind=type(model).__name__,
        blanks=getattr(model, "zero_weight_", None) is not None,
        shape=model.stencils_.shape,
        sides=("users", "items") if fields is None else (_plural(fields[0]), _plural(fields[1])),
        n_observed=None if seen is None else len(seen.columns),
        n_stencils=len(model.stencils_),
        n_draws=None if posterior is None else len(posterior),
        explained_by=None if posterior is None else len(explainer.stencils),
        train_rmse=getattr(model, "train_rmse_", None),
        tree=model.hierarchy(candidates=_worth_naming(weights, ids)),
        pictures=tuple(_picture(codes, s, ids, weights, name) for s in stencils),
        similar=_similar(model, ids, weights, name),
        weights=_weights(model, None if posterior is None else explainer.stencils, size),
        quality=quality or getattr(model, "quality_", None),
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
    model: StencilEstimator, ids: NDArray[Any], weights: Floats, name: Name
) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...]:
    """The most active columns, each with those that are most like it among the more active ones."""
    among = _worth_naming(weights, ids)
    asked: list[Any] = ids[np.argsort(-weights, kind="stable")[:ASKED]].tolist()
    found = []
    for x in asked:
        alike = model.similar(x, min(SIMILAR, len(ids)), candidates=among)
        found.append((name(x), tuple((name(y), score) for y, score in alike)))
    return tuple(found)


def _weights(model: StencilEstimator, small: Any, size: int | None) -> tuple[Weight, ...]:
    """Bytes of the model and of what one would keep in its place."""
    shape, seen = model.stencils_.shape, getattr(model, "seen_", None)
    found = [Weight("this model", float(_file_size(model) if size is None else size), True)]
    if small is not None:
        found.append(Weight("distilled to explain it", float(len(file.to_bytes(small))), True))
    for rank in RANKS:
        if rank < min(shape):
            found.append(Weight(f"SVD of rank {rank}, 32 bits", factor_bits(shape, rank) / 8, False))
    if seen is not None:
        found.append(Weight("the observations, 12 bytes each", 12.0 * len(seen.columns), False))
    found.append(Weight("the whole matrix, 32 bits", 4.0 * shape[0] * shape[1], False))
    return tuple(found)


def _file_size(model: StencilEstimator) -> int:
    """Bytes of the file that `save` would write; without ids where they cannot be saved."""
    try:
        return len(to_bytes(model))
    except InputError:
        return len(to_bytes(model, ids=False))


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


def group_name(group: Group) -> str:
    """How many observations those of a group had at least, in few letters.

    Examples
    --------
    >>> group_name(Group(0, 1, 9, 1.0)), group_name(Group(31, 63, 9, 1.0)), group_name(Group(2047, 4095, 9, 1.0))
    ('0', '31+', '2k+')
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
