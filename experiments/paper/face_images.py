"""Figure 6: faces, the first stencils, and their running sums, beside eigenfaces in as many bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from accams import ACCAMS, Observations, StencilSum
from paper.pages import Page, axes
from paper.runs import Row, Run
from paper.sets import faces
from paper.study import Plan, Study

CLUSTERS, STENCILS = 32, 16
SUMS = (2, 4, 16)
FILE = "face-images.accams"
PEOPLE = (3, 198, 420)  # images of three people


def fitted(matrix: np.ndarray) -> StencilSum:
    return (
        ACCAMS(STENCILS, CLUSTERS, learning_rate=1.0, random_state=0, verbose=False)
        .fit(Observations.from_dense(matrix))
        .stencils_
    )


def first(model: StencilSum, s: int) -> StencilSum:
    return StencilSum(model.shape, model.offset, model.stencils[:s])


def rank_of(size: float, shape: tuple[int, int]) -> int:
    """The rank of a 32-bit SVD of about so many bytes."""
    return max(1, round(size / (4 * sum(shape))))


def work(folder: Path, given: list[Row]) -> list[Row]:
    """Sizes and errors of what the pictures show; the model is kept for drawing."""
    matrix, _ = faces()
    model = fitted(matrix)
    model.save(folder / FILE)
    values = np.linalg.svd(matrix - matrix.mean(), compute_uv=False)
    rows = []
    for s in SUMS:
        some = first(model, s)
        rank = rank_of(some.bits / 8, matrix.shape)
        error = float(np.sqrt(np.mean((some.dense() - matrix) ** 2)))
        eigen = float(np.sqrt(np.square(values[rank:]).sum() / matrix.size))
        rows.append({"file": FILE, "stencils": s, "bytes": some.bits / 8, "rmse": error, "rank": rank,
                     "eigenfaces_bytes": 4.0 * rank * sum(matrix.shape), "eigenfaces_rmse": eigen})  # fmt: skip
    return rows


def runs(plan: Plan) -> list[Run]:
    return [Run(("face-images", f"k={CLUSTERS} s={STENCILS}"), work, 12)]


def show(plan: Plan, rows: list[Row]) -> Page:
    import accams

    matrix, shape = faces()
    found = accams.load(plan.kept / FILE)
    model = found if isinstance(found, StencilSum) else found.stencils_
    u, s, vt = np.linalg.svd(matrix - matrix.mean(), full_matrices=False)
    columns: list[tuple[str, Any]] = [("original", lambda i: matrix[i])]
    for l in (0, 1):
        part = model.stencils[l]
        columns.append((f"stencil {l + 1}", lambda i, part=part: part.template[part.row_labels[i]][part.col_labels]))
    for row in rows:
        some = first(model, row["stencils"])
        pixels = np.arange(some.shape[1])
        columns.append((f"{row['stencils']} stencils\n{row['bytes'] / 1000:.0f} KB",
                        lambda i, some=some, pixels=pixels: some.predict(np.full(len(pixels), i), pixels)))  # fmt: skip
    rank = rows[-1]["rank"]
    columns.append((f"{rank} eigenface{'s' if rank > 1 else ''}\n{rows[-1]['eigenfaces_bytes'] / 1000:.0f} KB",
                    lambda i: matrix.mean() + (u[i, :rank] * s[:rank]) @ vt[:rank]))  # fmt: skip
    figure, grid = axes(1.55 * len(columns), 1.45 * len(PEOPLE) + 0.4, len(columns), len(PEOPLE))
    for place, ax in enumerate(grid):
        line, column = divmod(place, len(columns))
        name, pixels = columns[column]
        ax.imshow(pixels(PEOPLE[line]).reshape(shape), cmap="gray", interpolation="nearest")
        ax.set_axis_off()
        if line == 0:
            ax.set_title(name, fontsize=9)
    page = Page(figures={"face-images": figure})
    page.add(
        f"Three of the 640 images; the first two stencils of {CLUSTERS} x {CLUSTERS} clusters alone; the mean and the "
        "first stencils added up; and the mean and eigenfaces (an SVD in 32 bits) in about the bytes of the last "
        "sum. Sizes are of the model of all images.",
    )
    return page


STUDY = Study("face-images", "Faces, stencil by stencil", runs, show)
