"""k-means on sums: seeds, clusters and sketches."""

from __future__ import annotations

import numpy as np
import pytest
import twins

from accams.engine import kmeans
from accams.threads import Threads

inits = pytest.mark.parametrize("init", ["k-means++", "random"])


def points(m=40, k=3, seed=0, missing=True):
    """Three groups of points with weights; some coordinates have no weight."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 3, m)
    n = rng.integers(0 if missing else 1, 5, (m, k))
    centre = np.array([[0, 5000, -9000], [7000, 100, 3000], [-4000, -4000, 4000]])[:, :k]
    return n, n * (centre[groups] + rng.integers(-50, 50, (m, k))), groups


def run(n, sums, k, init, seed=0, threads=None, max_iter=20):
    threads = threads or Threads(1)
    ranges = threads.split_evenly(len(n), n.shape[1])
    return kmeans.cluster(n, sums, k, init, np.random.default_rng(seed), max_iter, threads, ranges)


def test_groups_far_apart_are_found():
    n, sums, groups = points(missing=False)
    labels = run(n, sums, 3, "k-means++")
    assert len({*zip(groups.tolist(), labels.tolist(), strict=True)}) == len(set(labels.tolist())) == 3


@inits
@pytest.mark.parametrize("seed", range(5))
def test_every_point_is_with_its_nearest_centre(init, seed):
    n, sums, _ = points(seed=seed)
    labels = run(n, sums, 4, init, seed, max_iter=100)
    N, L, _ = twins.block_tables(n, sums, labels, 4)
    T = np.rint(kmeans.means(N, L))
    np.testing.assert_array_equal(labels, np.argmin(twins.costs(n, sums, T, 1.0), axis=1))


def test_one_cluster_needs_no_random_numbers():
    n, sums, _ = points()
    generator = np.random.default_rng(0)
    labels = kmeans.cluster(n, sums, 1, "k-means++", generator, 20, Threads(1), [(0, 40)])
    assert not labels.any()
    assert generator.random() == np.random.default_rng(0).random()


def test_means():
    np.testing.assert_array_equal(
        kmeans.means(np.array([[2, 0], [4, 1]]), np.array([[5, 0], [-2, 3]])), [[2.5, 0], [-0.5, 3]]
    )


def centres(n, sums, k, init, seed=0):
    return kmeans.centres(n, sums, k, init, np.random.default_rng(seed), Threads(1), [(0, len(n))])


@inits
@pytest.mark.parametrize("seed", range(5))
def test_centres_are_different_points(init, seed):
    n, sums, _ = points(missing=False)
    T = centres(n, sums, 10, init, seed)
    candidates = {tuple(x) for x in np.rint(sums / n)}
    assert len({tuple(x) for x in T} & candidates) == 10


@inits
def test_fewer_points_than_clusters(init):
    n, sums = np.ones((2, 1), int), np.array([[7], [-3]])
    T = centres(n, sums, 5, init)
    assert sorted(T.ravel()) == [-3, 0, 0, 0, 7]
    assert run(n, sums, 5, init).tolist() in ([0, 1], [1, 0])


def test_equal_points_are_chosen_once():
    T = centres(np.ones((6, 1), int), np.full((6, 1), 9), 3, "k-means++")
    assert sorted(T.ravel()) == [0, 0, 9]


def test_points_at_zero_have_nothing_to_choose():
    assert not centres(np.ones((6, 2), int), np.zeros((6, 2), int), 3, "k-means++").any()


def test_far_points_are_chosen_in_proportion_to_their_squared_distance():
    """From 0 the points 1, 2 and 4 are at squared distance 1, 4 and 16: the first centre by those odds."""
    n, sums = np.ones((3, 1), int), np.array([[1], [2], [4]])
    first = [centres(n, sums, 1, "k-means++", seed)[0, 0] for seed in range(2000)]
    shares = np.array([np.mean(np.array(first) == x) for x in (1, 2, 4)])
    np.testing.assert_allclose(shares, np.array([1, 4, 16]) / 21, atol=0.05)  # five standard errors


# -- sketches -----------------------------------------------------------------------------------------------------


def sketched(X, seed):
    groups = kmeans.signed_groups(X.shape[1], len(X), np.random.default_rng(seed))
    sums = twins.by_label(X, groups.labels, groups.k)
    return groups, groups.combine(sums)


def test_a_signed_sketch_keeps_distances():
    """Within a few tens of percent each, and without bias on average."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.integers(-999, 999, (5, 1000)), np.full((1, 1000), 500), np.zeros((1, 1000), int)])
    true = ((X[:, None] - X) ** 2).sum(axis=2)
    ratios = []
    for seed in range(1, 21):
        groups, (n, sums) = sketched(X, seed)
        assert sums.shape == (7, groups.k // 2) == (7, kmeans.SKETCH)
        assert (n == 1).all()
        ratios.append((((sums[:, None] - sums) ** 2).sum(axis=2) / np.maximum(true, 1))[np.triu_indices(7, 1)])
    assert np.min(ratios) > 0.4
    assert np.max(ratios) < 1.8
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1.0, atol=0.15)


def test_a_short_side_has_no_more_groups_than_positions():
    groups, (_, sums) = sketched(np.arange(10).reshape(2, 5), 0)
    assert groups.k == 10
    assert sums.shape == (2, 5)


def test_plain_groups_are_no_more_than_positions():
    assert set(kmeans.plain_groups(50, 4, np.random.default_rng(0)).tolist()) == {0, 1, 2, 3}
    assert kmeans.plain_groups(3, 400, np.random.default_rng(0)).max() < 3


def test_first_centres_come_from_some_points_where_there_are_many():
    """They are found on an eighth of three clear clusters, and the rounds are those of all points."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 400)
    l = 1000 * np.eye(3, dtype=np.int64)[truth] + rng.integers(-50, 50, (400, 3))
    some = kmeans.some_points(400, np.random.default_rng(2), 50)
    assert 40 < len(some) <= 50
    assert (np.diff(some) > 0).all()
    threads = Threads(2, chunk_size=64)
    how = "k-means++", np.random.default_rng(0), 10, threads, threads.split_evenly(400, 3)
    labels = kmeans.cluster(np.ones_like(l), l, 3, *how, n_points=50)
    assert len(set(zip(labels.tolist(), truth.tolist(), strict=True))) == 3
