"""A page in a real browser: what went wrong on it, and what can be seen."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

LOOK = """() => {
  const box = (each) => each.getBoundingClientRect();
  const apart = (a, b) =>
    a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
  const pairs = (all, name) => {
    const found = [];
    for (let p = 0; p < all.length; p++)
      for (let q = 0; q < p; q++) if (!apart(box(all[p]), box(all[q]))) found.push(name(all[q]) + " / " + name(all[p]));
    return found;
  };
  const plots = {};
  for (const plot of document.querySelectorAll(".plot")) {
    const kinds = ".xtick text, .ytick text, .g-xtitle text, .g-ytitle text, .legendtext, .cbaxis text";
    const texts = [...plot.querySelectorAll(kinds)];
    const around = box(plot);
    const outside = texts.filter((each) => box(each).left < around.left - 2 || box(each).right > around.right + 2
      || box(each).bottom > around.bottom + 2 || box(each).top < around.top - 2);
    plots[plot.id] = {
      marks: plot.querySelectorAll(".trace path, .slice path, .hm image, .point path, .lines path, .js-line").length,
      width: around.width, height: around.height,
      overlapping: pairs(texts, (each) => each.textContent), outside: outside.map((each) => each.textContent),
    };
  }
  const blocks = [...document.querySelectorAll("figure, .tile, .table, main > p, main > h2")];
  return {
    plots, overlapping: pairs(blocks, (each) => each.tagName + " " + each.textContent.slice(0, 30)),
    wider: document.documentElement.scrollWidth - document.documentElement.clientWidth, width: window.innerWidth,
    theme: document.documentElement.dataset.theme, ground: getComputedStyle(document.body).backgroundColor,
    bold: document.querySelectorAll("b").length, text: document.querySelector("main").innerText,
    scripts: document.querySelectorAll("script").length, title: document.title,
  };
}"""


def missing() -> str | None:
    """What is missing for a browser to be driven, if anything."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed: pip install 'accams[browser]'"
    return None if browser() else "no Chromium or Chrome is installed"


def browser() -> str | None:
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def look(page: Path, width: int, dark: bool, picture: Path | None = None) -> dict[str, Any]:
    """Open a page in a window of this width, point at its figures, and tell what is there.

    `wrong` has all that was written to the console, violations of the page's policy among it; `requests`, the addresses
    that were asked for beside the page itself.
    """
    from playwright.sync_api import sync_playwright

    wrong, requests = list[str](), list[str]()
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser(), args=["--no-sandbox", "--disable-gpu"])
        opened = chromium.new_page(viewport={"width": width, "height": 4000}, color_scheme="dark" if dark else "light")
        opened.on("console", lambda message: wrong.append(message.text))
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        opened.on("request", lambda request: requests.append(request.url))
        opened.goto(page.as_uri())
        opened.wait_for_function(
            "() => [...document.querySelectorAll('.plot')].every((each) => each.querySelector('.main-svg'))"
        )
        opened.wait_for_timeout(500)
        found: dict[str, Any] = opened.evaluate(LOOK)
        for figure in opened.query_selector_all(".plot"):
            figure.hover()
        for details in opened.query_selector_all("summary"):
            details.click()
        if picture is not None:
            opened.screenshot(path=picture, full_page=True)
        found["harmed"] = opened.evaluate("() => window.harmed")
        chromium.close()
    return {**found, "wrong": wrong, "requests": [each for each in requests if each != page.as_uri()]}
