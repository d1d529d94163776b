"""`accams fit`: every option reaches the estimator it belongs to, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import done_well, invoked, refusal

from accams import ACCAMS, BayesianACCAMS
from accams.cli import settings
from accams.cli.main import app
from accams.settings.fields import every

FIT = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
NOT_TYPED = {"callbacks", "verbose"}  # parameters without an option
BOTH = [
    ("--stencils 7", "n_stencils", 7),
    ("--clusters 6x4", "n_clusters", (6, 4)),
    ("--early-stopping", "early_stopping", True),
    ("--clip 0,9", "clip", (0.0, 9.0)),
    ("--seed 9", "random_state", 9),
    ("--threads 1", "n_threads", 1),
    ("--engine dense", "engine", "dense"),
    ("--quiet", "verbose", False),
]
BAYES = [
    ("--prior crp", "priors__labels", "crp"),
    ("--alpha 2.5", "priors__alpha", 2.5),
    ("--beta 10,5,1", "priors__beta", [10.0, 5.0, 1.0]),
    ("--eta 2,0.3", "priors__eta", (2.0, 0.3)),
    ("--sigma-max 1.5", "priors__sigma_max", 1.5),
    ("--row-noise none", "priors__row_noise", None),
    ("--tau 0.2", "priors__tau", 0.2),
    ("--gamma 5,0.3", "priors__gamma", (5.0, 0.3)),
    ("--effects continuous", "priors__effects", "continuous"),
    ("--implicit 3", "priors__implicit", 3),
    ("--noise sampled", "noise", "sampled"),
    ("--likelihood ordinal", "likelihood", "ordinal"),
    ("--chains 3", "n_chains", 3),
    ("--sweeps 100", "n_sweeps", 100),
    ("--checkpoint run.ckpt", "checkpoint", "run.ckpt"),
    ("--sampler collapsed", "schedule__sampler", "collapsed"),
    ("--burn-in 20", "schedule__n_burn_in", 20),
    ("--thin 2", "schedule__thin", 2),
    ("--max-draws 50", "schedule__max_draws", 50),
    ("--sub 3,1", "schedule__n_sub", [3, 1]),
    ("--backfit 8", "schedule__backfit", 8),
    ("--rao-blackwell", "schedule__rao_blackwell", True),
    ("--checkpoint-every 7", "schedule__checkpoint_every", 7),
    ("--memory-limit 8GB", "schedule__memory_limit", 8e9),
]
BAYES_TOO = [  # options of both models that are in a record of this one
    ("--init prior", "schedule__init", "prior"),
    ("--tol 0.5", "schedule__tol", 0.5),
    ("--validation-fraction 0.3", "schedule__validation_fraction", 0.3),
    ("--patience 4", "schedule__patience", 4),
    ("--shards 2", "schedule__n_shards", 2),
]
PLAIN = [
    ("--max-iter 9", "max_iter", 9),
    ("--n-init 2", "n_init", 2),
    ("--learning-rate 0.5", "learning_rate", 0.5),
    ("--shrinkage 2", "shrinkage", 2.0),
    ("--relearn 1", "n_relearn", 1),
    ("--refit", "refit", True),
]
PLAIN_TOO = [
    ("--init random", "init", "random"),
    ("--tol 0.5", "tol", 0.5),
    ("--validation-fraction 0.3", "validation_fraction", 0.3),
    ("--patience 4", "patience", 4),
    ("--shards 2", "n_shards", 2),
]
LISTS = [
    ("--list-penalty 200", "penalty", 200.0),
    ("--list-dropout 0.5", "dropout", 0.5),
    ("--held-out latest", "held_out", "latest"),
    ("--list-bytes 50k", "max_bytes", 50_000),
    ("--feedback ratings", "feedback", "ratings"),
    ("--liked-from 3.5", "liked_from", 3.5),
    ("--max-items 500", "max_items", 500),
    ("--seen-weight 0", "seen_weight", 0.0),
    ("--seed 9", "random_state", 9),
    ("--threads 1", "n_threads", 1),
    ("--quiet", "verbose", False),
]
MORE = [
    ("--clusters none", "n_clusters", None),
    ("--clusters 3,4x5", "n_clusters", [3, (4, 5)]),
    ("--clusters auto", "n_clusters", "auto"),
    ("--noise 0.7", "noise", 0.7),
    ("--noise calibrated", "noise", "calibrated"),
    ("--noise auto", "noise", "auto"),
    ("--sigma-max none", "priors__sigma_max", None),
    ("--tau sampled", "priors__tau", "sampled"),
    ("--row-noise 12", "priors__row_noise", 12.0),
    ("--row-noise auto", "priors__row_noise", "auto"),
    ("--effects none", "priors__effects", None),
    ("--eta none", "priors__eta", None),
    ("--sweeps auto", "n_sweeps", "auto"),
    ("--burn-in 0", "schedule__n_burn_in", 0),
    ("--sub 2", "schedule__n_sub", 2),
    ("--memory-limit 1.5GiB", "schedule__memory_limit", 1.5 * 2**30),
    ("--memory-limit 500000", "schedule__memory_limit", 500_000.0),
    ("--seed none", "random_state", None),
    ("--clip false", "clip", False),
]


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The jobs and estimators that would have been fitted."""
    found: list[Any] = []
    monkeypatch.setattr(
        "accams.cli.fitting.fit_file", lambda job, estimator, lists: found.append((job, estimator, lists))
    )
    return found


