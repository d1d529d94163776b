"""The scripts that are run by hand: what they import is there, also after a change elsewhere."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
PLACES = (FOLDER, FOLDER / "accuracy")


def found(module: str, beside: Path) -> Path | None:
    """Return the file of a module of the scripts, or None for one of a library."""
    for place in (beside, *PLACES):
        for path in (place / f"{module.replace('.', '/')}.py", place / module.replace(".", "/") / "__init__.py"):
            if path.is_file():
                return path
    return None


def defines(path: Path, name: str) -> bool:
    """Return whether a file binds a name anywhere, or is a package that holds a module of that name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) == name:
            return True
    return path.name == "__init__.py" and found(name, path.parent) is not None


def in_package(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_what_a_script_imports_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        source = found(node.module, path.parent)
        for name in (alias.name for alias in node.names):
            if source is not None:
                assert defines(source, name), f"{node.module} has no {name}"
            elif node.module.partition(".")[0] == "accams":
                assert in_package(node.module, name), f"{node.module} has no {name}"
