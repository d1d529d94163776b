"""Chains with slopes on features against enumeration, with the variances of slopes integrated by quadrature."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from chains import PAIRS, Draws, Problem, pair_probabilities
from compare import bonferroni, effective_size, events, t_tests
from exact import Exact, canonical
from scipy import stats
from scipy.special import logsumexp

from accams.engine.choose import make_engine
from accams.fit import conditionals, gibbs
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters

FALSE_ALARM = 1e-4
SWEEPS = 4000
SIGMA2 = 2.0
SLOPES = 3.0, 2.0  # prior of the variances
ONE = {"shapes": [(2, 2)], "alpha": [1.5], "beta": [2.5], "tau2": [2.0], "slopes": SLOPES}
SHAPE = (4, 3)
POINTS = 25  # of the quadrature, for each variance
FEATURES = [np.array([[1.5], [-1.0], [0.5], [-0.25]]), np.array([[-1.25], [1.0], [0.5]])]  # of rows, of columns

full = pytest.mark.full


class SlopesExact(Exact):
    """The posterior of one stencil beside slopes of rows and of columns, each on one feature or none."""

    def __init__(self, problem: Problem, hyper: Hyperparameters, features: list[np.ndarray | None]) -> None:
        (shape, scale), grids = hyper.slopes, []
        for x in features[::-1]:
            prior = stats.invgamma(shape, scale=scale)
            edges = np.linspace(*np.log(prior.ppf([1e-5, 1.0 - 1e-5])), POINTS if x is not None else 1)
            grids.append([(u, prior.logpdf(np.exp(u)) + u) if x is not None else (-np.inf, 0.0) for u in edges])
        both = list(product(*grids))
        self.log_tau2 = np.array([[u for u, _ in pair] for pair in both])
        weights = np.array([sum(log_p for _, log_p in pair) for pair in both])
        self.log_weights = weights - logsumexp(weights)
        rows, cols = (np.zeros((n, 1)) if x is None else x for n, x in zip(SHAPE, features, strict=True))
        # prior covariances of cells by slopes of rows, which share a row, and by those of columns
        self.shared = np.kron(np.eye(SHAPE[0]), cols @ cols.T), np.kron(rows @ rows.T, np.eye(SHAPE[1]))
        super().__init__(problem.data.X, problem.omega, hyper, SIGMA2, hyper.tau2)

    def at(self, point: int) -> Exact:
        """Return the posterior given the variances of slopes, whose covariances are those of labels and slopes."""
        given = Exact.__new__(Exact)
        given.__dict__ |= {name: getattr(self, name) for name in ("X", "omega", "sigma2", "tau2", "partitions")}
        more = sum(np.exp(u) * each for u, each in zip(self.log_tau2[point], self.shared, strict=True))
        covariances = Exact.covariances(self) + more
        given.covariances = lambda: covariances
        return given

    def log_likelihood(self) -> np.ndarray:
        each = [self.at(point).log_likelihood() for point in range(len(self.log_weights))]
        self.each = np.array(each) + self.log_weights[:, None]
        return logsumexp(self.each, axis=0)

    def joint(self) -> np.ndarray:
        """Return the probabilities of variances (first axis) and partitions."""
        return np.exp(self.each + np.log(self.prior.ravel()) - self.log_evidence)

    def cell_moments(self) -> tuple[np.ndarray, np.ndarray]:
        total = np.zeros((2, self.X.size))
        for point, p in enumerate(self.joint()):
            given = self.at(point)
            given.p = p
            total += given.cell_moments()
        return total[0], total[1]

    def mean_log_tau2(self, axis: int) -> float:
        """Return the posterior mean of log tau^2 of the slopes of an axis."""
        return float(self.joint().sum(axis=1) @ self.log_tau2[:, axis])


def problem_of(kind: str, row_weights: bool) -> Problem:
    return Problem(kind, "", row_weights, SHAPE, seed=3)


def chain_of(problem: Problem, engine: str, hyper: Hyperparameters, features: list[np.ndarray | None]) -> Chain:
    made = make_engine(
        problem.data.observations, engine, 1, 1, offset=0.0, row_weights=True, features=(features[0], features[1])
    )
    state = made.new_state()
    if problem.row_weights:
        state.set_row_weights(np.array([0.5, 2.0, 1.0, 0.25]))
    return Chain(state, hyper, 0, SIGMA2)


def run(chain: Chain, sweeps: int, burn: int = 100) -> tuple[Draws, np.ndarray]:
    """Return draws of labels and cells, and of the logarithms of the variances of slopes, one column per axis."""
    out, models, taus = Draws([[[], []]], np.empty((sweeps, 0)), np.empty(0), np.empty(0)), [], []
    i, j = np.divmod(np.arange(np.prod(SHAPE)), SHAPE[1])
    for sweep in range(burn + sweeps):
        chain.run_sweep()
        if sweep >= burn:
            for side, labels in enumerate((chain.state.row_labels[0], chain.state.col_labels[0])):
                out.labels[0][side].append(canonical(labels))
            models.append(chain.state.predict_at(i, j))
            taus.append([np.log(tau2[0]) if len(tau2) else 0.0 for tau2 in chain.slope_tau2])
    out.cells = np.array(models)
    return out, np.array(taus)


def p_value(draws: Draws, log_tau2: np.ndarray, exact: SlopesExact, features: list[np.ndarray | None]) -> float:
    """Return the p-value of pairs in one cluster, cells and their squares, and variances of slopes."""
    out = []
    for side, every in enumerate(exact.partitions[0]):
        out += events(draws.pairs(0, side), pair_probabilities(every, exact.marginal(0, side)))
    mean, square = exact.cell_moments()
    out += t_tests(draws.cells, mean) + t_tests(draws.cells**2, square)
    for axis, x in enumerate(features[::-1]):
        if x is not None:
            out += t_tests(log_tau2[:, [axis]], np.array([exact.mean_log_tau2(axis)]))
    return bonferroni(out)


def only(*axes: int) -> list[np.ndarray | None]:
    """Return the features on which these axes have slopes."""
    return [FEATURES[0] if 1 in axes else None, FEATURES[1] if 0 in axes else None]


@pytest.mark.parametrize(
    ("engine", "kind", "row_weights", "pair", "features"),
    [
        ("cpu", "missing weighted", True, PAIRS[0], only(0, 1)),
        pytest.param("dense", "complete", False, PAIRS[1], only(0), marks=full),
        pytest.param("dense", "complete weighted", True, PAIRS[0], only(1), marks=full),
        pytest.param("cpu", "missing", False, PAIRS[2], only(0), marks=full),
    ],
)
def test_enumeration(engine, kind, row_weights, pair, features, monkeypatch):
    """Labels, model and variances of slopes. Bonferroni over all comparisons: false-alarm rate 1e-4."""
    monkeypatch.setattr(gibbs, "SLOPE_INTERVAL", 1)
    problem, hyper = problem_of(kind, row_weights), Hyperparameters(sampler=pair[0], label_prior=pair[1], **ONE)
    draws, log_tau2 = run(chain_of(problem, engine, hyper, features), SWEEPS)
    assert effective_size(draws.cells).min() > SWEEPS / 20
    assert p_value(draws, log_tau2, SlopesExact(problem, hyper, features), features) > FALSE_ALARM


def test_it_has_teeth(monkeypatch):
    """Slopes and variances that grow by a tenth whenever they are scaled are detected, with half the sweeps."""
    monkeypatch.setattr(gibbs, "SLOPE_INTERVAL", 1)
    monkeypatch.setattr(conditionals, "draw_scales", lambda Q, *_: np.full(len(Q), 1.1))
    problem, hyper, features = problem_of("complete", False), Hyperparameters(**ONE), only(0)
    draws, log_tau2 = run(chain_of(problem, "cpu", hyper, features), SWEEPS // 2)
    assert p_value(draws, log_tau2, SlopesExact(problem, hyper, features), features) < FALSE_ALARM


def test_scales_leave_the_joint_distribution_as_it_is():
    """Slopes, variances and data from the prior, then a few scalings: statistics are those of before.

    Weights of observations differ. 10,000 pairs, Bonferroni over nine statistics: false-alarm rate 1e-4.
    """
    random, shape, scale, pairs, (m, n, d) = np.random.default_rng(0), 4.0, 2.0, 10_000, (5, 4, 2)
    X, weights = random.normal(size=(n, d)), random.gamma(2.0, 1.0, (m, n))

    def statistics(c: np.ndarray, tau2: np.ndarray, y: np.ndarray) -> np.ndarray:
        logs, own = np.log(tau2), [np.square(c).mean(axis=1), np.abs(c).mean(axis=1) * np.log(tau2)]
        more = [
            (c[..., 0] * c[..., 1]).mean(axis=1),
            (y * (c @ X.T)).mean(axis=(1, 2)),
            c[..., 0].mean(axis=1) * tau2[:, 0],
        ]
        return np.column_stack([logs, *own, *more])

    tau2 = scale / random.gamma(shape, size=(pairs, d))
    c = random.normal(size=(pairs, m, d)) * np.sqrt(tau2)[:, None]
    y = c @ X.T + random.normal(size=(pairs, m, n)) / np.sqrt(weights)
    before = statistics(c, tau2, y)
    for _ in range(3):
        terms = c[:, :, None] * X  # (pair, row, column, feature)
        Q = np.einsum("pijf,pijg->pfg", weights[..., None] * terms, terms)
        g = np.einsum("pij,pijf->pf", weights * (y - c @ X.T), terms)
        each = zip(Q, g, tau2, strict=True)
        factors = np.array([conditionals.draw_scales(*given, shape, scale, random) for given in each])
        c, tau2 = c * factors[:, None], tau2 * factors**2
    changes = statistics(c, tau2, y) - before
    z = changes.mean(axis=0) / (changes.std(axis=0) / np.sqrt(pairs))
    assert np.mean(changes[:, 0] != 0.0) > 0.3  # it moves
    assert bonferroni(list(2.0 * stats.norm.sf(np.abs(z)))) > 1e-4
