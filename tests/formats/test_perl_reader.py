"""Read model files in another language.

`reader.pl` was written from docs/internals/files.md alone, by someone who had not seen the sources of the library. It
must predict what the library predicts, so the page is enough to write a reader.
"""

import json
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import zstandard

import accams
from accams import ACCAMS, BayesianACCAMS

READER = Path(__file__).with_name("reader.pl")

# The reader prints nine digits, and adds in another order than the library: in 64 bits, the last digits may differ.
TOLERANCE = 1e-6

WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "U8": 1}

Pairs = list[tuple[Any, Any]]


class Tensor(NamedTuple):
    """Hold a tensor as the container does."""

    kind: str
    shape: list[int]
    content: bytes


class Container(NamedTuple):
    """Hold the header of the package, and its tensors by name."""

    header: dict[str, Any]
    tensors: dict[str, Tensor]


def read_container(path: Path) -> Container:
    content = path.read_bytes()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    entries = json.loads(content[8:begin])
    header = json.loads(entries.pop("__metadata__")["accams"])
    tensors = {}
    for name, entry in entries.items():
        first, last = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], entry["shape"], content[begin + first : begin + last])
    return Container(header, tensors)


def write_container(path: Path, container: Container) -> None:
    """Write a file as the page describes it, with checksums that hold."""
    checksums = {name: zlib.crc32(tensor.content) for name, tensor in container.tensors.items()}
    header = json.dumps(container.header | {"checksums": checksums})
    entries: dict[str, Any] = {"__metadata__": {"accams": header, "checksum": "00000000"}}
    # Wide types come first, so that tensors are aligned.
    tensors = sorted(container.tensors.items(), key=lambda item: -WIDTHS[item[1].kind])
    at = 0
    for name, (kind, shape, content) in tensors:
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = struct.pack("<Q", len(text)) + text
    head = head.replace(b'"checksum":"00000000"', b'"checksum":"%08x"' % zlib.crc32(head), 1)
    path.write_bytes(head + b"".join(tensor.content for _, tensor in tensors))


def code_floats(values: np.ndarray, kind: str = "F32") -> Tensor:
    content = values.astype({"F16": "<f2", "F32": "<f4"}[kind]).tobytes()
    return Tensor(kind, [values.size], content)


