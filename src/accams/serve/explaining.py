"""Explanations of many items at once: the values of all terms as one table, and names of the largest alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from accams.explore.answers import Explorer
from accams.fitted.expecting import speaking_traits
from accams.fitted.folding import FoldedRow, traits_of
from accams.fitted.listing import guest_of, known_users, reasons
from accams.fitted.model import Model
from accams.use.ids import as_ids
from accams.use.scoring import Floats, Positions

Answer = dict[str, Any]


@dataclass(frozen=True)
class Somebody:
    """Who is asked about: a user of the model by id and position, or somebody new."""

    name: Any
    row: int  # -1: not in the model
    folded: FoldedRow | None

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known, not even what was rated."""
        return self.folded is None and self.row < 0


class Explaining:
    """Explains predictions and scores of one model."""

    def __init__(self, model: Model, explorer: Explorer) -> None:
        self.model, self.explorer = model, explorer

    def of(self, who: Somebody, items: Positions, by: str, n_terms: int | None) -> list[Answer]:
        """Return one explanation for each item; with `n_terms`, of so many of its terms, the largest first."""
        if by == "choice":
            return [self._by_choice(who, j, n_terms) for j in items.tolist()]
        return self._by_value(who, items, n_terms)

    def _by_choice(self, who: Somebody, j: int, n_terms: int | None) -> Answer:
        item = self.model.col_index.ids[j : j + 1].tolist()[0]
        if who.folded is None:
            why = reasons(self.model, known_users(self.model, as_ids([who.name]), "average"), item)
        else:
            why = reasons(self.model, guest_of(who.folded), item)
        named = why.terms if n_terms is None else why.largest(n_terms)
        total, terms = why.popularity, []
        places = self.model.col_index.find(as_ids([reason.item for reason in named])) if named else np.zeros(0, int)
        for reason, place in zip(named, places.tolist(), strict=True):
            terms.append({**self.explorer.ref(place), "value": reason.value})
            total += reason.value
        others = 0.0 if n_terms is None else sum(reason.value for reason in why.largest(len(why.terms))[n_terms:])
        rounding = why.score - (total + others)
        head = {"by": "choice", **self.explorer.ref(j), "score": why.score, "popularity": why.popularity}
        return {**head, "terms": terms, "others": others, "rounding": rounding}

    def _by_value(self, who: Somebody, items: Positions, n_terms: int | None) -> list[Answer]:
        """Split predictions by the stencils of the model that explains this one."""
        values, labels, effects, mean = self._terms(who, items)
        codes = self.explorer.clusters.codes
        many = self.model.posterior is not None
        order = np.argsort(-np.abs(values), axis=1, kind="stable")
        shown = values.shape[1] if n_terms is None else min(n_terms, values.shape[1])
        predictions = self.model.clipped(mean)
        features = None if who.folded is None else who.folded.features
        own = None if features is None else traits_of(self.model, features)[0]
        answers = []
        for p, j in enumerate(items.tolist()):
            named = range(values.shape[1]) if n_terms is None else order[p, :shown].tolist()
            line, clusters = values[p].tolist(), codes.cols[j].tolist()
            traits = speaking_traits(self.model, who.row, j, own)
            terms = [
                {"stencil": s, "value": line[s], "users": self.explorer.user_block(s, labels[s]),
                 "items": self.explorer.item_block(s, clusters[s], j),
                 "user_traits": list(traits(0, s, labels[s])), "item_traits": list(traits(1, s, clusters[s]))}
                for s in named
            ]  # fmt: skip
            others = 0.0 if n_terms is None else float(values[p, order[p, shown:]].sum())
            answers.append(self._summed(j, terms, others, effects[p], float(mean[p]), float(predictions[p]), many))
        return answers

    def _summed(
        self, j: int, terms: list[Answer], others: float, effects: float, mean: float, prediction: float, many: bool
    ) -> Answer:
        """Add what makes the parts add up to the prediction, to the last bit, from left to right."""
        total = self.explorer.clusters.codes.offset
        for term in terms:
            total += term["value"]
        total = total + others + effects
        remainder = mean - total if many else 0.0
        clipping = prediction - mean if prediction != mean else 0.0
        rounding = prediction - (total + remainder + clipping)
        head = {"by": "value", **self.explorer.ref(j), "prediction": prediction}
        return {
            **head, "offset": self.explorer.clusters.codes.offset,
            "terms": terms, "others": others, "effects": effects, "remainder": remainder, "clipping": clipping,
            "rounding": rounding,
        }  # fmt: skip

    def _terms(self, who: Somebody, items: Positions) -> tuple[Floats, list[int], list[float], Floats]:
        """Return the value of each term (item, stencil), the user's labels, effects, and means before clipping."""
        codes = self.explorer.clusters.codes
        if who.folded is not None:
            mean, one = who.folded.moments(items)[0], who.folded
            if self.model.posterior is not None:
                one = FoldedRow.of(self.model.explainer, one.items, one.values, one.features)
            begins = np.cumsum(codes.widths) - codes.widths
            values = one.folded.profiles[0][begins + codes.cols[items]]
            labels, effect = one.folded.labels[0][0].tolist(), float(one.folded.constants[0, 0] - codes.offset)
        else:
            row = who.row
            mean = self.model.moments(np.full(len(items), row), items)[0]
            places = codes.starts + codes.widths * codes.rows[row].astype(np.int64) + codes.cols[items]
            values = codes.flat[places].astype(np.float64)
            labels, effect = codes.rows[row].tolist(), 0.0
            if codes.row_effects is not None:
                effect = float(codes.row_effects[row])
        own = np.zeros(len(items)) if codes.col_effects is None else codes.col_effects[items].astype(np.float64)
        return values, labels, (effect + own).tolist(), mean
