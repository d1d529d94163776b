"""Matrices that are larger than the memory there is come back within their bound."""

import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import resource, sys, threading
threading.stack_size(1 << 20)  # which counts as data: 8 MB for each thread, as a rule
import numpy as np
import accams
from accams.fitted import compression

path, out, *numbers = sys.argv[1:]
panel, spare, n_threads, rows_at_a_time = (int(x) or None for x in numbers)
small = np.add.outer(np.arange(60.0) % 5, np.arange(40.0) % 7)
accams.decompress(accams.compress(small, max_error=0.1, verbose=False))  # libraries take memory of their own
taken = 1024 * int(next(x for x in open("/proc/self/status") if x.startswith("VmData")).split()[1])
resource.setrlimit(resource.RLIMIT_DATA, (taken + spare,) * 2)
matrix = np.load(path, mmap_mode="r")
compression.PANEL = matrix.size
try:
    accams.compress(matrix, max_error=0.5, verbose=False, n_threads=n_threads)
    sys.exit("the limit has no effect")
except MemoryError:
    pass
compression.PANEL = panel
kept = accams.compress(matrix, max_error=0.5, path=out, verbose=False, n_threads=n_threads)
worst, lo = 0.0, 0
for rows in kept.blocks(rows_at_a_time):
    worst, lo = max(worst, float(np.abs(rows - matrix[lo : lo + len(rows)]).max())), lo + len(rows)
assert lo == len(matrix) and worst <= 0.5, (lo, worst)
"""


def written(path, shape):
    """Write a matrix of clusters and noise, some rows at a time."""
    random = np.random.default_rng(0)
    rows, cols = random.integers(6, size=shape[0]), random.integers(6, size=shape[1])
    template = random.normal(0.0, 3.0, (6, 6))
    matrix = np.lib.format.open_memmap(path, "w+", np.float64, shape)
    for lo in range(0, shape[0], 1000):
        part = template[rows[lo : lo + 1000]][:, cols]
        matrix[lo : lo + 1000] = part + random.normal(0.0, 0.2, part.shape)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
@pytest.mark.parametrize(
    ("shape", "panel", "spare", "n_threads", "rows"),
    [
        pytest.param((640, 400), 1 << 16, 12 << 20, 1, 100, id="small panels"),
        pytest.param((60_000, 1_500), 1 << 24, 1_200 << 20, 0, 0, id="real panels", marks=pytest.mark.full),
    ],
)
def test_a_matrix_larger_than_memory(tmp_path, shape, panel, spare, n_threads, rows):
    written(tmp_path / "x.npy", shape)
    paths = tmp_path / "x.npy", tmp_path / "x.accams"
    command = [sys.executable, "-c", SCRIPT, *paths, panel, spare, n_threads, rows]
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=3000)
    assert not done.returncode, done.stderr
