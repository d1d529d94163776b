"""Rivals of imputation: functions from an array with NaN to one without.

Those of scikit-learn come with its defaults, on standardised columns where distances or penalties depend on the scale.
Low-rank completion is iterated SVD with three ways to shrink singular values, each along a path that is warm-started
and ends by held-out cells: soft (Mazumder, Hastie and Tibshirani 2010), hard (their hard-impute), and regularised
(Josse and Husson 2012: by the share of each singular value that is not noise).
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from rivals.bpmf import BPMF
from rivals.ratings import Ratings

Matrix = NDArray[np.float64]
Impute = Callable[[Matrix], Matrix]
SHARE, MOST = 0.05, 200_000  # of the observed cells that are held out, and at most so many
TOL, MOST_ITERATIONS = 1e-3, 60  # of a fit on a path: relative change of the cells that are filled
WORSE = 3  # steps without improvement after which a path ends


def column_means(X: Matrix) -> Matrix:
    """The mean of each column; of a column without values, that of all."""
    return np.where(np.isnan(X), means(X), X)


def knn(X: Matrix, n_neighbors: int = 5) -> Matrix:
    """scikit-learn's KNNImputer on standardised columns."""
    from sklearn.impute import KNNImputer

    return standardised(lambda Z: KNNImputer(n_neighbors=n_neighbors).fit_transform(Z), X)


def tuned_knn(X: Matrix) -> Matrix:
    """KNNImputer with the number of neighbours and the weights that are best on held-out cells."""
    from sklearn.impute import KNNImputer

    def filled(Z: Matrix, choice: tuple[int, str]) -> Matrix:
        k, weights = choice
        return np.asarray(KNNImputer(n_neighbors=k, weights=weights).fit_transform(Z))

    def best(Z: Matrix) -> Matrix:
        part, held = hold_out(Z)
        choices = [(3, "distance"), (5, "uniform"), (10, "distance"), (15, "uniform"), (30, "distance")]
        errors = {choice: float(((filled(part, choice) - Z)[held] ** 2).mean()) for choice in choices}
        return filled(Z, min(errors, key=errors.__getitem__))

    return standardised(best, X)


