"""The additive model: effects against the exact posterior, variances against planted ones, weights, edges."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from accams import Observations
from accams.fit import additive
from accams.fit.additive import Additive, fit_additive


def planted(
    seed: int, shape: tuple[int, int] = (600, 300), n: int = 6000, popular: float = 0.0, stds: tuple = (0.7, 0.5, 1.0)
) -> tuple[Observations, np.ndarray, np.ndarray]:
    """Return observations of an additive model, and its effects; those of columns rise with their popularity."""
    random = np.random.default_rng(seed)
    chance = random.gamma(1.0, size=shape[1])
    rows = random.normal(0, stds[0], shape[0])
    cols = random.normal(0, stds[1], shape[1]) + popular * np.log(chance)
    i, j = random.integers(shape[0], size=n), random.choice(shape[1], n, p=chance / chance.sum())
    i, j = np.unique(np.stack([i, j]), axis=1)
    values = 3.0 + rows[i] + cols[j] + random.normal(0, stds[2], len(i))
    return Observations.from_coo(i, j, values, shape=shape), rows, cols


def exact(observations: Observations, model: Additive) -> np.ndarray:
    """Return the best linear predictions of all cells given the variances: one system for mean, slopes and effects."""
    i, j, values = observations.coo()
    (m, n), noise = observations.shape, model.noise
    counts = [observations.counts(axis) for axis in (0, 1)]
    logs = [np.log(np.maximum(x / x[x > 0].min(), 1.0)) for x in counts]
    fixed = np.column_stack([np.ones(len(values)), logs[0][i], logs[1][j]])
    random = np.zeros((len(values), m + n))
    random[np.arange(len(values)), i] = random[np.arange(len(values)), m + j] = 1.0
    priors = np.repeat([model.rows.variance, model.cols.variance], [m, n])
    covariance = random * priors @ random.T + noise * np.eye(len(values))
    inverse = np.linalg.inv(covariance)
    prior = np.diag([0.0, 1.0 / model.rows.variance, 1.0 / model.cols.variance])
    slopes = np.linalg.solve(fixed.T @ inverse @ fixed + prior, fixed.T @ inverse @ values)
    effects = priors * (random.T @ (inverse @ (values - fixed @ slopes)))
    rows = slopes[1] * logs[0] + effects[:m]
    return np.asarray(slopes[0] + rows[:, None] + slopes[2] * logs[1] + effects[m:])


def test_effects_are_best_linear_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alternating between rows and columns, long enough, solves the joint system, unseen lines included."""
    data, *_ = planted(0, (32, 35), 180)
    monkeypatch.setattr(additive, "PASSES", 400)
    monkeypatch.setattr(additive, "_set_variances", lambda *_: None)  # hold them
    monkeypatch.setattr(additive, "ROUNDS", 1)
    model = fit_additive(data)
    noise = (1 - 2 * additive.START) * data.values.var()  # that of the passes; the last step updates it
    i, j = np.indices(data.shape).reshape(2, -1)
    expected = exact(data, Additive(model.offset, model.rows, model.cols, noise))
    np.testing.assert_allclose(model.predict(i, j), expected.ravel(), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_variances(seed: int) -> None:
    """Within a fifth of the planted ones; the estimates have standard errors of 6, 10 and 2 %."""
    model = fit_additive(planted(seed, n=9000)[0])
    assert model.rows.variance == pytest.approx(0.49, rel=0.2)
    assert model.cols.variance == pytest.approx(0.25, rel=0.3)
    assert model.noise == pytest.approx(1.0, rel=0.1)


def test_variances_where_rows_have_two_observations() -> None:
    """Three thousand rows of two observations: a standard error of about 8 %."""
    random = np.random.default_rng(3)
    i = np.repeat(np.arange(3000), 2)
    j = np.concatenate([random.choice(400, 2, replace=False) for _ in range(3000)])
    values = random.normal(0, 0.6, 3000)[i] + random.normal(0, 0.5, 400)[j] + random.normal(0, 1.0, 6000)
    model = fit_additive(Observations.from_coo(i, j, values))
    assert model.rows.variance == pytest.approx(0.36, rel=0.25)
    assert model.cols.variance == pytest.approx(0.25, rel=0.25)


def test_new_columns_are_expected_to_be_like_those_with_few_observations() -> None:
    data, _, cols = planted(1, n=4000, popular=0.4)
    model = fit_additive(data)
    counts = data.counts(1)
    assert model.offset < 3.0 + cols[counts > 0].mean() - 0.2
    few = model.offset + model.cols.effects[(counts > 0) & (counts <= 3)].mean()
    assert model.offset == pytest.approx(few, abs=0.25)
    np.testing.assert_array_equal(model.cols.effects[counts == 0], 0.0)


def test_the_spread_is_that_of_the_errors() -> None:
    """Squared errors of predicted cells, over their variance, have mean one, for seen and unseen rows and columns."""
    data, rows, cols = planted(2, (1500, 700), 3000)
    model = fit_additive(data)
    i, j = np.random.default_rng(0).integers((1500, 700), size=(40_000, 2)).T
    ratio = (model.predict(i, j) - 3.0 - rows[i] - cols[j]) ** 2 / model.spread(i, j)
    row_seen, col_seen = data.counts(0)[i] > 0, data.counts(1)[j] > 0
    for some in (row_seen & col_seen, row_seen & ~col_seen, ~row_seen & col_seen, ~row_seen & ~col_seen):
        assert some.sum() > 5
        assert ratio[some].mean() == pytest.approx(1.0, abs=0.45)
    np.testing.assert_array_equal(model.spread(i, j, 1.0) == 0.0, row_seen & col_seen)


def test_weights_are_as_good_as_repetitions() -> None:
    """Doubling all weights halves the noise of a unit, and changes nothing else."""
    data = planted(4)[0]
    i, j, values = data.coo()
    weights = np.random.default_rng(0).integers(1, 4, len(values)).astype(float)
    one, two = (fit_additive(Observations.from_coo(i, j, values, weights=w)) for w in (weights, 2.0 * weights))
    np.testing.assert_allclose(one.predict(i, j), two.predict(i, j), rtol=1e-6)
    assert two.noise == pytest.approx(2.0 * one.noise, rel=1e-6)
    plain = fit_additive(Observations.from_coo(i, j, values, weights=np.ones(len(values))))
    np.testing.assert_allclose(plain.predict(i, j), fit_additive(data).predict(i, j), rtol=1e-9)


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted(5, (90, 60), 600)[0]
    whole = fit_additive(data)
    monkeypatch.setattr(additive, "BLOCK", 7 - sum(data.shape))
    i, j, _ = data.coo()
    np.testing.assert_allclose(fit_additive(data).predict(i, j), whole.predict(i, j), rtol=1e-9)


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (1, 1)], ids=str)
def test_a_single_row_or_column(shape: tuple[int, int]) -> None:
    values = np.arange(9.0)[: max(shape)].reshape(shape)
    model = fit_additive(Observations.from_dense(values))
    assert np.isfinite(model.predict(*np.indices(shape).reshape(2, -1))).all()
    assert np.isfinite(model.spread(*np.indices(shape).reshape(2, -1))).all()


