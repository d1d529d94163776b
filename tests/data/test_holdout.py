"""Splits of a store equal those of the same data in memory."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from observation_forms import assert_same_cells

from accams import ACCAMS, InputError, Observations
from accams.data import holdout, splits, store
from accams.data.ids import Index
from accams.fit import calibrate, early


def ratings(size: int, seed: int, weighted: bool = False, timed: bool = False) -> Observations:
    """Ratings of 30 named users and 12 items, some of them without ratings."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(30 * 12, size, replace=False)
    more: dict[str, Any] = {"weights": rng.integers(1, 5, size) / 2} if weighted else {}
    more |= {"times": rng.integers(10, 99, size)} if timed else {}
    index = Index([f"user {x}é" for x in range(30)])
    return Observations.from_coo(
        cells // 12, cells % 12, rng.integers(1, 11, size) / 2, shape=(30, 12), row_index=index, **more
    )


def assert_same(found: Observations, right: Observations) -> None:
    assert_same_cells(found, right)
    assert (found.mean(), found.value_range, found.total_weight()) == (
        right.mean(), right.value_range, right.total_weight()
    )  # fmt: skip


@given(
    size=st.integers(2, 300), seed=st.integers(0, 99), share=st.floats(0, 1), block=st.sampled_from([1, 7, 1000]),
    weighted=st.booleans(), timed=st.booleans(),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parts_of_a_store(
    tmp_path_factory: pytest.TempPathFactory, size: int, seed: int, share: float, block: int, weighted: bool,
    timed: bool,
) -> None:  # fmt: skip
    folder, obs = tmp_path_factory.mktemp("parts"), ratings(size, seed, weighted, timed)
    obs.to_store(folder / "s")
    held = splits.some_positions(size, min(max(1, int(share * size)), size - 1), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holdout, "BLOCK", block)
        rest, taken = Observations.open(folder / "s").split(held)
    right = obs.split(held)
    assert_same(rest, right[0])
    assert_same(taken, right[1])
    assert taken.store is None
    assert rest.store is not None
    assert_order(rest)
    store.read(rest.store)  # checksums are right


def assert_order(obs: Observations) -> None:
    """Assert that both orders of a store hold the same entries."""
    assert obs.store is not None
    starts, rows, values, weights = store.order(obs.store, 1, 0, obs.shape[1])
    order = np.lexsort((obs.coo()[0], obs.coo()[1]))
    assert np.array_equal(rows, obs.coo()[0][order])
    assert np.array_equal(starts, obs.col_starts)
    assert np.array_equal(values, obs.stored_values[order])
    assert (weights is None) == (obs.stored_weights is None)
    if weights is not None and obs.stored_weights is not None:
        assert np.array_equal(weights, obs.stored_weights[order])


def test_the_copy_is_removed_with_its_last_user(tmp_path: Path) -> None:
    ratings(100, 0).to_store(tmp_path / "s")
    rest, _ = Observations.open(tmp_path / "s").split(np.arange(10))
    again, _ = rest.split(np.arange(5))
    assert len(list(tmp_path.iterdir())) == 3
    del rest
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 2
    assert again.nnz == 85
    del again
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_every_split_is_that_of_the_data_in_memory(tmp_path: Path) -> None:
    obs = ratings(200, 1, timed=True)
    obs.to_store(tmp_path / "s")
    mapped = Observations.open(tmp_path / "s")
    for split in (
        lambda each: splits.random_split(each, 0.2, 3),
        lambda each: next(splits.k_fold(each, 4, 1)),
        lambda each: splits.leave_out(each, 1, min_train=0),
        lambda each: splits.by_time(each, 0.3),
        lambda each: splits.held_out_users(each, 0.3),
    ):
        for found, right in zip(split(mapped), split(obs), strict=True):
            assert_same(found, right)


@pytest.mark.parametrize(
    "held",
    [np.arange(0), np.arange(100), np.array([-1, 5]), np.array([5, 100]), np.zeros(100, bool)],
    ids=["nothing", "everything", "before", "beyond", "no mask"],
)
@pytest.mark.parametrize("mapped", [False, True])
def test_positions_that_cannot_be(tmp_path: Path, held: Any, mapped: bool) -> None:
    obs = ratings(100, 0)
    obs.to_store(tmp_path / "s")
    with pytest.raises(InputError, match=r"held must select some, but not all, of the positions 0 \.\. 99"):
        (Observations.open(tmp_path / "s") if mapped else obs).split(held)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_no_room_for_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratings(100, 0).to_store(tmp_path / "s")

    def full(*args: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(store.Column, "append", full)
    with pytest.raises(InputError, match=r"there is no room in .* for a copy of .* \(No space left on device\): free"):
        Observations.open(tmp_path / "s").split(np.arange(10))
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_where_nothing_can_be_written_beside_the_store(tmp_path: Path, made_elsewhere: list[str]) -> None:
    ratings(100, 0).to_store(tmp_path / "s")
    rest, _ = Observations.open(tmp_path / "s").split(np.arange(10))
    assert rest.store == Path(made_elsewhere[0])
    del rest
    gc.collect()
    assert not Path(made_elsewhere[0]).exists()


def test_positions_of_many_are_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    few = splits.some_positions(1000, 40, 5)
    assert np.array_equal(few, np.sort(splits.permutation_test_positions(1000, 0.04, 5)))
    monkeypatch.setattr(splits, "MANY", 999)
    other = splits.some_positions(1000, 40, 5)
    for found in (few, other):
        assert len(np.unique(found)) == 40
        assert (np.diff(found) > 0).all()
    assert not np.array_equal(few, other)


def test_sums_do_not_depend_on_where_the_data_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PIECE", 7)
    rng = np.random.default_rng(0)
    obs = Observations.from_dense(rng.normal(size=(9, 11)), weights=rng.random((9, 11)) + 0.1)
    obs.to_store(tmp_path / "s")
    mapped = Observations.open(tmp_path / "s")
    assert (mapped.mean(), mapped.total_weight()) == (obs.mean(), obs.total_weight())
    weights = obs.weights
    assert weights is not None
    assert obs.mean() == pytest.approx(np.average(obs.values, weights=weights), rel=1e-12)
    assert obs.value_range == (obs.values.min(), obs.values.max())


def test_a_mask_is_the_same_as_positions(tmp_path: Path) -> None:
    obs = ratings(100, 0)
    obs.to_store(tmp_path / "s")
    for each in (obs, Observations.open(tmp_path / "s")):
        found, right = each.split(np.arange(100) % 7 == 3), each.split(np.arange(3, 100, 7))
        for one, other in zip(found, right, strict=True):
            assert_same(one, other)


def test_copies_and_stores_that_are_gone(tmp_path: Path) -> None:
    """Mapped data stays valid; a deep copy keeps the folder, a pickled one does without."""
    ratings(100, 0).to_store(tmp_path / "s")
    whole = Observations.open(tmp_path / "s")
    rest, _ = whole.split(np.arange(10))
    unpickled, twin = pickle.loads(pickle.dumps(rest)), copy.deepcopy(rest)
    right, right_held = rest.split(np.arange(5))
    folder = rest.store
    del rest
    gc.collect()
    assert folder is not None
    assert folder.is_dir()
    assert_same(twin.split(np.arange(5))[0], right)
    del twin
    gc.collect()
    assert not folder.exists()
    again, held = unpickled.split(np.arange(5))
    assert_same(again, right)
    assert_same(held, right_held)
    (tmp_path / "s").rename(tmp_path / "moved")
    assert whole.split(np.arange(10))[0].store is None
    with pytest.raises(InputError, match=r"the store .* is no longer there: open it again where it is now"):
        ACCAMS(1, 2, engine="disk", verbose=False).fit(whole)


@pytest.mark.parametrize(("mode", "right"), [(0o750, 0o750), (0o555, 0o755)])
def test_whoever_may_read_the_store_may_read_what_is_left(tmp_path: Path, mode: int, right: int) -> None:
    ratings(100, 0).to_store(tmp_path / "s")
    (tmp_path / "s").chmod(mode)
    rest, _ = Observations.open(tmp_path / "s").split(np.arange(10))
    assert rest.store is not None
    assert rest.store.stat().st_mode & 0o777 == right


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_was_started_meanwhile_leaves_the_copy(tmp_path: Path) -> None:
    code = f"""
import os, sys
import numpy as np
from accams import Observations
rest, _ = Observations.open({str(tmp_path / "s")!r}).split(np.arange(10))
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
print(rest.store.is_dir())
"""
    ratings(100, 0).to_store(tmp_path / "s")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_no_more_than_some_are_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    obs = ratings(300, 0)
    assert calibrate.held_out_split(obs, 0)[1].nnz == 60  # a fifth
    monkeypatch.setattr(calibrate, "MOST", 17)
    monkeypatch.setattr(early, "MOST", 19)
    assert [part.nnz for part in calibrate.held_out_split(obs, 0)] == [283, 17]
    assert [part.nnz for part in early.validation_split(obs, 0.2, 0)] == [281, 19]
