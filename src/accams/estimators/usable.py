"""What every fitted model can be asked for, as methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.ids import Index
from accams.estimators import checks
from accams.model.stencils import StencilSum
from accams.use.scoring import Seen

if TYPE_CHECKING:
    from accams.estimators.diagnostics import Diagnostics
    from accams.use.explain import Explanation
    from accams.use.guest import Guest
    from accams.use.hierarchy import Node


class Usable:
    """Recommendations, new rows, likeness, explanations and a tree, of a model that has what is named here."""

    stencils_: StencilSum
    row_index_: Index
    col_index_: Index
    value_range_: tuple[float, float]
    activity_: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    seen_: Seen | None
    zero_weight_: float | None
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    clip: bool | tuple[float, float]
    history_: list[Any]
    quality_: Any

    def _bounds(self) -> tuple[float, float] | None:
        """The range within which predictions are kept."""
        checks.clip(self.clip)
        if isinstance(self.clip, bool):
            return self.value_range_ if self.clip else None
        return self.clip

    def _check_is_fitted(self) -> None:
        raise NotImplementedError

    def distill(self, max_bytes: int, *, weights: Any = "activity") -> StencilSum:
        """One stencil sum that predicts as this model does."""
        raise NotImplementedError

    def recommend(
        self, user: Any, n: int = 10, *, exclude_seen: bool = True, seen: Any = None, candidates: Any = None,
        unknown: str = "error", return_std: bool = False, quantile: float | None = None,
    ) -> Any:  # fmt: skip
        """The best columns (items) for one row (user) or several.

        Parameters
        ----------
        user : id, list or array of ids, DataFrame, or Guest
            A DataFrame has the ids in its only column, or in the one that was called so when the model was fitted.
        n : int
            How many for each; fewer where there are no more.
        exclude_seen : bool
            Leave out what a row has observed already.
        seen : pairs, DataFrame or Observations, optional
            What has been observed, for a model that does not know it (small files do not).
        candidates : list of column ids, optional
            Choose among these alone.
        unknown : {"error", "average"}
            What to do with a row that the model does not know: refuse it, or take it for the average row.
        return_std : bool
            Also the standard deviation of an observation (models with draws).
        quantile : float, optional
            Order by this quantile of what would be observed rather than by its mean: 0.1 prefers what is surely good
            to what is good on average (models with draws).

        Returns
        -------
        Recommendations
            Or, for a DataFrame, one of the same library, with columns rank, score, rule (and std).
        """
        from accams.estimators.using import recommendations

        self._check_is_fitted()
        how = exclude_seen, seen, candidates, unknown, return_std, quantile
        return recommendations(self, user, n, *how)

    def fold_in(self, history: Any, y: ArrayLike | None = None, *, side: str = "rows", n_draws: int = 32) -> Guest:
        """A new row (user) from a handful of values, without fitting anything again.

        Parameters
        ----------
        history : dict {column id: value}, pairs (column id, value), or column ids with their values `y`
        side : {"rows", "cols"}
            "cols" makes a new column of values at rows.
        n_draws : int
            Most draws that are used of a model with many.

        Returns
        -------
        Guest
            With `predict`, `recommend` and `explain` of its own; `recommend` and `explain` of the model take it too.
        """
        from accams.estimators.using import folded_in

        self._check_is_fitted()
        return folded_in(self, history, y, side, n_draws)

    def update(self, X: Any, y: ArrayLike | None = None, *, random_state: Any = 0) -> Self:
        """A model that has taken in rows with new observations, without fitting templates or columns again.

        Parameters
        ----------
        X, y
            As for `fit`: *all* observations of each row that is to change, old ones too, or of new rows, at columns
            that the model knows. Rows that are not there stay as they are.
        random_state : int
            By which labels are drawn where there are many draws.

        Returns
        -------
        A model of the same kind; this one stays as it is.
        """
        from accams.estimators.updating import updated

        self._check_is_fitted()
        return updated(self, X, y, random_state)  # type: ignore[no-any-return]

    def similar(
        self, which: Any, n: int = 10, *, side: str = "cols", by: str = "weighted", candidates: Any = None
    ) -> list[tuple[Any, float]]:
        """The columns (items) or rows (users) most like one of them, with how alike they are, the most similar first.

        Parameters
        ----------
        which : id
        side : {"cols", "rows"}
        by : {"weighted", "hamming"}
            "hamming" is the share of stencils, over all draws, in which both have the same label. "weighted" also looks
            at how much labels differ in what they predict, each less its own level: 1 for the same, 0 for any two.
        candidates : list of ids, optional
            Choose among these alone, such as those with many observations.
        """
        from accams.estimators.using import most_similar

        self._check_is_fitted()
        return most_similar(self, which, n, side, by, candidates)

    def explain(self, user: Any, item: Any) -> Explanation:
        """One prediction as a sum: the offset, one term for each stencil with who else is in its blocks, the rest.

        A model with many draws explains itself through one small model distilled of them (which takes some seconds, the
        first time); what the draws say beyond that is `remainder`.
        """
        from accams.estimators.using import explanation

        self._check_is_fitted()
        return explanation(self, user, item)

    def diagnostics(self) -> Diagnostics:
        """How the fit went: entropy of labels, share of labels changed and gain by sweep and stencil; mixing of chains.

        Small models and files without ids do not know it.
        """
        from accams.estimators.diagnostics import diagnostics_of

        self._check_is_fitted()
        return diagnostics_of(self)

    def hierarchy(
        self, depth: int = 3, side: str = "items", *, branches: int | None = 3, least: int | None = None,
        members: int = 6, candidates: Any = None, stencils: Any = None,
        keep: Callable[[list[Any]], Sequence[Any]] | None = None,
    ) -> Node:  # fmt: skip
        """A tree of the columns (items) or rows (users): each level parts them by the labels of one stencil.

        Parameters
        ----------
        depth : int
        side : {"items", "users"}
        branches : int or None
            Labels that are alike go together until a node has at most so many branches; None leaves all apart.
        least : int, optional
            Smaller branches are pruned; by default those with less than one in a hundred.
        members : int
            How many typical members are named.
        candidates : list of ids, optional
            The tree of these alone, such as those with many ratings.
        stencils : list of int, optional
            Which stencils make the levels; by default those that tell most apart, the first one most.
        keep : function, optional
            Given the ids of a branch, those of them to keep in it (the paper's figure keeps shows of which there is
            more than one season).

        Returns
        -------
        Node
            With `size`, `members`, `line` and `children`; `print` shows the tree.
        """
        from accams.estimators.using import hierarchy

        self._check_is_fitted()
        return hierarchy(self, depth, side, branches, least, members, candidates, stencils, keep)
