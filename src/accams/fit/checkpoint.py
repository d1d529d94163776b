"""Checkpoints: the state of a run between two sweeps as a file.

Labels, templates (in ticks), row weights and variances are stored exactly. The residual is a pure function of them and
the data, and random numbers are keyed by seed and position, so a resumed run is identical to an uninterrupted one, to
the bit. The file is a container as a model's (`model/container.py`) and written atomically.
"""

import json
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.errors import ModelFileError
from accams.fit.calibrate import Calibration
from accams.fit.gibbs import Chain
from accams.fit.run import Run, Sweep
from accams.fit.running import MeanBlock, Running
from accams.model import container
from accams.model.container import Tensors
from accams.model.posterior import pack_draws, unpack_draws
from accams.writing import write_atomically

FORMAT = 3
KIND = "checkpoint"
PIECE = 1 << 22  # observations hashed at a time
TRACES = {"sigma", "tau", "log_joint", "occupied", "probes"}
PARAMETERS = {"probes": "the data", "asked": "predict_at", "validation": "early_stopping"}  # that decide on the cells


def save(path: str | Path, run: Run, calibration: Calibration | None, about: dict[str, Any]) -> None:
    """Write a run; `about` identifies its parameters, seed and data."""
    tensors: Tensors = {}
    chains = [_pack_chain(chain, tensors) for chain in run.chains.chains]
    running = {name: _pack_running(name, means, tensors) for name, means in _running(run).items() if means is not None}
    kept = [draw for draws in run.keeper.draws for draw in draws]
    draws, parts = pack_draws(kept, coding="packed")  # larger than entropy coding, but fast
    tensors.update(parts)
    for name, values in run.traces.items():
        tensors[f"trace.{name}"] = np.stack(values)
    if run.history:
        tensors["visits"] = np.array([sweep.visits for sweep in run.history])
    if run.past:
        tensors["past"] = np.stack([mean for _, mean in run.past])
    header = {
        "kind": KIND,
        "format": FORMAT,
        "about": about,
        "kept": draws,
        "chains": chains,
        "running": running,
        "sweep": run.sweep,
        "scale": run.scale,
        "interval": run.keeper.interval,
        "past": [sweep for sweep, _ in run.past],
        "best": run.best,
        "seconds": perf_counter() - run.began,
        "history": [{**asdict(sweep), "visits": None} for sweep in run.history],
        "calibration": None if calibration is None else asdict(replace(calibration, held_out=None)),
    }
    if calibration is not None and calibration.held_out is not None:
        tensors["held_out"] = calibration.held_out
    write_atomically(Path(path), container.to_bytes(header, tensors))


def read_header(path: str | Path) -> dict[str, Any]:
    return read(path)[0]


def read(path: str | Path) -> tuple[dict[str, Any], Tensors]:
    header, tensors = container.read(path, KIND, FORMAT)
    if header["format"] < FORMAT:
        raise ModelFileError(f"{path} was written by an earlier version of accams and cannot be resumed: fit again")
    about = header.get("about")
    if not (isinstance(about, dict) and {"data", "parameters", "seed"} <= set(about)):
        raise ModelFileError(f"{path} is not a checkpoint of accams, or it is damaged (its description is missing)")
    return header, tensors


def restore(path: str | Path, run: Run, header: dict[str, Any], tensors: Tensors) -> Calibration | None:
    """Restore the saved state into a run before its first sweep; return the calibration of the fit."""
    try:
        run.chains.each(lambda chain: _restore_chain(chain, header["chains"][chain.number], tensors))
        for name, means in _running(run).items():
            if (means is None) != (name not in header["running"]):
                raise ValueError(f"{PARAMETERS[name]} differs")
            if means is not None:
                _restore_running(name, means, header["running"][name], tensors)
        _restore_draws(run, header, tensors)
        _restore_history(run, header, tensors)
        saved = header["calibration"]
        return None if saved is None else Calibration(**{**saved, "held_out": tensors.get("held_out")})
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelFileError(
            f"{path} does not match this fit, or it is damaged ({error}): "
            "resume with the data and parameters of the fit that wrote it"
        ) from None


def fingerprint(observations: Observations) -> str:
    """Return a short checksum of the data."""
    total = zlib.crc32(json.dumps([observations.shape, observations.nnz, observations.blank_weight]).encode())
    for array in (observations.row_starts, observations.cols, observations.stored_values, observations.stored_weights):
        for first in range(0, 0 if array is None else len(array), PIECE):
            total = zlib.crc32(np.ascontiguousarray(array[first : first + PIECE]).data, total)  # type: ignore[index]
            observations.release_pages()
    return f"{total:08x}"


def _restore_draws(run: Run, header: dict[str, Any], tensors: Tensors) -> None:
    observations, n = run.chains.engine.observations, len(run.chains)
    unseen = observations.empty(0), observations.empty(1)
    kept = unpack_draws(header["kept"], tensors, observations.shape, unseen)
    if any((draw.row_noise is None) != (run.chains.chains[0].hyper.row_noise is None) for draw in kept):
        raise ValueError("the row noise of its draws is missing")
    run.keeper.draws = [kept[p : p + n] for p in range(0, len(kept), n)]
    run.keeper.interval = header["interval"]


