"""Names that could do harm are text wherever they stand: in HTML, in JSON inside of it, and in figures."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_models import HARM, model, titles

import accams
from accams import report
from accams.report import figures, page


class Tags(HTMLParser):
    """Counts elements, and keeps what scripts hold."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.data = list[str](), ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("src", "style", "action") for name, _ in attrs)
        assert all((value or "").startswith("#") for name, value in attrs if name == "href")


def test_text_from_a_file_is_escaped(tmp_path: Path) -> None:
    one = model("accams")
    plain = report.page.html(report.gather(one), "model", "")
    hostile = replace(
        one, info=replace(one.info, estimator=HARM, names=(HARM, "<img src=x>"), training={"train_rmse_": HARM})
    )
    harmed = report.page.html(report.gather(hostile, titles()), HARM, "")
    found = []
    for text in (plain, harmed):
        tags = Tags()
        tags.feed(text)
        found.append(sorted(tags.tags))
    assert found[0] == found[1]


def test_only_the_scripts_of_the_page_run() -> None:
    text = page.html(report.gather(model("accams")), "m", "let library = 1;")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<script>")
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert rules == {
        "default-src": "'none'", "script-src": page.policy(*scripts).split("script-src ")[1].split(";")[0],
        "style-src": "'unsafe-inline'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert len(scripts) == rules["script-src"].count("sha256-") == 3


def test_long_names_are_cut() -> None:
    facts = report.gather(model("accams"), dict.fromkeys(range(150), "x" * 10000))
    assert len(page.html(facts, "m", "")) < 100_000


@pytest.mark.full
def test_figures_are_the_same_each_time(tmp_path: Path) -> None:
    facts = report.gather(model("accams"), {j: f"<a>\x00--> {j} $x$ \x1b\u202e" for j in range(150)})
    one, two = (figures.save_all(facts, tmp_path / name, ("svg", "png", "pdf")) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_a_file_whose_error_is_no_number(tmp_path: Path) -> None:
    one = model("accams")
    forged = replace(one, info=replace(one.info, training={"train_rmse_": "[/x]"}))
    forged.save(tmp_path / "m.accams")
    assert accams.load(tmp_path / "m.accams").train_rmse is None
    assert one.train_rmse is not None
