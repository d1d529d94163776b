"""What BayesianACCAMS refuses, each in one sentence that says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bayes_models import GRAPH, PLACES, make
from forms import MATRIX

from accams import BayesianACCAMS, InputError, Observations, Priors, Schedule, memory_estimate

WHOLE = (-1, 1.5, True, "3", None)
NUMBER = (0, -1, float("nan"), float("inf"), True)
BAD: dict[str, tuple[Any, ...]] = {
    "n_stencils": (*WHOLE, 0),
    "n_clusters": (0, -1, 1.5, True, "3", None, [], (2,), (0, 2), (2, "x"), [2, 0]),
    "sampler": ("gibbs", None, 3),
    "labels": ("crp", "uniform", None),
    "alpha": (*NUMBER, "x", None, [], [1.0, 0.0], [1.0, "x"], [[1.0]]),
    "beta": (*NUMBER, "x", [], [1.0, -1.0]),
    "noise": (*NUMBER, "free", None, [0.5]),
    "likelihood": ("probit", None, 1, ["ordinal"]),
    "sigma_max": (*NUMBER, "x", [1.0]),
    "eta": ((1.0,), (1.0, 0.0), (0, 1), 3.0, "x", (1.0, "x"), (float("nan"), 1.0), (float("inf"), 1.0)),
    "tau": (*NUMBER, "free", None),
    "gamma": ((1.0,), (1.0, 0.0), (0, 1), 3.0, "x", (1.0, "x"), (float("nan"), 1.0), (float("inf"), 1.0)),
    "row_noise": (*NUMBER, "some", [1.0]),
    "effects": ("biases", True, 1),
    "implicit": (0, -1, 1.5, "3", "some", [3], True),
    "init": ("random", None),
    "n_chains": (*WHOLE, 0),
    "n_sweeps": (*WHOLE, 0, "all"),
    "n_burn_in": (*WHOLE, 4, 5, "some"),  # the model has four sweeps
    "thin": (*WHOLE, 0, "some"),
    "max_draws": (*WHOLE, 0),
    "n_sub": (0, -1, 1.5, "3", None, [], [0, 1], [1, 0], [1.5], ["x"], True),
    "backfit": (*WHOLE[:-1], 0, "backfit"),
    "priors": (3, "crp", {"alpha": 1.0}, Schedule()),
    "schedule": (3, "all", {"n_sub": 1}, Priors()),
    "tol": (-1, "a", None, float("nan"), float("inf"), True),
    "early_stopping": ("yes", 1, None),
    "validation_fraction": (0, 1, -1, "x", True, None),
    "patience": (*WHOLE, 0),
    "rao_blackwell": ("yes", 1, None),
    "clip": ((1,), (2, 1), ("a", "b"), "yes", 1, None, (float("nan"), 1)),
    "engine": ("gpu", 3, None, "graph"),
    "n_threads": (-1, 0, 1.5, True, "3"),
    "n_shards": (-1, 0, 1.5, True, "3"),
    "memory_limit": (0, -1, float("nan"), True, "1 GB"),
    "checkpoint": (3, True, 1.5),
    "checkpoint_every": (*WHOLE, 0),
    "random_state": (-1, "a", 1.5, True),
    "callbacks": (print, "abc", [3]),
    "verbose": ("yes", 2, None),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_bad_parameters_are_refused_in_fit_with_their_name(name: str, value: Any) -> None:
    model = make().set_params(**{PLACES.get(name, name): value})  # no complaint yet, as scikit-learn wants it
    with pytest.raises(InputError, match=name) as caught:
        model.fit(MATRIX)
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "stencils_")


def test_every_parameter_is_checked() -> None:
    assert {PLACES.get(name, name) for name in BAD} == set(BayesianACCAMS().get_params())


@pytest.mark.parametrize("value", [np.int64(2), [np.int64(2), 1], np.array([2, 1]), (2, 1)])
def test_numbers_of_numpy_are_numbers(value: Any) -> None:
    expected = make(n_sub=2 if isinstance(value, np.integer) else [2, 1]).fit(MATRIX)
    model = make(n_sub=value, n_stencils=np.int64(3), n_sweeps=np.int32(4), alpha=np.float32(1), noise=np.float64(0.8))
    np.testing.assert_array_equal(model.fit(MATRIX).predict([[0, 0]]), expected.predict([[0, 0]]))


def refused(message: str, data: Any = MATRIX, **parameters: Any) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make(**parameters).fit(data)
    assert "\n" not in str(caught.value)


# -- parameters that do not go together ----------------------------------------------------------------------


def test_pairs_of_sampler_and_prior() -> None:
    refused("sampler 'blocked' needs labels='dirichlet': for labels='crp' use sampler='collapsed'", labels="crp")
    for pair in ({}, {"sampler": "collapsed"}):
        refused("no bound.* needs sampler='collapsed' and labels='crp'", n_clusters=None, **pair)


def test_too_many_clusters() -> None:
    wide = np.random.default_rng(0).normal(size=(300, 260))
    for k in (256, (2, 256), [3, (256, 2)]):
        refused("n_clusters can be at most 255 here, not 256", wide, n_clusters=k)
    refused("n_clusters must be .* an integer from 1 to 1024, .* not 2000", wide, n_clusters=2000)


def test_burn_in_and_sweeps() -> None:
    refused("n_burn_in must be smaller than n_sweeps, but is 4 of 4", n_burn_in=4)
    refused("n_burn_in must be smaller than n_sweeps, but is 9 of 4", n_burn_in=9)


def test_observed_zeros() -> None:
    refused("row_noise needs missing cells: with observed zeros set row_noise=None", GRAPH, row_noise=5)
    refused("no continuous effects: use effects='stencils' or None", GRAPH, effects="continuous")
    refused("set early_stopping=False", GRAPH, early_stopping=True)
    for engine in ("cpu", "dense"):
        refused("observed zeros need engine='graph'", GRAPH, engine=engine)
    refused("engine='graph' needs zeros='observed'", engine="graph")


def test_a_bound_below_the_noise() -> None:
    """Taken as it is, with a warning."""
    model = make(noise="sampled", sigma_max=0.3)
    with pytest.warns(UserWarning, match=r"at its upper bound sigma_max=0.3: the data is noisier, raise sigma_max"):
        model.fit(MATRIX)
    assert 0.29 < model.sigma_ <= 0.3


@pytest.mark.filterwarnings("ignore:the noise has stayed at its upper bound")
def test_the_bound_holds_for_calibrated_noise(quick_calibration: None) -> None:
    assert make(noise="calibrated", sigma_max=0.3, n_stencils=1).fit(MATRIX).sigma_ <= 0.3


def test_the_bound_is_for_noise_that_is_sampled_or_calibrated() -> None:
    assert make(noise=0.8, sigma_max=0.3).fit(MATRIX).sigma_ == pytest.approx(0.8)


# -- memory --------------------------------------------------------------------------------------------------


def test_the_memory_limit_says_how_many_chains_fit() -> None:
    observations = Observations.from_dense(MATRIX)
    settings = {"n_stencils": 3, "n_clusters": (4, 3)}
    for fits in (1, 3):
        limit = memory_estimate(observations.shape, observations.nnz, n_chains=fits, **settings)
        message = f"6 chains need about .* more than memory_limit allows .*: set n_chains={fits}"
        refused(message, memory_limit=limit, n_chains=6)
        make(memory_limit=limit, n_chains=fits).fit(MATRIX)
    one = memory_estimate(observations.shape, observations.nnz, n_chains=1, **settings)
    refused("even one chain does not fit", memory_limit=one - 1, n_chains=6)
    refused("even one chain does not fit", memory_limit=one - 1, n_chains=1)


def test_more_chains_than_the_machine_has_memory_for() -> None:
    refused("1000000000 chains need about .* more than this machine has .*: set n_chains=", n_chains=1_000_000_000)


# -- data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        np.full((5, 4), 2.5),
        np.where(np.eye(5) > 0, np.nan, 2.5),
        np.array([[2.5]]),
        np.array([[np.nan, 2.5]]),
        np.array([[2.5, 2.5, 2.5]]),
    ],
    ids=["constant", "gaps", "1 x 1", "one cell", "one row"],
)
@pytest.mark.parametrize("noise", [0.8, "calibrated", "sampled"])
def test_a_single_value_is_what_is_predicted(data: Any, noise: Any) -> None:
    with pytest.warns(UserWarning, match=r"^all values are 2.5: that is what the model predicts"):
        model = make(noise=noise).fit(data, predict_at=[[0, 0], [7, 0]])
    mean, std = model.predict([[0, 0], [0, 7], [7, 0], [7, 7]], return_std=True)
    assert mean.tolist() == [2.5] * 4
    assert std.tolist() == [0.0] * 4
    assert model.predicted_at_.tolist() == [2.5, 2.5]
    assert (model.n_stencils_, model.n_sweeps_) == (0, 0)
    assert model.fold_in({0: 2.5} if data.shape[1] == 1 or np.isfinite(data[0, 0]) else {1: 2.5}).predict([0]) == 2.5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.full((3, 3), np.nan), "there are no observations: every cell is NaN"),
        (np.array([[1.0, np.inf]]), "the value at row position 0, column position 1 is inf: values must be finite"),
        (np.array([[1.0, -1e300]]), "too large for single precision: rescale them"),
    ],
    ids=["missing", "infinite", "huge"],
)
def test_data_without_anything_to_learn(data: Any, message: str) -> None:
    for noise in (0.8, "calibrated", "sampled"):
        refused(message, data, noise=noise)


def test_weights_that_leave_a_constant() -> None:
    matrix = np.array([[1.0, 2.0, 2.0], [2.0, 2.0, 5.0]])
    with pytest.warns(UserWarning, match="all values are 2: that is what the model predicts"):
        make().fit(matrix, sample_weight=np.where(matrix == 2, 1.0, 0.0))


@pytest.mark.parametrize("noise", [0.8, "calibrated", "sampled"])
@pytest.mark.parametrize("matrix", [np.array([[1.0, 2.0, 4.0, 4.0]]), np.array([[1.0], [3.0], [2.0]])])
def test_a_single_row_or_column_is_enough(matrix: Any, noise: Any) -> None:
    model = make(noise=noise).fit(matrix)
    assert np.isfinite(model.predict(np.argwhere(matrix), return_std=True)).all()


@pytest.mark.parametrize("early", [{"early_stopping": True}, {"early_stopping": True, "validation_fraction": 0.9}])
def test_too_little_to_hold_out(early: Any) -> None:
    model = make(**early)
    two = np.array([[1.0, 2.0]])
    if early.get("validation_fraction") == 0.9:
        with pytest.raises(InputError, match="set early_stopping=False"):
            model.fit(two)
    else:
        assert np.isfinite(model.fit(np.array([[1.0, 2.0, 5.0]])).predict([[0, 0]])).all()
