"""Records: results by line, by column and as tables of any library; and how results, models and estimators print."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bayes_models import make
from forms import MATRIX

from accams import ACCAMS, InputError, Recommendation, Records
from accams.fitted.parts import FitInfo
from accams.use.records import SimilarItem

HOSTILE = '<script>alert("x")</script>'


def found(n: int = 13, std: bool = False) -> Records[Recommendation]:
    columns = {
        "user": np.array(["ann"] * n, object),
        "item": np.array([f"item {p}" for p in range(n)], object),
        "rank": np.arange(1, n + 1),
        "score": 5.0 - np.arange(n) / 3,
    }
    more = {"std": np.full(n, 0.25)} if std else {}
    return Records(Recommendation, columns | more | {"rule": np.full(n, "", object)})


def test_by_line() -> None:
    records = found(3)
    assert len(records) == 3
    assert records[0] == Recommendation("ann", "item 0", 1, 5.0, None, "")
    assert records[-1] == list(records)[2] == records[2]
    assert [type(x) for x in records[1]] == [str, str, int, float, type(None), str, type(None)]
    assert records[1] in records
    assert [one.item for one in reversed(records)] == ["item 2", "item 1", "item 0"]
    for index in (3, -4):
        with pytest.raises(IndexError):
            records[index]


def test_by_slice() -> None:
    part = found()[2:7:2]
    assert isinstance(part, Records)
    assert list(part) == list(found())[2:7:2]
    assert list(found()[::-1]) == list(found())[::-1]
    assert len(found()[20:]) == 0
    assert repr(found()[20:]) == "no results"


def test_by_column() -> None:
    records = found(3, std=True)
    assert records["score"].tolist() == [one.score for one in records]
    assert list(records.to_dict()) == ["user", "item", "rank", "score", "std", "rule"]
    assert list(found(3).to_dict()) == ["user", "item", "rank", "score", "rule"]
    with pytest.raises(KeyError):
        records["price"]


@pytest.mark.parametrize(
    ("name", "kind"), [("to_pandas", pd.DataFrame), ("to_polars", pl.DataFrame), ("to_arrow", pa.Table)]
)
def test_tables(name: str, kind: type) -> None:
    table: Any = getattr(found(4, std=True), name)()
    assert type(table) is kind
    columns = table.to_pydict() if kind is pa.Table else {each: list(table[each]) for each in table.columns}
    assert columns == {each: x.tolist() for each, x in found(4, std=True).to_dict().items()}
    assert len(getattr(found(0), name)()) == 0


def test_ids_of_all_kinds_in_tables() -> None:
    mixed = ACCAMS(1, 2).fit([("a", "x"), (5, "y"), ("a", "y"), (5, "x")], [1.0, 2.0, 3.0, 4.0])
    assert mixed.recommend([5], exclude_seen=False).to_pandas()["user"].tolist() == [5, 5]
    numbers = ACCAMS(1, 2).fit(MATRIX).recommend([3, 4], 2)
    for table in (numbers.to_pandas(), numbers.to_polars(), numbers.to_arrow().to_pandas()):
        assert table["item"].dtype in (np.int64, pl.Int64)
        assert list(table["user"]) == [3, 3, 4, 4]


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *args: Any, **more: Any) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(InputError, match="polars is not installed: pip install polars"):
        found().to_polars()


def test_printing() -> None:
    lines = repr(found(13)).splitlines()
    assert lines[0].split() == ["user", "item", "rank", "score"]  # no column of empty rules
    assert lines[1] == "ann   item 0  1     5"
    assert len(lines) == 1 + 10 + 1
    assert lines[-1] == "... 3 more"
    assert "more" not in repr(found(10))
    assert lines[2].endswith("4.667")
    assert "0.25" in repr(found(2, std=True))
    ruled = Records(Recommendation, found(1).to_dict() | {"rule": np.array(["average row"], object)})
    assert repr(ruled).splitlines()[1].endswith("average row")


def test_html() -> None:
    page = found(13)._repr_html_()
    assert page.count("<tr>") == 11
    assert "<th>score</th>" in page
    assert "<p>... 3 more</p>" in page


@pytest.mark.parametrize("method", ["recommend", "similar"])
def test_hostile_ids_are_escaped_in_html(method: str) -> None:
    pairs = [(f"{HOSTILE}{i}", f"{HOSTILE}&{j}") for i in range(6) for j in range(5)]
    model = ACCAMS(2, 2).fit(pairs, np.arange(30.0) % 7)
    records = (
        model.recommend(f"{HOSTILE}0", exclude_seen=False) if method == "recommend" else model.similar(pairs[0][1])
    )
    page = records._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;" in page
    assert HOSTILE in repr(records)


def test_similar_items() -> None:
    model = ACCAMS(2, 3).fit(MATRIX)
    records = model.similar(3, 4)
    assert all(type(one) is SimilarItem for one in records)
    assert list(records.to_dict()) == ["item", "score"]
    assert model.similar(3, 4, side="users").to_pandas().columns.tolist() == ["user", "score"]


# -- models and estimators ---------------------------------------------------------------------------------------


def test_estimators_in_html() -> None:
    assert ACCAMS()._repr_html_() == "<table><caption>ACCAMS</caption><tbody></tbody></table><p>not fitted</p>"
    estimator = make(engine="<b>cpu</b>")
    page = estimator._repr_html_()
    assert "<b>" not in page
    assert "<th>engine</th><td>&#x27;&lt;b&gt;cpu&lt;/b&gt;&#x27;</td>" in page
    assert "<th>schedule</th><td>Schedule(n_burn_in=1, thin=1)</td>" in page
    assert "verbose" not in page  # as it is by default
    fitted = estimator.set_params(engine="auto").fit(MATRIX)
    assert fitted._repr_html_().endswith(fitted.model_._repr_html_())


def test_models_in_html() -> None:
    model = make().fit(MATRIX).model_
    page = model._repr_html_()
    for name, text in {"users": 30, "items": 20, "stencils": 3, "draws": 6, "fitted by": "BayesianACCAMS"}.items():
        assert f"<tr><th>{name}</th><td>{text}</td></tr>" in page
    assert repr(model) == "Model(30 users x 20 items, 3 stencils, 6 draws, fitted by BayesianACCAMS)"
    alone = ACCAMS(2, 2).fit(MATRIX).model_
    assert "draws" not in alone._repr_html_()
    assert repr(alone) == "Model(30 users x 20 items, 2 stencils, fitted by ACCAMS)"


def test_the_name_of_an_estimator_is_escaped() -> None:
    page = replace(ACCAMS(2, 2).fit(MATRIX).model_, info=FitInfo(HOSTILE))._repr_html_()  # as a file may have it
    assert "<script" not in page
