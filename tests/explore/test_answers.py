"""Answers for those who look around in a model: by their definitions, one number at a time."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from explored_models import KINDS, M, model, titles

from accams import InputError, Model
from accams.errors import UnknownIdError
from accams.explore import Explorer
from accams.fitted.parts import Parts
from accams.use.hierarchy import centred_lines

ALL = (*KINDS, "bayesian")


@cache
def explorer(kind: str) -> Explorer:
    return Explorer(model(kind), titles(model(kind)), "films", "0123456789ab")


def small(kind: str) -> Parts:
    return model(kind).explainer


def members(of: Model, kind: str, s: int, label: int, itself: int, n: int) -> list[int]:
    """Items with a label by decreasing weight, one at a time."""
    codes, weights = small(kind).stencils.codes, explorer(kind).clusters.weights[1]
    inside = [p for p in range(of.shape[1]) if codes.cols[p, s] == label or label == codes.widths[s] - 1]
    return sorted((p for p in inside if p != itself), key=lambda p: (-weights[p], p))[:n]


@pytest.mark.parametrize("kind", ALL)
def test_every_answer_is_json_and_names_its_model(kind: str) -> None:
    asked, of = explorer(kind), model(kind)
    answers = [asked.model(), asked.stencils(), asked.map(), asked.search("star"), asked.item(of.items[1])]
    if of.predicts:
        answers += [asked.user(of.users[0]), asked.hierarchy("users")]
    if "map" not in kind:
        answers += [asked.hierarchy("items", depth=2, branches=2, members=3)]
    for answer in answers:
        assert (answer["model"], answer["version"]) == ("films", "0123456789ab")
        json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize("kind", ALL)
def test_the_model(kind: str) -> None:
    of, answer = model(kind), explorer(kind).model()
    assert (answer["users"], answer["items"]) == of.shape
    assert answer["draws"] == (None if of.posterior is None else len(of.posterior))
    assert answer["bytes"] == of.file_size
    assert answer["terms"] == len(small(kind).stencils)
    assert answer["lists"] == (of.item_map is not None)
    assert answer["values"] == (list(of.value_range) if of.predicts else None)


@pytest.mark.parametrize("kind", ["accams", "bayesian", "effects", "many sizes", "text ids"])
def test_blocks_of_an_item(kind: str) -> None:
    of, codes = model(kind), small(kind).stencils.codes
    for p in (0, 5, of.shape[1] - 1):
        answer = explorer(kind).item(str(of.items[p]))
        assert answer["item"] == of.items[p]
        assert answer["title"] == titles(of).get(of.items[p])
        assert answer["average"] == pytest.approx(float(of.clipped(of.moments(np.array([-1]), np.array([p]))[0])[0]))
        assert [block["stencil"] for block in answer["blocks"]] == list(range(len(codes.starts)))
        for s, block in enumerate(answer["blocks"]):
            label = int(codes.cols[p, s])
            named = [of.items[q] for q in members(of, kind, s, label, p, 5)]
            assert block["label"] == label
            assert [x["item"] for x in block["members"]] == named
            average = label == codes.widths[s] - 1
            assert block["size"] == (of.shape[1] if average else int((codes.cols[:-1, s] == label).sum()))


@pytest.mark.parametrize("kind", ["accams", "bayesian", "effects", "many sizes"])
def test_who_likes_an_item(kind: str) -> None:
    of, codes = model(kind), small(kind).stencils.codes
    answer, values = explorer(kind).item(of.items[3]), []
    for s in range(len(codes.starts)):
        T = codes.template(s)
        present = [a for a in range(len(T) - 1) if (codes.rows[:-1, s] == a).any()]
        values += [T[a, codes.cols[3, s]] - T[-1, codes.cols[3, s]] for a in present]
    assert [x["value"] for x in answer["liked_by"]] == pytest.approx(sorted(values, reverse=True)[:5])
    for block in answer["liked_by"]:
        s, a = block["stencil"], block["label"]
        line = centred_lines(codes, s, 0)[0][a]
        best = max((c for c in range(len(line)) if (codes.cols[:-1, s] == c).any()), key=lambda c: line[c])
        assert [x["item"] for x in block["likes"]] == [of.items[q] for q in members(of, kind, s, best, -1, 3)]
        assert block["size"] == int((codes.rows[:-1, s] == a).sum())


def test_the_average_row_likes_nothing_and_stands_for_all() -> None:
    of = model("effects")
    for block in explorer("effects").user(of.users[M - 1])["blocks"]:
        assert (block["size"], block["likes"]) == (M, [])


@pytest.mark.parametrize("kind", ["accams", "lists", "both"])
def test_a_user(kind: str) -> None:
    of = model(kind)
    answer = explorer(kind).user("4")
    seen = sorted(of.interactions.of(np.array([4]))[1].tolist())  # type: ignore[union-attr]
    assert (answer["user"], answer["n_seen"], [x["item"] for x in answer["seen"]]) == (4, len(seen), seen)
    assert (answer["average"] is None) == (not of.predicts)
    assert explorer("effects").user(10)["n_seen"] is None


@pytest.mark.parametrize("kind", ["accams", "bayesian", "many sizes"])
def test_stencils(kind: str) -> None:
    codes = small(kind).stencils.codes
    listed = explorer(kind).stencils()["stencils"]
    assert len(listed) == len(codes.starts)
    for s, line in enumerate(listed):
        T = codes.template(s)[:-1, :-1]
        rows, cols = codes.rows[:-1, s], codes.cols[:-1, s]
        cells = np.array([[T[a, c] for c in cols if c < T.shape[1]] for a in rows if a < len(T)])
        assert line["contribution"] == pytest.approx(cells.std(), abs=1e-9)
        one = explorer(kind).stencil(str(s))
        assert np.array_equal(one["template"], T)
        assert [len(one["rows"]), len(one["cols"])] == list(T.shape) == [line["rows"], line["cols"]]


@pytest.mark.parametrize("kind", ["accams", "lists", "both", "bayesian", "many sizes"])
def test_the_path_of_an_item_leads_down_the_tree(kind: str) -> None:
    of, tree = model(kind), explorer(kind).hierarchy()["root"]
    for p in range(1, of.shape[1] - 1):
        node, path = tree, explorer(kind).item(of.items[p])["path"]
        assert path[0] == {key: node[key] for key in ("stencil", "labels", "size", "members")}
        for step in path[1:]:
            [node] = [child for child in node["children"] if child["labels"] == step["labels"]]
            assert step == {key: node[key] for key in ("stencil", "labels", "size", "members")}


@pytest.mark.parametrize("kind", ["accams", "lists", "bayesian", "many sizes"])
def test_the_map_has_the_principal_axes(kind: str) -> None:
    asked, of = explorer(kind), model(kind)
    codes, items = asked._split
    lines = [centred_lines(codes, s, 1) for s in range(len(codes.starts))]
    X = np.concatenate(
        [np.vstack([x, np.zeros(x.shape[1])])[codes.cols[items, s]] * np.sqrt(w) for s, (x, _, w) in enumerate(lines)],
        axis=1,
    )
    U, sizes, _ = np.linalg.svd(X, full_matrices=False)
    expected = (U * sizes)[:, :2]
    answer = asked.map()
    found = np.column_stack([answer["x"], answer["y"]])
    for axis in range(2):
        best = expected[:, axis] / np.abs(expected).max()
        assert np.allclose(found[:, axis], best * np.sign(best @ found[:, axis]), atol=2e-4)
    assert answer["items"] == of.items[items].tolist()
    branches = explorer(kind).hierarchy()["root"]["children"]
    assert [answer["group"].count(g) for g in range(len(branches))] == [x["size"] for x in branches]


def test_unknown_ids_are_told_with_the_nearest() -> None:
    asked = explorer("effects")
    with pytest.raises(UnknownIdError, match=r"there is no item 11 in this model; the nearest ids are 10, 13, 16"):
        asked.item("11")
    with pytest.raises(UnknownIdError, match=r"there is no user 'bob' in this model"):
        asked.user("bob")
    with pytest.raises(UnknownIdError, match=r"there is no stencil 2 in this model: they are numbered from 0 to 1"):
        asked.stencil(2)
    with pytest.raises(UnknownIdError, match=r"there is no stencil 0 in this model: it has none"):
        explorer("no stencil").stencil(0)
    assert issubclass(UnknownIdError, InputError)
    assert explorer("text ids").item("u3")["item"] == "u3"
