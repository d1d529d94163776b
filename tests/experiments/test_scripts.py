"""The scripts that are run by hand: what they import is there, also after a change elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
PACKAGE = FOLDER.parent / "src" / "accams"
PLACES = (FOLDER, FOLDER / "accuracy")


def found(module: str, beside: Path) -> Path | None:
    """Return the file of a module of the scripts, or None for one of a library."""
    for place in (beside, *PLACES):
        for path in (place / f"{module.replace('.', '/')}.py", place / module.replace(".", "/") / "__init__.py"):
            if path.is_file():
                return path
    return None


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield what stands at the level of a module, also within if, try and with."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from statements([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])


def names_of(path: Path) -> set[str]:
    """Return what a module defines or imports, and the modules of a package."""
    names = {each.stem for each in path.parent.glob("*.py")} if path.name == "__init__.py" else set[str]()
    names |= {each.parent.name for each in path.parent.glob("*/__init__.py")} if path.name == "__init__.py" else set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            bound = (each for each in ast.walk(node) if isinstance(each, ast.Name))
            names |= {each.id for each in bound if isinstance(each.ctx, ast.Store)}
    return names


def in_package(module: str) -> Path:
    """Return the file of a module of the package, which is not imported."""
    base = PACKAGE.joinpath(*module.split(".")[1:])
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_what_a_script_imports_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        of_accams = node.module.partition(".")[0] == "accams"
        source = in_package(node.module) if of_accams else found(node.module, path.parent)
        if source is None or source == PACKAGE / "__init__.py":  # of a library, or a public name
            continue
        missing = {alias.name for alias in node.names} - names_of(source)
        assert not missing, f"{node.module} has no {missing}"
