"""ACCAMSImputer: accuracy, uncertainty, new rows, and scikit-learn's conventions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from accams import ACCAMSImputer, InputError
from accams.estimators import completing

SMALL: dict[str, Any] = {"n_stencils": 2, "n_threads": 1}


def planted(rows: int = 120, cols: int = 8, share: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
    """A matrix of rank two with noise, and the same with gaps."""
    random = np.random.default_rng(seed)
    full = random.normal(size=(rows, 2)) @ random.normal(size=(2, cols)) + 0.2 * random.normal(size=(rows, cols))
    full *= np.geomspace(1, 50, cols)
    return full, np.where(random.random(full.shape) < share, np.nan, full)


FULL, GAPPY = planted()
MISSING = np.isnan(GAPPY)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sweeps and folds, where it does not matter how well gaps are filled."""
    monkeypatch.setattr(completing, "MORE_SWEEPS", 8)
    monkeypatch.setattr(completing, "FOLDS", 2)


@pytest.fixture(scope="module")
def fitted() -> ACCAMSImputer:
    return ACCAMSImputer(**SMALL).fit(GAPPY)


@pytest.mark.some(10)
@parametrize_with_checks([ACCAMSImputer(n_stencils=1, n_threads=1)])
def test_scikit_learn_checks(estimator: Any, check: Any, short: None) -> None:
    check(estimator)


# -- accuracy ----------------------------------------------------------------------------------------------------


def rmse(full: Any, truth: Any, hidden: Any) -> float:
    return float(np.sqrt(np.mean((full - truth)[hidden] ** 2)))


def test_digits_beside_neighbours_and_means() -> None:
    truth = load_digits().data[:700]
    hidden = np.random.default_rng(0).random(truth.shape) < 0.3
    X = np.where(hidden, np.nan, truth)
    imputer = ACCAMSImputer(n_stencils=8, keep_empty_features=True).fit(X)
    full, std = imputer.transform(X, return_std=True)
    knn = rmse(KNNImputer(keep_empty_features=True).fit_transform(X), truth, hidden)
    means = rmse(SimpleImputer(keep_empty_features=True).fit_transform(X), truth, hidden)
    assert rmse(full, truth, hidden) < 0.97 * knn
    assert knn < 0.8 * means
    covered = np.abs(full - truth)[hidden] <= 1.645 * std[hidden]
    assert covered.mean() == pytest.approx(0.9, abs=0.05)


@pytest.mark.full  # test_large_data_is_sampled_for_the_fit fills rows that are new to the fit
def test_new_rows_are_filled_nearly_as_well() -> None:
    truth = load_digits().data[:900]
    hidden = np.random.default_rng(1).random(truth.shape) < 0.3
    X = np.where(hidden, np.nan, truth)
    imputer = ACCAMSImputer(n_stencils=4, keep_empty_features=True).fit(X[:600])
    full, std = imputer.transform(X[600:], return_std=True)
    means = SimpleImputer(keep_empty_features=True).fit(X[:600]).transform(X[600:])
    assert rmse(full, truth[600:], hidden[600:]) < 0.6 * rmse(means, truth[600:], hidden[600:])
    covered = np.abs(full - truth[600:])[hidden[600:]] <= 1.645 * std[hidden[600:]]
    assert covered.mean() == pytest.approx(0.9, abs=0.06)


@pytest.mark.full  # test_digits_beside_neighbours_and_means looks at intervals, too
def test_intervals_cover_nine_tenths_of_a_wide_matrix() -> None:
    full, gappy = planted(40, 160, 0.3, 3)
    filled, std = ACCAMSImputer(**SMALL).fit_transform(gappy, return_std=True)
    gaps = np.isnan(gappy)
    assert np.mean((np.abs(filled - full) <= 1.645 * std)[gaps]) == pytest.approx(0.9, abs=0.06)
    assert (std[gaps] > 0).all()
    assert not std[~gaps].any()


# -- the same again ----------------------------------------------------------------------------------------------


def test_fit_transform_is_fit_and_transform(short: None) -> None:
    full, fitted = ACCAMSImputer(**SMALL).fit_transform(GAPPY), ACCAMSImputer(**SMALL).fit(GAPPY)
    np.testing.assert_array_equal(full, fitted.transform(GAPPY))
    np.testing.assert_array_equal(full[::-1][:20], fitted.transform(GAPPY[::-1][:20]))
    np.testing.assert_array_equal(full[~MISSING], GAPPY[~MISSING])


