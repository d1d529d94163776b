"""Random numbers and random labels against their slow twins and against their distributions.

Keys are fixed wherever a test is statistical: it always passes or always fails. Its threshold is such that a perfect
generator would fail for at most one key in a million (NEVER).
"""

from __future__ import annotations

import numpy as np
import pytest
import twins
import twins_sample
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from accams.kernels import sample
from accams.kernels.jit import readonly

NEVER = 1e-6
KEY = (0x1234_5678_9ABC_DEF1, 0x0FED_CBA9_8765_4321)
MANY = 200_000
WIDE = 2**64 - 59
words = st.integers(0, 2**63 - 1)


# -- uniform -------------------------------------------------------------------------------------------------


def uniforms(key0, key1, count=MANY):
    return np.fromiter((sample.uniform(key0, key1, i) for i in range(count)), np.float64, count)


def assert_uncorrelated(x, y) -> None:
    z = np.corrcoef(x, y)[0, 1] * np.sqrt(len(x))
    assert 2 * stats.norm.sf(abs(z)) > NEVER


@settings(deadline=None, max_examples=60)
@given(words, words, st.integers(0, 2**40))
def test_uniform_is_a_hash_of_key_and_counter(key0, key1, counter):
    assert sample.uniform(key0, key1, counter) == twins_sample.uniform(key0, key1, counter)


def test_words_of_64_bits_are_taken_whole():
    for key in ((WIDE, 3), (3, WIDE), (WIDE, WIDE - 1)):
        got = sample.uniform(np.uint64(key[0]), np.uint64(key[1]), 7)
        assert got == twins_sample.uniform(*key, 7)


def test_the_lowest_and_highest_uniform_are_not_0_and_1():
    """The hash can be undone, so the key that leads to any word is known."""
    assert sample.uniform(0, 0, 0) == 2.0**-53
    key = twins_sample.unmixed(twins_sample.unmixed(2**64 - 1))
    assert sample.uniform(np.uint64(key), np.uint64(0), 0) == 1 - 2.0**-53 < 1


def test_uniforms_are_uniform_and_not_serially_correlated():
    u = uniforms(*KEY)
    assert 0 < u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > NEVER
    for lag in (1, 2, 3, 7, 128):
        assert_uncorrelated(u[lag:], u[:-lag])
        assert_uncorrelated((u[lag:] - 0.5) ** 2, (u[:-lag] - 0.5) ** 2)


def test_neighbouring_keys_are_not_correlated():
    u = uniforms(*KEY)
    for key in ((KEY[0] + 1, KEY[1]), (KEY[0], KEY[1] + 1), (KEY[0] ^ 2**62, KEY[1]), (KEY[1], KEY[0])):
        v = uniforms(*key)
        assert (u != v).mean() > 0.999
        for lag in (0, 1):
            assert_uncorrelated(u[lag:], v[: MANY - lag])


def test_small_keys_are_as_good_as_any():
    u = np.array([sample.uniform(a, b, i) for a in range(20) for b in range(20) for i in range(20)])
    assert len(np.unique(u)) == len(u)
    assert stats.kstest(u, "uniform").pvalue > NEVER


# -- exponentials --------------------------------------------------------------------------------------------


def exponentials(x):
    out = np.array(x, dtype=np.float64)
    sample.exponentials(out, np.empty_like(out))
    return out


def one_by_one(x):
    return np.array([sample.exponential(each) for each in np.asarray(x, dtype=np.float64)])


both = pytest.mark.parametrize("function", [exponentials, one_by_one])


@both
def test_exponentials_to_ten_digits(function):
    rng = np.random.default_rng(0)
    halves = -np.log(2.0) * (np.arange(2000) / 2)
    x = np.concatenate([np.linspace(-700, 0, 30_001), -rng.exponential(1e-3, 5000), halves, halves - 1e-9])
    x = np.maximum(x, -700.0)
    np.testing.assert_allclose(function(x), np.exp(x), rtol=1e-10, atol=0)


@both
def test_exponentials_of_the_ends(function):
    assert (function([0.0, -0.0]) == 1.0).all()
    low = function([-700.0, np.nextafter(-700.0, -1e9), -701.0, -5000.0, -1e300, -np.inf])
    assert ((low >= 0) & (low < 1.1e-304)).all()


@pytest.mark.parametrize("size", [0, 1, 3, 128, 129])
def test_exponentials_of_any_number_of_numbers(size):
    x = np.linspace(-3, 0, size)
    np.testing.assert_allclose(exponentials(x), np.exp(x), rtol=1e-10)


# -- blocked -------------------------------------------------------------------------------------------------


