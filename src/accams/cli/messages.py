"""Errors and warnings as the command line shows them, one line in terms of options; and its plain tables."""

import re
from typing import Any

from accams.cli.settings import options
from accams.settings.kinds import FLAG
from accams.use.text import printable

BEFORE, AFTER = r"(?<![\w/.'\"-])(?:\w+__)?", r"(?![\w/'\"]|\.\w)"  # what a parameter does not stand next to
PHRASES = {
    "pass duplicates='mean', 'last' or 'sum' to Observations.from_frame, from_file or from_coo":
        "use --duplicates mean, --duplicates last or --duplicates sum",
    "(duplicates='mean' does so silently, 'last' and 'sum' merge them otherwise, 'error' refuses them)":
        "(--duplicates mean does so silently, last and sum merge them otherwise, error refuses them)",
    "' to Observations.from_frame or from_file": "'",
    "pass zeros='observed' to Observations.from_file": "add --zeros observed",
    "create the observations with zeros='observed'": "add --zeros observed",
    "pass seen (the ratings, or pairs of ids), load it with its history, or set exclude_seen=False":
        "name a history file or the ratings with --history, or add --include-seen",
    "pass history (the ratings), or load it with its history": "name a history file or the ratings with --history",
    "fit ACCAMS or BayesianACCAMS to the values": "fit one with --for both",
    "fit ItemACCAMS with another max_bytes": "fit it with another --list-bytes",
    "this model has no item map, which lists by choice need: fit ItemACCAMS":
        "this model has no item map, which lists by choice need: fit one with --for both",
    "pass weights='uniform', or one number per row and one per column": "add --weights uniform",
    "skip such lines (damaged='skip')": "skip such lines (--skip-damaged)",
    "with history=False": "without --history",
    "with ids=False": "with --no-ids",
    "with lists=False": "with --no-lists",
    "choose one with array=": "choose one with --array ",
}  # fmt: skip
OTHERS = {
    "max_bytes": "--max-bytes",
    "min_ratings": "--min-ratings",
    "row": "--row",
    "col": "--col",
    "value": "--value",
}


def translated(message: str) -> str:
    """Return a message about parameters as one about options.

    Names in quotes and parts of paths are left alone, and so are words that are also names, such as "engine", unless
    they begin the message or have a value.

    Examples
    --------
    >>> translated("n_burn_in must be smaller than n_sweeps: set n_sweeps=500 or sampler='collapsed'")
    '--burn-in must be smaller than --sweeps: set --sweeps 500 or --sampler collapsed'
    >>> translated("set early_stopping=False")
    'leave out --early-stopping'
    >>> translated("pass row='...', value='...' to Observations.from_frame or from_file")
    'pass --row ..., --value ...'
    """
    for phrase, ours in PHRASES.items():
        message = message.replace(phrase, ours)
    for name, flag, switch in _names():
        if switch:
            message = re.sub(rf"set {BEFORE}{name}=False", f"leave out {flag}", message)
            message = re.sub(rf"{BEFORE}{name}=True", flag, message)
        message = re.sub(rf"{BEFORE}{name}=(['\"]?)((?:[\w+,-]|\.\w)+|\.\.\.)\1", rf"{flag} \2", message)
        if "_" in name:
            message = re.sub(rf"{BEFORE}{name}{AFTER}", flag, message)
        elif message.startswith(f"{name} must be"):
            message = flag + message.removeprefix(name)
    return message


def _names() -> list[tuple[str, str, bool]]:
    """Return parameters with their flags, and whether those take no value."""
    named = [
        (parameter.rpartition("__")[2], option.flags[0], option.kinds[model] is FLAG)
        for option in options().values()
        for model, (parameter, _) in option.parameters.items()
    ]
    return named + [(name, flag, False) for name, flag in OTHERS.items()]


def show(kind: str, message: object) -> None:
    from rich.console import Console
    from rich.text import Text

    style = {"error": "bold red", "warning": "bold yellow"}[kind]
    line = Text.assemble((f"{kind}: ", style), translated(printable(message)))
    Console(stderr=True).print(line, highlight=False, soft_wrap=True)


def show_warning(message: Warning | str, *_: object) -> None:
    """Print a warning; takes the place of `warnings.showwarning`."""
    show("warning", message)


def safe(text: object) -> str:
    """Return text from data as markup for a terminal: shown as it is, without characters that steer."""
    from rich.markup import escape

    return escape(printable(text))


def two_columns() -> Any:
    """Return an empty table of names and values, which are plain text."""
    from rich.table import Table
    from rich.text import Text

    class Plain(Table):
        def add_row(self, *cells: Any, **how: Any) -> None:
            super().add_row(*(Text(printable(cell)) for cell in cells), **how)

    table = Plain(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table
