"""Damage at random: changed files are refused in one line; those with checksums put right are at least harmless."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import parts, predictions, put, refused
from posteriors import short_run

import accams
from accams.errors import AccamsError, ModelFileError
from accams.fitted.files import to_bytes
from accams.model import container

DATA = np.random.default_rng(0).normal(size=(12, 8)).round(1)
I, J = np.indices(DATA.shape).reshape(2, -1)
NAMES = ["ACCAMS", "BayesianACCAMS", "packed", "compressed", "old ACCAMS", "old BayesianACCAMS"]
GOLDEN = Path(__file__).parent / "golden"
MUTATIONS = 900  # of each file
LIES = 300


@pytest.fixture(scope="module")
def whole() -> dict[str, bytes]:
    """The files that are to be damaged, two of them as 0.1.0 wrote them."""
    named = accams.ACCAMS(2, 3).fit([(f"user {i}", f"film {j}") for i, j in zip(I, J, strict=True)], DATA.ravel())
    posterior = short_run(2, (3, 2)).fit(DATA).model_
    return {
        "ACCAMS": to_bytes(named.model_, coding="entropy"),
        "BayesianACCAMS": to_bytes(posterior, coding="entropy"),
        "packed": to_bytes(posterior, coding="packed", templates="int8"),
        "compressed": to_bytes(posterior.compress(4000, verbose=False), interactions=False),
        "old ACCAMS": (GOLDEN / "accams-evaluated.accams").read_bytes(),
        "old BayesianACCAMS": (GOLDEN / "bayesian-alike.accams").read_bytes(),
    }


def mutated(content: bytes, random: np.random.Generator) -> bytes:
    """The content with a few bytes changed, put in, left out, doubled, blanked or exchanged."""
    out = bytearray(content)
    a, b = sorted(int(x) for x in random.integers(0, len(out), 2))
    size = int(random.integers(1, 65))
    match random.choice(["change", "insert", "delete", "swap", "double", "blank", "reverse"]):
        case "change":
            for position in random.integers(0, len(out), random.integers(1, 9)):
                out[position] = random.integers(256)
        case "insert":
            out[a:a] = random.bytes(size)
        case "delete":
            del out[a : a + size]
        case "swap":
            size = min(size, b - a, len(out) - b)
            out[a : a + size], out[b : b + size] = out[b : b + size], out[a : a + size]
        case "double":
            out[a:a] = out[a : a + size]
        case "blank":
            out[a : a + size] = bytes(len(out[a : a + size]))
        case "reverse":
            out[a:b] = out[a:b][::-1]
    return bytes(out)


@pytest.mark.parametrize("name", NAMES)
def test_changed_files_are_refused(whole, name, is_quick, tmp_path):
    random, path, tried = np.random.default_rng(1), tmp_path / "m", 0
    while tried < (75 if is_quick else MUTATIONS):
        damaged = mutated(whole[name], random)
        if damaged != whole[name]:
            put(path, damaged)
            refused(path, "is not an accams model, or it is damaged", accams.load)
            tried += 1


# -- with checksums put right -------------------------------------------------------------------------------------

VALUES = [
    None, True, False, 0, -1, 1, 2, 3, 7, 12, 1000, 10**6, 2**63, 10**30, 0.5, -1e300, float("nan"), float("inf"),
    "", "x", "json", "integers", "positions", [], [1], [[1, 2]], {}, {"tuple": [1]}, {"a": 1},
]  # fmt: skip


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values within a header, those that hold others included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from leaves(each, (*path, key))


def with_another_value(header: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """The header with one value replaced, nudged or left out."""
    header = copy.deepcopy(header)
    ways = [way for way in leaves(header) if way[0] != "checksums"]
    *way, last = ways[random.integers(len(ways))]
    inner = header
    for key in way:
        inner = inner[key]
    number = isinstance(inner[last], (int, float))
    match random.integers(4):
        case 0:
            del inner[last]
        case 1 if number:
            inner[last] += int(random.integers(-3, 4))
        case _:
            inner[last] = VALUES[random.integers(len(VALUES))]
    return header


def with_other_bytes(tensors: dict[str, np.ndarray], random: np.random.Generator) -> dict[str, np.ndarray]:
    """The tensors with one of them changed, cut, doubled, left out, or of another type."""
    names = [name for name in tensors if tensors[name].size]
    name = names[random.integers(len(names))]
    flat = tensors[name].reshape(-1)
    data = flat.view(np.uint8).copy()
    match random.integers(8):
        case 0:
            return {**tensors, name: flat[: random.integers(len(flat))]}
        case 1:
            return {**tensors, name: np.concatenate([flat, flat])}
        case 2:
            return {other: x for other, x in tensors.items() if other != name}
        case 3:
            return {**tensors, name: data[: len(data) // 8 * 8].view(random.choice(["i8", "f8", "f4", "u2", "?"]))}
        case 4:
            return {**tensors, name: tensors[names[random.integers(len(names))]]}
        case _:
            for position in random.integers(0, len(data), random.integers(1, 5)):
                data[position] = random.integers(256)
            return {**tensors, name: data.view(flat.dtype).reshape(tensors[name].shape)}


def is_harmless(path: Path) -> bool:
    """Whether it is refused; if not, it predicts something, or says in one line why it cannot."""
    refusal, loaded = None, False
    try:
        model = accams.load(path)
        loaded = True
        assert predictions(model).ndim == 1
    except AccamsError as error:
        refusal = error
    assert "\n" not in str(refusal)
    assert loaded or isinstance(refusal, ModelFileError)
    return not loaded


@pytest.mark.parametrize("what", ["header", "tensors"])
@pytest.mark.parametrize("name", NAMES)
def test_lies_are_harmless(whole, name, what, is_quick, tmp_path):
    tries = 30 if is_quick else LIES
    random, path, n_refused = np.random.default_rng(2), tmp_path / "m", 0
    put(path, whole[name])
    header, tensors = parts(path)
    for _ in range(tries):
        one = with_another_value(header, random) if what == "header" else header
        two = with_other_bytes(tensors, random) if what == "tensors" else tensors
        put(path, container.to_bytes(one, two))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            n_refused += is_harmless(path)
    assert tries / 10 < n_refused < tries
