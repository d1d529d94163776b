"""What every request passes before and after it is answered: limits, secrets, headers, counts and the log.

One layer of plain ASGI, since each further layer costs every request some time.
"""

import hmac
import json
import logging
import sys
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from accams.serve import lane
from accams.serve.problems import Problem
from accams.serve.service import Service

log = logging.getLogger("accams.serve")
BURST = 2.0  # seconds of its rate that a client may use at once
MOST_CLIENTS = 10_000  # whose rates are remembered
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", POLICY.encode()),
]


class Guard:
    """Passes on requests that are allowed, counts them, and adds headers to answers."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        self.settings, self.metrics = service.settings, service.metrics
        settings = self.settings
        self._hosts = settings.allowed_hosts
        self._tokens = [f"Bearer {token}".encode() for token in settings.tokens]
        self._rates = None if settings.rate is None else Rates(settings.rate)
        self._headers = [x for x in HEADERS if x[0] != b"cross-origin-resource-policy" or not settings.origins]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, seen = time.perf_counter(), {"status": 0, "bytes": 0}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
                message["headers"] = [*message["headers"], *self._headers]
            elif message["type"] == "http.response.body":
                seen["bytes"] += len(message.get("body", b""))
            await send(message)

        self.metrics.in_flight.inc()
        try:
            await self._answer(scope, _limited(receive, self.settings.max_body), sending)
        except Exception:
            log.exception("request_failed", extra={"route": getattr(scope.get("route"), "path", "other")})
            if seen["status"]:  # it has begun to answer: all that is left is to break off
                raise
            await Problem(500, "the service failed to answer this request: its log says why").response()(
                scope, receive, sending
            )
        finally:
            self.metrics.in_flight.dec()
            self._note(scope, seen, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._refused(scope)
        if problem is not None:
            await problem.response()(scope, receive, send)
        elif scope["method"] == "POST" and lane.path_of(scope) in lane.KINDS:
            await lane.answer(self.service, scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _refused(self, scope: Scope) -> Problem | None:
        """Return why a request is not allowed, if it is not."""
        path = lane.path_of(scope)
        if path.startswith("/health/"):  # whoever starts and stops the service calls by any name, often
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = _name(headers.get(b"host", b"").decode("latin-1"))
        if self._hosts is not None and host not in self._hosts:
            return Problem(421, f"this service does not answer to the name {host!r}: allow it by --allow-host")
        if self._rates is not None and scope.get("client") and not self._rates.allows(scope["client"][0]):
            return Problem(429, "too many requests: wait a second, or ask for several things in a batch", RETRY)
        if self._tokens and _needs_token(path) and not self._has_token(headers.get(b"authorization", b"")):
            return Problem(
                401, "send a token of this service: Authorization: Bearer ...", {"WWW-Authenticate": "Bearer"}
            )
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.settings.max_body:
            return too_large(self.settings.max_body)
        json_only = scope["method"] == "POST" and path in lane.KINDS
        if json_only and not headers.get(b"content-type", b"").lower().startswith(b"application/json"):
            # Browsers send other types from any page without asking; JSON they may send from our own alone.
            return Problem(415, "send JSON: Content-Type: application/json")
        return None

    def _has_token(self, given: bytes) -> bool:
        return sum(hmac.compare_digest(given, token) for token in self._tokens) > 0  # all: not sooner for the first one

    def _note(self, scope: Scope, seen: dict[str, int], seconds: float) -> None:
        """Count and log a request by its route: paths and queries hold ids of people."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.answered(route, method, seen["status"], seconds)
        if self.settings.access_log:
            line = {"time": stamp(time.time()), "level": "info", "event": "request", "method": method, "route": route}
            sys.stderr.write(json.dumps({**line, **seen, "ms": round(1e3 * seconds, 2)}) + "\n")


RETRY = {"Retry-After": "1"}
METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")


class Rates:
    """How many requests each client may make: buckets that fill again with time."""

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, max(1.0, BURST * rate)
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str) -> bool:
        """Return whether a client may make a request now."""
        now = time.monotonic()
        left, when = self._clients.pop(client, (self._most, now))
        left = min(self._most, left + self._rate * (now - when))
        allowed = left >= 1.0
        self._clients[client] = (left - 1.0 if allowed else left), now
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return allowed


def too_large(most: int) -> Problem:
    """Return the problem of a body that is too large."""
    return Problem(413, f"the body has more than {most:,} bytes: send less at a time, or raise --max-body")


def _needs_token(path: str) -> bool:
    """Return whether a path is not open to everybody; the page itself holds nothing of the model."""
    return path.startswith("/v1/") or path in ("/metrics", "/openapi.json")


def _limited(receive: Receive, most: int) -> Receive:
    """Return `receive` that raises Problem for a body that is longer than it said."""
    total = 0

    async def limited() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > most:
            raise too_large(most)
        return message

    return limited


def _name(host: str) -> str:
    """Return the name in a Host header, without the port.

    Examples
    --------
    >>> _name("LocalHost:8000"), _name("[::1]:8000"), _name("127.0.0.1")
    ('localhost', '[::1]', '127.0.0.1')
    """
    host = host.lower().strip()
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def stamp(when: float) -> str:
    """Return a time as text, in UTC.

    Examples
    --------
    >>> stamp(1.25)
    '1970-01-01T00:00:01.250Z'
    """
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


class JsonLines(logging.Formatter):
    """Formats records as one JSON object a line."""

    USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, event and all that was given as `extra`."""
        more = {name: x for name, x in vars(record).items() if name not in self.USUAL}
        when, level = stamp(record.created), record.levelname.lower()
        line: dict[str, Any] = {"time": when, "level": level, "event": record.getMessage(), **more}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
