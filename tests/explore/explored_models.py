"""Models of every kind, for the answers in Python and their twins in JavaScript."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from accams import ACCAMS, BayesianACCAMS, ItemACCAMS, Model, Observations, StencilSum
from accams.data.ids import Index
from accams.model.spread import Spread

M, N = 40, 24
RANDOM = 7


def ratings(seed: int = RANDOM) -> np.ndarray:
    """Ratings of people of three tastes, NaN where there are none; the last row and column are empty."""
    random = np.random.default_rng(seed)
    fits = (np.arange(M) % 3)[:, None] == np.arange(N) % 3
    values = np.clip(np.rint(3 + 1.5 * fits - 0.5 + random.normal(0, 0.8, fits.shape)), 1, 5)
    values[random.random(fits.shape) < 0.5] = np.nan
    values[-1], values[:, -1] = np.nan, np.nan
    return values


def observed(zeros: str = "missing") -> Observations:
    i, j = np.nonzero(~np.isnan(ratings()))
    how: dict[str, Any] = {"zeros": zeros, "zero_weight": 0.1} if zeros == "observed" else {}
    return Observations.from_coo(i, j, ratings()[i, j], shape=(M, N), **how)


def labelled(sum_of: StencilSum, ids: str, **parts: Any) -> Model:
    """A model of a stencil sum, with integer or text ids."""
    rows, cols = (
        Index([f"u{p}" for p in range(size)] if ids == "text" else [10 + 3 * p for p in range(size)])
        for size in sum_of.shape
    )
    given = {"value_range": (1.0, 5.0), "clip": (1.0, 5.0), "sigma": 0.7, **parts}
    return Model(stencils=sum_of, row_index=rows, col_index=cols, **given)


def random_sum(sizes: list[tuple[int, int]], effects: bool = False, seed: int = RANDOM) -> StencilSum:
    """A random sum, whose last row and first column had no data."""
    random = np.random.default_rng(seed)
    made = StencilSum((M, N), 3.3)
    for k_rows, k_cols in sizes:
        template = random.normal(0, 0.5, (k_rows, k_cols))
        made = made.append(template, random.integers(k_rows, size=M), random.integers(k_cols, size=N))
    own = {}
    if effects:
        own = {"row_effects": random.normal(0, 0.3, M), "col_effects": random.normal(0, 0.3, N)}
    return replace(made, unseen_rows=np.array([M - 1]), unseen_cols=np.array([0]), **own)


def random_spread(seed: int = RANDOM) -> Spread:
    random = np.random.default_rng(seed)
    table = random.uniform(0.2, 1.5, (4, 4)).astype(np.float32).astype(np.float64)
    classes = [np.append(random.integers(3, size=size - 1), 3).astype(np.uint8) for size in (M, N)]
    return Spread(table, classes[0], classes[1])


@cache
def model(kind: str) -> Model:
    """A model of this kind."""
    if kind == "accams":
        return ACCAMS(n_stencils=4, n_clusters=3).fit(observed()).model_
    if kind == "zeros":
        return ACCAMS(n_stencils=3, n_clusters=3).fit(observed("observed")).model_
    if kind == "bayesian":
        how: dict[str, Any] = {"n_stencils": 3, "n_clusters": 3, "n_chains": 1, "n_sweeps": 20, "noise": 0.7}
        return BayesianACCAMS(**how).fit(observed()).model_
    if kind == "small":
        return model("bayesian").compress(2500)
    if kind == "ordinal":
        how = {"n_stencils": 3, "n_clusters": 3, "n_chains": 1, "n_sweeps": 20, "noise": 0.7, "likelihood": "ordinal"}
        return BayesianACCAMS(**how).fit(observed()).model_.compress(2500)
    if kind in ("lists", "whole map"):
        size = {"max_bytes": 4000} if kind == "lists" else {"max_bytes": None}
        return ItemACCAMS(penalty=10.0, **size).fit(observed()).model_
    if kind == "both":
        return model("accams").with_lists(model("lists"))
    if kind in ("updated", "updated map"):  # two items that came later, and somebody who chose one of them
        new = [(row, N + row % 2) for row in range(10)] + [(M, N), (M, 2)]
        before = model("both" if kind == "updated" else "whole map")
        return before.update(new, [5.0] * len(new), history="model")
    if kind == "text ids":
        return labelled(random_sum([(3, 4), (2, 2)]), "text")
    if kind == "effects":
        return labelled(random_sum([(3, 5), (4, 2)], effects=True), "integers", spread=random_spread())
    if kind == "many sizes":
        sizes = [(1, 1), (2, 1), (1, 7), (8, 9), (20, 3), (5, 17), (3, 3), (4, 4), (2, 6)]
        return labelled(random_sum(sizes), "integers", spread=random_spread())
    if kind == "one stencil":
        return labelled(random_sum([(3, 2)]), "integers")
    assert kind == "no stencil", kind
    return labelled(random_sum([]), "integers")


KINDS = (
    "accams", "zeros", "small", "ordinal", "lists", "whole map", "both", "updated", "updated map", "text ids",
    "effects", "many sizes", "one stencil", "no stencil",
)  # fmt: skip


def titles(of: Model) -> dict[Any, str]:
    """Titles of most items; some are alike."""
    words = ("Star", "Wars", "Empire", "Love", "Éternité", "Matrix", "Return", "of", "the")
    names = {x: f"{words[p % 9]} {words[(p * 5 + 1) % 9]} {p // 3}" for p, x in enumerate(of.items.tolist())}
    return {x: name for p, (x, name) in enumerate(names.items()) if p % 5}
