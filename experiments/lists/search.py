"""Search for settings by coordinate ascent on NDCG@10 of the validation task, the same for every method."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from lists.protocols import Task
from lists.rivals import Method

MOST_PASSES = 3
Setting = dict[str, Any]


def choose(method: Method, task: Task, quick: bool = False, say: Callable[..., None] = print) -> Setting:
    """Return the best setting found in passes over the parameters, until a pass changes nothing.

    A number moves to the next one in its grid while that is better; of any other parameter all values are tried. A
    quick search tries the inputs only.
    """
    setting, tried = dict(method.start), dict[tuple[Any, ...], float]()
    grid = {name: values for name, values in method.grid.items() if not quick or name == "input"}

    def quality(setting: Setting) -> float:
        key = tuple(setting.values())
        if key not in tried:
            began = perf_counter()
            tried[key] = task.measure(method.fitted(task, setting).lists(task.history, task.users))["NDCG@10"]
            say(f"  {method.name}, {as_text(setting)}: {tried[key]:.4f} ({perf_counter() - began:.1f} s)")
        return tried[key]

    for _ in range(MOST_PASSES):
        before = setting
        for name, values in grid.items():
            ordered, last = not isinstance(values[0], str), None
            while setting != last:
                last, at = setting, values.index(setting[name])
                near = values[max(at - 1, 0) : at + 2] if ordered else values
                setting = max(({**last, name: value} for value in near), key=quality)
        if setting == before:
            break
    return setting


def edges(method: Method, setting: Setting) -> list[str]:
    """Return the parameters whose chosen value is at either end of the grid."""
    numbers = {name: sorted(v) for name, v in method.grid.items() if len(v) > 2 and not isinstance(v[0], str)}
    return [name for name, values in numbers.items() if setting[name] in (values[0], values[-1])]


def as_text(setting: Setting) -> str:
    """Return a setting in one line."""
    return ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in setting.items())
