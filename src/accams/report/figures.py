"""The figures of a report for print: matplotlib figures that can be saved as PNG, SVG or PDF.

Each takes the facts that `accams.report.gather(model)` gives. Nothing global is set, and no window opens.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.model.size import bytes_text
from accams.report.facts import Facts, Picture, group_name, largest_of, later_gains, significant
from accams.use.hierarchy import Node

Floats = NDArray[np.float64]
BLUE, GREY, ORANGE = "#2563c9", "#9aa3b2", "#c2571a"
BRANCHES = ("#9cc0f2", "#f2bd94", "#a5d8bd", "#cdb8ee", "#d5dae2")
LINE = 0.17  # inches, of a line of small text
WIDEST = 34  # letters of a name


def save_all(facts: Facts, folder: str | Path, formats: tuple[str, ...] = ("png", "svg")) -> list[Path]:
    """Write all figures for which there are facts; returns the files."""
    folder = Path(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write figures into {folder}: {error.strerror}") from None
    written = []
    for name, draw in FIGURES.items():
        figure = draw(facts)
        for each in formats if figure is not None else ():
            written.append(folder / f"{name}.{each}")
            figure.savefig(written[-1], dpi=150, metadata={"Date": None} if each == "svg" else None)
    return written


def hierarchy(facts: Facts) -> Any:
    """The tree of columns from left to right: boxes as high as they have members, named by the most typical ones."""
    depth = max(level for level, _ in facts.tree.walk())
    leaves = sum(not node.children for _, node in facts.tree.walk())
    figure, ax = _one((3.4 * (depth + 1), max(4.0, 0.62 * leaves)))

    def draw(node: Node, level: int, low: float, high: float, colour: str) -> None:
        from matplotlib.patches import Rectangle

        ax.add_patch(Rectangle((level, low), 1, high - low, facecolor=colour, edgecolor="white", linewidth=1.5))
        lines = max(1, int((high - low) / facts.tree.size * figure.get_figheight() / LINE))
        names = [_short(facts.name(x)) for x in node.members]
        text = (
            [f"{node.size:,} {_short(facts.sides[1])}", *names]
            if level == 0
            else [f"{node.size:,}: {names[0]}", *names[1:]]
        )
        shown = "\n".join(text[:lines])
        ax.text(level + 0.03, (low + high) / 2, shown, va="center", fontsize=8, color="#1c2330", clip_on=True)
        for p, child in enumerate(node.children):
            draw(child, level + 1, low, low + child.size, BRANCHES[p % len(BRANCHES)] if level == 0 else colour)
            low += child.size

    draw(facts.tree, 0, 0.0, facts.tree.size, "#eef1f5")
    ax.set_xlim(0, depth + 1)
    ax.set_ylim(facts.tree.size, 0)
    ax.set_axis_off()
    return figure


def stencils(facts: Facts) -> Any:
    """The stencils that tell most apart, as small tables of what they add."""
    across = min(2, len(facts.pictures))
    down = -(-len(facts.pictures) // across)
    figure, axes = _several((5.6 * across, 4.0 * down), down, across)
    for ax, picture in zip(axes, facts.pictures, strict=False):
        _draw_picture(ax, picture, facts.sides)
    for ax in axes[len(facts.pictures) :]:
        ax.set_axis_off()
    return figure


def _draw_picture(ax: Any, picture: Picture, sides: tuple[str, str]) -> None:
    table = picture.table.T
    largest = largest_of(np.abs(table))
    digits = significant(largest)
    ax.imshow(table, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    for (p, q), value in np.ndenumerate(table):
        colour = "white" if abs(value) > 0.6 * largest else "#1c2330"
        ax.text(q, p, f"{value:+{digits}}", ha="center", va="center", fontsize=7, color=colour)
    names = ["\n".join(_short(name, 26) for name in each[:2]) for each in picture.names]
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_xticks(range(len(picture.row_sizes)), [f"{n:,}" for n in picture.row_sizes], fontsize=7)
    ax.set_xlabel(f"{_short(sides[0])} in each group", fontsize=8)
    ax.set_title(f"stencil {picture.stencil}", fontsize=9, loc="left")


def quality(facts: Facts) -> Any:
    """Intervals and errors on data that was not fitted; None where there was none."""
    found = facts.evaluation
    if found is None:
        return None
    parts = [
        (groups, side) for groups, side in ((found.by_col, facts.sides[1]), (found.by_row, facts.sides[0])) if groups
    ]
    n = len(parts) + bool(found.coverage)
    if n == 0:
        return None
    figure, axes = _several((4.4 * n, 3.2), 1, n)
    for ax, (groups, side) in zip(axes, parts, strict=False):
        ax.bar(range(len(groups)), [group.rmse for group in groups], color=BLUE)
        ax.axhline(found.rmse, color=GREY, linestyle=":")
        ax.set_xticks(range(len(groups)), list(map(group_name, groups)), fontsize=8)
        ax.set(xlabel=f"observations that the {_short(side)} had", ylabel="RMSE")
    if found.coverage:
        should, do = (np.array([100.0 * each[p] for each in found.coverage]) for p in (0, 1))
        axes[-1].plot([45, 100], [45, 100], color=GREY, linestyle=":")
        axes[-1].plot(should, do, color=BLUE, marker="o")
        axes[-1].set(xlabel="intervals of, %", ylabel="cover, %")
    return figure


def size(facts: Facts) -> Any:
    """Bytes of the model and of what one would keep in its place."""
    ordered = sorted(facts.weights, key=lambda each: -each.bytes)
    figure, ax = _one((7.0, 0.6 + 0.42 * len(ordered)))
    colours = [BLUE if each.ours else GREY for each in ordered]
    bars = ax.barh([each.what for each in ordered], [each.bytes for each in ordered], color=colours, log=True)
    ax.bar_label(bars, [bytes_text(each.bytes) for each in ordered], padding=3, fontsize=8)
    ax.set_xlim(ordered[-1].bytes / 10, ordered[0].bytes * 10)
    ax.set_xlabel("bytes")
    return figure


def fit(facts: Facts) -> Any:
    """Error, gain, entropy and change of labels, rows and columns apart; None where the model does not know them."""
    course = facts.course
    if course is None:
        return None
    once = len(course.rmse) == 1
    figure, axes = _several((9.0, 6.0 if once else 9.0), 2 if once else 3, 2)
    curve = course.error[0] if once and course.error is not None else course.rmse
    axes[0].plot(range(1, len(curve) + 1), curve, color=BLUE, label="training RMSE")
    if course.sigma is not None:
        axes[0].plot(range(1, len(curve) + 1), course.sigma, color=ORANGE, label="noise of the sampler")
        axes[0].legend(frameon=False, fontsize=8)
    axes[0].set(xlabel="stencil" if once else "sweep", ylabel="training RMSE")
    axes[1].bar(range(course.gain.shape[1]), later_gains(course), color=BLUE)
    axes[1].set(xlabel="stencil", ylabel="lowers the mean squared error by")
    shown = [("entropy of labels, bits", course.entropy)] + (
        [] if once else [("share of labels changed", course.changed)]
    )
    for line, (what, values) in enumerate(shown, start=1):
        largest = largest_of(values)
        for side in (0, 1):
            _draw_stencils(axes[2 * line + side], values[:, :, side], f"{what}: {_short(facts.sides[side])}", largest)
    return figure


def _draw_stencils(ax: Any, values: Floats, title: str, largest: float) -> None:
    ax.set_title(title, fontsize=9, loc="left")
    if len(values) == 1:
        ax.bar(range(values.shape[1]), values[0], color=BLUE)
        ax.set(xlabel="stencil", ylim=(0, 1.05 * largest))
        return
    extent = (0.5, len(values) + 0.5, values.shape[1] - 0.5, -0.5)
    image = ax.imshow(values.T, aspect="auto", vmin=0.0, vmax=largest, extent=extent, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax)
    ax.set(xlabel="sweep", ylabel="stencil")


def _several(inches: tuple[float, float], down: int, across: int) -> tuple[Any, list[Any]]:
    """A figure with axes that leave room for each other's labels."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'accams[plot]'") from None
    figure = Figure(figsize=inches, layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(down, across)).ravel())
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _one(inches: tuple[float, float]) -> tuple[Any, Any]:
    figure, axes = _several(inches, 1, 1)
    return figure, axes[0]


def _short(name: str, width: int = WIDEST) -> str:
    return (name if len(name) <= width else name[: width - 1].rstrip() + "…").replace("$", r"\$")


FIGURES: dict[str, Callable[[Facts], Any]] = {
    "hierarchy": hierarchy, "stencils": stencils, "quality": quality, "size": size, "fit": fit,
}  # fmt: skip
