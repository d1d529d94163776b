"""Runs of recommenders: which methods, on which split, and what is measured."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter

import paper.methods as m
from accams.errors import MissingDataError
from paper.methods import Method, Setting, grid, text
from paper.runs import Row, Run, UnavailableError
from paper.sets import ratings, split, tuning_split
from rivals import ALS, SGD

RANKS = (1, 5, 10, 20)
ALS_RANKS, ALS_RIDGES = (1, 2, 5, 10, 20, 40), (4.0, 6.0, 8.0, 10.0, 12.0, 15.0)
DISTILLED = (0.033, 0.09, 0.3)  # bytes for each rating
METHODS: dict[str, Method] = {
    "baselines": Method(m.baseline_lines, 0.5),
    "SVD++": Method(m.surprise_lines, 40, most=m.LONG, grid=grid(
        kind=("SVDpp",), n_factors=(25,), reg_all=(0.02, 0.05, 0.1), n_epochs=(20, 40))),
    "CoClustering": Method(m.surprise_lines, 3, most=m.LONG, grid=tuple(
        {"kind": "CoClustering", "n_cltr_u": k, "n_cltr_i": k} for k in (2, 3, 5, 10))),
    "SGD": Method(m.factor_lines("MF by SGD", SGD), 3,
                  grid=grid(rank=(10, 20, 40, 80), ridge=(0.05, 0.08, 0.12, 0.18))),
    "ALS": Method(m.factor_lines("MF by ALS", ALS), 0.5, grid=grid(rank=ALS_RANKS, ridge=ALS_RIDGES)),
    "myFM": Method(m.myfm_lines, 25, grid=grid(rank=(10, 20, 32, 48), kept=(200,)), trial={"kept": 40}, most=m.LONG),
    "BPMF": Method(m.bpmf_lines, 10, grid=grid(rank=(10, 20, 32, 48), sweeps=(230,)), trial={"sweeps": 60},
                   most=m.LONG),
    "what DFC divides": Method(m.dfc_lines, 0.5, grid=grid(
        rank=(10, 20), parts=(1,), method=("proj",), ridge=(6.0, 9.0, 13.0), bias_ridge=(5.0,))),
    **{f"DFC-{how.capitalize()}, {t} parts": Method(m.dfc_lines, 0.5, grid=grid(
        rank=(10, 20), parts=(t,), method=(how,), ridge=(3.0, 4.0, 6.0, 9.0), bias_ridge=(5.0,)))
       for t in (2, 4) for how in ("proj", "nys")},
    **{f"LLORMA R={r}": Method(m.llorma_lines, 5 + 1.5 * r, trial={"anchors": 6}, most=m.LONG, grid=grid(
        rank=(r,), anchors=(50,), ridge=(1.5, 2.0, 3.0, 4.0, 6.0, 9.0))) for r in RANKS},
    "one co-clustering": Method(m.accams_lines, 0.5, {"k": 10, "s": 1}),
    "ACCAMS k=10 s=13": Method(m.accams_lines, 1, {"k": 10, "s": 13}),
    "ACCAMS k=100 s=5": Method(m.accams_lines, 2, {"k": 100, "s": 5}),
    "ACCAMS as it comes": Method(m.accams_lines, 1, {"k": 10, "s": 13, "rate": "auto"}),
    "ACCAMS early stopping": Method(m.accams_lines, 4, {
        "k": 10, "s": 300, "rate": 0.1, "more": {"early_stopping": True, "shrinkage": 5.0}}),
    **{f"bACCAMS paper s={s}": Method(m.bayesian_lines, s, {"paper": True, "s": s}) for s in (10, 30, 50, 70, 125)},
    "bACCAMS ours": Method(m.bayesian_lines, 80, {"distil": DISTILLED}),
    # for the curves
    **{f"one co-clustering k={k}": Method(m.accams_lines, 0.5 + k / 50, {"k": k, "s": 1})
       for k in (2, 5, 20, 50, 100, 200, 500)},
    **{f"ACCAMS k={k}": Method(m.accams_lines, 5, {"k": k, "s": 50, "prefixes": (1, 2, 3, 4, 8, 13, 20, 32, 50)})
       for k in (5, 10, 32)},
    **{f"ALS R={r}": Method(m.factor_lines("MF by ALS", ALS), 0.5, family="ALS",
                            grid=grid(rank=(r,), ridge=ALS_RIDGES)) for r in ALS_RANKS},
    **{f"bACCAMS ours s={s}": Method(m.bayesian_lines, s + 5, {"s": s}) for s in (5, 10, 20, 40)},
}  # fmt: skip


def check_size(chosen: Method, n: int) -> None:
    if n > chosen.most:
        raise UnavailableError(f"not run with more than {chosen.most:,} ratings")


def trial(name: str, method: str, setting: Setting, folder: Path, given: list[Row]) -> list[Row]:
    """How well one setting of a grid does on ratings that are in no test part."""
    chosen, part = METHODS[method], tuning_split(name)
    check_size(chosen, len(part.train.values))
    first = next(chosen.lines(part, 0, setting | chosen.trial))
    error = part.rmse(first.predict(part.test.rows, part.test.cols))
    return [{"set": name, "tuned": method, **setting, "validation_rmse": error}]


def measure(name: str, seed: int, method: str, folder: Path, given: list[Row]) -> list[Row]:
    """Errors, bytes and time of what one method gives on one split."""
    chosen, part = METHODS[method], split(name, seed)
    check_size(chosen, len(part.train.values))
    setting = chosen.setting
    if chosen.grid:
        best = min(given, key=lambda row: row["validation_rmse"])
        setting = {key: best[key] for key in chosen.grid[0]}
    seen, rows = part.some_train(), list[Row]()
    began = perf_counter()
    for line in chosen.lines(part, seed, setting):
        took = perf_counter() - began
        rows.append({
            "set": name, "seed": seed, "fit": method, "line": len(rows), "method": line.method, "setting": line.setting,
            "bytes": float(line.bytes), "file_bytes": line.file_bytes,
            "test_rmse": part.rmse(line.predict(part.test.rows, part.test.cols)),
            "train_rmse": part.rmse(line.predict(seen.rows, seen.cols), seen) if line.train else None,
            "seconds": took, "chosen": text(setting) if chosen.grid else "", **(line.extra or {}),
        })  # fmt: skip
        began = perf_counter()
    return rows


def run_of(name: str, seed: int, method: str) -> Run:
    """One method on one split, after the trials of its settings if it has several."""
    chosen, hundred_thousands = METHODS[method], len(ratings(name).values) / 1e5
    cost, family = chosen.seconds * hundred_thousands, chosen.family or method
    trials = tuple(
        Run((name, "trial", family, text(setting)), partial(trial, name, family, setting),
            cost / (6 if chosen.trial else 1), settings=chosen.trial)
        for setting in chosen.grid
    )  # fmt: skip
    return Run((name, f"seed {seed}", method), partial(measure, name, seed, method), cost, trials, chosen.setting)


def missing(name: str, folder: Path, given: list[Row]) -> list[Row]:
    """Says what is missing, and where to get it."""
    ratings(name)
    return []


def runs_of(names: list[str], seeds: tuple[int, ...], methods: tuple[str, ...]) -> list[Run]:
    """Every method on every split of every set; a set that is not there is one run, which says so."""
    found = []
    for name in names:
        try:
            ratings(name)
        except MissingDataError:
            found.append(Run((name,), partial(missing, name)))
        else:
            found += [run_of(name, seed, method) for method in methods for seed in seeds]
    return found
