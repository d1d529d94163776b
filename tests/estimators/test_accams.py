"""ACCAMS: the shared tests, and what is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forms import MATRIX, PAIRS, VALUES
from scipy import sparse
from shared import EstimatorTests
from shared_inputs import same_sums

import accams
from accams import ACCAMS, InputError, Observations
from accams.fit import backfit
from accams.fit.backfit import Step

GRAPH = Observations.from_sparse(sparse.csr_array(np.eye(6) + np.eye(6, k=1)), zeros="observed")


def make(**parameters: Any) -> ACCAMS:
    return ACCAMS(**{"n_stencils": 3, "n_clusters": (4, 3), "learning_rate": 0.8, **parameters})


class TestACCAMS(EstimatorTests):
    def make(self, **parameters: Any) -> ACCAMS:
        return make(**parameters)


# -- what is fitted ------------------------------------------------------------------------------------------


def test_fitted_attributes() -> None:
    model = make(n_relearn=1).fit(MATRIX)
    assert (model.n_stencils_, len(model.stencils_), model.engine_) == (3, 3, "cpu")
    assert [(step.sweep, step.stencil) for step in model.history_] == [(s, t) for s in (0, 1) for t in range(3)]
    assert all(isinstance(step, Step) and step.n_stencils == 3 for step in model.history_)
    assert model.train_rmse_ == model.history_[-1].rmse
    raw = make(n_relearn=1, clip=False).fit(MATRIX).score(MATRIX)
    assert model.train_rmse_ == pytest.approx(-raw, rel=1e-5)
    assert model.value_range_ == (1.0, 5.0)
    assert model.validation_history_ == []
    assert make(n_stencils=0).fit(MATRIX).train_rmse_ is None


def test_learning_rate_auto() -> None:
    auto = ACCAMS(n_stencils=2, n_clusters=2)
    assert auto.fit(MATRIX).learning_rate_ == 0.2
    assert auto.fit(np.eye(4)).learning_rate_ == 1.0
    assert make(learning_rate=1).fit(MATRIX).learning_rate_ == 1.0


def test_numbers_of_clusters() -> None:
    def shapes(n_clusters: Any, n_stencils: int = 3) -> list[Any]:
        fitted = make(n_clusters=n_clusters, n_stencils=n_stencils).fit(MATRIX)
        return [T.shape for T in fitted.stencils_.templates]

    assert shapes(5) == [(5, 5)] * 3
    assert shapes((5, 1)) == [(5, 1)] * 3
    assert shapes([(2, 3), 4], 3) == [(2, 3), (4, 4), (2, 3)]
    assert shapes(1000, 1) == [(30, 20)]  # never more than rows and columns
    assert shapes(np.int64(2), np.int64(1)) == [(2, 2)]


def test_refit_and_relearning_lower_the_training_error() -> None:
    ways: list[dict[str, Any]] = [{}, {"n_relearn": 3}, {"refit": True}]
    plain, again, refitted = (make(learning_rate=1.0, **way).fit(MATRIX).train_rmse_ for way in ways)
    assert again < plain
    assert refitted < plain
    assert make(n_init=8, n_stencils=1).fit(MATRIX).train_rmse_ <= make(n_stencils=1).fit(MATRIX).train_rmse_


def test_observed_zeros() -> None:
    model = make().fit(GRAPH)
    assert model.engine_ == "graph"
    zeros = make(engine="dense").fit(np.eye(6) + np.eye(6, k=1))
    np.testing.assert_allclose(model.stencils_.offset, zeros.stencils_.offset, rtol=1e-6)
    assert model.value_range_ == (0.0, 1.0)


def test_a_callback_stops_after_its_stencil() -> None:
    model = make(callbacks=[lambda step: step.stencil == 1]).fit(MATRIX)
    assert model.n_stencils_ == len(model.history_) == 2
    assert same_sums(model.stencils_, make().fit(MATRIX).stencils_.truncate(2))


# -- early stopping ------------------------------------------------------------------------------------------

NOISE = np.random.default_rng(0).normal(size=(40, 30))


def test_early_stopping_takes_fewer_stencils_and_fits_them_to_all_data() -> None:
    noisy = np.add.outer(np.repeat([0.0, 3.0], 20), np.repeat([0.0, 1.5], 15)) + np.random.default_rng(3).normal(
        size=(40, 30)
    )
    model = make(n_stencils=30, early_stopping=True, patience=4).fit(noisy)
    assert 1 <= model.n_stencils_ < 10
    errors = [step.validation_rmse for step in model.validation_history_]
    assert int(np.argmin(errors)) + 1 == model.n_stencils_
    assert len(errors) == model.n_stencils_ + 4
    assert all(step.validation_rmse is None for step in model.history_)
    assert same_sums(model.stencils_, make(n_stencils=model.n_stencils_).fit(noisy).stencils_)


def test_early_stopping_can_find_that_nothing_helps() -> None:
    found = [
        make(n_stencils=30, early_stopping=True, patience=4, random_state=s).fit(NOISE).n_stencils_ for s in range(5)
    ]
    assert min(found) == 0
    assert max(found) < 5


def test_early_stopping_refuses_observed_zeros() -> None:
    graph = Observations.from_sparse(sparse.eye_array(20, format="csr"), zeros="observed")
    with pytest.raises(InputError, match="choose n_stencils yourself"):
        make(early_stopping=True).fit(graph)


def test_early_stopping_goes_on_while_it_helps() -> None:
    parts = np.random.default_rng(1).normal(size=(2, 60, 6))
    planted = parts[0] @ parts[1].T
    few, many = (make(n_stencils=n, n_clusters=2, early_stopping=True).fit(planted) for n in (1, 12))
    assert few.n_stencils_ == 1
    assert many.n_stencils_ > 5


def test_early_stopping_needs_something_to_hold_out() -> None:
    with pytest.raises(InputError, match="set early_stopping=False"):
        make(early_stopping=True).fit([[1.0]])
    assert make(early_stopping=True, n_stencils=0).fit(MATRIX).n_stencils_ == 0


# -- Ctrl-C --------------------------------------------------------------------------------------------------


def interrupt_at(monkeypatch: pytest.MonkeyPatch, call: int, where: str = "alternate") -> None:
    """Ctrl-C inside a stencil, after it has been begun."""
    original, calls = getattr(backfit, where), 0

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        result = original(*args, **kwargs)
        if calls == call:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(backfit, where, interrupted)


def interrupted_fit(model: ACCAMS, left: int, of: int) -> ACCAMS:
    with pytest.warns(UserWarning, match=f"interrupted: .* {left} of {of} stencils") as caught:
        model.fit(MATRIX)
    assert len(caught) == 1
    assert model.n_stencils_ == left
    assert np.isfinite(model.predict(PAIRS)).all()
    return model


def test_an_interrupt_between_stencils() -> None:
    def callback(step: Step) -> None:
        if step.stencil == 1:
            raise KeyboardInterrupt

    model = interrupted_fit(make(n_stencils=5, callbacks=[callback]), 2, 5)
    assert same_sums(model.stencils_, make(n_stencils=2).fit(MATRIX).stencils_)
    assert len(model.history_) == 2
    assert model.train_rmse_ == model.history_[-1].rmse


@pytest.mark.parametrize("engine", ["cpu", "dense"])
@pytest.mark.parametrize("where", ["alternate", "fit_stencil"])
def test_an_interrupt_inside_a_stencil(where: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make(n_stencils=2, engine=engine).fit(MATRIX)
    interrupt_at(monkeypatch, 3, where)
    model = interrupted_fit(make(n_stencils=5, engine=engine, refit=True), 2, 5)
    assert same_sums(model.stencils_, whole.stencils_)
    assert model.train_rmse_ == whole.train_rmse_


def test_an_interrupt_in_the_first_stencil_leaves_the_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 1)
    model = interrupted_fit(make(), 0, 3)
    np.testing.assert_allclose(model.predict(PAIRS), VALUES.mean(), rtol=1e-6)
    assert model.train_rmse_ is None


@pytest.mark.parametrize("where", ["alternate", "fit_stencil"])
def test_an_interrupt_while_relearning_keeps_all_stencils(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = make(n_relearn=2, callbacks=[lambda step: step.sweep == 1 and step.stencil == 0]).fit(MATRIX)
    interrupt_at(monkeypatch, 5, where)
    model = interrupted_fit(make(n_relearn=2), 3, 3)
    assert same_sums(model.stencils_, stop.stencils_)
    assert model.train_rmse_ == stop.train_rmse_


def test_an_interrupt_while_refitting_keeps_the_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make().fit(MATRIX)

    def partly(state: Any, *args: Any) -> None:
        state.begin(0)
        state.end(2 * state.templates[0])
        state.begin(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("accams.estimators.accams.refit", partly)
    model = interrupted_fit(make(refit=True), 3, 3)
    assert same_sums(model.stencils_, plain.stencils_)


def test_an_interrupt_while_choosing_ends_the_whole_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def callback(step: Step) -> None:
        assert step.validation_rmse is not None  # never reached with all data
        if step.stencil == 4:
            raise KeyboardInterrupt

    model = make(n_stencils=20, early_stopping=True, callbacks=[callback])
    with pytest.warns(UserWarning, match="of 20 stencils"):
        model.fit(MATRIX)
    errors = [step.validation_rmse for step in model.validation_history_]
    assert len(errors) == 5
    assert model.n_stencils_ == len(model.history_) == int(np.argmin(errors)) + 1


def test_an_interrupt_after_the_last_stencil(monkeypatch: pytest.MonkeyPatch) -> None:
    def callback(step: Step) -> None:
        if step.stencil == 2:
            raise KeyboardInterrupt

    model = interrupted_fit(make(refit=True, callbacks=[callback]), 3, 3)
    assert same_sums(model.stencils_, make().fit(MATRIX).stencils_)


# -- parameters ----------------------------------------------------------------------------------------------

WHOLE = (-1, 1.5, True, "3", None)
BAD = {
    "n_stencils": WHOLE,
    "n_clusters": (*WHOLE, 0, [], (2,), (2, 3, 4), (0, 2), (2, "x"), [2, 0], [(1, 2, 3)], 2**10 + 1, (2, 70_000)),
    "max_iter": (*WHOLE, 0),
    "n_relearn": WHOLE,
    "n_init": (*WHOLE, 0),
    "patience": (*WHOLE, 0),
    "n_threads": (-1, 0, 1.5, True, "3"),
    "n_shards": (-1, 0, 1.5, True, "3"),
    "tol": (-1, "a", None, float("nan"), float("inf"), True),
    "shrinkage": (-1, "a", None, float("nan"), float("inf"), True),
    "learning_rate": (0, 2, -1, "fast", None, float("nan"), True, np.array([0.1, 0.2])),
    "validation_fraction": (0, 1, -1, "x", True, None),
    "refit": ("yes", 1, None),
    "early_stopping": ("yes", 1, None),
    "verbose": ("yes", 2, None),
    "init": ("kmeans", 3, None),
    "clip": ((1,), (2, 1), ("a", "b"), (1, "b"), "yes", 1, None, (float("nan"), 1), np.array([1, 2])),
    "engine": ("gpu", 3, None, ["cpu"], "graph"),
    "random_state": (-1, "a", 1.5, True),
    "callbacks": (print, "abc", [3]),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_bad_parameters_are_refused_in_fit_with_their_name(name: str, value: Any) -> None:
    model = ACCAMS().set_params(**{name: value})  # no complaint yet, as scikit-learn wants it
    with pytest.raises(InputError, match=name):
        model.fit(MATRIX)
    assert not hasattr(model, "stencils_")


def test_every_parameter_is_checked() -> None:
    assert set(BAD) == set(ACCAMS().get_params())


@pytest.mark.parametrize("engine", ["cpu", "dense"])
def test_observed_zeros_need_the_graph_engine(engine: str) -> None:
    with pytest.raises(InputError, match="observed zeros need engine='graph'"):
        make(engine=engine).fit(GRAPH)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_clusters": [(2, 3), 4]},
        {"n_clusters": [2, 3]},
        {"n_clusters": (2, 3)},
        {"n_clusters": np.int64(2), "learning_rate": np.float64(0.5), "refit": np.True_},
        {"clip": (1, 4.5), "init": "random", "engine": "cpu", "n_threads": 1, "random_state": None},
    ],
)
def test_parameters_are_saved_as_they_are(parameters: dict[str, Any], tmp_path: Path) -> None:
    model = make(**parameters, callbacks=[lambda step: None]).fit(MATRIX)
    model.save(tmp_path / "m.accams")
    loaded = accams.load(tmp_path / "m.accams")
    assert ACCAMS().set_params(**loaded.parameters).get_params() == {**model.get_params(), "callbacks": None}
    for name in ("n_stencils_", "learning_rate_", "engine_", "train_rmse_"):
        assert loaded.info.training[name] == getattr(model, name)
