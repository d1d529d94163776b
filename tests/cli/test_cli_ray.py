"""accams fit on a cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import twins
from command_line import done_well, refusal

from accams import load

ray = pytest.importorskip("ray", reason="Ray is not installed")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    twins.case("missing", (40, 30)).observations.to_store(tmp_path / "s")
    return tmp_path / "s"


def test_an_address_where_nobody_is(store: Path) -> None:
    told = refusal("fit", store, "--engine", "ray", "--address", "127.0.0.1:1", "--test", "0")
    assert told.startswith("there is no Ray cluster at 127.0.0.1:1 (")
    assert told.endswith("): start one with ray start --head, or use --engine cpu")


def test_a_cluster_that_asks_for_a_token(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray says so only in what led to its error."""

    def refused(**how: object) -> None:
        reason = RuntimeError("RPC error: InvalidAuthToken: Authentication token is missing or incorrect")
        raise ConnectionError("Failed to connect to Ray cluster") from reason

    monkeypatch.setattr(ray, "init", refused)
    monkeypatch.setattr("accams.engine.ray.cluster._knock", lambda address: None)
    told = refusal("fit", store, "--engine", "ray", "--address", "127.0.0.1:1", "--test", "0")
    assert told.startswith("the Ray cluster at 127.0.0.1:1 asks for a token: set RAY_AUTH_MODE=token")


def test_an_address_needs_the_engine(store: Path) -> None:
    assert refusal("fit", store, "--address", "auto") == "--address is that of a Ray cluster: add --engine ray"


@pytest.mark.full
def test_a_cluster_of_this_machine(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started for the fit, and stopped."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    common = ["--model", "accams", "--stencils", "2", "--clusters", "3", "--test", "0", "-q"]
    for engine in (["cpu"], ["ray", "--shards", "2"]):
        done_well("fit", store, "-o", tmp_path / engine[0], *common, "--engine", *engine)
    mine, theirs = (load(tmp_path / name).stencils for name in ("cpu", "ray"))
    assert all(np.array_equal(a, b) for a, b in zip(mine.row_labels, theirs.row_labels, strict=True))
    assert not ray.is_initialized()
