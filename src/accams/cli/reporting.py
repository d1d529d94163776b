"""report: read, gather, write."""

from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

from accams.cli.using import names_of
from accams.data.observations import Observations
from accams.errors import InputError
from accams.fitted.loading import load
from accams.model.size import bytes_text
from accams.report.facts import gather
from accams.report.page import plotly_js, write_page

out = Console()


def write_report(
    path: Path, output: Path | None, titles: Path | None, test: Path | None, columns: dict[str, Any],
    figures: Path | None,
) -> None:  # fmt: skip
    """A page about a model, and its figures if asked."""
    began, page = perf_counter(), output or path.with_suffix(".html")
    _check_paths(page, [path, titles, test], figures)
    library = plotly_js()
    model = load(path)
    called = names_of(titles, model.col_index)
    with Console(stderr=True).status("gathering what the model knows (with many draws, this takes a minute)"):
        evaluation = None if test is None else model.evaluate(Observations.from_file(test, **columns))
        facts = gather(model, called, evaluation, path.stat().st_size)
        write_page(facts, page, path.stem, library)
        drawn = list[Path]()
        if figures is not None:
            from accams.report.figures import save_all

            drawn = save_all(facts, figures)
    size, seconds = bytes_text(page.stat().st_size), perf_counter() - began
    out.print(f"wrote {page} ({size}) in {seconds:.1f} s", highlight=False, markup=False)
    if drawn:
        out.print(f"and {len(drawn)} figures into {figures}", highlight=False, markup=False)


def _check_paths(page: Path, read: list[Path | None], figures: Path | None) -> None:
    """Refuse to write over what is read, or into folders that are not there."""
    for each in read:
        if each is not None and each.resolve() == page.resolve():
            raise InputError(f"{page} is what is to be read: give --output another name")
    for folder in (page.parent, *([] if figures is None else [figures.parent])):
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder} to write into")
