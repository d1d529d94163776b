"""The commands of `accams`: their options and their help. What they do is in other modules, imported when they run."""

from pathlib import Path
from typing import Annotated

from accams.cli import fit
from accams.cli import options as o
from accams.cli.app import app, command
from accams.cli.options import argument, option

__all__ = ["app"]


@command("demo.run_demo")
def demo(
    seed: Annotated[int, option("--seed", "Seed of split and fit.", "N")] = 0,
    page: Annotated[Path | None, option("--page", "Page to write, by default accams-demo.html.", "PATH")] = None,
) -> None:
    """Fit a small MovieLens table, show the results and write a page about them (needs accams\\[demo])."""


app.command(cls=o.Command, help=fit.HELP)(fit.command())


@command("ingesting.ingest_files")
def ingest(
    sources: Annotated[
        list[Path],
        argument(
            "SOURCES", "Tables of text or Parquet, plain or .gz; patterns like 'ratings-*.csv'; or the Netflix Prize's "
            "files, their folder or archive.",
        ),
    ],
    output: Annotated[Path, option("--output -o", "Store to write: a folder that does not exist yet.", "PATH")],
    row: o.Row = None,
    col: o.Col = None,
    value: o.Value = None,
    weight: o.Weight = None,
    duplicates: o.Duplicates = "auto",
    zeros: o.Zeros = "missing",
    zero_weight: o.ZeroWeight = 1.0,
    memory: Annotated[str, option("--memory", "Most memory to use.", "SIZE")] = "2GiB",
) -> None:  # fmt: skip
    """Convert tables, which may be larger than memory, to a store.

    [bold]accams ingest 'ratings-*.parquet' -o ratings.store[/]
    [bold]accams fit ratings.store[/]

    Run the same command again to continue after an interrupt.
    """


@command("tasks.evaluate_file")
def evaluate(
    path: o.Model,
    data: o.Data,
    row: o.Row = None,
    col: o.Col = None,
    value: o.Value = None,
    lists: Annotated[bool, option("--lists", "Measure lists: are new likes in DATA found?")] = False,
    history: Annotated[
        Path | None, option("--history", "What users in DATA had chosen before, if the model does not know.", "PATH")
    ] = None,
    by: o.By = o.Order.auto,
) -> None:
    """Measure the error of a model on a file of observations, or the quality of its lists.

    [bold]accams evaluate model.accams test.csv[/]
    [bold]accams evaluate model.accams test.csv --lists[/]
    """


@command("bulk.predict_file")
def predict(
    path: o.Model,
    pairs: Annotated[Path, argument("PAIRS", "Table with a column of user ids and one of item ids.")],
    output: o.Output = None,
    std: o.Std = False,
    quantiles: o.Quantiles = None,
    row: o.Row = None,
    col: o.Col = None,
    engine: o.BatchEngine = o.Place.cpu,
    address: o.Address = None,
) -> None:
    """Predict the pairs in a file.

    The result is a table in CSV, on standard output without -o. If -o ends in [bold].parquet[/], it is a folder of
    Parquet files, which a Ray cluster can write:
    [bold]accams predict model.accams pairs.parquet -o predicted.parquet --engine ray[/]
    """


@command("using.recommend_items")
def recommend(
    path: o.Model,
    users: Annotated[list[str] | None, argument("USERS", "Ids of users.")] = None,
    rated: o.Rated = None,
    n: o.Number = 10,
    history: o.History = None,
    include_seen: Annotated[bool, option("--include-seen", "Also recommend what users have rated.")] = False,
    titles: o.Titles = None,
    std: o.Std = False,
    quantile: Annotated[
        float | None,
        option("--quantile", "Rank by this quantile of an observation; 0.1 plays safe (bayes).", "X", default="mean"),
    ] = None,
    as_json: o.Json = False,
    everybody: Annotated[bool, option("--all", "Recommend to all users; needs --output.")] = False,
    output: Annotated[Path | None, option("--output -o", "Folder of Parquet files that --all writes.", "PATH")] = None,
    engine: o.BatchEngine = o.Place.cpu,
    address: o.Address = None,
    by: o.By = o.Order.auto,
) -> None:
    """Recommend items to users, or to someone new.

    [bold]accams recommend model.accams 17 42 --titles movies.csv[/]
    [bold]accams recommend model.accams --rated 260=5 --rated 1196=4[/]
    [bold]accams recommend model.accams --all -o top.parquet[/] (on a Ray cluster: --engine ray)
    """


@command("using.similar_ones")
def similar(
    path: o.Model,
    which: Annotated[str, argument("ID", "Id of an item (or user).")],
    n: o.Number = 10,
    side: Annotated[o.Side, option("--side", "Compare items or users.", "NAME")] = o.Side.items,
    by: Annotated[
        o.Likeness,
        option(
            "--by", "weighted: by the effect of labels; hamming: by the share of equal labels (the paper's).", "NAME"
        ),
    ] = o.Likeness.weighted,
    titles: o.Titles = None,
    as_json: o.Json = False,
) -> None:
    """List the items (or users) most similar to one."""


