"""Pack the parts of a model into header fields and tensors, and unpack them."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.fitted.history import pack_history, unpack_history
from accams.fitted.parts import FitInfo, Parts, Taken
from accams.fitted.schema import SCHEMAS
from accams.model import file, interactions, itemmap, knowledge, linear, spread
from accams.model.coding import decode_ints, encode_ints
from accams.model.container import Tensors
from accams.model.draws import pack_draws, unpack_draws
from accams.model.idcoding import pack_ids, unpack_ids
from accams.model.posterior import Effects, Posterior
from accams.model.scale import Scale
from accams.model.stencils import StencilSum
from accams.settings.encoding import decoded, encoded
from accams.use.evaluation import Evaluation

Packed = tuple[dict[str, Any], Tensors]
SIDES = "user_features", "item_features"


def pack(model: Parts, coding: str, templates: str | float, left_out: set[str]) -> dict[str, Packed]:
    """Return header fields and tensors of each part that the file is to hold, by name."""
    one = model.stencils if templates == "float32" else model.stencils.rounded(templates)
    packed = {"stencils": file.pack_sum(one, coding), "values": (_values(model), {})}
    if model.scale is not None:
        packed["scale"] = model.scale.to_dict(), {}
    if model.posterior is not None:
        packed["posterior"] = _pack_posterior(model.posterior, coding, templates)
        if model.posterior.linear is not None:
            packed["linear"] = linear.pack(model.posterior.linear)
    if model.item_map is not None:
        packed["item_map"] = itemmap.pack(model.item_map, coding, templates)
    positional = all(index.is_positional for index in model.indices)
    if "ids" not in left_out and not positional:
        packed["ids"] = _pack_ids(model)
    for side, known in zip(SIDES, model.knowledge, strict=True):
        if known is not None and side not in left_out:
            packed[side] = knowledge.pack(known)
    if model.spread is not None:
        packed["spread"] = spread.pack(model.spread)
    if model.activity is not None and "activity" not in left_out:
        levels = np.rint(2.0 * np.log2(np.concatenate(model.activity))).astype(np.int64)
        packed["activity"] = {}, {"levels": encode_ints(levels)}
    if model.interactions is not None and "interactions" not in left_out:
        packed["interactions"] = pack_interactions(model.interactions)
    if model.fit_history and "history" not in left_out:
        names, tensors = pack_history(model.fit_history)
        packed["history"] = {"names": names}, tensors
    if model.evaluation is not None:
        packed["evaluation"] = {"result": asdict(model.evaluation)}, {}
    if model.taken is not None:
        packed["updates"] = asdict(model.taken), {}
    info = model.info
    if info != FitInfo():
        fields = {"estimator": info.estimator, "training": dict(info.training)}
        fields["parameters"] = {name: encoded(value) for name, value in info.parameters.items()}
        packed["fit"] = fields | ({} if info.names is None else {"names": list(info.names)}), {}
    return packed


def unpack(parts: Mapping[str, dict[str, Any]], tensors: Mapping[str, Tensors], shape: tuple[int, int]) -> Parts:
    """Return the fields of a model from parts that have been checked against their schemas."""
    one = file.unpack_sum(parts["stencils"], tensors["stencils"], shape)
    rows, cols = _unpack_ids(parts.get("ids"), tensors.get("ids", {}), shape)
    values = parts.get("values", {})
    low, high = values.get("range", (-np.inf, np.inf))
    clip = (low, high) if values.get("clip") is True else values.get("clip")
    made: dict[str, Any] = {
        "clip": None if clip is None else (float(clip[0]), float(clip[1])),
        "sigma": values.get("sigma"),
        "zero_weight": values.get("zero_weight"),
    }
    if not low <= high or (clip is not None and not clip[0] <= clip[1]):
        raise ValueError("the range of values is empty")
    if "scale" in parts:
        made["scale"] = Scale.from_dict(parts["scale"])
    if "posterior" in parts:
        made["posterior"] = _unpack_posterior(parts["posterior"], tensors["posterior"], one)
        if "linear" in parts:
            part = linear.unpack(parts["linear"], tensors["linear"], shape)
            made["posterior"] = replace(made["posterior"], linear=part)
    elif "linear" in parts:
        raise ValueError("it has slopes without draws")
    if "item_map" in parts:
        made["item_map"] = itemmap.unpack(parts["item_map"], tensors["item_map"], shape[1])
    made["predicts"] = values.get("predicts", True)
    if not made["predicts"] and (len(one) or "posterior" in parts or "item_map" not in parts):
        raise ValueError("it says that it predicts no values")
    if "spread" in parts:
        made["spread"] = spread.unpack(parts["spread"], tensors["spread"], shape)
    made["knowledge"] = tuple(
        knowledge.unpack(parts[side], tensors[side], size) if side in parts else None
        for side, size in zip(SIDES, shape, strict=True)
    )
    if "activity" in parts:
        levels = decode_ints(tensors["activity"]["levels"], sum(shape))
        if len(levels) and not (0 <= int(levels.min()) <= int(levels.max()) < 128):
            raise ValueError("the activity of rows and columns cannot be")
        made["activity"] = tuple(np.split(2.0 ** (levels / 2.0), [shape[0]]))
    if "interactions" in parts:
        made["interactions"] = unpack_interactions(parts["interactions"], tensors["interactions"], shape)
    if "history" in parts:
        made["fit_history"] = unpack_history(parts["history"]["names"], tensors["history"], len(one))
    if "evaluation" in parts:
        made["evaluation"] = Evaluation.from_dict(parts["evaluation"]["result"])
    if "updates" in parts:
        made["taken"] = Taken(**{name: x for name, x in parts["updates"].items() if name in SCHEMAS["updates"].fields})
    if "fit" in parts:
        made["info"] = _unpack_info(parts["fit"])
    return Parts(stencils=one, row_index=rows, col_index=cols, value_range=(float(low), float(high)), **made)


def pack_interactions(what: interactions.Interactions) -> Packed:
    """Return the part that holds interactions."""
    sizes, tensors = interactions.pack(what)
    return {"sizes": sizes}, tensors


def unpack_interactions(fields: dict[str, Any], tensors: Tensors, shape: tuple[int, int]) -> interactions.Interactions:
    """Undo `pack_interactions`."""
    return interactions.unpack(fields["sizes"], tensors, shape)


def _values(model: Parts) -> dict[str, Any]:
    finite = all(map(np.isfinite, model.value_range))
    fields = {
        "range": list(model.value_range) if finite else None,
        "clip": True
        if finite and model.clip == model.value_range
        else None
        if model.clip is None
        else list(model.clip),
        "sigma": model.sigma,
        "zero_weight": model.zero_weight,
        "predicts": None if model.predicts else False,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _pack_ids(model: Parts) -> Packed:
    fields, tensors = dict[str, Any](), Tensors()
    for name, index in zip(("row", "col"), model.indices, strict=True):
        fields[name], part = pack_ids(index)
        if part is not None:
            tensors[name] = part
    return fields, tensors


def _unpack_ids(fields: dict[str, Any] | None, tensors: Tensors, shape: tuple[int, int]) -> list[Any]:
    kinds = fields or {"row": "positions", "col": "positions"}
    return [unpack_ids(kinds[x], tensors.get(x), size) for x, size in zip(("row", "col"), shape, strict=True)]


def _pack_posterior(posterior: Posterior, coding: str, templates: str | float) -> Packed:
    fields, tensors = pack_draws(posterior.draws, coding, templates)
    traces = {f"trace.{name}": x for name, x in posterior.traces.items()}
    if posterior.effects is not None:
        effects = posterior.effects
        fields |= {"effect_priors": list(effects.priors), "interaction_variance": effects.interaction_variance}
        fields["effect_told"] = list(effects.told)
        own = any(x[:-1][~unseen[:-1]].any() for x, unseen in zip(effects.stds, effects.unseen, strict=True))
        tensors["effect_stds"] = np.concatenate([x if effects.blended or own else x[-1:] for x in effects.stds])
    return {"noise": posterior.noise, **fields}, {**tensors, "probes": posterior.probes, **traces}


def _unpack_posterior(fields: dict[str, Any], tensors: Tensors, one: StencilSum) -> Posterior:
    kept = unpack_draws(fields, tensors, one.shape, (one.unseen_rows, one.unseen_cols))
    if not kept:
        raise ValueError("it has no draws")
    traces = {name.removeprefix("trace."): x for name, x in tensors.items() if name.startswith("trace.")}
    effects = None
    if "effect_priors" in fields:
        effects = _unpack_effects(fields, tensors["effect_stds"], one)
    probes = _checked_probes(tensors["probes"], one.shape)
    _check_traces(traces, len(probes))
    return Posterior(one.shape, tuple(kept), float(fields["noise"]), traces, probes, effects)


def _unpack_effects(fields: dict[str, Any], stds: NDArray[Any], one: StencilSum) -> Effects:
    """Undo what `_pack_posterior` does; if there are two deviations, they are those of all lines without data."""
    first, second = fields["effect_priors"]
    priors, told = (float(first), float(second)), fields.get("effect_told", fields["effect_priors"])
    whole = len(stds) != 2 or priors[0] > 0.0
    right = stds.dtype == np.float32 and stds.shape == (sum(one.shape) + 2 if whole else 2,)
    if not right or not (np.isfinite(stds) & (stds >= 0)).all():
        raise ValueError("the deviations of its effects cannot be")
    rows, cols = np.split(stds, [one.shape[0] + 1 if whole else 1])
    unseen = np.zeros(one.shape[0] + 1, np.bool_), np.zeros(one.shape[1] + 1, np.bool_)
    for mask, places in zip(unseen, (one.unseen_rows, one.unseen_cols), strict=True):
        mask[places], mask[-1] = True, True
    if not whole:
        rows, cols = (np.append(np.zeros(size, np.float32), x) for size, x in zip(one.shape, (rows, cols), strict=True))
        rows[one.unseen_rows], cols[one.unseen_cols] = rows[-1], cols[-1]
    beside = float(fields.get("interaction_variance", 0.0))
    return Effects((rows, cols), priors, (float(told[0]), float(told[1])), unseen, beside)


def _check_traces(traces: Tensors, n_probes: int) -> None:
    """Raise ValueError unless all are numbers by chain and sweep, those of probes also by probe."""
    sweeps = {x.shape[:2] for x in traces.values()}
    for name, x in traces.items():
        inner = (n_probes,) if name == "probes" else ()
        if x.dtype != np.float64 or x.ndim != 2 + len(inner) or x.shape[2:] != inner or not x.size or len(sweeps) > 1:
            raise ValueError("its traces cannot be")


def _checked_probes(probes: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    right = probes.ndim == 2 and probes.shape[1] == 2 and probes.dtype.kind == "i"
    if not right or (len(probes) and not ((probes >= 0) & (probes < shape)).all()):
        raise ValueError("its probes are not cells of the matrix")
    return probes


def _unpack_info(fields: dict[str, Any]) -> FitInfo:
    # a file must not choose where something is written
    parameters = {name: decoded(value) for name, value in fields["parameters"].items() if name != "checkpoint"}
    names = fields.get("names")
    return FitInfo(fields["estimator"], parameters, fields["training"], None if names is None else (names[0], names[1]))
