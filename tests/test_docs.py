"""The documentation's own code: the pages of the API reference, and the examples of the gallery."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
import runpy
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
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


def script(path: Path) -> ModuleType:
    """Import a script that is no module of a package."""
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return script(DOCS / "reference.py")


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


@pytest.mark.parametrize(
    "path", [EXAMPLES[0], *(pytest.param(path, marks=pytest.mark.full) for path in EXAMPLES[1:])],
    ids=lambda path: path.stem,
)  # fmt: skip
def test_examples_of_the_gallery_run(path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    runpy.run_path(str(path))
    assert pyplot.get_fignums()
    pyplot.close("all")


def test_notebooks_are_those_of_the_tutorials(tmp_path: Path) -> None:
    written = script(DOCS / "notebooks.py").write(tmp_path)
    kept = sorted((DOCS / "notebooks").glob("*.ipynb"))
    assert [path.name for path in written] == [path.name for path in kept]
    for new, old in zip(written, kept, strict=True):
        assert new.read_text() == old.read_text(), f"run python docs/notebooks.py: {old.name} is not of today"
        for cell in json.loads(new.read_text())["cells"]:
            if cell["cell_type"] == "code" and not cell["source"][0].startswith("%"):
                compile("".join(cell["source"]), new.name, "exec")


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    links = script(DOCS / "links.py")
    (tmp_path / "below").mkdir()
    (tmp_path / "index.html").write_text('<a href="below/#part">x</a> <a href="https://example.org">y</a>')
    (tmp_path / "below" / "index.html").write_text('<h2 id="part">x</h2> <a href="../index.html">y</a>')
    assert links.broken(tmp_path) == []
    (tmp_path / "below" / "index.html").write_text('<img src="gone.png"> <a href="#part">y</a>')
    found = sorted(links.broken(tmp_path))
    assert found == ["below/index.html: #part", "below/index.html: gone.png", "index.html: below/#part"]


def test_figures_of_the_results_find_their_tables() -> None:
    figures = script(DOCS.parent / "experiments" / "result_figures.py")
    text = (DOCS / "results" / "measurements.md").read_text()
    for draw in (figures.ratings, figures.by_bytes, figures.lists, figures.gaps, figures.matrices):
        for ax in draw(text).axes:
            drawn = np.concatenate([np.ravel(line.get_xdata()) for line in ax.lines])
            assert np.isfinite(drawn.astype(float)).mean() > 0.7  # not every method was run on every table


def test_the_conda_recipe_asks_for_what_the_package_does() -> None:
    root = DOCS.parent
    recipe = (root / "deploy" / "conda" / "meta.yaml").read_text()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = {re.sub("[>=<].*", "", x): x[len(re.sub("[>=<].*", "", x)) :] for x in project["dependencies"]}
    asked = dict(re.findall(r"^    - (\S+) (\S+)$", recipe.split("  run:")[1].split("test:")[0], re.MULTILINE))
    assert asked.pop("python") == project["requires-python"]
    assert {name.removeprefix("python-"): limits for name, limits in asked.items()} == wanted
    assert f'version = "{project["version"]}"' in recipe
    assert f"- accams = {project['scripts']['accams']}" in recipe


def test_files_that_are_named_are_there() -> None:
    """A clone has every file that a command, a workflow or a page names: one that git ignores would be missing."""
    root = DOCS.parent
    texts = [root / "Makefile", *root.glob("*.md"), *root.glob(".github/**/*.yml"), *DOCS.rglob("*.md")]
    texts += [*root.glob("src/**/*.py"), *root.glob("experiments/**/*.py"), *root.glob("deploy/*")]
    named = re.compile(r"(?<![\w./-])(?:docs|src|tests|deploy|experiments)/[\w./-]+\.(?:py|md|sh|js|ya?ml|svg|png)\b")
    missing = [
        f"{path.relative_to(root)} names {name}"
        for path in texts
        if path.is_file() and not any(part in ("api", "auto_examples") for part in path.parts)
        for name in named.findall(path.read_text())
        if not (root / name).exists()
    ]
    assert not missing
