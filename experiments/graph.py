"""Internet AS graph Oregon-2 with all blanks observed: relative error against size, beside truncated SVDs.

Run: python experiments/graph.py          (needs oregon2_010526.txt, see docs/data.md)
     python experiments/graph.py --million    a planted block graph of a million nodes and ten million edges
"""

from __future__ import annotations

import resource
import sys
from math import lgamma, log
from time import perf_counter

import numpy as np
from common import machine, table, use_local_data
from scipy import sparse
from scipy.sparse.linalg import svds

from accams import ACCAMS, Observations
from accams.baselines import Factors
from accams.data import datasets
from accams.data.planted import planted_graph


def edge_list_bits(n_nodes: int, n_edges: int) -> float:
    """log2 of the number of graphs with so many nodes and edges."""
    pairs = n_nodes * (n_nodes - 1) / 2
    return (lgamma(pairs + 1) - lgamma(n_edges + 1) - lgamma(pairs - n_edges + 1)) / log(2)


def oregon() -> None:
    use_local_data()
    observations = datasets.as_graph("oregon2").observations
    n, norm = observations.shape[0], np.sqrt(np.sum(observations.values**2))
    rows: list[list[object]] = []
    for k, s in ((16, 8), (32, 8), (16, 32), (32, 16)):
        errors = []
        for seed in (0, 1, 2):
            began = perf_counter()
            model = ACCAMS(s, k, random_state=seed, verbose=False).fit(observations)
            errors.append(model.train_rmse_ * n / norm)
            took = perf_counter() - began
        size = f"{model.stencils_.bits / 8000:.0f}"
        on_disk = f"{model.stencils_.size.bytes / 1000:.0f}"
        rows.append([f"ACCAMS k={k}, s={s}", size, on_disk, ", ".join(f"{e:.4f}" for e in errors), f"{took:.1f}"])
    i, j, x = observations.coo()
    matrix = sparse.csr_array((x, (i, j)), shape=observations.shape)
    u, s, vt = svds(matrix, k=32, random_state=np.random.default_rng(0))
    order = np.argsort(-s)
    root = np.sqrt(s[order])
    svd = Factors(u[:, order] * root, root[:, None] * vt[order])
    for bits in (32, 8):
        for rank in (8, 32):
            f = svd.truncate(rank) if bits == 32 else svd.truncate(rank).quantised(bits)
            fitted = np.einsum("pr,rp->p", f.left[i], f.right[:, j])
            gram = np.sum((f.left.T @ f.left) * (f.right @ f.right.T))
            error = np.sqrt(norm**2 - 2 * np.sum(x * fitted) + gram) / norm
            rows.append([f"SVD rank {rank}, {bits} bits", f"{f.bits / 8000:.0f}", "", f"{error:.4f}", ""])
    print(table(["model", "KB by formula", "KB on disk", "relative Frobenius error (seeds 0, 1, 2)", "seconds"], rows))
    print(f"\na lossless list of the edges: about {edge_list_bits(n, observations.nnz // 2) / 8000:.0f} KB")
    print(machine())


def million() -> None:
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
    million() if "--million" in sys.argv else oregon()
