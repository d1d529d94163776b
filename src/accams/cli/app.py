"""The application, and how commands are added to it: what they do is imported when they run."""

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

import typer

from accams.cli import options as o

Declared = TypeVar("Declared", bound=Callable[..., None])
app = typer.Typer(
    cls=o.Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Complete, compress and explain matrices with sums of small co-clusterings.\n\n"
    "Start with [bold]accams demo[/], then [bold]accams fit ratings.csv -o model.accams[/].",
)


def command(place: str) -> Callable[[Declared], Declared]:
    """Add a command with the options and the help of a declaration, run by a function of the same parameters.

    `place` is that function's module in `accams.cli`, imported only when the command runs, and its name. It returns
    False if the command has failed.
    """

    def added(declared: Declared) -> Declared:
        @wraps(declared)
        def run_command(**chosen: Any) -> None:
            module, name = place.split(".")
            given = {key: x.value if isinstance(x, StrEnum) else x for key, x in chosen.items()}
            if getattr(import_module(f"accams.cli.{module}"), name)(**given) is False:
                raise typer.Exit(1)

        app.command(cls=o.Command)(run_command)
        return declared

    return added
