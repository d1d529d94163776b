"""Keyword arguments under their former names: they work for one more release, with a FutureWarning."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take keyword arguments by former names, such as ``renamed(seen="history")``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> R:
            for old in names.keys() & given.keys():
                text = f"{old} is deprecated in {function.__name__}, to be removed in 0.3: use {names[old]}"
                warnings.warn(text, FutureWarning, stacklevel=2)
                given[names[old]] = given.pop(old)
            return function(*args, **given)

        return call

    return decorate
