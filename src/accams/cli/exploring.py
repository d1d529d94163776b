"""explore: read a model, and write the page that explores it."""

from pathlib import Path
from time import perf_counter

from rich.console import Console

from accams.cli.using import loaded, names_of
from accams.errors import InputError
from accams.explore.site import export
from accams.model.size import bytes_text

out = Console(emoji=False)


def write_site(
    path: Path, output: Path, titles: Path | None, users: bool, history: Path | None, name: str | None
) -> None:
    """Write a folder of static files."""
    began = perf_counter()
    if history is not None and not users:
        raise InputError("--history is what users have seen, which a page tells only with --users")
    if output.exists():
        raise InputError(f"{output} exists already: give --output another name, or remove it")
    model = loaded(path, history)
    called = names_of(titles, model.col_index)
    with Console(stderr=True).status("writing the page (a model with many draws is distilled first)"):
        export(model, output, titles=called, name=name or path.stem, users=users)
    size = bytes_text(sum(each.stat().st_size for each in output.iterdir()))
    out.print(f"wrote {output} ({size}) in {perf_counter() - began:.1f} s", highlight=False, markup=False)
    out.print(f"look at it: python -m http.server --directory {output}", highlight=False, markup=False)
