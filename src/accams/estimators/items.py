"""ItemACCAMS: lists by which items go with which."""

from dataclasses import replace
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from accams.data.feedback import Feedback
from accams.data.inputs import choices_of, pair_names
from accams.data.observations import Observations
from accams.errors import InputError
from accams.estimators.base import StencilEstimator
from accams.estimators.memory import memory_of_machine
from accams.fit.itemmap import compressed_map
from accams.fit.items import chosen_penalty, gram_of
from accams.fit.keys import seed_of
from accams.fit.regression import solved
from accams.fitted.files import to_bytes
from accams.fitted.model import Model
from accams.fitted.parts import FitInfo
from accams.fitted.progress import ProgressBar
from accams.model import file
from accams.model.interactions import Interactions, few
from accams.model.itemmap import ItemMap
from accams.model.stencils import StencilSum
from accams.settings.encoding import plain_parameters
from accams.settings.fields import settings
from accams.settings.items import ItemSettings
from accams.threads import Threads

BYTES_PER_PAIR = 32  # of memory, for each pair of items: X'X, the map, and what stencils leave of it
BYTES_PER_ITEM, FEWEST_BYTES = 32, 20_000  # of a file, by default
SPARE = 64  # bytes of a file, for numbers in the header that may become longer


@settings()
class ItemACCAMS(StencilEstimator, ItemSettings):
    r"""Recommend by which items go with which, learned from what people chose.

    The map B of the regression of what people chose on itself, :math:`|X - X B|^2 + \lambda |B|^2` with a zero diagonal
    (EASE, Steck 2019), says how much having chosen one item speaks for another. A sum of stencils takes its place,
    fitted so that *scores* change least: it ranks nearly as well in a hundredth or less of its bytes. A list needs only
    a history: no user is part of the map.

    Attributes
    ----------
    model_ : Model
        The fitted model, to which all methods but `fit` delegate. It makes lists; it predicts no values.
    penalty_ : float
        The penalty that was used.
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
            A factor of the weight of each value.

        Returns
        -------
        self
        """
        seed = seed_of(self.random_state)
        self.check_params()
        observations = choices_of(X, y, sample_weight)
        self._check_memory(observations.shape[1])
        feedback, choices = self._choices(observations)
        with ProgressBar(self.verbose, "counting", observations.nnz) as bar:
            progress = _Progress(bar)
            gram = gram_of(choices, observations.shape[1])
            penalty = self.penalty
            if isinstance(penalty, str):
                penalty = chosen_penalty(choices, gram, seed, progress.of("choosing the penalty"))
            item_map = ItemMap.empty(np.diagonal(gram), float(penalty), observations.shape[0], feedback)
            self._describe(X, y, observations, item_map)
            if self.max_bytes is None:
                item_map = replace(item_map, dense=solved(gram, float(penalty)).astype(np.float32))
                self.model_ = self._model(observations, choices, item_map)
                return self
            room = self._room(self._model(observations, choices, item_map))
            threads = Threads(self.n_threads)
            stencils, _, _ = compressed_map(
                gram, float(penalty), room, seed=seed, threads=threads, watch=progress.of("fitting stencils")
            )
        self.n_stencils_ = len(stencils)
        self.model_ = self._model(observations, choices, replace(item_map, stencils=stencils))
        return self

    def _choices(self, observations: Observations) -> tuple[Feedback, Interactions]:
        """Return the rule that values follow, and the weight of each choice."""
        values = np.asarray(observations.values, np.float64)
        feedback = Feedback.of(values, self.feedback, self.liked_from, self.seen_weight)
        weights = feedback.weights(values)
        if observations.weights is not None:
            weights = weights * observations.weights
        if not weights.any():
            raise InputError("nobody chose anything: every weight is zero")
        return feedback, Interactions(observations.row_starts, observations.cols, few(weights))

    def _check_memory(self, n_items: int) -> None:
        """Refuse a regression that would not fit into memory."""
        need, limit = BYTES_PER_PAIR * n_items**2, memory_of_machine()
        if need > limit:
            most = int(np.sqrt(limit / BYTES_PER_PAIR))
            raise InputError(
                f"the regression of {n_items:,} items needs about {need / 1e9:.3g} GB, more than this machine has "
                f"({limit / 1e9:.3g} GB): keep the {most // 1000 * 1000:,} most popular items"
            )

    def _describe(self, X: Any, y: ArrayLike | None, observations: Observations, item_map: ItemMap) -> None:
        """Set the fitted attributes that describe the input and the fit."""
        names = pair_names(X, y)
        self.n_features_in_ = observations.shape[1] if y is None and names is None else 2
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        self.penalty_, self.feedback_ = item_map.penalty, str(item_map.feedback)
        self.n_stencils_ = 0

    def _model(self, observations: Observations, choices: Interactions, item_map: ItemMap) -> Model:
        training = {name: getattr(self, name) for name in ("penalty_", "feedback_", "n_stencils_", "n_features_in_")}
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
            info=FitInfo(type(self).__name__, plain_parameters(self), training, both),
        )

    def _room(self, model: Model) -> int:
        """Return the bytes that are left for stencils in a file of at most `max_bytes`."""
        empty = StencilSum((model.shape[1],) * 2, 0.0, ())
        assert model.item_map is not None
        whole = len(to_bytes(replace(model, item_map=replace(model.item_map, stencils=empty)), interactions=False))
        alone = len(file.to_bytes(empty))
        if self.max_bytes == "auto":
            return max(FEWEST_BYTES, BYTES_PER_ITEM * model.shape[1])
        assert isinstance(self.max_bytes, (int, np.integer))
        if self.max_bytes < whole + SPARE:
            raise InputError(
                f"{self.max_bytes:,} bytes are too few for lists: a file without any stencil takes {whole + SPARE:,}"
            )
        return int(self.max_bytes) - (whole - alone) - SPARE


class _Progress:
    """Tells a progress bar about the steps of several stages."""

    def __init__(self, bar: ProgressBar) -> None:
        self.bar, self.began = bar, perf_counter()

    def of(self, stage: str) -> Any:
        """Return a function that is called with the number of finished steps and of all."""
        return lambda done, planned: self.bar.update_stage(stage, done, planned, perf_counter() - self.began)