def code_integers(values: Iterable[int]) -> Tensor:
    """Code integers which, after zigzag, all have the same length: a stream of one symbol holds its state alone."""
    zigzag = [2 * value if value >= 0 else -2 * value - 1 for value in values]
    (length,) = {value.bit_length() for value in zigzag}
    below = "".join(format(value, "b")[:0:-1] for value in zigzag)
    rest = int("0" + below[::-1], 2).to_bytes(-(-len(below) // 8), "little")
    lengths = struct.pack(f"<{length + 1}H", *[0] * length, 2**8)
    content = struct.pack("<BBI", 8, length + 1, 4) + lengths + struct.pack("<HH", 1, 0) + rest
    return Tensor("U8", [len(content)], content)


def run_reader(path: Path, pairs: Pairs, *options: str) -> subprocess.CompletedProcess[str]:
    lines = "".join(f"{row} {col}\n" for row, col in pairs)
    return subprocess.run(
        ["perl", str(READER), *options, str(path)], input=lines, capture_output=True, text=True, check=False
    )


def assert_same_predictions(path: Path, pairs: Pairs, *options: str, asked: Pairs | None = None) -> None:
    """Compare the predictions of the reader for `asked` with those of the library for `pairs`."""
    done = run_reader(path, asked or pairs, *options)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(
        [float(line) for line in done.stdout.split()],
        accams.load(path).predict(pairs),
        rtol=TOLERANCE,
        atol=TOLERANCE,
    )


def all_positions(path: Path) -> Pairs:
    """Return all pairs of positions, those of an unknown row or column among them."""
    n_rows, n_cols = read_container(path).header["shape"]
    return [(row, col) for row in [-1, *range(n_rows + 2)] for col in [-1, *range(n_cols + 2)]]


def draw_matrix(n_rows: int = 40, n_cols: int = 30, n_levels: int = 0) -> np.ndarray:
    """Draw a matrix with effects, noise and missing cells; with `n_levels`, of whole ratings from 1."""
    rng = np.random.default_rng(0)
    matrix = 3 + rng.normal(size=(n_rows, 1)) + rng.normal(size=n_cols) + rng.normal(0, 0.3, (n_rows, n_cols))
    if n_levels:
        matrix = np.clip(np.round(matrix), 1, n_levels)
    matrix[rng.random(matrix.shape) < 0.3] = np.nan
    return matrix


def draw_ratings() -> pd.DataFrame:
    """Draw ratings of users and items whose ids are neither positions nor all positive."""
    rng = np.random.default_rng(1)
    cells = rng.choice(60 * 25, 500, replace=False)
    far = np.array([-(2**63), -7, 2**63 - 1])
    users = np.concatenate([far, 1000 + 7 * np.arange(57)])
    return pd.DataFrame(
        {"user": users[cells // 25], "item": cells % 25 - 9, "rating": rng.integers(1, 6, len(cells)).astype(float)}
    )


def draw_holes() -> np.ndarray:
    """Draw a matrix with rows and columns without observations."""
    matrix = draw_matrix()
    matrix[[0, 3, 39]] = np.nan
    matrix[:, [7, 8]] = np.nan
    return matrix


def fit_sum(matrix: np.ndarray | pd.DataFrame, **settings: Any) -> Any:
    return ACCAMS(**{"n_stencils": 3, "n_clusters": 4, "random_state": 0, **settings}).fit(matrix)


@pytest.fixture(scope="module", autouse=True)
def _perl() -> None:
    """Skip these tests where there is no Perl that has what the reader needs."""
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed")
    needs = ["-M5.022", "-MJSON::PP", "-MCompress::Raw::Zlib", "-MGetopt::Long", "-MList::Util", "-MPOSIX"]
    if subprocess.run(["perl", *needs, "-e", "pack 'Q', 1"], capture_output=True, check=False).returncode:
        pytest.skip("perl is older than 5.22, has no integers of 64 bits, or lacks a core module such as JSON::PP")


@pytest.fixture(scope="module")
def draws() -> Any:
    """Return a Bayesian model of rows and columns of which some were not observed."""
    return BayesianACCAMS(n_stencils=2, n_clusters=3, n_chains=1, n_sweeps=10, random_state=0, verbose=False).fit(
        draw_holes()
    )


SUMS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "mantissas": (lambda: fit_sum(draw_matrix(), n_stencils=5, n_clusters=(7, 4)), {"mantissas", "exponents"}),
    "one_stencil": (lambda: fit_sum(draw_matrix(), n_stencils=1), {"templates"}),
    "one_cluster": (lambda: fit_sum(draw_matrix(), n_clusters=1), {"templates"}),
    "no_stencil": (lambda: fit_sum(draw_matrix(), n_stencils=0), {"labels"}),
    "coded_labels": (lambda: fit_sum(draw_matrix(300, 40), n_clusters=(9, 5)), {"models"}),
    "unseen": (lambda: fit_sum(draw_holes(), n_clusters=(7, 4)), {"unseen"}),
    "not_clipped": (lambda: fit_sum(draw_holes(), clip=False), {"unseen"}),
    "clipped": (lambda: fit_sum(draw_holes(), clip=(2.5, 3.5)), {"unseen"}),
}


@pytest.mark.parametrize("name", SUMS)
def test_predicts_for_a_sum(name: str, tmp_path: Path) -> None:
    fit, tensors = SUMS[name]
    path = tmp_path / "model.accams"
    fit().save(path)
    assert {f"stencils/{tensor}" for tensor in tensors} <= read_container(path).tensors.keys()
    assert_same_predictions(path, all_positions(path))


@pytest.mark.parametrize("max_bytes", [2_000, 6_000])
def test_predicts_for_a_compressed_model(draws: Any, max_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "small.accams"
    draws.compress(max_bytes=max_bytes).save(path)
    assert {"stencils/whole", "stencils/steps", "stencils/unseen"} <= read_container(path).tensors.keys()
    assert_same_predictions(path, all_positions(path))


def test_predicts_on_a_scale_of_ratings(tmp_path: Path) -> None:
    path = tmp_path / "ratings.accams"
    settings: dict[str, Any] = {"n_chains": 1, "n_sweeps": 6, "random_state": 0, "verbose": False}
    model = BayesianACCAMS(n_stencils=2, n_clusters=3, likelihood="ordinal", **settings).fit(
        draw_matrix(25, 20, n_levels=5)
    )
    model.compress(max_bytes=3_000).save(path)
    assert "scale" in read_container(path).header["parts"]
    assert_same_predictions(path, all_positions(path))


def test_predicts_for_integer_ids(tmp_path: Path) -> None:
    path = tmp_path / "ids.accams"
    ratings = draw_ratings()
    fit_sum(ratings).save(path)
    assert read_container(path).header["parts"]["ids"] == {"row": "integers", "col": "integers"}
    users = [*ratings["user"].unique().tolist(), 0, 1001]
    assert_same_predictions(path, [(user, item) for user in users for item in range(-12, 20)], "--ids")


def test_takes_positions_for_text_ids(tmp_path: Path) -> None:
    path = tmp_path / "text.accams"
    ratings = draw_ratings()
    fit_sum(ratings.assign(user="user " + ratings["user"].astype(str))).save(path)
    container = read_container(path)
    assert container.header["parts"]["ids"] == {"row": "json", "col": "integers"}
    users = json.loads(zstandard.ZstdDecompressor().decompress(container.tensors["ids/row"].content))
    pairs: Pairs = [(user, item) for user in users for item in range(-9, 16)]
    asked: Pairs = [(row, item) for row in range(len(users)) for item in range(-9, 16)]
    assert_same_predictions(path, pairs, "--ids", asked=asked)
    done = run_reader(path, [(0, 0)], "--ids")
    assert done.stderr.count("\n") == 1
    assert "Zstandard" in done.stderr


def test_adds_effects(tmp_path: Path) -> None:
    """Effects of rows and columns count, but not those of rows and columns that were not observed."""
    path = tmp_path / "effects.accams"
    fit_sum(draw_holes(), clip=False).save(path)
    container = read_container(path)
    rng = np.random.default_rng(0)
    for name, size in zip(("row_effects", "col_effects"), container.header["shape"], strict=True):
        container.tensors[f"stencils/{name}"] = code_floats(rng.normal(size=size))
    write_container(path, container)
    assert_same_predictions(path, all_positions(path))


@pytest.mark.parametrize("kind", ["F16", "F32", "mantissas"])
def test_mixes_quantised_templates_with_others(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mixed.accams"
    fit_sum(draw_matrix(), n_stencils=4, n_clusters=(5, 3), clip=False).save(path)
    header, tensors = read_container(path)
    for name in ("templates", "mantissas", "exponents"):
        tensors.pop(f"stencils/{name}", None)
    rng = np.random.default_rng(0)
    tensors["stencils/steps"] = code_floats(np.array([0, 0.1, 0, 0.3]))
    tensors["stencils/whole"] = code_integers(rng.integers(8, 16, 30).tolist())
    if kind == "mantissas":
        # Only stencils that are not quantised have an exponent.
        tensors["stencils/mantissas"] = code_integers(rng.integers(-(2**23), -(2**22), 30).tolist())
        tensors["stencils/exponents"] = code_integers([-23, -17])
    else:
        tensors["stencils/templates"] = code_floats(rng.normal(size=30), kind)
    write_container(path, Container(header, tensors))
    assert_same_predictions(path, all_positions(path))


def test_tells_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "model.accams"
    fit_sum(draw_matrix(), n_stencils=2, n_clusters=(7, 4)).save(path)
    assert run_reader(path, [], "--info").stdout == "shape 40x30\nstencils 2\ntemplates 7x4 7x4\n"


def assert_refused(path: Path, reason: str) -> None:
    done = run_reader(path, [(0, 0)])
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert reason in done.stderr


def test_refuses_a_model_of_many_draws(draws: Any, tmp_path: Path) -> None:
    path = tmp_path / "draws.accams"
    draws.save(path)
    assert_refused(path, "compress the model first")


def test_refuses_damage(tmp_path: Path) -> None:
    path = tmp_path / "model.accams"
    fit_sum(draw_matrix()).save(path)
    content = path.read_bytes()

    def damage(damaged: bytes) -> Path:
        path.write_bytes(damaged)
        return path

    begin = 8 + struct.unpack("<Q", content[:8])[0]
    for at in (begin, (begin + len(content)) // 2, len(content) - 1):
        flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        assert_refused(damage(flipped), "damaged model file: the checksum of tensor")
    shape = content.replace(b'\\"shape\\":[40,', b'\\"shape\\":[41,')
    assert shape != content
    assert_refused(damage(shape), "damaged model file: the checksum of its header differs")
    assert_refused(damage(content[:-1]), "damaged model file: tensor")
    assert_refused(damage(content + b"\0"), "damaged model file: bytes follow")
    for foreign in (b"", b"PK\3\4", content[: begin - 1], struct.pack("<Q", 2) + b"{}"):
        assert_refused(damage(foreign), "not a model file of accams")
