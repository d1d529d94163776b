"""Complete, compress and explain matrices with sums of small co-clusterings (stencils).

The names below are imported when first used, so that ``import accams`` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOMES = {
    "ACCAMS": "accams.estimators.accams",
    "BayesianACCAMS": "accams.estimators.bayesian",
    "Diagnostics": "accams.use.diagnostics",
    "Evaluation": "accams.use.evaluation",
    "Explanation": "accams.use.explain",
    "FoldedRow": "accams.fitted.folding",
    "InputError": "accams.errors",
    "Interactions": "accams.model.interactions",
    "MissingDataError": "accams.errors",
    "Model": "accams.fitted.model",
    "ModelFileError": "accams.errors",
    "Observations": "accams.data.observations",
    "Posterior": "accams.model.posterior",
    "Priors": "accams.settings.bayesian",
    "Recommendation": "accams.use.records",
    "Records": "accams.use.records",
    "Schedule": "accams.settings.bayesian",
    "Stencil": "accams.model.stencils",
    "StencilSum": "accams.model.stencils",
    "Step": "accams.fit.backfit",
    "Sweep": "accams.fit.run",
    "distill": "accams.fitted.refining",
    "load": "accams.fitted.loading",
    "memory_estimate": "accams.engine.memory",
    "refine": "accams.fitted.refining",
}
_MODULES = ("baselines", "batch", "data", "metrics", "report", "theory")

__all__ = [
    "ACCAMS",
    "BayesianACCAMS",
    "Diagnostics",
    "Evaluation",
    "Explanation",
    "FoldedRow",
    "InputError",
    "Interactions",
    "MissingDataError",
    "Model",
    "ModelFileError",
    "Observations",
    "Posterior",
    "Priors",
    "Recommendation",
    "Records",
    "Schedule",
    "Stencil",
    "StencilSum",
    "Step",
    "Sweep",
    "__version__",
    "baselines",
    "batch",
    "data",
    "distill",
    "load",
    "memory_estimate",
    "metrics",
    "refine",
    "report",
    "theory",
]

if TYPE_CHECKING:
    from accams import baselines, batch, data, metrics, report, theory
    from accams.data.observations import Observations
    from accams.engine.memory import memory_estimate
    from accams.errors import InputError, MissingDataError, ModelFileError
    from accams.estimators.accams import ACCAMS
    from accams.estimators.bayesian import BayesianACCAMS
    from accams.fit.backfit import Step
    from accams.fit.run import Sweep
    from accams.fitted.folding import FoldedRow
    from accams.fitted.loading import load
    from accams.fitted.model import Model
    from accams.fitted.refining import distill, refine
    from accams.model.interactions import Interactions
    from accams.model.posterior import Posterior
    from accams.model.stencils import Stencil, StencilSum
    from accams.settings.bayesian import Priors, Schedule
    from accams.use.diagnostics import Diagnostics
    from accams.use.evaluation import Evaluation
    from accams.use.explain import Explanation
    from accams.use.records import Recommendation, Records


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"accams.{name}")
    if name == "Guest":
        import warnings

        warnings.warn("Guest is deprecated, to be removed in 0.3: use FoldedRow", FutureWarning, stacklevel=2)
        name = "FoldedRow"
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'accams' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
