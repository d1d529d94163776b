"""`accams fit`: from options and a configuration file to an estimator."""

import inspect
import shlex
from copy import copy
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from accams.cli import options as o
from accams.cli.messages import show_warning
from accams.cli.settings import flags_of, foreign, listed, of_lists_alone, options, parameters_of, refuse
from accams.errors import InputError
from accams.settings.fields import require
from accams.settings.kinds import FLAG, Kind, Number, Text, Words

HIDDEN = {
    "list_bytes", "user_features", "item_features", "weight", "duplicates", "zeros", "zero_weight", "paper", "address",
    "schedule",
}  # fmt: skip
READING = ("row", "col", "value", "weight", "duplicates", "zeros", "zero_weight")
FEATURES = ("user_features", "item_features")
RECORDS = ("priors", "schedule")
PATH, TEXT, SIZE = Text("a path"), Text("the name of a column"), Text("a size, such as 100k")
OTHERS: dict[str, Kind] = {
    "output": PATH,
    "history": PATH,
    "user_features": PATH,
    "item_features": PATH,
    "purpose": Words(*map(str, o.Purpose)),
    "model": Words("bayes", "accams"),
    "list_bytes": SIZE,
    "paper": FLAG,
    "quiet": FLAG,
    "test": Number(0.0, 1.0),
    "row": TEXT,
    "col": TEXT,
    "value": TEXT,
    "weight": TEXT,
    "duplicates": Words("auto", "error", "mean", "last", "sum"),
    "zeros": Words("missing", "observed"),
    "zero_weight": Number(),
}
HELP = """Fit a model to a file of observations and save it. It predicts values, and ranks by what people choose.

[bold]accams fit ratings.csv -o model.accams[/]
[bold]accams fit likes.csv --for lists[/]
[bold]accams fit ml-1m.zip --checkpoint run.ckpt[/] (later: --resume run.ckpt)"""


def main_options(
    ctx: typer.Context,
    data: o.Data,
    output: o.ModelFile = Path("model.accams"),
    history: o.HistoryOut = None,
    purpose: o.For = o.Purpose.auto,
    model: o.Kind = None,
    list_bytes: o.ListBytes = None,
    resume: o.Resume = None,
    config: o.Config = None,
    quiet: o.Quiet = False,
    help_all: o.HelpAll = False,
    test: o.Test = 0.1,
    row: o.Row = None,
    col: o.Col = None,
    value: o.Value = None,
    user_features: o.UserFeatures = None,
    item_features: o.ItemFeatures = None,
    weight: o.Weight = None,
    duplicates: o.Duplicates = "auto",
    zeros: o.Zeros = "missing",
    zero_weight: o.ZeroWeight = 1.0,
    paper: o.Paper = False,
    address: o.Address = None,
    schedule: o.FormerSchedule = None,
) -> None:
    """Options of `accams fit` that are not parameters of an estimator."""


def command() -> Any:
    """Return the function that typer runs, with the options of the estimators in its signature."""

    def fit(ctx: typer.Context, **chosen: Any) -> None:
        run_fit(ctx, chosen)

    context, *own = inspect.signature(main_options).parameters.values()
    shown = [_parameter(each) for each in own]
    generated = [option.signature() for option in options().values()]
    parameters = [context, *shown[:6], *generated, *shown[6:]]
    fit.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    fit.__annotations__ = {each.name: each.annotation for each in parameters}
    return fit


def _parameter(each: inspect.Parameter) -> inspect.Parameter:
    """Return an option as a keyword argument, hidden where only ``--help-all`` is to show it."""
    kind, info = get_args(each.annotation)
    info = copy(info)
    info.hidden = each.name in HIDDEN
    return each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def run_fit(ctx: typer.Context, chosen: dict[str, Any]) -> None:
    from accams.cli.fitting import Job, fit_file, new_estimator, resumed_estimator
    from accams.estimators.items import ItemACCAMS

    path, resume = chosen["config"], chosen["resume"]
    typed = {name: x for name, x in chosen.items() if x is not None and x is not False and not _default(ctx, name)}
    configured, labels = ({}, {}) if path is None else read_config(path)
    given = {**configured, **typed}
    model, paper = given.get("model"), bool(given.get("paper"))
    kind = "bayes" if model is None or resume is not None else o.ModelName(model).value
    purpose = str(given.get("purpose", "auto"))
    _backfit(typed)
    if resume is None:
        _refuse_foreign(kind, {**configured, **typed}, paper, purpose)
    else:
        _refuse_with_resume(typed, model, purpose)
    parameters, for_lists = (
        {**parameters_of(which, configured, labels), **parameters_of(which, typed)} for which in (kind, "lists")
    )
    estimator = new_estimator(kind, paper, parameters) if resume is None else resumed_estimator(resume, parameters)
    if given.get("list_bytes") is not None:
        for_lists["max_bytes"] = o.size_in_bytes("--list-bytes", str(given["list_bytes"]))
    job = {name: given.get(name, chosen[name]) for name in (*READING, "data", "output", "history", "test", "quiet")}
    estimator.set_params(**({"verbose": False} if job["quiet"] else {}))
    o.join_cluster(estimator.engine, chosen["address"])
    reading = {name: job[name] for name in READING}
    paths = Path(job["data"]), Path(job["output"]), None if job["history"] is None else Path(job["history"])
    go_on = command_to_go_on(given, estimator.get_params().get("checkpoint"))
    features = {name: None if given.get(name) is None else Path(given[name]) for name in FEATURES}
    if kind == "accams" and any(features.values()):
        raise InputError("--user-features and --item-features need --model bayes: ACCAMS knows none")
    task = Job(*paths, reading, float(job["test"]), bool(job["quiet"]), resume, go_on, purpose, features)
    fit_file(task, estimator, ItemACCAMS().set_params(**for_lists, **({"verbose": False} if task.quiet else {})))


