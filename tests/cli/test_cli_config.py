"""`accams fit --config`: every setting from a TOML file, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import done_well, refusal

from accams import ACCAMS, BayesianACCAMS, load
from accams.settings.fields import every

COMMON = """
early_stopping = true
clip = [0, 9.5]
engine = "dense"
n_threads = 1
random_state = 9
quiet = true
"""
BAYES = f"""{COMMON}
n_stencils = 7
n_clusters = [3, [6, 4]]
noise = 0.5
likelihood = "ordinal"
n_chains = 3
n_sweeps = 100
checkpoint = "run.ckpt"

[priors]
labels = "crp"
alpha = 2.5
beta = [10, 5, 1.5]
eta = [2, 0.3]
sigma_max = 1.5
row_noise = "none"
tau = "sampled"
gamma = [5.0, 0.3]
effects = "continuous"
implicit = 3

[schedule]
sampler = "collapsed"
init = "prior"
n_burn_in = 20
thin = 2
max_draws = 50
n_sub = [3, 1]
backfit = 8
tol = 0.5
validation_fraction = 0.3
patience = 4
rao_blackwell = true
checkpoint_every = 7
memory_limit = "8GB"
n_shards = 2
"""
ACCAMS_TOO = f"""{COMMON}
model = "accams"
n_stencils = 7
n_clusters = "6x4"
max_iter = 9
tol = 0.5
n_relearn = 1
refit = true
learning_rate = 0.5
shrinkage = 2
validation_fraction = 0.3
patience = 4
init = "random"
n_init = 2
n_shards = 2
"""
SAME = {"early_stopping": True, "clip": (0, 9.5), "engine": "dense", "n_threads": 1, "random_state": 9, "n_stencils": 7}
SAME["verbose"] = False
BAYES_PARAMETERS = {
    **SAME, "n_clusters": [3, (6, 4)], "noise": 0.5, "likelihood": "ordinal", "n_chains": 3, "n_sweeps": 100,
    "checkpoint": "run.ckpt",
    "priors__labels": "crp", "priors__alpha": 2.5, "priors__beta": [10, 5, 1.5], "priors__eta": (2, 0.3),
    "priors__sigma_max": 1.5, "priors__row_noise": None, "priors__tau": "sampled", "priors__gamma": (5.0, 0.3),
    "priors__effects": "continuous", "priors__implicit": 3, "schedule__sampler": "collapsed", "schedule__init": "prior",
    "schedule__n_burn_in": 20, "schedule__thin": 2, "schedule__max_draws": 50, "schedule__n_sub": [3, 1],
    "schedule__backfit": 8, "schedule__tol": 0.5, "schedule__validation_fraction": 0.3, "schedule__patience": 4,
    "schedule__rao_blackwell": True, "schedule__checkpoint_every": 7, "schedule__memory_limit": 8e9,
    "schedule__n_shards": 2,
}  # fmt: skip
ACCAMS_PARAMETERS = {
    **SAME, "n_clusters": (6, 4), "max_iter": 9, "tol": 0.5, "n_relearn": 1, "refit": True, "learning_rate": 0.5,
    "shrinkage": 2, "validation_fraction": 0.3, "patience": 4, "init": "random", "n_init": 2, "n_shards": 2,
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "run.toml"


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The jobs and estimators that would have been fitted."""
    found: list[Any] = []
    monkeypatch.setattr(
        "accams.cli.fitting.fit_file", lambda job, estimator, lists: found.append((job, estimator, lists))
    )
    return found


def estimator_of(fitted: list[Any], config: Path, text: str, *args: str) -> Any:
    config.write_text(text)
    done_well("fit", "x.csv", "--config", config, *args)
    return fitted.pop()[1]


@pytest.mark.parametrize(
    ("cls", "text", "wanted"),
    [(BayesianACCAMS, BAYES, BAYES_PARAMETERS), (ACCAMS, ACCAMS_TOO, ACCAMS_PARAMETERS)],
    ids=["bayes", "accams"],
)
@pytest.mark.parametrize("dashes", [False, True])
def test_every_parameter(
    cls: type, text: str, wanted: dict[str, Any], dashes: bool, config: Path, fitted: list[Any]
) -> None:
    assert wanted.keys() == {name for name, _ in every(cls)} - {"callbacks"}
    lines = [line.partition("=") for line in text.splitlines()]
    if dashes:
        text = "\n".join(key.replace("_", "-") + sign + value for key, sign, value in lines)
    model = estimator_of(fitted, config, text)
    assert type(model) is cls
    found = model.get_params()
    for name, value in wanted.items():
        assert found[name] == value, name
        assert type(found[name]) is type(value) or not isinstance(value, (bool, tuple, list)), name
        assert getattr(cls(), "get_params")()[name] != value, name  # noqa: B009


def test_options_by_their_names_on_the_command_line(config: Path, fitted: list[Any]) -> None:
    text = 'stencils = 4\nclusters = "3x2"\nchains = 2\nburn-in = 5\nprior = "crp"\nsampler = "collapsed"\nseed = 3\n'
    wanted = BayesianACCAMS().set_params(
        n_stencils=4, n_clusters=(3, 2), n_chains=2, random_state=3, schedule__n_burn_in=5, priors__labels="crp",
        schedule__sampler="collapsed",
    )  # fmt: skip
    assert estimator_of(fitted, config, text).get_params() == wanted.get_params()


