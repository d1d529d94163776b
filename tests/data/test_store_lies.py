"""Stores whose checksums are right and whose contents are not: every lie is refused before a kernel sees it."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accams import InputError, Observations
from accams.data import store

SHAPE, ENTRIES = (30, 20), 200


def written(path: Path, ids: bool = False, weighted: bool = True) -> Path:
    random = np.random.default_rng(0)
    cells = random.choice(SHAPE[0] * SHAPE[1], ENTRIES, replace=False)
    rows, cols = np.divmod(cells, SHAPE[1])
    weights = random.integers(1, 5, ENTRIES) / 2 if weighted else None
    values = random.integers(1, 11, ENTRIES) / 2
    obs = Observations.from_coo(rows, cols, values, shape=SHAPE, weights=weights, times=np.arange(ENTRIES))
    if ids:
        names = [f"é{p}" for p in range(SHAPE[0])], [f"film {p}" for p in range(SHAPE[1])]
        obs = Observations.from_dense(random.integers(1, 6, SHAPE).astype(float), row_ids=names[0], col_ids=names[1])
    obs.to_store(path)
    return path


def lie_in_file(path: Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change an array and make length, type and checksum right."""
    meta = json.loads((path / store.MANIFEST).read_text())
    meta["files"][name] = store.write(path / f"{name}.npy", change(np.load(path / f"{name}.npy")))
    (path / store.MANIFEST).write_text(json.dumps(meta))


def lie_in_manifest(path: Path, keys: tuple[Any, ...], value: Any) -> None:
    meta = json.loads((path / store.MANIFEST).read_text())
    place = meta
    for key in keys[:-1]:
        place = place[key]
    if value is KeyError:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    (path / store.MANIFEST).write_text(json.dumps(meta))


