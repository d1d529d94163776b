"""Figures of a report for print: matplotlib figures that can be saved as PNG, SVG or PDF.

They show the facts that `accams.report.gather(model)` returns: the plots of the page, drawn by matplotlib, and the
tree. Nothing global is set, and no window opens.
"""

from collections.abc import Callable, Sequence
from html import unescape
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from accams.errors import InputError
from accams.report import plots
from accams.report.facts import Facts, Name, significant
from accams.report.plots import Panel, Plot
from accams.use.hierarchy import Node
from accams.writing import replacing, reported

INK = "#1c2330"
COLOURS = {"$accent": "#2563c9", "$warm": "#c2571a", "$green": "#2e8b57", "$violet": "#7a4fc9", "$faint": "#9aa3b2"}
BRANCHES = ("#9cc0f2", "#f2bd94", "#a5d8bd", "#cdb8ee", "#d5dae2")
LINE = 0.17  # inches, of a line of small text
PIXELS = 110  # of the page, to an inch
POINTS = 0.72  # points of print to a pixel of the page
WIDEST = 34  # letters of a name


def save_all(facts: Facts, folder: str | Path, formats: tuple[str, ...] = ("png", "svg")) -> list[Path]:
    """Write all figures for which there are facts; return their paths."""
    folder = Path(folder)
    with reported(f"figures into {folder}"):
        folder.mkdir(exist_ok=True)
    written = []
    for name, draw in FIGURES.items():
        figure = draw(facts)
        for suffix in formats if figure is not None else ():
            written.append(folder / f"{name}.{suffix}")
            with replacing(written[-1]) as file:
                save_figure(figure, file, suffix)
    return written


def save_figure(figure: Any, file: Path, suffix: str) -> None:
    """Write a figure without a date, and with the same names inside of it each time."""
    from matplotlib import rc_context

    dated = {"svg": "Date", "pdf": "CreationDate"}.get(suffix)
    with rc_context({"svg.hashsalt": "accams"}):
        figure.savefig(file, dpi=150, format=suffix, metadata={dated: None} if dated else None)


def hierarchy(facts: Facts) -> Any:
    """Draw the tree of items of a report."""
    return tree_figure(facts.tree, facts.name, facts.sides[1])[0]


def draw_tree(ax: Any, tree: Node, name: Name, side: str) -> None:
    """Draw a tree from left to right: boxes as high as they have members, named by the most typical ones."""
    figure = ax.figure

    def box(node: Node, level: int, low: float, high: float, colour: str) -> None:
        from matplotlib.patches import Rectangle

        ax.add_patch(Rectangle((level, low), 1, high - low, facecolor=colour, edgecolor="white", linewidth=1.5))
        lines = max(1, int((high - low) / tree.size * figure.get_figheight() / LINE))
        names = [_short(name(x)) for x in node.members]
        first = [f"{node.size:,}: {names[0]}"] if level else [f"{node.size:,} {_short(side)}", *names[:1]]
        shown = "\n".join([*first, *names[1:]][:lines])
        ax.text(level + 0.03, (low + high) / 2, shown, va="center", fontsize=8, color=INK, clip_on=True)
        for p, child in enumerate(node.children):
            box(child, level + 1, low, low + child.size, BRANCHES[p % len(BRANCHES)] if level == 0 else colour)
            low += child.size

    box(tree, 0, 0.0, tree.size, "#eef1f5")
    ax.set_xlim(0, max(level for level, _ in tree.walk()) + 1)
    ax.set_ylim(tree.size, 0)
    ax.set_axis_off()


def tree_figure(tree: Node, name: Name, side: str, shown: bool = False) -> tuple[Any, Any]:
    """Draw a tree; return the figure and its Axes."""
    leaves, depth = sum(not node.children for _, node in tree.walk()), max(level for level, _ in tree.walk())
    figure, [ax] = new_figure(1, [max(4.0, 0.62 * leaves)], 3.4 * (depth + 1), shown)
    draw_tree(ax, tree, name, side)
    return figure, ax


def drawn(panels: Sequence[Panel], across: int, width: float, shown: bool = False) -> tuple[Any, list[Any]]:
    """Draw panels in a grid; return the figure and their Axes. Those of a figure to be shown belong to pyplot."""
    across = min(across, len(panels))
    lines = [panels[p : p + across] for p in range(0, len(panels), across)]
    heights = [max(panel.plot["layout"]["height"] for panel in line) / PIXELS for line in lines]
    figure, axes = new_figure(across, heights, width, shown)
    for ax, panel in zip(axes, panels, strict=False):
        draw(ax, panel)
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    return figure, axes[: len(panels)]


def _grid(panels: Sequence[Panel], across: int, width: float) -> Any:
    """Draw panels in a grid; return None if there are none."""
    return drawn(panels, across, width)[0] if panels else None


