"""The `accams` command."""

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from accams import __version__
from accams.cli import fit, messages
from accams.cli.options import (
    Address,
    BatchEngine,
    Col,
    Command,
    Data,
    Duplicates,
    Group,
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
    argument,
    option,
)
from accams.cli.settings import listed
from accams.cli.values import quantiles as levels_of
from accams.cli.values import size_in_bytes
from accams.errors import AccamsError, InputError

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Complete, compress and explain matrices with sums of small co-clusterings.\n\n"
    "Start with [bold]accams demo[/], then [bold]accams fit ratings.csv -o model.accams[/].",
)
command = partial(app.command, cls=Command)


@command()
def demo(seed: Annotated[int, option("--seed", "Seed of split and fit.", "N")] = 0) -> None:
    """Fit a small MovieLens table and show the results (needs accams\\[demo])."""
    from accams.cli.demo import run_demo

    run_demo(seed)


command(help=fit.HELP)(fit.command())


@command()
def ingest(
    sources: Annotated[
        list[Path],
        argument(
            "SOURCES", "Tables of text or Parquet, plain or .gz; patterns like 'ratings-*.csv'; or the Netflix Prize's "
            "files, their folder or archive.",
        ),
    ],
    output: Annotated[Path, option("--output -o", "Store to write: a folder that does not exist yet.", "PATH")],
    row: Row = None,
    col: Col = None,
    value: Value = None,
    weight: Weight = None,
    duplicates: Duplicates = "error",
    zeros: Zeros = "missing",
    zero_weight: ZeroWeight = 1.0,
    memory: Annotated[str, option("--memory", "Most memory to use.", "SIZE")] = "2GiB",
) -> None:  # fmt: skip
    """Convert tables, which may be larger than memory, to a store.

    [bold]accams ingest 'ratings-*.parquet' -o ratings.store[/]
    [bold]accams fit ratings.store[/]

    Run the same command again to continue after an interrupt.
    """
    allowed = size_in_bytes("--memory", memory)
    from accams.cli.ingesting import ingest_files

    names = {"row": row, "col": col, "value": value, "weight": weight, "time": None}
    ingest_files(sources, output, names, duplicates, zeros, zero_weight, allowed)


@command()
def evaluate(model: Model, data: Data, row: Row = None, col: Col = None, value: Value = None) -> None:
    """Measure the error of a model on a file of observations."""
    from accams.cli.tasks import evaluate_file

    evaluate_file(model, data, row, col, value)


@command()
def predict(
    model: Model,
    pairs: Annotated[Path, argument("PAIRS", "Table with a column of user ids and one of item ids.")],
    output: Output = None,
    std: Std = False,
    quantiles: Quantiles = None,
    row: Row = None,
    col: Col = None,
    engine: BatchEngine = Place.cpu,
    address: Address = None,
) -> None:
    """Predict the pairs in a file.

    The result is a table in CSV, on standard output without -o. If -o ends in [bold].parquet[/], it is a folder of
    Parquet files, which a Ray cluster can write:
    [bold]accams predict model.accams pairs.parquet -o predicted.parquet --engine ray[/]
    """
    levels = levels_of(quantiles)
    if output is not None and output.suffix == ".parquet":
        if levels:
            raise InputError("--quantiles are only written as CSV: name an output that does not end in .parquet")
        from accams.cli.batching import predict_pairs

        predict_pairs(model, pairs, output, row, col, std, engine.value, address)
        return
    if engine is not Place.cpu or address is not None:
        raise InputError("a cluster writes Parquet: name an output that ends in .parquet")
    from accams.cli.tasks import predict_file

    predict_file(model, pairs, output, row, col, std, levels)


@command()
def recommend(
    model: Model,
    users: Annotated[list[str] | None, argument("USERS", "Ids of users.")] = None,
    rated: Rated = None,
    n: Number = 10,
    history: History = None,
    include_seen: Annotated[bool, option("--include-seen", "Also recommend what users have rated.")] = False,
    titles: Titles = None,
    std: Std = False,
    quantile: Annotated[
        float | None,
        option("--quantile", "Rank by this quantile of an observation; 0.1 plays safe (bayes).", "X", default="mean"),
    ] = None,
    as_json: Json = False,
    everybody: Annotated[bool, option("--all", "Recommend to all users; needs --output.")] = False,
    output: Annotated[Path | None, option("--output -o", "Folder of Parquet files that --all writes.", "PATH")] = None,
    engine: BatchEngine = Place.cpu,
    address: Address = None,
) -> None:
    """Recommend items to users, or to someone new.

    [bold]accams recommend model.accams 17 42 --titles movies.csv[/]
    [bold]accams recommend model.accams --rated 260=5 --rated 1196=4[/]
    [bold]accams recommend model.accams --all -o top.parquet[/] (on a Ray cluster: --engine ray)
    """
    if everybody:
        from accams.cli.batching import recommend_everybody

        given = {"user ids": users, "--rated": rated, "--titles": titles, "--quantile": quantile, "--json": as_json}
        wrong = [name for name, x in given.items() if x]
        if wrong:
            raise InputError(f"--all writes ids and scores of all users: leave out {listed(wrong)}")
        recommend_everybody(model, output, n, history, include_seen, std, engine.value, address)
        return
    if output is not None or engine is not Place.cpu or address is not None:
        raise InputError("--output, --engine and --address are for all users: add --all")
    from accams.cli.using import recommend_items

    recommend_items(model, users or [], rated or [], n, history, include_seen, titles, std, quantile, as_json)


