"""Ctrl-C, SIGTERM and a closed terminal: no file is half-written, and the exit code tells which it was."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty import names, start

import accams
from accams.cli import main, signals
from accams.data.ingest import ingest
from accams.engine.ray import cluster
from accams.writing import write_atomically

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs POSIX signals"),
    pytest.mark.timeout(120),
]
ROLES = {"row": "user", "col": "item", "value": "rating", "weight": None, "time": None}
FAST = ("-k", "2", "-s", "3", "--chains", "2", "--noise", "0.3", "--sweeps", "1000000", "--for", "ratings")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("signals") / "ratings.csv"
    lines = [f"u{i},f{j},{(i + j) % 3 + random.normal(0, 0.3):.3f}" for i in range(60) for j in range(i % 3, 40, 3)]
    path.write_text("\n".join(["user,item,rating", *lines]) + "\n")
    return path


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let signals do here what they do to the command line, and restore what they did before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, signal.SIG_DFL)
    monkeypatch.setattr(signals, "_caught", [])
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def exit_code_of(command: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(main, "app", command)
    with pytest.raises(SystemExit) as end:
        main.run()
    return int(end.value.code or 0)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_exit_codes(
    name: str, code: int, in_this_process: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where the work was ended well, or a library has an exception of its own for it."""

    def write() -> None:
        (tmp_path / "m").write_bytes(b"old")
        monkeypatch.setattr(os, "replace", lambda *_: os.kill(os.getpid(), getattr(signal, name)))
        write_atomically(tmp_path / "m", b"new")

    assert exit_code_of(write, monkeypatch) == code
    assert names(tmp_path) == ["m"]
    assert (tmp_path / "m").read_bytes() == b"old"

    def ends_well() -> None:
        try:
            os.kill(os.getpid(), getattr(signal, name))
        except KeyboardInterrupt:
            return

    def fails() -> None:
        try:
            os.kill(os.getpid(), getattr(signal, name))
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    for command in (ends_well, fails):
        monkeypatch.setattr(signals, "_caught", [])
        assert exit_code_of(command, monkeypatch) == code


def test_other_exit_codes(in_this_process: None, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def failing(error: BaseException) -> Any:
        def command() -> None:
            raise error

        return command

    assert exit_code_of(lambda: None, monkeypatch) == 0
    assert exit_code_of(failing(SystemExit(1)), monkeypatch) == 1
    assert exit_code_of(failing(accams.InputError("no")), monkeypatch) == 2
    assert exit_code_of(failing(BrokenPipeError()), monkeypatch) == 0
    assert exit_code_of(failing(OSError(28, "No space left on device", "x.csv")), monkeypatch) == 2
    assert "error: cannot write x.csv: No space left on device; free some space" in capsys.readouterr().err
    monkeypatch.setattr(main, "app", failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main.run()


def test_standard_output_that_cannot_be_flushed(
    in_this_process: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    with (tmp_path / "out").open("w") as out:

        class Full:
            fileno = out.fileno

            def flush(self) -> None:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr("sys.stdout", Full())
        assert exit_code_of(lambda: None, monkeypatch) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: cannot write to standard output: No space left on device; free some space")


def test_ignored_signals_stay_so(in_this_process: None) -> None:
    """As `nohup` and shells want it for what runs in the background."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals.listen()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) == signals._interrupt


def test_ray_does_not_take_sigterm_over(in_this_process: None) -> None:
    signals.listen()
    with cluster._own_end():
        signal.signal(signal.SIGTERM, lambda *_: None)
    assert signal.getsignal(signal.SIGTERM) == signals._interrupt


def waited_for(path: Path, process: Any) -> None:
    late = time.monotonic() + 60
    while not path.exists() and process.poll() is None and time.monotonic() < late:
        time.sleep(0.01)


def test_sigterm_ends_a_fit_as_ctrl_c_does(table: Path, tmp_path: Path) -> None:
    """The model so far is saved, and the checkpoint goes on."""
    model, run = tmp_path / "m.accams", tmp_path / "run.ckpt"
    process = start("fit", table, "-o", model, *FAST, "--checkpoint", run, "--checkpoint-every", "1")
    waited_for(run, process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 143, err
    assert err.startswith("warning: interrupted: the model is usable")
    assert "to go on: accams fit" in err
    assert names(tmp_path) == ["m.accams", "run.ckpt"]
    assert accams.load(model).predicts


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2])
def test_an_ingestion_goes_on_after_a_signal(number: int, delay: float, table: Path, tmp_path: Path) -> None:
    process = start("ingest", table, "-o", tmp_path / "s")
    waited_for(tmp_path / "s.partial", process)
    time.sleep(delay)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode in (0, 128 + number, -number), err
    assert "Traceback" not in err
    if not (tmp_path / "s").exists():
        ingest([table], tmp_path / "s", ROLES)
    assert names(tmp_path) == ["s"]
