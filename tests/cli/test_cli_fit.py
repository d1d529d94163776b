"""`accams fit`: every option reaches the estimator it belongs to, and no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import done_well, invoked, refusal

from accams import ACCAMS, BayesianACCAMS
from accams.cli import options
from accams.cli.fit import RENAMED
from accams.cli.main import app

FIT = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
BOTH = [
    ("--stencils 7", "n_stencils", 7),
    ("--clusters 6x4", "n_clusters", (6, 4)),
    ("--init prior", "init", "prior"),
    ("--tol 0.5", "tol", 0.5),
    ("--early-stopping", "early_stopping", True),
    ("--validation-fraction 0.3", "validation_fraction", 0.3),
    ("--patience 4", "patience", 4),
    ("--seed 9", "random_state", 9),
    ("--threads 1", "n_threads", 1),
    ("--shards 2", "n_shards", 2),
    ("--engine dense", "engine", "dense"),
    ("--quiet", "verbose", False),
]
BAYES = [
    ("--sampler collapsed", "sampler", "collapsed"),
    ("--prior crp", "prior", "crp"),
    ("--alpha 2.5", "alpha", 2.5),
    ("--beta 10,5,1", "beta", [10.0, 5.0, 1.0]),
    ("--noise sampled", "noise", "sampled"),
    ("--sigma-max 1.5", "sigma_max", 1.5),
    ("--tau 0.2", "tau", 0.2),
    ("--row-noise none", "row_noise", None),
    ("--effects continuous", "effects", "continuous"),
    ("--chains 3", "n_chains", 3),
    ("--sweeps 100", "n_sweeps", 100),
    ("--burn-in 20", "n_burn_in", 20),
    ("--thin 2", "thin", 2),
    ("--max-draws 50", "max_draws", 50),
    ("--sub 3,1", "n_sub", [3, 1]),
    ("--schedule backfit", "schedule", "backfit"),
    ("--rao-blackwell", "rao_blackwell", True),
    ("--memory-limit 8GB", "memory_limit", 8e9),
    ("--checkpoint run.ckpt", "checkpoint", "run.ckpt"),
    ("--checkpoint-every 7", "checkpoint_every", 7),
]
PLAIN = [
    ("--learning-rate 0.5", "learning_rate", 0.5),
    ("--shrinkage 2", "shrinkage", 2.0),
    ("--relearn 1", "n_relearn", 1),
    ("--refit", "refit", True),
]
MORE = [
    ("--clusters none", "n_clusters", None),
    ("--noise 0.7", "noise", 0.7),
    ("--noise calibrated", "noise", "calibrated"),
    ("--sigma-max none", "sigma_max", None),
    ("--tau sampled", "tau", "sampled"),
    ("--row-noise 12", "row_noise", 12.0),
    ("--row-noise auto", "row_noise", "auto"),
    ("--effects none", "effects", None),
    ("--sweeps auto", "n_sweeps", "auto"),
    ("--burn-in 0", "n_burn_in", 0),
    ("--sub 2", "n_sub", 2),
    ("--memory-limit 1.5GiB", "memory_limit", 1.5 * 2**30),
    ("--memory-limit 500000", "memory_limit", 500_000.0),
]


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The jobs and estimators that would have been fitted."""
    found: list[Any] = []
    monkeypatch.setattr("accams.cli.fitting.fit_file", lambda job, estimator: found.append((job, estimator)))
    return found


def estimator_of(fitted: list[Any], *args: str) -> Any:
    done_well("fit", "x.csv", *args)
    return fitted.pop()[1]


def defaults(cls: type) -> dict[str, Any]:
    return {name: each.default for name, each in inspect.signature(cls).parameters.items()}


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


@pytest.mark.parametrize(("kind", "known"), [("bayes", BOTH + BAYES), ("accams", BOTH + PLAIN)])
def test_all_options_together_reach_the_estimator(kind: str, known: list[Any], fitted: list[Any]) -> None:
    model = estimator_of(fitted, "--model", kind, *" ".join(option for option, _, _ in known).split())
    fresh = type(model)().get_params()
    assert model.get_params() == {**fresh, **{name: value for _, name, value in known}}
    assert all(fresh[name] != value for _, name, value in known)


@pytest.mark.parametrize(("option", "name", "value"), MORE)
def test_other_forms_of_values(option: str, name: str, value: Any, fitted: list[Any]) -> None:
    found = estimator_of(fitted, "--paper", *option.split()).get_params()[name]
    assert found == value
    assert type(found) is type(value)


def test_a_zero_is_not_nothing(fitted: list[Any]) -> None:
    assert estimator_of(fitted, "--model", "accams", "--stencils", "0").n_stencils == 0


def test_the_papers_settings_and_changes_to_them(fitted: list[Any]) -> None:
    model = estimator_of(fitted, "--paper", "--chains", "3", "--alpha", "4")
    assert model.get_params() == BayesianACCAMS.paper(n_chains=3, alpha=4.0).get_params()


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
        f"{name} is an option of the other model: say --model accams, or leave it out"
    )


