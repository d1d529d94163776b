"""Blends of stencils with the additive model: draws, weights, and what is taken where."""

import numpy as np
import pytest
from test_fit_additive import planted

from accams.fit import calibrate
from accams.fit.additive import fit_additive
from accams.fit.blend import Blend
from accams.fit.calibrate import blend_weight, ensemble_losses
from accams.model.posterior import Draw, Posterior
from accams.model.stencils import StencilSum


def draws(shape: tuple[int, int], n: int = 3) -> list[Draw]:
    random, none = np.random.default_rng(0), np.zeros(0, np.int64)
    made = []
    for d in range(n):
        labels = random.integers(3, size=shape[0]), random.integers(2, size=shape[1])
        made.append(Draw.of(d, 5, StencilSum(shape, 2.5, (), none, none).append(random.normal(size=(3, 2)), *labels)))
    return made


def test_blended_draws() -> None:
    data = planted(0, (40, 30), 300)[0]
    additive, plain = fit_additive(data), draws(data.shape)
    blend = Blend(0.3, additive)
    i, j = np.indices(data.shape).reshape(2, -1)
    blended = blend.draws(plain)
    for before, after in zip(plain, blended, strict=True):
        expected = 0.7 * additive.predict(i, j) + 0.3 * before.predict(i, j)
        np.testing.assert_allclose(after.predict(i, j), expected, atol=1e-5)
        np.testing.assert_allclose(blend.mean(before.predict(i, j), i, j), expected, rtol=1e-12)
    assert blended[0].codes.row_effects is blended[2].codes.row_effects
    unknown = blended[0].predict(np.array([-1]), np.array([-1]))[0]
    average = plain[0].predict(np.array([-1]), np.array([-1]))[0]
    assert unknown == pytest.approx(0.7 * additive.offset + 0.3 * average, abs=1e-5)
    assert Posterior(data.shape, blended, 1.0).nbytes < sum(draw.nbytes for draw in blended)


def test_with_all_weight_on_the_stencils_draws_stay_as_they_are() -> None:
    data = planted(0, (400, 30), 300)[0]
    blend, plain = Blend(1.0, fit_additive(data)), draws(data.shape)
    assert blend.draws(plain) == tuple(plain)
    posterior = blend.posterior(Posterior(data.shape, tuple(plain), 1.0))
    i, j = np.indices(data.shape).reshape(2, -1)
    more = posterior.moments(i, j)[1] - posterior.moments_of_draws(i, j)[1]
    np.testing.assert_array_equal(more > 0, (data.counts(0)[i] == 0) | (data.counts(1)[j] == 0))
    assert not posterior.effects.blended


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_stretched_draws(factor: float) -> None:
    """Interactions are multiplied, and averages of rows, of columns and of all cells stay."""
    data = planted(0, (40, 30), 3000)[0]
    blend, plain = Blend(factor, fit_additive(data)), draws(data.shape)
    posterior = blend.posterior(Posterior(data.shape, tuple(plain), 1.0))
    i, j = np.indices(data.shape).reshape(2, -1)
    for before, after in zip(plain, posterior.draws, strict=True):
        x, y = (draw.predict(i, j).reshape(data.shape) for draw in (before, after))
        rows, cols, mean = x.mean(axis=1, keepdims=True), x.mean(axis=0), x.mean()
        np.testing.assert_allclose(y, rows + cols - mean + factor * (x - rows - cols + mean), atol=1e-5)
        new = np.full(len(j), -1)
        np.testing.assert_allclose(after.predict(new, j), before.predict(new, j), atol=1e-5)
        assert after.codes.row_effects is None
    assert not posterior.effects.blended


def test_how_far_draws_are_stretched() -> None:
    """Where stencils have enough data their weight is 1 or more, and the level is chosen without it."""
    data = planted(3, (300, 200), 4000)[0]
    additive = fit_additive(data)
    part = calibrate.CalibrationSet(data, additive, (1.0, 1.5))
    random, n = np.random.default_rng(0), data.nnz
    truth = part.base + random.normal(0, 0.8, n)
    part.count, part.values = 1, truth + random.normal(0, 0.5, n)
    for share, expected in ((0.8, 1.25), (1.3, 1.0), (0.4, 1.5)):
        part.sums = part.base + share * (truth - part.base) + random.normal(0, 0.05, (8, n))
        losses, weights = part.losses(4, 8)
        assert weights == pytest.approx(expected, abs=0.06)
        means = np.stack([part.sums[level::4].mean(axis=0) for level in range(4)])
        assert losses.mean() == pytest.approx(np.mean((part.values - means) ** 2), rel=0.01)


def test_without_stencils() -> None:
    data = planted(0, (40, 30), 300)[0]
    blend = Blend(0.0, fit_additive(data))
    one = blend.without_stencils((data.empty(0), data.empty(1)))
    i, j = np.indices(data.shape).reshape(2, -1)
    np.testing.assert_allclose(one.predict(i, j), blend.additive.predict(i, j), atol=1e-5)
    assert len(one) == 0


@pytest.mark.parametrize("signal", [0.0, 0.3, 1.0, 5.0])
def test_the_best_weight(signal: float) -> None:
    """The weight is where the expected error is lowest."""
    random = np.random.default_rng(1)
    truth = random.normal(size=4000)
    rest = signal * truth + random.normal(size=4000)
    means = truth + random.normal(0, 0.7, size=(2, 4000))
    weights = random.gamma(4, 0.25, 4000)
    found = blend_weight(means, rest, weights, 8)
    tried = np.linspace(-0.5, 5.5, 3001)
    errors = [np.mean(weights * ensemble_losses(w * means, rest, 8)) for w in tried]
    assert found == pytest.approx(tried[int(np.argmin(errors))], abs=0.002)
    assert found == pytest.approx(signal / (1 + 0.49 / 8), abs=0.1)
    assert blend_weight(0.0 * means, rest, weights, 8) == 0.0


def test_stencils_are_for_what_they_improve() -> None:
    """Effects alone where draws say nothing more, nearly all weight on draws where effects say nothing more."""
    data = planted(3, (300, 200), 4000)[0]
    additive = fit_additive(data)
    part = calibrate.CalibrationSet(data, additive, (0.0, 1.0))
    random, n = np.random.default_rng(0), data.nnz
    part.count, noise = 1, random.normal(0, 0.3, (8, n))

    def outcome(draws: np.ndarray) -> tuple[bool, float]:
        part.sums = draws
        losses, weights = part.losses(4, 8)
        return part.improved_by(losses), weights.mean()

    truth = part.base + random.normal(0, 0.8, n)
    part.values = truth + random.normal(0, 0.5, n)
    assert outcome(part.base + noise) == (False, pytest.approx(0.0, abs=0.3))
    assert outcome(3.0 * truth - 2.0 * part.base + noise) == (True, pytest.approx(1 / 3, abs=0.02))
    assert outcome(truth + noise) == (True, pytest.approx(1.0, abs=0.04))
