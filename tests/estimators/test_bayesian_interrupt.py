"""Ctrl-C while BayesianACCAMS is fitted: a usable model and a warning, whenever it comes, and no thread is left."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bayes_models import SAMPLERS, make, same, same_draws
from forms import MATRIX, PAIRS

import accams
from accams.fit.gibbs import Chain

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("chains_at_once")]
CELLS = PAIRS[::7]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile what the fits need beforehand: it takes longer than the tests wait for Ctrl-C to be heard."""
    for sampler, labels in SAMPLERS:
        make(sampler=sampler, labels=labels).fit(MATRIX)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also where the shell has made this process ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def waits(thread: int) -> bool:
    """Whether this thread waits for the result of another."""
    frame = sys._current_frames()[thread]
    while frame is not None and not frame.f_code.co_filename.endswith("futures/_base.py"):
        frame = frame.f_back
    return frame is not None


def press_at(monkeypatch: pytest.MonkeyPatch, sweep: int, stencil: int, chain: int = 1) -> None:
    """Press Ctrl-C while this chain visits that stencil; the visit goes on until the news has spread."""
    original, main = Chain.visit, threading.main_thread().ident
    assert main is not None
    pressed, stops = threading.Event(), list[threading.Event]()

    def event() -> threading.Event:
        stops.append(threading.Event())
        return stops[-1]

    def visit(self: Chain, number: int, random: Any) -> None:
        if (self.number, self.sweep, number) == (chain, sweep, stencil) and not pressed.is_set():
            pressed.set()
            end = time.monotonic() + 20
            while not waits(main) and time.monotonic() < end:
                time.sleep(0.005)
            while not stops[-1].is_set() and time.monotonic() < end:  # unheard if it comes just before the wait begins
                signal.pthread_kill(main, signal.SIGINT)
                stops[-1].wait(1)
        original(self, number, random)

    monkeypatch.setattr("accams.fit.chains.Event", event)
    monkeypatch.setattr(Chain, "visit", visit)


