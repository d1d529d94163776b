"""A full disk: one sentence that names the file, the old file as it was, and nothing half-written."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from faulty import CODE, full_disk, names
from typer.testing import CliRunner

from accams import ACCAMS, BayesianACCAMS, Observations
from accams.batch import predict_all, recommend_all
from accams.cli.main import app
from accams.data import holdout
from accams.data.eventlog import EventLog, read_events
from accams.data.ingest import ingest
from accams.errors import CheckpointWarning, WriteError
from accams.fitted import files
from accams.report import facts, figures, page

ROLES = {"row": "user", "col": "item", "value": "rating", "weight": None, "time": None}


@pytest.fixture(scope="module")
def ratings() -> pd.DataFrame:
    random = np.random.default_rng(0)
    cells = random.choice(300 * 40, 3000, replace=False)
    users, items = np.divmod(cells, 40)
    return pd.DataFrame({"user": [f"user {i}" for i in users], "item": items, "rating": 1.0 + (users + items) % 5})


@pytest.fixture(scope="module")
def model(ratings: pd.DataFrame) -> Any:
    return ACCAMS(6, 4, random_state=0, verbose=False).fit(ratings).model_


@pytest.fixture(scope="module")
def inputs(model: Any, ratings: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    model.save(folder / "m.accams")
    ratings.to_csv(folder / "ratings.csv", index=False)
    (folder / "packed.csv.gz").write_bytes(gzip.compress((folder / "ratings.csv").read_bytes()))
    Observations.from_frame(ratings).to_store(folder / "s")
    return folder


def command(*words: str | Path) -> None:
    """Run `accams ...` in this process; its errors are raised."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None:
        raise done.exception


WRITERS: dict[str, Callable[[Any, pd.DataFrame, Path, Path], object]] = {  # of model, ratings, inputs, path to write
    "model": lambda model, _, inputs, out: model.save(out),
    "stencils": lambda model, _, inputs, out: model.stencils.save(out),
    "history": lambda model, _, inputs, out: files.write_history(str(out), *model.indices, model.interactions),
    "page": lambda model, _, inputs, out: page.write(model, out),
    "csv": lambda _, __, inputs, out: command("predict", inputs / "m.accams", inputs / "ratings.csv", "-o", out),
    "store": lambda _, ratings, inputs, out: Observations.from_frame(ratings).to_store(out),
    "ingest": lambda _, __, inputs, out: ingest([inputs / "ratings.csv"], out, ROLES),
    "predict": lambda _, ratings, inputs, out: predict_all(
        inputs / "m.accams", ratings["user"].to_numpy(), ratings["item"].to_numpy(), out
    ),
    "recommend": lambda _, __, inputs, out: recommend_all(inputs / "m.accams", out, include_seen=True),
}
FOLDERS = ("store", "ingest", "predict", "recommend")  # which are not replaced


