"""Settings of the documentation: ``make docs`` builds it with Sphinx into ``site/``."""

from __future__ import annotations

import re
import sys
from importlib import resources
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference  # noqa: E402 - found beside this file

project = "accams"
author = "The accams developers"
copyright = author
version = release = version_of("accams")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "notebooks"]
nitpicky = True

# Pages: the headings down to the third level can be linked to, as on GitHub.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# API reference. Docstrings name the types, so signatures leave them out; nothing is fetched from other
# projects' inventories, so that the documentation builds without a network.
reference.write(HERE / "api")
autosummary_generate = False
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
default_role = "literal"
numpydoc_class_members_toctree = False
numpydoc_attributes_as_param_list = False
numpydoc_show_inherited_class_members = dict.fromkeys(reference.sequences(), False)  # not `count` and `index`

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "accams"
html_static_path = ["static"]
html_css_files = ["accams.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "accams"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "quickstart": []}


def escape_bars(app: Sphinx, kind: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Escape the bars of formulas such as ``|M|`` in docstrings, which would be substitutions otherwise."""
    lines[:] = [re.sub(r"(?<![\\`|])\|([^|`\s][^|`]*)\|", r"\\|\1\\|", line) for line in lines]


def unlink_inherited(app: Sphinx, kind: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Turn the references of docstrings inherited from scikit-learn into text: they lead to its own pages."""
    if str(getattr(value, "__module__", "")).startswith("sklearn"):
        text = re.sub(r":\w+:`~?([^`<]+?)(?:\s*<[^`>]*>)?`", r"\1", "\n".join(lines))
        lines[:] = text.split("\n")


def strip_last_blank(app: Sphinx, name: str, source: list[str]) -> None:
    """Remove the blank line that ends the doctests of a page: doctest needs it, a reader does not."""
    source[0] = re.sub(r"(?s)(```python\n>>> .*?)\n+```", r"\1\n```", source[0])


def use_own_plotly(app: Sphinx, page: str, template: str, context: dict[str, object], doctree: object) -> None:
    """Load Plotly from the site itself, where a page has a figure of it, not from elsewhere."""
    body = str(context.get("body", ""))
    own = "../" * page.count("/") + "_static/plotly.min.js"
    found, n = re.subn(r'<script[^>]*src="https://cdn\.plot\.ly/[^"]*"[^>]*>', f'<script src="{own}">', body)
    if n:
        library = resources.files("plotly") / "package_data" / "plotly.min.js"
        (Path(app.outdir) / "_static").mkdir(exist_ok=True)
        (Path(app.outdir) / "_static" / "plotly.min.js").write_bytes(library.read_bytes())
        context["body"] = found


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", use_own_plotly)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
    app.connect("autodoc-process-docstring", unlink_inherited, priority=100)
    app.connect("source-read", strip_last_blank)
