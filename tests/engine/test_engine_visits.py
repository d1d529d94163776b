"""A visit of the `graph` engine in one call, against the same visit update by update."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from accams import BayesianACCAMS, Schedule
from accams.data.observations import Observations
from accams.engine.choose import make_engine
from accams.engine.graph import GraphState


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
    obs, taken = likes(zero_weight=0.3), []
    rule = GraphState._in_one_call.fget
    monkeypatch.setattr(GraphState, "_in_one_call", property(lambda state: taken.append(rule(state)) or taken[-1]))
    how = {"n_stencils": 4, "n_clusters": n_clusters, "schedule": Schedule(n_sub=n_sub, n_burn_in=2)}
    one, other = (fitted(obs, n_threads, **how) for n_threads in (2, 1))
    assert set(taken) == ({True, False} if n_clusters != (1, 4) else {False})
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
