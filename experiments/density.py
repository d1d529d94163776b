"""From which share of observed cells is the dense engine faster than the sparse one?

Run: python experiments/density.py
"""

from __future__ import annotations

import numpy as np

from accams import ACCAMS, Observations
from common import machine, ratio, table

ROWS, COLS = 1500, 1200


def main() -> None:
    random = np.random.default_rng(0)
    full = random.normal(size=(ROWS, COLS))
    rows = []
    for share in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0):
        observations = Observations.from_dense(np.where(random.random((ROWS, COLS)) < share, full, np.nan))

        def fit(engine: str, observations: Observations = observations) -> None:
            ACCAMS(2, 10, max_iter=10, tol=0.0, engine=engine, verbose=False).fit(observations)

        cpu, dense, against = ratio(lambda: fit("cpu"), lambda: fit("dense"), 1)
        rows.append([f"{share:.0%}", f"{1e3 * cpu:.0f}", f"{1e3 * dense:.0f}", f"{against:.2f}"])
    print(table(["observed", "cpu, ms", "dense, ms", "cpu / dense"], rows))
    print(machine())


if __name__ == "__main__":
    main()
