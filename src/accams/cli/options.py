"""Options of the commands that are not parameters of an estimator: names, help, panels, and checks of values."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from accams.cli.settings import PANELS, options
from accams.errors import InputError
from accams.settings.kinds import Bytes
from accams.writing import check as check_writable

DATA, BAYES = "Data", PANELS["bayes"]


ModelName = StrEnum("ModelName", ["bayes", "accams"])
Side = StrEnum("Side", ["items", "users"])
Place = StrEnum("Place", ["cpu", "ray"])  # where a batch runs
Likeness = StrEnum("Likeness", ["weighted", "hamming"])
Order = StrEnum("Order", ["auto", "choice", "value"])
Purpose = StrEnum("Purpose", ["auto", "ratings", "lists", "both"])


class Command(TyperCommand):
    """A command whose help shows no type beside options that take no value."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """The same for the options that come before the command."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))


def _without_types(params: Any) -> Any:
    for each in params:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return params


FULL = {  # texts of options of `accams fit` for --help-all, where --help has a brief one
    "data": "CSV, TSV, '::'-separated, Parquet or NPZ; plain, .gz, or inside a .zip (archive.zip/inner/ratings.dat); "
    "or a store written by accams ingest.",
    "test": "Share of the entries held out to report the error (of a store, a million at most); 0 fits all.",
    "history": "Write what users have seen to this file, and leave it out of the model file.",
    "model": "bayes: the mean over many draws, better predictions; accams: one small model, fast. "
    "[dim]\\[default: bayes][/]",
    "config": "Read options from a TOML file; those on the command line take precedence.",
    "quiet": "Show neither progress nor the report, only warnings and errors.",
    "resume": "Continue from this checkpoint with its parameters, and save the run there. The data and --test must be "
    "as in the first run.",
}


def option(name: str, text: str, metavar: str = "", *, default: str | None = None, panel: str | None = None) -> Any:
    """Return an option; one without a metavar takes no value. `default` is what happens without the option."""
    shown = f"{text} [dim]\\[default: {default}][/]" if default else text
    with_default = bool(metavar) and default is None
    return typer.Option(*name.split(), help=shown, rich_help_panel=panel, metavar=metavar, show_default=with_default)


def argument(metavar: str, text: str) -> Any:
    return typer.Argument(help=text, metavar=metavar, show_default=False)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        generated = options()
        for each in ctx.command.params:
            each.hidden = each.name == "schedule"  # type: ignore[attr-defined]  # deprecated
            if each.name in generated:
                each.help = generated[each.name].help()  # type: ignore[attr-defined]
            elif each.name in FULL:
                each.help = FULL[each.name]  # type: ignore[attr-defined]
        typer.echo(ctx.get_help())
        raise typer.Exit


Stored = Annotated[Path, argument("PATH", "Model file, or compressed matrix.")]
Model = Annotated[Path, argument("MODEL", "Model file written by [bold]accams fit[/].")]
Data = Annotated[Path, argument("DATA", "Table (CSV, TSV, Parquet, NPZ, .gz, .zip) or a store.")]
Row = Annotated[str | None, option("--row", "Column with the user ids (rows), if not found.", "NAME", panel=DATA)]
Col = Annotated[str | None, option("--col", "Column with the item ids (columns).", "NAME", panel=DATA)]
Value = Annotated[str | None, option("--value", "Column with the values (ratings).", "NAME", panel=DATA)]
Output = Annotated[Path | None, option("--output -o", "File to write.", "PATH")]

# -- using a model -----------------------------------------------------------------------------------------------

Number = Annotated[int, option("-n", "Number of results.", "N")]
By = Annotated[
    Order,
    option("--by", "Rank by what people with such a history choose, or by predicted value; auto: choice if the model "
           "has lists.", "NAME"),
]  # fmt: skip
Rated = Annotated[
    list[str] | None, option("--rated", "A rating of someone new; repeat it for each item.", "ITEM=VALUE")
]
Titles = Annotated[Path | None, option("--titles", "Table of item ids and titles, such as movies.csv.", "PATH")]
History = Annotated[
    Path | None,
    option(
        "--history --seen", "What users have seen, if the model file does not say: a history file, the ratings that "
        "were fitted, or a store.", "PATH",
    ),
]  # fmt: skip
Json = Annotated[bool, option("--json", "Write JSON to standard output.")]
Std = Annotated[bool, option("--std", "Add the standard deviation of an observation (bayes).")]
Quantiles = Annotated[
    str | None, option("--quantiles", "Add these quantiles of an observation, such as 0.05,0.95 (bayes).", "X[,X...]")
]
BatchEngine = Annotated[Place, option("--engine", "Run on this machine (cpu) or on a Ray cluster (ray).", "NAME")]
Address = Annotated[
    str | None,
    option(
        "--address", "Address of a running Ray cluster (auto: the one of this machine).", "TEXT",
        default="one is started",
    ),
]  # fmt: skip

