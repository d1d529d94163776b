"""The documentation's own code: the pages of the API reference, and the examples of the gallery."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import runpy
from pathlib import Path
from types import ModuleType

import pytest

import accams
from accams import metrics, theory

DOCS = Path(__file__).parents[1] / "docs"
PUBLIC = [
    "accams",
    "accams.baselines",
    "accams.batch",
    "accams.data.datasets",
    "accams.data.eventlog",
    "accams.data.planted",
    "accams.data.splits",
    "accams.explore",
    "accams.metrics",
    "accams.report",
    "accams.serve",
    "accams.theory",
]
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_reference", DOCS / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_a_page_that_is_linked(reference: ModuleType, tmp_path: Path, module: str) -> None:
    pages = {path.stem: path.read_text() for path in reference.write(tmp_path)}
    linked = pages.keys() & pages[module].split(".. toctree::")[1].split()
    for name in reference.public_names(importlib.import_module(module)):
        if not inspect.ismodule(getattr(importlib.import_module(module), name)):
            assert any(f":: {module}.{name}\n" in pages[page] for page in linked), name
    assert module in pages["index"].split()


@pytest.mark.parametrize("module", [accams, metrics, theory], ids=lambda module: module.__name__)
def test_public_names_are_those_of_all(reference: ModuleType, module: ModuleType) -> None:
    assert reference.public_names(module) == sorted(set(module.__all__) - {"__version__"})


def test_names_that_differ_in_case_only_have_pages_of_their_own(reference: ModuleType, tmp_path: Path) -> None:
    names = [path.name.lower() for path in reference.write(tmp_path)]
    assert len(names) == len(set(names))


def test_pages_of_names_that_are_gone_are_removed(reference: ModuleType, tmp_path: Path) -> None:
    stale = tmp_path / "accams.gone.rst"
    stale.write_text("accams.gone\n===========\n")
    reference.write(tmp_path)
    assert not stale.exists()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_the_gallery_run(path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    runpy.run_path(str(path))
    assert pyplot.get_fignums()
    pyplot.close("all")