def test_threads_change_nothing(short: None, chains_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accams.threads.SMALLEST_PIECE", 50)  # so that passes go to several threads
    one = ACCAMSImputer(n_stencils=2, n_threads=1).fit(GAPPY)
    two = ACCAMSImputer(n_stencils=2, n_threads=2).fit(GAPPY)
    np.testing.assert_array_equal(one.transform(GAPPY), two.transform(GAPPY))
    np.testing.assert_array_equal(one.transform(-GAPPY), two.transform(-GAPPY))


def test_seeds_decide(short: None) -> None:
    one, same, other = (ACCAMSImputer(**SMALL, random_state=seed).fit_transform(GAPPY) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one[MISSING] != other[MISSING]).any()


def test_each_new_row_is_filled_by_itself(fitted: ACCAMSImputer) -> None:
    _, new = planted(seed=5)
    all_at_once = fitted.transform(new)
    for i in (0, 7, 50):
        np.testing.assert_allclose(fitted.transform(new[i : i + 1])[0], all_at_once[i], rtol=1e-6)


def test_clone_pickle_and_pipelines(fitted: ACCAMSImputer, short: None) -> None:
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.transform(GAPPY), fitted.transform(GAPPY))
    np.testing.assert_array_equal(copy.transform(2 * GAPPY), fitted.transform(2 * GAPPY))
    assert repr(clone(ACCAMSImputer(n_stencils=3, scale=None))) == "ACCAMSImputer(n_stencils=3, scale=None)"
    assert not hasattr(clone(fitted), "completion_")
    y = FULL[:, 0]
    search = GridSearchCV(
        make_pipeline(ACCAMSImputer(**SMALL), Ridge()), {"accamsimputer__scale": ["auto", None]}, cv=2
    )
    assert search.fit(GAPPY, y).best_score_ > 0.9


# -- draws -------------------------------------------------------------------------------------------------------


def test_draws_spread_as_the_standard_deviation_says(fitted: ACCAMSImputer) -> None:
    mean, std = fitted.transform(GAPPY, return_std=True)
    draws = np.stack(fitted.draws(GAPPY, n=60))
    assert draws.shape == (60, *GAPPY.shape)
    np.testing.assert_array_equal(draws[:, ~MISSING], np.broadcast_to(GAPPY[~MISSING], (60, (~MISSING).sum())))
    ratio = draws[:, MISSING].std(axis=0, ddof=1) / std[MISSING]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
    z = (draws.mean(axis=0) - mean)[MISSING] / std[MISSING] * np.sqrt(60)
    assert np.std(z) == pytest.approx(1.0, abs=0.2)
    np.testing.assert_array_equal(fitted.draws(GAPPY, n=2)[1], draws[1])


def test_sample_posterior_is_one_draw_with_its_seed(short: None) -> None:
    one, same, other = (
        ACCAMSImputer(**SMALL, sample_posterior=True, random_state=seed).fit_transform(GAPPY) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one[MISSING] != other[MISSING]).all()
    np.testing.assert_array_equal(one, ACCAMSImputer(**SMALL).fit(GAPPY).draws(GAPPY, n=1)[0])


def test_batches_have_noise_of_their_own(fitted: ACCAMSImputer) -> None:
    mean, std = fitted.transform(GAPPY, return_std=True)
    noise = []
    for at in (slice(0, 40), slice(40, 80)):
        drawn = fitted.draws(GAPPY[at], n=1)[0]
        noise.append((drawn - mean[at]) / np.where(MISSING[at], std[at], 1.0))
    both = MISSING[:40] & MISSING[40:80]
    assert (np.abs(noise[0] - noise[1])[both] > 1e-9).all()


def test_draws_stay_in_the_range_of_a_column(short: None) -> None:
    skewed = np.exp(2.0 * FULL[:, :3])
    X = np.where(MISSING[:, :3], np.nan, skewed)
    drawn = np.stack(ACCAMSImputer(**SMALL, scale="columns").fit(X).draws(X, n=20))
    span = np.nanmax(X, axis=0) - np.nanmin(X, axis=0)
    assert (drawn >= np.nanmin(X, axis=0) - 0.2 * span).all()


# -- shapes and values -------------------------------------------------------------------------------------------

cells = st.one_of(st.just(np.nan), st.floats(-1e12, 1e12), st.integers(-3, 3).map(float), st.just(1e-9))


@pytest.mark.usefixtures("short")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=cells))
def test_any_matrix_is_filled_and_keeps_what_is_known(X: Any) -> None:
    imputer = ACCAMSImputer(n_stencils=1, n_threads=1, keep_empty_features=True).fit(X)
    full, std = imputer.transform(X, return_std=True)
    known = ~np.isnan(X)
    assert full.shape == X.shape
    assert np.isfinite(full).all()
    assert np.isfinite(std).all()
    np.testing.assert_array_equal(full[known], X[known])
    new = imputer.transform(X[::-1] + 1.0)
    assert np.isfinite(new).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (2, 2), (3, 40), (60, 2)])
