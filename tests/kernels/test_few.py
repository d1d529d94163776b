"""Gathering and drawing in one pass, against the two passes that it stands for."""

from typing import Any

import numpy as np
import pytest

from accams.kernels import few, sample, sparse
from accams.kernels.jit import readonly


def observations(random: np.random.Generator, m: int, n: int, most: int) -> tuple[Any, Any, Any]:
    counts = random.integers(0, most + 1, m)
    starts = np.concatenate([[0], np.cumsum(counts)])
    index = np.concatenate([np.zeros(0, int), *(np.sort(random.choice(n, c, replace=False)) for c in counts)])
    return starts, index.astype(np.uint16), random.integers(-(1 << 20), 1 << 20, starts[-1]).astype(np.int32)


@pytest.mark.parametrize(
    ("shifts", "weighted", "heavy"),
    [
        (2, False, "own"),
        (1, False, "partners"),
        (2, True, ""),
        *(pytest.param(*x, marks=pytest.mark.full) for x in ((0, False, ""), (1, True, "own"), (1, True, "both"))),
    ],
)
def test_one_pass_is_two(shifts: int, weighted: bool, heavy: str) -> None:
    """Labels, tables and residuals are equal, to the bit; some rows have nothing, some meet a cluster twice.

    Weights are those of observations, of rows (`own`), and of columns where these are the rows of the matrix.
    """
    for most in (0, 2, 30):
        compare(shifts, weighted, heavy, most)


def compare(shifts: int, weighted: bool, heavy: str, most: int) -> None:
    random = np.random.default_rng([shifts, weighted, *heavy.encode(), most])
    m, n, k_own, k_other = 700, 40, 7, 9
    starts, index, resid = observations(random, m, n, most)
    weights = random.integers(1, 50, len(index)).astype(np.int32) if weighted else None
    own_weights, partners = (
        random.integers(1 << 8, 1 << 12, size).astype(np.int32) if heavy in (name, "both") else None
        for name, size in (("own", m), ("partners", n))
    )
    starts, index, weights, own_weights, partners = map(readonly, (starts, index, weights, own_weights, partners))
    partner_labels = random.integers(k_other, size=n).astype(np.uint8)
    own, others = random.integers(4, size=(2, m)).astype(np.uint8), random.integers(5, size=(2, n)).astype(np.uint8)
    tables = random.integers(-(1 << 18), 1 << 18, (2, 4, 5)).astype(np.int32)
    shifted = [x for p in range(2) for x in ((own[p], tables[p]) if p < shifts else (None, None))]
    codes: Any = partner_labels
    if shifts:
        codes = np.empty(n, np.uint32)
        sparse.pack(others[0], others[1] if shifts == 2 else None, partner_labels, codes)
    T = readonly(random.normal(0, 1 << 18, (k_own, k_other)))
    log_prior = readonly(np.log(random.dirichlet(np.ones(k_own))))
    unit = (1.0 if own_weights is None else 2.0**-10) * (1.0 if partners is None else 2.0**-10)
    precision, key = unit * 2.0**-36, (12345, 678)

    def fresh() -> tuple[Any, ...]:
        labels = np.random.default_rng(9).integers(k_own, size=m).astype(np.uint8)
        return labels, *(np.zeros((k_own, k_other), np.int64) for _ in range(2)), np.zeros(k_own, np.int64)

    twice, once, residuals = fresh(), fresh(), (resid.copy(), resid.copy())
    sums = np.zeros((2, m, k_other), np.int64)
    sparse.gather(0, m, starts, index, residuals[0], weights, partners, *shifted, codes, *sums)
    moved = sample.blocked(0, m, *sums, own_weights, T, log_prior, precision, *key, 5, *twice)
    head = starts, index, residuals[1], weights, partners, *shifted, codes, own_weights
    rest = readonly(np.ascontiguousarray(T.T)), log_prior, precision, *key, 5
    pieces = [few.draw(lo, hi, *head, *rest, *once) for lo, hi in ((0, 3), (3, 500), (500, m))]
    assert sum(pieces) == moved > 0
    np.testing.assert_array_equal(*residuals)
    for one, two in zip(once, twice, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not most or len(np.unique(once[0])) == k_own
