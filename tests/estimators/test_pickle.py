"""Pickled models hold the bytes of their files: they are small, and answer as the models do."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from accams import ACCAMS, BayesianACCAMS, ItemACCAMS
from accams.data.planted import planted_stencils

pytestmark = pytest.mark.usefixtures("short_explanations")
PAIRS = [(0, 1), (29, 19), (3, -7)]


@pytest.fixture(scope="module", params=["ACCAMS", "BayesianACCAMS", "ItemACCAMS"])
def fitted(request: pytest.FixtureRequest) -> Any:
    planted = planted_stencils((30, 20), 2, 3, density=0.5, noise=0.3, random_state=0)
    how: dict[str, Any] = {"random_state": 0, "verbose": False}
    if request.param == "ACCAMS":
        estimator: Any = ACCAMS(n_stencils=4, n_clusters=4, **how)
    elif request.param == "BayesianACCAMS":
        estimator = BayesianACCAMS(n_stencils=2, n_clusters=3, n_chains=2, n_sweeps=12, **how)
    else:
        estimator = ItemACCAMS(penalty=1.0, **how)
    return estimator.fit(planted.observations)


def answers(model: Any) -> Any:
    if model.predicts:
        return model.predict(PAIRS).tolist(), model.recommend(0, n=3)["item"].tolist(), repr(model.explain(0, 1))
    return model.recommend(0, n=3)["item"].tolist()


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_copies_answer_alike(fitted: Any, copied: Any) -> None:
    model = fitted.model_
    again = copied(model)
    assert again is not model
    assert answers(again) == answers(model)
    assert answers(copied(fitted).model_) == answers(model)


def test_a_pickle_is_about_as_small_as_the_file(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.accams", history=True)
    assert len(pickle.dumps(fitted.model_)) < (tmp_path / "model.accams").stat().st_size + 200
    joblib.dump(fitted, tmp_path / "estimator")
    assert answers(joblib.load(tmp_path / "estimator").model_) == answers(fitted.model_)


def test_a_small_model_keeps_what_its_file_leaves_out(fitted: Any) -> None:
    if fitted.model_.predicts:
        small = fitted.model_.compress(5000, verbose=False)
        again = pickle.loads(pickle.dumps(small))
        assert (again.activity is None) == (small.activity is None)
        assert answers(again) == answers(small)


def test_ids_that_no_file_can_hold() -> None:
    pairs = np.empty((4, 2), object)
    pairs[:] = [[(1, 2), "a"], [(1, 2), "b"], [(3, 4), "a"], [(3, 4), "b"]]
    for row, who in enumerate([(1, 2), (1, 2), (3, 4), (3, 4)]):
        pairs[row, 0] = who
    model = ACCAMS(n_stencils=1, n_clusters=2, verbose=False).fit(pairs, [1.0, 2.0, 3.0, 5.0]).model_
    again = pickle.loads(pickle.dumps(model))
    assert again.users.tolist() == model.users.tolist()
    assert (again.predict(pairs) == model.predict(pairs)).all()
