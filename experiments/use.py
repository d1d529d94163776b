"""Using a model of the shape of Netflix (480,189 x 17,770, 125 stencils of 10 x 10, 26 MB): opening and predicting.

Predictions of 10 million random pairs beside a dot product of gathered rank-50 float32 factor rows in NumPy (in blocks
that stay in the cache, its faster way), all items for one user, the best ten for every user, and opening the file in a
new process, entropy-coded and packed.

Run: python experiments/use.py [--users N]        (N users are recommended to instead of all)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from accams import Model, StencilSum
from accams.data.ids import Index
from accams.model.stencils import Stencil
from common import machine, seconds

ROWS, COLS, STENCILS, CLUSTERS = 480_189, 17_770, 125, 10
PAIRS, RANK, BLOCK = 10_000_000, 50, 1 << 16

OPEN = """
import sys, time
import numpy as np
import accams.kernels.predict
from accams.model import file
warm = time.perf_counter()
model = file.read(sys.argv[1])
opened = time.perf_counter()
one = model.predict(np.zeros(17770, np.int64), np.arange(17770))
print(opened - warm, time.perf_counter() - warm)
"""


def made(random: np.random.Generator) -> StencilSum:
    """Labels as uneven as those of a fitted model (about 3.2 bits each), templates small."""
    chances = random.dirichlet(np.full(CLUSTERS, 8.0), STENCILS)
    stencils = [
        Stencil(
            random.normal(scale=0.1, size=(CLUSTERS, CLUSTERS)).astype(np.float32),
            *(random.choice(CLUSTERS, size, p=p).astype(np.uint8) for size in (ROWS, COLS)),
        )
        for p in chances
    ]
    return StencilSum((ROWS, COLS), 3.6, tuple(stencils))


def opening(path: Path) -> tuple[float, float]:
    """Seconds in a new process until the model is there, and until all items are scored for one user."""
    command = [sys.executable, "-c", OPEN, str(path)]
    printed = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    runs = [[float(x) for x in each.split()] for each in printed]
    return median(a for a, _ in runs), median(b for _, b in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=ROWS)
    given = parser.parse_args()
    random = np.random.default_rng(0)
    model = made(random)
    with tempfile.TemporaryDirectory() as folder:
        for coding in ("entropy", "packed"):
            path = Path(folder) / f"{coding}.accams"
            model.save(path, coding=coding)
            opened, scored = opening(path)
            print(
                f"{coding}: {path.stat().st_size / 1e6:.1f} MB, opened in {opened:.2f} s, all items of one user scored "
                f"after {scored:.2f} s in all"
            )
    i, j = random.integers(0, ROWS, PAIRS), random.integers(0, COLS, PAIRS)
    left, right = (random.normal(size=(size, RANK)).astype(np.float32) for size in (ROWS, COLS))

    def dot_products() -> None:
        out = np.empty(PAIRS, np.float32)
        for lo in range(0, PAIRS, BLOCK):
            part = slice(lo, lo + BLOCK)
            out[part] = np.einsum("ij,ij->i", left[i[part]], right[j[part]])

    times = []
    model.predict(i[:10], j[:10])
    for _ in range(7):
        began = perf_counter()
        model.predict(i, j)
        between = perf_counter()
        dot_products()
        times.append((between - began, perf_counter() - between))
    ours, rival = (median(x) for x in zip(*times, strict=True))
    both = median(a / b for a, b in times)
    print(f"{PAIRS:,} random pairs: ours {ours:.2f} s, rank-{RANK} dot products {rival:.2f} s, ratio {both:.2f}")
    items = np.arange(COLS)
    one = seconds(lambda: model.predict(np.full(COLS, 7), items), 51)
    print(f"all {COLS:,} items for one user: {1e3 * one:.1f} ms")
    began, users = perf_counter(), np.arange(given.users)
    whole(model).recommend(users, 10, exclude_seen=False)
    print(f"the best ten items for {len(users):,} users: {(perf_counter() - began) / 60:.1f} minutes")
    print(machine())


def whole(stencils: StencilSum) -> Model:
    """Return the sum as a model whose ids are positions."""
    ids = Index(None, ROWS), Index(None, COLS)
    return Model(stencils=stencils, row_index=ids[0], col_index=ids[1], value_range=(1.0, 5.0))


if __name__ == "__main__":
    main()