def estimator_of(fitted: list[Any], *args: str) -> Any:
    done_well("fit", "x.csv", *args)
    return fitted.pop()[1]


def flat(model: Any) -> dict[str, Any]:
    """The parameters, those of records one by one."""
    return {name: x for name, x in model.get_params().items() if name not in ("priors", "schedule")}


# -- what is fitted ----------------------------------------------------------------------------------------------


def test_without_options_it_is_the_bayesian_model_as_it_comes(fitted: list[Any]) -> None:
    for args in ([], ["--model", "bayes"]):
        model = estimator_of(fitted, *args)
        assert type(model) is BayesianACCAMS
        assert model.get_params() == BayesianACCAMS().get_params()


def test_accams_as_it_comes(fitted: list[Any]) -> None:
    model = estimator_of(fitted, "--model", "accams")
    assert type(model) is ACCAMS
    assert model.get_params() == ACCAMS().get_params()


@pytest.mark.parametrize(("kind", "known"), [("bayes", BOTH + BAYES + BAYES_TOO), ("accams", BOTH + PLAIN + PLAIN_TOO)])
def test_all_options_together_reach_the_estimator(kind: str, known: list[Any], fitted: list[Any]) -> None:
    model = estimator_of(fitted, "--model", kind, *" ".join(option for option, _, _ in known).split())
    fresh, wanted = flat(type(model)()), {name: value for _, name, value in known}
    assert flat(model) == {**fresh, **wanted}
    assert all(fresh[name] != value for name, value in wanted.items())
    assert wanted.keys() | {"callbacks"} == fresh.keys()  # there is an option for every parameter


@pytest.mark.parametrize(("option", "name", "value"), MORE)
def test_other_forms_of_values(option: str, name: str, value: Any, fitted: list[Any]) -> None:
    found = estimator_of(fitted, "--paper", *option.split()).get_params()[name]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("purpose", [[], ["--for", "lists"], ["--for", "both"]])
def test_options_of_lists_reach_them(purpose: list[str], fitted: list[Any]) -> None:
    done_well("fit", "x.csv", *purpose, *" ".join(option for option, _, _ in LISTS).split())
    job, _, lists = fitted.pop()
    assert {name: lists.get_params()[name] for _, name, _ in LISTS} == {name: value for _, name, value in LISTS}
    assert job.purpose == (purpose[1] if purpose else "auto")


def test_a_zero_is_not_nothing(fitted: list[Any]) -> None:
    assert estimator_of(fitted, "--model", "accams", "--stencils", "0").n_stencils == 0


def test_the_papers_settings_and_changes_to_them(fitted: list[Any]) -> None:
    model = estimator_of(fitted, "--paper", "--chains", "3", "--alpha", "4")
    assert model.get_params() == BayesianACCAMS.paper(n_chains=3, priors__alpha=4.0).get_params()


def test_the_former_schedule(fitted: list[Any]) -> None:
    for args, visits in ((["--sweeps", "7"], 7), ([], 20)):
        done = invoked("fit", "x.csv", "--schedule", "backfit", *args)
        assert done.exit_code == 0
        assert done.stderr.startswith("warning: --schedule is deprecated")
        assert fitted.pop()[1].get_params() == BayesianACCAMS().set_params(schedule__backfit=visits).get_params()
    assert refusal("fit", "x.csv", "--schedule", "never") == "--schedule must be gibbs or backfit, not 'never'"


