"""Blend the stencils with the additive model, by a weight that held-out observations decide.

The prediction is (1 - w) times that of the additive model plus w times that of the stencils. With little to learn w is
below 1, and in the end the effects of rows and columns are all that is left (w = 0: no stencils). A blended draw is a
stencil sum again: templates are multiplied by w, and effects by 1 - w. The variance of the effects, which depends on
how much is known of the row and the column, is part of the predictive spread; with w of 1 or more, that of rows and
columns without observations. These also lack what the stencils explain beside effects.

With plenty of data w is 1 or more: the mean over labels that vary from draw to draw lies too near to the effects. Then
no effects are taken off, but the interactions of the templates are multiplied by w, which is nearly the same (the main
effects of the stencils are nearly those of the additive model) and leaves a sum of stencils alone. `Blend.mean`, by
which validation data is predicted during a run, is therefore approximate there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accams.fit.additive import Additive
from accams.model.posterior import Draw, Effects, Posterior
from accams.model.stencils import StencilSum

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Unseen = tuple[Positions, Positions]


@dataclass(frozen=True)
class Blend:
    """The additive model, and the weight of the stencils that are blended with it."""

    weight: float
    additive: Additive

    def mean(self, stencils: Floats, i: Positions, j: Positions) -> Floats:
        """Return the blended prediction of cells, given that of the stencils."""
        if self.weight == 1.0:
            return stencils
        return np.asarray((1.0 - self.weight) * self.additive.predict(i, j) + self.weight * stencils)

    def draws(self, draws: Sequence[Draw]) -> tuple[Draw, ...]:
        """Return blended draws; those with effects share their arrays."""
        if self.weight == 1.0:
            return tuple(draws)
        if self.weight > 1.0:
            return tuple(replace(draw, made=draw.codes.stretched(self.weight)) for draw in draws)
        rest = 1.0 - self.weight
        rows, cols = (np.append(rest * x, 0.0).astype(np.float32) for x in self._effects)
        made = []
        for draw in draws:
            codes, offset = draw.codes, rest * self.additive.offset + self.weight * draw.codes.offset
            flat = (self.weight * codes.flat).astype(codes.flat.dtype)
            made.append(
                replace(draw, made=replace(codes, flat=flat, row_effects=rows, col_effects=cols, offset=offset))
            )
        return tuple(made)

    def without_stencils(self, unseen: Unseen) -> StencilSum:
        """Return the additive model as a sum without stencils."""
        rows, cols = self._effects
        return StencilSum(
            (len(rows), len(cols)), self.additive.offset, (), *unseen, rows.astype(np.float32), cols.astype(np.float32)
        )

    def posterior(self, posterior: Posterior) -> Posterior:
        """Return the posterior with blended draws and the variances of effects."""
        linear = None if posterior.linear is None else posterior.linear.scaled(self.weight)
        return replace(posterior, draws=self.draws(posterior.draws), effects=self.effects, linear=linear)

    def with_noise(self, posterior: Posterior, noise: float, calibrated: bool) -> Posterior:
        """Return the posterior with this noise: where a row or column was never seen, interactions add to it.

        A calibrated noise is that of an observation of mean weight, a sampled one that of weight one.
        """
        typical = noise if calibrated else noise / np.sqrt(self.additive.unit)
        effects = replace(self.effects, interaction_variance=self.additive.explained_beside(typical, self.weight))
        return replace(posterior, noise=noise, effects=effects)

    @cached_property
    def effects(self) -> Effects:
        """Variances of the effects, as a posterior keeps them."""
        axes, weight = (self.additive.rows, self.additive.cols), min(self.weight, 1.0)
        rows, cols = (np.sqrt(np.append(x.spread(weight), x.variance)).astype(np.float32) for x in axes)
        scale = (1.0 - weight) ** 2
        unseen = np.append(~axes[0].seen, True), np.append(~axes[1].seen, True)
        priors, told = ((scale * a, scale * b) for a, b in zip(*((x.variance, x.told) for x in axes), strict=True))
        return Effects((rows, cols), priors, told, unseen)

    @property
    def _effects(self) -> tuple[Floats, Floats]:
        return self.additive.rows.effects, self.additive.cols.effects
