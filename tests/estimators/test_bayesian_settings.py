"""The settings of BayesianACCAMS: each does what its name says, on every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bayes_models import GRAPH, SAMPLERS, make
from forms import MATRIX
from scipy import sparse

from accams import BayesianACCAMS, Observations, Priors
from accams.data.planted import planted_stencils
from accams.engine.base import State
from accams.engine.rules import Blocked, Collapsed
from accams.estimators.planning import plan_of

COMPLETE = planted_stencils((60, 40), 2, 3, noise=0.3, random_state=4)
SPARSE = planted_stencils((60, 40), 2, 3, noise=0.3, density=0.6, random_state=4)
BLOCKS = np.kron([[1, 0, 0], [0, 0, 1]], np.ones((30, 14)))
EDGES = np.where(np.random.default_rng(0).random(BLOCKS.shape) < 0.1, 1 - BLOCKS, BLOCKS)
ZEROS = Observations.from_sparse(sparse.csr_array(EDGES), zeros="observed")
TRUTH = {"cpu": SPARSE.dense(), "dense": COMPLETE.dense(), "graph": 0.1 + 0.8 * BLOCKS}
DATA = {"cpu": SPARSE.observations, "dense": COMPLETE.observations, "graph": ZEROS}
COLLAPSED = {"sampler": "collapsed", "labels": "crp"}


def rmse_of(model: BayesianACCAMS, truth: Any) -> float:
    """Of the posterior mean, over all cells."""
    rows, cols = (x.ravel() for x in np.indices(truth.shape))
    return float(np.sqrt(np.mean((model.posterior_.predict(rows, cols) - truth.ravel()) ** 2)))


def shapes(model: BayesianACCAMS) -> list[tuple[int, ...]]:
    """Of the templates."""
    return [T.shape for T in model.stencils_.templates]


@pytest.mark.some(3)
@pytest.mark.parametrize("engine", DATA)
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_every_sampler_on_every_engine(pair: tuple[str, str], engine: str) -> None:
    """What was planted is found: the error is less than a third of what the mean alone has."""
    model = make(sampler=pair[0], labels=pair[1], n_sweeps=40, n_burn_in=20, noise="sampled").fit(DATA[engine])
    assert model.engine_ == engine
    assert rmse_of(model, TRUTH[engine]) < np.std(TRUTH[engine]) / 3
    assert 0.25 < model.sigma_ < 0.5  # 0.3, and what chains that are stuck leave


# -- stencils ------------------------------------------------------------------------------------------------


def complete(m: int, n: int) -> Observations:
    """A matrix of this shape without gaps."""
    return Observations.from_dense(np.add.outer(np.arange(m) % 5, np.arange(n) % 3).astype(float))


@pytest.mark.parametrize(
    ("shape", "n_stencils", "n_clusters"),
    [
        ((20, 20), 10, (10, 10)),  # 10 observations per row and column
        ((60, 60), 25, (10, 10)),  # 30
        ((150, 150), 30, (10, 10)),  # 75
        ((160, 10), 10, (5, 10)),  # 20 column clusters, but there are 10 columns
        ((40, 640), 30, (20, 5)),
        ((3, 3000), 10, (3, 3)),
        ((2000, 17), 25, (3, 17)),  # 17; labels of 25 stencils of 3 clusters have the bits of 12 of 10
    ],
)
def test_automatic_sizes(shape: tuple[int, int], n_stencils: int, n_clusters: tuple[int, int]) -> None:
    """More stencils where there are more observations, and more clusters on the side that has more of them each."""
    found = plan_of(BayesianACCAMS(), complete(*shape), 0).hyper.shapes
    assert found == [n_clusters] * n_stencils
    assert plan_of(BayesianACCAMS(7), complete(*shape), 0).hyper.shapes == [n_clusters] * 7
    assert plan_of(BayesianACCAMS(n_clusters=2), complete(*shape), 0).hyper.shapes == [(2, 2)] * n_stencils
    with_effects = plan_of(BayesianACCAMS(priors=Priors(effects="stencils")), complete(*shape), 0).hyper
    assert with_effects.shapes[2:] == found
    assert sum(with_effects.tau2[2:]) == pytest.approx(0.4 * np.var(complete(*shape).values))


def test_automatic_sizes_do_not_count_what_is_empty() -> None:
    here = Observations.from_coo(*np.divmod(np.arange(400), 20), np.arange(400) % 7, shape=(500, 10_000))
    assert plan_of(BayesianACCAMS(), here, 0).hyper.shapes == [(10, 10)] * 10


def test_automatic_number_of_sweeps() -> None:
    """Fewer for large data; all that are asked for where a number is given; more where held-out data decides."""
    few, many = complete(20, 20), complete(3000, 400)
    assert plan_of(BayesianACCAMS(), few, 0).run.most_sweeps == 500
    assert plan_of(BayesianACCAMS(), many, 0).run.most_sweeps == 150
    assert plan_of(BayesianACCAMS(n_chains=1), many, 0).run.most_sweeps == 500
    assert plan_of(BayesianACCAMS(early_stopping=True), many, 0).run.most_sweeps == 5000
    model = make(n_sweeps=510, n_stencils=1, n_clusters=2, n_chains=1, n_burn_in=500).fit(MATRIX)
    assert model.n_sweeps_ == 510


def test_numbers_of_clusters() -> None:
    assert shapes(make(n_clusters=5).fit(MATRIX)) == [(5, 5)] * 3
    assert shapes(make(n_clusters=[(2, 3), 4]).fit(MATRIX)) == [(2, 3), (4, 4), (2, 3)]
    assert shapes(make(n_clusters=255, n_stencils=1).fit(MATRIX)) == [(30, 20)]  # never more than rows and columns


@pytest.mark.some(2)
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_one_cluster(pair: tuple[str, str]) -> None:
    """One block is a constant: all that is left to learn is the mean."""
    model = make(n_clusters=1, sampler=pair[0], labels=pair[1], n_sweeps=30).fit(MATRIX)
    assert shapes(model) == [(1, 1)] * 3
    rows, cols = np.indices(MATRIX.shape)
    prediction = model.posterior_.predict(rows.ravel(), cols.ravel())
    np.testing.assert_allclose(prediction, prediction[0], rtol=1e-6)
    assert prediction[0] == pytest.approx(np.nanmean(MATRIX), abs=0.1)


@pytest.mark.some(2)
@pytest.mark.parametrize("engine", DATA)
def test_no_bound_on_the_clusters(engine: str) -> None:
    model = make(n_clusters=None, n_sweeps=40, n_burn_in=20, noise=0.3, alpha=5.0, **COLLAPSED).fit(DATA[engine])
    assert rmse_of(model, TRUTH[engine]) < np.std(TRUTH[engine]) / 3
    for draw in model.posterior_.draws:
        for stencil in draw.stencils(np.zeros(0, np.int64), np.zeros(0, np.int64)).stencils:
            assert set(stencil.row_labels) == set(range(len(stencil.template)))  # no cluster is empty
            assert set(stencil.col_labels) == set(range(stencil.template.shape[1]))
    assert len({T.shape for draw in model.posterior_.draws for T in map(draw.codes.template, range(3))}) > 3


def test_clusters_can_outgrow_the_first_eight() -> None:
    random = np.random.default_rng(0)
    rows, cols = random.permutation(np.repeat(np.arange(20), 6)), random.permutation(np.repeat(np.arange(3), 10))
    matrix = random.normal(0, 3, (20, 3))[rows][:, cols] + random.normal(0, 0.1, (120, 30))
    model = make(n_clusters=None, n_stencils=1, noise=0.1, tau=3.0, n_sweeps=40, **COLLAPSED).fit(matrix)
    assert 18 <= shapes(model)[0][0] <= 25


@pytest.mark.some(2)
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_more_concentration_means_more_clusters(pair: tuple[str, str]) -> None:
    """On pure noise, where labels follow their prior."""
    noise = np.random.default_rng(0).normal(size=(60, 40))
    used = []
    for alpha in (0.01, [0.01, 0.01, 30.0], 30.0):
        settings = {"sampler": pair[0], "labels": pair[1], "init": "prior", "n_clusters": 10, "tau": 0.01, "noise": 1.0}
        model = make(alpha=alpha, **settings).fit(noise)
        used.append(model.posterior_.traces["occupied"].mean())
    assert used[0] < 4 < used[1] < 10 < used[2]


def test_alpha_and_beta_of_each_stencil() -> None:
    def priors(**parameters: Any) -> Any:
        return plan_of(make(**parameters), SPARSE.observations, 0).hyper

    assert (priors(alpha=[3.0, 2.0]).alpha, priors(alpha=[3.0, 2.0]).beta) == ([3.0, 2.0, 2.0],) * 2
    assert priors(alpha=np.array([9.0, 5.0, 3.0, 1.0])).alpha == [9.0, 5.0, 3.0]
    assert (priors(alpha=3, beta=[5, 4]).alpha, priors(alpha=3, beta=[5, 4]).beta) == ([3.0] * 3, [5.0, 4.0, 4.0])


def count_updates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Label updates of the sampler, sweep by sweep; a callback is to append a 0 after each sweep."""
    counts, original = [0], State.update

    def update(self: State, axis: int, rule: Any, before: Any = None) -> Any:
        counts[-1] += isinstance(rule, (Blocked, Collapsed))
        return original(self, axis, rule, before)

    monkeypatch.setattr(State, "update", update)
    return counts


