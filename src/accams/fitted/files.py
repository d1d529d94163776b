"""Model files and history files: write them, read them, and say what is wrong with them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from accams.data.ids import Index
from accams.errors import InputError, ModelFileError, warn
from accams.fitted import packing
from accams.fitted.formats import from_format_1
from accams.fitted.parts import Parts
from accams.fitted.schema import OPTIONAL, SCHEMAS
from accams.model import container, file, idcoding, itemmap
from accams.model.container import Tensors
from accams.model.interactions import Interactions
from accams.model.limits import NUMBERS
from accams.writing import write_atomically

P = TypeVar("P", bound=Parts)
FORMAT = 2
HISTORY_KIND, HISTORY_FORMAT = "history", 1
DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RecursionError)


def to_bytes(
    model: Parts, *, ids: bool = True, interactions: bool = True, coding: str = "auto",
    templates: str | float = "float32", complete: bool = False,
) -> bytes:  # fmt: skip
    """Return the file of a model, with or without its ids and interactions.

    Small models leave out the activity of rows and columns, unless the file is to be `complete`.
    """
    if not model.predicts and not interactions:
        model = without_users(model)
    fitted = bool(model.info.training)  # and not compressed: a small file has no room for activity
    kept = {"ids": ids, "interactions": interactions, "activity": complete or (ids and fitted), "history": ids}
    packed = packing.pack(model, coding, templates, {name for name, keep in kept.items() if not keep})
    parts = {name: _marked(name, fields) for name, (fields, _) in packed.items()}
    tensors = {f"{part}/{name}": x for part, (_, own) in packed.items() for name, x in own.items()}
    try:
        _check_parts(parts)  # what could not be read must not take the place of a file that can
    except ValueError as error:
        raise InputError(f"this model cannot be saved: {error}") from None
    return container.to_bytes({"kind": file.KIND, "format": FORMAT, "shape": model.shape, "parts": parts}, tensors)


def bytes_for_lists(model: Parts) -> dict[str, int]:
    """Return about how many bytes of a file are for lists: the item map, and the history of users."""
    packed: dict[str, packing.Packed] = {}
    if model.item_map is not None:
        packed["item map"] = itemmap.pack(model.item_map, "auto", "float32")
    if model.interactions is not None:
        packed["history"] = packing.pack_interactions(model.interactions)
    return {name: sum(x.nbytes for x in tensors.values()) for name, (_, tensors) in packed.items()}


def without_users(model: P) -> P:
    """Return a model of lists that knows its items only: without their history, users are nothing to it."""
    none = replace(model.stencils, shape=(0, model.shape[1]), unseen_rows=np.zeros(0, np.int64))
    return replace(model, stencils=none, row_index=Index(None, 0), interactions=None)


def _marked(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "optional": True} if name in OPTIONAL else fields


def keeps_history(model: Parts, history: Any, ids: bool) -> bool:
    """Return whether interactions are to be saved, in the model's file or apart; raise InputError if they cannot be."""
    if isinstance(history, str) and history == "auto":
        return ids and model.posterior is not None and model.interactions is not None
    if not isinstance(history, (bool, np.bool_, str, Path)):
        raise InputError(f"history must be True, False, 'auto' or a path, not {history!r}")
    if history and model.interactions is None:
        what = "save it with history=False" if history is True else "there is no history to write"
        raise InputError(f"this model does not know what its users have seen: {what}")
    return bool(history)


def read(path: str | Path) -> Parts:
    """Read the parts of a model file."""
    return _unpacked(path, *container.read(path, file.KIND, FORMAT))


def from_bytes(content: bytes) -> Parts:
    """Read the parts of a model from the bytes of its file."""
    path = Path("the bytes")
    return _unpacked(path, *container.from_bytes(content, file.KIND, FORMAT, path))


def _unpacked(path: str | Path, header: dict[str, Any], tensors: Tensors) -> Parts:
    try:
        parts, of = from_format_1(header, tensors) if header["format"] == 1 else _by_part(header["parts"], tensors)
        known = {name: fields for name, fields in parts.items() if _is_known(path, name, fields)}
        _check_parts(known)
        return packing.unpack(known, of, file.checked_shape(header["shape"], tensors))
    except ModelFileError:
        raise
    except DAMAGE as error:
        raise container.damaged(path, file.KIND, error) from None


