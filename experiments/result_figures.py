"""Draw the figures of docs/results.md from the tables of docs/results/measurements.md, where each names its script.

Run: python experiments/result_figures.py
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
OURS, THEIRS, INK = "#2563c9", "#9aa3b2", "#1c2330"
COLOURS = ("#c2571a", "#2b8a5b", "#7a4fc0", "#586273", "#b8860b", "#9aa3b2")
Table = list[list[str]]


def table_with(text: str, head: str) -> Table:
    """Return the cells of the table whose first line has these words, as text without emphasis."""
    lines = text.splitlines()
    first = next(p for p, line in enumerate(lines) if line.startswith("|") and head in line)
    table: Table = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        table.append([re.sub(r"[*`]", "", cell).strip() for cell in line.strip().strip("|").split("|")])
    return [table[0], *table[2:]]


def number(cell: str) -> float:
    """Return the number at the beginning of a cell; NaN where there is none.

    Examples
    --------
    >>> number("0.8859 (0.8815, 0.8942)"), number(".397"), number("over three times")
    (0.8859, 0.397, nan)
    """
    found = re.match(r"-?[\d,]*\.?\d+", cell.strip())
    return float(found.group().replace(",", "")) if found else np.nan


def megabytes(cell: str) -> float:
    return {"MB": 1.0, "KB": 1e-3}[cell.split()[1][:2]] * number(cell)


def plain(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def ratings(text: str) -> Figure:
    """Test errors of methods on three sets."""
    head, *lines = table_with(text, "| BayesianACCAMS | myFM")
    newer = {line[0].split(",")[0]: number(line[1]) for line in table_with(text, '| `likelihood="auto"` |')[1:4:2]}
    names = ['likelihood="auto"', *(name.replace(", 4 chains, best rank", "") for name in head[1:])]
    figure = Figure(figsize=(9, 2.4), layout="constrained")
    for place, (ax, line) in enumerate(zip(figure.subplots(1, 3), lines, strict=True)):
        errors = [newer.get(line[0], np.nan), *(number(cell) for cell in line[1:])]
        for at, error in enumerate(errors):
            ax.plot(error, at, "o", color=OURS if at < 2 else THEIRS, markersize=8)
            shown = "" if np.isnan(error) else f"{error:.3f}"
            ax.annotate(shown, (error, at), (9, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
        low, high = np.nanmin(errors), np.nanmax(errors)
        ax.set_xlim(low - 0.08 * (high - low), high + 0.25 * (high - low))
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_yticks(np.arange(len(names)), names if place == 0 else [""] * len(names))
        ax.grid(axis="y", color="#eef1f5")
        ax.set_title(f"{line[0]}, test RMSE", fontsize=10, color=INK)
        plain(ax)
    return figure


def by_bytes(text: str) -> Figure:
    """Errors against kilobytes: films and faces."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _, *lines = table_with(text, "| KB | distilled |")
    _curve(left, lines, {"distilled": 1, "strongest quantised SVD": 4}, "MovieLens 1M", "test RMSE, stars")
    _, *lines = table_with(text, "| KB | ours | seconds | quantised SVD")
    names = {"compress": 1, "strongest quantised SVD": 3, "residual quantiser": 6, "semidiscrete": 4}
    _curve(right, lines, names, "CMU faces", "RMSE, grey levels")
    return figure


def _curve(ax: Any, lines: Table, columns: dict[str, int], title: str, unit: str) -> None:
    for (name, column), colour in zip(columns.items(), (OURS, *COLOURS), strict=False):
        x, y = ([number(line[p]) for line in lines] for p in (0, column))
        ax.plot(x, y, "o-" if colour == OURS else "s--", color=colour, label=name, markersize=4, linewidth=1.4)
    ax.set_xscale("log")
    ticks = [number(line[0]) for line in lines][::2]
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.set_xlabel("KB", fontsize=9)
    ax.set_ylabel(unit, fontsize=9)
    ax.set_title(title, fontsize=10, color=INK)
    ax.legend(frameon=False, fontsize=8)
    plain(ax)


