"""Restore a run from a checkpoint, after everything in it has been checked.

Kernels have no bounds checks, and whoever writes a file can make its checksums right: types, lengths and ranges of all
numbers are compared with the fit that is to go on.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine.grid import FEATURE_STEP, LARGEST_MASS, MAX_ROW_WEIGHT
from accams.engine.labelling import MOST_CLUSTERS
from accams.errors import ModelFileError
from accams.fit.backfit import Visit
from accams.fit.blocks import Blocks, Floats
from accams.fit.calibrate import Calibration
from accams.fit.checkpoint import HISTORY, SIDES, running_of
from accams.fit.gibbs import Chain
from accams.fit.linear import SlopeBlock
from accams.fit.run import N_TRACED, Run, Sweep
from accams.fit.running import MeanBlock, Running
from accams.model.container import Tensors, damaged, damaged_reason
from accams.model.draws import unpack_draws
from accams.model.scale import Scale
from accams.settings.kinds import NONE, Either, Integer, Number, Words
from accams.settings.schema import FINITE, MOST, NAN, Count, ListOf, Mapping, Schema

TRACES = "sigma", "tau", "log_joint", "occupied", "probes"
PARAMETERS = {"probes": "the data", "asked": "predict_at", "validation": "early_stopping"}  # that decide on the cells
MOST_WEIGHT = 2.0  # of stencils: more than any plan allows
COUNT, SIZE = Count(), Number(0.0, MOST)
NULLABLE = {"n_sweeps", "change", "validation_rmse", "validation_rmse_draw"}
RUN = Schema(
    kept=Mapping(), chains=ListOf(Mapping()), running=Mapping(), sweep=COUNT, scale=SIZE, interval=Integer(1),
    past=ListOf(COUNT), best=ListOf(Either(SIZE, Words(float("inf"))), 2), seconds=SIZE,
    calibration=Either(NONE, Mapping()), slopes=Mapping(),
)  # fmt: skip
SLOPES = Schema(width=Integer(1), blocks=ListOf(ListOf(ListOf(COUNT, 3)), 2))
KEPT = Schema(stencils=COUNT, draws=ListOf(ListOf(COUNT, 3)), offsets=ListOf(FINITE))
VARIANCE = Number(0.0, MOST, open_low=True)
CHAIN = Schema(sigma2=VARIANCE, sweep=COUNT, moved=Count(62))
RUNNING = Schema(width=Integer(1), centre=Either(NONE, FINITE), blocks=ListOf(ListOf(COUNT, 2)))
SQUARE = Either(Number(-MOST, MOST), NAN)
LEVELS = ListOf(ListOf(SQUARE))
CALIBRATION = Schema(
    sigma2=VARIANCE, noise=SIZE, error=SIZE, levels=LEVELS, errors=LEVELS, estimate=SQUARE, spread=SIZE,
    weight=Number(0.0, MOST_WEIGHT), held_out=NONE, latent=ListOf(FINITE, 2), scale=Either(NONE, Mapping()),
    blocks=ListOf(FINITE),
)  # fmt: skip


def restore(path: str | Path, run: Run, header: dict[str, Any], tensors: Tensors) -> Calibration | None:
    """Restore the saved state into a run before its first sweep; return the calibration of the fit."""
    try:
        RUN.check("run", header)
        KEPT.check("kept", header["kept"])
        if len(header["chains"]) != len(run.chains):
            raise ValueError("it has another number of chains")
        run.chains.each(lambda chain: _restore_chain(chain, header["chains"][chain.number], tensors))
        for name, means in running_of(run).items():
            if (means is None) != (name not in header["running"]):
                raise ValueError(f"{PARAMETERS[name]} differs")
            if means is not None:
                _restore_running(name, means, header["running"][name], tensors, len(run.chains), header["sweep"])
        _restore_slopes(run, header, tensors)
        _restore_draws(run, header, tensors)
        _restore_history(run, header, tensors)
        return _calibration(header["calibration"], tensors.get("held_out"), run.chains.engine.observations.shape)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelFileError(
            f"{path} does not match this fit, or it is damaged ({damaged_reason(error)}): "
            "resume with the data and parameters of the fit that wrote it"
        ) from None


def _tensor(tensors: Tensors, name: str, kind: Any, shape: Sequence[int], low: float = -np.inf, high: float = np.inf,
            *, nan: bool = False) -> NDArray[Any]:  # fmt: skip
    """Return a tensor; raise ValueError unless it has this type and shape and all its numbers lie within the bounds."""
    x = tensors[name]
    if x.dtype != kind or x.shape != tuple(shape):
        raise ValueError(f"its {name} have a wrong type or length")
    within = (x >= low) & (x <= high)
    if x.dtype.kind == "f":
        within = (within & np.isfinite(x)) | (nan & np.isnan(x))
    if not within.all():
        raise ValueError(f"its {name} are out of range")
    return x


def _restore_chain(chain: Chain, about: dict[str, Any], tensors: Tensors) -> None:
    CHAIN.check("chain", about)
    state, hyper, name = chain.state, chain.hyper, f"chain{chain.number}"
    limit, n = state.engine.grid.limit, len(hyper.shapes)
    templates = _templates(chain, tensors, limit)
    labels = [
        _labels(tensors, f"{name}.{side}", [T.shape[axis] for T in templates], state.shape[axis])
        for axis, side in enumerate(("rows", "cols"))
    ]
    effects: list[NDArray[Any] | None] = [None, None]
    if hyper.continuous:
        effects = [
            _tensor(tensors, f"{name}.{side}_effects", np.int32, [size], -limit, limit)
            for side, size in zip(("row", "col"), state.shape, strict=True)
        ]
    weights = None
    if hyper.row_noise is not None:
        weights = _tensor(tensors, f"{name}.weights", np.int32, state.shape[:1], 1, MAX_ROW_WEIGHT)
        if float(state.engine.row_mass @ weights) > LARGEST_MASS + float(state.engine.row_mass.sum()):  # of rounding
            raise ValueError("its row weights are too large")
    slopes = [_slopes(chain, axis, tensors) for axis in (0, 1)]
    known = {f"{name}.{part}" for part in ("weights", "row_effects", "col_effects")} & tensors.keys()
    if len(known) != (weights is not None) + 2 * (effects[0] is not None):
        raise ValueError("its row weights or effects are missing, or too many")
    state.restore(templates, list(labels[0]), list(labels[1]), effects, slopes)
    state.row_weights = weights
    chain.tau2 = _tensor(tensors, f"{name}.tau2", np.float64, [n], np.finfo(np.float64).tiny).copy()
    chain.effect_tau2 = _tensor(tensors, f"{name}.effect_tau2", np.float64, [2], np.finfo(np.float64).tiny).copy()
    chain.sigma2, chain.sweep, chain.moved = float(about["sigma2"]), int(about["sweep"]), int(about["moved"])
    chain.visits[:] = _tensor(tensors, f"{name}.visits", np.float64, chain.visits.shape, nan=True)
    chain.recount()


def _templates(chain: Chain, tensors: Tensors, limit: int) -> list[NDArray[np.int32]]:
    """Return the templates of a chain, which has all its stencils, or the first ones while they are backfitted."""
    name, planned = f"chain{chain.number}", list(chain.hyper.shapes)
    sizes = tensors[f"{name}.shapes"]
    sizes = _tensor(tensors, f"{name}.shapes", np.int64, [min(len(sizes), len(planned)), 2], 1, 1 << 20)
    shapes = [(a, b) for a, b in sizes.tolist()]
    if chain.hyper.growing:
        right = all(max(shape) <= MOST_CLUSTERS for shape in shapes)
    else:
        right = shapes == planned[: len(shapes)]
    if not right:
        raise ValueError("its templates have other shapes")
    ends = np.cumsum([0, *(a * b for a, b in shapes)])
    flat = _tensor(tensors, f"{name}.templates", np.int32, [int(ends[-1])], -limit, limit)
    return [flat[at : at + a * b].reshape(a, b) for at, (a, b) in zip(ends, shapes, strict=False)]


def _labels(tensors: Tensors, name: str, k: list[int], size: int) -> NDArray[np.uint8]:
    labels = _tensor(tensors, name, np.uint8, [len(k), size])
    if labels.size and (labels.max(axis=1) >= k).any():
        raise ValueError(f"its {name} do not match its templates")
    return labels


def _restore_running(
    name: str, running: Running, about: dict[str, Any], tensors: Tensors, n_chains: int, sweep: int
) -> None:
    RUNNING.check(name, about)
    cells = tensors[f"{name}.cells"]
    if cells.dtype != np.int64 or not np.array_equal(cells, np.stack([running.rows, running.cols])):
        raise ValueError(f"{PARAMETERS[name]} differs")
    blocks, at = about["blocks"], 0
    for first, last in blocks:
        if not at <= first < last <= sweep:
            raise ValueError(f"its sweeps of {name} are out of order")
        at = last
    if not blocks:
        running.width, running.centre = about["width"], about["centre"]
        return
    shape = [len(blocks), n_chains, len(running.rows)]
    sums = _tensor(tensors, f"{name}.sums", np.float64, shape)
    squares = _tensor(tensors, f"{name}.squares", np.float64, shape, 0.0)
    running.width, running.centre = about["width"], float(about["centre"])
    running.blocks = [MeanBlock(*span, *pair) for span, *pair in zip(blocks, sums, squares, strict=True)]


def _slopes(chain: Chain, axis: int, tensors: Tensors) -> NDArray[Any] | None:
    """Return the slopes of an axis, if the other one has features, and restore their variances."""
    features, engine = chain.state.engine.features[1 - axis], chain.state.engine
    if features is None:
        return None
    name, d = f"chain{chain.number}.{SIDES[axis]}_slope", features.shape[1]
    most, tiny = engine.grid.slope_limit(d), np.finfo(np.float64).tiny
    chain.slope_tau2[axis] = _tensor(tensors, f"{name}_tau2", np.float64, [d], tiny).copy()
    return _tensor(tensors, f"{name}s", np.int32, [chain.state.shape[axis], d], -most, most)


def blocks_of(
    path: str | Path, header: dict[str, Any], tensors: Tensors, rows: Floats | None, columns: Floats | None
) -> Blocks:
    """Return the features of a run that has these by tables: those that it kept, and its own by what was observed."""
    x, given = tensors.get("features"), [each for each in (columns, rows) if each is not None]
    weights = (header.get("calibration") or {}).get("blocks") or []
    if not isinstance(weights, list) or not all(map(FINITE.allows, weights)):
        raise damaged(path, "checkpoint", ValueError("its weights of features cannot be"))
    of_given = weights[-len(given) :] if given else []
    blocks = Blocks(None, columns, rows).only(of_given)[0]
    width = 0 if x is None else x.shape[-1] - blocks.given[1]
    if x is not None and (x.dtype != np.int8 or x.ndim != 2 or width < 0 or not x.size):
        raise damaged(path, "checkpoint", ValueError("its features of the columns cannot be"))
    return replace(blocks, implicit=x[:, :width] * FEATURE_STEP) if x is not None and width else blocks


def _restore_slopes(run: Run, header: dict[str, Any], tensors: Tensors) -> None:
    SLOPES.check("slopes", header["slopes"])
    shape, features = run.chains.engine.observations.shape, run.chains.engine.features
    for axis, (known, blocks) in enumerate(zip(features[::-1], header["slopes"]["blocks"], strict=True)):
        d = 0 if known is None else known.shape[1]
        if known is not None and known.shape != (shape[1 - axis], d):
            raise ValueError("its features are not of the columns")
        firsts = [first for first, *_ in blocks]
        if firsts != sorted(set(firsts)) or (blocks and not d):
            raise ValueError("its sweeps of slopes are out of order")
        for p, (first, last, number) in enumerate(blocks):
            if not first < last or not number:
                raise ValueError("its sweeps of slopes are out of order")
            name = f"{SIDES[axis]}_slopes{p}"
            sums = _tensor(tensors, f"{name}.sums", np.float32, [shape[axis], d]).copy()
            squares = _tensor(tensors, f"{name}.squares", np.float32, [shape[axis]], 0.0).copy()
            tau2 = _tensor(tensors, f"{name}.tau2", np.float64, [d], np.finfo(np.float64).tiny).copy()
            run.slopes.blocks[axis].append(SlopeBlock(first, last, sums, squares, tau2, number))
    run.slopes.width = header["slopes"]["width"]


def _restore_draws(run: Run, header: dict[str, Any], tensors: Tensors) -> None:
    observations, n = run.chains.engine.observations, len(run.chains)
    unseen = observations.empty(0), observations.empty(1)
    kept = unpack_draws(header["kept"], tensors, observations.shape, unseen)
    if any((draw.row_noise is None) != (run.chains.chains[0].hyper.row_noise is None) for draw in kept):
        raise ValueError("the row noise of its draws is missing")
    if any((draw.row_shares is None) == run.plan.rao_blackwell for draw in kept):
        raise ValueError("the label probabilities of its draws are missing")
    if [draw.chain for draw in kept] != list(range(n)) * (len(kept) // n):
        raise ValueError("its draws are not of all chains")
    if any(draw.sweep >= header["sweep"] for draw in kept):
        raise ValueError("its draws are of sweeps to come")
    run.keeper.draws = [kept[p : p + n] for p in range(0, len(kept), n)]
    run.keeper.interval = header["interval"]


def _restore_history(run: Run, header: dict[str, Any], tensors: Tensors) -> None:
    sweep, n = header["sweep"], len(run.chains)
    if sweep:
        traced = {"probes": [min(N_TRACED, len(run.probes.rows))]}
        run.traces = {
            name: list(_tensor(tensors, f"trace.{name}", np.float64, [sweep, n, *traced.get(name, [])], nan=True))
            for name in TRACES
        }
    if any(at > sweep for at in header["past"]):
        raise ValueError("its means are of sweeps to come")
    if header["past"]:
        means = _tensor(tensors, "past", np.float64, [len(header["past"]), len(run.probes.rows)])
        run.past = list(zip(header["past"], means, strict=True))
    run.sweep, run.scale = sweep, float(header["scale"])
    run.best = float(header["best"][0]), int(header["best"][1])
    if run.best[1] > sweep:
        raise ValueError("its best sweep is to come")
    run.began = perf_counter() - header["seconds"]
    run.history = _history(tensors, len(run.chains.chains[0].hyper.shapes), sweep)
    run.settle(run.history[-1].change if run.history else None)


def _history(tensors: Tensors, n_stencils: int, n_sweeps: int) -> list[Sweep]:
    if not n_sweeps:
        return []
    width = len(Visit._fields)
    visits = _tensor(tensors, "visits", np.float64, [n_sweeps, n_stencils, width], nan=True)
    table = tensors["history"]
    known = np.where(np.isinf(table), 0.0, table) if table.dtype == np.float64 else table  # a change may be infinite
    _tensor({"history": known}, "history", np.float64, [n_sweeps, len(HISTORY)], 0.0, MOST, nan=True)
    lines = [_sweep(line, x) for line, x in zip(table.tolist(), visits, strict=True)]
    if [line.sweep for line in lines] != list(range(1, n_sweeps + 1)):
        raise ValueError("its history is not of its sweeps")
    return lines


def _sweep(line: list[float], visits: NDArray[np.float64]) -> Sweep:
    told: dict[str, Any] = {name: None if np.isnan(x) else x for name, x in zip(HISTORY, line, strict=True)}
    for name in ("sweep", "n_sweeps"):
        told[name] = None if told[name] is None else int(told[name])
    if any(x is None or np.isinf(x) for name, x in told.items() if name not in NULLABLE):
        raise ValueError("its history lacks something")
    return Sweep("sampling", **told, visits=visits)


def _calibration(
    saved: dict[str, Any] | None, held_out: NDArray[Any] | None, shape: tuple[int, int]
) -> Calibration | None:
    if saved is None:
        return None
    CALIBRATION.check("calibration", saved)
    if held_out is not None:
        cells = _tensor({"held_out": held_out}, "held_out", np.float64, [7, held_out.shape[-1]])[5:]
        if not ((cells >= 0) & (cells < np.reshape(shape, (2, 1))) & (cells == np.rint(cells))).all():
            raise ValueError("its held-out observations are not of the data")
    fields = {name: saved[name] for name in CALIBRATION.fields}
    fields["latent"] = float(saved["latent"][0]), float(saved["latent"][1])
    if saved["scale"] is not None:
        fields["scale"] = Scale.from_dict(saved["scale"])
    return Calibration(**{**fields, "held_out": held_out})
