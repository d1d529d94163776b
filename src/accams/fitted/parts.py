"""Parts: what a fitted model is made of, and what is derived from it once and kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from accams.data.ids import Index
from accams.errors import InputError
from accams.fit.backfit import Step
from accams.fit.run import Sweep
from accams.fitted.distilling import explaining
from accams.model.codes import Codes
from accams.model.interactions import Interactions
from accams.model.itemmap import ItemMap
from accams.model.knowledge import Knowledge
from accams.model.linear import Linear
from accams.model.posterior import Draw, Posterior
from accams.model.scale import Scale
from accams.model.spread import Spread
from accams.model.stencils import StencilSum
from accams.use.evaluation import Evaluation
from accams.use.explain import Members, prominence
from accams.use.lists import Lists
from accams.use.scoring import Catalogue, Floats, Positions, Sums
from accams.use.similar import likeness

SMALLEST_NOISE = 1e-3  # of the range of values: a fit without error still says little about a new row
UNKNOWN_NOISE = 0.2  # of the range of values, where the model does not say


@dataclass(frozen=True)
class FitInfo:
    """Metadata of a fit.

    Attributes
    ----------
    estimator : str
        Class that was fitted; empty for a stencil sum that was saved alone.
    parameters : mapping
        Its parameters by name, those of records as ``priors__alpha``.
    training : mapping
        What the fit reported: fitted attributes that are plain numbers or text, by their names.
    names : (str, str) or None
        Names of the columns with user ids and item ids, where the data was a DataFrame.
    """

    estimator: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, str] | None = None


@dataclass(frozen=True)
class Taken:
    """What a model has taken in since it was fitted.

    Attributes
    ----------
    observations : int
        Their number.
    digest : str
        What identifies the last ones, so that they are not taken in twice.
    rmse : float or None
        Error on held-out data before the first of them.
    """

    observations: int
    digest: str
    rmse: float | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Parts:
    """What a fitted model is made of.

    Attributes
    ----------
    stencils : StencilSum
        The model of a single sum; where there is a posterior, its last draw of the first chain.
    posterior : Posterior or None
        Where there is one, its draws are what predicts.
    row_index, col_index : Index
        Raw ids of users and items.
    value_range : (float, float)
        Smallest and largest training value.
    clip : (float, float) or None
        Range to which predictions are clipped.
    scale : Scale or None
        Scale of ordinal observations, on which predictions are read.
    sigma : float or None
        Standard deviation of an observation around the predictions, for folding in.
    spread : Spread or None
        Predictive variance of a model without draws.
    zero_weight : float or None
        Weight of cells that are not stored, where those are observed zeros.
    activity : (array, array) or None
        About one more than the number of observations of each row and each column.
    interactions : Interactions or None
        Items that each user has observed.
    item_map : ItemMap or None
        Which items go with which: where there is one, it ranks.
    predicts : bool
        Whether stencils predict values; a model of lists alone has none.
    fit_history : sequence of Step or Sweep
        What the fit reported, step by step.
    evaluation : Evaluation or None
        Errors on held-out data.
    info : FitInfo
        Metadata of the fit.
    taken : Taken or None
        What was taken in since then (`Model.update`).
    knowledge : (Knowledge or None, Knowledge or None)
        Features of users and of items.
    """

    stencils: StencilSum
    row_index: Index
    col_index: Index
    value_range: tuple[float, float]
    clip: tuple[float, float] | None = None
    scale: Scale | None = None
    posterior: Posterior | None = None
    sigma: float | None = None
    spread: Spread | None = None
    zero_weight: float | None = None
    activity: tuple[Floats, Floats] | None = None
    interactions: Interactions | None = None
    item_map: ItemMap | None = None
    predicts: bool = True
    fit_history: Sequence[Step] | Sequence[Sweep] = ()
    evaluation: Evaluation | None = None
    info: FitInfo = field(default_factory=FitInfo)
    taken: Taken | None = None
    knowledge: tuple[Knowledge | None, Knowledge | None] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be derived again."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    # -- derived once -------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Number of users and items."""
        return self.stencils.shape

    @property
    def indices(self) -> tuple[Index, Index]:
        """Ids of rows and of columns."""
        return self.row_index, self.col_index

    @property
    def unseen(self) -> tuple[Positions, Positions]:
        """Rows and columns without training data."""
        return self.stencils.unseen_rows, self.stencils.unseen_cols

    @property
    def id_names(self) -> tuple[str, str]:
        """Names of the columns with user ids and item ids."""
        return self.info.names or ("user", "item")

    @property
    def blank(self) -> float:
        """Weight of cells that are not stored."""
        return float(self.zero_weight or 0.0)

    @property
    def noise(self) -> float:
        """Standard deviation with which new observations are weighed against what the model expects."""
        low, high = self.value_range
        span = high - low if np.isfinite(high - low) else 0.0
        return max(float(self.sigma or UNKNOWN_NOISE * span), SMALLEST_NOISE * span) or 1.0

    @property
    def train_rmse(self) -> float | None:
        """Error on the training data, where the fit reported a number."""
        reported = self.info.training.get("train_rmse_")
        return reported if isinstance(reported, float) and np.isfinite(reported) else None

    @property
    def codes(self) -> list[Codes]:
        """Stencil sums whose mean is the prediction."""
        return [self.stencils.codes] if self.posterior is None else [draw.codes for draw in self.posterior.draws]

    @property
    def linear(self) -> Linear | None:
        """What slopes on features add to the mean of these sums."""
        return None if self.posterior is None else self.posterior.linear

    @cached_property
    def averaged(self) -> NDArray[np.bool_]:
        """Whether a row is predicted as the average one, having no training data; so is row -1."""
        averaged = np.zeros(self.shape[0] + 1, bool)
        averaged[self.stencils.unseen_rows] = averaged[-1] = True
        return averaged

    @cached_property
    def sums(self) -> Sums:
        """The same laid out for scoring."""
        shares = [None] if self.posterior is None else [draw.row_shares for draw in self.posterior.draws]
        return Sums(self.codes, shares, self.linear)

    @cached_property
    def catalogue(self) -> Catalogue:
        """All columns with data, laid out for scoring."""
        return Catalogue.of(self.sums, self.with_data(1))

    @cached_property
    def lists(self) -> Lists:
        """The item map laid out for scoring."""
        if self.item_map is None:
            raise InputError("this model has no item map, which lists by choice need: fit ItemACCAMS")
        return Lists(self.item_map)

    @cached_property
    def members(self) -> Members:
        """Members of the blocks of a single sum."""
        codes = self.stencils.codes
        return Members(codes, *self.indices, self.activity or prominence(codes))

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        """Derived things that depend on an argument."""
        return {}

    def alike(self, axis: int, by: str) -> Catalogue:
        """Return the catalogue that scores how similar rows (axis 0) or columns (1) are.

        Columns are compared as candidates of lists, where the model has an item map.
        """
        kept = self._kept  # another thread may replace it
        if (axis, by) not in kept:
            mapped = self.item_map is not None and axis == 1
            sums, columns = (
                (self.lists.sums, self.lists.item_map.chosen) if mapped else (self.sums, self.with_data(axis))
            )
            kept[axis, by] = Catalogue.of(likeness(sums, axis, by), columns)
        return kept[axis, by]  # type: ignore[no-any-return]

    def with_data(self, axis: int) -> Positions:
        """Return the rows (columns) that had training data."""
        return np.setdiff1d(np.arange(self.shape[axis]), self.unseen[axis])

    def thin(self, n_draws: int) -> Self:
        """Return the same model with at most so many draws, which answers faster."""
        if self.posterior is None or len(self.posterior) <= n_draws:
            return self
        kept = self._kept
        if n_draws not in kept:
            thinned = replace(self, posterior=self.posterior.thin(n_draws))
            thinned._kept["source"] = self, False
            kept[n_draws] = thinned
        return kept[n_draws]  # type: ignore[no-any-return]

    @cached_property
    def transposed(self) -> Self:
        """The same model with items for users; interactions and row noise are left behind."""
        self.need_values("a transposed model")
        posterior = self.posterior
        if posterior is not None:
            draws = [Draw.of(d.chain, d.sweep, d.stencils(*self.unseen).transposed()) for d in posterior.draws]
            effects = None if posterior.effects is None else posterior.effects.transposed()
            linear = None if posterior.linear is None else posterior.linear.transposed()
            posterior = Posterior(
                posterior.shape[::-1], tuple(draws), posterior.noise, effects=effects, linear=linear
            )  # fmt: skip
        turned = replace(
            self,
            stencils=self.stencils.transposed(),
            posterior=posterior,
            row_index=self.col_index,
            col_index=self.row_index,
            activity=None if self.activity is None else self.activity[::-1],
            spread=None if self.spread is None else self.spread.transposed(),
            interactions=None,
            item_map=None,
            knowledge=self.knowledge[::-1],
        )
        turned._kept["source"] = self, True
        return turned

    @cached_property
    def explainer(self) -> Self:
        """The model of a single sum that explains this one: itself, or what is distilled of many draws."""
        if self.posterior is None:
            return self
        source, turned = self._kept.get("source", (None, False))
        if source is None:
            small = explaining(self.stencils, self.codes, self.activity, self.linear)
        else:  # thinned or transposed: distil only once
            small = source.explainer.stencils.transposed() if turned else source.explainer.stencils
        return replace(self, stencils=small, posterior=None)

    # -- prediction by position ---------------------------------------------------------------------------

    @property
    def has_spread(self) -> bool:
        """Whether the model knows how far observations are from its predictions."""
        return self.posterior is not None or self.spread is not None

    def spread_by_item(self, columns: Positions) -> bool:
        """Return whether the predictive variance of these has more to it than draws and what the row alone decides."""
        if self.posterior is None or self.posterior.linear is not None:
            return True
        effects = self.posterior.effects
        return effects is not None and bool(effects.spread_of(1, columns).any())

    def moments(self, i: Positions, j: Positions) -> tuple[Floats, Floats]:
        """Return the mean before clipping and the variance of an observation (0 where the model knows of none)."""
        if self.posterior is None:
            mean = self.stencils.codes.predict(i, j)
            return mean, np.zeros(len(i)) if self.spread is None else self.spread.variance(i, j)
        mean, spread = self.posterior.moments(i, j)
        return mean, spread + self.row_noise(i)

    def effect_variance(self, told: bool = False, axis: int = 0) -> float | None:
        """Return the variance of the effects of rows (columns), where the model knows it; told: given features."""
        known = None if self.posterior is None else self.posterior.effects
        return None if known is None or not known.blended else (known.told if told else known.priors)[axis]

    def row_noise(self, i: Positions) -> Floats:
        """Return the noise variance of these rows, beside the variance of the draws."""
        if self.posterior is None:
            return np.zeros(len(i))
        return self.posterior.noise**2 * self.posterior.row_noise(i)

    def row_variance(self, i: Positions) -> Floats:
        """Return what these rows add to the variance of the draws: noise, and that of their effects."""
        effects = None if self.posterior is None else self.posterior.effects
        own = 0.0 if effects is None else effects.spread_of(0, i)
        return np.asarray(self.row_noise(i) + own)

    def clipped(self, prediction: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return means of the model as predictions: read on its scale, and within its range."""
        expected = prediction if self.scale is None else self.scale.mean(prediction)
        return expected if self.clip is None else np.clip(expected, *self.clip)

    def deviation(self, mean: Floats, std: Floats) -> Floats:
        """Return standard deviations of the model as those of observations."""
        return std if self.scale is None else self.scale.deviation(mean, std)

    def latent(self, values: Floats) -> Floats:
        """Return observed values as numbers of the model's own scale."""
        return values if self.scale is None else self.scale.latent(values)

    def placed(self, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return quantiles on the scale of observations, and within the range."""
        places = ends if self.scale is None else self.scale.place(ends)
        return places if self.clip is None else np.clip(places, *self.clip)

    def need_values(self, what: str) -> None:
        """Raise InputError unless the model predicts values."""
        if not self.predicts:
            raise InputError(
                f"{what} needs a model that predicts values, and this one makes lists only: fit ACCAMS or "
                "BayesianACCAMS to the values"
            )

    def need_spread(self, what: str) -> None:
        """Raise InputError unless the model has a predictive spread."""
        self.need_values(what)
        if not self.has_spread:
            raise InputError(
                f"{what} needs a model that knows its predictive spread: BayesianACCAMS, or what is compressed of it"
            )

    def check_order(self, return_std: bool, quantile: float | None) -> float:
        """Return by how many standard deviations below the mean items are ranked."""
        if return_std:
            self.need_spread("return_std")
        if quantile is None:
            return 0.0
        self.need_spread("quantile")
        if not isinstance(quantile, (int, float)) or not 0.0 < quantile < 1.0:
            raise InputError(f"quantile must be a number between 0 and 1, not {quantile!r}")
        return -float(ndtri(quantile))


def resolve_clip(clip: bool | tuple[float, float], value_range: tuple[float, float]) -> tuple[float, float] | None:
    """Return the range that the parameter `clip` stands for."""
    if isinstance(clip, (bool, np.bool_)):
        return value_range if clip else None
    return float(clip[0]), float(clip[1])
