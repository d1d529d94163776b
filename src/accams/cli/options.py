"""The options of the commands: names, help and panels. Where no default is set here, the estimators' own applies."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

DATA = "Data"
BAYES = "bACCAMS (--model bayes)"
ACCAMS = "ACCAMS (--model accams)"


class ModelName(StrEnum):
    """Which model `accams fit` fits."""

    bayes = "bayes"
    accams = "accams"


class Side(StrEnum):
    """What is compared."""

    items = "items"
    users = "users"


class Place(StrEnum):
    """Where a batch runs."""

    cpu = "cpu"
    ray = "ray"


class Likeness(StrEnum):
    """How alike two items or users are."""

    weighted = "weighted"
    hamming = "hamming"


def _option(name: str, text: str, default: str = "", panel: str | None = None, metavar: str | None = None) -> Any:
    """An option; `default` is what the estimators do without it."""
    shown = f"{text} [dim]\\[default: {default}][/]" if default else text
    names = name.split()
    return typer.Option(*names, help=shown, rich_help_panel=panel, metavar=metavar, show_default=False)


def _bayes(name: str, text: str, default: str = "", metavar: str | None = None) -> Any:
    return _option(name, text, default, BAYES, metavar)


def _accams(name: str, text: str, default: str = "", metavar: str | None = None) -> Any:
    return _option(name, text, default, ACCAMS, metavar)


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
Json = Annotated[bool, typer.Option("--json", help="For machines: JSON to standard output.")]

# -- fit: the data -----------------------------------------------------------------------------------------------

Weight = Annotated[str | None, typer.Option(help="Column with weights of the observations.", rich_help_panel=DATA)]
Duplicates = Annotated[
    str, typer.Option(help="Pairs that come twice: error, mean, last or sum.", rich_help_panel=DATA)
]  # fmt: skip
Zeros = Annotated[str, typer.Option(help="Blank cells: missing, or observed (as zeros).", rich_help_panel=DATA)]
ZeroWeight = Annotated[float, typer.Option(help="Weight of a blank with --zeros observed.", rich_help_panel=DATA)]
Test = Annotated[
    float,
    typer.Option(
        help="Share of the entries held out to report the error (of a store, a million at most); 0 fits all.",
        rich_help_panel=DATA,
    ),
]

# -- fit: both models --------------------------------------------------------------------------------------------

ModelFile = Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")]
Kind = Annotated[
    ModelName | None,
    _option("--model", "bayes: the mean over many draws, better predictions; accams: one small model, fast.", "bayes"),
]
Stencils = Annotated[
    str | None,
    _option(
        "--stencils -s",
        "Stencils (accams with --early-stopping: at most); auto, for bayes: 10 to 50, by the size of the data.",
        "auto for bayes, 13 for accams",
        metavar="NUMBER|auto",
    ),
]
Clusters = Annotated[
    str | None,
    _option(
        "--clusters -k", "Clusters of each stencil: 10, or 20x5 for rows x columns; for bayes also none (no bound, "
        "with --sampler collapsed --prior crp) or auto (about 100 blocks).", "auto for bayes, 10 for accams",
        metavar="NUMBER|ROWSxCOLUMNS|none|auto",
    ),
]  # fmt: skip
Init = Annotated[
    str | None,
    _option(
        "--init", "How stencils begin. bayes: accams or prior; accams: k-means++, or random as in the paper.",
        "accams for bayes, k-means++ for accams",
    ),
]  # fmt: skip
Tol = Annotated[
    float | None,
    _option(
        "--tol", "When to stop. bayes: the run, if its last fifth changed the running mean by less than this share of "
        "the mean squared error; accams: a stencil, if a step gains less than this share.",
        "0.0001 for bayes, 0.004 for accams",
    ),
]  # fmt: skip
EarlyStopping = Annotated[
    bool,
    _option("--early-stopping", "Judge by held-out entries how many sweeps (bayes) or stencils (accams) are enough."),
]
ValidationFraction = Annotated[
    float | None, _option("--validation-fraction", "Share of the entries held out for --early-stopping.", "0.1")
]
Patience = Annotated[
    int | None,
    _option(
        "--patience", "Sweeps or stencils without improvement before --early-stopping stops.",
        "50 for bayes, 10 for accams",
    ),
]  # fmt: skip
Seed = Annotated[int | None, _option("--seed", "The same seed gives the same model.", "0")]
Threads = Annotated[int | None, _option("--threads", "The result does not depend on it.", "all cores")]
Engine = Annotated[
    str | None, _option("--engine", "Where to run.", "auto", metavar="auto|cpu|dense|graph|cuda|disk|ray")
]
Shards = Annotated[
    int | None, _option("--shards", "Parts of the data on a cluster (--engine ray).", "one for each machine")
]
Address = Annotated[
    str | None,
    _option("--address", "Of a Ray cluster that is running (auto: the one of this machine).", "one is started here"),
]
Quiet = Annotated[bool, _option("--quiet -q", "Show neither progress nor the report; only warnings and errors.")]

# -- fit: bACCAMS ------------------------------------------------------------------------------------------------

Paper = Annotated[bool, _bayes("--paper", "Begin with the paper's settings; options given beside it change them.")]
Sampler = Annotated[
    str | None, _bayes("--sampler", "Both are exact; the paper's is collapsed.", "blocked", "blocked|collapsed")
]  # fmt: skip
Prior = Annotated[
    str | None,
    _bayes("--prior", "Of labels; the paper's is crp (with --sampler collapsed).", "dirichlet", "dirichlet|crp"),
]
Alpha = Annotated[
    str | None,
    _bayes("--alpha", "Concentration of row labels; a list has one number per stencil.", "1", "NUMBER[,NUMBER...]"),
]
Beta = Annotated[
    str | None, _bayes("--beta", "The same for column labels.", "the same as --alpha", "NUMBER[,NUMBER...]")
]
Noise = Annotated[
    str | None,
    _bayes(
        "--noise", "The noise sigma: calibrated on held-out entries, sampled as in the paper, or held at a value.",
        "calibrated", "calibrated|sampled|NUMBER",
    ),
]  # fmt: skip
SigmaMax = Annotated[
    str | None, _bayes("--sigma-max", "Upper bound of sigma where it is not held.", "none", "NUMBER|none")
]
Tau = Annotated[
    str | None,
    _bayes(
        "--tau", "Standard deviation of template entries: scaled to the data, sampled as in the paper, or a value.",
        "scaled", "scaled|sampled|NUMBER",
    ),
]  # fmt: skip
RowNoise = Annotated[
    str | None,
    _bayes(
        "--row-noise", "Degrees of freedom of each row's own noise; none: all rows are alike; auto: 30, and none with "
        "--zeros observed.", "auto", "NUMBER|none|auto",
    ),
]  # fmt: skip
Effects = Annotated[
    str | None,
    _bayes("--effects", "Row and column effects beside the stencils.", "none", "none|stencils|continuous"),
]
Chains = Annotated[int | None, _bayes("--chains", "Independent chains, whose average predicts.", "8")]
Sweeps = Annotated[
    str | None,
    _bayes("--sweeps", "Sweeps of each chain; auto: until the running mean settles (--tol).", "auto", "NUMBER|auto"),
]
BurnIn = Annotated[
    str | None,
    _bayes("--burn-in", "Sweeps left out of all averages; auto: the first quarter.", "auto", "NUMBER|auto"),
]
Thin = Annotated[
    str | None,
    _bayes("--thin", "Sweeps from one kept draw to the next; auto: as --max-draws asks.", "auto", "NUMBER|auto"),
]
MaxDraws = Annotated[int | None, _bayes("--max-draws", "Most draws kept, over all chains.", "400")]
Sub = Annotated[
    str | None,
    _bayes(
        "--sub", "Label updates per visit of a stencil; a list is for the first sweeps, its last number for the rest.",
        "1", "NUMBER[,NUMBER...]",
    ),
]  # fmt: skip
Schedule = Annotated[
    str | None,
    _bayes(
        "--schedule", "backfit: one stencil after another by --sweeps visits, each left as it is.", "gibbs",
        "gibbs|backfit",
    ),
]  # fmt: skip
RaoBlackwell = Annotated[
    bool, _bayes("--rao-blackwell", "Keep probabilities of row labels: better where draws are few, and larger.")
]
MemoryLimit = Annotated[
    str | None,
    _bayes("--memory-limit", "Refuse a fit that would need more, such as 8GB.", "none", "NUMBER[KB|MB|GB|TB]"),
]
Checkpoint = Annotated[
    Path | None, _bayes("--checkpoint", "Where to save the run from time to time.", "no checkpoints", "PATH")
]
CheckpointEvery = Annotated[
    int | None, _bayes("--checkpoint-every", "Sweeps from one checkpoint to the next.", "50")
]  # fmt: skip
Resume = Annotated[
    Path | None,
    _bayes(
        "--resume", "Go on from this checkpoint with its parameters, and go on writing it. The data and --test must be "
        "as in the first run; --sweeps, --tol, --threads and --memory-limit are not in it: give them again, or anew.",
        metavar="PATH",
    ),
]  # fmt: skip

# -- fit: ACCAMS -------------------------------------------------------------------------------------------------

LearningRate = Annotated[
    str | None,
    _accams(
        "--learning-rate", "Share of each stencil that enters the model, above 0 up to 1; auto: 1 for complete "
        "matrices, else 0.2.", "auto", "NUMBER|auto",
    ),
]  # fmt: skip
Shrinkage = Annotated[float | None, _accams("--shrinkage", "Penalty on template entries.", "0")]
Relearn = Annotated[int | None, _accams("--relearn", "Further passes over all stencils.", "0")]
Refit = Annotated[bool, _accams("--refit", "Solve for all templates at once in the end.")]

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
