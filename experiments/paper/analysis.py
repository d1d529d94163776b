"""Figure 7: entropy and stability of labels over sweeps and stencils, and the paper's two claims about them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from accams import BayesianACCAMS
from paper.pages import Page, axes, curve, table
from paper.runs import Row, Run
from paper.sets import rating_sets, split
from paper.study import Plan, Study

CLUSTERS = 10
SIDES = ("users", "films")
ENDS = 10  # stencils that count as early, and as late
LAST = 10  # sweeps that are averaged at the end


def work(name: str, s: int, folder: Path, given: list[Row]) -> list[Row]:
    """One run of the sampler with the paper's settings."""
    model = BayesianACCAMS.paper(n_stencils=s, n_clusters=CLUSTERS, random_state=0, verbose=False)
    found = model.fit(split(name, 0).observations).diagnostics()
    sweeps = sorted({0, 4, 9, 29, *range(len(found.rmse) - LAST, len(found.rmse))})
    return [
        {"set": name, "sweep": sweep + 1, "stencil": l + 1, "side": SIDES[side],
         "entropy": float(found.entropy[sweep, l, side]), "changed": float(found.changed[sweep, l, side])}
        for sweep in sweeps if 0 <= sweep < len(found.rmse)
        for l in range(s) for side in (0, 1)
    ]  # fmt: skip


def runs(plan: Plan) -> list[Run]:
    s = 30 if plan.quick else 70
    return [
        Run((name, f"analysis s={s}"), partial(work, name, s), 60 if plan.quick else 1500)
        for name in rating_sets(plan.quick)
    ]


def at_the_end(rows: list[Row], side: str, what: str) -> np.ndarray:
    """By stencil, the mean over the last sweeps."""
    last = sorted({row["sweep"] for row in rows})[-LAST:]
    kept = [row for row in rows if row["side"] == side and row["sweep"] in last]
    s = max(row["stencil"] for row in kept)
    return np.array([np.mean([row[what] for row in kept if row["stencil"] == l]) for l in range(1, s + 1)])


def draw(here: list[Row]) -> Any:
    """Entropy and change of labels over stencils, in an early sweep and at the end."""
    figure, (one, two) = axes(11, 4.2, across=2)
    for p, side in enumerate(SIDES):
        for ax, what in ((one, "entropy"), (two, "changed")):
            early = [row[what] for row in here if row["side"] == side and row["sweep"] == 10]
            curve(ax, list(enumerate(at_the_end(here, side, what), 1)), f"{side}, at the end", p, "-")
            curve(ax, list(enumerate(early, 1)), f"{side}, sweep 10", p, ":")
    one.set(xlabel="stencil", ylabel="entropy of labels, bits", ylim=(0, np.log2(CLUSTERS) + 0.1))
    two.set(xlabel="stencil", ylabel="share of labels that change in a sweep", ylim=(0, 1))
    one.legend(frameon=False, fontsize=8)
    return figure


def compared(here: list[Row], side: str, what: str) -> list[str]:
    """Early stencils against late ones."""
    ends = at_the_end(here, side, what)
    early, late = ends[:ENDS], ends[-ENDS:]
    spread = np.sqrt(early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late))
    return [what, side, *(f"{x:.3f}" for x in (early.mean(), late.mean(), late.mean() - early.mean(), spread))]


def show(plan: Plan, rows: list[Row]) -> Page:
    page = Page()
    for name in dict.fromkeys(row["set"] for row in rows):
        here = [row for row in rows if row["set"] == name]
        page.figures[f"analysis-{name}"] = draw(here)
        page.add(
            f"**{name}**: `BayesianACCAMS.paper(n_stencils={max(row['stencil'] for row in here)})`, labels of users "
            f"and films, mean over the last {LAST} sweeps; the first {ENDS} stencils against the last {ENDS}. The "
            "paper claims that users are spread over few clusters in late stencils, and that late stencils are less "
            "stable.",
            table(["what", "side", f"first {ENDS}", f"last {ENDS}", "difference", "its standard error"],
                  [compared(here, side, what) for what in ("entropy", "changed") for side in SIDES]),
        )  # fmt: skip
    return page


STUDY = Study("analysis", "Entropy and stability of labels", runs, show)
