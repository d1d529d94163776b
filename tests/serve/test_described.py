"""The whole API as OpenAPI describes it: nothing that fits it, or does not, makes the service fail."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from services import source

from accams.serve.app import create_app
from accams.serve.settings import Settings

ANY = {"deadline": None, "derandomize": True, "suppress_health_check": list(hypothesis.HealthCheck)}
# A request may fit the schema and be refused: ids are those of a model, and some fields exclude each other.
FREE = [positive_data_acceptance]


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
    check(described, 3)


@pytest.mark.full
def test_many_requests(described: Any) -> None:
    check(described, 300)
