"""Runs of recommenders: which methods, on which split, and what is measured."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter

import paper.methods as m
from accams.errors import MissingDataError
from paper.methods import Method, grid, text, tuning_rmse
from paper.runs import Row, Run, UnavailableError
from paper.sets import ratings, split
from rivals import ALS, SGD

RANKS = (1, 5, 10, 20)
DISTILLED = (33_000, 90_000, 300_000)
METHODS: dict[str, Method] = {
    "baselines": Method(m.baseline_lines, 0.5),
    "SVD++": Method(m.surprise_lines, 30, {"kind": "SVDpp"}, most=m.LONG),
    "SVD++ R=25": Method(m.surprise_lines, 35, {"kind": "SVDpp", "n_factors": 25}, most=m.LONG),
    "CoClustering": Method(m.surprise_lines, 3, {"kind": "CoClustering"}, most=m.LONG),
    "SGD": Method(m.factor_lines("MF by SGD", SGD), 4, grid=grid(rank=(10, 20), ridge=(0.05, 0.08, 0.1))),
    "ALS": Method(m.factor_lines("MF by ALS", ALS), 1, grid=grid(rank=(10, 20), ridge=(8.0, 10.0, 12.0, 15.0))),
    "myFM": Method(m.myfm_lines, 25, grid=grid(rank=(10, 20), kept=(200,)), trial={"kept": 60}, most=m.LONG),
    "BPMF": Method(m.bpmf_lines, 10, grid=grid(rank=(10, 20), sweeps=(230,)), trial={"sweeps": 80}, most=m.LONG),
    **{f"DFC, {t} parts": Method(m.dfc_lines, 2,
                               grid=grid(rank=(10,), parts=(t,), ridge=(4.0, 6.0, 9.0), whole=(t == 2,)))
       for t in (2, 4)},
    **{f"LLORMA R={r}": Method(m.llorma_lines, 5 + 1.5 * r, trial={"anchors": 6}, most=m.LONG,
                               grid=grid(rank=(r,), anchors=(50,), ridge=(3.0, 4.0, 6.0))) for r in RANKS},
    "one co-clustering": Method(m.accams_lines, 0.5, {"k": 10, "s": 1}),
    "ACCAMS k=10 s=13": Method(m.accams_lines, 1, {"k": 10, "s": 13}),
    "ACCAMS k=100 s=5": Method(m.accams_lines, 2, {"k": 100, "s": 5}),
    "ACCAMS as it comes": Method(m.accams_lines, 1, {"k": 10, "s": 13, "rate": "auto"}),
    **{f"bACCAMS paper s={s}": Method(m.bayesian_lines, s, {"paper": True, "s": s}) for s in (50, 70, 125)},
    "bACCAMS ours": Method(m.bayesian_lines, 80, {"distil": DISTILLED}),
    # for the curves
    **{f"one co-clustering k={k}": Method(m.accams_lines, 0.5 + k / 50, {"k": k, "s": 1})
       for k in (2, 5, 20, 50, 100, 200, 500)},
    **{f"ACCAMS k={k}": Method(m.accams_lines, 5, {"k": k, "s": 50, "prefixes": (1, 2, 4, 8, 13, 20, 32, 50)})
       for k in (5, 10, 32)},
    **{f"bACCAMS paper s={s}": Method(m.bayesian_lines, s, {"paper": True, "s": s}) for s in (10, 30)},
    **{f"SGD R={r}": Method(m.factor_lines("MF by SGD", SGD), 3, {"rank": r}) for r in (1, 2, 5, 10, 20, 50)},
}  # fmt: skip


def tune(name: str, method: str, folder: Path, given: list[Row]) -> list[Row]:
    """The settings of a grid, the best on a validation part of seed 0 first."""
    chosen, part = METHODS[method], split(name, 0)
    tried = [
        {"set": name, "tuned": method, **s, "validation_rmse": tuning_rmse(chosen, part, 0, s)} for s in chosen.grid
    ]
    return sorted(tried, key=lambda row: row["validation_rmse"])


def measure(name: str, seed: int, method: str, folder: Path, given: list[Row]) -> list[Row]:
    """Errors, bytes and time of what one method gives on one split."""
    chosen, part = METHODS[method], split(name, seed)
    if len(part.train.values) > chosen.most:
        raise UnavailableError(f"not run with more than {chosen.most:,} ratings")
    setting = {key: given[0][key] for key in chosen.grid[0]} if chosen.grid else chosen.setting
    seen, rows = part.some_train(), []
    began = perf_counter()
    for line in chosen.lines(part, seed, setting):
        took = perf_counter() - began
        rows.append({
            "set": name, "seed": seed, "fit": method, "line": len(rows), "method": line.method, "setting": line.setting,
            "bytes": float(line.bytes), "file_bytes": line.file_bytes,
            "test_rmse": part.rmse(line.predict(part.test.rows, part.test.cols)),
            "train_rmse": part.rmse(line.predict(seen.rows, seen.cols), seen) if line.train else None,
            "seconds": took, "chosen": text(setting) if chosen.grid else "",
        })  # fmt: skip
        began = perf_counter()
    return rows


def run_of(name: str, seed: int, method: str) -> Run:
    """One method on one split, after its tuning if it has any."""
    chosen, hundred_thousands = METHODS[method], len(ratings(name).values) / 1e5
    after = None
    if chosen.grid:
        cost = chosen.seconds * len(chosen.grid) * hundred_thousands / (8 if chosen.trial else 1)
        after = Run((name, "tuning", method), partial(tune, name, method), cost)
    return Run(
        (name, f"seed {seed}", method), partial(measure, name, seed, method), chosen.seconds * hundred_thousands, after
    )


def present(names: list[str]) -> list[str]:
    """Those sets that are there; says which is missing where none is."""
    found, missing = [], None
    for name in names:
        try:
            ratings(name)
            found.append(name)
        except MissingDataError as error:
            missing = error
    if not found and missing is not None:
        raise missing
    return found
