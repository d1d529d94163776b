"""Parts of a whole model whose checksums are right but whose content lies: see `test_model_lies`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zstandard
from damage import changed, parts, predictions, put, refused_quickly, rewritten
from posteriors import short_run

import accams
from accams.fitted.files import to_bytes
from accams.model.coding import encode_ints

INT64 = np.iinfo(np.int64)
DATA = np.random.default_rng(0).normal(size=(9, 7)).round(1)
GOLDEN = Path(__file__).parent / "golden"
PREFIXES = {"row_ids": "ids/row", "col_ids": "ids/col", "probes": "posterior/probes"}


@pytest.fixture(scope="module")
def fitted() -> dict[str, bytes]:
    """Files of small models; the old ones were written by 0.1.0."""
    rows, cols = np.indices(DATA.shape).reshape(2, -1)
    pairs = [(f"u{i}", f"item {j}") for i, j in zip(rows, cols, strict=True)]
    old = {"old text": "accams-seen", "old numbers": "accams-evaluated", "old bayesian": "bayesian"}
    return {
        "text": to_bytes(accams.ACCAMS(2, 2).fit(pairs, DATA.ravel()).model_),
        "numbers": to_bytes(accams.ACCAMS(2, 2).fit(np.stack([rows * 3, cols - 5], axis=1), DATA.ravel()).model_),
        "bayesian": to_bytes(short_run().fit(DATA).model_),
        **{name: (GOLDEN / f"{file}.accams").read_bytes() for name, file in old.items()},
    }


@pytest.fixture
def saved(fitted, tmp_path):
    def write(name: str) -> Path:
        put(tmp_path / "m", fitted[name])
        return tmp_path / "m"

    return write


def with_tensor(path: Path, name: str, tensor) -> Path:
    """The file with another tensor, by its name in files of 0.1.0."""
    if parts(path)[0]["format"] == 2:
        name = PREFIXES.get(name, f"posterior/{name}")
    assert name in parts(path)[1]
    return rewritten(path, tensors={name: tensor})


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["text", "numbers", "bayesian", "old text", "old numbers", "old bayesian"])
def test_what_is_right_is_read(saved, name):
    assert np.isfinite(predictions(accams.load(rewritten(saved(name))))).all()


@pytest.mark.parametrize(
    "header",
    [
        {"class": "Tree"}, {"class": None}, {"class": ["ACCAMS"]}, {"class": "BayesianACCAMS"}, {"class": "a\nb"},
        {"value_range": [1]}, {"value_range": None}, {"value_range": "ab"}, {"value_range": [[], []]},
        {"value_range": [2.0, 1.0]}, {"value_range": [float("nan"), 1.0]}, {"value_range": [0.0, float("inf")]},
        {"row_ids": "tree"}, {"row_ids": None}, {"row_ids": 3}, {"col_ids": "integers"}, {"row_ids": ["json"]},
        {"parameters": {"n_clusters": {}}}, {"parameters": None}, {"parameters": []},
        {"parameters": {"clip": {"a": 1}}}, {"parameters": {"clip": [2.0, 1.0]}}, {"parameters": {"clip": "no"}},
        {"training": None}, {"training": []}, {"training": {"sigma_": -1.0}}, {"training": {"sigma_": "large"}},
        {"zero_weight": -1.0}, {"zero_weight": "small"}, {"n_seen": -1}, {"n_seen": [[1, 2]]}, {"n_seen": "all"},
        {"n_seen": 10**9}, {"n_seen": None},
        {"shape": [24, 16]}, {"shape": [2**40, 16]},
    ],
    ids=str,
)  # fmt: skip
def test_headers_of_estimators(saved, header):
    """As 0.1.0 wrote them."""
    refused_quickly(rewritten(saved("old text"), header))


@pytest.mark.parametrize("name", ["parameters", "value_range", "training", "row_ids", "col_ids"])
def test_estimators_without_an_entry(saved, name):
    refused_quickly(rewritten(saved("old text"), {name: ...}))


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("fit", {"estimator": None}), ("fit", {"estimator": ["ACCAMS"]}), ("fit", {"estimator": "a" * 10_001}),
        ("values", {"range": [1]}), ("values", {"range": None}), ("values", {"range": "ab"}),
        ("values", {"range": [[], []]}), ("values", {"range": [2.0, 1.0]}), ("values", {"range": [float("nan"), 1.0]}),
        ("values", {"range": [0.0, float("inf")]}), ("values", {"clip": [2.0, 1.0]}), ("values", {"clip": "yes"}),
        ("values", {"clip": [1.0]}), ("values", {"sigma": -1.0}), ("values", {"sigma": float("nan")}),
        ("values", {"zero_weight": -0.5}), ("values", {"zero_weight": "small"}),
        ("ids", {"row": "tree"}), ("ids", {"row": None}), ("ids", {"row": 3}), ("ids", {"col": "integers"}),
        ("ids", {"row": ["json"]}),
        ("fit", {"parameters": {"n_clusters": {}}}), ("fit", {"parameters": None}), ("fit", {"parameters": []}),
        ("fit", {"parameters": {"clip": {"a": 1}}}), ("fit", {"training": None}), ("fit", {"training": []}),
        ("interactions", {"sizes": -1}), ("interactions", {"sizes": [[1, 2]]}), ("interactions", {"sizes": "all"}),
        ("interactions", {"sizes": 10**9}), ("interactions", {"sizes": [[9, 10**15]]}),
    ],
    ids=lambda each: str(each)[:40],
)  # fmt: skip
def test_fields(saved, part, fields):
    refused_quickly(rewritten(saved("text"), changed(saved("text"), part, fields)))


@pytest.mark.parametrize("shape", [[10, 7], [2**40, 7]])
def test_shapes(saved, shape):
    refused_quickly(rewritten(saved("text"), {"shape": shape}))


def test_parameters_within_parameters(saved):
    nested: list = []
    for _ in range(700):
        nested = [nested]
    refused_quickly(rewritten(saved("old text"), {"parameters": {"n_clusters": nested}}))
    refused_quickly(rewritten(saved("text"), changed(saved("text"), "fit", {"parameters": {"n_clusters": nested}})))


def test_a_file_does_not_choose_what_is_written(saved, tmp_path):
    given = {"parameters": {"checkpoint": str(tmp_path / "there"), "n_stencils": 2}}
    for old, lie in (("old text", given), ("text", changed(saved("text"), "fit", given))):
        assert accams.load(rewritten(saved(old), lie)).parameters == {"n_stencils": 2}


def text(content: bytes) -> np.ndarray:
    return np.frombuffer(zstandard.ZstdCompressor().compress(content), np.uint8)


def declared(size: int) -> np.ndarray:
    """The beginning of compressed text that says how long it is."""
    return np.frombuffer(bytes.fromhex("28b52ffde0") + size.to_bytes(8, "little") + bytes(9), np.uint8)


@pytest.mark.parametrize("name", ["text", "old text"])
@pytest.mark.parametrize(
    "ids",
    [
        text(b""), text(b"["), text(b"{}"), text(b"3"), text(b'"abcdefghi"'), text(b"[1,2,3]"), text(b"[" * 10**5),
        text(b'[null,"a","b","c","d","e","f","g","h"]'), text(b'[NaN,"a","b","c","d","e","f","g","h"]'),
        text(b"\xff\xfe"), text(b"[" + b"1" * 10**4 + b"]"), declared(2**28), declared(2**40), declared(2**64 - 1),
        np.zeros(0, np.uint8), np.zeros(50, np.uint8), text(b'["a"]')[:-1], np.arange(256).astype(np.uint8),
    ],
    ids=lambda each: each if isinstance(each, str) else each[:12].tobytes().hex(),
)  # fmt: skip
def test_ids_that_are_text(saved, ids, name):
    refused_quickly(with_tensor(saved(name), "row_ids", ids))


@pytest.mark.parametrize(("name", "size"), [("text", 9), ("old text", 23)])
def test_a_stream_of_unknown_length(saved, name, size):
    names = b'["' + b'","'.join(bytes([97 + p]) for p in range(size)) + b'"]'
    assert predictions(accams.load(with_tensor(saved(name), "row_ids", text(names)))).ndim == 1
    ids = np.frombuffer(zstandard.ZstdCompressor(write_content_size=False).compress(names), np.uint8)
    refused_quickly(with_tensor(saved(name), "row_ids", ids))


@pytest.mark.parametrize("name", ["numbers", "old numbers"])
@pytest.mark.parametrize(
    "ids", [np.zeros(0, np.uint8), np.zeros(50, np.uint8), np.arange(9), encode_ints(np.arange(8)), ...]
)
def test_ids_that_are_numbers(saved, ids, name):
    refused_quickly(with_tensor(saved(name), "row_ids", ids))


# -- posteriors ---------------------------------------------------------------------------------------------------

BAYESIAN = ["bayesian", "old bayesian"]


def with_posterior(path: Path, changes) -> Path:
    header = parts(path)[0]
    if header["format"] == 2:
        return rewritten(path, changed(path, "posterior", changes))
    return rewritten(path, {"posterior": {**header["posterior"], **changes}})


@pytest.mark.parametrize("name", BAYESIAN)
@pytest.mark.parametrize(
    "change",
    [
        {"stencils": 10**5}, {"stencils": -1}, {"stencils": 10**30}, {"draws": []}, {"draws": 5}, {"offsets": []},
        {"draws": [[0, 0, 10**9]]}, {"draws": [[0, 0, 2]] * 10_000}, {"draws": [[0, 0, -2]] * 6},
        {"offsets": [float("nan")]}, {"offsets": [[]]}, {"noise": "loud"}, {"noise": None}, {"noise": float("nan")},
        {"noise": -1.0},
    ],
    ids=lambda each: str(each)[:40],
)  # fmt: skip
def test_headers_of_posteriors(saved, change, name):
    path = saved(name)
    if name == "old bayesian" and "noise" in change:
        refused_quickly(rewritten(path, change))
    else:
        refused_quickly(with_posterior(path, change))


@pytest.mark.parametrize("wrong", [None, [], 5, "draws", {}])
def test_posteriors_of_a_wrong_kind(saved, wrong):
    refused_quickly(rewritten(saved("old bayesian"), {"posterior": wrong}))
    given = parts(saved("bayesian"))[0]["parts"]
    refused_quickly(rewritten(saved("bayesian"), {"parts": {**given, "posterior": wrong}}))


def test_estimators_without_their_draws(saved):
    """Of 0.1.0, whose class says that there are any."""
    refused_quickly(rewritten(saved("old bayesian"), {"posterior": ...}))


@pytest.mark.parametrize("name", BAYESIAN)
@pytest.mark.parametrize("tensor", ["probes", "draws.labels", "draws.sizes", "draws.templates"])
def test_missing_tensors_of_posteriors(saved, tensor, name):
    refused_quickly(with_tensor(saved(name), tensor, ...))


def tensor_of(path: Path, name: str) -> np.ndarray:
    return parts(path)[1][name if parts(path)[0]["format"] == 1 else f"posterior/{name}"]


@pytest.mark.parametrize("name", BAYESIAN)
@pytest.mark.parametrize(
    "tensor", ["row_noise", "row_shares", "row_effects", "col_effects", "labels", "sizes", "templates"]
)
def test_tensors_of_posteriors_cut_short(saved, tensor, name):
    path, tensor = saved(name), f"draws.{tensor}"
    refused_quickly(with_tensor(path, tensor, tensor_of(path, tensor)[:-1]))


@pytest.mark.parametrize("name", BAYESIAN)
def test_effects_of_draws_that_are_no_numbers(saved, name):
    path = saved(name)
    refused_quickly(with_tensor(path, "draws.row_effects", np.full_like(tensor_of(path, "draws.row_effects"), np.nan)))


@pytest.mark.parametrize("name", BAYESIAN)
@pytest.mark.parametrize("probes", [[[0, 99]], [[-1, 0]], [[0]], [0, 0], [[0.0, 0.0]], [[2**40, 0]]])
def test_probes_outside_the_matrix(saved, name, probes):
    refused_quickly(with_tensor(saved(name), "probes", np.array(probes)))
