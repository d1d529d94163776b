"""StencilModel: a finished model, small and with its ids."""

from __future__ import annotations

from typing import Any

from accams.estimators.base import StencilEstimator
from accams.model.stencils import StencilSum


class StencilModel(StencilEstimator):
    """A stencil sum with the ids of its rows and columns: what `compress` makes, ready for use.

    It predicts, scores and saves like a fitted estimator; there is nothing left to fit.

    Parameters
    ----------
    clip : bool or (float, float), default True
        Whether predictions are kept within the range of the training values, or within the range given.

    Attributes
    ----------
    stencils_ : StencilSum
    row_index_, col_index_, value_range_
        Ids and range of the training data.
    sigma_ : float or None
        How far observations are from what the model before it predicted, which tells how much new ones say.
    """

    sigma_: float | None

    def __init__(self, clip: bool | tuple[float, float] = True) -> None:
        self.clip = clip

    @classmethod
    def of(cls, model: StencilEstimator, stencils: StencilSum) -> StencilModel:
        """With the ids of a fitted model and other stencils."""
        made = cls(model.clip)
        made.stencils_ = stencils
        made.row_index_, made.col_index_ = model.row_index_, model.col_index_
        made.value_range_, made.n_features_in_ = model.value_range_, model.n_features_in_
        made.activity_, made.seen_ = (getattr(model, name, None) for name in ("activity_", "seen_"))  # not saved
        made.zero_weight_ = getattr(model, "zero_weight_", None)
        made.sigma_ = getattr(model, "sigma_", None) or getattr(model, "train_rmse_", None)
        if hasattr(model, "feature_names_in_"):
            made.feature_names_in_ = model.feature_names_in_
        return made

    def _summary(self) -> dict[str, Any]:
        return {"n_features_in_": self.n_features_in_, "sigma_": getattr(self, "sigma_", None)}
