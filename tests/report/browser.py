"""A page in a real browser: what went wrong on it, and what can be seen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

LISTEN = """<script>
window.wrong = [];
window.addEventListener("error", (event) => wrong.push(String(event.message)));
for (const kind of ["error", "warn"]) console[kind] = (...said) => wrong.push(said.join(" "));
</script>"""

LOOK = """<script>
setTimeout(() => {
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
  const found = {
    wrong, plots, overlapping: pairs(blocks, (each) => each.tagName + " " + each.textContent.slice(0, 30)),
    wider: document.documentElement.scrollWidth - document.documentElement.clientWidth, width: window.innerWidth,
    theme: document.documentElement.dataset.theme, ground: getComputedStyle(document.body).backgroundColor,
    bold: document.querySelectorAll("b").length, text: document.querySelector("main").innerText,
  };
  parent.postMessage(JSON.stringify(found), "*");
}, 2000);
</script>"""

AROUND = """<!doctype html><body style="margin:0"><pre id="found"></pre>
<iframe src="looked.html" style="border:0;width:{width}px;height:4000px"></iframe>
<script>addEventListener("message", (event) => document.getElementById("found").textContent = event.data)</script>"""


def browser() -> str | None:
    """The browser that is there, if any."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def look(page: Path, width: int, dark: bool, folder: Path) -> dict[str, Any]:
    """Open a page in a window of this width, and tell what is there."""
    text = page.read_text("utf-8").replace("<main>", LISTEN + "<main>", 1).replace("</body>", LOOK + "</body>")
    (folder / "looked.html").write_text(text, "utf-8")
    (folder / "around.html").write_text(AROUND.format(width=width), "utf-8")
    name = browser()
    assert name is not None
    command = [
        name, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--window-size={max(width, 600)},4200",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--virtual-time-budget=20000", "--dump-dom",
        f"--user-data-dir={folder / 'profile'}", (folder / "around.html").as_uri(),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="found">(.+?)</pre>', answer, re.DOTALL)
    assert found, answer[:500]
    return json.loads(unescape(found[1]))  # type: ignore[no-any-return]