def new_figure(across: int, heights: Sequence[float], width: float, shown: bool = False) -> tuple[Any, list[Any]]:
    """Make a figure with axes that leave room for each other's labels; `width` is that of one of them, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'accams[plot]'") from None
    size: dict[str, Any] = {"figsize": (width * across, sum(heights)), "layout": "constrained"}
    if shown:
        from matplotlib import pyplot

        figure: Any = pyplot.figure(**size)
    else:
        figure = Figure(**size)
    axes = figure.subplots(len(heights), across, squeeze=False, height_ratios=heights)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def draw(ax: Any, panel: Panel) -> None:
    """Draw a panel into Axes."""
    layout = panel.plot["layout"]
    for trace, colour in zip(panel.plot["data"], cycle(layout["colorway"])):
        DRAWN[trace["type"]](ax, trace, colour)
    for name in ("x", "y"):
        axis = layout[f"{name}axis"]
        getattr(ax, f"set_{name}label")(_text(axis.get("title", {}).get("text", "")), fontsize=9)
        if axis.get("showticklabels") is False:
            getattr(ax, f"set_{name}ticks")([])
            ax.spines[["left" if name == "y" else "bottom"]].set_visible(False)
        if axis.get("type") == "log":
            getattr(ax, f"set_{name}scale")("log")
        if "ticktext" in axis:
            getattr(ax, f"set_{name}ticks")(axis["tickvals"], list(map(_text, axis["ticktext"])), fontsize=7)
    if layout["showlegend"]:
        ax.legend(frameon=False, fontsize=8)
    ax.set_title(_short(panel.title, 60), fontsize=9, loc="left")


def _draw_lines(ax: Any, trace: Plot, colour: str) -> None:
    if trace["mode"] == "text":
        for x, y, name in zip(trace["x"], trace["y"], trace["text"], strict=True):
            ax.annotate(_text(name), (x, y), (0, 4), textcoords="offset points", ha="center", fontsize=7, color=INK)
        return
    if trace["mode"] == "markers":
        marker = trace["marker"]
        areas = np.square(np.array(marker["size"], np.float64) * POINTS)
        colour = COLOURS[marker.get("color", colour)]
        look = {"alpha": marker.get("opacity"), "linewidths": 0, "label": _text(trace["name"]) or None}
        ax.scatter(trace["x"], trace["y"], areas, colour, **look)
        return
    line = trace.get("line", {})
    style = {"linestyle": ":" if "dash" in line else "-", "marker": "o" if "markers" in trace["mode"] else ""}
    y = np.array(trace["y"], np.float64)
    ax.plot(trace["x"], y, color=COLOURS[line.get("color", colour)], label=_text(trace["name"]), **style)


def _draw_bars(ax: Any, trace: Plot, colour: str) -> None:
    if trace.get("orientation") != "h":
        ax.bar(trace["x"], np.array(trace["y"], np.float64), color=COLOURS[colour])
        return
    bars = ax.barh(trace["y"], trace["x"], color=[COLOURS[x] for x in trace["marker"]["color"]], log=True)
    ax.bar_label(bars, trace["text"], padding=3, fontsize=8)
    ax.set_xlim(min(trace["x"]) / 10, max(trace["x"]) * 10)


def _draw_heatmap(ax: Any, trace: Plot, _: str) -> None:
    table, largest = np.array(trace["z"], np.float64), trace["zmax"]
    x = trace.get("x", [0, table.shape[1] - 1])
    signed = trace["zmin"] < 0
    image = ax.imshow(
        table, cmap="RdBu_r" if signed else "viridis", vmin=trace["zmin"], vmax=largest, aspect="auto",
        interpolation="nearest", extent=(x[0] - 0.5, x[-1] + 0.5, len(table) - 0.5, -0.5),
    )  # fmt: skip
    if not signed:
        ax.figure.colorbar(image, ax=ax)
        return
    for (p, q), value in np.ndenumerate(table):
        colour = "white" if abs(value) > 0.6 * largest else INK
        ax.text(q, p, f"{value:+{significant(largest)}}", ha="center", va="center", fontsize=7, color=colour)


def _text(markup: str) -> str:
    """Return the text of a piece of the page's HTML, with dollars that matplotlib does not take for formulas."""
    return unescape(markup.replace("<br>", "\n")).replace("$", r"\$")


def _short(name: str, width: int = WIDEST) -> str:
    return _text(plots.short(name, width))


DRAWN: dict[str, Callable[[Any, Plot, str], None]] = {
    "scatter": _draw_lines, "bar": _draw_bars, "heatmap": _draw_heatmap,
}  # fmt: skip
FIGURES: dict[str, Callable[[Facts], Any]] = {
    "hierarchy": hierarchy,
    "stencils": lambda facts: _grid(plots.stencil_panels(facts), 2, 5.6),
    "quality": lambda facts: _grid(plots.evaluation_panels(facts), 3, 4.4),
    "size": lambda facts: _grid([plots.size_panel(facts)], 1, 7.0),
    "fit": lambda facts: None if facts.course is None else _grid(plots.fit_panels(facts, facts.course), 2, 4.5),
}
