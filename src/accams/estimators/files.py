"""Saving fitted estimators with their ids, and loading what was saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.errors import InputError, ModelFileError
from accams.estimators.accams import ACCAMS
from accams.estimators.base import StencilEstimator
from accams.estimators.bayesian import BayesianACCAMS
from accams.estimators.encoding import decoded, encoded_parameters
from accams.model import file
from accams.model.stencils import StencilSum

CLASSES: dict[str, type[StencilEstimator]] = {"ACCAMS": ACCAMS, "BayesianACCAMS": BayesianACCAMS}


def save(estimator: StencilEstimator, path: str | Path) -> None:
    """Write a fitted estimator: model, ids, parameters and what the fit reported."""
    names = getattr(estimator, "feature_names_in_", None)
    header: dict[str, Any] = {
        "class": type(estimator).__name__,
        "parameters": encoded_parameters(estimator, ("callbacks",)),
        "value_range": list(estimator.value_range_),
        "training": estimator._summary(),
        "feature_names": None if names is None else names.tolist(),
    }
    tensors: dict[str, NDArray[Any]] = {}
    for side, index in (("row", estimator.row_index_), ("col", estimator.col_index_)):
        header[f"{side}_ids"], part = _pack_ids(index)
        if part is not None:
            tensors[f"{side}_ids"] = part
    more, parts = estimator._more_to_save()
    file.save(path, estimator.stencils_, {**header, **more}, {**tensors, **parts})


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
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} is not an accams model, or it is damaged ({error})") from None


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
        index = _unpack_ids(header[f"{side}_ids"], tensors.get(f"{side}_ids"), size)
        setattr(estimator, f"{side}_index_", index)
    if header.get("feature_names") is not None:
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    for name, value in header["training"].items():
        if name.endswith("_"):
            setattr(estimator, name, value)
    estimator._load_more(header, tensors)
    return estimator


def _pack_ids(index: Index) -> tuple[str, NDArray[Any] | None]:
    """How the ids are stored, and the tensor that holds them."""
    if index.is_positional:
        return "positions", None
    if index.ids.dtype.kind in "iu":
        return "integers", np.asarray(index.ids)
    try:
        text = json.dumps(index.ids.tolist(), ensure_ascii=False)
    except (TypeError, ValueError):
        kinds = sorted({type(x).__name__ for x in index.ids.tolist()})
        what = f"ids of type {', '.join(kinds)}"
        raise InputError(f"{what} cannot be saved: use strings or whole numbers as ids") from None
    if any(isinstance(x, (tuple, list, dict)) for x in index.ids.tolist()):
        raise InputError("ids that are tuples or lists cannot be saved: use strings or whole numbers as ids")
    return "json", np.frombuffer(text.encode(), dtype=np.uint8)


def _unpack_ids(kind: str, tensor: NDArray[Any] | None, size: int) -> Index:
    if kind == "positions":
        return Index(None, size)
    if tensor is None:
        raise ValueError("its ids are missing")
    ids: Any = tensor
    if kind == "json":
        ids = np.empty(size, dtype=object)
        ids[:] = json.loads(tensor.tobytes().decode())
    index = Index(ids)
    if len(index) != size:
        raise ValueError("its ids do not fit its labels")
    return index
