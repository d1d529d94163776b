"""Figure 3(d): an Internet AS graph; what the squared error hides: log-loss, and finding edges that were left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import lgamma, log
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from accams import ACCAMS, Observations, StencilSum
from accams.baselines import Factors
from accams.fit.target import Target
from paper.faces import factors, lower_envelope, points
from paper.pages import Page, axes, curve, size_axis, table
from paper.runs import Row, Run
from paper.sets import graph
from paper.study import Plan, Study
from rivals.compression import svd_points

CLUSTERS = (16, 32)
CLASSIC = (8, 16, 32, 64, 128, 256, 512)
LEVELS = 4096  # of predictions, from LOW to HIGH, before neighbouring ones are merged
LOW, HIGH = -0.25, 1.25
BLOCK = 512  # rows
NEGATIVES = 10  # pairs without an edge for each one with a held-out edge
Dense = Callable[[slice], np.ndarray]  # predictions for some rows


def edge_list_bytes(n_nodes: int, n_edges: int) -> float:
    """Of a lossless list: log2 of the number of graphs with so many nodes and edges."""
    pairs = n_nodes * (n_nodes - 1) / 2
    return (lgamma(pairs + 1) - lgamma(n_edges + 1) - lgamma(pairs - n_edges + 1)) / log(2) / 8


def stencil_rows(model: StencilSum, rows: slice) -> np.ndarray:
    found = np.full((len(range(model.shape[0])[rows]), model.shape[1]), model.offset, np.float32)
    for each in model.stencils:
        found += each.template[each.row_labels[rows]][:, each.col_labels]
    return found


def factor_rows(model: Factors, rows: slice) -> np.ndarray:
    return (model.left[rows] @ model.right).astype(np.float32)


def factor_pairs(model: Factors, pairs: np.ndarray) -> np.ndarray:
    return np.einsum("pr,rp->p", model.left[pairs[:, 0]], model.right[:, pairs[:, 1]])


def blocks(n: int) -> Iterator[slice]:
    return (slice(a, min(a + BLOCK, n)) for a in range(0, n, BLOCK))


def cell_measures(dense: Dense, A: sparse.csr_array) -> dict[str, float]:
    """Relative error and log-loss over all cells.

    As a probability a prediction is worth what it is at best: predictions are sorted into levels, and those into few by
    isotonic regression, so that probabilities rise with predictions.
    """
    from sklearn.isotonic import IsotonicRegression

    every, edges, squares = np.zeros(LEVELS), np.zeros(LEVELS), 0.0
    for rows in blocks(A.shape[0]):
        found, truth = dense(rows), A[rows].toarray()
        squares += float(np.square(found - truth, dtype=np.float64).sum())
        level = np.clip((found - LOW) * (LEVELS / (HIGH - LOW)), 0, LEVELS - 1).astype(np.int32)
        every += np.bincount(level.ravel(), minlength=LEVELS)
        edges += np.bincount(level[truth > 0], minlength=LEVELS)
    used = every > 0
    share = np.divide(edges, every, where=used, out=np.zeros(LEVELS))
    rising = IsotonicRegression(y_min=1e-12, y_max=1 - 1e-12)
    p = rising.fit(np.flatnonzero(used), share[used], every[used]).predict(np.flatnonzero(used))
    bits = -(edges[used] @ np.log2(p) + (every - edges)[used] @ np.log2(1 - p))
    return {"error": float(np.sqrt(squares / A.nnz)), "bits_per_cell": float(bits / A.shape[0] ** 2),
            "residual_bytes": float(bits / 16), "levels": len(np.unique(p))}  # fmt: skip


def adjacency(observations: Observations) -> sparse.csr_array:
    i, j, x = observations.coo()
    return sparse.csr_array((x, (i, j)), shape=observations.shape)


def held_out(A: sparse.csr_array, share: float = 0.1) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """The graph without some edges; those; and pairs without an edge (pairs are unordered)."""
    rng = np.random.default_rng(0)
    upper = sparse.triu(A, 1).tocoo()
    chosen = rng.permutation(upper.nnz)[: int(share * upper.nnz)]
    edges = np.c_[upper.row, upper.col]
    left = np.delete(edges, chosen, axis=0)
    drawn = np.sort(rng.integers(0, A.shape[0], size=(2 * NEGATIVES * len(chosen), 2)), axis=1)
    drawn = np.unique(drawn[drawn[:, 0] < drawn[:, 1]], axis=0)
    empty = drawn[np.asarray(A[drawn[:, 0], drawn[:, 1]]).ravel() == 0]
    both = np.r_[left, left[:, ::-1]]
    rest = sparse.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=A.shape)
    return rest, edges[chosen], rng.permutation(empty)[: NEGATIVES * len(chosen)]


def link_measures(score: Callable[[np.ndarray], np.ndarray], edges: np.ndarray, empty: np.ndarray) -> dict[str, float]:
    """How well a score tells held-out edges from pairs without one; both directions of a pair count."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    pairs = np.r_[edges, empty]
    truth = np.arange(len(pairs)) < len(edges)
    found = score(pairs) + score(pairs[:, ::-1])
    return {
        "auc": float(roc_auc_score(truth, found)),
        "average_precision": float(average_precision_score(truth, found)),
    }


