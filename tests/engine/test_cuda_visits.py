"""Visits that are planned, recorded and launched together on a GPU (in the simulator) equal those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accams import BayesianACCAMS, Observations
from accams.engine.base import State
from accams.engine.choose import make_engine
from accams.engine.cuda.engine import CudaState
from accams.engine.rules import BlockedVisit, Update

pytest.importorskip("numba.cuda")
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
SHAPES = [(2, 3), (3, 1), (2, 2)]


def pair() -> list[State]:
    """The same three stencils in a state of each engine."""
    rng = np.random.default_rng(5)
    rows, cols = np.nonzero(rng.random((9, 7)) < 0.6)
    obs = Observations.from_coo(rows, cols, rng.normal(3, 1, len(rows)))
    labels = [[rng.integers(0, k[axis], obs.shape[axis]).astype(np.uint8) for k in SHAPES] for axis in (0, 1)]
    templates = [rng.integers(-(2**18), 2**18, k).astype(np.int32) for k in SHAPES]
    states = [make_engine(obs, name, len(SHAPES), 1).new_state() for name in ("cpu", "cuda")]
    for state in states:
        state.restore(templates, *labels)
    return states


def visit(state: State, stencil: int, turn: int, sub: int = 1) -> None:
    """Visit one stencil, with keys that depend on the turn."""
    state.begin(stencil)
    keys = np.random.default_rng([stencil, turn]).integers(0, 2**62, (2 * sub, 3, 2)).tolist()
    updates = tuple(
        Update(axis, *(tuple(key) for key in keys[2 * u + axis]))
        for u in range(sub) for axis in (0, 1) if SHAPES[stencil][axis] > 1
    )  # fmt: skip
    labels = state.row_labels[stencil], state.col_labels[stencil]
    counts = [np.bincount(each, minlength=k) for each, k in zip(labels, SHAPES[stencil], strict=True)]
    unit = state.engine.grid.step
    state.visit(BlockedVisit(state.templates[stencil], counts, 2.0, 1.0 / unit, unit**2 / 0.5, (0.5, 1.5), updates))


def assert_same(states: list[State]) -> None:
    for cpu, gpu in zip(*(state.visited() for state in states), strict=True):
        assert np.array_equal(cpu.T, gpu.T)
        assert all(np.array_equal(a, b) for a, b in zip(cpu.counts, gpu.counts, strict=True))
        assert cpu.moved == gpu.moved
        assert gpu.gain == pytest.approx(cpu.gain)
    for axis in ("row_labels", "col_labels", "templates"):
        for mine, theirs in zip(*(getattr(state, axis) for state in states), strict=True):
            assert np.array_equal(mine, theirs)


def squared_errors(states: list[State]) -> list[float]:
    return [state.squared_error() for state in states]


def test_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third sweep on they are recordings; the residual shows whether everything was added once."""
    monkeypatch.setattr("accams.engine.cuda.engine.AT_ONCE", 2)
    states = pair()
    recorded = states[1].stream.recorded  # type: ignore[attr-defined]
    started: list[Any] = []
    monkeypatch.setattr(states[1].stream, "recorded", lambda work: started.append(recorded(work)) or started[-1])  # type: ignore[attr-defined]
    for sweep in range(4):
        for stencil in range(len(SHAPES)):
            for state in states:
                visit(state, stencil, sweep)
        assert_same(states)
    assert len(started) == 2
    assert len(set(squared_errors(states))) == 1


def test_a_driver_that_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are launched one by one, after a warning, and none is lost or run twice."""
    states = pair()

    def broken(work: Any) -> Any:
        states[1]._residual.waiting[0].clear()  # type: ignore[attr-defined]
        raise RuntimeError("not supported")

    monkeypatch.setattr(states[1].stream, "recorded", broken)  # type: ignore[attr-defined]

    def sweeps() -> None:
        for sweep in range(4):
            for state in states:
                visit(state, 0, sweep)
            assert_same(states)

    with pytest.warns(UserWarning, match="cannot be recorded .not supported.: each is launched on its own"):
        sweeps()
    assert len(set(squared_errors(states))) == 1


def test_other_work_in_between() -> None:
    """Every other method first runs the visits planned before."""
    states, cells = pair(), np.arange(7)
    visited: list[list[Any]] = []
    for state in states:
        visit(state, 0, 0)
        visit(state, 2, 0, sub=3)  # more updates than there were lines for
        predicted = state.predict_at(cells, cells[::-1])
        visit(state, 2, 1)
        visit(state, 2, 2)
        state.begin(2)
        tables = state.tables(0)
        sums = [each.copy() for each in state.sums(1)]
        T = np.rint(tables.L / np.maximum(tables.N, 1)).astype(np.int32)
        state.end(T)
        visit(state, 0, 3)
        visited.append([predicted, *sums, tables.N, state.row_labels[0], state.templates[2]])
    for mine, theirs in zip(*visited, strict=True):
        assert np.array_equal(mine, theirs)
    assert_same(states)
    assert len(set(squared_errors(states))) == 1


def test_weights_of_rows_change_between_sweeps() -> None:
    states = pair()
    for sweep in range(4):
        for state in states:
            state.set_row_weights(np.random.default_rng(sweep).gamma(2.0, 0.5, 9))
            visit(state, 0, sweep)
        assert_same(states)
    assert len({state.squared_error(row_weighted=True) for state in states}) == 1


@pytest.mark.parametrize("sweeps", [1, pytest.param(2, marks=pytest.mark.full)])
def test_streamed_ratings(sweeps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little device memory they are streamed from the host in chunks, with the same results."""
    monkeypatch.setattr("accams.engine.cuda.data.most_entries", lambda *_: 32)
    monkeypatch.setattr("accams.engine.cuda.data.piece_size", lambda *_: 1)  # so that there are two chunks
    states = pair()
    assert len(states[1].engine.orders[0].chunks) > 1  # type: ignore[attr-defined]
    for sweep in range(sweeps):
        for stencil in (0, 2):
            for state in states:
                visit(state, stencil, sweep)
        assert_same(states)
    assert len(set(squared_errors(states))) == 1
    position = np.arange(3)
    assert np.array_equal(*(state.lines(0, position) for state in states))


def test_a_sweep_of_a_fit_is_started_in_few_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No method that a fit calls in between splits the visits. (Kernels do nothing here.)"""
    sizes: list[int] = []
    start = CudaState._start

    def noted(self: CudaState, *visits: Any) -> None:
        sizes.append(len(visits))
        start(self, *visits)

    monkeypatch.setattr(CudaState, "_start", noted)
    monkeypatch.setattr("accams.engine.cuda.device.Stream.launch", lambda *_: None)
    monkeypatch.setattr("accams.engine.cuda.engine.AT_ONCE", 4)
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((20, 15)) < 0.5)
    chosen = {"n_chains": 1, "n_sweeps": 4, "n_burn_in": 2, "init": "prior", "noise": "sampled", "tau": "sampled"}
    model = BayesianACCAMS(6, 3, engine="cuda", n_sub=2, verbose=False, **chosen)
    model.fit(Observations.from_coo(rows, cols, rng.normal(size=len(rows))))
    assert sizes == [4, 2, 4, 2]  # the second sweep, and when the third is recorded; the first has new stencils


def test_more_stencils_than_the_engine_was_made_for() -> None:
    state = pair()[1]
    with pytest.raises(RuntimeError, match="made for 3 stencils"):
        state.begin(3, (2, 2))
