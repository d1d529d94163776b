"""compress and decompress: promises kept on all kinds of matrices, the same bytes again, blocks, and bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accams
from accams import CompressedMatrix, InputError, compress, decompress
from accams.fitted import compression

TYPES = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)
EXACT = 2.0**53  # whole numbers that doubles hold
QUIET = {"verbose": False, "n_threads": 1}


def low_rank(shape=(60, 50), rank=3, noise=0.1, seed=0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(shape[0], rank)) @ random.normal(size=(rank, shape[1])) + random.normal(0, noise, shape)


def away(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return absolute differences of numbers, exact for integers."""
    if one.dtype.kind in "iub":
        return np.array([abs(int(a) - int(b)) for a, b in zip(one.ravel(), other.ravel(), strict=True)], float)
    finite = np.isfinite(one)
    return np.abs(one[finite].astype(np.longdouble) - other[finite].astype(np.longdouble))


def rmse(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(one, float) - np.asarray(other, float)))))


def distance(number: np.floating) -> float:
    """Return the distance of a float to the next one, which may be infinite."""
    exponent = int(np.frexp(float(number))[1]) - 1
    return max(float(np.ldexp(float(np.finfo(number).eps), exponent)), float(np.finfo(number).smallest_subnormal))


@st.composite
def matrices(draw: st.DrawFn) -> tuple[np.ndarray, float]:
    """A matrix of any type and scale, and a bound that makes sense for it."""
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    shape = draw(st.integers(1, 14)), draw(st.integers(1, 12))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shaped = random.normal(size=shape) + random.normal(size=(shape[0], 1)) * random.normal(size=shape[1])
    if draw(st.integers(0, 9)) == 0:
        shaped = np.full(shape, float(random.normal()))
    if dtype.kind == "b":
        return shaped > 0, draw(st.sampled_from([0.0, 0.4, 1.0]))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if draw(st.integers(0, 4)) == 0:
            values = random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
            return values, float(draw(st.integers(0, 1000)))
        size = draw(st.sampled_from([2.0, 50.0, 1e4]))
        values = np.clip(np.rint(shaped * size + (0 if dtype.kind == "i" else 3 * size)), info.min, info.max)
        return values.astype(dtype), float(draw(st.sampled_from([0, 1, 2, 5, 0.5, size])))
    largest = {"float16": 3, "float32": 36, "float64": 300}[dtype.name]
    scale = 10.0 ** draw(st.integers(-min(largest, 200), largest - 1))
    values = (shaped * scale).astype(dtype)
    bound = scale * 10.0 ** draw(st.floats(-7, 1))
    if draw(st.booleans()):
        special = draw(st.sampled_from([np.nan, np.inf, -np.inf, 0.0, float(np.finfo(dtype).max)]))
        values[random.random(shape) < draw(st.sampled_from([0.05, 0.5, 1.0]))] = special
    return values, float(bound)


