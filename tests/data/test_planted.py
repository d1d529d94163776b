"""Planted data have the stated properties."""

from __future__ import annotations

import numpy as np
import pytest

from accams.data import planted
from accams.data.planted import paper_example, planted_graph, planted_stencils
from accams.errors import InputError


def assert_well_formed(obs, nnz):
    n = obs.shape[1]
    assert obs.nnz == nnz == obs.row_starts[-1]
    assert obs.row_starts[0] == 0
    rows, cols, _ = obs.coo()
    assert cols.max() < n
    assert (np.diff(rows * n + cols) > 0).all()  # sorted, without duplicates


@pytest.mark.parametrize("degrees", ["uniform", "long-tailed"])
@pytest.mark.parametrize("density", [0.003, 0.05, 0.3, 0.9, 1.0])
def test_entries_are_the_planted_sum(degrees, density):
    made = planted_stencils((120, 90), 3, (4, 5), density=density, degrees=degrees, offset=3.5)
    assert_well_formed(made.observations, round(density * 120 * 90))
    rows, cols, values = made.observations.coo()
    total = np.full(len(rows), 3.5)
    for T, c, d in zip(made.templates, made.row_labels, made.col_labels, strict=True):
        assert T.shape == (4, 5)
        total += T[c[rows], d[cols]]
    np.testing.assert_array_equal(values, total)
    np.testing.assert_array_equal(made.dense()[rows, cols], total)


def test_noise_has_its_size():
    made = planted_stencils((300, 200), 2, 3, noise=0.5)
    rows, cols, values = made.observations.coo()
    assert np.std(values - made.predict(rows, cols)) == pytest.approx(0.5, rel=0.02)


def test_uniform_degrees_are_equal_and_all_columns_are_as_likely():
    obs = planted_stencils((2000, 50), 1, 2, nnz=20_010).observations
    assert set(np.diff(obs.row_starts).tolist()) == {10, 11}
    counts = np.bincount(obs.cols, minlength=50)
    assert abs(counts - 400.2).max() < 5 * 20  # five standard deviations


def test_long_tails_have_a_head():
    obs = planted_stencils((2000, 500), 1, 2, density=0.05, degrees="long-tailed").observations
    for counts in (np.diff(obs.row_starts), np.bincount(obs.cols, minlength=500)):
        counts = np.sort(counts)
        assert counts[-len(counts) // 10 :].sum() > 0.3 * counts.sum()
    assert np.diff(obs.row_starts).min() >= 1


def test_crowded_rows_follow_the_popularities():
    """The exact choice of columns agrees with drawing them one by one."""
    rng = np.random.default_rng(0)
    columns = planted._Columns(6, "long-tailed", rng)
    drawn = columns.draw(np.full(40_000, 3), rng).reshape(-1, 3)
    share = np.bincount(drawn.ravel(), minlength=6) / len(drawn)
    slow = np.zeros(6)
    p = columns.popularity / columns.popularity.sum()
    for _ in range(4000):
        slow[rng.choice(6, 3, replace=False, p=p)] += 1 / 4000
    np.testing.assert_allclose(share, slow, atol=0.04)


@pytest.mark.parametrize("chunk", [7, 100])
def test_chunks_cover_all_rows(monkeypatch, chunk):
    monkeypatch.setattr(planted, "CHUNK", chunk)
    made = planted_stencils((50, 40), 1, 2, density=0.2, degrees="long-tailed")
    assert_well_formed(made.observations, 400)
    rows, cols, values = made.observations.coo()
    np.testing.assert_array_equal(made.predict(rows, cols), values)


def test_seeds_decide():
    first, again, other = (planted_stencils((20, 20), 1, 2, density=0.5, random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.observations.values, again.observations.values)
    assert not np.array_equal(first.observations.cols, other.observations.cols)


def test_wide_index_type():
    obs = planted_stencils((3, 70_000), 1, 2, nnz=300).observations
    assert obs.cols.dtype == np.uint32
    assert_well_formed(obs, 300)


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": (0, 3)}, {"density": 0.0}, {"density": 1.5}, {"nnz": 0}, {"nnz": 101}, {"noise": -1.0},
        {"scale": 0.0}, {"degrees": "other"}, {"n_clusters": 0}, {"n_stencils": -1},
    ],
)  # fmt: skip
def test_stencils_refuse(arguments):
    with pytest.raises(InputError):
        planted_stencils(**{"shape": (10, 10), "n_stencils": 1, "n_clusters": 2, **arguments})


@pytest.mark.parametrize(("nodes", "edges", "blocks"), [(40, 100, 3), (40, 780, 3), (5000, 20_000, 7), (2, 1, 1)])
def test_graph_is_symmetric_and_simple(nodes, edges, blocks):
    graph = planted_graph(nodes, edges, blocks)
    assert graph.shape == (nodes, nodes)
    assert graph.nnz == 2 * edges
    assert (graph != graph.T).nnz == 0
    assert not graph.diagonal().any()
    assert (graph.data == 1).all()


@pytest.mark.parametrize("nodes", [600, 5000])  # both sampling methods
def test_graph_has_more_edges_inside_blocks(nodes):
    graph = planted_graph(nodes, 4 * nodes, 4).tocoo()
    block = np.arange(nodes) * 4 // nodes
    assert (block[graph.row] == block[graph.col]).mean() > 0.5


@pytest.mark.parametrize("arguments", [(5, 0, 1), (5, 11, 1), (5, 3, 6), (5, 3, 0)])
def test_graph_refuses(arguments):
    with pytest.raises(InputError):
        planted_graph(*arguments)


def test_paper_example():
    matrix, templates, row_labels, col_labels = paper_example()
    assert [t.shape for t in templates] == [(3, 3), (3, 2)]
    total = sum(t[np.ix_(c, d)] for t, c, d in zip(templates, row_labels, col_labels, strict=True))
    np.testing.assert_array_equal(matrix, total)
    assert np.linalg.matrix_rank(matrix) == 4
    assert len({tuple(row) for row in matrix}) == 9
    assert len({tuple(col) for col in matrix.T}) == 6


def test_no_sum_of_a_3x3_and_a_3x2_stencil_has_rank_5():
    rng = np.random.default_rng(0)
    ranks = []
    for _ in range(200):
        made = (rng.normal(size=(3, k))[np.ix_(rng.integers(3, size=9), rng.integers(k, size=9))] for k in (3, 2))
        ranks.append(np.linalg.matrix_rank(sum(made)))
    assert max(ranks) == 4
