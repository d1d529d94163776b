"""`accams fit`: from options to an estimator."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import typer

from accams.cli import options as o
from accams.cli.values import join_cluster, read
from accams.errors import InputError

RENAMED = {
    "stencils": "n_stencils",
    "clusters": "n_clusters",
    "relearn": "n_relearn",
    "chains": "n_chains",
    "sweeps": "n_sweeps",
    "burn_in": "n_burn_in",
    "sub": "n_sub",
    "threads": "n_threads",
    "shards": "n_shards",
    "seed": "random_state",
}  # option: parameter of the estimators; all others have the same name
READING = ("row", "col", "value", "weight", "duplicates", "zeros", "zero_weight")


def fit(
    ctx: typer.Context,
    data: o.Data,
    output: o.ModelFile = Path("model.accams"),
    model: o.Kind = None,
    stencils: o.Stencils = None,
    clusters: o.Clusters = None,
    init: o.Init = None,
    tol: o.Tol = None,
    early_stopping: o.EarlyStopping = False,
    validation_fraction: o.ValidationFraction = None,
    patience: o.Patience = None,
    seed: o.Seed = None,
    threads: o.Threads = None,
    engine: o.Engine = None,
    shards: o.Shards = None,
    address: o.Address = None,
    quiet: o.Quiet = False,
    row: o.Row = None,
    col: o.Col = None,
    value: o.Value = None,
    weight: o.Weight = None,
    duplicates: o.Duplicates = "error",
    zeros: o.Zeros = "missing",
    zero_weight: o.ZeroWeight = 1.0,
    test: o.Test = 0.1,
    paper: o.Paper = False,
    sampler: o.Sampler = None,
    prior: o.Prior = None,
    alpha: o.Alpha = None,
    beta: o.Beta = None,
    noise: o.Noise = None,
    sigma_max: o.SigmaMax = None,
    tau: o.Tau = None,
    row_noise: o.RowNoise = None,
    effects: o.Effects = None,
    chains: o.Chains = None,
    sweeps: o.Sweeps = None,
    burn_in: o.BurnIn = None,
    thin: o.Thin = None,
    max_draws: o.MaxDraws = None,
    sub: o.Sub = None,
    schedule: o.Schedule = None,
    rao_blackwell: o.RaoBlackwell = False,
    memory_limit: o.MemoryLimit = None,
    checkpoint: o.Checkpoint = None,
    checkpoint_every: o.CheckpointEvery = None,
    resume: o.Resume = None,
    learning_rate: o.LearningRate = None,
    shrinkage: o.Shrinkage = None,
    relearn: o.Relearn = None,
    refit: o.Refit = False,
) -> None:
    """Fit a model to a file of observations and save it.

    [bold]accams fit ratings.csv -o model.accams[/]

    [bold]accams fit ml-1m.zip --checkpoint run.ckpt[/], and if it was cut short:
    [bold]accams fit ml-1m.zip --resume run.ckpt[/]

    [bold]accams fit ml-1m.zip --model accams --early-stopping --stencils 200 --learning-rate 0.1[/]
    """
    from accams.cli.fitting import Job, fit_file, new_estimator, resumed_estimator

    given = {name: x for name, x in ctx.params.items() if x is not None and x is not False}
    if resume is None:
        kind = o.ModelName.bayes if model is None else model
        _refuse_others(given, kind)
        estimator = new_estimator(kind.value, paper, parameters_of(given))
    else:
        _refuse_with_resume(given, model)
        estimator = resumed_estimator(resume, parameters_of(given))
    join_cluster(estimator.engine, address)
    reading = {name: ctx.params[name] for name in READING}
    fit_file(Job(data, output, reading, test, quiet, resume, command_to_go_on(given, ctx.command.params)), estimator)


def parameters_of(given: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the estimators, from the options that were given."""
    known = _parameters("bayes") | _parameters("accams")
    found = {RENAMED.get(name, name): read(name, x) for name, x in given.items() if RENAMED.get(name, name) in known}
    return {**found, "verbose": False} if "quiet" in given else found


def command_to_go_on(given: dict[str, Any], known: Collection[Any]) -> str:
    """The command line that goes on from the checkpoint: all that the checkpoint itself does not say."""
    defaults = {each.name: each.default for each in known}
    kept = [*READING, "test", "output", "address", *(name for name in given if name in _may_differ())]
    words = ["accams", "fit", str(given["data"]), "--resume", str(given.get("checkpoint", given.get("resume", "")))]
    for name in dict.fromkeys(kept):
        if name in given and name != "checkpoint" and str(given[name]) != str(defaults[name]):
            words += [_flag(name), str(given[name])]
    return shlex.join(words)


def _refuse_others(given: dict[str, Any], kind: o.ModelName) -> None:
    """Refuse options of the other model."""
    other = o.ModelName.accams if kind is o.ModelName.bayes else o.ModelName.bayes
    foreign = _parameters(other.value) - _parameters(kind.value)
    foreign |= {"paper"} if other is o.ModelName.bayes else set()
    found = [_flag(name) for name in given if RENAMED.get(name, name) in foreign]
    if found:
        verb, it = ("is an option", "it") if len(found) == 1 else ("are options", "them")
        raise InputError(f"{_listed(found)} {verb} of the other model: say --model {other.value}, or leave {it} out")


def _refuse_with_resume(given: dict[str, Any], model: o.ModelName | None) -> None:
    """Refuse what a checkpoint says already."""
    if model is o.ModelName.accams:
        raise InputError("--resume goes on with a fit of --model bayes: ACCAMS has no checkpoints")
    fixed = (_parameters("bayes") | _parameters("accams") | {"paper"}) - {"random_state"}
    allowed = _may_differ()
    found = [_flag(name) for name in given if RENAMED.get(name, name) in fixed and name not in allowed]
    if found:
        raise InputError(
            f"{_listed(found)} cannot be given with --resume, since the checkpoint decides: only "
            f"{_listed([_flag(name) for name in allowed])} can be given anew"
        )


def _may_differ() -> list[str]:
    """Options of the model that a checkpoint does not hold."""
    from accams.estimators.bayes_settings import MAY_DIFFER

    options = {parameter: option for option, parameter in RENAMED.items()}
    hidden = ("callbacks", "clip", "verbose")  # not among the options
    return [options.get(name, name) for name in MAY_DIFFER if name not in hidden]


def _parameters(kind: str) -> set[str]:
    from accams.cli.fitting import class_of

    return set(class_of(kind)._get_param_names())


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
