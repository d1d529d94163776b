"""From tables of any size to a store, in bounded memory: duckdb sorts on disk, and the rest goes block by block.

What has been done stays in a folder beside the store until it is complete: a run that was stopped goes on from there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from accams.data import build, netflix, readers, scan, store
from accams.data.by_column import by_column
from accams.data.ids import Index
from accams.data.weights import to_ticks, weight_step
from accams.errors import AccamsError, InputError

MEMORY = 2 << 30  # bytes
LEAST = 256 << 20
PER_ENTRY = 256  # bytes that an entry takes while its block is worked on, with room to spare
Told = Callable[[str, float], None]  # what is being done, and how much of it is


def ingest(
    sources: Sequence[Path], out: Path, names: dict[str, str | None], duplicates: str = "error",
    blanks: float | None = None, *, memory: int = MEMORY, told: Told = lambda what, share: None,
) -> None:  # fmt: skip
    """Make a store of one table, or of several that belong together.

    Parameters
    ----------
    sources : paths
        Tables of text or Parquet, as `accams.data.readers.read` takes them; files, folders or archives of the Netflix
        Prize.
    out : path
        A folder that is not there yet.
    names : dict
        Columns by their roles (row, col, value, weight, time); None for those to recognise.
    memory : int
        Bytes that may be used, about.
    told : callable
        Is told what is being done.
    """
    if out.exists():
        raise InputError(f"{out} is there already: remove it, or name another")
    if memory < LEAST:
        raise InputError(f"ingesting needs at least {LEAST >> 20} MiB of memory")
    build.check_duplicates(duplicates)
    files = [_source(each) for each in sources]
    folder = out.with_name(out.name + ".partial")
    asked = {"files": files, "names": names, "duplicates": duplicates, "blanks": blanks}
    with _database(folder, out, memory) as con, _cleared_after_errors(folder, out):
        _begin(con, folder, json.loads(json.dumps(asked)))
        work = _Work(con, folder, duplicates, blanks, max(1, memory // PER_ENTRY), told)
        work.read([Path(each["path"]) for each in files], names)
        work.sort()
        work.write()
    for scratch in ("work.duckdb", "work.duckdb.wal", "asked.json"):
        (folder / scratch).unlink(missing_ok=True)
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    folder.rename(out)


def _source(path: Path) -> dict[str, Any]:
    """A file, or all in a folder, as it is now: one that has changed since is another."""
    found = path.expanduser().absolute()
    below = sorted(found.rglob("*")) if found.is_dir() else [found] if found.exists() else []
    stats = [(str(each), about.st_size, about.st_mtime_ns) for each in below for about in [each.lstat()]]
    return {"path": str(found), "bytes": sum(size for _, size, _ in stats), "state": crc32(repr(stats).encode())}


def _begin(con: Any, folder: Path, asked: dict[str, Any]) -> None:
    """Keep what another run with the same sources has done, and nothing else."""
    known = folder / "asked.json"
    try:
        same = known.is_file() and json.loads(known.read_text()) == asked
    except ValueError:
        same = False
    if same:
        return
    for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        con.execute(f"DROP TABLE {name}")
    for path in (*folder.glob("*.npy"), *folder.glob("bucket-*.bin")):
        path.unlink()
    new = folder / "asked.new"
    new.write_text(json.dumps(asked))
    new.replace(known)


@contextmanager
def _cleared_after_errors(folder: Path, out: Path) -> Iterator[None]:
    """Leave nothing behind where there is no room for it, or where the data is at fault."""
    import duckdb

    try:
        yield
    except AccamsError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except (OSError, duckdb.IOException, duckdb.OutOfMemoryException) as error:
        shutil.rmtree(folder, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise InputError(
            f"{out} cannot be written ({reason}): it needs some 60 bytes per observation on disk while it is made; "
            "free some space, or allow more memory"
        ) from None


@contextmanager
def _database(folder: Path, out: Path, memory: int) -> Iterator[Any]:
    """A database in a folder for what is done on the way; nobody else can have it at the same time."""
    import duckdb

    if folder.exists() and not (folder / "work.duckdb").is_file() and any(folder.iterdir()):
        raise InputError(f"{folder} is in the way: remove it, or name another store")
    scratch, config = folder / "scratch", {"memory_limit": f"{memory // 2 >> 20}MiB"}
    with ExitStack() as opened:
        try:
            scratch.mkdir(parents=True, exist_ok=True)
            con = opened.enter_context(scan.connect(scratch, str(folder / "work.duckdb"), config))
        except OSError as error:
            raise InputError(f"{out} cannot be written: {error.strerror}") from None
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"{folder} is in use by another run, or damaged ({reason}): wait for that to end, or remove the folder"
            ) from None
        yield con


@contextmanager
def _followed(con: Any, what: str, told: Told) -> Iterator[None]:
    """Tell how far duckdb is, from time to time."""
    told(what, 0.0)
    done = Event()

    def follow() -> None:
        while not done.wait(0.5):
            share = con.query_progress()
            if share > 0:
                told(what, min(share, 100.0) / 100.0)

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Work:
    """The steps, each of which knows whether it has been done."""

    def __init__(self, con: Any, folder: Path, duplicates: str, blanks: float | None, block: int, told: Told) -> None:
        self.con, self.folder, self.duplicates, self.blanks, self.block = con, folder, duplicates, blanks, block
        self.told = told
        con.execute("CREATE TABLE IF NOT EXISTS done (step VARCHAR)")
        con.execute('CREATE TABLE IF NOT EXISTS kinds ("row" VARCHAR, "col" VARCHAR, "time" VARCHAR)')

    def read(self, files: Sequence[Path], names: dict[str, str | None]) -> None:
        """All lines of all files into one table."""
        if self._is_done("sorted"):
            return
        known = {name for (name,) in self.con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        for number, path in enumerate(files):
            if self._is_done(f"file {number}"):
                continue
            if "raw" in known:
                self.con.execute("DELETE FROM raw WHERE file = ?", [number])
            what = f"reading {number + 1} of {len(files)}" if len(files) > 1 else "reading"
            if netflix.are_here(path):
                self._take_netflix(number, path, names, what)
            else:
                with _followed(self.con, what, self.told):
                    readers.each_table(path, names, self.blanks, self._connected, partial(self._take, number))
            self._done(f"file {number}")

    def sort(self) -> None:
        """Ids by their positions, and all entries by row and column."""
        if self._is_done("sorted"):
            return
        for side in ("row", "col"):
            text = self.con.execute(f"SELECT count(*) FROM kinds WHERE \"{side}\" = 'VARCHAR'").fetchone()[0] > 0
            whole = "coalesce(CAST(TRY_CAST(id AS BIGINT) AS VARCHAR) = CAST(id AS VARCHAR), false)"
            whole = "false" if text else whole
            self.con.execute(
                f"CREATE OR REPLACE TABLE {side}_ids AS WITH found AS (SELECT DISTINCT {side}_id AS id FROM raw), "
                f"kind AS (SELECT bool_and({whole}) AS whole FROM found) SELECT id, whole, row_number() OVER "
                "(ORDER BY CASE WHEN whole THEN TRY_CAST(id AS BIGINT) END, id) - 1 AS pos FROM found, kind"
            )
        with _followed(self.con, "sorting", self.told):
            self.con.execute(
                "CREATE OR REPLACE TABLE entries AS SELECT row_ids.pos AS i, col_ids.pos AS j, value, weight, time "
                "FROM raw JOIN row_ids ON row_ids.id = row_id JOIN col_ids ON col_ids.id = col_id "
                "ORDER BY i, j, raw.rowid"
            )
        self._done("sorted")
        self.con.execute("DROP TABLE raw")

    def write(self) -> None:
        """The files of the store."""
        files = self._ids("row") | self._ids("col")
        m, n = (self.con.execute(f"SELECT count(*) FROM {side}_ids").fetchone()[0] for side in ("row", "col"))
        if not m:
            raise InputError("there are no ratings in these files")
        ids = {name: np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in files}
        row_index, col_index = store.index(ids, "row", m), store.index(ids, "col", n)
        columns, kinds = self._by_row(row_index, col_index)
        files |= columns
        blanks = None if files["cols"]["size"] == m * n else self.blanks
        step = self._weights(files, blanks, m * n)
        self._values(files)
        self.told("by column", 0.0)
        files |= by_column(self.folder, (m, n), self.block, lambda share: self.told("by column", share))
        for name in kinds:
            (self.folder / f"{name}.npy").unlink()
        weights = np.load(self.folder / "weights.npy", mmap_mode="r") if "weights" in files else None
        about = store.about(np.load(self.folder / "values.npy", mmap_mode="r"), weights)
        store.write_manifest(self.folder, files, shape=[m, n], weight_step=step, blank_weight=blanks, about=about)

    # -- parts ------------------------------------------------------------------------------------------------

    def _by_row(self, row_index: Index, col_index: Index) -> tuple[dict[str, Any], list[str]]:
        """Row starts, columns and what else there is of each entry, in row order; the latter as it came."""
        m = len(row_index)
        counts = np.zeros(m, np.int64)
        found = self.con.execute("SELECT i, count(*) AS size FROM entries GROUP BY i").fetchnumpy()
        counts[found["i"]] = found["size"]
        kinds = self._kinds()
        more = [name for name in kinds if name != "value"]
        cols = store.Column(self.folder / "cols.npy", build.index_type(len(col_index)))
        other: dict[str, store.Column] = {}
        ends, written = np.cumsum(counts), [np.zeros(1, np.int64)]
        cuts = np.unique(np.searchsorted(ends, np.arange(self.block, ends[-1], self.block)) + 1)
        for lo, hi in pairwise([0, *cuts[cuts < m].tolist(), m]):
            self.told("by row", ends[lo - 1] / ends[-1] if lo else 0.0)
            part = self._part(lo, hi, more, row_index, col_index)
            cols.append(part["j"])
            written.append(np.bincount(part["i"] - lo, minlength=hi - lo))
            for name in ("value", *more):
                if name not in other:
                    other[name] = store.Column(self.folder / f"raw_{name}.npy", kinds[name])
                other[name].append(part[name].astype(kinds[name]))
        if cols.size == 0:
            raise InputError("there are no observations: every weight is 0")
        files = {"cols": cols.close()}
        for each in other.values():
            each.close()
        files["row_starts"] = store.write(self.folder / "row_starts.npy", np.cumsum(np.concatenate(written)))
        return files, [f"raw_{name}" for name in other]

    def _kinds(self) -> dict[str, str]:
        """The types of values, weights and times, where there are any; whole times, if none is missing."""
        asked = "count(weight), count(time), count(*), any_value(typeof(time)) FILTER (time IS NOT NULL)"
        weights, times, entries, kind = self.con.execute(f"SELECT {asked} FROM entries").fetchone()
        found = {"value": "f8"} | ({"weight": "f8"} if weights else {})
        if times:
            found["time"] = {"TIMESTAMP": "M8[us]", "DOUBLE": "f8"}.get(kind, "i8" if times == entries else "f8")
        return found

    def _part(self, lo: int, hi: int, more: list[str], row_index: Index, col_index: Index) -> dict[str, NDArray[Any]]:
        """The entries of rows lo .. hi, checked, those that come twice made one."""
        wanted = ", ".join(["i", "j", "value", *more])
        found = self.con.execute(f"SELECT {wanted} FROM entries WHERE i >= {lo} AND i < {hi}").fetchnumpy()
        found = {name: scan.unmasked(each) for name, each in found.items()}
        i, j, x = found["i"], found["j"], found["value"].astype(np.float64)
        w, t = found.get("weight"), found.get("time")
        if w is not None:
            i, j, x, w, t = build.check_weights(i, j, x, w, t)
        i, j, x, w, t = build.without_duplicates(i, j, x, w, t, self.duplicates, row_index, col_index)
        return {name: each for name, each in zip(("i", "j", "value", "weight", "time"), (i, j, x, w, t), strict=True)
                if each is not None}  # fmt: skip

    def _weights(self, files: dict[str, Any], blanks: float | None, cells: int) -> float:
        """Weights as whole numbers of a step, and times; the step."""
        values, weights, times = (self._raw(name) for name in ("value", "weight", "time"))
        assert values is not None
        step = weight_step(values, weights, blanks, cells)
        if weights is not None:
            files["weights"] = self._converted("weights", weights, np.int32, lambda part: to_ticks(part, step))
        if times is not None:
            files["times"] = self._converted("times", times, times.dtype, lambda part: part)
        return step

    def _values(self, files: dict[str, Any]) -> None:
        """Values in the narrowest type that holds them."""
        values = self._raw("value")
        assert values is not None
        kind = build.narrowest(self._pieces(values))
        files["values"] = self._converted("values", values, kind, lambda part: part)

    def _converted(
        self, name: str, raw: NDArray[Any], kind: Any, change: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> dict[str, Any]:
        column = store.Column(self.folder / f"{name}.npy", kind)
        for part in self._pieces(raw)():
            column.append(change(part))
        return column.close()

    def _pieces(self, values: NDArray[Any]) -> Callable[[], Iterator[NDArray[Any]]]:
        return lambda: (values[p : p + self.block] for p in range(0, len(values), self.block))

    def _raw(self, name: str) -> NDArray[Any] | None:
        path = self.folder / f"raw_{name}.npy"
        return np.load(path, mmap_mode="r") if path.is_file() else None

    def _ids(self, side: str) -> dict[str, Any]:
        """Files of the ids of one axis, by their positions."""
        size, whole = self.con.execute(f"SELECT count(*), bool_and(whole) FROM {side}_ids").fetchone()

        def pieces() -> Iterator[NDArray[Any]]:
            for first in range(0, size, self.block):
                place = f"pos >= {first} AND pos < {first + self.block}"
                found = self.con.execute(f"SELECT id FROM {side}_ids WHERE {place} ORDER BY pos").fetchnumpy()["id"]
                ids = scan.unmasked(found)
                yield ids.astype(np.int64) if whole else ids.astype(object)

        return store.write_ids(self.folder, side, pieces())

    @contextmanager
    def _connected(self, scratch: Path) -> Iterator[Any]:
        yield self.con

    def _take(self, number: int, con: Any, table: scan.Table, counts: dict[str, int]) -> None:
        """Add the lines of a table that has no faults, all or none; `number` is that of the file."""
        import duckdb

        cells = {"row_id": '"row"', "col_id": '"col"', "value": "1.0"}
        cells |= {role: f'"{role}"' for role in ("value", "weight") if role in table.cells}
        if counts.get("times"):
            cells["time"] = scan.time_sql(table, counts)
        try:
            kinds = self._agreed(table.id_types["row"], table.id_types["col"], _kind_of_times(table, counts))
            self._insert(number, cells, kinds, "lines")
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise OSError(28, str(error).splitlines()[0]) from None  # not the fault of the table

    def _take_netflix(self, number: int, path: Path, names: dict[str, str | None], what: str) -> None:
        """Add the ratings of the Netflix Prize, some hundreds of thousands at a time."""
        given = [name for name in names.values() if name is not None]
        if given:
            raise InputError(f"{path} has the files of the Netflix Prize, which have no column {given[0]!r}")
        kinds, done = self._agreed("BIGINT", "BIGINT", "BIGINT"), 0
        cells = {"row_id": "users", "col_id": "films", "value": "ratings", "time": "times"}
        for part in netflix.lines_of(path):
            self.told(f"{what}: {done / 1e6:.0f} million ratings", 0.0)
            self.con.register("part", {name: getattr(part, name) for name in cells.values()})
            self._insert(number, cells, kinds, "part")
            done += len(part.users)
        self.con.unregister("part")

    def _insert(self, number: int, cells: dict[str, str], kinds: dict[str, str], source: str) -> None:
        """Add lines to those that there are."""
        parts = [f"{number}::INTEGER AS file"]
        parts += [f"CAST({cells.get(name, 'NULL')} AS {kind}) AS {name}" for name, kind in kinds.items()]
        select = f"SELECT {', '.join(parts)} FROM {source}"
        self.con.execute(f"CREATE TABLE IF NOT EXISTS raw AS {select} LIMIT 0")
        there = dict(self.con.execute("SELECT name, type FROM pragma_table_info('raw')").fetchall())
        for name, kind in kinds.items():
            if there[name] != kind:  # all lines so far are written anew
                self.con.execute(f"ALTER TABLE raw ALTER {name} TYPE {kind}")
        self.con.execute(f"INSERT INTO raw {select}")

    def _agreed(self, row: str, col: str, times: str | None) -> dict[str, str]:
        """Types for the lines of all files up to this one."""
        self.con.execute("INSERT INTO kinds VALUES (?, ?, ?)", [row, col, times])
        found = self.con.execute("SELECT DISTINCT * FROM kinds").fetchall()
        rows, cols, moments = ({each[p] for each in found} for p in range(3))
        moments -= {None}
        if "TIMESTAMP" in moments and len(moments) > 1:
            raise InputError("its times are of another kind than those of the files before: numbers or dates, not both")
        ids = ("BIGINT" if each == {"BIGINT"} else "VARCHAR" for each in (rows, cols))
        time = next((kind for kind in ("TIMESTAMP", "DOUBLE", "BIGINT") if kind in moments), "DOUBLE")
        return dict(zip(("row_id", "col_id", "value", "weight", "time"), (*ids, "DOUBLE", "DOUBLE", time), strict=True))

    def _is_done(self, step: str) -> bool:
        return bool(self.con.execute("SELECT count(*) FROM done WHERE step = ?", [step]).fetchone()[0])

    def _done(self, step: str) -> None:
        self.con.execute("INSERT INTO done VALUES (?)", [step])


def _kind_of_times(table: scan.Table, counts: dict[str, int]) -> str | None:
    """The type of a table's times, if it has any."""
    if not counts.get("times"):
        return None
    if not table.times_are_numbers:
        return "TIMESTAMP"
    return "BIGINT" if counts["whole_times"] == counts["times"] else "DOUBLE"
