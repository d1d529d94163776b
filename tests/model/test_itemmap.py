"""Item maps and weighted interactions: round trips and damage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accams.data.feedback import Feedback
from accams.model import interactions, itemmap
from accams.model.interactions import Interactions, few
from accams.model.itemmap import ItemMap, levels_of, masses_at, scales_of
from accams.model.stencils import StencilSum

RULE = Feedback("ratings", 3.5, 0.3)


def a_map(form: str) -> ItemMap:
    random = np.random.default_rng(0)
    levels, dense, stencils = levels_of(np.array([0.0, 0.09, 1.0, 30.0, 1e6])), None, None
    if form == "dense":
        dense = random.normal(size=(5, 5)).astype(np.float32)
    else:
        labels = np.array([0, 1, 1, 0, 2]), np.array([1, 0, 1, 0, 1])
        stencils = StencilSum((5, 5)).append(random.normal(size=(3, 2)), *labels)
    return ItemMap(stencils, dense, levels, 7.5, 40, RULE, 0.25)


@pytest.mark.parametrize("form", ["dense", "sum"])
def test_round_trip(form):
    one = a_map(form)
    again = itemmap.unpack(*itemmap.pack(one, "auto", "float32"), 5)
    np.testing.assert_array_equal(again.to_dense(), one.to_dense())
    np.testing.assert_array_equal(again.levels, one.levels)
    assert (again.penalty, again.n_users, again.feedback, again.dropout) == (7.5, 40, RULE, 0.25)
    fields, tensors = itemmap.pack(one, "auto", "float32")
    del fields["dropout"]
    assert itemmap.unpack(fields, tensors, 5).dropout == 0.0


def test_entries_are_divided_by_scales_and_have_no_diagonal():
    one = a_map("sum")
    expected = one.stencils.dense() / one.scales[:, None]
    np.fill_diagonal(expected, 0.0)
    expected[0] = 0.0  # nobody chose it: it says nothing
    np.testing.assert_allclose(one.to_dense(), expected)
    assert not np.diagonal(a_map("dense").to_dense()).any()
    assert not ItemMap.empty(np.ones(3), 1.0, 2, RULE).to_dense().any()


@pytest.mark.parametrize("form", ["dense", "sum"])
def test_items_that_are_new_say_nothing(form):
    one = a_map(form)
    grown = itemmap.unpack(*itemmap.pack(one.grown(7), "auto", "float32"), 7)
    assert one.grown(5) is one
    np.testing.assert_array_equal(grown.to_dense()[:5, :5], one.to_dense())
    assert not grown.to_dense()[5:].any()
    assert grown.chosen.tolist() == one.chosen.tolist()


def test_levels_and_scales():
    masses = np.array([0.0, 0.09, 1.0, 30.0, 1e6])
    levels = levels_of(masses)
    assert levels[0] == -512
    np.testing.assert_allclose(masses_at(levels), masses, rtol=0.05)
    assert levels_of(np.array([1e-300, 1e300])).tolist() == [-511, 512]
    np.testing.assert_allclose(scales_of(levels, 10.0), np.sqrt(masses + 10.0), rtol=0.25)
    one = a_map("sum")
    assert one.chosen.tolist() == [1, 2, 3, 4]
    assert one.popularity[0] == 0.0
    assert one.popularity[3] == pytest.approx(30 / 40, rel=0.05)


@pytest.mark.parametrize(
    "wrong",
    [
        {"penalty": 0.0}, {"dropout": 1.0}, {"users": 10**30}, {"feedback": ["votes", 0.0, 0.3, 1.0]}, {"sum": None},
        {"feedback": ["ratings", 0.0, -0.3, 1.0]}, {"feedback": ["ratings", 0.0, 0.3, 0.0]},
        {"feedback": ["ratings", 0.0]},
    ],
    ids=str,
)  # fmt: skip
def test_fields_that_cannot_be(wrong):
    fields, tensors = itemmap.pack(a_map("sum"), "auto", "float32")
    with pytest.raises(ValueError, match=r"."):
        itemmap.unpack({**fields, **wrong}, tensors, 5)


def test_tensors_that_cannot_be():
    fields, tensors = itemmap.pack(a_map("dense"), "auto", "float32")
    nan = np.full((5, 5), np.nan, np.float32)
    for wrong in (nan, np.zeros((5, 4), np.float32), np.zeros((5, 5)), np.zeros(25, np.float32)):
        with pytest.raises(ValueError, match="its map has"):
            itemmap.unpack(fields, {**tensors, "dense": wrong}, 5)
    from accams.model.coding import encode_ints

    for levels in ([-513, 0, 0, 0, 0], [600, 0, 0, 0, 0]):
        with pytest.raises(ValueError, match="how often items were chosen"):
            itemmap.unpack(fields, {**tensors, "levels": encode_ints(np.array(levels))}, 5)
    both = itemmap.pack(a_map("sum"), "auto", "float32")
    with pytest.raises(ValueError, match="no item map, or two"):
        itemmap.unpack(both[0], {**both[1], "dense": tensors["dense"]}, 5)


def test_maps_that_are_more_than_stencils():
    one = a_map("sum")
    effects = np.ones(5, np.float32)
    for more in ({"offset": 1.0}, {"row_effects": effects}, {"col_effects": effects}, {"unseen_cols": np.array([1])}):
        fields, tensors = itemmap.pack(replace(one, stencils=replace(one.stencils, **more)), "auto", "float32")
        with pytest.raises(ValueError, match="no plain sum of stencils"):
            itemmap.unpack(fields, tensors, 5)


# -- weighted interactions ----------------------------------------------------------------------------------------


def some(weights: np.ndarray | None = None, seed: int = 0) -> Interactions:
    random = np.random.default_rng(seed)
    rows, cols = np.nonzero(random.random((40, 25)) < 0.3)
    order = random.permutation(len(rows))
    weights = random.choice([0.3, 1.0], len(rows)) if weights is None else weights[: len(rows)]
    return Interactions.at(rows[order], cols[order], 40, weights.astype(np.float32))


@pytest.mark.parametrize("piece", [1, 50, 1 << 22])
def test_weights_go_with_their_columns(piece, monkeypatch):
    monkeypatch.setattr(interactions, "PIECE", piece)
    one = some()
    again = interactions.unpack(*interactions.pack(one), (40, 25))
    expected = one.ordered()
    np.testing.assert_array_equal(again.starts, expected.starts)
    np.testing.assert_array_equal(again.columns, expected.columns)
    np.testing.assert_array_equal(again.weights, expected.weights)


def test_many_weights_are_rounded():
    weights = np.exp(np.random.default_rng(0).normal(0, 3, 2000))
    weights[5] = 0.0
    rounded = few(weights)
    assert len(np.unique(rounded)) <= 256
    assert rounded[5] == 0.0
    positive = weights > weights.max() * 2.0**-30
    np.testing.assert_allclose(rounded[positive], weights[positive], rtol=0.05)
    np.testing.assert_array_equal(few(rounded), rounded)
    again = interactions.unpack(*interactions.pack(some(weights)), (40, 25))
    np.testing.assert_array_equal(np.sort(again.weights), np.sort(few(some(weights).weights)))


def test_parts_of_interactions():
    one, new = some(), some(seed=1)
    taken = one.take(np.array([3, -1, 3]))
    lo, hi = one.starts[3:5]
    assert np.diff(taken.starts).tolist() == [hi - lo, 0, hi - lo]
    np.testing.assert_array_equal(taken.weights[: hi - lo], one.weights[lo:hi])
    put = one.put(np.array([1, 41]), 42, new.take(np.array([0, 2])))
    assert len(put.starts) == 43
    np.testing.assert_array_equal(put.take(np.array([41])).weights, new.take(np.array([2])).weights)
    np.testing.assert_array_equal(put.take(np.array([0])).weights, one.take(np.array([0])).weights)
    np.testing.assert_array_equal(one.without(3).take(np.array([3])).weights, one.take(np.array([4])).weights)


def test_interactions_of_nobody():
    none = Interactions(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    assert none.take(np.array([-1, -1])).starts.tolist() == [0, 0, 0]
    unweighted = Interactions(np.array([0, 2]), np.array([3, 1]))
    put = unweighted.put(np.array([1]), 2, Interactions(np.array([0, 1]), np.array([4]), np.array([0.3], np.float32)))
    assert put.weights.tolist() == [1.0, 1.0, np.float32(0.3)]


@pytest.mark.parametrize("table", [np.array([np.nan, 1.0]), np.array([-1.0, 1.0]), np.zeros((1, 1)), np.zeros(0)])
def test_weights_that_cannot_be(table):
    sizes, tensors = interactions.pack(some())
    with pytest.raises(ValueError, match="the weights of interactions cannot be"):
        interactions.unpack(sizes, {**tensors, "weights": table.astype(np.float32)}, (40, 25))
    with pytest.raises(ValueError, match=r"."):
        interactions.unpack(sizes, {**tensors, "levels": tensors["levels"][:4]}, (40, 25))
