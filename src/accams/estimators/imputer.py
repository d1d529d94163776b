"""ACCAMSImputer: fill the gaps of a matrix, as scikit-learn's imputers do."""

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from time import perf_counter
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from accams.data.gaps import Flags, Floats, Gaps, gaps_of, whole_columns
from accams.errors import InputError, warn
from accams.estimators.completing import Request, completed, sampled_rows
from accams.fit.keys import seed_of
from accams.fitted.completion import Completion, row_hashes
from accams.fitted.progress import ProgressBar
from accams.settings.fields import settings
from accams.settings.imputer import ImputerSettings
from accams.settings.kinds import Integer
from accams.threads import SINGLE_BLAS, Threads

CELLS = 1 << 22  # of a block of rows that is filled at once
MOST_NAMED = 8  # columns in a warning
DRAWING = 14  # purpose of the random stream of draws


@dataclass(frozen=True)
class Columns:
    """What is known of each column of the training data beside the completion.

    Attributes
    ----------
    kept : array of int
        Columns that are returned.
    fitted : array of int
        Those of them that the completion knows: columns with values that differ.
    filler : array (column,)
        What fills the gaps of the others.
    whole : array of bool
        Whether values are integers.
    low, high : arrays (column,)
        The range of the values.
    """

    kept: NDArray[np.int64]
    fitted: NDArray[np.int64]
    filler: Floats
    whole: NDArray[np.bool_]
    low: Floats
    high: Floats

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Where the fitted columns are among those kept."""
        return np.searchsorted(self.kept, self.fitted)


class Learned:
    """Types of fitted attributes, apart from the class whose annotations are settings."""

    n_features_in_: int
    feature_names_in_: NDArray[Any]
    columns_: NDArray[np.int64]
    integer_columns_: NDArray[np.int64]
    indicator_features_: NDArray[np.int64]
    completion_: Completion | None
    held_out_rmse_: float


@settings()
class ACCAMSImputer(TransformerMixin, ImputerSettings, Learned, BaseEstimator):  # type: ignore[misc]
    """Fill in missing cells of a numeric matrix: stencils, then regressions on the nearest rows and columns.

    Sums of small co-clusterings (`BayesianACCAMS`) make a first prediction of all missing cells. A few rounds of ridge
    regressions, of each row on the rows nearest to it and of each column on the columns nearest to it, improve it.
    Held-out cells decide how much each of them counts, when to stop, and how large standard deviations are.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the columns, where they are text.
    columns_ : array of int
        Columns that `transform` returns: those with a value in `fit`, or all.
    integer_columns_ : array of int
        Columns that are filled with integers.
    indicator_features_ : array of int
        Columns with missing cells in `fit`.
    completion_ : Completion or None
        What was learned; None if no column has two values that differ.
    held_out_rmse_ : float
        Root mean square error of held-out cells, on the fitted scale; NaN where none were held out.

    See Also
    --------
    BayesianACCAMS : completes sparse matrices, such as ratings.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMSImputer
    >>> random = np.random.default_rng(0)
    >>> truth = random.normal(size=(200, 2)) @ random.normal(size=(2, 8))
    >>> matrix = np.where(random.random(truth.shape) < 0.2, np.nan, truth)
    >>> full = ACCAMSImputer().fit_transform(matrix)
    >>> bool(np.abs(full - truth).mean() < 0.05)
    True
    """

    __metadata_request__transform = MappingProxyType({"return_std": UNUSED})  # an option, and not data to be routed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn to fill the gaps of a matrix, and fill its own.

        Parameters
        ----------
        X : array or DataFrame (rows, columns)
        y : ignored

        Returns
        -------
        self
        """
        gaps = self._read(X, reset=True)
        with SINGLE_BLAS:  # once, rather than in each of many short steps
            self._fit(gaps)
        return self

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Fill the gaps of rows.

        Rows of the training data are recognised by their known cells and get what the fit has found; others are folded
        in, each by itself.

        Parameters
        ----------
        X : array or DataFrame (rows, columns)
        return_std : bool, default False
            Also return standard deviations of the cells: an array, with zeros where cells are known.

        Returns
        -------
        X : array or DataFrame, as it came in
        std : array
            If asked for.
        """
        check_is_fitted(self)
        gaps = self._read(X)
        full, std = self._fill(gaps, return_std or self.sample_posterior)
        drawn = full if std is None or not self.sample_posterior else self._drawn(gaps, full, std, 0)
        answer = self._finish(gaps, drawn)
        return (answer, std) if return_std else answer

    def fit_transform(self, X: Any, y: Any = None, return_std: bool = False) -> Any:
        """Fit, and fill the gaps of the same rows: as ``fit(X).transform(X)``.

        Parameters
        ----------
        X : array or DataFrame (rows, columns)
        y : ignored
        return_std : bool, default False
            Also return standard deviations of the cells.

        Returns
        -------
        X : array or DataFrame, as it came in
        std : array
            If asked for.
        """
        return self.fit(X).transform(X, return_std)

    def draws(self, X: Any, n: int = 5) -> list[Any]:
        """Return multiple imputations: completed matrices whose filled cells are draws from their predictions.

        Parameters
        ----------
        X : array or DataFrame (rows, columns)
        n : int, default 5

        Returns
        -------
        list of arrays or DataFrames
            Cells are drawn independently of one another, from normal distributions that are cut to the range of the
            values, and rounded where integers are. The same table gets the same draws, another one others.
        """
        check_is_fitted(self)
        Integer(1).check("n", n)
        gaps = self._read(X)
        full, std = self._fill(gaps, True)
        assert std is not None
        return [self._finish(gaps, self._drawn(gaps, full, std, number)) for number in range(n)]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array of str, optional
            Names of the columns; by default those of `fit`, or x0, x1 and so on.

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        kept = names[self.columns_]
        if not self.add_indicator:
            return np.asarray(kept, object)
        flags = [f"missingindicator_{names[j]}" for j in self.indicator_features_]
        return np.asarray([*kept, *flags], object)

    # -- input and output ----------------------------------------------------------------------------------------

    def _read(self, X: Any, reset: bool = False) -> Gaps:
        """Return a matrix with gaps, checked."""
        if reset:
            self.check_params()
        marker = self.missing_values
        gaps = gaps_of(X, float(marker) if isinstance(marker, Real) else np.nan)
        if not reset and gaps.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {gaps.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        self.n_features_in_ = gaps.shape[1]
        return gaps

    def _finish(self, gaps: Gaps, full: Floats) -> Any:
        """Return completed columns in the kind that came in, or that `set_output` asks for."""
        self._round(gaps, full)
        flags = None
        if self.add_indicator:
            names = self.get_feature_names_out()[len(self.columns_) :].tolist()
            flags = Flags(names, np.isnan(gaps.values[:, self.indicator_features_]))
        answer = gaps.filled(self.columns_, full, flags)
        asked = self._output_kind()
        if gaps.frame is None or asked == "default":
            return answer
        from accams.data.columns import as_table

        table = as_table(answer)
        return table.to_pandas() if asked == "pandas" else table.to_polars()

    def _output_kind(self) -> str:
        from sklearn import get_config

        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        return str(own or get_config()["transform_output"])

    # -- fit and fill --------------------------------------------------------------------------------------------

    def _fit(self, gaps: Gaps) -> None:
        self._seed = seed_of(self.random_state)
        count, width = gaps.shape
        some = sampled_rows(count, width, self._seed)
        sample = np.asarray(gaps.values[some], np.float64)
        self._columns, self.indicator_features_ = described(gaps, sample, self.keep_empty_features, self.round_integers)
        self.columns_ = self._columns.kept
        if len(self.columns_) < width:
            names = np.delete(_check_feature_names_in(self), self.columns_).tolist()
            named = ", ".join(names[:MOST_NAMED]) + ", ..." * (len(names) > MOST_NAMED)
            warn(f"columns without any value are left out ({named}): keep_empty_features=True keeps them, with zeros")
        self.integer_columns_ = np.flatnonzero(self._columns.whole)
        sample = sample[:, self._columns.fitted]
        sample = sample[~np.isnan(sample).all(axis=1)]
        self.completion_ = None
        self.held_out_rmse_ = np.nan
        if len(self._columns.fitted):
            with ProgressBar(self.verbose, "regressing") as bar:
                self.completion_ = completed(
                    sample, count, Request(self, self._seed, self._threads(), bar, perf_counter(), count * width)
                )
            errors = self.completion_.rounds.errors
            self.held_out_rmse_ = errors[-1] if self.completion_.rounds.held else np.nan

    def _fill(self, gaps: Gaps, with_std: bool) -> tuple[Floats, Floats | None]:
        """Return kept columns of all rows, completed but not rounded, and standard deviations if asked for."""
        kept, count = self._columns.kept, gaps.shape[0]
        full, std = np.empty((count, len(kept))), np.zeros((count, len(kept))) if with_std else None
        step, began, threads = max(1, CELLS // gaps.shape[1]), perf_counter(), self._threads()
        with SINGLE_BLAS, ProgressBar(self.verbose, "filling") as bar:
            for lo in range(0, count, step):
                at, block = slice(lo, lo + step), gaps.block(lo, lo + step)
                part = block[:, kept]
                full[at] = np.where(np.isnan(part), self._columns.filler[kept], part)
                if self.completion_ is not None:
                    places = self._columns.places
                    full[at, places], spread = self.completion_.fill(block[:, self._columns.fitted], threads)
                    if std is not None:
                        std[at, places] = spread
                bar.update_stage("filling", min(count, lo + step), count, perf_counter() - began)
        return full, std

    def _drawn(self, gaps: Gaps, full: Floats, std: Floats, number: int) -> Floats:
        """Return a draw around completed columns; cells that are known have no deviation and stay."""
        step = max(1, CELLS // gaps.shape[1])
        parts = [row_hashes(gaps.block(lo, lo + step)).sum(dtype=np.uint64) for lo in range(0, gaps.shape[0], step)]
        key = int(np.sum(parts, dtype=np.uint64))  # so that the noise of one batch is not that of the next
        random = np.random.default_rng([self._seed, DRAWING, number, key])
        drawn = full + std * random.standard_normal(full.shape)
        if self.completion_ is not None:
            places = self._columns.places
            low, high = self.completion_.scaling.bounds
            drawn[:, places] = np.where(std[:, places] > 0, np.clip(drawn[:, places], low, high), drawn[:, places])
        return np.asarray(drawn)

    def _round(self, gaps: Gaps, full: Floats) -> None:
        """Round what is filled into columns of integers, in place."""
        whole = np.flatnonzero(self._columns.whole[self.columns_])
        for p, j in zip(whole.tolist(), self.columns_[whole].tolist(), strict=True):
            gone = np.isnan(gaps.values[:, j])
            full[gone, p] = np.clip(np.rint(full[gone, p]), self._columns.low[j], self._columns.high[j])

    def _threads(self) -> Threads:
        return Threads(self.n_threads)

    def __sklearn_is_fitted__(self) -> bool:
        return "completion_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def described(gaps: Gaps, sample: Floats, keep_empty: bool, round_floats: bool) -> tuple[Columns, NDArray[np.int64]]:
    """Return what is known of columns, and which of them have missing cells."""
    count, width = gaps.shape
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    known, total = np.zeros(width, np.int64), np.zeros(width)
    step = max(1, CELLS // width)
    for lo in range(0, count, step):
        block = gaps.block(lo, lo + step)
        there = ~np.isnan(block)
        known += there.sum(axis=0)
        total += np.where(there, block, 0.0).sum(axis=0)
        low = np.minimum(low, np.where(there, block, np.inf).min(axis=0))
        high = np.maximum(high, np.where(there, block, -np.inf).max(axis=0))
    there = ~np.isnan(sample)
    spans = np.where(there, sample, -np.inf).max(axis=0) > np.where(there, sample, np.inf).min(axis=0)
    filler = np.where(known > 0, np.clip(total / np.maximum(known, 1), low, high), 0.0)
    whole = whole_columns(gaps, round_floats) & (known > 0)
    low, high = np.where(known > 0, low, 0.0), np.where(known > 0, high, 0.0)
    kept = np.arange(width) if keep_empty else np.flatnonzero(known > 0)
    return Columns(kept, np.flatnonzero(spans), filler, whole, low, high), np.flatnonzero(known < count)
