"""One small matrix of ratings, and every form in which users may pass it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from accams import Observations

M, N = 30, 20


def ratings(seed: int = 0) -> NDArray[np.float64]:
    """Whole stars with structure and noise, 40% of them missing; the first row and column are complete."""
    random = np.random.default_rng(seed)
    matrix = 3.0 + np.add.outer(random.normal(size=M), random.normal(size=N)) + random.normal(size=(M, N))
    matrix = np.clip(np.rint(matrix), 1, 5)
    missing = random.random((M, N)) < 0.4
    missing[0], missing[:, 0] = False, False
    matrix[missing] = np.nan
    return matrix


MATRIX = ratings()
I, J = np.nonzero(~np.isnan(MATRIX))
PAIRS = np.stack([I, J], axis=1)
VALUES = MATRIX[I, J]
WEIGHTS = 1.0 + (np.arange(len(VALUES)) % 3)
NAMES = np.array([f"u{p:02}" for p in range(M)]), np.array([f"film {p:02}" for p in range(N)])


@dataclass(frozen=True)
class Form:
    """Arguments of `fit`, and the pairs of the same cells for `predict`."""

    fit: tuple[Any, ...]
    pairs: Any


def _mixed(name: str, p: int) -> Any:
    return int(p) if p % 2 else f"{name}{p}"


def _sparse(kind: Callable[[Any], Any]) -> Form:
    return Form((kind(sparse.coo_array((VALUES, (I, J)), shape=(M, N))),), PAIRS)


def _table(make: Callable[[dict[str, Any]], Any], row: str, col: str, value: str, text: bool) -> Form:
    rows, cols = (NAMES[0][I].astype(object), NAMES[1][J].astype(object)) if text else (I, J)
    whole = make({row: rows, "junk": np.zeros(len(I)), col: cols, value: VALUES})
    return Form((whole,), make({col: cols, row: rows}))


def forms() -> dict[str, Form]:
    """Every form of the same ratings."""
    numbers = PAIRS
    text = np.stack([NAMES[0][I], NAMES[1][J]], axis=1)
    both = list(zip(NAMES[0][I].tolist(), J.tolist(), strict=True))
    mixed = [(_mixed("u", i), _mixed("v", j)) for i, j in numbers]
    shuffled = np.random.default_rng(1).permutation(len(I))
    masked = np.ma.array(np.nan_to_num(MATRIX, nan=99.0), mask=np.isnan(MATRIX))
    wide = pd.DataFrame(MATRIX, index=NAMES[0], columns=NAMES[1])
    return {
        "observations": Form((Observations.from_dense(MATRIX),), Observations.from_dense(MATRIX)),
        "array": Form((MATRIX,), numbers),
        "array of float32, by columns": Form((np.asfortranarray(MATRIX, dtype=np.float32),), numbers),
        "nested lists": Form((MATRIX.tolist(),), numbers.tolist()),
        "masked array": Form((masked,), numbers.astype(float)),
        "objects with None": Form((np.where(np.isnan(MATRIX), None, MATRIX),), numbers.astype(object)),
        "csr array": _sparse(sparse.csr_array),
        "csc array": _sparse(sparse.csc_array),
        "coo array": _sparse(sparse.coo_array),
        "csr matrix": _sparse(sparse.csr_matrix),
        "csc matrix": _sparse(sparse.csc_matrix),
        "coo matrix": _sparse(sparse.coo_matrix),
        "pandas table": _table(pd.DataFrame, "userId", "movieId", "rating", text=False),
        "pandas table of text": _table(pd.DataFrame, "user", "item", "score", text=True),
        "polars table": _table(pl.DataFrame, "user_id", "item_id", "rating", text=False),
        "polars table of text": _table(pl.DataFrame, "User", "Title", "stars", text=True),
        "pyarrow table": _table(pa.table, "user", "item", "rating", text=False),
        "pandas wide": Form((wide,), list(map(tuple, text.tolist()))),
        "pandas wide, numbered": Form((pd.DataFrame(MATRIX),), pd.DataFrame(numbers)),
        "polars wide": Form((pl.DataFrame(MATRIX, schema=NAMES[1].tolist()),), list(zip(I, NAMES[1][J], strict=True))),
        "pairs": Form((numbers, VALUES), numbers),
        "pairs, shuffled": Form((numbers[shuffled], VALUES[shuffled]), numbers),
        "pairs, column of values": Form((numbers, VALUES[:, None]), numbers),
        "pairs, series": Form((numbers, pd.Series(VALUES)), numbers.astype(np.uint16)),
        "pairs of floats": Form((numbers.astype(float), VALUES.tolist()), numbers),
        "pairs as lists": Form((numbers.tolist(), VALUES.tolist()), numbers.tolist()),
        "pairs of text": Form((text, VALUES), text),
        "pairs of text objects": Form((text.astype(object), VALUES), text),
        "tuples": Form((both, VALUES), both),
        "tuples, asked for as an array": Form((both, VALUES), np.array(both)),
        "array of tuples, asked for as tuples": Form((np.array(_padded(both)), VALUES), _padded(both)),
        "mixed ids": Form((mixed, VALUES), mixed),
        "pandas pairs": Form((pd.DataFrame(numbers, columns=["client", "sku"]), VALUES), numbers),
        "pandas pairs, numbered": Form((pd.DataFrame(numbers), VALUES), pd.DataFrame(numbers)),
        "pandas pairs, asked for in another order": Form(
            (pd.DataFrame({"client": I, "sku": J}), VALUES), pd.DataFrame({"no": 0, "sku": J, "client": I})
        ),
        "polars pairs": Form((pl.DataFrame({"item": J, "user": I}), VALUES), numbers),
    }


def _padded(both: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Column ids that keep their order when they become text."""
    return [(name, 100 + j) for name, j in both]
