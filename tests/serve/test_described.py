"""The whole API as OpenAPI describes it: nothing that fits it, or does not, makes the service fail."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from pydantic import TypeAdapter
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from services import KINDS, model, source
from starlette.testclient import TestClient

from accams.serve.app import create_app
from accams.serve.routes import router
from accams.serve.settings import Settings

ANY = {"deadline": None, "derandomize": True, "suppress_health_check": list(hypothesis.HealthCheck)}
# A request may fit the schema and be refused: ids are those of a model, and some fields exclude each other.
FREE = [positive_data_acceptance]


def fits(client: TestClient, path: str, method: str = "GET", **request: Any) -> None:
    """Check that an answer is what is said of its route: no field of another type, none less and none more."""
    answer = client.request(method, f"/v1/{path}", **request)
    is_able = answer.status_code not in (404, 422)  # lists have no stencils and predict no values
    assert is_able or "lists" in str(request), answer.text
    routes: list[Any] = list(router.routes)
    route = next(x for x in routes if x.path_regex.match(answer.request.url.path) and method in x.methods)
    if is_able:
        kind = TypeAdapter(route.responses[200]["model"])
        found = kind.validate_python(answer.json(), strict=True)
        assert kind.dump_python(found, exclude_unset=True) == answer.json()


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_as_described(client: TestClient, kind: str) -> None:
    of, how = model(kind), {"model": kind}
    item, user = str(of.items[4]), str(of.users[4]) if len(of.users) else None
    views = ["model", "models", "items", "map", "hierarchy", "stencils", "stencils/0", f"items/{item}"]
    for path in views:
        fits(client, path, params=how)
    fits(client, "items", params={"id": item, **how})
    fits(client, "search", params={"q": "a", **how})
    fits(client, "similar", params={"item": item, **how})
    asks = [{"kind": what, "rated": {item: 4}, **how} for what in ("recommend", "predict", "explain")]
    for ask, more in zip(asks, ({"explain": True}, {"items": [item]}, {"item": item}), strict=True):
        ask.update(more)
        fits(client, ask["kind"], "POST", json={key: x for key, x in ask.items() if key != "kind"})
    fits(client, "batch", "POST", json={"requests": [*asks, {"kind": "similar", "item": item, **how}]})
    if user is not None:
        fits(client, f"users/{user}", params=how)
        fits(client, "users", params={"id": user, **how})
        fits(client, "hierarchy", params={"side": "users", **how})
        fits(client, "similar", params={"user": user, **how})


@pytest.fixture(scope="session")
def described(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("schema")
    for path in files.iterdir():
        shutil.copy(path, folder / path.name)
    sources = tuple(
        source(folder, kind, feedback=str(folder / f"{kind}.log")) for kind in ("small", "both", "text ids")
    )
    app = create_app(Settings(sources=sources, host="0.0.0.0", access_log=False))
    app.state.service.serving.start()
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def check(described: Any, n: int) -> None:
    for found in described.get_all_operations():
        operation = found.ok()
        for mode in GenerationMode:

            @hypothesis.settings(max_examples=n, **ANY)
            @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
            def requests(case: Any) -> None:
                answer = case.call()
                too_large = [negative_data_rejection] if answer.status_code == 413 else []  # which is a rejection, too
                case.validate_response(answer, excluded_checks=[*FREE, *too_large])

            with suppress(hypothesis.errors.Unsatisfiable):  # what takes nothing takes nothing wrong either
                requests()


def test_requests(described: Any) -> None:
    check(described, 2)


@pytest.mark.full
def test_many_requests(described: Any) -> None:
    check(described, 300)
