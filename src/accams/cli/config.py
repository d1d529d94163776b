"""Configuration files of `accams fit`: options, parameters and records in TOML."""

import tomllib
from pathlib import Path
from typing import Any

from accams.cli.settings import options
from accams.errors import InputError
from accams.settings.fields import require
from accams.settings.kinds import FLAG, Kind, Number, Text, Words

RECORDS = ("priors", "schedule")
PATH, TEXT = Text("a path"), Text("the name of a column")
OTHERS: dict[str, Kind] = {
    "output": PATH,
    "history": PATH,
    "model": Words("bayes", "accams"),
    "paper": FLAG,
    "quiet": FLAG,
    "test": Number(0.0, 1.0),
    "row": TEXT,
    "col": TEXT,
    "value": TEXT,
    "weight": TEXT,
    "duplicates": Words("error", "mean", "last", "sum"),
    "zeros": Words("missing", "observed"),
    "zero_weight": Number(),
}


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Read a configuration file.

    Keys are the options of `accams fit`, with dashes or underscores, or the parameters of the estimators; the tables
    ``[priors]`` and ``[schedule]`` hold the fields of those records.

    Returns
    -------
    values : dict
        By option name; those that set parameters have yet to be parsed.
    labels : dict
        How messages name each: its key and the file.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from None
    by_parameter = {parameter: name for name, each in options().items() for parameter, _ in each.parameters.values()}
    known = {each.replace("__", "."): name for each, name in by_parameter.items()}
    known.update({name: name for name in (*options(), *OTHERS)})
    flat = _flat(content)
    require(flat, known, f"setting in {path} called")
    values: dict[str, Any] = {}
    labels: dict[str, str] = {}
    for key, value in flat.items():
        name, label = known[key], f"{key!r} in {path}"
        if name in values:
            raise InputError(f"{label} sets the same as {labels[name]}: leave one out")
        values[name], labels[name] = OTHERS[name].parse(label, value) if name in OTHERS else value, label
    return values, labels


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """Return settings by name with underscores, those of records as ``record.name``."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if key in RECORDS and isinstance(value, dict):
            flat.update({f"{key}.{name.replace('-', '_')}": x for name, x in value.items()})
        else:
            flat[key.replace("-", "_")] = value
    return flat
