"""What a user waits for: import, the first fit ever (compiling), and the first fit of a later process.

Run: python experiments/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from statistics import median

from common import machine

FIT = """
import time; t = time.perf_counter()
import numpy as np
from accams import ACCAMS, Observations
r = np.random.default_rng(0)
i, j = np.divmod(r.choice(500 * 300, 20000, replace=False), 300)
observations = Observations.from_coo(i, j, r.normal(size=20000))
begin = time.perf_counter() - t
ACCAMS(n_stencils=3, verbose=False).fit(observations)
print(begin, time.perf_counter() - t)
"""


def run(code: str, **environment: str) -> list[float]:
    """The seconds that a process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return [float(x) for x in done.stdout.split()]


def imported(name: str, before: str = "") -> float:
    """Median seconds of an import."""
    code = f"import time{before}; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
    return median(run(code)[0] for _ in range(9))


def main() -> None:
    alone = ", ".join(f"import {name} {imported(name):.3f} s" for name in ("numpy", "accams"))
    print(f"{alone}; accams after numpy {imported('accams', ', numpy'):.3f} s")
    with tempfile.TemporaryDirectory() as cache:
        _, first = run(FIT, NUMBA_CACHE_DIR=cache)
        begin, end = (median(x) for x in zip(*(run(FIT, NUMBA_CACHE_DIR=cache) for _ in range(3)), strict=True))
    print(f"the first fit after installation is done after {first:.1f} s, imports and compiling included")
    print(f"in later processes a fit begins after {begin:.2f} s and is done after {end:.2f} s")
    print(f"pandas is {'not ' if find_spec('pandas') is None else ''}installed")
    print(machine())


if __name__ == "__main__":
    main()
