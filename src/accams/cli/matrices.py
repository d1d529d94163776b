"""compress, decompress and info, for models and for matrices: which of both, the file tells."""

from pathlib import Path
from time import perf_counter
from typing import Any

import typer
from rich.console import Console

from accams.cli import tasks
from accams.cli.messages import two_columns
from accams.cli.options import check_outputs, size_in_bytes
from accams.data.matrices import open_matrix, write_matrix
from accams.errors import InputError
from accams.fitted.compression import compress, opened
from accams.fitted.loading import is_matrix
from accams.model import container
from accams.model.matrix import CompressedMatrix
from accams.model.size import bytes_text

out = Console()
FIGURES = (".png", ".svg", ".pdf")
NEEDED = "give one promise: --max-bytes 100k, --max-error 0.5 or --max-rmse 2"


def compress_file(
    path: Path, output: Path, max_bytes: str | None, max_error: float | None, max_rmse: float | None,
    array: str | None, ids: bool, lists: bool, weights: str, seed: int, history: Path | None,
) -> None:  # fmt: skip
    """Compress a model or a matrix."""
    given = [x for x in (max_bytes, max_error, max_rmse) if x is not None]
    if len(given) != 1:
        raise InputError(NEEDED)
    _check_paths(path, output)
    if container.is_container(path):
        if is_matrix(path):
            raise InputError(f"{path} is compressed already: accams decompress reads it")
        if max_bytes is None:
            raise InputError("--max-error and --max-rmse are for matrices: compress a model with --max-bytes")
        tasks.compress_file(path, max_bytes, output, ids, lists, weights, seed, history)
        return
    if not (ids and lists and weights == "activity" and history is None):
        raise InputError("--no-ids, --no-lists, --weights and --history are for models, and this is a matrix")
    size = None if max_bytes is None else size_in_bytes("--max-bytes", max_bytes)
    check_outputs({"matrix": output})
    began, before = perf_counter(), _bytes_of(path)
    with open_matrix(path, array) as found:
        small = compress(
            _named(found.rows, found.names), max_bytes=size, max_error=max_error, max_rmse=max_rmse, path=output,
            random_state=seed,
        )  # fmt: skip
    table = two_columns()
    _describe(table, small)
    table.add_row("time", f"{perf_counter() - began:.1f} s")
    table.add_row("saved", f"{output} ({bytes_text(small.nbytes)}; {path.name} has {bytes_text(before)})")
    out.print(table)


def decompress_file(path: Path, output: Path, rows: str | None, columns: str | None) -> None:
    """Write a compressed matrix as a plain file."""
    _check_paths(path, output)
    matrix = opened(path)
    check_outputs({"matrix": output} if output.suffix or output == Path("-") else {})
    begun = perf_counter()
    if rows is None and columns is None:
        names = matrix.row_names, matrix.column_names
        write_matrix(output, matrix.blocks(), matrix.shape, matrix.dtype, names)
        shape = matrix.shape
    else:
        part = _range("--rows", rows, matrix.shape[0]), _range("--columns", columns, matrix.columns)
        if columns is not None and matrix.ndim > 2:
            raise InputError("--columns is for matrices of two dimensions")
        block = matrix[part] if matrix.ndim == 2 else matrix[part[0]]
        shape = block.shape
        both = (matrix.row_names, matrix.column_names)
        names = tuple(None if x is None else x[each] for x, each in zip(both, part, strict=True))  # type: ignore[assignment]
        write_matrix(output, [block], shape, matrix.dtype, names)
    size = output.stat().st_size if output.is_file() else sum(each.stat().st_size for each in output.iterdir())
    told = f"{_shape_text(shape)} {matrix.dtype}, {bytes_text(size)}, {perf_counter() - begun:.1f} s"
    out.print(f"wrote {output} ({told})", highlight=False, markup=False)


def show_info(path: Path, plot: Path | None) -> None:
    """Print what a file of ours contains."""
    if not is_matrix(path):
        if plot is not None:
            raise InputError("--plot draws the error of a compressed matrix against its bytes, and this is a model")
        tasks.show_info(path)
        return
    if plot is not None and plot.suffix.lower() not in FIGURES:
        raise InputError(f"--plot draws {', '.join(FIGURES)}, not {plot.name}")
    matrix = CompressedMatrix.open(path)
    table = two_columns()
    table.add_row("kind", "compressed matrix")
    _describe(table, matrix)
    out.print(table)
    if plot is not None:
        from accams.report.curves import write_curve

        check_outputs({"figure": plot})
        write_curve(matrix, plot)
        out.print(f"wrote {plot}", highlight=False, markup=False)


def _check_paths(path: Path, output: Path) -> None:
    """Raise InputError for a file that is not there, and for one that would be overwritten by what it becomes."""
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if output.exists() and output.samefile(path):
        raise InputError(f"{output} is what is to be read: give --output another name")


def _describe(table: Any, matrix: CompressedMatrix) -> None:
    """Add what a compressed matrix is, what was promised, what came out, and where the bits went."""
    summary, parts = matrix.summary, matrix.parts()
    table.add_row("shape", f"{_shape_text(matrix.shape)} {matrix.dtype}")
    name, amount = next(iter(summary.promise.items()))
    table.add_row("promise", f"{name.replace('_', ' ')} {amount:,.6g}")
    ratio = summary.original / matrix.nbytes
    bits = 8.0 * matrix.nbytes / matrix.size
    share = f"1/{ratio:.3g} of" if ratio >= 1.0 else f"{1.0 / ratio:.3g} times"
    table.add_row("size", f"{bytes_text(matrix.nbytes)}  ({share} {bytes_text(summary.original)})")
    table.add_row("", f"{bits:.3g} bits a cell")
    table.add_row("largest error", f"{summary.max_error:.4g}")
    table.add_row("RMSE", f"{summary.rmse:.4g}")
    stencils = matrix.n_stencils
    panels = f" in {len(stencils)} panels of rows" if len(stencils) > 1 else ""
    table.add_row("stencils", f"{sum(stencils):,}{panels}")
    table.add_row("of the bytes", ", ".join(f"{bytes_text(size)} {part}" for part, size in parts.items() if size))


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{size:,}" for size in shape)


def _bytes_of(path: Path) -> int:
    return sum(each.stat().st_size for each in path.iterdir()) if path.is_dir() else path.stat().st_size


def _named(rows: Any, names: tuple[Any, Any]) -> Any:
    """Return a matrix with its names, as `compress` takes them."""
    if names == (None, None):
        return rows
    from accams.fitted.compression import NamedRows

    return NamedRows(rows, names)


def _range(flag: str, text: str | None, size: int) -> slice:
    """Parse 10:20, 10: or 7 as positions."""
    if text is None:
        return slice(0, size)
    first, colon, last = text.partition(":")
    try:
        start = int(first) if first else 0
        stop = (int(last) if last else size) if colon else start + 1
    except ValueError:
        start, stop = 0, 0
    if not 0 <= start < stop <= size:
        raise typer.BadParameter(f"{text!r} is no range within 0:{size}, such as 10:20", param_hint=flag)
    return slice(start, stop)
