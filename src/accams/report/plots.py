"""The figures of the page, as Plotly understands them: plain dictionaries, in colours named like "$accent"."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.size import bytes_text
from accams.report.facts import Facts, Picture, Weight, group_name, largest_of, later_gains, significant
from accams.use.diagnostics import Diagnostics
from accams.use.evaluation import ActivityGroup, Evaluation
from accams.use.hierarchy import Node

Plot = dict[str, Any]
Floats = NDArray[np.float64]
WIDEST = 26  # letters of a name on an axis
MOST_SWEEPS = 100  # points along an axis of sweeps
HOVERED = 6  # members of a branch


def plot(data: list[Plot], height: int, x: Plot | None = None, y: Plot | None = None, **layout: Any) -> Plot:
    """A figure with our layout."""
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
    """An axis with room for its labels."""
    if isinstance(more.get("title"), str):
        more["title"] = {"text": more["title"], "standoff": 8}
    return {"automargin": True, "gridcolor": "$line", "zerolinecolor": "$line", "fixedrange": True, **more}


def short(name: str, width: int = WIDEST) -> str:
    """A name for an axis, safe to show: no markup, and not taken for a colour.

    Examples
    --------
    >>> short("Star Wars: Episode IV - A New Hope (1977)"), short("a < b"), short("$9.99")
    ('Star Wars: Episode IV - A…', 'a &lt; b', '&#36;9.99')
    """
    shown = escape(name if len(name) <= width else name[: width - 1].rstrip() + "…", quote=False)
    return "&#36;" + shown[1:] if shown.startswith("$") else shown


def tree_plot(facts: Facts) -> Plot:
    """The tree of columns as nested boxes."""
    cols = short(facts.sides[1])
    ids, parents, sizes, hover, inks = list[str](), list[str](), list[int](), list[str](), list[str]()
    labels, fewer = list[str](), list[str]()  # for all levels, and where there is room for two only

    def add(node: Node, path: str, parent: str) -> None:
        names, depth = [facts.name(x) for x in node.members], path.count(".")
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

    add(facts.tree, "0", "")
    data = {
        "type": "treemap", "ids": ids, "parents": parents, "labels": labels, "values": sizes, "hovertext": hover,
        "hoverinfo": "text", "branchvalues": "total", "textinfo": "label", "root": {"color": "$panel"},
        "pathbar": {"visible": False}, "tiling": {"pad": 2}, "textfont": {"color": inks},
        "marker": {"line": {"color": "$panel", "width": 1}, "depthfade": False},
    }  # fmt: skip
    return {**plot([data], 520), "narrow": {"data": [{"maxdepth": 3, "labels": fewer}]}}


def picture_plot(picture: Picture, sides: tuple[str, str]) -> Plot:
    """A stencil: groups of columns down, groups of rows across, and what it adds."""
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
    found = plot([data], 120 + 40 * len(down), across, {**_ticks(down), "autorange": "reversed"})
    return {**found, "narrow": narrow}


def coverage_plot(quality: Evaluation) -> Plot:
    """How many observations lie within intervals, against how many should."""
    should, do = ([100.0 * each[p] for each in quality.coverage] for p in (0, 1))
    found = _line("", np.array(should), np.array(do)) | {"line": {"color": "$accent"}}
    found |= {"mode": "lines+markers", "marker": {"size": 8}}
    found["hovertemplate"] = "%{x:.0f} % intervals cover %{y:.1f} %<extra></extra>"
    return plot([_dotted([45, 100], [45, 100]), found], 300, {"title": "intervals of, %"}, {"title": "cover, %"})


def groups_plot(groups: tuple[ActivityGroup, ...], quality: Evaluation, what: str) -> Plot:
    """Errors by how much data there was."""
    names = list(map(group_name, groups))
    bars = _bars(list(range(len(names))), [group.rmse for group in groups])
    bars |= {"text": [f"{group.n:,}" for group in groups], "textposition": "none"}
    bars["hovertemplate"] = "RMSE %{y:.4~g} of %{text} entries<extra></extra>"
    line = _dotted([-0.5, len(names) - 0.5], [quality.rmse] * 2)
    across = _ticks(names, title=f"observations that the {short(what)} had", tickangle=0, tickfont={"size": 10})
    return plot([bars, line], 300, across, {"title": "RMSE"}, bargap=0.2)


def weights_plot(weights: tuple[Weight, ...]) -> Plot:
    """Bytes, on a scale of powers of ten."""
    ordered = sorted(weights, key=lambda each: -each.bytes)
    names = [each.what.replace(", ", "<br>") for each in ordered]
    data = {
        "type": "bar", "orientation": "h", "x": [each.bytes for each in ordered], "y": list(range(len(names))),
        "marker": {"color": ["$accent" if each.ours else "$faint" for each in ordered]}, "hoverinfo": "skip",
        "text": [bytes_text(each.bytes) for each in ordered], "textposition": "inside", "insidetextanchor": "start",
        "insidetextfont": {"color": ["$panel" if each.ours else "$ink" for each in ordered]},
    }  # fmt: skip
    low, high = np.log10(ordered[-1].bytes), np.log10(ordered[0].bytes)
    span = {"type": "log", "range": [low - 1.5, high + 0.1], "dtick": 1, "exponentformat": "SI", "ticksuffix": "B"}
    margin = {"l": 8, "r": 32, "t": 12, "b": 8}  # the last label stands at the end of the axis
    return plot([data], 70 + 46 * len(names), span, _ticks(names), bargap=0.25, margin=margin)


def error_plot(course: Diagnostics) -> Plot:
    """The training error by sweep, or by stencil where there was one sweep; noise and validation beside it."""
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
    """A quantity by sweep and stencil; by stencil alone where there was one sweep."""
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
    """What each stencil takes off the error, on average over the later half of the sweeps."""
    bars = _bars(list(range(course.gain.shape[1])), later_gains(course))
    return plot([bars], 340, {"title": "stencil"}, {"title": "lowers the mean squared error by"})


def traces_plot(course: Diagnostics) -> Plot:
    """The log joint density of each chain."""
    assert course.posterior is not None
    trace = course.posterior.traces["log_joint"]
    first = len(course.rmse) - trace.shape[1] + 1
    data = [_line(f"chain {c}", np.arange(first, first + len(x)), x) for c, x in enumerate(trace)]
    for each in data:
        each["line"] = {"width": 1}
    return plot(data, 300, {"title": "sweep"}, {"title": "log density", "tickformat": "~s"})


def thinned(values: Floats) -> tuple[Floats, Floats]:
    """At most so many points along the first axis: means over neighbours, and where they are."""
    parts = np.array_split(np.arange(len(values)), min(MOST_SWEEPS, len(values)))
    return np.array([part.mean() + 1 for part in parts]), np.array([values[part].mean(axis=0) for part in parts])


def rounded(values: Any, digits: int = 4) -> Any:
    """Numbers in lists, with so many significant digits; None where there is none."""
    if np.ndim(values) > 1:
        return [rounded(each, digits) for each in values]
    return [float(f"{x:.{digits}g}") if np.isfinite(x) else None for x in values]


def _line(name: str, x: Floats | NDArray[np.int64], y: Floats) -> Plot:
    if len(y) > 5 * MOST_SWEEPS:
        where, y = thinned(y)
        x = x[0] + where - 1
    return {"type": "scatter", "mode": "lines", "name": name, "x": x.tolist(), "y": rounded(y, 6)}


def _bars(x: list[int], y: Any) -> Plot:
    return {"type": "bar", "x": x, "y": rounded(y, 5), "marker": {"color": "$accent"}}


def _dotted(x: list[float], y: list[float]) -> Plot:
    """A line to compare with."""
    return {**_line("", np.array(x), np.array(y)), "hoverinfo": "skip", "line": {"dash": "dot", "color": "$faint"}}


def _ticks(names: list[str], **more: Any) -> Plot:
    """An axis of names; two may be the same."""
    at = list(range(len(names)))
    return {"tickmode": "array", "tickvals": at, "ticktext": names, "zeroline": False, "showgrid": False, **more}
