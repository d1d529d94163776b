"""How a fit went: what is recorded of every stencil is what one would count afterwards."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bayes_models import make
from forms import MATRIX
from numpy.typing import NDArray

import accams
from accams import ACCAMS, InputError, Observations
from accams.model.size import entropy_bits

I, J = np.nonzero(~np.isnan(MATRIX))
Y = MATRIX[I, J]


def chain(**parameters: Any) -> Any:
    """One chain whose every sweep is kept, with equal noise in all rows."""
    setting = {"n_chains": 1, "thin": 1, "n_burn_in": 0, "n_sweeps": 6, "row_noise": None, "noise": "sampled"}
    return make(**{**setting, **parameters}).fit(MATRIX)


def mse(model: accams.StencilSum) -> float:
    return float(np.mean((model.predict(I, J) - Y) ** 2))


def bits(labels: NDArray[Any]) -> float:
    return entropy_bits(labels) / len(labels)


@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
def test_entropy_and_change_are_those_of_the_draws(sampler: str) -> None:
    model = chain(sampler=sampler)
    found, draws = model.diagnostics(), [draw.codes for draw in model.posterior_.draws]
    assert len(draws) == len(found.entropy) == 6
    for sweep, (before, after) in enumerate(itertools.pairwise(draws), start=1):
        for side, (x, y) in enumerate(((before.rows, after.rows), (before.cols, after.cols))):
            np.testing.assert_allclose(found.changed[sweep, :, side], np.mean(x[:-1] != y[:-1], axis=0), atol=1e-7)
            wanted = [bits(y[:-1, l]) for l in range(y.shape[1])]
            np.testing.assert_allclose(found.entropy[sweep, :, side], wanted, atol=1e-6)


def test_the_gain_is_the_error_without_the_stencil_less_the_error_with_it() -> None:
    model = chain()
    whole = model.stencils_
    others = accams.StencilSum(whole.shape, whole.offset, whole.stencils[:-1], whole.unseen_rows, whole.unseen_cols)
    assert model.diagnostics().gain[-1, -1] == pytest.approx(mse(others) - mse(whole), rel=1e-4)


def test_gains_of_a_first_sweep_are_the_falls_of_the_error() -> None:
    model = ACCAMS(n_stencils=4, n_clusters=3, n_init=2).fit(MATRIX)
    found = model.diagnostics()
    assert found.error is not None
    errors = np.append(np.mean((Y - model.stencils_.offset) ** 2), found.error[0] ** 2)
    np.testing.assert_allclose(found.gain[0], -np.diff(errors), rtol=1e-4)
    assert (found.changed == 1.0).all()
    for l, stencil in enumerate(model.stencils_.stencils):
        np.testing.assert_allclose(found.entropy[0, l], [bits(stencil.row_labels), bits(stencil.col_labels)])


def test_relearning_counts_the_labels_that_changed() -> None:
    kept: list[list[NDArray[Any]]] = []
    setting: dict[str, Any] = {"n_stencils": 1, "n_clusters": 4, "random_state": 1, "max_iter": 1}
    for n_relearn in (0, 1):
        model = ACCAMS(**setting, n_relearn=n_relearn).fit(MATRIX)
        kept.append([model.stencils_.row_labels[0], model.stencils_.col_labels[0]])
    wanted = [np.mean(x != y) for x, y in zip(*kept, strict=True)]
    assert max(wanted) > 0
    np.testing.assert_allclose(model.diagnostics().changed[1, 0], wanted)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["bayesian", "backfitted", "accams"])
def test_files_keep_it(kind: str, tmp_path: Path) -> None:
    if kind == "accams":
        model: Any = ACCAMS(n_stencils=3, n_clusters=2, n_relearn=1).fit(MATRIX)
    else:
        model = make(n_sweeps=4, backfit=4 if kind == "backfitted" else None).fit(MATRIX)
    model.save(tmp_path / "m.accams")
    one, other = model.diagnostics(), accams.load(tmp_path / "m.accams").diagnostics()
    for name in ("entropy", "changed", "gain", "rmse", "error", "sigma"):
        x, y = getattr(one, name), getattr(other, name)
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_allclose(x, y, rtol=1e-6)
    model.save(tmp_path / "m.accams", ids=False)
    with pytest.raises(InputError, match="has no record of its fit"):
        accams.load(tmp_path / "m.accams").diagnostics()
    with pytest.raises(InputError, match="has no record of its fit"):
        model.compress(20_000).diagnostics()


def test_columns_are_one_line_for_each_sweep_stencil_and_side() -> None:
    found = ACCAMS(n_stencils=3, n_clusters=2, n_relearn=1).fit(MATRIX).diagnostics()
    columns = found.columns()
    assert {len(x) for x in columns.values()} == {2 * 3 * 2}
    at = (columns["sweep"] == 2) & (columns["stencil"] == 1) & (columns["side"] == "cols")
    assert columns["entropy"][at].tolist() == [found.entropy[1, 1, 1]]
    assert columns["gain"][at].tolist() == [found.gain[1, 1]]


def test_it_can_be_printed() -> None:
    assert "2 sweeps, training RMSE" in str(ACCAMS(n_stencils=2, n_clusters=2, n_relearn=1).fit(MATRIX).diagnostics())
    with pytest.raises(InputError, match="has no record of its fit"):
        ACCAMS(n_stencils=0).fit(MATRIX).diagnostics()


def test_an_interrupted_last_sweep_is_filled_up() -> None:
    def end(step: Any) -> bool:
        return bool(step.sweep == 1 and step.stencil == 0)

    found = ACCAMS(n_stencils=3, n_clusters=2, n_relearn=3, callbacks=[end]).fit(MATRIX).diagnostics()
    assert found.entropy.shape == (2, 3, 2)
    np.testing.assert_array_equal(found.gain[1, 1:], found.gain[0, 1:])
    assert (found.changed[1, 1:] == 0.0).all()


def test_stencils_that_were_never_fitted_are_not_there() -> None:
    model = ACCAMS(n_stencils=5, n_clusters=2, callbacks=[lambda step: step.stencil == 1]).fit(MATRIX)
    assert model.diagnostics().gain.shape == (1, 2)


def test_mixing_is_what_arviz_says() -> None:
    import arviz

    model = make(n_sweeps=12, n_chains=3, noise=1.0).fit(MATRIX)
    found = {each.quantity: each for each in model.diagnostics().mixing()}
    trace = model.posterior_.traces["log_joint"]
    assert found["log_joint"].r_hat == pytest.approx(float(arviz.rhat(trace)))
    assert found["log_joint"].ess_bulk == pytest.approx(float(arviz.ess(trace)))
    assert found["sigma"].held
    assert np.isnan(found["sigma"].r_hat)
    alone = make(n_sweeps=12, n_chains=1, noise=1.0).fit(MATRIX).diagnostics().mixing()
    assert all(np.isnan(each.r_hat) for each in alone)
    assert not alone[-1].held
    with pytest.raises(InputError, match="single stencil sum"):
        ACCAMS(n_stencils=1).fit(MATRIX).diagnostics().mixing()


def test_observed_zeros_and_weights_count() -> None:
    graph = np.zeros((12, 12))
    graph[:6, :6] = 1.0
    model = ACCAMS(n_stencils=1, n_clusters=2).fit(Observations.from_dense(graph))
    assert model.diagnostics().gain[0, 0] == pytest.approx(graph.var(), rel=1e-4)
