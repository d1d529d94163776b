"""Who chose what: data of the tests of `ItemACCAMS`, and the regression in closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse

from accams import Observations

PENALTY = 30.0
N_USERS, N_ITEMS = 120, 24


def chosen(seed: int = 0) -> np.ndarray:
    """Ratings of people of three tastes, who mostly rate what they like; 0 is none."""
    random = np.random.default_rng(seed)
    taste, kind = np.arange(N_USERS) % 3, np.arange(N_ITEMS) % 3
    fits = taste[:, None] == kind
    rated = random.random(fits.shape) < np.where(fits, 0.55, 0.12)
    rated[0] = False  # nobody to be known by
    rated[:, N_ITEMS - 1] = False  # an item that nobody chose
    return np.where(rated, np.clip(np.rint(3 + fits + random.normal(0, 0.9, fits.shape)), 1, 5), 0.0)


MATRIX = chosen()


def table() -> pd.DataFrame:
    i, j = np.nonzero(MATRIX)
    return pd.DataFrame({"user": [f"u{a}" for a in i], "item": [f"i{b:02}" for b in j], "rating": MATRIX[i, j]})


def positional() -> Observations:
    """With the user without ratings and the item without any."""
    return Observations.from_sparse(sparse.csr_array(MATRIX))


def weights() -> np.ndarray:
    values = MATRIX[MATRIX > 0]
    return np.where(np.float32(values.mean()) <= MATRIX, 1.0, np.where(MATRIX > 0, np.float32(0.3), 0.0))


def regression(X: np.ndarray, penalty: float = PENALTY) -> np.ndarray:
    inverse = np.linalg.inv(X.T @ X + penalty * np.eye(X.shape[1]))
    B = -inverse / np.diagonal(inverse)
    np.fill_diagonal(B, 0.0)
    return B
