"""Problems: what went wrong with a request, as problem+json (RFC 9457) with one clear sentence."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

from accams.errors import AccamsError, UnknownIdError, WriteError, shown

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):  # noqa: N818  # as the standard calls it
    """A request that cannot be answered."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, shown(detail), dict(headers or {})

    @classmethod
    def of(cls, error: AccamsError) -> "Problem":
        """Return the problem that an error of the library tells."""
        if isinstance(error, UnknownIdError):
            return cls(404, str(error))
        return cls(507 if isinstance(error, WriteError) else 422, str(error))

    def content(self) -> dict[str, Any]:
        """Return the members of a problem document."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}

    def response(self) -> Response:
        """Return the answer to the request."""
        return Response(orjson.dumps(self.content()), self.status, self.headers, MEDIA_TYPE)


def invalid(errors: Sequence[Any], prefix: int = 1) -> Problem:
    """Return the problem of a request that does not fit its schema, given what pydantic found.

    The first `prefix` parts of a place say whether it is in the body, the query or the path.
    """
    first = errors[0]
    if first["type"].startswith("json"):
        return Problem(400, f"the body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    kinds = "[({"  # of the type that was tried, where several are possible
    place = ".".join(str(part) for part in first["loc"][prefix:] if not any(c in str(part) for c in kinds))
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    told = first["msg"].removeprefix("Value error, ")
    return Problem(422, f"{place}: {told}{more}" if place else f"{told}{more}")
