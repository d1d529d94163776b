"""Files of compressed matrices that are damaged, or whose content lies although checksums are right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from damage import little_memory, put

from accams import CompressedMatrix, ModelFileError, compress, decompress
from accams.model import container
from accams.model.container import LazyFile
from accams.model.matrix import FORMAT, KIND


@pytest.fixture(scope="module")
def content() -> bytes:
    """A matrix with stencils, steps, gaps and a cell that is kept."""
    random = np.random.default_rng(0)
    matrix = np.outer(random.normal(size=80), random.normal(size=60)) + random.normal(0, 0.1, (80, 60))
    matrix[4:9, 7:12], matrix[0, 0] = np.nan, 1e30
    made = compress(matrix, max_error=0.05, verbose=False)
    assert made.n_stencils[0] > 0
    return made.to_bytes()


def refused(path: Path, content: bytes) -> None:
    put(path, content)
    with little_memory(), pytest.raises(ModelFileError) as caught:
        decompress(path)
    assert "\n" not in str(caught.value)


def test_cut_or_longer(content, tmp_path):
    for n in (0, 7, 40, 300, len(content) // 2, len(content) - 1):
        refused(tmp_path / "x", content[:n])
    refused(tmp_path / "x", content + b"\0")


def test_a_bit_anywhere(content, tmp_path):
    for at in np.linspace(0, len(content) - 1, 150).astype(int):
        damaged = bytearray(content)
        damaged[at] ^= 1 << (at % 8)
        refused(tmp_path / "x", bytes(damaged))


def rewritten(content: bytes, change) -> bytes:
    """The same file with another header, and tensors, and right checksums."""
    file = LazyFile(content, KIND, FORMAT)
    header, tensors = json.loads(json.dumps(file.header)), {name: file.tensor(name).copy() for name in file.names}
    change(header, tensors)
    return container.to_bytes({k: x for k, x in header.items() if k not in ("checksums", "version")}, tensors)


def test_a_file_that_has_changed_is_not_copied(content, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(content)
    matrix = CompressedMatrix.open(path)
    path.write_bytes(content + b"0")
    with pytest.raises(ModelFileError, match="changed after it had been opened"):
        matrix.save(tmp_path / "y")
    path.unlink()
    with pytest.raises(ModelFileError, match="damaged"):
        matrix.to_bytes()
    assert not (tmp_path / "y").exists()


def test_the_same_again(content):
    np.testing.assert_array_equal(decompress(rewritten(content, lambda header, tensors: None)), decompress(content))


def at(*path, value):
    """A change of one entry of the header."""

    def change(header, tensors):
        for step in path[:-1]:
            header = header[step]
        if value is ...:
            del header[path[-1]]
        else:
            header[path[-1]] = value

    return change


def panel(*path, value):
    return at("panels", 0, *path, value=value)


LIES = {
    "shape": at("shape", value=[80, 61]), "no shape": at("shape", value=...), "empty shape": at("shape", value=[]),
    "large": at("shape", value=[80, 1 << 40]), "negative": at("shape", value=[-80, 60]),
    "type": at("dtype", value="object"), "newer": at("format", value=2), "kind": at("kind", value="model"),
    "no panels": at("panels", value=[]), "summary": at("summary", value={}),
    "error": at("summary", "rmse", value="low"), "promise": at("summary", "promise", value={"max_error": None}),
    "rows": panel("rows", value=79),
    "stencils": panel("sum", "stencils", value=10**6), "offset": panel("sum", "offset", value="high"),
    "not a number": panel("sum", "offset", value=float("nan")), "scale": panel("values", "scale", value=10**6),
    "tick": panel("values", "tick", value=-1000), "no step": panel("values", "step", value=0.0),
    "infinite step": panel("values", "step", value=float("inf")), "whole": panel("values", "divisor", value=3),
    "bounds": panel("values", "low", value=1e9), "tile": panel("residual", "tile", value=[1, 1]),
    "no tile": panel("residual", "tile", value=[0, 5]), "decay": panel("residual", "decay", value=99),
    "taps": panel("residual", "taps", value=[[0, 0, 5]]),
    "many taps": panel("residual", "taps", value=[[0, 1, 5]] * 9),
    "classes": panel("residual", "classes", value=1000), "kept": panel("kept", value=5),
    "many kept": panel("kept", value=10**12), "no residual": panel("residual", value=...),
    "parts": panel("parts", "labels", value=["U8", 10**9]), "part types": panel("parts", "labels", value=["X", 4]),
    "no part": panel("parts", value={}), "kinds": panel("kinds", value=...),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_lies(content, tmp_path, name):
    refused(tmp_path / "x", rewritten(content, LIES[name]))


def test_any_byte_of_a_panel(content, tmp_path):
    """Whatever a panel holds, reading it ends, with values or an error."""
    size = len(LazyFile(content, KIND, FORMAT).tensor("0"))
    for p in np.linspace(0, size - 1, 200).astype(int):

        def change(header, tensors, p=p):
            tensors["0"][p] ^= 255

        put(tmp_path / "x", rewritten(content, change))
        try:
            assert decompress(tmp_path / "x").shape == (80, 60)
        except ModelFileError:
            continue
