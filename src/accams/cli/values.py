"""Parse and check values of options."""

from pathlib import Path

import typer

from accams.errors import InputError
from accams.settings.kinds import Bytes


def quantiles(text: str | None) -> list[float]:
    """Parse levels between 0 and 1, separated by commas.

    Examples
    --------
    >>> quantiles("0.05,0.95")
    [0.05, 0.95]
    """
    if text is None:
        return []
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(0.0 < level < 1.0 for level in levels):
        text = f"{text!r} is not a list of numbers between 0 and 1, such as 0.05,0.95"
        raise typer.BadParameter(text, param_hint="--quantiles")
    return levels


def size_in_bytes(flag: str, text: str) -> int:
    """Parse a size.

    Examples
    --------
    >>> size_in_bytes("--max-bytes", "50k")
    50000
    """
    try:
        size = int(Bytes().read(text))
    except ValueError:
        size = 0
    if size < 1:
        raise typer.BadParameter(f"{text!r} is not a size, such as 50k or 1.5MB", param_hint=flag)
    return size


def join_cluster(engine: str, address: str | None) -> None:
    """Connect to the Ray cluster of --address, if one was given."""
    if address is None:
        return
    if engine != "ray":
        raise InputError("--address is that of a Ray cluster: add --engine ray")
    from accams.engine.ray.cluster import join

    join(address)


def check_outputs(paths: dict[str, Path | None]) -> None:
    """Raise InputError for files that cannot be written: in folders that do not exist, or two in one place."""
    names: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent} to write {path.name} into")
        first = names.setdefault(path.resolve(), name)
        if first != name:
            raise InputError(f"{path} cannot be both the {first} and the {name}: give one of them another name")
