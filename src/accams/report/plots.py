"""The plots of a report, in Plotly's format: plain dictionaries, with colours named like "$accent".

The page shows them with Plotly, `accams.report.figures` draws them with matplotlib.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.model.size import bytes_text
from accams.report.facts import Facts, Name, Picture, Weight, group_name, largest_of, later_gains, significant
from accams.use.diagnostics import Diagnostics
from accams.use.evaluation import ActivityGroup, Evaluation
from accams.use.hierarchy import Node

Plot = dict[str, Any]
Floats = NDArray[np.float64]
WIDEST = 26  # letters of a name on an axis
BRANCHES = ("$accent", "$warm", "$green", "$violet")  # colours on a map
MOST_SWEEPS = 100  # points along an axis of sweeps
HOVERED = 6  # members of a branch


class Panel(NamedTuple):
    """A plot with its title and caption; `name` is its id on the page."""

    name: str
    title: str
    plot: Plot
    caption: str


def stencil_panels(facts: Facts) -> list[Panel]:
    caption = "In the units of the values."
    return [
        Panel(f"stencil{x.stencil}", f"Stencil {x.stencil}", picture_plot(x, facts.sides), caption)
        for x in facts.pictures
    ]


def evaluation_panels(facts: Facts) -> list[Panel]:
    panels, result = list[Panel](), facts.evaluation
    if result is None:
        return panels
    if result.coverage:
        caption = "On the dotted line, intervals cover as much as they promise."
        panels.append(Panel("coverage", "Are its intervals honest?", coverage_plot(result), caption))
    caption = "Bars are groups by number of training observations, about; dotted is the error of all."
    for name, groups, side in (("byitems", result.by_col, facts.sides[1]), ("byusers", result.by_row, facts.sides[0])):
        if len(groups) > 1:
            panels.append(Panel(name, f"Error by data of {side}", groups_plot(groups, result, side), caption))
    return panels


def size_panel(facts: Facts) -> Panel:
    return Panel("bytes", "Bytes", sizes_plot(facts.weights), "A step along the axis is ten times as much.")


def fit_panels(facts: Facts, course: Diagnostics) -> list[Panel]:
    once = len(course.rmse) == 1
    by = "by stencil" if course.error is not None and once else "by sweep"
    panels = [
        Panel("error", f"Error {by}", error_plot(course), "On the data that was fitted."),
        Panel("gain", "What each stencil is worth", gain_plot(course), "The others being as they are."),
    ]
    quantities = [("entropy", "Entropy of labels, bits", course.entropy, "bits", "0 when all labels are the same.")]
    if not once:
        quantities.append(
            ("changed", "Share of labels changed", course.changed, "of the labels", "Since the last sweep.")
        )
    for name, title, values, unit, caption in quantities:
        for axis, side in enumerate(facts.sides):
            heat = stencils_plot(values[:, :, axis], unit, largest_of(values))
            panels.append(Panel(f"{name}{axis}", f"{title}: {side}", heat, caption))
    return panels


def plot(data: list[Plot], height: int, x: Plot | None = None, y: Plot | None = None, **layout: Any) -> Plot:
    """Return a plot with the page's layout."""
    return {
        "data": data,
        "layout": {
            "height": height,
            "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": "$ink", "size": 12, "family": "system-ui, sans-serif"},
            "colorway": ["$accent", "$warm", "$green", "$violet", "$faint"],
            "hoverlabel": {"align": "left"},
            "showlegend": False,
            "xaxis": axis(**(x or {})),
            "yaxis": axis(**(y or {})),
            **layout,
        },
    }


def axis(**more: Any) -> Plot:
    """Return an axis with room for its labels."""
    if isinstance(more.get("title"), str):
        more["title"] = {"text": more["title"], "standoff": 8}
    return {"automargin": True, "gridcolor": "$line", "zerolinecolor": "$line", "fixedrange": True, **more}


def short(name: str, width: int = WIDEST) -> str:
    """Return a name for an axis that is safe to show: no markup, no formula, and not taken for a colour.

    Examples
    --------
    >>> short("Star Wars: Episode IV - A New Hope (1977)"), short("a < b"), short("$9.99")
    ('Star Wars: Episode IV - A…', 'a &lt; b', '&#36;9.99')
    """
    shown = escape(name if len(name) <= width else name[: width - 1].rstrip() + "…", quote=False)
    return shown.replace("$", "&#36;")


