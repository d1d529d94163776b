"""What every model tells about itself: likeness, explanations, a tree, a report. Part of `shared_use.UseTests`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shared_inputs import model_of

import accams
from accams import InputError
from accams.use.records import SimilarItem, SimilarUser


class ReadingTests:
    """Tests of a model of users and items by name; whoever inherits them has the fixture `model`."""

    has_draws = False
    has_spread = False

    # -- similar -------------------------------------------------------------------------------------------

    def sums(self, model: Any) -> list[Any]:
        return model_of(model).codes

    @pytest.mark.parametrize(("side", "name"), [("items", "item 03"), ("users", "user 03")])
    def test_hamming(self, model: Any, side: str, name: str) -> None:
        index = model_of(model).indices[side == "items"]
        codes = [(each.rows, each.cols)[side == "items"] for each in self.sums(model)]
        assert len(codes) == (len(model_of(model).posterior) if self.has_draws else 1)
        p = int(index.positions([name])[0])
        shares = np.mean([(each[:-1] == each[p]).mean(axis=1) for each in codes], axis=0)
        found = model.similar(name, 6, side=side, by="hamming")
        expected = pd.Series(shares, index.ids).drop(name).sort_values(ascending=False)[:6]
        np.testing.assert_allclose([score for _, score in found], expected, rtol=1e-6)
        assert name not in dict(found)
        assert type(found[0]) is {"items": SimilarItem, "users": SimilarUser}[side]
        assert found["score"].tolist() == [one.score for one in found]

    @pytest.mark.parametrize(("side", "name"), [("items", "item 03"), ("users", "user 03")])
    def test_similar_by_what_labels_mean(self, model: Any, side: str, name: str) -> None:
        found = model.similar(name, 5, side=side)
        scores = [score for _, score in found]
        assert scores == sorted(scores, reverse=True)
        assert len(found) == 5
        assert max(scores) <= 1.0 + 1e-6
        among = dict(model.similar(name, 5, side=side, candidates=[found[3][0], found[1][0], name]))
        assert among == {found[1][0]: found[1][1], found[3][0]: found[3][1]}
        back = dict(model.similar(found[0][0], 1000, side=side))
        assert back[name] == pytest.approx(scores[0], abs=1e-6)  # both ways the same

    # -- explain -------------------------------------------------------------------------------------------

    @pytest.mark.some(2)
    @pytest.mark.parametrize(("user", "item"), [("user 00", "item 00"), ("user 21", "item 33"), ("user 50", "item 02")])
    def test_an_explanation_adds_up(self, model: Any, user: str, item: str) -> None:
        why = model.explain(user, item)
        assert why.total() == why.prediction == model.predict([(user, item)])[0]
        parts = [why.offset, *(term.value for term in why.terms), why.effects, why.remainder, why.clipping]
        assert sum(parts) == pytest.approx(why.prediction)
        if not self.has_draws:
            assert abs(why.remainder) < 1e-12
        assert user in str(why)

    def test_blocks_hold_who_is_asked_about(self, model: Any) -> None:
        why = model.explain("user 21", "item 33")
        parts = model_of(model)
        codes = parts.explainer.stencils.codes
        i, j = parts.row_index.positions(["user 21"])[0], parts.col_index.positions(["item 33"])[0]
        assert (why.user, why.item) == ("user 21", "item 33")
        for term in why.terms:
            s = term.stencil
            assert term.value == codes.template(s)[codes.rows[i, s], codes.cols[j, s]]
            for block, labels, p, index in (
                (term.users, codes.rows, i, parts.row_index),
                (term.items, codes.cols, j, parts.col_index),
            ):
                inside = index.ids[np.flatnonzero(labels[:-1, s] == labels[p, s])]
                assert (block.label, block.size) == (labels[p, s], len(inside))
                assert set(block.members) <= set(inside.tolist()) - {"user 21", "item 33"}
                assert len(block.members) == min(5, len(inside) - 1)
            assert (term.row_block, term.col_block) == (term.users, term.items)

    def test_a_guest_is_explained(self, model: Any) -> None:
        guest = model.fold_in({"item 01": 5.0, "item 02": 1.0})
        why = model.explain(guest, "item 09")
        assert why.total() == why.prediction == guest.predict(["item 09"])[0]
        assert why == guest.explain("item 09")

    # -- hierarchy -----------------------------------------------------------------------------------------

    @pytest.mark.some(3)
    @pytest.mark.parametrize("side", ["items", "users"])
    @pytest.mark.parametrize("branches", [2, None])
    def test_a_tree_parts_what_there_is(self, model: Any, side: str, branches: Any) -> None:
        root = model.hierarchy(2, side, branches=branches, least=1, members=100)
        index = model_of(model).indices[side == "items"]
        assert set(root.members) == set(index.ids)
        codes = model_of(model).explainer.stencils.codes
        labels = (codes.rows, codes.cols)[side == "items"]
        for depth, node in root.walk():
            assert len(node.members) == node.size
            assert depth <= 2
            if depth:
                own = labels[index.positions(list(node.members)), node.stencil]
                assert set(own.tolist()) <= set(node.labels)
                assert len(node.line) == codes.template(node.stencil).shape[side == "users"] - 1
            if node.children:
                assert sorted(x for child in node.children for x in child.members) == sorted(node.members)
                assert branches is None or len(node.children) <= branches
        assert len({depth for depth, _ in root.walk()}) == 3

    def test_a_tree_can_be_pruned_and_filtered(self, model: Any) -> None:
        some = [item for item in (f"item {p:02}" for p in range(0, 40, 2)) if item in model_of(model).items]
        root = model.hierarchy(2, candidates=some, least=5, members=3)
        assert root.size == len(some)
        assert all(node.size >= 5 and len(node.members) == 3 for _, node in root.walk())
        odd = model.hierarchy(1, least=1, members=100, keep=lambda ids: [x for x in ids if x[-1] in "13579"])
        assert all(x[-1] in "13579" for child in odd.children for x in child.members)
        first = model.hierarchy(1, stencils=[1])
        assert {child.stencil for child in first.children} == {1}

    def test_a_tree_is_shown(self, model: Any) -> None:
        root = model.hierarchy(1, members=2, least=1)
        lines = str(root).splitlines()
        assert len(lines) == 1 + len(root.children)
        assert lines[0].startswith(f"{root.size}: item")
        nested = root.to_dict(str.upper)
        assert nested["size"] == root.size
        assert nested["children"][0]["members"][0] == root.children[0].members[0].upper()
        json.dumps(nested)

    def test_evaluation(self, model: Any) -> None:
        pairs = [("user 00", "item 00"), ("user 01", "item 02"), ("nobody", "item 03")]
        found = model.evaluate(pairs, [3.0, 4.0, 2.0])
        assert found.rmse == pytest.approx(np.sqrt(np.mean((model.predict(pairs) - [3.0, 4.0, 2.0]) ** 2)))
        assert found.new == pytest.approx((1 / 3, 0.0))
        assert bool(found.coverage) == self.has_spread == model_of(model).has_spread

    def test_diagnostics(self, model: Any) -> None:
        if not model_of(model).fit_history:  # compressed
            with pytest.raises(InputError, match="has no record of its fit"):
                model.diagnostics()
            return
        found = model.diagnostics()
        assert found.entropy.shape == (len(found.rmse), len(model_of(model).stencils), 2)
        assert (found.entropy >= 0.0).all()
        assert ((found.changed >= 0.0) & (found.changed <= 1.0)).all()

    def test_a_report(self, model: Any) -> None:
        facts = accams.report.gather(model_of(model))
        assert facts.shape == model_of(model).shape
        assert [len(alike) for _, alike in facts.similar] == [5] * 8
        assert 'id="tree"' in accams.report.page.html(facts, "model", "")
