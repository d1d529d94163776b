"""Figure 6: faces, the first stencils, and their running sums, beside eigenfaces in as many bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import accams
from accams import StencilSum
from paper.faces import plain_accams
from paper.pages import Page, axes, table
from paper.runs import Row, Run
from paper.sets import faces
from paper.study import Plan, Study

CLUSTERS = 32
SUMS = (9, 18)  # stencils, in the bytes of 2 and 4 eigenfaces
PEOPLE = (3, 198, 420)  # images of three people
FILE = "face-images.accams"
Column = tuple[str, Callable[[int], np.ndarray]]  # a heading, and the pixels of an image


def work(folder: Path, given: list[Row]) -> list[Row]:
    """Sizes and errors of what the pictures show; the model is kept for drawing."""
    matrix, _ = faces()
    model = plain_accams(matrix, max(SUMS), CLUSTERS).stencils_
    model.save(folder / FILE)
    values = np.linalg.svd(matrix - matrix.mean(), compute_uv=False)
    rows = []
    for s in SUMS:
        some = replace(model, stencils=model.stencils[:s])
        rank = max(1, round(some.bits / (32 * sum(matrix.shape))))
        rows.append({
            "file": FILE, "stencils": s, "bytes": some.bits / 8,
            "rmse": float(np.sqrt(np.mean((some.dense() - matrix) ** 2))),
            "eigenfaces": rank, "eigenfaces_bytes": 4.0 * rank * sum(matrix.shape),
            "eigenfaces_rmse": float(np.sqrt(np.square(values[rank:]).sum() / matrix.size)),
        })  # fmt: skip
    return rows


def runs(plan: Plan) -> list[Run]:
    return [Run(("face-images", f"k={CLUSTERS}"), work, 12, settings=SUMS)]


def columns_of(model: StencilSum, matrix: np.ndarray, rows: list[Row]) -> list[Column]:
    """Original, single stencils, and sums beside eigenfaces."""
    u, s, vt = np.linalg.svd(matrix - matrix.mean(), full_matrices=False)

    def stencil(l: int) -> Column:
        part = model.stencils[l]
        return f"stencil {l + 1}", lambda i: part.template[part.row_labels[i]][part.col_labels]

    def stencils(n: int, size: float) -> Column:
        some, pixels = replace(model, stencils=model.stencils[:n]), np.arange(model.shape[1])
        return f"{n} stencils\n{size / 1000:.0f} KB", lambda i: some.predict(np.full(len(pixels), i), pixels)

    def eigenfaces(rank: int, size: float) -> Column:
        heading = f"{rank} eigenfaces\n{size / 1000:.0f} KB"
        return heading, lambda i: matrix.mean() + (u[i, :rank] * s[:rank]) @ vt[:rank]

    found: list[Column] = [("original", lambda i: matrix[i]), stencil(0), stencil(1)]
    for row in rows:
        found.append(stencils(row["stencils"], row["bytes"]))
        found.append(eigenfaces(row["eigenfaces"], row["eigenfaces_bytes"]))
    return found


def draw(columns: list[Column], shape: tuple[int, int]) -> Any:
    figure, grid = axes(1.55 * len(columns), 1.5 * len(PEOPLE) + 0.4, len(columns), len(PEOPLE))
    for place, ax in enumerate(grid):
        person, column = divmod(place, len(columns))
        heading, pixels = columns[column]
        ax.imshow(pixels(PEOPLE[person]).reshape(shape), cmap="gray", interpolation="nearest")
        ax.set_axis_off()
        if person == 0:
            ax.set_title(heading, fontsize=9)
    return figure


def show(plan: Plan, rows: list[Row]) -> Page:
    matrix, shape = faces()
    columns = columns_of(accams.load(plan.kept / FILE), matrix, rows)
    page = Page(figures={"face-images": draw(columns, shape)})
    lines = [
        [row["stencils"], f"{row['bytes'] / 1000:.0f}", f"{row['rmse']:.1f}", row["eigenfaces"],
         f"{row['eigenfaces_bytes'] / 1000:.0f}", f"{row['eigenfaces_rmse']:.1f}"]
        for row in rows
    ]  # fmt: skip
    page.add(
        f"Three of the 640 images; the first two stencils of {CLUSTERS} x {CLUSTERS} clusters alone; the mean and the "
        "first stencils added up, beside the mean and eigenfaces (an SVD in 32 bits) in as many bytes. Sizes are of "
        "the model of all images, errors their root mean squares in grey levels.",
        table(["stencils", "KB", "error", "eigenfaces", "KB", "error"], lines),
    )
    return page


STUDY = Study("face-images", "Faces, stencil by stencil", runs, show)
