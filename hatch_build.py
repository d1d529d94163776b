"""What a wheel has beside the package: the studies that `accams reproduce` runs. A clone has them where they are."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts `experiments/paper` and `experiments/rivals` into wheels, not into editable installations."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            for name in ("paper", "rivals"):
                build_data["force_include"][f"experiments/{name}"] = f"accams/_experiments/{name}"
