"""Former names of a model's attributes: they work for one more release, with a FutureWarning."""

from typing import TYPE_CHECKING, Any

from accams.errors import warn_deprecated
from accams.model.stencils import StencilSum

FORMER = {
    "stencils_": "stencils", "posterior_": "posterior", "row_index_": "row_index", "col_index_": "col_index",
    "value_range_": "value_range", "activity_": "activity", "seen_": "interactions", "history_": "fit_history",
    "quality_": "evaluation", "quality": "evaluate", "zero_weight_": "zero_weight",
}  # fmt: skip


class FormerNames:
    """Attributes of models under the names that estimators have for them."""

    if not TYPE_CHECKING:  # a wrong name stays an error to type checkers

        def __getattr__(self, name: str) -> Any:
            """Return a part, or what the fit reported, by its former name."""
            if name.startswith("_") or "stencils" not in self.__dict__:
                raise AttributeError(name)
            if name in FORMER:
                warn_deprecated(f"{name} of models", f"Model.{FORMER[name]}")
                return getattr(self, FORMER[name])
            if name in self.__dict__["info"].training:
                warn_deprecated(f"{name} of models", f"Model.info.training[{name!r}]")
                return self.__dict__["info"].training[name]
            if not self.__dict__["info"].estimator and hasattr(StencilSum, name):
                warn_deprecated(f"{name} of models", f"Model.stencils.{name}")
                return getattr(self.__dict__["stencils"], name)
            hint = "; a model cannot be fitted again: fit a new estimator" if name == "fit" else ""
            raise AttributeError(f"'Model' object has no attribute {name!r}{hint}")
