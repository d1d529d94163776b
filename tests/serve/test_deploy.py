"""The files of deploy/, as far as they can be tried without Docker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from journeys import service
from services import model

from accams.cli.main import app
from accams.data.eventlog import read_events
from accams.data.ids import Index
from accams.serve.settings import Settings, Source

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
needs_shell = pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")


def composed() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["accams"]
    return found


def default_command() -> list[str]:
    found: list[str] = json.loads(re.findall(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)[0])
    return found


def copied() -> set[str]:
    """What the image copies from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return {source for line in lines for source in line.split()[:-1]}


def test_the_image_copies_what_there_is() -> None:
    assert [source for source in copied() if not (ROOT / source).exists()] == []


def test_the_image_copies_what_the_wheel_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hatch = project["tool"]["hatch"]
    readme = {each["path"] for each in hatch["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]}
    needed = {"pyproject.toml", "src", *readme, *project["project"]["license-files"]}
    hook = hatch["build"]["targets"]["wheel"]["hooks"]["custom"]["path"]
    [names] = re.findall(r"for name in \((.+?)\)", (ROOT / hook).read_text())
    assert needed | {hook} | {f"experiments/{name}" for name in re.findall(r'"(\w+)"', names)} <= copied()


@pytest.mark.parametrize("command", [default_command, lambda: composed()["command"]], ids=["image", "compose"])
def test_the_service_has_the_options_that_are_used(command: Any) -> None:
    import typer

    known = {name for each in typer.main.get_command(app).commands["serve"].params for name in each.opts}  # type: ignore[attr-defined]
    used = {each.partition("=")[0] for each in command() if each.startswith("--")}
    assert used
    assert used <= known


def test_files_of_the_service_are_in_volumes() -> None:
    """And only the one for feedback, which belongs to the user of the image, can be written to."""
    compose = composed()
    targets = dict(volume.split(":", 1) for volume in compose["volumes"])
    paths = [each.rpartition("=")[2] for each in compose["command"] if each.rpartition("=")[2].startswith("/")]
    places = {target.partition(":")[0] for target in targets.values()}
    assert {str(Path(path).parent) for path in paths} == places
    assert targets == {"./models": "/models:ro", "feedback": "/feedback"}
    assert "install -d -o accams /feedback" in DOCKERFILE
    assert compose["read_only"]
    assert compose["tmpfs"] == ["/tmp"]


@needs_shell
def test_the_start_becomes_the_service(tmp_path: Path) -> None:
    """So that it gets the signals that are sent to the container."""
    kernels = tmp_path / "kernels"
    script = (DEPLOY / "start.sh").read_text().replace("/accams/kernels", str(kernels))
    for folder in (kernels / "inner", tmp_path / "bin"):
        folder.mkdir(parents=True)
    (kernels / "inner" / "one.nbi").write_text("compiled")
    (tmp_path / "start.sh").write_text(script)
    (tmp_path / "bin" / "accams").write_text('#!/bin/sh\necho $$ "$@"\n')
    (tmp_path / "bin" / "accams").chmod(0o755)
    copy = tmp_path / "copy"
    more = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "NUMBA_CACHE_DIR": str(copy)}
    for _ in range(2):  # a container that is started again finds the folder there
        with subprocess.Popen(
            ["sh", tmp_path / "start.sh", "/models/a b.accams", "--watch"], stdout=subprocess.PIPE, text=True,
            env={**os.environ, **more},
        ) as process:  # fmt: skip
            assert process.stdout is not None
            told = process.stdout.read()
        assert told == f"{process.pid} serve --host 0.0.0.0 /models/a b.accams --watch\n"
        assert [path.relative_to(copy).as_posix() for path in copy.rglob("*.nbi")] == ["inner/one.nbi"]
    assert os.access(DEPLOY / "start.sh", os.X_OK)


def test_the_client(tmp_path: Path) -> None:
    from dataclasses import replace

    of = model("small")
    ids = np.array([260, 1196, *range(1, of.shape[1] - 1)])
    replace(of, col_index=Index(ids)).save(tmp_path / "model.accams")
    source = Source("model", str(tmp_path / "model.accams"), feedback=str(tmp_path / "feedback.log"))

    def ask(address: str, token: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, DEPLOY / "client.py", address.rstrip("/")], capture_output=True, text=True, check=False,
            env={**os.environ, "TOKEN": token},
        )  # fmt: skip

    with service(Settings((source,), access_log=False, tokens=frozenset({"secret"}))) as address:
        done, refused = ask(address, "secret"), ask(address, "guess")
    assert done.stdout.splitlines()[-1] == "{'accepted': 1}"
    assert len(done.stdout.splitlines()) == 6
    assert read_events(tmp_path / "feedback.log").items.tolist() == [260]
    assert refused.stderr.startswith("recommend: send a token of this service")
