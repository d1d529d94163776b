"""Files that are damaged, or made to lie: how they are made, and what it means that they are refused."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import accams
from accams.errors import ModelFileError
from accams.fitted.files import FORMAT as NEWEST
from accams.model import container, file


def refused(path: Path, match: str | None = None, read: Callable[[Path], Any] = file.read) -> str:
    """Reading it raises a ModelFileError of one line that names the file."""
    with pytest.raises(ModelFileError, match=match) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def refused_quickly(path: Path, match: str = "is not an accams model, or it is damaged") -> str:
    """The same of `load`, in little memory."""
    with little_memory():
        return refused(path, match, accams.load)


def put(path: Path, content: bytes) -> None:
    """Write a new file in place of the old one, of which there may still be views."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def parts(path: Path, kind: str = "model") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and tensors of a file, as copies that can be changed."""
    header, tensors = container.read(path, kind, NEWEST)
    return header, {name: x.copy() for name, x in tensors.items()}


def changed(path: Path, part: str, fields: Any) -> dict[str, Any]:
    """Header entries of a model file in which one part has other fields (... drops a field, or the whole part)."""
    all_parts = parts(path)[0]["parts"]
    if isinstance(fields, dict):
        new = {**all_parts.get(part, {}), **fields}
        fields = {name: x for name, x in new.items() if x is not ...}
    return {"parts": {name: x for name, x in {**all_parts, part: fields}.items() if x is not ...}}


def rewritten(path: Path, header: Any = (), tensors: Any = (), kind: str = "model") -> Path:
    """Write the file again with other header entries and tensors (... drops one); all checksums are right."""
    if parts(path, kind)[0]["format"] == 2:  # else what is meant to lie would be refused for its name
        assert dict(header).keys() <= {"kind", "format", "shape", "parts"}
        assert all("/" in name for name in dict(tensors))
    new = ({**old, **dict(changes)} for old, changes in zip(parts(path, kind), (header, tensors), strict=True))
    put(path, container.to_bytes(*({name: x for name, x in each.items() if x is not ...} for each in new)))
    return path


def sealed(places: Any, about: Any, data: bytes = b"") -> bytes:
    """A file with these places of tensors and this header, whatever they are, under a checksum that is right."""
    metadata = {"accams": about if isinstance(about, str) else json.dumps(about), "checksum": "00000000"}
    whole = {"__metadata__": metadata, **places} if isinstance(places, dict) else [places, metadata]
    text = json.dumps(whole, separators=(",", ":")).encode()
    head = len(text).to_bytes(8, "little") + text
    return head.replace(container.BLANK, container.BLANK[:12] + b'%08x"' % crc32(head)) + data


@contextmanager
def little_memory(most: float = 300e6) -> Iterator[None]:
    """What is done meanwhile takes no more than that."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def predictions(model: accams.Model) -> np.ndarray:
    """Predictions of a loaded model, at some cells it knows and some that it does not."""
    ids = [index.ids[:2].tolist() for index in model.indices]
    return model.predict([*zip(*ids, strict=False), ("nobody", "nothing")])
