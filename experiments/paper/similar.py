"""Table 2: films with the labels most like those of a film, by the same model as the tree."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import accams
from paper.hierarchy import data_of, model_run, most_rated, short
from paper.pages import Page, table
from paper.runs import Row, Run
from paper.sets import rating_sets
from paper.study import Plan, Study

WANTED = ("2001: A Space Odyssey", "Star Wars", "The Silence of the Lambs", "Mean Girls", "Alien", "The Lion King",
          "Psycho", "Annie Hall", "The Godfather", "Scream", "Toy Story", "Clueless")  # fmt: skip
RATES: dict[str, float | str] = {"paper": 1.0, "ours": "auto"}
SHOWN = 10
MOST = 1500  # films to choose from: those with most ratings


def work(name: str, kind: str, folder: Path, given: list[Row]) -> list[Row]:
    """The nearest by the number of equal labels (the paper's), and by what labels mean (ours)."""
    model, titles = accams.load(folder / given[0]["file"]), data_of(name).titles or {}
    candidates = most_rated(model, MOST)
    named = [(short(titles.get(x, str(x))), x) for x in candidates]
    rows = []
    for film in WANTED:
        found = [x for called, x in named if called == film] or [x for called, x in named if called.startswith(film)]
        for by in ("hamming", "weighted") if found else ():
            near = model.similar(found[0], SHOWN, by=by, candidates=candidates)
            rows += [
                {"set": name, "model": kind, "film": short(titles[found[0]]), "by": by, "place": place,
                 "similar": short(titles[x]), "score": float(score)}
                for place, (x, score) in enumerate(near, 1)
            ]  # fmt: skip
    return rows


def runs(plan: Plan) -> list[Run]:
    return [
        Run((name, f"similar, {kind}"), partial(work, name, kind), 3, (model_run(name, rate),))
        for name in rating_sets(plan.quick)
        for kind, rate in RATES.items()
    ]


def show(plan: Plan, rows: list[Row]) -> Page:
    page = Page()
    columns = [("paper", "hamming"), ("ours", "hamming"), ("ours", "weighted")]
    for name in dict.fromkeys(row["set"] for row in rows):
        here = [row for row in rows if row["set"] == name]
        lines = [
            [film, *("; ".join(r["similar"] for r in here if (r["film"], r["model"], r["by"]) == (film, *column))
                     for column in columns)]
            for film in dict.fromkeys(row["film"] for row in here)
        ]  # fmt: skip
        page.add(
            f"**{name}**: the {SHOWN} nearest among the {MOST} films with most ratings, by ACCAMS with 20 stencils of "
            "10 x 10 clusters: as in the paper, by the number of equal labels; the same by ACCAMS as it comes (with a "
            "learning rate, so that late stencils fit less noise); and by how much its clusters differ in effect.",
            table(["film", "paper: equal labels", "ours: equal labels", "ours: weighted"], lines),
        )
    return page


STUDY = Study("similar", "Similar films by labels", runs, show)
