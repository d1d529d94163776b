"""The `accams` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from accams import __version__
from accams.errors import AccamsError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Complete, compress and explain matrices with sums of small co-clusterings.\n\n"
    "Start with [bold]accams demo[/], then [bold]accams fit ratings.csv -o model.accams[/].",
)

Model = Annotated[Path, typer.Argument(help="A model file written by `accams fit`.", show_default=False)]
Data = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, '::'-separated, Parquet or NPZ; plain, .gz, or inside a .zip (archive.zip/inner/ratings.dat).",
        show_default=False,
    ),
]
Row = Annotated[
    str | None, typer.Option("--row", help="Column with the row (user) ids, if its name is not a usual one.")
]
Col = Annotated[str | None, typer.Option("--col", help="Column with the column (item) ids.")]
Value = Annotated[str | None, typer.Option("--value", help="Column with the values (ratings).")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write.", show_default=False)]


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of the split and the fit.")] = 0,
) -> None:
    """Fit a model to a small MovieLens table and show what it can do (needs the extra `accams[demo]`)."""
    from accams.cli.demo import run_demo

    run_demo(seed)


@app.command()
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path("model.accams"),
    row: Row = None,
    col: Col = None,
    value: Value = None,
    weight: Annotated[str | None, typer.Option(help="Column with weights of the observations.")] = None,
    stencils: Annotated[int, typer.Option("--stencils", "-s", help="Stencils (with --early-stopping: at most).")] = 13,
    clusters: Annotated[
        str,
        typer.Option("--clusters", "-k", help="Clusters of each stencil: 10, or 20x5 for rows x columns."),
    ] = "10",
    learning_rate: Annotated[
        str, typer.Option(help="Share of each stencil that enters the model, above 0 up to 1, or auto.")
    ] = "auto",
    shrinkage: Annotated[float, typer.Option(help="Penalty on template entries.")] = 0.0,
    early_stopping: Annotated[
        bool, typer.Option("--early-stopping", help="Choose the number of stencils on held-out entries.")
    ] = False,
    relearn: Annotated[int, typer.Option(help="Further passes over all stencils.")] = 0,
    refit: Annotated[bool, typer.Option("--refit", help="Solve for all templates at once in the end.")] = False,
    init: Annotated[str, typer.Option(help="k-means++, or random as in the paper.")] = "k-means++",
    duplicates: Annotated[str, typer.Option(help="Pairs that come twice: error, mean, last or sum.")] = "error",
    zeros: Annotated[str, typer.Option(help="Blank cells: missing, or observed (as zeros).")] = "missing",
    zero_weight: Annotated[float, typer.Option(help="Weight of a blank with --zeros observed.")] = 1.0,
    test: Annotated[float, typer.Option(help="Share of the entries held out to report the error; 0 fits all.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Default: all cores. The result does not depend on it.")] = None,
    engine: Annotated[str, typer.Option(help="auto, cpu, dense or graph.")] = "auto",
) -> None:
    """Fit a model to a file of observations and save it.

    [bold]accams fit ratings.csv -o model.accams[/]

    [bold]accams fit ml-1m.zip --early-stopping --stencils 200 --learning-rate 0.1[/]
    """
    from accams.cli.tasks import fit_file

    parameters: dict[str, Any] = {
        "n_stencils": stencils,
        "n_clusters": _clusters(clusters),
        "learning_rate": _rate(learning_rate),
        "shrinkage": shrinkage,
        "early_stopping": early_stopping,
        "n_relearn": relearn,
        "refit": refit,
        "init": init,
        "random_state": seed,
        "n_threads": threads,
        "engine": engine,
    }
    columns = {"row": row, "col": col, "value": value, "weight": weight}
    reading = {"duplicates": duplicates, "zeros": zeros, "zero_weight": zero_weight}
    fit_file(data, output, {**columns, **reading}, parameters, test, seed)


@app.command()
def evaluate(model: Model, data: Data, row: Row = None, col: Col = None, value: Value = None) -> None:
    """Compare a model's predictions with a file of observations."""
    from accams.cli.tasks import evaluate_file

    evaluate_file(model, data, row, col, value)


@app.command()
def predict(
    model: Model,
    pairs: Annotated[
        Path,
        typer.Argument(help="A file with a column of row ids and one of column ids.", show_default=False),
    ],
    output: Output = None,
    row: Row = None,
    col: Col = None,
) -> None:
    """Predict the pairs in a file; writes CSV with a column `prediction` (to standard output without -o)."""
    from accams.cli.tasks import predict_file

    predict_file(model, pairs, output, row, col)


@app.command()
def info(model: Model) -> None:
    """Show what is in a model file: shape, stencils, size, how it was fitted."""
    from accams.cli.tasks import show_info

    show_info(model)


@app.command()
def doctor() -> None:
    """Check the installation: versions, cores, compiled kernels, optional parts."""
    from accams.cli.doctor import examine

    raise typer.Exit(0 if examine() else 1)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"accams {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Nothing to do before the commands."""


def _clusters(text: str) -> int | tuple[int, int]:
    try:
        parts = [int(part) for part in text.lower().split("x")]
    except ValueError:
        parts = []
    if len(parts) not in (1, 2):
        raise typer.BadParameter(
            f"{text!r} is neither a number nor ROWSxCOLUMNS, such as 20x5", param_hint="--clusters"
        )
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _rate(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number nor auto", param_hint="--learning-rate") from None


def run() -> None:
    """Run the command line; an error that was meant is shown as one sentence."""
    try:
        app()
    except AccamsError as error:
        from rich.console import Console

        Console(stderr=True).print("[bold red]error:[/] ", error, sep="", markup=True, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
