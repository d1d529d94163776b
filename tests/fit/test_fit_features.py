"""Features as numbers, the regression of labels on them, and blocks that held-out observations refuse."""

from __future__ import annotations

import numpy as np
import pytest

from accams import Observations
from accams.data.features import FeatureTable
from accams.fit.blocks import Blocks, held_out_weights
from accams.fit.pattern import by_chance, pattern_features
from accams.model.codes import Codes
from accams.model.features import Encoder
from accams.model.knowledge import Knowledge, pack, unpack
from accams.use.traits import LabelPriors, Regression, with_constant

RANDOM = np.random.default_rng(0)


def table_of(size: int = 40) -> FeatureTable:
    kinds = [["a"], ["b", "c"], [], ["c"]]
    columns = {"size": RANDOM.normal(size=size), "kind": [kinds[p % 4] for p in range(size)]}
    columns["size"][3] = np.nan
    return FeatureTable(np.arange(size), columns)


def test_numbers_are_shared_by_neighbours() -> None:
    table = FeatureTable(np.arange(3), {"x": np.array([0.0, 10.0, 4.0])})
    shares, known = Encoder.learned(table).shares(table)
    np.testing.assert_allclose(shares, [[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    outside = FeatureTable(np.arange(4), {"x": np.array([-5.0, 99.0, 7.0, np.nan])})
    shares, known = Encoder.learned(table).shares(outside)
    np.testing.assert_allclose(shares, [[1, 0, 0], [0, 0, 1], [0, 0.5, 0.5], [0, 0, 0]])
    assert known.all(axis=1).tolist() == [True, True, True, False]


def test_what_is_missing_is_average() -> None:
    table = table_of()
    encoder = Encoder.learned(table)
    assert encoder.labels[-3:] == ["kind a", "kind b", "kind c"]
    nothing = FeatureTable(np.arange(1), {"size": np.array([np.nan]), "kind": [[]]})
    np.testing.assert_array_equal(encoder.features(nothing), np.zeros((1, encoder.components.shape[1])))
    traits = encoder.traits(table)
    assert not traits[3, : len(encoder.columns[0].knots)].any()


def test_features_have_the_variance_of_their_components() -> None:
    X = Encoder.learned(table_of(400)).features(table_of(400))
    variances = X.var(axis=0)
    assert variances[0] == pytest.approx(1.0, rel=0.15)
    assert np.all(np.diff(variances) < 0.1)
    assert np.abs(np.corrcoef(X[:, :3].T) - np.eye(3)).max() < 0.2


def test_tables_are_taken_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of()
    encoder = Encoder.learned(table)
    known = Knowledge.of(encoder, table, np.arange(40)[::-1].copy(), 43)
    for module in ("data.features", "model.knowledge"):
        monkeypatch.setattr(f"accams.{module}.PIECE", 7)
    again = Encoder.learned(table)
    for name in ("mean", "deviation", "components"):
        np.testing.assert_allclose(getattr(again, name), getattr(encoder, name), atol=1e-12)
    np.testing.assert_allclose(again.features(table), encoder.features(table), atol=1e-12)
    packed = Knowledge.of(encoder, table, np.arange(40)[::-1].copy(), 43)
    np.testing.assert_array_equal(packed.codes, known.codes)
    monkeypatch.undo()
    np.testing.assert_allclose(packed.features(), known.features(), atol=1e-12)


def test_knowledge_is_packed_and_unpacked() -> None:
    table = table_of()
    encoder = Encoder.learned(table)
    known = Knowledge.of(encoder, table, np.arange(40), 43)
    again = unpack(*pack(known), 43)
    np.testing.assert_array_equal(again.traits(np.arange(43)), known.traits(np.arange(43)))
    assert known.given.tolist() == [True] * 40 + [False] * 3
    np.testing.assert_allclose(known.traits(np.arange(40)), encoder.traits(table), atol=0.05)
    np.testing.assert_array_equal(known.without(2).codes, np.delete(known.codes, 2, axis=0))


@pytest.mark.parametrize(
    "lie",
    [
        {"columns": []}, {"columns": [{"name": "x"}]}, {"columns": [{"name": "x", "knots": [1.0]}]},
        {"columns": [{"name": "x", "knots": [2.0, 1.0]}]}, {"columns": [{"knots": [1.0, 2.0]}]},
    ],
)  # fmt: skip
def test_knowledge_that_lies(lie: dict) -> None:
    fields, tensors = pack(Knowledge.of(Encoder.learned(table := table_of()), table, np.arange(40), 40))
    with pytest.raises((ValueError, LookupError)):
        unpack(fields | lie, tensors, 40)
    for name, x in tensors.items():
        for wrong in (x[:-1], x.astype(np.float32), np.zeros(0, x.dtype)):
            with pytest.raises((ValueError, LookupError, IndexError)):
                unpack(fields, {**tensors, name: wrong}, 40)


def test_left_out_errors_are_those_of_leaving_out() -> None:
    traits, weights, values = RANDOM.normal(size=(30, 4)), RANDOM.uniform(1, 9, 30), RANDOM.normal(size=(30, 2))
    penalties = np.array([0.1, 3.0])
    found = list(Regression(traits, weights, 0.0).left_out_errors(values, penalties))
    for penalty, left in zip(penalties, found, strict=True):
        for row in (0, 17):
            rest = np.arange(30) != row
            fitted = Regression(traits[rest], weights[rest], penalty).solution @ values[rest]
            np.testing.assert_allclose(left[row], values[row] - (with_constant(traits[[row]]) @ fitted)[0], rtol=1e-6)


def test_labels_follow_features() -> None:
    """Two kinds of rows with labels of their own: those of new rows are probable, the average row never."""
    kind = np.arange(60) % 2
    labels = [kind.astype(np.uint8), (1 - kind).astype(np.uint8)]
    cols = [np.zeros(4, np.uint8), np.zeros(4, np.uint8)]
    nothing = np.zeros(0, np.int64)
    codes = Codes.of([np.ones((2, 1))] * 2, (labels, cols), (60, 4), (nothing, nothing), (None, None), 0.0)
    regression = Regression(2.0 * kind[:, None] - 1.0, np.ones(60), 0.1)
    priors = LabelPriors(regression, np.arange(60), np.array([[1.0], [-1.0], [np.nan]]))
    frequencies = np.log([0.5, 0.5, 1e-300, 0.5, 0.5, 1e-300])
    p = np.exp(priors.logs(codes, frequencies))
    assert p[0, 1] > 0.99 > 0.01 > p[0, 0]
    assert p[0, 3] > 0.99
    assert p[1, 0] > 0.99
    np.testing.assert_allclose(p[2, [0, 1, 3, 4]], 0.5)
    assert not p[:, [2, 5]].any()


def test_blocks_that_fit_noise_are_refused() -> None:
    told, noise = RANDOM.normal(size=(2, 5000))
    errors = 1.2 * told - (told + noise) + RANDOM.normal(size=5000)
    weights, deviations = held_out_weights(np.array([told, noise]), errors, np.ones(5000))
    assert weights == pytest.approx([1.2, 0.0], abs=0.06)
    assert deviations == pytest.approx([1.0 / 5000**0.5] * 2, rel=0.1)
    blocks = Blocks(np.ones((9, 2)), np.ones((9, 3)))
    few, (mask, _) = blocks.only(weights)
    assert few.present == ["implicit"]
    assert mask is not None
    assert mask.tolist() == [True] * 2 + [False] * 3
    assert blocks.only(weights, ["columns"])[0].present == ["implicit", "columns"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("skew", [0.0, 0.7])
def test_chance_has_no_features(seed: int, skew: float) -> None:
    """Where cells are observed independently, with popular rows and columns or without, no feature is found."""
    random = np.random.default_rng(seed)
    rows, cols = (np.exp(skew * random.normal(size=n)) for n in (400, 250))
    p = np.minimum(12_000 * np.outer(rows / rows.sum(), cols / cols.sum()), 1.0)
    i, j = np.nonzero(random.random(p.shape) < p)
    obs = Observations.from_coo(i, j, np.ones(len(i)) + i % 2, shape=(400, 250))
    assert pattern_features(obs, None, 0) is None
    assert by_chance((obs.counts(0), obs.counts(1))) > 0.0
