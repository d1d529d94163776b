"""Model: the one fitted thing."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams import report as reporting
from accams.errors import InputError, renamed
from accams.fitted import files, knowing, updating
from accams.fitted.compressing import compressed
from accams.fitted.distilling import chosen_weights, distilled
from accams.fitted.drifting import drift
from accams.fitted.forgetting import forgotten
from accams.fitted.former import FormerNames
from accams.fitted.recommending import RecommendingParts
from accams.fitted.refining import refine, towards
from accams.html import html_table
from accams.model.interactions import Interactions
from accams.model.stencils import StencilSum
from accams.use.diagnostics import Diagnostics, diagnostics_of
from accams.use.drift import Drift
from accams.writing import write_atomically


class Model(FormerNames, RecommendingParts):
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
    item_map : ItemMap or None
        Which items go with which, by which lists are ranked.
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

    # -- new observations ---------------------------------------------------------------------------------

    def update(
        self, X: Any = None, y: ArrayLike | None = None, *, history: Any = None, min_ratings: int = 3,
        user_features: Any = None, item_features: Any = None, random_state: Any = 0,
    ) -> Self:  # fmt: skip
        """Return a model that has taken in new observations, without fitting templates again.

        Parameters
        ----------
        X, y
            As for `fit`, or `Events` of a log. Where a pair comes again, its latest value counts: by time in a table
            with times, else the last one. Users that are not in it stay as they are.
        history : DataFrame, Observations or "model", optional
            What was observed before; then X is what is new, and the value in X counts where both have one. Users of X
            are placed by all they have, and items that were unknown, or have at least doubled their ratings, are placed
            too. "model": what the model holds is all there is. Its predictions then stand in for the values of what a
            user has observed; if it does not hold that either, for as many of the most active items. Known users lose a
            little with each such update: pass all that is new since the fit to the fitted model, rather than the last
            bit to an updated one. The same observations can be passed again: they change nothing more. Without a
            history, X has *all* observations of its users, old ones too, at items that the model knows.
        min_ratings : int, default 3
            Ratings that a new item needs to be placed. Pass those with fewer again when there are more. In lists by
            choice it is placed by what those who chose it have chosen before: that takes a history, given or held by
            the model, of at least half of the users whom the lists were learned from.
        user_features, item_features : DataFrame, optional
            Features of users (items), for a model that was fitted with some. New ones without observations, and those
            that never had any, are placed by them; X may then be left out. Who has been fitted stays as it is.
        random_state : int, default 0
            Seed by which labels are drawn where there are many draws.

        Returns
        -------
        Model
            This one stays as it is.
        """
        model = knowing.informed_by(self, user_features, item_features, random_state)
        if X is None:
            if model is self:
                raise InputError("there is nothing to take in: pass observations, user_features or item_features")
            return model
        return updating.updated(model, X, y, history, min_ratings, random_state)

    def drift(self, X: Any, y: ArrayLike | None = None) -> Drift:
        """Compare new observations with those that were fitted, before they are taken in: is it time to fit again?

        Parameters
        ----------
        X, y
            As for `update`. Pairs that the model has taken in already count for nothing but their number.

        Returns
        -------
        Drift
        """
        return drift(self, X, y)

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
        object.__setattr__(self, "__dict__", forgotten(self, user).__dict__)
        return self

    def with_lists(self, lists: Any) -> Self:
        """Return a model that predicts values as this one does, and ranks by choice as another does.

        Parameters
        ----------
        lists : Model or ItemACCAMS
            Fitted to the same users and items.

        Returns
        -------
        Model
        """
        other = getattr(lists, "model_", lists)
        if not isinstance(other, Model) or other.item_map is None or other.interactions is None:
            raise InputError("with_lists takes a fitted ItemACCAMS, with the history of its users")
        if not all(own.begins_with(its) for own, its in zip(self.indices, other.indices, strict=True)):
            raise InputError("with_lists takes lists of the same users and items: fit both to the same data")
        interactions, none = other.interactions, np.zeros(0, np.int64)
        if len(other.row_index) < self.shape[0]:  # users that are known by their features alone
            interactions = interactions.put(none, self.shape[0], Interactions(np.zeros(1, np.int64), none))
        return replace(self, item_map=other.item_map.grown(self.shape[1]), interactions=interactions)

    # -- the fit ------------------------------------------------------------------------------------------

    def diagnostics(self) -> Diagnostics:
        """Return how the fit went: entropy of labels, share of labels changed, gain by sweep and stencil, mixing."""
        return diagnostics_of(self.fit_history, self.posterior)

    @property
    def plot(self) -> reporting.Plots:
        """Plots of the model: `templates`, `map`, `hierarchy`, `sizes`, `error_by_size` and `trace`."""
        return reporting.Plots(lambda: self)

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
        self.need_values("distill")
        both = chosen_weights(weights, self.activity)
        how = random_state, n_threads, verbose, self.linear
        return distilled(self.stencils, self.codes, max_bytes, both, *how)

    def compress(
        self, max_bytes: int, *, ids: bool = True, lists: bool = True, weights: Any = "activity",
        random_state: Any = 0, n_threads: int | None = None, verbose: bool | str = "auto",
    ) -> Self:  # fmt: skip
        """Return a small model in place of this one: distilled, with ids and a predictive spread.

        Parameters
        ----------
        max_bytes : int
            Size of the file that ``save(path, ids=ids)`` writes.
        ids : bool, default True
            Whether that file has the ids in it.
        lists : bool, default True
            Whether to keep the item map, which lists by choice are made from.
        weights, random_state, n_threads, verbose
            As for `distill`.

        Returns
        -------
        Model
            From a model with draws it keeps a calibrated spread (`return_std`, `quantiles`), by class of user and item.
        """
        if not self.predicts:
            raise InputError("a model of lists is compressed as it is fitted: fit ItemACCAMS with another max_bytes")
        kept = self if lists else replace(self, item_map=None)
        return compressed(kept, max_bytes, ids, weights, random_state, n_threads, verbose)

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
        self.need_values("refine")
        if self.scale is not None:
            raise InputError("refine does not take models of ordinal ratings: fit with likelihood='gaussian'")
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
        self.need_values("a report")
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

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the bytes of a file, which are few and hold all that the model knows."""
        try:
            return type(self)._of_bytes, (files.to_bytes(self, complete=True),)
        except InputError:  # ids that no file can hold
            return super().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(**deepcopy(self.__getstate__(), memo))

    def __copy__(self) -> Self:
        return replace(self)

    @classmethod
    def _of_bytes(cls, content: bytes) -> Self:
        return cls(**files.from_bytes(content).__getstate__())

    def __repr__(self) -> str:
        (m, n), draws = self.shape, "" if self.posterior is None else f", {len(self.posterior)} draws"
        by = f", fitted by {self.info.estimator}" if self.info.estimator else ""
        content = [f"{len(self.stencils)} stencils{draws}"] if self.predicts else []
        content += [] if self.item_map is None else [str(self.item_map)]
        return f"Model({m:,} users x {n:,} items, {', '.join(content)}{by})"

    def _repr_html_(self) -> str:
        rows = {"users": f"{self.shape[0]:,}", "items": f"{self.shape[1]:,}"}
        rows |= {"stencils": str(len(self.stencils))} if self.predicts else {}
        rows |= {} if self.item_map is None else {"lists": str(self.item_map)}
        rows |= {} if self.posterior is None else {"draws": str(len(self.posterior))}
        rows |= {} if self.evaluation is None else {"held-out RMSE": f"{self.evaluation.rmse:.4f}"}
        rows |= {"fitted by": self.info.estimator} if self.info.estimator else {}
        return html_table("accams model", rows)
