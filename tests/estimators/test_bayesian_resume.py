"""Checkpoints: a fit that was ended goes on as if nothing had happened; what does not belong to it is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bayes_models import GRAPH, SAMPLERS, make, same
from forms import MATRIX, PAIRS, VALUES, WEIGHTS

import accams
from accams import InputError, ModelFileError, Observations
from accams.errors import CheckpointWarning
from accams.fit import checkpoint
from accams.fit.calibrate import Calibration
from accams.model import container

KINDS: dict[str, dict[str, Any]] = {
    **{"-".join(pair): {"sampler": pair[0], "labels": pair[1]} for pair in SAMPLERS},
    "sampled": {"noise": "sampled", "tau": "sampled", "sampler": "collapsed"},
    "no row noise": {"row_noise": None, "n_sub": [3, 2, 1]},
    "effects": {"effects": "continuous"},
    "growing": {"n_clusters": None, "sampler": "collapsed", "labels": "crp"},
    "label probabilities": {"rao_blackwell": True, "thin": 2},
    "early stopping": {"early_stopping": True, "patience": 3, "n_burn_in": "auto"},
    "automatic": {"n_burn_in": "auto", "thin": "auto", "max_draws": 4},
    "calibrated": {"noise": "calibrated", "n_stencils": 1},
    "backfitted": {"backfit": 2, "n_stencils": 8, "n_burn_in": "auto"},
    "backfitted with effects": {"backfit": 2, "n_burn_in": "auto", "effects": "continuous"},
}
CELLS = PAIRS[::11]
pytestmark = pytest.mark.usefixtures("short_additive")


def told(model: Any) -> list[Any]:
    """All that was reported, less the time."""
    return [replace(report, seconds=0.0) for report in model.history_]


def fit(data: Any = MATRIX, resume: Any = None, **parameters: Any) -> Any:
    return make(**{"n_sweeps": 8, "n_burn_in": 3, **parameters}).fit(data, predict_at=CELLS, resume=resume)


def ended_after(sweep: int, path: Path, data: Any = MATRIX, **parameters: Any) -> Path:
    """The checkpoint of a fit that a callback ended after so many sweeps of sampling."""

    def end(report: Any) -> bool:
        return report.phase == "sampling" and report.sweep == sweep

    fit(data, callbacks=[end], checkpoint=path, **parameters)
    return path


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_fit_is_the_same_fit(kind: str, tmp_path: Path, quick_calibration: None) -> None:
    whole = fit(**KINDS[kind])
    for sweep in (2, 5):  # within the burn-in, later
        path = ended_after(sweep, tmp_path / "run", **KINDS[kind])
        resumed = fit(resume=path, **KINDS[kind])
        assert same(resumed, whole), sweep
        assert told(resumed) == told(whole)
        visits = ([report.visits for report in model.history_] for model in (resumed, whole))
        assert np.array_equal(*visits, equal_nan=True)
        assert resumed.r_hat_ == whole.r_hat_
        assert resumed.calibration_ == whole.calibration_


@pytest.mark.parametrize("sweep", [23, 42])
def test_a_long_run(sweep: int, tmp_path: Path) -> None:
    """Draws have been thinned out, sweeps joined to blocks, and running means are compared with earlier ones."""
    kind: dict[str, Any] = {"n_stencils": 1, "n_sweeps": 56, "n_burn_in": "auto", "thin": "auto", "max_draws": 6}
    whole = fit(**kind)
    resumed = fit(resume=ended_after(sweep, tmp_path / "run", **kind), **kind)
    assert same(resumed, whole)
    assert told(resumed) == told(whole)
    assert whole.history_[-1].change > 0


@pytest.mark.some(2)
@pytest.mark.parametrize("data", [GRAPH, np.nan_to_num(MATRIX)], ids=["graph", "dense"])
@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
def test_other_engines(sampler: str, data: Any, tmp_path: Path) -> None:
    kind: dict[str, Any] = {"sampler": sampler, "noise": "sampled"}
    path = tmp_path / "run"
    model = make(**kind, n_sweeps=5, callbacks=[lambda report: report.sweep == 2], checkpoint=path).fit(data)
    whole = make(**kind, n_sweeps=5).fit(data)
    assert not same(model, whole)
    assert same(make(**kind, n_sweeps=5).fit(data, resume=path), whole)


def test_again_and_again(tmp_path: Path) -> None:
    """Each time one sweep more, from its own checkpoint."""
    path = ended_after(1, tmp_path / "run", noise="sampled")
    for sweep in range(2, 8):
        fit(resume=path, checkpoint=path, noise="sampled", callbacks=[lambda report, s=sweep: report.sweep == s])
    assert same(fit(resume=path, noise="sampled"), fit(noise="sampled"))


def test_few_draws_are_enough(tmp_path: Path, quick_calibration: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the calibration found to be enough is also known to a fit that goes on."""
    monkeypatch.setattr(Calibration, "draws_needed", lambda _: 8)
    kind = {"noise": "calibrated", "n_stencils": 1, "n_sweeps": 24, "n_burn_in": "auto", "thin": "auto"}
    whole = fit(**kind)
    assert len(whole.posterior_) <= 8
    assert same(fit(resume=ended_after(3, tmp_path / "run", **kind), **kind), whole)


