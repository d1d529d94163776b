"""Visits of the `graph` engine in one call, against the same visits update by update."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from accams import BayesianACCAMS, Schedule
from accams.data.observations import Observations
from accams.engine import graph
from accams.engine.choose import make_engine
from accams.engine.graph import GraphState
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters


def likes(shape=(70, 50), seed=0, values=None, **how) -> Observations:
    random = np.random.default_rng(seed)
    X = (random.random(shape) < 0.2).astype(float)
    if values is not None:
        X *= random.choice(values, shape)
    return Observations.from_sparse(sparse.csr_array(X), zeros="observed", **how)


def fitted(obs: Observations, n_threads: int, **how):
    """Two chains at once, each on one thread, or one after the other."""
    return BayesianACCAMS(noise="sampled", n_chains=2, n_sweeps=6, n_threads=n_threads, random_state=3, **how).fit(obs)


@pytest.mark.parametrize(
    ("n_clusters", "n_sub", "at_once"),
    [(5, (1,), 16), (5, (1,), 3), ((3, 4), (3, 2, 1), 16), ((1, 4), (1,), 16)],
)
def test_visits_in_one_call_draw_the_same(n_clusters, n_sub, at_once, monkeypatch):
    """Also with several updates a visit and several calls a sweep; an axis without updates is left to the other way."""
    obs, taken = likes(zero_weight=0.3), list[bool]()
    monkeypatch.setattr(graph, "AT_ONCE", at_once)
    rule = GraphState._in_one_call
    monkeypatch.setattr(GraphState, "_in_one_call", lambda state, k: taken.append(rule(state, k)) or taken[-1])
    how = {"n_stencils": 4, "n_clusters": n_clusters, "schedule": Schedule(n_sub=n_sub, n_burn_in=2)}
    one, before = fitted(obs, 2, **how), len(taken)
    other = fitted(obs, 1, **how)
    assert before > 0
    assert set(taken[:before]) == {n_clusters != (1, 4)}
    assert set(taken[before:]) == {False}
    rows, cols = (x.ravel() for x in np.indices(obs.shape))
    pairs = np.column_stack([rows, cols])
    np.testing.assert_array_equal(one.predict(pairs), other.predict(pairs))
    np.testing.assert_array_equal(one.predict(pairs, return_std=True)[1], other.predict(pairs, return_std=True)[1])


@pytest.mark.parametrize(
    ("values", "how"), [((1.0, 2.0), {}), (None, {"zero_weight": 1.0}), (None, {"zero_weight": 0.5})]
)
def test_only_equal_values_of_another_weight_are_taken_in_one_call(values, how):
    obs = likes(values=values, **how)
    for callers in (1, 2):
        state = make_engine(obs, "graph", 4, 1, callers=callers).new_state()
        state.begin(0, (2, 2))
        assert state._in_one_call((2, 2)) == (callers > 1 and values is None and how["zero_weight"] != 1.0)


def chain_of(obs: Observations, callers: int, shapes=((3, 2),) * 4) -> Chain:
    state = make_engine(obs, "graph", len(shapes), 1, callers=callers).new_state()
    n = len(shapes)
    return Chain(state, Hyperparameters(shapes, [1.0] * n, [1.0] * n, tau2=[0.1] * n), 0, 0.2)


def content(state: GraphState) -> list:
    return [state.squared_error(), *map(bytes, state.row_labels), *map(bytes, state.col_labels)]


@pytest.mark.parametrize(("shapes", "at_once"), [(((3, 2),) * 4, 16), (((3, 2), (2, 3)), 1), (((3, 2), (1, 1)), 1)])
def test_visits_are_made_together_where_stencils_have_one_shape(shapes, at_once):
    states = []
    for callers in (1, 2):
        chain = chain_of(likes(zero_weight=0.3), callers, shapes)
        for _ in range(4):
            chain.run_sweep()
        state = chain.state
        assert state.visits_at_once == (at_once if callers == 2 else 1)
        states.append(content(state))
    assert states[0] == states[1]


@pytest.mark.full  # to compile them takes minutes
@pytest.mark.parametrize("shapes", [((300, 300), (3, 2), (4, 3)), ((3, 2), (300, 300)), ((300, 2), (3, 2))])
def test_labels_of_one_and_of_two_bytes(shapes):
    states = []
    for callers in (1, 2):
        chain = chain_of(likes((400, 350), zero_weight=0.3), callers, shapes)
        for _ in range(2):
            chain.run_sweep()
        state = chain.state
        states.append(content(state))
    assert states[0] == states[1]


def test_wide_matrices_are_summed_along_the_columns(monkeypatch):
    state = make_engine(likes(zero_weight=0.3), "graph", 4, 1, callers=2).new_state()
    assert state._in_one_call((3, 2))
    monkeypatch.setattr(graph, "MOST_SCATTERED", 3 * state.shape[1] - 1)
    assert not state._in_one_call((3, 2))


def test_the_column_order_follows_when_it_is_asked_for():
    """Visits in one call leave the residual by columns as it was: passes along them make it anew from that by rows."""
    sums = []
    for callers in (1, 2):
        chain = chain_of(likes(zero_weight=0.3), callers)
        chain.run_sweep()
        chain.run_sweep()
        state = chain.state
        state.begin(2)
        taken_out = [x.copy() for axis in (1, 0) for x in state.sums(axis)]
        lines = state.lines(1, np.array([0, 7]))
        costs = state.table_costs(1, np.arange(state.shape[0] * 2.0).reshape(-1, 2))
        state.end(state.templates[2])
        chain.run_sweep()
        state.begin(0)
        sums.append([*taken_out, lines, costs, *state.sums(1)])
    for one, other in zip(*sums, strict=True):
        np.testing.assert_array_equal(one, other)


def test_labels_may_be_set_before_a_visit():
    """Then the stencil that is taken out has other labels than the visit begins with."""
    states = []
    for callers in (1, 2):
        chain = chain_of(likes(zero_weight=0.3), callers)
        chain.run_sweep()
        state = chain.state
        state.begin(1)
        state.set_labels(1, np.arange(state.shape[1]) % 2)
        state.visit(chain._blocked_visit(state.templates[1], 1, np.random.default_rng(0)))
        states.append((state.squared_error(), bytes(state.row_labels[1]), bytes(state.col_labels[1])))
    assert states[0] == states[1]


def test_the_error_may_be_asked_for_before_a_visit():
    errors = []
    for callers in (1, 2):
        chain = chain_of(likes(zero_weight=0.3), callers)
        chain.run_sweep()
        state = chain.state
        state.begin(1)
        taken_out = state.squared_error()
        rule = chain._blocked_visit(state.templates[1], 1, np.random.default_rng(0))
        state.visit(rule)
        visited = state.visited()[0]
        errors.append((taken_out, state.squared_error(), visited.gain, visited.moved, *map(tuple, visited.counts)))
    assert errors[0] == errors[1]
