"""Gather the contents of a report from a model, as plain values: figures and the page only draw them."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError, renamed
from accams.model.codes import Codes
from accams.model.posterior import Mixing
from accams.model.size import factor_bits
from accams.use.clusters import group_traits
from accams.use.diagnostics import Diagnostics
from accams.use.evaluation import ActivityGroup, Evaluation
from accams.use.hierarchy import Node, centred_lines, grouped, telling
from accams.use.text import printable

Floats = NDArray[np.float64]
Name = Callable[[Any], str]
SHOWN_STENCILS = 4
GROUPS = (6, 8)  # most groups of row and column labels in a picture of a stencil
NAMED = 3  # members of a block
LONGEST = 200  # characters of a name
ASKED = 8  # items whose most similar ones are shown
SIMILAR = 5
POPULAR = 0.25  # share of the items that are shown as similar ones
RANKS = (10, 50)  # of factorisations whose size is shown for comparison


@dataclass(frozen=True)
class Picture:
    """A stencil as a small table of what it adds to each group of row labels and group of column labels.

    `names` are the most active items of each group, `traits` the features that the members of each group of rows and
    of columns have in common, where the model knows any.
    """

    stencil: int
    table: Floats
    row_sizes: tuple[int, ...]
    col_sizes: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    traits: tuple[tuple[tuple[str, ...], ...], ...] = ((), ())


@dataclass(frozen=True)
class Weight:
    """Bytes of a model (`ours`) or of something to compare it with."""

    what: str
    bytes: float
    ours: bool


@dataclass(frozen=True)
class Facts:
    """Contents of a report.

    Attributes
    ----------
    kind : str
        Class of the estimator.
    blanks : bool
        Whether blanks were observed zeros.
    sides : (str, str)
        Names of rows and columns, in the plural.
    explained_by : int or None
        Stencils of the small model that explains one of many draws.
    name : function
        Title of an id.

    Examples
    --------
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> facts = gather(ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix))
    >>> facts.shape, facts.sides, facts.n_stencils
    ((4, 3), ('users', 'items'), 2)
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