def test_weights_and_ids(tmp_path: Path) -> None:
    data = Observations.from_coo(*PAIRS.T, VALUES, weights=WEIGHTS)
    path = ended_after(4, tmp_path / "run", data)
    assert same(fit(data, resume=path), fit(data))


def test_going_on_for_longer(tmp_path: Path) -> None:
    fit(n_sweeps=5, checkpoint=tmp_path / "run")
    longer = fit(n_sweeps=12, resume=tmp_path / "run")
    assert longer.n_sweeps_ == 12
    assert same(longer, fit(n_sweeps=12))
    at_once = fit(n_sweeps=4, resume=tmp_path / "run")  # it has been longer already
    assert same(at_once, fit(n_sweeps=5))


def test_what_may_change(tmp_path: Path) -> None:
    """Nothing that the draws depend on."""
    path = ended_after(4, tmp_path / "run")
    changed = fit(
        resume=path, n_threads=1, clip=(1.5, 4), verbose=False, memory_limit=1e9, checkpoint=tmp_path / "other",
        checkpoint_every=3, callbacks=[lambda report: None], tol=0.1,
    )  # fmt: skip
    whole = fit(clip=(1.5, 4))
    assert same(changed, whole)


def test_when_checkpoints_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every so many sweeps, and at the end."""
    original, written = checkpoint.save, []

    def save(path: Any, run: Any, *rest: Any) -> None:
        written.append(run.sweep)
        original(path, run, *rest)

    monkeypatch.setattr(checkpoint, "save", save)
    fit(checkpoint=tmp_path / "run", checkpoint_every=3)
    assert written == [3, 6, 8]
    written.clear()
    fit(checkpoint=tmp_path / "run", checkpoint_every=5, callbacks=[lambda report: report.sweep == 7])
    assert written == [5, 7]
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
    assert not fit().checkpoint


@pytest.mark.some(2)
@pytest.mark.parametrize("step", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), SystemExit()])
def test_a_crash_while_writing_leaves_the_old_checkpoint(
    step: str, failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ended_after(4, tmp_path / "run")
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, step, fail)
    if isinstance(failure, OSError):
        with pytest.warns(CheckpointWarning, match="the fit goes on: cannot write .*: No space left on device; free"):
            assert same(fit(resume=path, checkpoint=path), fit())
    else:  # the end of the process
        with pytest.raises((ModelFileError, SystemExit)):
            fit(resume=path, checkpoint=path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
    assert same(fit(resume=path), fit())


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return ended_after(4, tmp_path_factory.mktemp("checkpoints") / "run").read_bytes()


@pytest.fixture
def path(written: bytes, tmp_path: Path) -> Path:
    """A checkpoint after four sweeps."""
    (tmp_path / "run").write_bytes(written)
    return tmp_path / "run"


@pytest.mark.parametrize(
    "data",
    [
        np.where(MATRIX == 5, 4.0, MATRIX),
        np.where(np.arange(30)[:, None] == 29, np.nan, MATRIX),
        MATRIX[:, ::-1],
        Observations.from_coo(*PAIRS.T, VALUES, weights=WEIGHTS),
        np.nan_to_num(MATRIX),
    ],
    ids=["values", "cells", "order", "weights", "zeros"],
)
def test_other_data(data: Any, path: Path) -> None:
    with pytest.raises(InputError, match=r"is a checkpoint of other data: pass the observations .and features. that"):
        fit(data, resume=path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_chains": 3}, r"n_chains=2 \(not 3\)"),
        ({"alpha": 2.0}, r"priors__alpha=1.0 \(not 2.0\)"),
        ({"alpha": [2.0, 1.0]}, r"priors__alpha=1.0 \(not \[2.0, 1.0\]\)"),
        ({"noise": "sampled", "tau": 0.2}, r"noise=0.8 \(not 'sampled'\), priors__tau='scaled' \(not 0.2\)"),
        ({"n_clusters": (3, 4)}, "n_clusters="),
        ({"random_state": 1}, r"random_state=0 \(not 1\)"),
        ({"n_burn_in": 4}, r"schedule__n_burn_in=3 \(not 4\)"),
        ({"effects": "continuous"}, r"priors__effects='auto' \(not 'continuous'\)"),
        ({"thin": 2}, "schedule__thin=1"),
        ({"early_stopping": True}, "early_stopping=False"),
    ],
)
def test_other_parameters_are_named(change: dict[str, Any], message: str, path: Path) -> None:
    with pytest.raises(InputError, match=f"is a checkpoint of a fit with {message}"):
        fit(resume=path, **change)


def test_other_asked_cells(path: Path) -> None:
    for cells in (PAIRS[::12], None):
        with pytest.raises((InputError, ModelFileError), match="predict_at differs"):
            make(n_sweeps=8, n_burn_in=3).fit(MATRIX, predict_at=cells, resume=path)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", [lambda: None, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)])
def test_seeds_that_were_drawn_are_remembered(kind: Any, tmp_path: Path) -> None:
    path = ended_after(4, tmp_path / "run", random_state=kind())
    one, two = (fit(random_state=kind(), resume=path) for _ in range(2))
    assert same(one, two)
    assert same(fit(random_state=one.random_state, resume=path), one)


def refused(path: Path, message: str = "is not a checkpoint of accams, or it is damaged", **parameters: Any) -> None:
    """In one sentence, which names the file."""
    with pytest.raises(ModelFileError, match=message) as caught:
        fit(resume=path, **parameters)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truncated(path: Path) -> None:
    whole = path.read_bytes()
    for size in [*range(0, len(whole), len(whole) // 20), len(whole) - 1]:
        path.write_bytes(whole[:size])
        refused(path)


def test_other_files(path: Path, tmp_path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    refused(path)
    path.write_text("user,item,rating\n1,2,3\n")
    refused(path)
    fit().save(path)
    refused(path)
    refused(tmp_path / "nowhere", "there is no checkpoint")
    refused(tmp_path, "there is no checkpoint")


def test_a_checkpoint_is_no_model(path: Path) -> None:
    with pytest.raises(ModelFileError, match="not an accams model"):
        accams.load(path)


def test_changed_bytes(path: Path) -> None:
    """Checksums tell, wherever it is."""
    whole = path.read_bytes()
    for position in np.linspace(0, len(whole) - 1, 200).astype(int):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.unlink()
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="is not a checkpoint of accams, or it is damaged"):
            checkpoint.read(path)


def rewritten(path: Path, change: Any) -> None:
    """Write the checkpoint again, its header and tensors changed; its checksums are right."""
    header, tensors = checkpoint.read(path)
    tensors = {name: x.copy() for name, x in tensors.items()}
    change(header, tensors)
    path.unlink()
    path.write_bytes(container.to_bytes(header, tensors))


def test_a_checkpoint_written_again_is_the_same(path: Path) -> None:
    rewritten(path, lambda header, tensors: None)
    assert same(fit(resume=path), fit())


def test_a_newer_format(path: Path) -> None:
    rewritten(path, lambda header, _: header.update(format=checkpoint.FORMAT + 1, version="9.9.9"))
    refused(path, r"was written by accams 9.9.9, which is newer than this one \(.*\): upgrade accams")


def test_an_older_format(path: Path) -> None:
    rewritten(path, lambda header, _: header.update(format=checkpoint.FORMAT - 1))
    refused(path, "was written by an earlier version of accams and cannot be resumed: fit again")


def test_missing_tensors(path: Path) -> None:
    whole = path.read_bytes()
    for name in list(checkpoint.read(path)[1]):
        if not name.startswith("trace.") and not name.endswith((".weights", ".row_noise")):
            path.unlink()
            path.write_bytes(whole)
            rewritten(path, lambda _, tensors, name=name: tensors.pop(name))
            refused(path, "damaged", n_sweeps=4)


@pytest.mark.parametrize("name", ["chain1.weights", "draws.row_noise", "trace.sigma"])
def test_missing_tensors_that_other_models_do_not_have(name: str, path: Path) -> None:
    """This one has row noise, and a trace of all sweeps."""
    rewritten(path, lambda _, tensors: tensors.pop(name))
    refused(path, "damaged", n_sweeps=4)


@pytest.mark.parametrize(
    "name",
    ["about", "kept", "chains", "running", "sweep", "scale", "interval", "past", "best", "calibration"],
)
def test_missing_entries_of_the_header(name: str, path: Path) -> None:
    rewritten(path, lambda header, _: header.pop(name))
    refused(path, "damaged")


@pytest.mark.parametrize("name", ["chain0.rows", "chain1.cols"])
@pytest.mark.parametrize("damage", ["label", "length"])
def test_labels_that_do_not_fit(damage: str, name: str, path: Path) -> None:
    """Kernels do not look where they read and write: this must not get that far. (Here nothing is left to sample.)"""

    def change(_: Any, tensors: Any) -> None:
        if damage == "label":
            tensors[name][0, 0] = 4  # the templates are 4 x 3
        else:
            tensors[name] = tensors[name][:, :-1]

    rewritten(path, change)
    refused(path, "damaged", n_sweeps=4)
