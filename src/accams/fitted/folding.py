"""Fold in: a new user or item from a handful of values, without fitting anything again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.features import FeatureTable
from accams.data.inputs import is_frame, values_of
from accams.data.observations import Observations
from accams.errors import InputError, warn_deprecated
from accams.fitted import listing
from accams.fitted.expecting import expected_of, speaking_traits
from accams.fitted.parts import Parts
from accams.fitted.placing import variance_of_new
from accams.fitted.ranking import catalogue_of, chosen, ranked_by
from accams.model.interactions import Interactions
from accams.model.posterior import with_spread
from accams.settings.kinds import Integer, Words
from accams.threads import SINGLE_BLAS
from accams.use.because import ListExplanation
from accams.use.explain import Explanation, explain
from accams.use.fold import Folded, fold
from accams.use.ids import as_ids, check_number, known
from accams.use.records import Recommendation, Records, recommendations
from accams.use.scoring import Catalogue, Floats, Positions

UNTOLD = "the model knows no features of {}: fit it with {}, and keep in mind that compress leaves features out"
DRAWS = 32  # of a model with many, by which somebody new is folded in


@dataclass(frozen=True, eq=False, repr=False)
class FoldedRow:
    """A new user (or item), known by a few values, that can be used as any other (`Model.fold_in`).

    Attributes
    ----------
    values : array
        Its values.
    name : object
        What it is called in recommendations.
    features : dict or None
        What is known of it beside values.
    new : str
        "user", or "item" in a model of the transposed matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix).model_
    >>> guest = model.fold_in({0: 3.0})
    >>> guest
    FoldedRow(1 values, 3 items)
    >>> guest.predict([2]).round(1)
    array([4.])
    """

    model: Parts
    folded: Folded  # without profiles where the model predicts no values
    positions: Positions
    values: Floats
    name: Any = "guest"
    features: Any = None
    new: str = "user"

    @classmethod
    def of(cls, model: Parts, items: Any, values: Floats, features: Any = None, new: str = "user") -> Self:
        """From values of some items, and features by name.

        Parameters
        ----------
        model : Model
        items : array of ids
        values : array of float
        features : dict {name: value}, optional
        new : {"user", "item"}, default "user"
            "item" in a model of the transposed matrix.

        Returns
        -------
        FoldedRow
        """
        positions = model_items(model, as_ids(items)) if len(values) else np.zeros(0, np.int64)
        return cls.at(model, positions[positions >= 0], values[positions >= 0], features, new)

    @classmethod
    def at(cls, model: Parts, positions: Positions, values: Floats, features: Any = None, new: str = "user") -> Self:
        """From values of items by position, and features by name.

        Parameters
        ----------
        model : Model
        positions : array of int
        values : array of float
        features : dict {name: value}, optional
        new : {"user", "item"}, default "user"
            "item" in a model of the transposed matrix.

        Returns
        -------
        FoldedRow
        """
        if len(set(positions.tolist())) < len(positions):
            raise InputError("an item comes twice in the history: give one value for each")
        begins = np.array([0, len(positions)])
        seen = model.latent(values)
        traits = None if features is None else traits_of(model, features)
        if traits is not None and np.isnan(traits).all():
            features = traits = None  # all are missing
        how: dict[str, Any] = {"blank": model.blank, "doubting": model.posterior is not None}
        how["effect_variance"] = model.effect_variance(traits is not None)
        if traits is None:
            folded = fold(model.sums, model.noise, begins, positions, seen, **how)
        else:
            with SINGLE_BLAS:  # once for all draws
                how["expected"] = expected_of(model, traits)
                folded = fold(model.sums, model.noise, begins, positions, seen, **how)
        return cls(model, folded, positions, values, features=features, new=new)

    @property
    def items(self) -> NDArray[Any]:
        """Ids of the items that it has values for."""
        return self.model.col_index.ids[self.positions]

    @property
    def columns(self) -> NDArray[Any]:
        """Former name of `items`."""
        warn_deprecated("columns", "items")
        return self.items

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Its code: the most probable label in each stencil; None where the model has many draws."""
        return self.folded.labels[0][0] if self.model.posterior is None else None

    def predict(self, items: Any, return_std: bool = False, quantiles: Sequence[float] | None = None) -> Any:
        """Predict items by their ids; an unknown item is predicted as the average one.

        Parameters
        ----------
        items : id, or list or array of ids
        return_std : bool, default False
            Also return the standard deviation of an observation: the spread of the draws and the noise.
        quantiles : sequence of floats, optional
            Also return these quantiles of an observation, one column each.

        Returns
        -------
        array (n,), or a tuple (mean, std), (mean, quantiles) or (mean, std, quantiles)
            As `Model.predict` returns it.
        """
        self.model.need_values("predict")
        if return_std or quantiles is not None:
            self.model.need_spread("return_std" if return_std else "quantiles")
        mean, variance = self.moments(self.model.col_index.find(as_ids(items)))
        return clip_answer(self.model, with_spread(mean, variance, np.zeros(1), return_std, quantiles), return_std)

    def predict_proba(self, items: Any) -> Floats:
        """Return the probability of each value of the scale for items by their ids, as `Model.predict_proba` does.

        Parameters
        ----------
        items : id, or list or array of ids

        Returns
        -------
        array (n, n_values)
        """
        return probabilities(self.model, *self.moments(self.model.col_index.find(as_ids(items))))

    def recommend(
        self, n: int = 10, *, exclude_seen: bool = True, candidates: Any = None, return_std: bool = False,
        quantile: float | None = None, by: str = "auto",
    ) -> Records[Recommendation]:  # fmt: skip
        """Return the best items, as `Model.recommend` does; those in the history are left out.

        Parameters
        ----------
        n : int, default 10
        exclude_seen : bool, default True
            Leave out the items of the history.
        candidates : list of item ids, optional
            Choose among these alone.
        return_std : bool, default False
            Add the standard deviation of an observation.
        quantile : float, optional
            Rank by this quantile of what would be observed rather than by its mean.
        by : {"auto", "choice", "value"}, default "auto"
            Rank by what people with such a history choose, or by predicted value.

        Returns
        -------
        Records of Recommendation
        """
        model = self.model
        check_number(n, len(model.col_index), "items")
        if ranked_by(model, self._order(by), quantile) == "choice":
            return listing.lists(model, listing.guest_of(self), n, exclude_seen, None, candidates, return_std)
        lower = model.check_order(return_std, quantile)
        _, rank, j = chosen(self.best_positions(n, exclude_seen, catalogue_of(model, candidates), lower))
        mean, variance = self.moments(j)
        names, rules = (np.full(len(j), text, object) for text in (self.name, ""))
        std = model.deviation(mean, np.sqrt(variance)) if return_std else None
        return recommendations(names, model.col_index.ids[j], rank, model.clipped(mean), std, rules)

    def best_positions(self, n: int, exclude_seen: bool, catalogue: Catalogue, lower: float) -> Positions:
        """Return the positions of the best items, as `ranking.best_positions` does for known rows.

        Parameters
        ----------
        n : int
        exclude_seen : bool
            Leave out the items of the history.
        catalogue : Catalogue
            Items to choose among.
        lower : float
            By how many standard deviations below the mean items are ranked.

        Returns
        -------
        array of int (1, n)
            Best first.
        """
        model = self.model
        seen = Interactions(np.array([0, len(self.positions)]), self.positions) if exclude_seen else None
        left_out = catalogue.places_of(np.zeros(1, np.int64), seen)
        if lower and model.posterior is not None:  # whose variance is another for every item
            mean, variance = self.moments(catalogue.columns)
            scores = mean - lower * np.sqrt(variance)
            scores[left_out[1]] = -np.inf
            order = np.argsort(-scores, kind="stable")[:n]
            return np.asarray(catalogue.columns[order[scores[order] > -np.inf]][None])
        profile, lines = self.folded.in_units(model.sums), self.folded.lines
        if lower and model.spread_by_item(catalogue.columns):  # rank all of them, then cut
            best = catalogue.best_of(*profile, len(catalogue.columns), left_out, np.zeros(1), 0.0, lines)
            mean, variance = self.moments(best[best >= 0])
            order = np.argsort(-(mean - lower * np.sqrt(variance)), kind="stable")[:n]
            return np.asarray(best[best >= 0][order][None])
        noise = model.row_noise(np.array([-1])) + self._effect_variance
        return catalogue.best_of(*profile, n, left_out, noise, lower, lines)

    def explain(self, item: Any, by: str = "auto") -> Explanation | ListExplanation:
        """Take a score or a prediction apart, as `Model.explain` does.

        Parameters
        ----------
        item : id
        by : {"auto", "choice", "value"}, default "auto"
            Explain the score of a list by choice, or a predicted value.

        Returns
        -------
        Explanation or ListExplanation
        """
        if ranked_by(self.model, self._order(by)) == "choice":
            return listing.reasons(self.model, listing.guest_of(self), item)
        j = known(self.model.col_index, as_ids([item]), "item")
        mean = self.moments(j)[0]
        prediction = float(self.model.clipped(mean)[0])
        given = self.items, self.values, self.features
        one = self if self.model.posterior is None else FoldedRow.of(self.model.explainer, *given)
        members = one.model.members
        codes = members.codes
        lines = np.split(one.folded.profiles[0], np.cumsum(codes.widths)[:-1])
        effect = float(one.folded.constants[0, 0] - codes.offset)
        names, labels, many = (self.name, item), one.folded.labels[0][0], one is not self
        own = None if self.features is None else traits_of(self.model, self.features)[0]
        traits = speaking_traits(one.model, -1, int(j[0]), own)
        told = explain(members, -1, int(j[0]), names, float(mean[0]), prediction, many, lines, labels, effect, traits)
        return told if self.new == "user" else told.swapped()

    def _order(self, by: str) -> str:
        """Return "value" in place of "auto" where nothing was chosen, and only features tell."""
        told = self.features is not None and not len(self.positions)
        return "value" if by == "auto" and told and self.model.predicts else by

    def __repr__(self) -> str:
        return f"FoldedRow({len(self.values)} values, {self.model.shape[1]:,} items)"

    def moments(self, columns: Positions) -> tuple[Floats, Floats]:
        """Return the mean before clipping and the variance of an observation.

        Parameters
        ----------
        columns : array of int
            Positions of items; -1 is an unknown one.

        Returns
        -------
        mean, variance : arrays of float
        """
        mean, spread = self.folded.predict(self.model.sums, 0, columns)
        new = np.full(len(columns), -1, np.int64)
        if self.model.posterior is not None:
            return mean, spread + self.model.row_noise(new) + self._effect_spread(columns)
        return mean, spread if self.model.spread is None else self.model.spread.variance(new, columns)

    @property
    def _effect_variance(self) -> float:
        """Variance of the effect of this row, given its values."""
        return float(variance_of_new(self.model, 0, len(self.values), self.features is not None))

    def _effect_spread(self, columns: Positions) -> Floats:
        """Return the variance of the effects of this row and of these columns."""
        posterior = self.model.posterior
        if posterior is None or posterior.effects is None:
            return np.zeros(len(columns))
        return self._effect_variance + posterior.effects.spread_of(1, columns)


