"""Settings as JSON, for files."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from accams.settings.fields import Settings

DEEPEST = 8  # lists within lists in a file


def plain_parameters(settings: Settings, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the parameters that JSON can hold, by name, those of records as ``record__name``."""
    given = settings.get_params()
    return {name: x for name, x in given.items() if name not in without and _is_json(encoded(x))}


def encoded(value: Any) -> Any:
    """Return a value as JSON has it: tuples are marked, paths are text, NumPy's numbers are plain."""
    if isinstance(value, tuple):
        return {"tuple": [encoded(x) for x in value]}
    if isinstance(value, (list, np.ndarray)):
        return [encoded(x) for x in value]
    if isinstance(value, Path):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def decoded(value: Any, depth: int = 0) -> Any:
    """Undo `encoded`; raise ValueError for lists nested deeper than those of any parameter."""
    if not isinstance(value, (dict, list)):
        return value
    if depth == DEEPEST:
        raise ValueError("its parameters are nested too deeply")
    inner = [decoded(x, depth + 1) for x in (value["tuple"] if isinstance(value, dict) else value)]
    return tuple(inner) if isinstance(value, dict) else inner


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, Settings)