def problem(m, k_own, k_other, seed=0):
    """Return n (with zeros), l, row weights, T and labels."""
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 6, (m, k_other))
    l = np.where(n > 0, rng.integers(-50, 50, (m, k_other)), 0)
    T = rng.integers(-9, 10, (k_own, k_other)).astype(np.float64)
    return n, l, rng.integers(1, 9, m).astype(np.int32), T, rng.integers(0, k_own, m).astype(np.uint8)


def check_blocked(lo, hi, n, l, row_weights, T, log_prior, precision, labels, key=KEY):
    """Draw the labels in place and compare all results with the twin's."""
    old = labels.copy()
    N, L, counts = np.ones(T.shape, np.int64), np.ones(T.shape, np.int64), np.ones(len(T), np.int64)
    read = map(readonly, (row_weights, T, log_prior))  # as engines pass them
    moved = sample.blocked(lo, hi, n, l, *read, precision, *key, 0, labels, N, L, counts)
    twin = twins_sample.blocked(lo, hi, n, l, row_weights, T, log_prior, precision, key, old)
    np.testing.assert_array_equal(labels, twin)
    assert moved == (old != twin).sum()
    sums = twins_sample.weighted(n, row_weights)[lo:hi], twins_sample.weighted(l, row_weights)[lo:hi]
    for got, expected in zip((N, L, counts), twins.block_tables(*sums, twin[lo:hi], len(T)), strict=True):
        np.testing.assert_array_equal(got - 1, expected)  # the kernel adds to the tables


@settings(deadline=None, max_examples=60)
@given(
    m=st.sampled_from([1, 2, 127, 128, 129, 256, 300]),
    k=st.tuples(st.integers(1, 20), st.integers(1, 6)),
    precision=st.sampled_from([1e-4, 1e-3, 1e-2]),
    seed=st.integers(0, 999),
    key=st.tuples(words, words),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    weighted=st.booleans(),
)
def test_blocked(m, k, precision, seed, key, cut, weighted):
    n, l, w, T, labels = problem(m, *k, seed)
    log_prior = np.log(np.random.default_rng(seed).dirichlet(np.ones(k[0])))
    lo, hi = sorted(round(c * m) for c in cut)
    check_blocked(lo, hi, n, l, w if weighted else None, T, log_prior, precision, labels, key)


def test_blocked_does_not_depend_on_ranges():
    n, l, w, T, labels = problem(300, 7, 4)
    whole, parts = labels.copy(), labels.copy()
    check_blocked(0, 300, n, l, w, T, np.zeros(7), 1e-3, whole)
    for lo, hi in ((200, 300), (0, 1), (1, 130), (130, 200)):
        check_blocked(lo, hi, n, l, w, T, np.zeros(7), 1e-3, parts)
    np.testing.assert_array_equal(whole, parts)
    assert len(np.unique(whole)) == 7


def test_blocked_with_many_labels():
    n, l, _, T, _ = problem(500, 300, 2)
    labels = np.zeros(500, np.uint16)
    check_blocked(0, 500, n, l, None, T, np.zeros(300), 1e-4, labels)
    assert labels.max() > 255


@pytest.mark.parametrize("precision", [1e2, 1e6, 1e12])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocked_picks_the_certain_label(precision, weighted):
    """Log probabilities differ by thousands or more, so that only the cheapest label has any probability."""
    n, l, w, T, labels = problem(400, 9, 3)
    cost = twins.costs(n, l, T, 1.0)
    certain = np.diff(np.sort(cost, axis=1)[:, :2]).ravel() >= 1
    check_blocked(0, 400, n, l, w if weighted else None, T, np.zeros(9), precision, labels)
    np.testing.assert_array_equal(labels[certain], np.argmin(cost, axis=1)[certain])
    assert certain.mean() > 0.9
    assert len(np.unique(labels[certain])) == 9


@pytest.mark.some(3)
@pytest.mark.parametrize("left", [[0], [3], [5], [1, 4], [0, 2, 5]])
@pytest.mark.parametrize("precision", [0.0, 1e-3])
def test_blocked_never_draws_a_label_without_prior(left, precision):
    n, l, _, T, labels = problem(3000, 6, 2)
    log_prior = np.full(6, -np.inf)
    log_prior[left] = -2000.0 * np.arange(len(left), dtype=np.float64) * (precision > 0)
    check_blocked(0, 3000, n, l, None, T, log_prior, precision, labels)
    assert np.isin(labels, left).all()
    assert precision > 0 or len(np.unique(labels)) == len(left)


