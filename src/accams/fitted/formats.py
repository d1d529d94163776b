"""Earlier formats of model files, rewritten as parts of the present one."""

from collections.abc import Mapping
from typing import Any

from accams.model.container import Tensors
from accams.model.packing import EFFECTS
from accams.settings.bayesian import present_names
from accams.settings.encoding import decoded

SUM_FIELDS = ("offset", "stencils", "coded", "alike", "unseen")
SUM_TENSORS = (
    "labels", "models", "padding", "sizes", "whole", "steps", "templates", "mantissas", "exponents", "unseen", *EFFECTS
)  # fmt: skip
CLASSES = ("ACCAMS", "BayesianACCAMS", "StencilModel")  # the last one was what `compress` made
Parts = dict[str, dict[str, Any]]


def from_format_1(header: dict[str, Any], tensors: Tensors) -> tuple[Parts, dict[str, Tensors]]:
    """Return fields and tensors by part of a file of format 1: a flat header, and a stencil sum or an estimator."""
    parts: Parts = {"stencils": {name: header[name] for name in SUM_FIELDS if name in header}}
    of = {"stencils": {name: x for name, x in tensors.items() if name in SUM_TENSORS}}
    if "class" not in header:
        return parts, of
    if header["class"] not in CLASSES or ("posterior" in header) != (header["class"] == "BayesianACCAMS"):
        raise ValueError("its class does not fit its content")
    training, parameters = header["training"], header["parameters"]
    parts["values"] = {
        "range": header["value_range"],
        "clip": _clip(parameters.get("clip", True), header["value_range"]),
    }
    sigma = training.get("sigma_") or training.get("train_rmse_")
    parts["values"] |= {"sigma": sigma, "zero_weight": header.get("zero_weight")}
    parts["ids"] = {"row": header["row_ids"], "col": header["col_ids"]}
    of["ids"] = {side: tensors[f"{side}_ids"] for side in ("row", "col") if f"{side}_ids" in tensors}
    names = header.get("feature_names")
    parts["fit"] = {"estimator": header["class"], "training": training, "parameters": _parameters(header)}
    parts["fit"] |= {} if names is None else {"names": names}
    if "activity" in tensors:
        parts["activity"], of["activity"] = {}, {"levels": tensors["activity"]}
    if "n_seen" in header:
        sizes = header["n_seen"]
        pieces = ["seen"] if isinstance(sizes, int) else [f"seen{p}" for p in range(len(sizes))]
        parts["interactions"], of["interactions"] = {"sizes": sizes}, {str(p): tensors[x] for p, x in enumerate(pieces)}
    if "history" in header:
        parts["history"], of["history"] = {"names": header["history"]}, _named(tensors, "history", "visits")
    if "quality" in header:
        parts["evaluation"] = {"result": header["quality"]}
    if "posterior" in header:
        parts["posterior"] = {"noise": header["noise"], **header["posterior"]}
        of["posterior"] = {x: tensors[x] for x in tensors if x == "probes" or x.startswith(("draws.", "trace."))}
    return parts, of


def _named(tensors: Mapping[str, Any], *names: str) -> Tensors:
    return {name: tensors[name] for name in names}


def _clip(encoded: Any, value_range: list[float]) -> list[float] | None:
    clip = decoded(encoded)
    if isinstance(clip, bool):
        return value_range if clip else None
    return [float(clip[0]), float(clip[1])]


def _parameters(header: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the fit by their present names, still encoded."""
    return present_names(header["parameters"]) if header["class"] == "BayesianACCAMS" else dict(header["parameters"])