@command()
def similar(
    model: Model,
    which: Annotated[str, argument("ID", "Id of an item (or user).")],
    n: Number = 10,
    side: Annotated[Side, option("--side", "Compare items or users.", "NAME")] = Side.items,
    by: Annotated[
        Likeness,
        option(
            "--by", "weighted: by the effect of labels; hamming: by the share of equal labels (the paper's).", "NAME"
        ),
    ] = Likeness.weighted,
    titles: Titles = None,
    as_json: Json = False,
) -> None:
    """List the items (or users) most similar to one."""
    from accams.cli.using import similar_ones

    similar_ones(model, which, n, side.value, by.value, titles, as_json)


@command()
def explain(
    model: Model,
    item: Annotated[str, argument("ITEM", "Id of an item.")],
    user: Annotated[str | None, option("--user -u", "Id of a user.", "ID")] = None,
    rated: Rated = None,
    titles: Titles = None,
    as_json: Json = False,
) -> None:
    """Explain a prediction by the blocks of users and items that add to it.

    A model with many draws is first distilled into a small one, which takes some seconds.
    """
    from accams.cli.using import explain_one

    explain_one(model, user, item, rated or [], titles, as_json)


@command()
def hierarchy(
    model: Model,
    depth: Annotated[int, option("--depth", "Levels of the tree.", "N")] = 3,
    side: Annotated[Side, option("--side", "Show items or users.", "NAME")] = Side.items,
    branches: Annotated[int, option("--branches", "Most branches of a node.", "N")] = 3,
    least: Annotated[int | None, option("--least", "Prune smaller branches.", "N", default="1% of the items")] = None,
    active: Annotated[float, option("--active", "Only items (or users) with at least so many entries.", "N")] = 0.0,
    titles: Titles = None,
    as_json: Json = False,
) -> None:
    """Show the items (or users) as a tree that is split by the labels of one stencil per level.

    A model with many draws is first distilled into a small one, which takes some seconds.
    """
    from accams.cli.using import show_hierarchy

    show_hierarchy(model, depth, side.value, branches, least, active, titles, as_json)


@command()
def info(model: Model) -> None:
    """Show what a model file contains and how it was fitted."""
    from accams.cli.tasks import show_info

    show_info(model)


@command()
def report(
    model: Model,
    output: Annotated[
        Path | None, option("--output -o", "Page to write.", "PATH", default="the model's name, .html")
    ] = None,
    titles: Titles = None,
    test: Annotated[
        Path | None, option("--test", "Observations that were not fitted, to measure the error.", "PATH")
    ] = None,
    figures: Annotated[
        Path | None, option("--figures", "Also write figures (PNG, SVG) into this folder.", "PATH")
    ] = None,
    row: Row = None,
    col: Col = None,
    value: Value = None,
) -> None:
    """Write a page about a model: its content, error, size and fit.

    It opens in any browser, offline: [bold]accams report model.accams --titles movies.csv[/]
    """
    from accams.cli.reporting import write_report

    write_report(model, output, titles, test, {"row": row, "col": col, "value": value}, figures)


@command()
def compress(
    model: Model,
    max_bytes: Annotated[str, option("--max-bytes", "Most bytes of the new file: 50k, 1.5MB, 30000.", "SIZE")],
    output: Annotated[Path, option("--output -o", "Model file to write.", "PATH")],
    ids: Annotated[bool, option("--ids/--no-ids", "Keep the ids of users and items in the file.")] = True,
    weights: Annotated[
        str,
        option(
            "--weights", "Be most accurate for active users and items (activity), or for all alike (uniform).", "NAME"
        ),
    ] = "activity",
    seed: Annotated[int, option("--seed", "Seed of the random projections.", "N")] = 0,
    history: HistoryOut = None,
) -> None:
    """Compress a model to a small file that predicts nearly as well.

    A model with many draws becomes one sum of stencils, which keeps calibrated intervals.
    """
    size = size_in_bytes("--max-bytes", max_bytes)
    from accams.cli.tasks import compress_file

    compress_file(model, output, size, ids, weights, seed, history)


@command()
def reproduce(
    what: Annotated[
        list[str] | None,
        argument(
            "STUDIES", "table, prediction, training-error, faces, graph, hierarchy, similar, face-images, "
            "analysis, bounds, or all (the default).",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        option("--data", "Folder with the data sets.", "PATH", default="$ACCAMS_DATA, else they are downloaded"),
    ] = None,
    out: Annotated[Path, option("--out", "Folder for tables, figures, pages and finished runs.", "PATH")] = Path(
        "reproduced"
    ),
    quick: Annotated[bool, option("--quick", "Small data and short curves: 20 minutes on two cores.")] = False,
    jobs: Annotated[
        int | None,
        option("--jobs", "Runs at a time, which share the cores.", "N", default="1; with --quick, one per core"),
    ] = None,
) -> None:  # fmt: skip
    """Repeat the paper's evaluation beside its rivals (needs accams\\[bench,plot]).

    Each study leaves a table (CSV), figures (PNG and SVG) and a page (Markdown). Finished runs are kept, so the same
    command continues after an interrupt: [bold]accams reproduce faces graph --quick[/]
    """
    from accams.cli.reproduce import reproduce_paper

    raise typer.Exit(0 if reproduce_paper(what or [], data, out, quick, jobs) else 1)


@command()
def doctor() -> None:
    """Check the installation: versions, cores, kernels and extras."""
    from accams.cli.doctor import examine

    raise typer.Exit(0 if examine() else 1)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"accams {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take options that come before the command."""


def run() -> None:
    """Run the command line; errors and warnings of accams are shown as one sentence, in terms of options."""
    warnings.showwarning = messages.show_warning  # type: ignore[assignment]
    try:
        app()
    except AccamsError as error:
        messages.show("error", error)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