@pytest.mark.parametrize("what", WRITERS)
def test_nothing_is_lost_and_nothing_left(
    what: str, model: Any, ratings: pd.DataFrame, inputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / ("out.parquet" if what == "predict" else "out")
    if what not in FOLDERS:
        out.write_bytes(b"old")
    before = names(tmp_path)
    with full_disk(1024 if what in ("model", "stencils", "history") else 4096), pytest.raises(WriteError) as caught:
        WRITERS[what](model, ratings, inputs, out)
    message = str(caught.value)
    assert f"cannot write {out}: File too large; " in message
    assert "\n" not in message
    assert names(tmp_path) == before
    if what not in FOLDERS:
        assert out.read_bytes() == b"old"
    WRITERS[what](model, ratings, inputs, out)  # now there is room
    assert names(tmp_path) == [out.name]


def test_figures(model: Any, tmp_path: Path) -> None:
    gathered = facts.gather(model)
    with full_disk(), pytest.raises(WriteError, match=r"cannot write .*/hierarchy.png: File too large"):
        figures.save_all(gathered, tmp_path / "figures", ("png",))
    assert names(tmp_path / "figures") == []


def test_unpacking_is_no_fault_of_the_archive(inputs: Path) -> None:
    with full_disk(), pytest.raises(WriteError, match=r"cannot write what is in packed.csv.gz to .*: File too large"):
        Observations.from_file(inputs / "packed.csv.gz")


def test_holding_out_of_a_store(inputs: Path) -> None:
    with full_disk(1024), pytest.raises(WriteError, match=r"there is no room in .* for a copy of"):
        holdout.split(inputs / "s", np.arange(100))
    assert names(inputs) == ["m.accams", "packed.csv.gz", "ratings.csv", "s"]


def bayes(**settings: Any) -> BayesianACCAMS:
    return BayesianACCAMS(3, 3, n_sweeps=6, n_chains=1, noise=0.7, verbose=False, **settings)


def test_a_fit_goes_on_without_its_checkpoint(ratings: pd.DataFrame, tmp_path: Path) -> None:
    """It warns once, and tries again: here there is room for the last one."""
    path, pairs = tmp_path / "run.ckpt", ratings[["user", "item"]]
    limit = full_disk()

    def make_room(step: Any) -> None:
        if step.sweep == 6:
            limit.__exit__(None, None, None)

    model = bayes(checkpoint=path, callbacks=[make_room]).set_params(schedule__checkpoint_every=1)
    limit.__enter__()
    with pytest.warns(CheckpointWarning) as caught:
        model.fit(ratings)
    assert len(caught) == 1
    assert str(caught[0].message).startswith(
        f"no checkpoint after sweep 1, the fit goes on: cannot write {path}: File too large; "
    )
    assert names(tmp_path) == ["run.ckpt"]
    right = bayes().fit(ratings).predict(pairs)
    assert np.array_equal(model.predict(pairs), right)
    assert np.array_equal(bayes().fit(ratings, resume=path).predict(pairs), right)


def test_a_checkpoint_that_can_never_be_written_is_refused_before_the_fit(
    ratings: pd.DataFrame, tmp_path: Path
) -> None:
    begun = list[Any]()
    with pytest.raises(WriteError, match="Is a directory; choose the name of a file"):
        bayes(checkpoint=tmp_path, callbacks=[begun.append]).fit(ratings)
    assert not begun


def test_a_model_that_cannot_be_saved_is_saved_elsewhere(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit may have taken hours."""
    out, elsewhere = tmp_path / "out", tmp_path / "here"
    out.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if Path(target).parent == out:
            raise OSError(28, os.strerror(28))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    rescued = elsewhere / f"m-{os.getpid()}.accams"
    with pytest.raises(WriteError, match=f"No space left on device; .*; the model is in {rescued} for now"):
        command(
            "fit", inputs / "ratings.csv", "-o", out / "m.accams", "--model", "accams", "-s", "2", "--for", "ratings"
        )
    monkeypatch.undo()
    assert names(out) == []
    command("info", rescued)


@pytest.mark.full  # `test_signals.py` has a quick one
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_standard_output_to_a_full_disk(inputs: Path) -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-c", CODE, "predict", inputs / "m.accams", inputs / "ratings.csv"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write to standard output: No space left on device; ")
    assert done.stderr.count("\n") == 1


def can_mount() -> bool:
    trial = "mount -t tmpfs -o size=4k tmpfs /mnt"
    found = shutil.which("unshare")
    return found is not None and not subprocess.run(
        ["unshare", "-rm", "sh", "-c", trial], capture_output=True, check=False
    ).returncode  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("size", ["8k", "64k", "1m"])
def test_a_disk_that_is_really_full(size: str, inputs: Path, tmp_path: Path) -> None:
    """The same, and more, on a small file system of its own."""
    if not can_mount():
        pytest.skip("file systems cannot be mounted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    program = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from typer.testing import CliRunner
        from accams.cli.main import app
        from accams.errors import WriteError
        inputs, disk = map(Path, sys.argv[1:])
        filler = disk / "filler"
        model, table = str(inputs / "m.accams"), str(inputs / "ratings.csv")
        os.chdir(disk)
        filler.write_bytes(b"x" * 2048)
        for words in (
            ["predict", model, table, "-o", "p.csv"], ["predict", model, table, "-o", "p.parquet"],
            ["recommend", model, "--all", "--include-seen", "-o", "top"], ["ingest", table, "-o", "s"],
            ["report", model, "-o", "r.html"], ["compress", model, "--max-bytes", "3k", "-o", "c.accams"],
        ):
            done = CliRunner().invoke(app, words)
            if done.exception is not None and not isinstance(done.exception, WriteError):
                raise done.exception
            left = [name for name in os.listdir() if name != "filler" and (done.exception or name != words[-1])]
            assert not left, (words, left)
            print(words[0], done.exception)
            os.system("rm -rf p.* top s r.html c.accams")
        """
    )
    mounted = f'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"'
    words = ["unshare", "-rm", "sh", "-c", mounted, disk, sys.executable, "-c", program, inputs, disk]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stdout


def test_a_log_keeps_what_it_has_and_takes_no_more(tmp_path: Path) -> None:
    log, kept = EventLog(tmp_path / "feedback.log"), list[int]()

    def append_for_ever() -> None:
        for number in range(1000):
            log.append("ann", number, 1.0)
            kept.append(number)

    with full_disk(2000), pytest.raises(WriteError, match=r"cannot write .*feedback.log: File too large; raise"):
        append_for_ever()
    assert log.path.read_bytes().endswith(b"\n")  # nothing half-written
    assert read_events(log.path).items.tolist() == kept
    log.append("bob", 1000, 1.0)  # now there is room
    assert read_events(log.path).items.tolist() == [*kept, 1000]
    with full_disk(1000), pytest.raises(WriteError, match="File too large"):
        log.forget("bob")
    assert read_events(log.path).items.tolist() == [*kept, 1000]
    assert log.forget("bob") == 1
    assert names(tmp_path) == ["feedback.log"]
