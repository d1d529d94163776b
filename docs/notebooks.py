"""Write a notebook for each tutorial of the gallery, for Colab and for those who would rather run cells.

Run: python docs/notebooks.py            (the tests compare docs/notebooks/ with what this writes)
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PAGES = "https://accams.github.io/accams/auto_examples"
INSTALL = "%pip install --quiet 'accams[demo,notebook,plot]'"


def notebook_of(script: str) -> dict[str, Any]:
    """Return the notebook of a script in the format of Sphinx-Gallery.

    Examples
    --------
    >>> made = notebook_of('\"\"\"\\nTitle\\n=====\\n\\nText.\\n\"\"\"\\n\\n# %%\\n# Part\\n# ----\\n\\nx = 1\\n')
    >>> [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]][0]
    ('markdown', '# Title\\n\\nText.')
    >>> "".join(made["cells"][-1]["source"])
    'x = 1'
    """
    module = ast.parse(script)
    about = module.body[0]
    assert isinstance(about, ast.Expr)
    begin = "\n".join(script.splitlines()[about.end_lineno or 0 :])
    cells = [_cell("markdown", _markdown(ast.get_docstring(module) or "")), _cell("code", INSTALL)]
    for block in begin.split("\n# %%")[0:]:
        lines = block.strip("\n").splitlines()
        told = next((p for p, line in enumerate(lines) if not line.startswith("#")), len(lines))
        text = "\n".join(re.sub(r"^# ?", "", line) for line in lines[:told])
        code = "\n".join(re.sub(r"  # noqa:[^-]*?( - .*)?$", "", line) for line in lines[told:]).strip("\n")
        cells += [_cell(kind, each) for kind, each in (("markdown", _markdown(text)), ("code", code)) if each.strip()]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about_language = {"name": "python", "pygments_lexer": "ipython3"}
    metadata = {"kernelspec": kernel, "language_info": about_language}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _markdown(text: str) -> str:
    """Return the little reStructuredText that tutorials use as Markdown: headings, code and links."""
    text = re.sub(r"^(.+)\n=+$", r"# \1", text, flags=re.MULTILINE)
    text = re.sub(r"^(.+)\n-+$", r"## \1", text, flags=re.MULTILINE)
    text = re.sub(r":doc:`([^<`]+?)\s*<([^>]+)>`", lambda x: f"[{x[1]}]({PAGES}/{x[2]}.html)", text)
    text = re.sub(r"`([^<`]+?)\s*<([^>]+)>`__?", r"[\1](\2)", text)
    return text.replace("``", "`").strip()


def write(folder: Path = DOCS / "notebooks") -> list[Path]:
    """Write the notebooks of all tutorials; return their paths."""
    folder.mkdir(exist_ok=True)
    written = []
    for script in sorted((DOCS / "examples").glob("plot_*.py")):
        path = folder / f"{script.stem.removeprefix('plot_')}.ipynb"
        made = notebook_of(script.read_text(encoding="utf-8"))
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    for path in write():
        print(f"wrote {path.relative_to(DOCS.parent)}")