@pytest.mark.parametrize(("n_sub", "expected"), [(1, [1] * 4), (3, [3] * 4), ([4, 2], [4, 2, 2, 2])])
@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
def test_label_updates_per_visit(n_sub: Any, expected: Any, sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = count_updates(monkeypatch)
    make(n_sub=n_sub, sampler=sampler, n_chains=1, callbacks=[lambda _: counts.append(0)]).fit(MATRIX)
    assert counts == [2 * 3 * each for each in expected] + [0]  # rows and columns of three stencils


# -- effects -------------------------------------------------------------------------------------------------

ADDITIVE = np.add.outer(np.random.default_rng(1).normal(size=50), np.random.default_rng(2).normal(size=40))


@pytest.mark.covering
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
@pytest.mark.parametrize("effects", ["stencils", "continuous"])
def test_effects(effects: str, pair: tuple[str, str]) -> None:
    noisy = ADDITIVE + np.random.default_rng(3).normal(0, 0.3, ADDITIVE.shape)
    noisy[np.random.default_rng(4).random(noisy.shape) < 0.3] = np.nan
    settings = {"sampler": pair[0], "labels": pair[1], "noise": 0.3, "n_stencils": 1, "n_clusters": 2, "n_sweeps": 30}
    model = make(effects=effects, n_burn_in=10, **settings).fit(noisy)
    plain = make(n_burn_in=10, **settings).fit(noisy)
    assert rmse_of(model, ADDITIVE) < 0.5 * rmse_of(plain, ADDITIVE)
    assert shapes(model) == ([(20, 1), (1, 20), (2, 2)] if effects == "stencils" else [(2, 2)])
    assert model.n_stencils_ == len(model.stencils_)
    assert (model.stencils_.row_effects is not None) == (effects == "continuous")


def test_effects_of_a_graph_are_stencils() -> None:
    model = make(effects="stencils", noise="sampled").fit(GRAPH)
    assert shapes(model) == [(20, 1), (1, 20)] + [(4, 3)] * 3


# -- variances -----------------------------------------------------------------------------------------------


def test_tau() -> None:
    variance = np.nanvar(MATRIX)
    for tau, expected in (("scaled", np.sqrt(0.4 * variance / 3)), (0.25, 0.25)):
        trace = make(tau=tau).fit(MATRIX).posterior_.traces["tau"]
        np.testing.assert_allclose(trace, expected, rtol=1e-6)
    sampled = make(tau="sampled").fit(MATRIX).posterior_.traces["tau"]
    assert len(np.unique(sampled)) == sampled.size
    tight = make(tau="sampled", gamma=(1e6, 1e6 * 0.3**2)).fit(MATRIX).posterior_.traces["tau"]
    np.testing.assert_allclose(tight, 0.3, rtol=0.01)  # the prior alone


def test_scaled_variances_fall_with_the_stencil_and_keep_their_sum() -> None:
    observations = Observations.from_dense(MATRIX)
    variance = np.nanvar(MATRIX)
    for n in (1, 4, 30):
        tau2 = np.array(plan_of(make(n_stencils=n), observations, 0).hyper.tau2)
        np.testing.assert_allclose(tau2 * np.arange(1, n + 1), tau2[0])
        assert tau2.sum() == pytest.approx(0.4 * variance)
    with_effects = plan_of(make(n_stencils=2, effects="stencils"), observations, 0).hyper.tau2
    np.testing.assert_allclose(with_effects, variance * np.array([0.2, 0.2, 0.8 / 3, 0.4 / 3]))
    np.testing.assert_allclose(plan_of(make(n_stencils=3, tau=0.5), observations, 0).hyper.tau2, 0.25)


def test_noise() -> None:
    held, sampled, found = (make(noise=noise).fit(MATRIX) for noise in (0.7, "sampled", "calibrated"))
    np.testing.assert_allclose(held.posterior_.traces["sigma"], 0.7, rtol=1e-12)
    assert (held.sigma_, held.predictive_sigma_) == pytest.approx((0.7, 0.7))
    trace = sampled.posterior_.traces["sigma"]
    assert len(np.unique(trace)) == trace.size
    assert sampled.sigma_ == sampled.predictive_sigma_ == pytest.approx(np.sqrt(np.mean(trace**2)))
    assert held.calibration_ is sampled.calibration_ is None
    np.testing.assert_allclose(found.posterior_.traces["sigma"], np.sqrt(found.calibration_.sigma2), rtol=1e-12)
    assert found.predictive_sigma_ == found.calibration_.predictive_noise(found.posterior_)
    assert found.predictive_sigma_ == pytest.approx(found.calibration_.noise, rel=0.1)
    assert found.sigma_ == pytest.approx(1.0, rel=0.15)  # what `forms.ratings` has, before rounding


def test_the_priors_of_the_noise_count() -> None:
    tight = make(noise="sampled", eta=(1e6, 1e6 * 0.2**2)).fit(MATRIX)
    assert tight.sigma_ == pytest.approx(0.2, rel=0.02)
    with pytest.warns(UserWarning, match="upper bound"):
        cut = make(noise="sampled", sigma_max=0.4).fit(MATRIX)
    assert 0.39 < cut.posterior_.traces["sigma"].min() <= cut.posterior_.traces["sigma"].max() <= 0.4


def test_zeros_are_not_calibrated() -> None:
    model = make(noise="calibrated").fit(ZEROS)
    assert model.calibration_ is None
    assert np.ptp(model.posterior_.traces["sigma"]) > 0


def test_many_observations_for_each_label_are_not_calibrated() -> None:
    """A complete 400 x 400 matrix has 200 observations per row and column."""
    matrix = np.add.outer(np.arange(400) % 3, np.arange(400) % 2) + np.random.default_rng(0).normal(0, 0.5, (400, 400))
    observations = Observations.from_dense(matrix)
    assert not plan_of(make(n_stencils=4, noise="auto"), observations, 0).calibrated
    assert plan_of(make(n_stencils=5, noise="auto"), observations, 0).calibrated
    assert plan_of(make(n_stencils=4, noise="calibrated"), observations, 0).calibrated  # where asked for
    model = make(n_stencils=2, n_clusters=3, noise="auto", row_noise=None, n_sweeps=20, n_burn_in=10).fit(matrix)
    assert model.calibration_ is None
    assert model.sigma_ == pytest.approx(0.5, rel=0.02)
    assert model.predictive_sigma_ == pytest.approx(0.5, rel=0.02)


def test_row_noise() -> None:
    """Odd rows have thrice the noise of even ones."""
    noisy = COMPLETE.dense() + np.random.default_rng(0).normal(size=(60, 40)) * np.tile([[0.2], [0.6]], (30, 1))
    model = make(row_noise=1, noise="sampled", n_sweeps=30, n_burn_in=10).fit(noisy)
    relative = np.mean([draw.row_noise for draw in model.posterior_.draws], axis=0)
    assert np.mean(relative[1::2]) / np.mean(relative[::2]) == pytest.approx(
        8.5, rel=0.2
    )  # 9 less what the prior takes
    assert relative[1::2].min() > relative[::2].max()
    assert all(draw.row_noise is None for draw in make(row_noise=None).fit(noisy).posterior_.draws)
    assert all(draw.row_noise is None for draw in make().fit(ZEROS).posterior_.draws)
    default = make(random_state=1).fit(MATRIX), make(random_state=1, row_noise=30.0).fit(MATRIX)
    np.testing.assert_array_equal(*(m.posterior_.predict(0, np.arange(20)) for m in default))


# -- starts and schedules ------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_starts(pair: tuple[str, str]) -> None:
    """By ACCAMS, the first sweep is far ahead of one from the prior."""
    settings = {"sampler": pair[0], "labels": pair[1], "n_sweeps": 1, "n_burn_in": 0, "noise": 0.3}
    first = {init: make(init=init, **settings).fit(COMPLETE.observations).train_rmse_ for init in ("accams", "prior")}
    assert first["accams"] < 0.7 * first["prior"]


@pytest.mark.some(3)
@pytest.mark.parametrize("engine", DATA)
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_backfitting(pair: tuple[str, str], engine: str) -> None:
    """One report per stencil, one draw per chain, and each stencil helps."""
    settings = {"sampler": pair[0], "labels": pair[1], "backfit": 10, "noise": 0.3, "n_burn_in": "auto"}
    model = make(n_stencils=4, **settings).fit(DATA[engine])
    assert (model.n_sweeps_, len(model.posterior_), len(model.stencils_)) == (4, 2, 4)
    assert {draw.sweep for draw in model.posterior_.draws} == {3}
    errors = [report.rmse for report in model.history_]
    assert errors[-1] < 0.7 * np.std(TRUTH[engine]) + 0.3
    assert errors[0] > errors[-1]


def test_visits_of_a_stencil_in_backfitting(monkeypatch: pytest.MonkeyPatch) -> None:
    for visits in (7, 1):
        counts = count_updates(monkeypatch)
        settings = {"backfit": visits, "n_burn_in": "auto", "n_chains": 1}
        make(**settings, callbacks=[lambda _, counts=counts: counts.append(0)]).fit(MATRIX)
        assert counts == [2 * visits] * 3 + [0]
        monkeypatch.undo()


# -- the paper's ---------------------------------------------------------------------------------------------


def test_the_papers_settings() -> None:
    """MATH.md, section 4: what the paper says, and at least 30 sweeps of burn-in."""
    model = BayesianACCAMS.paper()
    priors, schedule = model.priors, model.schedule
    assert (schedule.sampler, priors.labels, model.n_clusters, schedule.backfit) == ("collapsed", "crp", 10, None)
    assert (priors.alpha, priors.beta) == (10.0, 10.0)
    assert (priors.eta, priors.gamma, priors.sigma_max) == ((2.0, 0.3), (5.0, 0.3), 1.0)
    assert (model.noise, priors.tau, priors.row_noise, priors.effects) == ("sampled", "sampled", None, None)
    assert (schedule.n_sub, model.n_chains, schedule.n_burn_in, schedule.init) == (3, 1, 30, "accams")
    assert model.n_sweeps > 30
    assert (model.early_stopping, schedule.rao_blackwell) == (False, False)
    changed = BayesianACCAMS.paper(n_stencils=5, priors__alpha=3.0)
    expected = {"n_stencils": 5, "priors": replace(priors, alpha=3.0), "priors__alpha": 3.0}
    assert changed.get_params() == {**model.get_params(), **expected}


def test_the_papers_settings_reach_the_sampler() -> None:
    setup = plan_of(BayesianACCAMS.paper(n_stencils=2), Observations.from_dense(MATRIX), 0)
    priors = setup.hyper
    assert (priors.sampler, priors.label_prior, priors.growing, priors.start) == ("collapsed", "crp", False, "accams")
    assert (priors.shapes, priors.alpha, priors.beta) == ([(10, 10)] * 2, [10.0] * 2, [10.0] * 2)
    assert (priors.eta, priors.gamma, priors.sigma_max) == ((2.0, 0.3), (5.0, 0.3), 1.0)
    assert (priors.sample_sigma, priors.tau2, priors.row_noise, priors.sub) == (True, None, None, (3,))
    assert (setup.calibrated, setup.run.n_burn_in) == (False, 30)
    fitted = BayesianACCAMS.paper(n_stencils=2, n_sweeps=40).fit(MATRIX)
    assert (fitted.posterior_.traces["sigma"] <= 1.0).all()
    assert -fitted.score(MATRIX) < np.nanstd(MATRIX)
