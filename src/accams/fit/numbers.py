"""The numbers of a panel: which of its cells are numbers, in which units they are whole, and gaps filled."""

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.model.arithmetic import MOST_STEPS
from accams.model.residual import Skip

Values = NDArray[Any]
Floats = NDArray[np.float64]
DIVISORS = (1, 2, 4, 8, 10, 100, 1000, 10_000)  # of whole numbers that values may be
EXACT = 2.0**53  # whole numbers that doubles hold
LARGEST = 2**60  # that are compressed; larger ones are kept as they are
NEAR = 1e-9  # relative error of a bound in units of whole numbers
COARSE = 0.75  # share of the step of a bound that whole steps must have
SOME = 4096  # values that are looked at first
MARGIN = 4.0  # relative roundings of a value's type by which a bound is kept


@dataclass(frozen=True, eq=False)
class Numbers:
    """The cells of a panel.

    Attributes
    ----------
    values : array
        As they came, of the type that comes back.
    kinds : array or None
        0 for numbers, else which of NaN, infinity and minus infinity a cell is; None where all are numbers.
    kept : array of bool or None
        Cells that are stored as they are.
    exact : array
        What steps are counted in: whole numbers, or the cells.
    cells : array
        What stencils are fitted to: values by 2^scale, so that they are about 1, with gaps filled.
    scale, divisor
        See `Arithmetic`.
    low, high : number
        Smallest and largest, whole numbers where values are.
    """

    values: Values
    kinds: Skip | None
    kept: NDArray[np.bool_] | None
    exact: NDArray[np.int64] | Floats
    cells: Floats
    scale: int
    divisor: int
    low: float
    high: float

    @property
    def is_number(self) -> NDArray[np.bool_] | None:
        """Which cells are numbers that are not kept; None for all."""
        if self.kinds is None and self.kept is None:
            return None
        out = np.ones(self.values.shape, bool) if self.kinds is None else self.kinds == 0
        return out if self.kept is None else out & ~self.kept


def numbers_of(values: Values, bound: float | None, precision: float | None = None) -> Numbers:
    """Return the numbers of a panel, to be compressed with a bound on the error of each, or without.

    `precision` is about the error that they may have; cells that are too far from the others for that are kept.
    """
    kinds = _kinds_of(values)
    present = values if kinds is None else values[kinds == 0]
    divisor = _divisor(present, bound)
    large = _too_large(values, kinds, present, bound if precision is None else precision, divisor)
    known = (
        (None if kinds is None else kinds == 0) if large is None else ~large & (True if kinds is None else kinds == 0)
    )
    exact: Any
    if divisor:
        exact = _whole(values, known, divisor)
    else:
        exact = values.astype(np.float64) if known is None else np.where(known, values, 0.0).astype(np.float64)
    inside = exact if known is None else exact[known]
    low, high = (inside.min(), inside.max()) if inside.size else (0, 0)
    filled = exact.astype(np.float64) if known is None else _filled(exact.astype(np.float64), known)
    scale = int(np.frexp(max(abs(float(low)), abs(float(high))))[1])
    cells = np.ldexp(filled, -scale)
    exact = exact if divisor else cells
    bounds = (int(low), int(high)) if divisor else (float(low), float(high))
    return Numbers(values, kinds, large, exact, cells, scale, divisor, *bounds)


def _kinds_of(values: Values) -> Skip | None:
    if values.dtype.kind != "f" or bool(np.isfinite(values).all()):
        return None
    kinds = np.zeros(values.shape, np.uint8)
    for kind, which in enumerate((np.isnan(values), np.isposinf(values), np.isneginf(values)), start=1):
        kinds[which] = kind
    return kinds


