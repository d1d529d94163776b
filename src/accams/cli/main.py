"""The `accams` command."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from accams import __version__
from accams.cli import fit
from accams.cli.options import (
    Address,
    BatchEngine,
    Col,
    Data,
    Duplicates,
    History,
    HistoryOut,
    Json,
    Likeness,
    Model,
    Number,
    Output,
    Place,
    Quantiles,
    Rated,
    Row,
    Side,
    Std,
    Titles,
    Value,
    Weight,
    Zeros,
    ZeroWeight,
)
from accams.cli.settings import translated
from accams.cli.values import quantiles as levels_of
from accams.cli.values import size_in_bytes
from accams.errors import AccamsError, InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Complete, compress and explain matrices with sums of small co-clusterings.\n\n"
    "Start with [bold]accams demo[/], then [bold]accams fit ratings.csv -o model.accams[/].",
)


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of the split and the fit.")] = 0,
) -> None:
    """Fit a model to a small MovieLens table and show what it can do (needs the extra accams\\[demo])."""
    from accams.cli.demo import run_demo

    run_demo(seed)


app.command(help=fit.HELP)(fit.command())


@app.command()
def ingest(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Tables of text or Parquet, plain or .gz; patterns like 'ratings-*.csv'; the files of the Netflix "
            "Prize, or the folder or archive that they are in."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The store: a folder that is not there yet.")],
    row: Row = None,
    col: Col = None,
    value: Value = None,
    weight: Weight = None,
    duplicates: Duplicates = "error",
    zeros: Zeros = "missing",
    zero_weight: ZeroWeight = 1.0,
    memory: Annotated[str, typer.Option(help="How much memory may be used, such as 4GiB.")] = "2GiB",
) -> None:
    """Make a store of ratings that may be larger than memory; [bold]accams fit ratings.store[/] takes it like a file.

    For example: [bold]accams ingest 'ratings-*.parquet' -o ratings.store[/]. A run that was stopped goes on from where
    it was when the same command is given again.
    """
    allowed = size_in_bytes("--memory", memory)
    from accams.cli.ingesting import ingest_files

    names = {"row": row, "col": col, "value": value, "weight": weight, "time": None}
    ingest_files(sources, output, names, duplicates, zeros, zero_weight, allowed)


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
    std: Std = False,
    quantiles: Quantiles = None,
    row: Row = None,
    col: Col = None,
    engine: BatchEngine = Place.cpu,
    address: Address = None,
) -> None:
    """Predict the pairs in a file; writes CSV with a column `prediction` (to standard output without -o).

    Where -o ends in [bold].parquet[/], it becomes a folder of Parquet files; these can be written by a Ray cluster:
    [bold]accams predict model.accams pairs.parquet -o predicted.parquet --engine ray[/].
    """
    levels = levels_of(quantiles)
    if output is not None and output.suffix == ".parquet":
        if levels:
            raise InputError("--quantiles are written as CSV alone: name an output that does not end in .parquet")
        from accams.cli.batching import predict_pairs

        predict_pairs(model, pairs, output, row, col, std, engine.value, address)
        return
    if engine is not Place.cpu or address is not None:
        raise InputError("a cluster writes Parquet: name an output that ends in .parquet")
    from accams.cli.tasks import predict_file

    predict_file(model, pairs, output, row, col, std, levels)


@app.command()
def recommend(
    model: Model,
    users: Annotated[list[str] | None, typer.Argument(help="Ids of users.", show_default=False)] = None,
    rated: Rated = None,
    n: Number = 10,
    history: History = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also what users have rated already.")] = False,
    titles: Titles = None,
    std: Annotated[bool, typer.Option("--std", help="Also standard deviations (bayes).")] = False,
    quantile: Annotated[
        float | None,
        typer.Option(help="Order by this quantile of the rating, not by its mean: 0.1 plays safe (bayes)."),
    ] = None,
    as_json: Json = False,
    everybody: Annotated[
        bool, typer.Option("--all", help="For all users, as a folder of Parquet files (--output).")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where --all writes to.")] = None,
    engine: BatchEngine = Place.cpu,
    address: Address = None,
) -> None:
    """The best items for users, or for someone new.

    For example: [bold]accams recommend model.accams 17 42 --titles movies.csv[/], or, for someone who was not in the
    data, [bold]accams recommend model.accams --rated 260=5 --rated 1196=4[/].

    For everybody, here or on a Ray cluster: [bold]accams recommend model.accams --all -o top.parquet --engine ray[/].
    """
    if everybody:
        from accams.cli.batching import recommend_everybody

        given = {"user ids": users, "--rated": rated, "--titles": titles, "--quantile": quantile, "--json": as_json}
        wrong = [name for name, x in given.items() if x]
        if wrong:
            raise InputError(f"--all writes ids and scores of all users: leave out {', '.join(wrong)}")
        recommend_everybody(model, output, n, history, include_seen, std, engine.value, address)
        return
    if output is not None or engine is not Place.cpu or address is not None:
        raise InputError("--output, --engine and --address are for all users: add --all")
    from accams.cli.using import recommend_items

    recommend_items(model, users or [], rated or [], n, history, include_seen, titles, std, quantile, as_json)


@app.command()
def similar(
    model: Model,
    which: Annotated[str, typer.Argument(help="Id of an item (or user).", show_default=False)],
    n: Number = 10,
    side: Annotated[Side, typer.Option(help="What to compare.")] = Side.items,
    by: Annotated[
        Likeness,
        typer.Option(help="weighted: by what labels mean; hamming: by how many labels are the same, as in the paper."),
    ] = Likeness.weighted,
    titles: Titles = None,
    as_json: Json = False,
) -> None:
    """The items (or users) most like one of them."""
    from accams.cli.using import similar_ones

    similar_ones(model, which, n, side.value, by.value, titles, as_json)


@app.command()
def explain(
    model: Model,
    item: Annotated[str, typer.Argument(help="Id of an item.", show_default=False)],
    user: Annotated[str | None, typer.Option("--user", "-u", help="Id of a user.", show_default=False)] = None,
    rated: Rated = None,
    titles: Titles = None,
    as_json: Json = False,
) -> None:
    """Why a prediction is what it is: which blocks of users and items add or take how much.

    A model of many draws is explained through a small one distilled from it, which takes some seconds.
    """
    from accams.cli.using import explain_one

    explain_one(model, user, item, rated or [], titles, as_json)


@app.command()
def hierarchy(
    model: Model,
    depth: Annotated[int, typer.Option(help="Levels of the tree.")] = 3,
    side: Annotated[Side, typer.Option(help="What the tree is of.")] = Side.items,
    branches: Annotated[int, typer.Option(help="Most branches of a node.")] = 3,
    least: Annotated[
        int | None,
        typer.Option(help="Prune smaller branches. [dim]\\[default: one in a hundred][/]", show_default=False),
    ] = None,
    active: Annotated[float, typer.Option(help="Only items (or users) with about so many entries or more.")] = 0.0,
    titles: Titles = None,
    as_json: Json = False,
) -> None:
    """The items (or users) as a tree: each level parts them by the labels of one stencil.

    A model of many draws shows the tree of a small one distilled from it, which takes some seconds.
    """
    from accams.cli.using import show_hierarchy

    show_hierarchy(model, depth, side.value, branches, least, active, titles, as_json)


@app.command()
def info(model: Model) -> None:
    """Show what is in a model file: shape, stencils, size, how it was fitted."""
    from accams.cli.tasks import show_info

    show_info(model)


@app.command()
def report(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The page to write. [dim]\\[default: the model's name, .html][/]", show_default=False
        ),
    ] = None,
    titles: Titles = None,
    test: Annotated[
        Path | None,
        typer.Option(help="Observations that were not fitted, to tell how good the model is.", show_default=False),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Also write the figures into this folder, as PNG and SVG.", show_default=False),
    ] = None,
    row: Row = None,
    col: Col = None,
    value: Value = None,
) -> None:
    """One page about a model: what it knows, how good and how small it is, how the fit went.

    It opens in any browser, without a network. For example: [bold]accams report model.accams --titles movies.csv[/]
    """
    from accams.cli.reporting import write_report

    write_report(model, output, titles, test, {"row": row, "col": col, "value": value}, figures)


@app.command()
def compress(
    model: Model,
    max_bytes: Annotated[
        str, typer.Option("--max-bytes", help="Most bytes of the new file: 50k, 1.5MB, 30000.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.", show_default=False)],
    ids: Annotated[bool, typer.Option("--ids/--no-ids", help="Keep the ids of rows and columns in the file.")] = True,
    weights: Annotated[
        str,
        typer.Option(help="What to be most accurate for: activity (rows and columns with many entries) or uniform."),
    ] = "activity",
    seed: Annotated[int, typer.Option(help="Seed of the random projections.")] = 0,
    history: HistoryOut = None,
) -> None:
    """Distil a model into a small one that predicts nearly as well: one stencil sum in at most so many bytes.

    A Bayesian model of many draws becomes a single sum that keeps calibrated intervals.
    """
    size = size_in_bytes("--max-bytes", max_bytes)
    from accams.cli.tasks import compress_file

    compress_file(model, output, size, ids, weights, seed, history)


@app.command()
def reproduce(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="table, prediction, training-error, faces, graph, hierarchy, similar, face-images, analysis, bounds, "
            "or all (the default).",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with the data sets; by default $ACCAMS_DATA, else they are downloaded."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, figures, pages and finished runs.")] = Path(
        "reproduced"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Small data and short curves: all of it in 20 minutes on two cores.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Runs at a time, each on its share of the cores, so that times are longer; by default 1, with --quick "
            "one a core.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Repeat the paper's evaluation on your machine, ours beside every rival (needs the extras accams\\[bench,plot]).

    Each study leaves a table (CSV), figures (PNG and SVG) and a page (Markdown). Finished runs are kept and not
    repeated: after Ctrl-C the same command goes on. For example: [bold]accams reproduce faces graph --quick[/]
    """
    from accams.cli.reproduce import reproduce_paper

    raise typer.Exit(0 if reproduce_paper(what or [], data, out, quick, jobs) else 1)


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
    """Take options that come before the command."""


def _show_warning(message: Warning | str, *_: object) -> None:
    from rich.console import Console
    from rich.text import Text

    text = Text(translated(str(message)))
    Console(stderr=True).print("[bold yellow]warning:[/] ", text, sep="", highlight=False, soft_wrap=True)


def run() -> None:
    """Run the command line; errors and warnings of accams are shown as one sentence, in terms of options."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        app()
    except AccamsError as error:
        from rich.console import Console
        from rich.text import Text

        text = translated(str(error))
        Console(stderr=True).print("[bold red]error:[/] ", Text(text), sep="", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
