"""Random sums, draws and posteriors, and their predictions by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np

from accams import BayesianACCAMS, Priors, Schedule
from accams.model.posterior import Draw, Posterior
from accams.model.stencils import StencilSum

SHAPES = ((3, 2), (1, 4), (2, 5))


def random_sum(
    seed: int = 0, shape: tuple[int, int] = (9, 7), shapes: Any = SHAPES, unseen: Any = ((), ()), effects: bool = False,
    offset: float = 0.75,
) -> StencilSum:  # fmt: skip
    """A stencil sum of that seed, with effects of rows and columns if asked."""
    rng = np.random.default_rng(seed)
    both = [rng.normal(size=size).astype(np.float32) if effects else None for size in shape]
    model = StencilSum(shape, offset, (), *(np.array(x, dtype=np.int64) for x in unseen), *both)
    for k in shapes:
        model = model.append(rng.normal(size=k), *(rng.integers(0, a, size) for a, size in zip(k, shape, strict=True)))
    return model


def random_draw(
    seed: int = 0, chain: int = 0, sweep: int = 0, shapes: Any = SHAPES, shares: bool = False, noise: bool = False,
    **kind: Any,
) -> Draw:  # fmt: skip
    """A draw of that seed, with label probabilities and row noise if asked."""
    model, rng = random_sum(seed, shapes=shapes, **kind), np.random.default_rng([seed, 1])
    lines = sum(k[0] + 1 for k in shapes)
    probable = rng.integers(1, 256, (model.shape[0] + 1, lines)).astype(np.uint8) if shares else None
    relative = rng.gamma(5, 0.2, model.shape[0]).astype(np.float32) if noise else None
    return Draw.of(chain, sweep, model, probable, relative)


def random_posterior(n_draws: int, noise_level: float = 0.4, **kind: Any) -> Posterior:
    """Draws of two chains by turns, and short traces."""
    draws = tuple(random_draw(seed, seed % 2, seed, **kind) for seed in range(n_draws))
    return Posterior((9, 7), draws, noise_level, {"sigma": np.random.default_rng(0).random((2, 6))})


def short_run(n_stencils: int = 2, n_clusters: Any = 2, n_chains: int = 2) -> BayesianACCAMS:
    """An estimator of a few draws, which have effects and label probabilities."""
    return BayesianACCAMS(
        n_stencils, n_clusters, noise=0.5, n_chains=n_chains, n_sweeps=4, priors=Priors(effects="continuous"),
        schedule=Schedule(n_burn_in=1, thin=1, rao_blackwell=True),
    )  # fmt: skip


def brute(model: StencilSum, i: int, j: int) -> float:
    """One prediction by the rule: rows (columns) never seen are the average over the seen ones; no effect of theirs."""
    gone = set(model.unseen_rows), set(model.unseen_cols)
    own, other = (
        [p for p in range(size) if p not in unseen] if at == -1 or at in unseen else [at]
        for at, size, unseen in zip((i, j), model.shape, gone, strict=True)
    )
    total = model.offset
    for s in model.stencils:
        total += np.mean([[s.template[s.row_labels[a], s.col_labels[b]] for b in other] for a in own], dtype=float)
    for at, unseen, effects in zip((i, j), gone, (model.row_effects, model.col_effects), strict=True):
        if effects is not None and at != -1 and at not in unseen:
            total += float(effects[at])
    return float(total)


def cells(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """All positions, -1 included on both sides."""
    rows, cols = (x.ravel() - 1 for x in np.indices((shape[0] + 1, shape[1] + 1)))
    return rows, cols
