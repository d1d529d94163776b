"""Backfitting: planted stencils are recovered, relearning never raises the error, watchers can stop it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from accams.data.observations import Observations
from accams.data.planted import paper_example, planted_graph, planted_stencils
from accams.engine.choose import make_engine
from accams.fit.backfit import BackfitSettings, backfit
from accams.fit.refit import refit


def run(obs: Observations, options: BackfitSettings, engine: str = "auto", watch=None):
    state = make_engine(obs, engine, len(options.shapes), 1).new_state()
    return state, backfit(state, options, watch)


def assert_recovered(state, X) -> None:
    """Each entry within half a step per stencil and half for the offset."""
    steps = (1 + len(state.templates)) * state.engine.grid.step
    assert np.abs(state.stencils().dense() - X).max() <= steps


# -- what was planted is found ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("density", [1.0, 0.6])
def test_one_stencil_is_recovered(seed, density):
    planted = planted_stencils((60, 40), 1, (4, 3), density=density, random_state=seed, offset=1.5)
    for engine in ("cpu", "dense"):
        state, steps = run(planted.observations, BackfitSettings([(4, 3)], n_init=5, seed=seed), engine)
        assert_recovered(state, planted.dense())
        assert steps[-1].rmse <= state.engine.grid.step


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_blocks_of_a_graph_are_recovered(init):
    X = np.kron(np.array([[1, 0, 0], [0, 0, 1]]), np.ones((7, 5)))
    X = X[np.random.default_rng(0).permutation(14)]
    obs = Observations.from_sparse(csr_array(X), zeros="observed")
    state, _ = run(obs, BackfitSettings([(2, 3)], init=init, n_init=5))
    assert_recovered(state, X)


@pytest.mark.some(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_two_stencils_of_unequal_size_are_recovered(seed, share):
    """One is eight times the other. Of two equally strong stencils only about half are found by backfitting and
    relearning, so that is not asked here; and without relearning none are, since the first takes part of the second.
    """
    strong, weak = (
        planted_stencils((60, 40), 1, 3, random_state=10 * seed + i, scale=s) for i, s in enumerate([8.0, 1.0])
    )
    X = strong.dense() + weak.dense()
    obs = Observations.from_dense(np.where(np.random.default_rng(seed).random(X.shape) < share, X, np.nan))
    state, steps = run(obs, BackfitSettings([(3, 3)] * 2, n_init=5, n_relearn=40, tol=0.0, seed=seed))
    assert_recovered(state, X)
    assert steps[1].rmse > 100 * state.engine.grid.step  # before relearning it was not


@pytest.mark.parametrize("seed", range(5))
def test_the_example_of_the_paper_is_recovered(seed):
    """By a 3 x 2 and a 3 x 3 stencil, the stronger one first, ten starts and ten rounds of relearning."""
    X = paper_example()[0]
    state, steps = run(
        Observations.from_dense(X), BackfitSettings([(3, 2), (3, 3)], n_init=10, n_relearn=10, tol=0.0, seed=seed)
    )
    assert_recovered(state, X)
    assert steps[-1].rmse <= state.engine.grid.step


def test_a_refit_completes_what_relearning_would():
    """The labels are right after a few passes; joint templates make the fit exact."""
    strong, weak = (planted_stencils((60, 40), 1, 3, random_state=i, scale=s) for i, s in enumerate([8.0, 1.0]))
    X = strong.dense() + weak.dense()
    state, _ = run(Observations.from_dense(X), BackfitSettings([(3, 3)] * 2, n_init=5, tol=0.0, n_relearn=3))
    refit(state, tol=1e-12, max_iter=1000)
    assert np.abs(state.stencils().dense() - X).max() <= 1e-5


# -- relearning ---------------------------------------------------------------------------------------------------


def joint_error(state, data, options: BackfitSettings) -> float:
    """Squared error plus (1/r - 1) |S_l|^2 over the observed cells plus lambda/r |T_l|^2, for every stencil l."""
    grid = state.engine.grid
    R = twins.residual_ticks(state, data) * grid.step
    total = (data.W * R * R).sum()
    for T, c, d in zip(state.templates, state.row_labels, state.col_labels, strict=True):
        t = T * grid.step
        S, rate = t[np.ix_(c, d)], options.learning_rate
        total += (1 / rate - 1) * (data.W * S * S).sum() + options.shrinkage / rate * (t * t).sum()
    return float(total)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_relearning_never_raises_the_penalised_error(draw):
    name, kind = draw.draw(st.sampled_from(twins.ALL))
    data = twins.case(kind, (14, 11), draw.draw(st.integers(0, 99)))
    options = BackfitSettings(
        [(2, 3), (3, 2), (4, 1)],
        n_relearn=3,
        tol=0.0,
        shrinkage=draw.draw(st.sampled_from([0.0, 0.5])),
        learning_rate=draw.draw(st.sampled_from([1.0, 0.3])),
    )
    errors, rmses = [], []

    def watch(state, step):
        if step.sweep > 0 or step.stencil == 2:
            errors.append(joint_error(state, data, options))
            rmses.append(step.rmse)
        return False

    backfit(data.engine(name).new_state(), options, watch)
    assert len(errors) == 10
    for parts in (errors, rmses) if options.learning_rate == 1.0 and not options.shrinkage else (errors,):
        assert all(after <= before * (1 + 1e-9) for before, after in pairwise(parts))


def test_each_further_stencil_lowers_the_error():
    _, steps = run(twins.case("complete", (40, 30)).observations, BackfitSettings([(4, 3)] * 6))
    rmses = [step.rmse for step in steps]
    assert rmses == sorted(rmses, reverse=True)
    assert rmses[-1] < rmses[0]


@pytest.mark.some(5)
@pytest.mark.parametrize(("name", "kind"), twins.ALL)
def test_residual_plus_model_is_the_data(name, kind):
    data = twins.case(kind, (14, 11))
    state = data.engine(name).new_state()
    steps = backfit(state, BackfitSettings([(2, 3), (3, 2), (4, 1)], n_relearn=2, learning_rate=0.7))
    model = state.stencils()
    error = data.X - model.dense()
    assert state.squared_error() == pytest.approx((data.W * error**2).sum(), rel=1e-9)
    assert steps[-1].rmse == pytest.approx(np.sqrt((data.W * error**2).sum() / data.W.sum()), rel=1e-9)
    np.testing.assert_array_equal(
        model.residual(data.observations) + model.predict(*data.observations.coo()[:2]), data.observations.values
    )


# -- watching -----------------------------------------------------------------------------------------------------


def test_steps_tell_what_happened():
    seen = []
    obs = twins.case("missing").observations
    state, steps = run(
        obs, BackfitSettings([(2, 2), (3, 1)], n_relearn=1), watch=lambda state, step: seen.append(step) or False
    )
    assert seen == steps
    assert [(s.sweep, s.stencil, s.n_stencils) for s in steps] == [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)]
    assert all(a.seconds <= b.seconds for a, b in pairwise(steps))
    assert all(s.iterations >= 1 and s.validation_rmse is None for s in steps)
    assert [T.shape for T in state.templates] == [(2, 2), (3, 1)]


@pytest.mark.parametrize(("sweep", "stencil", "left"), [(0, 0, 1), (0, 2, 3), (1, 1, 3)])
def test_a_watcher_stops_the_fit(sweep, stencil, left):
    data = twins.case("missing")
    state, steps = run(
        data.observations,
        BackfitSettings([(2, 2)] * 3, n_relearn=2),
        watch=lambda _, step: (step.sweep, step.stencil) == (sweep, stencil),
    )
    assert (steps[-1].sweep, steps[-1].stencil) == (sweep, stencil)
    assert len(state.stencils()) == left
    error = data.W * (data.X - state.stencils().dense()) ** 2
    assert state.squared_error() == pytest.approx(error.sum(), rel=1e-9)


def test_nothing_to_fit():
    state, steps = run(twins.case("missing").observations, BackfitSettings([]))
    assert steps == []
    assert len(state.stencils()) == 0


def test_an_interrupt_ends_the_fit_after_the_last_whole_stencil():
    data = twins.case("missing")
    state = data.engine("cpu").new_state()
    plain = state.update

    def update(axis, rule):
        if state.current == 2:
            raise KeyboardInterrupt
        return plain(axis, rule)

    state.update = update
    try:
        steps = backfit(state, BackfitSettings([(2, 2)] * 4))
    except KeyboardInterrupt:
        pytest.fail("the interrupt got through")
    assert len(steps) == len(state.stencils()) == 2


@pytest.mark.parametrize("where", ["update", "end"])
def test_an_interrupt_while_relearning_keeps_the_stencils_as_they_were(where):
    state, models = twins.case("missing").engine("cpu").new_state(), []
    plain = getattr(state, where)

    def interrupted(*args):
        plain(*args)
        raise KeyboardInterrupt

    def watch(state, step):
        models.append(state.stencils().dense())
        if (step.sweep, step.stencil) == (1, 0):
            setattr(state, where, interrupted)
        return False

    try:
        steps = backfit(state, BackfitSettings([(2, 2)] * 3, n_relearn=1), watch)
    except KeyboardInterrupt:
        pytest.fail("the interrupt got through")
    assert len(steps) == len(models) == 4
    assert len(state.stencils()) == 3
    np.testing.assert_array_equal(state.stencils().dense(), models[-1])


@pytest.mark.parametrize(("name", "kind"), twins.ALL)
def test_total_weight(name, kind):
    data = twins.case(kind)
    assert data.engine(name).observations.total_weight() == data.W.sum()


def test_a_planted_graph_gets_better_with_each_stencil():
    obs = Observations.from_sparse(planted_graph(80, 400, 4), zeros="observed")
    _, steps = run(obs, BackfitSettings([(4, 4)] * 3, n_relearn=1, tol=0.0))
    rmses = [step.rmse for step in steps]
    assert rmses == sorted(rmses, reverse=True)
