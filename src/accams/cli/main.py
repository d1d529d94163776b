"""The `accams` command: what comes before the commands, and how it ends."""

import os
import sys
import warnings
from typing import Annotated, Any

import typer

from accams import __version__
from accams.cli import messages, signals
from accams.cli.commands import app
from accams.errors import AccamsError
from accams.writing import ADVICE, failed, fault_of


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"accams {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take options that come before the command."""


def run() -> None:
    """Run the command line; errors and warnings of accams are shown as one sentence, in terms of options."""
    warnings.showwarning = messages.show_warning  # type: ignore[assignment]
    signals.listen()
    code: Any = 0
    try:
        app()
    except SystemExit as end:
        code = end.code
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    except AccamsError as error:
        messages.show("error", error)
        code = 2
    except Exception as error:
        if signals.exit_code() is None:
            code = _told(error)
        elif not _interrupted(error):
            messages.show("error", f"after the interruption: {type(error).__name__}: {error}")
    code = _flushed(code)
    sys.exit(code if signals.exit_code() is None else signals.exit_code())


def _interrupted(error: BaseException | None) -> bool:
    """Return whether an interruption led to this error."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "InterruptException":  # of DuckDB
            return True
        error = error.__cause__ or error.__context__
    return False


def _told(error: Exception) -> int:
    """Tell that something could not be written, such as a table to a full disk; other errors are raised."""
    if fault_of(error) not in ADVICE:
        raise error
    where = getattr(error, "filename", None) or "to standard output"
    messages.show("error", failed(where, error))
    return 2


def _flushed(code: Any) -> Any:
    """Write out what was printed, and return the exit code; Python itself would complain at its end, in riddles."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code if isinstance(error, BrokenPipeError) else _told(error)
    return code
