"""Complete, compress and explain matrices with sums of small co-clusterings (stencils).

The names below are imported when first used, so that ``import accams`` stays cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = [
    "ACCAMS", "ACCAMSImputer", "BayesianACCAMS", "CompressedMatrix", "Diagnostics", "Drift", "Evaluation",
    "Explanation", "FoldedRow", "InputError", "Interactions", "ItemACCAMS", "ItemMap", "ListEvaluation",
    "ListExplanation", "MissingDataError", "Model", "ModelFileError", "Observations", "Posterior", "Priors",
    "Recommendation", "Records", "Schedule", "Stencil", "StencilSum", "Step", "Sweep", "__version__", "baselines",
    "batch", "compress", "data", "decompress", "distill", "explore", "load", "memory_estimate", "metrics", "refine",
    "report", "serve", "theory",
]  # fmt: skip

_NAMES = {  # by module
    "data.observations": ("Observations",),
    "engine.memory": ("memory_estimate",),
    "errors": ("InputError", "MissingDataError", "ModelFileError"),
    "estimators.accams": ("ACCAMS",),
    "estimators.bayesian": ("BayesianACCAMS",),
    "estimators.imputer": ("ACCAMSImputer",),
    "estimators.items": ("ItemACCAMS",),
    "fit.backfit": ("Step",),
    "fit.run": ("Sweep",),
    "fitted.compression": ("compress", "decompress"),
    "fitted.folding": ("FoldedRow",),
    "fitted.loading": ("load",),
    "fitted.model": ("Model",),
    "fitted.refining": ("distill", "refine"),
    "model.interactions": ("Interactions",),
    "model.itemmap": ("ItemMap",),
    "model.matrix": ("CompressedMatrix",),
    "model.posterior": ("Posterior",),
    "model.stencils": ("Stencil", "StencilSum"),
    "settings.bayesian": ("Priors", "Schedule"),
    "use.because": ("ListExplanation",),
    "use.diagnostics": ("Diagnostics",),
    "use.drift": ("Drift",),
    "use.evaluation": ("Evaluation",),
    "use.explain": ("Explanation",),
    "use.list_evaluation": ("ListEvaluation",),
    "use.records": ("Recommendation", "Records"),
}
_HOMES = {name: f"accams.{module}" for module, names in _NAMES.items() for name in names}

if TYPE_CHECKING:
    from accams import baselines, batch, data, explore, metrics, report, serve, theory
    from accams.data.observations import Observations
    from accams.engine.memory import memory_estimate
    from accams.errors import InputError, MissingDataError, ModelFileError
    from accams.estimators.accams import ACCAMS
    from accams.estimators.bayesian import BayesianACCAMS
    from accams.estimators.imputer import ACCAMSImputer
    from accams.estimators.items import ItemACCAMS
    from accams.fit.backfit import Step
    from accams.fit.run import Sweep
    from accams.fitted.compression import compress, decompress
    from accams.fitted.folding import FoldedRow
    from accams.fitted.loading import load
    from accams.fitted.model import Model
    from accams.fitted.refining import distill, refine
    from accams.model.interactions import Interactions
    from accams.model.itemmap import ItemMap
    from accams.model.matrix import CompressedMatrix
    from accams.model.posterior import Posterior
    from accams.model.stencils import Stencil, StencilSum
    from accams.settings.bayesian import Priors, Schedule
    from accams.use.because import ListExplanation
    from accams.use.diagnostics import Diagnostics
    from accams.use.drift import Drift
    from accams.use.evaluation import Evaluation
    from accams.use.explain import Explanation
    from accams.use.list_evaluation import ListEvaluation
    from accams.use.records import Recommendation, Records


def __getattr__(name: str) -> Any:
    if name == "Guest":
        from accams.errors import warn_deprecated

        warn_deprecated("Guest", "FoldedRow")
        name = "FoldedRow"
    if name not in __all__:
        raise AttributeError(f"module 'accams' has no attribute {name!r}")
    home = _HOMES.get(name)
    return importlib.import_module(f"accams.{name}") if home is None else getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
