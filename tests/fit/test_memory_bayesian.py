"""A Bayesian fit needs at most 18 bytes per rating, 8 for each further chain, and its slopes, observations included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accams.engine.memory import slope_bytes
from accams.fit.pattern import MOST_TELLING

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")

RATINGS, SHAPE, STENCILS, SWEEPS = 2_000_000, (20_000, 2_000), 3, 2
SLACK = 12e6  # allocator, threads, sums by cluster (16 bytes per row and cluster and chain), running means
SCRIPT = """
import pickle, sys
import numpy as np
from accams import BayesianACCAMS, Observations

def memory(name):
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines[name].split()[0]) * 1024

def fit(observations, n_chains):
    settings = dict(n_stencils=%d, n_clusters=4, noise=0.8, n_sweeps=%d, n_burn_in=0, thin=1, verbose=False)
    return BayesianACCAMS(n_chains=n_chains, n_threads=1, sampler=sys.argv[2], **settings).fit(observations)

random = np.random.default_rng(0)
small = Observations.from_dense(np.where(random.random((300, 200)) < 0.5, random.normal(size=(300, 200)), np.nan))
fit(small, 2)  # compiled code takes memory of its own
before = memory("VmRSS")
with open(sys.argv[1], "rb") as file:
    observations = pickle.load(file)
model = fit(observations, int(sys.argv[3]))
print(memory("VmHWM") - before, model.posterior_.nbytes)
"""
WRITE = """
import pickle, sys
import numpy as np
from accams import Observations

random = np.random.default_rng(0)
m, n, nnz = (int(x) for x in sys.argv[2:])
rows = np.repeat(np.arange(m, dtype=np.uint32), nnz // m)
first = np.arange(m, dtype=np.uint32)[:, None] * np.uint32(7)
cols = np.sort((first + np.arange(nnz // m, dtype=np.uint32) * np.uint32(9)) %% np.uint32(n), axis=1).ravel()
with open(sys.argv[1], "wb") as file:
    pickle.dump(Observations.from_coo(rows, cols, random.normal(size=len(rows)), shape=(m, n)), file)
"""


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random ratings, made elsewhere: building them takes more memory than fitting them."""
    path = tmp_path_factory.mktemp("memory") / "ratings"
    numbers = [str(x) for x in (*SHAPE, RATINGS)]
    subprocess.run([sys.executable, "-c", WRITE.replace("%%", "%"), str(path), *numbers], check=True)
    return path


@pytest.mark.parametrize(("sampler", "n_chains"), [("blocked", 1), ("blocked", 3)])
@pytest.mark.full  # tests/fit/test_memory.py measures peaks, too
def test_peak_of_a_fit(sampler: str, n_chains: int, ratings: Path) -> None:
    script = SCRIPT % (STENCILS, SWEEPS)
    arguments = [sys.executable, "-c", script, str(ratings), sampler, str(n_chains)]
    answer = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    growth, draws = (int(x) for x in answer.split())
    labels = STENCILS * sum(SHAPE) * n_chains
    slopes = slope_bytes(SHAPE, MOST_TELLING, n_chains)
    assert growth <= (18 + 8 * (n_chains - 1)) * RATINGS + 3 * labels + slopes + draws + SLACK
    assert growth >= (14 + 8 * (n_chains - 1)) * RATINGS  # or nothing was measured