def _divisor(present: Values, bound: float | None) -> int:
    """Return by which number all values are whole numbers divided; 0 if by none, or if that would not help."""
    if present.dtype.kind in "iub":
        return 1
    if bound is None or not present.size:
        return 0
    for divisor in DIVISORS:
        units = min(bound * divisor, float(LARGEST))
        step = 2 * floor(units if divisor <= 8 else units * (1.0 - NEAR)) + 1
        if (bound and step < COARSE * 2.0 * units) or not _is_whole(present[:SOME], divisor):
            continue
        if _is_whole(present, divisor):
            return divisor
    if bound == 0.0:
        raise InputError(
            "max_error=0 is for whole numbers, or numbers of few decimals, and these are others: give a bound above 0"
        )
    return 0


def _is_whole(values: Values, divisor: int) -> bool:
    with np.errstate(over="ignore"):
        whole = np.rint(values.astype(np.float64) * divisor)
        same = (whole / divisor).astype(values.dtype) == values
    return bool((same & (np.abs(whole) < EXACT)).all())


def _whole(values: Values, known: NDArray[np.bool_] | None, divisor: int) -> NDArray[np.int64]:
    if values.dtype.kind in "iub":
        return values.astype(np.int64) if known is None else np.where(known, values, 0).astype(np.int64)
    numbers = values if known is None else np.where(known, values, 0.0)
    return np.rint(numbers.astype(np.float64) * divisor).astype(np.int64)


def _too_large(
    values: Values, kinds: Skip | None, present: Values, bound: float | None, divisor: int
) -> NDArray[np.bool_] | None:
    """Return which cells no number of steps could reach from the others, to be kept as they are."""
    if not present.size:
        return None
    if values.dtype.kind in "iub":
        if values.dtype.itemsize < 8:
            return None
        far = (values > LARGEST) | (values < -LARGEST) if values.dtype.kind == "i" else values > LARGEST
    elif bound is None:
        return None
    else:
        step = max(2.0 * bound, 1.0 / divisor if divisor else 0.0)
        middle = _median(present)
        with np.errstate(invalid="ignore", over="ignore"):
            far = np.abs(values.astype(np.float64) - middle) > 0.5 * MOST_STEPS * step
        if kinds is not None:
            far &= kinds == 0
    return np.asarray(far) if far.any() else None


def _median(values: Values) -> float:
    """Return a median that is one of the values, so that nothing overflows."""
    flat = values.ravel()
    return float(np.partition(flat, flat.size // 2)[flat.size // 2])


def _filled(x: Floats, known: NDArray[np.bool_]) -> Floats:
    """Return cells with gaps filled by effects of rows and columns."""
    if not known.any():
        return np.zeros_like(x)
    x = np.where(known, x, 0.0)
    scale = max(float(np.abs(x).max()), 1e-300)
    x /= scale  # so that sums do not overflow
    mean = float(x.sum() / known.sum())
    counts = [known.sum(axis=axis) for axis in (1, 0)]
    rows = np.divide(x.sum(axis=1) - mean * counts[0], counts[0] + 1.0)
    rest = np.where(known, x - mean - rows[:, None], 0.0)
    cols = rest.sum(axis=0) / (counts[1] + 1.0)
    return np.asarray(np.where(known, x, mean + rows[:, None] + cols) * scale)


def check_bound(values: Values, bound: float) -> None:
    """Raise InputError for a bound that is smaller than the distance between neighbouring floats."""
    if values.dtype.kind != "f" or bound == 0.0:
        return
    finite = np.abs(values[np.isfinite(values)])
    if not finite.size:
        return
    usual = _median(finite)
    info = np.finfo(values.dtype)  # not `np.spacing`, which overflows at the largest float
    spacing = max(float(np.ldexp(float(info.eps), int(np.frexp(usual)[1]) - 1)), float(info.smallest_subnormal))
    if bound < 0.5 * spacing and not _is_whole(values[np.isfinite(values)], 1):
        raise InputError(
            f"max_error={bound:g} is smaller than what {values.dtype.name} can tell apart at {usual:g}: "
            f"give at least {0.5 * spacing:.2g}"
        )
