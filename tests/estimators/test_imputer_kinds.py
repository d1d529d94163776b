"""ACCAMSImputer: arrays and DataFrames in, the same kind out; columns and rows that are special; what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer

from accams import ACCAMSImputer, InputError

RANDOM = np.random.default_rng(0)
BASE = RANDOM.normal(size=60)
PANDAS = pd.DataFrame(
    {
        "height": 170.0 + 8 * BASE + RANDOM.normal(size=60),
        "weight": np.float32(70 + 9 * BASE + RANDOM.normal(size=60)),
        "children": pd.array(np.clip(np.rint(2 + BASE), 0, 4).astype(int), "Int64"),
        "smokes": pd.array(BASE > 0.3, "boolean"),
        "stars": np.clip(np.rint(3 + BASE), 1, 5),
        "age": np.rint(40 + 10 * BASE).astype(int),
    },
    index=[f"p{i}" for i in range(60)],
)
HIDDEN = RANDOM.random((60, 5)) < 0.15
for p, column in enumerate(PANDAS.columns[:5]):
    PANDAS.loc[HIDDEN[:, p], column] = pd.NA if p in (2, 3) else np.nan
NARROW = pl.DataFrame(
    {
        "small": pl.Series([1, None, 3, 2] * 8, dtype=pl.UInt8),
        "single": pl.Series([0.5, 2.0, None, 1.25] * 8, dtype=pl.Float32),
        "flag": pl.Series([None, True, False, True] * 8, dtype=pl.Boolean),
        "full": pl.Series(range(32), dtype=pl.Int16),
    }
)
NULLS = {name: [None if pd.isna(x) else x for x in PANDAS[name].tolist()] for name in PANDAS.columns}
POLARS = pl.DataFrame(NULLS)
FRAMES = {
    "pandas": PANDAS,
    "polars": POLARS,
    "pyarrow": POLARS.to_arrow(),
    "pandas of arrow": PANDAS.convert_dtypes(dtype_backend="pyarrow"),
}


def imputer(**parameters: Any) -> ACCAMSImputer:
    return ACCAMSImputer(n_stencils=1, n_threads=1, **parameters)


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    """Few sweeps and one fold: how data come in and go out does not depend on them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accams.estimators.completing.MORE_SWEEPS", 8)
        patch.setattr("accams.estimators.completing.FOLDS", 1)
        yield


@pytest.mark.parametrize("convert", [pl.DataFrame.to_arrow, pl.DataFrame.to_pandas, pl.DataFrame.clone])
def test_narrow_types_stay(convert: Any) -> None:
    before = nw.from_native(convert(NARROW), eager_only=True)
    after = nw.from_native(imputer().fit_transform(before.to_native()), eager_only=True)
    assert after["full"].to_list() == before["full"].to_list()
    if before.implementation is not nw.Implementation.PANDAS:  # has turned integers with nulls to floats
        assert after.schema == before.schema
    assert after["small"].to_list()[1] in (1, 2, 3)
    assert isinstance(after["flag"].to_list()[0], bool)
    assert 0.5 <= after["single"].to_list()[2] <= 2.5


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_come_back_as_they_were(kind: str) -> None:
    frame = FRAMES[kind]
    full = imputer().fit_transform(frame)
    assert type(full) is type(frame)
    before, after = nw.from_native(frame, eager_only=True), nw.from_native(full, eager_only=True)
    assert after.columns == before.columns
    for name in before.columns:
        old, new = before[name], after[name]
        assert new.dtype == old.dtype
        assert new.null_count() == 0
        known = [i for i, x in enumerate(old.to_list()) if not pd.isna(x)]
        assert [new.to_list()[i] for i in known] == [old.to_list()[i] for i in known]
    assert set(after["children"].to_list()) <= set(range(5))
    assert set(after["smokes"].to_list()) <= {True, False}
    assert set(after["stars"].to_list()) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    if isinstance(frame, pd.DataFrame):
        assert full.dtypes.equals(frame.dtypes)
        assert full.index.equals(frame.index)


