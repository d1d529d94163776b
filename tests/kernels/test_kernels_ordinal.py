"""Latent values of ordinal observations: their distribution, and the residuals that follow."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from scipy import stats
from scipy.special import ndtr, ndtri

from accams.data.observations import Observations
from accams.engine.choose import make_engine
from accams.engine.rules import Latent
from accams.kernels import ordinal

SHARES = (np.arange(2001) + 0.5) / 2001
INTERVALS = [
    (-np.inf, 0.3),
    (0.3, 1.0),
    (2.0, np.inf),
    (5.0, 6.0),
    (5.0, np.inf),
    (-8.0, -7.5),
    (-3.1, -2.9),
    (-20.0, -1.0),
]


def test_the_distribution_function():
    x = np.linspace(-9.0, 9.0, 4001)
    assert max(abs(ordinal.cdf.py_func(v) - ndtr(v)) for v in x) < 1e-10


def test_quantiles():
    p = np.concatenate([np.logspace(-300, -1, 200), np.linspace(0.01, 0.99, 99), 1.0 - np.logspace(-10, -1, 20)])
    found = np.array([ordinal.quantile(x) for x in p])
    np.testing.assert_allclose(found, ndtri(p), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_numbers_of_an_interval(low, high):
    found = np.array([ordinal.truncated.py_func(low, high, u) for u in SHARES])
    np.testing.assert_allclose(found, stats.truncnorm.ppf(SHARES, low, high), atol=1e-6)


@pytest.mark.parametrize(("low", "high"), [(-40.0, -38.0), (38.0, np.inf), (300.0, 301.0), (-np.inf, -1e4)])
def test_far_out(low, high):
    """Beyond the reach of doubles the distance to the near end is exponential, at the rate of that end."""
    found = np.array([ordinal.truncated.py_func(low, high, u) for u in SHARES])
    assert np.all((found >= low) & (found <= high))
    assert np.all(np.diff(found) >= 0.0)
    near = min(abs(low), abs(high))
    assert np.median(np.abs(np.abs(found) - near)) == pytest.approx(np.log(2.0) / near, rel=0.01)


def test_a_value_stays_within_its_interval():
    cuts = np.array([-1000, -30, 4, 1000], np.int32)
    for f in (-5000.0, -31.0, 0.0, 4.0, 5000.0):
        for u in (1e-16, 0.5, 1.0 - 1e-16):
            for level in range(3):
                z = ordinal.latent_value.py_func(f, level, cuts, 10.0, u)
                assert cuts[level] < z <= cuts[level + 1]


def ratings(missing: bool, weighted: bool) -> Observations:
    random = np.random.default_rng(3)
    X = random.integers(1, 6, (9, 7)).astype(float)
    if missing:
        X[random.random(X.shape) < 0.4] = np.nan
    return Observations.from_dense(X, weights=random.integers(1, 4, X.shape) * 0.5 if weighted else None)


def slow(state, rule: Latent) -> np.ndarray:
    """Latent values of all cells from the model, by scipy's truncated normal; NaN where nothing is observed."""
    obs = state.engine.observations
    model, out = twins.model_ticks(state), np.full(obs.shape, np.nan)
    rows, cols, values = obs.coo()
    weights = np.ones(len(rows)) if obs.weights is None else obs.weights
    own = np.ones(obs.shape[0]) if state.row_weights is None else state.row_weights * state.engine.row_step
    for i, j, value, weight in zip(rows, cols, values, weights, strict=True):
        level = np.searchsorted(np.unique(values), value)
        f, s = model[i, j], rule.spread / np.sqrt(weight * own[i])
        low, high = (rule.cuts[level] - f) / s, (rule.cuts[level + 1] - f) / s
        u = ordinal.uniform(*rule.key, (int(i) << 32) + int(j))
        out[i, j] = f + s * stats.truncnorm.ppf(u, low, high)
    return out


@pytest.mark.parametrize(
    ("engine", "missing", "weighted", "row_weighted"),
    [
        ("cpu", True, False, False),
        ("cpu", True, True, True),
        ("dense", False, False, True),
        *(pytest.param(*x, marks=pytest.mark.full) for x in [("cpu", True, False, True), ("cpu", True, True, False)]),
        pytest.param("dense", True, True, True, marks=pytest.mark.full),
    ],
)
def test_all_observations(engine, missing, weighted, row_weighted):
    """Both orders have the same latent values, those of a slow version, and residuals that go with them."""
    obs, random = ratings(missing, weighted), np.random.default_rng(4)
    state = make_engine(obs, engine, 1, 2, row_weights=row_weighted, latent=True).new_state()
    if row_weighted:
        state.set_row_weights(random.gamma(5.0, 0.2, obs.shape[0]))
    state.begin(0, (2, 3))
    for axis, k in enumerate((2, 3)):
        state.set_labels(axis, random.integers(0, k, obs.shape[axis]))
    state.end(state.engine.grid.template(random.normal(0.0, 0.7, (2, 3)) / state.engine.grid.step))
    grid, model = state.engine.grid, twins.model_ticks(state)
    cuts = grid.cut_points(np.array([1.4, 2.6, 3.4, 4.5]))
    for sweep in range(2):
        rule = Latent(np.arange(1.0, 6.0), cuts, 0.8 / grid.step, state.weight_unit, (5, sweep))
        state.draw_latent(rule)
        expected = slow(state, rule)
        for axis in (0, 1):
            resid = state.lines(axis, np.arange(obs.shape[axis]))
            off = ((resid if axis else resid.T) + model - expected) * grid.step
            np.testing.assert_allclose(off[~np.isnan(expected)], 0.0, atol=3e-6)
