"""Recommend to all users, or predict many pairs, into folders of Parquet files: locally or on a Ray cluster."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

from numpy.typing import NDArray

from accams.data import store
from accams.data.ids import Index
from accams.data.inputs import Choices, read_choices
from accams.data.observations import Observations
from accams.data.readers import read_pairs
from accams.errors import InputError, renamed
from accams.fitted.files import adopt_history, load_history
from accams.fitted.listing import weights_in
from accams.fitted.loading import load_model
from accams.fitted.model import Model
from accams.model import container
from accams.model.interactions import Interactions
from accams.writing import new_folder, reported

__all__ = ["predict_all", "recommend_all"]

Progress = Callable[[int, int], None]  # finished files, all files


class Task(NamedTuple):
    """One file: the number of it, and the method of `Server` with its arguments that computes the columns."""

    kind: str
    number: int
    arguments: tuple[Any, ...]


@renamed(seen="history", told="progress")
def recommend_all(
    model: str | Path, output: str | Path, n: int = 10, *, history: str | Path | None = None,
    include_seen: bool = False, std: bool = False, rows_per_file: int = 20_000, engine: str = "cpu",
    progress: Progress | None = None,
) -> int:  # fmt: skip
    """Write the best items of every user of a saved model, as a folder of Parquet files.

    Parameters
    ----------
    model, output : path
        Model file, and folder to create; on a cluster, every machine must see both.
    n : int
        Items per user.
    history : path, optional
        Interactions, for a model file without them: a history file, a table or a store.
    include_seen : bool
        Whether to recommend what a user has observed, too.
    std : bool
        Add standard deviations (models with a predictive spread).
    rows_per_file : int
    engine : {"cpu", "ray"}
        This machine, or the Ray cluster that this process is connected to.
    progress : callable, optional
        Called after each file with the numbers of finished files and of all files.

    Returns
    -------
    int
        Number of lines. Columns of ids are named as in the training data (or user and item).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix).model_
    >>> with TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.accams")
    ...     recommend_all(f"{folder}/model.accams", f"{folder}/best", n=2, include_seen=True)
    8
    """
    one = _loaded(Path(model))
    if history is not None and not len(one.row_index):
        one = with_history(one, Path(history))
    rows = len(one.row_index)
    if not rows:
        raise InputError("this model holds no users: pass history (what they chose)")
    starts = range(0, rows, rows_per_file)
    tasks = [Task("best", p, (lo, min(rows, lo + rows_per_file), n, include_seen, std)) for p, lo in enumerate(starts)]
    path = None if history is None else Path(history).resolve()
    return _run(Path(model), Path(output), tasks, engine, progress, path)


@renamed(told="progress")
def predict_all(
    model: str | Path, rows: NDArray[Any], cols: NDArray[Any], output: str | Path, *, std: bool = False,
    names: tuple[str, str] | None = None, pairs_per_file: int = 1_000_000, engine: str = "cpu",
    progress: Progress | None = None,
) -> int:  # fmt: skip
    """Write predictions of pairs of user and item ids by a saved model, as a folder of Parquet files.

    Parameters
    ----------
    model : path
        Model file; on a cluster, every machine must see it and `output`.
    rows, cols : arrays of ids
        User and item of each pair.
    output : path
        Folder to create.
    std : bool
        Add standard deviations (models with a predictive spread).
    names : (str, str), optional
        Names of the columns of ids; by default those of the table to which the model was fitted, or user and item.
    pairs_per_file : int
    engine : {"cpu", "ray"}
        This machine, or the Ray cluster that this process is connected to.
    progress : callable, optional
        Called after each file with the numbers of finished files and of all files.

    Returns
    -------
    int
        Number of lines.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix).model_
    >>> with TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.accams")
    ...     predict_all(f"{folder}/model.accams", np.array([0, 3]), np.array([0, 2]), f"{folder}/predicted")
    2
    """
    if len(rows) != len(cols) or not len(rows):
        both = f"{len(rows):,} row ids and {len(cols):,} column ids"
        raise InputError(f"there are {both}: pass equally many, at least one")
    cuts = [slice(lo, lo + pairs_per_file) for lo in range(0, len(rows), pairs_per_file)]
    tasks = [Task("predicted", p, (rows[cut], cols[cut], names, std)) for p, cut in enumerate(cuts)]
    return _run(Path(model), Path(output), tasks, engine, progress)


class Server:
    """Computes and writes one file after another."""

    def __init__(self, model: Path, folder: Path, output: Path, seen: Path | None = None) -> None:
        self._path, self._folder, self._output, self._seen = model, folder, output, seen
        self._model: Model | None = None

    def do(self, task: Task) -> int:
        """Write the file of a task; return its number of lines."""
        if self._model is None:
            self._model = _loaded(self._path)
            if self._seen is not None:
                self._model = with_history(self._model, self._seen)
        columns: dict[str, NDArray[Any]] = getattr(self, f"_{task.kind}")(self._model, *task.arguments)
        if not self._folder.is_dir():
            raise InputError(f"{gethostname()} cannot see {self._folder}: name a folder that every machine sees")
        with reported(self._output):  # by the name that the folder will have
            _write(self._folder / f"part-{task.number:05}.parquet", columns)
        return len(next(iter(columns.values())))

    def _best(self, model: Model, lo: int, hi: int, n: int, include_seen: bool, std: bool) -> dict[str, NDArray[Any]]:
        best = model.recommend(model.users[lo:hi], n, exclude_seen=not include_seen, return_std=std)
        names = dict(zip(("user", "item"), model.id_names, strict=True))
        return {names.get(name, name): x for name, x in best.to_dict().items()}

    def _predicted(
        self, model: Model, rows: NDArray[Any], cols: NDArray[Any], names: tuple[str, str] | None, std: bool
    ) -> dict[str, NDArray[Any]]:
        pairs = list(zip(rows.tolist(), cols.tolist(), strict=True))
        predicted = model.predict(pairs, return_std=True) if std else (model.predict(pairs),)
        user, item = names or model.id_names
        return {user: rows, item: cols, **dict(zip(("prediction", "std"), predicted, strict=False))}


def with_history(model: Model, path: Path) -> Model:
    """Return a model that knows what its users have seen, from a history file, a store or a table.

    A model of lists that holds no users takes them from there.
    """
    if container.is_container(path):
        return load_history(model, path)
    if model.item_map is None and not store.is_store(path):
        users, items, _ = read_pairs(path)
        rows, places = Index.of(users)
        columns, at = Index.of(items)
        return adopt_history(model, rows, columns, Interactions.at(places, at, len(rows)), path)
    choices = Choices(Observations.open(path)) if store.is_store(path) else read_choices(path)
    seen, weights = choices.observations, None
    if model.item_map is not None:
        weights = weights_in(choices, model).astype("float32")
    return adopt_history(model, seen.row_index, seen.col_index, Interactions(seen.row_starts, seen.cols, weights), path)


def _run(
    model: Path, output: Path, tasks: list[Task], engine: str, progress: Progress | None, seen: Path | None = None
) -> int:
    """Run all tasks; the folder gets its name when all files are complete."""
    if engine not in ("cpu", "ray"):
        raise InputError(f"engine must be 'cpu' or 'ray', not {engine!r}")
    if output.exists():
        raise InputError(f"{output} exists already: remove it, or name another")
    lines = 0
    with new_folder(output.resolve()) as folder:
        for done, written in enumerate(_answers((model.resolve(), folder, output, seen), tasks, engine), 1):
            lines += written
            if progress is not None:
                progress(done, len(tasks))
        for left in folder.glob(".*"):  # by a worker that was killed
            left.unlink(missing_ok=True)
    return lines


def _answers(server: tuple[Path, Path, Path, Path | None], tasks: list[Task], engine: str) -> Iterator[int]:
    if engine == "cpu":
        yield from map(Server(*server).do, tasks)
        return
    from accams.engine.ray.cluster import connect

    cluster = connect()
    try:
        yield from cluster.each(Server, server, tasks)
    finally:
        cluster.leave()


def _loaded(path: Path) -> Model:
    if not path.is_file():
        raise InputError(f"there is no model {path} on {gethostname()}: on a cluster, every machine must see it")
    return load_model(path)


def _write(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    import duckdb

    whole = path.with_name(f".{path.name}-{gethostname()}-{os.getpid()}")
    with duckdb.connect() as connection:
        connection.register("lines", columns)
        connection.table("lines").write_parquet(str(whole))
    whole.rename(path)
