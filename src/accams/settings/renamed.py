"""Keyword arguments under their former names: they work for one more release, with a FutureWarning."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from accams.errors import warn_deprecated

P = ParamSpec("P")
R = TypeVar("R")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take keyword arguments by former names, such as ``renamed(seen="history")``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> R:
            for old in names.keys() & given.keys():
                warn_deprecated(f"{old} of {function.__name__}", names[old])
                given[names[old]] = given.pop(old)
            return function(*args, **given)

        return call

    return decorate