def lists(text: str) -> Figure:
    """How well lists find what was left out, against megabytes."""
    _, *lines = table_with(text, "| NDCG@10 | bytes | leave ten out")
    places = {  # of labels beside their points
        "EASE with dropout": (8, 3), "EASE": (8, -10), "ALS": (8, -3), "RP3beta": (8, -3), "item-kNN": (8, -3),
        "ItemACCAMS(400_000)": (-4, 8), "ItemACCAMS(100_000)": (9, -16), "of low rank": (8, -4),
    }  # fmt: skip
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    ax = figure.subplots()
    for name, size, ndcg, *_ in lines:
        if not re.match(r"[\d.]+ (MB|to)", size) or not ndcg or name.startswith("BayesianACCAMS"):
            continue
        largest = size.replace(" leaving ten out", "").split(",")[-1].split(" to ")[-1].strip()
        x, y, own = megabytes(largest), number(ndcg), name.startswith("ItemACCAMS")
        ax.plot(x, y, "o" if own else "s", color=OURS if own else THEIRS, markersize=7)
        key = next(key for key in sorted(places, key=len, reverse=True) if key in name)
        key = "of low rank" if "low rank" in name else key
        shown = re.sub(r" \(implicit.*\)", " (implicit)", name).replace(" with dropout, of", ",")
        ax.annotate(shown, (x, y), places[key], textcoords="offset points", fontsize=8, color=INK)
    popular = number(next(line for line in lines if line[0] == "popularity")[2])
    ax.axhline(popular, color=THEIRS, linestyle=":")
    ax.annotate("popular films", (0.1, popular), (0, 4), textcoords="offset points", fontsize=8, color=INK)
    ax.set_xscale("log")
    ax.set(xlim=(0.07, 1000), ylim=(0.08, 0.34))
    ticks = (0.1, 1, 10, 100)
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.set_xlabel("MB", fontsize=9)
    ax.set_ylabel("NDCG@10", fontsize=9)
    plain(ax)
    return figure


def ratios(table: Table, skipped: Sequence[str] = ()) -> tuple[list[str], dict[str, list[float]]]:
    """Return the names of the lines, and for each column its numbers as multiples of the first one's."""
    head, *lines = table
    names = [", ".join(line[0].split(", ")[:2]) for line in lines]
    kept = [p for p in range(2, len(head)) if head[p] not in skipped]
    return names, {head[p]: [number(line[p]) / number(line[1]) for line in lines] for p in kept}


def gaps(text: str) -> Figure:
    """Errors of imputers as multiples of ours."""
    names, found = ratios(table_with(text, "| 30 % at random | ACCAMSImputer | trees"))
    return _dots(names, found, "RMSE of hidden cells; ACCAMSImputer = 1", (0.85, 2.5))


def matrices(text: str) -> Figure:
    """Bytes of compressors with bounded errors as multiples of ours."""
    head, *lines = table_with(text, "| bytes, bounded |")
    turned = [["", *(line[0] for line in lines)]]
    turned += [[name, *(line[p] for line in lines)] for p, name in enumerate(head) if p]
    skipped = ("uniform by classes", "uniform + Zstandard", "uniform + pcodec")
    return _dots(
        *ratios(turned, skipped), "bytes with every error below a tenth of the deviation; compress = 1", (0.55, 9)
    )


def _dots(names: list[str], found: dict[str, list[float]], what: str, limits: tuple[float, float]) -> Figure:
    figure = Figure(figsize=(7.6, 1.1 + 0.27 * len(names)), layout="constrained")
    ax, at = figure.subplots(), np.arange(len(names))
    ax.axvline(1.0, color=OURS, linewidth=2)
    for (name, values), colour, marker in zip(found.items(), COLOURS, "osD^vP", strict=False):
        ax.plot(np.clip(values, *limits), at, marker, color=colour, markersize=5, label=name.split(",")[0])
    ax.set_xscale("log")
    ax.set_xlim(limits[0] * 0.98, limits[1] * 1.02)
    ticks = [x for x in (0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 5, 9) if limits[0] <= x <= limits[1]]
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.set_yticks(at, names)
    ax.invert_yaxis()
    ax.grid(axis="y", color="#eef1f5")
    ax.set_axisbelow(True)
    ax.set_xlabel(what, fontsize=9)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    plain(ax)
    return figure


def main() -> None:
    text = (DOCS / "results" / "measurements.md").read_text(encoding="utf-8")
    with rc_context({"svg.hashsalt": "accams"}):
        for draw in (ratings, by_bytes, lists, gaps, matrices):
            path = DOCS / "figures" / f"results-{draw.__name__.replace('_', '-')}.svg"
            draw(text).savefig(path, metadata={"Date": None}, facecolor="white")
            print(f"wrote {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