def test_the_command_line_takes_precedence(config: Path, fitted: list[Any]) -> None:
    text = 'n_chains = 2\nn_stencils = 4\nmodel = "bayes"\ntest = 0.3\noutput = "a.accams"\n[priors]\nalpha = 3.0\n'
    model = estimator_of(fitted, config, text, "--chains", "5", "--alpha", "1", "--test", "0.2")
    assert (model.n_chains, model.n_stencils, model.priors.alpha) == (5, 4, 1.0)
    done_well("fit", "x.csv", "--config", config, "--test", "0.2", "-o", "b.accams")
    job = fitted.pop()[0]
    assert (job.test, job.output) == (0.2, Path("b.accams"))
    with_defaults = estimator_of(fitted, config, "n_chains = 2\n", "--chains", "8")  # typed, though it is the default
    assert with_defaults.n_chains == 8


def test_how_the_data_is_read(config: Path, fitted: list[Any]) -> None:
    config.write_text(
        'row = "a"\ncol = "b"\nvalue = "c"\nweight = "d"\nduplicates = "mean"\nzeros = "observed"\nzero-weight = 0.5\n'
        'test = 0\noutput = "m.accams"\nhistory = "seen.accams"\nquiet = true\n'
    )
    done_well("fit", "x.csv", "--config", config)
    job = fitted.pop()[0]
    assert job.reading == {
        "row": "a", "col": "b", "value": "c", "weight": "d", "duplicates": "mean", "zeros": "observed",
        "zero_weight": 0.5,
    }  # fmt: skip
    assert (job.test, job.output, job.history, job.quiet) == (0, Path("m.accams"), Path("seen.accams"), True)


def test_the_example_of_the_documentation(config: Path, fitted: list[Any]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "quickstart.md").read_text()
    model = estimator_of(fitted, config, page.split("```toml")[1].split("```")[0])
    assert model.get_params()["schedule__memory_limit"] == 8e9
    assert (model.n_clusters, model.random_state, model.priors.effects) == ([10, (20, 5)], 1, "continuous")


def test_the_papers_settings(config: Path, fitted: list[Any]) -> None:
    model = estimator_of(fitted, config, "paper = true\n[priors]\nalpha = 4.0\n")
    assert model.get_params() == BayesianACCAMS.paper(priors__alpha=4.0).get_params()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_chain = 3", "there is no setting in {} called 'n_chain'; did you mean 'n_chains'?"),
        ("chain = 3", "there is no setting in {} called 'chain'; did you mean 'chains'?"),
        ("ouput = 'm'", "there is no setting in {} called 'ouput'; did you mean 'output'?"),
        ("[priors]\nalpah = 3", "there is no setting in {} called 'priors.alpah'; did you mean 'priors.alpha'?"),
        ("[schedule]\nn-sup = 3", "there is no setting in {} called 'schedule.n_sup'; did you mean 'schedule.n_sub'?"),
        ("xyzzy = 3", "there is no setting in {} called 'xyzzy'"),
        ("n_chains = 'many'", "'n_chains' in {} must be an integer of at least 1, not 'many'"),
        ("n_chains = 2.5", "'n_chains' in {} must be an integer of at least 1, not 2.5"),
        ("early-stopping = 1", "'early_stopping' in {} must be True or False, not 1"),
        ("[priors]\neta = [1, 2, 3]", "'priors.eta' in {} must be None or two numbers above 0 (shape and scale of an "
         "inverse gamma distribution), not [1, 2, 3]"),
        ("test = 'some'", "'test' in {} must be a number of at least 0 and at most 1, not 'some'"),
        ("output = 3", "'output' in {} must be a path, not 3"),
        ("row = 1", "'row' in {} must be the name of a column, not 1"),
        ("model = 'svd'", "'model' in {} must be 'bayes' or 'accams', not 'svd'"),
        ("quiet = 'very'", "'quiet' in {} must be True or False, not 'very'"),
        ("chains = 2\nn_chains = 3", "'n_chains' in {0} sets the same as 'chains' in {0}: leave one out"),
        ("refit = true", "--refit is an option of the other model: use --model accams, or leave it out"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(text: str, message: str, config: Path, fitted: list[Any]) -> None:
    config.write_text(text)
    assert refusal("fit", "x.csv", "--config", config) == message.format(config)
    assert not fitted


def test_files_that_cannot_be_read(config: Path, fitted: list[Any]) -> None:
    assert refusal("fit", "x.csv", "--config", config) == f"cannot read {config}: No such file or directory"
    for content in (b"n_chains: 3\n", b"\xff\xfe\x00", b"[priors\n"):
        config.write_bytes(content)
        assert refusal("fit", "x.csv", "--config", config).startswith(f"{config} is not a TOML file: ")
    assert refusal("fit", "x.csv", "--config", config.parent).startswith(f"cannot read {config.parent}: ")
    assert not fitted


def test_a_real_fit(ratings: Path, config: Path, tmp_path: Path) -> None:
    config.write_text('model = "accams"\nn_clusters = 2\nn_stencils = 3\nlearning_rate = 1.0\ntest = 0.0\n')
    done_well("fit", ratings, "-o", tmp_path / "a.accams", "--config", config)
    args = ["--model", "accams", "-k", "2", "-s", "3", "--learning-rate", "1", "--test", "0"]
    done_well("fit", ratings, "-o", tmp_path / "b.accams", *args)
    one, two = (load(tmp_path / name) for name in ("a.accams", "b.accams"))
    assert one.parameters == two.parameters
    pairs = [("u0", "film 0"), ("u1", "film 0"), ("u2", "film 3")]
    assert (one.predict(pairs) == two.predict(pairs)).all()
