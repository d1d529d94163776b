"""Pages in node: export a model, ask its page, and compare answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
PAGE = Path(__file__).resolve().parents[2] / "src" / "accams" / "explore" / "page"
HERE = Path(__file__).parent
TOLERANCE = 1e-7  # a whole item map is compared in single precision


def run_node(script: Path, *arguments: Path | str, given: Any = None) -> Any:
    """What a script writes, as JSON."""
    text = json.dumps(given)
    command = [str(NODE), str(script), *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def ask(folder: Path, requests: list[tuple[str, Any]]) -> list[Any]:
    """Answers of the page in a folder, and problems as {"status", "detail"}."""
    (folder.parent / "package.json").write_text('{"type": "module"}')  # so that node takes .js for modules
    return run_node(HERE / "ask.mjs", folder, given=requests)


def different(one: Any, two: Any, place: str = "") -> str | None:
    """Where two answers differ by more than rounding errors, or None."""
    if isinstance(one, float) or isinstance(two, float):
        both = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (one, two))
        return None if both and abs(one - two) <= TOLERANCE * max(1.0, abs(one)) else f"{place}: {one!r}, {two!r}"
    if isinstance(one, dict) and isinstance(two, dict):
        if one.keys() != two.keys():
            return f"{place}: keys {sorted(one.keys() ^ two.keys())}"
        return next((x for key in one if (x := different(one[key], two[key], f"{place}.{key}"))), None)
    if isinstance(one, list) and isinstance(two, list):
        if len(one) != len(two):
            return f"{place}: {len(one)} and {len(two)} entries"
        pairs = enumerate(zip(one, two, strict=True))
        return next((x for p, (a, b) in pairs if (x := different(a, b, f"{place}[{p}]"))), None)
    return None if type(one) is type(two) and one == two else f"{place}: {one!r}, {two!r}"