def test_small_shapes(shape: tuple[int, int], short: None) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=shape)
    X[random.random(shape) < 0.2] = np.nan
    X[0] = 1.0
    imputer = ACCAMSImputer(**SMALL).fit(X)
    assert np.isfinite(imputer.transform(X)).all()
    assert np.isfinite(imputer.transform(np.full((2, shape[1]), np.nan))).all()


def test_scales_from_tiny_to_large() -> None:
    factors = np.array([1e-9, 1e12, 1.0, 1e-6, 1e6, 3.0, 7.0, 1e9])
    shift = np.array([0.0, 1e12, 5.0, 1.0, 0.0, 0.0, 1e6, 0.0])
    full = ACCAMSImputer(**SMALL).fit_transform(GAPPY * factors + shift)
    error = np.abs(full - (FULL * factors + shift)) / (factors * FULL.std(axis=0))
    assert np.sqrt(np.mean(error[MISSING] ** 2)) < 0.5


def test_one_outlier_ruins_nothing(fitted: ACCAMSImputer) -> None:
    wild, cell = GAPPY.copy(), tuple(np.argwhere(~MISSING)[30])
    wild[cell] = 1e9
    full = ACCAMSImputer(**SMALL).fit_transform(wild)
    clean = fitted.transform(GAPPY)
    scale = FULL.std(axis=0)
    assert rmse(full / scale, FULL / scale, MISSING) < 1.3 * rmse(clean / scale, FULL / scale, MISSING)


def test_duplicated_rows_are_filled_alike(short: None) -> None:
    X = np.concatenate([GAPPY, GAPPY[:30]])
    full = ACCAMSImputer(**SMALL).fit_transform(X)
    np.testing.assert_array_equal(full[:30], full[len(GAPPY) :])


def test_large_data_is_sampled_for_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accams.estimators.completing.MOST_ROWS", 200)
    monkeypatch.setattr("accams.estimators.completing.ROWS_BY_ROWS", 300)
    monkeypatch.setattr("accams.estimators.imputer.CELLS", 1000)
    truth, X = planted(1000)
    imputer = ACCAMSImputer(**SMALL).fit(X)
    assert imputer.completion_ is not None
    assert len(imputer.completion_.rows) == 200
    full = imputer.transform(X)
    np.testing.assert_array_equal(full, imputer.transform(X))
    assert rmse(full / truth.std(axis=0), truth / truth.std(axis=0), np.isnan(X)) < 0.45


def test_parameters_are_checked(short: None) -> None:
    for name, value in {"scale": "rows", "n_stencils": 0, "missing_values": "?", "n_threads": 0}.items():
        with pytest.raises(InputError, match=f"{name} must be"):
            ACCAMSImputer(**{name: value}).fit(GAPPY)
    with pytest.raises(InputError, match="n must be an integer"):
        ACCAMSImputer(**SMALL).fit(GAPPY).draws(GAPPY, n=0)


def test_ratings_are_filled_with_whole_numbers_or_with_means(short: None) -> None:
    random = np.random.default_rng(0)
    truth = np.clip(np.rint(3.0 + np.outer(random.normal(size=150), random.normal(size=12))), 1, 5)
    hidden = random.random(truth.shape) < 0.3
    X = np.where(hidden, np.nan, truth)
    whole = ACCAMSImputer(**SMALL).fit_transform(X)
    means = ACCAMSImputer(**SMALL, round_integers=False).fit_transform(X)
    np.testing.assert_array_equal(whole, np.clip(np.rint(means), 1, 5))
    assert rmse(means, truth, hidden) < rmse(whole, truth, hidden)
    typed = ACCAMSImputer(**SMALL, round_integers=False, missing_values=0).fit_transform(
        np.where(hidden, 0, truth).astype(int)
    )
    assert typed.dtype == int


def test_sparse_data_are_first_predicted_in_two_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    original, ways = completing._stencils, []

    def stencils(*given: Any) -> Any:
        ways.append(given[-1])
        return original(*given)

    monkeypatch.setattr(completing, "_stencils", stencils)
    monkeypatch.setattr(completing, "FOLDS", 1)
    monkeypatch.setattr(completing, "MORE_SWEEPS", 16)
    random = np.random.default_rng(0)
    truth = random.normal(size=(240, 1)) + random.normal(size=60) + 0.3 * random.normal(size=(240, 60))
    hidden = random.random(truth.shape) < 0.9
    full = ACCAMSImputer(n_stencils=2, keep_empty_features=True, random_state=0, verbose=False).fit_transform(
        np.where(hidden, np.nan, truth)
    )
    assert rmse(full, truth, hidden) < 0.6
    assert ways == [False, True]
    ways.clear()
    ACCAMSImputer(**SMALL).fit(GAPPY)
    assert ways == [False]
