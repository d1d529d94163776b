"""Figure 3(b): error on the training part against size, by the fits of `prediction`."""

from __future__ import annotations

from paper.pages import Page
from paper.prediction import draw, runs
from paper.runs import Row
from paper.study import Plan, Study


def show(plan: Plan, rows: list[Row]) -> Page:
    page = draw(rows, "train_rmse", "training RMSE", "training-error")
    page.add("How closely the same models fit what they were trained on (at most 200,000 ratings of it are looked at).")
    return page


STUDY = Study("training-error", "Training error against size", runs, show)
