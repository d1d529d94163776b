"""Saving fitted estimators with their ids, and loading what was saved."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.estimators import checks
from accams.estimators.accams import ACCAMS
from accams.estimators.base import StencilEstimator
from accams.estimators.bayesian import BayesianACCAMS
from accams.estimators.encoding import decoded, encoded_parameters
from accams.estimators.history_files import pack_history, unpack_history
from accams.estimators.id_files import pack_ids, unpack_ids
from accams.estimators.quality import Quality
from accams.estimators.seen_files import pack_seen, unpack_seen
from accams.estimators.small import StencilModel
from accams.model import container, file
from accams.model.coding import decode_ints, encode_ints
from accams.model.stencils import StencilSum

CLASSES: dict[str, type[StencilEstimator]] = {each.__name__: each for each in (ACCAMS, BayesianACCAMS, StencilModel)}
SPARE = 32  # bytes, for numbers in the header that may become longer


def save(
    estimator: StencilEstimator, path: str | Path, ids: bool = True, coding: str = "auto",
    templates: str | float = "float32", seen: bool | str = "auto",
) -> None:  # fmt: skip
    """Write a fitted estimator: model, ids, parameters and what the fit reported."""
    container.write_atomically(Path(path), to_bytes(estimator, ids, coding, templates, seen))


def to_bytes(
    estimator: StencilEstimator, ids: bool = True, coding: str = "auto", templates: str | float = "float32",
    seen: bool | str = "auto",
) -> bytes:  # fmt: skip
    """The file, as `save` writes it."""
    names = getattr(estimator, "feature_names_in_", None)
    header: dict[str, Any] = {
        "class": type(estimator).__name__,
        "parameters": encoded_parameters(estimator, ("callbacks",)),
        "value_range": list(estimator.value_range_),
        "training": estimator._summary(),
        "feature_names": None if names is None else names.tolist(),
    }
    if getattr(estimator, "zero_weight_", None) is not None:
        header["zero_weight"] = estimator.zero_weight_
    if getattr(estimator, "quality_", None) is not None:
        header["quality"] = asdict(estimator.quality_)
    tensors: dict[str, NDArray[Any]] = {}
    for side, index in (("row", estimator.row_index_), ("col", estimator.col_index_)):
        header[f"{side}_ids"], part = pack_ids(index) if ids else ("positions", None)
        if part is not None:
            tensors[f"{side}_ids"] = part
    known = getattr(estimator, "activity_", None)
    if ids and known is not None and not isinstance(estimator, StencilModel):
        tensors["activity"] = encode_ints(np.rint(2.0 * np.log2(np.concatenate(known))).astype(np.int64))
    if _keeps_seen(estimator, ids, seen):
        header["n_seen"], parts = pack_seen(estimator.seen_)
        tensors.update(parts)
    history = getattr(estimator, "history_", None)
    if ids and history:
        header["history"], recorded = pack_history(history)
        tensors.update(recorded)
    more, others = estimator._more_to_save(coding, templates)
    stencils = estimator.stencils_ if templates == "float32" else estimator.stencils_.rounded(templates)
    return file.to_bytes(stencils, {**header, **more}, {**tensors, **others}, coding)


def _keeps_seen(estimator: StencilEstimator, ids: bool, seen: bool | str) -> bool:
    """Whether the file tells which cells were observed."""
    if not isinstance(seen, (bool, np.bool_)) and seen != "auto":
        raise InputError(f"seen must be True, False or 'auto', not {seen!r}")
    there = getattr(estimator, "seen_", None) is not None
    if seen != "auto" and seen and not there:
        raise InputError("this model does not know which cells were observed: save it with seen=False")
    return there and (bool(seen) if seen != "auto" else ids and isinstance(estimator, BayesianACCAMS))


def room_for_stencils(model: StencilEstimator, max_bytes: int, ids: bool) -> int:
    """Bytes that are left for the stencils themselves in a file of at most `max_bytes` with or without ids."""
    checks.whole("max_bytes", max_bytes, 1)
    one = model.stencils_
    empty = StencilSum(one.shape, one.offset, (), one.unseen_rows, one.unseen_cols)
    alone, whole = len(file.to_bytes(empty)), len(to_bytes(StencilModel.of(model, empty), ids))
    if max_bytes < whole + SPARE:
        for_ids = whole - len(to_bytes(StencilModel.of(model, empty), False)) if ids else 0
        advice = f", {for_ids:,} of them for ids, which can be left out (ids=False, --no-ids)" if for_ids else ""
        told = f"max_bytes={max_bytes:,} is too small: a file without any stencil takes {whole + SPARE:,}{advice}"
        raise InputError(told)
    return max_bytes - (whole - alone) - SPARE


def load(path: str | Path) -> Any:
    """Read a model file: a fitted estimator, or a StencilSum if that is what was saved.

    Examples
    --------
    >>> import tempfile, numpy as np, accams
    >>> model = accams.ACCAMS(n_stencils=2, n_clusters=2).fit(np.eye(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/eye.accams")
    ...     same = accams.load(f"{folder}/eye.accams")
    >>> bool((same.predict([[0, 0]]) == model.predict([[0, 0]])).all())
    True
    """
    stencils, header, tensors = file.read(path)
    if "class" not in header:
        return stencils
    try:
        return _estimator(stencils, header, tensors)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise container.damaged(path, file.KIND, error) from None


def _estimator(stencils: StencilSum, header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> StencilEstimator:
    cls = CLASSES.get(header["class"])
    if cls is None:
        raise ValueError(f"unknown kind of model {header['class']!r}")
    known = cls._get_param_names()
    estimator = cls(**{k: decoded(v) for k, v in header["parameters"].items() if k in known})
    estimator.stencils_ = stencils
    low, high = header["value_range"]
    estimator.value_range_ = (float(low), float(high))
    for side, size in (("row", stencils.shape[0]), ("col", stencils.shape[1])):
        index = unpack_ids(header[f"{side}_ids"], tensors.get(f"{side}_ids"), size)
        setattr(estimator, f"{side}_index_", index)
    if "activity" in tensors:
        levels = decode_ints(tensors["activity"], sum(stencils.shape))
        estimator.activity_ = tuple(np.split(2.0 ** (levels / 2.0), [stencils.shape[0]]))  # type: ignore[assignment]
    estimator.zero_weight_ = header.get("zero_weight")
    if "n_seen" in header:
        estimator.seen_ = unpack_seen(header["n_seen"], tensors, stencils.shape)
    if "quality" in header:
        estimator.quality_ = Quality.from_dict(header["quality"])
    if "history" in header:
        estimator.history_ = unpack_history(header["history"], tensors, len(stencils))
    if header.get("feature_names") is not None:
        if len(header["feature_names"]) != 2:
            raise ValueError("it must name two columns")
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    for name, value in header["training"].items():
        if name.endswith("_") and not hasattr(estimator, name):
            setattr(estimator, name, value)
    estimator._load_more(header, tensors)
    return estimator
