"""Answers of one model: requests in, dictionaries out that are ready for JSON.

Items and users are looked up once and then known by their positions: a request takes some tenths of a millisecond.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.explore.answers import Explorer
from accams.explore.contents import plain
from accams.fitted.folding import FoldedRow, clip_answer, fold_in_at
from accams.fitted.model import Model
from accams.fitted.ranking import best_positions, catalogue_of, ranked_by, silent
from accams.model.posterior import with_spread
from accams.serve.explaining import Explaining, Somebody
from accams.serve.problems import Problem
from accams.serve.schemas import ExplainAsk, PredictAsk, RecommendAsk, SimilarAsk, SomebodyAsk
from accams.use.records import POPULAR
from accams.use.scoring import Floats, Positions

Answer = dict[str, Any]
NOUNS = ("user", "item")


class Answers:
    """What a model says to requests about users and items."""

    def __init__(self, model: Model, explorer: Explorer) -> None:
        self.model, self.explorer = model, explorer
        self.explaining = Explaining(model, explorer)

    # -- requests -----------------------------------------------------------------------------------------

    def recommend(self, ask: RecommendAsk) -> Answer:
        """Return the best items for a known user or for somebody new."""
        by = self._by(ask, ask.quantile)
        if ask.interval is not None:
            self.model.need_spread("interval")
        who, leave_out = self._who(ask, ask.unknown), self._leaves_out(ask, by)
        items, scores, rule = (self._by_choice if by == "choice" else self._by_value)(ask, who, leave_out)
        told = self.model.predicts and (by == "value" or not who.is_unknown)
        moments = self._moments(who, items) if told else None
        predicted = None if moments is None else self.model.clipped(moments[0])
        found = [
            {**self.explorer.ref(j), "rank": rank, "score": score, "prediction": value}
            for rank, (j, score, value) in enumerate(zip(items.tolist(), *_paired(scores, predicted), strict=True), 1)
        ]
        if moments is not None:
            self._add_intervals(found, moments, ask.interval)
        if ask.explain:
            for line, explanation in zip(found, self.explaining.of(who, items, by, ask.terms), strict=True):
                line["explanation"] = explanation
        head = {"user": plain(who.name), "by": by, "rule": rule, "excluded_seen": leave_out}
        return {**self.explorer.head, **head, "items": found}

    def predict(self, ask: PredictAsk) -> Answer:
        """Return predictions of pairs, or of items for somebody new."""
        self.model.need_values("predict")
        if ask.interval is not None:
            self.model.need_spread("interval")
        asked = [pair[1] for pair in ask.pairs] if ask.pairs is not None else ask.items or []
        cols = self._positions(1, asked, ask.unknown)
        if ask.pairs is not None:
            names: list[Any] = [pair[0] for pair in ask.pairs]
            rows = self._positions(0, names, ask.unknown)
            users, moments = self._shown(0, rows, names), self.model.moments(rows, cols)
        else:
            users, moments = [None] * len(cols), self._folded(ask).moments(cols)
        mean = self.model.clipped(moments[0]).tolist()
        found = [
            {"user": user, "item": item, "prediction": value}
            for user, item, value in zip(users, self._shown(1, cols, asked), mean, strict=True)
        ]
        self._add_intervals(found, moments, ask.interval)
        return {**self.explorer.head, "predictions": found}

    def similar(self, ask: SimilarAsk) -> Answer:
        """Return the items (or users) most like one."""
        model = self.model
        axis = 0 if ask.item is None else 1
        [place] = self._positions(axis, [ask.user if ask.item is None else ask.item], "error").tolist()
        best = model.similar(self._id(axis, place), ask.n, side=f"{NOUNS[axis]}s", by=ask.by).to_dict()
        names, scores = best[NOUNS[axis]], best["score"].tolist()
        if axis == 0:
            users = [{"user": plain(user), "score": score} for user, score in zip(names.tolist(), scores, strict=True)]
            return {**self.explorer.head, "user": plain(self._id(0, place)), "users": users}
        refs = self.explorer.refs(model.col_index.find(names).tolist())
        items = [{**ref, "score": score} for ref, score in zip(refs, scores, strict=True)]
        return {**self.explorer.head, **self.explorer.ref(place), "items": items}

    def explain(self, ask: ExplainAsk) -> Answer:
        """Return why a prediction, or a place in a list, is what it is."""
        by = self._by(ask)
        who, item = self._who(ask, ask.unknown), self._positions(1, [ask.item], "error")
        return {**self.explorer.head, **self.explaining.of(who, item, by, ask.terms)[0]}

    # -- lists --------------------------------------------------------------------------------------------

    def _by_value(self, ask: RecommendAsk, who: Somebody, leave_out: bool) -> tuple[Positions, None, str]:
        """Return the items with the highest predictions, which are their scores."""
        model, excluded = self.model, self._excluded(ask)
        lower = model.check_order(False, ask.quantile)
        among = None if ask.candidates is None else self._items(ask.candidates)
        n, row = ask.n + len(excluded), np.array([who.row])
        if who.folded is None:
            seen = (model.interactions, row) if leave_out and model.interactions is not None else None
            best = best_positions(model, row, n, seen, catalogue_of(model, among), lower)[0]
        else:  # of a thinner model, where there are many draws
            best = who.folded.best_positions(n, leave_out, catalogue_of(who.folded.model, among), lower)[0]
        rule = "average user" if who.folded is None and model.averaged[who.row] else ""
        return _kept(best, excluded)[: ask.n], None, rule

    def _by_choice(self, ask: RecommendAsk, who: Somebody, leave_out: bool) -> tuple[Positions, Floats, str]:
        """Return the items that people with such a history choose, and their scores."""
        excluded = self._excluded(ask)
        among = None if ask.candidates is None else self._items(ask.candidates)
        best = self.model.recommend(
            who.name if who.folded is None else who.folded,
            ask.n + len(excluded),
            by="choice",
            exclude_seen=leave_out,
            candidates=among,
            unknown=ask.unknown,
        ).to_dict()
        items = self.model.col_index.find(best["item"]) if len(best["item"]) else np.zeros(0, np.int64)
        keep = np.array([j not in excluded for j in items.tolist()], bool)
        rule = POPULAR if len(best["rule"]) and best["rule"][0] == POPULAR else ""
        return items[keep][: ask.n], best["score"][keep][: ask.n], rule

    def _excluded(self, ask: RecommendAsk) -> set[int]:
        """Return the positions of items that the request leaves out."""
        return set(self._positions(1, ask.exclude, "average").tolist()) - {-1} if ask.exclude else set()

    def _leaves_out(self, ask: RecommendAsk, by: str) -> bool:
        """Return whether to leave out what was seen: unless told, where that is known."""
        informed = ask.user is None or self.model.interactions is not None
        if by == "choice" and not informed:
            raise Problem(422, "lists need what a user has chosen: start the service with --history, or give rated")
        if ask.exclude_seen and not informed:
            raise Problem(
                422, "this model does not know what its users have seen: start the service with --history, or set "
                "exclude_seen to false",
            )  # fmt: skip
        return informed if ask.exclude_seen is None else ask.exclude_seen

    def _by(self, ask: RecommendAsk | ExplainAsk, quantile: float | None = None) -> str:
        """Return whether lists are ranked by choice or by value: of somebody without a history only by value."""
        if ask.user is None and ask.rated is None:
            if ask.by == "choice":
                raise Problem(422, "lists by choice need what somebody has rated or chosen: give rated")
            return ranked_by(self.model, "value", quantile)
        if ask.user is not None and ask.by == "auto" and silent(
            self.model, self._positions(0, [ask.user], "average")).all():  # fmt: skip
            return ranked_by(self.model, "value", quantile)
        return ranked_by(self.model, ask.by, quantile)

    # -- who and what is asked about ----------------------------------------------------------------------

    def _who(self, ask: SomebodyAsk, unknown: str) -> Somebody:
        if ask.user is None:
            return Somebody(None, -1, self._folded(ask))
        [row] = self._positions(0, [ask.user], unknown).tolist()
        return Somebody(ask.user if row < 0 else self._id(0, row), row, None)

    def _folded(self, ask: SomebodyAsk | PredictAsk) -> FoldedRow:
        rated = ask.rated or {}
        values = np.array(list(rated.values()), np.float64)
        return fold_in_at(self.model, self._positions(1, list(rated), "error"), values, features=ask.features)

    def _positions(self, axis: int, ids: list[Any], unknown: str) -> Positions:
        """Return the positions of ids, of which text may be that of an integer; -1 where unknown ones are allowed."""
        index = self.model.indices[axis]
        found = [index.place(x) for x in ids]
        if unknown == "error" and min(found, default=0) < 0:
            self.explorer.position(axis, ids[found.index(-1)])  # raises, with the nearest ids
        return np.array(found, np.int64)

    def _items(self, ids: list[Any]) -> NDArray[Any]:
        return self.model.col_index.ids[self._positions(1, ids, "error")]

    def _id(self, axis: int, position: int) -> Any:
        """Return an id as a value of plain Python."""
        return self.model.indices[axis].ids[position : position + 1].tolist()[0]

    def _shown(self, axis: int, positions: Positions, raw: list[Any]) -> list[Any]:
        """Return ids as the model has them, and unknown ones as they were given."""
        ids, known = self.model.indices[axis].ids, positions >= 0
        own = iter(ids[positions[known]].tolist())
        return [plain(next(own) if is_known else x) for is_known, x in zip(known.tolist(), raw, strict=True)]

    # -- predictions --------------------------------------------------------------------------------------

    def _moments(self, who: Somebody, items: Positions) -> tuple[Floats, Floats]:
        if who.folded is not None:
            return who.folded.moments(items)
        return self.model.moments(np.full(len(items), who.row), items)

    def _add_intervals(self, found: list[Answer], moments: tuple[Floats, Floats], level: float | None) -> None:
        """Add the ends of intervals that hold an observation so often."""
        if level is not None:
            ends = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
            both = clip_answer(self.model, with_spread(*moments, np.zeros(1), False, ends), False)[1]
            for line, (low, high) in zip(found, both.tolist(), strict=True):
                line["low"], line["high"] = low, high


def _kept(items: Positions, excluded: set[int]) -> Positions:
    """Return the items that there are, less excluded ones."""
    items = items[items >= 0]
    return items[[j not in excluded for j in items.tolist()]] if excluded else items


def _paired(scores: Floats | None, predicted: Floats | None) -> tuple[Any, Any]:
    """Return scores and predictions for JSON: either stands for the other, or null where there is none."""
    values = None if predicted is None else predicted.tolist()
    if scores is None:
        return values or [], values or []
    return scores.tolist(), values or [None] * len(scores)
