"""Local low-rank matrix approximation (Lee, Kim, Lebanon and Singer, ICML 2013 and JMLR 2016), the parallel form.

A global factorisation gives every row and column a vector. Around each of q anchors, pairs drawn from the training
ratings, a local factorisation is fitted with weights K(d_row) K(d_col); predictions are the averages of the local
ones by the same weights. d = 2/pi arccos of the cosine of two vectors, K(d) = max(0, 1 - d^2 / h^2), h = 0.8.

As published: q = 50 and h = 0.8; the vectors are those of uncentred ratings, so they all lean to one side and most
pairs are within reach of every anchor. Ours: least squares instead of gradient steps, and local biases. The published
code reports the lowest test error over the number of anchors; here it is always that of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from accams.threads import Threads
from rivals.factors import FLOAT, Factorisation
from rivals.mf import ALS
from rivals.ratings import Ints, Matrix, Ratings, Vector


class Local(NamedTuple):
    """A factorisation, and how near each row and column is to its anchor."""

    model: Factorisation
    rows: Vector
    cols: Vector


@dataclass(frozen=True)
class Smoothed:
    """Local factorisations averaged by nearness.

    Attributes
    ----------
    latent : Factorisation
        The global one, which gives the distances, and the predictions out of reach of all anchors.
    locals : list of Local
    n_bytes : int
        4 R (m + n) for each model, as the paper counts.
    used_bytes : int
        The same, with only the rows and columns that a local model reaches.
    """

    latent: Factorisation
    locals: list[Local]

    @property
    def n_bytes(self) -> int:
        return self.latent.n_bytes + sum(each.model.n_bytes for each in self.locals)

    @property
    def used_bytes(self) -> int:
        reached = [
            (each.model.P.shape[1] + each.model.biases) * (np.count_nonzero(each.rows) + np.count_nonzero(each.cols))
            for each in self.locals
        ]
        return self.latent.n_bytes + FLOAT * int(sum(reached))

    def first(self, anchors: int) -> Smoothed:
        """The same with the first few anchors only."""
        return replace(self, locals=self.locals[:anchors])

    def predict(self, rows: Ints, cols: Ints) -> Vector:
        """Predictions at cells given by position."""
        total, weight = np.zeros(len(rows)), np.zeros(len(rows))
        for model, g, h in self.locals:
            near = g[rows] * h[cols]
            total += near * model.predict(rows, cols)
            weight += near
        reached = weight > 0
        out = self.latent.predict(rows, cols)
        out[reached] = total[reached] / weight[reached]
        return out


@dataclass(frozen=True)
class LLORMA:
    """Local low-rank matrix approximation.

    Parameters
    ----------
    anchors : int
        q; as many local models.
    width : float
        h of the kernel, of rows and of columns.
    local, latent : ALS
        The local factorisations, and the global one that distances come from.
    """

    anchors: int = 50
    width: float = 0.8
    local: ALS = field(default_factory=lambda: ALS(rank=20, ridge=4.0, bias_ridge=2.0, sweeps=10))
    latent: ALS = field(default_factory=lambda: ALS(10, 10, ridge=0.1, weighted=True, biases=False, centre=False))

    def fit(self, ratings: Ratings, *, seed: int = 0, threads: Threads | None = None) -> Smoothed:
        """Learn from ratings; local models begin with different random factors."""
        threads = threads or Threads()
        latent = self.latent.fit(ratings, seed=seed, threads=threads)
        q = min(self.anchors, len(ratings.values))
        chosen = np.random.default_rng(seed).choice(len(ratings.values), q, replace=False)
        found = []
        for a, anchor in enumerate(chosen):
            g = nearness(latent.P, ratings.rows[anchor], self.width)
            h = nearness(latent.Q, ratings.cols[anchor], self.width)
            near = ratings.take((g[ratings.rows] > 0) & (h[ratings.cols] > 0))
            found.append(Local(self.local.fit(near, seed=seed + a, threads=threads, weights=(g, h)), g, h))
        return Smoothed(latent, found)


def nearness(vectors: Matrix, anchor: int, width: float) -> Vector:
    """K(d) of every vector from one of them."""
    lengths = np.linalg.norm(vectors, axis=1)
    cosine = vectors @ vectors[anchor] / np.maximum(lengths * lengths[anchor], 1e-300)
    distance = 2 / np.pi * np.arccos(np.clip(cosine, -1.0, 1.0))
    distance[anchor] = 0.0  # whatever rounding makes of it
    return np.maximum(0.0, 1.0 - (distance / width) ** 2)
