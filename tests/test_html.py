"""What notebooks show: tables of the main facts, in which nothing is markup that was text."""

from __future__ import annotations

from typing import Any

import numpy as np

from accams import ACCAMS, Observations, compress

MATRIX = np.add.outer(np.arange(12.0) % 3, np.arange(9.0) % 2)


def shown() -> dict[str, Any]:
    model = ACCAMS(n_stencils=2, n_clusters=3, verbose=False).fit(MATRIX)
    things = [Observations.from_dense(MATRIX), model, model.model_, model.stencils_, model.evaluate(MATRIX)]
    things += [compress(MATRIX, max_error=0.1), model.recommend(0, n=2, exclude_seen=False), model.explain(0, 1)]
    return {type(x).__name__: x for x in things}


def test_tables() -> None:
    for name, x in shown().items():
        html = x._repr_html_()
        assert html.startswith("<table>"), name
        assert html.count("<tr>") == html.count("</tr>") >= 2, name
