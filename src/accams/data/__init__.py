"""Observations, readers, data sets, splits and synthetic data.

The names below are imported when first used, so that ``import accams.data`` stays cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

_SPLITS = ("by_time", "held_out_users", "k_fold", "leave_out", "permutation_test_positions", "random_split")
_HOMES = {
    "EventLog": "eventlog", "Events": "events", "Observations": "observations", "read_events": "events",
    "read_titles": "titles", **dict.fromkeys(_SPLITS, "splits"),
}  # fmt: skip

__all__ = [
    "EventLog", "Events", "Observations", "by_time", "datasets", "held_out_users", "k_fold", "leave_out",
    "permutation_test_positions", "planted", "random_split", "read_events", "read_titles", "splits",
]  # fmt: skip

if TYPE_CHECKING:
    from accams.data import datasets, planted, splits
    from accams.data.eventlog import EventLog
    from accams.data.events import Events, read_events
    from accams.data.observations import Observations
    from accams.data.splits import by_time, held_out_users, k_fold, leave_out, permutation_test_positions, random_split
    from accams.data.titles import read_titles


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'accams.data' has no attribute {name!r}")
    module = importlib.import_module(f"accams.data.{_HOMES.get(name, name)}")
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    return sorted(__all__)
