"""A visit of the `graph` engine in one call, against the same visit update by update."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from accams import BayesianACCAMS, Schedule
from accams.data.observations import Observations
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


@pytest.mark.parametrize(("n_clusters", "n_sub"), [(5, (1,)), ((3, 4), (3, 2, 1)), ((1, 4), (1,))])
def test_a_visit_in_one_call_draws_the_same(n_clusters, n_sub, monkeypatch):
    """Also with several updates a visit; an axis without any is left to the other way."""
    obs, taken = likes(zero_weight=0.3), list[bool]()
    rule = GraphState._in_one_call.fget
    monkeypatch.setattr(GraphState, "_in_one_call", property(lambda state: taken.append(rule(state)) or taken[-1]))
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
        assert state._in_one_call == (callers > 1 and values is None and how["zero_weight"] != 1.0)


def test_the_error_may_be_asked_for_before_a_visit():
    errors = []
    for callers in (1, 2):
        state = make_engine(likes(zero_weight=0.3), "graph", 3, 1, callers=callers).new_state()
        chain = Chain(state, Hyperparameters([(3, 2)] * 3, [1.0] * 3, [1.0] * 3, tau2=[0.1] * 3), 0, 0.2)
        chain.run_sweep()
        state.begin(1)
        taken_out = state.squared_error()
        rule = chain._blocked_visit(state.templates[1], 1, 1, np.random.default_rng(0))
        state.visit(rule)
        visited = state.visited()[0]
        errors.append((taken_out, state.squared_error(), visited.gain, visited.moved, *map(tuple, visited.counts)))
    assert errors[0] == errors[1]
