"""Labels drawn by a state, against twins on the full matrices."""

from __future__ import annotations

import numpy as np
import pytest
import twins
import twins_sample
from twins_sample import assert_tables, brute_sums, busy, own_first

from accams.data.observations import Observations
from accams.engine.labelling import MOST_CLUSTERS
from accams.engine.rules import Blocked, RowNoise
from accams.threads import Threads

KEY = (2**62 + 12345, 2**61 + 678)
WEIGHTED = [(e, k, True) for e, k in twins.ALL if e != "graph"]
cases = pytest.mark.parametrize(("name", "kind", "row_weights"), [(e, k, False) for e, k in twins.ALL] + WEIGHTED)
axes = pytest.mark.parametrize("axis", [0, 1])
crps = pytest.mark.parametrize("crp", [False, True])


def blocked_rule(state, axis, seed=0, sigma2=1.0, key=KEY) -> Blocked:
    """A rule whose probabilities are neither equal nor certain."""
    rng, k = np.random.default_rng(seed), state.k[axis]
    T = rng.integers(-(2**20), 2**20, state.k).astype(np.int32)
    return Blocked(T, np.log(rng.dirichlet(np.ones(k))), 1 / twins_sample.sigma2_in_ticks(state, sigma2), key)


def collapsed_rule(state, concentration, crp, growing=False, tau2=0.3, key=KEY):
    sigma2 = twins_sample.sigma2_in_ticks(state, 1.0)
    tau2 = tau2 / state.engine.grid.step**2
    return twins_sample.collapsed_rule(sigma2, tau2, concentration, crp, key, growing)


def twin_blocked(state, data, axis, rule):
    n, l = brute_sums(state, data, axis)
    T = own_first(rule.T, axis).astype(np.float64)
    return twins_sample.blocked(0, len(n), n, l, None, T, rule.log_prior, rule.precision, rule.key, state.labels[axis])


def twin_collapsed(state, data, axis, rule, k=None):
    n, l = brute_sums(state, data, axis)
    sigma2 = rule.kappa / (2 * rule.rho)
    how = sigma2, rule.kappa * sigma2, rule.concentration, rule.crp, rule.key
    return twins_sample.collapsed(n, l, None, *how, state.labels[axis].astype(int), k or state.k[axis])


# -- labels --------------------------------------------------------------------------------------------------


@pytest.mark.some(40)
@cases
@axes
@pytest.mark.parametrize("cached", [False, True])
def test_blocked(name, kind, row_weights, axis, cached):
    state, data = busy(name, kind, row_weights)
    if cached:
        state.sums(0), state.sums(1)  # those of the other axis must be recomputed
    for seed in range(2):
        rule, old = blocked_rule(state, axis, seed, key=(KEY[0] + seed, KEY[1])), state.labels[axis].copy()
        expected = twin_blocked(state, data, axis, rule)
        tables = state.update(axis, rule)
        np.testing.assert_array_equal(state.labels[axis], expected)
        assert tables.moved == (old != expected).sum() > 0
        assert_tables(tables, state, data, axis)


def test_blocked_leaves_empty_clusters_empty():
    """Only the rule that never lets the error rise fills them."""
    state, data = busy("cpu", "missing")
    T, log_prior = np.zeros(state.k, np.int32), np.array([0.0, -np.inf, 0.0])
    tables = state.update(0, Blocked(T, log_prior, 1.0, KEY))
    assert tables.counts[1] == 0
    assert_tables(tables, state, data, 0)


@pytest.mark.some(40)
@cases
@axes
@crps
def test_collapsed(name, kind, row_weights, axis, crp):
    state, data = busy(name, kind, row_weights)
    state.sums(0), state.sums(1)
    rule, old = collapsed_rule(state, 1.5, crp), state.labels[axis].copy()
    expected = twin_collapsed(state, data, axis, rule)
    tables = state.update(axis, rule)
    np.testing.assert_array_equal(state.labels[axis], expected)
    assert tables.moved == (old != expected).sum() > 0
    assert_tables(tables, state, data, axis)


@axes
@pytest.mark.parametrize("name", ["cpu", "dense"])
def test_a_row_without_observations(name, axis):
    """Its label is drawn from the prior."""
    data = twins_sample.with_gaps()
    state = data.engine(name).new_state()
    state.begin(0, (4, 3))
    twins_sample.randomise(state, np.random.default_rng(0))
    for rule, twin in ((collapsed_rule(state, 2.0, True), twin_collapsed), (blocked_rule(state, axis), twin_blocked)):
        expected = twin(state, data, axis, rule)
        assert_tables(state.update(axis, rule), state, data, axis)
        np.testing.assert_array_equal(state.labels[axis], expected)


# -- growing -------------------------------------------------------------------------------------------------


def grown(name, kind, row_weights, axis, concentration, key=KEY):
    """A state with one cluster along `axis`, and that state after an update without a bound; the twin's labels."""
    state, data = busy(name, kind, row_weights, shape=(53, 37))
    state.end(np.zeros(state.k, np.int32))
    k = (1, 3) if axis == 0 else (3, 1)
    state.begin(3, k)
    state.set_labels(1 - axis, np.arange(state.shape[1 - axis]) % 3)
    state.sums(0), state.sums(1)
    rule = collapsed_rule(state, concentration, True, growing=True, key=key)
    with_room = twin_collapsed(state, data, axis, rule, k=state.shape[axis] + 1)
    return state, data, rule, with_room, state.update(axis, rule)


