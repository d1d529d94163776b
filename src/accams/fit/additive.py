"""The additive model: a mean and shrunken effects of rows and columns, with variances learned from the data.

    y_ij = mean + a_i + b_j + noise,   a_i ~ N(alpha_0 + alpha_1 log n_i, tau_r^2),   noise ~ N(0, sigma^2 / v_ij)

and b_j likewise, n_i being the number of observations of row i and v_ij the weight of an observation. It is what can be
learned where rows or columns have few observations: stencils are blended with it (`accams.fit.blend`). The expected
effect depends on the number of observations because what few people choose is rated differently from what many do; a
row or column without observations is expected to be like those with the fewest. The slope alpha_1 has the prior
N(0, tau_r^2), so that it stays near 0 where all rows have about as many. Given features of rows, the expected effect
depends on them, too, by coefficients with a normal prior whose variance has the highest likelihood of all that are
tried, 0 among them.

Variances are estimated by moments: deviations r from the expected values have E r_ij r_ij' = tau_r^2 for two columns of
a row, E r_ij r_i'j = tau_c^2 for two rows of a column, and E r_ij^2 is the sum of all three variances. Unlike the usual
likelihood iterations with rows and columns in turn, which take too little for tau where rows have two observations,
this needs no joint posterior of all effects. Expected effects (generalised least squares) and effects (their
conditional means) are then found by turns.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.kernels.jit import readonly
from accams.kernels.lines import add_by_col, add_by_row
from accams.threads import SINGLE_BLAS, ranges_of

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Features = tuple[Floats | None, Floats | None]
Piece = tuple[tuple[Positions, Positions], Floats, Floats | None]  # rows and columns, values, weights
ROUNDS = 3  # estimates of the variances, each given the expected effects found with those before
PASSES = 10  # over rows and columns in each round
START = 0.1  # initial variance of effects, relative to that of the data
FEATURE_VARIANCES = 10.0 ** np.arange(-4.0, 0.6, 0.25)  # of coefficients of features that are tried, likewise
SMALLEST = 1e-6  # lower bound of the variances, relative to that of the data
LEAST_LEFT = 0.1  # share of the variance of effects that features leave of new ones at least: some are exceptions
FEWEST = 20  # rows that are needed to learn how effects depend on the number of observations
BLOCK = 1 << 16  # entries at a time, and as many more as there are rows and columns, over all of which sums go


@dataclass(frozen=True)
class Axis:
    """Effects of rows, or of columns.

    Effects are relative to `new`, the expected effect of a row without observations and of average features, whose
    effect is therefore 0.
    """

    effects: Floats
    variances: Floats  # posterior variance of each effect
    variance: float  # prior variance: that of an effect of which nothing is known, not even features,
    told: float  # and where features are known
    new: float
    seen: NDArray[np.bool_]

    def spread(self, weight: float) -> Floats:
        """Return how much the variance of each effect counts where stencils have this weight.

        Stencils have their own spread, that of the draws; but a row without observations is the average row in all of
        them, and all of its variance is missing there.
        """
        return np.where(self.seen, (1.0 - weight) * self.variances, self.variances)


@dataclass(frozen=True)
class Additive:
    """A fitted additive model."""

    offset: float  # prediction for an unknown row and column
    rows: Axis
    cols: Axis
    noise: float  # variance of an observation of weight one
    unit: float = 1.0  # mean weight of an observation

    def predict(self, i: Positions, j: Positions) -> Floats:
        """Predict the cells (i[p], j[p]) of known rows and columns."""
        return np.asarray(self.offset + self.rows.effects[i] + self.cols.effects[j])

    def spread(self, i: Positions, j: Positions, weight: float = 0.0) -> Floats:
        """Return the variance of these predictions, as far as it counts where stencils have this weight."""
        return self.rows.spread(weight)[i] + self.cols.spread(weight)[j]

    def unseen(self, i: Positions, j: Positions) -> NDArray[np.bool_]:
        """Return at which of these cells the row or the column has no observations."""
        return np.asarray(~(self.rows.seen[i] & self.cols.seen[j]))

    def explained_beside(self, noise: float, weight: float) -> float:
        """Return the variance that stencils of this weight explain beside the effects.

        `noise` is what they leave: the standard deviation of an observation of mean weight.
        """
        return max(self.noise / self.unit - noise**2, 0.0) if weight > 0.0 else 0.0


def fit_additive(observations: Observations, features: Features = (None, None)) -> Additive:
    """Fit the additive model to observations whose blanks are missing, with features of rows and of columns.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> rows, cols = random.normal(0, 1, 300), random.normal(0, 0.5, 200)
    >>> i, j = random.integers(300, size=6000), random.integers(200, size=6000)
    >>> values = 3 + rows[i] + cols[j] + random.normal(0, 1, 6000)
    >>> model = fit_additive(Observations.from_coo(i, j, values, shape=(300, 200), duplicates="mean"))
    >>> round(model.noise, 1), round(model.rows.variance, 1), round(model.cols.variance, 2)
    (1.0, 1.0, 0.24)
    """
    mean, scale = observations.mean(), _variance(observations) or 1.0  # of constant data
    sides = [_Side(observations, mean, axis, scale, features[axis]) for axis in (0, 1)]
    unit = observations.total_weight() / observations.nnz
    noise = (1.0 - 2.0 * START) * scale * unit
    with SINGLE_BLAS:  # once, rather than in each of many short steps
        for _ in range(ROUNDS):
            for _ in range(PASSES):
                for axis in (1, 0):
                    sides[axis].update(sides[axis].sums - _effect_sums(observations, sides, axis), noise)
            left = _squared_error(observations, mean, sides)
            left += sum(float(side.mass @ side.posterior_variances(noise)) for side in sides)
            noise = max(left / observations.nnz, SMALLEST * scale * unit)
            _set_variances(observations, mean, sides, scale)
    rows, cols = (side.result(noise) for side in sides)
    return Additive(mean + rows.new + cols.new, rows, cols, noise, unit)


class _Side:
    """Effects of one axis while they are being fitted."""

    def __init__(
        self, observations: Observations, mean: float, axis: int, scale: float, features: Floats | None
    ) -> None:
        counts = observations.counts(axis)
        self.seen, self.scale, self.variance = counts > 0, scale, START * scale
        self.mass, self.sums = _mass(observations, axis), _sums(observations, mean, axis)
        # relative to the fewest: what is expected of new ones is then the first coefficient
        logs = np.log(np.maximum(counts / counts[self.seen].min(), 1.0))
        varied = np.count_nonzero(self.seen) >= FEWEST and logs.max() > 0.0
        terms = [np.ones(len(logs))] + ([logs] if varied else [])
        self.n_plain = len(terms)  # terms that are no features
        self.terms = np.column_stack([*terms, *([] if features is None else [features])])
        self.known = np.zeros(len(logs), np.bool_) if features is None else (features != 0.0).any(axis=1)
        self.coefficients = np.zeros(self.terms.shape[1])
        self.effects, self.expected = np.zeros((2, len(counts)))
        self.leverage = np.zeros(len(counts))  # variance of what features say of each line

    def update(self, sums: Floats, noise: float) -> None:
        """Update expected effects and effects, given sums of residuals without them.

        The mean residual of a row, sums / mass, has the variance tau^2 + noise / mass around the expected effect.
        """
        mass, terms, n = self.mass[self.seen], self.terms[self.seen], self.n_plain
        means = sums[self.seen] / mass
        weights = 1.0 / (self.variance + noise / mass)
        scaled = terms * weights[:, None]
        with SINGLE_BLAS:  # whose sums depend on the number of threads
            gram, right = scaled.T @ terms, scaled.T @ means
            gram[:n, :n] += np.diag([0.0, 1.0 / self.variance][:n])
            chosen = _best_variance(gram, right, n, FEATURE_VARIANCES * self.scale)
            used = len(right) if chosen > 0.0 else n
            gram[n:, n:] += np.eye(len(right) - n) / (chosen or 1.0)
            self.coefficients[:] = 0.0
            self.coefficients[:used] = np.linalg.lstsq(gram[:used, :used], right[:used], rcond=None)[0]
            self.expected = self.terms @ self.coefficients
            if used > n:
                left = np.linalg.pinv(gram, hermitian=True)
                self.leverage = np.einsum("it,it->i", self.terms @ left, self.terms)
            else:
                self.leverage = np.zeros(len(self.terms))
        self.effects = self.expected.copy()
        self.effects[self.seen] += self.variance * weights * (means - self.expected[self.seen])

    def posterior_variances(self, noise: float) -> Floats:
        left = noise / (noise + self.mass * self.variance)
        return np.asarray(self.variance * left + self.leverage * left**2)

    def result(self, noise: float) -> Axis:
        new, n = float(self.coefficients[0]), self.n_plain
        said = self.terms[:, n:] @ self.coefficients[n:]  # by features
        unknown = self.variance + (float(np.mean(np.square(said[self.known]))) if self.known.any() else 0.0)
        variances = np.where(self.seen | self.known, self.posterior_variances(noise), unknown)
        told = max(self.variance, LEAST_LEFT * unknown)
        return Axis(self.effects - new, variances, unknown, told, new, self.seen)


def _best_variance(gram: Floats, right: Floats, n: int, tried: Floats) -> float:
    """Return the prior variance of all coefficients but the first n that has the highest likelihood; it may be 0.

    `gram` and `right` are those of least squares with all terms, weighted by precision. The likelihood is that of the
    data with all coefficients integrated out, the first n with the (flat) priors that are part of `gram`.
    """
    if len(right) == n:
        return 0.0
    rest = np.linalg.lstsq(gram[:n, :n], np.column_stack([gram[:n, n:], right[:n]]), rcond=None)[0]
    left = np.column_stack([gram[n:, n:], right[n:]]) - gram[n:, :n] @ rest
    sizes, vectors = np.linalg.eigh(left[:, :-1])
    sizes, squares = np.maximum(sizes, 0.0), np.square(vectors.T @ left[:, -1])
    odds = 1.0 + sizes * tried[:, None]
    gains = np.sum(squares * tried[:, None] / odds - np.log(odds), axis=1)  # twice the log likelihood beyond that of 0
    best = int(np.argmax(gains))
    return float(tried[best]) if gains[best] > 0.0 else 0.0


def _mass(observations: Observations, axis: int) -> Floats:
    """Return the total weight of each row (axis 0) or column (axis 1)."""
    if observations.stored_weights is None:
        return observations.counts(axis).astype(np.float64)
    total = np.zeros(observations.shape[axis])
    for places, _, weights in _pieces(observations):
        total += np.bincount(places[axis], weights=weights, minlength=len(total))
    return np.maximum(total, 1e-300)


def _sums(observations: Observations, mean: float, axis: int) -> Floats:
    """Return weighted sums over the lines of an axis of the differences from the mean."""
    sums = np.zeros(observations.shape[axis])
    for places, values, weights in _pieces(observations):
        rest = values - mean if weights is None else weights * (values - mean)
        sums += np.bincount(places[axis], weights=rest, minlength=len(sums))
    return sums


def _effect_sums(observations: Observations, sides: list[_Side], axis: int) -> Floats:
    """Return weighted sums over the lines of an axis of the effects of the other axis."""
    sums, effects, weights = np.zeros(observations.shape[axis]), sides[1 - axis].effects, observations.stored_weights
    if weights is not None:
        effects = effects * observations.weight_step
    kernel = add_by_col if axis else add_by_row
    arrays = (readonly(x) for x in (observations.row_starts, observations.cols, weights))
    pattern = *arrays, effects
    for lo, hi in ranges_of(observations.row_starts, BLOCK + sum(observations.shape)):
        kernel(lo, hi, *pattern, sums)
        observations.release_pages()
    return sums


def _set_variances(observations: Observations, mean: float, sides: list[_Side], scale: float) -> None:
    """Set the variance of the effects of both axes by moments.

    The mean product of two observations of a line estimates the variance of the effects of its axis; lines are weighted
    by the inverse variance of that mean, about 2 (tau^2 + rest / n)^2. A line of one observation has no products: if
    all are such, effects cannot be told from noise.
    """
    sums, squares, masses = ([np.zeros(size) for size in observations.shape] for _ in range(3))
    total = 0.0
    for places, values, given in _pieces(observations):
        rest = values - mean - sides[0].expected[places[0]] - sides[1].expected[places[1]]
        weighted = rest if given is None else given * rest
        total += float(weighted @ rest)
        squared = np.square(weighted)
        for axis, (lines, size) in enumerate(zip(places, observations.shape, strict=True)):
            sums[axis] += np.bincount(lines, weights=weighted, minlength=size)
            squares[axis] += np.bincount(lines, weights=squared, minlength=size)
            if given is not None:
                masses[axis] += np.bincount(lines, weights=np.square(given), minlength=size)
    if observations.stored_weights is None:
        masses = [side.mass for side in sides]
    variance, unit = total / observations.total_weight(), observations.total_weight() / observations.nnz
    for side, sum_, square, mass in zip(sides, sums, squares, masses, strict=True):
        number = np.where(side.seen, side.mass**2 - mass, 0.0)
        several = number > 1e-9 * side.mass**2
        precision = (side.variance + unit * (variance - side.variance) / side.mass[several]) ** -2.0
        products = (sum_[several] ** 2 - square[several]) / number[several] + side.leverage[several]
        estimate = float(precision @ products / precision.sum()) if several.any() else 0.0
        side.variance = float(np.clip(estimate, SMALLEST * scale, scale))


def _squared_error(observations: Observations, mean: float, sides: list[_Side]) -> float:
    error = 0.0
    for (i, j), values, weights in _pieces(observations):
        rest = values - mean - sides[0].effects[i] - sides[1].effects[j]
        error += float(rest @ rest if weights is None else weights * rest @ rest)
    return error


def _variance(observations: Observations) -> float:
    mean, total = observations.mean(), 0.0
    for _, values, weights in _pieces(observations):
        rest = values - mean
        total += float(rest @ rest if weights is None else rest * weights @ rest)
    return total / observations.total_weight()


def _pieces(observations: Observations) -> Iterator[Piece]:
    """Yield rows, columns, values and weights of the entries, some at a time."""
    starts, step = observations.row_starts, BLOCK + sum(observations.shape)
    for lo in range(0, observations.nnz, step):
        hi = min(lo + step, observations.nnz)
        first, last = np.searchsorted(starts, lo, side="right") - 1, np.searchsorted(starts, hi, side="left")
        bounds = np.clip(starts[first : last + 1], lo, hi)
        rows = np.repeat(np.arange(first, last, dtype=np.int64), np.diff(bounds))
        weights = None
        if observations.stored_weights is not None:
            weights = observations.stored_weights[lo:hi].astype(np.float64) * observations.weight_step
        values = observations.stored_values[lo:hi].astype(np.float64)
        yield (rows, observations.cols[lo:hi].astype(np.int64)), values, weights
        observations.release_pages()
