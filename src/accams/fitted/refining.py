"""Distil and refine stencil sums towards a complete matrix, a function of cells, or observed entries."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from accams.data.ids import Index
from accams.data.inputs import observations_of, positions
from accams.data.observations import Observations
from accams.engine.choose import make_engine
from accams.errors import InputError
from accams.fit import distill as fit_distill
from accams.fit.encode import Encoding
from accams.fit.keys import seed_of
from accams.fit.observed import Observed
from accams.fit.search import TRIES, Improvable, Search, Unseen
from accams.fit.target import MOST_EXACT, Target, of_matrix, of_predictor
from accams.fitted.distilling import LARGE, MOST_VECTORS, Floats, checked_weights, fits_as_it_is, rank_for
from accams.fitted.progress import ProgressBar
from accams.model import file
from accams.model.stencils import StencilSum
from accams.settings.kinds import Integer, Number
from accams.threads import Threads

MOST_CELLS = 1 << 26  # of a matrix whose residual is kept while it is distilled
BLOCK = 1 << 22  # cells that a function is asked for at a time
FIRST_PRICE = 0.1  # share of the error for all bits: low, since dropped stencils do not come back
NONE: Unseen = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def distill(
    target: Any, max_bytes: int, *, shape: tuple[int, int] | None = None, weights: Any = "uniform",
    random_state: Any = 0, n_threads: int | None = None, verbose: bool | str = "auto",
) -> StencilSum:  # fmt: skip
    """Distil a matrix, or a function of cells, into one stencil sum whose file has at most `max_bytes`.

    Parameters
    ----------
    target : complete matrix, or callable
        A callable takes an array of row positions and one of column positions, and returns the value of each of these
        cells; it is called for blocks of rows. A large matrix is never in memory as a whole.
    max_bytes : int
        Size of the file that `StencilSum.save` writes.
    shape : (int, int)
        Rows and columns, for a callable.
    weights : "uniform" or (array, array)
        Weights of rows and of columns; a cell counts by their product.
    random_state, n_threads, verbose
        As for fitting.

    Returns
    -------
    StencilSum

    See Also
    --------
    refine : starts from a stencil sum, and takes incomplete matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import distill
    >>> x, y = np.arange(200) / 20, np.arange(150) / 20
    >>> small = distill(lambda i, j: np.sin(x[i]) * np.cos(y[j]), 3000, shape=(200, 150))
    >>> bool(abs(small.dense() - np.outer(np.sin(x), np.cos(y))).max() < 0.1), small.size.bytes <= 3000
    (True, True)
    """
    Integer(1).check("max_bytes", max_bytes)
    threads, seed, cells = Threads(n_threads), seed_of(random_state), None
    with ProgressBar(verbose, "distilling") as bar, closing(threads):
        if callable(target):
            size = _checked_shape(shape)
            both = checked_weights(weights, size)
            if size[0] * size[1] > LARGE:
                bar.begin()
            if isinstance(weights, str) and size[0] * size[1] <= MOST_CELLS:
                cells = _evaluated(target, size)
                aim = of_matrix(cells, *both, rank_for(max_bytes, size), seed)
            else:
                aim = _of_callable(target, size, both, max_bytes, seed)
        else:
            observations = observations_of(target)
            if not _is_plain(observations):
                raise InputError(
                    "the matrix has gaps, weights or observed zeros: fit a model to it and compress that, "
                    "BayesianACCAMS().fit(X).compress(max_bytes)"
                )
            both, matrix = checked_weights(weights, observations.shape), _dense(observations)
            aim = of_matrix(matrix, *both, rank_for(max_bytes, observations.shape), seed)
            if isinstance(weights, str) and matrix.size <= MOST_CELLS:
                cells = matrix
        how: dict[str, Any] = {"seed": seed, "threads": threads, "watch": bar.update_round}
        return fit_distill.distill(aim, max_bytes, NONE, matrix=cells, **how)


def refine(
    model: StencilSum, target: Any, *, max_bytes: int | None = None, weights: Any = "uniform", shrinkage: float = 0.0,
    n_rounds: int = 10, n_threads: int | None = None, verbose: bool | str = "auto",
) -> StencilSum:  # fmt: skip
    """Return a stencil sum moved closer to a target: all labels and templates improved jointly.

    Parameters
    ----------
    model : StencilSum
        Starting point.
    target : complete or incomplete matrix, Observations, or callable
        As for `fit` without `y`, with the rows and columns of the model; or as for `distill`.
    max_bytes : int, optional
        Size of the file: labels, clusters and stencils that are not worth their bits are dropped until it fits.
    weights : "uniform" or (array, array)
        Weights of rows and of columns, for a complete matrix or a callable (observations have their own).
    shrinkage : float
        For observed entries: shrinkage * sum(T^2) is added to the squared error.
    n_rounds : int
        Most rounds of improving labels and templates; it ends when no label changes.
    n_threads, verbose
        As for fitting.

    Returns
    -------
    StencilSum

    Notes
    -----
    Every round lowers the squared error on the target. On sparse observations that also fits their noise: there,
    `compress` a `BayesianACCAMS` instead.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS, refine
    >>> X = np.add.outer(np.arange(40.0) % 7, np.arange(30.0) % 5)
    >>> first = ACCAMS(4, 3).fit(X).stencils_
    >>> better = refine(first, X)
    >>> bool(np.mean((better.dense() - X) ** 2) < np.mean((first.dense() - X) ** 2))
    True
    """
    if not isinstance(model, StencilSum):
        raise InputError(f"refine starts from a StencilSum, not from a {type(model).__name__}: pass model.stencils")
    if model.row_effects is not None or model.col_effects is not None:
        raise InputError("refine cannot move continuous effects: distill or compress the model first")
    if max_bytes is not None:
        Integer(1).check("max_bytes", max_bytes)
    Integer(1).check("n_rounds", n_rounds)
    Number().check("shrinkage", shrinkage)
    threads = Threads(n_threads)
    with ProgressBar(verbose, "refining") as bar, closing(threads):
        if callable(target):
            aim = _of_callable(target, model.shape, checked_weights(weights, model.shape), None, 0)
            unseen = model.unseen_rows, model.unseen_cols
            return _refined(_encoding(model, aim, threads), unseen, max_bytes, n_rounds, bar)
        observations = observations_of(target)
        if observations.shape != model.shape:
            (m, n), (rows, cols) = observations.shape, model.shape
            raise InputError(f"the target is {m:,} x {n:,}, but the model is {rows:,} x {cols:,}")
        if _is_plain(observations) and min(model.shape) <= MOST_EXACT:
            both = checked_weights(weights, model.shape)
            encoding = _encoding(model, of_matrix(_dense(observations), *both, min(model.shape)), threads)
            return _refined(encoding, NONE, max_bytes, n_rounds, bar)
        if not isinstance(weights, str):
            raise InputError("weights of rows and columns are for complete matrices: give the observations weights")
        unseen = observations.empty(0), observations.empty(1)
        engine = make_engine(observations, "auto", max(1, len(model)), n_threads, offset=model.offset)
        with closing(engine):
            return _refined(Observed(engine, model, shrinkage), unseen, max_bytes, n_rounds, bar)


def towards(indices: tuple[Index, Index], X: Any, y: Any, sample_weight: Any) -> Observations:
    """Return observations with the rows and columns of a fitted model."""
    given, shape = observations_of(X, y, sample_weight), (len(indices[0]), len(indices[1]))
    if given.row_index.is_positional and given.col_index.is_positional and given.shape == shape:
        return given
    rows, cols, values = given.coo()
    places = []
    for index, known, name in zip((given.row_index, given.col_index), indices, ("row", "column"), strict=True):
        places.append(positions(known, index.ids))
        if (places[-1] < 0).any():
            new = index.ids[int(np.argmin(places[-1]))]
            raise InputError(f"{name} {new} is not in the model: refine takes no new ones")
    return Observations.from_coo(places[0][rows], places[1][cols], values, shape=shape, weights=given.weights)


def _refined(start: Improvable, unseen: Unseen, max_bytes: int | None, n_rounds: int, bar: ProgressBar) -> StencilSum:
    """Improve without a price on bits, then with one if the size is limited."""
    empty = start.to_sum(0.0, unseen).truncate(0)
    least = len(file.to_bytes(empty))
    if max_bytes is not None and max_bytes < least:
        raise InputError(f"max_bytes={max_bytes:,} is too small: a model without any stencil takes {least:,}")
    planned = n_rounds + (0 if max_bytes is None else TRIES)
    search = Search(max_bytes or 0, least, unseen, planned, bar.update_round)
    search.improve(start, 0.0, n_rounds)
    refined = start.to_sum(0.0, unseen)
    if max_bytes is None:
        return refined
    kept = fits_as_it_is(refined, max_bytes)
    if kept is not None:
        return kept
    price = FIRST_PRICE * start.left()[0] / (8.0 * max_bytes) + 1e-300
    return search.fit(start, price) or empty


def _encoding(model: StencilSum, target: Target, threads: Threads) -> Encoding:
    encoding = Encoding.of(model, target, threads)
    encoding.refit()  # the target has an offset of its own
    return encoding


def _checked(function: Callable[..., Any]) -> Callable[[Any, Any], Floats]:
    """Return a function of cells that refuses what is no number for each cell."""

    def checked(rows: Any, cols: Any) -> Floats:
        values = np.asarray(function(rows, cols), np.float64)
        if values.shape != rows.shape:
            raise InputError(f"the function returned an array of shape {values.shape} for {len(rows):,} cells")
        if not np.isfinite(values).all():
            raise InputError("the function returned values that are missing (NaN) or infinite")
        return values

    return checked


def _of_callable(
    function: Callable[..., Any], shape: tuple[int, int], both: tuple[Floats, Floats], max_bytes: int | None, seed: int
) -> Target:
    rank = min(MOST_VECTORS, *shape) if max_bytes is None else rank_for(max_bytes, shape)
    return of_predictor(_checked(function), *both, rank, seed)


def _evaluated(function: Callable[..., Any], shape: tuple[int, int]) -> Floats:
    """Return all cells of a function, asked for in blocks of rows."""
    m, n = shape
    out, step = np.empty(shape), max(1, BLOCK // n)
    for lo in range(0, m, step):
        rows = np.arange(lo, min(lo + step, m))
        out[rows] = _checked(function)(np.repeat(rows, n), np.tile(np.arange(n), len(rows))).reshape(len(rows), n)
    return out


def _is_plain(observations: Observations) -> bool:
    return observations.is_complete and observations.weights is None and observations.blank_weight is None


def _dense(observations: Observations) -> Floats:
    return observations.values.astype(np.float64).reshape(observations.shape)


def _checked_shape(shape: tuple[int, int] | None) -> tuple[int, int]:
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise InputError("a function of cells needs shape=(rows, columns)")
    for name, size in zip(("rows", "columns"), shape, strict=True):
        Integer(1).check(f"the number of {name}", size)
    return int(shape[0]), int(shape[1])
