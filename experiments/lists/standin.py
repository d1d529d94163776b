"""A stand-in for `accams.ItemACCAMS` where that is missing: a stencil sum of the item-item map."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from accams import Observations
from accams.fit.itemmap import compressed_map
from accams.model import file
from lists.protocols import LENGTH, as_matrix, strong_generalisation
from lists.rivals import EASE, by_map, gram
from lists.search import choose

PENALTIES = (100.0, 200.0, 400.0, 800.0)


class ItemACCAMS:
    """Approximate the map in at most `max_bytes`, with input and penalty chosen on held-out users."""

    def __init__(self, max_bytes: int, *, random_state: int = 0, **_: Any) -> None:
        self.max_bytes, self.random_state = max_bytes, random_state

    def fit(self, X: Observations) -> ItemACCAMS:
        ratings = as_matrix(X)
        few = replace(EASE, grid={**EASE.grid, "penalty": PENALTIES})
        chosen = choose(few, strong_generalisation(ratings, self.random_state).validation, say=lambda *_: None)
        self.penalty_, products = chosen["penalty"], gram(ratings, chosen["input"])
        room = self.max_bytes - len(products) // 2  # for the scales
        self.sum_, self.scales_ = compressed_map(products, self.penalty_, room, seed=self.random_state)
        item_map = self.sum_.dense() / self.scales_[:, None]
        np.fill_diagonal(item_map, 0.0)
        self.fitted_ = by_map(item_map, chosen["input"])
        return self

    def recommend(self, *, history: Observations, n: int = LENGTH) -> dict[str, Any]:
        lists = self.fitted_.lists(as_matrix(history), None)[:, :n]
        users, ranks = np.arange(len(lists)), np.arange(1, n + 1)
        return {"user": np.repeat(users, n), "item": lists.ravel(), "rank": np.tile(ranks, len(lists))}

    def save(self, path: str | Path, *, history: bool = False) -> None:
        scales = np.rint(2.0 * np.log2(self.scales_)).astype(np.int8)
        Path(path).write_bytes(file.to_bytes(self.sum_) + zlib.compress(scales.tobytes(), 9))
