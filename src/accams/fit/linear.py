"""From the slopes of a run to the linear part of a model: their means and variances over sweeps and chains."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accams.engine.grid import FEATURE_STEP
from accams.engine.memory import SLOPE_BLOCKS
from accams.fit.chains import Chains
from accams.fit.gibbs import SLOPE_INTERVAL, Chain
from accams.model.linear import Linear

Singles = NDArray[np.float32]


@dataclass
class SlopeBlock:
    """Sums over the sweeps [first, last) of the slopes of one axis, on the scale of the model, and of their squares."""

    first: int
    last: int
    sums: Singles  # (line, feature)
    squares: Singles  # (line,), over all features
    tau2: NDArray[np.float64]  # (feature,), of their variances
    number: int  # of slopes added up for each line

    def joined(self, after: "SlopeBlock") -> "SlopeBlock":
        sums, squares, tau2 = self.sums + after.sums, self.squares + after.squares, self.tau2 + after.tau2
        return SlopeBlock(self.first, after.last, sums, squares, tau2, self.number + after.number)


@dataclass
class SlopeMeans:
    """Means over chains and sweeps of the slopes of rows (axis 0) and of columns, where they have any.

    Sums are kept by blocks of sweeps, since the burn-in is known in the end only: one matrix of slopes per draw would
    take more memory than all labels. Chains are added in order, so that rounding does not depend on threads.
    """

    blocks: tuple[list[SlopeBlock], list[SlopeBlock]] = field(default_factory=lambda: ([], []))
    width: int = 1  # of a block, in draws of slopes

    def add(self, sweep: int, chains: Sequence[Chain], factor: float) -> None:
        """Add the slopes of a sweep, if it is the first or has drawn new ones (of ordinal chains times a factor)."""
        if sweep % SLOPE_INTERVAL and any(self.blocks):
            return
        for axis, blocks in enumerate(self.blocks):
            drawn = [self._of(axis, sweep, c, factor if c.ordinal else 1.0) for c in chains if _has(c, axis)]
            for chain, block in enumerate(drawn):
                if blocks and (chain or blocks[-1].last - blocks[-1].first < self.width * SLOPE_INTERVAL):
                    blocks[-1] = blocks[-1].joined(block)
                else:
                    blocks.append(block)
        if max(map(len, self.blocks)) > SLOPE_BLOCKS:
            for blocks in self.blocks:
                pairs = [blocks[p : p + 2] for p in range(0, len(blocks), 2)]
                blocks[:] = [pair[0].joined(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
            self.width *= 2

    def _of(self, axis: int, sweep: int, chain: Chain, factor: float) -> SlopeBlock:
        step = factor * chain.state.engine.grid.slope_step
        slopes = (chain.state.present_slopes(axis) * step).astype(np.float32)
        tau2 = factor**2 * chain.slope_tau2[axis]
        return SlopeBlock(sweep, sweep + SLOPE_INTERVAL, slopes, np.square(slopes).sum(axis=1), tau2, 1)

    def linear(self, chains: Chains, burn_in: int) -> Linear | None:
        """Return the linear part of the model by the sweeps since `burn_in`, or None where there are no slopes."""
        if not any(self.blocks):
            return None
        obs, features = chains.engine.observations, chains.engine.features
        lines, spreads, priors = [], [], []
        for axis, blocks in enumerate(self.blocks):
            size = obs.shape[axis]
            if not blocks:
                lines.append(np.zeros((size + 1, 0), np.float32))
                spreads.append(np.zeros(size + 1, np.float32))
                priors.append(np.zeros(0))
                continue
            total = blocks[-1]
            for block in blocks[-2::-1]:
                if block.first < burn_in:
                    break
                total = block.joined(total)
            mean, prior = total.sums / total.number, total.tau2 / total.number
            spread = (total.squares / total.number - np.square(mean).sum(axis=1)) / mean.shape[1]
            # as in stencils, whoever has no observations is the average of those who have: slopes share what columns of
            # these features have in common for all rows
            seen = np.setdiff1d(np.arange(size), obs.empty(axis))
            average = mean[seen].mean(axis=0, dtype=np.float64)
            mean[obs.empty(axis)], spread[obs.empty(axis)] = average, prior.mean()
            lines.append(np.append(mean, [average], axis=0).astype(np.float32))
            spreads.append(np.append(np.maximum(spread, 0.0), prior.mean()).astype(np.float32))
            priors.append(prior)
        X, Z = (_standardised(features[1 - axis], obs.shape[1 - axis]) for axis in (0, 1))
        both = np.hstack([lines[0], Z]), np.hstack([X, lines[1]])
        variances = np.append(priors[0], _variances(Z)), np.append(_variances(X), priors[1])
        return Linear(*both, lines[0].shape[1], (spreads[0], spreads[1]), variances, chains.blocks.given)


def _has(chain: Chain, axis: int) -> bool:
    return chain.state.slopes[axis] is not None


def _standardised(features: NDArray[np.int8] | None, size: int) -> Singles:
    """Return features with a last line of zeros, for unknown ones."""
    ticks = np.zeros((size, 0), np.int8) if features is None else features
    return np.append(ticks * np.float32(FEATURE_STEP), np.zeros((1, ticks.shape[1]), np.float32), axis=0)


def _variances(features: Singles) -> NDArray[np.float64]:
    return np.asarray(np.square(features[:-1].astype(np.float64)).mean(axis=0))
