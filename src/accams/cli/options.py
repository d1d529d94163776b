"""Options of the commands that are not parameters of an estimator: names, help and panels."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

DATA = "Data"
BAYES = "bACCAMS (--model bayes)"


class ModelName(StrEnum):
    """Models that `accams fit` can fit."""

    bayes = "bayes"
    accams = "accams"


class Side(StrEnum):
    """Sides of the matrix."""

    items = "items"
    users = "users"


class Place(StrEnum):
    """Where a batch can run."""

    cpu = "cpu"
    ray = "ray"


class Likeness(StrEnum):
    """Measures of similarity."""

    weighted = "weighted"
    hamming = "hamming"


def _option(
    name: str, text: str, default: str = "", panel: str | None = None, metavar: str | None = None, hidden: bool = False
) -> Any:
    """Return an option; `default` is what happens without it."""
    shown = f"{text} [dim]\\[default: {default}][/]" if default else text
    names = name.split()
    return typer.Option(*names, help=shown, rich_help_panel=panel, metavar=metavar, show_default=False, hidden=hidden)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    """Show the help with all options."""
    if wanted:
        for each in ctx.command.params:
            each.hidden = False  # type: ignore[attr-defined]
        typer.echo(ctx.get_help())
        raise typer.Exit


Model = Annotated[Path, typer.Argument(help="A model file written by `accams fit`.", show_default=False)]
Data = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, '::'-separated, Parquet or NPZ; plain, .gz, or inside a .zip (archive.zip/inner/ratings.dat).",
        show_default=False,
    ),
]
Row = Annotated[
    str | None,
    typer.Option("--row", help="Column with the row (user) ids, if its name is not a usual one.", rich_help_panel=DATA),
]
Col = Annotated[str | None, typer.Option("--col", help="Column with the column (item) ids.", rich_help_panel=DATA)]
Value = Annotated[str | None, typer.Option("--value", help="Column with the values (ratings).", rich_help_panel=DATA)]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write.", show_default=False)]

# -- using a model -----------------------------------------------------------------------------------------------

Number = Annotated[int, typer.Option("-n", help="How many.")]
Rated = Annotated[
    list[str] | None,
    typer.Option(help="What someone new has rated: ITEM=VALUE, once for each item.", metavar="ITEM=VALUE"),
]
Titles = Annotated[
    Path | None,
    typer.Option(help="A table with names of items, such as movies.csv: ids in one column, titles in another."),
]
History = Annotated[
    Path | None,
    typer.Option(
        "--history", "--seen", help="What users have seen, where the model file does not tell: a history file, the "
        "ratings that were fitted, or a store.", show_default=False,
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="For machines: JSON to standard output.")]

# -- fit: the data -----------------------------------------------------------------------------------------------

Weight = Annotated[
    str | None, typer.Option(help="Column with weights of the observations.", rich_help_panel=DATA, hidden=True)
]
Duplicates = Annotated[
    str, typer.Option(help="Duplicate pairs: error, mean, last or sum.", rich_help_panel=DATA, hidden=True)
]  # fmt: skip
Zeros = Annotated[
    str, typer.Option(help="Blank cells: missing, or observed (as zeros).", rich_help_panel=DATA, hidden=True)
]
ZeroWeight = Annotated[
    float, typer.Option(help="Weight of a blank with --zeros observed.", rich_help_panel=DATA, hidden=True)
]
Test = Annotated[
    float,
    typer.Option(
        help="Share of the entries held out to report the error (of a store, a million at most); 0 fits all.",
        rich_help_panel=DATA,
    ),
]

# -- fit ---------------------------------------------------------------------------------------------------------

ModelFile = Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")]
HistoryOut = Annotated[
    Path | None,
    _option(
        "--history", "Write what users have seen to this file, and leave it out of the model file.", metavar="PATH"
    ),
]
Kind = Annotated[
    ModelName | None,
    _option("--model", "bayes: the mean over many draws, better predictions; accams: one small model, fast.", "bayes"),
]
Config = Annotated[
    Path | None, _option("--config", "Take options from a TOML file; those typed here win.", metavar="PATH")
]
Quiet = Annotated[bool, _option("--quiet -q", "Show neither progress nor the report; only warnings and errors.")]
HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show all options.", callback=_show_all, is_eager=True, show_default=False)
]
Paper = Annotated[
    bool,
    _option(
        "--paper", "Start from the paper's settings; options given beside it change them.", panel=BAYES, hidden=True
    ),
]
Resume = Annotated[
    Path | None,
    _option(
        "--resume", "Go on from this checkpoint with its parameters, and go on writing it. The data and --test must be "
        "as in the first run.", metavar="PATH",
    ),
]  # fmt: skip
Address = Annotated[
    str | None,
    _option("--address", "Of a running Ray cluster (auto: the one of this machine).", "one is started", hidden=True),
]
FormerSchedule = Annotated[str | None, typer.Option("--schedule", help="Deprecated: use --backfit.", hidden=True)]

# -- predict -----------------------------------------------------------------------------------------------------

Std = Annotated[
    bool, typer.Option("--std", help="Add a column `std`: the standard deviation of an observation (models with draws)")
]
Quantiles = Annotated[
    str | None,
    typer.Option(
        "--quantiles", help="Add columns with these quantiles of an observation, such as 0.05,0.95 (models with draws)",
        metavar="NUMBER[,NUMBER...]",
    ),
]  # fmt: skip

# -- batches -----------------------------------------------------------------------------------------------------

BatchEngine = Annotated[Place, typer.Option("--engine", help="Where to run: on this machine, or on a Ray cluster.")]
