"""Everybody's recommendations, and predictions of many pairs, as folders of Parquet files: here or on a Ray cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

from numpy.typing import NDArray

from accams.data import store
from accams.data.observations import Observations
from accams.data.readers import read_pairs
from accams.errors import InputError
from accams.estimators.base import StencilEstimator
from accams.estimators.files import load
from accams.estimators.using import id_names
from accams.use.scoring import Seen

Told = Callable[[int, int], None]  # files that are done, of how many


class Task(NamedTuple):
    """What goes into one file: the best columns of some rows, or predictions of some pairs."""

    kind: str
    number: int
    what: tuple[Any, ...]


def recommend_all(
    model: str | Path, output: str | Path, n: int = 10, *, seen: str | Path | None = None, include_seen: bool = False,
    std: bool = False, rows_per_file: int = 20_000, engine: str = "cpu", told: Told | None = None,
) -> int:  # fmt: skip
    """The best columns of every row of a saved model, as a folder of Parquet files.

    Parameters
    ----------
    model : path
        Of a model file; on a cluster, one that every machine sees.
    output : path
        A folder that is not there yet; likewise.
    n : int
        How many for each row.
    seen : path, optional
        Of a file or a store with what rows have observed, where that of the model does not tell; likewise.
    include_seen : bool
        Also what a row has observed.
    std : bool
        Also standard deviations (models with draws).
    rows_per_file : int
    engine : {"cpu", "ray"}
        On this machine, or on the Ray cluster that this process is connected to.
    told : callable, optional
        Is told how many files are done, and of how many, after each.

    Returns
    -------
    int
        Lines that were written: columns named as those the model was fitted to (or row and col), rank, score, rule.
    """
    rows = len(_loaded(Path(model)).row_index_)
    starts = range(0, rows, rows_per_file)
    tasks = [Task("best", p, (lo, min(rows, lo + rows_per_file), n, include_seen, std)) for p, lo in enumerate(starts)]
    return _run(Path(model), Path(output), tasks, engine, told, None if seen is None else Path(seen).resolve())


def predict_all(
    model: str | Path, rows: NDArray[Any], cols: NDArray[Any], output: str | Path, *, std: bool = False,
    names: tuple[str, str] = ("row", "col"), pairs_per_file: int = 1_000_000, engine: str = "cpu",
    told: Told | None = None,
) -> int:  # fmt: skip
    """Predictions of pairs of row and column ids by a saved model, as a folder of Parquet files.

    The other parameters are those of `recommend_all`; `names` are those of the columns with ids.
    """
    if len(rows) != len(cols) or not len(rows):
        both = f"{len(rows):,} row ids and {len(cols):,} column ids"
        raise InputError(f"there are {both}: pass as many of both, one at least")
    cuts = [slice(lo, lo + pairs_per_file) for lo in range(0, len(rows), pairs_per_file)]
    tasks = [Task("predicted", p, (rows[cut], cols[cut], names, std)) for p, cut in enumerate(cuts)]
    return _run(Path(model), Path(output), tasks, engine, told)


class Server:
    """A model that answers tasks, one file after another."""

    def __init__(self, model: Path, folder: Path, seen: Path | None = None) -> None:
        self._path, self._folder, self._seen = model, folder, seen
        self._model: StencilEstimator | None = None

    def do(self, task: Task) -> int:
        """Write the file of a task; how many lines it has."""
        if self._model is None:
            self._model = _loaded(self._path)
            if self._seen is not None:
                self._model.seen_ = seen_in(self._seen, self._model)
        columns: dict[str, NDArray[Any]] = getattr(self, f"_{task.kind}")(self._model, *task.what)
        if not self._folder.is_dir():
            here = f"{self._folder} is not to be seen from {gethostname()}"
            raise InputError(f"{here}: name a folder that every machine sees")
        _write(self._folder / f"part-{task.number:05}.parquet", columns)
        return len(next(iter(columns.values())))

    def _best(
        self, model: StencilEstimator, lo: int, hi: int, n: int, include_seen: bool, std: bool
    ) -> dict[str, NDArray[Any]]:
        found = model.recommend(model.row_index_.ids[lo:hi], n, exclude_seen=not include_seen, return_std=std)
        return found.columns(*id_names(model))  # type: ignore[no-any-return]

    def _predicted(
        self, model: StencilEstimator, rows: NDArray[Any], cols: NDArray[Any], names: tuple[str, str], std: bool
    ) -> dict[str, NDArray[Any]]:
        pairs = list(zip(rows.tolist(), cols.tolist(), strict=True))
        found = model.predict(pairs, return_std=True) if std else (model.predict(pairs),)  # type: ignore[call-arg]
        return {names[0]: rows, names[1]: cols, **dict(zip(("prediction", "std"), found, strict=False))}


def seen_in(path: Path, model: StencilEstimator) -> Seen:
    """What rows have observed, by a file of pairs or a store."""
    index = model.row_index_, model.col_index_
    if store.is_store(path):
        obs = Observations.open(path, verify=False)
        if index == (obs.row_index, obs.col_index):
            return Seen(obs.row_starts, obs.cols)
        rows, cols, _ = obs.coo()
        places = index[0].find(obs.row_index.ids)[rows], index[1].find(obs.col_index.ids)[cols]
    else:
        given = read_pairs(path)
        places = index[0].find(given[0]), index[1].find(given[1])
    if min(each.max() for each in places) < 0:
        raise InputError(f"{path} has no row or no column of this model: is it what the model was fitted to?")
    return Seen.at(*places, len(index[0]))


def _run(model: Path, output: Path, tasks: list[Task], engine: str, told: Told | None, seen: Path | None = None) -> int:
    """Do all tasks; the folder is there when all of them are done, or not at all."""
    if engine not in ("cpu", "ray"):
        raise InputError(f"engine must be 'cpu' or 'ray', not {engine!r}")
    if output.exists():
        raise InputError(f"{output} is there already: remove it, or name another")
    folder = output.resolve().with_name(output.name + ".partial")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}; remove it, or name another") from None
    try:
        lines = 0
        for done, written in enumerate(_answers((model.resolve(), folder, seen), tasks, engine), 1):
            lines += written
            if told is not None:
                told(done, len(tasks))
        folder.rename(output)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return lines


def _answers(server: tuple[Path, Path, Path | None], tasks: list[Task], engine: str) -> Iterator[int]:
    if engine == "cpu":
        yield from map(Server(*server).do, tasks)
        return
    from accams.engine.ray.cluster import connect

    cluster = connect()
    try:
        yield from cluster.each(Server, server, tasks)
    finally:
        cluster.leave()


def _loaded(path: Path) -> StencilEstimator:
    """A model with ids."""
    if not path.is_file():
        raise InputError(f"there is no model {path} on {gethostname()}: on a cluster, every machine must see it")
    found = load(path)
    if not isinstance(found, StencilEstimator):
        raise InputError(f"{path} has no ids, so that it can predict positions alone: fit a model with accams fit")
    return found


def _write(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    """A Parquet file, whole or not at all."""
    import duckdb

    whole = path.with_name(f".{path.name}")
    with duckdb.connect() as connection:
        connection.register("lines", columns)
        connection.table("lines").write_parquet(str(whole))
    whole.rename(path)
