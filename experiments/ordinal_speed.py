"""A sweep with an ordinal likelihood against one with normal observations: what drawing latent values costs.

Thirty stencils of about 9 x 11 clusters on MovieLens 1M, one chain on one thread. The two sweeps are made in turn, so
that noise of the machine hits both alike.

Run: python experiments/ordinal_speed.py [--sweeps N] [--engine NAME]       (needs MovieLens 1M, see docs/data.md)
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter

import numpy as np

from accams.data import datasets
from accams.data.levels import levels_of
from accams.data.observations import Observations
from accams.engine.choose import make_engine
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters
from accams.model.scale import Scale
from common import machine, use_local_data

SHAPES = [(8, 12), (9, 11), (10, 10)] * 10
WARM_UP = 3


def chain_of(observations: Observations, engine: str, scale: Scale | None) -> Chain:
    """A chain that begins with labels from the prior."""
    made = make_engine(observations, engine, len(SHAPES), 1, row_weights=True, latent=scale is not None, shapes=SHAPES)
    ones = [1.0] * len(SHAPES)
    hyper = Hyperparameters(SHAPES, ones, ones, tau2=[0.03] * len(SHAPES), row_noise=30.0, scale=scale)
    return Chain(made.new_state(), hyper, 0, 0.7)


def swept(chain: Chain) -> float:
    """Seconds of a sweep."""
    began = perf_counter()
    chain.run_sweep()
    return perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=15)
    parser.add_argument("--engine", default="cpu")
    chosen = parser.parse_args()
    use_local_data()
    observations = datasets.movielens("1m").observations
    values = levels_of(observations)
    assert values is not None
    shares = np.bincount(np.searchsorted(values, observations.stored_values.astype(np.float64)))
    scale = Scale.of_shares(values, shares.astype(np.float64), 0.8)
    normal, ordinal = (chain_of(observations, chosen.engine, each) for each in (None, scale))
    pairs = [(swept(normal), swept(ordinal)) for _ in range(WARM_UP + chosen.sweeps)][WARM_UP:]
    a, b = (median(times) for times in zip(*pairs, strict=True))
    share = median(ordinal / normal for normal, ordinal in pairs)
    print(f"a sweep of normal observations: {1e3 * a:.0f} ms; of ordinal ones: {1e3 * b:.0f} ms; ratio {share:.3f}")
    print(machine())


if __name__ == "__main__":
    main()
