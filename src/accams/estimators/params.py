"""What scikit-learn asks of an estimator's parameters, without importing it: a fit should not wait for that."""

from __future__ import annotations

import inspect
from typing import Any, Self


class Parameters:
    """get_params, set_params and a short repr from the signature of `__init__`, and scikit-learn's tags on demand."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters, sorted."""
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name (`deep` is there for scikit-learn and changes nothing)."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        known = self._get_param_names()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"Invalid parameter {name!r} for estimator {self!r}. Valid parameters are: {known!r}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}" for name, value in self.get_params().items() if not _same(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        inputs = InputTags(allow_nan=True, sparse=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=inputs)


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value is default or (type(value) is type(default) and value == default))
    except ValueError:  # arrays
        return False
