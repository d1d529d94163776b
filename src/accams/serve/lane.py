"""Requests with a body: bytes in, bytes out, without the framework in between, which would take longer than the answer.

The same requests are declared in `routes`, from which OpenAPI describes them; what they mean is in `Service`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from accams.errors import AccamsError
from accams.serve.problems import Problem, invalid
from accams.serve.schemas import BatchAsk, ExplainAsk, FeedbackAsk, PredictAsk, RecommendAsk
from accams.serve.service import Service

SHORT = 1 << 14  # bytes of a body that is read at once; a long one would hold up other requests
KINDS: Mapping[str, type[BaseModel]] = {
    "/v1/recommend": RecommendAsk,
    "/v1/predict": PredictAsk,
    "/v1/explain": ExplainAsk,
    "/v1/batch": BatchAsk,
    "/v1/feedback": FeedbackAsk,
}


class Named:
    """Stands for the route of a request, for those who count requests."""

    def __init__(self, path: str) -> None:
        self.path = path


NAMED = {path: Named(path) for path in KINDS}


def path_of(scope: Scope) -> str:
    """Return the path by which routes know a request, also where the application is mounted below another path.

    Examples
    --------
    >>> [path_of({"path": path, "root_path": "/films"}) for path in ("/films/v1/model", "/filmstrip")]
    ['/v1/model', '/filmstrip']
    """
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


async def answer(service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request whose path is one of `KINDS`."""
    path = path_of(scope)
    scope["route"] = NAMED[path]
    try:
        response = await _answered(service, path, await _body(receive))
    except ValidationError as error:
        response = invalid(error.errors(include_url=False, include_input=False), 0).response()
    except Problem as problem:
        response = problem.response()
    except AccamsError as error:
        response = Problem.of(error).response()
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})


async def _answered(service: Service, path: str, body: bytes) -> Response:
    read: Callable[[bytes], Any] = KINDS[path].model_validate_json
    ask = read(body) if len(body) <= SHORT else await run_in_threadpool(read, body)
    special: dict[str, Callable[[Any], Awaitable[Response]]] = {
        "/v1/batch": service.batch,
        "/v1/feedback": service.feedback,
    }
    if path in special:
        return await special[path](ask)
    return await service.answer(path.removeprefix("/v1/"), ask)


async def _body(receive: Receive) -> bytes:
    parts, more = list[bytes](), True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False) and message["type"] == "http.request"
    return b"".join(parts)