@pytest.mark.parametrize("option", ["--paper", *(option for option, _, _ in BAYES)])
def test_options_of_bayes_are_refused_for_accams(option: str, fitted: list[Any]) -> None:
    name = option.split()[0]
    assert refusal("fit", "x.csv", "--model", "accams", *option.split()) == (
        f"{name} is an option of the other model: say --model bayes, or leave it out"
    )


def test_several_options_of_the_other_model(fitted: list[Any]) -> None:
    message = refusal("fit", "x.csv", "--refit", "--relearn", "2", "--shrinkage", "1")
    assert message.startswith("--refit, --relearn and --shrinkage are options of the other model")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--clusters ten", "'ten' is neither a number nor ROWSxCOLUMNS"),
        ("--clusters 1x2x3", "'1x2x3' is neither"),
        ("--model accams --learning-rate fast", "'fast' is neither a number nor auto"),
        ("--sweeps many", "'many' is neither a whole number nor auto"),
        ("--sweeps 1.5", "'1.5' is neither a whole number nor auto"),
        ("--burn-in half", "'half' is neither"),
        ("--thin none", "'none' is neither"),
        ("--noise loud", "'loud' is neither a number nor calibrated nor sampled"),
        ("--tau big", "'big' is neither a number nor scaled nor sampled"),
        ("--row-noise some", "'some' is neither a number nor none nor auto"),
        ("--alpha 1,two", "'1,two' is not a list of numbers"),
        ("--sub 1.5", "'1.5' is not a list of whole numbers"),
        ("--memory-limit lots", "'lots' is not a size, such as 8GB"),
        ("--chains two", "Invalid value for"),
        ("--model other", "Invalid value for"),
    ],
)
def test_values_that_cannot_be_read(option: str, message: str, fitted: list[Any]) -> None:
    done = invoked("fit", "x.csv", *option.split())
    assert done.exit_code == 2
    shown = " ".join(done.output.replace("│", " ").split())
    assert message in shown
    assert option.split()[-2] in shown
    assert not fitted


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--chains 0", "n_chains must be a whole number of at least 1"),
        ("--sampler gibbs", "sampler must be 'blocked' or 'collapsed'"),
        ("--prior crp", "for prior='crp' use sampler='collapsed'"),
        ("--effects some", "effects must be"),
        ("--schedule never", "schedule must be 'gibbs' or 'backfit'"),
        ("--init random", "init must be 'accams' or 'prior'"),
        ("--noise -1", "noise must be a number above 0"),
        ("--alpha 1,0", "alpha must be a number above 0"),
        ("--sweeps 10 --burn-in 10", "leaves none of the"),
        ("--clusters none", "needs sampler='collapsed' and prior='crp'"),
        ("--clusters none --model accams", "n_clusters must be a whole number"),
        ("--memory-limit 1KB", "even one chain does not fit"),
        ("--checkpoint no/such/folder/run.ckpt", "there is no folder no/such/folder to write run.ckpt into"),
        ("-o same.file --checkpoint same.file", "same.file cannot be both the model and the checkpoint"),
        ("--seed -1 --test 0", "random_state must be"),
    ],
)
def test_values_that_cannot_be(option: str, message: str, ratings: Path) -> None:
    assert message in refusal("fit", ratings, *option.split())


# -- the help ----------------------------------------------------------------------------------------------------


def test_the_tables_above_know_every_option() -> None:
    known = {option.split()[0] for option, _, _ in BOTH + BAYES + PLAIN}
    others = {"--output", "--model", "--test", "--paper", "--resume", "--help", "--row", "--col", "--value"}
    others |= {"--weight", "--duplicates", "--zeros", "--zero-weight", "--address"}
    assert known | others >= {each.opts[0] for each in FIT.params if each.name != "data"}


def test_panels_agree_with_the_estimators() -> None:
    bayes, accams = defaults(BayesianACCAMS), defaults(ACCAMS)
    for each in FIT.params:
        name = RENAMED.get(each.name, each.name)
        only_bayes = (name in bayes and name not in accams) or name in ("paper", "resume")
        assert (each.rich_help_panel == options.BAYES) == only_bayes, name
        assert (each.rich_help_panel == options.ACCAMS) == (name in accams and name not in bayes), name


def test_help_names_the_estimators_defaults() -> None:
    words = {"beta": "the same as --alpha", "n_threads": "all cores", "checkpoint": "no checkpoints"}
    words["n_shards"] = "one for each machine"

    def text(name: str, value: Any) -> str:
        if value is None:
            return words.get(name, "none")
        return value if isinstance(value, str) else f"{value:g}"

    for each in FIT.params:
        name, both = RENAMED.get(each.name, each.name), (defaults(BayesianACCAMS), defaults(ACCAMS))
        found = [text(name, known[name]) for known in both if name in known]
        if not found or getattr(each, "is_flag", False):
            continue
        wanted = found[0] if len(set(found)) == 1 else f"{found[0]} for bayes, {found[1]} for accams"
        assert re.findall(r"\\\[default: (.*)\]\[/\]", each.help) == [wanted], name


def test_help_shows_the_panels() -> None:
    shown = done_well("fit", "--help")
    for part in ("bACCAMS (--model bayes)", "ACCAMS (--model accams)", "--memory-limit", "--learning-rate"):
        assert part in shown
