"""The page in a real browser, at the widths of a desk and of a phone, in the light and in the dark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import look, missing
from report_models import KINDS, data, model, titles

import accams
from accams import report

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.mark.some(1)
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)], ids=["desk", "phone"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_empty_or_overlapping(kind: str, width: int, dark: bool, tmp_path: Path) -> None:
    one = model(kind)
    evaluation = None if kind == "accams" else one.evaluate(data()[1])
    report.write(one, tmp_path / "report.html", titles=titles(), evaluation=evaluation)
    found = look(tmp_path / "report.html", width, dark)
    assert found["wrong"] == found["requests"] == []
    assert found["width"] == width
    assert found["wider"] <= 0
    assert found["overlapping"] == []
    assert found["theme"] == ("dark" if dark else "light")
    assert found["ground"] == ("rgb(18, 22, 29)" if dark else "rgb(244, 245, 247)")
    wanted = {"tree", "bytes"}
    wanted |= {"coverage", "byitems", "error", "entropy0", "changed1", "traces"} if kind == "bayesian" else set()
    wanted |= {"error", "gain", "entropy0", "entropy1"} if kind == "accams" else set()
    assert wanted <= set(found["plots"])
    for name, plot in found["plots"].items():
        assert plot["marks"] > 0, name
        assert plot["width"] > 200, name
        assert plot["overlapping"] == [], name
        assert plot["outside"] == [], name
    assert "console.error" in found["text"]  # the harmful title is shown as it is written


HOSTILE = [
    "</script><script>window.harmed = 1</script>", "<img src=x onerror='window.harmed = 2'>", "<svg onload=harmed=3>",
    "</title></style><style>*{display:none}</style>", "<!--", "--><script>harmed=4</script>", "]]>", "=1+1", "<br>",
    "' onload='harmed=5", '" autofocus onfocus="harmed=6', '<a href="javascript:harmed=7" style="position:fixed">x</a>',
    "$accent", "$1 $& $`", "{{harmed=8}}", "${harmed=9}", "%{z} <extra>x</extra>", "a\u2028b\u2029c",
    "\U0001f600\U0001f468\u200d\U0001f469", "\u202egnp.exe\u2066", "x" * 10_000, "long " * 2_000, "<b>bold</b>",
    "a\x00b\x07\x1b[31mc", "\ufeff", "&lt;b&gt; &amp;", "\\u003cb>", "<base href='https://example.com/'>",
    "<span style='background:url(https://example.com/a)'>", "<iframe src=https://example.com></iframe>",
    "<link rel=stylesheet href=https://example.com/a.css>", "<form action=https://example.com><button autofocus>",
    "<meta http-equiv=refresh content='0;url=https://example.com'>",
]  # fmt: skip


def test_hostile_names_do_nothing(tmp_path: Path) -> None:
    """Ids of both sides, names of columns, titles, the heading and the estimator of the file, all of them hostile."""
    names = [f"{text}{n}" for n in range(3) for text in HOSTILE]
    random = np.random.default_rng(0)
    pairs = [(user, item) for user in names[:50] for item in names if random.random() < 0.5]
    frame = pd.DataFrame(pairs, columns=HOSTILE[:2])
    one = accams.ACCAMS(n_stencils=4, n_clusters=5).fit(frame, random.normal(size=len(pairs))).model_
    one = replace(one, info=replace(one.info, estimator=HOSTILE[0], training={"train_rmse_": HOSTILE[1]}))
    titled = {name: [*HOSTILE[:6], "\ud800"][n % 7] for n, name in enumerate(names) if n % 3 == 0}
    report.write(one, tmp_path / "r.html", titles=titled, name=HOSTILE[3])
    found = look(tmp_path / "r.html", 1200, False, tmp_path / "r.png")
    assert found["wrong"] == found["requests"] == []
    assert found["harmed"] is None
    assert found["scripts"] == 4
    assert found["title"].startswith("</title></style>")
    assert found["wider"] <= 0
    assert all(plot["marks"] > 0 for plot in found["plots"].values())


def test_the_policy_stops_what_is_not_ours(tmp_path: Path) -> None:
    report.write(model("accams"), tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    more = "<script>window.harmed = 1</script><img src='https://example.com/a.png' onerror='harmed=2'>"
    (tmp_path / "r.html").write_text(page.replace("</main>", more + "</main>"), "utf-8")
    found = look(tmp_path / "r.html", 1200, False)
    assert found["harmed"] is None
    assert len(found["wrong"]) >= 2
    assert all("Content Security Policy" in each for each in found["wrong"])
