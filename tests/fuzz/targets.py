"""What is fuzzed: kinds of files, how they are damaged or made to lie, and everything that is done with them.

A target makes one case after another from a number, writes it into a folder, and uses it. Whatever comes out other than
an answer or an `AccamsError` of one short line is a fault; so is a damaged file that is accepted although its checksums
are wrong (`AcceptedError`).
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from logs import use_log
from matrices import compressed, use_matrix, use_matrix_file
from mutate import (
    Random,
    changed_array,
    changed_arrays,
    changed_bytes,
    changed_json,
    changed_text,
    pick,
)

import accams
from accams import Observations
from accams.data import datasets, store
from accams.data.titles import read_titles
from accams.errors import AccamsError
from accams.fit import checkpoint
from accams.model import container

GOLDEN = Path(__file__).parents[1] / "model" / "golden"
Use = Callable[[Path, Random], None]


class AcceptedError(Exception):
    """A file that should have been refused."""


def ratings() -> np.ndarray:
    random = np.random.default_rng(0)
    matrix = np.clip(np.rint(3 + np.add.outer(random.normal(size=14), random.normal(size=10))), 1, 5)
    matrix[random.random(matrix.shape) < 0.4] = np.nan
    return matrix


# -- model files, histories and checkpoints ---------------------------------------------------------------------------


@cache
def containers(kind: str) -> list[bytes]:
    """Whole files of one kind."""
    if kind == "matrix":
        return compressed()
    if kind == "checkpoint":
        return [checkpoint_of(folder_of("checkpoints"), noise) for noise in ("sampled", "calibrated")]
    names = sorted(path.name for path in GOLDEN.glob("*.accams"))
    return [(GOLDEN / name).read_bytes() for name in names if name.startswith("history") == (kind == "history")]


def container_case(kind: str, path: Path, random: Random) -> bool:
    """Write a file that was damaged (return True), or one that lies with checksums put right."""
    whole = pick(random, containers(kind))
    if random.random() < 0.2:
        damaged = changed_bytes(whole, random)
        path.write_bytes(damaged)
        return damaged != whole
    path.write_bytes(whole)
    header, tensors = container.read(path, kind, 99)
    header = {key: x for key, x in header.items() if key != "checksums"}
    for _ in range(int(random.integers(1, 3))):
        if random.random() < 0.5:
            header = changed_json(header, random)
        else:
            tensors = changed_arrays({name: np.array(x) for name, x in tensors.items()}, random)
    known = {name: x for name, x in tensors.items() if x.dtype.str in container.DTYPES}
    path.write_bytes(container.to_bytes(header if isinstance(header, dict) else {}, known))
    return False


def use_container(kind: str, use: Use) -> Use:
    def run(folder: Path, random: Random) -> None:
        path = folder / "file"
        damaged = container_case(kind, path, random)
        use(path, random)
        if damaged:
            raise AcceptedError

    return run


def use_model(path: Path, random: Random) -> None:
    """Load it, ask some of all that can be asked, and see that it says the same after it has been saved again."""
    model = accams.load(path)
    asked = questions(model, path, 0.05, random)
    for k in random.permutation(len(asked))[:5]:
        allowed(asked[k])
    allowed(lambda: _saved_again(model, _pairs(model), path))


def _pairs(model: accams.Model) -> list[Any]:
    users, items = (index.ids[:3].tolist() or ["nobody"] for index in model.indices)
    return [*zip(users, items, strict=False), ("nobody", "nothing")]


def questions(
    model: accams.Model, path: Path, rare: float = 1.0, random: Random | None = None
) -> list[Callable[[], Any]]:
    """Everything that can be asked of a model; with `random`, slow things with this probability."""
    users, items = (index.ids[:3].tolist() or ["nobody"] for index in model.indices)
    pairs = _pairs(model)
    slow = random is None or random.random() < rare
    return [
        lambda: model.predict(pairs, return_std=True, quantiles=[0.1, 0.9]),
        lambda: model.recommend(users[0], 5),
        lambda: model.recommend(users[-1], 5, quantile=0.2),
        lambda: model.recommend(history={items[0]: 4.0}, n=5),
        lambda: model.recommend(history=items, n=5, by="choice"),
        lambda: model.similar(items[0], 4),
        lambda: model.similar(users[0], 4, side="users"),
        lambda: str(model.explain(users[0], items[0])),
        lambda: str(model.explain(item=items[0], history={items[-1]: 2.0})),
        lambda: str(model.hierarchy()),
        lambda: str(model.hierarchy(side="users")),
        lambda: model.diagnostics(),
        lambda: repr(model) + model._repr_html_(),
        lambda: model.update([("somebody", items[0])], [3.0]).predict([("somebody", items[-1])]),
        lambda: model.forget(users[0]),
        lambda: model.evaluate(pairs[:-1], [3.0] * len(pairs[:-1])),
        lambda: model.fold_in({items[0]: 4.0}),
        lambda: model.transposed.predict([pair[::-1] for pair in pairs]),
        lambda: model.file_size,
        lambda: dict(model.parameters),
        lambda: model.report(path.parent / "page.html") if slow else None,
        lambda: model.compress(1500, verbose=False) if slow else None,
    ]


def _saved_again(model: accams.Model, pairs: list[Any], path: Path) -> None:
    if not model.predicts:
        return
    before = model.predict(pairs)
    model.save(path)
    after = accams.load(path).predict(pairs)
    if not np.array_equal(before, after, equal_nan=True):
        raise AcceptedError(f"it says something else after it has been saved: {before} and {after}")


def allowed(question: Callable[[], Any]) -> None:
    """Ask; one clear sentence is an answer, too."""
    try:
        question()
    except AccamsError as error:
        check_message(error)


def check_message(error: AccamsError) -> None:
    """Raise AcceptedError for a message of several lines or of a thousand characters."""
    if "\n" in str(error) or len(str(error)) > 1000:
        raise AcceptedError(f"its message is too long: {str(error)[:300]!r}")


def use_history(path: Path, random: Random) -> None:
    model = accams.load(GOLDEN / pick(random, ["accams-2.accams", "lists-2.accams"]), history=path)
    allowed(lambda: model.recommend(model.users[0], 3))
    allowed(lambda: model.save(path.with_name("again"), history=True))


def estimator(noise: str, **more: Any) -> accams.BayesianACCAMS:
    return accams.BayesianACCAMS(2, (3, 2), n_sweeps=5, n_chains=2, noise=noise, verbose=False, **more)


def checkpoint_of(folder: Path, noise: str) -> bytes:
    end = lambda x: x.phase == "sampling" and x.sweep == 3  # noqa: E731
    estimator(noise, checkpoint=folder / "run", callbacks=[end]).fit(ratings())
    return (folder / "run").read_bytes()


def use_checkpoint(path: Path, random: Random) -> None:
    header, _ = checkpoint.read(path)
    noise = header["about"]["parameters"].get("noise")
    model = estimator(noise if noise in ("sampled", "calibrated") else "sampled").fit(ratings(), resume=path)
    if not np.isfinite(model.predict([(0, 0), (13, 9)])).all():
        raise AcceptedError("it predicts no numbers")
    model.save(path)
    accams.load(path)


# -- stores -----------------------------------------------------------------------------------------------------------


@cache
def folder_of(name: str) -> Path:
    """A folder for what is damaged, one for each process."""
    import atexit
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix=f"accams-fuzz-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def stores() -> list[Path]:
    """Stores with and without ids, weights and times, of different types."""
    folder, matrix, random = folder_of("stores"), ratings(), np.random.default_rng(1)
    rows, cols = np.nonzero(~np.isnan(matrix))
    values, n = matrix[rows, cols], len(rows)
    made = [
        Observations.from_coo(rows, cols, values, shape=matrix.shape),
        Observations.from_coo(rows, cols, values / 3, weights=random.integers(1, 4, n) / 2, times=np.arange(n)),
        Observations.from_dense(
            np.nan_to_num(matrix), row_ids=[f"é{i}" for i in range(14)], col_ids=[f"f{j}" for j in range(10)]
        ),
    ]
    for k, observations in enumerate(made):
        observations.to_store(folder / str(k))
    return sorted(folder.iterdir())


def use_store(folder: Path, random: Random) -> None:
    path, damaged = folder / "store", False
    shutil.copytree(pick(random, stores()), path)
    meta = json.loads((path / store.MANIFEST).read_text())
    kind = random.random()
    if kind < 0.2:
        file = pick(random, sorted(path.iterdir()))
        before = file.read_bytes()
        after = changed_bytes(before, random)
        file.write_bytes(after)
        damaged = before != after and file.suffix == ".npy"
    elif kind < 0.6:
        (path / store.MANIFEST).write_text(json.dumps(changed_json(meta, random, ())))
    else:
        for _ in range(int(random.integers(1, 3))):
            name = pick(random, sorted(meta["files"]))
            array = np.asarray(changed_array(np.load(path / f"{name}.npy"), random)).reshape(-1)
            meta["files"][name] = store.write(path / f"{name}.npy", array)
        (path / store.MANIFEST).write_text(json.dumps(meta))
    observations = Observations.open(path)
    if damaged:
        raise AcceptedError
    allowed(lambda: observations.row_index.ids.tolist() + observations.col_index.ids.tolist())
    allowed(lambda: [store.order(path, axis, 0, observations.shape[axis]) for axis in (0, 1)])
    for engine in ("cpu", "disk") if random.random() < 0.3 else ():
        allowed(lambda engine=engine: accams.ACCAMS(1, 2, engine=engine, verbose=False).fit(observations))


# -- tables, arrays, archives and titles ------------------------------------------------------------------------------


def table() -> str:
    matrix = ratings()
    cells = [f"{i + 1},{j + 100},{matrix[i, j]:g},{1_000_000 + 10 * i + j}" for i, j in np.argwhere(matrix > 0)[:30]]
    return "\n".join(["user,item,rating,timestamp", *cells]) + "\n"


def use_table(folder: Path, random: Random) -> None:
    text = table().replace(",", pick(random, [",", ",", "\t", "::", ";", " "]))
    text = changed_text(text, random)
    data = text.encode("utf-8", "surrogatepass")
    if random.random() < 0.2:
        data = changed_bytes(data, random)
    path = folder / pick(random, ["t.csv", "t.tsv", "t.txt", "t.dat", "t.data"])
    path.write_bytes(data)
    _use_file(path, random)


def _use_file(path: Path, random: Random) -> None:
    more = {"zeros": "observed"} if random.random() < 0.1 else {}
    more |= {"duplicates": "mean"} if random.random() < 0.3 else {}
    observations = Observations.from_file(path, **more)
    if not np.isfinite(observations.values).all() or min(observations.shape) < 1:
        raise AcceptedError("observations that cannot be")
    if random.random() < 0.1:
        allowed(lambda: accams.ACCAMS(1, 2, verbose=False).fit(observations))


@cache
def binaries() -> dict[str, bytes]:
    """The same ratings as Parquet, NumPy and packed files."""
    import duckdb

    folder = folder_of("binaries")
    (folder / "t.csv").write_text(table())
    duckdb.sql(f"copy (select * from '{folder / 't.csv'}') to '{folder / 't.parquet'}'")
    matrix = np.nan_to_num(ratings())
    sp.save_npz(folder / "csr.npz", sp.csr_array(matrix))
    sp.save_npz(folder / "csc.npz", sp.csc_matrix(matrix), compressed=False)
    sp.save_npz(folder / "coo.npz", sp.coo_array(matrix))
    np.save(folder / "dense.npy", ratings())
    np.savez(folder / "arrays.npz", rows=np.arange(9), cols=np.arange(9) % 4, values=np.arange(9.0))
    with zipfile.ZipFile(folder / "t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "t.csv", "t.csv")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix != ".csv"}


def use_binary(folder: Path, random: Random) -> None:
    name = pick(random, sorted(binaries()))
    path, content = folder / name, binaries()[name]
    if name.endswith(".npz") and random.random() < 0.7:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            lies = changed_arrays({key: np.array(arrays[key]) for key in arrays}, random)
        np.savez(path, **lies)
    else:
        path.write_bytes(changed_bytes(content, random))
    _use_file(path, random)


@cache
def archive_files() -> dict[str, bytes]:
    rows = [line.split(",") for line in table().splitlines()[1:]]
    films = [f"{100 + j}|Film {j} (199{j})|01-Jan-1995||http://x|0|1".encode("latin-1") for j in range(10)]
    return {
        "ml-100k/u.data": "\n".join("\t".join(row) for row in rows).encode(),
        "ml-100k/u.item": b"\n".join(films),
        "ml-100k/README": b"hello",
    }


def use_archive(folder: Path, random: Random) -> None:
    files = dict(archive_files())
    name = pick(random, sorted(files))
    files[name] = changed_bytes(files[name], random)
    if random.random() < 0.2:
        files[pick(random, ["../../evil", "/etc/evil", "ml-100k/u.data", "x" * 300])] = files.pop(name)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, content in files.items():
            archive.writestr(key, content)
    data = changed_bytes(out.getvalue(), random) if random.random() < 0.4 else out.getvalue()
    (folder / "ml-100k.zip").write_bytes(data)
    datasets.movielens("100k", folder)


@cache
def titled_model() -> accams.Model:
    return accams.load(GOLDEN / "accams-2.accams")


def use_titles(folder: Path, random: Random) -> None:
    model = titled_model()
    lines = ["item,title", *(f'{item},"Film {k}"' for k, item in enumerate(model.items))]
    path = folder / "titles.csv"
    path.write_bytes(changed_text("\n".join(lines), random).encode("utf-8", "surrogatepass"))
    titles = read_titles(path, model.col_index)
    if random.random() < 0.02:
        hostile = {item: pick(random, HOSTILE) + str(title) for item, title in titles.items()}
        allowed(lambda: model.report(folder / "page.html", titles=hostile))
        if MARK in (folder / "page.html").read_text():
            raise AcceptedError("a title reached the page as it is")


MARK = "<img src=x onerror=alert(1)>"
HOSTILE = [MARK, f"</script>{MARK}", f"--><!-- {MARK}", f"'\"`{MARK}", f"\u2028{MARK}"]

USES: dict[str, Use] = {
    "model": use_model, "history": use_history, "checkpoint": use_checkpoint, "matrix": use_matrix, "table": _use_file,
}  # fmt: skip
TARGETS: dict[str, Use] = {
    **{kind: use_container(kind, USES[kind]) for kind in ("model", "history", "checkpoint", "matrix")},
    "store": use_store,
    "table": use_table,
    "binary": use_binary,
    "matrix-file": use_matrix_file,
    "archive": use_archive,
    "titles": use_titles,
    "log": use_log,
}