def fold_in(model: Parts, history: Any, y: ArrayLike | None, new: str, n_draws: int, features: Any = None) -> FoldedRow:
    """Return a new user or item."""
    Integer(1).check("n_draws", n_draws)
    Words("user", "item").check("new", new)
    if new == "item":
        model.need_values("folding in an item")
    thinned = model.thin(n_draws)
    ids, values = _history({} if history is None else history, y)
    if len(ids) == 0 and features is None:
        raise InputError("the history is empty: give at least one value, such as {item: value}")
    if not np.isfinite(values).all():
        raise InputError("the history has values that are missing (NaN) or infinite")
    check_values(model, values)
    return FoldedRow.of(thinned if new == "user" else thinned.transposed, ids, values, features, new)


def fold_in_at(
    model: Parts, positions: Positions, values: Floats, n_draws: int = DRAWS, features: Any = None
) -> FoldedRow:
    """Return a new user from finite values of items by position, and features by name."""
    check_values(model, values)
    return FoldedRow.at(model.thin(n_draws), positions, values, features)


def traits_of(model: Parts, features: Any) -> Floats:
    """Return the standardised traits of a new row with these features."""
    known = model.knowledge[0]
    if known is None:
        raise InputError(UNTOLD.format("these", "user_features (item_features for items)"))
    shares, told = known.encoder.shares(FeatureTable.of_one(features, 0))
    return np.where(told.any(), known.encoder.standardised(shares, told), np.nan)


