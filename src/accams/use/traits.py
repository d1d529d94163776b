"""Which labels and effects the features of a row speak for: a ridge regression of those of known rows on their traits.

For one stencil, the indicators of its labels are regressed on the standardised traits of the rows that have ratings,
each row weighted by how much is known of it; what the regression says of a new row, cut off at nearly 0, is taken as
the probabilities of its labels. Since predictions are linear in these indicators, this is what a regression of the
predictions themselves would say. It is a label prior with covariates (a product partition model), learned afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from accams.model.codes import Codes
from accams.threads import SINGLE_BLAS

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
LEAST = 1e-3  # probability of a label
SMALLEST = 1e-9  # share of a row that the regression on all others leaves of it
MOST_LINES = 20_000  # rows that are regressed on; more are thinned evenly


@dataclass(frozen=True, eq=False)
class Regression:
    """The regression of anything on the traits of known rows.

    Attributes
    ----------
    traits : array (row, trait)
        Standardised traits of known rows.
    weights : array (row,)
        How much each row counts.
    penalty : float
    """

    traits: Floats
    weights: Floats
    penalty: float

    @cached_property
    def design(self) -> Floats:
        """Traits with a constant."""
        return with_constant(self.traits)

    @cached_property
    def solution(self) -> Floats:
        """What multiplies values of the known rows to make coefficients (trait, row)."""
        with SINGLE_BLAS:  # whose sums depend on the number of threads
            weighted = self.design * self.weights[:, None]
            gram = weighted.T @ self.design
            ridge = np.full(len(gram), self.penalty)
            ridge[0] = 1e-9 * max(float(self.weights.sum()), 1.0)
            return np.asarray(np.linalg.solve(gram + np.diag(ridge), weighted.T))

    def left_out_errors(self, values: Floats, penalties: Floats) -> Iterator[Floats]:
        """Yield for each penalty the values (row, target) less what the regression on all other rows says of them."""
        shares = self.weights / self.weights.sum()
        Z, y = self.traits - shares @ self.traits, values - shares @ values  # what the constant leaves of both
        with SINGLE_BLAS:
            sizes, vectors = np.linalg.eigh((Z * self.weights[:, None]).T @ Z)
            A = Z @ vectors
            sums = (A * self.weights[:, None]).T @ y
            for penalty in penalties:
                shrunk = 1.0 / (np.maximum(sizes, 0.0) + penalty)
                own = shares + self.weights * (np.square(A) @ shrunk)
                yield (y - A @ (sums * shrunk[:, None])) / np.maximum(1.0 - own, SMALLEST)[:, None]


def with_constant(traits: Floats) -> Floats:
    return np.hstack([np.ones((len(traits), 1)), traits])


@dataclass(frozen=True, eq=False)
class LabelPriors:
    """Probabilities of the labels of new rows in each of several sums, and their expected effects.

    Attributes
    ----------
    regression : Regression
    rows : positions
        The known rows that it regresses on.
    traits : array (new row, trait)
        NaN in a row of which nothing is known: its labels have the frequencies of all.
    """

    regression: Regression
    rows: Positions
    traits: Floats

    def take(self, lines: slice) -> "LabelPriors":
        """Return the priors of some of the new rows."""
        return LabelPriors(self.regression, self.rows, self.traits[lines])

    def logs(self, codes: Codes, frequencies: Floats) -> Floats:
        """Return log probabilities (new row, label), laid out as `frequencies`, which are those without features."""
        heights = codes.heights
        shares = self.shares(codes, heights)
        known = np.asarray(np.isfinite(self.traits).all(axis=1))
        logs = np.where(known[:, None], np.log(np.maximum(shares, LEAST)), frequencies)
        logs[:, np.cumsum(heights) - 1] = -np.inf  # the average row is no label
        return np.asarray(logs)

    def effects(self, codes: Codes) -> Floats:
        """Return what the regression says of the effects of new rows: 0 where nothing is known, as on average."""
        if codes.row_effects is None:
            return np.zeros(len(self.traits))
        with SINGLE_BLAS:
            coefficients = self.regression.solution @ codes.row_effects[self.rows].astype(np.float64)
            expected = with_constant(np.nan_to_num(self.traits)) @ coefficients
        return np.where(np.isfinite(self.traits).all(axis=1), expected, 0.0)

    def shares(self, codes: Codes, heights: Positions) -> Floats:
        """Return what the regression says of the labels of all stencils side by side."""
        first, labels = np.cumsum(heights) - heights, codes.rows[self.rows].astype(np.int64)
        places = (labels + first).ravel()
        starts = np.arange(len(self.rows) + 1) * labels.shape[1]
        ones = csr_array((np.ones(len(places)), places, starts), shape=(len(self.rows), int(heights.sum())))
        coefficients = (ones.T @ self.regression.solution.T).T
        with SINGLE_BLAS:
            return np.asarray(with_constant(np.nan_to_num(self.traits)) @ coefficients)
