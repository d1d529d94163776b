"""Every kind of model, put to use."""

from __future__ import annotations

import numpy as np
import pytest
from bayes_models import make
from shared_use import SEEN, TABLE, UseTests

from accams import ACCAMS, BayesianACCAMS
from accams.estimators.small import StencilModel

BAYES = {"n_stencils": 5, "n_clusters": 5, "n_sweeps": 12, "noise": 0.5}


class TestACCAMS(UseTests):
    def fit(self) -> ACCAMS:
        return ACCAMS(5, 4, shrinkage=1.0, verbose=False).fit(TABLE)


class TestBayes(UseTests):
    has_draws = True

    def fit(self) -> BayesianACCAMS:
        return make(**BAYES).fit(TABLE)


class TestEffects(UseTests):
    has_draws = True

    def fit(self) -> BayesianACCAMS:
        return make(**BAYES, effects="continuous").fit(TABLE)


class TestProbabilities(UseTests):
    has_draws = True

    def fit(self) -> BayesianACCAMS:
        return make(**BAYES, rao_blackwell=True, row_noise=None, clip=False).fit(TABLE)


class TestCompressed(UseTests):
    def fit(self) -> StencilModel:
        return make(**BAYES).fit(TABLE).compress(2500, verbose=False)


def test_rows_that_have_a_place_but_no_data():
    matrix = np.arange(30.0).reshape(6, 5) % 7
    matrix[3] = np.nan
    model = ACCAMS(2, 2).fit(matrix)
    found = model.recommend([3, 2], 2, exclude_seen=False)
    assert found.rules.tolist() == ["average row"] * 2 + [""] * 2
    assert 3 not in dict(model.similar(1, 10, side="rows"))


@pytest.mark.parametrize("ids", [True, False])
def test_a_file_with_many_draws_knows_what_was_seen_unless_ids_are_left_out(ids, tmp_path):
    import accams

    make(**BAYES).fit(TABLE).save(tmp_path / "m.accams", ids=ids)
    loaded = accams.load(tmp_path / "m.accams")
    assert (getattr(loaded, "seen_", None) is not None) == ids
    assert len(SEEN) == 59
