"""Checkpoints: the state of a run between two sweeps as a file.

Labels, templates (in ticks), row weights and variances are stored exactly. The residual is a pure function of them and
the data, and random numbers are keyed by seed and position, so a resumed run is identical to an uninterrupted one, to
the bit. The file is a container as a model's (`model/container.py`) and written atomically.
"""

import json
import zlib
from dataclasses import asdict, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.engine.grid import FEATURE_STEP
from accams.errors import ModelFileError
from accams.fit.calibrate import Calibration
from accams.fit.gibbs import Chain
from accams.fit.run import Run, Sweep
from accams.fit.running import Running
from accams.model import container
from accams.model.container import Tensors
from accams.model.draws import pack_draws
from accams.settings.kinds import Integer
from accams.settings.schema import Mapping, Schema, Text
from accams.writing import write_atomically

FORMAT = 5
KIND = "checkpoint"
ABOUT = Schema(data=Text(), parameters=Mapping(), seed=Integer(0))
HISTORY = tuple(field.name for field in fields(Sweep) if field.name not in ("phase", "visits"))  # None becomes NaN
SIDES = "row", "col"
SLOPES = "sums", "squares", "tau2"  # arrays of a block of sweeps
PIECE = 1 << 22  # observations hashed at a time


def save(path: str | Path, run: Run, calibration: Calibration | None, about: dict[str, Any]) -> None:
    """Write a run; `about` identifies its parameters, seed and data."""
    tensors: Tensors = {}
    chains = [_pack_chain(chain, tensors) for chain in run.chains.chains]
    running = {
        name: _pack_running(name, means, tensors) for name, means in running_of(run).items() if means is not None
    }
    kept = [draw for draws in run.keeper.draws for draw in draws]
    draws, parts = pack_draws(kept, coding="packed")  # larger than entropy coding, but fast
    tensors.update(parts)
    for name, values in run.traces.items():
        tensors[f"trace.{name}"] = np.stack(values)
    if run.history:
        tensors["visits"] = np.array([sweep.visits for sweep in run.history])
        tensors["history"] = np.array([[getattr(x, name) for name in HISTORY] for x in run.history], np.float64)
    if run.chains.engine.features[1] is not None:
        tensors["features"] = run.chains.engine.features[1]
    for side, blocks in zip(SIDES, run.slopes.blocks, strict=True):
        for p, block in enumerate(blocks):
            tensors |= {f"{side}_slopes{p}.{name}": getattr(block, name) for name in SLOPES}
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
        "slopes": {
            "width": run.slopes.width,
            "blocks": [[[b.first, b.last, b.number] for b in blocks] for blocks in run.slopes.blocks],
        },
        "past": [sweep for sweep, _ in run.past],
        "best": run.best,
        "seconds": perf_counter() - run.began,
        "calibration": None if calibration is None else _pack_calibration(calibration),
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
    try:
        ABOUT.check("about", about if isinstance(about, dict) else {})
    except ValueError as error:
        raise container.damaged(path, KIND, error) from None
    return header, tensors


def fingerprint(observations: Observations, *features: NDArray[np.float64] | None) -> str:
    """Return a short checksum of the data, and of features if there are any."""
    total = zlib.crc32(json.dumps([observations.shape, observations.nnz, observations.blank_weight]).encode())
    for array in (observations.row_starts, observations.cols, observations.stored_values, observations.stored_weights):
        for first in range(0, 0 if array is None else len(array), PIECE):
            total = zlib.crc32(np.ascontiguousarray(array[first : first + PIECE]).data, total)  # type: ignore[index]
            observations.release_pages()
    for axis, array in enumerate(features):
        if array is not None:
            rounded = np.rint(array / FEATURE_STEP).astype(np.int8)
            total = zlib.crc32(np.ascontiguousarray(rounded).data, zlib.crc32(bytes([axis]), total))
    return f"{total:08x}"


def running_of(run: Run) -> dict[str, Running | None]:
    validation = None if run.validation is None else run.validation.running
    return {"probes": run.probes, "asked": run.asked, "validation": validation}


def _pack_calibration(calibration: Calibration) -> dict[str, Any]:
    fields = asdict(replace(calibration, held_out=None))
    if calibration.scale is not None:
        fields["scale"] = calibration.scale.to_dict()
    return fields


def _pack_chain(chain: Chain, tensors: Tensors) -> dict[str, Any]:
    state, name = chain.state, f"chain{chain.number}"
    templates = state.templates
    tensors[f"{name}.templates"] = np.concatenate([np.zeros(0, np.int32), *(T.ravel() for T in templates)])
    tensors[f"{name}.shapes"] = np.array([T.shape for T in templates], np.int64).reshape(-1, 2)
    tensors[f"{name}.rows"] = np.array(state.row_labels, np.uint8)
    tensors[f"{name}.cols"] = np.array(state.col_labels, np.uint8)
    tensors[f"{name}.tau2"], tensors[f"{name}.effect_tau2"] = chain.tau2, chain.effect_tau2
    tensors[f"{name}.visits"] = chain.visits
    for side, slopes, tau2 in zip(SIDES, state.slopes, chain.slope_tau2, strict=True):
        if slopes is not None:
            tensors[f"{name}.{side}_slopes"], tensors[f"{name}.{side}_slope_tau2"] = slopes, tau2
    for part, array in (
        ("weights", state.row_weights), ("row_effects", state.effects[0]), ("col_effects", state.effects[1])
    ):  # fmt: skip
        if array is not None:
            tensors[f"{name}.{part}"] = array
    return {"sigma2": chain.sigma2, "sweep": chain.sweep, "moved": chain.moved}


def _pack_running(name: str, running: Running, tensors: Tensors) -> dict[str, Any]:
    tensors[f"{name}.cells"] = np.stack([running.rows, running.cols])
    if running.blocks:
        tensors[f"{name}.sums"] = np.stack([block.sums for block in running.blocks])
        tensors[f"{name}.squares"] = np.stack([block.squares for block in running.blocks])
    blocks = [[block.first, block.last] for block in running.blocks]
    return {"width": running.width, "centre": running.centre, "blocks": blocks}
