"""The Bayesian model on the command line: reports, predictions with their spread, resuming and Ctrl-C."""

from __future__ import annotations

import csv
import io
import re
import shlex
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import FAST, done_well, invoked, process, refusal

import accams
from accams.data.splits import random_split
from accams.fit.checkpoint import read
from accams.fit.run import Run
from accams.model import container

PAIRS = [("u0", "film 0"), ("u1", "film 0"), ("u2", "film 3"), ("nobody", "film 1")]


@pytest.fixture(scope="module")
def checkpoint(noisy: Path) -> Path:
    """After 20 sweeps of a fit with the usual tenth held out."""
    path = noisy.parent / "run.ckpt"
    args = [*FAST, "--sweeps", "20", "--burn-in", "4", "--checkpoint", path, "--effects", "continuous", "--sub", "2,1"]
    done_well("fit", noisy, "-o", noisy.parent / "first.accams", *args)
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text("userId,movieId\n" + "".join(f"{row},{col}\n" for row, col in PAIRS))
    return path


def table(*args: str | Path) -> list[dict[str, str]]:
    """What a command writes, as CSV."""
    done = invoked(*args)
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(io.StringIO(done.output)))


def interrupt_at(monkeypatch: pytest.MonkeyPatch, sweep: int) -> None:
    """Ctrl-C at the beginning of this sweep."""
    step = Run.step

    def stepped(run: Run) -> Any:
        if run.sweep == sweep:
            raise KeyboardInterrupt
        return step(run)

    monkeypatch.setattr(Run, "step", stepped)


def sweeps_of(path: Path) -> int:
    """Sweeps that the fit of a model has run."""
    return accams.load(path).info.training["n_sweeps_"]


# -- fit, info, evaluate -----------------------------------------------------------------------------------------


