"""Test accuracy of rival recommenders on the splits of our own experiments, computed once and kept in rivals.csv.

The commands in that file name this script as it was called then, rivals.py.

Stands alone: it needs numpy, scipy, myfm 0.4.0 and scikit-surprise 1.1.5, not accams. `export.py` writes the data.
The split of a seed is `default_rng(seed).permutation(E)` over the ratings in the order of the file, its first tenth
the test. Predictions are clipped to the range of the training part.

Run: python libraries.py --data DIR --out rivals.csv --cache DIR --jobs 16        (--quick: a check of a few seconds)

Every job (one method, setting, data set, seed and chain) is one single-threaded process; its predictions stay in the
cache, so a run that was stopped goes on where it was. The CSV has a line where all jobs of a line are done; lines of
other runs are kept. With --only-missing what the CSV has is not run again, even with an empty cache.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import groupby, product
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import numpy as np

SIZES = {"ml-100k": 1.0, "ml-1m": 10.0, "jester": 3.6}  # in 100,000 ratings
METHODS = ("bias", "cocluster", "svd", "svdpp", "myfm")
SURPRISE = {"bias": "BaselineOnly", "cocluster": "CoClustering", "svd": "SVD", "svdpp": "SVDpp"}
MYFM = {  # ranks, iterations, the last so many of which are kept
    "ml-100k": ((5, 10, 20), 512, 300),
    "ml-1m": ((10, 20, 32), 300, 200),
    "jester": ((8, 16, 32), 300, 200),
}
COLUMNS = ("set", "seed", "method", "setting", "chains", "rmse", "mae", "seconds", "version", "command")
Row = dict[str, str]


class Part(NamedTuple):
    """Some ratings of a data set."""

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Job:
    """One fit. Its setting is written ``name=value name=value``; other words in it are for the reader."""

    set: str
    seed: int
    method: str
    setting: str = "default"
    chain: int = 0
    validation: bool = False  # predict a tenth of the training part instead of the test part

    @property
    def key(self) -> tuple[str, ...]:
        return (self.set, str(self.seed), self.method, self.setting)

    @property
    def parameters(self) -> dict[str, int | float]:
        pairs = re.findall(r"(\w+)=(\S+)", self.setting)
        return {name: float(value) if "." in value else int(value) for name, value in pairs}

    @property
    def work(self) -> float:
        """About how many seconds it takes; decides what is run first."""
        p = self.parameters
        if self.method == "myfm":
            return SIZES[self.set] * p["n_iter"] * (0.003 + 0.0054 * p["rank"])
        if self.method == "svd":
            return SIZES[self.set] * (0.3 + p.get("n_epochs", 20) * (0.006 + 0.0004 * p.get("n_factors", 100)))
        return SIZES[self.set] * {"bias": 0.5, "cocluster": 2, "svdpp": 48}[self.method]

    def file(self, cache: Path) -> Path:
        name = "_".join((*self.key, f"chain{self.chain}", "validation" if self.validation else "test"))
        return cache / (re.sub(r"[^\w.-]+", "-", name) + ".npz")


def tuning(name: str) -> list[Job]:
    """The settings of SVD that are tried on a tenth of the training part of seed 0."""
    return [
        Job(name, 0, "svd", f"n_factors={f} n_epochs={e} lr_all=0.005 reg_all={reg}", validation=True)
        for f, e, reg in product((50, 100), (20, 40, 60, 100), (0.02, 0.05, 0.1, 0.15))
    ]


def test_positions(n: int, seed: int) -> np.ndarray:
    """Which of `n` ratings, in the order of the file, are held out."""
    return np.random.default_rng(seed).permutation(n)[: int(n * 0.1)]


def cut(part: Part, seed: int) -> tuple[Part, Part]:
    """Training and test part."""
    held = test_positions(len(part.values), seed)
    return Part(*(np.delete(x, held) for x in part)), Part(*(x[held] for x in part))


def parts(job: Job, data: Path) -> tuple[Part, Part]:
    """What a job learns from and what it predicts."""
    with np.load(data / f"{job.set}.npz") as file:
        everything = Part(file["rows"], file["cols"], file["values"].astype(np.float64))
    train, test = cut(everything, job.seed)
    return cut(train, job.seed) if job.validation else (train, test)


def surprise_predictions(job: Job, train: Part, test: Part) -> np.ndarray:
    import surprise

    entries = [(u, i, r, None) for u, i, r in zip(*(x.tolist() for x in train), strict=True)]
    extra: dict[str, object] = {} if job.method == "bias" else {"random_state": job.chain}
    if job.method == "svdpp":
        extra["cache_ratings"] = True  # faster, same result
    model = getattr(surprise, SURPRISE[job.method])(verbose=False, **extra, **job.parameters)
    model.fit(surprise.Dataset(surprise.Reader()).construct_trainset(entries))
    pairs = zip(test.rows.tolist(), test.cols.tolist(), strict=True)
    return np.array([model.predict(u, i, clip=False).est for u, i in pairs])


def one_hot(train: Part, test: Part) -> tuple[Any, Any, list[int]]:
    """Both parts as sparse matrices with a column a user and a column an item, and how many there are of each."""
    from scipy.sparse import hstack, identity

    shapes = [int(max(train[axis].max(), test[axis].max())) + 1 for axis in (0, 1)]
    units = [identity(size, format="csr") for size in shapes]
    X, X_test = (hstack([unit[of] for unit, of in zip(units, part[:2], strict=True)], "csr") for part in (train, test))
    return X, X_test, shapes


def myfm_predictions(job: Job, train: Part, test: Part) -> np.ndarray:
    from myfm import MyFMRegressor

    X, X_test, shapes = one_hot(train, test)
    sampling = job.parameters
    model = MyFMRegressor(rank=sampling.pop("rank"), random_seed=job.chain + 1000 * job.seed)
    model.fit(X, train.values, group_shapes=shapes, **sampling)
    return model.predict(X_test)


def run(job: Job, data: Path, cache: Path) -> str:
    """Do a job, leave its predictions in the cache, and tell about it."""
    name = " ".join(job.key) + f", chain {job.chain}"
    try:
        train, test = parts(job, data)
        began = perf_counter()
        predict = myfm_predictions if job.method == "myfm" else surprise_predictions
        found = predict(job, train, test).astype(np.float32)
        took = perf_counter() - began
        package = "myfm" if job.method == "myfm" else "scikit-surprise"
        unfinished = cache / f"{os.getpid()}.tmp"
        with unfinished.open("wb") as out:
            np.savez(out, prediction=found, seconds=took, version=f"{package} {version(package)}")
        unfinished.replace(job.file(cache))
    except Exception as error:  # the other jobs shall go on
        return f"FAILED {name}: {type(error).__name__}: {error}"
    return f"{name}: RMSE {score(found, train, test)[0]:.4f}, {took:.1f} s"


def run_all(jobs: Iterable[Job], data: Path, cache: Path, processes: int, deadline: float | None) -> None:
    """Run what the cache does not have, longest first, until the deadline, which ends what still runs."""
    todo = sorted((job for job in jobs if not job.file(cache).exists()), key=lambda job: -job.work)
    if not todo:
        return
    print(f"{len(todo)} jobs, about {sum(job.work for job in todo) / 60:.0f} core-minutes", flush=True)
    with multiprocessing.get_context("spawn").Pool(min(processes, len(todo))) as pool:
        results = pool.imap_unordered(partial(run, data=data, cache=cache), todo)
        for k in range(len(todo)):
            try:
                told = results.next(None if deadline is None else max(0.0, deadline - monotonic()))
            except multiprocessing.TimeoutError:
                print(f"out of time with {len(todo) - k} jobs left; run again to go on", flush=True)
                return
            print(f"[{k + 1}/{len(todo)}] {told}", flush=True)
        pool.close()
        pool.join()


def plan(options: argparse.Namespace) -> list[Job]:
    """All jobs but the tuned SVD, whose setting is not known yet."""
    jobs = []
    for name, seed, method in product(options.sets, options.seeds, options.methods):
        if method == "myfm":
            ranks, n_iter, kept = ((10,), 20, 10) if options.quick else MYFM[name]
            for rank, chain in product(options.ranks or ranks, range(options.chains)):
                jobs.append(Job(name, seed, method, f"rank={rank} n_iter={n_iter} n_kept_samples={kept}", chain))
        elif not (method == "cocluster" and name == "jester"):  # it cuts ratings down to whole numbers
            jobs.append(Job(name, seed, method))
    return jobs


def tuned(options: argparse.Namespace) -> list[Job]:
    """The SVD of the best setting for each set and seed; none for a set whose tuning is not complete."""
    found = []
    for name in options.sets:
        tried = tuning(name)
        if all(job.file(options.cache).exists() for job in tried):
            part = parts(tried[0], options.data)
            best = min(tried, key=lambda job: score(cached(job, options.cache)["prediction"], *part)[0])
            found += [Job(name, seed, "svd", f"tuned {best.setting}") for seed in options.seeds]
    return found


def cached(job: Job, cache: Path) -> dict[str, np.ndarray]:
    with np.load(job.file(cache)) as file:
        return dict(file)


def score(prediction: np.ndarray, train: Part, test: Part) -> tuple[float, float]:
    """RMSE and MAE."""
    error = np.clip(prediction.astype(np.float64), train.values.min(), train.values.max()) - test.values
    return float(np.sqrt(np.mean(error**2))), float(np.mean(np.abs(error)))


def rows_of(jobs: Sequence[Job], data: Path, cache: Path) -> list[Row]:
    """The lines of the chains of one setting: the mean chain, and the mean of their predictions."""
    part = parts(jobs[0], data)
    found = [cached(job, cache) for job in jobs]
    predictions = [one["prediction"].astype(np.float64) for one in found]
    scores = {1: np.mean([score(p, *part) for p in predictions], axis=0)}
    if len(jobs) > 1:
        scores[len(jobs)] = np.array(score(np.mean(predictions, axis=0), *part))
    seconds = f"{np.mean([one['seconds'] for one in found]):.1f}"
    command = "libraries.py --sets {} --seeds {} --methods {}".format(*jobs[0].key) + f" --chains {len(jobs)}"
    last = (seconds, str(found[0]["version"]), command)
    lines = [(*jobs[0].key, str(n), f"{rmse:.6f}", f"{mae:.6f}", *last) for n, (rmse, mae) in scores.items()]
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines]


def read(file: Path) -> dict[tuple[str, ...], Row]:
    """The lines of the CSV by set, seed, method, setting and chains."""
    if not file.exists():
        return {}
    with file.open(newline="") as lines:
        return {tuple(row.values())[:5]: row for row in csv.DictReader(lines)}


def summarise(jobs: Iterable[Job], options: argparse.Namespace) -> list[Row]:
    """Put what is complete into the CSV, beside the lines of other runs."""
    table = read(options.out)
    for _, chains in groupby(jobs, key=lambda job: job.key):
        group = list(chains)
        if all(job.file(options.cache).exists() for job in group):
            table |= {tuple(row.values())[:5]: row for row in rows_of(group, options.data, options.cache)}
    order = [*SIZES, *METHODS].index
    rows = sorted(table.values(), key=lambda row: (order(row["set"]), order(row["method"]), len(row["setting"]),
                                                   row["setting"], int(row["chains"]), int(row["seed"])))  # fmt: skip
    with options.out.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *(row.values() for row in rows)])
    return rows


def markdown(rows: Sequence[Row]) -> str:
    """A line per set, method, setting and chains, with the seeds side by side."""
    lines = ["| set | method | setting | chains | RMSE | by seed | MAE | seconds |", "|" + "---|" * 8]
    for shared, group in groupby(rows, key=lambda row: [row[c] for c in ("set", "method", "setting", "chains")]):
        seeds = list(group)
        rmse, mae, seconds = (np.mean([float(row[c]) for row in seeds]) for c in ("rmse", "mae", "seconds"))
        by_seed = ", ".join(f"{row['seed']}: {float(row['rmse']):.4f}" for row in seeds)
        lines.append("| " + " | ".join((*shared, f"{rmse:.4f}", by_seed, f"{mae:.4f}", f"{seconds:.1f}")) + " |")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the files of export.py")
    parser.add_argument("--out", type=Path, required=True, help="the CSV")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the predictions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--sets", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--ranks", nargs="+", type=int, help="of myFM, instead of those of each set")
    parser.add_argument("--chains", type=int, default=4, help="of myFM")
    parser.add_argument("--only-missing", action="store_true", help="leave alone what the CSV has")
    parser.add_argument("--limit-seconds", type=float, help="stop then and sum up what is done; 0: only sum up")
    parser.add_argument("--quick", action="store_true", help="bias and a short myFM on MovieLens 100K, seed 0")
    options = parser.parse_args()
    if options.quick:
        options.sets, options.seeds, options.methods = ["ml-100k"], [0], ["bias", "myfm"]
    return options


def main() -> None:
    options = arguments()
    options.cache.mkdir(parents=True, exist_ok=True)
    deadline = None if options.limit_seconds is None else monotonic() + options.limit_seconds
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TQDM_DISABLE"), "1")
    work = partial(run_all, data=options.data, cache=options.cache, processes=options.jobs, deadline=deadline)
    tried = [job for name in options.sets for job in tuning(name)] if "svd" in options.methods else []
    work(tried)
    jobs = plan(options) + (tuned(options) if tried else [])
    if options.only_missing:
        known = read(options.out)
        jobs = [job for job in jobs if (*job.key, str(options.chains if job.method == "myfm" else 1)) not in known]
    work(jobs)
    print(markdown(summarise(jobs, options)))
    missing = sum(not job.file(options.cache).exists() for job in (*tried, *jobs))
    if missing:
        raise SystemExit(f"{missing} jobs are not done")


if __name__ == "__main__":
    main()
