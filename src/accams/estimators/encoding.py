"""Parameters as JSON, for files."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from accams.estimators.params import Parameters


def encoded_parameters(estimator: Parameters, without: Collection[str] = ()) -> dict[str, Any]:
    """The parameters of an estimator that JSON can hold."""
    given = {name: encoded(value) for name, value in estimator.get_params().items() if name not in without}
    return {name: value for name, value in given.items() if _is_json(value)}


def encoded(value: Any) -> Any:
    """JSON knows neither tuples nor paths nor NumPy's numbers."""
    if isinstance(value, tuple):
        return {"tuple": [encoded(x) for x in value]}
    if isinstance(value, (list, np.ndarray)):
        return [encoded(x) for x in value]
    if isinstance(value, Path):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def decoded(value: Any) -> Any:
    """The value that was encoded."""
    if isinstance(value, dict):
        return tuple(decoded(x) for x in value["tuple"])
    return [decoded(x) for x in value] if isinstance(value, list) else value


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
