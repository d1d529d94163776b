"""Compile the kernels of the cuda engine without a GPU, and print the registers they take and what they spill.

What the simulator lets pass may still not compile, or be slow: run this after a change to a kernel. With --sass the
machine code goes into a folder, to be read.

Run: python experiments/gpu/compile.py [--architecture 90] [--sass DIR]
     (needs pip install 'numba-cuda[cu13]' nvidia-cuda-nvcc nvidia-cuda-nvdisasm)
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import table

K = (10, 16, 32)
Bounds = tuple[int, int] | None


def kernels() -> Iterator[tuple[str, Any, tuple[Any, ...], Bounds]]:
    """Name, kernel, types of its arguments; threads of a block and blocks on a multiprocessor where they are given."""
    from numba import types as t

    from accams.engine.cuda import kernels, steps
    from accams.engine.cuda import labels as labelling
    from accams.engine.cuda import sums as sums_of
    from accams.engine.cuda.latent import latent_kernel

    i32, i64, f64 = t.int32, t.int64, t.float64
    ints, shorts, longs = (t.Array(each, 1, "C") for each in (i32, t.uint16, i64))
    labels, sums, templates, counts = (
        t.Array(each, n, "C") for each, n in ((t.uint8, 2), (i64, 2), (i32, 3), (i64, 3))
    )
    given = t.Array(f64, 2, "C"), counts  # numbers and keys of a sheet
    prices = t.Array(f64, 1, "C")
    lanes = longs, ints, ints
    for k in K:
        for shifts in (0, 1, 2):
            for dense, weighted in ((False, False), (False, True), (True, False)):
                kernel = kernels.gather_kernel(k, 0, 512, shifts, dense=dense, weighted=weighted)
                index = ints if dense else shorts
                where = ints, ints, ints, *lanes, ints, index, i64, ints, ints
                name = f"gather k={k}, {shifts} shifts{', dense' * dense}{', weighted' * weighted}"
                types = *where, i64, labels, labels, templates, *9 * [i64], ints, counts
                yield name, kernel, types, (512, 2)
        for how in ("draw", "nearest", "keep"):
            kernel = labelling.label_kernel(how, (k, k), 0, 128, row_weighted=True)  # type: ignore[arg-type]
            types = counts, sums, sums, ints, ints, ints, templates, i64, prices, *given, i64, i64, labels, i64, longs
            yield f"label k={k}, {how}", kernel, types, (128, labelling.label_threads((k, k)) // 128)
    yield "first step", steps.first_step, (counts, i64, i64, i64, *given, i64, prices, sums), None
    told = prices, sums, prices
    types = longs, *3 * [i64], templates, counts, i64, i64, *given, *3 * [i64], *told
    yield "next step", steps.next_step, types, None
    yield "remember", steps.remember, (labels, labels, templates, i64, i64), None
    yield "predict", steps.predict, (longs, longs, labels, labels, templates, i64, longs), None
    yield "take", sums_of.take, (longs, ints, ints, counts, *4 * [sums]), None
    yield "zero", steps.zero, (sums,), None
    for flag in (False, True):
        kernel = sums_of.add_up_kernel(128, 4, flag)
        yield f"add up{', weighted' * flag}", kernel, (ints, ints, counts, sums, sums), None
        yield f"squares{', weighted' * flag}", steps.squares_kernel(flag), (*lanes, *3 * [i64], ints, ints, sums), None
        for own in (False, True):
            index = ints if flag else shorts
            types = *lanes, *3 * [i64], ints, ints, i64, index, ints, ints
            yield f"effects{', dense' * flag}{', own' * own}", steps.effects_kernel(flag, own), types, None
        for row_weighted in (False, True):
            kernel = latent_kernel(0, dense=flag, weighted=not flag, row_weighted=row_weighted)
            levels = t.Array(t.uint8, 1, "C")
            types = *lanes, *3 * [i64], ints, ints, i64, index, ints, ints, ints, levels, ints, ints, f64, f64, i64, i64
            yield f"latent{', dense' if flag else ', weighted'}{', rows' * row_weighted}", kernel, types, None


def compiled(kernel: Any, types: tuple[Any, ...], bounds: Bounds, architecture: int, sass: Path | None) -> list[str]:
    """Registers, bytes of stack and of spills."""
    from numba import cuda

    more = {"launch_bounds": bounds} if bounds else {}
    ptx, _ = cuda.compile_ptx(kernel.py_func, types, cc=divmod(architecture, 10), **more)
    folder = next(Path(each, "nvidia/cu13/bin") for each in sys.path if Path(each, "nvidia/cu13/bin").is_dir())
    with tempfile.TemporaryDirectory() as temporary:
        source, binary = Path(temporary, "kernel.ptx"), Path(temporary, "kernel.cubin")
        source.write_text(ptx)
        command = [folder / "ptxas", f"-arch=sm_{architecture}", "-v", source, "-o", binary]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        if sass is not None:
            code = subprocess.run([folder / "nvdisasm", "-c", binary], capture_output=True, text=True, check=True)
            sass.write_text(code.stdout)
    wanted = r"Used (\d+) registers", r"(\d+) bytes stack frame", r"(\d+) bytes spill stores"
    return [max(re.findall(each, told), key=int, default="?") for each in wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", type=int, default=90, help="90 is that of the H100 and H200 [90]")
    parser.add_argument("--sass", type=Path)
    given = parser.parse_args()
    from numba.cuda import dispatcher

    os.environ["NUMBA_FORCE_CUDA_CC"] = str(given.architecture / 10)
    device = SimpleNamespace(compute_capability=divmod(given.architecture, 10))
    dispatcher.get_current_device = lambda: device
    rows = []
    for name, kernel, types, bounds in kernels():
        if given.sass is not None:
            given.sass.mkdir(parents=True, exist_ok=True)
        path = None if given.sass is None else given.sass / f"{re.sub('[ ,=]+', '-', name)}.sass"
        rows.append([name, *compiled(kernel, types, bounds, given.architecture, path)])
    print(table(["kernel", "registers", "stack", "spilled"], rows))


if __name__ == "__main__":
    main()
