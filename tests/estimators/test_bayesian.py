"""BayesianACCAMS: the shared tests, and all its settings on all engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bayes_models import make, same
from forms import MATRIX, PAIRS, VALUES
from shared import EstimatorTests, average_rule

from accams import BayesianACCAMS, InputError


class TestBayesianACCAMS(EstimatorTests):
    """Four of the shared tests cannot hold for a sampler as they stand, and are said anew below."""

    def make(self, **parameters: Any) -> BayesianACCAMS:
        return make(**{"n_stencils": 2, "n_sweeps": 3, **parameters})

    def same(self, one: Any, two: Any) -> bool:
        return same(one, two)

    def by_hand(self, model: Any, i: int, j: int) -> float:
        """The mean over the draws, each by hand."""
        unseen = model.stencils_.unseen_rows, model.stencils_.unseen_cols
        return float(np.mean([average_rule(draw.stencils(*unseen), i, j) for draw in model.posterior_.draws]))

    def test_a_weight_of_two_is_the_observation_twice(self) -> None:
        """Not here: twice the weight is half the noise variance, so the posterior is another one."""
        weights = np.full(len(VALUES), 4.0)
        once, heavier = (make(noise=1.0, row_noise=None).fit(PAIRS, VALUES, w) for w in (None, weights))
        noisier = make(noise=2.0, row_noise=None).fit(PAIRS, VALUES, weights)
        np.testing.assert_allclose(noisier.predict(PAIRS), once.predict(PAIRS), atol=1e-3)
        assert np.abs(heavier.predict(PAIRS) - once.predict(PAIRS)).max() > 0.1

    def test_no_stencils(self) -> None:
        """Not here: a sampler without stencils has nothing to draw."""
        with pytest.raises(InputError, match="n_stencils must be 'auto' or an integer of at least 1, not 0"):
            make(n_stencils=0).fit(MATRIX)

    @pytest.mark.parametrize(
        "matrix",
        [
            np.array([[1.0, 2.0, 4.0, 4.0]]),
            np.array([[1.0], [2.0], [np.nan], [4.0]]),
            np.array([[1.0, 5.0], [np.nan, 2.0]]),
            MATRIX * 1e-20,
            MATRIX * 1e20,
            MATRIX + 1e6,
        ],
        ids=["row", "column", "few", "tiny", "huge", "far from 0"],
    )
    @pytest.mark.parametrize("engine", ["cpu", "dense"])
    @pytest.mark.covering
    def test_matrices_at_the_edge(self, matrix: Any, engine: str, quick_calibration: None) -> None:
        """Constant ones, which the shared test has too, are refused: a sampler cannot learn a noise of zero."""
        model = make(n_clusters=10, engine=engine, noise="calibrated").fit(matrix)
        low, high = model.value_range_
        assert (low, high) == pytest.approx((np.nanmin(matrix), np.nanmax(matrix)), rel=1e-6)
        mean, std = model.predict(np.argwhere(np.isfinite(matrix)), return_std=True)
        assert ((low <= mean) & (mean <= high)).all()
        assert ((std > 0) & (std < 2 * (high - low))).all()
        assert 0 < model.sigma_ < 2 * (high - low)
