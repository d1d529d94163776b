"""Runs of the sampler: stopping rules, reports, and chains that continue with other observations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accams.data.observations import Observations
from accams.data.planted import planted_stencils
from accams.fit import run as run_module
from accams.fit.bayesian import FitPlan, begin
from accams.fit.chains import Chains
from accams.fit.hyper import Hyperparameters
from accams.fit.run import Run, RunningValidation, RunPlan, make_probes, run
from accams.fit.running import Running

EASY = planted_stencils((40, 30), 1, 2, noise=0.2, random_state=0)
HYPER = Hyperparameters([(2, 2)], [1.0], [1.0], tau2=[1.0], seed=3)


def started(
    plan: RunPlan, observations: Observations = EASY.observations, hyper: Hyperparameters = HYPER, **more
) -> Run:
    setup = FitPlan(hyper, plan, 0.04, 1.0, False, n_chains=2, n_threads=1)
    chains = Chains(observations, "auto", hyper, 2, setup.sigma2, setup.tau2, 1)
    return begin(chains, observations, setup, None, more.get("asked"), more.get("validation"), 0.0)


def steps(state: Run, n: int) -> None:
    for _ in range(n):
        state.step()


# -- the end ------------------------------------------------------------------------------------------------------


def test_an_easy_problem_settles():
    state = started(RunPlan(tol=1e-2))
    assert run(state)
    assert state.settled
    assert state.sweep == run_module.FEWEST_SWEEPS
    assert state.history[-1].change < 1e-2


@pytest.mark.parametrize("tol", [1e-12, 0.0])
def test_the_most_sweeps_are_respected(tol):
    state = started(RunPlan(tol=tol, most_sweeps=73))
    assert run(state, lambda *_: state.sweep > 80)
    assert (state.sweep, state.settled) == (73, False)


def test_the_change_that_is_reported():
    """Change of the running mean at the probes since four fifths of the run, each without its first quarter."""
    state, means = started(RunPlan()), []
    for _ in range(100):
        state.step()
        means.append(state.chains.predict_at(state.probes.rows, state.probes.cols).mean(axis=0))
    means = np.array(means)

    def mean_at(sweep: int) -> np.ndarray:
        begins = [b.first for b in state.probes.blocks] if sweep == 100 else range(sweep)
        return means[min(b for b in begins if b >= int(0.25 * sweep)) : sweep].mean(axis=0)

    expected = np.mean((mean_at(100) - mean_at(80)) ** 2) / state.scale
    assert state.history[-1].change == pytest.approx(expected, rel=0.3)  # blocks of two or four sweeps at 80
    assert [report.change for report in state.history[:19]] == [None] * 19  # nothing to compare with yet
    assert len({report.change for report in state.history[90:99]}) == 1  # checked every tenth sweep


def test_the_expected_end():
    """Extrapolated from a change inversely proportional to the number of sweeps."""
    state = started(RunPlan(tol=1e-3, most_sweeps=500))
    state.sweep = 100
    assert state._expected(None) is None
    assert state._expected(2e-3) == 200
    assert state._expected(1.0) == 500
    assert state._expected(1e-6) == 100
    state.sweep = 20
    assert state._expected(1e-6) == run_module.FEWEST_SWEEPS
    steps(state, 1)
    assert state.history[-1].n_sweeps is None
    fixed = started(RunPlan(n_sweeps=7))
    steps(fixed, 1)
    assert fixed.history[-1].n_sweeps == 7


def test_patience():
    rows, cols, values = EASY.observations.coo()
    watched = RunningValidation(Running(rows[:50], cols[:50]), values[:50], None)
    state = started(RunPlan(patience=4, most_sweeps=300, tol=1e-12), validation=watched)
    assert run(state)
    errors = [report.validation_rmse for report in state.history]
    assert state.sweep == int(np.argmin(errors)) + 1 + 4
    assert state.best == (min(errors), int(np.argmin(errors)) + 1)


def test_validation_errors_are_weighted_and_clipped():
    values, weights = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 3.0])
    watched = RunningValidation(Running(np.arange(3), np.arange(3)), values, weights, (1.5, 2.5))
    prediction = np.array([0.0, 9.0, 9.0])
    assert watched.rmse(prediction) == pytest.approx(np.sqrt((0.5**2 + 3 * 0.5**2) / 4))
    assert replace(watched, weights=None).rmse(prediction) == pytest.approx(0.5)


def test_burn_in():
    assert [RunPlan().burn_in(n) for n in (0, 3, 4, 100, 101)] == [0, 0, 1, 25, 25]
    assert RunPlan(n_burn_in=7).burn_in(3) == 7


# -- reports and records ------------------------------------------------------------------------------------------


def test_numbers_of_a_report():
    hyper = replace(HYPER, shapes=[(3, 2), (2, 4)], alpha=[1.0] * 2, beta=[1.0] * 2, tau2=None, sample_sigma=True)
    state = started(RunPlan(n_sweeps=3), hyper=hyper)
    steps(state, 2)
    before = [[x.copy() for x in chain.state.row_labels + chain.state.col_labels] for chain in state.chains.chains]
    steps(state, 1)
    chains, report = state.chains.chains, state.history[-1]
    assert (report.phase, report.sweep) == ("sampling", 3)
    rows, cols, values = EASY.observations.coo()
    errors = [np.mean((chain.state.predict_at(rows, cols) - values) ** 2) for chain in chains]
    assert report.rmse == pytest.approx(np.sqrt(np.mean(errors)), rel=1e-5)
    assert report.sigma == pytest.approx(np.sqrt(np.mean([chain.sigma2 for chain in chains])))
    labels = [chain.state.row_labels + chain.state.col_labels for chain in chains]
    assert report.occupied == pytest.approx(np.mean([sum(len(np.unique(x)) for x in each) / 2 for each in labels]))
    moved = [sum((a != b).sum() for a, b in zip(x, y, strict=True)) for x, y in zip(before, labels, strict=True)]
    assert report.moved == pytest.approx(np.mean(moved) / (2 * (40 + 30)))
    traces = {name: values[-1] for name, values in state.traces.items()}
    np.testing.assert_allclose(traces["sigma"] ** 2, [chain.sigma2 for chain in chains])
    np.testing.assert_allclose(traces["tau"] ** 2, [chain.tau2.mean() for chain in chains])
    np.testing.assert_allclose(traces["log_joint"], [chain.log_joint() for chain in chains])
    expected = [chain.state.predict_at(state.probes.rows[:64], state.probes.cols[:64]) for chain in chains]
    np.testing.assert_array_equal(traces["probes"], expected)


@pytest.mark.parametrize(("n_burn_in", "first"), [(0, 0), (4, 4)])
def test_nothing_is_recorded_of_a_burn_in_that_is_known(n_burn_in, first):
    state = started(RunPlan(n_sweeps=9, n_burn_in=n_burn_in, thin=1), asked=(np.arange(3), np.arange(3)))
    run(state)
    assert state.probes.blocks[0].first == state.asked.blocks[0].first == first
    assert [each[0].sweep for each in state.keeper.draws] == list(range(first, 9))


def test_where_the_burn_in_grows_only_the_draws_after_it_are_held():
    state = started(RunPlan(n_sweeps=9, thin=1), asked=(np.arange(3), np.arange(3)))
    run(state)
    assert state.probes.blocks[0].first == state.asked.blocks[0].first == 0
    assert [each[0].sweep for each in state.keeper.draws] == list(range(2, 9))


def test_watchers_can_end_a_run():
    state = started(RunPlan(n_sweeps=50))
    assert run(state, lambda _, report: report.sweep == 4)
    assert state.sweep == len(state.history) == 4

    def interrupt(*_):
        raise KeyboardInterrupt

    assert not run(state, interrupt)
    assert state.sweep == 5


def test_probes():
    """Rows of some observations with columns of others: active ones are more frequent."""
    observations = planted_stencils((200, 100), 1, 2, density=0.2, degrees="long-tailed").observations
    probes = make_probes(observations, 0, 3000)
    assert len(probes.rows) == len(probes.cols) == 3000
    counts = observations.row_counts
    assert counts[probes.rows].mean() > 1.1 * counts.mean()
    assert set(probes.rows) <= set(np.flatnonzero(counts))
    again, other = make_probes(observations, 0, 3000), make_probes(observations, 1, 3000)
    assert np.array_equal(again.rows, probes.rows)
    assert not np.array_equal(other.rows, probes.rows)
    assert len(make_probes(Observations.from_coo([0, 1], [0, 1], [1.0, 2.0]), 0).rows) == 2


def test_row_weights_are_normalised_in_the_burn_in_alone():
    """And only with a fixed sigma: otherwise it is not a Gibbs step."""
    hyper = replace(HYPER, row_noise=5.0)
    for sample_sigma, expected in ((False, [True] * 3 + [False] * 3), (True, [False] * 6)):
        state, seen = started(RunPlan(n_sweeps=6, n_burn_in=3), hyper=replace(hyper, sample_sigma=sample_sigma)), []
        for _ in range(6):
            state.step()
            weights, counts = state.chains.chains[0].row_weights(), EASY.observations.row_counts
            seen.append(bool(abs(counts @ weights / counts.sum() - 1) < 1e-3))
        assert seen == expected


# -- several chains -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, {"row_noise": 5.0}, {"continuous": True}, {"tau2": None}])
def test_chains_continue_from_others(kind):
    """Model, variances and row weights are those of chains fitted to a part of the data; the data is all of it."""
    hyper = replace(HYPER, shapes=[(3, 2), (2, 2)], alpha=[1.0] * 2, beta=[1.0] * 2, tau2=[0.5] * 2)
    hyper, observations = replace(hyper, **kind), EASY.observations
    part = observations.select(np.arange(0, observations.nnz, 2))
    others, chains = (Chains(data, "cpu", hyper, 2, 0.3, 1.0, 1) for data in (part, observations))
    for _ in range(5):
        others.run_sweep()
    others.chains[1].sigma2 = 0.07
    chains.continue_from(others.chains)
    rows, cols, values = observations.coo()
    before, after = (each.predict_at(rows, cols) - each.engine.grid.offset for each in (others, chains))
    np.testing.assert_allclose(after, before, atol=5 * chains.engine.grid.step)
    assert chains.engine.grid.offset == pytest.approx(values.mean(), abs=1e-4)  # the mean of all data now
    for mine, theirs in zip(chains.chains, others.chains, strict=True):
        assert (mine.sigma2, mine.sweep) == (theirs.sigma2, 5)
        np.testing.assert_array_equal(mine.tau2, theirs.tau2)
        np.testing.assert_array_equal(mine.effect_tau2, theirs.effect_tau2)
        np.testing.assert_allclose(mine.row_weights(), theirs.row_weights(), rtol=1e-2)
        for one, two in zip(mine.counts, theirs.counts, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
        residual = values - mine.state.predict_at(rows, cols)
        assert mine.state.squared_error() == pytest.approx(np.sum(residual**2), rel=1e-4)
    chains.run_sweep()
    assert [chain.sweep for chain in chains.chains] == [6, 6]
    for each in (others, chains):
        each.close()


def test_results_are_in_the_order_of_the_chains():
    chains = Chains(EASY.observations, "cpu", HYPER, 5, 0.04, 1.0, 2)
    assert chains.each(lambda chain: chain.number) == list(range(5)) == list(range(len(chains)))
    with pytest.raises(ZeroDivisionError):
        chains.each(lambda chain: 1 // chain.number)
    chains.run_sweep()
    rows, cols = np.arange(5), np.arange(5)
    expected = [chain.state.predict_at(rows, cols) for chain in chains.chains]
    np.testing.assert_array_equal(chains.predict_at(rows, cols), expected)
    chains.close()


def test_backfitting_leaves_earlier_stencils_alone():
    hyper = replace(HYPER, shapes=[(2, 2)] * 3, alpha=[1.0] * 3, beta=[1.0] * 3, tau2=[1.0] * 3)
    chains = Chains(EASY.observations, "cpu", hyper, 2, 0.04, 1.0, 2)
    for stencil in range(3):
        before = [[T.copy() for T in chain.state.templates] for chain in chains.chains]
        chains.backfit(stencil, 4)
        for chain, templates in zip(chains.chains, before, strict=True):
            assert len(chain.state.templates) == stencil + 1
            assert all(np.array_equal(a, b) for a, b in zip(templates, chain.state.templates, strict=False))
            assert chain.sweep == 4 * (stencil + 1)
    chains.close()
