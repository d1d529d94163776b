"""The page that explores the models: a few files that are part of the package."""

from hashlib import sha256
from importlib.resources import files

from fastapi import FastAPI, Request
from starlette.responses import Response

from accams.explore.site import PAGE

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
SITE = b'{"service":true}'  # where a static page has its model


def add(app: FastAPI) -> None:
    """Serve the page at /, without looking at the disk again."""
    found = {each.name: each.read_bytes() for each in (files("accams.explore") / "page").iterdir()}
    found = {name: content for name, content in found.items() if name.endswith(PAGE)} | {"site.json": SITE}
    for name, content in found.items():
        _add(app, "/" if name == "index.html" else f"/{name}", content, TYPES.get(name.rpartition(".")[2]))


def _add(app: FastAPI, path: str, content: bytes, media_type: str | None) -> None:
    tag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}  # ask each time, so that a new version shows at once

    async def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type or "application/json")

    app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
