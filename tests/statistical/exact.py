"""Posteriors of tiny matrices by brute force: every way to group rows and columns, templates integrated out.

A label prior is exchangeable and the likelihood knows only which rows are together, so labels are enumerated as
partitions in canonical form: the first row is in group 0, every new group has the next number.
"""

from __future__ import annotations

from functools import cache, reduce

import numpy as np
from scipy.special import gammaln, logsumexp

from accams.fit.hyper import Hyperparameters

Partition = tuple[int, ...]


# -- labels --------------------------------------------------------------------------------------------------


def canonical(labels) -> Partition:
    """Labels renamed in the order of their first appearance.

    >>> canonical([2, 0, 2, 1])
    (0, 1, 0, 2)
    """
    names: dict[int, int] = {}
    return tuple([names.setdefault(label, len(names)) for label in np.asarray(labels).tolist()])


def partitions(size: int, most: int | None = None) -> list[Partition]:
    """Return all partitions of `size` elements into at most `most` groups.

    >>> partitions(3, 2)
    [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
    """
    out: list[Partition] = [(0,)]
    for _ in range(size - 1):
        out = [(*p, group) for p in out for group in range(min(max(p) + 2, most or size))]
    return out


def log_dirichlet(partition: Partition, alpha: float, k: int) -> float:
    """log of the probability that labels drawn from Dirichlet(alpha / k) weights over k clusters group like this.

    k! / (k - groups)! labelings name these groups, each with the same Dirichlet-multinomial probability.
    """
    n = np.bincount(partition)
    labeling = gammaln(alpha) - gammaln(alpha + n.sum()) + (gammaln(n + alpha / k) - gammaln(alpha / k)).sum()
    return float(labeling + gammaln(k + 1) - gammaln(k - len(n) + 1))


def log_crp(partition: Partition, alpha: float) -> float:
    """log of alpha^groups * prod (n_a - 1)!: the Chinese restaurant, up to a constant (also under a cap)."""
    n = np.bincount(partition)
    return float(len(n) * np.log(alpha) + gammaln(n).sum())


def label_prior(size: int, k: int | None, alpha: float, kind: str) -> tuple[list[Partition], np.ndarray]:
    """Return all partitions into at most k groups, and their probabilities."""
    every = partitions(size, k)
    log_p = [log_crp(p, alpha) if kind == "crp" else log_dirichlet(p, alpha, k or 0) for p in every]
    return every, np.exp(log_p - logsumexp(log_p))


# -- data ----------------------------------------------------------------------------------------------------


def block_log_likelihood(X, omega, c, d, sigma2: float, tau2: float) -> float:
    """The formula of MATH.md, section 4: sum over blocks, up to a constant free of labels (one stencil)."""
    total = 0.0
    for a in set(c):
        for b in set(d):
            block = np.ix_(np.equal(c, a), np.equal(d, b))
            N, L = omega[block].sum(), (omega[block] * X[block]).sum()
            whole = sigma2 + N * tau2
            total += -0.5 * np.log(whole / sigma2) + tau2 * L**2 / (2.0 * sigma2 * whole)
    return total


def together(partition: Partition) -> np.ndarray:
    """Return 1 for pairs of rows (columns) in one group, else 0."""
    labels = np.array(partition)
    return (labels[:, None] == labels).astype(float)


@cache
def shared_blocks(rows: tuple[Partition, ...], cols: tuple[Partition, ...]) -> np.ndarray:
    """Return 1 for pairs of cells in one block, else 0, for every combination of partitions."""
    return np.array([np.kron(together(c), together(d)) for c in rows for d in cols])


class Exact:
    """The posterior of the labels of all stencils, given sigma^2 and tau^2.

    One axis of `p` per stencil and side (rows of the first, columns of the first, rows of the second, ...), in the
    order of `partitions[stencil][side]`.

    Parameters
    ----------
    X, omega : arrays
        Values, and precisions in units of 1 / sigma^2: observation weight times row weight, 0 where missing.
    hyper : Hyperparameters
    sigma2 : float
    tau2 : one per stencil
    """

    def __init__(self, X, omega, hyper: Hyperparameters, sigma2: float, tau2) -> None:
        self.X, self.omega, self.sigma2, self.tau2 = X, omega, sigma2, tau2
        self.partitions, sides = [], []
        for stencil, k in enumerate(hyper.shapes):
            pairs = []
            for side, alpha in enumerate((hyper.alpha[stencil], hyper.beta[stencil])):
                pairs.append(label_prior(X.shape[side], None if hyper.growing else k[side], alpha, hyper.label_prior))
            self.partitions.append([every for every, _ in pairs])
            sides += [p for _, p in pairs]
        self.prior = reduce(np.multiply.outer, sides)
        log_p = np.log(self.prior) + self.log_likelihood().reshape(self.prior.shape)
        self.log_evidence = float(logsumexp(log_p))
        self.p = np.exp(log_p - self.log_evidence)

    def covariances(self) -> np.ndarray:
        """Prior covariance of the model's cells for every combination of partitions: tau_l^2 for a shared block."""
        total = np.zeros((1, self.X.size, self.X.size))
        for tau2, (rows, cols) in zip(self.tau2, self.partitions, strict=True):
            total = (total[:, None] + tau2 * shared_blocks(tuple(rows), tuple(cols))).reshape(-1, *total.shape[1:])
        return total

    def log_likelihood(self) -> np.ndarray:
        """log density of all observed cells for every combination: normal, with the templates integrated out."""
        seen = np.flatnonzero(self.omega)
        y, V = self.X.flat[seen], self.covariances()[:, seen][:, :, seen]
        V = V + np.diag(self.sigma2 / self.omega.flat[seen])
        _, log_det = np.linalg.slogdet(V)
        return -0.5 * (log_det + y @ np.linalg.solve(V, y[:, None])[..., 0].T + len(y) * np.log(2.0 * np.pi))

    def marginal(self, stencil: int, side: int) -> np.ndarray:
        """Return the probabilities of the partitions of one side of one stencil."""
        keep = 2 * stencil + side
        return self.p.sum(axis=tuple(axis for axis in range(self.p.ndim) if axis != keep))

    def cell_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior means of every cell of the model and of its square."""
        seen, cov = np.flatnonzero(self.omega), self.covariances()
        V = cov[:, seen][:, :, seen] + np.diag(self.sigma2 / self.omega.flat[seen])
        gain = np.linalg.solve(V, cov[:, seen]).transpose(0, 2, 1)  # combination, cell, observed cell
        mean = gain @ self.X.flat[seen]
        variance = np.einsum("qii->qi", cov) - np.einsum("qio,qio->qi", gain, cov[:, :, seen])
        p = self.p.ravel()
        return p @ mean, p @ (mean**2 + variance)
