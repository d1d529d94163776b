"""Posterior: means, spreads and quantiles over draws, R-hat, and draws as models of their own."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posteriors import brute, cells, random_draw, random_posterior, random_sum
from scipy import stats

from accams.errors import InputError
from accams.model.posterior import Posterior, split_r_hat

UNSEEN = [((), ()), ((2,), ()), ((0, 8), (3, 4))]

# -- draws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("unseen", UNSEEN)
def test_a_draw_predicts_as_its_stencils_do(unseen, effects):
    model = random_sum(unseen=unseen, effects=effects)
    draw = random_draw(unseen=unseen, effects=effects)
    i, j = cells(model.shape)
    np.testing.assert_allclose(draw.predict(i, j), [brute(model, *cell) for cell in zip(i, j, strict=True)], rtol=1e-5)
    again = draw.stencils(model.unseen_rows, model.unseen_cols)
    np.testing.assert_allclose(again.predict(i, j), model.predict(i, j), rtol=1e-5, atol=1e-6)
    for one, two in zip(again.stencils, model.stencils, strict=True):
        np.testing.assert_array_equal(one.template, two.template)
        seen = np.setdiff1d(np.arange(model.shape[0]), model.unseen_rows)
        np.testing.assert_array_equal(one.row_labels[seen], two.row_labels[seen])


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_predictions_with_label_probabilities(data):
    """Every template row counts as much as its share says; with all shares on one label it is that label."""
    seed, shapes = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([((3, 2),), ((1, 4), (4, 1), (2, 5))]))
    draw = random_draw(seed, shapes=shapes, shares=True)
    i, j = cells((9, 7))
    expected = np.full(len(i), draw.codes.offset)
    line = 0
    for p, k in enumerate(shapes):
        T = draw.codes.template(p).astype(float)
        share = draw.row_shares[:, line : line + k[0] + 1].astype(float)
        mixed = (share / share.sum(axis=1, keepdims=True)) @ T  # one line of the template per row
        expected += mixed[i, draw.codes.cols[j, p]]
        line += k[0] + 1
    np.testing.assert_allclose(draw.predict(i, j), expected, rtol=1e-5, atol=1e-6)


def test_certain_labels_are_the_labels():
    draw = random_draw()
    sure = [np.eye(T.shape[0])[draw.codes.rows[:, p]] for p, T in enumerate(map(draw.codes.template, range(3)))]
    probable = replace(draw, row_shares=(255 * np.concatenate(sure, axis=1)).astype(np.uint8))
    i, j = cells((9, 7))
    np.testing.assert_allclose(probable.predict(i, j), draw.predict(i, j), rtol=1e-6)


def test_bytes():
    """One per label (and for one more row and column), four per number of the padded templates."""
    plain, more = random_draw(), random_draw(effects=True, shares=True, noise=True)
    sizes = [(3 + 1) * (2 + 1), (1 + 1) * (4 + 1), (2 + 1) * (5 + 1)]
    assert plain.codes.rows.dtype == plain.codes.cols.dtype == np.uint8
    assert plain.nbytes == 3 * (9 + 1 + 7 + 1) + 4 * sum(sizes)
    shares, effects, noise = (9 + 1) * (3 + 1 + 2 + 3), 4 * (9 + 1 + 7 + 1), 4 * 9
    assert more.nbytes == plain.nbytes + shares + effects + noise
    assert random_posterior(5).nbytes == 5 * plain.nbytes


@pytest.mark.parametrize("k", [254, 255])
def test_a_label_takes_one_byte_up_to_255_clusters(k):
    draw = random_draw(shape=(300, 4), shapes=[(k, 2)])
    assert draw.codes.rows.dtype == np.uint8
    model = random_sum(shape=(300, 4), shapes=[(k, 2)])
    i, j = np.arange(-1, 300), np.zeros(301, np.int64)
    np.testing.assert_allclose(draw.predict(i, j), model.predict(i, j), rtol=1e-5, atol=1e-6)


# -- all draws together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, {"effects": True}, {"shares": True}, {"noise": True}, {"unseen": ((2,), (3, 4))}])
def test_moments(kind):
    posterior = random_posterior(4, **kind)
    i, j = cells(posterior.shape)
    each = np.array([draw.predict(i, j) for draw in posterior.draws])
    mean, std = posterior.predict(i, j, return_std=True)
    np.testing.assert_allclose(mean, each.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(posterior.predict(i, j), mean, rtol=0)
    noise = np.full(10, posterior.noise**2)
    if kind.get("noise"):
        rows = np.mean([draw.row_noise for draw in posterior.draws], axis=0)
        noise = noise * np.append(rows, rows.mean())  # a new row is an average one
    np.testing.assert_allclose(std, np.sqrt(each.var(axis=0) + noise[i]), rtol=1e-6)


def test_many_pairs_at_once(monkeypatch):
    posterior = random_posterior(3)
    i, j = cells(posterior.shape)
    expected = posterior.predict(i, j, return_std=True)
    monkeypatch.setattr("accams.model.posterior.BATCH", 7)
    np.testing.assert_array_equal(posterior.predict(i, j, return_std=True), expected)


def test_spreads_far_from_zero():
    """An offset of a million takes no digits from the spread."""
    near, far = (random_posterior(4, offset=offset) for offset in (0.0, 1e6))
    i, j = cells(near.shape)
    expected, found = (posterior.predict(i, j, return_std=True)[1] for posterior in (near, far))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_quantiles_are_those_of_a_normal_distribution():
    posterior, levels = random_posterior(4), [0.05, 0.5, 0.2, 0.999]
    i, j = cells(posterior.shape)
    mean, std, quantiles = posterior.predict(i, j, return_std=True, quantiles=levels)
    np.testing.assert_allclose(quantiles, stats.norm.ppf(levels, mean[:, None], std[:, None]), rtol=1e-9)
    assert (quantiles[:, 0] < quantiles[:, 2]).all()
    assert (quantiles[:, 2] < quantiles[:, 1]).all()
    np.testing.assert_array_equal(posterior.predict(i, j, quantiles=levels)[1], quantiles)
    assert posterior.predict([], [], quantiles=[0.5])[1].shape == (0, 1)
    assert posterior.predict(i, j, quantiles=[])[1].shape == (len(i), 0)


@pytest.mark.parametrize("levels", [[0.0], [1.0], [0.5, 1.1], [-0.1], [[0.5]], 0.5, [float("nan")]])
def test_what_is_no_quantile(levels):
    with pytest.raises(InputError, match="quantiles must be a list of numbers between 0 and 1"):
        random_posterior(2).predict([0], [0], quantiles=levels)


@pytest.mark.parametrize(("rows", "cols"), [([9], [0]), ([0], [-2]), ([0.5], [0]), ([0, 1], [0, 1, 2])])
def test_positions_that_make_no_sense(rows, cols):
    with pytest.raises(InputError, match=r"positions must|equal length"):
        random_posterior(2).predict(rows, cols)


def test_thin():
    posterior = random_posterior(10)
    assert [d.sweep for d in posterior.thin(1).draws] == [0]
    assert [d.sweep for d in posterior.thin(4).draws] == [0, 3, 6, 9]
    assert [d.sweep for d in posterior.thin(99).draws] == list(range(10))
    for n in range(1, 11):
        assert len(posterior.thin(n)) == n
    thinned = posterior.thin(3)
    assert (thinned.noise, thinned.traces, thinned.shape) == (posterior.noise, posterior.traces, posterior.shape)
    for bad in (0, -1):
        with pytest.raises(InputError, match="at least one draw"):
            posterior.thin(bad)


def test_repr():
    assert repr(random_posterior(10)) == "Posterior(9 x 7, 10 draws of 2 chains, 0.0 MB)"
    assert len(random_posterior(10)) == 10


# -- R-hat --------------------------------------------------------------------------------------------------------


def by_formula(trace):
    """Gelman et al.: each chain halved, between- and within-chain variances of the halves."""
    n = trace.shape[1] // 2
    halves = np.array([x for chain in trace for x in (chain[:n], chain[n : 2 * n])])
    W = np.mean([np.var(half, ddof=1) for half in halves])
    B = n * np.var([np.mean(half) for half in halves], ddof=1)
    return np.sqrt(((n - 1) / n * W + B / n) / W)


@pytest.mark.parametrize("length", [4, 5, 100, 101])
def test_r_hat_by_its_formula(length):
    traces = np.random.default_rng(0).normal(size=(3, length, 2)) + np.arange(3)[:, None, None] * [0.0, 1.0]
    np.testing.assert_allclose(split_r_hat(traces), [by_formula(traces[..., p]) for p in (0, 1)], rtol=1e-12)


def test_r_hat_tells_chains_that_agree_from_those_that_do_not():
    random = np.random.default_rng(1)
    mixed = random.normal(size=(4, 1000))
    assert split_r_hat(mixed) == pytest.approx(1.0, abs=0.01)
    assert split_r_hat(1e6 + mixed) == pytest.approx(1.0, abs=0.01)
    assert split_r_hat(mixed + 10 * np.arange(4)[:, None]) > 10
    assert split_r_hat(mixed + np.linspace(0, 10, 1000)) > 1.5  # all drift alike: the halves tell
    assert np.isnan(split_r_hat(np.full((4, 1000), 0.7)))  # held
    assert np.isnan(split_r_hat(mixed[:, :3]))  # too short to halve


def test_r_hat_of_a_posterior():
    random = np.random.default_rng(2)
    probes = random.normal(size=(4, 200, 5)) + 5 * np.arange(4)[:, None, None] * [0, 0, 0, 1, 1]
    traces = {"sigma": np.full((4, 200), 0.5), "log_joint": random.normal(size=(4, 200)), "probes": probes}
    posterior = replace(random_posterior(2), traces=traces)
    assert set(posterior.r_hat) == {"log_joint", "probes"}
    assert posterior.r_hat["probes"] == pytest.approx(float(np.median(split_r_hat(probes))))
    assert posterior.r_hat["log_joint"] == pytest.approx(1.0, abs=0.02)
    assert replace(posterior, traces={}).r_hat == {}


def test_arviz_agrees():
    arviz = pytest.importorskip("arviz")
    random = np.random.default_rng(3)
    traces = {"sigma": random.normal(size=(4, 100)), "probes": random.normal(size=(4, 100, 5))}
    posterior = replace(random_posterior(2), traces=traces)
    data = posterior.to_arviz()
    for name, trace in traces.items():
        np.testing.assert_array_equal(data["posterior"][name].values, trace)
    found = arviz.rhat(data, method="split")
    np.testing.assert_allclose(found["probes"].values, split_r_hat(traces["probes"]), rtol=1e-10)


def test_without_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(InputError, match="to_arviz needs ArviZ"):
        random_posterior(2).to_arviz()


def test_a_posterior_of_one_draw():
    posterior = Posterior((9, 7), (random_draw(),), 0.5)
    mean, std = posterior.predict([0, -1], [0, -1], return_std=True)
    np.testing.assert_allclose(std, 0.5)
    np.testing.assert_array_equal(mean, posterior.draws[0].predict(np.array([0, -1]), np.array([0, -1])))
