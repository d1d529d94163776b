"""Run `accams` in tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from accams.cli.main import app
from accams.cli.messages import PHRASES, translated
from accams.cli.settings import options
from accams.errors import AccamsError

CODE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from accams.cli.main import run; run()"
FAST = ("-k", "2", "-s", "3", "--chains", "2", "--noise", "0.3")  # a posterior in a fraction of a second
runner = CliRunner()


def process(*args: str | Path) -> subprocess.Popen[str]:
    """`accams ...` in a process of its own, which Ctrl-C can reach."""
    words = [sys.executable, "-c", CODE, *map(str, args)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def accams_command(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """`accams ...` in a process of its own, to its end."""
    started = process(*args)
    out, err = started.communicate()
    return subprocess.CompletedProcess(args, started.returncode, out, err)


def invoked(*args: str | Path) -> Any:
    """`accams ...` in this process."""
    return runner.invoke(app, [str(arg) for arg in args])


def done_well(*args: str | Path) -> str:
    """What `accams ...` shows, which must end well; each run of blanks as one."""
    done = invoked(*args)
    assert done.exit_code == 0, f"{done.output}{done.exception!r}"
    return " ".join(done.output.split())


def from_json(*args):
    done = invoked(*args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refusal(*args: str | Path) -> str:
    """The sentence with which `accams ...` refuses, as it is shown: parameters as options."""
    done = invoked(*args)
    assert isinstance(done.exception, AccamsError), f"{done.output}{done.exception!r}"
    message = str(done.exception)
    assert "\n" not in message
    shown = translated(message)
    assert_words_are_kept(message, shown)
    return shown


def assert_words_are_kept(message: str, shown: str) -> None:
    """Translating a message changes names of parameters, and no other word."""
    names = {part for each in options().values() for name, _ in each.parameters.values() for part in name.split("__")}
    names |= {"max_bytes", "weights", "duplicates", "zeros", "seen", "exclude_seen", "True", "False"}
    ordinary = re.compile(r"(?<![\w/.'=-])[A-Za-z]+(?![\w=/.'-])")
    words = [word for word in ordinary.findall(message) if word not in names]
    if not any(phrase in message for phrase in PHRASES):
        assert [word for word in ordinary.findall(shown) if word not in names and word in words] == words
    assert not re.search(r"\w--|--\w*_", shown)
    assert translated(shown) == shown