def _default(ctx: typer.Context, name: str) -> bool:
    """Return whether an option has its default, since nobody typed it."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name in ("DEFAULT", "DEFAULT_MAP")


def _backfit(typed: dict[str, Any]) -> None:
    """Translate the former --schedule into --backfit."""
    former = typed.pop("schedule", None)
    if former is not None:
        show_warning("--schedule is deprecated and will be removed in 0.3: use --backfit N")
    if former == "backfit":
        typed.setdefault("backfit", typed.pop("sweeps", "20"))
    elif former not in (None, "gibbs"):
        raise InputError(f"--schedule must be gibbs or backfit, not {former!r}")


def command_to_go_on(given: dict[str, Any], checkpoint: Any) -> str:
    """Return the command line that goes on from the checkpoint: all that the checkpoint itself does not say."""
    words = ["accams", "fit", str(given["data"]), "--resume", str(checkpoint or "")]
    for name in (*READING, *FEATURES, "test", "output", "history", "address", "purpose", "list_bytes"):
        if name in given:
            words += ["--for" if name == "purpose" else f"--{name.replace('_', '-')}", str(given[name])]
    return shlex.join(words)


def _refuse_foreign(kind: str, given: dict[str, Any], paper: bool, purpose: str) -> None:
    """Refuse options of what is not fitted: the other model, values, or lists."""
    flags = foreign(kind, given) + (["--paper"] if paper and kind == "accams" else [])
    of_lists = of_lists_alone(given)
    wanted = [name for name in flags if name not in of_lists]
    if purpose == "ratings":
        refuse(sorted(set(flags) & set(of_lists)), "needs lists: leave out --for ratings")
    if purpose == "lists":
        own = [*foreign("lists", given), *(["--model"] if given.get("model") else []), *(["--paper"] if paper else [])]
        refuse(own, "is not for lists: leave it out, or leave out --for lists")
    other = "accams" if kind == "bayes" else "bayes"
    are, them = ("is an option", "it") if len(wanted) == 1 else ("are options", "them")
    refuse(wanted, f"{are} of the other model: use --model {other}, or leave {them} out")


def _refuse_with_resume(typed: dict[str, Any], model: str | None, purpose: str) -> None:
    """Refuse options that the checkpoint decides; those of a configuration file are compared with it instead."""
    if model == "accams":
        raise InputError("--resume continues a fit of --model bayes: ACCAMS has no checkpoints")
    if purpose == "lists":
        raise InputError("--resume continues a fit of values: lists have no checkpoints")
    from accams.estimators.planning import MAY_DIFFER

    allowed = flags_of((*MAY_DIFFER, "random_state"))  # the seed also decides which entries are held out
    fixed = [
        option.flags[0]
        for name, option in options().items()
        if name in typed and name not in allowed and list(option.parameters) != ["lists"]
    ]
    fixed += ["--paper"] if typed.get("paper") else []
    free = listed(sorted(allowed.values()))
    refuse(fixed, f"cannot be given with --resume, since the checkpoint decides: only {free} can be given anew")


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Read a configuration file: values by option name, and how messages name each (its key and the file).

    Keys are the options of `accams fit`, with dashes or underscores, or the parameters of the estimators; the tables
    ``[priors]`` and ``[schedule]`` hold the fields of those records. Values of parameters have yet to be parsed.
    """
    import tomllib

    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from None
    by_parameter = {parameter: name for name, each in options().items() for parameter, _ in each.parameters.values()}
    known = {each.replace("__", "."): name for each, name in by_parameter.items()}
    known.update({name: name for name in (*options(), *OTHERS)} | {"for": "purpose"})
    flat = _flat(content)
    require(flat, known, f"setting in {path} called")
    values: dict[str, Any] = {}
    labels: dict[str, str] = {}
    for key, value in flat.items():
        name, label = known[key], f"{key!r} in {path}"
        if name in values:
            raise InputError(f"{label} sets the same as {labels[name]}: leave one out")
        values[name], labels[name] = OTHERS[name].parse(label, value) if name in OTHERS else value, label
    return values, labels


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """Return settings by name with underscores, those of records as ``record.name``."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if key in RECORDS and isinstance(value, dict):
            flat.update({f"{key}.{name.replace('-', '_')}": x for name, x in value.items()})
        else:
            flat[key.replace("-", "_")] = value
    return flat