@command("using.explain_one")
def explain(
    path: o.Model,
    item: Annotated[str, argument("ITEM", "Id of an item.")],
    user: Annotated[str | None, option("--user -u", "Id of a user.", "ID")] = None,
    rated: o.Rated = None,
    by: o.By = o.Order.auto,
    history: o.History = None,
    titles: o.Titles = None,
    as_json: o.Json = False,
) -> None:
    """Explain why an item is in a list, or a prediction: accams explain model.accams 10 --user 17.

    By choice: because of these of your items. By value: by the blocks of users and items that add to the prediction; a
    model with many draws is then first distilled into a small one, which takes some seconds.
    """


@command("using.show_hierarchy")
def hierarchy(
    path: o.Model,
    depth: Annotated[int, option("--depth", "Levels of the tree.", "N")] = 3,
    side: Annotated[o.Side, option("--side", "Show items or users.", "NAME")] = o.Side.items,
    branches: Annotated[int, option("--branches", "Most branches of a node.", "N")] = 3,
    least: Annotated[int | None, option("--least", "Prune smaller branches.", "N", default="1% of the items")] = None,
    active: Annotated[float, option("--active", "Only items (or users) with at least so many entries.", "N")] = 0.0,
    titles: o.Titles = None,
    as_json: o.Json = False,
) -> None:
    """Show the items (or users) as a tree that is split by the labels of one stencil per level.

    A model with many draws is first distilled into a small one, which takes some seconds.
    """


@command("matrices.show_info")
def info(
    path: o.Stored,
    plot: Annotated[
        Path | None, option("--plot", "Draw the error of a compressed matrix against bytes (PNG, SVG).", "PATH")
    ] = None,
) -> None:
    """Show what a model file or a compressed matrix contains, and where its bytes go."""


@command("tasks.write_report")
def report(
    path: o.Model,
    output: Annotated[
        Path | None, option("--output -o", "Page to write.", "PATH", default="the model's name, .html")
    ] = None,
    titles: o.Titles = None,
    test: Annotated[
        Path | None, option("--test", "Observations that were not fitted, to measure the error.", "PATH")
    ] = None,
    figures: Annotated[
        Path | None, option("--figures", "Also write figures (PNG, SVG) into this folder.", "PATH")
    ] = None,
    row: o.Row = None,
    col: o.Col = None,
    value: o.Value = None,
) -> None:
    """Write a page about a model: its content, error, size and fit.

    It opens in any browser, offline: [bold]accams report model.accams --titles movies.csv[/]
    """


@command("exploring.write_site")
def explore(
    path: o.Model,
    output: Annotated[Path, option("--output -o", "Folder to write, which does not exist yet.", "PATH")],
    titles: o.Titles = None,
    users: Annotated[
        bool, option("--users", "Also tell the ids of users and what they have seen: not for the public.")
    ] = False,
    history: o.History = None,
    name: Annotated[str | None, option("--name", "Heading of the page.", "TEXT", default="the model's name")] = None,
) -> None:
    """Write a page that explores a model as static files, for any web server.

    Everything is computed in the browser: [bold]accams explore model.accams -o site --titles movies.csv[/]
    A model with many draws is first distilled into a small one, which may take a minute.
    """


@command("updating.update_file")
def update(
    path: o.Model,
    output: Annotated[Path, option("--output -o", "Model file to write; may be MODEL itself.", "PATH")],
    feedback: Annotated[
        Path | None,
        argument(
            "FEEDBACK", "What is new: a feedback log, a table (CSV, TSV, Parquet, .gz, .zip) or a store; may be left "
            "out with features.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        option(
            "--history", "What was observed before: the ratings that were fitted, a store, or a history file (which "
            "says what was seen).", "PATH", default="what the model knows",
        ),
    ] = None,
    min_ratings: Annotated[int, option("--min-ratings", "Ratings that a new item needs to be placed.", "N")] = 3,
    seed: Annotated[int, option("--seed", "Seed by which labels are drawn.", "N")] = 0,
    skip_damaged: Annotated[bool, option("--skip-damaged", "Leave out damaged lines of a log.")] = False,
    user_features: o.UserFeatures = None,
    item_features: o.ItemFeatures = None,
    row: o.Row = None,
    col: o.Col = None,
    value: o.Value = None,
) -> None:  # fmt: skip
    """Update a model with new ratings without fitting it again, and tell whether it is time to.

    [bold]accams update model.accams feedback.log -o model.accams --history ratings.csv[/]

    Users are placed by all their ratings, old and new; without --history, predictions stand in for the old ones. New
    items become part of the model as soon as they have a few ratings. Where somebody rates again, the latest rating
    counts (of a table, the last line). The same FEEDBACK can be passed again, with more in it: what the model has taken
    in changes nothing more. With features of users or items, for a model that was fitted with some, those without
    ratings are placed, too.
    """


