"""Profiles of histories and scores of items, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from accams.kernels.lists import add_scores, history_profile, keep_best
from accams.model.stencils import StencilSum
from accams.use.scoring import Catalogue, Sums


def a_sum(n: int, n_stencils: int, seed: int) -> StencilSum:
    random = np.random.default_rng(seed)
    model = StencilSum((n, n))
    for _ in range(n_stencils):
        k = random.integers(1, 6, 2)
        model = model.append(random.normal(size=k), *(random.integers(size, size=n) for size in k))
    return model


@pytest.mark.parametrize("n_stencils", [0, 1, 7, 80])
@pytest.mark.parametrize("seed", range(3))
def test_profiles_and_scores_of_a_history(n_stencils, seed):
    n, random = 20, np.random.default_rng(seed)
    model = a_sum(n, n_stencils, seed)
    codes = model.codes
    for size in (0, 1, 13):
        items, x = random.permutation(n)[:size].astype(np.int64), np.zeros(n)
        x[items] = random.normal(size=size)
        profile = np.full(int(codes.widths.sum()) + 1, np.nan)
        room = np.full(codes.flat.size + 1, np.nan)
        history_profile(items, x[items], codes.rows, codes.flat, codes.starts, codes.widths, room, profile)
        columns = np.sort(random.permutation(n)[:12])
        layout = Catalogue.of(Sums([codes], [None]), columns)
        total, table = np.zeros(12), np.zeros((layout.places.shape[1], layout.widest))
        add_scores(profile, layout.places, layout.widths, layout.codes, 0, table, total)
        np.testing.assert_allclose(total, (x @ model.dense())[columns], atol=1e-12)
        some = np.zeros(5)
        add_scores(profile, layout.places, layout.widths, layout.codes, 4, table, some)
        np.testing.assert_array_equal(some, total[4:9])


@pytest.mark.parametrize("n", [1, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_them(n, seed):
    random = np.random.default_rng(seed)
    total, left_out = random.integers(0, 5, 8).astype(float), random.integers(0, 2, 8)
    best, scores = np.full(n, -1, np.int64), np.zeros(n)
    kept = keep_best(total, left_out, 1, best, scores)
    allowed = np.flatnonzero(left_out != 1)
    expected = allowed[np.argsort(-total[allowed], kind="stable")][:n]
    assert best[:kept].tolist() == expected.tolist()
    assert scores[:kept].tolist() == total[expected].tolist()
    assert set(best[kept:]) <= {-1}
