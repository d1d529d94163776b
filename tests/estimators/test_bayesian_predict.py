"""What BayesianACCAMS predicts beside the mean: spreads, quantiles, label probabilities; and what a file keeps."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bayes_models import GRAPH, SAMPLERS, make, same_posteriors
from forms import MATRIX, PAIRS, VALUES
from scipy import stats
from shared_inputs import plain_params, same_sums

import accams
from accams import BayesianACCAMS, InputError
from accams.data.planted import planted_stencils
from accams.engine.choose import make_engine
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters
from accams.fit.shares import row_shares
from accams.model.posterior import Draw, Posterior

LEVELS = [0.05, 0.25, 0.5, 0.9]


@pytest.fixture(scope="module")
def model() -> Any:
    return make(n_sweeps=8).fit(MATRIX)


# -- spreads and quantiles -----------------------------------------------------------------------------------


def test_what_can_be_asked_for(model: Any) -> None:
    mean = model.predict(PAIRS)
    with_std = model.predict(PAIRS, return_std=True)
    with_both = model.predict(PAIRS, return_std=True, quantiles=LEVELS)
    with_quantiles = model.predict(PAIRS, quantiles=LEVELS)
    assert [len(x) for x in (with_std, with_both, with_quantiles)] == [2, 3, 2]
    for answer in (with_std, with_both, with_quantiles):
        np.testing.assert_array_equal(answer[0], mean)
    np.testing.assert_array_equal(with_both[1], with_std[1])
    np.testing.assert_array_equal(with_both[2], with_quantiles[1])
    assert with_both[2].shape == (len(PAIRS), 4)


def test_the_deviation_is_that_of_the_draws_and_of_the_noise() -> None:
    model = make(row_noise=None, noise=0.7).fit(MATRIX)
    each = np.array([draw.predict(*PAIRS.T) for draw in model.posterior_.draws])
    std = model.predict(PAIRS, return_std=True)[1]
    np.testing.assert_allclose(std, np.sqrt(each.var(axis=0) + 0.7**2), rtol=1e-6)


def test_quantiles_are_normal_monotone_and_clipped(model: Any) -> None:
    free = make(n_sweeps=8, clip=False).fit(MATRIX)
    mean, std, quantiles = free.predict(PAIRS, return_std=True, quantiles=LEVELS)
    np.testing.assert_allclose(quantiles, stats.norm.ppf(LEVELS, mean[:, None], std[:, None]))
    assert (np.diff(quantiles, axis=1) > 0).all()
    assert (quantiles.min(), quantiles.max()) == pytest.approx((0, 6), abs=1)  # the ratings go from 1 to 5
    clipped_mean, clipped_std, clipped = model.predict(PAIRS, return_std=True, quantiles=LEVELS)
    np.testing.assert_array_equal(clipped, np.clip(quantiles, 1, 5))
    np.testing.assert_array_equal(clipped_mean, np.clip(mean, 1, 5))
    np.testing.assert_array_equal(clipped_std, std)


def test_rows_with_more_noise_have_a_larger_deviation() -> None:
    noisy = planted_stencils((40, 30), 1, 2, random_state=1).dense()
    noisy = noisy + np.random.default_rng(0).normal(size=(40, 30)) * np.tile([[0.2], [1.0]], (20, 1))
    model = make(row_noise=5, noise="sampled", n_sweeps=20, n_stencils=1, n_clusters=2).fit(noisy)
    rows, cols = np.indices(noisy.shape).reshape(2, -1)
    std = model.predict(np.stack([rows, cols], axis=1), return_std=True)[1].reshape(noisy.shape).mean(axis=1)
    assert std[1::2].min() > 1.5 * std[::2].max()
    assert std[::2].mean() == pytest.approx(0.3, abs=0.1)
    new = model.predict([["x", 0]], return_std=True)[1]
    assert std[::2].max() < new < std[1::2].max() * 1.5  # between the two kinds, with the spread of the draws


def test_new_rows_and_columns(model: Any) -> None:
    mean, std, quantiles = model.predict([[99, 3], [2, 99], [99, 98]], return_std=True, quantiles=[0.5])
    np.testing.assert_array_equal(mean, model.posterior_.predict([-1, 2, -1], [3, -1, -1]))
    np.testing.assert_allclose(quantiles[:, 0], mean)
    assert (std >= model.predictive_sigma_ * 0.9).all()


@pytest.mark.parametrize("levels", [[0.0, 0.5], [1.0], [2], 0.5, "0.5", [[0.1]]])
def test_quantiles_outside(levels: Any, model: Any) -> None:
    with pytest.raises((InputError, ValueError), match="quantiles must be a list of numbers between 0 and 1"):
        model.predict(PAIRS, quantiles=levels)


# -- label probabilities -------------------------------------------------------------------------------------


def prior_without(chain: Chain, stencil: int, i: int) -> Any:
    """Prior weight of each label of row i: how many other rows have it, and what an empty or any cluster gets."""
    others = np.delete(chain.state.row_labels[stencil], i)
    counts = np.bincount(others, minlength=len(chain.state.templates[stencil])).astype(float)
    if chain.hyper.label_prior == "dirichlet":
        return counts + chain.hyper.alpha[stencil] / len(counts)
    empty = np.flatnonzero(counts == 0)[:1]
    counts[empty] = chain.hyper.alpha[stencil]
    counts[counts == 0] = 1e-300
    return counts


def slow_shares(chain: Chain, stencil: int) -> Any:
    """p(c_i = a | all else) of every row with observations, from the definition: the likelihood of each label."""
    state, grid = chain.state, chain.state.engine.grid
    rows, cols, values = state.engine.observations.coo()
    weights = state.engine.observations.weights
    precision = chain.row_weights()[rows] * (1.0 if weights is None else weights) / chain.sigma2
    T = state.templates[stencil] * grid.step
    own = T[state.row_labels[stencil][rows], state.col_labels[stencil][cols]]
    residual = values - state.predict_at(rows, cols) + own
    out = np.zeros((state.shape[0], len(T)))
    for a in range(len(T)):
        error = precision * (residual - T[a, state.col_labels[stencil][cols]]) ** 2
        out[:, a] = -0.5 * np.bincount(rows, error, minlength=state.shape[0])
    for i in range(len(out)):
        out[i] += np.log(prior_without(chain, stencil, i))
    out = np.exp(out - out.max(axis=1, keepdims=True))
    return out / out.sum(axis=1, keepdims=True)


def one_chain(observations: Any, row_noise: float | None, pair: Any = SAMPLERS[0], sweeps: int = 10) -> Chain:
    priors = Hyperparameters([(4, 3), (3, 5)], [1.0] * 2, [1.0] * 2, *pair, tau2=[0.3, 0.3], row_noise=row_noise)
    engine = make_engine(observations, "auto", 4, 1, row_weights=row_noise is not None)
    chain = Chain(engine.new_state(), priors, 0, 0.8)
    for _ in range(sweeps):
        chain.run_sweep()
    return chain


@pytest.mark.parametrize("row_noise", [None, 5.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_label_probabilities_by_their_definition(pair: Any, weighted: bool, row_noise: float | None) -> None:
    matrix = MATRIX.copy()
    matrix[4] = np.nan
    weights = np.where(np.isnan(matrix), 1.0, np.random.default_rng(0).integers(1, 4, matrix.shape))
    chain = one_chain(accams.Observations.from_dense(matrix, weights=weights if weighted else None), row_noise, pair)
    before = chain.state.predict_at(*PAIRS.T)
    shares, line, seen = row_shares(chain), 0, np.arange(len(matrix)) != 4
    assert shares.shape == (len(matrix) + 1, (4 + 1) + (3 + 1))
    for stencil, k in enumerate((4, 3)):
        found = shares[:, line : line + k + 1]
        np.testing.assert_allclose(found[:-1, :k][seen] / 255, slow_shares(chain, stencil)[seen], atol=0.5 / 255 + 1e-6)
        assert (found[:-1, k][seen] == 0).all()
        np.testing.assert_array_equal(found[[4, -1]], [[0] * k + [255]] * 2)  # only the average row
        line += k + 1
    np.testing.assert_array_equal(chain.state.predict_at(*PAIRS.T), before)  # nothing has moved


@pytest.mark.some(2)
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_one_probable_draw_predicts_better_than_the_draw(pair: tuple[str, str]) -> None:
    """On planted cells that were not observed; averaged over draws, so that chance does not decide."""
    planted = planted_stencils((80, 60), 2, 4, density=0.25, noise=0.8, random_state=2)
    settings = {"sampler": pair[0], "labels": pair[1], "n_sweeps": 20, "n_burn_in": 10, "n_clusters": 4}
    model = make(rao_blackwell=True, **settings).fit(planted.observations)
    rows, cols = np.indices((80, 60)).reshape(2, -1)
    truth, plain, probable = planted.dense().ravel(), [], []
    for draw in model.posterior_.draws:
        plain.append(np.mean((draw.codes.predict(rows, cols) - truth) ** 2))
        probable.append(np.mean((draw.predict(rows, cols) - truth) ** 2))
    assert np.sqrt(np.mean(probable)) < 0.97 * np.sqrt(np.mean(plain))
    assert np.mean(np.array(probable) < plain) > 0.9


def test_probable_draws_of_a_graph() -> None:
    model = make(rao_blackwell=True, noise="sampled", n_stencils=2).fit(GRAPH)
    assert all(draw.row_shares is not None for draw in model.posterior_.draws)
    rows, cols = np.indices(GRAPH.shape).reshape(2, -1)
    assert np.isfinite(model.posterior_.predict(rows, cols)).all()


def test_probable_draws_are_the_same_draws(model: Any) -> None:
    probable = make(n_sweeps=8, rao_blackwell=True).fit(MATRIX)
    assert same_sums(probable.stencils_, model.stencils_)
    plain = [Draw(d.chain, d.sweep, d.codes, None, d.row_noise) for d in probable.posterior_.draws]
    posterior = probable.posterior_
    stripped = Posterior(posterior.shape, tuple(plain), posterior.noise, posterior.traces, posterior.probes)
    assert same_posteriors(stripped, model.posterior_)


# -- diagnostics ---------------------------------------------------------------------------------------------


def test_r_hat_of_chains_that_mix() -> None:
    """One strong stencil: all chains find it."""
    easy = planted_stencils((60, 40), 1, 2, noise=0.3, random_state=0).observations
    settings = {"n_stencils": 1, "n_clusters": 2, "noise": "sampled", "tau": "sampled", "row_noise": None}
    found = make(n_sweeps=150, n_burn_in=20, n_chains=3, thin=10, **settings).fit(easy).r_hat_
    assert {"sigma", "log_joint", "probes", "tau"} <= set(found)
    assert all(value < 1.1 for value in found.values())


def test_r_hat_of_chains_that_are_stuck() -> None:
    """Many small stencils on nearly noiseless data: every chain stays where it began."""
    rough = np.random.default_rng(0).normal(size=(40, 30))
    model = make(n_sweeps=20, noise=0.02, n_stencils=6, n_clusters=3, row_noise=None).fit(rough)
    assert model.r_hat_ == model.posterior_.r_hat
    assert model.r_hat_["probes"] > 3
    assert "sigma" not in model.r_hat_  # it is held


@pytest.mark.full
def test_arviz(model: Any) -> None:
    arviz = pytest.importorskip("arviz")
    data = model.posterior_.to_arviz()
    for name, trace in model.posterior_.traces.items():
        np.testing.assert_array_equal(data["posterior"][name].values, trace)
    assert data["posterior"].sizes["chain"] == 2
    assert data["posterior"].sizes["draw"] == 7
    summary = arviz.summary(data, var_names=["log_joint", "occupied"])
    assert np.isfinite(summary["mean"]).all()


# -- files ---------------------------------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "plain": {"row_noise": None},
    "row noise": {"row_noise": 5.0},
    "label probabilities": {"rao_blackwell": True},
    "continuous effects": {"effects": "continuous"},
    "effect stencils": {"effects": "stencils"},
    "calibrated": {"noise": "calibrated"},
    "growing": {"n_clusters": None, "sampler": "collapsed", "labels": "crp"},
    "backfitted": {"backfit": 4, "n_burn_in": "auto"},
    "sequences": {"alpha": (2.0, 1.0), "n_sub": [2, 1], "n_clusters": [(2, 3), 4], "eta": (2.0, 0.3)},
}


@pytest.mark.some(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_says_the_same(kind: str, tmp_path: Path, quick_calibration: None) -> None:
    model = make(**KINDS[kind]).fit(MATRIX)
    model.save(tmp_path / "m.accams")
    loaded = accams.load(tmp_path / "m.accams")
    asked = {"return_std": True, "quantiles": LEVELS}
    for one, two in zip(loaded.predict(PAIRS, **asked), model.predict(PAIRS, **asked), strict=True):
        np.testing.assert_array_equal(one, two)
    assert loaded.score(PAIRS, VALUES) == model.score(PAIRS, VALUES)
    assert plain_params(BayesianACCAMS().set_params(**loaded.parameters)) == plain_params(model)
    np.testing.assert_array_equal(loaded.stencils.dense(), model.stencils_.dense())
    for name in ("sigma_", "predictive_sigma_", "n_sweeps_", "n_stencils_", "train_rmse_", "engine_", "r_hat_"):
        assert loaded.info.training[name] == getattr(model, name), name


def test_a_saved_model_keeps_its_traces(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m.accams")
    loaded = accams.load(tmp_path / "m.accams").posterior
    for name, trace in model.posterior_.traces.items():
        np.testing.assert_array_equal(loaded.traces[name], trace, err_msg=name)
    assert loaded.r_hat == model.posterior_.r_hat
    np.testing.assert_array_equal(loaded.probes, model.posterior_.probes)


def test_a_saved_model_can_be_thinned_and_saved_again(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m.accams")
    loaded = accams.load(tmp_path / "m.accams")
    loaded = replace(loaded, posterior=loaded.posterior.thin(3))
    loaded.save(tmp_path / "less.accams")
    again = accams.load(tmp_path / "less.accams")
    assert len(again.posterior) == 3
    assert (tmp_path / "less.accams").stat().st_size < (tmp_path / "m.accams").stat().st_size
    np.testing.assert_array_equal(again.predict(PAIRS), loaded.predict(PAIRS))


def test_damaged_model_files(tmp_path: Path) -> None:
    """Refused in one sentence, or still a model that predicts something everywhere."""
    path, refused = tmp_path / "m.accams", list[str]()
    make(n_stencils=1, n_sweeps=2).fit(MATRIX[:8, :6]).save(path)
    whole, random = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] ^= 1 << random.integers(8)
        path.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert accams.load(path).predict([[0, 0], [9, 9]]).shape == (2,)
        except (accams.ModelFileError, InputError) as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert not any("\n" in message for message in refused)
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(accams.ModelFileError):
            accams.load(path)
