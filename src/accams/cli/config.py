"""Configuration files of `accams fit`: options, parameters and records in TOML."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from accams.cli.settings import options
from accams.errors import InputError
from accams.settings.fields import require

RECORDS = ("priors", "schedule")


def read_config(path: Path, others: set[str]) -> dict[str, Any]:
    """Read a configuration file.

    Keys are the options of `accams fit`, with dashes or underscores, or the parameters of the estimators; the tables
    ``[priors]`` and ``[schedule]`` hold the fields of those records.

    Parameters
    ----------
    path : Path
    others : set of str
        Options beside those that set parameters.

    Returns
    -------
    dict
        Values by option name.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from None
    by_parameter = {parameter: name for name, each in options().items() for parameter, _ in each.parameters.values()}
    known = {**by_parameter, **{name: name for name in (*options(), *others)}}
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if key in RECORDS and isinstance(value, dict):
            flat.update({f"{key}__{name.replace('-', '_')}": x for name, x in value.items()})
        else:
            flat[key.replace("-", "_")] = value
    require(flat, known, f"setting in {path} called")
    return {
        known[name]: tuple(x) if isinstance(x, list) and name.endswith(("eta", "gamma", "clip")) else x
        for name, x in flat.items()
    }
