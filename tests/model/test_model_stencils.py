"""StencilSum: predictions, the rule for rows never seen, building, checks, sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.data.observations import Observations
from accams.errors import InputError
from accams.model.size import bytes_text, entropy_bits, factor_bits, model_bits, stencil_bits
from accams.model.stencils import Stencil, StencilSum, label_type


def random_model(seed=0, shape=(9, 7), shapes=((3, 2), (1, 4), (2, 5)), unseen=((), ())) -> StencilSum:
    rng = np.random.default_rng(seed)
    model = StencilSum(shape, 0.75, (), *(np.array(x, dtype=np.int64) for x in unseen))
    for k in shapes:
        model = model.append(rng.normal(size=k), *(rng.integers(0, a, size) for a, size in zip(k, shape, strict=True)))
    return model


def brute(model: StencilSum, rows, cols) -> list[float]:
    """Predictions by the rule: a row never seen is the average over the seen rows, a column likewise."""
    seen = [
        np.setdiff1d(np.arange(size), gone)
        for size, gone in zip(model.shape, (model.unseen_rows, model.unseen_cols), strict=True)
    ]
    out = []
    for i, j in zip(rows, cols, strict=True):
        own = seen[0] if i == -1 or i in model.unseen_rows else [i]
        other = seen[1] if j == -1 or j in model.unseen_cols else [j]
        total = model.offset
        for s in model.stencils:
            total += np.mean(
                [[s.template[s.row_labels[a], s.col_labels[b]] for b in other] for a in own], dtype=np.float64
            )
        out.append(total)
    return out


UNSEEN = [((), ()), ((2,), ()), ((0, 8), (3, 4))]


@pytest.mark.parametrize("unseen", UNSEEN)
def test_predictions(unseen):
    model = random_model(unseen=unseen)
    rows, cols = (x.ravel() - 1 for x in np.indices((10, 8)))  # -1 included, on both sides
    np.testing.assert_allclose(model.predict(rows, cols), brute(model, rows, cols), rtol=1e-6)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_predictions_of_any_model(data):
    m, n = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    shapes = data.draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=3))
    gone = [sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=size - 1))) for size in (m, n)]
    model = random_model(data.draw(st.integers(0, 99)), (m, n), shapes, gone)
    rows, cols = (x.ravel() - 1 for x in np.indices((m + 1, n + 1)))
    np.testing.assert_allclose(model.predict(rows, cols), brute(model, rows, cols), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("unseen", UNSEEN)
def test_dense_is_every_prediction(unseen):
    model = random_model(unseen=unseen)
    rows, cols = np.indices(model.shape)
    np.testing.assert_allclose(model.dense().ravel(), model.predict(rows.ravel(), cols.ravel()), rtol=1e-14)


def test_without_any_row_seen_all_template_rows_count_alike():
    model = StencilSum((2, 2), 1.0, (), np.arange(2), np.zeros(0, np.int64)).append([[0.0], [4.0]], [0, 0], [0, 0])
    np.testing.assert_array_equal(model.predict([0, 1, -1], [0, 0, 0]), 3.0)


@pytest.mark.parametrize("k", [255, 256, 257])
def test_many_clusters(k):
    """256 clusters fit into 8 bits; together with the average they do not."""
    rng = np.random.default_rng(k)
    model = StencilSum((300, 4), 0.0).append(rng.normal(size=(k, 2)), np.arange(300) % k, [0, 1, 0, 1])
    assert model.row_labels[0].dtype == (np.uint8 if k <= 256 else np.uint16)
    rows, cols = np.array([k - 1, 299, 0, -1]), np.array([0, 1, -1, 2])
    np.testing.assert_allclose(model.predict(rows, cols), brute(model, rows, cols), rtol=1e-5, atol=1e-6)


def test_one_row_against_many_columns():
    model = random_model()
    np.testing.assert_array_equal(model.predict(3, np.arange(7)), model.dense()[3])
    np.testing.assert_array_equal(model.predict(np.arange(9), 2), model.dense()[:, 2])
    assert model.predict([], []).shape == (0,)


@pytest.mark.parametrize(("rows", "cols"), [([9], [0]), ([0], [7]), ([-2], [0]), ([0], [-2])])
def test_positions_outside(rows, cols):
    with pytest.raises(InputError, match="positions must lie between 0 and"):
        random_model().predict(rows, cols)


def test_residual():
    model, rng = random_model(), np.random.default_rng(1)
    X = np.where(rng.random((9, 7)) < 0.5, rng.normal(size=(9, 7)), np.nan)
    obs = Observations.from_dense(X)
    np.testing.assert_allclose(model.residual(obs), (X - model.dense())[~np.isnan(X)], atol=1e-6)
    with pytest.raises(InputError, match="the model is"):
        model.residual(Observations.from_dense(np.ones((7, 9))))


def test_a_model_without_stencils():
    model = StencilSum((3, 2), 1.5)
    assert len(model) == model.bits == 0
    np.testing.assert_array_equal(model.dense(), np.full((3, 2), 1.5))
    np.testing.assert_array_equal(model.predict([0, -1], [1, -1]), 1.5)


def test_a_whole_number_as_offset():
    model = StencilSum((2, 3), 1).append([[0.5, -0.5]], [0, 0], [0, 1, 1])
    np.testing.assert_array_equal(model.predict([0], [0]), 1.5)
    np.testing.assert_array_equal(model.dense()[0], [1.5, 0.5, 0.5])


# -- building -----------------------------------------------------------------------------------------------------


def test_append_and_truncate_leave_the_old_one_alone():
    model = random_model(unseen=((1,), (2,)))
    more = model.append([[1.0]], np.zeros(9, int), np.zeros(7, int))
    assert (len(model), len(more)) == (3, 4)
    np.testing.assert_allclose(more.dense(), model.dense() + 1.0)
    np.testing.assert_array_equal(more.truncate(3).dense(), model.dense())
    assert more.truncate(2).unseen_rows.tolist() == [1]
    assert len(model.truncate(0)) == 0
    for bad in (-1, 4):
        with pytest.raises(InputError, match="has 3 stencils"):
            model.truncate(bad)


@pytest.mark.parametrize(
    ("template", "rows", "cols", "message"),
    [
        ([1.0], [0], [0], "a template is a matrix"),
        (np.zeros((0, 2)), [0], [0], "a template is a matrix"),
        ([[1.0, 2.0]], [0, 1], [0], "row_labels must lie between 0 and 0"),
        ([[1.0, 2.0]], [0], [0, 2], "col_labels must lie between 0 and 1"),
        ([[1.0]], [-1], [0], "row_labels must lie between"),
        ([[1.0]], [0.0], [0], "row_labels must be a vector of integers"),
        ([[1.0]], [[0]], [0], "row_labels must be a vector"),
        ([[1.0]], [False], [0], "row_labels must be a vector"),
    ],
)
def test_stencils_that_make_no_sense(template, rows, cols, message):
    with pytest.raises(InputError, match=message):
        Stencil(np.asarray(template), np.asarray(rows), np.asarray(cols))


def test_a_stencil_of_another_shape():
    with pytest.raises(InputError, match=r"\(2, 1\) does not fit a model of shape \(3, 3\)"):
        StencilSum((3, 3)).append([[1.0]], [0, 0], [0])


def test_labels_are_kept_narrow():
    assert [label_type(k) for k in (1, 256, 257, 65_536, 65_537)] == [
        np.uint8,
        np.uint8,
        np.uint16,
        np.uint16,
        np.uint32,
    ]
    model = random_model()
    assert {x.dtype for x in model.row_labels + model.col_labels} == {np.dtype(np.uint8)}
    assert {T.dtype for T in model.templates} == {np.dtype(np.float32)}


def test_repr():
    assert repr(random_model()) == f"StencilSum(9 x 7, 3 stencils, {random_model().bits / 8000:.1f} KB)"


# -- sizes --------------------------------------------------------------------------------------------------------


def test_bits_by_hand():
    assert stencil_bits((8, 16), (4, 2)) == 8 * 2 + 16 * 1 + 32 * 8
    assert stencil_bits((8, 16), (1, 1)) == 32  # no labels
    assert stencil_bits((8, 16), (4, 2), 16) == 8 * 2 + 16 + 16 * 8
    assert model_bits((8, 16), [(4, 2), (1, 1)]) == 288 + 32
    assert factor_bits((8, 16), 3) == 3 * 24 * 32
    assert round(125 * stencil_bits((480_189, 17_770), (10, 10)) / 8e6, 1) == 25.9  # MB: the paper's largest model
    assert [entropy_bits(np.array(labels)) for labels in ([0, 1, 0, 1], [7, 7, 7])] == [4.0, 0.0]
    assert [bytes_text(n) for n in (999, 12_345, 5e9)] == ["999 bytes", "12.3 KB", "5.0 GB"]
    model = random_model()
    assert model.bits == pytest.approx(9 * np.log2(3) + 7 + 6 * 32 + 7 * 2 + 4 * 32 + 9 + 7 * np.log2(5) + 10 * 32)


@pytest.mark.parametrize(
    ("k", "s", "size"), [(10, 13, 2.69), (100, 5, 2.27), (10, 50, 10.4), (10, 70, 14.5), (10, 125, 25.9)]
)
def test_the_sizes_in_the_papers_table(k, s, size):
    """Netflix; MB are 10^6 bytes."""
    digits = 2 if size < 10 else 1
    assert round(model_bits((480_189, 17_770), [(k, k)] * s) / 8e6, digits) == size


def test_the_size_of_the_papers_rival():
    assert round(factor_bits((480_189, 17_770), 25) / 8e6, 1) == 49.8  # SVD++ with 25 factors


@pytest.mark.parametrize(
    ("rows", "cols", "message"),
    [
        ([[0, 1]], [[0, 1]], "equal length"),
        ([0, 1], [0, 1, 2], "equal length"),
        ([0.5], [0], "row positions must be integers"),
        (["a"], [0], "row positions must be integers"),
        ([0], [True], "column positions must be integers"),
        ([9], [0], "row positions must lie between 0 and 1"),
    ],
)
def test_positions_that_make_no_sense(rows, cols, message):
    model = StencilSum((2, 3)).append([[1.0]], [0, 0], [0, 0, 0])
    with pytest.raises(InputError, match=message):
        model.predict(rows, cols)
    assert model.predict(0, [0, 1, 2]).tolist() == [1.0, 1.0, 1.0]
