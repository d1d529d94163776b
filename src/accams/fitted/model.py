"""Model: the one fitted thing."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray

from accams import report as reporting
from accams.errors import InputError, renamed, warn_deprecated
from accams.fitted import explaining, files, folding, ranking, updating
from accams.fitted.compressing import compressed
from accams.fitted.distilling import chosen_weights, distilled
from accams.fitted.folding import FoldedRow
from accams.fitted.former import FormerNames
from accams.fitted.predicting import PredictingParts
from accams.fitted.ranking import NOUNS, axis_of
from accams.fitted.refining import refine, towards
from accams.model.container import write_atomically
from accams.model.stencils import StencilSum
from accams.use.diagnostics import Diagnostics, diagnostics_of
from accams.use.explain import Explanation
from accams.use.hierarchy import Node
from accams.use.records import Recommendation, Records, SimilarItem, SimilarUser


class Model(FormerNames, PredictingParts):
    """A fitted model: what an estimator's `model_` is and what `accams.load` returns.

    It predicts, recommends, explains, takes in new users and writes itself to a file; it cannot be fitted again. Users
    are rows and items are columns. Its attributes are the parts it is made of.

    Attributes
    ----------
    stencils : StencilSum
        The model of a single sum; where there is a posterior, its last draw of the first chain.
    posterior : Posterior or None
        Draws (`BayesianACCAMS`); where there are any, their mean is what predicts.
    users, items : arrays
        Raw ids.
    parameters : mapping
        Parameters of the fit; ``BayesianACCAMS().set_params(**model.parameters)`` has the same ones.
    interactions : Interactions or None
        Items that each user has observed.
    evaluation : Evaluation or None
        Errors on held-out data, where `accams fit` measured them.
    value_range, clip, sigma, spread, zero_weight, activity, fit_history, info
        See `accams.fitted.parts.Parts`.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> model = ACCAMS(n_stencils=2, n_clusters=2).fit(np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])).model_
    >>> model
    Model(4 users x 3 items, 2 stencils, fitted by ACCAMS)
    >>> model.predict([[0, 1]]).round(2)
    array([1.])
    """

    @property
    def users(self) -> NDArray[Any]:
        """Ids of the users (rows)."""
        return self.row_index.ids

    @property
    def items(self) -> NDArray[Any]:
        """Ids of the items (columns)."""
        return self.col_index.ids

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters of the fit, by name."""
        return self.info.parameters

    @property
    def file_size(self) -> int:
        """Bytes of the file that `save` would write; without ids where they cannot be saved."""
        keep = files.keeps_history(self, "auto", True)
        try:
            return len(files.to_bytes(self, interactions=keep))
        except InputError:
            return len(files.to_bytes(self, ids=False, interactions=keep))

    # -- recommendations ----------------------------------------------------------------------------------

    def recommend(
        self, user: Any, n: int = 10, *, exclude_seen: bool = True, seen: Any = None, candidates: Any = None,
        unknown: str = "error", return_std: bool = False, quantile: float | None = None,
    ) -> Records[Recommendation]:  # fmt: skip
        """Recommend the best items for one user or several.

        Parameters
        ----------
        user : id, list or array of ids, DataFrame, or FoldedRow
            A DataFrame has the ids in its only column, or in the one so called when the model was fitted.
        n : int, default 10
            Items per user; fewer where there are no more.
        exclude_seen : bool, default True
            Leave out what a user has observed already.
        seen : pairs, DataFrame or Observations, optional
            What users have observed, for a model without interactions.
        candidates : list of item ids, optional
            Choose among these alone.
        unknown : {"error", "average"}, default "error"
            Whether an unknown user is refused or treated as the average user.
        return_std : bool, default False
            Add the standard deviation of an observation.
        quantile : float, optional
            Rank by this quantile of what would be observed rather than by its mean: 0.1 prefers what is surely good to
            what is good on average.

        Returns
        -------
        Records of Recommendation
            With fields user, item, rank, score, std and rule; `to_pandas()` and the like give a DataFrame.
        """
        if isinstance(user, FoldedRow):
            if seen is not None:
                raise InputError("the history of a folded-in user is known: pass no seen")
            how = {"candidates": candidates, "return_std": return_std, "quantile": quantile}
            return user.recommend(n, exclude_seen=exclude_seen, **how)
        how_many = exclude_seen, seen, candidates, unknown, return_std, quantile
        return ranking.recommend(self, user, n, *how_many)

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
        candidates : list of ids, optional
            Choose among these alone, such as those with many observations.

        Returns
        -------
        Records of SimilarItem (or SimilarUser)
            Most similar first, with fields item (or user) and score.
        """
        return ranking.similar(self, which, n, side, by, candidates)

    # -- new users and items ------------------------------------------------------------------------------

    def fold_in(
        self, history: Any, y: ArrayLike | None = None, *, new: str = "user", n_draws: int = 32, side: str | None = None
    ) -> FoldedRow:
        """Fold in a new user from a handful of values, without fitting anything again.

        Parameters
        ----------
        history : dict {item: value}, pairs (item, value), or items with their values `y`
        new : {"user", "item"}, default "user"
            "item" folds in a new item from values of users.
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
        return folding.fold_in(self, history, y, new, n_draws)

    def update(self, X: Any, y: ArrayLike | None = None, *, random_state: Any = 0) -> Self:
        """Return a model that has taken in new observations, without fitting templates or items again.

        Parameters
        ----------
        X, y
            As for `fit`: *all* observations of each user that is to change, old ones too, or of new users, at items
            that the model knows. Users that are not in it stay as they are.
        random_state : int, default 0
            Seed by which labels are drawn where there are many draws.

        Returns
        -------
        Model
            This one stays as it is.
        """
        return updating.updated(self, X, y, random_state)

    def forget(self, user: Any) -> Self:
        """Take a user out of the model, in place: id, labels, noise and interactions.

        Templates, which average over many users, stay as they are, and so do the predictions for all other users; that
        of an unknown user, which is the average over all, changes a little.

        Parameters
        ----------
        user : id

        Returns
        -------
        self
        """
        object.__setattr__(self, "__dict__", updating.forgotten(self, user).__dict__)
        return self

    # -- explanations -------------------------------------------------------------------------------------

    def explain(self, user: Any, item: Any) -> Explanation:
        """Explain one prediction as a sum: the offset, one term per stencil with who else is in its blocks, the rest.

        A model of many draws is explained by a small one distilled from it (which takes some seconds, the first time);
        what the draws say beyond that is `remainder`.

        Parameters
        ----------
        user : id or FoldedRow
        item : id

        Returns
        -------
        Explanation
        """
        return user.explain(item) if isinstance(user, FoldedRow) else explaining.explanation(self, user, item)

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

    def diagnostics(self) -> Diagnostics:
        """Return how the fit went: entropy of labels, share of labels changed, gain by sweep and stencil, mixing."""
        return diagnostics_of(self.fit_history, self.posterior)

    # -- smaller models and files -------------------------------------------------------------------------

    def distill(
        self, max_bytes: int, *, weights: Any = "activity", random_state: Any = 0, n_threads: int | None = None,
        verbose: bool | str = "auto",
    ) -> StencilSum:  # fmt: skip
        """Distil the model into one stencil sum whose file has at most `max_bytes`.

        Parameters
        ----------
        max_bytes : int
            Size of the file that `StencilSum.save` writes.
        weights : {"activity", "uniform"} or (array, array), default "activity"
            How much a cell counts: the product of a weight of its row and one of its column. "activity" uses the
            numbers of observations, so that cells that are asked for most count most.
        random_state, n_threads, verbose
            As for fitting.

        Returns
        -------
        StencilSum
            By position; `compress` returns a model with ids. It approximates the mean over all draws by their labels;
            label probabilities (`rao_blackwell`) are not used.
        """
        both = chosen_weights(weights, self.activity)
        return distilled(self.stencils, self.codes, max_bytes, both, random_state, n_threads, verbose)

    def compress(
        self, max_bytes: int, *, ids: bool = True, weights: Any = "activity", random_state: Any = 0,
        n_threads: int | None = None, verbose: bool | str = "auto",
    ) -> Self:  # fmt: skip
        """Return a small model in place of this one: distilled, with ids and a predictive spread.

        Parameters
        ----------
        max_bytes : int
            Size of the file that ``save(path, ids=ids)`` writes.
        ids : bool, default True
            Whether that file has the ids in it.
        weights, random_state, n_threads, verbose
            As for `distill`.

        Returns
        -------
        Model
            From a model with draws it keeps a calibrated spread (`return_std`, `quantiles`), by class of user and item.
        """
        return compressed(self, max_bytes, ids, weights, random_state, n_threads, verbose)

    def refine(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *,
        max_bytes: int | None = None, shrinkage: float = 0.0, n_rounds: int = 10, n_threads: int | None = None,
        verbose: bool | str = "auto",
    ) -> Self:  # fmt: skip
        """Return a model moved closer to data: all labels and templates of all stencils improved jointly.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, with users and items that the model knows.
        max_bytes, shrinkage, n_rounds, n_threads, verbose
            As for `accams.refine`.

        Returns
        -------
        Model
        """
        if self.posterior is not None:
            raise InputError("refine starts from one stencil sum, and this model has many draws: compress it first")
        data, how = towards(self.indices, X, y, sample_weight), {"n_threads": n_threads, "verbose": verbose}
        better = refine(self.stencils, data, max_bytes=max_bytes, shrinkage=shrinkage, n_rounds=n_rounds, **how)  # type: ignore[arg-type]
        return replace(self, stencils=better, fit_history=(), evaluation=None)

    def report(self, path: str | Path, *, titles: Mapping[Any, str] | None = None, name: str = "model") -> None:
        """Write a report: one HTML page that opens in any browser, without a network.

        Parameters
        ----------
        path : path
        titles : mapping, optional
            Names of item ids.
        name : str, default "model"
            Heading of the page.
        """
        reporting.write(self, path, titles=titles, name=name)

    @renamed(seen="history")
    def save(
        self, path: str | Path, *, ids: bool = True, history: bool | str | Path = "auto", coding: str = "auto",
        templates: str | float = "float32",
    ) -> None:  # fmt: skip
        """Write the model to a file; `accams.load` reads it.

        Parameters
        ----------
        path : path
        ids : bool, default True
            False leaves out the ids: the loaded model then knows users and items by their positions.
        history : bool, "auto" or path, default "auto"
            Whether the file tells which items each user has observed, so that `recommend` can leave them out: about one
            byte each. "auto" keeps it with many draws, beside which it is little. A path writes it to a file of its
            own, for ``accams.load(path, history=...)``.
        coding : {"auto", "entropy", "packed"}, default "auto"
            Coding of labels: entropy-coded, or packed, so that the file is opened without decoding anything; "auto"
            takes the smaller one.
        templates : {"float32", "float16", "int8", "int4"} or float, default "float32"
            How template entries are stored; a number is the largest error they may have (`StencilSum.rounded`).
        """
        apart = isinstance(history, (str, Path)) and history != "auto"
        keep = files.keeps_history(self, history, ids)
        content = files.to_bytes(self, ids=ids, interactions=keep and not apart, coding=coding, templates=templates)
        if apart and self.interactions is not None:
            files.write_history(str(history), *self.indices, self.interactions)
        write_atomically(Path(path), content)

    def __repr__(self) -> str:
        (m, n), draws = self.shape, "" if self.posterior is None else f", {len(self.posterior)} draws"
        by = f", fitted by {self.info.estimator}" if self.info.estimator else ""
        return f"Model({m:,} users x {n:,} items, {len(self.stencils)} stencils{draws}{by})"

    def _repr_html_(self) -> str:
        rows = {"users": f"{self.shape[0]:,}", "items": f"{self.shape[1]:,}", "stencils": str(len(self.stencils))}
        rows |= {} if self.posterior is None else {"draws": str(len(self.posterior))}
        rows |= {} if self.evaluation is None else {"held-out RMSE": f"{self.evaluation.rmse:.4f}"}
        rows |= {"fitted by": self.info.estimator} if self.info.estimator else {}
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
        return f"<table><caption>accams model</caption><tbody>{body}</tbody></table>"