def model_items(model: Parts, items: NDArray[Any]) -> Positions:
    """Return the positions of items; unknown ones are refused, or ignored with a warning where they are not needed."""
    if model.item_map is None:
        return known(model.col_index, items, "item")
    return listing.known_items(model, items)


def check_values(model: Parts, values: NDArray[np.float64]) -> None:
    """Raise InputError for values that are not on the scale of the training values."""
    if not model.predicts:
        return
    low, high = model.value_range
    with np.errstate(over="ignore"):  # what overflows is outside, too
        single = values.astype(np.float32)  # as the training values were
    outside = values[(single < np.float32(low)) | (single > np.float32(high))]
    if outside.size:
        raise InputError(
            f"the value {outside[0]:g} lies outside the range of the training values ({low:g} to {high:g}): give "
            "values on the same scale"
        )


def _history(history: Any, y: ArrayLike | None) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return ids and values of one row."""
    if isinstance(history, Observations):
        raise InputError("fold_in takes the values of one user, such as {item: value}")
    if y is not None:
        ids = as_ids(history)
        return ids, values_of(y, "y", len(ids))
    if isinstance(history, Mapping):
        return as_ids(list(history)), values_of(list(history.values()), "history", len(history))
    if is_frame(history) or hasattr(history, "items"):
        raise InputError("give items and values apart: fold_in(table['item'], table['rating'])")
    pairs = list(history) if hasattr(history, "__iter__") else [history]
    if not all(isinstance(pair, (list, tuple, np.ndarray)) and len(pair) == 2 for pair in pairs):
        raise InputError("the history must be {item: value}, pairs (item, value), or items and values y")
    return as_ids([pair[0] for pair in pairs]), values_of([pair[1] for pair in pairs], "history", len(pairs))


def probabilities(model: Parts, mean: Floats, variance: Floats) -> Floats:
    """Return the probability of each value where the model has this mean and variance."""
    model.need_values("predict_proba")
    if model.scale is None:
        raise InputError(
            "predict_proba needs a model of ordinal observations: fit BayesianACCAMS(likelihood='ordinal')"
        )
    spread = np.sqrt(variance) if model.has_spread else None
    return model.scale.probabilities(mean, spread)


def clip_answer(model: Parts, answer: Any, return_std: bool) -> Any:
    """Return means, standard deviations and quantiles of the model as those of observations."""
    if not isinstance(answer, tuple):
        return model.clipped(answer)
    mean, rest = answer[0], list(answer[1:])
    shown = [model.clipped(mean)]
    if return_std:
        shown.append(model.deviation(mean, rest.pop(0)))
    return (*shown, *map(model.placed, rest))
