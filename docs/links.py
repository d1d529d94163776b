"""Check the links of the built documentation: every page, picture and heading that is linked to must be there.

Run: python docs/links.py site            (make docs does so)
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Targets of a page's links and the names that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.names = set[str](), {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        self.links |= {given[name] for name in ("href", "src") if name in given}


def broken(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere; links to other sites are not followed."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            there = pages.get(target)
            if not target.exists() or (there is not None and unquote(parts.fragment) not in there.names):
                found.append(f"{path.relative_to(site.resolve())}: {link}")
    return found


if __name__ == "__main__":
    lines = broken(Path(sys.argv[1]))
    print("\n".join(lines) or "all links lead somewhere")
    sys.exit(bool(lines))
