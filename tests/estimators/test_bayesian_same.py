"""The seed alone decides: not threads, not chunks, not the engine, not whether the residual was rebuilt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bayes_models import GRAPH, SAMPLERS, make, same, same_posteriors
from forms import MATRIX, PAIRS
from shared_inputs import same_sums

from accams import Observations
from accams.data.planted import planted_stencils
from accams.engine.base import State
from accams.estimators.planning import plan_of
from accams.fit import chains
from accams.fit.bayesian import BayesianFit, fit
from accams.fit.gibbs import Chain

pytestmark = pytest.mark.usefixtures("chains_at_once")
SPARSE = planted_stencils((60, 40), 2, 3, density=0.5, noise=0.5, random_state=0).observations
COMPLETE = planted_stencils((30, 20), 2, 3, noise=0.5, random_state=0).observations
KINDS: dict[str, dict[str, Any]] = {
    **{"-".join(pair): {"sampler": pair[0], "labels": pair[1], "noise": "sampled"} for pair in SAMPLERS},
    "calibrated": {"noise": "calibrated", "n_stencils": 1},
    "row noise": {"row_noise": 3.0, "noise": "sampled"},
    "effects": {"effects": "continuous", "tau": "sampled"},
    "growing": {"n_clusters": None, "sampler": "collapsed", "labels": "crp"},
    "label probabilities": {"rao_blackwell": True, "n_sub": 2},
    "backfitted": {"backfit": 4},
}
CELLS = (np.array([0, 5, 19]), np.array([1, 3, 19]))


def fitted(observations: Observations, kind: dict[str, Any], n_threads: int, chunk_size: int | None) -> BayesianFit:
    """A fit with so many entries to a chunk, which users cannot choose."""
    plan = plan_of(make(**kind, n_threads=n_threads), observations, 0)
    return fit(observations, replace(plan, chunk_size=chunk_size), CELLS)


def assert_same_fit(one: BayesianFit, two: BayesianFit) -> None:
    assert same_posteriors(one.posterior, two.posterior)
    assert same_sums(one.stencils, two.stencils)
    assert one.sigma == two.sigma
    assert (one.calibration is None) or one.calibration == two.calibration
    np.testing.assert_array_equal(one.asked, two.asked)


@pytest.mark.some(3)
@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_chunks(kind: str, quick_calibration: None) -> None:
    """Two chains on one to six threads: one after another, side by side, and with several threads each."""
    one = fitted(SPARSE, KINDS[kind], 1, None)
    for n_threads, chunk_size in ((2, None), (3, 17), (6, 101)):
        assert_same_fit(fitted(SPARSE, KINDS[kind], n_threads, chunk_size), one)


def test_chains_of_small_data_run_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless blanks are zeros, where chains at once make larger calls."""
    seen, begin = list[int](), chains.Chains.__init__

    def began(self: chains.Chains, *args: Any, **how: Any) -> None:
        begin(self, *args, **how)
        seen.append(self.at_once)

    monkeypatch.setattr(chains.Chains, "__init__", began)
    for least, observations, expected in ((0, SPARSE, 2), (1 << 14, SPARSE, 1), (1 << 14, GRAPH, 2)):
        monkeypatch.setattr(chains, "SMALL", least)
        fitted(observations, {"noise": "sampled"}, 2, None)
        assert seen.pop() == expected


@pytest.mark.some(2)
@pytest.mark.parametrize("observations", [COMPLETE, GRAPH], ids=["dense", "graph"])
@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
def test_threads_and_chunks_of_other_engines(sampler: str, observations: Observations) -> None:
    kind = {"sampler": sampler, "noise": "sampled"}
    one = fitted(observations, kind, 1, None)
    for n_threads, chunk_size in ((2, None), (3, 7), (6, 33)):
        assert_same_fit(fitted(observations, kind, n_threads, chunk_size), one)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["blocked-dirichlet", "collapsed-crp", "calibrated", "effects", "backfitted"])
def test_seeds(kind: str, quick_calibration: None) -> None:
    models = [make(random_state=seed, **KINDS[kind]).fit(MATRIX) for seed in (0, 0, 1)]
    assert same(models[0], models[1])
    assert not np.array_equal(models[0].predict(PAIRS), models[2].predict(PAIRS))


def test_chains_differ() -> None:
    model = make(n_chains=3).fit(MATRIX)
    one, two, three = ([d.codes.rows for d in model.posterior_.draws if d.chain == c][-1] for c in range(3))
    assert not np.array_equal(one, two)
    assert not np.array_equal(two, three)


def test_a_chain_does_not_depend_on_how_many_there_are() -> None:
    """With the noise held; a calibration looks at all of them."""
    few, many = (make(n_chains=n).fit(MATRIX).posterior_.draws for n in (1, 3))
    first = [draw for draw in many if draw.chain == 0]
    assert all(np.array_equal(a.codes.flat, b.codes.flat) for a, b in zip(few, first, strict=True))


@pytest.mark.some(2)
@pytest.mark.parametrize("row_noise", [None, 5.0])
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_complete_data_gives_the_same_model_on_two_engines(pair: tuple[str, str], row_noise: Any) -> None:
    kind = {"sampler": pair[0], "labels": pair[1], "init": "prior", "row_noise": row_noise}
    cpu, dense = (make(engine=engine, **kind).fit(COMPLETE) for engine in ("cpu", "dense"))
    assert same_sums(cpu.stencils_, dense.stencils_)
    np.testing.assert_array_equal(cpu.predict(PAIRS), dense.predict(PAIRS))


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["blocked-dirichlet", "collapsed-crp", "row noise", "effects"])
def test_a_rebuilt_residual_changes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The residual is a pure function of data, labels, templates and effects: rebuild it before every sweep."""
    expected = make(**KINDS[kind]).fit(MATRIX)
    original = Chain.run_sweep

    def rebuilt(self: Chain, *arguments: Any) -> bool:
        old: State = self.state
        new = old.engine.new_state(self.number)
        new.restore(old.templates, old.row_labels, old.col_labels, old.effects)
        new.row_weights = old.row_weights
        self.state = new
        return original(self, *arguments)

    monkeypatch.setattr(Chain, "run_sweep", rebuilt)
    assert same(make(**KINDS[kind]).fit(MATRIX), expected)
