"""The loaders on the real archives: the published counts come out."""

from __future__ import annotations

import numpy as np
import pytest

from accams.data import datasets

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "shape", "nnz", "mean"),
    [("100k", (943, 1682), 100_000, 3.52986), ("1m", (6040, 3706), 1_000_209, 3.581564)],
)
def test_movielens(load, name, shape, nnz, mean):
    data = load(f"ml-{name}.zip", datasets.movielens, name)
    obs = data.observations
    assert obs.shape == shape
    assert obs.nnz == nnz
    assert obs.value_range == (1, 5)
    assert obs.mean() == pytest.approx(mean, abs=1e-5)
    assert data.titles[1] == "Toy Story (1995)"
    assert set(obs.col_index.ids.tolist()) <= set(data.titles)
    assert obs.times.min() > 874_000_000
    assert [obs.empty(axis).size for axis in (0, 1)] == [0, 0]


def test_movielens_1m_titles_are_latin_1(load):
    titles = load("ml-1m.zip", datasets.movielens, "1m").titles
    assert len(titles) == 3883
    assert any("\u00e9" in title for title in titles.values())


@pytest.mark.full
def test_faces(load):
    data = load("cmu-faces.tar.gz", datasets.faces)
    obs = data.observations
    assert obs.shape == (640, 15_360)
    assert obs.is_complete
    assert data.image_shape == (120, 128)
    assert len({name.split("_")[0] for name in obs.row_index.ids}) == 20
    assert obs.value_range[0] >= 0
    assert obs.value_range[1] <= 255


@pytest.mark.parametrize(
    ("name", "file", "nodes", "edges"),
    [
        ("oregon2", "oregon2_010526.txt", 11_461, 32_730),
        ("as-22july06", "as-22july06.gml.gz", 22_963, 48_436),
    ],
)
def test_graphs(load, name, file, nodes, edges):
    obs = load(file, datasets.as_graph, name).observations
    assert obs.shape == (nodes, nodes)
    assert obs.nnz == 2 * edges
    assert obs.blank_weight == 1
    assert set(obs.values.tolist()) == {1.0}
    rows, cols, _ = obs.coo()
    np.testing.assert_array_equal(np.sort(rows * nodes + cols), np.sort(cols * nodes + rows))


def test_jester(load):
    obs = load("jester5k.csv.gz", datasets.jester).observations
    assert obs.shape == (5000, 100)
    assert obs.nnz == 363_209
    low, high = obs.value_range
    assert low == pytest.approx(-9.95, abs=1e-4)
    assert high == pytest.approx(9.9, abs=1e-4)
