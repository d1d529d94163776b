"""How long BayesianACCAMS runs, what it keeps of its sweeps, and what it tells while it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bayes_models import GRAPH, SAMPLERS, make, same
from forms import MATRIX, PAIRS, VALUES

from accams import Observations
from accams.data.planted import planted_stencils
from accams.fit import run as run_module
from accams.fit.early import validation_split
from accams.fit.run import Sweep

CELLS = PAIRS[::7]


def kept_sweeps(model: Any) -> list[int]:
    """The sweeps that the draws come from; every chain must have the same."""
    by_chain = [[draw.sweep for draw in model.posterior_.draws if draw.chain == c] for c in range(model.n_chains)]
    assert all(each == by_chain[0] for each in by_chain)
    return by_chain[0]


# -- what is kept --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_sweeps", "n_burn_in", "thin", "expected"),
    [
        (10, 4, 1, [4, 5, 6, 7, 8, 9]),
        (10, 0, 3, [2, 5, 8]),
        (10, 5, 3, [5, 8]),
        (10, 6, 3, [8]),
        (12, "auto", 1, list(range(3, 12))),  # the first quarter is left out
        (20, "auto", "auto", list(range(5, 20))),  # all, since they are few
        (2, 1, "auto", [1]),
        (7, 6, 1, [6]),
    ],
)
def test_which_sweeps_are_kept(n_sweeps: int, n_burn_in: Any, thin: Any, expected: list[int]) -> None:
    model = make(n_sweeps=n_sweeps, n_burn_in=n_burn_in, thin=thin).fit(MATRIX)
    assert kept_sweeps(model) == expected
    assert model.n_sweeps_ == n_sweeps


@pytest.mark.some(2)
@pytest.mark.parametrize("max_draws", [2, 4, 7, 400])
def test_most_draws(max_draws: int) -> None:
    model = make(n_sweeps=50, n_burn_in=0, thin="auto", max_draws=max_draws).fit(MATRIX)
    sweeps = np.array(kept_sweeps(model)) + 1
    assert len(model.posterior_) == 2 * len(sweeps) <= max_draws
    interval = sweeps[0]
    np.testing.assert_array_equal(sweeps, np.arange(interval, 51, interval))  # evenly spaced over the whole run
    assert interval & (interval - 1) == 0  # every sweep, doubled so many times
    assert 4 * len(sweeps) >= max_draws or interval == 1  # and not more often than needed


def test_a_draw_is_the_state_after_its_sweep() -> None:
    """So a longer run of the same seed begins with the same draws."""
    short, long = (make(n_sweeps=n).fit(MATRIX).posterior_ for n in (4, 6))
    for one, two in zip(short.draws, long.draws, strict=False):
        assert (one.chain, one.sweep) == (two.chain, two.sweep)
        np.testing.assert_array_equal(one.codes.rows, two.codes.rows)
        np.testing.assert_array_equal(one.codes.flat, two.codes.flat)


def test_the_single_model_is_the_last_draw_of_the_first_chain() -> None:
    model = make().fit(MATRIX)
    last = [draw for draw in model.posterior_.draws if draw.chain == 0][-1]
    i, j = PAIRS.T
    np.testing.assert_allclose(model.stencils_.predict(i, j), last.predict(i, j), rtol=1e-6)


def test_traces_leave_the_burn_in_out() -> None:
    model = make(n_sweeps=9, n_burn_in=4).fit(MATRIX)
    traces, probes = model.posterior_.traces, model.posterior_.probes
    assert {name: trace.shape for name, trace in traces.items()} == {
        **dict.fromkeys(("sigma", "tau", "log_joint", "occupied"), (2, 5)),
        "probes": (2, 5, 64),
    }
    for draw in model.posterior_.draws:  # thin=1: a draw for every sweep of the traces
        np.testing.assert_allclose(traces["probes"][draw.chain, draw.sweep - 4], draw.predict(*probes.T), atol=1e-5)
        used = [len(set(x)) for side in (draw.codes.rows, draw.codes.cols) for x in side[:-1].T]
        assert traces["occupied"][draw.chain, draw.sweep - 4] == pytest.approx(sum(used) / 3)


# -- predict_at ----------------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "settings",
    [
        *({"sampler": sampler, "labels": labels} for sampler, labels in SAMPLERS),
        {"effects": "continuous"},
        {"noise": "calibrated"},
        {"noise": "sampled", "row_noise": None},
    ],
)
def test_asked_cells_are_averaged_over_every_sweep(settings: Any, quick_calibration: None) -> None:
    model = make(n_sweeps=40, n_burn_in=3, clip=False, max_draws=10_000, **settings).fit(MATRIX, predict_at=CELLS)
    assert kept_sweeps(model) == list(range(3, 40))
    each = np.array([draw.predict(*CELLS.T) for draw in model.posterior_.draws])
    np.testing.assert_allclose(model.predicted_at_, each.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(model.predicted_at_std_, each.std(axis=0), atol=1e-4)
    np.testing.assert_allclose(model.predicted_at_, model.predict(CELLS), atol=1e-5)


def test_asking_changes_nothing_else() -> None:
    plain, asked = make().fit(MATRIX), make().fit(MATRIX, predict_at=CELLS)
    assert not hasattr(plain, "predicted_at_")
    asked_attributes = ("predicted_at_", "predicted_at_std_")
    for name in asked_attributes:
        delattr(asked, name)
    assert same(plain, asked)


@pytest.mark.some(2)
@pytest.mark.parametrize("thin", [1, 3, "auto"])
def test_asked_cells_do_not_depend_on_what_is_kept(thin: Any) -> None:
    expected = make(n_sweeps=12).fit(MATRIX, predict_at=CELLS).predicted_at_
    np.testing.assert_array_equal(make(n_sweeps=12, thin=thin).fit(MATRIX, predict_at=CELLS).predicted_at_, expected)


def test_asked_cells_with_an_automatic_burn_in() -> None:
    """Up to 32 sweeps, each stands for itself, so that exactly the first quarter is left out."""
    model = make(n_sweeps=32, n_burn_in="auto", clip=False).fit(MATRIX, predict_at=CELLS)
    assert kept_sweeps(model) == list(range(8, 32))
    np.testing.assert_allclose(model.predicted_at_, model.predict(CELLS), atol=1e-5)


def test_forms_of_asked_cells() -> None:
    pairs = [(f"u{i:02}", f"v{j:02}") for i, j in PAIRS]
    model = make().fit(pairs, VALUES, predict_at=pairs[::7])
    np.testing.assert_array_equal(model.predicted_at_, make().fit(PAIRS, VALUES, predict_at=CELLS).predicted_at_)
    assert make().fit(MATRIX, predict_at=[]).predicted_at_.shape == (0,)
    assert make().fit(GRAPH, predict_at=[[0, 19], [3, 3]]).predicted_at_.shape == (2,)
    clipped = make(clip=(2.0, 3.0)).fit(MATRIX, predict_at=CELLS).predicted_at_
    assert (clipped.min(), clipped.max()) == (2.0, 3.0)


def test_asked_cells_may_be_new() -> None:
    """A table of test ratings has rows and columns that training did not see: they are answered as `predict` does."""
    model = make(clip=False, max_draws=10_000, n_burn_in=3).fit(MATRIX, predict_at=[[0, 0], [99, 0], [0, 99], [99, 99]])
    np.testing.assert_allclose(model.predicted_at_, model.predict([[0, 0], [99, 0], [0, 99], [99, 99]]), atol=1e-5)
    assert np.isfinite(model.predicted_at_std_).all()
    alone = make(clip=False, n_burn_in=3).fit(MATRIX, predict_at=[[0, 0]])
    assert alone.predicted_at_[0] == model.predicted_at_[0]
    with pytest.warns(UserWarning, match="none of these ids was seen"):
        assert make().fit(MATRIX, predict_at=[[99, 99]]).predicted_at_.shape == (1,)


def test_a_later_fit_forgets_what_was_asked() -> None:
    model = make().fit(MATRIX, predict_at=CELLS)
    assert not hasattr(model.fit(MATRIX), "predicted_at_")


# -- when it ends --------------------------------------------------------------------------------------------

EASY = planted_stencils((40, 30), 1, 2, noise=0.2, random_state=0).observations


def test_the_run_ends_by_itself() -> None:
    settings = {"n_sweeps": "auto", "n_burn_in": "auto", "n_stencils": 1, "n_clusters": 2, "noise": 0.2}
    model = make(**settings, tol=1e-2).fit(EASY)
    assert model.n_sweeps_ == run_module.FEWEST_SWEEPS
    assert model.history_[-1].change < 1e-2
    longer = make(**settings, tol=0.2 * model.history_[-1].change).fit(EASY)
    assert longer.n_sweeps_ > model.n_sweeps_
    assert longer.n_sweeps_ % run_module.CHECK_EVERY == 0
    assert all(report.change is None or report.change >= longer.schedule.tol for report in longer.history_[60:-1])


def test_early_stopping() -> None:
    settings = {"early_stopping": True, "n_sweeps": 200, "n_burn_in": "auto", "noise": 0.8, "n_stencils": 2}
    model = make(**settings, patience=6).fit(MATRIX)
    errors = [report.validation_rmse for report in model.history_]
    assert model.n_sweeps_ == 1 + int(np.argmin(errors)) + 6 < 200
    assert all(np.isfinite([report.validation_rmse_draw for report in model.history_]))
    assert np.mean([report.validation_rmse_draw for report in model.history_[-6:]]) > errors[-1]


def test_early_stopping_holds_out_a_tenth() -> None:
    """The error that is reported is that of the model's own predictions at the entries that it did not see."""
    settings = {"n_sweeps": 12, "tau": 0.3}
    model = make(early_stopping=True, validation_fraction=0.1, **settings).fit(MATRIX)
    training, held_out = validation_split(Observations.from_dense(MATRIX), 0.1, 0)
    assert held_out.nnz == round(0.1 * len(VALUES))
    assert model.history_[-1].validation_rmse == pytest.approx(-model.score(held_out), abs=1e-5)
    assert model.train_rmse_ == make(**settings).fit(training).train_rmse_