def tree_plot(tree: Node, name: Name, side: str) -> Plot:
    cols = short(side)
    ids, parents, sizes, hover, inks = list[str](), list[str](), list[int](), list[str](), list[str]()
    labels, fewer = list[str](), list[str]()  # for all levels, and where there is room for two only

    def add(node: Node, path: str, parent: str) -> None:
        names, depth = [name(x) for x in node.members], path.count(".")
        ids.append(path)
        parents.append(parent)
        sizes.append(node.size)
        inks.append("$panel" if parent else "$ink")
        for shown, last in ((labels, not node.children), (fewer, not node.children or depth == 2)):
            members = "<br>".join(map(short, names[: 3 if last else 1]))
            shown.append(members if parent else f"{node.size:,} {cols}")
        hover.append("<br>".join([f"{node.size:,} {cols}:", *(short(x, 60) for x in names[:HOVERED])]))
        for p, child in enumerate(node.children):
            add(child, f"{path}.{p}", path)

    add(tree, "0", "")
    data = {
        "type": "treemap", "ids": ids, "parents": parents, "labels": labels, "values": sizes, "hovertext": hover,
        "hoverinfo": "text", "branchvalues": "total", "textinfo": "label", "root": {"color": "$panel"},
        "pathbar": {"visible": False}, "tiling": {"pad": 2}, "textfont": {"color": inks},
        "marker": {"line": {"color": "$panel", "width": 1}, "depthfade": False},
    }  # fmt: skip
    return {**plot([data], 520), "narrow": {"data": [{"maxdepth": 3, "labels": fewer}]}}


def picture_plot(picture: Picture, sides: tuple[str, str]) -> Plot:
    """Draw a stencil as a table of what it adds: groups of items down, groups of users across."""
    largest = largest_of(np.abs(picture.table))
    rows, cols = map(short, sides)
    digits = significant(largest)
    down = ["<br>".join(short(name) for name in names[:2]) for names in picture.names]
    hover = list[list[str]]()
    for n, names in zip(picture.col_sizes, picture.names, strict=True):
        members = "<br>".join(short(name, 60) for name in names)
        hover.append([f"{of:,} {rows} on {n:,} {cols}:<br>{members}" for of in picture.row_sizes])
    data = {
        "type": "heatmap", "z": rounded(picture.table.T), "zmin": -largest, "zmax": largest, "xgap": 1, "ygap": 1,
        "colorscale": [[0, "$low"], [0.5, "$panel"], [1, "$high"]], "showscale": False,
        "texttemplate": f"%{{z:+{digits}}}", "textfont": {"size": 10}, "text": hover,
        "hovertemplate": "%{z:+.3~g} for %{text}<extra></extra>",
    }  # fmt: skip
    across = _ticks([f"{n:,}" for n in picture.row_sizes], title=f"{rows} in each group")
    little = [short(names[0], 18) if names else "" for names in picture.names]
    narrow = {"data": [{"texttemplate": ""}], "layout": {"yaxis": {"ticktext": little}}}
    heat = plot([data], 120 + 40 * len(down), across, {**_ticks(down), "autorange": "reversed"})
    return {**heat, "narrow": narrow}


def coverage_plot(result: Evaluation) -> Plot:
    levels, shares = 100.0 * np.array(result.coverage).T
    line = _line("", levels, shares) | {"line": {"color": "$accent"}, "mode": "lines+markers", "marker": {"size": 8}}
    line["hovertemplate"] = "%{x:.0f} % intervals cover %{y:.1f} %<extra></extra>"
    return plot([_dotted([45, 100], [45, 100]), line], 300, {"title": "intervals of, %"}, {"title": "cover, %"})


def groups_plot(groups: tuple[ActivityGroup, ...], result: Evaluation, side: str) -> Plot:
    names = list(map(group_name, groups))
    bars = _bars(list(range(len(names))), [group.rmse for group in groups])
    bars |= {"text": [f"{group.n:,}" for group in groups], "textposition": "none"}
    bars["hovertemplate"] = "RMSE %{y:.4~g} of %{text} entries<extra></extra>"
    line = _dotted([-0.5, len(names) - 0.5], [result.rmse] * 2)
    across = _ticks(names, title=f"observations that the {short(side)} had", tickangle=0, tickfont={"size": 10})
    return plot([bars, line], 300, across, {"title": "RMSE"}, bargap=0.2)


