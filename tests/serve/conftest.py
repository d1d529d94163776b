"""Fixtures of the service: model files, and services in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from services import KINDS, Serve, has_history, model, source
from starlette.testclient import TestClient

from accams.serve.app import create_app
from accams.serve.settings import Settings, Source


@pytest.fixture(scope="session", autouse=True)
def no_garbage() -> Iterator[None]:
    """Services of this process do not look through all its objects when they start, which are those of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        nothing = SimpleNamespace(collect=lambda: 0, freeze=lambda: None, unfreeze=lambda: None)
        patch.setattr("accams.serve.app.gc", nothing)
        yield


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models of every kind."""
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        model(kind).save(folder / f"{kind}.accams", history=folder / f"{kind}.history" if has_history(kind) else False)
    return folder


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a service of some sources, and return its client."""
    running = list[TestClient]()

    def start(*sources: Source, **settings: Any) -> TestClient:
        app = create_app(Settings(sources=sources, **{"access_log": False, **settings}))
        client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
        client.__enter__()
        running.append(client)
        return client

    yield start
    for client in running:
        client.__exit__(None, None, None)


@pytest.fixture(scope="session")
def client(files: Path) -> Iterator[TestClient]:
    """A service of models of every kind, which no test changes."""
    app = create_app(Settings(sources=tuple(source(files, kind) for kind in KINDS), access_log=False))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client