# -- fit: the data -----------------------------------------------------------------------------------------------

UserFeatures = Annotated[
    Path | None,
    option("--user-features", "Table of users: ids, and columns of numbers or text (bayes).", "PATH", panel=DATA),
]
ItemFeatures = Annotated[
    Path | None,
    option("--item-features", "Table of items, such as movies.csv with genres (bayes).", "PATH", panel=DATA),
]
Weight = Annotated[str | None, option("--weight", "Column with weights of the observations.", "NAME", panel=DATA)]
Duplicates = Annotated[
    str,
    option("--duplicates", "Duplicate pairs: auto (mean, and say so), error, mean, last or sum.", "NAME", panel=DATA),
]
Zeros = Annotated[str, option("--zeros", "Blank cells: missing, or observed (as zeros).", "NAME", panel=DATA)]
ZeroWeight = Annotated[float, option("--zero-weight", "Weight of a blank with --zeros observed.", "X", panel=DATA)]
Test = Annotated[float, option("--test", "Share of entries held out; 0 fits all.", "X", panel=DATA)]

# -- fit ---------------------------------------------------------------------------------------------------------

ModelFile = Annotated[Path, option("--output -o", "Model file to write.", "PATH")]
HistoryOut = Annotated[Path | None, option("--history", "Write what users have seen to this file.", "PATH")]
Kind = Annotated[
    ModelName | None, option("--model", "bayes (accurate) or accams (small, fast).", "NAME", default="bayes")
]
For = Annotated[Purpose, option("--for", "ratings, lists or both.", "NAME")]
ListBytes = Annotated[
    str | None, option("--list-bytes", "Most bytes for lists: 100k, 1.5MB.", "SIZE", default="32 an item")
]
Config = Annotated[Path | None, option("--config", "Read options from a TOML file.", "PATH")]
Quiet = Annotated[bool, option("--quiet -q", "Show only warnings and errors.")]
HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all", help="Show all options, with full texts.", callback=_show_all, is_eager=True, show_default=False
    ),
]
Paper = Annotated[bool, option("--paper", "Start from the paper's settings; other options change them.", panel=BAYES)]
Resume = Annotated[Path | None, option("--resume", "Continue from this checkpoint.", "PATH")]
FormerSchedule = Annotated[str | None, option("--schedule", "Deprecated: use --backfit.", "NAME")]

# -- values ------------------------------------------------------------------------------------------------------


def quantile_levels(text: str | None) -> list[float]:
    """Parse levels between 0 and 1, separated by commas.

    Examples
    --------
    >>> quantile_levels("0.05,0.95")
    [0.05, 0.95]
    """
    if text is None:
        return []
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(0.0 < level < 1.0 for level in levels):
        text = f"{text!r} is not a list of numbers between 0 and 1, such as 0.05,0.95"
        raise typer.BadParameter(text, param_hint="--quantiles")
    return levels


def size_in_bytes(flag: str, text: str) -> int:
    """Parse a size.

    Examples
    --------
    >>> size_in_bytes("--max-bytes", "50k")
    50000
    """
    try:
        size = int(Bytes().read(text))
    except ValueError:
        size = 0
    if size < 1:
        raise typer.BadParameter(f"{text!r} is not a size, such as 50k or 1.5MB", param_hint=flag)
    return size


def join_cluster(engine: str, address: str | None) -> None:
    """Connect to the Ray cluster of --address, if one was given."""
    if address is None:
        return
    if engine != "ray":
        raise InputError("--address is that of a Ray cluster: add --engine ray")
    from accams.engine.ray.cluster import join

    join(address)


def check_outputs(paths: dict[str, Path | None]) -> None:
    """Raise InputError for files that cannot be written: where one may not write, or two in one place."""
    names: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        if str(path) == "-":
            raise InputError(f"the {name} is written to a file: give it a name in place of -")
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent} to write {path.name} into")
        first = names.setdefault(path.resolve(), name)
        if first != name:
            raise InputError(f"{path} cannot be both the {first} and the {name}: give one of them another name")
        check_writable(path)