def test_how_the_data_is_read(fitted: list[Any]) -> None:
    args = "--row a --col b --value c --weight d --duplicates mean --zeros observed --zero-weight 0.5"
    done_well("fit", "x.csv", "-o", "m.accams", "--test", "0.3", *args.split())
    job = fitted.pop()[0]
    assert job.reading == {
        "row": "a", "col": "b", "value": "c", "weight": "d", "duplicates": "mean", "zeros": "observed",
        "zero_weight": 0.5,
    }  # fmt: skip
    assert (job.data, job.output, job.test) == (Path("x.csv"), Path("m.accams"), 0.3)


# -- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [option for option, _, _ in PLAIN])
def test_options_of_accams_are_refused_for_bayes(option: str, fitted: list[Any]) -> None:
    name = option.split()[0]
    assert refusal("fit", "x.csv", *option.split()) == (
        f"{name} is an option of the other model: use --model accams, or leave it out"
    )


@pytest.mark.parametrize("option", ["--paper", *(option for option, _, _ in BAYES)])
def test_options_of_bayes_are_refused_for_accams(option: str, fitted: list[Any]) -> None:
    name = option.split()[0]
    assert refusal("fit", "x.csv", "--model", "accams", *option.split()) == (
        f"{name} is an option of the other model: use --model bayes, or leave it out"
    )


def test_several_options_of_the_other_model(fitted: list[Any]) -> None:
    message = refusal("fit", "x.csv", "--refit", "--relearn", "2", "--shrinkage", "1")
    assert message.startswith("--relearn, --refit and --shrinkage are options of the other model")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--clusters ten", "--clusters must be 'auto' or None or an integer from 1 to 1024, a tuple"),
        ("--clusters 1x2x3", "not (1, 2, 3)"),
        ("--model accams --learning-rate fast", "--learning-rate must be 'auto' or a number above 0 and at most 1"),
        ("--sweeps many", "--sweeps must be 'auto' or an integer of at least 1, not 'many'"),
        ("--sweeps 1.5", "--sweeps must be 'auto' or an integer of at least 1, not '1.5'"),
        ("--burn-in half", "--burn-in must be 'auto' or an integer of at least 0, not 'half'"),
        ("--thin none", "--thin must be 'auto' or an integer of at least 1, not 'none'"),
        ("--noise loud", "--noise must be 'auto' or 'calibrated' or 'sampled' or a number above 0, not 'loud'"),
        ("--tau big", "--tau must be 'scaled' or 'sampled' or a number above 0, not 'big'"),
        ("--row-noise some", "--row-noise must be None or 'auto' or a number above 0, not 'some'"),
        ("--alpha 1,two", "--alpha must be a number above 0 or a list of those, not '1,two'"),
        ("--sub 1.5", "--sub must be an integer of at least 1 or a list of those, not '1.5'"),
        ("--memory-limit lots", "--memory-limit must be None or a size in bytes, such as 8e9"),
        ("--eta 2", "--eta must be None or two numbers above 0"),
        ("--seed soon", "--seed must be None, a non-negative integer or a NumPy generator, not 'soon'"),
        ("--seed -1", "--seed must be None, a non-negative integer or a NumPy generator, not -1"),
        ("--chains two", "--chains must be an integer of at least 1, not 'two'"),
        ("--chains 0", "--chains must be an integer of at least 1, not 0"),
        ("--sampler gibbs", "--sampler must be 'blocked' or 'collapsed'"),
        ("--effects some", "--effects must be 'auto' or None or 'stencils' or 'continuous', not 'some'"),
        ("--init random", "--init must be 'accams' or 'prior', not 'random'"),
        ("--noise -1", "--noise must be 'auto' or 'calibrated' or 'sampled' or a number above 0, not -1.0"),
        ("--alpha 1,0", "--alpha must be a number above 0 or a list of those, not [1.0, 0.0]"),
        ("--clusters none --model accams", "--clusters must be an integer from 1 to 1024"),
        ("--checkpoint no/such/folder/run.ckpt", "--checkpoint must be None or a path in a folder that exists"),
    ],
)
def test_values_that_cannot_be_read(option: str, message: str, fitted: list[Any]) -> None:
    assert message in refusal("fit", "x.csv", *option.split())
    assert not fitted


