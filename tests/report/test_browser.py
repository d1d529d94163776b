"""The page in a real browser, at the widths of a desk and of a phone, in the light and in the dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import browser, look
from report_models import KINDS, data, model, titles

from accams import report

pytestmark = pytest.mark.skipif(browser() is None, reason="no Chromium or Chrome is installed")


@pytest.mark.some(1)
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)], ids=["desk", "phone"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_empty_or_overlapping(kind: str, width: int, dark: bool, tmp_path: Path) -> None:
    one = model(kind)
    evaluation = None if kind == "accams" else one.evaluate(data()[1])
    report.write(one, tmp_path / "report.html", titles=titles(), evaluation=evaluation)
    found = look(tmp_path / "report.html", width, dark, tmp_path)
    assert found["wrong"] == []
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