def svd_of(A: sparse.csr_array, rank: int) -> Target:
    """The leading singular vectors."""
    from scipy.sparse.linalg import svds

    u, s, vt = svds(A, k=rank, random_state=np.random.default_rng(0))
    order = np.argsort(-s)
    return Target(0.0, u[:, order] * s[order], vt[order].T, *(np.ones(n) for n in A.shape))


def factors_of(svd: Target, rank: int, bits: int) -> Factors:
    root = np.sqrt(svd.singular_values[:rank])
    found = Factors(svd.left[:, :rank] / root, (svd.right[:, :rank] * root).T)
    return found if bits == 32 else found.quantised(bits)


def fit(A: sparse.csr_array, k: int, s: int) -> StencilSum:
    return (
        ACCAMS(s, k, learning_rate=1.0, random_state=0, verbose=False)
        .fit(Observations.from_sparse(A, zeros="observed"))
        .stencils_
    )


def stencils(name: str, k: int, sizes: tuple[int, ...], folder: Path, given: list[Row]) -> list[Row]:
    """ACCAMS with more and more stencils, of the whole graph and of one without some edges."""
    A = adjacency(graph())
    rest, edges, empty = held_out(A)
    whole, part = fit(A, k, max(sizes)), fit(rest, k, max(sizes))
    rows = []
    for s in sizes:
        model = StencilSum(whole.shape, whole.offset, whole.stencils[:s])
        seen = StencilSum(part.shape, part.offset, part.stencils[:s])
        rows.append({
            "method": name, "setting": f"k={k}, s={s}", "bytes": model.bits / 8, "file_bytes": model.size.bytes,
            **cell_measures(partial(stencil_rows, model), A),
            **link_measures(lambda pairs, seen=seen: seen.predict(pairs[:, 0], pairs[:, 1]), edges, empty),
        })  # fmt: skip
    return rows


def factorised(ranks: tuple[int, ...], folder: Path, given: list[Row]) -> list[Row]:
    """Truncated SVDs: the error of every rank in 32 bits, and quantised; of some in 32 and in 8 bits all measures."""
    A = adjacency(graph())
    rest, edges, empty = held_out(A)
    whole, part = svd_of(A, max(ranks)), svd_of(rest, max(ranks))
    left = np.sqrt(1 - np.cumsum(whole.singular_values**2) / A.nnz)
    rows: list[Row] = [
        {"method": "SVD, 32 bits", "setting": f"rank {r}", "bytes": 4.0 * r * sum(A.shape), "error": float(left[r - 1])}
        for r in range(1, max(ranks) + 1)
    ]
    for each in svd_points(A, whole, max(ranks) * sum(A.shape)):
        error = each.error * A.shape[0] / np.sqrt(A.nnz)
        rows.append({"method": "SVD, quantised", "setting": each.which, "bytes": each.size, "error": error})
    for bits in (32, 8):
        for rank in ranks:
            some, seen = (factors_of(svd, rank, bits) for svd in (whole, part))
            rows.append({
                "method": f"SVD, {bits} bits", "setting": f"rank {rank}", "bytes": some.bits / 8,
                **cell_measures(partial(factor_rows, some), A),
                **link_measures(partial(factor_pairs, seen), edges, empty),
            })  # fmt: skip
    return rows


def degrees(folder: Path, given: list[Row]) -> list[Row]:
    """Without a model: how many edges the two nodes have (preferential attachment)."""
    rest, edges, empty = held_out(adjacency(graph()))
    degree = np.asarray(rest.sum(axis=1)).ravel()
    found = link_measures(lambda pairs: degree[pairs[:, 0]] * degree[pairs[:, 1]], edges, empty)
    return [{"method": "product of degrees", "setting": "", "bytes": 4.0 * len(degree), **found}]


