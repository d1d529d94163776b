"""Files whose checksums are right but whose content lies: refused in one line, quickly and in little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from damage import parts, refused_quickly, rewritten
from posteriors import random_sum

from accams.model import file
from accams.model.coding import encode_ints, encode_labels
from accams.model.stencils import StencilSum

INT64 = np.iinfo(np.int64)


@pytest.fixture(params=["entropy", "packed"])
def path(request, tmp_path: Path) -> Path:
    """A model with a template of floats and two of whole steps, with effects, and rows and columns never seen."""
    made = random_sum(0, shapes=((3, 2), (1, 4), (5, 3)), unseen=((1, 5), (3,)), effects=True)
    stencils = made.stencils[0], *made.rounded("int8").stencils[1:]
    rest = made.unseen_rows, made.unseen_cols, made.row_effects, made.col_effects
    file.save(tmp_path / "m", StencilSum(made.shape, made.offset, stencils, *rest), coding=request.param)
    return tmp_path / "m"


def test_a_file_written_again_is_the_same(path):
    before = file.read(path).dense()
    np.testing.assert_array_equal(file.read(rewritten(path)).dense(), before)


@pytest.mark.parametrize(
    "header",
    [
        {"shape": [9]}, {"shape": [9, 7, 1]}, {"shape": 9}, {"shape": [7, 9]}, {"shape": ["a", 7]}, {"shape": None},
        {"shape": [1e999, 7]}, {"shape": [9, 8]}, {"shape": [-9, 7]}, {"shape": [0, 0]}, {"shape": [2**40, 7]},
        {"shape": [2**63, 2**63]}, {"shape": [10**400, 7]}, {"shape": {}},
        {"offset": "high"}, {"offset": [1]}, {"offset": float("nan")}, {"offset": float("inf")}, {"offset": None},
        {"stencils": -1}, {"stencils": 0}, {"stencils": 2}, {"stencils": 4}, {"stencils": 10**5}, {"stencils": "all"},
        {"stencils": 10**30}, {"stencils": float("inf")}, {"stencils": float("nan")}, {"stencils": []},
        {"unseen": [1, 1]}, {"unseen": [3, 1]}, {"unseen": [2, 2]}, {"unseen": [-2, 5]}, {"unseen": [9, 8]},
        {"unseen": [2**40, 1]}, {"unseen": [2]}, {"unseen": [2, 1, 0]}, {"unseen": "21"}, {"unseen": [2.0, 1.0]},
        {"unseen": [None, None]}, {"unseen": 3},
    ],
    ids=lambda each: str(each)[:40],
)  # fmt: skip
def test_headers(path, header):
    refused_quickly(rewritten(path, header))


@pytest.mark.parametrize("name", ["kind", "format", "shape", "offset", "stencils"])
def test_missing_entries_of_the_header(path, name):
    assert name in refused_quickly(rewritten(path, {name: ...}))


@pytest.mark.parametrize("steps", [[1, 0, 3], [5, -4, 3]])
def test_unseen_positions_that_do_not_ascend(path, steps):
    assert "ascend" in refused_quickly(rewritten(path, tensors={"unseen": encode_ints(np.array(steps))}))


TENSORS = ["labels", "sizes", "templates", "whole", "steps", "unseen"]
ALL = [*TENSORS, "models", "row_effects", "col_effects"]


def test_names_of_tensors(path):
    """The tests below are of all tensors that there are; packed labels have no models."""
    assert parts(path)[1].keys() == set(ALL) - (set() if parts(path)[0]["coded"] else {"models"})


@pytest.mark.parametrize("name", TENSORS)
def test_missing_tensors(path, name):
    refused_quickly(rewritten(path, tensors={name: ...}))


def wrong_lengths(tensor: np.ndarray) -> list[np.ndarray]:
    return [tensor[:-1], tensor[:0], np.append(tensor, tensor), np.append(tensor, tensor[:1])]


@pytest.mark.parametrize("name", [*TENSORS, "row_effects", "col_effects"])
def test_tensors_of_the_wrong_length(path, name):
    for wrong in wrong_lengths(parts(path)[1][name]):
        refused_quickly(rewritten(path, tensors={name: wrong}))


@pytest.mark.parametrize("path", ["entropy"], indirect=True)
def test_models_of_the_wrong_length_or_missing(path):
    for wrong in (..., *wrong_lengths(parts(path)[1]["models"])):
        refused_quickly(rewritten(path, tensors={"models": wrong}))


@pytest.mark.parametrize("name", ALL)
def test_tensors_of_the_wrong_kind(path, name):
    """Many numbers in place of bytes, or a table of them: never an error from within."""
    whole = parts(path)[1].get(name, np.zeros(0))
    for wrong in (
        np.zeros(64, np.int64),
        np.zeros((8, 8), np.uint8),
        np.zeros((64, 1), np.float16),
        np.zeros(64, bool),
    ):
        refused_quickly(rewritten(path, tensors={name: wrong}))
    refused_quickly(rewritten(path, tensors={name: whole.reshape(-1, 1) if whole.size else np.zeros((3, 1))}))


@pytest.mark.parametrize(
    "k",
    [
        [3, 1, 5, 2, 4, 2], [3, 1, 5, 2, 4, 4], [5, 3, 1, 2, 4, 3], [0, 1, 5, 2, 4, 3], [-3, 1, 5, -2, 4, 3],
        [3, 1, 5, 2, 4, 0], [2**20, 1, 5, 2, 4, 3], [2**31, 1, 5, 2, 4, 3], [2**31, 1, 5, 2**31, 4, 3],
        [2**31 + 1, 1, 5, 2, 4, 3], [INT64.max, 1, 5, 2, 4, 3], [INT64.max] * 6, [INT64.min] * 6, [3, 1, 5, 2, 4],
        [2**62, 1, 5, 4, 4, 3],
    ],
)  # fmt: skip
def test_numbers_of_clusters(path, k):
    refused_quickly(rewritten(path, tensors={"sizes": encode_ints(np.array(k))}))


@pytest.mark.parametrize("steps", [[0, np.nan, 1], [0, np.inf, 1], [0, -np.inf, 1], [1, 1, 1], [0, 0, 0], [0, 0, 1]])
def test_steps(path, steps):
    refused_quickly(rewritten(path, tensors={"steps": np.array(steps, np.float32)}))


@pytest.mark.parametrize("positions", [[1, 99, 3], [-1, 5, 3], [1, 5, 7], [1, 5, -1], [INT64.max, 1, 3]])
def test_rows_and_columns_never_seen(path, positions):
    differences = np.r_[positions[0], positions[1] - positions[0], positions[2]]
    refused_quickly(rewritten(path, tensors={"unseen": encode_ints(differences)}))


@pytest.mark.parametrize("wrong", [np.full(9, np.nan, np.float32), np.full(9, np.inf), np.zeros(8, np.float32)])
def test_row_effects(path, wrong):
    refused_quickly(rewritten(path, tensors={"row_effects": wrong}))


def test_labels_of_another_size(path):
    k = [3, 1, 5, 2, 4, 3]
    for sizes in ((8, 7), (10, 7), (9, 6), (9, 8)):
        stream, models = encode_labels([np.arange(sizes[p // 3]) % k[p] for p in range(6)], k)
        refused_quickly(rewritten(path, tensors={"labels": stream, "models": models}))
    refused_quickly(rewritten(path, tensors={"labels": np.zeros(3, np.uint8), "models": ...}))


@pytest.mark.parametrize(
    "models",
    [
        [8, 8, INT64.max, INT64.max, 258, 128, 128],
        [8, 8, 2**40, 256 - 2**40, 0, 128, 128],
        [8, 8, 300, -44, 0, 128, 128],
        [8, 8, 100, 100, 55, 128, 128],
        [9, 8, 256, 128, 128, 128, 128],
        [63, 8, 256, 128, 128, 128, 128],
    ],
)
def test_frequencies(tmp_path, models):
    """The first would crash the decoder, were it not for a check: its sum is right again after an overflow."""
    random_sum(0, shapes=((3, 2),)).save(tmp_path / "m", coding="entropy")
    refused_quickly(rewritten(tmp_path / "m", tensors={"models": encode_ints(np.array(models))}))


def test_more_clusters_than_the_decoder_has_room_for(tmp_path):
    """Templates of zeros take no room, so there may be many of them."""
    random_sum(0, shapes=((3, 2),)).save(tmp_path / "m", coding="entropy")
    k = 1_000_000
    lies = {
        "sizes": encode_ints(np.array([k, 1])),
        "whole": encode_ints(np.zeros(k, np.int64)),
        "steps": np.ones(1, np.float32),
        "models": encode_ints(np.r_[8, 8, 256, np.zeros(k - 1, np.int64), 256]),
        "labels": np.array([1, 0, 0, 0], np.uint8),
        "templates": ...,
    }
    refused_quickly(rewritten(tmp_path / "m", tensors=lies))
