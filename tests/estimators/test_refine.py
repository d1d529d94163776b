"""Stencil sums moved towards matrices, functions and observed entries, with and without a bound on bytes."""

from __future__ import annotations

import numpy as np
import pytest
from bayes_models import make
from scipy import sparse

import accams
from accams import ACCAMS, InputError, Model, Observations, StencilSum, distill, refine
from accams.data.planted import planted_graph, planted_stencils
from accams.model import file

CLEAN = planted_stencils((120, 90), 3, 4, nnz=6000, random_state=1)
NOISY = planted_stencils((120, 90), 3, 4, nnz=6000, noise=0.3, random_state=1)
SMOOTH = np.add.outer(np.sin(np.arange(90) / 9), np.cos(np.arange(70) / 5)) * np.linspace(1, 3, 70)


def weighted(observations: Observations) -> Observations:
    i, j, y = observations.coo()
    weights = np.random.default_rng(0).integers(1, 5, len(y)) / 2
    return Observations.from_coo(i, j, y, weights=weights, shape=observations.shape)


GRAPH = Observations.from_sparse(sparse.csr_array(planted_graph(80, 400, 4)), zeros="observed")
TARGETS = {"gaps": NOISY.observations, "weights": weighted(NOISY.observations), "graph": GRAPH, "matrix": SMOOTH}


def start_for(target, n_stencils=6, n_clusters=5) -> StencilSum:
    return ACCAMS(n_stencils, n_clusters, learning_rate=1.0).fit(target).stencils_


def error(model: StencilSum, target) -> float:
    """Root mean squared, over the cells that count and by their weights."""
    if isinstance(target, np.ndarray):
        return float(np.sqrt(np.mean((model.dense() - target) ** 2)))
    i, j, y = target.coo()
    M, W = np.zeros(target.shape), np.full(target.shape, target.blank_weight or 0.0)
    M[i, j], W[i, j] = y, 1.0 if target.weights is None else target.weights
    return float(np.sqrt(np.average((model.dense() - M) ** 2, weights=W)))


@pytest.mark.parametrize("kind", TARGETS)
def test_every_kind_of_target(kind):
    target = TARGETS[kind]
    first = start_for(target)
    better = refine(first, target)
    assert error(better, target) < (0.999 if kind == "graph" else 0.95) * error(first, target)
    assert len(better) <= len(first)
    again = refine(first, target, n_threads=1)
    np.testing.assert_array_equal(better.dense(), again.dense())


def test_what_was_planted_is_nearly_found_again():
    """Without noise, from a start that is off: a seventh of the labels of every stencil is wrong."""
    random = np.random.default_rng(0)
    wrong = StencilSum(CLEAN.observations.shape, 0.0, ())
    for T, rows, cols in zip(CLEAN.templates, CLEAN.row_labels, CLEAN.col_labels, strict=True):
        both = [np.where(random.random(len(x)) < 1 / 7, random.integers(0, 4, len(x)), x) for x in (rows, cols)]
        wrong = wrong.append(T, *both)
    assert error(wrong, CLEAN.observations) > 0.5
    assert error(refine(wrong, CLEAN.observations, n_rounds=50), CLEAN.observations) < 0.2 * error(
        wrong, CLEAN.observations
    )


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", TARGETS)
def test_no_larger_than_allowed(kind, tmp_path):
    target = TARGETS[kind]
    first = start_for(target, 12)
    errors = []
    for max_bytes in (1200, 1800):
        small = refine(first, target, max_bytes=max_bytes)
        small.save(tmp_path / "s")
        assert (tmp_path / "s").stat().st_size <= max_bytes
        np.testing.assert_array_equal(accams.load(tmp_path / "s").stencils.dense(), small.dense())
        errors.append(error(small, target))
    assert errors[1] < errors[0] < error(StencilSum(first.shape, first.offset, ()), target)


def test_bits_are_well_spent():
    """At the same bytes better than the first stencils alone, and those rounded."""
    target = TARGETS["gaps"]
    first = start_for(target, 12)
    small = refine(first, target, max_bytes=2000)
    prefix = max(
        (first.truncate(n).rounded("int8") for n in range(12)), key=lambda x: (len(file.to_bytes(x)) <= 2000, len(x))
    )
    assert len(file.to_bytes(prefix)) <= 2000
    assert error(small, target) < error(prefix, target)


def test_one_that_fits_stays_whole():
    first = start_for(SMOOTH)
    assert len(refine(first, SMOOTH, max_bytes=10**6)) == len(first)


