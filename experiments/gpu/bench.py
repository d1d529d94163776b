"""The cuda engine: planted ratings of Netflix's shape, and smaller ones, beside the cpu engine on all cores.

Every run has a process of its own, writes its result into a folder as soon as it is done, and is not repeated: after a
time limit, the same command goes on. At the end (or with --report) everything that is there is printed as Markdown.

    copy        bandwidth of a copy within the GPU's memory, which passes are compared with
    stages      time and bytes of each kind of kernel, at Netflix's shape
    netflix     100.5 million ratings, k=10, s=125, three updates a visit, 130 sweeps: the paper's largest model; first
                with kernels that may have to be compiled, then with those that were kept on disk, three times
    netflix-cpu the same by the cpu engine, for three sweeps
    noise       the same with fewer and as many stencils and a million ratings held out: is the planted noise found?
    calibrated  and by the default of BayesianACCAMS, which calibrates it?
    grid        1 and 10 million ratings, k = 10, 16, 32, s = 50, 125, on both engines
    ml-1m       test error on MovieLens 1M by both engines, three seeds

Run: python experiments/gpu/bench.py --out DIR [--cache DIR] [--only RUN ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from accams import BayesianACCAMS, Observations, Priors, Schedule, memory_estimate
from accams.data.ids import Index
from accams.data.planted import planted_stencils
from common import machine, use_local_data
from gpu import stages
from gpu.report import report
from paper.sets import split

NETFLIX, RATINGS = (480_189, 17_770), 100_500_000
SIZES = {"1M": ((6_040, 3_706), 1_000_000), "10M": ((69_878, 10_677), 10_000_000), "100M": (NETFLIX, RATINGS)}
NOISE, HELD_OUT = 0.8, 1_000_000
PAPER = {"noise": "sampled", "n_chains": 1, "verbose": False, "random_state": 0,
         "priors": Priors(row_noise=None, tau="sampled", implicit=None)}  # fmt: skip


def planted(size: str, cache: Path) -> Observations:
    """Ratings with ten planted stencils and noise, long-tailed as real ones; made once."""
    shape, nnz = SIZES[size]
    parts = {name: cache / f"{size}-{name}.npy" for name in ("starts", "cols", "values")}
    if not all(path.is_file() for path in parts.values()):
        made = planted_stencils(shape, 10, 10, nnz=nnz, noise=NOISE, scale=0.2, offset=3.6, degrees="long-tailed")
        obs = made.observations
        cache.mkdir(parents=True, exist_ok=True)
        for name, array in zip(parts, (obs.row_starts, obs.cols, obs.stored_values), strict=True):
            np.save(parts[name], array)
    starts, cols, values = (np.load(path) for path in parts.values())
    return Observations(shape, starts, cols, values, Index(None, shape[0]), Index(None, shape[1]))


def free_memory() -> int:
    """Bytes of the GPU that nobody has."""
    from numba import cuda

    cuda.synchronize()
    return int(cuda.current_context().get_memory_info()[0])


def noise(obs: Observations, s: int) -> dict[str, Any]:
    """What is sampled as noise, and the error for a million ratings that were held out: no less than the noise."""
    chosen = np.random.default_rng(0).permutation(obs.nnz)
    held, part = (obs.select(np.sort(each)) for each in (chosen[:HELD_OUT], chosen[HELD_OUT:]))
    return fitted(part, "cuda", 10, s, 130, 30, held)


def calibrated(obs: Observations, s: int) -> dict[str, Any]:
    """What calibrating the noise (the default of BayesianACCAMS) finds, with eight chains on the GPU."""
    settings = {**PAPER, "noise": "calibrated", "schedule": Schedule(n_burn_in=10)}
    began = perf_counter()
    model = BayesianACCAMS(s, 10, engine="cuda", n_sweeps=20, **settings).fit(obs)
    found = model.calibration_
    assert found is not None
    return {"s": s, "seconds": perf_counter() - began, "estimate": float(np.sqrt(found.estimate)), "noise": found.noise,
            "sigma": float(np.sqrt(found.sigma2))}  # fmt: skip


def fitted(
    obs: Observations, engine: str, k: int, s: int, sweeps: int, burn_in: int, held: Observations | None = None
) -> dict[str, Any]:
    """A fit, and how long its sweeps took (the first one finds the first labels of all stencils)."""
    times, errors, sigmas, least = [], [], [], [float("inf")]
    before = free_memory() if engine == "cuda" else 0

    def watch(step: Any) -> None:
        times.append(step.seconds)
        errors.append(step.rmse)
        sigmas.append(step.sigma)
        if engine == "cuda":
            least[0] = min(least[0], free_memory())

    schedule = Schedule(n_sub=3, n_burn_in=burn_in, thin=1)
    model = BayesianACCAMS(s, k, engine=engine, callbacks=[watch], n_sweeps=sweeps, schedule=schedule, **PAPER)
    began = perf_counter()
    model.fit(obs)
    seconds = perf_counter() - began
    each = np.diff(times)
    return {
        "engine": engine, "shape": obs.shape, "ratings": obs.nnz, "k": k, "s": s, "sweeps": sweeps, "seconds": seconds,
        "sampling": times[-1], "first": times[0], "median": float(np.median(each)), "slowest": float(each.max()),
        "sigma": float(np.sqrt(np.mean(np.square(sigmas[burn_in:])))), "rmse": errors[-1],
        "memory": before - least[0] if engine == "cuda" else None, "machine": machine(),
        "estimate": memory_estimate(obs.shape, obs.nnz, n_stencils=s, n_clusters=k, engine=engine),
        "test": None if held is None else -model.score(held),
    }  # fmt: skip


def ml_1m(seed: int, engine: str) -> dict[str, Any]:
    """Test error of the defaults (blocked sampler, eight chains, calibrated noise) on one split of MovieLens 1M."""
    part = split("ml-1m", seed)
    began = perf_counter()
    model = BayesianACCAMS(engine=engine, random_state=seed, verbose=False).fit(part.observations)
    seconds = perf_counter() - began
    found = model.predict(np.stack([part.test.rows, part.test.cols], axis=1))
    return {"engine": engine, "seed": seed, "seconds": seconds, "sweeps": model.n_sweeps_, "rmse": part.rmse(found)}


def runs(cache: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every run by its name, in the order of their worth."""
    yield "copy", stages.copy_bandwidth
    for turn in ("first", "again-0", "again-1", "again-2"):
        yield f"netflix-{turn}", lambda: fitted(planted("100M", cache), "cuda", 10, 125, 130, 30)
    yield "stages", lambda: stages.all_of_them(planted("100M", cache))
    yield "netflix-cpu", lambda: fitted(planted("100M", cache), "cpu", 10, 125, 3, 0)
    for s in (20, 30, 50, 125):
        yield f"noise-{s:03d}", lambda s=s: noise(planted("100M", cache), s)
    for s in (20, 50):
        yield f"calibrated-{s:03d}", lambda s=s: calibrated(planted("100M", cache), s)
    for seed in range(3):
        for engine in ("cuda", "cpu"):
            yield f"ml-1m-{engine}-{seed}", lambda seed=seed, engine=engine: ml_1m(seed, engine)
    for size in ("1M", "10M"):
        for k in (10, 16, 32):
            for s in (50, 125):
                for engine in ("cuda", "cpu"):
                    name = f"grid-{size}-k{k}-s{s}-{engine}"
                    yield (
                        name,
                        lambda size=size, k=k, s=s, engine=engine: fitted(planted(size, cache), engine, k, s, 6, 0),
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="folder for planted ratings [--out]")
    parser.add_argument("--only", nargs="+", default=[""], metavar="RUN", help="runs whose names begin so")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--report", action="store_true", help="run nothing")
    given = parser.parse_args()
    cache: Path = given.cache or given.out
    if given.one:
        use_local_data()
        found = dict(runs(cache))[given.one]()
        (given.out / f"{given.one}.json").write_text(json.dumps(found, indent=1))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for name, _ in runs(cache):
        if given.report or (given.out / f"{name}.json").is_file() or not name.startswith(tuple(given.only)):
            continue
        began, here = perf_counter(), ["--out", str(given.out), "--cache", str(cache)]
        done = subprocess.run([sys.executable, __file__, *here, "--one", name])
        print(f"{name}: {perf_counter() - began:.0f} s{' (failed)' * bool(done.returncode)}", flush=True)
    print(report(given.out))


if __name__ == "__main__":
    main()