@pytest.mark.some(5)
@pytest.mark.parametrize(
    ("name", "kind", "row_weights"),
    [("cpu", "missing weighted", True), ("dense", "complete", False), ("graph", "graph light", False)],
)
@axes
@pytest.mark.parametrize("concentration", [0.5, 5.0, 500.0])
def test_growing_is_the_same_as_room_from_the_start(name, kind, row_weights, axis, concentration):
    state, data, rule, with_room, tables = grown(name, kind, row_weights, axis, concentration)
    used, compact = np.unique(with_room, return_inverse=True)
    np.testing.assert_array_equal(state.labels[axis], compact)
    assert state.k[axis] == len(used) == len(tables.counts)
    assert tables.counts.min() > 0
    assert tables.moved == (with_room != 0).sum()
    assert_tables(tables, state, data, axis)
    second = twin_collapsed(state, data, axis, rule, k=state.shape[axis] + 1)  # from more than one cluster
    assert_tables(state.update(axis, rule), state, data, axis)
    np.testing.assert_array_equal(state.labels[axis], np.unique(second, return_inverse=True)[1])


def test_growing_grows_more_than_once():
    state, *_ = grown("cpu", "missing", False, 0, 500.0)
    assert state.k[0] > 32


@axes
def test_a_grown_stencil_can_be_ended_and_begun_again(axis):
    state, data, rule, *_ = grown("cpu", "missing", False, axis, 5.0)
    T = np.random.default_rng(0).integers(-999, 999, state.k).astype(np.int32)
    state.end(T)
    k = state.k
    state.begin(0)
    state.end(state.templates[0])
    state.begin(3)
    assert state.k == k == T.shape
    assert_tables(state.update(axis, rule), state, data, axis)


def test_growing_ends_at_the_most_that_a_label_can_name():
    """With a huge concentration every row wants a cluster of its own; the last ones join others."""
    m = 300
    X = np.random.default_rng(0).integers(-6, 7, (m, 2)) / 2
    data = twins.Case(Observations.from_dense(X), X, np.ones(X.shape))
    state = data.engine("cpu").new_state()
    state.begin(0, (1, 2))
    state.set_labels(1, np.arange(2))
    rule = collapsed_rule(state, 1e6, True, growing=True)
    expected = twin_collapsed(state, data, 0, rule, k=MOST_CLUSTERS)
    tables = state.update(0, rule)
    assert state.k[0] == MOST_CLUSTERS == len(tables.counts)
    np.testing.assert_array_equal(state.labels[0], expected)
    assert_tables(tables, state, data, 0)


def test_growing_that_moves_nothing_but_drops_empty_clusters():
    """Sums of the other axis must not have columns for clusters that no longer exist."""
    kinds = np.arange(12) % 2
    X = np.where(kinds == 0, 5.0, -5.0)[:, None] * np.ones((12, 6))
    state = twins.Case(Observations.from_dense(X), X, np.ones(X.shape)).engine("cpu").new_state()
    state.begin(0, (4, 2))
    state.set_labels(0, 2 * kinds)
    state.set_labels(1, np.arange(6) % 2)
    state.sums(1)
    assert state.update(0, collapsed_rule(state, 1e-9, True, growing=True, tau2=1e3)).moved == 0
    assert state.k == (2, 2)
    assert state.sums(1)[0].shape == (6, 2)


# -- threads -------------------------------------------------------------------------------------------------


def a_sweep(name, kind, row_weights, threads):
    """Return all results of some updates of every kind."""
    state, _ = busy(name, kind, row_weights, threads, shape=(61, 47))
    out = []
    rules = [(axis, blocked_rule(state, axis, seed)) for seed, axis in enumerate((0, 1, 0, 0, 1, 1))]
    rules += [(1, collapsed_rule(state, 1.0, False)), (0, collapsed_rule(state, 3.0, True, growing=True))]
    for axis, rule in rules:
        tables = state.update(axis, rule)
        out += [state.labels[axis].copy(), tables.N, tables.L, tables.counts, tables.moved]
    state.end(np.zeros(state.k, np.int32))
    if row_weights:
        state.draw_row_weights(RowNoise(4.0, 0.7, KEY, normalise=True))
        out += [state.row_weights.copy(), state.squared_error(row_weighted=True)]
    state.engine.close()
    return out


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("name", "kind", "row_weights"),
    [
        ("cpu", "missing weighted", True),
        ("cpu", "missing", False),
        ("dense", "complete", True),
        ("dense", "missing", True),
        ("graph", "graph light weighted", False),
    ],
)
def test_threads_and_chunks_do_not_matter(name, kind, row_weights):
    alone = a_sweep(name, kind, row_weights, Threads(1))
    for threads in (Threads(2), Threads(3), *(Threads(n, chunk) for n in (1, 2, 3) for chunk in (1, 7))):
        for one, other in zip(alone, a_sweep(name, kind, row_weights, threads), strict=True):
            np.testing.assert_array_equal(one, other)