def test_a_model_that_does_not_exist(fitted: list[Any]) -> None:
    done = invoked("fit", "x.csv", "--model", "other")
    assert done.exit_code == 2
    assert "Invalid value for" in done.output
    assert not fitted


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--prior crp", "the sampler 'blocked' needs --prior dirichlet: for --prior crp use --sampler collapsed"),
        ("--sweeps 10 --burn-in 10", "--burn-in must be smaller than --sweeps, but is 10 of 10"),
        ("--clusters none", "--clusters None (no bound) needs --sampler collapsed and --prior crp"),
        ("--memory-limit 1KB", "even one chain does not fit"),
        ("-o same.file --checkpoint same.file", "same.file cannot be both the model and the checkpoint"),
    ],
)
def test_values_that_cannot_be(option: str, message: str, ratings: Path) -> None:
    assert message in refusal("fit", ratings, *option.split())


# -- the help ----------------------------------------------------------------------------------------------------


def test_the_tables_above_know_every_option() -> None:
    known = {option.split()[0] for option, _, _ in BOTH + BAYES + BAYES_TOO + PLAIN + PLAIN_TOO + LISTS}
    others = {
        "--output",
        "--history",
        "--for",
        "--model",
        "--test",
        "--paper",
        "--resume",
        "--help",
        "--help-all",
        "--config",
    }
    others |= {"--row", "--col", "--value", "--weight", "--duplicates", "--zeros", "--zero-weight", "--address"}
    others |= {"--user-features", "--item-features"}
    assert known | others | {"--schedule"} == {each.opts[0] for each in FIT.params if each.name != "data"} | {"--help"}


def test_panels_agree_with_the_estimators() -> None:
    for each in FIT.params:
        option = settings.options().get(each.name)
        models = set(option.parameters) if option is not None and not option.basic else set()
        assert (each.rich_help_panel == settings.PANELS["bayes"]) == (models == {"bayes"} or each.name == "paper")
        assert (each.rich_help_panel == settings.PANELS["accams"]) == (models == {"accams"})
        assert (each.rich_help_panel == settings.PANELS["lists"]) == (models == {"lists"})


def test_help_names_the_estimators_defaults() -> None:
    for each in FIT.params:
        option = settings.options().get(each.name)
        if option is None or getattr(each, "is_flag", False):
            continue
        found = [_text(parameter.default) for _, parameter in option.parameters.values()]
        wanted = found[0] if len(set(found)) == 1 else f"{found[0]} for bayes, {found[1]} for accams"
        assert re.findall(r"\\\[default: (.*)\]\[/\]", option.help()) == [wanted], each.name
        if option.basic and wanted != "none":
            assert f"[default: {wanted}]" in each.help


def _text(default: Any) -> str:
    return f"{default:g}" if isinstance(default, float) else str(default).lower()


def shown(monkeypatch: pytest.MonkeyPatch, *args: str) -> list[str]:
    """The lines of a help text, 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    done = invoked(*args)
    assert done.exit_code == 0
    return done.output.splitlines()


def test_help_fits_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, "fit", "--help")
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80
    flags = set(re.findall(r"--[a-z-]+", "\n".join(line for line in lines if line.startswith("│ --"))))
    assert flags >= {
        "--output", "--history", "--model", "--stencils", "--clusters", "--chains", "--sweeps", "--early-stopping",
        "--engine", "--seed", "--checkpoint", "--resume", "--config", "--test", "--quiet", "--row", "--col", "--value",
        "--help-all",
    }  # fmt: skip
    assert not flags & {"--alpha", "--threads", "--refit", "--schedule", "--paper"}


def test_settings_that_help_shows_have_a_brief_text() -> None:
    for option in settings.options().values():
        for _, each in option.parameters.values():
            assert len(each.metadata["brief"]) <= 45
            assert each.metadata["brief"].endswith(".") == option.basic


@pytest.mark.parametrize("cls", [BayesianACCAMS, ACCAMS])
def test_help_all_shows_every_parameter_with_its_full_text(cls: type, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, "fit", "--help-all")
    first = " ".join(line.split()[1] for line in lines if line.startswith("│ --"))
    text = " ".join(" ".join(line.strip("│ ").split()) for line in lines)
    model = "bayes" if cls is BayesianACCAMS else "accams"
    flag = {parameter: each.flags[0] for each in settings.options().values()
            for m, (parameter, _) in each.parameters.items() if m == model}  # fmt: skip
    wanted = {name for name, _ in every(cls)} - NOT_TYPED
    assert wanted == flag.keys()
    for name in wanted:
        assert re.search(rf"{flag[name]}(?![\w-])", first), name
    for panel in settings.PANELS.values():
        assert panel in text
    assert "Independent chains, run side by side" in text  # not only the brief text
    assert "--schedule" not in text
    assert "Independent chains (bayes)" in " ".join(shown(monkeypatch, "fit", "--help"))
