"""`accams fit`: from options and a configuration file to an estimator."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path
from typing import Any

import typer

from accams.cli import options as o
from accams.cli.settings import flags_of, foreign, listed, options, parameters_of, refuse
from accams.cli.values import join_cluster
from accams.errors import InputError

READING = ("row", "col", "value", "weight", "duplicates", "zeros", "zero_weight")
HELP = """Fit a model to a file of observations and save it.

[bold]accams fit ratings.csv -o model.accams[/]

[bold]accams fit ml-1m.zip --checkpoint run.ckpt[/], and if it was cut short: [bold]accams fit ml-1m.zip --resume \
run.ckpt[/]

[bold]accams fit ratings.csv --config run.toml[/] takes all settings from a file; [bold]--help-all[/] lists them."""


def main_options(
    ctx: typer.Context,
    data: o.Data,
    output: o.ModelFile = Path("model.accams"),
    history: o.HistoryOut = None,
    model: o.Kind = None,
    test: o.Test = 0.1,
    config: o.Config = None,
    quiet: o.Quiet = False,
    help_all: o.HelpAll = False,
    row: o.Row = None,
    col: o.Col = None,
    value: o.Value = None,
    weight: o.Weight = None,
    duplicates: o.Duplicates = "error",
    zeros: o.Zeros = "missing",
    zero_weight: o.ZeroWeight = 1.0,
    paper: o.Paper = False,
    resume: o.Resume = None,
    address: o.Address = None,
    schedule: o.FormerSchedule = None,
) -> None:
    """Options of `accams fit` that are not parameters of an estimator."""


def command() -> Any:
    """Return the function that typer runs, with the options of the estimators in its signature."""

    def fit(ctx: typer.Context, **chosen: Any) -> None:
        run_fit(ctx, chosen)

    own = list(inspect.signature(main_options, eval_str=True).parameters.values())
    shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own[1:]]
    generated = [option.signature() for option in options().values()]
    parameters = [own[0], *shown[:4], *generated, *shown[4:]]
    fit.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    fit.__annotations__ = {each.name: each.annotation for each in parameters}
    return fit


def run_fit(ctx: typer.Context, chosen: dict[str, Any]) -> None:
    """Make or resume an estimator and fit it."""
    from accams.cli.fitting import Job, fit_file, new_estimator, resumed_estimator

    typed = {name: x for name, x in chosen.items() if x is not None and x is not False and not _default(ctx, name)}
    given = {**_configured(chosen, typed), **typed}
    job = {name: given.get(name, chosen[name]) for name in (*READING, "data", "output", "history", "test", "quiet")}
    resume, model = chosen["resume"], given.get("model")
    model = None if model is None else o.ModelName(model)
    _backfit(given)
    if resume is None:
        kind = (model or o.ModelName.bayes).value
        other = "accams" if kind == "bayes" else "bayes"
        wrong = foreign(kind, given) + (["--paper"] if given.get("paper") and kind == "accams" else [])
        hint = "it" if len(wrong) == 1 else "them"
        refuse(
            wrong, f"{'is' if len(wrong) == 1 else 'are'} not for this model: say --model {other}, or leave {hint} out"
        )
        estimator = new_estimator(kind, bool(given.get("paper")), parameters_of(kind, given))
    else:
        _refuse_with_resume(given, model)
        estimator = resumed_estimator(resume, parameters_of("bayes", given))
    estimator.set_params(**({"verbose": False} if job["quiet"] else {}))
    join_cluster(estimator.engine, chosen["address"])
    reading = {name: job[name] for name in READING}
    paths = Path(job["data"]), Path(job["output"]), None if job["history"] is None else Path(job["history"])
    go_on = command_to_go_on(given, estimator.get_params().get("checkpoint"))
    fit_file(Job(*paths, reading, float(job["test"]), bool(job["quiet"]), resume, go_on), estimator)


def _default(ctx: typer.Context, name: str) -> bool:
    """Return whether an option has its default, since nobody typed it."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name in ("DEFAULT", "DEFAULT_MAP")


def _configured(chosen: dict[str, Any], typed: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the configuration file."""
    if chosen["config"] is None:
        return {}
    from accams.cli.config import read_config

    others = {*READING, "output", "history", "test", "quiet", "model", "paper"}
    return read_config(chosen["config"], others)


def _backfit(given: dict[str, Any]) -> None:
    """Translate the former --schedule into --backfit."""
    former = given.pop("schedule", None)
    if former == "backfit":
        given.setdefault("backfit", given.pop("sweeps", "20"))
    elif former not in (None, "gibbs"):
        raise InputError(f"--schedule must be gibbs or backfit, not {former!r}")


def command_to_go_on(given: dict[str, Any], checkpoint: Any) -> str:
    """Return the command line that goes on from the checkpoint: all that the checkpoint itself does not say."""
    words = ["accams", "fit", str(given["data"]), "--resume", str(checkpoint or "")]
    for name in (*READING, "test", "output", "history", "address"):
        if name in given:
            words += [f"--{name.replace('_', '-')}", str(given[name])]
    return shlex.join(words)


def _refuse_with_resume(given: dict[str, Any], model: o.ModelName | None) -> None:
    """Refuse options that the checkpoint decides."""
    if model is o.ModelName.accams:
        raise InputError("--resume goes on with a fit of --model bayes: ACCAMS has no checkpoints")
    from accams.estimators.planning import MAY_DIFFER

    allowed = flags_of((*MAY_DIFFER, "random_state"))  # the seed also decides which entries are held out
    fixed = [option.flags[0] for name, option in options().items() if name in given and name not in allowed]
    fixed += ["--paper"] if given.get("paper") else []
    refuse(
        fixed, f"cannot be given with --resume, since the checkpoint decides: only {listed(list(allowed.values()))} can"
    )
