"""Ids in files: whole numbers, text and mixtures come back; what cannot be saved is said before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bayes_models import make
from forms import MATRIX, PAIRS, VALUES, J
from hypothesis import given
from hypothesis import strategies as st

import accams
from accams import InputError
from accams.data.ids import Index
from accams.model.idcoding import pack_ids, unpack_ids

INT64 = np.iinfo(np.int64)
WHOLE: dict[str, list[Any]] = {
    "sorted": [3, 5, 8, 1000],
    "unsorted": [8, 3, 1000, 5],
    "negative": [-5, 0, -1000, 7],
    "huge": [INT64.max, INT64.min, 0, INT64.max - 1],
    "one": [7],
    "none": [],
}
OTHERS: dict[str, list[Any]] = {
    "text": ["b", "a", "abc"],
    "unicode": ["ä", "日本", "😀", "e\u0301", "\u202e", "\0", "a\nb", '"', "\\", "'"],
    "empty string": ["", " ", "a"],
    "numbers as text": ["1", "01", "1.0"],
    "mixed": ["1", 1, 2.5, "x", -3, "true"],
    "fractions": [0.1, 1e300, -2.5],
    "beyond 64 bits": [2**70, -(2**65), 1],
    "long": ["x" * 100_000, "y"],
}


def again(ids: list[Any]) -> Index:
    index = Index(ids if ids else np.array(ids, np.int64))
    return unpack_ids(*pack_ids(index), len(ids))


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name: str) -> None:
    assert pack_ids(Index(np.array(WHOLE[name], np.int64)))[0] == "integers"
    index = again(WHOLE[name])
    assert index.ids.dtype == np.int64
    assert index.ids.tolist() == WHOLE[name]


@pytest.mark.parametrize("name", OTHERS)
def test_other_ids(name: str) -> None:
    assert pack_ids(Index(OTHERS[name]))[0] == "json"
    index = again(OTHERS[name])
    assert index.ids.tolist() == OTHERS[name]
    assert [type(x) for x in index.ids.tolist()] == [type(x) for x in OTHERS[name]]
    assert index.positions(OTHERS[name]).tolist() == list(range(len(OTHERS[name])))


def test_positions() -> None:
    assert pack_ids(Index(None, 5)) == ("positions", None)
    index = unpack_ids("positions", None, 5)
    assert index.is_positional
    assert len(index) == 5


@given(
    st.lists(st.integers(INT64.min, INT64.max), unique=True, max_size=30)
    | st.lists(st.text(max_size=20), unique=True, min_size=1, max_size=30)
)
def test_any_ids(ids: list[Any]) -> None:
    index = again(ids)
    assert index.ids.tolist() == ids
    assert index.positions(np.array(ids, dtype=object)).tolist() == list(range(len(ids)))


def bytes_of(ids: Any) -> int:
    tensor = pack_ids(Index(ids))[1]
    assert tensor is not None
    return tensor.nbytes


def test_ids_take_little_room() -> None:
    random, n = np.random.default_rng(0), 20_000
    assert bytes_of(np.arange(n) + 1) < n / 8 + 100
    assert bytes_of(np.sort(random.choice(10 * n, n, replace=False))) < n
    assert bytes_of([f"user {p}" for p in range(n)]) < 3 * n


@pytest.mark.parametrize(
    "ids",
    [[(1, 2), (3, 4)], [("a",), "b"], [b"bytes", b"x"], [1j, 2.0], [frozenset(), "a"]],
    ids=["tuples", "tuple and text", "bytes", "complex", "sets"],
)
def test_ids_that_cannot_be_saved(ids: list[Any]) -> None:
    objects = np.empty(len(ids), dtype=object)
    objects[:] = ids
    with pytest.raises(InputError, match="cannot be saved: use strings or integers as ids"):
        pack_ids(Index(objects))


@pytest.mark.parametrize(
    ("kind", "tensor", "size"),
    [
        ("integers", None, 3),
        ("json", None, 3),
        ("tree", np.zeros(9, np.uint8), 3),
        ("integers", np.zeros(9, np.uint8), 3),
        ("json", np.zeros(9, np.uint8), 3),
        ("integers", pack_ids(Index([1, 5, 9]))[1], 2),
        ("integers", pack_ids(Index([1, 5, 9]))[1], 4),
        ("integers", pack_ids(Index([1, 5, 9]))[1], 10**12),
        ("json", pack_ids(Index(["a", "b", "c"]))[1], 2),
        ("json", pack_ids(Index(["a", "b", "c"]))[1], 10**12),
    ],
)
def test_tensors_that_do_not_fit(kind: str, tensor: Any, size: int) -> None:
    with pytest.raises(ValueError, match=r"its |come from"):
        unpack_ids(kind, tensor, size)


# -- in models ----------------------------------------------------------------------------------------------------


def fitted(rename: Any) -> tuple[Any, Any]:
    """A model of the matrix with other ids, and pairs of such ids."""
    pairs = np.empty((len(PAIRS), 2), dtype=object)
    pairs[:] = [[rename(int(i)), rename(int(j) + 100)] for i, j in PAIRS]
    return accams.ACCAMS(2, 3).fit(pairs, VALUES), pairs


@pytest.mark.parametrize(
    "rename",
    [lambda p: p * 7, lambda p: 2**62 - p, lambda p: -p, lambda p: f"ü{p}", lambda p: f"{p}" if p % 2 else p],
    ids=["spread", "huge", "negative", "text", "mixed"],
)
@pytest.mark.parametrize("coding", ["entropy", "packed"])
def test_models_know_their_ids(coding: str, rename: Any, tmp_path: Path) -> None:
    model, pairs = fitted(rename)
    model.save(tmp_path / "m", coding=coding)
    loaded = accams.load(tmp_path / "m")
    assert (loaded.row_index, loaded.col_index) == (model.row_index_, model.col_index_)
    np.testing.assert_array_equal(loaded.predict(pairs), model.predict(pairs))
    new = [("nobody", rename(100)), (rename(0), "nothing")]
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


def test_models_without_ids(tmp_path: Path) -> None:
    """Rows and columns are known by where they stand."""
    model, pairs = fitted(lambda p: f"id {p}")
    model.save(tmp_path / "with")
    model.save(tmp_path / "without", ids=False)
    loaded = accams.load(tmp_path / "without")
    assert loaded.row_index.is_positional
    assert len(loaded.col_index) == MATRIX.shape[1]
    positions = np.stack([model.row_index_.positions(pairs[:, 0]), model.col_index_.positions(pairs[:, 1])], axis=1)
    np.testing.assert_array_equal(loaded.predict(positions), model.predict(pairs))
    assert (tmp_path / "without").stat().st_size < (tmp_path / "with").stat().st_size


def test_ids_that_cannot_be_saved_can_be_left_out(tmp_path: Path) -> None:
    rows = np.empty(len(PAIRS), dtype=object)
    rows[:] = [(int(i), "x") for i in PAIRS[:, 0]]
    model = accams.ACCAMS(2, 3).fit(pd.DataFrame({"a": rows, "b": J}), VALUES)
    with pytest.raises(InputError, match="tuples or lists cannot be saved"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    model.save(tmp_path / "m", ids=False)
    np.testing.assert_array_equal(accams.load(tmp_path / "m").stencils.dense(), model.stencils_.dense())


def test_bayesian_models_without_ids(tmp_path: Path) -> None:
    model = make(n_stencils=2, n_clusters=2, n_chains=1, n_sweeps=3).fit(PAIRS * 3 + 1, VALUES)
    model.save(tmp_path / "m", ids=False)
    np.testing.assert_array_equal(accams.load(tmp_path / "m").predict(PAIRS), model.predict(PAIRS * 3 + 1))
