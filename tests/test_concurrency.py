"""Threads and processes that use the same model, or fit at the same time, get the same results to the last bit."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Barrier
from typing import Any

import joblib
import numpy as np
import pytest

import accams
from accams import ACCAMS, BayesianACCAMS, ItemACCAMS, Model
from accams.fitted.files import to_bytes

KINDS = ("accams", "bayesian", "lists")
N = 30_000  # pairs, enough for predictions on several threads


@cache
def ratings() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    cells = np.flatnonzero(random.random(60 * 40) < 0.4)
    pairs = np.stack(np.unravel_index(cells, (60, 40)), axis=1)
    return pairs, random.integers(1, 6, len(pairs)).astype(float)


def fitted(kind: str) -> Model:
    made: dict[str, Callable[[], Any]] = {
        "accams": lambda: ACCAMS(n_stencils=3, n_clusters=3, random_state=0),
        "dense": lambda: ACCAMS(n_stencils=3, n_clusters=3, random_state=0, engine="dense"),
        "bayesian": lambda: BayesianACCAMS(3, 3, n_chains=2, n_sweeps=6, noise=0.7, random_state=0),
        "lists": lambda: ItemACCAMS(max_bytes=2000, penalty=20.0, random_state=0),
    }
    return made[kind]().fit(*ratings()).model_  # type: ignore[no-any-return]


def digest(model: Model) -> str:
    return sha256(to_bytes(model, ids=True, interactions=True)).hexdigest()


def answers(model: Model) -> str:
    """Ask all that a model can answer; return a hash of the answers."""
    told: list[Any] = [[*map(tuple, model.recommend([0, 1, 2], 5))], [*model.similar(3, 4)]]
    guest = model.fold_in({1: 5.0, 2: 1.0})
    told.append([*map(tuple, guest.recommend(5))])
    if model.predicts:
        pairs = np.random.default_rng(1).integers(0, 40, (N, 2))
        told += [model.predict(pairs).tobytes(), guest.predict([3, 4]).tobytes(), str(model.explain(0, 1))]
        told += [str(model.hierarchy()), str(model.explain(0, 2))]
    return sha256(repr(told).encode()).hexdigest()


def answers_of_file(path: str) -> str:
    return answers(accams.load(path))


def fresh(kind: str) -> Model:
    """A model that has not answered anything yet, so that all it keeps is built by those who ask."""
    return pickle.loads(pickle.dumps(fitted(kind)))  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=KINDS)
def asked(request: pytest.FixtureRequest) -> tuple[Model, str]:
    model = fresh(request.param)
    return model, answers(fresh(request.param))


@pytest.mark.some(1)
def test_sixteen_threads_ask_one_model(asked: tuple[Model, str]) -> None:
    model, expected = asked
    start = Barrier(16)

    def ask() -> str:
        start.wait(60)
        return answers(model)

    with ThreadPoolExecutor(16) as pool:
        assert {task.result() for task in [pool.submit(ask) for _ in range(16)]} == {expected}


class Replaced(dict[Any, Any]):
    """What a model keeps, replaced by another thread as soon as something is added to it."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.owner.__dict__[self.name] = {}


def test_two_threads_build_what_a_model_keeps() -> None:
    """Since Python 3.12, cached properties have no lock: one of two threads loses what it has put there."""
    model = fresh("bayesian")
    model.__dict__["_kept"] = Replaced(model, "_kept")
    assert len(model.similar(3, 4)) == 4
    model.__dict__["_kept"] = Replaced(model, "_kept")
    assert len(model.thin(1).codes) == 1
    model.sums.__dict__["_pairs"] = Replaced(model.sums, "_pairs")
    assert model.sums.column_pairs(0).ndim == 2


@pytest.mark.parametrize("kind", [*KINDS, "dense"])
@pytest.mark.some(1)
def test_four_threads_fit_at_once(kind: str) -> None:
    expected = digest(fitted(kind))
    with ThreadPoolExecutor(4) as pool:
        assert {digest(model) for model in pool.map(fitted, [kind] * 4)} == {expected}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.some(1)
def test_forked_processes_ask_and_fit(asked: tuple[Model, str]) -> None:
    """After the parent has used its threads."""
    model, expected = asked
    answers(model)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert set(pool.map(answers, [model] * 4)) == {expected}
        assert pool.apply(fit_and_digest, ("accams",)) == fit_and_digest("accams")


def fit_and_digest(kind: str) -> str:
    return digest(fitted(kind))


@pytest.mark.some(1)
def test_cloudpickle(asked: tuple[Model, str]) -> None:
    """With all that the model keeps, and inside of a function."""
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    model, expected = asked
    answers(model)
    assert answers(pickle.loads(cloudpickle.dumps(model))) == expected
    assert pickle.loads(cloudpickle.dumps(lambda: answers(model)))() == expected


def test_joblib_threads(asked: tuple[Model, str]) -> None:
    model, expected = asked
    found = joblib.Parallel(n_jobs=4, backend="threading")(joblib.delayed(answers)(model) for _ in range(4))
    assert set(found) == {expected}


@pytest.mark.full
@pytest.mark.parametrize("how", ["spawn", "forkserver", "loky"])
def test_new_processes_ask_and_fit(how: str, asked: tuple[Model, str], tmp_path: Path) -> None:
    model, expected = asked
    model.save(tmp_path / "m.accams", history=True)
    if how == "loky":
        run = joblib.Parallel(n_jobs=2, backend="loky")
        assert set(run(joblib.delayed(answers)(model) for _ in range(2))) == {expected}
        assert set(run(joblib.delayed(fit_and_digest)("bayesian") for _ in range(2))) == {fit_and_digest("bayesian")}
        return
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {how}")
    with multiprocessing.get_context(how).Pool(2) as pool:
        assert set(pool.map(answers, [model] * 2)) == {expected}
        assert set(pool.map(answers_of_file, [str(tmp_path / "m.accams")] * 2)) == {expected}
        assert set(pool.map(fit_and_digest, ["bayesian"] * 2)) == {fit_and_digest("bayesian")}
