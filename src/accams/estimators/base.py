"""StencilEstimator: what ACCAMS and BayesianACCAMS share. They check input, fit, set `model_` and delegate to it."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.ids import Index
from accams.data.inputs import pair_names
from accams.data.observations import Observations
from accams.errors import InputError, warn_deprecated
from accams.fitted.distilling import activity
from accams.fitted.former import FORMER
from accams.fitted.model import Model
from accams.fitted.parts import FitInfo, resolve_clip
from accams.html import html_table
from accams.model.interactions import Interactions
from accams.model.stencils import StencilSum
from accams.report import Plots
from accams.settings.encoding import plain_parameters
from accams.settings.fields import Settings
from accams.use.evaluation import Evaluation

P = ParamSpec("P")
R = TypeVar("R")
LARGEST = 1e30  # values that single precision can hold, with room for differences between them
PARTS = {name: part for name, part in FORMER.items() if name.endswith("_")}  # not deprecated here


def delegated(method: Callable[Concatenate[Model, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a method of an estimator from one of `Model`, with the same signature and documentation."""

    @functools.wraps(method)
    def call(self: "StencilEstimator", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._fitted(), *args, **kwargs)

    return call


class StencilEstimator(Settings):
    """Base class of estimators whose fitted model is a `Model`."""

    model_: Model
    stencils_: StencilSum
    row_index_: Index
    col_index_: Index
    value_range_: tuple[float, float]
    n_stencils_: int
    engine_: str
    train_rmse_: float | None
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    predict = delegated(Model.predict)
    score = delegated(Model.score)
    evaluate = delegated(Model.evaluate)
    evaluate_lists = delegated(Model.evaluate_lists)
    recommend = delegated(Model.recommend)
    similar = delegated(Model.similar)
    fold_in = delegated(Model.fold_in)
    update = delegated(Model.update)
    drift = delegated(Model.drift)
    forget = delegated(Model.forget)
    explain = delegated(Model.explain)
    hierarchy = delegated(Model.hierarchy)
    cluster_traits = delegated(Model.cluster_traits)
    diagnostics = delegated(Model.diagnostics)
    distill = delegated(Model.distill)
    compress = delegated(Model.compress)
    refine = delegated(Model.refine)
    report = delegated(Model.report)
    save = delegated(Model.save)

    @property
    def plot(self) -> Plots:
        """Plots of the fitted model: templates, sizes, error_by_size, trace, map, hierarchy."""
        return Plots(self._fitted)

    def quality(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Evaluation:
        """Former name of `evaluate`.

        Parameters
        ----------
        X, y, sample_weight
            As for `evaluate`.

        Returns
        -------
        Evaluation
        """
        warn_deprecated("quality", "evaluate")
        return self.evaluate(X, y, sample_weight)

    def _fitted(self) -> Model:
        if "model_" not in self.__dict__:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
        return self.model_

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    if not TYPE_CHECKING:  # a wrong name stays an error to type checkers

        def __getattr__(self, name: str) -> Any:
            """Return parts of the fitted model, and parameters that have moved into records, by their names here."""
            model = self.__dict__.get("model_")
            if model is not None and name in PARTS:
                part = getattr(model, PARTS[name])
                if part is not None:
                    return part
            moved = getattr(type(self), "_moved", {}).get(name)
            if moved is not None:
                warn_deprecated(name, moved.replace("__", "."))
                return self.get_params()[moved]
            absent = getattr(type(self), "_absent", {}).get(name)
            raise AttributeError(absent or f"{type(self).__name__!r} object has no attribute {name!r}")

    def _keep(
        self, X: Any, y: ArrayLike | None, observations: Observations, training: dict[str, Any], **parts: Any
    ) -> None:
        """Set `model_` and the fitted attributes that describe the input and the fit."""
        names = pair_names(X, y)
        shape = np.shape(X) if isinstance(X, (list, tuple)) and y is None else getattr(X, "shape", observations.shape)
        columns = shape[-1]  # features may have added some to those of the observations
        self.n_features_in_ = columns if y is None and names is None else 2
        if names is not None:
            self.feature_names_in_ = names
        elif "feature_names_in_" in self.__dict__:
            del self.feature_names_in_
        for name, value in training.items():
            setattr(self, name, value)
        parameters = plain_parameters(self, ("callbacks", "checkpoint", "priors", "schedule"))
        reported = {**training, "n_features_in_": self.n_features_in_}
        both = None if names is None else (str(names[0]), str(names[1]))
        self.model_ = Model(
            row_index=observations.row_index,
            col_index=observations.col_index,
            value_range=observations.value_range,
            clip=resolve_clip(self.get_params()["clip"], observations.value_range),
            zero_weight=observations.blank_weight,
            activity=(activity(observations.counts(0)), activity(observations.counts(1))),
            interactions=Interactions(observations.row_starts, observations.cols),
            info=FitInfo(type(self).__name__, parameters, reported, both),
            **parts,
        )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        inputs = InputTags(allow_nan=True, sparse=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=inputs)

    def _repr_html_(self) -> str:
        rows = {name: repr(value) for name, value in self.changed_params().items()}
        fitted = self.model_._repr_html_() if self.__sklearn_is_fitted__() else "<p>not fitted</p>"
        return html_table(type(self).__name__, rows) + fitted


def check_magnitude(low: float, high: float) -> None:
    """Raise InputError for values that single precision cannot hold, with room for differences between them."""
    largest, span = max(abs(low), abs(high)), high - low
    if largest > LARGEST or 0.0 < span < 1.0 / LARGEST:
        raise InputError(
            f"the values lie between {low:g} and {high:g}, too {'large' if largest > LARGEST else 'close'} "
            "for single precision: rescale them"
        )


def is_true(answer: Any) -> bool:
    """Return whether a callback returned True itself, not just anything truthy."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def stencil_shapes(n_clusters: Any, n_stencils: int, shape: tuple[int, int]) -> list[tuple[int, int]]:
    """Return (k_rows, k_cols) of each stencil from k, (k_rows, k_cols), or a list of those to cycle through.

    There are never more clusters than rows (columns).

    Examples
    --------
    >>> stencil_shapes([(10, 1), (1, 10), 5], 4, (100, 7))
    [(10, 1), (1, 7), (5, 5), (10, 1)]
    """
    given = n_clusters if isinstance(n_clusters, list) else [n_clusters]
    pairs = [each if isinstance(each, tuple) else (each, each) for each in given]
    fitting = [(min(int(a), shape[0]), min(int(b), shape[1])) for a, b in pairs]
    return [fitting[p % len(fitting)] for p in range(n_stencils)]
