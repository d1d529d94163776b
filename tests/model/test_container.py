"""The container: exact round trips, and a file with a single changed byte is refused in one line."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from damage import little_memory, put, refused, sealed
from safetensors import safe_open
from safetensors.numpy import load, save_file

from accams import __version__
from accams.model import container

HEADER = {"kind": "model", "format": 1, "note": 'ü "quoted"\n', "nested": {"a": [1, 2.5, None, True]}}
TENSORS = {
    "bytes": np.arange(5, dtype=np.uint8),
    "table": np.arange(6, dtype=np.int16).reshape(2, 3),
    "none": np.zeros((0, 4), np.float32),
    "floats": np.array([0.1, -np.inf, np.nan]),
}
DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "?"]
KINDS = ["model", "checkpoint"]


def read(path, kind="model", newest=1):
    return container.read(path, kind, newest)


def written(path: Path, header=None, tensors=TENSORS) -> bytes:
    content = container.to_bytes({**HEADER, **(header or {})}, tensors)
    put(path, content)
    return content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written(tmp_path / "m")
    return tmp_path / "m"


# -- round trips --------------------------------------------------------------------------------------------------


def test_header_and_tensors_come_back(path):
    header, tensors = read(path)
    assert header.pop("version") == __version__
    assert set(header.pop("checksums")) == set(TENSORS)
    assert header == HEADER
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert (tensors[name].dtype, tensors[name].shape) == (tensor.dtype, tensor.shape)
        np.testing.assert_array_equal(tensors[name], tensor)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (2, 3), (3, 0, 2), (2, 1, 4, 1)])
def test_tensors_of_every_type(tmp_path, dtype, shape):
    tensor = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    written(tmp_path / "m", tensors={"x": tensor, "before": np.zeros(3, np.uint8)})
    again = read(tmp_path / "m")[1]["x"]
    assert (again.dtype, again.shape) == (tensor.dtype, shape)
    np.testing.assert_array_equal(again, tensor)


def test_no_tensors(tmp_path):
    written(tmp_path / "m", tensors={})
    assert read(tmp_path / "m")[1] == {}


def test_tensors_that_are_not_contiguous(tmp_path):
    table = np.arange(24).reshape(4, 6)
    written(tmp_path / "m", tensors={"turned": table.T, "every other": table[:, ::2], "column": table[:, 1]})
    again = read(tmp_path / "m")[1]
    np.testing.assert_array_equal(again["turned"], table.T)
    np.testing.assert_array_equal(again["every other"], table[:, ::2])
    np.testing.assert_array_equal(again["column"], table[:, 1])


@pytest.mark.parametrize(
    "text", ['"checksum":"00000000"', "checksum", '\\"checksum\\":\\"00000000\\"', "\0", "\u2028😀"]
)
def test_headers_that_speak_of_checksums(tmp_path, text):
    tensors = {"checksum": np.arange(3), text: np.arange(4)}
    written(tmp_path / "m", {"note": text, text: {"checksum": "00000000"}}, tensors)
    header, again = read(tmp_path / "m")
    assert header["note"] == text
    assert header[text] == {"checksum": "00000000"}
    np.testing.assert_array_equal(again[text], np.arange(4))


def test_other_programs_can_read_it(path):
    """It is a safetensors file, with our header as a string of metadata."""
    for name, tensor in load(path.read_bytes()).items():
        np.testing.assert_array_equal(tensor, TENSORS[name])
    with safe_open(path, "np") as opened:
        assert set(opened.keys()) == set(TENSORS)
        assert json.loads(opened.metadata()["accams"])["note"] == HEADER["note"]


def test_tensors_are_views_of_the_file(path):
    tensors = read(path)[1]
    assert not any(x.flags.owndata for x in tensors.values() if x.size)
    assert not any(x.flags.writeable for x in tensors.values() if x.size)


# -- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flip", [0x01, 0x02, 0x20, 0x80, 0xFF])
def test_every_flipped_byte_is_refused(path, flip):
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= flip
        put(path, damaged)
        refused(path, "is not an accams model, or it is damaged", read)


def test_every_truncation_is_refused(path):
    whole = path.read_bytes()
    for size in range(len(whole)):
        put(path, whole[:size])
        refused(path, "is not an accams model, or it is damaged", read)


@pytest.mark.parametrize("more", [b"\0", b" ", b"\n", b"\0" * 8, b"x" * 5000])
def test_appended_bytes_are_refused(path, more):
    put(path, path.read_bytes() + more)
    refused(path, "incomplete, or bytes follow", read)


@pytest.mark.parametrize("length", [0, 1, 7, 2**20, 10**8, 10**8 + 1, 2**31, 2**40, 2**63, 2**64 - 1])
def test_absurd_lengths_of_the_header(path, length):
    whole = path.read_bytes()
    put(path, length.to_bytes(8, "little") + whole[8:])
    with little_memory(1e7):
        refused(path, "damaged", read)


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_files(tmp_path, kind):
    foreign = tmp_path / "foreign"
    message = f"is not {container.NAMES[kind][1]}, or it is damaged"
    save_file({"weight": np.zeros(3, np.float32)}, foreign)
    refused(foreign, message, lambda p: read(p, kind))
    save_file({"weight": np.zeros(3, np.float32)}, foreign, metadata={"accams": json.dumps(HEADER), "checksum": "0"})
    refused(foreign, message, lambda p: read(p, kind))
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("a", "b" * 1000)
    refused(foreign, message, lambda p: read(p, kind))
    for content in (
        b"", b"\0", b"\0" * 8, b"\0" * 100, b"\xff" * 99, b"user,item\n1,2\n" * 99, pickle.dumps({"a": np.zeros(99)}),
        b'{"accams": 1, "checksum":"00000000"}', np.random.default_rng(0).bytes(5000),
    ):  # fmt: skip
        put(foreign, content)
        refused(foreign, message, lambda p: read(p, kind))


def test_a_pickle_is_not_opened(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / "trap").write_bytes(pickle.dumps(Trap()))
    refused(tmp_path / "trap", read=read)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(("kind", "name"), [("model", "model file"), ("checkpoint", "checkpoint")])
def test_no_file(tmp_path, kind, name):
    for nothing in (tmp_path / "nowhere", tmp_path, tmp_path / "no" / "folder"):
        refused(nothing, f"there is no {name}", lambda p: read(p, kind))


def test_the_other_kind(path):
    refused(
        path, r"is not a checkpoint of accams, or it is damaged \(it is an accams model\)", lambda p: read(p, KINDS[1])
    )
    written(path, {"kind": "checkpoint"})
    refused(path, r"is not an accams model, or it is damaged \(it is a checkpoint of accams\)", read)


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_format(path, kind):
    written(path, {"kind": kind, "format": 2, "version": "9.9.9"})
    message = refused(path, read=lambda p: read(p, kind))
    assert (
        message == f"{path} was written by accams 9.9.9, which is newer than this one ({__version__}): upgrade accams"
    )
    assert read(path, kind, newest=2)[0]["version"] == "9.9.9"


# -- invalid content with valid checksums -------------------------------------------------------------------------

ABOUT = {"kind": "model", "format": 1, "version": "0", "checksums": {}}
DATA = bytes(range(8))
PLACE = {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}


def about(**tensors: bytes):
    from zlib import crc32

    return {**ABOUT, "checksums": {name: crc32(data) for name, data in tensors.items()}}


def test_a_sealed_file_is_a_file(path):
    """The tests below write files in this way."""
    put(path, sealed({"x": PLACE}, about(x=DATA), DATA))
    np.testing.assert_array_equal(read(path)[1]["x"], np.arange(8))


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "U9"}, {"dtype": "I64"}, {"dtype": None}, {"dtype": ["U8"]}, {"dtype": "BF16"},
        {"shape": [7]}, {"shape": [9]}, {"shape": [-8]}, {"shape": [-2, -4]}, {"shape": [2**62, 2**62]}, {"shape": 8},
        {"shape": [1] * 99 + [8]}, {"shape": ["8"]}, {"shape": [8.0]}, {"shape": [1e999]}, {"shape": [[8]]},
        {"shape": None}, {"shape": [0, 2**62]}, {"shape": [10**4000]},
        {"data_offsets": [0, 7]}, {"data_offsets": [0, 9]}, {"data_offsets": [-8, 0]}, {"data_offsets": [8, 16]},
        {"data_offsets": [8, 0]}, {"data_offsets": [0, 2**62]}, {"data_offsets": [0]}, {"data_offsets": [0, 8, 8]},
        {"data_offsets": 8}, {"data_offsets": [None, None]}, {"data_offsets": [0.0, 8.0]}, {"data_offsets": "08"},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_entries_of_tensors(path, change):
    put(path, sealed({"x": {**PLACE, **change}}, about(x=DATA), DATA))
    with little_memory(1e7):
        refused(path, "damaged", read)


@pytest.mark.parametrize(
    "places",
    [
        {}, {"x": None}, {"x": []}, {"x": 3}, {"x": "U8"}, {"x": {}}, {"x": PLACE, "y": PLACE}, [], [PLACE],
        {"x": {**PLACE, "shape": [4], "data_offsets": [4, 8]}},
        {"x": PLACE, "y": {**PLACE, "shape": [0], "data_offsets": [8, 8]}},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_tables_of_tensors(path, places):
    put(path, sealed(places, about(x=DATA), DATA))
    refused(path, "damaged", read)


@pytest.mark.parametrize(
    "header",
    [
        "", "{", "[]", "3", "null", '"text"', "[" * 5000, "NaN", {}, {**ABOUT, "kind": "picture"},
        {**ABOUT, "kind": []},
        {**ABOUT, "kind": None}, {**ABOUT, "format": "1"}, {**ABOUT, "format": []}, {**ABOUT, "format": None},
        {**about(x=DATA), "format": 0},
        {**about(x=DATA), "format": -1}, {**about(x=DATA), "format": 0.5}, {**about(x=DATA), "format": True},
        {**ABOUT, "checksums": {"x": 0}}, {**ABOUT, "checksums": None}, {**ABOUT, "checksums": []},
        {**ABOUT, "checksums": {"y": 0}},
        {key: x for key, x in about(x=DATA).items() if key != "kind"},
        {key: x for key, x in about(x=DATA).items() if key != "format"},
        {key: x for key, x in about(x=DATA).items() if key != "checksums"},
        {**about(x=DATA), "checksums": {**about(x=DATA)["checksums"], "y": 0}},
    ],
    ids=lambda each: str(each)[:40],
)  # fmt: skip
def test_invalid_headers(path, header):
    put(path, sealed({"x": PLACE}, header, DATA))
    refused(path, "damaged", read)


def test_many_empty_tensors_are_read_quickly(path):
    names = [f"t{p}" for p in range(20_000)]
    places = {name: {**PLACE, "shape": [0], "data_offsets": [0, 0]} for name in names}
    put(path, sealed(places, about(**dict.fromkeys(names, b""))))
    began = perf_counter()
    assert len(read(path)[1]) == 20_000
    assert perf_counter() - began < 5
