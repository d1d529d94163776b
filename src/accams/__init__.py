"""Complete, compress and explain matrices with sums of small co-clusterings (stencils).

The names below are imported when first used, so that ``import accams`` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "ACCAMS": "accams.estimators.accams",
    "BayesianACCAMS": "accams.estimators.bayesian",
    "InputError": "accams.errors",
    "ModelFileError": "accams.errors",
    "Observations": "accams.data.observations",
    "Posterior": "accams.model.posterior",
    "StencilSum": "accams.model.stencils",
    "distill": "accams.estimators.refining",
    "load": "accams.estimators.files",
    "memory_estimate": "accams.engine.memory",
    "refine": "accams.estimators.refining",
}

__all__ = [
    "ACCAMS",
    "BayesianACCAMS",
    "InputError",
    "ModelFileError",
    "Observations",
    "Posterior",
    "StencilSum",
    "__version__",
    "distill",
    "load",
    "memory_estimate",
    "refine",
]

if TYPE_CHECKING:
    from accams import report as report
    from accams import theory as theory
    from accams.data.observations import Observations
    from accams.engine.memory import memory_estimate
    from accams.errors import InputError, ModelFileError
    from accams.estimators.accams import ACCAMS
    from accams.estimators.bayesian import BayesianACCAMS
    from accams.estimators.files import load
    from accams.estimators.refining import distill, refine
    from accams.model.posterior import Posterior
    from accams.model.stencils import StencilSum


def __getattr__(name: str) -> Any:
    if name in ("report", "theory"):
        return importlib.import_module(f"accams.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'accams' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