@command("matrices.compress_file")
def compress(
    path: Annotated[
        Path,
        argument("PATH", "Model file, or a matrix: .npy, .npz, CSV, Parquet, an image, or a folder of images."),
    ],
    output: Annotated[Path, option("--output -o", "File to write.", "PATH")],
    max_bytes: Annotated[
        str | None, option("--max-bytes", "Most bytes of the new file: 50k, 1.5MB, 30000.", "SIZE")
    ] = None,
    max_error: Annotated[
        float | None, option("--max-error", "Largest error of any cell of a matrix; 0 for whole numbers.", "X")
    ] = None,
    max_rmse: Annotated[
        float | None, option("--max-rmse", "Largest root mean squared error of a matrix.", "X")
    ] = None,
    array: Annotated[str | None, option("--array", "Name of the matrix in an .npz file with several.", "NAME")] = None,
    ids: Annotated[bool, option("--ids/--no-ids", "Keep the ids of users and items of a model.")] = True,
    lists: Annotated[bool, option("--lists/--no-lists", "Keep what lists by choice are made from.")] = True,
    weights: Annotated[
        str,
        option(
            "--weights", "Be most accurate for active users and items of a model (activity), or for all alike "
            "(uniform).", "NAME",
        ),
    ] = "activity",
    seed: Annotated[int, option("--seed", "Seed of the random projections.", "N")] = 0,
    history: o.HistoryOut = None,
) -> None:  # fmt: skip
    """Compress a model or a matrix to a small file.

    A model with many draws becomes one sum of stencils, which predicts nearly as well and keeps calibrated intervals:
    [bold]accams compress model.accams --max-bytes 50k -o small.accams[/]

    A matrix becomes stencils and what they leave, with a promise on its size or its errors; accams decompress reads
    it: [bold]accams compress data.npy --max-error 0.5 -o data.accams[/]
    """


@command("matrices.decompress_file")
def decompress(
    path: Annotated[Path, argument("PATH", "Compressed matrix.")],
    output: Annotated[
        Path,
        option("--output -o", "File to write: .npy, .npz, .csv, .parquet, an image; or a folder for images.", "PATH"),
    ],
    rows: Annotated[str | None, option("--rows", "Only these rows: 10:20, or 7.", "RANGE")] = None,
    columns: Annotated[str | None, option("--columns", "Only these columns.", "RANGE")] = None,
) -> None:
    """Write a compressed matrix as a plain file.

    Only what is asked for is decoded: [bold]accams decompress data.accams --rows 10:20 -o some.npy[/]
    """


@command("serving.serve_models")
def serve(
    models: Annotated[
        list[str], argument("MODELS", "Model files; several may have names: films=ml.accams books=bx.accams.")
    ],
    titles: Annotated[
        list[str] | None,
        option("--titles", "Table of item ids and their titles (NAME=PATH with several models).", "PATH"),
    ] = None,
    history: Annotated[
        list[str] | None,
        option(
            "--history", "What users have seen, for a model file that does not know: a history file or table.", "PATH"
        ),
    ] = None,
    feedback: Annotated[
        list[str] | None, option("--feedback", "Log to which POST /v1/feedback writes, for accams update.", "PATH")
    ] = None,
    host: Annotated[str, option("--host", "Address to listen at; 0.0.0.0 for all.", "HOST")] = "127.0.0.1",
    port: Annotated[int, option("--port", "Port to listen at.", "N")] = 8000,
    workers: Annotated[int, option("--workers", "Processes that answer, each with the models in memory.", "N")] = 1,
    watch: Annotated[bool, option("--watch", "Serve a new version as soon as a file changes.")] = False,
    token_file: Annotated[
        Path | None, option("--token-file", "File of tokens, one a line, of which requests must bear one.", "PATH")
    ] = None,
    cors: Annotated[
        list[str] | None, option("--cors", "Origin whose pages may call, such as https://shop.example.", "ORIGIN")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        option(
            "--allow-host", "Name by which the service may be called.", "NAME", default="local names; any with --host"
        ),
    ] = None,
    max_body: Annotated[str, option("--max-body", "Largest body of a request.", "SIZE")] = "1MiB",
    max_batch: Annotated[int, option("--max-batch", "Most requests, or events, in one.", "N")] = 1000,
    rate: Annotated[
        float | None, option("--rate", "Most requests a second of one client.", "N", default="no limit")
    ] = None,
    access_log: Annotated[bool, option("--access-log/--no-access-log", "Log each request, without ids.")] = True,
    page: Annotated[bool, option("--page/--no-page", "Serve the page that explores the models at /.")] = True,
) -> None:
    """Serve models over HTTP: a JSON API, and a page to look into them (needs accams\\[serve]).

    [bold]accams serve model.accams --titles movies.csv[/]
    [bold]curl 'localhost:8000/v1/recommend?user=17&n=5'[/]
    """


@command("reproduce.reproduce_paper")
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


@command("doctor.examine")
def doctor() -> None:
    """Check the installation: versions, cores, kernels and extras."""
