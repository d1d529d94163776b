"""Plots of a report as figures of Plotly that one can point at, in a notebook or a browser."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from accams.errors import InputError
from accams.report.plots import Panel, short

COLOURS = {  # of the light page
    "$ink": "#1c2330", "$panel": "#ffffff", "$line": "#dde1e7", "$accent": "#2563c9", "$warm": "#c2571a",
    "$green": "#2b8a5b", "$violet": "#7a4fc0", "$faint": "#9aa3b2", "$low": "#2b6cb8", "$high": "#c0392b",
}  # fmt: skip
GAP = 70  # pixels between lines of panels, for titles and labels
NAMES, NUMBERS = 0.2, 0.1  # of the width, between panels with names on their axes and without


def interactive(panels: Sequence[Panel], across: int) -> Any:
    """Return panels as one figure of Plotly, in a grid."""
    try:
        from plotly.graph_objects import Figure
    except ImportError:
        raise InputError("figures need Plotly: pip install 'accams[plot]'") from None
    if len(panels) == 1:
        plot = coloured(panels[0].plot)
        title = {"text": short(panels[0].title), "x": 0.0, "xref": "paper", "font": {"size": 14}}
        margin = plot["layout"]["margin"] | {"t": 70 if plot["layout"]["showlegend"] else 40}
        return Figure(plot["data"], {**plot["layout"], "title": title, "margin": margin})
    return _grid(panels, min(across, len(panels)))


def _grid(panels: Sequence[Panel], across: int) -> Any:
    from plotly.subplots import make_subplots

    lines = [panels[p : p + across] for p in range(0, len(panels), across)]
    heights = [max(panel.plot["layout"]["height"] for panel in line) for line in lines]
    total, names = sum(heights) + GAP * len(lines), any("ticktext" in x.plot["layout"]["yaxis"] for x in panels)
    figure = make_subplots(
        len(lines), across, subplot_titles=[short(panel.title) for panel in panels],
        row_heights=[height / total for height in heights],
        vertical_spacing=GAP / total, horizontal_spacing=NAMES if names else NUMBERS,
    )  # fmt: skip
    for number, panel in enumerate(panels):
        plot, at = coloured(panel.plot), {"row": number // across + 1, "col": number % across + 1}
        legend = plot["layout"]["showlegend"]
        for trace, colour in zip(plot["data"], cycle(plot["layout"]["colorway"])):
            lined = trace.get("mode") == "lines"  # colours begin anew in each panel
            look = {"line": {"color": colour} | trace.get("line", {})} if lined else {}
            figure.add_trace({**trace, **look, "showlegend": legend}, **at)
        figure.update_xaxes(plot["layout"]["xaxis"], **at)
        figure.update_yaxes(plot["layout"]["yaxis"], **at)
    shown = coloured(panels[0].plot)["layout"]
    kept = {name: shown[name] for name in ("font", "hoverlabel", "paper_bgcolor", "plot_bgcolor")}
    legend = {"orientation": "h", "x": 0, "y": -0.16, "yanchor": "top"}
    return figure.update_layout(height=total, margin={"l": 8, "r": 12, "t": 40, "b": 8}, legend=legend, **kept)


def coloured(value: Any) -> Any:
    """Return a plot of the page with colours in place of their names, and without what is for narrow windows."""
    if isinstance(value, str):
        return COLOURS.get(value, value)
    if isinstance(value, dict):
        return {name: coloured(x) for name, x in value.items() if name != "narrow"}
    return [coloured(x) for x in value] if isinstance(value, list) else value
