"""From integers to the values of a compressed matrix, in one way for writing and reading.

A value is a prediction plus a whole number of steps. The prediction is an offset plus a whole number of ticks, the sum
of the stencils' entries in ticks, which is exact. What follows is done cell by cell in double precision, or in integers
where the values are whole, so that all machines agree.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]
Values = NDArray[Any]
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip
SCALES = 1100  # absolute values of exponents: those of doubles and some more
MOST_STEPS = 1 << 30  # of a cell; what is farther from its prediction is kept as it is
WRONG = "its arithmetic is damaged"


@dataclass(frozen=True)
class Arithmetic:
    """How values of a type come from sums of ticks and from steps.

    Attributes
    ----------
    dtype : numpy.dtype
    scale : int
        Values are 2^scale times what the offset, the ticks and the steps are in.
    offset : float
    tick : int
        A tick is 2^tick.
    step : float
        In units of the values where those are whole; 0 where there are no steps.
    divisor : int
        Whole values are divided by it; 0 where values are not whole.
    low, high : number
        Bounds of the values, or of whole values before they are divided.
    """

    dtype: np.dtype[Any]
    scale: int
    offset: float
    tick: int
    step: float
    divisor: int
    low: float
    high: float

    @property
    def whole(self) -> bool:
        """Whether predictions are rounded to whole numbers."""
        return self.divisor > 0

    def predicted(self, ticks: Ints) -> Values:
        """Return predictions: whole numbers of 64 bits, or doubles in units of the steps."""
        x = self.offset + np.ldexp(ticks.astype(np.float64), self.tick)
        if not self.whole:
            return np.asarray(x)
        with np.errstate(over="ignore"):
            x = np.clip(np.ldexp(x, self.scale), -(2.0**62), 2.0**62)
        return np.asarray(np.rint(x), np.int64)

    def steps_to(self, x: Values, predicted: Values, dead: float = 0.0) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the steps from predictions to values, and where there are too many.

        Values are whole, or in units of the steps. With `dead`, a share of a step, remainders count for less, so that
        more steps are 0.
        """
        if self.whole:
            step = int(self.step)
            whole = np.floor_divide(x - predicted + step // 2, step)
            far = np.abs(whole) >= MOST_STEPS
            return np.where(far, 0, whole).astype(np.int32), far
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.asarray(x - predicted)  # changed in place, since panels are large
            exact /= self.step
            if dead:
                whole = np.abs(exact)
                whole += 0.5 - dead
                np.copysign(np.floor(whole, out=whole), exact, out=exact)
            else:
                np.rint(exact, out=exact)
            far = ~(np.abs(exact) < MOST_STEPS)
        exact[far] = 0.0
        return exact.astype(np.int32), far

    def values(self, predicted: Values, steps: NDArray[np.int32] | None) -> Values:
        """Return the values of cells."""
        if self.whole:
            v = predicted if steps is None else predicted + int(self.step) * steps.astype(np.int64)
            v = np.clip(v, int(self.low), int(self.high))
            return np.asarray(v if self.dtype.kind in "iub" else v / self.divisor, self.dtype)
        x = predicted if steps is None else predicted + self.step * steps
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(np.ldexp(x, self.scale), self.low, self.high), self.dtype)

    def fields(self) -> dict[str, Any]:
        """Return what a header holds of it; the type and the offset stand elsewhere."""
        numbers = int if self.whole else float
        return {
            "scale": self.scale, "tick": self.tick, "step": numbers(self.step), "divisor": self.divisor,
            "low": numbers(self.low), "high": numbers(self.high),
        }  # fmt: skip

    @classmethod
    def of(cls, fields: dict[str, Any], dtype: np.dtype[Any], offset: float) -> "Arithmetic":
        """Undo `fields`; raise ValueError for what cannot be."""
        whole = type(fields["divisor"]) is int and fields["divisor"] > 0
        kinds: dict[str, type] = dict.fromkeys(("scale", "tick", "divisor"), int)
        kinds.update(dict.fromkeys(("step", "low", "high"), int if whole else float))
        if any(type(fields[name]) is not kind for name, kind in kinds.items()):
            raise ValueError(WRONG)
        made = cls(dtype, offset=offset, **{name: fields[name] for name in kinds})
        small = max(abs(made.scale), abs(made.tick)) <= SCALES and 0 <= made.divisor <= 1 << 53
        bounded = made.low <= made.high and (not whole or max(abs(made.low), abs(made.high), made.step) < 1 << 63)
        fitting = whole or dtype.kind == "f"
        if not (small and bounded and fitting and np.isfinite(offset) and 0 <= made.step < np.inf):
            raise ValueError(WRONG)
        return made