def test_blocked_draws_with_the_probabilities_of_the_prior():
    p = np.array([0.5, 0.3, 0.15, 0.05])
    labels, n = np.zeros(20_000, np.uint8), np.zeros((20_000, 1), np.int64)
    check_blocked(0, 20_000, n, n, None, np.ones((4, 1)), np.log(p), 1.0, labels)
    assert stats.chisquare(np.bincount(labels), p * 20_000).pvalue > NEVER


# -- collapsed -----------------------------------------------------------------------------------------------

SIGMA2, TAU2 = 60.0, 20.0


def run_collapsed(first, n, l, row_weights, rule, labels, k):
    """Run the kernel on the tables of the present labels; return the next row, labels moved, N, L and counts."""
    weighted = twins_sample.weighted(n, row_weights), twins_sample.weighted(l, row_weights)
    tables = twins.block_tables(*weighted, labels, k)
    parameters = rule.kappa, rule.rho, rule.concentration, rule.crp, rule.growing
    row, moved = sample.collapsed(first, n, l, readonly(row_weights), *parameters, *rule.key, labels, *tables)
    for got, expected in zip(tables, twins.block_tables(*weighted, labels, k), strict=True):
        np.testing.assert_array_equal(got, expected)
    return row, moved, *tables


def check_collapsed(n, l, row_weights, labels, k, concentration, crp, sigma2=SIGMA2, tau2=TAU2, first=0, key=KEY):
    """Draw the labels in place and compare them with the twin's."""
    old = labels.copy()
    twin = twins_sample.collapsed(n, l, row_weights, sigma2, tau2, concentration, crp, key, old, k, first)
    rule = twins_sample.collapsed_rule(sigma2, tau2, concentration, crp, key)
    row, moved, *_ = run_collapsed(first, n, l, row_weights, rule, labels, k)
    np.testing.assert_array_equal(labels, twin)
    assert row == len(labels)
    assert moved == (old != twin).sum()


@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(1, 40),
    k=st.tuples(st.integers(1, 8), st.integers(1, 6)),
    seed=st.integers(0, 999),
    key=st.tuples(words, words),
    concentration=st.sampled_from([0.1, 1.0, 10.0]),
    tau2=st.sampled_from([1e-3, 1.0, 50.0]),
    crp=st.booleans(),
    weighted=st.booleans(),
)
def test_collapsed(m, k, seed, key, concentration, tau2, crp, weighted):
    n, l, w, _, labels = problem(m, *k, seed)
    sigma2 = SIGMA2 * (4 if weighted else 1)
    check_collapsed(n, l, w if weighted else None, labels, k[0], concentration, crp, sigma2, tau2, key=key)


crps = pytest.mark.parametrize("crp", [False, True])


@crps
def test_collapsed_of_many_rows(crp):
    n, l, w, _, labels = problem(250, 6, 5, seed=3)
    check_collapsed(n, l, w, labels, 6, 2.0, crp, sigma2=2000.0)
    assert len(np.unique(labels)) > 3


@crps
def test_collapsed_from_a_later_row_on(crp):
    n, l, _, _, labels = problem(50, 4, 3)
    before = labels.copy()
    check_collapsed(n, l, None, labels, 4, 1.0, crp, first=20)
    np.testing.assert_array_equal(labels[:20], before[:20])


@crps
def test_collapsed_where_rows_have_no_observations(crp):
    n, l, w, _, labels = problem(60, 5, 4)
    for x in (n, l):
        x[::3] = 0
        x[:, 2] = 0
    check_collapsed(n, l, w, labels, 5, 3.0, crp)


def test_collapsed_without_any_observations_draws_from_the_prior():
    nothing = np.zeros((200, 2), np.int64)
    labels = np.zeros(200, np.uint8)
    check_collapsed(nothing, nothing, None, labels, 30, 5.0, True)
    assert 5 < len(np.unique(labels)) < 30


@pytest.mark.parametrize("tau2", [1e2, 1e5, 1e20])
@crps
def test_collapsed_with_products_beyond_any_float(tau2, crp):
    """Two hundred denominators of more than a hundred each: their product is moved into the exponent several times."""
    n, l, w, _, labels = problem(60, 5, 200)
    assert (np.log10(1 + tau2 * n) * (n > 0)).sum(axis=1).min() > 250
    check_collapsed(n, l, w, labels, 5, 1.0, crp, 3e4, 3e4 * tau2)


