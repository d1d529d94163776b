"""The model file: what was saved comes back, and what is damaged is refused in one sentence."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from accams import __version__
from accams.errors import ModelFileError
from accams.model import file
from accams.model.stencils import StencilSum


def model(shape=(9, 7), shapes=((3, 2), (1, 4), (300, 2))) -> StencilSum:
    rng = np.random.default_rng(0)
    made = StencilSum(shape, 0.1 + 0.2, (), *(np.array([1, 5])[np.array([1, 5]) < size] for size in shape))
    for k in shapes:
        made = made.append(rng.normal(size=k), *(rng.integers(0, a, size) for a, size in zip(k, shape, strict=True)))
    return made


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.accams"
    file.save(path, model())
    return path


def refused(path: Path, match: str | None = None) -> str:
    """Reading it raises a ModelFileError of one sentence that names the file."""
    with pytest.raises(ModelFileError, match=match) as caught:
        file.read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def altered(path: Path, change, header=None) -> None:
    """Write the file again with other tensors and other header entries (None drops one)."""
    tensors = load_file(path)
    change(tensors)
    about = {"format": 1, "version": __version__, "shape": [9, 7], "offset": 0.5, **(header or {})}
    about = {key: x for key, x in about.items() if x is not None}
    save_file(tensors, path, metadata={"accams": json.dumps(about)})


@pytest.mark.parametrize(
    "made", [model(), model(shapes=()), model((1, 1), [(1, 1)]), model((400, 3), [(300, 3), (2, 2)])]
)
def test_round_trip(tmp_path, made):
    file.save(tmp_path / "m", made)
    read, header, rest = file.read(tmp_path / "m")
    assert (read.shape, read.offset, len(read)) == (made.shape, made.offset, len(made))
    assert header["version"] == __version__
    assert rest == {}
    for name in ("templates", "row_labels", "col_labels"):
        for one, other in zip(getattr(read, name), getattr(made, name), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(read.unseen_rows, made.unseen_rows)
    np.testing.assert_array_equal(read.unseen_cols, made.unseen_cols)
    np.testing.assert_array_equal(read.dense(), made.dense())
    assert read.bits == made.bits


def test_a_method_of_the_model_saves_too(tmp_path):
    model().save(str(tmp_path / "m"))
    np.testing.assert_array_equal(file.read(str(tmp_path / "m"))[0].dense(), model().dense())


def test_the_same_model_gives_the_same_bytes(tmp_path, saved):
    file.save(tmp_path / "again", model())
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_header_and_tensors_of_others(tmp_path):
    file.save(tmp_path / "m", model(), {"class": "X", "nested": {"a": [1, 2]}}, {"ids": np.arange(3)})
    _, header, rest = file.read(tmp_path / "m")
    assert header["class"] == "X"
    assert header["nested"] == {"a": [1, 2]}
    np.testing.assert_array_equal(rest["ids"], np.arange(3))


# -- damage -------------------------------------------------------------------------------------------------------


def test_truncated_files(saved):
    whole = saved.read_bytes()
    for size in [*range(0, len(whole), 50), len(whole) - 1]:
        saved.write_bytes(whole[:size])
        refused(saved)


def test_flipped_bytes_of_the_header(saved):
    """Either refused, or still a model of the same shape: a digit of the offset, say, cannot be told from another."""
    whole = saved.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    refusals = []
    for position in range(end):
        for flip in (0x01, 0x0F, 0x57, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            saved.write_bytes(damaged)
            try:
                read = file.read(saved)[0]
            except ModelFileError as error:
                refusals.append(str(error))
            else:
                assert read.shape == (9, 7)
                read.predict([0, -1], [0, -1])
    assert len(refusals) > 2 * end
    assert not any("\n" in message for message in refusals)


def no_change(tensors) -> None:
    pass


TENSORS = ("templates", "template_shapes", "row_labels", "col_labels", "unseen_rows", "unseen_cols")


@pytest.mark.parametrize("name", TENSORS)
def test_missing_tensors(saved, name):
    altered(saved, lambda tensors: tensors.pop(name))
    assert name in refused(saved, "damaged")


@pytest.mark.parametrize("name", TENSORS[:4])
def test_tensors_of_the_wrong_length(saved, name):
    altered(saved, lambda tensors: tensors.update({name: tensors[name][:-1].copy()}))
    refused(saved, "damaged")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("template_shapes", np.array([[3, 2], [1, 4], [-300, -2]], np.int32)),
        ("template_shapes", np.array([3, 2, 1, 4], np.int32)),
        ("row_labels", np.full((3, 9), 299, np.uint16)),
        ("row_labels", np.zeros((3, 8), np.uint8)),
        ("col_labels", np.zeros((3, 7), np.float32)),
        ("col_labels", np.zeros(3, np.uint8)),
        ("templates", np.zeros((610, 2), np.float32)),
        ("templates", np.zeros(611, np.float32)),
        ("unseen_rows", np.array([99])),
        ("unseen_cols", np.array([0.5])),
        ("unseen_cols", np.array([-100])),
    ],
)
def test_tensors_that_make_no_sense(saved, name, wrong):
    altered(saved, lambda tensors: tensors.update({name: wrong}))
    refused(saved, "damaged")


@pytest.mark.parametrize("name", ["format", "shape", "offset"])
def test_headers_without_an_entry(saved, name):
    altered(saved, no_change, {name: None})
    assert name in refused(saved, "damaged")


@pytest.mark.parametrize(
    "header",
    [
        {"shape": [9]}, {"shape": [9, 7, 1]}, {"shape": 9}, {"shape": [7, 9]}, {"shape": ["a", 7]},
        {"shape": [1e999, 7]}, {"offset": "high"}, {"offset": [1]}, {"format": "1"}, {"format": []},
    ],
)  # fmt: skip
def test_headers_that_make_no_sense(saved, header):
    altered(saved, no_change, header)
    refused(saved, "damaged")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")]
)
def test_headers_that_are_no_header(saved, text):
    save_file(load_file(saved), saved, metadata={"accams": text})
    refused(saved)


@pytest.mark.parametrize("offset", [float("nan"), float("inf")])
def test_an_offset_that_is_no_number(saved, offset):
    altered(saved, no_change, {"offset": offset})
    refused(saved)


def test_a_newer_format(saved):
    altered(saved, no_change, {"format": 2, "version": "9.9.9"})
    message = refused(saved, "newer")
    assert "9.9.9" in message
    assert "upgrade" in message


def test_foreign_files(tmp_path):
    foreign = tmp_path / "foreign"
    save_file({"weight": np.zeros(3, np.float32)}, foreign)
    refused(foreign, "is not an accams model")
    save_file({"weight": np.zeros(3, np.float32)}, foreign, metadata={"format": "pt"})
    refused(foreign, "is not an accams model")
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("a", "b" * 1000)
    refused(foreign, "is not an accams model")
    for content in (
        pickle.dumps({"a": np.zeros(99)}),
        b"",
        b"\0" * 4,
        b"\0" * 100,
        b"user,item\n1,2\n" * 99,
        b"\xff" * 99,
    ):
        foreign.write_bytes(content)
        refused(foreign, "is not an accams model")


def test_a_pickle_is_not_opened(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / "trap").write_bytes(pickle.dumps(Trap()))
    refused(tmp_path / "trap")
    assert not (tmp_path / "sprung").exists()


def test_no_file(tmp_path):
    refused(tmp_path / "nowhere", "there is no model file")
    refused(tmp_path, "there is no model file")


# -- writing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_crash_leaves_the_old_file(saved, monkeypatch, step, failure):
    before = saved.read_bytes()

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, step, fail)
    with pytest.raises((OSError, ModelFileError, KeyboardInterrupt)):
        file.save(saved, model(shapes=[(2, 2)]))
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_an_old_file_is_replaced(saved):
    file.save(saved, model(shapes=[(2, 2)]))
    assert len(file.read(saved)[0]) == 1
    assert os.listdir(saved.parent) == [saved.name]


def test_the_file_may_be_read_by_those_whom_the_umask_allows(tmp_path):
    old = os.umask(0o027)
    try:
        file.save(tmp_path / "m", model())
    finally:
        os.umask(old)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ModelFileError, match="cannot write"):
        file.save(tmp_path / "no" / "m", model())


def test_a_folder_in_place_of_the_file(tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(ModelFileError, match="cannot write"):
        file.save(tmp_path / "m", model())
    assert os.listdir(tmp_path) == ["m"]
