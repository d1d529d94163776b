"""What holds for every estimator: subclass `EstimatorTests` and say how to make one."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from forms import MATRIX, PAIRS, VALUES, WEIGHTS, I, J
from scipy import sparse
from shared_inputs import FORMS, InputTests, plain_params, same_sums
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import accams
from accams import InputError, Model, Observations
from accams.model.stencils import StencilSum


def average_rule(model: StencilSum, i: int, j: int) -> float:
    """The prediction of one cell, by hand: -1, and rows (columns) without data, stand for the average one."""

    def shares(labels: Any, k: int, unseen: Any, p: int) -> Any:
        seen = [label for q, label in enumerate(labels) if q not in unseen]
        chosen = seen if p == -1 or p in unseen else [labels[p]]
        return np.bincount(chosen, minlength=k) / len(chosen)

    total = model.offset
    for s in model.stencils:
        k_rows, k_cols = s.template.shape
        row = shares(s.row_labels, k_rows, set(model.unseen_rows), i)
        total += row @ s.template.astype(float) @ shares(s.col_labels, k_cols, set(model.unseen_cols), j)
    return float(total)


class EstimatorTests(InputTests):
    """Tests for an estimator; a subclass overrides `make`, and what its predictions are made of."""

    def by_hand(self, model: Any, i: int, j: int) -> float:
        """The prediction of one cell before clipping; -1 for a row or column that is new."""
        return average_rule(model.stencils_, i, j)

    # -- predictions ---------------------------------------------------------------------------------------

    def test_predictions_are_those_of_the_stencils(self, reference: Any) -> None:
        expected = [self.by_hand(reference, i, j) for i, j in PAIRS]
        np.testing.assert_allclose(reference.predict(PAIRS), np.clip(expected, 1, 5), rtol=1e-6)

    def test_new_rows_and_columns_are_average(self, reference: Any) -> None:
        asked = [(3, 99), (-7, 4), (99, 99), ("x", 4), (3, None)]
        positions = [(3, -1), (-1, 4), (-1, -1), (-1, 4), (3, -1)]
        expected = [self.by_hand(reference, i, j) for i, j in positions]
        np.testing.assert_allclose(reference.predict(asked), np.clip(expected, 1, 5), rtol=1e-6)

    def test_rows_and_columns_without_observations_are_average(self) -> None:
        matrix = MATRIX.copy()
        matrix[4], matrix[:, 7] = np.nan, np.nan
        model = self.make().fit(matrix)
        expected = [self.by_hand(model, *cell) for cell in ((-1, 2), (2, -1), (-1, -1))]
        prediction = model.predict([[4, 2], [2, 7], [4, 7]])
        np.testing.assert_allclose(prediction, np.clip(expected, 1, 5), rtol=1e-6)
        np.testing.assert_array_equal(model.predict([[4, 2], [2, 7]]), model.predict([[-1, 2], [2, -1]]))

    @pytest.mark.parametrize("single", [[3, 4], (3, 4), [[3, 4]], [(3, 4)], np.array([[3, 4]])])
    def test_a_single_pair(self, single: Any, reference: Any) -> None:
        expected = np.clip(self.by_hand(reference, 3, 4), 1, 5)
        np.testing.assert_allclose(reference.predict(single), [expected], rtol=1e-6)

    @pytest.mark.parametrize("none", [[], np.empty((0, 2)), pd.DataFrame({"user": [], "item": []})])
    def test_no_pairs(self, none: Any, reference: Any) -> None:
        assert reference.predict(none).shape == (0,)

    def test_a_warning_when_no_id_is_known(self, reference: Any) -> None:
        text = self.make().fit(*FORMS["pairs of text"].fit)
        with pytest.warns(UserWarning, match="row ids look like 'u00' .* but these like 0 and 1"):
            prediction = text.predict([[0, 1], [2, 2]])
        np.testing.assert_allclose(prediction, self.by_hand(text, -1, -1), rtol=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            text.predict([["u00", "new"], ["new", "new"]])
            text.predict([])

    def test_swapped_pairs_are_refused(self) -> None:
        model = self.make().fit(*FORMS["pairs of text"].fit)
        with pytest.raises(InputError, match="known, but they are if swapped"):
            model.predict([["film 03", "u01"]])

    def test_numbers_that_numpy_turned_into_text(self, reference: Any) -> None:
        model = self.make().fit(*FORMS["tuples"].fit)
        expected = model.predict([("u01", 7), ("u02", 0)])
        np.testing.assert_array_equal(model.predict(np.array([("u01", 7), ("u02", 0)])), expected)
        unknown = model.predict([("u01", 99)])
        for text in ("07", "7.0", "seven", "-7", "", "٧"):
            np.testing.assert_array_equal(model.predict(np.array([("u01", text)])), unknown)
        np.testing.assert_array_equal(model.predict([("u01", "7")]), unknown)  # nobody turned this one

    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            (MATRIX, "pairs must have two columns"),
            (np.array([3, 4]), "Reshape your data"),
            ([[3, 4], [5]], "not equally long"),
            (pd.DataFrame({"a": [1], "b": [2], "c": [3]}), "the columns are 'a', 'b', 'c'"),
            (sparse.csr_array(np.eye(2)), "Sparse data was passed where pairs"),
            (None, "Expected 2D array of pairs"),
            ([([], 1)], "ids must be numbers, text"),
        ],
    )
    def test_pairs_that_cannot_be_predicted(self, pairs: Any, message: str, reference: Any) -> None:
        with pytest.raises(InputError, match=message):
            reference.predict(pairs)

    def test_unfitted(self, tmp_path: Path) -> None:
        for use in (lambda m: m.predict(PAIRS), lambda m: m.score(MATRIX), lambda m: m.save(tmp_path / "m")):
            with pytest.raises(NotFittedError):
                use(self.make())

    def test_clip(self) -> None:
        models = {clip: self.make(clip=clip).fit(MATRIX) for clip in (True, False, (2.0, 3.5))}
        raw = models[False].predict(PAIRS)
        np.testing.assert_array_equal(models[True].predict(PAIRS), np.clip(raw, 1, 5))
        np.testing.assert_array_equal(models[2.0, 3.5].predict(PAIRS), np.clip(raw, 2, 3.5))
        assert raw.min() < 2 < 3.5 < raw.max()
        assert [models[clip].model_.clip for clip in (True, False, (2.0, 3.5))] == [(1.0, 5.0), None, (2.0, 3.5)]
        models[False].set_params(clip=True)  # for the next fit
        np.testing.assert_array_equal(models[False].predict(PAIRS), raw)
        np.testing.assert_array_equal(models[False].fit(MATRIX).predict(PAIRS), models[True].predict(PAIRS))
        with pytest.raises(InputError, match=r"clip must be True, False or \(low, high\), not \(3, 1\)"):
            models[False].set_params(clip=(3, 1)).fit(MATRIX)

    def test_score_is_the_negative_rmse(self, reference: Any) -> None:
        error = reference.predict(PAIRS) - VALUES
        expected = -np.sqrt(np.mean(error**2))
        table = FORMS["pandas table"].fit[0]
        stored = FORMS["csr array"].fit[0]
        for score in (
            reference.score(PAIRS, VALUES),
            reference.score(PAIRS.tolist(), VALUES[:, None]),
            *(reference.score(X) for X in (Observations.from_dense(MATRIX), MATRIX, table, stored)),
        ):
            assert score == pytest.approx(expected, rel=1e-12)
        weighted = -np.sqrt(np.average(error**2, weights=WEIGHTS))
        assert reference.score(PAIRS, VALUES, WEIGHTS) == pytest.approx(weighted, rel=1e-12)
        observations = Observations.from_coo(I, J, VALUES, weights=WEIGHTS)
        assert reference.score(observations) == pytest.approx(weighted, rel=1e-12)
        part = Observations.from_coo(I[:5], J[:5], VALUES[:5])
        assert reference.score(part) == pytest.approx(-np.sqrt(np.mean(error[:5] ** 2)), rel=1e-12)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((PAIRS,), "needs the true values"),
            ((PAIRS, VALUES[1:]), "pairs but"),
            ((PAIRS, np.where(I == 0, np.nan, VALUES)), "missing"),
            (([], []), "no pairs"),
            ((PAIRS, VALUES, np.zeros(len(I))), "zero"),
            ((Observations.from_dense(MATRIX), VALUES), "already hold values"),
        ],
    )
    def test_what_cannot_be_scored(self, arguments: Any, message: str, reference: Any) -> None:
        with pytest.raises(InputError, match=message):
            reference.score(*arguments)

    # -- parameters and seeds ------------------------------------------------------------------------------

    def test_fit_returns_self_and_changes_no_parameter(self) -> None:
        model = self.make()
        before = {name: repr(value) for name, value in model.get_params().items()}
        assert model.fit(MATRIX) is model
        assert {name: repr(value) for name, value in model.get_params().items()} == before

    def test_clone_and_set_params(self, reference: Any) -> None:
        copy = clone(reference)
        assert copy.get_params() == reference.get_params()
        assert not hasattr(copy, "stencils_")
        assert self.same(copy.fit(MATRIX), reference)
        changed = clone(reference).set_params(random_state=5, clip=False)
        assert (changed.random_state, changed.clip) == (5, False)
        assert self.same(changed.fit(MATRIX), self.make(random_state=5).fit(MATRIX))
        with pytest.raises(ValueError, match="Invalid parameter"):
            changed.set_params(n_stencil=3)

    def test_fitting_again_is_fitting_afresh(self, reference: Any) -> None:
        model = self.make().fit(pd.DataFrame({"client": J, "sku": I}), 6 - VALUES)
        assert model.feature_names_in_.tolist() == ["client", "sku"]
        model.fit(MATRIX)
        assert self.same(model, reference)
        assert not hasattr(model, "feature_names_in_")
        assert set(vars(model)) == set(vars(reference))

    def test_the_seed_decides(self, reference: Any) -> None:
        assert self.same(self.make(random_state=0).fit(MATRIX), reference)
        assert self.same(self.make(random_state=np.int64(0)).fit(MATRIX), reference)
        assert not self.same(self.make(random_state=1).fit(MATRIX), reference)
        for source in (np.random.default_rng, np.random.RandomState):
            one, two = (self.make(random_state=source(7)) for _ in range(2))
            assert self.same(one.fit(MATRIX), two.fit(MATRIX))
            first = one.stencils_
            assert not same_sums(one.fit(MATRIX).stencils_, first)  # the generator has moved on

    def test_no_seed(self) -> None:
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        models = [self.make(random_state=None).fit(MATRIX) for _ in range(5)]
        assert any(not self.same(models[0], other) for other in models[1:])
        np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002

    @pytest.mark.parametrize("engine", ["cpu", "dense"])
    def test_the_number_of_threads_does_not_matter(self, engine: str) -> None:
        matrix = np.random.default_rng(0).normal(size=(400, 300))  # enough for several ranges
        one, two = (self.make(engine=engine, n_threads=n).fit(matrix) for n in (1, 2))
        assert self.same(one, two)

    # -- saving --------------------------------------------------------------------------------------------

    @pytest.mark.some(2)
    @pytest.mark.parametrize(
        "name", ["array", "pairs", "pairs of text", "mixed ids", "pandas wide", "pandas pairs", "pyarrow table"]
    )
    def test_a_saved_model_is_the_same_model(self, name: str, tmp_path: Path) -> None:
        form = FORMS[name]
        model = self.make().fit(*form.fit)
        model.save(tmp_path / "m.accams")
        pickled = pickle.loads(pickle.dumps(model))
        assert type(pickled) is type(model)
        assert pickled.get_params() == model.get_params()
        assert pickled.n_features_in_ == model.n_features_in_
        for loaded in (accams.load(tmp_path / "m.accams"), pickled.model_):
            assert type(loaded) is Model
            assert self.same(loaded, model)
            assert (loaded.row_index, loaded.col_index) == (model.row_index_, model.col_index_)
            assert (loaded.value_range, loaded.clip) == (model.value_range_, model.model_.clip)
            assert (loaded.sigma, loaded.info) == (model.model_.sigma, model.model_.info)
            assert loaded.info.estimator == type(model).__name__
            assert loaded.info.training["n_features_in_"] == model.n_features_in_
            for pairs in (form.pairs, [("x", 0)], pd.DataFrame({"sku": J[:3], "client": I[:3]})):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    np.testing.assert_array_equal(loaded.predict(pairs), model.predict(pairs))
        again = type(model)().set_params(**loaded.parameters)
        assert plain_params(again) == plain_params(model)
        assert self.same(again.fit(*form.fit), model)

    def test_a_model_cannot_be_fitted_again(self, reference: Any) -> None:
        with pytest.raises(AttributeError, match="a model cannot be fitted again: fit a new estimator"):
            reference.model_.fit(MATRIX)
        with pytest.raises(FrozenInstanceError):
            reference.model_.clip = None

    def test_ids_that_cannot_be_saved(self, tmp_path: Path) -> None:
        dates = pd.to_datetime(I, unit="D", origin="2020-01-01").to_numpy()
        model = self.make().fit(pd.DataFrame({"a": dates, "b": J}), VALUES)
        with pytest.raises(InputError, match="cannot be saved: use strings or integers"):
            model.save(tmp_path / "m.accams")
        assert list(tmp_path.iterdir()) == []

    # -- fitting -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "matrix",
        [
            np.array([[3.0]]),
            np.array([[1.0, 2.0, 4.0, 4.0]]),
            np.array([[1.0], [2.0], [np.nan], [4.0]]),
            np.full((5, 4), 2.5),
            np.where(np.eye(5) > 0, np.nan, 2.5),
            np.array([[np.nan, np.nan], [np.nan, 3.0]]),
            np.array([[1.0, 5.0], [np.nan, 2.0]]),
            np.array([[1e-20, -1e-20], [3e-20, 0.0]]),
            np.array([[1e20, -1e20], [3e20, 0.0]]),
            np.array([[1e6, 1e6 + 1], [1e6 + 2, 1e6]]),
        ],
        ids=["1x1", "row", "column", "constant", "gaps", "one cell", "few", "tiny", "huge", "far from 0"],
    )
    @pytest.mark.parametrize("engine", ["cpu", "dense"])
    def test_matrices_at_the_edge(self, matrix: Any, engine: str) -> None:
        model = self.make(n_clusters=10, engine=engine).fit(matrix)
        rows, cols = np.indices(matrix.shape).reshape(2, -1)
        prediction = model.predict(np.stack([rows, cols], axis=1))
        low, high = np.nanmin(matrix), np.nanmax(matrix)
        assert np.isfinite(prediction).all()
        assert ((low <= prediction) & (prediction <= high)).all()
        if low == high:
            np.testing.assert_array_equal(prediction, low)

    def test_no_stencils(self) -> None:
        model = self.make(n_stencils=0).fit(MATRIX)
        assert len(model.stencils_) == 0
        np.testing.assert_allclose(model.predict([[0, 0], [99, 3]]), VALUES.mean(), rtol=1e-6)

    def test_callbacks_see_every_step_and_can_stop(self) -> None:
        seen: list[Any] = []
        model = self.make(callbacks=[seen.append]).fit(MATRIX)
        assert len(seen) == len(model.history_)
        assert all(step.rmse > 0 and step.seconds >= 0 for step in seen)
        for answer in (True, np.True_):
            calls: list[Any] = []
            stopped = self.make(callbacks=[calls.append, lambda _, answer=answer: answer, calls.append])
            stopped.fit(MATRIX)
            assert len(calls) == 2  # the others are still told
            assert np.isfinite(stopped.predict(PAIRS)).all()

    def test_an_error_in_a_callback_is_the_users(self) -> None:
        def broken(step: Any) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            self.make(callbacks=[broken]).fit(MATRIX)

    def test_a_keyboard_interrupt_leaves_a_usable_model(self, tmp_path: Path) -> None:
        def interrupt(step: Any) -> None:
            raise KeyboardInterrupt

        model = self.make(callbacks=[interrupt])
        with pytest.warns(UserWarning, match="interrupted: the model is usable") as caught:
            assert model.fit(MATRIX) is model
        assert len(caught) == 1
        expected = [self.by_hand(model, i, j) for i, j in PAIRS]
        np.testing.assert_allclose(model.predict(PAIRS), np.clip(expected, 1, 5), rtol=1e-6)
        model.save(tmp_path / "m.accams")
        assert self.same(accams.load(tmp_path / "m.accams"), model)

    def test_the_progress_bar(self, capsys: Any, monkeypatch: Any) -> None:
        self.make(verbose=True).fit(MATRIX)
        out, err = capsys.readouterr()
        assert out == ""
        assert "rmse" in err
        self.make(verbose=False).fit(MATRIX)
        self.make(verbose="auto").fit(MATRIX)
        assert capsys.readouterr() == ("", "")

    def test_the_progress_bar_comes_by_itself_only_on_terminals(self, capsys: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr("accams.fitted.progress.PATIENCE", -1.0)  # as if every fit took long
        self.make(verbose="auto").fit(MATRIX)
        assert capsys.readouterr() == ("", "")
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
        monkeypatch.delenv("NO_COLOR", raising=False)
        self.make(verbose="auto").fit(MATRIX)
        assert "rmse" in capsys.readouterr().err
        monkeypatch.setattr("accams.fitted.progress.PATIENCE", 60.0)
        self.make(verbose="auto").fit(MATRIX)
        assert capsys.readouterr().err == ""

    def test_with_many_entries_the_progress_bar_is_there_at_once(self, capsys: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr("accams.fitted.progress.MANY", 2)
        monkeypatch.setattr("accams.engine.choose.Grid.of", stopped := Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            self.make(verbose=True).fit(MATRIX)
        assert stopped.called
        assert "fitting" in capsys.readouterr().err
