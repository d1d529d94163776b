"""Early stopping, and random numbers by purpose and key."""

from __future__ import annotations

import numpy as np
import pytest
import twins

from accams.data.observations import Observations
from accams.data.planted import planted_stencils
from accams.engine.choose import make_engine
from accams.errors import InputError
from accams.fit.backfit import BackfitSettings, Step, backfit
from accams.fit.early import EarlyStopping, ValidationSet, validation_split
from accams.fit.keys import Purpose, generator, seed_of


def searched(obs: Observations, shapes, patience: int, seed: int = 0, clip=None, **more):
    """Return the watcher after a fit, and the fitted state."""
    training, held_out = validation_split(obs, 0.1, seed)
    early = EarlyStopping(ValidationSet(held_out, clip), patience)
    state = make_engine(training, "cpu", len(shapes), 1).new_state()
    backfit(state, BackfitSettings(shapes, seed=seed, **more), early)
    return early, state, held_out


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(3))
def test_it_keeps_what_predicts_best(seed):
    """Three stencils are planted; many more are allowed, and they would fit the noise."""
    planted = planted_stencils((150, 120), 3, 4, density=0.5, noise=0.8, random_state=seed)
    early, _, _ = searched(planted.observations, [(4, 4)] * 40, 5, seed, tol=1e-4)
    errors = [step.validation_rmse for step in early.history]
    assert early.best == min(errors)
    assert early.n_stencils == 1 + int(np.argmin(errors))
    assert len(errors) == early.n_stencils + 5
    assert 2 <= early.n_stencils <= 10
    assert early.best < 0.65 * planted.observations.values.std()
    assert early.best < errors[-1]


@pytest.mark.parametrize("patience", [1, 3])
def test_patience(patience):
    errors = iter([5.0, 4.0, 4.0, 4.5, 4.1, 3.0])
    early = EarlyStopping(ValidationSet(twins.case("missing").observations, None), patience)
    early.held_out.rmse_after = lambda state: next(errors)
    answers = [early(None, Step(0, stencil, 6, 1.0, 1, 0.0)) for stencil in range(2 + patience)]
    assert answers == [False] * (1 + patience) + [True]
    assert early.n_stencils == 2  # equal is no improvement
    assert [step.validation_rmse for step in early.history] == [5.0, 4.0, 4.0, 4.5, 4.1][: 2 + patience]


@pytest.mark.parametrize("clip", [None, (-0.5, 0.5)])
@pytest.mark.parametrize("kind", ["complete", "complete weighted"])
def test_the_held_out_error_is_that_of_the_model(kind, clip):
    obs = twins.case(kind, (40, 30)).observations
    early, state, held_out = searched(obs, [(3, 3)] * 5, 5, clip=clip)
    rows, cols, values = held_out.coo()
    for step in early.history:
        shown = state.stencils().truncate(step.stencil + 1).predict(rows, cols)
        shown = shown if clip is None else np.clip(shown, *clip)
        expected = np.sqrt(np.average((shown - values) ** 2, weights=held_out.weights))
        assert step.validation_rmse == pytest.approx(expected, rel=1e-12)


def test_held_out_rows_without_training_data_are_predicted_as_the_model_does():
    X = np.full((6, 5), np.nan)
    X[:4] = np.random.default_rng(0).integers(0, 9, (4, 5))
    training = Observations.from_dense(X)
    held_out = Observations.from_coo([5, 5, 4, 0], [0, 1, 2, 1], [1.0, 2.0, 3.0, 4.0], shape=(6, 5))
    state = make_engine(training, "cpu", 2, 1).new_state()
    backfit(state, BackfitSettings([(2, 2)] * 2))
    expected = np.sqrt(np.mean(state.stencils().residual(held_out) ** 2))
    assert ValidationSet(held_out, None).rmse_after(state) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("fraction", [0.1, 0.5, 1e-9])
def test_the_split_deals_out_every_entry_once(fraction):
    obs = twins.case("missing weighted").observations
    size = max(1, round(fraction * obs.nnz))
    training, held_out = validation_split(obs, fraction, 7)
    assert held_out.nnz == size
    entries = [set(zip(*(x.tolist() for x in part.coo()), strict=True)) for part in (obs, training, held_out)]
    assert entries[1] | entries[2] == entries[0]
    assert not entries[1] & entries[2]
    again = validation_split(obs, fraction, 7)[1]
    np.testing.assert_array_equal(held_out.values, again.values)
    if size > 1:
        assert set(zip(*(x.tolist() for x in validation_split(obs, fraction, 8)[1].coo()), strict=True)) != entries[2]


def test_too_little_to_hold_out():
    with pytest.raises(InputError, match="early_stopping=False"):
        validation_split(Observations.from_coo([0], [0], [1.0]), 0.1, 0)


# -- random numbers -----------------------------------------------------------------------------------------------


def first(*key: int) -> float:
    return float(generator(*key).random())


def test_streams_are_reproducible():
    assert first(5, Purpose.SEEDING, 1, 2, 3) == first(5, Purpose.SEEDING, 1, 2, 3)
    np.testing.assert_array_equal(
        generator(5, Purpose.VALIDATION).random(99), generator(5, Purpose.VALIDATION).random(99)
    )


def test_streams_of_different_keys_differ():
    keys = [
        (seed, purpose, sweep, stencil, attempt)
        for seed in (0, 1, 2**40)
        for purpose in Purpose
        for sweep in range(3)
        for stencil in range(3)
        for attempt in range(3)
    ]
    assert len({first(*key) for key in keys}) == len(keys)


def test_purposes_never_meet():
    for seed in (0, 1, 2, 123):
        assert first(seed, Purpose.SEEDING) != first(seed, Purpose.VALIDATION)


def test_seeds():
    assert seed_of(7) == seed_of(np.int32(7)) == 7
    assert seed_of(0) == 0
    assert seed_of(None) != seed_of(None)
    for kind in (np.random.default_rng, np.random.RandomState):
        assert seed_of(kind(3)) == seed_of(kind(3)) != seed_of(kind(4))
        random = kind(3)
        assert seed_of(random) != seed_of(random)  # the generator advances
    for source in (None, np.random.default_rng(0), np.random.RandomState(0), 2**70):
        generator(seed_of(source), Purpose.SEEDING)


@pytest.mark.parametrize("bad", [-1, 1.0, "0", True, np.bool_(False), [1], np.float64(3)])
def test_what_is_no_seed(bad):
    with pytest.raises(InputError, match="random_state must be"):
        seed_of(bad)
