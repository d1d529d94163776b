"""Sums over the observations of rows and of columns, beside products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from accams import Observations
from accams.kernels.jit import readonly
from accams.kernels.lines import add_by_col, add_by_row


@pytest.mark.parametrize("weighted", [False, True])
def test_they_are_products_of_the_matrix_of_weights(weighted: bool) -> None:
    random = np.random.default_rng(0)
    matrix = np.where(random.random((23, 17)) < 0.4, random.integers(1, 6, (23, 17)), np.nan)
    matrix[5], matrix[:, 3] = np.nan, np.nan  # a row and a column without observations
    observations = Observations.from_dense(matrix)
    weights = random.integers(1, 100, observations.nnz).astype(np.int32) if weighted else None
    full = np.zeros(matrix.shape)
    full[~np.isnan(matrix)] = 1 if weights is None else weights
    pattern = readonly(observations.row_starts), readonly(observations.cols), readonly(weights)
    for kernel, table in ((add_by_row, full), (add_by_col, full.T)):
        x, out, given = random.normal(size=table.shape[1]), *np.full((2, table.shape[0]), 7.0)
        for lo, hi in ((0, 9), (9, 9), (9, 23)):
            kernel(lo, hi, *pattern, x, out)
        np.testing.assert_allclose(out, given + table @ x, rtol=1e-13, atol=1e-12)
