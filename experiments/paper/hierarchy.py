"""Figure 4: the tree of films by the first three stencils of ACCAMS with s=20 and k=10."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import accams
from accams import ACCAMS
from accams.data import datasets
from accams.use.hierarchy import Node
from paper.pages import Page
from paper.runs import Row, Run
from paper.sets import rating_sets
from paper.study import Plan, Study

STENCILS, CLUSTERS, DEPTH = 20, 10, 3
MOST = 400  # films in the tree: those with most ratings
NAMED = 5


def data_of(name: str) -> datasets.Dataset:
    return datasets.netflix() if name == "netflix" else datasets.movielens(name.removeprefix("ml-"))


def model_run(name: str, rate: float | str = 1.0) -> Run:
    """The model of this figure and of the table of similar films: the paper's, or ours with its learning rate."""
    key = (name, f"model k={CLUSTERS} s={STENCILS} rate={rate}")
    file = Run(key, partial(fit_and_save, name, rate, "")).file
    return Run(key, partial(fit_and_save, name, rate, file), 5)


def fit_and_save(name: str, rate: float | str, file: str, folder: Path, given: list[Row]) -> list[Row]:
    model = ACCAMS(STENCILS, CLUSTERS, learning_rate=rate, random_state=0, verbose=False).fit(
        data_of(name).observations
    )
    model.save(folder / f"{file}.accams")
    return [{"set": name, "file": f"{file}.accams", "bytes": model.stencils_.bits / 8, "rmse": model.train_rmse_}]


def short(title: str) -> str:
    """Without the year, and with the article in front."""
    name = title.rsplit(" (", 1)[0]
    for article in ("The", "A", "An"):
        if name.endswith(f", {article}"):
            return f"{article} {name.removesuffix(f', {article}')}"
    return name


def most_rated(model: accams.Model, n: int) -> list[object]:
    return model.col_index.ids[np.argsort(-model.activity[1], kind="stable")[:n]].tolist()


def tree_of(model: accams.Model) -> Node:
    return model.hierarchy(DEPTH, candidates=most_rated(model, MOST), stencils=list(range(DEPTH)))


def tree(name: str, folder: Path, given: list[Row]) -> list[Row]:
    """The branches, top down, with the films that are most typical of each."""
    model, titles = accams.load(folder / given[0]["file"]), data_of(name).titles or {}
    return [
        {"set": name, "depth": depth, "films": node.size,
         "typical": "; ".join(short(titles.get(x, str(x))) for x in node.members[:NAMED])}
        for depth, node in tree_of(model).walk()
    ]  # fmt: skip


def runs(plan: Plan) -> list[Run]:
    return [Run((name, "hierarchy"), partial(tree, name), 2, (model_run(name),)) for name in rating_sets(plan.quick)]


def show(plan: Plan, rows: list[Row]) -> Page:
    from accams.report import gather
    from accams.report.figures import hierarchy

    page = Page()
    for name in dict.fromkeys(row["set"] for row in rows):
        model = accams.load(plan.kept / f"{model_run(name).file}.accams")
        titles = data_of(name).titles or {}
        facts = gather(model, {x: short(t) for x, t in titles.items()})
        page.figures[f"hierarchy-{name}"] = hierarchy(replace(facts, tree=tree_of(model)))
        here = [row for row in rows if row["set"] == name]
        outline = "\n".join(f"{'    ' * row['depth']}- {row['films']}: {row['typical']}" for row in here)
        page.add(
            f"**{name}**: ACCAMS with {STENCILS} stencils of {CLUSTERS} x {CLUSTERS} clusters. Films are parted by "
            f"their labels in the first stencil, then in the second and the third; the {MOST} films with most "
            "ratings, each branch by how many it has and by those most typical of it. The model has not seen genres, "
            "years or titles.",
            outline,
        )
    return page


STUDY = Study("hierarchy", "A tree of films by the first three stencils", runs, show)