def test_collapsed_with_many_blocks_is_still_random():
    """As above, with gains of clusters so close that labels are not certain."""
    rng = np.random.default_rng(0)
    n, labels = rng.integers(0, 2, (60, 200)), rng.integers(0, 3, 60).astype(np.uint8)
    l = n * rng.integers(-9, 10, n.shape)
    runs = []
    for key in ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 12)):
        runs.append(labels.copy())
        check_collapsed(n, l, None, runs[-1], 3, 1.0, False, 5.0, 5e3, key=key)
    assert 0.1 < (runs[0] != runs[1]).mean() < 0.95


@crps
def test_collapsed_picks_the_certain_label(crp):
    """Rows of very different sums, whose log probabilities differ by thousands: no NaN, and no mixing."""
    kinds = np.arange(60) % 3
    n = np.full((60, 4), 7)
    l = n * (1000 * np.array([[5, -5, 0, 9], [-9, 9, 9, -9], [0, 3, -8, 1]])[kinds])
    labels = kinds.astype(np.uint8)
    labels[30:] = 0
    check_collapsed(n, l, None, labels, 3, 1.0, crp, 1.0, 1e6)
    np.testing.assert_array_equal(labels, kinds)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 999), k=st.integers(1, 8), concentration=st.sampled_from([0.5, 5.0, 50.0]))
def test_collapsed_ends_when_all_clusters_are_occupied(seed, k, concentration):
    """It stops before the first row at which no empty cluster is left; up to there, more room makes no difference."""
    m, rng = 30, np.random.default_rng(seed)
    n, l, w, _, _ = problem(m, k, 3, seed)
    old = rng.choice(rng.permutation(k)[: max(k // 2, 1)], m).astype(np.uint8)  # any half of the clusters is empty
    with_room = twins_sample.collapsed(n, l, w, SIGMA2, TAU2, concentration, True, KEY, old, m + 1)
    mixtures = [np.concatenate([with_room[:i], old[i:]]) for i in range(m)]
    full = [i for i, labels in enumerate(mixtures) if set(range(k)) <= set(labels.tolist())]
    stop = full[0] if full else m
    labels, rule = old.copy(), twins_sample.collapsed_rule(SIGMA2, TAU2, concentration, True, KEY, growing=True)
    row, moved, *_ = run_collapsed(0, n, l, w, rule, labels, k)
    assert row == stop
    np.testing.assert_array_equal(labels, np.concatenate([with_room[:stop], old[stop:]]))
    assert moved == (labels != old).sum()


# -- gamma ---------------------------------------------------------------------------------------------------

SHAPES = [0.3, 0.9, 1.0, 2.5, 50.0, 5000.0]


@pytest.mark.some(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_has_its_distribution(shape):
    x = np.array([sample.gamma(shape, *KEY, i) for i in range(40_000)])
    assert stats.kstest(x, stats.gamma(shape).cdf).pvalue > NEVER
    assert_uncorrelated(x[1:], x[:-1])
    z = (x.mean() - shape) / np.sqrt(shape / len(x))
    assert 2 * stats.norm.sf(abs(z)) > NEVER


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(SHAPES), words, words, st.integers(0, 2**40))
def test_gamma_is_a_function_of_key_and_counter(shape, key0, key1, counter):
    twin = twins_sample.gamma(shape, key0, key1, counter)
    assert sample.gamma(shape, key0, key1, counter) == pytest.approx(twin, rel=1e-11)


def test_gamma_with_other_keys_or_counters_is_another():
    draws = [sample.gamma(0.7, a, b, c) for a in (1, 2) for b in (1, 2) for c in (1, 2, 3)]
    assert len(set(draws)) == 12


def test_precisions():
    rng = np.random.default_rng(0)
    squares, cells = rng.gamma(2.0, 100.0, 50), rng.integers(0, 30, 50)
    squares[cells == 0] = 0.0
    assert (cells == 0).any()
    whole, parts = np.full((2, 50), np.nan)
    sample.precisions(2, 48, squares, cells, 3.5, 0.02, *KEY, whole)
    for lo, hi in ((30, 48), (2, 3), (3, 30), (9, 9)):
        sample.precisions(lo, hi, squares, cells, 3.5, 0.02, *KEY, parts)
    np.testing.assert_array_equal(whole, parts)
    twin = twins_sample.precisions(squares, cells, 3.5, 0.02, KEY)
    np.testing.assert_allclose(whole[2:48], twin[2:48], rtol=1e-11)
    assert np.isnan(whole[[0, 1, 48, 49]]).all()


def test_precisions_have_their_distribution():
    out, m = np.empty(40_000), 40_000
    sample.precisions(0, m, np.full(m, 8.0), np.full(m, 7), 4.0, 0.25, *KEY, out)
    assert stats.kstest(out, stats.gamma(5.5, scale=1 / 3.0).cdf).pvalue > NEVER
