"""Data sets, and the search for and download of their files."""

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accams.data.archives import open_file, open_zip
from accams.data.observations import Observations
from accams.errors import InputError, MissingDataError
from accams.writing import ADVICE, failed, make_folder, reported

DATA_FOLDER = "ACCAMS_DATA"
CACHE_FOLDER = "ACCAMS_CACHE"


@dataclass(frozen=True)
class Dataset:
    """Observations with titles, citation and licence.

    Attributes
    ----------
    name : str
    observations : Observations
    titles : dict or None
        Title of each column id, if there are titles.
    citation, licence : str

    Examples
    --------
    >>> observations = Observations.from_coo([0, 1], [0, 0], [5.0, 3.0])
    >>> films = Dataset("own", observations, {0: "Heat"}, citation="", licence="CC0")
    >>> films.observations.shape, films.titles[0]
    ((2, 1), 'Heat')
    >>> from accams.data.datasets import movielens
    >>> movielens("100k").titles[1]  # doctest: +SKIP
    'Toy Story (1995)'
    """

    name: str
    observations: Observations
    titles: dict[Any, str] | None
    citation: str
    licence: str


@dataclass(frozen=True)
class ImageDataset(Dataset):
    """Images of equal size, one per row.

    Attributes
    ----------
    image_shape : (int, int)
        Rows and columns of pixels; ``observations`` has one column per pixel, row by row.

    Examples
    --------
    >>> observations = Observations.from_dense([[17.0, 250.0], [9.0, 31.0]])
    >>> images = ImageDataset("own", observations, None, citation="", licence="CC0", image_shape=(1, 2))
    >>> images.observations.shape[1] == images.image_shape[0] * images.image_shape[1]
    True
    >>> from accams.data.datasets import faces
    >>> faces().image_shape  # doctest: +SKIP
    (120, 128)
    """

    image_shape: tuple[int, int]


@dataclass(frozen=True)
class Source:
    """File of a data set: its usual name, its official address and published checksum, if there are any.

    Only downloads are checked: a user's own copy may be packed differently. `also` are other names of the file, or of a
    folder with its content; `advice` says how to obtain it, if it cannot be downloaded.
    """

    file: str
    url: str | None
    md5: str | None = None
    also: tuple[str, ...] = ()
    advice: str = ""

    def find(self, path: str | Path | None = None) -> Path:
        """Return the path of the file, or of a folder with its content; download it if necessary."""
        if path is not None:
            if not Path(path).exists():
                raise MissingDataError(f"there is no {path}; pass the path of {self.file}, or of a folder with it")
            return first_existing(Path(path), (self.file, *self.also)) or Path(path)
        folder = os.environ.get(DATA_FOLDER)
        local = first_existing(Path(folder), (self.file, *self.also)) if folder else None
        if local is not None:
            return local
        if self.url is None:
            searched = f"in {folder}" if folder else f"(${DATA_FOLDER} is not set)"
            raise MissingDataError(f"{self.file} was not found {searched}. {self.advice} {self._hint()}")
        return self._download()

    def _download(self) -> Path:
        """Return the file in the cache; one that is not there, or differs from the official one, is downloaded."""
        import pooch

        cache = _cache_folder()
        target = cache / self.file
        if target.is_file() and self.md5 in (None, pooch.file_hash(str(target), "md5")):
            return target
        with reported(target, f"set ${CACHE_FOLDER} to a folder with room"):
            cache.mkdir(parents=True, exist_ok=True)
            folder = make_folder(cache, self.file)
        try:
            self._fetch(folder)
            os.replace(folder / self.file, target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return target

    def _fetch(self, folder: Path) -> None:
        import pooch

        known = None if self.md5 is None else f"md5:{self.md5}"
        with closing(_Bar(self.file)) as bar:
            try:
                downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16)
                pooch.retrieve(self.url, known, fname=self.file, path=folder, downloader=downloader)
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in ADVICE:
                    raise failed(folder.parent / self.file, error) from None
                raise MissingDataError(
                    f"{self.file} could not be downloaded from {self.url} ({error}). {self._hint()}"
                ) from None  # what failed is in the message; the calls that led to it help nobody

    def _hint(self) -> str:
        return f"Put {self.file} into a folder and set ${DATA_FOLDER} to it, or pass path=."


def _cache_folder() -> Path:
    import pooch

    named = os.environ.get(CACHE_FOLDER)
    try:
        cache = Path(named or pooch.os_cache("accams"))
    except RuntimeError:  # of some versions; others name a folder that is called ~
        cache = Path("~")
    if named is None and not cache.is_absolute():
        raise MissingDataError(f"there is no home folder to keep downloads in: set ${CACHE_FOLDER} to a folder")
    return cache


def choose(table: dict[str, Any], name: str, what: str) -> Any:
    """Return the entry `name` of `table`; the error lists the valid names."""
    if name not in table:
        names = ", ".join(repr(known) for known in table)
        raise InputError(f"there is no {what} {name!r}; choose from {names}")
    return table[name]


def first_existing(folder: Path, names: Iterable[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).exists()), None)


def member(path: Path, wanted: Callable[[str], bool], what: str) -> Path:
    """Return the path of a file inside `path`, which is that file itself, a folder, or a zip archive.

    Inside a zip archive it is ``archive.zip/inner/file``, as in `Observations.from_file`.
    """
    if path.is_dir():
        names = sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())
    elif path.suffix == ".zip":
        with open_zip(path) as archive:
            names = sorted(archive.namelist())
    else:
        return path
    inner = next((name for name in names if wanted(name.replace(os.sep, "/"))), None)
    if inner is None:
        raise InputError(f"{path} contains no {what}")
    return path / inner


def read_bytes(path: Path) -> bytes:
    """Read a file: plain, gzipped (``.gz``), or in a zip archive (``archive.zip/inner/file``)."""
    with open_file(path) as file:
        return file.path.read_bytes()


class _Bar:
    """Progress bar of rich with the interface that pooch expects."""

    total = 0

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(name, total=None)

    def update(self, size: int) -> None:
        self._progress.start()
        self._progress.update(self._task, advance=size, total=self.total or None)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.stop()