def sizes_plot(weights: Iterable[Weight]) -> Plot:
    ordered = sorted(weights, key=lambda size: -size.bytes)
    names = [size.what.replace(", ", "<br>") for size in ordered]
    data = {
        "type": "bar", "orientation": "h", "x": [size.bytes for size in ordered], "y": list(range(len(names))),
        "marker": {"color": ["$accent" if size.ours else "$faint" for size in ordered]}, "hoverinfo": "skip",
        "text": [bytes_text(size.bytes) for size in ordered], "textposition": "inside", "insidetextanchor": "start",
        "insidetextfont": {"color": ["$panel" if size.ours else "$ink" for size in ordered]},
    }  # fmt: skip
    low, high = np.log10(ordered[-1].bytes), np.log10(ordered[0].bytes)
    span = {"type": "log", "range": [low - 1.5, high + 0.1], "dtick": 1, "exponentformat": "SI", "ticksuffix": "B"}
    margin = {"l": 8, "r": 32, "t": 12, "b": 8}  # the last label stands at the end of the axis
    return plot([data], 70 + 46 * len(names), span, _ticks(names), bargap=0.25, margin=margin)


def by_size_plot(points: Sequence[tuple[float, float]]) -> Plot:
    """Plot errors against bytes; the first point is the model itself, the others are small ones in its place."""
    (whole, error), small = points[0], np.array(sorted(points[1:])).reshape(-1, 2)
    line = _line("compressed", small[:, 0], small[:, 1]) | {"mode": "lines+markers", "marker": {"size": 8}}
    itself = _line("this model", np.array([whole]), np.array([error])) | {"mode": "markers", "marker": {"size": 11}}
    for each in (line, itself):
        each["hovertemplate"] = "RMSE %{y:.4~g} in %{x:.3~s}B<extra></extra>"
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    across = {"type": "log", "title": "bytes", "exponentformat": "SI", "ticksuffix": "B"}
    return plot([line, itself], 340, across, {"title": "RMSE"}, showlegend=True, legend=legend)


def curve_plot(points: Sequence[tuple[float, float, str]]) -> Plot:
    """Plot errors against bytes, with one stencil after another; the last point is the whole file."""
    size, error = np.array([point[:2] for point in points]).T
    stencils = _line("largest stencils alone", size[:-1], error[:-1]) | {"mode": "lines+markers", "marker": {"size": 6}}
    stencils["text"] = [what for *_, what in points[:-1]]
    stencils["hovertemplate"] = "%{text}: RMSE %{y:.4~g} in %{x:.3~s}B<extra></extra>"
    rest = _dotted(size[-2:].tolist(), error[-2:].tolist()) | {"showlegend": False}
    whole = _line("the file", size[-1:], error[-1:]) | {"mode": "markers", "marker": {"size": 11}}
    whole["hovertemplate"] = "RMSE %{y:.4~g} in %{x:.3~s}B<extra></extra>"
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    across = {"title": "bytes", "exponentformat": "SI", "ticksuffix": "B"}
    return plot(
        [stencils, rest, whole], 340, across, {"title": "RMSE", "rangemode": "tozero"}, showlegend=True, legend=legend
    )


def map_plot(plane: Floats, weights: Floats, branch: NDArray[np.int64], names: list[str], named: int) -> Plot:
    """Plot items in the plane: points by branch, the most active on top and named where there is room."""
    order = np.argsort(weights, kind="stable")
    sizes = 4.0 + 14.0 * np.sqrt(weights / (weights.max() or 1.0))
    data = []
    for number in np.unique(branch):
        own = order[branch[order] == number]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "",
                "x": rounded(plane[own, 0]),
                "y": rounded(plane[own, 1]),
                "text": [short(names[p], 60) for p in own],
                "hoverinfo": "text",
                "marker": {
                    "size": rounded(sizes[own], 3),
                    "opacity": 0.7,
                    "color": BRANCHES[number % len(BRANCHES)] if number >= 0 else "$faint",
                },
            }
        )
    told = with_room(plane, [short(name) for name in names], order[::-1], named)
    data.append(
        {
            "type": "scatter",
            "mode": "text",
            "name": "",
            "x": rounded(plane[told, 0]),
            "y": rounded(plane[told, 1]),
            "text": [short(names[p]) for p in told],
            "textposition": "top center",
            "textfont": {"size": 10},
            "hoverinfo": "skip",
        }
    )
    bare = {"showticklabels": False, "zeroline": False, "showgrid": False}
    return plot(data, 620, bare, bare)


def with_room(plane: Floats, names: list[str], order: Iterable[int], most: int) -> list[int]:
    """Return the first points in this order whose names overlap none of those before.

    Examples
    --------
    >>> with_room(np.array([[0.0, 0], [0.05, 0], [1, 1]]), ["Alien", "Aliens", "Jaws"], [0, 1, 2], 3)
    [0, 2]
    """
    span = np.ptp(plane, axis=0)
    letter, line = 0.011 * (span[0] or 1.0), 0.035 * (span[1] or 1.0)
    told, boxes = list[int](), list[tuple[float, float, float]]()
    for p in order:
        (x, y), half = plane[p], letter * len(names[p]) / 2
        if len(told) == most:
            break
        if all(abs(x - at) > half + its or abs(y - up) > line for at, up, its in boxes):
            told.append(int(p))
            boxes.append((x, y, half))
    return told


