"""The application: routes of the API, in OpenAPI, and what starts and stops with it."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import compile_path

from accams import __version__
from accams.errors import AccamsError
from accams.serve import pages, routes
from accams.serve.guard import Guard
from accams.serve.metrics import Metrics
from accams.serve.problems import Problem, invalid
from accams.serve.service import Service
from accams.serve.settings import Settings

log = logging.getLogger("accams.serve")
DESCRIPTION = (
    "Recommendations, predictions, similar items and explanations of accams models. Ids are integers or text; in "
    "paths, queries and keys they are text. Each answer names the model and its version. Errors are problem documents "
    "(RFC 9457) with one sentence in `detail`."
)


def create_app(settings: Settings) -> FastAPI:
    """Return the service as an ASGI application.

    Parameters
    ----------
    settings : Settings
        What to serve, and within which limits. Port and workers are those of whoever runs the application; `host` says
        whether it can be reached from elsewhere.

    Returns
    -------
    FastAPI
        Models are loaded when it starts.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from starlette.testclient import TestClient
    >>> from accams import ACCAMS
    >>> from accams.serve import Settings, Source, create_app
    >>> model = ACCAMS(n_stencils=1, n_clusters=2).fit(np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2]))
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "films.accams")
    ...     model.save(path)
    ...     app = create_app(Settings((Source("films", str(path)),), access_log=False))
    ...     with TestClient(app, base_url="http://localhost") as client:
    ...         answer = client.post("/v1/recommend", json={"rated": {"0": 3}, "n": 1})
    >>> [line["item"] for line in answer.json()["items"]]
    [2]
    """
    service = Service(settings, Metrics())
    service.open_logs()
    app = FastAPI(
        title="accams", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None,
        lifespan=partial(_lifespan, service),
    )  # fmt: skip
    app.state.service = service
    if settings.tokens:
        app.openapi = partial(_with_tokens, app.openapi)  # type: ignore[method-assign]
    app.include_router(routes.router)
    app.include_router(routes.operations)
    if settings.page:
        pages.add(app)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(AccamsError, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(Guard, service=service)
    if settings.origins:  # outside: browsers ask first, without a token, whether they may ask
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.origins, allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )  # fmt: skip
    return app


@asynccontextmanager
async def _lifespan(service: Service, _: FastAPI) -> AsyncIterator[None]:
    """Load the models, then look for new versions of them until the end."""
    if not service.serving.is_ready:
        await run_in_threadpool(service.serving.start)
    gc.collect()
    gc.freeze()  # models stay: looking through them again and again would hold up requests
    every = service.settings.looks_every
    watching = None if every is None else asyncio.create_task(_watch(service, every))
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        gc.unfreeze()


def _with_tokens(described: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the description of the API, with the token that it asks for."""
    found = described()
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    return found


async def _watch(service: Service, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await run_in_threadpool(service.serving.look)
        except Exception:  # looking goes on: the next version may be better
            log.exception("look_failed")


async def _problem(_: Request, error: Exception) -> Response:
    return (error if isinstance(error, Problem) else Problem.of(error)).response()  # type: ignore[arg-type]


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid(error.errors()).response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told: dict[int, str] = {
        404: f"there is nothing at this path: see {request.base_url}openapi.json",
        405: f"{request.method} is not possible here",
    }
    headers: Any = {"Allow": ", ".join(_methods(request))} if error.status_code == 405 else error.headers
    return Problem(error.status_code, told.get(error.status_code, str(error.detail)), headers).response()


def _methods(request: Request) -> list[str]:
    """Return the methods of all routes at the path of a request; the framework knows those of the first."""
    found = set[str]()
    for path, operations in request.app.openapi()["paths"].items():
        if compile_path(path.replace("}", ":path}"))[0].fullmatch(request.url.path):
            found.update(method.upper() for method in operations)
    return sorted(found)
