"""From a fitted model to a small one: which matrix is to be kept, with which weights, and in how many bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.estimators import checks
from accams.estimators.progress import ProgressBar
from accams.fit import distill as fit_distill
from accams.fit.keys import seed_of
from accams.fit.target import Target, of_mean
from accams.model import file
from accams.model.codes import Codes
from accams.model.stencils import StencilSum
from accams.threads import Threads

if TYPE_CHECKING:
    from accams.estimators.base import StencilEstimator

Floats = NDArray[np.float64]
BITS_PER_VECTOR = 0.7  # of a row or column, at least, in a stencil that pays: so many bytes have room for so many
MORE_VECTORS, MOST_VECTORS = 10, 256
MOST_LABELS = 1 << 16  # of a stencil that an encoding can begin with
LARGE = 1e7  # labels in all: the target alone takes more than two seconds
WORK = 3e11  # additions at most for the target: of more draws than that, some are left out


def distilled(
    model: StencilEstimator, max_bytes: int, weights: Any, random_state: Any, n_threads: int | None, verbose: bool | str
) -> StencilSum:
    """A stencil sum of at most `max_bytes` on disk that predicts as this model does."""
    checks.whole("max_bytes", max_bytes, 1)
    one, seed, threads, sums = model.stencils_, seed_of(random_state), Threads(n_threads), model._sums()
    both = weights_of(model, weights)
    if len(sums) == 1:
        kept = fits_as_it_is(one, max_bytes)
        if kept is not None:
            return kept
    with ProgressBar(verbose, "distilling") as bar:
        if sum(one.shape) * sum(len(each.starts) for each in sums) > LARGE:
            bar.begin()
        target = target_of(sums, max_bytes, *both, seed, threads)
        unseen = one.unseen_rows, one.unseen_cols
        start = one if len(sums) == 1 and one.row_effects is None and one.col_effects is None else None
        if start is not None and max((max(T.shape) for T in start.templates), default=0) > MOST_LABELS:
            start = None
        return fit_distill.distill(
            target, max_bytes, unseen, start=start, seed=seed, threads=threads, watch=bar.update_round
        )


def fits_as_it_is(model: StencilSum, max_bytes: int) -> StencilSum | None:
    """A model that needs no distilling: itself, or with its templates rounded, which costs next to no accuracy."""
    for to in ("float32", "float16", "int8"):
        try:
            found = model if to == "float32" else model.rounded(to)
        except InputError:  # numbers too large for it
            continue
        if len(file.to_bytes(found)) <= max_bytes:
            return found
    return None


def target_of(
    sums: list[Codes], max_bytes: int, row_weights: Floats, col_weights: Floats, seed: int, threads: Threads
) -> Target:
    """The mean of these sums, by as many singular vectors as there can be room for."""
    m, n = len(row_weights), len(col_weights)
    rank = rank_for(max_bytes, (m, n))
    stencils = max(1.0, float(np.mean([len(each.starts) for each in sums])))
    draws = int(max(1, min(len(sums), WORK / (4.0 * rank * (m + n) * stencils))))
    keep = np.unique(np.linspace(0, len(sums) - 1, draws).round().astype(int))
    return of_mean([sums[p] for p in keep], row_weights, col_weights, rank, seed, threads)


def rank_for(max_bytes: int, shape: tuple[int, int]) -> int:
    """As many singular vectors as there can be room for, and some more."""
    room = 8.0 * max_bytes / (BITS_PER_VECTOR * sum(shape))
    return min(int(np.clip(room, 1, MOST_VECTORS - MORE_VECTORS)) + MORE_VECTORS, *shape)


def weights_of(model: StencilEstimator, weights: Any) -> tuple[Floats, Floats]:
    """One weight per row and one per column."""
    if isinstance(weights, str) and weights == "activity":
        known = getattr(model, "activity_", None)
        if known is None:
            raise InputError(
                "this model does not know how many observations its rows and columns had: pass weights='uniform' "
                "(--weights uniform), or one number per row and one per column"
            )
        return known[0], known[1]
    return checked_weights(weights, model.stencils_.shape)


def checked_weights(weights: Any, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """ "uniform", or two arrays of the right lengths."""
    if isinstance(weights, str) and weights == "uniform":
        return np.ones(shape[0]), np.ones(shape[1])
    if not isinstance(weights, (tuple, list)) or len(weights) != 2:
        raise InputError(f"weights must be 'activity', 'uniform' or a pair of arrays, not {weights!r}")
    found = np.asarray(weights[0], np.float64), np.asarray(weights[1], np.float64)
    for name, each, size in zip(("row", "column"), found, shape, strict=True):
        if each.shape != (size,) or not (np.isfinite(each) & (each > 0)).all():
            raise InputError(f"{name} weights must be {size:,} numbers above 0")
    return found


def activity(counts: NDArray[np.int64]) -> Floats:
    """How active rows (columns) with so many observations are, to the nearest half of a doubling (few bits on disk).

    Examples
    --------
    >>> activity(np.array([0, 1, 3, 100])).round(1)
    array([ 1. ,  2. ,  4. , 90.5])
    """
    return np.asarray(2.0 ** (np.rint(2.0 * np.log2(counts + 1.0)) / 2.0))