def test_frames_of_all_kinds_give_the_same() -> None:
    values = [np.asarray(nw.from_native(imputer().fit_transform(X)).to_numpy(), float) for X in FRAMES.values()]
    for other in values[1:]:
        np.testing.assert_allclose(other, values[0], rtol=1e-5)
    std = imputer().fit(PANDAS).transform(PANDAS, return_std=True)[1]
    np.testing.assert_array_equal(std > 0, np.column_stack([HIDDEN, np.zeros(60, bool)]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool", "object", "longdouble"])
def test_arrays_of_any_type(dtype: str) -> None:
    X = np.rint(np.abs(RANDOM.normal(size=(30, 4)) * 2)).astype(dtype)
    full = imputer().fit_transform(X)
    assert full.dtype == {"object": "float64", "longdouble": "float64"}.get(dtype, dtype)
    np.testing.assert_array_equal(full, X.astype(full.dtype))


def test_columns_of_objects_keep_their_kind() -> None:
    frame = pd.DataFrame({"flag": [True, None, False] * 9, "count": [1, 2, None] * 9, "size": [0.5, 1.5, None] * 9})
    full = imputer().fit_transform(frame.astype(object))
    assert [type(full[name][2 - (name == "flag")]) for name in frame] == [bool, float, float]
    ints = pd.DataFrame({"count": pd.Series([1, 2, None] * 9, dtype=object), "other": range(27)})
    assert isinstance(imputer().fit_transform(ints)["count"][2], int)


def test_single_precision_stays() -> None:
    X = RANDOM.normal(size=(40, 4)).astype(np.float32)
    X[3, 1] = np.nan
    full = imputer().fit_transform(X)
    assert full.dtype == np.float32
    known = ~np.isnan(X)
    np.testing.assert_array_equal(full[known], X[known])


def test_markers_of_missing_cells() -> None:
    X = np.where(HIDDEN[:, :4], -1, np.arange(240).reshape(60, 4) % 7)
    full = imputer(missing_values=-1).fit_transform(X)
    assert full.dtype == X.dtype
    assert full.min() >= 0
    np.testing.assert_array_equal(full[~HIDDEN[:, :4]], X[~HIDDEN[:, :4]])
    X[0, 0] = 2**62 + 1  # which floats cannot hold
    assert imputer(missing_values=-1).fit_transform(X)[0, 0] == 2**62 + 1
    X[0, 0] = 0
    frame = imputer(missing_values=-1).fit_transform(pd.DataFrame(X))
    np.testing.assert_array_equal(frame.to_numpy(), imputer(missing_values=-1).fit_transform(X))
    for marker in (None, pd.NA):
        other = imputer(missing_values=marker).fit_transform(np.where(HIDDEN[:, :4], marker, 1.0 * X))
        assert not np.isnan(other).any()


# -- columns and rows that are special ----------------------------------------------------------------------------


def test_columns_without_values_are_dropped_or_kept() -> None:
    X = PANDAS.to_numpy(float, na_value=np.nan)
    X[:, 2] = np.nan
    with pytest.warns(UserWarning, match=r"left out \(x2\): keep_empty_features=True"):
        dropped = imputer().fit(X)
    kept = imputer(keep_empty_features=True).fit(X)
    assert dropped.transform(X).shape == (60, 5)
    assert dropped.get_feature_names_out().tolist() == ["x0", "x1", "x3", "x4", "x5"]
    assert not kept.transform(X)[:, 2].any()
    np.testing.assert_array_equal(kept.transform(X)[:, [0, 1, 3, 4, 5]], dropped.transform(X))
    frame = PANDAS.assign(children=None)
    with pytest.warns(UserWarning, match=r"left out \(children\)") as caught:
        named = list(imputer().fit_transform(frame).columns)
    assert caught[0].filename == __file__  # not a line of scikit-learn
    assert named == ["height", "weight", "smokes", "stars", "age"]
    full = imputer(keep_empty_features=True).fit_transform(frame)
    assert (full["children"] == 0).all()
    assert full.index.equals(frame.index)


def test_a_row_without_values_is_the_average_row() -> None:
    X = np.concatenate([PANDAS.to_numpy(float, na_value=np.nan), np.full((1, 6), np.nan)])
    full, std = imputer().fit(X).transform(X, return_std=True)
    assert np.abs(full[-1, :2] - np.nanmean(X, axis=0)[:2]).max() < 2.0
    np.testing.assert_allclose(std[-1, :2], np.nanstd(X, axis=0)[:2], rtol=0.2)


def test_a_matrix_without_gaps_is_returned_and_learned() -> None:
    X = RANDOM.normal(size=(80, 2)) @ RANDOM.normal(size=(2, 5))
    fitted = imputer().fit(X)
    np.testing.assert_array_equal(fitted.transform(X), X)
    new = RANDOM.normal(size=(80, 5))
    gone = X[:40] + 1e-3 * new[:40]
    truth = gone[:, 4].copy()
    gone[:, 4] = np.nan
    assert np.corrcoef(fitted.transform(gone)[:, 4], truth)[0, 1] > 0.95


def test_constant_columns_stay_constant() -> None:
    X = RANDOM.normal(size=(30, 3))
    X[:, 1] = 7.5
    X[::4] = np.nan
    X[::4, 0] = 1.0
    full, std = imputer().fit(X).transform(X, return_std=True)
    assert (full[:, 1] == 7.5).all()
    assert not std[:, 1].any()
    same = np.where(np.isnan(X), np.nan, 3.0)
    assert (imputer().fit_transform(same) == 3.0).all()


def test_integers_stay_in_their_range() -> None:
    X = np.rint(5 * RANDOM.random((200, 3)))
    X[RANDOM.random(X.shape) < 0.2] = np.nan
    fitted = imputer().fit(X)
    assert fitted.integer_columns_.tolist() == [0, 1, 2]
    for full in (fitted.transform(X), *fitted.draws(X, n=3)):
        assert set(np.unique(full)) <= set(range(6))
    assert not imputer().fit(X + 0.5).integer_columns_.size


# -- scikit-learn's outputs --------------------------------------------------------------------------------------


def test_indicators_follow() -> None:
    X = PANDAS.to_numpy(float, na_value=np.nan)
    expected = SimpleImputer(add_indicator=True).fit(X)
    own = imputer(add_indicator=True).fit(X)
    np.testing.assert_array_equal(own.transform(X)[:, 6:], expected.transform(X)[:, 6:])
    assert own.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()
    for kind in ("pandas", "polars", "pyarrow"):
        full = imputer(add_indicator=True).fit_transform(FRAMES[kind])
        table = nw.from_native(full, eager_only=True)
        assert table.columns[6:] == [f"missingindicator_{name}" for name in PANDAS.columns[:5]]
        np.testing.assert_array_equal(table.to_numpy()[:, 6:].astype(bool), HIDDEN)


def test_set_output() -> None:
    X = PANDAS.to_numpy(float, na_value=np.nan)
    assert isinstance(imputer().set_output(transform="pandas").fit_transform(X), pd.DataFrame)
    out = imputer().set_output(transform="polars").fit_transform(PANDAS)
    assert isinstance(out, pl.DataFrame)
    assert out.columns == list(PANDAS.columns)
    full, std = imputer().set_output(transform="pandas").fit(POLARS).transform(POLARS, return_std=True)
    assert isinstance(full, pd.DataFrame)
    assert std.shape == (60, 6)
    with config_context(transform_output="pandas"):
        assert isinstance(imputer().fit_transform(POLARS), pd.DataFrame)


def test_names_of_columns() -> None:
    fitted = imputer().fit(PANDAS)
    assert fitted.feature_names_in_.tolist() == list(PANDAS.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(PANDAS[PANDAS.columns[::-1]])
    numbered = imputer().fit(PANDAS.set_axis(range(6), axis=1))
    assert not hasattr(numbered, "feature_names_in_")
    assert numbered.get_feature_names_out().tolist() == [f"x{j}" for j in range(6)]


# -- what is refused ---------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "text": (PANDAS.assign(city="Rome"), "column 'city' holds .*encode it"),
    "categories": (PANDAS.assign(city=pd.Categorical(["a", "b"] * 30)), "column 'city' holds .*encode it"),
    "dates": (PANDAS.assign(day=pd.Timestamp("2020-01-01")), "column 'day' holds .*drop it"),
    "text in polars": (POLARS.with_columns(city=pl.lit("Rome")), "column 'city' holds String"),
    "objects in a frame": (pd.DataFrame({"a": [1, object()]}), "column 'a' holds objects"),
    "text in an array": (np.array([["a", "b"]]), "not numbers"),
    "objects": (np.array([[1.0, object()]]), "not numbers"),
    "complex": (np.array([[1j, 2.0]]), "Complex data not supported"),
    "infinity": (np.array([[1.0, np.inf], [2.0, 3.0]]), "column 1 has infinity in row 0"),
    "infinity in a frame": (pd.DataFrame({"a": [1.0, -np.inf]}), "column 'a' has infinity in row 1"),
    "beyond": (np.array([[1.0, 1e200], [2.0, 3.0]]), "beyond 1e"),
    "one dimension": (np.arange(3.0), "Reshape your data"),
    "no columns": (np.zeros((3, 0)), "0 feature"),
    "no rows": (np.zeros((0, 3)), "0 sample"),
    "no rows in a frame": (PANDAS[:0], "0 sample"),
    "ragged": ([[1.0], [2.0, 3.0]], "not equally long"),
    "sparse": (sparse.csr_array(np.eye(3)), "sparse"),
    "lazy": (POLARS.lazy(), "collect"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_input_that_is_refused(name: str) -> None:
    X, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        imputer().fit(X)


def test_transform_wants_the_columns_of_fit() -> None:
    with pytest.raises(NotFittedError):
        imputer().transform(PANDAS)
    with pytest.raises(InputError, match="X has 3 features, but ACCAMSImputer is expecting 6"):
        imputer().fit(PANDAS).transform(np.zeros((2, 3)))


# -- rows with nothing in a column ---------------------------------------------------------------------------------


UNTYPED = {"a": [1.0, 2.0], "b": [None, None], "c": [-0.5, -1.0]}
TWINS = {"a": BASE, "b": 10.0 + 2.0 * BASE, "c": -0.5 * BASE}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(UNTYPED),
        pd.DataFrame(UNTYPED, index=[7, 7], dtype=object),
        pd.DataFrame(UNTYPED).convert_dtypes(dtype_backend="pyarrow"),
        pl.DataFrame(UNTYPED),
        pl.DataFrame(UNTYPED).to_arrow(),
    ],
    ids=["pandas", "objects", "pandas of arrow", "polars", "pyarrow"],
)
def test_a_column_of_nulls_without_a_type_is_filled(frame: Any) -> None:
    fitted = imputer().fit(pd.DataFrame(TWINS))
    after = fitted.set_output(transform="default").transform(frame)
    assert type(after) is type(frame)
    values = nw.from_native(after, eager_only=True)["b"].to_list()
    np.testing.assert_allclose(values, [12.0, 14.0], atol=0.5)
    typed = pd.DataFrame(UNTYPED, dtype=float)
    np.testing.assert_allclose(values, fitted.transform(typed)["b"])


def test_one_record_with_none() -> None:
    after = imputer().fit(pd.DataFrame(TWINS)).transform(pd.DataFrame([{"a": None, "b": None, "c": -1.0}]))
    assert after["b"][0] == pytest.approx(14.0, abs=0.5)


# -- types -----------------------------------------------------------------------------------------------------------


def test_integers_are_those_of_the_type() -> None:
    fitted = imputer().fit(pl.DataFrame({"a": [float(x) for x in range(60)], "b": [x * 1e18 for x in range(60)]}))
    for kind in (pl.UInt8, pl.Int64, pl.UInt64):
        asked = pl.DataFrame({"a": [50.0], "b": [None]}, schema={"a": pl.Float64, "b": kind})
        largest = np.iinfo(str(kind()).lower()).max
        assert 0.999 * largest <= fitted.transform(asked)["b"][0] <= largest
    small = pd.DataFrame({"a": [50.0], "b": pd.array([None], "Int8")})
    assert fitted.set_output(transform="default").transform(small)["b"].tolist() == [127]


def test_half_precision_and_decimals_stay() -> None:
    from decimal import Decimal

    half = PANDAS[["height", "stars"]].astype("float16")
    assert set(imputer().fit_transform(half).dtypes) == {np.dtype("float16")}
    exact = PANDAS[["height", "stars"]].map(lambda x: None if pd.isna(x) else Decimal(repr(round(x, 2))))
    assert all(type(x) is Decimal for x in imputer().fit_transform(exact).to_numpy().ravel())


def test_masked_cells_are_missing() -> None:
    values = np.column_stack(list(TWINS.values()))
    gone = RANDOM.random(values.shape) < 0.1
    masked = np.ma.masked_array(np.where(gone, 1e6, values), gone)
    np.testing.assert_array_equal(
        imputer().fit_transform(masked), imputer().fit_transform(np.where(gone, np.nan, values))
    )


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_what_stands_for_missing_is_found_in_any_precision(kind: str) -> None:
    from fractions import Fraction

    frame = PANDAS[["height", "stars"]].astype(kind)
    for marker in (-99.9, Fraction(-199, 2)):
        filled = imputer(missing_values=marker).fit_transform(frame.fillna(float(marker)))
        pd.testing.assert_frame_equal(filled, imputer().fit_transform(frame))


def test_what_to_do_is_said() -> None:
    wrong = {
        "X.sparse.to_dense": pd.DataFrame(TWINS).astype(pd.SparseDtype(float, 0.0)),
        "holds complex128": pd.DataFrame(TWINS).astype(complex),
        "days since the first": pd.DataFrame({**TWINS, "day": pd.Timestamp("2020-01-01")}),
        "free of strings": np.array([["3", 1.0], [2.0, None]], object),
        "pyarrow.table": pl.DataFrame(TWINS).to_arrow().to_batches()[0],
    }
    for message, X in wrong.items():
        with pytest.raises(InputError, match=message):
            imputer().fit(X)
    clash = pd.DataFrame({"a": [1.0, np.nan, 3.0], "missingindicator_a": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="there is one of this name: rename it"):
        imputer(add_indicator=True).fit_transform(clash)
