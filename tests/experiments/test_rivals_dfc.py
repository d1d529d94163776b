"""Divide, factor, combine against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest
from rivals_planted import error, planted

from rivals import ALS, DFC
from rivals.dfc import Product, columns_of, nystrom, projected, rows_of

pytestmark = pytest.mark.full  # `test_rivals_all` holds the essentials of every rival
BASE = ALS(rank=4, ridge=0.01, biases=False, centre=False, sweeps=60)


def products(*shapes, rank=2):
    random = np.random.default_rng(0)
    return [Product(random.normal(size=(m, rank)), random.normal(size=(n, rank))) for m, n in shapes]


@pytest.mark.parametrize("used", [1, 3])
def test_projection_is_that_of_whole_matrices(used):
    where = [np.array([0, 3, 5]), np.array([1, 6, 7]), np.array([2, 4])]
    found = products((6, 3), (6, 3), (6, 2))
    whole = np.zeros((6, 8))
    for part, cols in zip(found, where, strict=True):
        whole[:, cols] = part.left @ part.right.T
    spaces = [part.left @ part.right.T for part in found[:used]]
    twin = np.mean([C @ np.linalg.pinv(C) @ whole for C in spaces], axis=0)
    left, right = projected(found, where, used)
    np.testing.assert_allclose(left @ right.T, twin, atol=1e-12)


def test_nystrom_is_that_of_whole_matrices():
    rows = np.array([1, 4, 5])
    C, R = products((6, 4), (3, 8))
    dense_C, dense_R = C.left @ C.right.T, R.left @ R.right.T
    left, right = nystrom(C, R, rows)
    np.testing.assert_allclose(
        left @ right.T, dense_C @ np.linalg.pinv(dense_C[rows], rcond=1e-9) @ dense_R, atol=1e-10
    )


@pytest.mark.some(3)
@pytest.mark.parametrize("divide", ["rows", "cols"])
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("method", ["proj", "nys"])
def test_a_matrix_of_low_rank_is_recovered(method, ensemble, divide, threads):
    """Without noise, 19 cells in 20 observed: what biases leave of rank 2 has rank 4 at most."""
    train, test = planted(120, 105, rank=2, share=0.95, noise=0.0)
    fitted = DFC(3, method, ensemble, divide, BASE).fit(train, threads=threads)
    assert error(fitted, test) < 0.01
    pieces = {("proj", False): 3, ("proj", True): 3, ("nys", False): 2, ("nys", True): 6}
    assert len(fitted.part_seconds) == pieces[method, ensemble]
    assert fitted.parallel_seconds < fitted.serial_seconds
    assert fitted.n_bytes == 4 * ((3 if ensemble else 1) * 4 + 1) * 225


def test_one_part_is_the_base_itself(threads):
    train, test = planted(40, 30)
    base = ALS(rank=3, ridge=1.0, biases=False, centre=False)
    one = DFC(1, divide="cols", base=base).fit(train, threads=threads)
    bias = one.model.mean + one.model.row_bias[train.rows] + one.model.col_bias[train.cols]
    alone = base.fit(train._replace(values=train.values - bias), threads=threads)
    left = one.predict(*test[:2]) - one.model.mean - one.model.row_bias[test.rows] - one.model.col_bias[test.cols]
    np.testing.assert_allclose(left, alone.predict(*test[:2]), atol=1e-9)


def test_parts_keep_the_cells():
    train, _ = planted(12, 9)
    dense = np.zeros(train.shape)
    dense[train.rows, train.cols] = train.values
    for cut, part, which in ((columns_of, dense[:, [2, 5]], [2, 5]), (rows_of, dense[[7, 1]], [7, 1])):
        piece, again = cut(train, np.array(which)), np.zeros(part.shape)
        again[piece.rows, piece.cols] = piece.values
        assert piece.shape == part.shape
        assert np.array_equal(again, part)


def test_more_parts_than_columns_are_an_error(threads):
    with pytest.raises(ValueError, match="there must be 1 to 9"):
        DFC(10).fit(planted(12, 9)[0], threads=threads)
