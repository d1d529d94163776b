"""What a user waits for: import, the first fit ever (compiling), and the first fit of a later process.

Run: python experiments/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median
from time import perf_counter

from common import machine

FIT = """
import time; t = time.perf_counter()
import numpy as np
from accams import ACCAMS, Observations
r = np.random.default_rng(0)
i, j = np.divmod(r.choice(500 * 300, 20000, replace=False), 300)
ACCAMS(n_stencils=3, verbose=False).fit(Observations.from_coo(i, j, r.normal(size=20000)))
print(time.perf_counter() - t)
"""


def run(code: str, **environment: str) -> float:
    """Seconds that a process prints, or takes."""
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout) if done.stdout else perf_counter() - began


def main() -> None:
    imports = {
        name: median(
            run(f"import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)")
            for _ in range(9)
        )
        for name in ("numpy", "accams")
    }
    both = median(
        run("import numpy, time; t = time.perf_counter(); import accams; print(time.perf_counter() - t)")
        for _ in range(9)
    )
    alone = ", ".join(f"import {name} {took:.3f} s" for name, took in imports.items())
    print(f"{alone}; accams after numpy {both:.3f} s")
    with tempfile.TemporaryDirectory() as cache:
        first = run(FIT, NUMBA_CACHE_DIR=cache)
        later = median(run(FIT, NUMBA_CACHE_DIR=cache) for _ in range(3))
    print(
        f"first fit after installation {first:.1f} s (imports and compiling included), in later processes {later:.1f} s"
    )
    print(machine())


if __name__ == "__main__":
    main()
