"""The model file: safetensors with one JSON string of metadata. No pickle; nothing in it is executed."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams import __version__
from accams.errors import ModelFileError
from accams.model.stencils import Stencil, StencilSum

FORMAT = 1
EFFECTS = ("row_effects", "col_effects")
Tensors = dict[str, NDArray[Any]]


def save(
    path: str | Path, model: StencilSum, header: dict[str, Any] | None = None, extra: Tensors | None = None
) -> None:
    """Write `model` (with further tensors and header entries) atomically."""
    from safetensors.numpy import save as pack

    tensors = {
        "templates": np.concatenate([np.zeros(0, np.float32), *(T.ravel() for T in model.templates)]),
        "template_shapes": np.array([T.shape for T in model.templates], dtype=np.int32).reshape(-1, 2),
        "row_labels": _stack(model.row_labels, model.shape[0]),
        "col_labels": _stack(model.col_labels, model.shape[1]),
        "unseen_rows": np.asarray(model.unseen_rows, dtype=np.int64),
        "unseen_cols": np.asarray(model.unseen_cols, dtype=np.int64),
        **{name: getattr(model, name) for name in EFFECTS if getattr(model, name) is not None},
        **(extra or {}),
    }
    about = {
        "format": FORMAT,
        "version": __version__,
        "shape": model.shape,
        "offset": float(model.offset),
        **(header or {}),
    }
    write_atomically(Path(path), pack(tensors, metadata={"accams": json.dumps(about)}))


def read(path: str | Path) -> tuple[StencilSum, dict[str, Any], Tensors]:
    """The model, the header, and the further tensors of a file written by `save`."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            about = (file.metadata() or {}).get("accams")
            if about is None:
                raise ModelFileError(f"{path} is not an accams model")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(about)
        if header["format"] > FORMAT:
            raise ModelFileError(
                f"{path} was written by accams {header['version']}, which is newer than this one ({__version__}): "
                "upgrade accams"
            )
        return _model(tensors, header), header, tensors
    except ModelFileError:
        raise
    except (SafetensorError, OSError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise ModelFileError(f"{path} is not an accams model, or it is damaged ({error})") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ModelFileError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ModelFileError(f"cannot write {path}: {error.strerror}") from None
        raise


def _stack(labels: list[NDArray[Any]], size: int) -> NDArray[Any]:
    return np.stack(labels) if labels else np.zeros((0, size), np.uint8)


def _model(tensors: Tensors, header: dict[str, Any]) -> StencilSum:
    shapes = [(int(a), int(b)) for a, b in tensors.pop("template_shapes")]
    flat, ends = tensors.pop("templates"), np.cumsum([0, *(a * b for a, b in shapes)])
    row_labels, col_labels = tensors.pop("row_labels"), tensors.pop("col_labels")
    if ends[-1] != len(flat) or len(row_labels) != len(shapes) or len(col_labels) != len(shapes):
        raise ValueError("its parts do not fit together")
    stencils = [
        Stencil(flat[a : a + k[0] * k[1]].reshape(k), c, d)
        for a, k, c, d in zip(ends, shapes, row_labels, col_labels, strict=False)
    ]
    unseen = tensors.pop("unseen_rows"), tensors.pop("unseen_cols")
    m, n = header["shape"]
    effects = (tensors.pop(name, None) for name in EFFECTS)
    return StencilSum((m, n), float(header["offset"]), tuple(stencils), *unseen, *effects)
