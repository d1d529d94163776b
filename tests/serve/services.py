"""Services of small models, for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

sys.path.append(str(Path(__file__).resolve().parents[1] / "explore"))

from explored_models import model

from accams.serve.settings import Source

Serve = Callable[..., TestClient]
KINDS = ("small", "accams", "bayesian", "lists", "both", "text ids", "effects")


def has_history(kind: str) -> bool:
    return model(kind).interactions is not None


def source(files: Path, kind: str, **more: Any) -> Source:
    history = str(files / f"{kind}.history") if has_history(kind) else None
    return Source(**{"name": kind, "model": str(files / f"{kind}.accams"), "history": history, **more})
