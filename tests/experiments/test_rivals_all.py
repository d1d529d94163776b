"""What holds for every rival."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rivals_planted import NOISE, error, planted

from rivals import ALS, BPMF, DFC, LLORMA, SGD, Ratings, quantise


class Eight:
    """A quantised factorisation as if it were a rival."""

    def fit(self, ratings, **how):
        return quantise(ALS(rank=3, ridge=0.01).fit(ratings, **how), 8)


LIGHT = ALS(rank=5, ridge=0.05, biases=False, centre=False)
LOCAL = ALS(rank=3, ridge=0.02, bias_ridge=0.02)
RIVALS = {
    "SGD": SGD(rank=3, rate=0.05, ridge=0.001, bias_ridge=0.001),
    "ALS": ALS(rank=3, ridge=0.02, bias_ridge=0.02),
    "ALS-WR": ALS(rank=3, ridge=0.001, bias_ridge=0.001, weighted=True),
    "BPMF": BPMF(rank=3, sweeps=60, burn_in=20),
    "DFC-Proj-Ens": DFC(2, base=LIGHT),
    "DFC-Nys-Ens": DFC(2, "nys", base=replace(LIGHT, ridge=0.2)),
    "LLORMA": LLORMA(4, local=LOCAL),
    "8 bits": Eight(),
}


@pytest.fixture(params=list(RIVALS))
def rival(request):
    return RIVALS[request.param]


@pytest.mark.some(3)
def test_planted_factors_are_found_near_the_noise(rival, threads):
    """Within a quarter of the noise's standard deviation, by what is estimated from few cells."""
    train, test = planted()
    fitted = rival.fit(train, threads=threads, **({"watch": test[:2]} if isinstance(rival, BPMF) else {}))
    assert NOISE < error(fitted, test) < 1.25 * NOISE


@pytest.mark.some(3)
def test_the_seed_decides(rival, threads):
    train, test = planted(40, 30)
    first, again, other = (rival.fit(train, seed=s, threads=threads).predict(*test[:2]) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_lines_without_ratings_get_sensible_values(rival, threads):
    train, _ = planted(40, 30)
    known = train.take((train.rows != 5) & (train.cols != 8))
    rows, cols = np.array([5, 5, 6]), np.array([8, 3, 8])
    found = rival.fit(known, threads=threads).predict(rows, cols)
    assert found.dtype == np.float64
    assert np.all((found > train.values.min() - 1) & (found < train.values.max() + 1))


def test_no_ratings_are_an_error(rival, threads):
    nothing = Ratings.of(np.zeros(0, int), np.zeros(0, int), np.zeros(0), (3, 4))
    with pytest.raises(ValueError, match="no ratings"):
        rival.fit(nothing, threads=threads)


def test_positions_beyond_the_shape_are_an_error():
    with pytest.raises(ValueError, match="column positions must lie between 0 and 3"):
        Ratings.of(np.array([0]), np.array([4]), np.ones(1), (3, 4))


def test_lines_hold_every_rating_once():
    train, _ = planted(20, 15, share=0.2)
    for lines, own, other in ((train.by_row(), 0, 1), (train.by_col(), 1, 0)):
        owner = np.repeat(np.arange(train.shape[own]), lines.counts)
        ours = sorted(zip(owner.tolist(), lines.others.tolist(), lines.values, strict=True))
        assert ours == sorted(zip(train[own].tolist(), train[other].tolist(), train.values, strict=True))
