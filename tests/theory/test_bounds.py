"""The approximation theorem on random and real matrices, and the counterexample to the paper's spectral argument."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accams import theory
from accams.data import datasets
from accams.errors import InputError
from accams.theory.cover import block_means

CLUSTERS = (1, 2, 3, 5, 9, 17, 40)


def spectral(M: np.ndarray) -> float:
    return float(np.linalg.norm(M, 2))


def matrices() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    decaying = np.linalg.qr(rng.normal(size=(30, 30)))[0] * 0.5 ** np.arange(30) @ rng.normal(size=(30, 24))
    return [
        rng.normal(size=(40, 25)),
        np.outer(rng.normal(size=33), rng.normal(size=12)),
        decaying,
        rng.normal(size=(20, 3)) @ rng.normal(size=(3, 50)),
        np.eye(16),
        np.ones((7, 9)),
        np.zeros((4, 6)),
        rng.integers(0, 2, size=(18, 18)).astype(float),
    ]


def check(M: np.ndarray, n_clusters: int | tuple[int, int]) -> None:
    """Check all bounds for one matrix and one number of clusters."""
    slack = 1 + 1e-6  # templates are kept as 32-bit floats
    small = 1e-6 * np.abs(M).max()
    centres = theory.cover_stencil(M, n_clusters)
    off = np.abs(M - centres.model.dense()).max()
    assert off <= centres.guarantee * slack + small
    assert off <= 2 * theory.approximation_bound(M, n_clusters) * slack + small
    means = theory.cover_stencil(M, n_clusters, "means")
    rest = M - means.model.dense()
    assert np.abs(rest).max() <= means.guarantee * slack + small
    assert np.abs(rest).max() <= 2 * theory.approximation_bound(M, n_clusters, template="means") * slack + small
    assert spectral(rest) <= 2 * theory.approximation_bound(M, n_clusters, "spectral") * slack + small
    assert np.square(rest).sum() <= np.square(M - centres.model.dense()).sum() * slack + small**2


@pytest.mark.parametrize("n_clusters", [*CLUSTERS, (2, 5), (9, 1)])
@pytest.mark.parametrize("which", range(8))
def test_the_bounds_hold(which: int, n_clusters: int | tuple[int, int]) -> None:
    check(matrices()[which], n_clusters)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31), st.floats(0.0, 3.0))
def test_the_bounds_hold_for_any_matrix(m: int, n: int, clusters: int, seed: int, decay: float) -> None:
    rng = np.random.default_rng(seed)
    check(rng.normal(size=(m, n)) * np.exp(-decay * np.arange(n)), clusters)


@pytest.mark.data
@pytest.mark.full
def test_the_bounds_hold_for_faces(real_data: Path) -> None:
    observations = datasets.faces(real_data).observations
    some = observations.values.reshape(observations.shape)[::4, ::64].astype(np.float64)
    for n_clusters in (1, 8, 64):
        check(some, n_clusters)


def test_enough_clusters_leave_nothing() -> None:
    M = matrices()[0]
    assert np.abs(M - theory.cover_stencil(M, 40).model.dense()).max() < 1e-5


def test_means_are_block_means() -> None:
    M, rng = matrices()[0], np.random.default_rng(1)
    rows, cols = rng.permutation(np.arange(40) % 4), rng.permutation(np.arange(25) % 3)
    expected = [[M[np.ix_(rows == a, cols == b)].mean() for b in range(3)] for a in range(4)]
    np.testing.assert_allclose(block_means(M, rows, cols), expected)


def test_the_counterexample_to_the_spectral_argument() -> None:
    """A spike, two clusters a side: centres at 1/2 and -1/2 are the best cover, yet the error is far above."""
    n = 2000
    M = np.zeros((n, n))
    M[0, 0] = 1.0
    Q = M[:, :1]  # of rank one: both factors are the first unit vector, in the interval from -1 to 1
    radius = np.abs(Q - 0.5).max()  # all rows are in the ball around 1/2
    assert radius == theory.entropy_number([1.0], 2, "lower")  # in one dimension that is the radius itself
    paper = 2 * np.sqrt(n) * radius  # (sqrt(m) + sqrt(n)) |M|^(1/2) times the radius
    one = np.full(n, n**-0.5)
    error = abs(one @ (M - 0.25) @ one)  # the spectral norm is at least that
    assert paper == pytest.approx(44.7, abs=0.05)
    assert error == pytest.approx(500, abs=1)
    assert np.linalg.norm(M - M.mean()) <= 1.0  # with means the same clusters keep the bound
    with pytest.raises(InputError, match="means"):
        theory.approximation_bound(M[:5, :5], 1, "spectral", template="centres")


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 7, 20])
def test_constants_of_rank_one(n_clusters: int) -> None:
    """In one dimension the entropy number is its lower bound, so constants show: 2 for centres, 4 for means."""
    rng = np.random.default_rng(n_clusters)
    q, r = rng.uniform(-1, 1, size=200), rng.uniform(-1, 1, size=150)
    q[0], r[0] = 1.0, 1.0  # reach the ends of the interval
    edges = np.linspace(-1, 1, n_clusters + 1)
    radius = theory.entropy_number([1.0], n_clusters, "lower")

    def clustered(x: np.ndarray, means: bool) -> np.ndarray:
        label = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, n_clusters - 1)
        if not means:
            return (edges[label] + edges[label + 1]) / 2
        return np.array([x[label == each].mean() for each in label])

    def error(means: bool) -> float:
        return float(np.abs(np.outer(q, r) - np.outer(clustered(q, means), clustered(r, means))).max())

    assert error(means=False) <= 2 * radius
    assert error(means=True) <= 4 * radius


def test_means_in_the_maximum_norm_need_more_than_centres() -> None:
    """One cluster: nearly all rows and columns at 1, one of each at -1. The ball around 0 has radius 1."""
    x = np.r_[np.ones(99), -1.0]
    error = np.abs(np.outer(x, np.r_[x[:-1], 1.0]) - x.mean()).max()
    assert error > 1.9  # a row is nearly as far from its mean as the ball is wide; with centres, 1


def test_singular_values_are_enough() -> None:
    M = matrices()[2]
    s = np.linalg.svd(M, compute_uv=False)
    assert theory.approximation_bound(s, 7) == pytest.approx(theory.approximation_bound(M, 7))
    whole = theory.approximation_bound(M, 7, "spectral")
    assert theory.approximation_bound(s, 7, "spectral", shape=M.shape) == pytest.approx(whole)
    with pytest.raises(InputError, match="shape="):
        theory.approximation_bound(s, 7, "spectral")


@given(st.integers(1, 6), st.integers(1, 10**6), st.integers(0, 2**31))
def test_the_rank_alone_promises_less(rank: int, clusters: int, seed: int) -> None:
    s = np.random.default_rng(seed).uniform(0.01, 5.0, size=rank)
    assert theory.approximation_bound(s, clusters) <= theory.rank_bound(s.max(), rank, clusters) * (1 + 1e-9)
    equal = np.full(rank, s.max())
    assert theory.approximation_bound(equal, clusters) == pytest.approx(theory.rank_bound(s.max(), rank, clusters))


def test_what_is_vacuous() -> None:
    M = np.outer(np.ones(10), np.arange(1.0, 4.0))
    few, many = theory.approximation_bound(M, 10), theory.approximation_bound(M, 1000)
    assert few.trivial == 3.0
    assert few.vacuous
    assert "vacuous" in repr(few)
    assert not many.vacuous
    assert repr(many) == f"{float(many):.6g}"
    assert theory.approximation_bound([1.0] * 3, 12**3 - 1).vacuous  # more than 12^d clusters are needed
    assert not theory.approximation_bound([1.0] * 3, 12**3 + 1).vacuous
    assert not theory.approximation_bound(np.eye(1) * 2, 1000, "spectral").vacuous


@given(st.floats(0.0, 100.0), st.floats(0.01, 10.0), st.integers(0, 2**31))
def test_the_storage_lemma(largest: float, error: float, seed: int) -> None:
    """The centre of an entry's cell is within the error."""
    T = np.random.default_rng(seed).uniform(-largest, largest, size=(5, 4))
    bits = theory.storage_bits((100, 60), (5, 4), largest, error)
    cells = round(2 ** ((bits - 100 * np.log2(5) - 60 * 2) / 20))
    width = 2 * largest / cells
    number = np.clip(np.floor((T + largest) / width if width else 0 * T), 0, cells - 1)
    assert np.abs(number * width + width / 2 - largest - T).max() <= error * (1 + 1e-6)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: theory.approximation_bound(np.full((2, 2), np.nan), 2), "no missing or infinite"),
        (lambda: theory.approximation_bound(np.zeros((0, 3)), 2), "non-empty 2-d array"),
        (lambda: theory.approximation_bound(np.eye(2), 2, "frobenius"), "'max' or 'spectral'"),  # type: ignore[arg-type]
        (lambda: theory.approximation_bound(np.eye(2), 2, template="medians"), "'centres' or 'means'"),  # type: ignore[arg-type]
        (lambda: theory.approximation_bound(np.eye(2), 0), "n_clusters must be at least 1"),
        (lambda: theory.cover_stencil(np.eye(2), 0), "n_clusters must be at least 1"),
        (lambda: theory.cover_stencil(np.eye(2), 2, "medians"), "'centres' or 'means'"),  # type: ignore[arg-type]
        (lambda: theory.greedy_cover([1.0, 2.0], 1), "non-empty 2-d array"),
        (lambda: theory.rank_bound(1.0, 0, 3), "at least 1"),
        (lambda: theory.storage_bits((2, 2), (2, 2), 1.0, 0.0), "above 0"),
    ],
)
def test_bad_input(call: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        call()  # type: ignore[operator]
