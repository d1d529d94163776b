"""Table 1: method, parameters, size and test error over three 90:10 splits."""

from __future__ import annotations

import numpy as np

from accams.model.size import bytes_text, factor_bits, model_bits
from paper.pages import Page, table
from paper.ratings import RANKS, runs_of
from paper.runs import Row, Run
from paper.sets import SEEDS, rating_sets
from paper.study import Plan, Study

ORDER = (
    "baselines", "CoClustering", "one co-clustering", "SVD++", "SGD", "ALS", "what DFC divides", "DFC-Proj, 2 parts",
    "DFC-Nys, 2 parts", "DFC-Proj, 4 parts", "DFC-Nys, 4 parts", *(f"LLORMA R={r}" for r in RANKS), "myFM", "BPMF",
    "ACCAMS k=10 s=13", "ACCAMS k=100 s=5", "ACCAMS as it comes", "ACCAMS early stopping",
    *(f"bACCAMS paper s={s}" for s in (10, 30, 50, 70, 125)), "bACCAMS ours",
)  # fmt: skip
QUICK = tuple(name for name in ORDER if name not in {f"bACCAMS paper s={s}" for s in (50, 70, 125)})
NETFLIX = (480_189, 17_770)
PRINTED = (  # method, parameters, test RMSE on Netflix as the paper prints it
    ("SVD++", {"rank": 25}, 0.8631),
    ("DFC-Nys", {}, 0.8486),
    ("DFC-Proj", {}, 0.8411),
    *(
        ("LLORMA", {"rank": r, "copies": 2}, rmse)
        for r, rmse in zip(RANKS, (0.9295, 0.8604, 0.8444, 0.8337), strict=True)
    ),
    ("ACCAMS", {"k": 10, "s": 13}, 0.8780),
    ("ACCAMS", {"k": 100, "s": 5}, 0.8759),
    *(("bACCAMS", {"k": 10, "s": s}, rmse) for s, rmse in ((50, 0.8403), (70, 0.8363), (125, 0.8331))),
)


def paper_size(parameters: dict[str, int], shape: tuple[int, int] = NETFLIX) -> float | None:
    """Bytes as the paper counts: 32-bit factors (LLORMA: two for each row and column), or labels and templates."""
    if "rank" in parameters:
        return parameters.get("copies", 1) * factor_bits(shape, parameters["rank"]) / 8
    if "k" in parameters:
        return model_bits(shape, [(parameters["k"], parameters["k"])] * parameters["s"]) / 8
    return None


def runs(plan: Plan) -> list[Run]:
    return runs_of(rating_sets(plan.quick), SEEDS, QUICK if plan.quick else ORDER)


def show(plan: Plan, rows: list[Row]) -> Page:
    page = Page()
    for name in dict.fromkeys(row["set"] for row in rows):
        found: dict[tuple[str, int], list[Row]] = {}
        for row in rows:
            if row["set"] == name:
                found.setdefault((row["fit"], row["line"]), []).append(row)
        page.add(
            f"**{name}**, three 90:10 splits, predictions clipped to the range of the training part. Rivals are tuned "
            "on ratings that are in no test part (the best of a grid; the last column says which).",
            table(["method", "setting", "size", "test RMSE", "spread", "by split", "seconds", "tuned"],
                  [line(each) for each in found.values()]),
        )  # fmt: skip
    page.add(
        "Size as the paper counts it: 32 bits a factor (SVD++ without biases and implicit factors, the others with "
        "biases; LLORMA two factorisations for each row and column, what it really keeps in brackets), labels and "
        "templates of ACCAMS by its formula, all draws of a mean, the file of a distilled model. Spread is the "
        "standard deviation over the splits. Seconds are those of one fit (DFC: all parts one after another, in "
        "brackets side by side); further lines of the same fit say what they take beyond."
    )
    printed = [
        [method, ", ".join(f"{x}={v}" for x, v in of.items() if x != "copies"),
         "not reported" if paper_size(of) is None else f"{paper_size(of) / 1e6:.3g} MB", f"{rmse:.4f}"]
        for method, of, rmse in PRINTED
    ]  # fmt: skip
    page.add(
        "The paper's own table, on Netflix, its sizes computed anew:",
        table(["method", "parameters", "size", "test RMSE"], printed),
    )
    return page


def line(rows: list[Row]) -> list[str]:
    """One line of the table, from one row for each split."""
    first, rmse = rows[0], np.array([row["test_rmse"] for row in rows])
    size, seconds = bytes_text(first["bytes"]), f"{np.median([row['seconds'] for row in rows]):.1f}"
    if "used_bytes" in first:
        size += f" ({bytes_text(first['used_bytes'])})"
    if "side_by_side" in first:
        seconds += f" ({np.median([row['side_by_side'] for row in rows]):.1f})"
    spread = f"{rmse.std(ddof=1):.4f}" if len(rmse) > 1 else ""
    by_split = ", ".join(f"{x:.4f}" for x in rmse)
    return [first["method"], first["setting"], size, f"{rmse.mean():.4f}", spread, by_split, seconds, first["chosen"]]


STUDY = Study("table", "Test error and size of recommenders", runs, show)
