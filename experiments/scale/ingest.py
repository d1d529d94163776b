"""A store of planted ratings of Netflix's shape from Parquet, in so much memory: time, bytes, and the process's peak.

Run: python experiments/scale/ingest.py [--millions 100] [--memory 3GiB] [--folder DIR]
     (about 60 bytes of disk per rating)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from accams.cli.options import size_in_bytes
from accams.data.planted import planted_stencils
from common import machine, table

INGEST = """
import resource, sys, time
from pathlib import Path
from accams.data.ingest import ingest
began = time.perf_counter()
stages = {}
def progress(what, share):
    stages.setdefault(what, time.perf_counter())
ingest([Path(sys.argv[1])], Path(sys.argv[2]), dict.fromkeys(("row", "col", "value", "weight", "time")),
       memory=int(sys.argv[3]), progress=progress)
ended = time.perf_counter()
starts = [*stages.values(), ended]
print(ended - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
print({name: round(b - a, 1) for name, a, b in zip(stages, starts, starts[1:])})
"""


def write_parquet(path: Path, millions: int) -> None:
    """Ratings in random order, with ids that are no positions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shape = max(1000, 480_189 * millions // 100), 17_770
    obs = planted_stencils(shape, 4, 10, nnz=millions * 1_000_000, noise=0.8, degrees="long-tailed").observations
    rows = np.repeat(np.arange(shape[0], dtype=np.int32), np.diff(obs.row_starts))
    order = np.random.default_rng(0).permutation(obs.nnz)
    schema = pa.schema([("user", pa.int32()), ("item", pa.int32()), ("rating", pa.float32())])
    with pq.ParquetWriter(path, schema) as out:
        for p in range(0, obs.nnz, 1 << 22):
            some = order[p : p + (1 << 22)]
            columns = rows[some] * 5 + 6, obs.cols[some].astype(np.int32) + 1, obs.stored_values[some]
            arrays = [pa.array(np.asarray(each, kind)) for each, kind in zip(columns, ("i4", "i4", "f4"), strict=True)]
            out.write_table(pa.Table.from_arrays(arrays, schema=schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=int, default=100)
    parser.add_argument("--memory", default="3GiB")
    parser.add_argument("--folder", type=Path, help="keeps the Parquet file and the store")
    parser.add_argument("--plant", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plant:
        write_parquet(given.plant, given.millions)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        source, store = folder / "ratings.parquet", folder / "ratings.store"
        if not source.is_file():  # in a process of its own: its memory would count as the peak of the next
            began = perf_counter()
            command = [sys.executable, __file__, "--plant", str(source), "--millions", str(given.millions)]
            subprocess.run(command, check=True)
            print(f"planted in {perf_counter() - began:.0f} s", flush=True)
        memory = size_in_bytes("--memory", given.memory)
        command = [sys.executable, "-c", INGEST, str(source), str(store), str(memory)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        numbers, stages = done.stdout.strip().splitlines()
        took, peak = map(float, numbers.split())
        size = sum(each.stat().st_size for each in store.iterdir())
        row = [given.millions, source.stat().st_size / 1e9, size / 1e9, memory / 2**30, peak / 2**30, took]
        shown = [f"{x:.2f}" if isinstance(x, float) else x for x in row]
        print(table(["million ratings", "Parquet, GB", "store, GB", "--memory, GiB", "peak, GiB", "seconds"], [shown]))
        print(stages, machine(), sep="\n")


if __name__ == "__main__":
    main()
