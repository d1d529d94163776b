"""Someone who was not there when the model was fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.use.explain import Explanation, explain
from accams.use.fold import Folded, fold
from accams.use.ids import as_ids, check_number, known
from accams.use.recommend import Recommendations, chosen
from accams.use.scoring import Catalogue, Floats, Positions, Seen
from accams.use.view import View


@dataclass(frozen=True, eq=False, repr=False)
class Guest:
    """A new row, known by a few of its values (`fold_in`), that can be used as any other.

    Attributes
    ----------
    values : array
    name : object
        What it is called in recommendations.
    """

    view: View
    folded: Folded
    positions: Positions
    values: Floats
    name: Any = "guest"

    @classmethod
    def of(cls, view: View, columns: Any, values: Floats) -> Guest:
        """From values at some columns."""
        positions = known(view.cols, as_ids(columns), "column")
        if len(np.unique(positions)) < len(positions):
            raise InputError("a column comes twice in the history: give one value for each")
        begins = np.array([0, len(positions)])
        folded = fold(view.sums, view.noise, begins, positions, values, blank=view.blank)
        return cls(view, folded, positions, values)

    @property
    def columns(self) -> NDArray[Any]:
        """Ids of the columns that it has values for."""
        return self.view.cols.ids[self.positions]

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Its code: the most probable label in each stencil; None where the model has many draws."""
        return self.folded.labels[0][0] if self.view.posterior is None else None

    def predict(self, columns: Any, return_std: bool = False) -> Any:
        """Predictions for columns by their ids; a column that is not known is predicted as the average one."""
        mean, spread = self._moments(self.view.cols.find(as_ids(columns)))
        if not return_std:
            return self.view.clipped(mean)
        self.view.need_draws("return_std")
        return self.view.clipped(mean), np.sqrt(spread + self._noise)

    def recommend(
        self, n: int = 10, *, exclude_seen: bool = True, candidates: Any = None, return_std: bool = False,
        quantile: float | None = None,
    ) -> Recommendations:  # fmt: skip
        """The best columns, as `recommend` of the model gives them; what is in the history is left out."""
        view = self.view
        check_number(n, len(view.cols), "columns")
        lower = view.check_order(return_std, quantile)
        places = None if candidates is None else np.unique(known(view.cols, as_ids(candidates), "column"))
        catalogue = view.catalogue if places is None else Catalogue.of(view.sums, places)
        seen = Seen(np.array([0, len(self.positions)]), self.positions) if exclude_seen else None
        left_out = catalogue.places_of(np.zeros(1, np.int64), seen)
        best = catalogue.best_of(*self.folded.in_units(view.sums), n, left_out, np.array([self._noise]), lower)
        _, rank, j = chosen(best)
        mean, spread = self._moments(j)
        std = np.sqrt(spread + self._noise) if return_std else None
        names, rules = (np.full(len(j), text, object) for text in (self.name, ""))
        return Recommendations(names, view.cols.ids[j], rank, view.clipped(mean), std, rules)

    def explain(self, column: Any) -> Explanation:
        """One prediction, taken apart; a model of many draws explains itself by a small one, distilled of them."""
        j = known(self.view.cols, as_ids([column]), "column")
        mean = self._moments(j)[0]
        prediction = float(self.view.clipped(mean)[0])
        by = self if self.view.posterior is None else Guest.of(self.view.explainer, self.columns, self.values)
        members = by.view.members
        codes = members.codes
        lines = np.split(by.folded.profiles[0], np.cumsum(codes.widths)[:-1])
        effect = float(by.folded.constants[0, 0] - codes.offset)
        names, labels = (self.name, column), by.folded.labels[0][0]
        return explain(members, -1, int(j[0]), names, float(mean[0]), prediction, by is not self, lines, labels, effect)

    def __repr__(self) -> str:
        return f"Guest({len(self.values)} values, {self.view.stencils.shape[1]:,} columns)"

    def _moments(self, columns: Positions) -> tuple[Floats, Floats]:
        return self.folded.predict(self.view.sums, 0, columns)

    @property
    def _noise(self) -> float:
        posterior = self.view.posterior
        return 0.0 if posterior is None else float(self.view.row_noise(np.array([-1]))[0])