def test_fit_reports_what_python_says(noisy: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.accams"
    shown = done_well("fit", noisy, "-o", path, *FAST, "--sweeps", "30", "--test", "0.2", "--seed", "3")
    training, held_out = random_split(accams.Observations.from_file(noisy), 0.2, 3)
    ours = accams.BayesianACCAMS(3, 2, n_chains=2, noise=0.3, n_sweeps=30, random_state=3).fit(training)
    _, ends = ours.predict(held_out, quantiles=[0.05, 0.95])
    covered = np.mean((ends[:, 0] <= held_out.values) & (held_out.values <= ends[:, 1]))
    i, j, values = held_out.coo()
    one = np.clip(ours.stencils_.predict(i, j), *ours.value_range_)
    for part in (
        f"train RMSE {ours.train_rmse_:.4f} (of single draws)",
        f"test RMSE {-ours.score(held_out):.4f} (of the posterior mean; {held_out.nnz} entries held out)",
        f"{accams.metrics.rmse(values, one):.4f} (of one draw)",
        f"coverage {100 * covered:.1f}% (of the entries, by 90% intervals)",
        "sigma 0.3000 (noise of the sampler)",
        "predictive sigma 0.3000 (noise of a new observation)",
        f"sweeps 30 draws {len(ours.posterior_)} chains 2",
        f"R-hat {ours.r_hat_['probes']:.2f} (of the probes",
        "s on engine cpu",
        "saved",
        "KB)",
        "--test 0",
    ):
        assert part in shown
    assert np.array_equal(accams.load(path).predict(held_out), ours.predict(held_out))


def test_calibrated_noise_is_reported(noisy: Path, tmp_path: Path) -> None:
    args = ["-k", "2", "-s", "2", "--chains", "2", "--sweeps", "8", "--test", "0"]
    shown = done_well("fit", noisy, "-o", tmp_path / "m.accams", *args)
    model = accams.load(tmp_path / "m.accams")
    assert f"sigma {model.sigma:.4f} (noise" in shown
    assert f"predictive sigma {model.posterior.noise:.4f} (noise" in shown
    assert model.sigma != model.posterior.noise
    assert "held out" not in shown


def test_a_run_too_short_for_r_hat(noisy: Path, tmp_path: Path) -> None:
    assert "R-hat -" in done_well("fit", noisy, "-o", tmp_path / "m.accams", *FAST, "--sweeps", "2")


def test_quiet(noisy: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.accams"
    assert done_well("fit", noisy, "-o", path, *FAST, "--sweeps", "4", "--quiet") == ""
    assert path.is_file()


def test_paper_and_no_bound_on_clusters(noisy: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.accams"
    done_well("fit", noisy, "-o", path, "--paper", "-k", "none", "-s", "2", "--sweeps", "8", "--burn-in", "2")
    model = accams.load(path)
    assert model.parameters["n_clusters"] is None
    assert model.parameters["schedule__sampler"] == "collapsed"
    assert "chains 1 " in done_well("info", path)


def test_observed_zeros(tmp_path: Path) -> None:
    edges = tmp_path / "edges.tsv"
    edges.write_text("".join(f"{a}\t{b}\n" for a in range(10) for b in range(10) if a % 2 == b % 2))
    args = ["--zeros", "observed", "--test", "0", "-k", "2", "-s", "1", "--chains", "2", "--sweeps", "6"]
    assert "engine graph" in done_well("fit", edges, "-o", tmp_path / "g.accams", *args)


def test_info(posterior: Path) -> None:
    shown, model = done_well("info", posterior), accams.load(posterior)
    for part in (
        "kind BayesianACCAMS",
        "40 rows x 30 columns",
        "stencils 3, templates 2 x 2",
        "sigma 0.3000",
        "predictive sigma 0.3000",
        f"sweeps 40 draws {len(model.posterior)} chains 2",
        f"R-hat {model.info.training['r_hat_']['probes']:.2f}",
        f"size {posterior.stat().st_size / 1000:.1f} KB on disk",
        f"one draw {model.stencils.bits / 8:.0f} bytes by the paper's formula, ",
        "row ids 'u0'",
        "n_stencils=3, n_clusters=2, noise=0.3, n_chains=2, n_sweeps=40",
    ):
        assert part in shown
    assert "SVD" not in shown


def test_evaluate(posterior: Path, noisy: Path) -> None:
    shown = done_well("evaluate", posterior, noisy)
    score = -accams.load(posterior).score(accams.Observations.from_file(noisy))
    assert f"RMSE {score:.4f}" in shown
    covered = float(re.findall(r"coverage ([0-9.]+)%", shown)[0])
    assert 85 < covered < 97


# -- predict -----------------------------------------------------------------------------------------------------


def test_predict_with_std_and_quantiles(posterior: Path, pairs: Path, tmp_path: Path) -> None:
    found = table("predict", posterior, pairs, "--std", "--quantiles", "0.05, .5,0.95")
    assert list(found[0]) == ["userId", "movieId", "prediction", "std", "q0.05", "q0.5", "q0.95"]
    mean, std, ends = accams.load(posterior).predict(PAIRS, return_std=True, quantiles=[0.05, 0.5, 0.95])
    numbers = np.array([[float(x) for x in list(line.values())[2:]] for line in found])
    assert numbers == pytest.approx(np.column_stack([mean, std, ends]), rel=1e-5)
    assert np.allclose(numbers[:3, 1], 0.3, atol=0.05)
    assert numbers[3, 1] > 1.0  # of a user never seen
    assert (numbers[:, 2] < numbers[:, 3]).all()

    out = tmp_path / "out.csv"
    assert "wrote 4 predictions" in done_well("predict", posterior, pairs, "-o", out, "--std")
    assert done_well("predict", posterior, pairs, "-o", "-") == done_well("predict", posterior, pairs)
    assert out.read_text().splitlines()[0] == "userId,movieId,prediction,std"
    assert list(table("predict", posterior, pairs, "--quantiles", "0.9")[0])[2:] == ["prediction", "q0.9"]
    assert list(table("predict", posterior, pairs)[0])[2:] == ["prediction"]


@pytest.mark.parametrize("options", [["--std"], ["--quantiles", "0.1,0.9"]])
def test_models_without_draws_have_no_spread(options: list[str], noisy: Path, pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "plain.accams"
    accams.ACCAMS(1, 2).fit(accams.Observations.from_file(noisy)).save(path)
    assert refusal("predict", path, pairs, *options) == (
        f"{path} has no predictive spread, which --std and --quantiles need: fit it with --model bayes"
    )


@pytest.mark.parametrize("levels", ["0", "1", "0.1,2", "nan", "half", ""])
def test_quantiles_that_cannot_be(levels: str, posterior: Path, pairs: Path) -> None:
    done = invoked("predict", posterior, pairs, "--quantiles", levels)
    assert done.exit_code == 2
    assert "not a list of numbers between 0 and 1" in " ".join(done.output.replace("│", " ").split())


def test_stencils_without_ids_are_known_by_their_positions(posterior: Path, pairs: Path, tmp_path: Path) -> None:
    path, numbered = tmp_path / "bare.accams", tmp_path / "numbered.csv"
    stencils = accams.load(posterior).stencils
    stencils.save(path)
    with pytest.warns(UserWarning, match="none of these ids was seen in training: the model's row ids look like 0"):
        table("predict", path, pairs)
    numbered.write_text("row,col,value\n3,4,4.5\n0,1,2\n")
    found = [float(line["prediction"]) for line in table("predict", path, numbered)]
    assert found == pytest.approx(stencils.predict(np.array([3, 0]), np.array([4, 1])), rel=1e-5)
    rmse = accams.metrics.rmse(np.array([4.5, 2.0]), np.array(found))
    assert f"RMSE {rmse:.4f}" in done_well("evaluate", path, numbered)
    assert "kind StencilSum" in done_well("info", path)


# -- resume ------------------------------------------------------------------------------------------------------


def test_resume_gives_the_same_model_to_the_bit(checkpoint: Path, noisy: Path, tmp_path: Path) -> None:
    run, resumed, straight = tmp_path / "run.ckpt", tmp_path / "resumed.accams", tmp_path / "straight.accams"
    shutil.copy(checkpoint, run)
    shown = done_well("fit", noisy, "-o", resumed, "--resume", run, "--sweeps", "40", "--threads", "1")
    args = [*FAST, "--sweeps", "40", "--burn-in", "4", "--effects", "continuous", "--sub", "2,1"]
    assert _errors(shown) == _errors(done_well("fit", noisy, "-o", straight, *args))
    ours, theirs = accams.load(resumed), accams.load(straight)
    everything = accams.Observations.from_file(noisy)
    for mine, other in zip(
        ours.predict(everything, return_std=True), theirs.predict(everything, return_std=True), strict=True
    ):
        assert np.array_equal(mine, other)
    assert len(ours.posterior) == len(theirs.posterior) > len(accams.load(noisy.parent / "first.accams").posterior)
    assert read(run)[0]["sweep"] == 40  # it went on writing there


def test_resume_can_write_elsewhere(checkpoint: Path, noisy: Path, tmp_path: Path) -> None:
    before, other = checkpoint.read_bytes(), tmp_path / "other.ckpt"
    args = ["--resume", checkpoint, "--checkpoint", other, "--sweeps", "22", "--model", "bayes", "--seed", "0"]
    done_well("fit", noisy, "-o", tmp_path / "m.accams", *args)
    assert checkpoint.read_bytes() == before
    assert read(other)[0]["sweep"] == 22


def test_resume_goes_on_with_what_the_run_was_started_with(
    noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with the default of 500 sweeps, nor another tolerance, number of draws or of threads."""
    path, run, told = tmp_path / "m.accams", tmp_path / "run.ckpt", tmp_path / "run.toml"
    told.write_text('n_sweeps = 40\ntol = 0.0\n[schedule]\nmax_draws = 6\ncheckpoint-every = 3\nmemory-limit = "9GB"\n')
    args = ["--config", told, "--checkpoint", run, "--seed", "none"]
    with monkeypatch.context() as patch:
        interrupt_at(patch, 11)
        assert invoked("fit", noisy, "-o", path, *FAST, *args).exit_code == 0
    assert (sweeps_of(path), read(run)[0]["sweep"]) == (11, 9)
    first = accams.load(path).parameters
    for how in ([], ["--config", told]):
        again = tmp_path / f"again{len(how)}.accams"
        done_well("fit", noisy, "-o", again, "--resume", run, *how)
        assert sweeps_of(again) == read(run)[0]["sweep"] == 40
        assert accams.load(again).parameters == first
    assert isinstance(first["random_state"], int)  # drawn once


def test_resume_compares_a_configuration_with_the_checkpoint(checkpoint: Path, noisy: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("n_chains = 3\n")
    assert refusal("fit", noisy, "--resume", checkpoint, "--config", tmp_path / "run.toml") == (
        f"{checkpoint} is a checkpoint of a fit with --chains 2 (not 3)"
    )


@pytest.mark.parametrize("option", ["--chains 2", "--stencils 3", "--paper", "--early-stopping", "--refit"])
def test_resume_refuses_what_the_checkpoint_decides(option: str, checkpoint: Path, noisy: Path) -> None:
    assert refusal("fit", noisy, "--resume", checkpoint, *option.split()) == (
        f"{option.split()[0]} cannot be given with --resume, since the checkpoint decides: only --checkpoint, "
        "--checkpoint-every, --clip, --memory-limit, --seed, --shards, --sweeps, --threads and --tol can be given anew"
    )


@pytest.mark.parametrize("wrong", [{"pair": [1]}, [[[[[[[[[[1]]]]]]]]]]], ids=["no tuple", "nested too deeply"])
def test_resume_of_a_checkpoint_with_damaged_parameters(
    wrong: Any, checkpoint: Path, noisy: Path, tmp_path: Path
) -> None:
    header, tensors = container.read(checkpoint, "checkpoint", 99)
    header["about"]["parameters"]["n_clusters"] = wrong
    (tmp_path / "run.ckpt").write_bytes(container.to_bytes(header, tensors))
    assert "is not a checkpoint of accams, or it is damaged" in refusal("fit", noisy, "--resume", tmp_path / "run.ckpt")


def test_resume_is_not_for_accams(checkpoint: Path, noisy: Path) -> None:
    assert "ACCAMS has no checkpoints" in refusal("fit", noisy, "--resume", checkpoint, "--model", "accams")


def test_resume_with_other_data(checkpoint: Path, noisy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(noisy.read_text().replace("u1,", "u99,"))
    for data, options in ((noisy, "--test 0.2"), (noisy, "--test 0"), (noisy, "--seed 1"), (other, "")):
        assert refusal("fit", data, "--resume", checkpoint, *options.split()) == (
            f"{checkpoint} is a checkpoint of other data: pass the observations (and features) that the fit began "
            "with; "
            "--test, --seed and how the data is read must be as in the first run"
        )


def test_resume_with_another_seed_and_the_same_data(noisy: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.ckpt"
    done_well("fit", noisy, "-o", tmp_path / "m.accams", *FAST, "--sweeps", "3", "--checkpoint", run, "--test", "0")
    message = refusal("fit", noisy, "--resume", run, "--seed", "1", "--test", "0")
    assert message == f"{run} is a checkpoint of a fit with --seed 0 (not 1)"


def test_damaged_checkpoints(checkpoint: Path, posterior: Path, noisy: Path, tmp_path: Path) -> None:
    whole, cut = checkpoint.read_bytes(), tmp_path / "cut.ckpt"
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:size])
        assert f"{cut} is not a checkpoint of accams, or it is damaged" in refusal("fit", noisy, "--resume", cut)
    assert "is not a checkpoint of accams" in refusal("fit", noisy, "--resume", posterior)
    assert "there is no checkpoint nowhere.ckpt" in refusal("fit", noisy, "--resume", "nowhere.ckpt")


# -- Ctrl-C ------------------------------------------------------------------------------------------------------


CALIBRATED = ("-k", "2", "-s", "2", "--chains", "2")


@pytest.mark.parametrize("how", [FAST, pytest.param(CALIBRATED, marks=pytest.mark.full)])
def test_the_hint_after_an_interrupt_goes_on_to_the_same_model(
    how: tuple[str, ...], noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, run, straight = tmp_path / "m.accams", tmp_path / "my run.ckpt", tmp_path / "straight.accams"
    args = [*how, "--sweeps", "24", "--test", "0.2", "--seed", "2"]
    with monkeypatch.context() as patch:
        interrupt_at(patch, 17)
        done = invoked("fit", noisy, "-o", path, *args, "--checkpoint", run, "--checkpoint-every", "5")
    assert done.exit_code == 0
    assert "warning: interrupted: the model is usable, with" in done.stderr
    assert sweeps_of(path) == 17
    hint = done.stderr.splitlines()[-1]
    assert hint.startswith("to go on: accams fit ")
    assert done.stderr.count("\n") == 2
    done_well(*shlex.split(hint.removeprefix("to go on: accams ")))
    done_well("fit", noisy, "-o", straight, *args)
    assert sweeps_of(path) == 24
    assert np.array_equal(accams.load(path).predict(PAIRS), accams.load(straight).predict(PAIRS))


def test_an_interrupt_before_the_first_checkpoint(noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run.ckpt"
    run.write_bytes(b"of another run")
    interrupt_at(monkeypatch, 3)
    done = invoked("fit", noisy, "-o", tmp_path / "m.accams", *FAST, "--checkpoint", run)
    assert done.exit_code == 0
    assert f"{run} was not written yet: see --checkpoint-every" in done.stderr
    assert "to go on" not in done.stderr


@pytest.mark.full
def test_ctrl_c_saves_the_model(noisy: Path, tmp_path: Path) -> None:
    path, run = tmp_path / "m.accams", tmp_path / "run.ckpt"
    args = [*FAST, "--sweeps", "1000000", "--checkpoint", run, "--checkpoint-every", "1"]
    started = process("fit", noisy, "-o", path, *args)
    late = time.monotonic() + 120
    while not run.is_file() and started.poll() is None and time.monotonic() < late:
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=120)
    assert started.returncode == 130, err
    first, second = err.splitlines()
    assert re.match(r"warning: interrupted: the model is usable, with \d+ draws after \d+ sweeps", first)
    assert second == f"to go on: accams fit {noisy} --resume {run} --output {path}"
    assert "saved" in out
    sweeps = read(run)[0]["sweep"]
    assert 1 <= sweeps <= sweeps_of(path) <= sweeps + 1
    again = tmp_path / "again.accams"
    done_well("fit", noisy, "-o", again, "--resume", run, "--sweeps", str(sweeps + 3))
    assert sweeps_of(again) == sweeps + 3


def _errors(shown: str) -> str:
    """The part of the report that does not depend on time and place."""
    return shown[shown.index("train RMSE") : shown.index(" time ")]
