"""Checks of parameters that users type, each with one clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from accams.errors import InputError

MAX_CLUSTERS = 1024  # what the kernels can pack (accams.kernels.sparse.MAX_LABELS)

LARGEST = 1e30


def whole(name: str, value: Any, low: int) -> int:
    """A whole number of at least `low`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise InputError(f"{name} must be a whole number of at least {low}, not {value!r}")
    return int(value)


def number(name: str, value: Any, low: float, high: float = float("inf"), *, open_low: bool = False) -> float:
    """A number between `low` and `high`."""
    above = is_number(value) and (low < value if open_low else low <= value)
    if not above or value > high or value == float("inf"):
        between = f"above {low:g}" if open_low else f"at least {low:g}"
        upper = "" if high == float("inf") else f" and at most {high:g}"
        raise InputError(f"{name} must be a number {between}{upper}, not {value!r}")
    return float(value)


def is_number(value: Any) -> bool:
    """Whether it is a real number, and not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_true(answer: Any) -> bool:
    """Whether a callback said yes: True itself, not just anything that is not nothing."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def one_of(name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """One of a few values."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not any(type(plain) is type(x) and plain == x for x in allowed):
        raise InputError(f"{name} must be {' or '.join(repr(x) for x in allowed)}, not {value!r}")
    return value


def shapes(n_clusters: Any, n_stencils: int, shape: tuple[int, int]) -> list[tuple[int, int]]:
    """(k_rows, k_cols) of each stencil from what the user gave: k, (k_rows, k_cols), or a list of those to
    cycle through. There are never more clusters than rows (columns).

    Examples
    --------
    >>> shapes([(10, 1), (1, 10), 5], 4, (100, 7))
    [(10, 1), (1, 7), (5, 5), (10, 1)]
    """
    given = n_clusters if isinstance(n_clusters, list) else [n_clusters]
    if not given:
        raise InputError("n_clusters is an empty list: give a number, (rows, columns), or a list of those")
    pairs = []
    for each in given:
        if isinstance(each, tuple):
            if len(each) != 2:
                raise InputError(f"n_clusters must be a number or (rows, columns), not {each!r}")
            pair = whole("n_clusters", each[0], 1), whole("n_clusters", each[1], 1)
        else:
            pair = (whole("n_clusters", each, 1),) * 2
        if max(pair) > MAX_CLUSTERS:
            raise InputError(f"n_clusters can be at most {MAX_CLUSTERS}, not {max(pair)}")
        pairs.append((min(pair[0], shape[0]), min(pair[1], shape[1])))
    return [pairs[p % len(pairs)] for p in range(n_stencils)]


def magnitude(low: float, high: float) -> None:
    """Values that single precision can hold, with room for the differences between them."""
    largest, span = max(abs(low), abs(high)), high - low
    if largest > LARGEST or 0.0 < span < 1.0 / LARGEST:
        raise InputError(
            f"the values lie between {low:g} and {high:g}, too {'large' if largest > LARGEST else 'close'} "
            "for single precision: rescale them"
        )


def clip(value: Any) -> None:
    """True, False or (low, high)."""
    if isinstance(value, bool):
        return
    pair = isinstance(value, (tuple, list)) and len(value) == 2 and all(is_number(x) for x in value)
    if not pair or not value[0] < value[1]:
        raise InputError(f"clip must be True, False or (low, high), not {value!r}")


def callbacks(value: Any) -> None:
    """None or a sequence of callables."""
    if value is not None and not (isinstance(value, (tuple, list)) and all(callable(each) for each in value)):
        raise InputError(f"callbacks must be a list of callables, each taking a Step, not {value!r}")
