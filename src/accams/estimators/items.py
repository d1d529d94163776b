"""ItemACCAMS: lists by which items go with which."""

from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Self
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.feedback import Feedback
from accams.data.inputs import Choices, choices_of, pair_names
from accams.data.observations import Observations
from accams.data.splits import late_entries
from accams.errors import InputError
from accams.estimators.base import StencilEstimator
from accams.estimators.memory import memory_of_machine
from accams.fit.itemmap import compressed_map
from accams.fit.items import Trial, among, chosen_ridge, gram_of, masses_of
from accams.fit.keys import seed_of
from accams.fit.regression import Ridge, dropped, solved
from accams.fit.tail import extended
from accams.fitted.files import to_bytes
from accams.fitted.model import Model
from accams.fitted.parts import FitInfo
from accams.fitted.progress import ProgressBar
from accams.model.interactions import Interactions, few
from accams.model.itemmap import ItemMap, sum_bytes
from accams.model.stencils import StencilSum
from accams.settings.encoding import plain_parameters
from accams.settings.fields import settings
from accams.settings.items import ItemSettings
from accams.threads import SINGLE_BLAS, Threads

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
BYTES_PER_PAIR = 40  # of memory, for each pair of items: X'X, the map, what stencils leave of it, and copies
BYTES_PER_ITEM, FEWEST_BYTES = 32, 20_000  # of a file, by default
SHARE_OF_TAIL = 0.1  # bytes of an item beyond the regression, by those of one in it
NOT_KEPT = ("verbose", "n_threads")  # they must not change the file, nor so what room it has for stencils
TRAINING = ("penalty_", "dropout_", "feedback_", "n_stencils_", "n_features_in_")  # attributes that a file keeps
ONE_THREAD = 4000  # items up to which one thread of linear algebra is fast enough
LATE = 0.1  # share of the choices that are the latest ones
SPARE = 64  # bytes of a file, for numbers in the header that may become longer


