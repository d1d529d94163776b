"""What a study leaves behind: a table as CSV, figures as PNG and SVG, and a page in Markdown."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accams import __version__
from paper.runs import Row

COLOURS = ("#2563c9", "#c2571a", "#2e8b57", "#7a4fc0", "#9aa3b2", "#b0347a", "#4b5563", "#b08900")


@dataclass
class Page:
    """Blocks of Markdown, and figures by name."""

    blocks: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def add(self, *blocks: str) -> None:
        self.blocks += blocks


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(x) for x in row) + " |" for row in rows]
    return "\n".join(lines)


def write(page: Page, rows: Sequence[Row], name: str, title: str, made: str, folder: Path) -> list[Path]:
    """The files of a study; returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.csv"]
    write_csv(rows, written[0])
    for called, figure in page.figures.items():
        for kind in ("png", "svg"):
            written.append(folder / f"{called}.{kind}")
            figure.savefig(written[-1], dpi=130, metadata={"Date": None} if kind == "svg" else None)
    pictures = [f"![{title}]({called}.png)" for called in page.figures]
    text = [f"# {title}", *page.blocks, *pictures, f"{made} Numbers: `{name}.csv`."]
    written.append(folder / f"{name}.md")
    written[-1].write_text("\n\n".join(text) + "\n")
    return written


def write_csv(rows: Sequence[Row], file: Path) -> None:
    """Rows with whatever columns they have, in the order in which those first appear."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: plain(value) for name, value in row.items()} for row in rows)


def plain(value: object) -> object:
    """A number with the digits that mean something."""
    return f"{value:.7g}" if isinstance(value, float) else value


def origin(command: str, machines: Sequence[str]) -> str:
    """By what command, when, and on which machines with which versions."""
    made = f"By `{command}`, accams {__version__}, {datetime.now(UTC):%d %B %Y}"
    return f"{made}. Runs on {'; and on '.join(machines)}."


def axes(width: float = 7.0, height: float = 4.6, across: int = 1, down: int = 1) -> tuple[Any, list[Any]]:
    """A matplotlib figure that opens no window, and its axes, with light grids."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    found = list(figure.subplots(down, across, squeeze=False).ravel())
    for ax in found:
        ax.grid(color="#e3e7ee", linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, found


def size_axis(ax: Any, what: str = "size of the model") -> None:
    """A logarithmic axis of bytes, in words."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from accams.model.size import bytes_text

    ax.set_xscale("log")
    ax.set_xlabel(what)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: bytes_text(x).replace(".0 ", " ")))
    ax.xaxis.set_minor_formatter(NullFormatter())


def curve(ax: Any, points: Sequence[tuple[float, float]], label: str, colour: int, style: str = "o-") -> None:
    """One line through points, smallest first."""
    if points:
        x, y = zip(*sorted(points), strict=True)
        ax.plot(x, y, style, label=label, color=COLOURS[colour % len(COLOURS)], markersize=4, linewidth=1.6)
