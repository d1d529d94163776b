"""Local regressions beside plain ridge regressions, one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accams.fit.local import ENTRIES, Targets, _Batch, nearest, others, penalties, regress, unit_lines
from accams.threads import Threads

RANDOM = np.random.default_rng(0)
LINES = RANDOM.normal(size=(9, 40))
VALUES = LINES[:4] + 0.3 * RANDOM.normal(size=(4, 40))
KNOWN = RANDOM.random(VALUES.shape) < 0.8
TARGETS = Targets(np.where(KNOWN, VALUES, 0.0), KNOWN, VALUES)
NEAR = np.array([[0, 5, 6], [1, 4, 7], [2, 7, 8], [3, 6, 8]])
FURTHER = RANDOM.normal(size=VALUES.shape) + VALUES


def ridge(A: Any, y: Any, penalty: float) -> tuple[Any, float]:
    """Slopes and intercept, by the formula."""
    centred = A - A.mean(axis=0)
    slopes = np.linalg.solve(centred.T @ centred + penalty * np.eye(A.shape[1]), centred.T @ (y - y.mean()))
    return slopes, y.mean() - A.mean(axis=0) @ slopes


def evidence(A: Any, y: Any, penalty: float) -> float:
    """Log evidence of a ridge penalty, without the mean, with the noise variance that is best for it."""
    A, y, free = A - A.mean(axis=0), y - y.mean(), len(y) - 1
    S = np.eye(len(y)) + A @ A.T / penalty
    noise = y @ np.linalg.solve(S, y) / free
    return float(-0.5 * (np.linalg.slogdet(S)[1] + free * np.log(noise)))


def predictors(i: int, further: bool) -> Any:
    A = LINES[NEAR[i]].T
    return np.column_stack([A, FURTHER[i]]) if further else A


@pytest.mark.parametrize("further", [False, True])
def test_regressions_are_ridge_regressions(further: bool) -> None:
    predicted, found = regress(TARGETS, LINES, NEAR, Threads(1), FURTHER if further else None)[-1]
    for i in range(len(VALUES)):
        A, known = predictors(i, further), KNOWN[i]
        centred, y = A[known] - A[known].mean(axis=0), VALUES[i, known] - VALUES[i, known].mean()
        w, V = np.linalg.eigh(centred.T @ centred)
        penalty = penalties(w[None], (V.T @ centred.T @ y)[None], np.array([y @ y]), np.array([float(known.sum())]))
        slopes, intercept = ridge(A[known], VALUES[i, known], float(penalty[0]))
        np.testing.assert_allclose(found.slopes[i], slopes, rtol=1e-8)
        np.testing.assert_allclose(predicted[i], A @ slopes + intercept, rtol=1e-8)


@pytest.mark.parametrize("cells", [12, 40])
def test_a_known_cell_is_predicted_as_if_it_had_not_been_known(cells: int) -> None:
    """Of few cells and more predictors, which fit every cell, too."""
    random = np.random.default_rng(1)
    lines = random.normal(size=(30, cells))
    values = lines[:2] + lines[2:4] + 0.1 * random.normal(size=(2, cells))
    near = np.stack([np.delete(np.arange(30), i)[:25] for i in range(2)])
    targets = Targets(values, np.ones(values.shape, bool), values)
    alone, _ = regress(targets, lines, near, Threads(1), leave_one_out=True)[0]
    honest = np.empty_like(alone)
    for j in range(cells):
        known = np.ones(values.shape, bool)
        known[:, j] = False
        without = Targets(np.where(known, values, 0.0), known, values)
        honest[:, j] = regress(without, lines, near, Threads(1))[0][0][:, j]
    own, other = np.square(alone - values).mean(), np.square(honest - values).mean()
    assert 0.5 < own / other < 1.5
    assert np.corrcoef(alone.ravel(), honest.ravel())[0, 1] > 0.8


def test_the_penalty_has_the_largest_evidence() -> None:
    A, y = RANDOM.normal(size=(60, 12)), RANDOM.normal(size=60)
    y += A[:, :3] @ [1.0, -0.5, 0.3]
    centred = A - A.mean(axis=0)
    w, V = np.linalg.eigh(centred.T @ centred)
    q = V.T @ centred.T @ (y - y.mean())
    best = float(penalties(w[None], q[None], np.array([((y - y.mean()) ** 2).sum()]), np.array([60.0]))[0])
    assert evidence(A, y, best) > max(evidence(A, y, best * 2), evidence(A, y, best / 2))


def test_leave_one_out_predicts_each_known_cell_without_it() -> None:
    predicted, found = regress(TARGETS, LINES, NEAR, Threads(1), leave_one_out=True)[0]
    A, known = predictors(0, False), KNOWN[0]
    centred = A[known] - A[known].mean(axis=0)
    gram = centred.T @ centred
    penalty = np.median(
        np.linalg.solve(np.diag(found.slopes[0]), centred.T @ (VALUES[0, known]) - gram @ found.slopes[0])
    )
    cell = int(np.flatnonzero(known)[3])
    without = known.copy()
    without[cell] = False
    slopes, intercept = ridge(A[without], VALUES[0, without], float(penalty))
    assert predicted[0, cell] == pytest.approx(A[cell] @ slopes + intercept, rel=1e-6)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_fewer_cells_than_predictors_give_the_same(leave_one_out: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    few = Targets(TARGETS.values[:, :6], TARGETS.known[:, :6], VALUES[:, :6])
    near = np.array([np.delete(np.arange(9), i) for i in range(4)])
    dual = regress(few, LINES[:, :6], near, Threads(1), leave_one_out=leave_one_out)[0]
    monkeypatch.setattr("accams.fit.local._Batch._by_cells", _Batch._by_predictors)
    primal = regress(few, LINES[:, :6], near, Threads(1), leave_one_out=leave_one_out)[0]
    np.testing.assert_allclose(dual[0], primal[0], atol=1e-5)
    np.testing.assert_allclose(dual[1].slopes, primal[1].slopes, atol=1e-5)


def test_coefficients_predict_new_cells() -> None:
    _, found = regress(Targets(LINES, np.ones(LINES.shape, bool), LINES), LINES, others(9), Threads(1))[0]
    new = RANDOM.normal(size=(9, 5))
    expected = [found.slopes[i] @ np.delete(new, i, axis=0) + found.intercepts[i] for i in range(9)]
    np.testing.assert_allclose(found.predict(new), expected)


def test_lines_that_cannot_be_regressed_stay() -> None:
    known = np.zeros((3, 40), bool)
    known[0, :2] = known[1] = True
    values = np.where(known, 1.5, 0.0)
    predicted, found = regress(Targets(values, known, VALUES[:3]), LINES, NEAR[:3], Threads(1))[0]
    np.testing.assert_array_equal(predicted, VALUES[:3])
    assert not found.usable.any()
    np.testing.assert_array_equal(found.predict(LINES)[:3], LINES[:3])


def test_nearest_are_the_most_correlated() -> None:
    units = unit_lines(LINES)
    correlation = np.abs(np.corrcoef(LINES)) - 2 * np.eye(9)
    expected = np.sort(np.argsort(-correlation, axis=1)[:, :3], axis=1)
    np.testing.assert_array_equal(nearest(units, units, 3, Threads(1)), expected)
    assert nearest(units, units, 60, Threads(1)).shape == (9, 8)
    np.testing.assert_array_equal(nearest(units[:2], units.copy(), 1, Threads(1)), [[0], [1]])
    assert nearest(units[:1], units[:0], 3, Threads(1)).shape == (1, 0)
    np.testing.assert_array_equal(others(3), [[1, 2], [0, 2], [0, 1]])


def test_threads_and_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = regress(TARGETS, LINES, NEAR, Threads(1), FURTHER, leave_one_out=True)
    monkeypatch.setattr("accams.fit.local.ENTRIES", ENTRIES // ENTRIES)
    two = regress(TARGETS, LINES, NEAR, Threads(3), FURTHER, leave_one_out=True)
    for (a, _), (b, _) in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
