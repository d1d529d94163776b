"""The report as one self-contained HTML page: text, tables, figures and the scripts that draw them."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from accams import __version__
from accams.errors import InputError, renamed
from accams.model.size import bytes_text
from accams.report import plots
from accams.report.facts import Facts, gather
from accams.report.plots import Panel, Plot
from accams.use.evaluation import Evaluation
from accams.writing import write_atomically

SETTLED = 1.05  # R-hat below which chains agree
MANY_NEW = 0.5  # share of rows or columns that the model does not know
THEME = 'document.documentElement.dataset.theme=matchMedia("(prefers-color-scheme: dark)").matches?"dark":"light"'


@renamed(quality="evaluation")
def write(
    model: Any, path: str | Path, *, titles: Mapping[Any, str] | None = None,
    evaluation: Evaluation | None = None, name: str = "model", size: int | None = None,
) -> None:  # fmt: skip
    """Write a report of a model: one HTML file that opens in any browser, without a network.

    Parameters
    ----------
    model : Model or fitted estimator
    path : path
    titles : mapping, optional
        Names of item ids.
    evaluation : Evaluation, optional
        What `model.evaluate(held_out)` returns; a model saved by `accams fit` has its own.
    name : str, default "model"
        Heading of the page.
    size : int, optional
        Bytes of the model's file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix)
    >>> with TemporaryDirectory() as folder:
    ...     write(model, Path(folder, "report.html"), name="films")
    ...     Path(folder, "report.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    library = plotly_js()  # before the long work, since it may be missing
    write_page(gather(model, titles, evaluation, size), path, name, library)


def write_page(facts: Facts, path: str | Path, name: str, library: str) -> None:
    write_atomically(Path(path), html(facts, name, library).encode("utf-8", "replace"))


def plotly_js() -> str:
    """Return the JavaScript library that draws the figures, from the plotly package."""
    try:
        return (resources.files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    except ModuleNotFoundError:
        raise InputError("a report needs Plotly: pip install 'accams[plot]'") from None


@dataclass
class Page:
    """Body of the page under construction, and its figures."""

    parts: list[str] = field(default_factory=list)
    figures: dict[str, Plot] = field(default_factory=dict)
    sections: list[tuple[str, str]] = field(default_factory=list)

    def section(self, name: str, title: str, text: str) -> None:
        """Add a heading and a paragraph (as HTML)."""
        self.sections.append((name, title))
        self.parts.append(f'<h2 id="{name}">{escape(title)}</h2><p>{text}</p>')

    def panels(self, *panels: Panel, wide: bool = False, most: int = 2) -> None:
        """Add plots, two or three beside each other where there is room."""
        shown = []
        for name, title, plot, caption in panels:
            self.figures[name] = plot
            label = escape(title, quote=True)
            shown.append(
                f"<figure{' class=wide' if wide else ''}><h3>{escape(title)}</h3>"
                f'<div class="plot" id="{name}" role="img" aria-label="{label}"></div>'
                f"<figcaption>{escape(caption)}</figcaption></figure>"
            )
        self.parts.append(f'<div class="grid{" three" if most == 3 else ""}">{"".join(shown)}</div>')

    def table(self, heads: Sequence[str], lines: Iterable[Sequence[str]], numbers: int = 0) -> None:
        """Add a table whose last columns are numbers."""
        kinds = [""] * (len(heads) - numbers) + [' class="number"'] * numbers
        head = "".join(f'<th scope="col"{kind}>{escape(x)}</th>' for x, kind in zip(heads, kinds, strict=True))
        cells = ((f"<td{kind}>{escape(x)}</td>" for x, kind in zip(line, kinds, strict=True)) for line in lines)
        body = "".join(f"<tr>{''.join(line)}</tr>" for line in cells)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        self.parts.append(f'<div class="table">{table}</div>')


def html(facts: Facts, name: str, library: str) -> str:
    page = Page()
    _knowledge(page, facts)
    _goodness(page, facts)
    _smallness(page, facts)
    _fitting(page, facts)
    here = resources.files("accams.report")
    style, script = ((here / part).read_text("utf-8") for part in ("page.css", "page.js"))
    links = "".join(f'<a href="#{at}">{escape(title)}</a>' for at, title in page.sections)
    figures = json.dumps(page.figures, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(THEME, library, script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)}: accams report</title><style>{style}</style>"
        f"<script>{THEME}</script></head>\n<body><main>"
        f'<header><h1>{escape(name)}</h1><button id="theme" type="button">light / dark</button></header>'
        "<noscript><p>The figures of this page need JavaScript.</p></noscript>"
        f"<p>{_introduction(facts)}</p><nav>{links}</nav>{_tiles(facts)}{''.join(page.parts)}"
        f'<p class="soft">Made by accams {__version__} of a model of the class {escape(facts.kind)}.</p></main>\n'
        f'<script type="application/json" id="figures">{figures}</script>\n'
        f"<script>{library}</script>\n<script>{script}</script></body></html>\n"
    )


def policy(*scripts: str) -> str:
    """Return the page's Content-Security-Policy: these scripts run and no other, and nothing is loaded or sent.

    Plotly sets style attributes and adds style sheets of its own, so styles cannot be listed by their hashes; where
    nothing may be loaded, a style can change looks only. Heat maps are images in data: addresses.
    """
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _introduction(facts: Facts) -> str:
    rows, cols = (f"{n:,} {escape(side)}" for n, side in zip(facts.shape, facts.sides, strict=True))
    what = "a sum of small tables (stencils), each of which sorts both sides into a few groups"
    if facts.n_draws is None:
        return f"This model predicts a value for each of {rows} and {cols}. It is {what}."
    return (
        f"This model predicts a value for each of {rows} and {cols}, as the average of {facts.n_draws:,} draws of "
        f"{what}. For explanations it has been distilled into one such sum, of {facts.explained_by} stencils."
    )


def _tiles(facts: Facts) -> str:
    tiles = [(f"{n:,}", side) for n, side in zip(facts.shape, facts.sides, strict=True)]
    if facts.n_observed is not None:
        tiles.append((f"{facts.n_observed:,}", "observations"))
    if facts.evaluation is not None:
        tiles.append((f"{facts.evaluation.rmse:.4g}", "typical error (RMSE) on data not seen"))
    tiles.append((f"{facts.n_stencils}", "stencils"))
    tiles += [(bytes_text(weight.bytes), weight.what) for weight in facts.weights if weight.ours]
    shown = "".join(f'<div class="tile"><b>{value}</b><span>{escape(label)}</span></div>' for value, label in tiles)
    return f'<div class="tiles">{shown}</div>'


def _knowledge(page: Page, facts: Facts) -> None:
    rows, cols = map(escape, facts.sides)
    page.section(
        "knows", "What the model knows",
        f"The {cols} sorted by who likes them: each level parts them by the groups of one stencil. Boxes are as large "
        f"as their number of {cols}, and name those that are most typical. The more active {cols} are shown.",
    )  # fmt: skip
    caption = "Touch or point at a box for more names; click it to go into it."
    page.panels(
        Panel("tree", f"Groups of {facts.sides[1]}", plots.tree_plot(facts.tree, facts.name, facts.sides[1]), caption),
        wide=True,
    )
    page.parts.append(f"<details><summary>The same as a list</summary>{facts.tree.html(facts.name)}</details>")
    page.parts.append(
        f"<p>The stencils that tell most apart. Each adds its number to the prediction for all {rows} of a group and "
        f"all {cols} of a group: red raises, blue lowers. Groups are named by their most active members.</p>"
    )
    page.panels(*plots.stencil_panels(facts))
    _traits(page, facts)
    page.parts.append(f"<p>Which {cols} are alike in the model's eyes, for those with most data:</p>")
    lines = [(x, ", ".join(f"{y} ({score:.2f})" for y, score in alike)) for x, alike in facts.similar]
    page.table(("most active", "most similar (1 is the same)"), lines)


def _traits(page: Page, facts: Facts) -> None:
    """Tell what the groups of the stencils shown stand for, where the model knows features."""
    for side, noun in reversed(list(enumerate(facts.sides))):
        lines = list[tuple[str, ...]]()
        for picture in facts.pictures:
            sizes = (picture.row_sizes, picture.col_sizes)[side]
            for number, traits in enumerate(picture.traits[side]):
                like = f" like {', '.join(picture.names[number])}" if side == 1 and picture.names[number] else ""
                if traits:
                    lines.append((f"{picture.stencil}", f"{sizes[number]:,} {noun}{like}", ", ".join(traits)))
        if lines:
            page.parts.append(
                f"<p>What these groups of {escape(noun)} stand for: the features that set their members apart most. "
                "A number stands for those near it.</p>"
            )
            page.table(("stencil", "group", "features of its members"), lines)


def _goodness(page: Page, facts: Facts) -> None:
    if facts.evaluation is None:
        known = "" if facts.train_rmse is None else f" On its training data the error is {facts.train_rmse:.4g} (RMSE)."
        page.section(
            "good", "How good it is",
            f"Nothing was held out to tell.{known} Give data that was not fitted: "
            "<code>accams report --test FILE</code>.",
        )  # fmt: skip
        return
    page.section("good", "How good it is", _verdict(facts, facts.evaluation))
    panels = plots.evaluation_panels(facts)
    if panels:
        page.panels(*panels, most=3)


def _verdict(facts: Facts, result: Evaluation) -> str:
    text = (
        f"On {result.n:,} entries that were not fitted, predictions are off by {result.rmse:.4g} (root mean square), "
        f"{result.mae:.4g} on average. Always guessing the average would be off by {result.rmse_of_mean:.4g}: "
    )
    less = 100.0 * (1.0 - result.rmse / result.rmse_of_mean) if result.rmse_of_mean else 0.0
    text += f"the model takes {less:.0f} % off that." if less > 0.0 else "that is no worse than the model."
    if facts.blanks:
        text += " Only stored entries are among them, not the blanks, which this model takes for zeros."
    for share, side in zip(result.new, facts.sides, strict=True):
        if share > MANY_NEW:
            text += f" <b>{100.0 * share:.0f} % of them are of {escape(side)} that the model does not know.</b>"
    return text


def _smallness(page: Page, facts: Facts) -> None:
    ours = min((weight for weight in facts.weights if weight.ours), key=lambda weight: weight.bytes)
    parts = 4.0 * facts.shape[0] * facts.shape[1] / ours.bytes
    beside = f", one part in {parts:,.0f} of the whole matrix" if parts >= 2.0 else ""
    page.section(
        "small", "How small it is",
        f"In blue, what this model takes ({escape(ours.what)}: {bytes_text(ours.bytes)}{beside}); in grey, what one "
        "would keep otherwise.",
    )  # fmt: skip
    page.panels(plots.size_panel(facts), wide=True)


def _fitting(page: Page, facts: Facts) -> None:
    course = facts.course
    if course is None:
        page.section("fit", "How the fit went", "This model does not remember it: small models leave that out.")
        return
    sweeps = len(course.rmse)
    page.section(
        "fit", "How the fit went",
        f"{sweeps:,} {'sweeps' if sweeps > 1 else 'sweep'} over {course.gain.shape[1]} stencils. Entropy tells how "
        "evenly a stencil spreads over its groups: 0 bits when all are in one. Labels that change little have settled.",
    )  # fmt: skip
    page.panels(*plots.fit_panels(facts, course))
    if course.posterior is not None and "log_joint" in course.posterior.traces:
        caption = "After the burn-in; one line a chain."
        page.panels(Panel("traces", "Chains", plots.traces_plot(course), caption), wide=True)
    if facts.mixing:
        _mixing(page, facts)


def _mixing(page: Page, facts: Facts) -> None:
    probes = next((line.r_hat for line in facts.mixing if line.quantity == "probes"), np.nan)
    verdict = "There is one chain, or too few sweeps, to tell whether chains agree"
    if np.isfinite(probes):
        verdict = (
            "Chains agree" if probes < SETTLED else "Chains differ in what they predict, so their average is better"
        )
    page.parts.append(
        f"<p>{verdict} (R-hat is near 1 where they agree; effective draws are what their draws are worth). Probes are "
        "predictions at some cells.</p>"
    )
    lines = list[tuple[str, ...]]()
    for line in facts.mixing:
        values = ("held" if line.held else _number(x) for x in (line.r_hat, line.ess_bulk, line.ess_tail))
        lines.append((line.quantity.replace("_", " "), _number(line.median), *values))
    page.table(("quantity", "median", "R-hat", "effective draws", "in the tails"), lines, numbers=4)


def _number(x: float) -> str:
    return "–" if not np.isfinite(x) else f"{x:,.4g}" if abs(x) < 1e5 else f"{x:,.0f}"
