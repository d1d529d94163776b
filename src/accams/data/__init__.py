"""Observations, readers, data sets, splits and synthetic data.

The names below are imported when first used, so that ``import accams.data`` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Observations": "observations",
    "by_time": "splits",
    "held_out_users": "splits",
    "k_fold": "splits",
    "leave_out": "splits",
    "paper_example": "planted",
    "permutation_test_positions": "splits",
    "planted_graph": "planted",
    "planted_stencils": "planted",
    "random_split": "splits",
    "read_titles": "titles",
}
_MODULES = ("datasets", "planted", "splits")

__all__ = [
    "Observations",
    "by_time",
    "datasets",
    "held_out_users",
    "k_fold",
    "leave_out",
    "paper_example",
    "permutation_test_positions",
    "planted",
    "planted_graph",
    "planted_stencils",
    "random_split",
    "read_titles",
    "splits",
]

if TYPE_CHECKING:
    from accams.data import datasets, planted, splits
    from accams.data.observations import Observations
    from accams.data.planted import paper_example, planted_graph, planted_stencils
    from accams.data.splits import (
        by_time,
        held_out_users,
        k_fold,
        leave_out,
        permutation_test_positions,
        random_split,
    )
    from accams.data.titles import read_titles


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"accams.data.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'accams.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"accams.data.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
