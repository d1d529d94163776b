"""A store equals its files for any block size, detects damage, and resumes after an interruption."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observation_forms import assert_same_cells

from accams import BayesianACCAMS, InputError, Observations
from accams.data import ingest as ingesting
from accams.data import readers, store
from accams.data.ingest import ingest
from accams.data.store import by_column
from accams.errors import MissingDataError

NAMES: dict[str, str | None] = dict.fromkeys(("row", "col", "value", "weight", "time"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process a few entries at a time."""
    monkeypatch.setattr(ingesting, "PER_ENTRY", ingesting.MEMORY // 37)


def table(size: int = 300, ids: str = "whole", more: Sequence[str] = (), seed: int = 0) -> pd.DataFrame:
    """Ratings in random order, without duplicates."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(40 * 25, size, replace=False)
    users, items = cells // 25 * 3 + 7, cells % 25
    found = pd.DataFrame({"user": users, "item": items, "rating": rng.integers(1, 11, size) / 2})
    if ids == "text":
        found["user"] = [f"user {x}é" for x in found["user"]]
    if "weight" in more:
        found["weight"] = rng.integers(0, 5, size) / 2
    if "time" in more:
        found["time"] = rng.integers(10**9, 2 * 10**9, size)
    return found


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("ids", ["whole", "text"])
@pytest.mark.parametrize("more", [[], ["weight", "time"]])
def test_it_holds_what_the_file_holds(kind: str, ids: str, more: list[str], tmp_path: Path) -> None:
    source, data = tmp_path / f"ratings.{kind}", table(ids=ids, more=more)
    data.to_parquet(source) if kind == "parquet" else data.to_csv(source, index=False)
    names = {**NAMES, "weight": "weight" if more else None}
    ingest([source], tmp_path / "ratings.store", names)
    right = Observations.from_file(source, weight=names["weight"])
    found = Observations.open(tmp_path / "ratings.store")
    assert_same_cells(found, right)
    values = np.load(tmp_path / "ratings.store" / "col_values.npy")
    starts, rows = right.row_starts, np.repeat(np.arange(right.shape[0]), np.diff(right.row_starts))
    assert starts[-1] == len(values)
    assert np.array_equal(values, right.stored_values[np.lexsort((rows, right.cols))])
    assert [path.name for path in tmp_path.iterdir() if path != source] == ["ratings.store"]


def test_columns_in_order(tmp_path: Path) -> None:
    """Assert that both orders hold the same values."""
    table(more=["weight"]).to_csv(tmp_path / "a.csv", index=False)
    ingest([tmp_path / "a.csv"], tmp_path / "s", {**NAMES, "weight": "weight"})
    obs = Observations.open(tmp_path / "s")
    i, j, _ = obs.coo()
    order = np.lexsort((i, j))
    assert np.array_equal(np.load(tmp_path / "s" / "col_weights.npy"), obs.stored_weights[order])  # type: ignore[index]


def test_several_files_are_one_table(tmp_path: Path) -> None:
    data = table(ids="text")
    paths = [tmp_path / f"part-{p}.csv" for p in range(3)]
    for p, path in enumerate(paths):
        data.iloc[p::3].to_csv(path, index=False, header=True)
    data.to_csv(tmp_path / "all.csv", index=False)
    ingest(paths, tmp_path / "s", NAMES)
    assert_same_cells(Observations.open(tmp_path / "s"), Observations.from_file(tmp_path / "all.csv"))


@pytest.mark.parametrize("duplicates", ["mean", "last", "sum"])
def test_pairs_that_come_twice(duplicates: Any, tmp_path: Path) -> None:
    data = table()
    data = pd.concat([data, data.iloc[:50].assign(rating=9.0), data.iloc[:9].assign(rating=1.0)])
    data.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match="occur together more than once"):
        ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES, "error")
    with pytest.warns(UserWarning, match=f"^59 of {len(data)} observations repeat a row and column"):
        ingest([tmp_path / "a.csv"], tmp_path / "t", NAMES)
    assert Observations.open(tmp_path / "t").nnz == len(data) - 59
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES, duplicates)
    assert_same_cells(
        Observations.open(tmp_path / "s"), Observations.from_file(tmp_path / "a.csv", duplicates=duplicates)
    )


def test_observed_zeros(tmp_path: Path) -> None:
    table()[["user", "item"]].to_csv(tmp_path / "a.csv", index=False)
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES, blanks=0.25)
    right = Observations.from_file(tmp_path / "a.csv", zeros="observed", zero_weight=0.25)
    assert_same_cells(Observations.open(tmp_path / "s"), right)


def test_a_fit_takes_a_store_like_a_file(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "a.csv", index=False)
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    settings = {"n_stencils": 2, "n_clusters": 2, "n_sweeps": 3, "noise": 0.5, "n_chains": 1, "verbose": False}
    one, other = (BayesianACCAMS(**settings).fit(Observations.from_file(tmp_path / name)) for name in ("a.csv", "s"))
    pairs = [(7, 0), (10, 3)]
    assert np.array_equal(one.predict(pairs), other.predict(pairs))
    with pytest.raises(InputError, match="is a store, with fixed columns, duplicates and zeros: pass its path only"):
        Observations.from_file(tmp_path / "s", row="user")
    with pytest.raises(InputError, match="with fixed columns, duplicates and zeros"):
        Observations.from_file(tmp_path / "s", zeros="observed")


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=9), st.integers(1, 20))
def test_by_column_in_any_block(cells: list[list[bool]], block: int) -> None:
    import tempfile

    mask = np.array(cells)
    mask[0, 0] = True
    i, j = np.nonzero(mask)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.write(folder / "row_starts.npy", np.concatenate([[0], np.cumsum(mask.sum(axis=1))]))
        store.write(folder / "cols.npy", j.astype(np.uint16))
        store.write(folder / "values.npy", np.arange(len(j), dtype=np.float32))
        by_column(folder, mask.shape, block)
        order = np.lexsort((i, j))
        assert np.array_equal(np.load(folder / "rows.npy"), i[order])
        assert np.array_equal(np.load(folder / "col_values.npy"), order)
        assert np.array_equal(np.load(folder / "col_starts.npy"), [0, *np.cumsum(mask.sum(axis=0))])
        assert not list(folder.glob("bucket*"))


# -- interruptions and damage --------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("at", ["reading 2 of 2", "sorting", "by row", "by column"])
def test_a_run_that_was_stopped_goes_on(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = table()
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, part in zip(paths, (data[:100], data[100:]), strict=True):
        part.to_csv(path, index=False)

    def stop(what: str, share: float) -> None:
        if what == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(paths, tmp_path / "s", NAMES, progress=stop)
    assert not (tmp_path / "s").exists()
    read, original = list[Path](), readers.each_table
    monkeypatch.setattr(readers, "each_table", lambda path, *more: read.append(path) or original(path, *more))
    ingest(paths, tmp_path / "s", NAMES)
    assert len(read) == {"reading 2 of 2": 1, "sorting": 0, "by row": 0, "by column": 0}[at]
    data.to_csv(tmp_path / "all.csv", index=False)
    assert_same_cells(Observations.open(tmp_path / "s"), Observations.from_file(tmp_path / "all.csv"))


def test_other_sources_begin_anew(tmp_path: Path) -> None:
    def stop(what: str, share: float) -> None:
        if what == "sorting":
            raise KeyboardInterrupt

    table(seed=1).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(KeyboardInterrupt):
        ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES, progress=stop)
    table(200, seed=2).to_csv(tmp_path / "a.csv", index=False)
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    assert_same_cells(Observations.open(tmp_path / "s"), Observations.from_file(tmp_path / "a.csv"))


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, values: Any) -> None:
        raise OSError(28, "No space left on device")

    table().to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.setattr(store.Column, "append", full)
    with pytest.raises(InputError, match=r"cannot write .*s: No space left on device; .*free some space"):
        ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    table(ids="text").to_csv(tmp_path / "a.csv", index=False)
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    return tmp_path / "s"


@pytest.mark.parametrize("name", ["cols", "values", "rows", "col_values", "row_id_text"])
def test_damage_is_noticed(name: str, made: Path) -> None:
    path = made / f"{name}.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}.npy is damaged \(wrong checksum\): ingest the data again"):
        Observations.open(made)
    path.write_bytes(content[:-2])
    with pytest.raises(InputError, match=rf"{name}.npy is damaged \(wrong length\)"):
        Observations.open(made, trust=True)
    path.unlink()
    with pytest.raises(InputError, match=f"{name}.npy is missing"):
        Observations.open(made)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "accams store"}', '{"kind": "x", "format": 1}', "\xff"])
def test_a_damaged_manifest(text: str, made: Path) -> None:
    (made / "store.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"store.json is damaged: ingest the data again"):
        Observations.open(made)


def test_what_is_no_store(made: Path, tmp_path: Path) -> None:
    told = json.loads((made / "store.json").read_text())
    (made / "store.json").write_text(json.dumps({**told, "format": 99}))
    with pytest.raises(InputError, match="store of format 99, and this version of accams reads format 1"):
        Observations.open(made)
    with pytest.raises(InputError, match=r"is not an accams store \(it has no store.json\): create one"):
        Observations.open(tmp_path)
    with pytest.raises(MissingDataError, match=r"there is no store .*nowhere: create one with accams ingest"):
        Observations.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="s already exists: remove it, or choose another path"):
        ingest([tmp_path / "a.csv"], made, NAMES)
    with pytest.raises(InputError, match="at least 256 MiB"):
        ingest([tmp_path / "a.csv"], tmp_path / "other", NAMES, memory=1000)


def test_bad_sources(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("user,item,rating\n1,2,3\n1,3,x\n")
    with pytest.raises(InputError, match=r"bad.csv line 3: rating 'x' is not a number"):
        ingest([tmp_path / "bad.csv"], tmp_path / "s", NAMES)
    with pytest.raises(MissingDataError, match="there is no file"):
        ingest([tmp_path / "none.csv"], tmp_path / "s", NAMES)
    np.save(tmp_path / "m.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match="a store is made from text or Parquet files, not from a matrix"):
        ingest([tmp_path / "m.npy"], tmp_path / "s", NAMES)
    assert {path.name for path in tmp_path.iterdir()} == {"bad.csv", "m.npy"}
    with pytest.raises(InputError, match="duplicates must be 'auto', 'error', 'mean', 'last' or 'sum', not 'first'"):
        ingest([tmp_path / "bad.csv"], tmp_path / "s", NAMES, "first")


# -- unusual tables ------------------------------------------------------------------------------------


def same_as_from_file(source: Path, store_path: Path, names: dict[str, str | None] = NAMES) -> Observations:
    ingest([source], store_path, names)
    right = Observations.from_file(source, weight=names["weight"])
    assert_same_cells(Observations.open(store_path), right)
    return right


def test_times_that_are_dates(tmp_path: Path) -> None:
    data = table(more=["time"])
    data["time"] = pd.to_datetime(data["time"], unit="s")
    data.loc[5, "time"] = pd.NaT
    data.to_csv(tmp_path / "a.csv", index=False)
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    right, found = Observations.from_file(tmp_path / "a.csv"), Observations.open(tmp_path / "s")
    assert np.array_equal(found.times, right.times, equal_nan=True)  # type: ignore[arg-type]
    right.to_store(tmp_path / "t")
    assert np.array_equal(Observations.open(tmp_path / "t").times, right.times, equal_nan=True)  # type: ignore[arg-type]


def test_whole_times_of_which_the_last_rows_lack_some(tmp_path: Path) -> None:
    data = table(more=["time"]).sort_values("user")
    data["time"] = data["time"].astype("Int64")
    data.iloc[-1, data.columns.get_loc("time")] = pd.NA
    data.to_csv(tmp_path / "a.csv", index=False)
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    right, found = Observations.from_file(tmp_path / "a.csv"), Observations.open(tmp_path / "s")
    assert found.times is not None
    assert found.times.dtype == np.float64
    assert np.array_equal(found.times, right.times, equal_nan=True)  # type: ignore[arg-type]


def test_text_that_looks_like_numbers_stays_text(tmp_path: Path) -> None:
    data = table()
    data["user"] = data["user"].astype(str)
    data.to_parquet(tmp_path / "a.parquet")
    assert same_as_from_file(tmp_path / "a.parquet", tmp_path / "s").row_index.ids.dtype == object


def test_rows_of_which_all_weights_are_zero(tmp_path: Path) -> None:
    data = table(more=["weight"]).sort_values("user")
    data.iloc[:150, data.columns.get_loc("weight")] = 0.0
    data.to_csv(tmp_path / "a.csv", index=False)
    same_as_from_file(tmp_path / "a.csv", tmp_path / "s", {**NAMES, "weight": "weight"})
    data.assign(weight=0.0).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(InputError, match="every weight is 0"):
        ingest([tmp_path / "b.csv"], tmp_path / "t", {**NAMES, "weight": "weight"})


def test_files_of_different_kinds(tmp_path: Path) -> None:
    one, other = table(100, more=["time"]), table(300, more=["time"]).iloc[100:]
    one.to_parquet(tmp_path / "a.parquet")
    other.assign(user=[f"u{x}" for x in other["user"]], time=other["time"] + 0.5).to_csv(
        tmp_path / "b.csv", index=False
    )
    ingest([tmp_path / "a.parquet", tmp_path / "b.csv"], tmp_path / "s", NAMES)
    found = Observations.open(tmp_path / "s")
    assert set(found.row_index.ids) == {*map(str, one["user"]), *(f"u{x}" for x in other["user"])}
    times = np.concatenate([one["time"].astype(float), other["time"] + 0.5])
    assert np.array_equal(np.sort(found.times), np.sort(times))  # type: ignore[arg-type]
    dates = other.assign(time=pd.to_datetime(other["time"], unit="s"))
    dates.to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(InputError, match=r"c.csv: its times differ in type"):
        ingest([tmp_path / "a.parquet", tmp_path / "c.csv"], tmp_path / "t", NAMES)


@pytest.mark.parametrize("ids", [[1.5, 2.5], ["a", 1], [pd.Timestamp("2020-01-01").date()] * 1 + ["b"]])
def test_ids_that_a_store_cannot_hold(ids: list[Any], tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": pd.Series(ids, dtype=object), "item": [1, 2], "rating": [1.0, 2.0]})
    with pytest.raises(InputError, match="ids in a store must be integers or text"):
        Observations.from_frame(frame).to_store(tmp_path / "s")
    assert not list(tmp_path.iterdir())


def test_two_at_once(tmp_path: Path) -> None:
    """The second run is refused, and the results of the first remain."""
    table().to_csv(tmp_path / "a.csv", index=False)
    database = str(tmp_path / "s.partial" / "work.duckdb")
    command = f"import duckdb, time; held = duckdb.connect({database!r}); print(1, flush=True)"
    (tmp_path / "s.partial").mkdir()
    other = subprocess.Popen([sys.executable, "-c", command + "; time.sleep(60)"], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(InputError, match="is in use by another run"):
            ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    finally:
        other.kill()
        other.wait()
    assert (tmp_path / "s.partial" / "work.duckdb").is_file()
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)


def test_what_is_in_the_way(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "s.partial").mkdir()
    (tmp_path / "s.partial" / "mine.txt").write_text("dear diary")
    with pytest.raises(InputError, match=r"s.partial already exists: remove it"):
        ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    assert (tmp_path / "s.partial" / "mine.txt").is_file()
    (tmp_path / "s.partial" / "mine.txt").unlink()
    duckdb.connect(str(tmp_path / "s.partial" / "work.duckdb")).close()  # stopped at once, with incomplete arguments
    (tmp_path / "s.partial" / "asked.json").write_text('{"fi')
    ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)


def test_the_folder_of_an_ingestion_is_left_alone(tmp_path: Path) -> None:
    """By others that write a store of the same name."""
    (tmp_path / "s.partial").mkdir()
    (tmp_path / "s.partial" / "work.duckdb").write_bytes(b"hours of work")
    obs = Observations.from_frame(table())
    obs.to_store(tmp_path / "s")
    assert (tmp_path / "s.partial" / "work.duckdb").read_bytes() == b"hours of work"
    assert_same_cells(Observations.open(tmp_path / "s"), obs)


def test_a_full_disk_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table itself is valid."""

    def full(self: Any, *args: Any) -> Any:
        raise duckdb.IOException("IO Error: No space left on device")

    table().to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.setattr(ingesting._StoreBuilder, "_common_types", full)
    with pytest.raises(InputError, match=r"cannot write .*s: No space left on device; .*free some space"):
        ingest([tmp_path / "a.csv"], tmp_path / "s", NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "a.csv", index=False)
    inside = tmp_path / "a.csv" / "s"  # a file is no folder
    with pytest.raises(InputError, match=r"cannot write .*s: Not a directory"):
        ingest([tmp_path / "a.csv"], inside, NAMES)
    with pytest.raises(InputError, match=r"cannot write .*s: Not a directory"):
        Observations.from_file(tmp_path / "a.csv").to_store(inside)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
