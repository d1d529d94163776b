"""The page in a real browser, before a service and as static files: journeys of people who look around.

With $SCREENSHOTS each leaves a picture in that folder; with $AXE, the path of axe.min.js, access is checked, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
from explored_models import titles
from journeys import Visit, missing, service, static, visiting
from services import model, source

from accams import Model
from accams.data.ids import Index
from accams.explore.site import export
from accams.serve.settings import Settings

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
HOSTILE = [
    "</script><script>window.harmed = 1</script>", "<img src=x onerror='window.harmed = 2'>", "<svg onload=harmed=3>",
    "' onload='harmed=5", '" autofocus onfocus="harmed=6', "{{harmed=8}}", "${harmed=9}", "javascript:harmed=10",
    "\u202egnp.exe\u2066", "\U0001f600\U0001f468\u200d\U0001f469", "x" * 10_000, "long " * 2_000, "a\x00b\x07c",
    "<meta http-equiv=refresh content='0;url=https://example.com'>", "<iframe src=https://example.com></iframe>",
    "ספר ארוך מאוד", "a/b?c#d&e=f%20", "..", "",
]  # fmt: skip
VIEWS = ("", "rate", "map", "stencils", "stencil/0", "tree", "users", "item/4", "user/3", "rate?r=1:5,4:2,7:4")


@pytest.fixture(scope="module")
def named(files: Path) -> Path:
    """The models' folder with a table of titles."""
    lines = [f'{item},"{title}"' for item, title in titles(model("small")).items()]
    (files / "names.csv").write_text("item,title\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def served(named: Path) -> Iterator[str]:
    kinds = ("small", "both", "bayesian")
    sources = tuple(source(named, kind, titles=str(named / "names.csv")) for kind in kinds)
    with service(Settings(sources=sources, access_log=False)) as base:
        yield base


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site") / "page"
    export(model("small"), folder, titles=titles(model("small")), name="small", users=True)
    with static(folder) as base:
        yield base


@pytest.fixture(params=["service", "static"])
def base(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue({"service": "served", "static": "written"}[request.param]))


def first_titles(visit: Visit) -> list[str]:
    return visit.text(".recommended .what a")


def test_search_with_typing_errors_and_keys(base: str) -> None:
    with visiting(base) as visit:
        page = visit.go()
        page.keyboard.press("/")
        page.keyboard.type("emprie")
        page.wait_for_selector('header [role="option"]')
        found = visit.text('header [role="option"]')
        assert found
        assert all("Empire" in title for title in found)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        chosen = page.locator('header [aria-selected="true"]').inner_text()
        visit.shot("search")
        page.keyboard.press("Enter")
        page.wait_for_url("**/#/item/**")
        visit.settled()
        assert visit.text("h1") == [chosen]


def test_an_item_and_what_is_like_it(base: str) -> None:
    of = model("small")
    with visiting(base) as visit:
        page = visit.go("item/4")
        alike = visit.text("section:first-child .list .what")
        names = titles(of)
        assert alike == [names.get(x, str(x)) for x in of.similar(4, 12)["item"].tolist()]
        assert visit.text("h2")[1:] == ["Who likes it", "Its place in the tree"]
        visit.shot("item")
        page.click(".list .what a >> nth=0")
        visit.settled()
        assert visit.text("h1") == [alike[0]]
        page.go_back()
        visit.settled()
        assert visit.text("h1") == [names[4]]


def test_a_user_and_why(base: str) -> None:
    of = model("small")
    with visiting(base) as visit:
        page = visit.go("users")
        page.fill("#user-id", "3")
        page.keyboard.press("Enter")
        page.wait_for_url("**/#/user/3*")
        visit.settled()
        expected = of.recommend(3, 15)
        names = titles(of)
        assert first_titles(visit) == [names.get(x, str(x)) for x in expected["item"].tolist()]
        assert visit.text(".recommended .score") == [f"{x:.2f}" for x in expected["score"]]
        page.click(".recommended button >> nth=1")
        page.wait_for_selector(".waterfall")
        total = float(page.get_attribute(".waterfall", "data-total"))
        assert total == pytest.approx(float(expected["score"][1]), abs=1e-6)
        assert page.get_attribute(".recommended button >> nth=1", "aria-expanded") == "true"
        visit.shot("user-why")


def test_rate_five_and_watch_the_list_change(base: str) -> None:
    of = model("small")
    names = titles(of)
    with visiting(base) as visit:
        page = visit.go("rate")
        seen = list[list[str]]()
        for value in (5, 1, 4, 2, 5):
            page.click(f'[aria-label="Suggestions"] li >> nth=0 >> button:has-text("{value}")')
            page.wait_for_timeout(400)
            seen.append(first_titles(visit) + visit.text(".recommended .score"))
        assert len({tuple(lines) for lines in seen}) == 5
        assert "5 ratings" in page.inner_text('[role="status"] >> nth=1')
        pairs = parse_qs(page.url.partition("?")[2])["r"][0].split(",")
        rated = {int(pair.split(":")[0]): float(pair.split(":")[1]) for pair in pairs}
        expected = of.recommend(rated, 12)
        assert first_titles(visit) == [names.get(x, str(x)) for x in expected["item"].tolist()]
        visit.shot("rate")
        address, before = page.url, first_titles(visit)
        page.goto("about:blank")
        page.goto(address)
        visit.settled()
        page.wait_for_selector(".recommended")
        assert first_titles(visit) == before
        page.click('[aria-label="Your ratings"] [aria-pressed="true"] >> nth=0')  # takes it back
        assert len(visit.text('[aria-label="Your ratings"] li')) == 4


def test_find_something_to_rate(base: str) -> None:
    with visiting(base) as visit:
        page = visit.go("rate")
        page.fill('main [role="combobox"]', "matrix")
        page.wait_for_selector('main [role="option"]')
        page.keyboard.press("Enter")
        page.wait_for_selector(".recommended")
        assert "Matrix" in visit.text('[aria-label="Your ratings"] li')[0]


def test_stencils_and_their_blocks(base: str) -> None:
    of = model("small")
    with visiting(base) as visit:
        page = visit.go("stencils")
        assert len(visit.text("main .list li")) == len(of.stencils)
        page.click("main .list a >> nth=0")
        page.wait_for_selector(".heat")
        number = int(page.url.split("stencil/")[1].split("?")[0])
        assert page.locator(".heat rect:not(.mark)").count() == of.stencils.templates[number].size
        page.focus(".heat")
        before = page.inner_text(".told")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        moved = page.inner_text(".told"), page.url
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowUp")
        assert len({before, moved[0], page.inner_text(".told")}) > 1
        page.goto("about:blank")
        page.goto(moved[1])
        visit.settled()
        assert page.inner_text(".told") == moved[0]
        visit.shot("stencil")


def test_the_map(base: str) -> None:
    with visiting(base) as visit:
        page = visit.go("map?item=4")
        page.wait_for_selector('[aria-label="Items in view"] li')
        visit.shot("map")
        box = page.locator("canvas").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert page.inner_text(".tip") == titles(model("small"))[4]
        before = visit.text('[aria-label="Items in view"] li')
        page.focus("canvas")
        for key in ("0", "+", "ArrowLeft", "ArrowLeft", "ArrowUp", "-"):
            page.keyboard.press(key)
        page.wait_for_timeout(400)
        assert visit.text('[aria-label="Items in view"] li') != before
        page.goto(f"{base}#/map?item=4")
        page.reload()
        visit.settled()
        page.wait_for_selector('[aria-label="Items in view"] li')
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_url("**/#/item/4*")


def test_the_tree(base: str) -> None:
    with visiting(base) as visit:
        page = visit.go("tree")
        assert page.locator("main details").count() > 3
        page.click("main details summary >> nth=0")
        page.click("main details summary >> nth=0")
        visit.shot("tree")
        page.click("main .members a >> nth=0")
        page.wait_for_url("**/#/item/**")


def test_two_models_side_by_side(served: str) -> None:
    with visiting(served) as visit:
        page = visit.go("compare?user=3&a=small&b=both")
        assert page.locator("main section").count() == 2
        assert visit.text("main .note") == ["ranked by predicted value", "ranked by what such people choose"]
        marks = visit.text(".moved")
        assert any("only here" in mark or "▲" in mark or "▼" in mark for mark in marks)
        visit.shot("compare")
        page.select_option('[aria-label="Second model"]', "bayesian")
        page.wait_for_url("**b=bayesian**")
        visit.settled()
        page.select_option('header [aria-label="Model"]', "both")
        page.wait_for_url("**m=both**")
        visit.settled()
        page.click("text=Overview")
        visit.settled()
        assert visit.text("h1") == ["both"]


def test_dark_and_small(base: str) -> None:
    with visiting(base, color_scheme="dark", viewport={"width": 375, "height": 800}) as visit:
        for number, view in enumerate(VIEWS):
            page = visit.go(view)
            assert not visit.is_too_wide(), view
            visit.shot(f"phone-{number}")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
        page.click('[aria-label="switch between light and dark"]')
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.reload()
        visit.settled()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_what_is_not_there(base: str) -> None:
    with visiting(base, allowed=("404",)) as visit:
        for view, message in (
            ("item/98765", "there is no item 98765"),
            ("user/nobody", "there is no user"),
            ("nothing", "there is no view"),
        ):
            page = visit.go(view)
            assert message in page.inner_text('[role="alert"]')
        visit.go("rate?r=98765:5,4:5")
        assert len(visit.text('[aria-label="Your ratings"] li')) == 1


def test_a_token_is_asked_for(named: Path) -> None:
    settings = Settings(sources=(source(named, "small"),), access_log=False, tokens=frozenset({"secret"}))
    with service(settings) as base, visiting(base, allowed=("401",)) as visit:
        page = visit.page
        page.goto(base)
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_timeout(200)
        page.fill("#token", "secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1")
        assert visit.text("h1") == ["small"]


def hostile() -> tuple[Model, dict[Any, str]]:
    """A model whose ids are hostile, as are its titles."""
    of = model("text ids")
    rows, cols = (Index([*HOSTILE, *range(size - len(HOSTILE))]) for size in of.shape)
    return replace(of, row_index=rows, col_index=cols), dict(zip(cols.ids.tolist(), reversed(HOSTILE), strict=False))


def test_hostile_names_do_nothing(tmp_path: Path) -> None:
    of, names = hostile()
    export(of, tmp_path / "site", titles=names, name=HOSTILE[1], users=True)
    views = [view for view in VIEWS if "/" not in view or view.startswith("stencil")]
    with static(tmp_path / "site") as base, visiting(base, allowed=("404",)) as visit:
        for view in views:
            page = visit.go(view)
            assert not visit.is_too_wide(), view
        for name in HOSTILE[:9] + HOSTILE[13:]:
            for kind in ("item", "user"):
                page = visit.go(f"{kind}/{quote(name, safe='')}")
                page.wait_for_selector("h1")
        page.fill('header [role="combobox"]', "<img")
        page.wait_for_timeout(300)
        assert page.evaluate("window.harmed") is None
        assert page.locator("main img, main iframe, main script, main meta").count() == 0
        visit.shot("hostile")


@pytest.mark.skipif("AXE" not in os.environ, reason="set $AXE to the path of axe.min.js")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_access(base: str, scheme: str) -> None:
    code = Path(os.environ["AXE"]).read_text(encoding="utf-8")
    with visiting(base, color_scheme=scheme, bypass_csp=True) as visit:
        for view in VIEWS:
            page = visit.go(view)
            if view.startswith(("rate?", "user/")):
                page.wait_for_selector(".recommended")
                page.click(".recommended button >> nth=0")
                page.wait_for_selector(".waterfall")
            page.evaluate(code)
            found = page.evaluate("axe.run()")["violations"]
            serious = [
                (fault["id"], node["html"][:120], node["failureSummary"][-200:])
                for fault in found if fault["impact"] in ("serious", "critical") for node in fault["nodes"]
            ]  # fmt: skip
            assert serious == [], view
