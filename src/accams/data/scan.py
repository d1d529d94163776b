"""Read tables of any size with duckdb: validate in one scan, fetch as arrays in a second.

Lines never become Python objects, only the distinct ids do.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.errors import InputError

INTEGER_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
FLOAT_TYPES = ("FLOAT", "DOUBLE", "DECIMAL")
CONFIG = {"autoinstall_known_extensions": "false", "preserve_insertion_order": "true"}
INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Table:
    """A relation of duckdb, and the expressions of its roles (row, col, value, weight, time)."""

    relation: str  # SQL after FROM
    cells: Mapping[str, str]  # SQL of the cell of each role; NULL if missing
    id_types: Mapping[str, str]  # of row and col: BIGINT, VARCHAR for text, ? for text that may be all integers
    times_are_numbers: bool = True  # rather than timestamps
    uneven: str = "false"  # SQL condition of a line with too many or too few cells
    entry: str = "0"  # SQL of the line number, if known

    def faults(self) -> dict[str, str]:
        """Return the SQL condition of an invalid cell for each role."""
        conditions = {"uneven": "uneven", "row": '"row" IS NULL', "col": '"col" IS NULL'}
        for role in ("value", "weight"):
            if role in self.cells:
                conditions[role] = f'NOT coalesce(isfinite(TRY_CAST("{role}" AS DOUBLE)), false)'
        if "time" in self.cells:
            kind = "DOUBLE" if self.times_are_numbers else "TIMESTAMPTZ"
            conditions["time"] = f'"time" IS NOT NULL AND TRY_CAST("time" AS {kind}) IS NULL'
        return conditions


@contextmanager
def connect(scratch: Path, database: str = ":memory:", more: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Connect to a database (in memory by default) that spills to `scratch` and never downloads extensions."""
    import duckdb

    con = duckdb.connect(database, config={"temp_directory": str(scratch), **CONFIG, **(more or {})})
    try:
        con.execute("SET enable_progress_bar = false")
        yield con
    finally:
        con.close()


def survey(con: Any, table: Table) -> dict[str, int]:
    """Scan the table once: collect the distinct ids, and count lines and invalid cells per role."""
    counts = _counts(con, table)
    columns = ", ".join(f"{sql} AS {name}" for name, sql in counts.items())
    con.execute(
        f'CREATE OR REPLACE TEMP TABLE distinct_ids AS SELECT "row", "col", grouping("row") AS axis, {columns} '
        'FROM lines GROUP BY GROUPING SETS (("row"), ("col"))'
    )
    sums = ", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in counts)
    values = con.execute(f"SELECT {sums} FROM distinct_ids WHERE axis = 0").fetchone()
    return dict(zip(counts, values, strict=True))


def count(con: Any, table: Table) -> dict[str, int]:
    """Scan the table once, and count lines and invalid cells per role."""
    counts = _counts(con, table)
    values = con.execute(f"SELECT {', '.join(counts.values())} FROM lines").fetchone()
    return dict(zip(counts, values, strict=True))


def _counts(con: Any, table: Table) -> dict[str, str]:
    """Create the view ``lines`` of the table's cells, and return the SQL of its counts."""
    cells = ", ".join(f'{cell} AS "{role}"' for role, cell in table.cells.items())
    con.execute(
        f"CREATE OR REPLACE TEMP VIEW lines AS SELECT {cells}, {table.uneven} AS uneven, "
        f"{table.entry} AS entry FROM {table.relation}"
    )
    if not table.times_are_numbers:
        con.execute("SET TimeZone = 'UTC'")
    counts = {f"bad_{role}": f"count(*) FILTER ({condition})" for role, condition in table.faults().items()}
    counts["lines"] = "count(*)"
    if "time" in table.cells:
        counts["times"] = 'count("time")'
        integer = 'count(*) FILTER (TRY_CAST("time" AS BIGINT) = TRY_CAST("time" AS DOUBLE))'
        counts["integer_times"] = integer if table.times_are_numbers else "0"
    return counts


def first_faults(con: Any, table: Table, roles: Sequence[str]) -> list[tuple[str, int, str | None]]:
    """Return role, line number and cell of the first invalid line of each role."""
    query = 'SELECT entry, CAST("{}" AS VARCHAR) FROM lines WHERE {} LIMIT 1'
    found = list[tuple[str, int, str | None]]()
    for role in roles:
        line = con.execute(query.format(role, table.faults()[role])).fetchone()
        if line is None:  # there is one when they are counted: statistics in a damaged Parquet file deny it
            raise InputError("it is damaged: download it again")
        found.append((role, *line))
    return found