def test_a_function_of_cells():
    first = start_for(SMOOTH)
    whole = refine(first, lambda i, j: SMOOTH[i, j])
    np.testing.assert_allclose(whole.dense(), refine(first, SMOOTH).dense(), atol=0.3)
    one, other = distill(lambda i, j: SMOOTH[i, j], 1200, shape=SMOOTH.shape), distill(SMOOTH, 1200)
    assert error(one, SMOOTH) == pytest.approx(error(other, SMOOTH), rel=0.2)
    assert max(len(file.to_bytes(x)) for x in (one, other)) <= 1200


def test_weights_say_what_matters():
    rows = np.where(np.arange(90) < 45, 100.0, 1.0)
    small = distill(SMOOTH, 1500, weights=(rows, np.ones(70)))
    half = [float(np.mean((small.dense() - SMOOTH)[part] ** 2)) for part in (slice(45), slice(45, 90))]
    assert half[0] < 0.5 * half[1]


IDS = np.array([f"u{i}" for i in range(120)]), np.array([f"i{j}" for j in range(90)])


def named(observations):
    i, j, y = observations.coo()
    return np.column_stack([IDS[0][i], IDS[1][j]]), y


def test_a_model_with_ids():
    pairs, y = named(NOISY.observations)
    model = ACCAMS(5, 5).fit(pairs, y)
    part = np.random.default_rng(0).permutation(len(y))[:5000]  # in any order, not all of them
    better = model.refine(pairs[part], y[part], shrinkage=0.5, n_rounds=3)
    assert isinstance(better, Model)
    assert better.score(pairs[part], y[part]) > model.score(pairs[part], y[part])
    small = model.refine(pairs, y, max_bytes=1500)
    assert len(file.to_bytes(small.stencils)) <= 1500
    with pytest.raises(InputError, match="row u999 is not in the model"):
        model.refine([["u999", "i3"]], [1.0])
    with pytest.raises(InputError, match="column u3 is not in the model"):
        model.refine([["u1", "u3"]], [1.0])


def test_a_posterior_is_compressed_first():
    pairs, y = named(NOISY.observations)
    model = make(n_stencils=4, n_clusters=5, n_sweeps=12).fit(pairs, y)
    with pytest.raises(InputError, match="compress it first"):
        model.refine(pairs, y)
    small = model.compress(2500, ids=False)
    assert small.refine(pairs, y).score(pairs, y) > small.score(pairs, y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: refine(ACCAMS(), SMOOTH), "starts from a StencilSum, not from a ACCAMS"),
        (lambda: refine(start_for(SMOOTH), SMOOTH[:5]), "the target is 5 x 70, but the model is 90 x 70"),
        (lambda: refine(start_for(SMOOTH), SMOOTH, max_bytes=10), "too small: a model without any stencil takes"),
        (lambda: refine(start_for(SMOOTH), SMOOTH, n_rounds=0), "n_rounds"),
        (lambda: refine(start_for(SMOOTH), SMOOTH, shrinkage=-1), "shrinkage"),
        (lambda: refine(start_for(SMOOTH), SMOOTH, weights="much"), "weights must be"),
        (lambda: refine(start_for(TARGETS["gaps"]), TARGETS["gaps"], weights=(1, 2)), "give the observations weights"),
        (lambda: refine(start_for(SMOOTH), lambda i, j: np.zeros(3)), "returned an array of shape"),
        (lambda: refine(start_for(SMOOTH), lambda i, j: np.full(len(i), np.nan)), "missing .NaN. or infinite"),
        (lambda: distill(lambda i, j: i, 3000), "needs shape"),
        (lambda: distill(lambda i, j: i, 3000, shape=(0, 5)), "number of rows"),
        (lambda: distill(np.where(SMOOTH > 2, np.nan, SMOOTH), 3000), "fit a model to it and compress that"),
        (lambda: distill(SMOOTH, 0), "max_bytes"),
        (lambda: distill(SMOOTH, 3000, weights=(np.ones(3), np.ones(70))), "row weights must be 90 numbers"),
    ],
)
def test_one_sentence_on_what_is_wrong(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_continuous_effects_are_refused():
    model = start_for(SMOOTH)
    effects = StencilSum(model.shape, 0.0, model.stencils, row_effects=np.ones(90, np.float32))
    with pytest.raises(InputError, match="continuous effects"):
        refine(effects, SMOOTH)


def test_nothing_to_begin_with():
    empty = StencilSum(SMOOTH.shape, 1.0, ())
    assert len(refine(empty, SMOOTH)) == 0
    assert len(refine(StencilSum((120, 90), 1.0, ()), NOISY.observations, max_bytes=900)) == 0