def iterative(X: Matrix, n_nearest: int | None = None, max_iter: int = 10, seed: int = 0) -> Matrix:
    """scikit-learn's IterativeImputer (BayesianRidge), at most `n_nearest` columns in each regression.

    They are not the nearest ones but drawn with probabilities as their absolute correlations, anew in each round.
    """
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    few = n_nearest if n_nearest is not None and n_nearest < X.shape[1] - 1 else None
    imputer = IterativeImputer(n_nearest_features=few, max_iter=max_iter, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the rounds are given
        return standardised(imputer.fit_transform, X)


def tuned_iterative(X: Matrix, rounds: tuple[int, ...] = (1, 2, 4, 10), seed: int = 0) -> Matrix:
    """IterativeImputer with the number of rounds that is best on held-out cells: later ones may fit noise."""
    part, held = hold_out(X)
    scale = np.maximum(np.nanstd(part, axis=0), 1e-300)
    errors = {n: float((((iterative(part, None, n, seed) - X) / scale)[held] ** 2).mean()) for n in rounds}
    return iterative(X, None, min(errors, key=errors.__getitem__), seed)


def forest(X: Matrix, n_trees: int = 20, max_iter: int = 5, n_nearest: int | None = None, seed: int = 0) -> Matrix:
    """As missForest: chained regressions by extremely randomised trees."""
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    trees = ExtraTreesRegressor(n_trees, min_samples_leaf=2, max_features=0.5, random_state=seed, n_jobs=1)
    imputer = IterativeImputer(trees, max_iter=max_iter, n_nearest_features=n_nearest, random_state=seed, tol=1e-2)
    return standardised(imputer.fit_transform, X)


def low_rank(X: Matrix, kinds: tuple[str, ...] = ("soft", "hard", "regularised")) -> Matrix:
    """Iterated SVD, with the way to shrink, and as much of it, that is best on held-out cells; then on all cells."""

    def best(Z: Matrix) -> Matrix:
        part, held = hold_out(Z)
        tried = [(*shortest_path(part, kind, Z, held), kind) for kind in kinds]
        _, until, kind = min(tried, key=lambda each: each[0])
        filled = np.where(np.isnan(Z), 0.0, Z)
        for step in path(kind, filled)[: until + 1]:
            filled, _ = iterated(Z, filled, kind, step)
        return filled

    return standardised(best, X)


def soft_impute(X: Matrix) -> Matrix:
    """Soft-impute alone."""
    return low_rank(X, ("soft",))


def bayesian_factors(X: Matrix, ranks: tuple[int, ...] = (5, 10, 20), sweeps: int = 120, seed: int = 0) -> Matrix:
    """Bayesian matrix factorisation by Gibbs sampling, with the rank that is best on held-out cells."""

    def predicted(Z: Matrix, rank: int, where: NDArray[np.bool_]) -> Matrix:
        known = np.nonzero(~np.isnan(Z))
        ratings, asked = Ratings.of(*known, Z[known], Z.shape), np.nonzero(where)
        model = BPMF(rank=rank, sweeps=sweeps, burn_in=sweeps // 4).fit(ratings, asked, seed=seed)
        return model.predict(*asked)

    def best(Z: Matrix) -> Matrix:
        part, held = hold_out(Z)
        possible = [rank for rank in ranks if rank < min(Z.shape)] or [1]
        errors = {rank: float(((predicted(part, rank, held) - Z[held]) ** 2).mean()) for rank in possible}
        filled, missing = Z.copy(), np.isnan(Z)
        filled[missing] = predicted(Z, min(errors, key=errors.__getitem__), missing)
        return filled

    return standardised(best, X)


def shortest_path(part: Matrix, kind: str, Z: Matrix, held: NDArray[np.bool_]) -> tuple[float, int]:
    """Go along a path as long as held-out cells are predicted better; return the lowest error and its step."""
    filled, errors = np.where(np.isnan(part), 0.0, part), list[float]()
    for step in path(kind, filled):
        filled, fitted = iterated(part, filled, kind, step)
        errors.append(float(((fitted - Z)[held] ** 2).mean()))
        if len(errors) - 1 - int(np.argmin(errors)) >= WORSE:
            break
    return min(errors), int(np.argmin(errors))


def path(kind: str, filled: Matrix) -> list[float]:
    """Penalties from large to small, or ranks from small to large."""
    if kind == "soft":
        largest = float(np.sqrt(spectrum(filled)[0][-1]))
        return [largest * 0.7**step for step in range(1, 25)]
    ranks = np.unique(np.round(1.5 ** np.arange(0, 20)).astype(int))
    return [float(rank) for rank in ranks if rank < min(filled.shape)]


def iterated(X: Matrix, filled: Matrix, kind: str, step: float) -> tuple[Matrix, Matrix]:
    """Fill the missing cells by the shrunken SVD until they settle; also return that SVD."""
    missing = np.isnan(X)
    for _ in range(MOST_ITERATIONS):
        fitted = shrunken(filled, kind, step)
        new = np.where(missing, fitted, X)
        change, size = float(((new - filled)[missing] ** 2).sum()), float((filled[missing] ** 2).sum())
        filled = new
        if change <= TOL**2 * max(size, 1e-12):
            break
    return filled, fitted


def shrunken(filled: Matrix, kind: str, step: float) -> Matrix:
    """The matrix with its singular values shrunk, by the eigenvectors of the smaller of its Gram matrices."""
    wide = filled.shape[0] <= filled.shape[1]
    squares, V = spectrum(filled)
    s = np.sqrt(np.maximum(squares, 0.0))
    if kind == "soft":
        keep = s > step
        share = 1.0 - step / s[keep]
    else:
        keep = np.zeros(len(s), bool)
        keep[-int(step) :] = True
        share = np.ones(int(step))
        if kind == "regularised":
            noise = squares[~keep].sum() / max(len(s) - int(step), 1)
            share = np.maximum(1.0 - noise / np.maximum(squares[keep], 1e-300), 0.0)
    V = V[:, keep]
    return np.asarray((V * share) @ (V.T @ filled) if wide else (filled @ V) @ (V * share).T)


def spectrum(filled: Matrix) -> tuple[Matrix, Matrix]:
    """Squared singular values, from small to large, and the vectors of the shorter side."""
    gram = filled @ filled.T if filled.shape[0] <= filled.shape[1] else filled.T @ filled
    return eigh(gram, overwrite_a=True, check_finite=False)  # type: ignore[no-any-return]


def hold_out(X: Matrix, seed: int = 0) -> tuple[Matrix, NDArray[np.bool_]]:
    """The matrix without some of its cells, and which they are; no column loses its last two."""
    random, cells = np.random.default_rng(seed), np.flatnonzero(~np.isnan(X))
    count = int(np.clip(SHARE * len(cells), min(500, len(cells) // 5), MOST))
    held = np.zeros(X.shape, bool)
    held.ravel()[random.choice(cells, count, replace=False)] = True
    held &= ((~np.isnan(X) & ~held).sum(axis=0) >= 2)[None, :]
    return np.where(held, np.nan, X), held


def standardised(impute: Impute, X: Matrix) -> Matrix:
    """Impute standardised columns; one without values stays at the mean of all, a constant one at its constant."""
    known = ~np.isnan(X)
    centre, spread = means(X), np.sqrt(np.where(known, (np.where(known, X, 0) - means(X)) ** 2, 0).sum(axis=0))
    scale = spread / np.sqrt(np.maximum(known.sum(axis=0), 1))
    use = scale > 1e-12 * np.maximum(np.abs(centre), 1e-300)
    full = np.where(known, X, centre)
    full[:, use] = np.asarray(impute(((X - centre) / np.where(use, scale, 1.0))[:, use])) * scale[use] + centre[use]
    return np.where(known, X, full)


def means(X: Matrix) -> Matrix:
    """Means of columns over their values."""
    known = ~np.isnan(X)
    count, total = known.sum(axis=0), np.where(known, X, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), total.sum() / max(count.sum(), 1))


def within(limit: float, impute: Impute, X: Matrix) -> tuple[Matrix, float] | str:
    """The completed matrix and the seconds it took, or why there is none: past the `limit` it is ended."""
    context = multiprocessing.get_context("fork")
    answers, theirs = context.Pipe(duplex=False)

    def work() -> None:
        began = perf_counter()
        full = impute(X)
        theirs.send((full[np.isnan(X)], perf_counter() - began))

    process = context.Process(target=work, daemon=True)
    process.start()
    theirs.close()
    try:
        if not answers.poll(limit):
            return f"over {limit:.0f}"
        values, took = answers.recv()
    except EOFError:  # its traceback has been printed
        return "failed"
    finally:
        process.terminate()
        process.join()
    full = X.copy()
    full[np.isnan(X)] = values
    return full, took