def runs(plan: Plan) -> list[Run]:
    graph()  # says so at once where it is missing
    sizes = (1, 2, 4, 8) if plan.quick else (1, 2, 4, 8, 16, 32)
    ranks = (1, 2, 4, 8, 16) if plan.quick else (1, 2, 4, 8, 16, 32, 64)
    return [
        Run(("graph", "product of degrees"), degrees, 2),
        *(Run(("graph", f"ACCAMS k={k} s={sizes[-1]}"), partial(stencils, f"ACCAMS, k={k}", k, sizes), 60)
          for k in CLUSTERS),
        *(Run(("graph", f"one co-clustering k={k}"), partial(stencils, "one co-clustering", k, (1,)), 5 + k / 8)
          for k in CLASSIC[: 5 if plan.quick else None]),
        Run(("graph", f"SVD {ranks[-1]}"), partial(factorised, ranks), 60),
    ]  # fmt: skip


def draw(rows: list[Row], lossless: float) -> Any:
    """Relative error, and log-loss, against size."""
    figure, (one, two) = axes(11, 4.4, across=2)
    modelled = [row for row in rows if "error" in row]
    coded = [row for row in rows if "bits_per_cell" in row]
    for p, name in enumerate(("ACCAMS, k=32", "ACCAMS, k=16", "SVD, 32 bits", "SVD, quantised", "one co-clustering")):
        curve(one, lower_envelope(points(modelled, name, "error")), name, p, "-" if "SVD" in name else "o-")
        curve(two, points(coded, "SVD, 8 bits" if name == "SVD, quantised" else name, "bits_per_cell"), name, p)
    for ax, label in ((one, "relative error (Frobenius norm)"), (two, "log-loss, bits per cell")):
        ax.axvline(lossless, color="#1c2330", linestyle=":", linewidth=1.2, label="lossless list of the edges")
        size_axis(ax)
        ax.set_ylabel(label)
    one.legend(frameon=False, fontsize=8)
    return figure


def measures(row: Row) -> list[str]:
    """One line of the table."""

    def shown(name: str, how: str, unit: float = 1.0) -> str:
        return f"{row[name] / unit:{how}}" if name in row else ""

    return [
        row["method"], row["setting"], shown("bytes", ",.0f", 1000), shown("file_bytes", ",.1f", 1000),
        shown("error", ".4f"), shown("bits_per_cell", ".4f"), shown("residual_bytes", ".1f", 1000),
        shown("auc", ".3f"), shown("average_precision", ".3f"),
    ]  # fmt: skip


def show(plan: Plan, rows: list[Row]) -> Page:
    observations = graph()
    lossless = edge_list_bytes(observations.shape[0], observations.nnz // 2)
    page = Page(figures={"graph": draw(rows, lossless)})
    page.add(
        f"Oregon-2, {observations.shape[0]:,} nodes and {observations.nnz // 2:,} edges, every blank an observed "
        f"zero. **A lossless list of the edges takes about {lossless / 1000:.0f} KB**: right of the dotted line a "
        "lossy model is a way to understand the graph, not to store it. The relative error counts all cells; the "
        "log-loss is that of the prediction turned into a probability in the best rising way, and the column beside "
        "it what the edges would take, coded by it, on top of the model (the few dozen probabilities not counted). "
        f"For link prediction a tenth of the edges is left out, and the model tells them from {NEGATIVES} times as "
        "many pairs without an edge: area under the ROC curve, and average precision.",
        table(["model", "setting", "KB by formula", "KB on disk", "relative error", "bits per cell",
               "KB of edges given the model", "ROC area", "average precision"],
              [measures(row) for row in rows if "auc" in row]),
        "Bytes of rivals at the error of ours: SVDs of every rank, in 32 bits beside our bytes by formula, and "
        "quantised and entropy-coded as well as we could beside our bytes on disk; between two co-clusterings by the "
        "logarithm of their bytes.",
        factors([row for row in rows if "error" in row], "error", ("ACCAMS, k=32", "ACCAMS, k=16")),
    )  # fmt: skip
    return page


STUDY = Study("graph", "AS graph Oregon-2: error, log-loss and links against size", runs, show)
