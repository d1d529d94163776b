"""Figure 3(a), and the paper's front figure: test error against size, over k, s and ranks."""

from __future__ import annotations

from paper.pages import Page, axes, curve, size_axis
from paper.ratings import RANKS, runs_of
from paper.runs import Row, Run
from paper.sets import rating_sets
from paper.study import Plan, Study

CURVES = (
    "baselines",
    *(f"one co-clustering k={k}" for k in (2, 5, 20, 50, 100, 200, 500)),
    *(f"ACCAMS k={k}" for k in (5, 10, 32)),
    "ACCAMS as it comes",
    "ACCAMS early stopping",
    *(f"bACCAMS paper s={s}" for s in (10, 30, 50)),
    *(f"bACCAMS ours s={s}" for s in (5, 10, 20, 40)),
    "bACCAMS ours",
    *(f"ALS R={r}" for r in (1, 2, 5, 10, 20, 40)),
    "SVD++",
    "BPMF",
    "DFC-Proj, 2 parts",
    *(f"LLORMA R={r}" for r in RANKS),
)
STYLES = {  # what is drawn: colour and line
    "bACCAMS, ours": (0, "D-"),
    "bACCAMS, ours, one draw": (0, "x-"),
    "bACCAMS, ours, distilled": (0, "o-"),
    "bACCAMS, paper's settings": (1, "D--"),
    "bACCAMS, paper's settings, one draw": (1, "x--"),
    "ACCAMS": (2, "o"),
    "ACCAMS, as it comes": (2, "P"),
    "ACCAMS, early stopping": (2, "X"),
    "one co-clustering": (3, "s-"),
    "biases": (3, "*"),
    "MF by ALS": (4, "^-"),
    "MF by ALS, 8 bits": (6, "^-"),
    "MF by ALS, 4 bits": (7, "^-"),
    "SVD++ (Surprise)": (5, "*"),
    "DFC-Proj": (6, "v"),
    "Bayesian MF (BPMF)": (6, "D"),
    "LLORMA": (5, "h:"),
}


SLOW = {f"bACCAMS ours s={s}" for s in (20, 40)}


def runs(plan: Plan) -> list[Run]:
    wanted = tuple(name for name in CURVES if not (plan.quick and name in SLOW))
    return runs_of(rating_sets(plan.quick), (0,), wanted)


def draw(rows: list[Row], measure: str, label: str, figure: str, above: float | None = None) -> Page:
    """One figure a data set; what is worse than the best by more than `above` is not shown."""
    page = Page()
    for name in dict.fromkeys(row["set"] for row in rows):
        drawing, (ax,) = axes(8.5, 5.2)
        for method, (colour, style) in STYLES.items():
            here = [
                row for row in rows if (row["set"], row["method"]) == (name, method) and row.get(measure) is not None
            ]
            if method == "ACCAMS":  # a line for each k
                for p, k in enumerate(dict.fromkeys(row["setting"].split(",")[0] for row in here)):
                    some = [(row["bytes"], row[measure]) for row in here if row["setting"].startswith(f"{k},")]
                    curve(ax, some, f"ACCAMS, {k}", colour, ("o-", "o--", "o:")[p % 3])
            else:
                curve(ax, [(row["bytes"], row[measure]) for row in here], method, colour, style)
        size_axis(ax)
        ax.set_ylabel(f"{label}, {name}")
        if above is not None:
            least = min(y for line in ax.lines for y in line.get_ydata())
            ax.set_ylim(least - 0.01, least + above)
        ax.legend(frameon=False, fontsize=7, ncols=2)
        page.figures[f"{figure}-{name}"] = drawing
    return page


def show(plan: Plan, rows: list[Row]) -> Page:
    page = draw(rows, "test_rmse", "test RMSE", "prediction", above=0.2)
    page.add(
        "Test error against size, one 90:10 split. Size by the paper's conventions; the mean of many draws takes all "
        "of them, one draw the bytes that the paper counts, and a distilled model those of its file."
    )
    return page


STUDY = Study("prediction", "Test error against size", runs, show)
