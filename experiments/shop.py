"""A shop's table: many users and items with few ratings each. How long a fit takes, and how large the model is.

434,000 ratings of 78,000 users on 186,000 items, one to five stars: as many as a real table that we may not
distribute. Users and items are drawn from log-normal activities such that almost all have a rating; a rating is the
sum of the effects of its user and item, two stencils of 4 x 4 with --signal of the variance, and noise, rounded.
Biases (tuned as in tables.py) beside ours, from the same split.

Run: python experiments/shop.py --signal 0 0.1
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from common import machine, table
from tables import Ratings, ours, tuned_biases


def shop(n_users: int, n_items: int, n: int, signal: float, seed: int) -> Ratings:
    """Return the ratings of a shop."""
    random = np.random.default_rng(seed)
    activities = [random.lognormal(0.0, sigma, size) for sigma, size in ((1.1, n_users), (1.3, n_items))]
    # everybody and everything once, the rest by activity
    once = [np.concatenate([random.permutation(size), random.integers(size, size=n_items - size)])
            for size in (n_users, n_items)]  # fmt: skip
    more = [random.choice(len(a), n + n // 10 - n_items, p=a / a.sum()) for a in activities]
    pairs = np.unique(np.stack([np.concatenate(x) for x in zip(once, more, strict=True)]), axis=1)
    rows, cols = pairs[:, np.sort(random.choice(pairs.shape[1], min(n, pairs.shape[1]), replace=False))]
    values = 4.0 + random.normal(0, 0.4, n_users)[rows] + random.normal(0, 0.4, n_items)[cols]
    for _ in range(2):
        template = random.normal(0, np.sqrt(signal / 2.0), (4, 4))
        values += template[random.integers(4, size=n_users)[rows], random.integers(4, size=n_items)[cols]]
    values += random.normal(0, np.sqrt(max(1.0 - 0.32 - signal, 0.1)), len(rows))
    return Ratings(rows, cols, np.clip(np.rint(values), 1.0, 5.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signal", nargs="*", type=float, default=[0.0, 0.1], help="variance of the stencils")
    parser.add_argument("--size", nargs=3, type=int, default=[78_000, 186_000, 434_000], help="users, items, ratings")
    asked = parser.parse_args()
    lines = []
    for signal in asked.signal:
        ratings = shop(*asked.size, signal, 0)
        train, test = ratings.split(0)
        for name, method in (("biases", tuned_biases), ("ours", ours)):
            began = perf_counter()
            found = method(train, test, ratings.shape, 0)
            rmse = np.sqrt(np.mean((np.clip(found.mean, 1.0, 5.0) - test.values) ** 2))
            lines.append(
                [f"{signal:g}", name, f"{rmse:.4f}", f"{perf_counter() - began:.0f}", f"{found.size / 1e6:.1f}"]
            )
            print(*lines[-1], flush=True)
    print(table(["signal", "method", "rmse", "seconds", "MB"], lines))
    print(machine())


if __name__ == "__main__":
    main()
