"""The page of `accams explore` and `accams serve` with 100,000 items in a browser: does it ever freeze?

    python experiments/explorer.py [--items 100000] [--pictures folder]

Plants a model with titles, writes the static page and serves the same model, drives both in an installed Chromium by
Playwright (pip install 'accams[browser]'), and prints for each step how long it took until the page had changed, the
longest task of the page's thread, and how long the map took to be drawn while it was moved. The browser has no GPU and
shares the machine with the service.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from playwright.sync_api import Page, sync_playwright

import accams
from accams.data.ids import Index
from accams.model.spread import Spread

USERS, STENCILS, CLUSTERS = 20_000, 30, 20
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
READY = 'main[aria-busy="false"]'
SHORT = 50  # milliseconds of a task that browsers do not report
WATCH = """
window.tasks = []; window.drawn = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((x) => x.duration)))
  .observe({ type: "longtask", buffered: true });
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (draw) => ask((now) => {
  const began = performance.now();
  draw(now);
  window.drawn.push(performance.now() - began);
});
window.changed = (selector, act) => new Promise((done) => {
  const began = performance.now();
  new MutationObserver((_, one) => { one.disconnect(); ask(() => setTimeout(() => done(performance.now() - began))); })
    .observe(document.querySelector(selector), { childList: true, subtree: true });
  act();
});
"""


class Step(NamedTuple):
    """How long something took, in milliseconds: until the page had changed, and the longest task meanwhile."""

    name: str
    took: float
    longest: float
    usual: float = 0.0  # to draw the map once: median, longest
    slowest: float = 0.0


# -- the model --------------------------------------------------------------------------------------------


def planted(n: int, folder: Path) -> tuple[Path, Path]:
    """Write a model whose items lie on a plane, so that there is something to see, and a table of their titles."""
    random = np.random.default_rng(0)
    place = random.normal(size=(n, 2)) * 0.4 + random.normal(size=(12, 2))[random.integers(12, size=n)]
    taste = random.normal(size=(USERS, 2))
    made = accams.StencilSum((USERS, n), 3.5)
    for _ in range(STENCILS):
        labels = list[Any]()
        axis = random.normal(size=2)
        for points in (taste, place):
            along = points @ axis + random.normal(size=len(points)) * 0.2
            labels.append(np.searchsorted(np.quantile(along, np.arange(1, CLUSTERS) / CLUSTERS), along))
        ramp = np.linspace(-1, 1, CLUSTERS)
        template = 0.15 * np.outer(ramp, ramp) + random.normal(0, 0.02, (CLUSTERS, CLUSTERS))
        made = made.append(template, *labels)
    spread = Spread(np.full((4, 4), 0.6), *(random.integers(4, size=x).astype(np.uint8) for x in (USERS, n)))
    known = np.sort(random.zipf(1.6, n).clip(max=50_000))[::-1].astype(float)
    model = accams.Model(
        stencils=made, row_index=Index(np.arange(USERS)), col_index=Index(np.arange(1, n + 1)), value_range=(1.0, 5.0),
        clip=(1.0, 5.0), sigma=0.8, spread=spread, activity=(np.full(USERS, 100.0), random.permutation(known)),
    )  # fmt: skip
    model.save(folder / "shop.accams")
    lines = [f'{item},"{title}"' for item, title in enumerate(titles(n, random), 1)]
    (folder / "titles.csv").write_text("\n".join(["item,title", *lines]))
    return folder / "shop.accams", folder / "titles.csv"


def titles(n: int, random: np.random.Generator) -> list[str]:
    """Titles of two to five words, of which some are frequent and most are not."""
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "il")]
    words = ["".join(random.choice(syllables, random.integers(2, 5))).capitalize() for _ in range(20_000)]
    picked = (random.zipf(1.3, (n, 5)) - 1) % len(words)
    return [" ".join(words[w] for w in line[:k]) for line, k in zip(picked, random.integers(2, 6, n), strict=True)]


# -- the page ---------------------------------------------------------------------------------------------


@contextmanager
def static(model: Path, names: Path, folder: Path) -> Iterator[str]:
    """A plain web server of what `accams explore` writes."""
    words = [sys.executable, "-m", "accams", "explore", model, "--titles", names, "-o", folder]
    print(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip().splitlines()[0])

    class Quiet(http.server.SimpleHTTPRequestHandler):
        extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}  # noqa: RUF012

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@contextmanager
def service(model: Path, names: Path) -> Iterator[str]:
    """`accams serve` at a free port."""
    words = [sys.executable, "-m", "accams", "serve", str(model), "--titles", str(names), "--port", "0"]
    process = subprocess.Popen([*words, "--no-access-log"], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://[\d.:]+", process.stderr.readline())
        assert found, "the service did not start"
        yield found[0] + "/"
    finally:
        process.terminate()
        process.wait()


class Visit:
    """A page, and what was measured on it."""

    def __init__(self, page: Page, pictures: Path | None) -> None:
        self.page, self.pictures, self.steps = page, pictures, list[Step]()

    def measure(self, name: str, act: Callable[[], float | None]) -> None:
        """Note how long an act took, by its own account, and what the page did meanwhile."""
        self.page.wait_for_timeout(500)  # what the step before has left
        self.page.evaluate("window.tasks = []; window.drawn = []")
        took = act()
        self.page.wait_for_timeout(300)
        tasks, drawn = self.page.evaluate("[window.tasks, window.drawn]")
        draws = [float(f(drawn)) if drawn else 0.0 for f in (np.median, np.max)]
        self.steps.append(Step(name, took or 0.0, max(tasks, default=0), *draws))

    def changes(self, selector: str, act: str) -> float:
        """Do something in the page, and return the milliseconds until part of it had changed and was drawn."""
        return float(self.page.evaluate(f"window.changed({selector!r}, () => {{ {act} }})"))

    def shot(self, name: str) -> None:
        if self.pictures is not None:
            self.page.screenshot(path=self.pictures / f"{name}.png")


def visited(visit: Visit, address: str, kind: str) -> list[Step]:
    """Go through the page as somebody would."""
    page = visit.page
    page.goto(address)
    page.wait_for_selector(f"{READY} h1")
    took = page.evaluate("performance.now()")
    page.wait_for_timeout(300)
    visit.steps.append(Step("open the page", took, max(page.evaluate("window.tasks"), default=0)))
    visit.shot(f"{kind}-home")

    def go(view: str) -> Callable[[], float]:
        return lambda: visit.changes("main", f"location.hash = '#/{view}'")

    box = "document.querySelector('header input[type=search]')"
    word = "ba"
    typed = lambda text: f"const box = {box}; box.focus(); box.value = '{text}'; box.dispatchEvent(new Event('input'))"  # noqa: E731
    visit.measure("search, first time", lambda: visit.changes("header [role=listbox]", typed(word)))
    for text in ("bara", "barak", "baraki", "lokinanre mota"):
        visit.measure("search, a key more", lambda text=text: visit.changes("header [role=listbox]", typed(text)))
    visit.shot(f"{kind}-search")
    page.evaluate(typed(""))
    visit.measure("open an item", go("item/7"))
    visit.shot(f"{kind}-item")
    visit.measure("open the rating view", go("rate"))
    for _ in range(5):
        star = "document.querySelector('[aria-label=Suggestions] li:nth-child(2) button:last-child').click()"
        visit.measure("rate, until the list has changed", lambda star=star: visit.changes(".live", star))
    visit.shot(f"{kind}-rate")
    visit.measure("open the tree", go("tree"))
    visit.measure("open the map", go("map"))
    page.wait_for_timeout(1000)
    visit.shot(f"{kind}-map")
    moved(visit)
    visit.shot(f"{kind}-map-near")
    return visit.steps


def moved(visit: Visit) -> None:
    """Drag, zoom and point at the map."""
    page = visit.page
    canvas = page.locator("canvas").bounding_box()
    assert canvas is not None
    x, y = canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 2

    def drag() -> None:
        page.mouse.move(x, y)
        page.mouse.down()
        for step in range(60):
            page.mouse.move(x + 3 * step, y + 40 * np.sin(step / 9))
            page.wait_for_timeout(16)
        page.mouse.up()

    def wheel(sign: int) -> Callable[[], None]:
        def turn() -> None:
            page.mouse.move(x, y)
            for _ in range(25):
                page.mouse.wheel(0, sign * 40)
                page.wait_for_timeout(16)

        return turn

    def point() -> None:
        for step in range(40):
            page.mouse.move(x - 150 + 7 * step, y - 60 + 3 * step)
            page.wait_for_timeout(16)

    visit.measure("drag the map", drag)
    visit.measure("point at the map", point)
    visit.measure("zoom in", wheel(-1))
    visit.measure("drag it, zoomed in", drag)
    visit.measure("zoom out", wheel(1))
    visit.measure("zoom in", wheel(-1))


def table(kind: str, steps: list[Step]) -> None:
    """Print the slowest of each step."""
    print(f"\n| {kind} | ms until it has changed | longest task, ms | ms to draw the map: median, longest |")
    print("|---|---|---|---|")
    for name in dict.fromkeys(step.name for step in steps):
        own = [step for step in steps if step.name == name]
        took, longest, usual, slowest = np.array([step[1:] for step in own]).max(axis=0)
        shown = f"{usual:.0f}, {slowest:.0f}" if "map" in name or "zoom" in name else ""
        waited, busy = (f"{took:.0f}" if took else ""), (f"{longest:.0f}" if longest else f"below {SHORT}")
        print(f"| {name} | {waited} | {busy} | {shown} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--pictures", type=Path, help="folder for pictures of the page")
    given = parser.parse_args()
    binary = next(path for path in map(shutil.which, BROWSERS) if path)
    if given.pictures is not None:
        given.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        model, names = planted(given.items, Path(scratch))
        print(f"{given.items:,} items, {USERS:,} users, {STENCILS} stencils: {os.path.getsize(model):,} bytes")
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        print(f"Chromium {browser.version}, {os.cpu_count()} cores")
        for kind, start in (
            ("static", lambda: static(model, names, Path(scratch, "site"))),
            ("service", lambda: service(model, names)),
        ):
            with start() as address:
                context = browser.new_context(viewport={"width": 1280, "height": 900})
                context.add_init_script(WATCH)
                table(kind, visited(Visit(context.new_page(), given.pictures), address, kind))
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