@renamed(quality="evaluation")
def gather(
    model: Any, titles: Mapping[Any, str] | None = None, evaluation: Evaluation | None = None,
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

    Examples
    --------
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> facts = gather(ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix), titles={0: "Heat"})
    >>> facts.kind, facts.name(0)
    ('ACCAMS', 'Heat')
    """
    model = getattr(model, "model_", model)
    if not len(model.stencils):
        raise InputError("this model has no stencils: there is nothing to report")
    name, explainer, posterior = naming(titles), model.explainer, model.posterior
    weights, ids = explainer.members.weights[1], model.items
    stencils = telling(explainer.stencils.codes, 1)[:SHOWN_STENCILS].tolist()
    course = model.diagnostics() if model.fit_history else None
    return Facts(
        kind=printable(model.info.estimator, LONGEST) or "StencilSum",
        blanks=model.zero_weight is not None,
        shape=model.stencils.shape,
        sides=sides_of(model),
        n_observed=None if model.interactions is None else len(model.interactions),
        n_stencils=len(model.stencils),
        n_draws=None if posterior is None else len(posterior),
        explained_by=None if posterior is None else len(explainer.stencils),
        train_rmse=model.train_rmse,
        tree=model.hierarchy(candidates=_worth_naming(weights, ids)),
        pictures=tuple(picture_of(model, s, name) for s in stencils),
        similar=_similar(model, ids, weights, name),
        weights=weights_of(model, size),
        evaluation=evaluation or model.evaluation,
        course=course,
        mixing=() if posterior is None or not posterior.traces else _mixing(course),
        name=name,
    )


def naming(titles: Mapping[Any, str] | None) -> Name:
    """Return the function that names an id: by its title, cut where it is too long."""
    called = {x: printable(name, LONGEST) for x, name in (titles or {}).items() if isinstance(name, str) and name}
    return lambda x: called.get(x) or printable(x, LONGEST)


def sides_of(model: Any) -> tuple[str, str]:
    """Return what rows and columns of a model are called, in the plural."""
    names = model.info.names
    return ("users", "items") if names is None else (_plural(names[0]), _plural(names[1]))


def _plural(name: Any) -> str:
    """Return the plural of the name of an id: "users" for "user_id"."""
    name = printable(name, LONGEST)
    short = name.removesuffix("_id").removesuffix("Id") or name
    return short if short.endswith("s") else f"{short}s"


def _worth_naming(weights: Floats, ids: NDArray[Any]) -> list[Any]:
    """Return the ids that are more active than most; all of them where there are few."""
    few = max(100, round(POPULAR * len(ids)))
    return ids[np.sort(np.argsort(-weights, kind="stable")[:few])].tolist()  # type: ignore[no-any-return]


def picture_of(model: Any, s: int, name: Name) -> Picture:
    """Return a stencil of the model that explains this one, with groups of like clusters."""
    codes: Codes = model.explainer.stencils.codes
    ids, weights = model.items, model.explainer.members.weights[1]
    template = np.asarray(codes.template(s)[:-1, :-1], np.float64)
    labels = codes.rows[:-1, s], codes.cols[:-1, s]
    groups = [grouped(*centred_lines(codes, s, side), most)[0] for side, most in enumerate(GROUPS)]
    shares = [np.bincount(x, minlength=k + 1)[:k].astype(float) for x, k in zip(labels, template.shape, strict=True)]
    table = np.array(
        [[_mean(template[np.ix_(a, b)], shares[0][a], shares[1][b]) for b in groups[1]] for a in groups[0]]
    )
    rows, cols = ([np.flatnonzero(np.isin(labels[side], group)) for group in groups[side]] for side in (0, 1))
    first = (inside[np.argsort(-weights[inside], kind="stable")[:NAMED]] for inside in cols)
    names = tuple(tuple(map(name, ids[members].tolist())) for members in first)
    traits = tuple(_traits(model, s, side, groups[side]) for side in (0, 1))
    return Picture(s, table, tuple(map(len, rows)), tuple(map(len, cols)), names, traits)


def _traits(model: Any, s: int, side: int, groups: list[Any]) -> tuple[tuple[str, ...], ...]:
    """Return for each group of labels the features of its members that are far from those of all."""
    known = model.knowledge[side]
    if known is None:
        return ()
    codes, lines = model.explainer.stencils.codes, model.explainer.with_data(side)
    of_label = np.zeros(codes.template(s).shape[side], np.int64)
    for number, labels in enumerate(groups):
        of_label[labels] = number
    told = [list[str]() for _ in groups]
    groups_of = of_label[(codes.rows, codes.cols)[side][lines, s]]
    for x in group_traits(known, lines, groups_of, len(groups), NAMED):
        text = f"{printable(x.trait, LONGEST)} {100 * x.share:.0f} % (of all {100 * x.everywhere:.0f} %)"
        told[x.cluster].append(text)
    return tuple(map(tuple, told))


def _mean(block: Floats, rows: Floats, cols: Floats) -> float:
    return float(rows @ block @ cols / (rows.sum() * cols.sum()))


def _similar(
    model: Any, ids: NDArray[Any], weights: Floats, name: Name
) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...]:
    """Return the most active items, each with those most similar to it among the more active ones."""
    among, n = _worth_naming(weights, ids), min(SIMILAR, len(ids))
    asked: list[Any] = ids[np.argsort(-weights, kind="stable")[:ASKED]].tolist()
    return tuple(
        (name(x), tuple((name(y), score) for y, score in model.similar(x, n, candidates=among))) for x in asked
    )


def weights_of(model: Any, size: int | None = None) -> tuple[Weight, ...]:
    """Return the bytes of the model and of alternatives to it."""
    shape, interactions = model.stencils.shape, model.interactions
    small = None if model.posterior is None else model.explainer.stencils
    weights = [Weight("this model", float(model.file_size if size is None else size), True)]
    if small is not None:
        weights.append(Weight("distilled to explain it", float(small.size.bytes), True))
    for rank in RANKS:
        if rank < min(shape):
            weights.append(Weight(f"SVD of rank {rank}, 32 bits", factor_bits(shape, rank) / 8, False))
    if interactions is not None:
        weights.append(Weight("the observations, 12 bytes each", 12.0 * len(interactions), False))
    return (*weights, Weight("the whole matrix, 32 bits", 4.0 * shape[0] * shape[1], False))


def _mixing(course: Diagnostics | None) -> tuple[Mixing, ...]:
    """Return how well the chains agree, where ArviZ is installed."""
    try:
        return () if course is None else tuple(course.mixing())
    except InputError:
        return ()


def later_gains(course: Diagnostics) -> Floats:
    """Return by how much each stencil lowers the mean squared error, on average over the later half of the sweeps."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stencil that was never visited
        return np.asarray(np.nanmean(course.gain[len(course.gain) // 2 :], axis=0))


def group_name(group: ActivityGroup) -> str:
    """Return the least number of observations of a group, in few letters.

    Examples
    --------
    >>> [group_name(ActivityGroup(low, 2 * low + 1, 9, 1.0)) for low in (0, 31, 2047)]
    ['0', '31+', '2k+']
    """
    return f"{group.low / 1000:.0f}k+" if group.low >= 1000 else f"{group.low:.0f}+" if group.low else "0"


def largest_of(values: Floats) -> float:
    """Return the largest finite number, for the end of a scale; 1 if there is none above 0."""
    largest = float(values[np.isfinite(values)].max(initial=0.0))
    return largest if largest > 1e-9 else 1.0


def significant(largest: float) -> str:
    """Return the format for numbers up to `largest` in few characters.

    Examples
    --------
    >>> significant(1.5), significant(0.0003), significant(2e9)
    ('.2f', '.1e', '.1e')
    """
    return ".2f" if 0.05 <= largest < 1000.0 else ".1e"
