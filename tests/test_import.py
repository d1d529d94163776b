"""Imports: `import accams` stays cheap, modules form floors without circles, and public names are documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import accams

HEAVY = ("numba", "sklearn", "scipy", "duckdb", "narwhals", "pandas", "rich", "typer", "pooch", "safetensors", "numpy")


def test_import_brings_no_heavy_package() -> None:
    code = f"import accams, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name in accams.__all__ if name != "__version__"])
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(accams, name) is not None
    assert name in dir(accams)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Accams'"):
        accams.Accams  # noqa: B018


def test_a_fit_does_not_wait_for_scikit_learn() -> None:
    code = (
        "import sys, numpy as np; from accams import ACCAMS; ACCAMS(1, 2).fit(np.eye(4)).predict([[0, 0]]); "
        "print([name for name in ('sklearn', 'pandas', 'duckdb', 'typer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- floors -------------------------------------------------------------------------------------------------------

SOURCE = Path(accams.__file__).parent
FLOORS = (
    "kernels", "data", "model", "engine", "fit", "use", "report", "fitted", "estimators", "codec", "batch", "explore",
    "serve", "cli",
)  # fmt: skip
BESIDE = {  # floors that these may use; those may be used by all that are named in ABOVE
    "settings": {"errors", "threads"},
    "errors": {"settings", "threads"},
    "threads": {"settings", "errors"},
    "writing": {"errors"},
    "html": set(),
    "metrics": {"settings", "errors", "threads", "writing", "kernels", "data", "model"},
    "baselines": {"settings", "errors", "threads", "writing", "kernels", "data", "model"},
    "theory": {"settings", "errors", "threads", "writing", "kernels", "data", "model"},
    "__main__": {"cli"},
}
FOR_ALL = {"settings", "errors", "threads", "writing", "html"}
ABOVE = {"metrics": "use", "baselines": "use"}  # the lowest floor that may use them
Edge = tuple[str, str]


def modules_in(folder: Path) -> dict[str, Path]:
    """Files of a package by the names of their modules."""
    names = {
        path: ".".join((folder.name, *path.relative_to(folder).with_suffix("").parts)) for path in folder.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


@cache
def tree_of(text: str) -> ast.Module:
    """The syntax tree of a file, which many tests look at."""
    return ast.parse(text)


@cache
def statements(text: str) -> list[ast.AST]:
    """Nodes of a file that may import something."""
    return [node for node in ast.walk(tree_of(text)) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]


def imported(node: ast.AST, modules: dict[str, Path]) -> Iterator[str]:
    """Modules of the package that a statement imports, wherever it stands and for whatever purpose."""
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports would be missed here"
        for each in node.names:
            full = f"{node.module}.{each.name}"
            yield (
                full
                if full in modules
                else f"{node.module}:{each.name}"
                if node.module == "accams"
                else str(node.module)
            )
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def edges_in(folder: Path) -> list[Edge]:
    """Who imports whom: lazy and type-only imports count, those of the package's own face (`__init__`) do not."""
    modules, edges = modules_in(folder), set[Edge]()
    for name, path in modules.items():
        for node in statements(path.read_text(encoding="utf-8")):
            edges |= {(name, other) for other in imported(node, modules) if other.split(":")[0] in modules}
    return sorted((a, b) for a, b in edges if a not in (b, folder.name))


def circle_in(edges: list[Edge]) -> list[str]:
    """A circle of imports, if there is one."""
    graph: dict[str, set[str]] = {}
    for a, b in edges:
        graph.setdefault(a, set()).add(b)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(each) for each in error.args[1]][::-1]
    return []