def test_no_early_end_during_the_burn_in() -> None:
    """Before its end there is nothing to be patient about."""
    model = make(early_stopping=True, n_sweeps=12, n_burn_in=8, patience=3).fit(MATRIX)
    assert model.n_sweeps_ >= 9
    assert min(kept_sweeps(model)) >= 8


# -- what is told --------------------------------------------------------------------------------------------


def test_reports(quick_calibration: None) -> None:
    seen: list[Sweep] = []
    model = make(callbacks=[seen.append], noise="calibrated", n_sweeps=6).fit(MATRIX)
    calibrating = [report for report in seen if report.phase == "calibrating"]
    sampling = [report for report in seen if report.phase == "sampling"]
    assert seen == calibrating + sampling
    assert [report.sweep for report in calibrating] == list(range(1, len(calibrating) + 1))
    assert sampling == model.history_
    assert [(report.sweep, report.n_sweeps) for report in sampling] == [(s, 6) for s in range(1, 7)]
    seconds = [report.seconds for report in seen]
    assert seconds == sorted(seconds)
    assert all(0 <= report.moved <= 1 and 2 <= report.occupied <= 7 for report in seen)


def test_the_error_that_is_reported_is_that_of_the_draws() -> None:
    model = make(n_sweeps=5).fit(MATRIX)
    final = [draw for draw in model.posterior_.draws if draw.sweep == 4]
    squares = [np.mean((draw.predict(*PAIRS.T) - VALUES) ** 2) for draw in final]
    assert model.train_rmse_ == model.history_[-1].rmse == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-5)