def test_one_observation_of_each_row() -> None:
    """Effects of rows cannot be told from noise, and those of columns are found."""
    random = np.random.default_rng(6)
    cols = random.normal(0, 1, 20)
    j = random.integers(20, size=2000)
    model = fit_additive(Observations.from_coo(np.arange(2000), j, cols[j] + random.normal(0, 0.5, 2000)))
    assert model.rows.variance < 1e-3
    assert np.corrcoef(model.cols.effects, cols)[0, 1] > 0.99


# -- features ---------------------------------------------------------------------------------------------------------


def with_features(seed: int, size: float) -> tuple[Observations, np.ndarray, np.ndarray]:
    """Return observations, features of columns, and effects of columns, which depend on them (by so much)."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(200, 4))
    cols = features @ (size * np.array([1.0, -1.0, 0.5, 0.0])) + random.normal(0, 0.3, 200)
    i, j = np.unique(random.integers([400, 190], size=(1500, 2)), axis=0).T
    values = 3.0 + random.normal(0, 0.4, 400)[i] + cols[j] + random.normal(0, 1.0, len(i))
    return Observations.from_coo(i, j, values, shape=(400, 200)), features, cols


def test_best_variance_has_the_highest_likelihood() -> None:
    """Against the density of the data, the first coefficient taken out by projection."""
    random = np.random.default_rng(0)
    for size in (0.0, 0.4, 2.0):
        terms, weights = np.column_stack([np.ones(40), random.normal(size=(40, 3))]), random.gamma(2.0, size=40)
        y = 1.0 + terms[:, 1:] @ random.normal(0, size, 3) + random.normal(size=40) / np.sqrt(weights)
        rest = np.linalg.svd(terms[:, :1], full_matrices=True)[0][:, 1:]  # contrasts that the constant does not reach
        tried = np.array([0.01, 0.1, 1.0, 10.0])

        def likelihood(x: float, terms=terms, weights=weights, rest=rest, y=y) -> float:  # type: ignore[no-untyped-def]
            cov = rest.T @ (np.diag(1.0 / weights) + x * terms[:, 1:] @ terms[:, 1:].T) @ rest
            return float(multivariate_normal(cov=cov).logpdf(rest.T @ y))

        scaled = terms * weights[:, None]
        found = additive._best_variance(scaled.T @ terms, scaled.T @ y, 1, tried)
        assert found == max([0.0, *tried], key=likelihood)


def test_effects_follow_features_also_of_columns_never_seen() -> None:
    data, features, cols = with_features(0, 0.8)
    told, plain = fit_additive(data, (None, features)), fit_additive(data)
    i, j = np.repeat(0, 200), np.arange(200)
    errors = [np.std((model.predict(i, j) - cols)[190:]) for model in (told, plain)]
    assert errors[0] < 0.45 < 0.8 < errors[1]
    assert told.cols.variances[190] < 0.2 < 0.8 < told.cols.variance  # unknown features: as without any
    assert np.std(told.predict(i, j)[:190] - cols[:190]) < 0.8 * np.std(plain.predict(i, j)[:190] - cols[:190])


def test_features_that_say_nothing_change_little() -> None:
    """Of seven data sets the likelihood prefers no features in most; where not, coefficients are small."""
    changes = []
    for seed in range(7):
        data, features, _ = with_features(seed, 0.0)
        told, plain = fit_additive(data, (None, features)), fit_additive(data)
        i, j = np.indices(data.shape).reshape(2, -1)
        changes.append(float(np.std(told.predict(i, j) - plain.predict(i, j))))
    assert np.median(changes) < 1e-9
    assert max(changes) < 0.15


def test_lines_without_features_are_average() -> None:
    data, features, _ = with_features(1, 0.8)
    features[195:] = 0.0
    model = fit_additive(data, (None, features))
    np.testing.assert_array_equal(model.cols.effects[195:], 0.0)
    np.testing.assert_array_equal(model.cols.variances[195:], model.cols.variance)