def floor_of(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def may_import(a: str, b: str) -> bool:
    """Whether a module may import another: on the same floor, below, or what stands beside."""
    if b == "accams:__version__":
        return True
    low, high = floor_of(b), floor_of(a)
    if low == high:
        return True
    if high in BESIDE:
        return low in BESIDE[high]
    if low in FOR_ALL:
        return True
    if high not in FLOORS or (low in BESIDE and low not in ABOVE):
        return False
    least = FLOORS.index(ABOVE[low]) if low in ABOVE else FLOORS.index(low) + 1 if low in FLOORS else len(FLOORS)
    return FLOORS.index(high) >= least


def upward(edges: list[Edge]) -> list[str]:
    return [f"{a} imports {b}" for a, b in edges if not may_import(a, b)]


def test_every_module_stands_on_a_floor() -> None:
    floors = {floor_of(name) for name in modules_in(SOURCE)} - {"accams"}
    assert floors == {*FLOORS, *BESIDE}


def test_imports_form_no_circle() -> None:
    edges = edges_in(SOURCE)
    assert len(edges) > 300
    assert not circle_in(edges), f"imports form a circle: {' -> '.join(circle_in(edges))}"


def test_imports_only_point_down() -> None:
    wrong = upward(edges_in(SOURCE))
    assert not wrong, "imports that point up:\n" + "\n".join(wrong)


FAULTS = [  # an import that is added to a module, and whether it closes a circle
    ("kernels/predict.py", "from accams.engine import cpu", True),
    ("data/ids.py", "def f():\n    from accams.data.observations import Observations", True),
    ("data/ids.py", "if TYPE_CHECKING:\n    from accams.data.observations import Observations", True),
    ("fit/backfit.py", "def f():\n    import accams.fitted.model", True),
    ("model/stencils.py", "if TYPE_CHECKING:\n    from accams.use.explain import Explanation", False),
    ("errors.py", "from accams.data.ids import Index", True),
    ("use/fold.py", "from accams import report", False),
    ("use/fold.py", "import importlib\nimportlib.import_module('accams.fitted.model')", True),
    ("engine/base.py", "from accams.metrics import rmse", False),
    ("theory/cover.py", "from accams.engine.base import Engine", False),
    ("fit/backfit.py", "from accams.theory.cover import cover", False),
    ("report/page.py", "from accams import ACCAMS", False),
    ("fitted/model.py", "from accams.cli.main import app", True),
]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("module", "line", "circle"),
    [*FAULTS[:3], *(pytest.param(*each, marks=pytest.mark.full) for each in FAULTS[3:])],
)
def test_an_import_too_many_is_found(module: str, line: str, circle: bool, tmp_path: Path) -> None:
    folder = shutil.copytree(SOURCE, tmp_path / "accams", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    name, after = f"accams.{module.removesuffix('.py').replace('/', '.')}", edges_in(folder)
    found = circle_in(after)
    assert bool(found) == circle
    if circle:
        assert found[0] == found[-1]
        assert name in found
        assert {*pairwise(found)} <= {*after}
    if module != "data/ids.py":  # whose new import stays on its floor
        assert [each.split(" imports ")[0] for each in upward(after)] == [name]


# -- public names -------------------------------------------------------------------------------------------------

PLAIN = (str, int, float, tuple, dict, list, frozenset)  # constants, which cannot have a docstring


def public_names() -> list[Edge]:
    """Names that modules list as public, by module; nothing is imported for it."""
    listed = list[Edge]()
    for module, path in sorted(modules_in(SOURCE).items()):
        text = path.read_text(encoding="utf-8")
        for node in tree_of(text).body if "__all__" in text else []:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                listed += [(module, name) for name in ast.literal_eval(node.value)]
    return listed


def test_submodules_say_what_is_public() -> None:
    said = {module for module, _ in public_names()}
    assert {"accams", "accams.batch", "accams.data", "accams.metrics", "accams.theory"} <= said


@pytest.mark.parametrize(("module", "name"), public_names(), ids=".".join)
def test_public_names_are_there_and_documented(module: str, name: str) -> None:
    value = getattr(importlib.import_module(module), name)
    if name == "__version__" or (isinstance(value, PLAIN) and name.isupper()):
        return
    text = inspect.getdoc(value)
    assert text, f"{module}.{name} has no docstring"
    assert len(text.splitlines()[0]) > 10
    if inspect.isclass(value):
        assert "__doc__" in vars(value), f"{module}.{name} has no docstring of its own"


def test_public_names_are_listed_once_and_in_order() -> None:
    assert len(set(accams.__all__)) == len(accams.__all__)
    assert accams.__all__ == sorted(accams.__all__)
    assert dir(accams) == sorted(accams.__all__)