@settings()
class ItemACCAMS(StencilEstimator, ItemSettings):
    r"""Recommend by which items go with which, learned from what people chose.

    The map B of the regression of what people chose on itself, :math:`|X - X B|^2 + \lambda |B|^2` with a zero diagonal
    (EASE, Steck 2019), says how much having chosen one item speaks for another; dropout (EDLAE, Steck 2020) makes
    scores rest on many items rather than on few. A sum of stencils takes the place of the map, fitted so that *scores*
    change least: it ranks nearly as well in a hundredth or less of its bytes. A list needs only a history: no user is
    part of the map.

    Attributes
    ----------
    model_ : Model
        The fitted model, to which all methods but `fit` delegate. It makes lists; it predicts no values.
    penalty_, dropout_ : float
        The penalty and the dropout that were used.
    feedback_ : str
        How values became weights.
    n_stencils_ : int
        Stencils in the map.
    row_index_, col_index_ : Index
        Raw ids and their positions.
    n_features_in_ : int
        Columns of the matrix; 2 where pairs or a table of observations were passed.
    feature_names_in_ : array (2,)
        Names of the columns with user ids and item ids, if they came in a DataFrame.

    See Also
    --------
    BayesianACCAMS : predicts values, with intervals.

    Examples
    --------
    >>> import pandas as pd
    >>> from accams import ItemACCAMS
    >>> people, goods = ["ann", "ann", "bob", "bob", "cid"], ["tea", "milk", "tea", "milk", "rum"]
    >>> likes = pd.DataFrame({"user": people, "item": goods})
    >>> model = ItemACCAMS(penalty=1.0).fit(likes)
    >>> model.recommend(history=["tea"], n=1)[0].item
    'milk'
    """

    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : DataFrame, Observations, array or scipy sparse matrix
            With `y`: pairs of (user id, item id), n x 2. Without: a table of observations (one without a column of
            values holds likes), or a matrix (NaN, or not stored, is missing).
        y : array-like, optional
            The value of each pair: a rating, a count, or a weight (`feedback`).
        sample_weight : array-like, optional
            A factor of the weight of each value. Weights are scaled so that the largest is 1.

        Returns
        -------
        self
        """
        seed = seed_of(self.random_state)
        self.check_params()
        table = choices_of(X, y, sample_weight)
        observations = table.observations
        feedback, choices = self._choices(table)
        size = observations.shape[1]
        masses = masses_of(choices, size)
        head = np.arange(size)
        if self.max_bytes is not None and size > self.max_items:
            head = np.sort(np.argsort(-masses, kind="stable")[: self.max_items])
        self._check_memory(len(head))
        with ProgressBar(self.verbose, "counting", observations.nnz) as bar, self._linear_algebra(len(head)):
            progress = _Progress(bar)
            inside = choices if len(head) == size else among(choices, head, size)
            gram = gram_of(inside, len(head))
            penalty, dropout = (None if isinstance(x, str) else float(x) for x in (self.penalty, self.dropout))
            trial = partial(self._trial, inside, gram, observations, head, seed)
            ridge = chosen_ridge(trial, gram, penalty, dropout, progress.of("choosing penalty and dropout"))
            gram = dropped(gram, ridge.dropout, overwrite=True)
            item_map = ItemMap.empty(masses, ridge.penalty, observations.shape[0], feedback, ridge.dropout)
            self._describe(X, y, observations, item_map, ridge)
            if self.max_bytes is None:
                item_map = replace(item_map, dense=solved(gram, item_map.penalty).astype(np.float32))
            else:
                room = self._room(self._model(observations, choices, item_map))
                stencils = self._stencils(gram, head, choices, item_map, ridge, room, seed, progress)
                item_map, self.n_stencils_ = replace(item_map, stencils=stencils), len(stencils)
        self.model_ = self._model(observations, choices, item_map)
        return self

    def _linear_algebra(self, size: int) -> Any:
        """Return a context in which small matrices are multiplied and inverted on one thread.

        Threads of BLAS wait for one another by spinning: where the machine has other work, two of them can take many
        times as long as one.
        """
        from threadpoolctl import threadpool_limits

        return SINGLE_BLAS if size <= ONE_THREAD else threadpool_limits(self.n_threads, user_api="blas")

    def _stencils(
        self, gram: Floats, head: Positions, choices: Interactions, item_map: ItemMap, ridge: Ridge, room: int,
        seed: int, progress: "_Progress",
    ) -> StencilSum:  # fmt: skip
        """Return a stencil sum in place of the map: fitted to the head, and then extended to the other items."""
        tail, how = item_map.size - len(head), {"seed": seed, "threads": Threads(self.n_threads)}
        of_head = int(room * len(head) / (len(head) + SHARE_OF_TAIL * tail))
        watch = progress.of("fitting stencils")
        stencils, _, price = compressed_map(gram, item_map.penalty, of_head, watch=watch, **how)  # type: ignore[arg-type]
        if not tail:
            return stencils
        return extended(stencils, price, head, choices, item_map.levels, ridge, room)

    def _choices(self, given: Choices) -> tuple[Feedback, Interactions]:
        """Return the rule that values follow, and the weight of each choice, the largest of which is 1."""
        observations = given.observations
        values = np.asarray(observations.values, np.float64)
        kind = self.feedback if given.valued else "likes"
        feedback = Feedback.of(values, kind, self.liked_from, self.seen_weight)
        return feedback, weighed(observations, feedback)

    def _trial(
        self, choices: Interactions, gram: Floats, observations: Observations, head: Positions, seed: int
    ) -> Trial | None:
        """Return what penalty and dropout are chosen on, given the choices of the items in the head."""
        if self.held_out == "random":
            return Trial.of(choices, gram, seed)
        late = late_entries(observations, LATE, "held_out='latest'")[np.isin(observations.cols, head)]
        trial = Trial.by_time(choices, late, len(gram), seed)
        if trial is None:
            warn("too few users have both early and late choices: penalty and dropout are set by rule", stacklevel=6)
        return trial

    def _check_memory(self, n_items: int) -> None:
        """Refuse a regression that would not fit into memory."""
        need, limit = BYTES_PER_PAIR * n_items**2, memory_of_machine()
        if need > limit:
            most = int(np.sqrt(limit / BYTES_PER_PAIR))
            raise InputError(
                f"the regression of {n_items:,} items needs about {need / 1e9:.3g} GB, more than this machine has "
                f"({limit / 1e9:.3g} GB): set max_items={most // 1000 * 1000:,}, with max_bytes"
            )

    def _describe(
        self, X: Any, y: ArrayLike | None, observations: Observations, item_map: ItemMap, ridge: Ridge
    ) -> None:
        """Set the fitted attributes that describe the input and the fit."""
        names = pair_names(X, y)
        self.n_features_in_ = observations.shape[1] if y is None and names is None else 2
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        self.penalty_, self.dropout_ = ridge
        self.feedback_ = str(item_map.feedback)
        self.n_stencils_ = 0

    def _model(self, observations: Observations, choices: Interactions, item_map: ItemMap) -> Model:
        training = {name: getattr(self, name) for name in TRAINING}
        names = getattr(self, "feature_names_in_", None)
        both = None if names is None else (str(names[0]), str(names[1]))
        return Model(
            stencils=StencilSum(observations.shape, 0.0, ()),
            predicts=False,
            item_map=item_map,
            row_index=observations.row_index,
            col_index=observations.col_index,
            value_range=observations.value_range,
            interactions=choices,
            info=FitInfo(type(self).__name__, plain_parameters(self, NOT_KEPT), training, both),
        )

    def _room(self, model: Model) -> int:
        """Return the bytes that are left for stencils in a file of at most `max_bytes`."""
        empty = StencilSum((model.shape[1],) * 2, 0.0, ())
        assert model.item_map is not None
        whole = len(to_bytes(replace(model, item_map=replace(model.item_map, stencils=empty)), interactions=False))
        alone = sum_bytes(empty, model.item_map.levels)
        if self.max_bytes == "auto":
            head = min(model.shape[1], self.max_items)
            return max(FEWEST_BYTES, int(BYTES_PER_ITEM * (head + SHARE_OF_TAIL * (model.shape[1] - head))))
        assert isinstance(self.max_bytes, (int, np.integer))
        if self.max_bytes < whole + SPARE:
            raise InputError(
                f"{self.max_bytes:,} bytes are too few for lists: a file without any stencil takes {whole + SPARE:,}"
            )
        return int(self.max_bytes) - (whole - alone) - SPARE


def weighed(observations: Observations, feedback: Feedback) -> Interactions:
    """Return who chose what, with weights by the rule of feedback, the largest of which is 1."""
    weights = feedback.weights(np.asarray(observations.values, np.float64))
    if observations.weights is not None:
        weights = weights * observations.weights
    if not weights.any():
        raise InputError("nobody chose anything: every weight is zero")
    return Interactions(observations.row_starts, observations.cols, few(weights / weights.max()))


class _Progress:
    """Tells a progress bar about the steps of several stages."""

    def __init__(self, bar: ProgressBar) -> None:
        self.bar, self.began = bar, perf_counter()

    def of(self, stage: str) -> Any:
        """Return a function that is called with the number of finished steps and of all."""
        return lambda done, planned: self.bar.update_stage(stage, done, planned, perf_counter() - self.began)
