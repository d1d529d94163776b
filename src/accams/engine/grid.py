"""The grid on which all arithmetic is exact.

Values, offset and templates are integer multiples of one power-of-two step, small enough for 32 bits; their sums are
64-bit integers. So sums do not depend on the order of addition, adding and subtracting a stencil cancels exactly, and
the residual is a pure function of data, labels and templates, on any engine.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.data.weights import power_of_two_above, to_ticks

VALUE_BITS = 22  # bits of a value: about single precision relative to the range of the data
MAX_TICK = 2**31 - 1
FEATURE_STEP = 1.0 / 32.0  # of the integers of 8 bits that features are: from about -4 to 4
LARGEST_FEATURE = 127
BLOCK = 1 << 16  # values converted at a time
ROW_WEIGHT_BITS = 10  # fractional bits of a row's weight, where sums have room for them
MAX_ROW_WEIGHT = 2**20
LARGEST_MASS = 2.0**39  # sum of weights times row weights: times a residual of 23 bits, it fits into an int64
ROW_TOTAL_BITS = 37  # of the same sum if row weights are 1 on average: two bits are left for larger ones
WEIGHT_TOTAL_BITS = 28  # of the sum of observation weights, where rows have weights too


@dataclass(frozen=True)
class Grid:
    """Step, offset, and the bound on templates that keeps every residual within 32 bits.

    `limit` is the largest template entry in ticks, such that no sum of all stencils can overflow. Up to about 500
    stencils it is at least the range of the data; beyond, the rest of very large entries is left to the next stencils.
    """

    step: float  # a power of two; values and templates are integer multiples of it ("ticks")
    offset: float  # of the model, itself on the grid
    limit: int
    weight_step: float = 1.0  # that of the observations, or with row weights a coarser one, to leave room for them
    slopes: bool = False  # whether half of the room is for slopes, a quarter for those of each axis

    @classmethod
    def of(
        cls, obs: Observations, n_stencils: int, offset: float | None = None, *, row_weights: bool = False,
        latent: bool = False, slopes: bool = False,
    ) -> Self:  # fmt: skip
        """Return the grid for a fit of `n_stencils` stencils; the offset is the mean unless given.

        Latent values need as much room again as the data has on the larger side of its mean.
        """
        low, high = obs.value_range
        centre = obs.mean() if offset is None else offset
        span = abs(high) or 1.0 if low == high == centre else max(high - centre, centre - low)
        step = power_of_two_above(2.0 * span if latent else span) * 2.0**-VALUE_BITS
        room = MAX_TICK // 2 if slopes else MAX_TICK
        limit = min(2**24, (room - 2 ** (VALUE_BITS + 1)) // (n_stencils + 1))
        weight_step = obs.weight_step
        if row_weights and obs.stored_weights is not None:
            weight_step = max(weight_step, power_of_two_above(obs.total_weight()) * 2.0**-WEIGHT_TOTAL_BITS)
        return cls(step, float(np.rint(centre / step) * step), limit, weight_step, slopes)

    def weight_ticks(self, obs: Observations, first: int = 0, last: int | None = None) -> NDArray[np.int32]:
        """Return the weights of weighted observations in steps: all, or those of first .. last."""
        stored = obs.stored_weights
        assert stored is not None
        return self.in_weight_steps(stored if (first, last) == (0, None) else stored[first:last], obs.weight_step)

    def in_weight_steps(self, weights: NDArray[np.int32], step: float) -> NDArray[np.int32]:
        """Convert weights that are multiples of another step."""
        return weights if step == self.weight_step else to_ticks(weights, self.weight_step / step)

    def ticks_of(self, values: NDArray[np.floating]) -> NDArray[np.int32]:
        """Return values less the offset, in ticks."""
        out = np.empty(values.shape, dtype=np.int32)
        for start in range(0, len(values), BLOCK):  # block by block, to save memory
            x = values[start : start + BLOCK].astype(np.float64)
            out[start : start + BLOCK] = np.rint((x - self.offset) / self.step)
        return out

    def template(self, T: NDArray[np.float64]) -> NDArray[np.int32]:
        """Round a template, in fractional ticks, to integers that float32 can represent, within the limit."""
        rounded = np.rint(T).astype(np.float32).astype(np.float64)
        return np.clip(rounded, -self.limit, self.limit).astype(np.int32)

    def cut_points(self, cuts: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return cut points in ticks, with the ends of the range of latent values before and after them."""
        inner = np.clip(np.rint((cuts - self.offset) / self.step), -(2**VALUE_BITS), 2**VALUE_BITS)
        return np.array([-(2**VALUE_BITS) - 1, *inner, 2**VALUE_BITS], np.int32)

    @property
    def slope_step(self) -> float:
        """Value of one tick of a slope."""
        return self.step / FEATURE_STEP

    def slope_limit(self, n_features: int) -> int:
        """Return the largest slope in ticks, such that what all together add to a cell stays within its room."""
        return MAX_TICK // 4 // (LARGEST_FEATURE * n_features)

    def feature_ticks(self, features: NDArray[np.floating]) -> NDArray[np.int8]:
        """Return standardised features as integers of 8 bits."""
        ticks = np.rint(features / FEATURE_STEP)
        return np.ascontiguousarray(np.clip(ticks, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.int8))

    def values(self, T: NDArray[np.int32]) -> NDArray[np.float32]:
        """Convert a template from ticks to the scale of the data."""
        return (T * self.step).astype(np.float32)


def row_weight_step(observations: Observations, grid: Grid) -> float:
    """Return the step of row weights, such that sums of weight times row weight times residual fit into 64 bits."""
    ticks = observations.total_weight() / grid.weight_step
    return max(2.0**-ROW_WEIGHT_BITS, power_of_two_above(ticks) * 2.0**-ROW_TOTAL_BITS)


def row_weight_ticks(weights: NDArray[np.float64], step: float, mass: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return row weights in steps, scaled down if sums could overflow; `mass` is the weight of a row's observations."""
    ticks = np.minimum(weights / step, MAX_ROW_WEIGHT)
    ticks = ticks * min(1.0, LARGEST_MASS / float(mass @ ticks))
    return np.maximum(np.rint(ticks), 1.0).astype(np.int32)
