"""A model as those see it who use it: sums of stencils, ids, and what is known of the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from accams.data.ids import Index
from accams.errors import InputError
from accams.model.posterior import Draw, Posterior
from accams.model.stencils import StencilSum
from accams.use.explain import Members, prominence
from accams.use.scoring import Catalogue, Floats, Positions, Seen, Sums


@dataclass(frozen=True)
class View:
    """What the functions of this floor need of a model.

    Attributes
    ----------
    stencils : StencilSum
    posterior : Posterior or None
        Where there is one, its draws are what predicts.
    rows, cols : Index
        Raw ids.
    clip : (float, float) or None
        The range within which predictions are kept.
    noise : float
        Standard deviation of an observation, for folding in.
    seen : Seen or None
        What the rows have observed, where that is known.
    activity : (array, array) or None
        How many observations rows and columns had, about.
    distil : function
        Makes one small stencil sum of many draws, by which they explain themselves.
    blank : float
        Weight of cells that are not stored, where those are observed zeros.
    """

    stencils: StencilSum
    posterior: Posterior | None
    rows: Index
    cols: Index
    clip: tuple[float, float] | None
    noise: float
    seen: Seen | None
    activity: tuple[Floats, Floats] | None
    distil: Callable[[], StencilSum]
    blank: float = 0.0

    @cached_property
    def sums(self) -> Sums:
        """The sums whose mean is predicted."""
        if self.posterior is None:
            return Sums([self.stencils.codes], [None])
        draws = self.posterior.draws
        return Sums([draw.codes for draw in draws], [draw.row_shares for draw in draws])

    @cached_property
    def catalogue(self) -> Catalogue:
        """All columns that have data, laid out for scoring."""
        return Catalogue.of(self.sums, np.setdiff1d(np.arange(len(self.cols)), self.stencils.unseen_cols))

    @cached_property
    def explainer(self) -> View:
        """The model of a single sum that explains this one: itself, or what is distilled of many draws."""
        return self if self.posterior is None else replace(self, stencils=self.distil(), posterior=None)

    @cached_property
    def members(self) -> Members:
        """Who is in which block of a single sum."""
        codes = self.stencils.codes
        return Members(codes, self.rows, self.cols, self.activity or prominence(codes))

    def thin(self, n_draws: int) -> View:
        """The same with at most so many draws, which answers faster."""
        if self.posterior is None or len(self.posterior) <= n_draws:
            return self
        if n_draws not in self._thinned:
            self._thinned[n_draws] = replace(self, posterior=self.posterior.thin(n_draws))
        return self._thinned[n_draws]

    @cached_property
    def _thinned(self) -> dict[int, View]:
        return {}

    @cached_property
    def transposed(self) -> View:
        """The same model with rows for columns; nothing is known of what its rows have seen, nor of their noise."""
        posterior = self.posterior
        if posterior is not None:
            draws = [
                Draw.of(draw.chain, draw.sweep, draw.stencils(*self._unseen).transposed()) for draw in posterior.draws
            ]
            posterior = Posterior(posterior.shape[::-1], tuple(draws), posterior.noise)
        stencils, activity = self.stencils.transposed(), None if self.activity is None else self.activity[::-1]
        return View(
            stencils,
            posterior,
            self.cols,
            self.rows,
            self.clip,
            self.noise,
            None,
            activity,
            self._distil_turned,
            self.blank,
        )

    @property
    def _unseen(self) -> tuple[Positions, Positions]:
        return self.stencils.unseen_rows, self.stencils.unseen_cols

    def _distil_turned(self) -> StencilSum:
        return self.distil().transposed()

    def moments(self, i: Positions, j: Positions) -> tuple[Floats, Floats]:
        """Mean prediction before clipping, and variance of an observation (0 where the model knows of none)."""
        if self.posterior is None:
            return self.stencils.predict(i, j), np.zeros(len(i))
        mean, spread = self.posterior.moments(i, j)
        return mean, spread + self.row_noise(i)

    def row_noise(self, i: Positions) -> Floats:
        """Variance of the noise in these rows."""
        assert self.posterior is not None
        return self.posterior.noise**2 * self.posterior.row_noise(i)

    def clipped(self, prediction: Floats) -> Floats:
        """Predictions within the range of the model."""
        return prediction if self.clip is None else np.clip(prediction, *self.clip)

    def need_draws(self, what: str) -> None:
        """Refuse what only a posterior can say."""
        if self.posterior is None:
            raise InputError(f"{what} needs a model with draws (BayesianACCAMS); this one has a single stencil sum")

    def check_order(self, return_std: bool, quantile: float | None) -> float:
        """By how many standard deviations below the mean recommendations are ordered; refuses what cannot be."""
        if return_std:
            self.need_draws("return_std")
        if quantile is None:
            return 0.0
        self.need_draws("quantile")
        if not isinstance(quantile, (int, float)) or not 0.0 < quantile < 1.0:
            raise InputError(f"quantile must be a number between 0 and 1, not {quantile!r}")
        return -float(ndtri(quantile))
