"""Figure 3(c): the faces, error against size; and the factor in bytes against SVDs at equal error."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from accams import ACCAMS, Observations, distill
from accams.fit.target import of_matrix
from paper.pages import Page, axes, curve, size_axis, table
from paper.runs import Row, Run
from paper.sets import faces
from paper.study import Plan, Study
from rivals.compression import svd_points

CLUSTERS = (16, 32)
CLASSIC = (4, 8, 16, 32, 64, 128, 256, 512)
SMALL = (20_000, 50_000, 100_000, 200_000)
OURS = "ACCAMS, k=32"
RIVALS = {  # which of our sizes each is compared with
    "SVD, 32 bits": "bytes",
    "SVD, quantised": "file_bytes",
    "one co-clustering": "bytes",
}


def plain_accams(matrix: np.ndarray, s: int, k: int) -> ACCAMS:
    """The paper's algorithm on a complete matrix."""
    model = ACCAMS(s, k, learning_rate=1.0, random_state=0, verbose=False)
    return model.fit(Observations.from_dense(matrix))


def backfitted(k: int, s: int, folder: Path, given: list[Row]) -> list[Row]:
    """The paper's algorithm: the error after each stencil."""
    matrix, _ = faces()
    model = plain_accams(matrix, s, k)
    rows = []
    for l, step in enumerate(model.history_, 1):
        some = replace(model.stencils_, stencils=model.stencils_.stencils[:l])
        rows.append({"method": f"ACCAMS, k={k}", "setting": f"s={l}", "bytes": some.bits / 8,
                     "file_bytes": some.size.bytes, "rmse": step.rmse})  # fmt: skip
    return rows


def classic(k: int, folder: Path, given: list[Row]) -> list[Row]:
    """One co-clustering of many clusters."""
    matrix, _ = faces()
    model = plain_accams(matrix, 1, k)
    return [{"method": "one co-clustering", "setting": f"k={k}", "bytes": model.stencils_.bits / 8,
             "rmse": model.train_rmse_}]  # fmt: skip


def distilled(size: int, folder: Path, given: list[Row]) -> list[Row]:
    """What accams itself would write into so many bytes: joint refinement, entropy-coded."""
    matrix, _ = faces()
    small = distill(matrix, max_bytes=size, verbose=False)
    error = float(np.sqrt(np.mean((small.dense() - matrix) ** 2)))
    return [{"method": "accams, distilled", "setting": f"{len(small.stencils)} stencils", "bytes": small.size.bytes,
             "file_bytes": small.size.bytes, "rmse": error}]  # fmt: skip


def svds(largest: int, folder: Path, given: list[Row]) -> list[Row]:
    """Truncated SVDs in 32 bits, and quantised and entropy-coded: the best of each size."""
    matrix, _ = faces()
    m, n = matrix.shape
    centred = matrix - matrix.mean()
    total = np.square(centred).sum()
    target = of_matrix(matrix, np.ones(m), np.ones(n), m)
    left = np.sqrt(np.maximum(total - np.cumsum(target.singular_values**2), 0.0) / matrix.size)
    rows: list[Row] = [
        {"method": "SVD, 32 bits", "setting": f"rank {r}", "bytes": 4.0 * r * (m + n), "rmse": float(left[r - 1])}
        for r in range(1, m)
        if 4 * r * (m + n) <= 8 * largest
    ]
    for each in svd_points(centred, target, largest):
        rows.append({"method": "SVD, quantised", "setting": each.which, "bytes": each.size, "rmse": each.error})
    return rows


def runs(plan: Plan) -> list[Run]:
    s = 16 if plan.quick else 64
    largest = 500_000 if plan.quick else 1_000_000
    return [
        *(Run(("faces", f"ACCAMS k={k} s={s}"), partial(backfitted, k, s), s * k / 90) for k in CLUSTERS),
        *(Run(("faces", f"one co-clustering k={k}"), partial(classic, k), 1 + k / 10) for k in CLASSIC),
        *(
            Run(("faces", f"distilled {size}"), partial(distilled, size), size / 1500)
            for size in SMALL[: 2 if plan.quick else None]
        ),
        Run(("faces", f"SVD {largest}"), partial(svds, largest), largest / 10_000),
    ]


def points(rows: list[Row], method: str, y: str = "rmse") -> list[tuple[float, float]]:
    return [(row["bytes"], row[y]) for row in rows if row["method"] == method]


def lower_envelope(found: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of each size the best up to it."""
    kept: list[tuple[float, float]] = []
    for size, error in sorted(found):
        if not kept or error < kept[-1][1]:
            kept.append((size, error))
    return kept


def at_error(found: list[tuple[float, float]], error: float) -> float:
    """About how many bytes reach an error, between two points by the logarithm; NaN where none do."""
    best = lower_envelope(found)
    if not best or best[-1][1] > error:
        return float("nan")
    sizes, errors = np.array(best)[::-1].T
    return float(np.exp(np.interp(error, errors, np.log(sizes))))


def factors(rows: list[Row], y: str = "rmse", methods: tuple[str, ...] = (OURS, "accams, distilled")) -> str:
    """The bytes of rivals at the error of ours, as multiples of ours: like with like, by formula or on disk."""
    lines = []
    for method in methods:
        ours = sorted((row for row in rows if row["method"] == method), key=lambda row: row["bytes"])
        if len(ours) > 6:
            ours = [ours[i] for i in np.unique(np.geomspace(1, len(ours), 6).astype(int) - 1)]
        for row in ours:
            multiples = [at_error(points(rows, rival, y), row[y]) / row[size] for rival, size in RIVALS.items()]
            shown = ["more than all tried" if np.isnan(x) else f"{x:.1f}" for x in multiples]
            lines.append(
                [method, f"{row['bytes'] / 1000:,.0f}", f"{row['file_bytes'] / 1000:,.0f}", f"{row[y]:.4g}", *shown]
            )
    return table(["model", "KB by formula", "KB on disk", "error", *(f"{rival}: times" for rival in RIVALS)], lines)


def show(plan: Plan, rows: list[Row]) -> Page:
    figure, (ax,) = axes()
    for p, method in enumerate((OURS, "ACCAMS, k=16", "accams, distilled")):
        curve(ax, points(rows, method), method, p)
    curve(ax, points(rows, "SVD, 32 bits"), "SVD, 32 bits", 4, "-")
    curve(ax, lower_envelope(points(rows, "SVD, quantised")), "SVD, quantised and entropy-coded", 6, "-")
    curve(ax, points(rows, "one co-clustering"), "one co-clustering, growing k", 3, "s--")
    size_axis(ax)
    ax.set_ylabel("root mean squared error, grey levels")
    ax.legend(frameon=False, fontsize=9)
    page = Page(figures={"faces": figure})
    page.add(
        "The 640 x 15,360 matrix of the CMU face images. ACCAMS as in the paper, size by its formula; beside it what "
        "`distill(max_bytes)` writes, size on disk; SVDs with 32 bits a number as the paper counts them, and quantised "
        "and entropy-coded as well as we could; and a single co-clustering with more and more clusters. Bytes of "
        "rivals at the error of ours: quantised and entropy-coded SVDs as multiples of our bytes on disk, the others "
        "of those by formula.",
        factors(rows),
    )
    return page


STUDY = Study("faces", "CMU faces: error against size", runs, show)
