"""Files with packed labels: opened without decoding anything, and the same models all the same."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest
from posteriors import cells, random_sum

import accams
from accams.errors import InputError
from accams.model import packing
from accams.model.packing import Packed
from accams.model.stencils import StencilSum

SHAPES = ((3, 2), (1, 1), (8, 5), (300, 2))


@pytest.fixture
def made():
    return random_sum(0, shapes=SHAPES, unseen=((4,), (0, 6)))


@pytest.fixture
def path(tmp_path, made):
    made.save(tmp_path / "m.accams", coding="packed")
    return tmp_path / "m.accams"


@pytest.fixture
def opened(path) -> StencilSum:
    return accams.load(path).stencils


def never(*_):
    raise AssertionError("labels were decoded")


def same(one: StencilSum, two: StencilSum) -> bool:
    return one.shape == two.shape and np.array_equal(one.predict(*cells(one.shape)), two.predict(*cells(two.shape)))


def test_nothing_is_decoded_on_opening(path, made, monkeypatch):
    for name in ("unpack_bits", "decode_labels"):
        monkeypatch.setattr(packing, name, never)
    opened = accams.load(path).stencils
    assert type(opened.stencils) is Packed
    assert (len(opened), opened.shape, opened.bits, repr(opened)) == (len(made), made.shape, made.bits, repr(made))
    for one, two in zip(opened.templates, made.templates, strict=True):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(AssertionError):
        opened.predict([0], [0])


def test_each_stencil_is_unfolded_when_it_is_asked_for(opened, made, monkeypatch):
    last = opened.stencils[-1]
    np.testing.assert_array_equal(last.row_labels, made.stencils[3].row_labels)
    monkeypatch.setattr(packing, "unpack_bits", never)
    assert opened.stencils[3] is last
    with pytest.raises(AssertionError):
        _ = opened.stencils[0]


def test_predictions_are_equal(opened, made, tmp_path):
    made.save(tmp_path / "coded", coding="entropy")
    coded = accams.load(tmp_path / "coded").stencils
    assert type(coded.stencils) is tuple
    assert same(opened, made)
    assert same(coded, made)
    np.testing.assert_array_equal(opened.dense(), made.dense())


def test_labels_are_equal(opened, made):
    for name in ("row_labels", "col_labels"):
        for one, two in zip(getattr(opened, name), getattr(made, name), strict=True):
            assert one.dtype == two.dtype
            np.testing.assert_array_equal(one, two)


def test_a_packed_model_is_a_sequence(opened):
    stencils = opened.stencils
    assert len(stencils) == 4
    assert list(stencils) == [stencils[p] for p in range(4)] == list(stencils[:])
    assert stencils[1:3] == (stencils[1], stencils[2])
    assert stencils[::-1][0] is stencils[-1]
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            _ = stencils[beyond]


def test_models_made_of_it(opened, made):
    more = np.ones((1, 1)), np.zeros(9, int), np.zeros(7, int)
    assert same(opened.truncate(2), made.truncate(2))
    assert same(opened.append(*more), made.append(*more))
    assert same(opened.truncate(0), made.truncate(0))
    assert same(opened.rounded("int8"), made.rounded("int8"))
    with pytest.raises(InputError, match="cannot be cut to 5"):
        opened.truncate(5)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(
    "copied",
    [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_copies(path, made, copied, used):
    opened = accams.load(path).stencils
    if used:
        opened.predict([0], [0])
    again = copied(opened)
    del opened
    path.unlink()
    assert type(again.stencils) is Packed
    assert same(again, made)


def test_the_file_may_be_deleted_once_it_is_open(opened, path, made):
    path.unlink()
    assert same(opened, made)


def test_the_file_may_be_saved_anew_once_it_is_open(opened, path, made):
    random_sum(1).save(path)
    assert same(opened, made)


def test_a_model_may_be_saved_to_its_own_file(opened, path, made):
    for coding in ("packed", "entropy", "packed"):
        accams.load(path).save(path, coding=coding)
        assert same(accams.load(path).stencils, made)
        accams.load(path).stencils.save(path, coding=coding)
        assert same(accams.load(path).stencils, made)
    assert os.listdir(path.parent) == [path.name]
    assert same(opened, made)


def test_bytes_of_packed_labels(path, opened):
    """Each array of labels begins at a byte of its own; one cluster takes none."""
    widths = [(2, 1), (0, 0), (3, 3), (9, 1)]
    expected = sum(-(-9 * rows // 8) + -(-7 * cols // 8) for rows, cols in widths)
    assert len(opened.stencils.data) == expected


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 65536, 65537])
def test_widths(k, tmp_path):
    labels = np.r_[k - 1, 0, np.random.default_rng(k).integers(0, k, 50)]
    made = StencilSum((52, 1)).append(np.arange(k)[:, None], labels, [0])
    made.save(tmp_path / "m", coding="packed")
    opened = accams.load(tmp_path / "m").stencils
    assert len(opened.stencils.data) == -(-52 * (k - 1).bit_length() // 8)
    np.testing.assert_array_equal(opened.row_labels[0], labels)
    assert opened.row_labels[0].dtype == made.row_labels[0].dtype


def test_estimators_are_opened_without_decoding_too(tmp_path, monkeypatch):
    data = np.random.default_rng(0).normal(size=(30, 20))
    model = accams.ACCAMS(3, 4).fit(data)
    model.save(tmp_path / "m", coding="packed")
    with monkeypatch.context() as patch:
        patch.setattr(packing, "unpack_bits", never)
        opened = accams.load(tmp_path / "m")
        assert type(opened.stencils.stencils) is Packed
    pairs = np.argwhere(data < 9)
    np.testing.assert_array_equal(opened.predict(pairs), model.predict(pairs))
    again = pickle.loads(pickle.dumps(opened))
    np.testing.assert_array_equal(again.predict(pairs), model.predict(pairs))


@pytest.mark.parametrize("coding", ["entropy", "packed"])
def test_labels_that_take_no_bits_can_be_read_again(tmp_path, monkeypatch, coding):
    """Stencils of one cluster: a file so small could not stand for so many labels without its padding."""
    monkeypatch.setattr(packing, "LABELS", packing.LABELS._replace(free=1000, per_byte=10))
    made = StencilSum((400, 300), 0.5)
    for _ in range(5):
        made = made.append([[0.25]], np.zeros(400, int), np.zeros(300, int))
    made.save(tmp_path / "m", coding=coding)
    np.testing.assert_array_equal(accams.load(tmp_path / "m").stencils.dense(), made.dense())
    header, tensors = packing.pack(made.stencils, made.shape, coding)
    del tensors["padding"]
    with pytest.raises(ValueError, match="3,500 labels cannot come from"):
        packing.unpack(header, tensors, made.shape)
