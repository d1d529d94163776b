"""Models for reports: of each kind, with names that could do harm."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from accams import ACCAMS, BayesianACCAMS, Model
from accams.data.planted import planted_stencils

KINDS = ("bayesian", "accams", "small")
HARM = "</script><script>console.error('harm')</script>"


@cache
def data() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Planted ratings, and some that are held out."""
    planted = planted_stencils((90, 150), 3, 4, nnz=4500, noise=0.3, random_state=0)
    i, j, y = planted.observations.coo()
    table = pd.DataFrame({"userId": i, "movieId": j, "rating": np.clip(3.0 + y / y.std(), 1.0, 5.0)})
    held = np.random.default_rng(0).random(len(table)) < 0.2
    return table[~held], table[held]


@cache
def model(kind: str) -> Model:
    """A fitted model."""
    train, _ = data()
    pairs, ratings = train[["userId", "movieId"]], train["rating"]
    if kind == "bayesian":
        made = BayesianACCAMS(n_stencils=6, n_clusters=4, n_chains=2, n_sweeps=30, noise=0.4, early_stopping=True)
        return made.fit(pairs, ratings).model_
    fitted = ACCAMS(n_stencils=8, n_clusters=5).fit(pairs, ratings).model_
    return fitted if kind == "accams" else fitted.compress(2500)


def titles() -> dict[int, str]:
    """Long names, short ones, one with markup in it and one that would end the script; some have none."""
    names = {j: f"The {'very ' * (j % 7)}long Name of Film {j} ({1950 + j % 60})" for j in range(0, 150, 2)}
    return {**names, 1: HARM, 3: "<b>bold</b> & $5", 5: "x", 7: "$9.99"}
