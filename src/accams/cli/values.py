"""What users type after an option, as the values that the estimators take."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import typer

from accams.errors import InputError

Reader = Callable[[str], Any]
UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def clusters(text: str) -> int | tuple[int, int] | str | None:
    """10, (20, 5) from 20x5, None from none, or auto.

    Examples
    --------
    >>> clusters("10"), clusters("20x5"), clusters("none")
    (10, (20, 5), None)
    """
    if text.lower() in ("none", "auto"):
        return None if text.lower() == "none" else "auto"
    try:
        parts = [int(part) for part in text.lower().split("x")]
    except ValueError:
        parts = []
    if len(parts) not in (1, 2):
        raise typer.BadParameter(f"{text!r} is neither a number nor ROWSxCOLUMNS, such as 20x5, nor none nor auto")
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def number_or(*words: str, kind: type[int] | type[float] = float) -> Reader:
    """A reader of numbers and of these words; `none` becomes None.

    Examples
    --------
    >>> [number_or("none", "auto")(text) for text in ("30", "none", "auto")]
    [30.0, None, 'auto']
    """

    def read(text: str) -> Any:
        if text.lower() in words:
            return None if text.lower() == "none" else text.lower()
        try:
            return kind(text)
        except ValueError:
            number = "a whole number" if kind is int else "a number"
            raise typer.BadParameter(f"{text!r} is neither {number} nor {' nor '.join(words)}") from None

    return read


def word(text: str) -> str | None:
    """A word; `none` becomes None."""
    return None if text.lower() == "none" else text


def numbers(kind: type[int] | type[float] = float) -> Reader:
    """A reader of a number, or of a list of them separated by commas.

    Examples
    --------
    >>> numbers()("10"), numbers(int)("3,1")
    (10.0, [3, 1])
    """

    def read(text: str) -> Any:
        try:
            found = [kind(part) for part in text.split(",")]
        except ValueError:
            what = "whole numbers" if kind is int else "numbers"
            raise typer.BadParameter(f"{text!r} is not a list of {what}, such as 3,1") from None
        return found if len(found) > 1 else found[0]

    return read


def quantiles(text: str) -> list[float]:
    """Levels between 0 and 1, separated by commas.

    Examples
    --------
    >>> quantiles("0.05,0.95")
    [0.05, 0.95]
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0.0 < level < 1.0 for level in found):
        raise typer.BadParameter(f"{text!r} is not a list of numbers between 0 and 1, such as 0.05,0.95")
    return found


def size(text: str) -> float | None:
    """Bytes; KB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and TiB of 1024.

    Examples
    --------
    >>> size("8GB"), size("1.5 KiB"), size("none")
    (8000000000.0, 1536.0, None)
    """
    if text.lower() == "none":
        return None
    parts = re.fullmatch(r"(\d+\.?\d*(?:e\d+)?) *([kmgt]?)(i?)b?", text.strip().lower())
    if parts is None:
        raise typer.BadParameter(f"{text!r} is not a size, such as 8GB or 500MB")
    return float(parts[1]) * (1024.0 if parts[3] else 1000.0) ** UNITS[parts[2]]


def whole_bytes(text: str) -> int:
    """A size that must be there.

    Examples
    --------
    >>> whole_bytes("50k")
    50000
    """
    found = size(text)
    if found is None or found < 1:
        raise typer.BadParameter(f"{text!r} is not a size, such as 50k or 1.5MB")
    return int(found)


READERS: dict[str, Reader] = {
    "alpha": numbers(),
    "beta": numbers(),
    "burn_in": number_or("auto", kind=int),
    "max_bytes": whole_bytes,
    "checkpoint": str,
    "clusters": clusters,
    "effects": word,
    "learning_rate": number_or("auto"),
    "memory": whole_bytes,
    "memory_limit": size,
    "noise": number_or("calibrated", "sampled"),
    "quantiles": quantiles,
    "row_noise": number_or("none", "auto"),
    "sigma_max": number_or("none"),
    "sub": numbers(int),
    "stencils": number_or("auto", kind=int),
    "sweeps": number_or("auto", kind=int),
    "tau": number_or("scaled", "sampled"),
    "thin": number_or("auto", kind=int),
}


def read(name: str, given: Any) -> Any:
    """The value of the option `name` (with underscores), from what was given."""
    reader = READERS.get(name)
    if reader is None or given is None:
        return given
    try:
        return reader(given)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint=f"--{name.replace('_', '-')}") from None


def join_cluster(engine: str, address: str | None) -> None:
    """Connect to the Ray cluster of --address, if one was given."""
    if address is None:
        return
    if engine != "ray":
        raise InputError("--address is that of a Ray cluster: add --engine ray")
    from accams.engine.ray.cluster import join

    join(address)
