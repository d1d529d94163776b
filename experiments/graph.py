"""A planted block graph of a million nodes and ten million edges, blanks observed: time and memory of a fit.

Run: python experiments/graph.py
"""

from __future__ import annotations

import resource
from time import perf_counter

import numpy as np

from accams import ACCAMS, Observations
from accams.data.planted import planted_graph
from common import machine


def main() -> None:
    began = perf_counter()
    graph = planted_graph(1_000_000, 10_000_000, 8, random_state=0)
    observations = Observations.from_sparse(graph, zeros="observed")
    print(f"{observations} made in {perf_counter() - began:.0f} s", flush=True)
    truth = np.arange(1_000_000) * 8 // 1_000_000
    began = perf_counter()
    model = ACCAMS(2, 8, max_iter=20, verbose=True).fit(observations)
    labels = model.stencils_.row_labels[0]
    together = np.zeros((8, 8), dtype=np.int64)
    np.add.at(together, (labels, truth), 1)
    print(f"fitted 2 stencils of 8 x 8 in {perf_counter() - began:.0f} s")
    print(f"nodes whose first label agrees with the planted block: {together.max(axis=1).sum() / 1e6:.1%}")
    print(f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")
    print(machine())


if __name__ == "__main__":
    main()
