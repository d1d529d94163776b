"""Stencils of a matrix in memory: the residual stays exact, errors fall, and sizes and prices are kept."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest

from accams.fit.distill import Source, distill, grow_best
from accams.fit.ladder import Ladder
from accams.fit.starts import add_part, grow
from accams.fit.target import of_matrix
from accams.fit.whole import Part, Whole
from accams.model import file
from accams.threads import Threads

NONE = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def matrix_of(shape=(120, 300), seed=0) -> np.ndarray:
    random = np.random.default_rng(seed)
    rank = random.normal(size=(shape[0], 6)) * 0.7 ** np.arange(6) @ random.normal(size=(6, shape[1]))
    return (
        5.0 + rank + random.normal(size=(8, 9))[random.integers(8, size=shape[0])][:, random.integers(9, size=shape[1])]
    )


def source_of(matrix: np.ndarray) -> Source:
    ones = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    return Source(of_matrix(matrix, *ones, min(matrix.shape)), Threads(1), 0, matrix)


def begun(matrix: np.ndarray, price: float) -> Whole:
    whole = Whole.of(matrix, float(matrix.mean()), Threads(1))
    grow(whole, add_part, (12, 16), price)
    return whole


def test_the_residual_is_what_stencils_leave():
    matrix = matrix_of()
    whole = begun(matrix, 3.0)
    whole.round(3.0)
    assert len(whole) > 1
    left = matrix - whole.to_sum(0.0, NONE).dense()
    np.testing.assert_allclose(whole.rest, left, atol=1e-4)
    assert whole.left()[0] == pytest.approx(np.square(left).sum(), rel=1e-4)
    rounded = whole.rounded(3.0)
    np.testing.assert_allclose(rounded.rest, matrix - rounded.to_sum(3.0, NONE).dense(), atol=1e-4)
    while len(whole):
        whole.drop(0)
    np.testing.assert_allclose(whole.rest, matrix - matrix.mean(), atol=1e-4)


def test_visits_lower_the_objective():
    matrix, price = matrix_of(), 3.0
    whole = begun(matrix, price)
    costs = []
    for _ in range(4):
        costs.append(whole.left()[0] + price * whole.all_bits())
        whole.round(price)
    assert all(after <= before * 1.001 for before, after in pairwise(costs))
    assert costs[-1] < costs[0]


def test_templates_are_means_of_what_the_others_leave():
    whole = begun(matrix_of(), 3.0)
    whole.visit(1, 0.0)
    part, compared = whole.parts[1], 0
    own = whole.rest + part.template[part.rows][:, part.cols]
    for a, b in np.ndindex(part.template.shape):
        block = own[part.rows == a][:, part.cols == b]
        if block.size:
            assert part.template[a, b] == pytest.approx(block.mean(), abs=1e-4)
            compared += 1
    assert compared > 10


def test_empty_clusters_are_removed():
    part = Part(np.array([0, 2, 2], np.uint16), np.array([1, 1], np.uint16), np.arange(9.0).reshape(3, 3)).compacted()
    np.testing.assert_array_equal(part.template, [[1.0], [7.0]])
    assert part.rows.tolist() == [0, 1, 1]
    assert part.square() == 2 * (1 + 49 + 49)


@pytest.mark.parametrize("shape", [(120, 300), pytest.param((60, 900), marks=pytest.mark.full), (150, 6)])
def test_distilled_from_cells_it_is_no_worse_than_by_factors(shape):
    matrix, sizes, errors = matrix_of(shape), [], []
    for cells in (None, matrix):
        made = distill(source_of(matrix).target, 1500, NONE, matrix=cells)
        sizes.append(len(file.to_bytes(made)))
        errors.append(np.sqrt(np.mean((made.dense() - matrix) ** 2)))
    assert max(sizes) <= 1500
    assert errors[1] < 1.05 * errors[0]


def test_the_same_for_any_threads():
    matrix = matrix_of()
    made = [distill(source_of(matrix).target, 2000, NONE, matrix=matrix, threads=Threads(n)).dense() for n in (1, 3)]
    np.testing.assert_array_equal(*made)


def test_rungs_grow_as_prices_fall():
    seen = []
    ladder = Ladder(matrix_of(), 0, Threads(1), seen.append)
    rungs = list(islice(ladder.rungs(), 5))
    assert sorted(rungs, key=lambda rung: rung.size) == rungs
    assert sorted(rungs, key=lambda rung: -rung.error) == rungs
    assert rungs[0].error == pytest.approx(matrix_of().var())
    assert len(seen) >= 4
    assert ladder.rung(rungs[1].price) is rungs[1]  # and is not made again
    constant = Ladder(np.full((5, 4), 3.0), 0, Threads(1), seen.append)
    assert (constant.bare.error, list(constant.rungs())) == (0.0, [constant.bare])
    row = Ladder(np.arange(9.0)[None], 0, Threads(1), seen.append)
    assert list(row.rungs()) == [row.bare]


def test_the_better_start_is_taken():
    matrix = matrix_of()
    best = grow_best(source_of(matrix), 10.0)
    assert best.left()[0] < 0.9 * best.total
