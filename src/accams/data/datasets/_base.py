"""What a data set is, where its file is found, and how it is downloaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accams.data.archives import open_file, open_zip
from accams.data.observations import Observations
from accams.errors import InputError, MissingDataError

DATA_FOLDER = "ACCAMS_DATA"
CACHE_FOLDER = "ACCAMS_CACHE"


@dataclass(frozen=True)
class Dataset:
    """Observations, and what to say when using them.

    Attributes
    ----------
    name : str
    observations : Observations
    titles : dict or None
        Column id to title, where there are titles.
    citation, licence : str
    """

    name: str
    observations: Observations
    titles: dict[Any, str] | None
    citation: str
    licence: str


@dataclass(frozen=True)
class ImageDataset(Dataset):
    """Images of equal size, one a row.

    Attributes
    ----------
    image_shape : (int, int)
        Rows and columns of pixels; ``observations`` has one column a pixel, row by row.
    """

    image_shape: tuple[int, int]


@dataclass(frozen=True)
class Source:
    """The file of a data set.

    Attributes
    ----------
    file : str
        Its usual name.
    url : str or None
        The official address; None where there is none (any more).
    md5 : str or None
        Published checksum of what is at `url`; None where the archive changes or none is published. Only what
        is downloaded is checked: a user's own copy may be packed differently.
    also : tuple of str
        Other names of the file, or of a folder with its content.
    advice : str
        How to get it, if it cannot be downloaded.
    """

    file: str
    url: str | None
    md5: str | None = None
    also: tuple[str, ...] = ()
    advice: str = ""

    def find(self, path: str | Path | None = None) -> Path:
        """Where the file (or the folder with its content) is; downloads it if need be."""
        if path is not None:
            return self._at(Path(path))
        folder = os.environ.get(DATA_FOLDER)
        here = first_existing(Path(folder), (self.file, *self.also)) if folder else None
        if here is not None:
            return here
        if self.url is None:
            raise MissingDataError(f"{self.file} was not found{_searched(folder)}. {self.advice} {_put(self)}")
        return self._download()

    def _at(self, path: Path) -> Path:
        if not path.exists():
            raise MissingDataError(f"there is no {path}; give the path of {self.file}, or of a folder with it")
        inside = first_existing(path, (self.file, *self.also)) if path.is_dir() else None
        return inside or path

    def _download(self) -> Path:
        import pooch

        cache = os.environ.get(CACHE_FOLDER) or pooch.os_cache("accams")
        known = None if self.md5 is None else f"md5:{self.md5}"
        with _Bar(self.file) as bar:
            try:
                got = pooch.retrieve(
                    self.url,
                    known,
                    fname=self.file,
                    path=cache,
                    downloader=pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16),
                )
            except (OSError, ValueError) as error:
                raise MissingDataError(
                    f"{self.file} could not be downloaded from {self.url} ({error}). {_put(self)}"
                ) from error
        return Path(got)


def choose(table: dict[str, Any], name: str, what: str) -> Any:
    """The entry `name` of `table`; says which there are."""
    if name not in table:
        names = ", ".join(repr(known) for known in table)
        raise InputError(f"there is no {what} {name!r}; choose from {names}")
    return table[name]


def first_existing(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of these names that `folder` has."""
    return next((folder / name for name in names if (folder / name).exists()), None)


def member(path: Path, wanted: Callable[[str], bool], what: str) -> Path:
    """The path of a file inside `path`, which is that file itself, a folder, or a zip archive.

    Inside a zip archive it is ``archive.zip/inner/file``, as `Observations.from_file` takes it.
    """
    if path.is_dir():
        names = sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())
    elif path.suffix == ".zip":
        with open_zip(path) as archive:
            names = sorted(archive.namelist())
    else:
        return path
    found = next((name for name in names if wanted(name.replace(os.sep, "/"))), None)
    if found is None:
        raise InputError(f"{path} has no {what} in it")
    return path / found


def read_bytes(path: Path) -> bytes:
    """The content of a file: plain, gzipped (``.gz``), or in a zip archive (``archive.zip/inner/file``)."""
    with open_file(path) as file:
        return file.path.read_bytes()


class _Bar:
    """A progress bar as pooch asks for it, drawn by rich."""

    total = 0

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(name, total=None)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, size: int) -> None:
        self._progress.start()
        self._progress.update(self._task, advance=size, total=self.total or None)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.stop()


def _searched(folder: str | None) -> str:
    return f" in {folder}" if folder else f" (${DATA_FOLDER} is not set)"


def _put(source: Source) -> str:
    return f"Put {source.file} into a folder and set ${DATA_FOLDER} to it, or pass path=."
