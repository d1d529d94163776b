"""The noise of a prediction, by the coverage of held-out observations."""

from __future__ import annotations

import numpy as np
import pytest

from accams.fit.noise import FEW, discrete_noise, noise_of, predictive_noise


def test_the_predictive_noise() -> None:
    """Nine tenths of the held-out errors lie within the intervals of spread and noise."""
    random = np.random.default_rng(3)
    error, spread, precision = random.normal(size=500), random.gamma(2, 0.2, 500), random.gamma(9, 0.1, 500)
    found = predictive_noise(error, spread, precision)
    for noise, inside in ((1.000001 * found, 450), (0.999999 * found, 449)):
        assert (np.abs(error) <= 1.64485363 * np.sqrt(spread + noise**2 / precision)).sum() == inside
    without = predictive_noise(error, np.zeros(500), precision)
    assert without == pytest.approx(np.sort(np.sqrt(precision) * np.abs(error))[449] / 1.64485363)
    assert found < without
    assert predictive_noise(0.1 * error, 10 + spread, precision) < 1e-6  # the spread alone explains the errors
    assert predictive_noise(0 * error, 0 * spread, precision) < 1e-100
    scaled = predictive_noise(1e20 * error, 1e40 * spread, precision)
    assert scaled == pytest.approx(1e20 * found)


def test_the_predictive_noise_of_normal_errors() -> None:
    """For normal errors it is their standard deviation: 0.9 % standard error from 20,000 of them, 3 % are allowed."""
    random = np.random.default_rng(5)
    precision = random.gamma(9, 0.1, 20_000)
    error = random.normal(size=20_000) * np.sqrt(0.3 + 0.49 / precision)
    assert predictive_noise(error, np.full(20_000, 0.3), precision) == pytest.approx(0.7, rel=0.03)


@pytest.mark.some(1)
@pytest.mark.parametrize("step", [0.5, 1.0, 2.0])
def test_the_noise_of_a_scale(step: float) -> None:
    """Rounding normal values to steps does not change the noise that is found: 1 % standard error from 20,000."""
    random = np.random.default_rng(2)
    precision, spread = random.gamma(9, 0.1, 20_000), random.gamma(2, 0.1, 20_000)
    mean = random.normal(size=20_000)
    values = mean + random.normal(size=20_000) * np.sqrt(spread + 0.49 / precision)
    values = np.clip(step * np.rint(values / step), -2.0, 2.0)
    levels = np.unique(values)
    middles = (levels[1:] + levels[:-1]) / 2.0
    found = discrete_noise(values, mean, spread, precision, levels, middles)
    assert found == pytest.approx(0.7, rel=0.05)
    assert discrete_noise(
        1e9 * values, 1e9 * mean, 1e18 * spread, precision, 1e9 * levels, 1e9 * middles
    ) == pytest.approx(1e9 * found)


def test_few_observations_count_by_their_squared_error_too() -> None:
    """Many give the noise of their coverage alone; twelve are less than half of what counts."""
    random = np.random.default_rng(4)
    error, spread, precision = random.normal(size=12), np.full(12, 0.1), random.gamma(9, 0.1, 12)
    covering, left = predictive_noise(error, spread, precision), np.mean(precision * (error**2 - spread))
    expected = np.sqrt((12 * covering**2 + FEW * left) / (12 + FEW))
    assert noise_of(error, error, spread, precision, False) == pytest.approx(expected)
    many = [np.tile(x, 2000) for x in (error, spread, precision)]
    assert noise_of(many[0], *many, False) == pytest.approx(covering, rel=2e-3)


def test_observations_without_weight_do_not_count() -> None:
    random = np.random.default_rng(3)
    error, spread, precision = random.normal(size=500), random.gamma(2, 0.2, 500), random.gamma(9, 0.1, 500)
    more = np.append(error, 1e9), np.append(spread, 1.0), np.append(precision, 0.0)
    assert noise_of(more[0], *more, False) == noise_of(error, error, spread, precision, False)
    assert noise_of(error, error, spread, 0.0 * precision, False) == 0.0