def put(position: int, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        x[position] = value
        return x

    return change


def swapped(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[[0, 1]] = x[[1, 0]]
    return x


FILE_LIES = {
    "a column beyond the last": ("cols", put(3, 20)),
    "a column of 65535": ("cols", put(3, 2**16 - 1)),
    "columns below 0": ("cols", lambda x: -x.astype(np.int16)),
    "columns of 2e9": ("cols", lambda x: x.astype(np.uint32) + 2 * 10**9),
    "columns not in order": ("cols", swapped),
    "a column twice": ("cols", lambda x: put(1, x[0])(x)),
    "a row beyond the last": ("rows", put(3, 30)),
    "rows not in order": ("rows", swapped),
    "starts of 2^40": ("row_starts", put(5, 2**40)),
    "starts below 0": ("row_starts", put(5, -3)),
    "starts that do not begin with 0": ("row_starts", put(0, 2)),
    "starts that end too early": ("row_starts", put(-1, 150)),
    "starts cut to three": ("row_starts", lambda x: x[:3]),
    "starts that descend": ("col_starts", lambda x: put(4, x[7] + 1)(x)),
    "floats for starts": ("row_starts", lambda x: x.astype(np.float64)),
    "NaN": ("values", put(9, np.nan)),
    "infinity by columns": ("col_values", put(9, np.inf)),
    "a value that differs by columns": ("col_values", lambda x: put(9, x[9] + 1)(x)),
    "values of another type by columns": ("col_values", lambda x: x.astype(np.float64)),
    "fewer values": ("values", lambda x: x[:-1]),
    "objects": ("values", lambda x: x.astype(np.complex64)),
    "a weight of 0": ("weights", put(9, 0)),
    "a weight below 0 by columns": ("col_weights", put(9, -5)),
    "a weight that differs by columns": ("col_weights", lambda x: put(9, x[9] + 1)(x)),
    "fewer times": ("times", lambda x: x[:-1]),
    "values by rows that the manifest does not say": ("values", lambda x: x + 1),
}


@pytest.mark.parametrize("lie", FILE_LIES)
def test_a_lie_in_a_file(lie: str, tmp_path: Path) -> None:
    path = written(tmp_path / "s")
    Observations.open(path)
    lie_in_file(path, *FILE_LIES[lie])
    with pytest.raises(InputError, match="is damaged") as error:
        Observations.open(path)
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 400


MANIFEST_LIES: dict[tuple[Any, ...], tuple[Any, ...]] = {
    ("shape",): ([3, 3], [30, 20, 1], [10**9, 10**9], [37, 20], [-30, 20], "30 x 20", [30.0, 20.0], [30, True], None),
    ("weight_step",): (0, -1.0, None, "1", True),
    ("blank_weight",): (-1.0, 0, "1", [1], KeyError),
    ("about",): (None, [], {}, KeyError),
    ("about", "value_range"): ([1.0, 5.5], [5.0, 0.5], [0.5], [0.5, None], "a"),
    ("about", "sum"): (1.0, None, "many"),
    ("about", "weight"): (1.0, None),
    ("files",): ({}, [], None),
    ("files", "cols"): (KeyError, None, {"type": "<u2"}),
    ("files", "weights"): (KeyError,),
    ("files", "../../etc/passwd"): ({"type": "<u2", "size": 1, "crc32": 0},),
    ("files", "cols", "type"): ("|O", "<f8", "nonsense", "<u4", 5, "<u2," * 10_000),
    ("files", "cols", "size"): (10**15, -1, "200", 199),
    ("files", "times", "type"): ("|O", "nonsense", "|S8", "<c16"),
    ("files", "row_starts", "size"): (2**63,),
    ("format",): ([1], {}, "1", None),
}


@pytest.mark.parametrize(
    ("keys", "value"), [(keys, value) for keys, values in MANIFEST_LIES.items() for value in values]
)
def test_a_lie_in_the_manifest(keys: tuple[Any, ...], value: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "s")
    lie_in_manifest(path, keys, value)
    with pytest.raises(InputError, match="is damaged") as error:
        Observations.open(path)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("text", ["", "[]", "5", "null", "[" * 200_000, '{"kind": "accams store"}', "\xff"])
def test_a_manifest_that_is_none(text: str, tmp_path: Path) -> None:
    path = written(tmp_path / "s")
    (path / store.MANIFEST).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"store\.json is damaged"):
        Observations.open(path)


@pytest.mark.parametrize("trust", [True, False])
def test_types_lengths_and_ends_are_always_checked(trust: bool, tmp_path: Path) -> None:
    for lie in ("starts of 2^40", "starts cut to three", "fewer values"):
        path = written(tmp_path / lie)
        lie_in_file(path, *FILE_LIES[lie])
        with pytest.raises(InputError, match="is damaged"):
            Observations.open(path, trust=trust)
        with pytest.raises(InputError, match="is damaged"):  # as a worker of a cluster opens it
            store.order(path, 0, 0, 1)


@pytest.mark.parametrize("change", [put(0, 10**9), put(0, -1), put(-1, 5), put(3, 0), put(0, 1)])
def test_ends_and_text_of_ids(change: Callable[[np.ndarray], np.ndarray], tmp_path: Path) -> None:
    """The last one cuts a letter in two."""
    path = written(tmp_path / "s", ids=True)
    assert Observations.open(path).row_index.ids[3] == "é3"
    lie_in_file(path, "row_id_ends", change)
    with pytest.raises(InputError, match="damaged"):
        Observations.open(path).row_index.ids  # noqa: B018


def test_checksums_are_still_those_of_the_files(tmp_path: Path) -> None:
    path = written(tmp_path / "s")
    file = path / "values.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert (
        zlib.crc32(data[store.HEADER :]) != json.loads((path / store.MANIFEST).read_text())["files"]["values"]["crc32"]
    )
    with pytest.raises(InputError, match="wrong checksum"):
        Observations.open(path)


