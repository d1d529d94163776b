"""Fits of real data: better than biases, the same for any number of threads, small where they should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accams import ACCAMS, baselines, metrics
from accams.data import datasets
from accams.data.splits import random_split

pytestmark = pytest.mark.data


def test_movielens_100k_beats_biases_as_it_comes(load: Any) -> None:
    train, test = random_split(load("ml-100k.zip", datasets.movielens, "100k").observations, 0.1, 0)
    rows, cols, truth = test.coo()
    bias = metrics.rmse(truth, np.clip(baselines.biases(train).predict(rows, cols), 1, 5))
    model = ACCAMS(verbose=False).fit(train)
    assert -model.score(test) < bias - 0.005
    assert model.stencils_.bits / 8 < 20_000


def test_movielens_100k_is_the_same_with_one_thread_and_two(load: Any) -> None:
    observations = load("ml-100k.zip", datasets.movielens, "100k").observations
    one, two = (ACCAMS(5, n_relearn=1, n_threads=n, verbose=False).fit(observations).stencils_ for n in (1, 2))
    for a, b in zip(one.stencils, two.stencils, strict=True):
        assert np.array_equal(a.template, b.template)
        assert np.array_equal(a.row_labels, b.row_labels)
        assert np.array_equal(a.col_labels, b.col_labels)


def test_the_as_graph_in_few_bytes(load: Any) -> None:
    observations = load("oregon2_010526.txt", datasets.as_graph, "oregon2").observations
    model = ACCAMS(2, 16, verbose=False).fit(observations)
    relative = model.train_rmse_ * observations.shape[0] / np.sqrt(observations.nnz)
    assert model.engine_ == "graph"
    assert relative < 0.86  # an SVD of rank 8 at 32 bits has 0.858 with 30 times the bytes
    assert model.stencils_.bits / 8 < 26_000


@pytest.mark.full
def test_faces_in_few_bytes(load: Any) -> None:
    observations = load("cmu-faces.tar.gz", datasets.faces).observations
    model = ACCAMS(3, 16, verbose=False).fit(observations)
    assert model.engine_ == "dense"
    exact = np.sqrt(np.mean((model.stencils_.dense() - observations.values.reshape(observations.shape)) ** 2))
    assert model.train_rmse_ == pytest.approx(exact, rel=1e-6)
    assert exact < 22.0
