"""Posterior: many draws of the model in compact form, their mean, spread and mixing."""

import warnings
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from accams.errors import InputError
from accams.model.codes import Codes, position_pairs
from accams.model.linear import Linear
from accams.model.stencils import Stencil, StencilSum

BATCH = 1 << 16  # pairs at a time
FEWEST = 4  # sweeps that say something about mixing


@dataclass(frozen=True, eq=False)
class Draw:
    """One kept state of one chain.

    `made` are its labels (one byte each) and templates, or a pending Future: `codes` waits for it. `row_shares` are
    probabilities of each row's labels in 255ths, used in place of the labels (Rao-Blackwell); `row_noise` is each row's
    noise variance relative to the overall one, where rows have separate noise.
    """

    chain: int
    sweep: int
    made: Codes | Future[Codes]
    row_shares: NDArray[np.uint8] | None = None
    row_noise: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, chain: int, sweep: int, stencils: StencilSum, row_shares: Any = None, row_noise: Any = None) -> Self:
        """Return a draw that holds this sum."""
        return cls(chain, sweep, stencils.codes.compact(), row_shares, row_noise)

    @property
    def codes(self) -> Codes:
        return self.made.result() if isinstance(self.made, Future) else self.made

    def sharing_effects(self, other: "Draw") -> Self:
        """Return the draw with the effects of another one, which are equal, to keep them only once."""
        codes, effects = self.codes, other.codes
        return replace(self, made=replace(codes, row_effects=effects.row_effects, col_effects=effects.col_effects))

    def scaled(self, shift: float, factor: float) -> Self:
        """Return the draw that predicts shift + factor times what this one does."""
        return replace(self, made=self.codes.scaled(shift, factor))

    def settled(self) -> Self:
        """Return the draw once its codes are computed."""
        return replace(self, made=self.codes)

    def stencils(self, unseen_rows: NDArray[np.int64], unseen_cols: NDArray[np.int64]) -> StencilSum:
        """Return the draw as a stencil sum."""
        codes, parts = self.codes, list[Stencil]()
        for p in range(len(codes.starts)):
            T = codes.template(p)[:-1, :-1]
            rows, cols = (np.minimum(x[:-1, p], k - 1) for x, k in zip((codes.rows, codes.cols), T.shape, strict=True))
            parts.append(Stencil(T, rows, cols))
        shape = len(codes.rows) - 1, len(codes.cols) - 1
        effects = (None if x is None else x[:-1] for x in (codes.row_effects, codes.col_effects))
        return StencilSum(shape, codes.offset, tuple(parts), unseen_rows, unseen_cols, *effects)

    def predict(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float64]:
        """Predict these cells, by label probabilities if there are any."""
        if self.row_shares is None:
            return self.codes.predict(i, j)
        return self.codes.predict_probable(self.row_shares, i, j)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + sum(x.nbytes for x in (self.row_shares, self.row_noise) if x is not None)