def test_a_callback_ends_the_run() -> None:
    model = make(n_sweeps=50, callbacks=[lambda sweep: sweep.sweep == 3]).fit(MATRIX)
    assert model.n_sweeps_ == 3
    assert kept_sweeps(model) == [1, 2]
    assert same(model, make(n_sweeps=3).fit(MATRIX))
    early = make(n_sweeps=50, n_burn_in=20, callbacks=[lambda sweep: sweep.sweep == 3]).fit(MATRIX, predict_at=CELLS)
    assert len(early.posterior_) == 2  # the present state, for want of anything better
    np.testing.assert_allclose(early.predicted_at_, early.predict(CELLS), atol=1e-5)


def test_a_callback_ends_the_fit_while_it_is_calibrated(quick_calibration: None) -> None:
    seen: list[Sweep] = []
    model = make(noise="calibrated", callbacks=[seen.append, lambda sweep: sweep.sweep == 5]).fit(MATRIX)
    assert [report.phase for report in seen] == ["calibrating"] * 5
    assert np.isfinite(model.predict(PAIRS)).all()


def test_progress(capsys: Any, quick_calibration: None) -> None:
    make(verbose=True, noise="calibrated").fit(MATRIX)
    assert "sampling" in capsys.readouterr().err
    make(verbose=True, n_sweeps=12, early_stopping=True).fit(MATRIX)
    assert "validation" in capsys.readouterr().err
