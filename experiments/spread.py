"""Intervals of compressed models beside those of the posterior they were distilled from.

MovieLens 100K, a tenth held out (seed 0), four chains of 60 sweeps. Coverage of central intervals, the mean log score
(lower is better), and the correlation of standard deviations with the posterior's.

Run: python experiments/spread.py          (needs MovieLens 100K, see docs/data.md; a minute)
"""

from __future__ import annotations

import numpy as np

from accams import BayesianACCAMS, Model
from accams.data import datasets
from accams.data.splits import random_split
from common import machine, table, use_local_data

SIZES = (10_000, 20_000, 50_000)


def main() -> None:
    use_local_data()
    training, test = random_split(datasets.movielens("100k").observations, 0.1, 0)
    model = BayesianACCAMS(n_chains=4, n_sweeps=60, verbose=False).fit(training).model_
    whole = model.predict(test, return_std=True)[1]

    def row(name: str, each: Model) -> list[object]:
        mean, std = each.predict(test, return_std=True)
        score = float(np.mean(0.5 * ((test.values - mean) / std) ** 2 + np.log(std)))
        result = each.evaluate(test)
        shares = [f"{100 * share:.1f} %" for level, share in result.coverage if level in (0.5, 0.8, 0.95)]
        likeness = float(np.corrcoef(whole, std)[0, 1])
        return [name, f"{result.rmse:.4f}", *shares, f"{score:.3f}", f"{likeness:.2f}"]

    rows = [row(f"posterior, {len(model.codes)} draws", model)]
    rows += [row(f"compressed to {size / 1000:.0f} KB", model.compress(size, verbose=False)) for size in SIZES]
    print(table(["model", "RMSE", "50 %", "80 %", "95 %", "log score", "correlation"], rows))
    print(machine())


if __name__ == "__main__":
    main()
