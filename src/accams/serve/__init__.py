"""The HTTP service: one or several model files behind a JSON API, and the page that explores them.

``accams serve`` runs it. The names below are what another program needs to run it as an ASGI application, imported when
first used; they need the packages of ``accams[serve]``.
"""

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["Settings", "Source", "create_app"]

_HOMES = {"Settings": "settings", "Source": "settings", "create_app": "app"}

if TYPE_CHECKING:
    from accams.serve.app import create_app
    from accams.serve.settings import Settings, Source


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accams.serve' has no attribute {name!r}")
    return getattr(importlib.import_module(f"accams.serve.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