def _check_parts(parts: dict[str, dict[str, Any]]) -> None:
    """Raise ValueError unless all fields are what their schemas say."""
    for name, fields in parts.items():
        SCHEMAS[name].check(name, fields)
    if parts.get("item_map", {}).get("sum") is not None:
        SCHEMAS["stencils"].check("item_map", parts["item_map"]["sum"])


def _by_part(
    parts: dict[str, dict[str, Any]], tensors: Tensors
) -> tuple[dict[str, dict[str, Any]], dict[str, Tensors]]:
    of: dict[str, Tensors] = {name: {} for name in parts}
    for name, x in tensors.items():
        part, _, own = name.partition("/")
        of[part][own] = x
    return parts, of


def _is_known(path: str | Path, name: str, fields: dict[str, Any]) -> bool:
    """Return whether a part can be read; raise where the model cannot do without one that cannot."""
    version = fields.get("version", 1)
    if name in SCHEMAS and isinstance(version, int) and version <= SCHEMAS[name].version:
        return True
    if fields.get("optional") is not True:
        raise ModelFileError(
            f"{path} has a part {name[:40]!r} that this version of accams does not know: upgrade accams"
        )
    warn(f"{path} has a part {name[:40]!r} that this version of accams does not know: ignored")
    return False


def write_history(path: str | Path, rows: Index, cols: Index, interactions: Interactions) -> None:
    """Write which items each user has observed to a file of its own."""
    fields, tensors = packing.pack_interactions(interactions)
    header: dict[str, Any] = {"kind": HISTORY_KIND, "format": HISTORY_FORMAT, "shape": [len(rows), len(cols)], **fields}
    for name, index in (("row", rows), ("col", cols)):
        header[name], ids = idcoding.pack_ids(index)
        if ids is not None:
            tensors[f"ids/{name}"] = ids
    missing = NUMBERS.missing(len(rows) + len(cols), sum(x.nbytes for x in tensors.values()))
    if missing:
        tensors["padding"] = np.zeros(missing, np.uint8)
    write_atomically(Path(path), container.to_bytes(header, tensors))


def load_history(model: P, path: str | Path) -> P:
    """Return a model with the interactions of a history file."""
    return adopt_history(model, *open_history(path), path)


def adopt_history(model: P, users: Index, items: Index, own: Interactions, path: str | Path) -> P:
    """Return a model with these interactions, by id; one of lists that holds no users takes them from there."""
    if not model.predicts and not len(model.row_index):
        stencils = replace(model.stencils, shape=(len(users), model.shape[1]))
        model = replace(model, stencils=stencils, row_index=users)
    if model.item_map is not None and own.weights is None:
        warn(f"{path} does not say what users liked, since it was written without lists: all counts as liked")
    if (users, items) != model.indices:
        own = joined(own, users, items, *model.indices, path)
    return replace(model, interactions=own)


def open_history(path: str | Path) -> tuple[Index, Index, Interactions]:
    """Return the users, the items and the interactions in a history file."""
    header, tensors = container.read(path, HISTORY_KIND, HISTORY_FORMAT)
    try:
        shape = file.checked_shape(header["shape"], tensors)
        SCHEMAS["interactions"].check("interactions", header)
        pieces = {name: x for name, x in tensors.items() if not name.startswith("ids/")}
        own = packing.unpack_interactions(header, pieces, shape)
        users, items = (
            idcoding.unpack_ids(header[name], tensors.get(f"ids/{name}"), size)
            for name, size in zip(("row", "col"), shape, strict=True)
        )
    except DAMAGE as error:
        raise container.damaged(path, HISTORY_KIND, error) from None
    return users, items, own


def joined(
    own: Interactions, users: Index, items: Index, rows: Index, cols: Index, path: str | Path
) -> Interactions:  # fmt: skip
    """Return interactions by the positions of other ids; what those do not know is left out."""
    counts = own.starts[1:] - own.starts[:-1]
    places = rows.find(users.ids).repeat(counts), cols.find(items.ids)[own.columns]
    if not len(own) or min(int(each.max()) for each in places) < 0:
        raise InputError(f"{path} has no user or no item of this model: is it the history of the same data?")
    return Interactions.at(places[0], places[1], len(rows), own.weights)
