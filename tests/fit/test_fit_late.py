"""Items that come after the fit: their lines in a map, against dense matrices and by brute force."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from accams.data.feedback import Feedback
from accams.fit import late
from accams.fit.itemmap import compressed_map
from accams.fit.items import among, gram_of, masses_of
from accams.fit.late import Late, placed
from accams.fit.regression import dropped, solved
from accams.fit.tail import Options, error_of_columns
from accams.model.interactions import Interactions
from accams.model.itemmap import NOBODY, ItemMap, levels_of, scales_of
from accams.model.stencils import StencilSum

PENALTY, USERS, KNOWN, ITEMS = 5.0, 300, 30, 36
NEW = np.array([30, 31, 33, 35])


def choices(seed: int = 0) -> tuple[Interactions, np.ndarray]:
    """People of three tastes; the last items came late, and nobody has chosen the very last yet."""
    random = np.random.default_rng(seed)
    fits = random.integers(3, size=USERS)[:, None] == np.arange(ITEMS) % 3
    X = (random.random(fits.shape) < np.where(fits, 0.6, 0.1)) * random.choice([0.5, 1.0], fits.shape)
    X[: USERS // 2, KNOWN:] = 0.0
    X[:, -1] = 0.0
    rows, cols = np.nonzero(X)
    return Interactions.at(rows, cols, USERS, X[rows, cols].astype(np.float32)), X


@cache
def fitted(form: str, dropout: float = 0.0) -> ItemMap:
    some, _ = choices()
    inside = among(some, np.arange(KNOWN), ITEMS)
    gram = dropped(gram_of(inside, KNOWN), dropout)
    bare = ItemMap.empty(masses_of(inside, KNOWN), PENALTY, USERS, Feedback("weights"), dropout)
    if form == "dense":
        return replace(bare, dense=solved(gram, PENALTY).astype(np.float32)).grown(ITEMS)
    return replace(bare, stencils=compressed_map(gram, PENALTY, 3000)[0]).grown(ITEMS)


def late_of(item_map: ItemMap, had_chance: float = USERS / 2) -> Late:
    return Late(NEW, choices()[0], np.full(len(NEW), had_chance))


def regression(share: float, dropout: float) -> tuple[np.ndarray, np.ndarray]:
    """The columns of new items in closed form, one at a time, and the metric."""
    X = choices()[1]
    gram = dropped(X.T @ X, dropout)
    metric = share * gram[:KNOWN, :KNOWN] + PENALTY * np.eye(KNOWN)
    return np.linalg.solve(metric, gram[:KNOWN, KNOWN:]), gram


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("had_chance", [USERS, USERS / 4])
def test_whole_maps_get_the_lines_of_the_regression(had_chance: float, dropout: float) -> None:
    old = fitted("dense", dropout)
    new = placed(old, late_of(old, had_chance))
    columns, gram = regression(had_chance / USERS, dropout)
    B = new.to_dense()
    np.testing.assert_array_equal(B[:KNOWN, :KNOWN], old.to_dense()[:KNOWN, :KNOWN])
    some = NEW[:-1]
    np.testing.assert_allclose(B[:KNOWN, some], columns[:, some - KNOWN], atol=1e-5)
    left = gram[some, :KNOWN] - gram[some, :KNOWN] @ B[:KNOWN, :KNOWN]
    among_new = gram[np.ix_(some, some)] + PENALTY * np.eye(len(some))
    np.testing.assert_allclose(B[some, :KNOWN], np.linalg.solve(among_new, left), atol=1e-5)
    others = np.setdiff1d(np.arange(KNOWN, ITEMS), some)
    assert not B[others].any()
    assert not B[:, others].any()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_labels_are_nearly_as_good_as_the_regression(dropout: float) -> None:
    old = fitted("sum", dropout)
    share, some = 0.5, NEW[:-1]
    new = placed(old, late_of(old, share * USERS))
    best, gram = regression(share, dropout)
    metric = share * gram[:KNOWN, :KNOWN] + PENALTY * np.eye(KNOWN)
    np.testing.assert_allclose(new.to_dense()[:KNOWN, :KNOWN], old.to_dense()[:KNOWN, :KNOWN], rtol=1e-6)

    def loss(column: np.ndarray, j: int) -> float:
        return float(column @ metric @ column - 2.0 * gram[:KNOWN, j] @ column)

    for j in some:
        assert loss(best[:, j - KNOWN], j) <= loss(new.to_dense()[:KNOWN, j], j) <= 0.8 * loss(best[:, j - KNOWN], j)
    rows = new.to_dense()[some, :KNOWN]
    left = gram[some, :KNOWN] - gram[some, :KNOWN] @ new.to_dense()[:KNOWN, :KNOWN]
    target = np.linalg.solve(gram[np.ix_(some, some)] + PENALTY * np.eye(len(some)), left)
    assert np.all(np.sum((rows - target) ** 2, axis=1) < 0.8 * np.sum(target**2, axis=1))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_error_of_rows(dropout: float) -> None:
    """What row labels cost is how far they are from the rows of the regression."""
    some, X = choices()
    old, items, head = fitted("sum", dropout), NEW[:-1], np.arange(KNOWN)
    levels = levels_of(masses_of(some, ITEMS))
    made = replace(old, levels=np.where(np.arange(ITEMS) < KNOWN, old.levels, levels))
    scales = scales_of(made.levels, PENALTY)
    problem = late._Problem(made, some.only(np.isin(some.columns, [*head, *items])), head, items, np.ones(3))
    stencils = [late._with_zeros(s) for s in old.stencils.stencils]
    templates = [s.template.astype(float) for s in stencils]
    rows = Options.of([s.row_labels for s in stencils], [len(T) for T in templates], np.arange(ITEMS), ITEMS)
    cols = Options.of([s.col_labels for s in stencils], [T.shape[1] for T in templates], np.arange(ITEMS), ITEMS)
    linear = error_of_columns(rows, templates, head, items, problem.choices, scales, problem.ridge)[2]
    quadratic, wanted = late._error_of_rows(problem, cols, old.stencils, linear, scales, templates)
    gram, B = dropped(X.T @ X, dropout), old.to_dense()[:KNOWN, :KNOWN]
    left = gram[items, :KNOWN] - gram[items, :KNOWN] @ B
    target = np.linalg.solve(gram[np.ix_(items, items)] + PENALTY * np.eye(3), left) * scales[items][:, None]
    random = np.random.default_rng(0)
    for q in range(3):
        v, row = np.zeros(rows.number), np.zeros(KNOWN)
        for s, T in enumerate(templates):
            label = random.integers(len(T))
            v[rows.first[s] + label] = 1.0
            row += T[label, cols.labels[:KNOWN, s]]
        expected = np.sum((row - target[q]) ** 2) - np.sum(target[q] ** 2)
        assert v @ quadratic @ v - 2.0 * wanted[q] @ v == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_many_new_items_are_placed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    old = fitted("sum")
    whole = placed(old, late_of(old)).to_dense()
    monkeypatch.setattr(late, "BLOCK", 2 * KNOWN)
    parts = placed(old, late_of(old)).to_dense()
    np.testing.assert_array_equal(parts[:KNOWN], whole[:KNOWN])  # columns are the same, and rows nearly so
    assert np.corrcoef(parts[NEW[:-1], :KNOWN].ravel(), whole[NEW[:-1], :KNOWN].ravel())[0, 1] > 0.8


@pytest.mark.parametrize("form", ["dense", "sum"])
def test_placing_again_and_nobody(form: str) -> None:
    old = fitted(form)
    once = placed(old, late_of(old))
    assert once.levels[ITEMS - 1] == NOBODY
    assert set(once.chosen) == {*range(KNOWN), *NEW[:-1]}
    again = placed(once, late_of(once))
    np.testing.assert_array_equal(again.to_dense(), once.to_dense())
    np.testing.assert_array_equal(again.levels, once.levels)
    if form == "sum":
        assert [T.shape for T in again.stencils.templates] == [T.shape for T in once.stencils.templates]
    nobody = Late(NEW[-1:], choices()[0], np.ones(1))
    assert placed(old, nobody) is old


def test_maps_without_stencils() -> None:
    old = replace(fitted("sum"), stencils=StencilSum((ITEMS, ITEMS), 0.0, ()))
    new = placed(old, late_of(old))
    assert not new.to_dense().any()
    assert set(new.chosen) == {*range(KNOWN), *NEW[:-1]}  # they can be popular


def test_who_had_the_chance() -> None:
    old, some = fitted("dense"), choices()[0]
    masses = masses_of(some, ITEMS)
    usual = old.popularity[:KNOWN].mean()
    new = Late.of(old, NEW, some, np.zeros(4), np.full(4, 120))
    choosers = np.bincount(some.columns, minlength=ITEMS)
    np.testing.assert_allclose(new.had_chance, np.maximum(120, choosers[NEW]) + 0.5 / usual)
    assert new.n_users == USERS
    np.testing.assert_allclose(new.shares, np.minimum(new.had_chance / USERS, 1.0), rtol=0.1)
    assert Late.of(old, NEW, some, np.zeros(4), np.full(4, 10 * USERS)).shares.tolist() == [1.0] * 4
    made = placed(old, new)
    np.testing.assert_allclose(made.popularity[NEW[:-1]], masses[NEW[:-1]] / new.shares[:-1] / USERS, rtol=0.1)
    later = Late.of(made, NEW[:-1], some, masses[NEW[:-1]], np.full(3, 50))  # those of before, and 50 more
    np.testing.assert_allclose(later.had_chance, new.shares[:-1] * USERS + 50, rtol=0.1)
    known = Late.of(made, np.arange(3), some, masses[:3], np.full(3, 50))
    assert known.shares.tolist() == [1.0] * 3


def test_most_of_a_map_stays_where_it_is() -> None:
    old, some = fitted("dense"), choices()[0]
    items = np.arange(KNOWN + 2)
    found = Late.of(old, items, some, masses_of(some, ITEMS)[items], np.full(len(items), 10))
    assert found.items.tolist() == [30, 31]


def test_too_little_is_at_hand() -> None:
    old, some = fitted("dense"), choices()[0]
    assert Late(NEW, some, np.ones(4)).is_enough_for(old)
    few = some.only(np.arange(len(some)) < some.starts[USERS // 3])
    assert not Late(NEW, few, np.ones(4)).is_enough_for(old)
