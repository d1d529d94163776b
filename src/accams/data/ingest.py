"""Convert tables of any size to a store in bounded memory: duckdb sorts on disk, the rest goes block by block.

Intermediate results stay in a folder beside the store until it is complete, so that an interrupted run can resume.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from accams.data import build, netflix, readers, scan, store
from accams.data.archives import with_home
from accams.data.ids import Index
from accams.data.weights import to_ticks, weight_step
from accams.errors import AccamsError, InputError
from accams.threads import ranges_of
from accams.writing import failed, reported

MEMORY = 2 << 30  # bytes
LEAST = 256 << 20
ROOM = "this takes about 60 bytes per observation on disk: free some space, or increase memory"
DATABASE = "work.duckdb"
PER_ENTRY = 256  # bytes per entry of a block in memory, with room to spare
Progress = Callable[[str, float], None]  # called with the current step and the completed share


def ingest(
    sources: Sequence[Path], out: Path, names: dict[str, str | None], duplicates: str = "auto",
    blanks: float | None = None, *, memory: int = MEMORY, progress: Progress = lambda step, share: None,
) -> None:  # fmt: skip
    """Convert one table, or several parts of one, to a store in the folder `out`, which must not exist.

    The sources are tables of text or Parquet, as in `accams.data.readers.read`, or files, folders or archives of the
    Netflix Prize. `names` are the columns of the roles (row, col, value, weight, time), None for those to recognise;
    `memory` is an approximate limit in bytes.
    """
    if out.exists():
        raise InputError(f"{out} already exists: remove it, or choose another path")
    if memory < LEAST:
        raise InputError(f"memory must be at least {LEAST >> 20} MiB")
    build.check_duplicates(duplicates)
    files = [_source(path) for path in sources]
    folder = out.with_name(out.name + ".partial")
    arguments = {"files": files, "names": names, "duplicates": duplicates, "blanks": blanks}
    with _database(folder, out, memory) as con, reported(out, ROOM):
        _resume_or_clear(con, folder, json.loads(json.dumps(arguments)))
        guarded = partial(_guarded, con, out)
        builder = _StoreBuilder(con, guarded, folder, duplicates, blanks, max(1, memory // PER_ENTRY), progress)
        builder.read([Path(file["path"]) for file in files], names)
        builder.sort()
        builder.write()
    build.tell_of_duplicates(duplicates, builder.repeated, builder.entries)
    with reported(out):
        _remove_scratch(folder)
        folder.rename(out)


def _source(path: Path) -> dict[str, Any]:
    """Identify a file, or all files in a folder, by names, sizes and modification times."""
    path = with_home(path).absolute()
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
    stats = [(str(file), about.st_size, about.st_mtime_ns) for file in files for about in [file.lstat()]]
    return {"path": str(path), "bytes": sum(size for _, size, _ in stats), "state": crc32(repr(stats).encode())}


def _remove_scratch(folder: Path) -> None:
    """Remove all that is not part of the store, also what an earlier run with other limits has left.

    The log goes before its database, and the arguments, by which a next run knows the folder, go last.
    """
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    last = f"{DATABASE}.wal", DATABASE, "asked.json"
    others = [path for path in folder.iterdir() if path.suffix != ".npy" and path.name not in (*last, store.MANIFEST)]
    for path in (*others, *(folder / name for name in last)):
        path.unlink(missing_ok=True)


def _resume_or_clear(con: Any, folder: Path, arguments: dict[str, Any]) -> None:
    """Keep the results of an earlier run with the same arguments; remove all others."""
    known = folder / "asked.json"
    try:
        same = known.is_file() and json.loads(known.read_text()) == arguments
    except ValueError:
        same = False
    if same:
        return
    for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        con.execute(f"DROP TABLE {name}")
    for path in folder.glob("*.npy"):
        path.unlink()
    new = folder / "asked.new"
    new.write_text(json.dumps(arguments))
    new.replace(known)


@contextmanager
def _guarded(con: Any, out: Path) -> Iterator[Any]:
    """Lend the connection for one table; a full disk is not told as an error of the table."""
    with reported(out, ROOM):
        yield con


@contextmanager
def _database(folder: Path, out: Path, memory: int) -> Iterator[Any]:
    """Open the database of intermediate results, which also locks the folder.

    After an error (the disk is full, or the data is invalid) the folder is removed, unless it is not ours.
    """
    import duckdb

    ours = not folder.exists()
    try:
        with _opened(folder, out, memory) as con:
            ours = True
            yield con
    except AccamsError:
        if ours:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    except duckdb.Error as error:
        if ours:
            shutil.rmtree(folder, ignore_errors=True)
        raise failed(out, error, ROOM) from None


@contextmanager
def _opened(folder: Path, out: Path, memory: int) -> Iterator[Any]:
    import duckdb

    if not _may_use(folder):
        raise InputError(f"{folder} already exists: remove it, or choose another path for the store")
    scratch, config = folder / "scratch", {"memory_limit": f"{memory // 2 >> 20}MiB"}
    with ExitStack() as opened:
        try:
            with reported(out):
                scratch.mkdir(parents=True, exist_ok=True)
                con = opened.enter_context(scan.connect(scratch, str(folder / DATABASE), config))
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"{folder} is in use by another run, or damaged ({reason}): wait for it to end, or remove the folder"
            ) from None
        yield con


def _may_use(folder: Path) -> bool:
    """Return whether a folder is new, or was left by a run that was killed, be it at its first or its last step."""
    if not folder.exists():
        return True
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else {"a file"}
    return found <= {"scratch"} or bool(found & {DATABASE, "asked.json"}) or store.is_store(folder)


@contextmanager
def _query_progress(con: Any, step: str, progress: Progress) -> Iterator[None]:
    """Report the progress of queries of duckdb twice a second."""
    progress(step, 0.0)
    done = Event()

    def follow() -> None:
        while not done.wait(0.5):
            share = con.query_progress()
            if share > 0:
                progress(step, min(share, 100.0) / 100.0)

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _StoreBuilder:
    """Steps from tables to a store, each of which is skipped if an earlier run has completed it."""

    def __init__(
        self, con: Any, lent: Callable[[], AbstractContextManager[Any]], folder: Path, duplicates: str,
        blanks: float | None, block: int, progress: Progress,
    ) -> None:  # fmt: skip
        self.con, self.folder, self.duplicates, self.blanks, self.block = con, folder, duplicates, blanks, block
        self.lent = lent  # gives the connection to a reader of tables
        self.repeated, self.entries = 0, 0  # entries that repeat a pair, of so many
        self.progress = progress
        con.execute("CREATE TABLE IF NOT EXISTS done (step VARCHAR)")
        con.execute('CREATE TABLE IF NOT EXISTS kinds ("row" VARCHAR, "col" VARCHAR, "time" VARCHAR)')

    def read(self, files: Sequence[Path], names: dict[str, str | None]) -> None:
        """Insert all lines of all files into the table ``raw``."""
        if self._is_done("sorted"):
            return
        known = {name for (name,) in self.con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        for number, path in enumerate(files):
            if self._is_done(f"file {number}"):
                continue
            if "raw" in known:
                self.con.execute("DELETE FROM raw WHERE file = ?", [number])
            step = f"reading {number + 1} of {len(files)}" if len(files) > 1 else "reading"
            if netflix.is_netflix_data(path):
                self._insert_netflix(number, path, names, step)
            else:
                with _query_progress(self.con, step, self.progress):
                    insert = partial(self._insert_table, number)
                    readers.each_table(path, names, self.blanks, lambda scratch: self.lent(), insert)
            self._mark_done(f"file {number}")

    def sort(self) -> None:
        """Number the ids of each axis, and sort all entries by row and column."""
        if self._is_done("sorted"):
            return
        for side in ("row", "col"):
            text = self.con.execute(f"SELECT count(*) FROM kinds WHERE \"{side}\" = 'VARCHAR'").fetchone()[0] > 0
            canonical = "coalesce(CAST(TRY_CAST(id AS BIGINT) AS VARCHAR) = CAST(id AS VARCHAR), false)"
            whole = "false" if text else canonical
            self.con.execute(
                f"CREATE OR REPLACE TABLE {side}_ids AS WITH ids AS (SELECT DISTINCT {side}_id AS id FROM raw), "
                f"kind AS (SELECT bool_and({whole}) AS whole FROM ids) SELECT id, whole, row_number() OVER "
                "(ORDER BY CASE WHEN whole THEN TRY_CAST(id AS BIGINT) END, id) - 1 AS pos FROM ids, kind"
            )
        with _query_progress(self.con, "sorting", self.progress):
            self.con.execute(
                "CREATE OR REPLACE TABLE entries AS SELECT row_ids.pos AS i, col_ids.pos AS j, value, weight, time "
                "FROM raw JOIN row_ids ON row_ids.id = row_id JOIN col_ids ON col_ids.id = col_id "
                "ORDER BY i, j, raw.rowid"
            )
        self._mark_done("sorted")
        self.con.execute("DROP TABLE raw")

    def write(self) -> None:
        files = self._ids("row") | self._ids("col")
        m, n = (self.con.execute(f"SELECT count(*) FROM {side}_ids").fetchone()[0] for side in ("row", "col"))
        if not m:
            raise InputError("there are no ratings in these files")
        ids = {name: np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in files}
        row_index, col_index = store.index(ids, "row", m), store.index(ids, "col", n)
        columns, kinds = self._by_row(row_index, col_index)
        files |= columns
        blanks = None if files["cols"]["size"] == m * n else self.blanks
        step = self._write_numbers(files, kinds, blanks, m * n)
        self.progress("by column", 0.0)
        files |= store.by_column(self.folder, (m, n), self.block, lambda share: self.progress("by column", share))
        for name in kinds:
            (self.folder / f"raw_{name}.npy").unlink()
        weights = np.load(self.folder / "weights.npy", mmap_mode="r") if "weights" in files else None
        about = store.summarize(np.load(self.folder / "values.npy", mmap_mode="r"), weights)
        store.write_manifest(self.folder, files, shape=[m, n], weight_step=step, blank_weight=blanks, about=about)

    def _by_row(self, row_index: Index, col_index: Index) -> tuple[dict[str, Any], list[str]]:
        """Write row starts and columns in row order, and values, weights and times as raw files, which are listed."""
        m = len(row_index)
        counts = np.zeros(m, np.int64)
        sizes = self.con.execute("SELECT i, count(*) AS size FROM entries GROUP BY i").fetchnumpy()
        counts[sizes["i"]] = sizes["size"]
        kinds = self._kinds()
        more = [name for name in kinds if name != "value"]
        cols = store.Column(self.folder / "cols.npy", build.index_type(len(col_index)))
        other = {name: store.Column(self.folder / f"raw_{name}.npy", kind) for name, kind in kinds.items()}
        starts, written = np.concatenate([[0], np.cumsum(counts)]), [np.zeros(1, np.int64)]
        for lo, hi in ranges_of(starts, self.block):
            self.progress("by row", starts[lo] / starts[-1])
            part = self._block(lo, hi, more, row_index, col_index)
            cols.append(part["j"])
            written.append(np.bincount(part["i"] - lo, minlength=hi - lo))
            for name, column in other.items():
                column.append(part[name].astype(kinds[name]))
        if cols.size == 0:
            raise InputError("there are no observations: every weight is 0")
        files = {"cols": cols.close()}
        for column in other.values():
            column.close()
        files["row_starts"] = store.write(self.folder / "row_starts.npy", np.cumsum(np.concatenate(written)))
        return files, list(other)

    def _kinds(self) -> dict[str, str]:
        """Return the types of values, weights and times, as far as present; integer times only if none is missing."""
        counts = "count(weight), count(time), count(*), any_value(typeof(time)) FILTER (time IS NOT NULL)"
        weights, times, entries, kind = self.con.execute(f"SELECT {counts} FROM entries").fetchone()
        kinds = {"value": "f8"} | ({"weight": "f8"} if weights else {})
        if times:
            kinds["time"] = {"TIMESTAMP": "M8[us]", "DOUBLE": "f8"}.get(kind, "i8" if times == entries else "f8")
        return kinds

    def _block(self, lo: int, hi: int, more: list[str], row_index: Index, col_index: Index) -> dict[str, NDArray[Any]]:
        """Fetch and validate the entries of rows [lo, hi), without duplicates."""
        wanted = ", ".join(["i", "j", "value", *more])
        fetched = self.con.execute(f"SELECT {wanted} FROM entries WHERE i >= {lo} AND i < {hi}").fetchnumpy()
        arrays = {name: scan.unmasked(array) for name, array in fetched.items()}
        i, j, x = arrays["i"], arrays["j"], arrays["value"].astype(np.float64)
        w, t = arrays.get("weight"), arrays.get("time")
        if w is not None:
            i, j, x, w, t = build.check_weights(i, j, x, w, t)
        entries = len(i)
        i, j, x, w, t = build.without_duplicates(i, j, x, w, t, self.duplicates, row_index, col_index)
        self.repeated, self.entries = self.repeated + entries - len(i), self.entries + entries
        named = zip(("i", "j", "value", "weight", "time"), (i, j, x, w, t), strict=True)
        return {name: array for name, array in named if array is not None}

    def _write_numbers(self, files: dict[str, Any], kinds: list[str], blanks: float | None, cells: int) -> float:
        """Write weights as multiples of a step, times, and values in the narrowest type; return the step."""
        raw = {name: np.load(self.folder / f"raw_{name}.npy", mmap_mode="r") for name in kinds}

        def pieces(name: str) -> Iterator[NDArray[Any]]:
            return (raw[name][p : p + self.block] for p in range(0, len(raw[name]), self.block))

        step = weight_step(raw["value"], raw.get("weight"), blanks, cells)
        types = {name: array.dtype for name, array in raw.items()}
        types |= {"weight": np.int32, "value": build.narrowest(lambda: pieces("value"))}
        for name in sorted(raw, key=("weight", "time", "value").index):
            column = store.Column(self.folder / f"{name}s.npy", types[name])
            for part in pieces(name):
                column.append(to_ticks(part, step) if name == "weight" else part)
            files[f"{name}s"] = column.close()
        return step

    def _ids(self, side: str) -> dict[str, Any]:
        """Write the ids of one axis in order of their positions."""
        size, whole = self.con.execute(f"SELECT count(*), bool_and(whole) FROM {side}_ids").fetchone()

        def pieces() -> Iterator[NDArray[Any]]:
            for first in range(0, size, self.block):
                place = f"pos >= {first} AND pos < {first + self.block}"
                fetched = self.con.execute(f"SELECT id FROM {side}_ids WHERE {place} ORDER BY pos").fetchnumpy()
                ids = scan.unmasked(fetched["id"])
                yield ids.astype(np.int64) if whole else ids.astype(object)

        return store.write_ids(self.folder, side, pieces())

    def _insert_table(self, number: int, con: Any, table: scan.Table, counts: dict[str, int]) -> None:
        cells = {"row_id": '"row"', "col_id": '"col"', "value": "1.0"}
        cells |= {role: f'"{role}"' for role in ("value", "weight") if role in table.cells}
        times = None
        if counts.get("times"):
            cells["time"], times = scan.time_sql(table, counts)
        kinds = self._common_types(table.id_types["row"], table.id_types["col"], times)
        self._insert(number, cells, kinds, "lines")

    def _insert_netflix(self, number: int, path: Path, names: dict[str, str | None], step: str) -> None:
        """Insert the ratings of the Netflix Prize, some hundreds of thousands at a time."""
        given = [name for name in names.values() if name is not None]
        if given:
            raise InputError(f"{path} holds files of the Netflix Prize, which have no column {given[0]!r}")
        kinds, done = self._common_types("BIGINT", "BIGINT", "BIGINT"), 0
        cells = {"row_id": "users", "col_id": "films", "value": "ratings", "time": "times"}
        for part in netflix.read_chunks(path):
            self.progress(f"{step}: {done / 1e6:.0f} million ratings", 0.0)
            self.con.register("part", {name: getattr(part, name) for name in cells.values()})
            self._insert(number, cells, kinds, "part")
            done += len(part.users)
        self.con.unregister("part")

    def _insert(self, number: int, cells: dict[str, str], kinds: dict[str, str], source: str) -> None:
        """Insert lines into the table ``raw``, which is created or widened as needed."""
        parts = [f"{number}::INTEGER AS file"]
        parts += [f"CAST({cells.get(name, 'NULL')} AS {kind}) AS {name}" for name, kind in kinds.items()]
        select = f"SELECT {', '.join(parts)} FROM {source}"
        self.con.execute(f"CREATE TABLE IF NOT EXISTS raw AS {select} LIMIT 0")
        present = dict(self.con.execute("SELECT name, type FROM pragma_table_info('raw')").fetchall())
        for name, kind in kinds.items():
            if present[name] != kind:  # rewrites all lines so far
                self.con.execute(f"ALTER TABLE raw ALTER {name} TYPE {kind}")
        self.con.execute(f"INSERT INTO raw {select}")

    def _common_types(self, row: str, col: str, times: str | None) -> dict[str, str]:
        """Return common types for the lines of all files up to this one."""
        self.con.execute("INSERT INTO kinds VALUES (?, ?, ?)", [row, col, times])
        kinds = self.con.execute("SELECT DISTINCT * FROM kinds").fetchall()
        row_kinds, col_kinds, time_kinds = ({kind[p] for kind in kinds} for p in range(3))
        time_kinds -= {None}
        if "TIMESTAMP" in time_kinds and len(time_kinds) > 1:
            raise InputError("its times differ in type from those of earlier files: use either numbers or dates")
        ids = ("BIGINT" if side == {"BIGINT"} else "VARCHAR" for side in (row_kinds, col_kinds))
        time = next((kind for kind in ("TIMESTAMP", "DOUBLE", "BIGINT") if kind in time_kinds), "DOUBLE")
        return dict(zip(("row_id", "col_id", "value", "weight", "time"), (*ids, "DOUBLE", "DOUBLE", time), strict=True))

    def _is_done(self, step: str) -> bool:
        return bool(self.con.execute("SELECT count(*) FROM done WHERE step = ?", [step]).fetchone()[0])

    def _mark_done(self, step: str) -> None:
        self.con.execute("INSERT INTO done VALUES (?)", [step])
