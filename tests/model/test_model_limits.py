"""What a file may cost is bounded by its size, at loading and afterwards; what it says cannot change after that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard
from damage import changed, little_memory, parts, put, refused, rewritten, sealed

import accams
from accams.data.ids import Index
from accams.errors import InputError, ModelFileError
from accams.model import container, packing
from accams.model.draws import pack_draws
from accams.model.idcoding import pack_ids, unpack_ids
from accams.model.limits import DRAWS, LABELS, NUMBERS, STENCILS, Limit
from accams.model.posterior import Draw
from accams.model.stencils import StencilSum

DATA = np.random.default_rng(0).normal(size=(9, 7)).round(1)


def refused_in_little_memory(path: Path) -> str:
    with little_memory(150e6):
        return refused(path, "is not an accams model, or it is damaged", accams.load)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    accams.ACCAMS(1, 2).fit(DATA).save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("limit", [NUMBERS, LABELS, STENCILS, Limit("things", 10, 3)])
def test_a_padded_file_passes_and_a_byte_less_does_not(limit):
    limit.check(limit.free, 0)
    assert limit.missing(limit.free, 0) == 0
    for size in (limit.free + 1, 3 * limit.free + 7):
        stored = limit.missing(size, 0)
        assert limit.missing(size, 3) == stored - 3
        limit.check(size, stored)
        with pytest.raises(ValueError, match=f"{size:,} {limit.what} cannot come from {stored - 1:,} bytes"):
            limit.check(size, stored - 1)


def test_ids_that_unfold(path):
    """About 15 KB of lists within lists, which took 3.5 GB."""
    ids = b"[" + b"[[[[[[[[]]]]]]]]," * (1 << 23) + b"0]"
    tensor = np.frombuffer(zstandard.ZstdCompressor(19).compress(ids), np.uint8)
    assert len(tensor) < 20_000
    lie = changed(path, "ids", {"row": "json", "col": "positions"})
    assert "cannot come from" in refused_in_little_memory(rewritten(path, lie, {"ids/row": tensor}))


def test_honest_ids_that_take_hardly_any_room():
    ids = ["x" * 5000 + str(i) for i in range(1000)]
    kind, packed = pack_ids(Index(ids))
    assert len(packed) * NUMBERS.per_byte >= 5_000_000
    assert unpack_ids(kind, packed, 1000).ids.tolist() == ids


@pytest.mark.parametrize("coding", ["packed", "entropy"])
def test_a_stencil_of_one_block_and_many_rows(tmp_path, coding):
    StencilSum((9, 7)).append([[1.0]], np.zeros(9, int), np.zeros(7, int)).save(tmp_path / "m", coding=coding)
    refused_in_little_memory(rewritten(tmp_path / "m", {"shape": [1 << 27, 7]}))


@pytest.mark.parametrize("n", [1 << 23, 1 << 47])
def test_many_columns_without_stencils(tmp_path, n):
    StencilSum((9, 7)).save(tmp_path / "m")
    assert "cannot come from" in refused_in_little_memory(rewritten(tmp_path / "m", {"shape": [9, n]}))


def test_honest_shapes_that_take_hardly_any_room(tmp_path):
    shape = (20, 6_000_000)
    StencilSum(shape, 2.5).save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size * NUMBERS.per_byte >= sum(shape)
    assert accams.load(tmp_path / "m").predict([(3, 5_999_999)]).tolist() == [2.5]


def test_many_stencils_that_take_no_bytes(tmp_path):
    """Templates of zeros, all alike: a million of them took seconds to be refused."""
    StencilSum((9, 7)).append([[0.0]], np.zeros(9, int), np.zeros(7, int)).save(tmp_path / "m", coding="packed")
    refused_in_little_memory(rewritten(tmp_path / "m", {"stencils": 1_000_000, "alike": True}))


@pytest.mark.parametrize(
    "shape", [[1] * 100_000, [int("9" * 4000)] * 100, [2**63, 0], [True], [1.0], ["1"], [[1]], [None], [-1, -1], {}]
)
def test_shapes_of_tensors(tmp_path, shape):
    place = {"dtype": "U8", "shape": shape, "data_offsets": [0, 1]}
    (tmp_path / "m").write_bytes(sealed({"x": place}, {"kind": "model", "format": 2, "checksums": {"x": 0}}, b"\0"))
    refused_in_little_memory(tmp_path / "m")


def test_a_long_header(tmp_path):
    about = json.dumps({"kind": "model", "format": 2, "x": [[]] * 6_000_000})
    (tmp_path / "m").write_bytes(sealed({}, about))
    refused_in_little_memory(tmp_path / "m")


def test_messages_are_short(path):
    """However much of the file they quote."""
    header, tensors = parts(path)
    lies = [{"parts": {"x" * 5000: {}}}, {"format": 10**9, "version": "9" * 5000}, {"kind": "k" * 5000}]
    for lie in lies:
        put(path, container.to_bytes({**header, **lie}, tensors))
        assert len(refused(path, read=accams.load)) < 500 + len(str(path))
    put(path, container.to_bytes(header, {**tensors, "t" * 5000: np.zeros(1)}))
    assert len(refused(path, read=accams.load)) < 500 + len(str(path))


@pytest.mark.parametrize("coding", ["packed", "entropy"])
def test_a_file_that_is_changed_after_it_has_been_loaded(tmp_path, coding):
    """Truncated in place: a mapped file would end the process, or give other numbers than those that were checked."""
    path = tmp_path / "m"
    accams.ACCAMS(2, 3).fit(DATA).save(path, coding=coding)
    kept, opened = accams.load(path), accams.load(path)
    expected = kept.predict([(0, 0), (8, 6)])
    with path.open("r+b") as file:
        file.truncate(100)
    np.testing.assert_array_equal(opened.predict([(0, 0), (8, 6)]), expected)


@pytest.mark.parametrize("name", ["row_noise", "row_shares"])
def test_rows_of_draws(tmp_path, name):
    priors, schedule = accams.Priors(row_noise=4.0), accams.Schedule(rao_blackwell=True)
    fit = accams.BayesianACCAMS(2, 2, n_sweeps=6, n_chains=1, priors=priors, schedule=schedule)
    fit.fit(DATA).save(tmp_path / "m")
    tensor = parts(tmp_path / "m")[1][f"posterior/draws.{name}"]
    for wrong in (np.zeros_like(tensor), tensor.astype(np.float64), -tensor.astype(np.float32)):
        refused_in_little_memory(rewritten(tmp_path / "m", tensors={f"posterior/draws.{name}": wrong}))


def test_what_could_not_be_read_is_not_saved(path):
    """Nor does it take the place of a file that can be read."""
    before, model = path.read_bytes(), accams.load(path)
    for lie in ({"zero_weight": 1e120}, {"sigma": float("nan")}, {"value_range": (0.0, 1e40)}):
        with pytest.raises(InputError, match="this model cannot be saved: field"):
            replace(model, **lie).save(path)
    with pytest.raises(ModelFileError, match=r"header of .* bytes could not be read"):
        container.to_bytes({"kind": "model", "x": "y" * (1 << 24)}, {})
    assert path.read_bytes() == before


def test_draws_that_take_no_bytes_can_be_read_again():
    shape = (3_000_000, 3_000_000)
    made = StencilSum(shape, 0.5)
    draws = [Draw.of(0, 0, made)] * 100_000
    header, tensors = pack_draws(draws)
    assert packing.NUMBERS.missing(sum(shape), sum(x.nbytes for x in tensors.values())) == 0
    assert DRAWS.missing(len(draws), sum(x.nbytes for x in tensors.values())) == 0
    assert len(header["draws"]) == len(draws)