def test_the_same_files_are_scanned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that changed are scanned again, even where length and time of modification are as before."""
    path, scans = written(tmp_path / "s"), list[Path]()
    check = store.check_content
    monkeypatch.setattr(store, "check_content", lambda path, *rest: scans.append(path) or check(path, *rest))
    Observations.open(path)
    Observations.open(path)
    assert len(scans) == 2  # so young that a change might not show
    monkeypatch.setattr(store, "YOUNG", -(10**12))
    for _ in range(3):
        Observations.open(path)
    assert len(scans) == 3
    Observations.open(written(tmp_path / "another"))
    assert len(scans) == 4
    file = path / "values.npy"
    before, data = file.stat(), bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match=r"values\.npy is damaged \(wrong checksum\)"):
        Observations.open(path)


def test_at_most_so_many_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "YOUNG", -(10**12))
    monkeypatch.setattr(store, "MOST_PROVEN", 2)
    monkeypatch.setattr(store, "PROVEN", {})
    for name in "abcd":
        Observations.open(written(tmp_path / name))
    assert len(store.PROVEN) == 2


@pytest.mark.parametrize("lie", ["a column of 65535", "NaN", "a weight of 0", "columns not in order"])
def test_a_worker_checks_its_own_part(lie: str, tmp_path: Path) -> None:
    path = written(tmp_path / "s")
    lie_in_file(path, *FILE_LIES[lie])
    with pytest.raises(InputError, match=r"an entry of row \d+ cannot be"):
        store.order(path, 0, 0, 5)
    store.order(path, 0, 15, SHAPE[0])  # whose entries are right
    store.order(path, 1, 0, SHAPE[1])


def test_headers_of_arrays(tmp_path: Path) -> None:
    path = written(tmp_path / "s")
    with (path / "cols.npy").open("r+b") as file:
        file.seek(20)
        file.write(b"?")
    for trust in (True, False):
        with pytest.raises(InputError, match=r"cols\.npy is damaged \(wrong header\)"):
            Observations.open(path, trust=trust)


def test_ids_that_are_there_twice(tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("user,item,rating\n10,1,1\n20,2,2\n30,4,3\n")
    Observations.from_file(table).to_store(tmp_path / "pairs")
    lie_in_file(tmp_path / "pairs", "row_ids", put(1, 10))
    with pytest.raises(InputError, match=r"row_ids\.npy is damaged \(some ids are there twice\)"):
        Observations.open(tmp_path / "pairs")
    path = written(tmp_path / "text", ids=True)
    lie_in_file(path, "col_id_text", lambda x: np.frombuffer(x.tobytes().replace(b"film 7", b"film 8"), np.uint8))
    with pytest.raises(InputError, match="some are there twice"):
        Observations.open(path).col_index.ids  # noqa: B018


@pytest.mark.parametrize("values", [[1e-9, -1e-9, 3e-17], [-65504.0, 65504.0, 2.0**-24], [1.0, 1.0, 1.0]])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_honest_stores_are_opened(values: list[float], kind: Any, tmp_path: Path) -> None:
    """Sums that cancel differ by rounding when entries are added in another order."""
    random = np.random.default_rng(0)
    cells = np.resize(np.array(values, kind), (40, 50)).astype(np.float64) * random.choice([1, -1, 0.5], (40, 50))
    Observations.from_dense(cells).to_store(tmp_path / "s")
    np.testing.assert_allclose(Observations.open(tmp_path / "s").values.reshape(40, 50), cells, rtol=1e-7)


@pytest.mark.parametrize("kind", ["<M8[s/0]", "<M8[0s]", "(1,i4", "f4,[", "<U3", "|b1", "O", "<m8[s]", "x" * 5000])
def test_types_of_times(kind: str, tmp_path: Path) -> None:
    """NumPy divides by zero while it reads the first one, which ends the process."""
    path = written(tmp_path / "s")
    lie_in_manifest(path, ("files", "times", "type"), kind)
    for trust in (True, False):
        with pytest.raises(InputError, match="its entry 'times' cannot be"):
            Observations.open(path, trust=trust)


@pytest.mark.parametrize("times", [["2020", "2021"], [True, False], np.array([1, 2], "m8[s]")])
def test_times_that_could_not_be_read_are_not_written(times: Any, tmp_path: Path) -> None:
    obs = Observations.from_coo([0, 1], [0, 1], [1.0, 2.0], times=np.asarray(times))
    with pytest.raises(InputError, match="times in a store must be numbers or dates"):
        obs.to_store(tmp_path / "s")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("times", [[1, 2], [0.5, np.nan], np.array(["2020", "2021"], "M8[D]"), np.array([1, 2], "u1")])
def test_times_of_usual_types(times: Any, tmp_path: Path) -> None:
    obs = Observations.from_coo([0, 1], [0, 1], [1.0, 2.0], times=np.asarray(times))
    obs.to_store(tmp_path / "s")
    np.testing.assert_array_equal(Observations.open(tmp_path / "s").times, obs.times)