def interrupted(model: Any, **arguments: Any) -> Any:
    """The model after a fit that is interrupted, with the one warning that says so."""
    before = set(threading.enumerate())
    with pytest.warns(UserWarning, match="interrupted: the model is usable") as caught:
        model.fit(MATRIX, **arguments)
    assert len(caught) == 1
    assert set(threading.enumerate()) <= before
    mean, std = model.predict(PAIRS, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    return model


@pytest.mark.some(2)
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
@pytest.mark.parametrize("stencil", [0, 2])
def test_in_the_first_sweep(
    stencil: int, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each chain keeps the stencils that it has begun; nothing is known of the noise but where it was to start."""
    press_at(monkeypatch, 0, stencil)
    model = interrupted(make(sampler=pair[0], labels=pair[1]), predict_at=CELLS)
    assert (model.n_sweeps_, model.history_, model.train_rmse_, model.r_hat_) == (0, [], None, {})
    assert len(model.posterior_) == 2
    assert [draw.chain for draw in model.posterior_.draws] == [0, 1]
    assert len(model.posterior_.draws[1].codes.starts) == stencil + 1
    assert model.sigma_ == pytest.approx(0.8)
    np.testing.assert_allclose(model.predicted_at_, model.predict(CELLS), atol=1e-5)
    model.save(tmp_path / "m.accams")
    np.testing.assert_array_equal(accams.load(tmp_path / "m.accams").predict(PAIRS), model.predict(PAIRS))


@pytest.mark.some(2)
@pytest.mark.parametrize("pair", SAMPLERS, ids="-".join)
def test_in_a_later_sweep(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The draws so far are those of the sweeps that were completed."""
    settings = {"sampler": pair[0], "labels": pair[1], "noise": "sampled"}
    expected = make(n_sweeps=5, **settings).fit(MATRIX, predict_at=CELLS)
    press_at(monkeypatch, 5, 1)
    model = interrupted(make(n_sweeps=50, **settings), predict_at=CELLS)
    assert model.n_sweeps_ == len(model.history_) == 5
    assert all(same_draws(a, b) for a, b in zip(model.posterior_.draws, expected.posterior_.draws, strict=True))
    np.testing.assert_array_equal(model.predicted_at_, expected.predicted_at_)
    assert same(model, expected)


def test_within_the_burn_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The present state is better than nothing: all stencils of both chains, each visit complete."""
    press_at(monkeypatch, 2, 1)
    model = interrupted(make(n_sweeps=50, n_burn_in=20), predict_at=CELLS)
    assert [len(draw.codes.starts) for draw in model.posterior_.draws] == [3, 3]
    np.testing.assert_allclose(model.predicted_at_, model.predict(CELLS), atol=1e-5)
    assert -model.score(MATRIX) < np.nanstd(MATRIX)


@pytest.mark.some(2)
@pytest.mark.parametrize("sweep", [0, 3, 8])
def test_while_the_noise_is_calibrated(sweep: int, monkeypatch: pytest.MonkeyPatch, quick_calibration: None) -> None:
    press_at(monkeypatch, sweep, 1)
    model = interrupted(make(noise="calibrated"), predict_at=CELLS)
    assert model.n_sweeps_ == 0
    assert len(model.posterior_) == 2
    assert model.sigma_ == pytest.approx(np.sqrt(model.calibration_.sigma2))
    assert 0.3 < model.sigma_ < 2
    np.testing.assert_allclose(model.predicted_at_, model.predict(CELLS), atol=1e-5)


def test_after_the_calibration(monkeypatch: pytest.MonkeyPatch, quick_calibration: None) -> None:
    phases: list[str] = []
    whole = make(noise="calibrated", callbacks=[lambda report: phases.append(report.phase)]).fit(MATRIX)
    press_at(monkeypatch, phases.count("calibrating") + 2, 1)
    model = interrupted(make(noise="calibrated"))
    assert model.n_sweeps_ == 2
    assert model.calibration_ == whole.calibration_
    assert model.predictive_sigma_ == whole.calibration_.predictive_noise(model.posterior_)


@pytest.mark.parametrize("settings", [{"backfit": 10, "n_burn_in": "auto"}, {"effects": "continuous"}])
def test_other_kinds_of_sweeps(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    press_at(monkeypatch, 2, 0)
    interrupted(make(n_sweeps=10, **settings))


def test_an_early_stop_is_no_reason_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    press_at(monkeypatch, 3, 1)
    model = interrupted(make(n_sweeps=50, early_stopping=True))
    assert model.history_[-1].validation_rmse > 0


def test_more_chains_than_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that wait for a thread are not begun."""
    press_at(monkeypatch, 2, 0, chain=0)
    model = interrupted(make(n_chains=5, n_threads=1, n_sweeps=30))
    assert (model.n_sweeps_, len(model.posterior_)) == (2, 5)


def test_the_last_checkpoint_is_there_to_go_on_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = make(n_sweeps=8).fit(MATRIX)
    press_at(monkeypatch, 5, 1)
    interrupted(make(n_sweeps=8, checkpoint=tmp_path / "run", checkpoint_every=2))
    monkeypatch.undo()
    assert same(make(n_sweeps=8).fit(MATRIX, resume=tmp_path / "run"), whole)


def test_while_the_chains_are_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain that runs already when Ctrl-C comes ends its stencil, too, before anyone looks at it."""
    within_a_stencil, pressed, original = threading.Event(), [], Chain._blocked_visit

    class Pool(ThreadPoolExecutor):
        def submit(self, work: Any, chain: Any) -> Any:  # type: ignore[override]
            future = super().submit(work, chain)
            if (chain.number, chain.sweep) == (1, 2) and not pressed and within_a_stencil.wait(0.1):
                pressed.append(True)
                raise KeyboardInterrupt
            return future

    def slow_visit(self: Chain, *arguments: Any) -> Any:
        if (self.number, self.sweep) == (1, 2):
            within_a_stencil.set()
            time.sleep(0.05)
        return original(self, *arguments)

    monkeypatch.setattr(Chain, "_blocked_visit", slow_visit)
    monkeypatch.setattr("accams.fit.chains.ThreadPoolExecutor", Pool)
    model = interrupted(make(n_sweeps=9, n_burn_in=5, n_threads=2))
    assert pressed == [True]
    assert [len(draw.codes.starts) for draw in model.posterior_.draws] == [3, 3]
