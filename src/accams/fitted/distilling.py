"""Distil many stencil sums into a small one: which matrix to approximate, with which weights, in how many bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit import distill as fit_distill
from accams.fit.keys import seed_of
from accams.fit.target import Target, of_mean
from accams.fitted.progress import ProgressBar
from accams.model import file
from accams.model.codes import Codes
from accams.model.linear import Linear
from accams.model.stencils import StencilSum
from accams.settings.kinds import Integer
from accams.threads import SINGLE_BLAS, Threads

Floats = NDArray[np.float64]
Activity = tuple[Floats, Floats] | None
BITS_PER_VECTOR = 0.7  # least bits per row or column of a stencil that pays: bounds how many fit into so many bytes
MORE_VECTORS, MOST_VECTORS = 10, 256
MOST_LABELS = 1 << 16  # labels of a stencil that an encoding can start from
LARGE = 1e7  # labels in all from which on computing the target alone takes more than two seconds
WORK = 3e11  # most additions for the target; of more draws than that, some are left out
EXPLAINING_BYTES = 3.5  # per row and column, of the small model that explains many draws
LEAST_EXPLAINING = 4000


def explaining(one: StencilSum, sums: list[Codes], activity: Activity, linear: Linear | None) -> StencilSum:
    """Return the small sum by which a model of many draws explains itself."""
    size = int(max(EXPLAINING_BYTES * sum(one.shape), LEAST_EXPLAINING))
    return distilled(one, sums, size, "uniform" if activity is None else activity, linear=linear)


def distilled(
    one: StencilSum, sums: list[Codes], max_bytes: int, weights: Any, random_state: Any = 0,
    n_threads: int | None = None, verbose: bool | str = "auto", linear: Linear | None = None,
) -> StencilSum:  # fmt: skip
    """Return a stencil sum of at most `max_bytes` on disk that predicts as the mean of `sums` and a linear part do.

    `one` is the single sum of the model: where `sums` is that alone, distilling starts from it.
    """
    Integer(1).check("max_bytes", max_bytes)
    seed, threads = seed_of(random_state), Threads(n_threads)
    both = checked_weights(weights, one.shape)
    alone = len(sums) == 1 and linear is None
    if alone:
        kept = fits_as_it_is(one, max_bytes)
        if kept is not None:
            return kept
    with ProgressBar(verbose, "distilling") as bar, SINGLE_BLAS:  # whose sums depend on the number of threads
        if sum(one.shape) * sum(len(codes.starts) for codes in sums) > LARGE:
            bar.begin()
        target = target_of(sums, max_bytes, *both, seed, threads, linear)
        unseen = one.unseen_rows, one.unseen_cols
        start = one if alone and one.row_effects is None and one.col_effects is None else None
        if start is not None and max((max(T.shape) for T in start.templates), default=0) > MOST_LABELS:
            start = None
        return fit_distill.distill(
            target, max_bytes, unseen, start=start, seed=seed, threads=threads, watch=bar.update_round
        )


def chosen_weights(weights: Any, activity: Activity) -> Any:
    """Return the weights of rows and columns that the parameter `weights` stands for."""
    if not (isinstance(weights, str) and weights == "activity"):
        return weights
    if activity is None:
        raise InputError(
            "this model does not know how many observations its rows and columns had: pass weights='uniform', or one "
            "number per row and one per column"
        )
    return activity


def fits_as_it_is(model: StencilSum, max_bytes: int) -> StencilSum | None:
    """Return the model itself, or with rounded templates (next to no loss), if that fits; else None."""
    for to in ("float32", "float16", "int8"):
        try:
            rounded = model if to == "float32" else model.rounded(to)
        except InputError:  # numbers too large for it
            continue
        if len(file.to_bytes(rounded)) <= max_bytes:
            return rounded
    return None


def target_of(
    sums: list[Codes], max_bytes: int, row_weights: Floats, col_weights: Floats, seed: int, threads: Threads,
    linear: Linear | None = None,
) -> Target:  # fmt: skip
    """Return the mean of these sums plus a linear part, by `rank_for` singular vectors."""
    m, n = len(row_weights), len(col_weights)
    rank = rank_for(max_bytes, (m, n))
    stencils = max(1.0, float(np.mean([len(codes.starts) for codes in sums])))
    draws = int(max(1, min(len(sums), WORK / (4.0 * rank * (m + n) * stencils))))
    keep = np.unique(np.linspace(0, len(sums) - 1, draws).round().astype(int))
    return of_mean([sums[p] for p in keep], row_weights, col_weights, rank, seed, threads, linear)


def rank_for(max_bytes: int, shape: tuple[int, int]) -> int:
    """Return the number of singular vectors that `max_bytes` have room for, and some more."""
    room = 8.0 * max_bytes / (BITS_PER_VECTOR * sum(shape))
    return min(int(np.clip(room, 1, MOST_VECTORS - MORE_VECTORS)) + MORE_VECTORS, *shape)


def checked_weights(weights: Any, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return weights of rows and of columns."""
    if isinstance(weights, str) and weights == "uniform":
        return np.ones(shape[0]), np.ones(shape[1])
    if not isinstance(weights, (tuple, list)) or len(weights) != 2:
        raise InputError(f"weights must be 'activity', 'uniform' or a pair of arrays, not {weights!r}")
    both = np.asarray(weights[0], np.float64), np.asarray(weights[1], np.float64)
    for name, x, size in zip(("row", "column"), both, shape, strict=True):
        if x.shape != (size,) or not (np.isfinite(x) & (x > 0)).all():
            raise InputError(f"{name} weights must be {size:,} numbers above 0")
    return both


def activity(counts: NDArray[np.int64]) -> Floats:
    """Return the activity of rows (columns): observations plus one, to half a doubling (few bits on disk).

    Examples
    --------
    >>> activity(np.array([0, 1, 3, 100])).round(1)
    array([ 1. ,  2. ,  4. , 90.5])
    """
    return np.asarray(2.0 ** (np.rint(2.0 * np.log2(counts + 1.0)) / 2.0))