@dataclass(frozen=True, eq=False)
class Effects:
    """What is known of the effects of rows and columns that all draws share.

    Attributes
    ----------
    stds : (array, array)
        Posterior standard deviation of the effect of each row (column), and last that of a row (column) never seen: how
        far it may be from its prediction.
    priors : (float, float)
        Variance of the effects of all rows (columns) in the draws, from which those of new ones are inferred; 0 where
        the draws are not blended with any,
    told : (float, float)
        and what features leave of it, where they are known.
    unseen : (array, array)
        Whether each row (column) has no observations, and last True, for one that is not in the data.
    interaction_variance : float
        Variance that stencils explain beside effects, of which nothing is known in a row or column never seen.
    """

    stds: tuple[NDArray[np.float32], NDArray[np.float32]]
    priors: tuple[float, float]
    told: tuple[float, float]
    unseen: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    interaction_variance: float = 0.0

    @property
    def blended(self) -> bool:
        """Whether draws are blended with effects, which they share."""
        return self.priors[0] > 0.0

    def spread(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variance that is missing in the draws at these cells; -1 is an unknown row (column)."""
        known = np.square(self.stds[0][i].astype(np.float64)) + np.square(self.stds[1][j].astype(np.float64))
        return np.asarray(known + self.interaction_variance * (self.unseen[0][i] | self.unseen[1][j]))

    def spread_of(self, axis: int, lines: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the same for rows (axis 0) or columns whatever the other is, as long as that has been seen."""
        own = np.square(self.stds[axis][lines].astype(np.float64))
        return np.asarray(own + self.interaction_variance * self.unseen[axis][lines])

    def variance_given(self, n: NDArray[np.int64] | int, noise: float) -> Any:
        """Return the variance of the effect of a row with `n` observations of this noise."""
        prior = float(self.stds[0][-1]) ** 2
        return prior * noise**2 / (noise**2 + n * prior)

    def put(self, rows: NDArray[np.int64], size: int, stds: Any) -> "Effects":
        """Return the effects of `size` rows, with these deviations of `rows`."""
        all_rows, unseen = np.full(size + 1, self.stds[0][-1]), np.ones(size + 1, np.bool_)
        old = slice(len(self.stds[0]) - 1)
        all_rows[old], unseen[old] = self.stds[0][old], self.unseen[0][old]
        all_rows[rows], unseen[rows] = stds, False
        return replace(self, stds=(all_rows, self.stds[1]), unseen=(unseen, self.unseen[1]))

    def without(self, row: int) -> "Effects":
        """Return the effects without those of one row."""
        stds, unseen = np.delete(self.stds[0], row), np.delete(self.unseen[0], row)
        return replace(self, stds=(stds, self.stds[1]), unseen=(unseen, self.unseen[1]))

    def transposed(self) -> "Effects":
        sides = self.stds[::-1], self.priors[::-1], self.told[::-1], self.unseen[::-1]
        return Effects(*sides, self.interaction_variance)


class Mixing(NamedTuple):
    """Agreement of the chains on one quantity.

    R-hat is near 1 where they agree; the effective sample sizes are for the bulk of the distribution and for its tails.
    NaN for a quantity that is held, for a single chain, and for fewer than four sweeps.
    """

    quantity: str
    median: float
    r_hat: float
    ess_bulk: float
    ess_tail: float
    held: bool


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws from the posterior distribution of the model.

    Attributes
    ----------
    draws : tuple of Draw
    noise : float
        Standard deviation of an observation around the posterior mean, calibrated on held-out observations where
        there were any.
    traces : dict of arrays (chain, sweep) or (chain, sweep, probe)
        Quantities that do not depend on how clusters are numbered: "sigma", "tau", "log_joint", "occupied", "probes".
    probes : array (n, 2)
        The cells (row and column positions) that the traces follow.
    effects : Effects or None
        How far the effects of rows and columns may be from what the draws say (`accams.fit.blend`).
    linear : Linear or None
        What slopes on features add to the draws: their mean over all sweeps, since it need not be kept draw by draw.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import BayesianACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = BayesianACCAMS(2, 2, n_chains=2, n_sweeps=8, verbose=False).fit(matrix).model_
    >>> len(model.posterior), len(model.posterior.thin(4))
    (12, 4)
    >>> mean, std = model.posterior.predict([0, 3], [0, 2], return_std=True)
    >>> bool(mean[0] < mean[1]), bool((std > 0).all())
    (True, True)
    """

    shape: tuple[int, int]
    draws: tuple[Draw, ...]
    noise: float
    traces: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    probes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    effects: Effects | None = None
    linear: Linear | None = None

    def __len__(self) -> int:
        return len(self.draws)

    def __repr__(self) -> str:
        m, n = self.shape
        chains = len({draw.chain for draw in self.draws})
        return f"Posterior({m:,} x {n:,}, {len(self)} draws of {chains} chains, {self.nbytes / 1e6:,.1f} MB)"

    @property
    def nbytes(self) -> int:
        """Bytes that the draws take in memory."""
        effects = dict[int, int]()  # draws may share their arrays
        total = 0 if self.linear is None else self.linear.nbytes
        for draw in self.draws:
            for x in (draw.codes.row_effects, draw.codes.col_effects):
                if x is not None:
                    total, effects[id(x)] = total - x.nbytes, x.nbytes
            total += draw.nbytes
        return total + sum(effects.values())

    def predict(
        self, rows: ArrayLike, cols: ArrayLike, *, return_std: bool = False, quantiles: Sequence[float] | None = None
    ) -> Any:
        """Return the mean over the draws at the cells (rows[p], cols[p]); -1 is an unknown row (column).

        Parameters
        ----------
        rows, cols : positions
        return_std : bool
            Also return the standard deviation of an observation: the spread of the draws and the noise.
        quantiles : sequence of floats, optional
            Also return these quantiles of an observation, from a normal distribution with that mean and deviation: an
            array with one column per quantile.

        Returns
        -------
        mean, or a tuple (mean, std), (mean, quantiles) or (mean, std, quantiles)
        """
        i, j = position_pairs(rows, cols, self.shape)
        mean, spread = self.moments(i, j)
        return with_spread(mean, spread, self.noise**2 * self.row_noise(i), return_std, quantiles)

    def thin(self, n_draws: int) -> Self:
        """Return a posterior with at most `n_draws` of the draws, evenly spaced.

        Parameters
        ----------
        n_draws : int

        Returns
        -------
        Posterior
        """
        if n_draws < 1:
            raise InputError(f"a posterior needs at least one draw, not {n_draws}")
        keep = np.unique(np.linspace(0, len(self.draws) - 1, min(n_draws, len(self.draws))).round().astype(int))
        return replace(self, draws=tuple(self.draws[p] for p in keep))

    def to_arviz(self) -> Any:
        """Return the traces for ArviZ (as InferenceData, or a DataTree from ArviZ 1 on)."""
        try:
            import arviz  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise InputError("to_arviz needs ArviZ: pip install 'accams[arviz]'") from None
        if arviz.__version__.startswith("0."):
            return arviz.from_dict(posterior=self.traces)
        return arviz.from_dict({"posterior": self.traces})

    def mixing(self) -> list[Mixing]:
        """Return the agreement of the chains on each traced quantity, by ArviZ; of the probes, the median over all."""
        numbers = list[Any]()
        chains, sweeps = next(iter(self.traces.values())).shape[:2] if self.traces else (0, 0)
        if chains > 1 and sweeps >= FEWEST:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about short traces
                data = self.to_arviz()
                arviz: Any = import_module("arviz")
                numbers = [arviz.rhat(data), arviz.ess(data, method="bulk"), arviz.ess(data, method="tail")]
        mixing = list[Mixing]()
        for name, trace in self.traces.items():
            moves = np.ptp(trace, axis=(0, 1)) > 0  # a constant has no R-hat
            # ArviZ returns a data set, or from version 1 on a tree of them.
            values = [np.asarray(x[name] if name in x else x["posterior"][name]) for x in numbers]
            r_hat, bulk, tail = [_median(x, moves) for x in values] or [np.nan] * 3
            mixing.append(Mixing(name, float(np.median(trace)), r_hat, bulk, tail, not moves.any()))
        return mixing

    @cached_property
    def r_hat(self) -> dict[str, float]:
        """Split R-hat of the noise, the log joint and (the median of) the probes; near 1 where chains agree."""
        values = {name: split_r_hat(trace) for name, trace in self.traces.items()}
        return {name: float(np.nanmedian(x)) for name, x in values.items() if np.isfinite(x).any()}

    def moments(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and variance at these positions, without noise; -1 is an unknown row (column).

        Parameters
        ----------
        i, j : array of int
            Positions of rows and of columns.

        Returns
        -------
        mean, variance : arrays of float
        """
        mean, variance = self.moments_of_draws(i, j)
        return mean, variance + self.effect_spread(i, j)

    def effect_spread(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the variance that effects of rows and columns give to these cells.

        Parameters
        ----------
        i, j : array of int
            Positions of rows and of columns.

        Returns
        -------
        array of float
        """
        return np.zeros(len(i)) if self.effects is None else self.effects.spread(i, j)

    def moments_of_draws(
        self, i: NDArray[np.int64], j: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and variance of draws and slopes at these positions; -1 is an unknown row (column).

        Parameters
        ----------
        i, j : array of int
            Positions of rows and of columns.

        Returns
        -------
        mean, variance : arrays of float
        """
        total, squares = np.zeros(len(i)), np.zeros(len(i))
        centre = self.draws[0].codes.offset
        for draw in self.draws:
            for lo in range(0, len(i), BATCH):
                part = slice(lo, lo + BATCH)
                x = draw.predict(i[part], j[part]) - centre
                total[part] += x
                squares[part] += x * x
        mean = total / len(self.draws)
        variance = np.maximum(squares / len(self.draws) - mean * mean, 0.0)
        if self.linear is not None:
            # what slopes explain is part of what stencils do beside effects, and so of `interaction_variance`
            counted = self.effects is not None and self.effects.interaction_variance > 0.0
            new = self.effects.unseen if self.effects is not None and counted else (None, None)
            mean, variance = mean + self.linear.products(i, j), variance + self.linear.variances(i, j, new)
        return mean + centre, variance

    def row_noise(self, i: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the noise variance of each of these rows, relative to `noise` squared.

        Parameters
        ----------
        i : array of int
            Positions of rows; -1 is an unknown one.

        Returns
        -------
        array of float
        """
        return np.ones(len(i)) if self._row_noise is None else self._row_noise[i]

    @cached_property
    def _row_noise(self) -> NDArray[np.float64] | None:
        """Relative noise variance of all rows, with the average row at the end."""
        known = [draw.row_noise for draw in self.draws if draw.row_noise is not None]
        if not known:
            return None
        mean = np.mean(known, axis=0, dtype=np.float64)
        return np.append(mean, mean.mean())


def with_spread(
    mean: NDArray[np.float64], spread: NDArray[np.float64], noise: NDArray[np.float64], return_std: bool,
    quantiles: Sequence[float] | None,
) -> Any:  # fmt: skip
    """Return the mean alone, or a tuple of it with the standard deviation and quantiles asked for."""
    if not return_std and quantiles is None:
        return mean
    std = np.sqrt(spread + noise)
    answer = [mean, std] if return_std else [mean]
    if quantiles is not None:
        levels = np.asarray(quantiles, dtype=np.float64)
        if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
            raise InputError(f"quantiles must be a list of numbers between 0 and 1, not {quantiles!r}")
        answer.append(mean[:, None] + std[:, None] * ndtri(levels))
    return tuple(answer)


def _median(values: NDArray[np.float64], moves: NDArray[np.bool_]) -> float:
    finite = values[moves & np.isfinite(values)]
    return float(np.median(finite)) if finite.size else np.nan


def split_r_hat(trace: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return split R-hat of a trace (chain, sweep, ...): potential reduction of scale if chains went on for ever."""
    half = trace.shape[1] // 2
    if half < 2:
        return np.full(trace.shape[2:], np.nan)
    parts = np.concatenate([trace[:, :half], trace[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    moves = within > 1e-20 * np.square(parts).mean(axis=(0, 1))  # a constant has no R-hat
    ratio = np.divide(between, within, out=np.full(np.shape(within), np.nan), where=moves)
    return np.asarray(np.sqrt((half - 1) / half + ratio))
