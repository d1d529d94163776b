"""Small files that would unfold to very much, or whose lies show only when they are used."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import zstandard
from damage import changed, parts, refused, refused_quickly, rewritten
from posteriors import random_sum, short_run

import accams
from accams.data.ids import Index
from accams.errors import InputError, ModelFileError
from accams.fit import checkpoint
from accams.fitted import files
from accams.model import container, file
from accams.model.coding import encode_ints
from accams.model.idcoding import pack_ids
from accams.model.stencils import StencilSum

ZEROS = encode_ints(np.zeros(4, np.int64))  # or any other number of them
DATA = np.random.default_rng(0).normal(size=(9, 7)).round(1)


@pytest.fixture(params=["entropy", "packed"])
def path(request, tmp_path: Path) -> Path:
    random_sum(0, shapes=((3, 2),)).save(tmp_path / "m", coding=request.param)
    return tmp_path / "m"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A model without stencils."""
    StencilSum((9, 7), 0.5).save(tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    accams.ACCAMS(0, 1).fit(DATA).save(tmp_path / "m")
    return tmp_path / "m"


# -- very much ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10**7, 10**8, 10**10, 10**15, 10**30])
def test_many_stencils(path, n):
    refused_quickly(rewritten(path, {"stencils": n}, {"sizes": encode_ints(np.ones(4, np.int64))}))


@pytest.mark.parametrize("k", [(2**12, 2**12), (2**13, 2**14), (2**27, 1), (2**31, 2**31)])
def test_templates_of_zeros(path, k):
    lies = {"sizes": encode_ints(np.array(k)), "whole": ZEROS, "steps": np.ones(1, np.float32), "templates": ...}
    refused_quickly(rewritten(path, tensors=lies))


@pytest.mark.parametrize("n", [10**7, 10**9, 10**12])
def test_many_rows_never_seen(empty, n):
    refused_quickly(rewritten(empty, {"shape": [n, 7], "unseen": [n, 0]}, {"unseen": ZEROS}))


@pytest.mark.parametrize("n", [10**7, 2**26, 2**27, 10**12])
def test_many_ids(fitted, n):
    of_ids = changed(fitted, "ids", {"row": "integers", "col": "positions"})
    refused_quickly(rewritten(fitted, {"shape": [n, 7], **of_ids}, {"ids/row": ZEROS}))


@pytest.mark.parametrize("shape", [[2**63, 7], [9, 2**64], [10**400, 10**400], [-1, 7], [-1, -1]])
def test_absurd_shapes_without_stencils(empty, shape):
    refused_quickly(rewritten(empty, {"shape": shape}))


def test_honest_files_are_read(tmp_path):
    """Large ones whose content happens to take hardly any room."""
    ids = np.arange(1_000_000) * 2 + 1
    made = StencilSum((1_000_000, 3)).append([[1.0]], np.zeros(1_000_000, int), np.zeros(3, int))
    made.rounded("int8").save(tmp_path / "m")
    assert accams.load(tmp_path / "m").shape == made.shape
    assert len(encode_ints(np.diff(ids, prepend=0))) * 64 > 1_000_000


# -- found only when it is used -----------------------------------------------------------------------------------


def test_packed_labels_beyond_their_template(tmp_path):
    random_sum(0, shapes=((3, 2),)).save(tmp_path / "m", coding="packed")
    labels = np.full_like(parts(tmp_path / "m")[1]["labels"], 0xFF)
    opened = accams.load(rewritten(tmp_path / "m", tensors={"labels": labels}))
    with pytest.raises(ModelFileError, match="row_labels must lie between 0 and 2"):
        opened.stencils.predict([0], [0])
    with pytest.raises(ModelFileError, match="row_labels must lie between 0 and 2"):
        opened.predict([(0, 0)])


def test_negative_steps(tmp_path):
    for coding in ("entropy", "packed"):
        random_sum(0, shapes=((3, 2),)).rounded("int8").save(tmp_path / "m", coding=coding)
        refused_quickly(rewritten(tmp_path / "m", tensors={"steps": np.array([-1.0], np.float32)}))


@pytest.mark.parametrize(
    "ids", [b"[[1],[2],[3],4,5,6,7,8,9]", b'[{"a":1},2,3,4,5,6,7,8,9]', b"[[],[],[],[],[],[],[],[],[]]"]
)
def test_ids_within_ids(fitted, ids):
    tensor = np.frombuffer(zstandard.ZstdCompressor().compress(ids), np.uint8)
    refused_quickly(rewritten(fitted, changed(fitted, "ids", {"row": "json", "col": "positions"}), {"ids/row": tensor}))


@pytest.mark.parametrize(
    "name",
    [
        "stencils_", "stencils", "row_index_", "row_index", "__dict__", "__sklearn_is_fitted__", "value_range_",
        "__class__", "__doc__", "predict", "_kept", "sums",
    ],
)  # fmt: skip
def test_reports_replace_no_part_of_the_model(fitted, name):
    before = accams.load(fitted)
    loaded = accams.load(rewritten(fitted, changed(fitted, "fit", {"training": {name: {}}})))
    np.testing.assert_array_equal(loaded.predict([[0, 0]]), before.predict([[0, 0]]))
    assert type(loaded) is accams.Model
    assert type(loaded.stencils) is StencilSum


@pytest.mark.parametrize("about", [5, None, [["data"]], "data", {}])
def test_checkpoints_that_do_not_say_of_what(tmp_path, about):

    content = container.to_bytes({"kind": "checkpoint", "format": checkpoint.FORMAT, "about": about}, {})
    (tmp_path / "run").write_bytes(content)
    refused(tmp_path / "run", "lacks the field .data.", checkpoint.read)


def test_versions_of_several_lines(path):
    refused(rewritten(path, {"format": 7, "version": "9\n9"}), "written by accams 9 9")


def test_names_of_parts_of_several_lines(fitted):
    for optional in (False, True):
        path = rewritten(fitted, changed(fitted, "a\nb" + "c" * 100, {"optional": optional}))
        with pytest.warns(UserWarning, match="^[^\n]*$") if optional else nullcontext():
            accams.load(path) if optional else refused(path, "upgrade accams", accams.load)


def test_ids_that_are_no_text():
    with pytest.raises(InputError, match="cannot be saved"):
        pack_ids(Index(["a", "\ud800"]))


def test_draws_with_numbers_to_spare(tmp_path):
    short_run(1, n_chains=1).fit(DATA).save(tmp_path / "m")
    name = "posterior/draws.row_effects"
    effects = parts(tmp_path / "m")[1][name]
    refused_quickly(rewritten(tmp_path / "m", tensors={name: np.append(effects, effects[:1])}))


# -- the same bytes -----------------------------------------------------------------------------------------------


def test_the_same_content_gives_the_same_bytes():
    tensors = {"a": np.arange(3), "b": np.zeros(5, np.uint8), "c": np.zeros((2, 2), np.float16)}
    assert len({container.to_bytes({"kind": "model", "format": 1}, tensors) for _ in range(20)}) == 1


@pytest.mark.parametrize("coding", ["auto", "entropy", "packed"])
@pytest.mark.parametrize("to", [None, "float16", "int8", "int4", 1e-3])
def test_a_model_saved_again_gives_the_same_bytes(tmp_path, coding, to):
    made = random_sum(0, unseen=((1,), (2, 3)), effects=True)
    before = file.to_bytes(made if to is None else made.rounded(to), coding=coding)
    (tmp_path / "m").write_bytes(before)
    assert file.to_bytes(accams.load(tmp_path / "m").stencils, coding=coding) == before


@pytest.mark.parametrize("templates", ["float32", "int8"])
def test_an_estimator_saved_again_gives_the_same_bytes(tmp_path, templates):
    rows, cols = np.indices(DATA.shape).reshape(2, -1)
    model = accams.ACCAMS(2, 3).fit([(f"u{i}", int(j)) for i, j in zip(rows, cols, strict=True)], DATA.ravel())
    model.save(tmp_path / "m", templates=templates)
    assert files.to_bytes(accams.load(tmp_path / "m")) == (tmp_path / "m").read_bytes()


def test_a_posterior_saved_again_gives_the_same_bytes(tmp_path):
    short_run().fit(DATA).save(tmp_path / "m")
    assert files.to_bytes(accams.load(tmp_path / "m")) == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("n", [10**7, 10**9, 10**12, 10**30])
@pytest.mark.parametrize("k", [(1, 1), (0, 0), (-5, 3), (2**30, 2**30)])
def test_many_stencils_that_are_all_alike(path, n, k):
    refused_quickly(rewritten(path, {"stencils": n, "alike": True}, {"sizes": encode_ints(np.array(k))}))
