"""Recommend, find what is similar, fold in and explain, by raw ids."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from accams.data.inputs import positions
from accams.errors import InputError, warn_deprecated
from accams.fitted import explaining, folding, listing, ranking
from accams.fitted.folding import FoldedRow
from accams.fitted.list_evaluating import evaluated
from accams.fitted.predicting import PredictingParts
from accams.fitted.ranking import NOUNS, axis_of
from accams.settings.kinds import Words
from accams.use.because import ListExplanation
from accams.use.explain import Explanation
from accams.use.hierarchy import Node
from accams.use.ids import as_ids, check_number
from accams.use.list_evaluation import ListEvaluation
from accams.use.records import ClusterTrait, Recommendation, Records, SimilarItem, SimilarUser, merged


class RecommendingParts(PredictingParts):
    """Parts of a model that recommend and explain by raw ids."""

    def recommend(
        self, user: Any = None, n: int = 10, *, history: Any = None, by: str = "auto", exclude_seen: bool = True,
        seen: Any = None, candidates: Any = None, unknown: str = "error", return_std: bool = False,
        quantile: float | None = None,
    ) -> Records[Recommendation]:  # fmt: skip
        """Recommend the best items for one user or several, or for a history.

        Parameters
        ----------
        user : id, list or array of ids, DataFrame, FoldedRow, or dict {item: value}
            A DataFrame has the ids in its only column, or in the one so called when the model was fitted. A dict is the
            history of somebody new.
        n : int, default 10
            Items per user; fewer where there are no more.
        history : dict {item: value}, items, DataFrame or Observations, optional
            What somebody new has rated or chosen; items without values are likes. With an item map, a table of users,
            items and values gives the lists of all users in it, or of those in `user`.
        by : {"auto", "choice", "value"}, default "auto"
            Rank by what people with such a history choose (models with an item map), or by predicted value. "auto" is
            by choice where that is possible and no `quantile` is given, and by value for users of whom features alone
            are known.
        exclude_seen : bool, default True
            Leave out what a user has observed already.
        seen : pairs, DataFrame or Observations, optional
            What users have observed, for a model without interactions.
        candidates : list of item ids, optional
            Choose among these alone.
        unknown : {"error", "average"}, default "error"
            Whether an unknown user is refused or treated as the average user (by choice: gets popular items).
        return_std : bool, default False
            Add the standard deviation of an observation.
        quantile : float, optional
            Rank by this quantile of what would be observed rather than by its mean: 0.1 prefers what is surely good to
            what is good on average.

        Returns
        -------
        Records of Recommendation
            With fields user, item, rank, score, std, rule and, beside a score by choice, prediction; `to_pandas()` and
            the like give a DataFrame. The lists of users without a history have the rule "popular items".
        """
        if isinstance(user, Mapping) and history is None:
            user, history = None, user
        if isinstance(user, FoldedRow):
            if seen is not None or history is not None:
                raise InputError("the history of a folded-in user is known: pass no seen")
            how: dict[str, Any] = {"candidates": candidates, "return_std": return_std, "quantile": quantile, "by": by}
            return user.recommend(n, exclude_seen=exclude_seen, **how)
        if user is None and history is None:
            raise InputError("name the users, or give a history: recommend(history={item: value})")
        Words("error", "average").check("unknown", unknown)
        check_number(n, len(self.col_index), "items")
        if history is None and by == "auto" and quantile is None and self.item_map is not None:
            names = ranking.names_of(self, user)
            quiet = ranking.silent(self, positions(self.row_index, names))
            if quiet.any():
                how = {"exclude_seen": exclude_seen, "seen": seen, "candidates": candidates, "unknown": unknown,
                       "return_std": return_std}  # fmt: skip
                both = [self.recommend(x, n, by=order, **how) for x, order in (
                    (names[~quiet], "choice"), (names[quiet], "value")) if len(x)]  # fmt: skip
                return merged(both, names)
        if ranking.ranked_by(self, by, quantile) == "choice":
            asked = self._asked(user, history, unknown)
            return listing.lists(self, asked, n, exclude_seen, seen, candidates, return_std)
        if history is not None:
            if user is not None:
                raise InputError("give the users or a history, not both: without an item map, a history is one guest's")
            return self.fold_in(history).recommend(
                n,
                exclude_seen=exclude_seen,
                candidates=candidates,
                return_std=return_std,
                quantile=quantile,
                by="value",
            )
        return ranking.recommend(self, user, n, exclude_seen, seen, candidates, unknown, return_std, quantile)

    def _asked(self, user: Any, history: Any, unknown: str) -> listing.Asked:
        """Return who asks for lists by choice."""
        if history is None:
            return listing.known_users(self, ranking.names_of(self, user), unknown)
        if self.predicts and user is None and listing.has_values(history):
            return listing.guest_of(self.fold_in(history))
        return listing.with_history(self, history, user, unknown)

    def evaluate_lists(
        self, X: Any, y: ArrayLike | None = None, *, history: Any = None, by: str = "auto"
    ) -> ListEvaluation:
        """Evaluate lists on choices that were not fitted: recall, NDCG, coverage, beside popularity.

        Parameters
        ----------
        X, y
            As for `fit`: what users chose, held out. Only likes are to be found, which the user has not seen before.
        history : DataFrame or Observations, optional
            What those users had chosen before, for users that the model does not know.
        by : {"auto", "choice", "value"}, default "auto"
            As for `recommend`.

        Returns
        -------
        ListEvaluation
        """
        return evaluated(self, X, y, history, by)

    def similar(
        self, which: Any, n: int = 10, *, side: str = "items", by: str = "weighted", candidates: Any = None
    ) -> Records[SimilarItem] | Records[SimilarUser]:
        """Return the items (or users) most similar to one of them.

        Parameters
        ----------
        which : id
        n : int, default 10
        side : {"items", "users"}, default "items"
        by : {"weighted", "hamming"}, default "weighted"
            "hamming" is the share of stencils, over all draws, in which both have the same label. "weighted" also looks
            at how much labels differ in what they predict, each less its own level: 1 for the same, 0 for any two.
            With an item map, items are compared by what speaks for them.
        candidates : list of ids, optional
            Choose among these alone, such as those with many observations.

        Returns
        -------
        Records of SimilarItem (or SimilarUser)
            Most similar first, with fields item (or user) and score.
        """
        return ranking.similar(self, which, n, side, by, candidates)

    def fold_in(
        self, history: Any = None, y: ArrayLike | None = None, *, new: str = "user", features: Any = None,
        n_draws: int = folding.DRAWS, side: str | None = None,
    ) -> FoldedRow:  # fmt: skip
        """Fold in a new user from a handful of values, without fitting anything again.

        Parameters
        ----------
        history : dict {item: value}, pairs (item, value), or items
        y : array-like, optional
            Values of the items.
        new : {"user", "item"}, default "user"
            "item" folds in a new item from values of users.
        features : dict {name: value}, optional
            What is known of the user (item), such as ``{"age": 30}``, for a model that was fitted with features. With
            them the history may be empty.
        n_draws : int, default 32
            Most draws that are used of a model with many.
        side : deprecated
            Former name of `new`.

        Returns
        -------
        FoldedRow
            With `predict`, `recommend` and `explain` of its own; those of the model take it too.
        """
        if side is not None:
            warn_deprecated("side of fold_in", "new='user' or new='item'")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                new = NOUNS[axis_of(side)]
        return folding.fold_in(self, history, y, new, n_draws, features)

    def explain(
        self, user: Any = None, item: Any = None, *, history: Any = None, by: str = "auto"
    ) -> Explanation | ListExplanation:
        """Explain one score or one prediction as a sum.

        By choice, that is one term for each other item of the history: "because of these of your items". By value, it
        is the offset, one term per stencil with who else is in its blocks, and the rest. A model of many draws is then
        explained by a small one distilled from it (which takes some seconds, the first time); what the draws say beyond
        that is `remainder`.

        Parameters
        ----------
        user : id, FoldedRow or dict {item: value}
        item : id
        history : dict {item: value} or items, optional
            What somebody new has rated or chosen, in place of a user.
        by : {"auto", "choice", "value"}, default "auto"
            As for `recommend`.

        Returns
        -------
        ListExplanation (by choice) or Explanation (by value)
        """
        if item is None:
            raise InputError("name the item to explain: explain(user, item)")
        if isinstance(user, Mapping) and history is None:
            user, history = None, user
        if isinstance(user, FoldedRow):
            return user.explain(item, by)
        if history is None and by == "auto" and ranking.silent(self, positions(self.row_index, as_ids([user]))).all():
            by = "value"
        if ranking.ranked_by(self, by) == "choice":
            return listing.reasons(self, self._asked(user, history, "error"), item)
        if history is not None:
            return self.fold_in(history).explain(item, "value")
        return explaining.explanation(self, user, item)

    def cluster_traits(self, stencil: int = 0, side: str = "items", n: int = 3) -> Records[ClusterTrait]:
        """Tell what the clusters of a stencil stand for, by the features that their members have in common.

        Parameters
        ----------
        stencil : int, default 0
            Of the model that explains (`explain`): of many draws, the small one that is distilled from them.
        side : {"items", "users"}, default "items"
        n : int, default 3
            Most features that are told of a cluster.

        Returns
        -------
        Records of ClusterTrait
            The largest cluster first, each with what is most above chance first.
        """
        return explaining.cluster_traits(self, side, stencil, n)

    def hierarchy(
        self, depth: int = 3, side: str = "items", *, branches: int | None = 3, least: int | None = None,
        members: int = 6, candidates: Any = None, stencils: Any = None,
        keep: Callable[[list[Any]], Sequence[Any]] | None = None,
    ) -> Node:  # fmt: skip
        """Return a tree of the items (or users): each level splits them by the labels of one stencil.

        Parameters
        ----------
        depth : int, default 3
        side : {"items", "users"}, default "items"
        branches : int or None, default 3
            Labels that are alike are merged until a node has at most so many branches; None merges none.
        least : int, optional
            Smaller branches are pruned; by default those with less than one in a hundred.
        members : int, default 6
            Typical members that are named.
        candidates : list of ids, optional
            The tree of these alone, such as those with many ratings.
        stencils : list of int, optional
            Stencils that make the levels; by default those that separate most, the first one most.
        keep : callable, optional
            Given the ids of a branch, return those of them to keep in it.

        Returns
        -------
        Node
            With `size`, `members`, `line` and `children`; `print` shows the tree.
        """
        return explaining.hierarchy(self, depth, side, branches, least, members, candidates, stencils, keep)
