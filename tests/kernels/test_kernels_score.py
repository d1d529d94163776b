"""The best columns against single predictions, and folded-in rows against a slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from accams.model.codes import Codes
from accams.model.interactions import Interactions
from accams.use.fold import PASSES, fold
from accams.use.scoring import Catalogue, Sums, expected_lines

NONE = np.zeros(0, np.int64)


def random_sum(random, shape, shapes, effects=False, unseen=NONE):
    templates = [random.normal(size=k).astype(np.float32) for k in shapes]
    labels = tuple([random.integers(0, k[axis], shape[axis]) for k in shapes] for axis in (0, 1))
    both = tuple(random.normal(size=n).astype(np.float32) if effects else None for n in shape)
    return Codes.of(templates, labels, shape, (unseen, unseen), both, float(random.normal()))


def moments(sums, rows, cols):
    """Return mean and variance over the sums of the predictions of all columns."""
    i, j = np.repeat(rows, len(cols)), np.tile(cols, len(rows))
    draws = [
        each.predict(i, j) if shares is None else each.predict_probable(shares, i, j)
        for each, shares in zip(sums.codes, sums.shares, strict=True)
    ]
    return tuple(x.reshape(len(rows), len(cols)) for x in (np.mean(draws, axis=0), np.var(draws, axis=0)))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6), st.integers(1, 4), st.lists(st.tuples(st.integers(1, 5), st.integers(1, 18)), max_size=80),
    st.booleans(), st.integers(1, 12), st.sampled_from([0.0, 1.3]),
)  # fmt: skip
def test_the_best_columns(seed, draws, shapes, effects, n, lower):
    random = np.random.default_rng(seed)
    shape = (6, 15)
    sums = Sums([random_sum(random, shape, shapes, effects, np.array([2])) for _ in range(draws)], [None] * draws)
    columns = random.permutation(15)[: random.integers(1, 16)]
    counts = random.integers(0, 5, 6)
    seen = Interactions(np.concatenate([[0], np.cumsum(counts)]), random.integers(0, 15, counts.sum()))
    rows, noise = np.array([3, -1, 2, 0]), np.array([0.1, 0.2, 0.0, 3.0])
    catalogue = Catalogue.of(sums, columns)
    found = catalogue.best(rows, n, catalogue.places_of(rows, seen), noise, lower)
    mean, variance = moments(sums, rows, columns)
    score = mean - lower * np.sqrt(variance + noise[:, None]) if lower else mean
    assert found.shape == (4, min(n, len(columns)))
    for u, row in enumerate(rows):
        own = set(seen.columns[seen.starts[row] : seen.starts[row + 1]].tolist()) if row >= 0 else set()
        left = [p for p in np.argsort(-score[u], kind="stable") if columns[p] not in own][:n]
        assert (found[u, len(left) :] == -1).all()
        places = [columns.tolist().index(j) for j in found[u, : len(left)]]
        np.testing.assert_allclose(score[u, places], score[u, left], atol=1e-6)
        assert len(set(places)) == len(left)


def test_wide_templates_and_probabilities():
    random = np.random.default_rng(0)
    one = random_sum(random, (8, 500), [(3, 400), (2, 3), (4, 300), (5, 6)])
    heights = [4, 3, 5, 6]
    shares = random.integers(0, 255, (9, sum(heights)), dtype=np.uint8)
    shares[:, 0] += 1
    sums, rows = Sums([one, one], [None, shares]), np.arange(8)
    catalogue = Catalogue.of(sums, np.arange(500))
    found = catalogue.best(rows, 500, catalogue.places_of(rows, None))
    mean, _ = moments(sums, rows, np.arange(500))
    for u in rows:
        np.testing.assert_allclose(mean[u, found[u]], np.sort(mean[u])[::-1], atol=1e-6)
        assert sorted(found[u]) == list(range(500))
    lines = expected_lines(one, shares.astype(float))
    assert lines.shape == (9, int(one.widths.sum()))


def test_equal_scores_keep_the_order_of_columns():
    sums = Sums([random_sum(np.random.default_rng(0), (2, 6), [])], [None])
    catalogue = Catalogue.of(sums, np.arange(6))
    assert catalogue.best(np.array([0]), 3, catalogue.places_of(np.array([0]), None)).tolist() == [[0, 1, 2]]


def fold_twin(codes, cols, values, noise, weights=1.0):
    """Infer probabilities of labels by coordinate ascent, straight from the formulas."""
    templates = [codes.template(s).astype(np.float64) for s in range(len(codes.starts))]
    frequent = [
        np.bincount(codes.rows[:-1, s], minlength=len(T))[: len(T) - 1] + 1 / (len(T) - 1)
        for s, T in enumerate(templates)
    ]
    lines, labels, effect = [T[-1] for T in templates], [0] * len(templates), 0.0
    shares = [np.ones(1)] * len(templates)
    other = np.zeros(len(cols)) if codes.col_effects is None else codes.col_effects[cols].astype(np.float64)

    def left(without):
        rest = sum(line[codes.cols[cols, s]] for s, line in enumerate(lines) if s != without)
        return values - codes.offset - other - rest - (0.0 if without == "effect" else effect)

    for _ in range(PASSES):
        if codes.row_effects is not None:
            variance = np.mean(np.delete(codes.row_effects[:-1], 1).astype(np.float64) ** 2)  # the second is unseen
            effect = left("effect").sum() / (len(cols) + noise**2 / variance)
        for s, T in enumerate(templates):
            away = left(s)[None] - T[:-1][:, codes.cols[cols, s]]
            score = np.log(frequent[s] / frequent[s].sum()) - (weights * away**2).sum(axis=1) / (2 * noise**2)
            share = np.exp(score - score.max())
            lines[s], labels[s] = share / share.sum() @ T[:-1], int(np.argmax(score))
            shares[s] = share / share.sum()
    return np.concatenate(lines), labels, effect, shares


@pytest.mark.parametrize("effects", [False, True])
def test_new_rows(effects):
    random = np.random.default_rng(1)
    draws = [random_sum(random, (20, 30), [(4, 3), (2, 5), (1, 1), (6, 2)], effects, np.array([1])) for _ in range(3)]
    sums, sizes = Sums(draws, [None] * 3), [5, 1, 12]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    cols, values = random.integers(0, 30, 18), random.normal(size=18)
    found = fold(sums, 0.7, begins, cols, values)
    for u in range(3):
        part = slice(begins[u], begins[u + 1])
        for d, codes in enumerate(draws):
            lines, labels, effect, _ = fold_twin(codes, cols[part], values[part], 0.7)
            own = found.profiles[u, sums.places[d] : sums.places[d + 1]]
            np.testing.assert_allclose(own, lines, atol=1e-9)
            np.testing.assert_allclose(found.constants[u, d], codes.offset + effect, atol=1e-9)
            assert found.labels[d][u].tolist() == labels
        mean, _ = found.predict(sums, u, np.arange(30))
        catalogue = Catalogue.of(sums, np.arange(30))
        none = catalogue.places_of(np.zeros(1, np.int64), None)
        profiles, constants = (np.ascontiguousarray(x[u : u + 1]) for x in found.in_units(sums))
        best = catalogue.best_of(profiles, constants, 30, none, None, 0.0)[0]
        np.testing.assert_allclose(mean[best], np.sort(mean)[::-1], atol=1e-6)


@pytest.mark.parametrize("blank", [1.0, 0.3, 1e-3])
def test_new_rows_whose_blanks_are_zeros(blank):
    random = np.random.default_rng(3)
    draws = [random_sum(random, (20, 30), [(4, 3), (2, 5), (1, 1), (6, 2)]) for _ in range(2)]
    sums, sizes = Sums(draws, [None] * 2), [5, 1, 0, 12]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    cols = np.concatenate([random.permutation(30)[:size] for size in sizes])
    values = random.normal(size=18)
    found = fold(sums, 0.7, begins, cols, values, blank=blank)
    for u in range(4):
        part = slice(begins[u], begins[u + 1])
        whole, weights = np.zeros(30), np.full(30, blank)
        whole[cols[part]], weights[cols[part]] = values[part], 1.0
        for d, codes in enumerate(draws):
            lines, labels, _, _ = fold_twin(codes, np.arange(30), whole, 0.7, weights)
            np.testing.assert_allclose(found.profiles[u, sums.places[d] : sums.places[d + 1]], lines, atol=1e-9)
            assert found.labels[d][u].tolist() == labels


def test_labels_are_drawn_by_their_probabilities():
    """Four chi-square tests; with a correct sampler one of them fails for one seed in a thousand."""
    random = np.random.default_rng(2)
    codes, n = random_sum(random, (20, 30), [(4, 3), (2, 5), (3, 3), (6, 2)]), 4000
    cols, values = random.integers(0, 30, 3), random.normal(size=3)
    *_, shares = fold_twin(codes, cols, values, 0.9)
    begins = 3 * np.arange(n + 1)
    found = fold(Sums([codes], [None]), 0.9, begins, np.tile(cols, n), np.tile(values, n), seed=0)
    for s, share in enumerate(shares):
        counts = np.bincount(found.labels[0][:, s], minlength=len(share))
        assert chisquare(counts, n * share).pvalue > 0.001 / 4
    again = fold(Sums([codes], [None]), 0.9, begins, np.tile(cols, n), np.tile(values, n), seed=0)
    np.testing.assert_array_equal(again.labels[0], found.labels[0])


def test_a_new_row_can_be_further_off_than_any_that_the_model_has():
    sums = Sums([random_sum(np.random.default_rng(0), (4, 6), [(2, 2)])], [None])
    assert abs(int(sums.in_units(np.array([1e12]))[0])) <= 2**30
