"""A whole fit on a GPU, in the simulator, gives the model of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accams import ACCAMS, BayesianACCAMS, Observations
from accams.errors import InputError

pytest.importorskip("numba.cuda")
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def few_ratings(weighted: bool = False) -> Observations:
    rng = np.random.default_rng(4)
    rows, cols = np.nonzero(rng.random((14, 11)) < 0.6)
    values = rng.integers(1, 6, (3, 3))[rows % 3, cols % 3] + rng.normal(0, 0.3, len(rows))
    return Observations.from_coo(rows, cols, values, weights=rng.integers(1, 5, len(rows)) / 4 if weighted else None)


def assert_same(one: Any, other: Any) -> None:
    for mine, theirs in zip(one.stencils_.stencils, other.stencils_.stencils, strict=True):
        assert np.array_equal(mine.template, theirs.template)
        assert np.array_equal(mine.row_labels, theirs.row_labels)
        assert np.array_equal(mine.col_labels, theirs.col_labels)


def test_accams() -> None:
    obs = few_ratings(weighted=True)
    chosen = {"max_iter": 2, "random_state": 0, "verbose": False}
    assert_same(*(ACCAMS(2, 3, engine=engine, **chosen).fit(obs) for engine in ("cpu", "cuda")))


@pytest.mark.full
def test_a_complete_matrix() -> None:
    """Its rows are seeded by more groups of columns than a code with the labels of three stencils has room for."""
    X = np.random.default_rng(1).integers(0, 6, (14, 20)).astype(float)
    chosen = {"n_chains": 1, "n_sweeps": 1, "noise": 0.5, "effects": "continuous", "random_state": 0, "verbose": False}
    assert_same(*(BayesianACCAMS(2, 3, engine=engine, **chosen).fit(X) for engine in ("cpu", "cuda")))


SAMPLED = {"tau": "sampled", "noise": "sampled", "n_sub": 2, "effects": "continuous"}


@pytest.mark.some(1)
@pytest.mark.parametrize("more", [{"noise": 0.5, "row_noise": 4.0}, SAMPLED])
def test_bayesian(more: dict[str, Any]) -> None:
    chosen = {"n_stencils": 2, "n_clusters": 3, "n_chains": 1, "n_sweeps": 2, "n_burn_in": 1, "init": "prior"}
    obs = few_ratings()
    models = [BayesianACCAMS(verbose=False, engine=engine, **(chosen | more)).fit(obs) for engine in ("cpu", "cuda")]
    assert_same(*models)
    pairs = [(3, 4), (10, 2)]
    assert np.array_equal(models[0].predict(pairs), models[1].predict(pairs))


def test_what_a_gpu_cannot_do_is_said() -> None:
    obs = few_ratings()
    with pytest.raises(InputError, match="sampler='blocked'"):
        BayesianACCAMS(2, 3, sampler="collapsed", n_sweeps=2, n_chains=1, verbose=False, engine="cuda").fit(obs)
    with pytest.raises(InputError, match="at most 32 clusters"):
        ACCAMS(1, 33, verbose=False, engine="cuda").fit(Observations.from_coo(range(40), range(40), np.arange(40.0)))
