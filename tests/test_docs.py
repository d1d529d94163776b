"""The documentation's own code: the pages of the API reference, and the examples of the gallery."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from types import ModuleType

import pytest

import accams
from accams import metrics, theory

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_reference", DOCS / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("module", [accams, metrics, theory], ids=lambda module: module.__name__)
def test_every_public_name_has_a_page_that_is_linked(reference: ModuleType, tmp_path: Path, module: ModuleType) -> None:
    reference.write(tmp_path)
    contents = (tmp_path / f"{module.__name__}.rst").read_text().split(".. toctree::")[1].split()
    for name in module.__all__:
        if not name.startswith("_"):
            page = f"{module.__name__}.{name}"
            assert f":: {page}\n" in (tmp_path / f"{page}.rst").read_text()
            assert page in contents
    assert module.__name__ in (tmp_path / "index.rst").read_text().split()


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
