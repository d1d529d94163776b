"""Sums over all cells from codes and lines against the full matrix."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.engine.blanks import MOST_CODES, Blanks
from accams.kernels import blanks as kernels
from accams.model.stencils import label_type
from accams.threads import Threads

SHAPE = (19, 14)
OFFSET = 7
shapes = st.lists(st.tuples(st.sampled_from([1, 2, 7, 16, 256, 300]), st.sampled_from([1, 3, 16, 260])), max_size=7)


def narrow(ks):
    """Return these shapes, none so wide that labels and codes take two bytes."""
    return [(min(a, MOST_CODES), min(b, MOST_CODES)) for a, b in ks]


class Model:
    """Random stencils, and the same ones in `Blanks`. Labels are all of the type that the largest ones need."""

    def __init__(self, ks, seed=0, big=2**24):
        self.rng, self.big, self.blanks = np.random.default_rng(seed), big, Blanks(SHAPE, OFFSET)
        self.templates, self.labels = [], ([], [])
        self.label = label_type(max((max(k) for k in ks), default=1))
        for stencil, k in enumerate(ks):
            self.put(stencil, k)

    def put(self, stencil, k):
        """Put a random stencil in place of one that is there, or after the last."""
        self.label = np.promote_types(self.label, label_type(max(k)))
        new = [self.rng.integers(0, k[axis], SHAPE[axis]).astype(self.label) for axis in (0, 1)]
        parts = self.rng.integers(-self.big, self.big, k).astype(np.int32), *new
        for values, part in zip((self.templates, *self.labels), parts, strict=True):
            values[stencil : stencil + 1] = [part]
        self.blanks.put(stencil, self.templates, self.labels)

    def stencils(self):
        """Return labels and templates, those of the offset first."""
        zeros = ([np.zeros(size, int)] for size in SHAPE)
        rows, cols = (one + labels for one, labels in zip(zeros, self.labels, strict=True))
        return rows, cols, [np.array([[OFFSET]]), *self.templates]


def check_sums(model, threads=None, factors=(2, -3, 5)):
    """Compare `group_lines` and `add_lines` on both axes with sums of the full matrix."""
    rows, cols, templates = model.stencils()
    for axis, k in ((0, 4), (1, 6)):
        m, n = SHAPE[axis], SHAPE[1 - axis]
        labels = model.rng.integers(0, k, n).astype(np.uint8)
        own, other, Ts = (rows, cols, templates) if axis == 0 else (cols, rows, [T.T for T in templates])
        expected = twins.block_sums(own, other, Ts, labels, k)
        counts, sums = model.rng.integers(0, 99, (2, m, k))
        before, mass = (counts.copy(), sums.copy()), np.arange(k)
        blanks, (f, g, h) = model.blanks, factors
        lines = blanks.lines(axis, labels, k, -9, threads or Threads(1))
        kernels.add_lines(2, m - 1, blanks.codes[axis], blanks.first[axis], lines, mass, factors, counts, sums)
        some = slice(2, m - 1)
        np.testing.assert_array_equal(counts[some], (f * before[0] + mass)[some])
        np.testing.assert_array_equal(sums[some], (g * before[1] + h * before[0] - 9 * expected)[some])
        for after, old in zip((counts, sums), before, strict=True):  # other rows are not touched
            np.testing.assert_array_equal(np.delete(after, some, 0), np.delete(old, some, 0))


def check_squares(model, threads=None):
    stencils = list(zip(*model.stencils(), strict=True))
    exact = sum(twins.inner_product(one, other) for one in stencils for other in stencils)
    size = sum(abs(twins.inner_product(one, other)) for one in stencils for other in stencils)
    found = model.blanks.squares(threads or Threads(1))
    assert found == pytest.approx(exact, rel=1e-12, abs=1e-14 * size)
    return found


@settings(deadline=None)
@given(ks=shapes, seed=st.integers(0, 99))
def test_sums_of_all_cells(is_quick, ks, seed):
    model = Model(narrow(ks) if is_quick else ks, seed)
    check_sums(model)
    check_squares(model)


def test_more_clusters_than_a_byte_has_labels():
    model = Model([(300, 260), (2, 3)])
    assert [codes.dtype for codes in model.blanks.codes] == [np.uint16, np.uint16]
    check_sums(model)
    check_squares(model)


@settings(deadline=None)
@given(
    ks=shapes.filter(bool),
    seed=st.integers(0, 99),
    which=st.integers(0, 6),
    k=st.sampled_from([None, (5, 2), (300, 1)]),
)
def test_a_stencil_is_replaced_by_one_of_the_same_or_another_shape(is_quick, ks, seed, which, k):
    if is_quick:
        ks, k = narrow(ks), k and narrow([k])[0]
    model, which = Model(ks, seed), which % len(ks)
    check_squares(model)
    model.put(which, k or ks[which])
    check_sums(model)
    check_squares(model)


def test_a_stencil_that_is_taken_out_counts_for_nothing():
    model = Model([(3, 4), (2, 5), (16, 16), (4, 4)])
    before = check_squares(model)
    for stencil in range(4):
        T, model.templates[stencil] = model.templates[stencil], np.zeros_like(model.templates[stencil])
        model.blanks.take(stencil)
        check_sums(model)
        assert check_squares(model) != before
        model.templates[stencil] = T
        model.blanks.put(stencil, model.templates, model.labels)
        assert check_squares(model) == before  # to the bit, whichever inner products were computed anew


def test_labels_share_codes_as_far_as_these_go(monkeypatch):
    monkeypatch.setattr(kernels, "replace", lambda *_: None)  # only the layout matters
    blanks = Model([(10, 10), (10, 10), (10, 10), (4, 2), (2, 4), (4, 200), (300, 5), (5, 300)]).blanks
    assert blanks.members.tolist() == [0, 3, 6, 7, 8, 9]
    assert np.diff(blanks.first)[:, :3].max() <= MOST_CODES
    assert [codes.dtype for codes in blanks.codes] == [np.uint16, np.uint16]


def test_as_many_clusters_as_a_byte_has_labels():
    model = Model([(256, 256), (1, 1), (2, 2)])
    assert model.blanks.members.tolist() == [0, 3, 4]
    check_sums(model)
    check_squares(model)


def test_threads_do_not_matter():
    ks = [(10, 10)] * 9
    alone, together = Model(ks), Model(ks)
    check_sums(together, Threads(3, 1))
    assert check_squares(alone) == check_squares(together, Threads(3, 1))
    np.testing.assert_array_equal(alone.blanks.gram, together.blanks.gram)