def check_bounded(values: np.ndarray, bound: float) -> None:
    numbers = np.abs(values[np.isfinite(values)])
    fine = values.dtype.kind == "f" and numbers.size and bound < 0.5 * distance(np.sort(numbers)[numbers.size // 2])
    if fine and ((numbers % 1.0).any() or float(numbers.max()) >= EXACT):  # bounds of whole numbers are kept in those
        with pytest.raises(InputError, match="smaller than what"):
            compress(values, max_error=bound, **QUIET)
        return
    small = compress(values, max_error=bound, **QUIET)
    found = decompress(small)
    assert found.dtype == values.dtype
    assert found.shape == values.shape
    assert away(values, found).max(initial=0) <= bound
    assert small.summary.max_error <= bound
    if values.dtype.kind == "f":
        np.testing.assert_array_equal(found[~np.isfinite(values)], values[~np.isfinite(values)])
    np.testing.assert_array_equal(decompress(small.to_bytes()), found)


BOUNDED = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@settings(max_examples=20, **BOUNDED)
@given(matrices())
def test_no_cell_is_off_by_more_than_the_bound(case):
    check_bounded(*case)


@pytest.mark.full
@settings(max_examples=1000, **BOUNDED)
@given(matrices())
def test_no_cell_of_a_thousand_matrices_is_off_by_more_than_the_bound(case):
    check_bounded(*case)


@pytest.mark.parametrize("bound", [0.5, 0.05])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.covering
def test_stencils_and_steps_keep_the_bound(dtype, bound):
    matrix = low_rank().astype(dtype)
    small = compress(matrix, max_error=bound, **QUIET)
    assert sum(small.n_stencils) > 0
    assert away(matrix, decompress(small)).max() <= bound
    assert small.nbytes < 0.75 * compress(low_rank(noise=10.0).astype(dtype), max_error=bound, **QUIET).nbytes


def test_a_bound_of_zero_keeps_whole_numbers_and_decimals():
    matrix = np.rint(10 * low_rank()).astype(np.int16)
    part = matrix[:40, :30]  # too small for stencils
    sizes = []
    for values in (matrix, part, part.astype(float), part / 100, part / 2, part.astype(np.float32) / 8):
        small = compress(values, max_error=0, **QUIET)
        np.testing.assert_array_equal(decompress(small), values)
        sizes.append(small.nbytes)
        assert small.summary.rmse == 0.0
    assert sizes[0] < 0.6 * matrix.nbytes
    assert max(sizes[1:]) < 1.02 * sizes[1]
    with pytest.raises(InputError, match="max_error=0 is for whole numbers"):
        compress(low_rank(), max_error=0, **QUIET)


@pytest.mark.parametrize("wanted", [1.0, 0.3, 0.05])
def test_the_mean_error_is_kept(wanted):
    matrix = low_rank()
    small = compress(matrix, max_rmse=wanted, **QUIET)
    assert rmse(decompress(small), matrix) == pytest.approx(small.summary.rmse)
    assert small.summary.rmse <= wanted


def test_less_error_takes_more_bytes():
    matrix = low_rank()
    sizes = [compress(matrix, max_rmse=wanted, **QUIET).nbytes for wanted in (1.0, 0.3, 0.05)]
    assert sizes == sorted(sizes)
    assert compress(np.rint(matrix[:40, :30]).astype(np.int8), max_rmse=0.1, **QUIET).summary.rmse <= 0.1


def test_the_size_is_kept():
    matrix, errors = low_rank(), []
    for wanted in (1_200, 1_800, 9_000):
        small = compress(matrix, max_bytes=wanted, **QUIET)
        assert small.nbytes <= wanted
        assert small.nbytes == len(small.to_bytes())
        errors.append(rmse(decompress(small), matrix))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01
    assert small.nbytes > 0.95 * 9_000
    assert compress(np.rint(20 * matrix).astype(np.int32), max_bytes=2200, **QUIET).nbytes <= 2200


def test_no_more_bytes_than_it_takes():
    assert compress(np.full((300, 200), 3.5), max_bytes=10_000, **QUIET).nbytes < 1000
    assert compress(np.eye(60, dtype=np.uint8), max_bytes=100_000, **QUIET).summary.rmse == 0.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.some(2)
def test_the_mean_error_is_kept_beside_outliers_and_below_what_a_type_can_tell(dtype):
    random, matrix = np.random.default_rng(5), low_rank().astype(dtype)
    largest = float(np.finfo(dtype).max)
    matrix[random.random(matrix.shape) < 0.1] = min(largest, 1e20)
    matrix[3, 4] = largest
    for wanted in (0.5, 1e-4):
        small = compress(matrix, max_rmse=wanted, **QUIET)
        assert small.summary.rmse <= wanted
        with np.errstate(over="ignore"):
            assert np.sqrt(np.mean(np.square(away(matrix, decompress(small))))) <= wanted * 1.001


def test_floats_that_fit_exactly_are_exact():
    random = np.random.default_rng(0)
    ratings = np.where(random.random((80, 60)) < 0.7, np.nan, random.integers(1, 11, (80, 60)) / 2)
    exact = compress(ratings, max_error=0.0, **QUIET)
    roomy = compress(ratings, max_bytes=exact.nbytes + 200, **QUIET)
    assert roomy.nbytes <= exact.nbytes + 200
    np.testing.assert_array_equal(decompress(roomy), ratings)
    tight = compress(ratings, max_bytes=exact.nbytes - 400, **QUIET)
    assert tight.nbytes <= exact.nbytes - 400
    assert tight.summary.rmse > 0


@pytest.mark.parametrize(("shape", "most"), [((1, 30_000), 2_500), ((30_000, 1), 2_500), ((4_000, 3), 1_700)])
def test_thin_matrices_are_told_in_steps(shape, most):
    matrix = np.random.default_rng(0).normal(size=shape)
    compressed = compress(matrix, max_bytes=most, **QUIET)
    assert 0.9 * most < compressed.nbytes <= most
    assert compressed.summary.rmse < 0.9  # stencils alone of lines with nothing in common: 1


def test_with_room_for_all_everything_comes_back():
    matrix = low_rank((40, 30))
    for size in (20_000, 10**7):
        assert compress(matrix, max_bytes=size, **QUIET).summary.max_error == 0.0
    decimals = np.round(low_rank((6, 4)), 2)
    assert compress(decimals, max_bytes=2000, **QUIET).summary.rmse < 1e-6


def test_large_integers_and_large_bounds():
    matrix = (low_rank() * 1e15).astype(np.int64)
    small = compress(matrix, max_rmse=1e14, **QUIET)
    assert small.summary.rmse <= 1e14
    assert small.nbytes < 0.2 * matrix.nbytes
    assert compress(matrix, max_bytes=2500, **QUIET).nbytes <= 2500
    assert compress(np.arange(9, dtype=np.uint8)[:, None], max_error=1e19, **QUIET).nbytes < 1000


def test_masked_cells_are_missing():
    masked = np.ma.masked_array(low_rank((20, 10)), mask=low_rank((20, 10)) > 1)
    np.testing.assert_array_equal(np.isnan(decompress(compress(masked, max_error=0.1, **QUIET))), masked.mask)
    with pytest.raises(InputError, match="masked cells of int64"):
        compress(np.ma.masked_equal(np.arange(6).reshape(2, 3), 4), max_error=1)


def test_neighbours_of_images_and_channels():
    x, y = np.meshgrid(np.arange(90) / 20, np.arange(30) / 9)
    image = np.stack([100 * np.sin(x) * np.cos(y), 60 * np.cos(x), 40 * np.sin(y)], axis=-1).astype(np.int32)
    flat = compress(image.reshape(30, -1), max_error=1, **QUIET).nbytes
    assert compress(image, max_error=1, **QUIET).nbytes < flat
    wide = np.stack([np.cumsum(np.ones((4, 1000), int), axis=1) // 7 + k for k in range(2)])
    assert compress(wide, max_error=0, **QUIET).nbytes < 0.1 * wide.nbytes


def test_the_same_again(monkeypatch):
    monkeypatch.setattr("accams.threads.SMALLEST_PIECE", 300)  # so that two threads share the work
    matrix = low_rank((50, 40))
    for promise in ({"max_error": 0.5}, {"max_bytes": 1500}):
        one, two = (compress(matrix, **promise, verbose=False, n_threads=n).to_bytes() for n in (1, 2))
        assert one == two


def test_stencils_alone_take_little_and_steps_are_stored_where_they_pay():
    random = np.random.default_rng(0)
    blocks = random.normal(size=(4, 5))[random.integers(4, size=120)][:, random.integers(5, size=100)]
    assert compress(blocks, max_rmse=0.01, **QUIET).parts()["residual"] == 0
    assert compress(low_rank(), max_error=0.01, **QUIET).parts()["residual"] > 0


@pytest.fixture(scope="module")
def gapped() -> np.ndarray:
    matrix = low_rank((90, 70))
    matrix[3:9, 10:20] = np.nan
    matrix[50] = np.inf
    matrix[0, 0] = 1e30
    return matrix


def test_gaps_infinities_and_outliers_come_back(gapped):
    small = compress(gapped, max_error=0.2, **QUIET)
    found = decompress(small)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(gapped))
    np.testing.assert_array_equal(found[50], gapped[50])
    assert found[0, 0] == 1e30
    assert np.nanmax(np.abs(found[1:50] - gapped[1:50])) <= 0.2
    assert small.nbytes < 6000
    nothing = compress(np.full((4, 5), np.nan), max_rmse=1.0, **QUIET)
    assert np.isnan(decompress(nothing)).all()


KEYS = (
    (slice(3, 9), slice(10, 12)), (5, 7), (-1, slice(None)), (slice(None), [4, 2, 2]), ([3, 60], [1, 69]),
    (np.arange(90) % 7 == 0, slice(60, None, -9)), slice(80, 20, -13), 4, [1, 2], (slice(5, 5), 3), Ellipsis,
    (np.arange(4)[:, None], np.arange(3)),
)  # fmt: skip


@pytest.fixture(scope="module")
def panels(gapped) -> bytes:
    """The same in three panels of several tiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "TILE", (16, 16))
        patch.setattr(compression, "PANEL", 40 * 70)
        small = compress(gapped, max_error=0.2, **QUIET)
    assert len(small.n_stencils) == 3
    return small.to_bytes()


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_any_block_is_that_of_the_whole(panels, key):
    small = CompressedMatrix.from_bytes(panels)  # of which nothing has been read
    np.testing.assert_array_equal(small[key], decompress(panels)[key])


def test_bad_indices():
    small = compress(np.eye(5), max_error=0, **QUIET)
    for key in (5, (0, 9), [1, 8], (0, 0, 0), np.ones(3, bool), 1.5, (slice(None), "a")):
        with pytest.raises(IndexError):
            small[key]


def test_panels_in_a_file_and_bytes_shared(tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "PANEL", 20 * 50)
    matrix, path = low_rank(), tmp_path / "x.accams"
    np.save(tmp_path / "x.npy", matrix)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    small = compress(mapped, max_bytes=5000, path=path, **QUIET)
    assert len(small.n_stencils) == 3
    assert path.stat().st_size == small.nbytes <= 5000
    assert rmse(decompress(path), matrix) == pytest.approx(small.summary.rmse)
    again = accams.load(path)
    assert isinstance(again, CompressedMatrix)
    np.testing.assert_array_equal(np.concatenate(list(again.blocks(rows=7))), decompress(small))
    with pytest.raises(accams.ModelFileError, match="not a model"):
        accams.batch.recommend_all(path, tmp_path / "out.parquet")


def test_stacks_of_images_keep_their_shape():
    random = np.random.default_rng(0)
    stack = np.clip(random.normal(100, 4, (12, 20, 16)).cumsum(axis=2) / 8, 0, 255).astype(np.uint8)
    small = compress(stack, max_error=1, **QUIET)
    assert small.shape == stack.shape
    assert np.abs(decompress(small).astype(int) - stack).max() <= 1
    np.testing.assert_array_equal(small[3:5, 2], decompress(small)[3:5, 2])
    assert small.nbytes < 0.5 * stack.nbytes


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_tables_keep_their_names(library):
    frame = pd.DataFrame({"a": [1.5, 2.5, None], "b": [1, 2, 3], "c": [True, False, True]}, index=["x", "y", "z"])
    table = {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pl.from_pandas(frame).to_arrow()}[library]
    small = CompressedMatrix.from_bytes(compress(table, max_error=0, **QUIET).to_bytes())
    assert small.column_names.tolist() == ["a", "b", "c"]
    assert (small.row_names is None) == (library != "pandas")
    np.testing.assert_array_equal(decompress(small), frame.astype(float).to_numpy())
    numbered = pd.DataFrame(np.eye(3))
    np.testing.assert_array_equal(decompress(compress(numbered, max_error=0, **QUIET)), np.eye(3))
    with pytest.raises(InputError, match="column 'name' holds"):
        compress(pd.DataFrame({"a": [1.0], "name": ["ann"]}), max_error=0)


def test_it_prints_and_pickles():
    small = compress(np.eye(6), max_error=0, **QUIET)
    assert repr(small).startswith("CompressedMatrix(6 x 6 float64, ")
    assert (len(small), small.ndim, small.size) == (6, 2, 36)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(small)), np.float32), np.eye(6))


BAD = {
    "no promise": (np.eye(3), {}, "give one of max_bytes, max_error, max_rmse, not none"),
    "two promises": (np.eye(3), {"max_error": 1, "max_bytes": 100}, "give one of .*, not max_bytes and max_error"),
    "negative": (np.eye(3), {"max_error": -1}, "max_error must be a number of 0 or more"),
    "zero mean": (np.eye(3), {"max_rmse": 0}, "max_rmse must be a number above 0"),
    "infinite": (np.eye(3), {"max_error": np.inf}, "max_error must be a number"),
    "text": (np.eye(3), {"max_error": "small"}, "max_error must be a number, not 'small'"),
    "tiny bound": (np.pi * np.eye(3) + 1, {"max_error": 1e-20}, "smaller than what float64 can tell apart at 1"),
    "no room": (np.eye(3), {"max_bytes": 20}, "max_bytes=20 is too small: the header alone takes"),
    "hardly room": (low_rank(), {"max_bytes": 420}, "max_bytes=420 is too small"),
    "complex": (np.eye(3) * 1j, {"max_error": 1}, "compress real and imaginary parts apart"),
    "objects": (np.array([[1, None]], object), {"max_error": 1}, "array of object cannot be compressed: convert it"),
    "strings": (np.array([["a"]]), {"max_error": 1}, "cannot be compressed: convert it to numbers"),
    "long double": (np.eye(2, dtype=np.longdouble), {"max_error": 1}, "np.float64"),
    "vector": (np.arange(5), {"max_error": 1}, "has rows and columns, and this array has 1 dimension"),
    "scalar": (3.0, {"max_error": 1}, "has rows and columns"),
    "empty": (np.zeros((0, 4)), {"max_error": 1}, "the matrix is empty"),
    "ragged": ([[1, 2], [3]], {"max_error": 1}, "rows of different lengths"),
    "sparse": (scipy.sparse.eye(4), {"max_error": 1}, "a sparse matrix cannot be compressed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(name):
    matrix, promise, message = BAD[name]
    with pytest.raises(InputError, match=message):
        compress(matrix, **promise, verbose=False)


def test_what_is_no_compressed_matrix(tmp_path):
    with pytest.raises(accams.ModelFileError, match="there is no compressed matrix"):
        decompress(tmp_path / "none.accams")
    with pytest.raises(accams.ModelFileError, match="is not a matrix compressed by accams"):
        decompress(b"something else")
    with pytest.raises(InputError, match="decompress takes"):
        decompress(5)
    accams.ACCAMS(2, 2).fit(np.eye(4)).save(tmp_path / "model.accams")
    with pytest.raises(accams.ModelFileError, match="it is an accams model"):
        decompress(tmp_path / "model.accams")
