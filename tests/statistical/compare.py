"""Correlated draws against exact expectations, by batch means, so that slow mixing is not mistaken for an error.

Every comparison yields a p-value; `bonferroni` makes one of many.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

BATCHES = 50
RARE = 0.02  # events rarer than this (or than this much short of certain) are not normal enough to compare


def batch_means(x: np.ndarray, n_batches: int = BATCHES) -> np.ndarray:
    """Return the means of consecutive batches of draws, one row each."""
    length = len(x) // n_batches
    return np.asarray(x[-n_batches * length :], float).reshape(n_batches, length, -1).mean(axis=1)


def z_scores(x: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the deviation of each column's mean in standard errors of batch means."""
    means = batch_means(x)
    return (means.mean(axis=0) - expected) / (means.std(axis=0, ddof=1) / np.sqrt(len(means)))


def t_tests(x: np.ndarray, expected: np.ndarray) -> list[float]:
    """Return the p-value of each column of x having this expectation."""
    return list(2.0 * stats.t.sf(np.abs(z_scores(x, expected)), BATCHES - 1))


def hotelling(x: np.ndarray, expected: np.ndarray) -> float:
    """Return the p-value of all expectations by a chi-square test with the covariance of the batch means."""
    means = batch_means(x)
    n, d = means.shape
    off = means.mean(axis=0) - expected
    square = n * off @ np.linalg.solve(np.cov(means.T).reshape(d, d), off)
    return float(stats.f.sf(square * (n - d) / (d * (n - 1)), d, n - d))


def categories(drawn: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the p-value of categories `drawn` having these probabilities; rare ones are merged."""
    common = np.flatnonzero(probabilities >= 1.5 * RARE)
    columns = np.argsort(-probabilities[common])[:12]  # any others are merged into one more category
    columns = common[columns] if len(columns) < len(probabilities) else common[columns][:-1]
    return hotelling(drawn[:, None] == columns, probabilities[columns])


def events(happened: np.ndarray, probabilities: np.ndarray) -> list[float]:
    """Return the p-values of events (columns) having these probabilities, without nearly constant ones."""
    varied = (probabilities > RARE) & (probabilities < 1.0 - RARE)
    return t_tests(happened[:, varied], probabilities[varied]) if varied.any() else []


def effective_size(x: np.ndarray) -> np.ndarray:
    """Return the effective sample size of each column."""
    means = batch_means(x)
    moving = x.any(axis=0) & ~x.all(axis=0) if x.dtype == bool else x.var(axis=0) > 0.0
    length = len(x) // len(means)
    return len(x) * x[:, moving].var(axis=0) / (means[:, moving].var(axis=0, ddof=1) * length)


def bonferroni(p_values: list[float]) -> float:
    """Return the smallest p-value after Bonferroni correction."""
    return min(1.0, min(p_values) * len(p_values))
