"""The approximation theorem on faces: bound, greedy cover, ACCAMS and SVD; repeated stencils and their rate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from accams.theory import approximation_bound, cover_stencil
from paper.faces import plain_accams
from paper.pages import Page, axes, curve, table
from paper.runs import Row, Run
from paper.sets import faces
from paper.study import Plan, Study

CLUSTERS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
REPEATED, STEPS = 16, 12  # clusters, and stencils on residuals


def some_faces(step: int) -> np.ndarray:
    """The images with every so many-th pixel."""
    return faces()[0][:, ::step]


def spectral(M: np.ndarray) -> float:
    return float(np.sqrt(np.linalg.eigvalsh(M @ M.T if len(M) < len(M.T) else M.T @ M)[-1]))


def errors(M: np.ndarray, approximation: np.ndarray) -> Row:
    rest = M - approximation
    return {"max": float(np.abs(rest).max()), "spectral": spectral(rest), "rmse": float(np.sqrt(np.mean(rest**2)))}


def one_stencil(M: np.ndarray, k: int) -> np.ndarray:
    return plain_accams(M, 1, k).stencils_.dense()


def single(clusters: tuple[int, ...], step: int, folder: Path, given: list[Row]) -> list[Row]:
    """One stencil of more and more clusters, beside what the theorem promises."""
    M = some_faces(step)
    u, s, vt = np.linalg.svd(M, full_matrices=False)
    rows: list[Row] = [{"method": "zeros", "clusters": 0, **errors(M, np.zeros_like(M))}]
    for l in clusters:
        of = approximation_bound(s, l), approximation_bound(s, l, "spectral", shape=M.shape)
        rows.append({"method": "bound", "clusters": l, "max": float(of[0]), "spectral": float(of[1])})
        rows.append({"method": "greedy cover, centres", "clusters": l, **errors(M, cover_stencil(M, l).model.dense())})
        rows.append(
            {"method": "greedy cover, means", "clusters": l, **errors(M, cover_stencil(M, l, "means").model.dense())}
        )
        rows.append({"method": "ACCAMS", "clusters": l, **errors(M, one_stencil(M, l))})
        rows.append({"method": "SVD", "clusters": l, **errors(M, (u[:, :l] * s[:l]) @ vt[:l])})
    return rows


def repeated(k: int, steps: int, step: int, folder: Path, given: list[Row]) -> list[Row]:
    """Stencil after stencil on what is left, by both methods."""
    rows: list[Row] = []
    for method in ("greedy cover, means", "ACCAMS"):
        rest = some_faces(step)
        norm = spectral(rest)
        rows.append({"method": f"repeated: {method}", "clusters": k, "stencil": 0, "spectral": norm, "rate": 1.0})
        for l in range(1, steps + 1):
            promised = float(approximation_bound(rest, k, "spectral"))
            found = cover_stencil(rest, k, "means").model.dense() if "cover" in method else one_stencil(rest, k)
            rest = rest - found
            before, norm = norm, spectral(rest)
            rows.append({"method": f"repeated: {method}", "clusters": k, "stencil": l, "spectral": norm,
                         "rate": norm / before, "promised_rate": promised / before})  # fmt: skip
    return rows


def runs(plan: Plan) -> list[Run]:
    step = 8 if plan.quick else 1
    clusters = CLUSTERS[: 6 if plan.quick else None]
    return [
        Run(
            ("bounds", f"one stencil, 1 of {step} pixels, {clusters[-1]}"), partial(single, clusters, step), 600 / step
        ),
        Run(("bounds", f"repeated, 1 of {step} pixels"), partial(repeated, REPEATED, STEPS, step), 400 / step),
    ]


def draw(rows: list[Row], zeros: Row) -> Any:
    """Both norms over clusters, and the spectral norm over repeated stencils."""
    figure, (one, two, three) = axes(14, 4.4, across=3)
    for p, method in enumerate(("bound", "greedy cover, means", "greedy cover, centres", "ACCAMS", "SVD")):
        for ax, norm in ((one, "spectral"), (two, "max")):
            if not (norm == "spectral" and method.endswith("centres")):  # the theorem says nothing about it
                found = [(row["clusters"], row[norm] / zeros[norm]) for row in rows if row["method"] == method]
                curve(ax, found, f"{method}{' of that rank' if method == 'SVD' else ''}", p)
    for ax, label in ((one, "spectral norm of the error / of the matrix"), (two, "largest error / largest entry")):
        ax.axhline(1.0, color="#1c2330", linestyle=":", linewidth=1.2, label="zeros: above it, vacuous")
        ax.set(xscale="log", yscale="log", xlabel="clusters a side", ylabel=label)
    for method, colour in (("greedy cover, means", 1), ("ACCAMS", 3)):
        here = [row for row in rows if row["method"] == f"repeated: {method}"]
        curve(three, [(row["stencil"], row["spectral"] / zeros["spectral"]) for row in here], method, colour)
    three.set(yscale="log", xlabel=f"stencils of {REPEATED} x {REPEATED}", ylabel="spectral norm of what is left")
    two.legend(frameon=False, fontsize=8)
    three.legend(frameon=False, fontsize=8)
    return figure


def show(plan: Plan, rows: list[Row]) -> Page:
    zeros = next(row for row in rows if row["method"] == "zeros")
    single = [
        [row["method"], row["clusters"] or "",
         *(f"{row[x] / zeros[x]:.3g}" if x in row else "" for x in ("max", "spectral", "rmse"))]
        for row in rows if "stencil" not in row
    ]  # fmt: skip
    rates = [
        [row["method"].removeprefix("repeated: "), row["stencil"], f"{row['rate']:.3f}", f"{row['promised_rate']:.1f}"]
        for row in rows
        if row.get("stencil")
    ]
    pixels = " with every eighth pixel" if plan.quick else ""
    page = Page(figures={"bounds": draw(rows, zeros)})
    page.add(
        f"The faces{pixels}, not centred. Errors are shares of those of a matrix of zeros, so a bound above 1 promises "
        "nothing.",
        table(["what", "clusters", "largest error", "spectral norm", "root mean square"], single),
        "Stencil after stencil on the residual: by how much each lowers the spectral norm, and what the theorem "
        "promises for it (1 or more: nothing).",
        table(["method", "stencil", "norm after / before", "bound / before"], rates),
    )
    return page


STUDY = Study("bounds", "The approximation theorem, measured on faces", runs, show)