def error_plot(course: Diagnostics) -> Plot:
    """Plot the training error by sweep, or by stencil of a single sweep, with noise and validation error."""
    if course.error is not None and len(course.rmse) == 1:
        errors = course.error[0]
        data = [_line("RMSE", np.arange(1, len(errors) + 1), errors)]
        return plot(data, 320, {"title": "stencil"}, {"title": "training RMSE"})
    sweeps = np.arange(1, len(course.rmse) + 1)
    data = [_line("training RMSE of a draw" if course.sigma is not None else "training RMSE", sweeps, course.rmse)]
    if course.sigma is not None:
        data.append(_line("noise of the sampler", sweeps, course.sigma))
    if course.validation_rmse is not None:
        data.append(_line("validation RMSE of the mean", sweeps, course.validation_rmse))
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    return plot(data, 340, {"title": "sweep"}, {}, showlegend=len(data) > 1, legend=legend)


def stencils_plot(values: Floats, what: str, largest: float) -> Plot:
    """Plot a quantity by sweep and stencil, or by stencil of a single sweep."""
    stencils = list(range(values.shape[1]))
    if len(values) == 1:
        return plot([_bars(stencils, values[0])], 260, {"title": "stencil"}, {"title": what, "rangemode": "tozero"})
    sweeps, means = thinned(values)
    data = {
        "type": "heatmap", "x": sweeps.tolist(), "y": stencils, "z": rounded(means.T), "colorscale": "Viridis",
        "zmin": 0.0, "zmax": largest, "colorbar": {"thickness": 10, "outlinewidth": 0, "tickfont": {"color": "$ink"}},
        "hovertemplate": "stencil %{y}, sweep %{x:.0f}: %{z:.3g} " + what + "<extra></extra>",
    }  # fmt: skip
    return plot([data], 300, {"title": "sweep"}, {"title": "stencil", "autorange": "reversed"})


def gain_plot(course: Diagnostics) -> Plot:
    bars = _bars(list(range(course.gain.shape[1])), later_gains(course))
    return plot([bars], 340, {"title": "stencil"}, {"title": "lowers the mean squared error by"})


def traces_plot(course: Diagnostics) -> Plot:
    assert course.posterior is not None
    trace = course.posterior.traces["log_joint"]
    first = len(course.rmse) - trace.shape[1] + 1
    sweeps, thin = np.arange(first, first + trace.shape[1]), {"line": {"width": 1}}
    data = [_line(f"chain {c}", sweeps, x) | thin for c, x in enumerate(trace)]
    return plot(data, 300, {"title": "sweep"}, {"title": "log density", "tickformat": "~s"})


def thinned(values: Floats) -> tuple[Floats, Floats]:
    """Average neighbours along the first axis to at most MOST_SWEEPS points; return their centres and means."""
    parts = np.array_split(np.arange(len(values)), min(MOST_SWEEPS, len(values)))
    return np.array([part.mean() + 1 for part in parts]), np.array([values[part].mean(axis=0) for part in parts])


def rounded(values: Any, digits: int = 4) -> Any:
    """Return numbers as lists, rounded to significant digits; None for NaN and infinity."""
    if np.ndim(values) > 1:
        return [rounded(line, digits) for line in values]
    return [float(f"{x:.{digits}g}") if np.isfinite(x) else None for x in values]


def _line(name: str, x: Floats | NDArray[np.int64], y: Floats) -> Plot:
    if len(y) > 5 * MOST_SWEEPS:
        where, y = thinned(y)
        x = x[0] + where - 1
    return {"type": "scatter", "mode": "lines", "name": name, "x": x.tolist(), "y": rounded(y, 6)}


def _bars(x: list[int], y: Any) -> Plot:
    return {"type": "bar", "x": x, "y": rounded(y, 5), "marker": {"color": "$accent"}}


def _dotted(x: list[float], y: list[float]) -> Plot:
    return {**_line("", np.array(x), np.array(y)), "hoverinfo": "skip", "line": {"dash": "dot", "color": "$faint"}}


def _ticks(names: list[str], **more: Any) -> Plot:
    """Return an axis of names, by position since two may be the same."""
    at = list(range(len(names)))
    return {"tickmode": "array", "tickvals": at, "ticktext": names, "zeroline": False, "showgrid": False, **more}
