"""Draw the idea: a matrix with gaps, the stencils that were fitted to it, and their sum.

Run: python experiments/idea.py
Writes docs/figures/idea.svg (side by side), idea-matrix.svg, idea-stencils.svg and idea-sum.svg.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from accams import ACCAMS

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
SHAPE = (18, 24)
LOW, HIGH = 1.0, 5.0  # stars
INK, SOFT, GROUND = "#1c2330", "#586273", "#f7f8fa"
Floats = NDArray[np.float64]


def ratings() -> tuple[Floats, Floats]:
    """Return a matrix that is a sum of two co-clusterings with noise, and the same with gaps."""
    random = np.random.default_rng(3)
    matrix = np.full(SHAPE, 3.0)
    for (a, b), scale in (((3, 4), 1.1), ((3, 3), 0.7)):
        template = random.permutation(np.linspace(-1.0, 1.0, a * b)).reshape(a, b)
        template -= template.mean()
        rows, cols = np.arange(SHAPE[0]) * a // SHAPE[0], np.arange(SHAPE[1]) * b // SHAPE[1]
        if b == 3:  # the second one sorts both sides in another way
            rows, cols = np.arange(SHAPE[0]) % a, np.arange(SHAPE[1]) % b
        matrix += scale * template[np.ix_(rows, cols)]
    matrix += random.normal(0.0, 0.15, SHAPE)
    gaps = np.where(random.random(SHAPE) < 0.45, np.nan, matrix)
    return matrix, gaps


def draw(ax: Any, matrix: Floats, title: str, below: str, low: float, high: float) -> None:
    shown = ax.imshow(matrix, cmap="RdBu", vmin=low, vmax=high, interpolation="nearest")
    shown.cmap.set_bad(GROUND)
    ax.set_xticks(np.arange(-0.5, SHAPE[1]), labels=[])
    ax.set_yticks(np.arange(-0.5, SHAPE[0]), labels=[])
    ax.grid(color="white", linewidth=0.6)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=11, color=INK)
    ax.set_xlabel(below, fontsize=9, color=SOFT, labelpad=2)


def save(figure: Figure, name: str) -> None:
    with rc_context({"svg.hashsalt": "accams", "svg.fonttype": "path"}):
        figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None}, facecolor="white")


def main() -> None:
    matrix, gaps = ratings()
    model = ACCAMS(n_stencils=2, n_clusters=[(3, 4), (3, 3)], n_relearn=40, learning_rate=1.0, random_state=0).fit(gaps)
    stencils = model.stencils_.stencils
    total = model.stencils_.dense()
    hidden = np.isnan(gaps)
    print(f"RMSE on the {hidden.sum()} hidden cells {np.sqrt(np.mean((total - matrix)[hidden] ** 2)):.3f}, noise 0.15")
    parts = [x.template[np.ix_(x.row_labels, x.col_labels)] for x in stencils]
    largest = max(np.abs(part).max() for part in parts)
    known = f"{SHAPE[0]} x {SHAPE[1]} cells, {1 - hidden.mean():.0%} of them known"
    pictures = [
        ("matrix", gaps, "a matrix with gaps", known, LOW, HIGH),
        *(
            (f"stencil{n}", part, f"stencil {n}", f"{'x'.join(map(str, x.template.shape))} numbers", -largest, largest)
            for n, (part, x) in enumerate(zip(parts, stencils, strict=True), start=1)
        ),
        ("sum", total, "their sum", "all cells filled", LOW, HIGH),
    ]
    figure = Figure(figsize=(12.4, 2.9), layout="constrained")
    for ax, (_, *what), sign in zip(figure.subplots(1, 4), pictures, "≈+=", strict=False):
        draw(ax, *what)
        ax.annotate(sign, (1.09, 0.5), xycoords="axes fraction", ha="center", va="center", fontsize=20, color=INK)
    draw(figure.axes[3], *pictures[3][1:])
    save(figure, "idea")
    for name, chosen in (("matrix", [0]), ("stencils", [1, 2]), ("sum", [3])):
        single = Figure(figsize=(4.0, 3.3), layout="constrained")
        for ax, p in zip(np.ravel(single.subplots(len(chosen), 1)), chosen, strict=True):
            draw(ax, *pictures[p][1:])
            if len(chosen) > 1:
                ax.set_title("")
                ax.set_xlabel("")
        save(single, f"idea-{name}")


if __name__ == "__main__":
    main()