def fetch(con: Any, table: Table, counts: Mapping[str, int]) -> dict[str, Any]:
    """Fetch the table as arrays: ids as `Index` and positions, the other roles as they are.

    Requires `survey` to have run, without invalid cells.
    """
    ids = {role: _Ids(con, role, table.id_types[role]) for role in ("row", "col")}
    columns = {role: ids[role].sql for role in ids}
    columns |= {role: f'CAST("{role}" AS DOUBLE)' for role in ("value", "weight") if role in table.cells}
    if counts.get("times"):
        columns["time"], _ = time_sql(table, counts)
    wanted = ", ".join(f'{sql} AS "{role}"' for role, sql in columns.items())
    arrays = con.execute(f"SELECT {wanted} FROM lines").fetchnumpy()
    if "time" in arrays:
        arrays["time"] = unmasked(arrays["time"])
    for role, axis_ids in ids.items():
        arrays[role] = axis_ids.positions(arrays[role])
    return {**arrays, "row_index": ids["row"].index, "col_index": ids["col"].index}


class _Ids:
    """Distinct ids of one axis, and the SQL that fetches the id of each line.

    Integers are fetched as they are, since NumPy ranks them in linear time; text is encoded by duckdb.
    """

    def __init__(self, con: Any, role: str, kind: str) -> None:
        axis = 0 if role == "row" else 1
        source = f'FROM distinct_ids WHERE axis = {axis} AND "{role}" IS NOT NULL'
        if kind == "?":
            integral = f'CAST(TRY_CAST("{role}" AS BIGINT) AS VARCHAR) = "{role}"'  # neither 007 nor 1.0 nor 1e3
            is_integral = con.execute(f"SELECT coalesce(bool_and(coalesce({integral}, false)), false) {source}")
            kind = "BIGINT" if is_integral.fetchone()[0] else "VARCHAR"
        self.index: Index | None = None
        if kind == "BIGINT":
            number = f'CAST("{role}" AS BIGINT)'
            low, high = con.execute(f"SELECT min({number}), max({number}) {source}").fetchone()
            self.sql = f'CAST("{role}" AS {"INTEGER" if INT32.min <= low and high <= INT32.max else "BIGINT"})'
        else:
            con.execute(f'CREATE TYPE {role}_ids AS ENUM (SELECT "{role}" {source} ORDER BY "{role}")')
            self.sql = f'CAST(enum_code(CAST("{role}" AS {role}_ids)) AS INTEGER)'
            self.index = Index(con.execute(f'SELECT "{role}" AS id {source} ORDER BY "{role}"').fetchnumpy()["id"])

    def positions(self, fetched: NDArray[Any]) -> NDArray[Any]:
        if self.index is None:
            self.index, fetched = Index.of(fetched)
        return fetched.astype(np.int32, copy=False) if len(self.index) <= INT32.max else fetched


def integer_or_text(cell: str, kind: str) -> tuple[str, str]:
    """Return SQL and id type for an id column of duckdb type `kind`."""
    if kind in INTEGER_TYPES:
        return f"CAST({cell} AS BIGINT)", "BIGINT"
    if kind.startswith(FLOAT_TYPES):
        finite = f"CASE WHEN isfinite(CAST({cell} AS DOUBLE)) THEN {cell} END"
        integral = f"CASE WHEN {finite} = TRY_CAST({cell} AS BIGINT) THEN TRY_CAST({cell} AS BIGINT) END"
        return f"coalesce(CAST({integral} AS VARCHAR), CAST({finite} AS VARCHAR))", "?"
    text = f"NULLIF(CAST({cell} AS VARCHAR), '')"
    return text, "?" if kind in ("UBIGINT", "HUGEINT", "UHUGEINT") else "VARCHAR"


def time_sql(table: Table, counts: Mapping[str, int]) -> tuple[str, str]:
    """Return the SQL of the times and its type: integers if all are, else floats or timestamps."""
    if not table.times_are_numbers:
        return 'CAST(CAST("time" AS TIMESTAMPTZ) AS TIMESTAMP)', "TIMESTAMP"
    kind = "BIGINT" if counts["integer_times"] == counts["times"] else "DOUBLE"
    return f'CAST("time" AS {kind})', kind


def unmasked(times: NDArray[Any]) -> NDArray[Any]:
    """Replace masked times by NaN or NaT."""
    if not isinstance(times, np.ma.MaskedArray):
        return times
    mask = np.ma.getmaskarray(times)
    plain: NDArray[Any] = times.data.astype("datetime64[us]" if times.dtype.kind == "M" else np.float64)
    plain[mask] = np.datetime64("NaT") if plain.dtype.kind == "M" else np.nan
    return plain