def _restore_history(run: Run, header: dict[str, Any], tensors: Tensors) -> None:
    names = [name for name in tensors if name.startswith("trace.")]
    run.traces = {name.removeprefix("trace."): list(tensors[name]) for name in names}
    if header["sweep"] and set(run.traces) != TRACES:
        raise ValueError("its traces are missing")
    run.past = [(sweep, mean) for sweep, mean in zip(header["past"], tensors.get("past", ()), strict=True)]
    run.sweep, run.scale = header["sweep"], header["scale"]
    run.best = float(header["best"][0]), int(header["best"][1])
    run.began = perf_counter() - header["seconds"]
    visits = tensors.get("visits", ())
    run.history = [Sweep(**{**sweep, "visits": x}) for sweep, x in zip(header["history"], visits, strict=True)]
    run.settle(run.history[-1].change if run.history else None)


def _running(run: Run) -> dict[str, Running | None]:
    validation = None if run.validation is None else run.validation.running
    return {"probes": run.probes, "asked": run.asked, "validation": validation}


def _pack_chain(chain: Chain, tensors: Tensors) -> dict[str, Any]:
    state, name = chain.state, f"chain{chain.number}"
    templates = state.templates
    tensors[f"{name}.templates"] = np.concatenate([np.zeros(0, np.int32), *(T.ravel() for T in templates)])
    tensors[f"{name}.shapes"] = np.array([T.shape for T in templates], np.int64).reshape(-1, 2)
    tensors[f"{name}.rows"] = np.array(state.row_labels, np.uint8)
    tensors[f"{name}.cols"] = np.array(state.col_labels, np.uint8)
    tensors[f"{name}.tau2"], tensors[f"{name}.effect_tau2"] = chain.tau2, chain.effect_tau2
    tensors[f"{name}.visits"] = chain.visits
    for part, array in (
        ("weights", state.row_weights), ("row_effects", state.effects[0]), ("col_effects", state.effects[1])
    ):  # fmt: skip
        if array is not None:
            tensors[f"{name}.{part}"] = array
    return {"sigma2": chain.sigma2, "sweep": chain.sweep, "moved": chain.moved}


def _restore_chain(chain: Chain, about: dict[str, Any], tensors: Tensors) -> None:
    name = f"chain{chain.number}"
    shapes = [(int(a), int(b)) for a, b in tensors[f"{name}.shapes"]]
    ends = np.cumsum([0, *(a * b for a, b in shapes)])
    flat = tensors[f"{name}.templates"]
    if ends[-1] != len(flat):
        raise ValueError("its templates are incomplete")
    templates = [flat[a : a + k[0] * k[1]].reshape(k) for a, k in zip(ends, shapes, strict=False)]
    effects = [tensors.get(f"{name}.{side}_effects") for side in ("row", "col")]
    rows, cols = tensors[f"{name}.rows"], tensors[f"{name}.cols"]
    for axis, labels in enumerate((rows, cols)):
        _check_labels(labels, [k[axis] for k in shapes], chain.state.shape[axis])
    weights, hyper = tensors.get(f"{name}.weights"), chain.hyper
    if (weights is None) == (hyper.row_noise is not None) or (effects[0] is None) == hyper.continuous:
        raise ValueError("its row weights or effects are missing")
    chain.state.restore(templates, list(rows), list(cols), effects)
    chain.state.row_weights = weights
    chain.tau2, chain.effect_tau2 = tensors[f"{name}.tau2"].copy(), tensors[f"{name}.effect_tau2"].copy()
    chain.sigma2, chain.sweep, chain.moved = float(about["sigma2"]), int(about["sweep"]), int(about["moved"])
    chain.visits[:] = tensors[f"{name}.visits"]
    chain.recount()


def _check_labels(labels: NDArray[Any], k: list[int], size: int) -> None:
    if labels.shape != (len(k), size) or (labels.size and (labels.max(axis=1) >= k).any()):
        raise ValueError("its labels do not match its templates or the data")


def _pack_running(name: str, running: Running, tensors: Tensors) -> dict[str, Any]:
    tensors[f"{name}.cells"] = np.stack([running.rows, running.cols])
    if running.blocks:
        tensors[f"{name}.sums"] = np.stack([block.sums for block in running.blocks])
        tensors[f"{name}.squares"] = np.stack([block.squares for block in running.blocks])
    blocks = [[block.first, block.last] for block in running.blocks]
    return {"width": running.width, "centre": running.centre, "blocks": blocks}


def _restore_running(name: str, running: Running, about: dict[str, Any], tensors: Tensors) -> None:
    if not np.array_equal(tensors[f"{name}.cells"], np.stack([running.rows, running.cols])):
        raise ValueError(f"{PARAMETERS[name]} differs")
    running.width, running.centre = about["width"], about["centre"]
    sums = zip(tensors.get(f"{name}.sums", ()), tensors.get(f"{name}.squares", ()), strict=True)
    running.blocks = [MeanBlock(a, b, *pair) for (a, b), pair in zip(about["blocks"], sums, strict=True)]
