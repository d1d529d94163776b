"""A browser on the page: a service or a folder of static files at a free port, and what must hold on every view."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

sys.path.append(str(Path(__file__).resolve().parents[1] / "report"))

from browser import BROWSERS, missing

from accams.serve.app import create_app
from accams.serve.settings import Settings

__all__ = ["Visit", "missing", "service", "static", "visiting"]
READY = 'main[aria-busy="false"]'


@contextmanager
def service(settings: Settings) -> Iterator[str]:
    """A service in a thread; yield its address."""
    server = uvicorn.Server(uvicorn.Config(create_app(settings), port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A plain web server, such as any host has."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}  # noqa: RUF012

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def static(folder: Path) -> Iterator[str]:
    """A web server of static files; yield its address."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


class Visit:
    """A page of a browser that notes what goes wrong."""

    def __init__(self, context: Any, base: str) -> None:
        self.base, self.page = base, context.new_page()
        self.wrong, self.elsewhere = list[str](), list[str]()
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", self._note)

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self.base, "data:")):
            self.elsewhere.append(request.url)

    def go(self, view: str = "") -> Any:
        """Open a view by its address, and return the page."""
        self.page.goto(f"{self.base}#/{view}")
        return self.settled()

    def settled(self) -> Any:
        """Wait until a view is there."""
        self.page.wait_for_timeout(30)
        self.page.wait_for_selector(READY)
        return self.page

    def text(self, selector: str) -> list[str]:
        return [str(x) for x in self.page.locator(selector).all_inner_texts()]

    def shot(self, name: str) -> None:
        """Keep a picture where somebody wants to look at it."""
        if folder := os.environ.get("SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.wait_for_timeout(350)
            self.page.screenshot(path=f"{folder}/{name}.png")

    def is_too_wide(self) -> bool:
        root = "document.documentElement"
        return bool(self.page.evaluate(f"{root}.scrollWidth > {root}.clientWidth"))


@contextmanager
def visiting(base: str, allowed: tuple[str, ...] = (), **how: Any) -> Iterator[Visit]:
    """Visit a page; nothing may go wrong but what is allowed, and nothing may be fetched from elsewhere."""
    from playwright.sync_api import sync_playwright

    binary = next(path for path in map(shutil.which, BROWSERS) if path)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        visit = Visit(context, base)
        yield visit
        browser.close()
    assert [text for text in visit.wrong if not any(part in text for part in allowed)] == []
    assert visit.elsewhere == []
