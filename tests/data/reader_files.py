"""Small files in every format, and helpers that read them or return the error message."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from accams.data.observations import Observations
from accams.errors import InputError

ROWS = [(7, 30, 4.5, 978300760), (3, 10, 3.0, 978300761), (7, 10, 0.0, 978300762), (5, 20, 1.0, 978300763)]
HEADER = ("userId", "movieId", "rating", "timestamp")


def lines(delimiter: str, header: bool = True) -> bytes:
    cells = [HEADER, *ROWS] if header else ROWS
    return "".join(delimiter.join(map(str, row)) + "\n" for row in cells).encode()


def parquet() -> bytes:
    out = io.BytesIO()
    pd.DataFrame(ROWS, columns=list(HEADER)).to_parquet(out)
    return out.getvalue()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "comma.csv": lambda: lines(","),
    "tab.tsv": lambda: lines("\t"),
    "colons.dat": lambda: lines("::", header=False),
    "semicolon.csv": lambda: lines(";"),
    "pipe.txt": lambda: lines("|"),
    "u.data": lambda: lines("\t", header=False),
    "blanks.txt": lambda: lines(" ", header=False),
    "runs.txt": lambda: lines("  \t "),
    "ratings.parquet": parquet,
    "ratings.pq": parquet,
    "ratings.npz": lambda: npz(**{n: np.array(c) for n, c in zip(HEADER, zip(*ROWS, strict=True), strict=True)}),
}


def pack(content: bytes, name: str, how: str, folder: Path) -> Path:
    """Write a file plain, gzipped or zipped."""
    if how == "zip":
        path = folder / "archive.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"ml/{name}", content)
            archive.writestr("ml/README.txt", "what this is")
            archive.writestr("__MACOSX/ml/ratings.csv", "junk")
            archive.writestr("ml/.ratings.csv", "junk")
        return path
    path = folder / (name + (".gz" if how == "gz" else ""))
    path.write_bytes(gzip.compress(content) if how == "gz" else content)
    return path


def write(folder: Path, content: str | bytes, name: str = "ratings.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, content: str | bytes, name: str = "ratings.csv", **options: Any) -> Observations:
    return Observations.from_file(write(folder, content, name), **options)


def complaint(path: Path, error: type[Exception] = InputError, **options: Any) -> str:
    """Return the error message for a bad file, which must be one line with the name of the file."""
    with pytest.raises(error) as caught:
        Observations.from_file(path, **options)
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    return message


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "data.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path
