"""How long each kind of kernel takes, and how many bytes it moves."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from accams import Observations

K, REPEATS = 10, 15


def elapsed(work: Callable[[], object], stream: Any) -> float:
    """Median seconds of some work on the GPU, recorded ten times over, so that launching does not count."""

    def ten() -> None:
        for _ in range(10):
            work()

    work()
    start, times = stream.recorded(ten), []
    for _ in range(REPEATS):
        times.append(between_events(start, stream.handle) / 10)
    return median(times)


def between_events(work: Callable[[], object], handle: Any) -> float:
    """Seconds from before to after some work on a stream."""
    from numba import cuda

    one, other = cuda.event(), cuda.event()
    one.record(handle)
    work()
    other.record(handle)
    other.synchronize()
    return float(one.elapsed_time(other)) / 1e3


def copy_bandwidth(size: int = 2 << 30) -> dict[str, float]:
    """Bytes read and written a second by a copy within the GPU's memory."""
    from numba import cuda

    one, other = (cuda.device_array(size, np.uint8) for _ in range(2))
    stream = cuda.stream()
    times = [between_events(lambda: other.copy_to_device(one, stream=stream), stream) for _ in range(REPEATS)]
    seconds = median(times)
    return {"bytes": 2.0 * size, "seconds": seconds, "bandwidth": 2.0 * size / seconds}


def all_of_them(obs: Observations) -> list[dict[str, Any]]:
    """Each kind of kernel that a visit consists of, with how often it runs in a visit of three updates a side."""
    from accams.engine.choose import make_engine

    rng, shapes = np.random.default_rng(0), [(K, K)] * 3
    engine: Any = make_engine(obs, "cuda", len(shapes), shapes=shapes)
    state: Any = engine.new_state()
    labels = [[rng.integers(0, K, size).astype(np.uint8) for _ in shapes] for size in obs.shape]
    state.restore([rng.integers(-999, 999, (K, K)).astype(np.int32) for _ in shapes], *labels)
    residual, stream = state._residual, state.stream
    for axis in (0, 1):
        residual.apply_waiting(axis)
    lines = []
    for axis, name in enumerate(("rows", "columns")):
        layout = engine.orders[axis].layout
        entries, sums = layout.size, 8 * K * len(layout.owners)
        for shifts in (0, 2):

            def gather(axis: int = axis, shifts: int = shifts) -> None:
                residual.waiting[axis] = [(slot, sign, (K, K)) for slot, sign in ((1, +1), (2, -1))[:shifts]]
                residual.fresh[axis] = False
                residual.sums(axis, 0)

            moved = entries * (6 + (4 if shifts else 0)) + sums
            took = elapsed(gather, stream)
            lines.append(_line(f"pass over {name}, {shifts} stencils added", took, moved, 1 if shifts else 2))

        def label(axis: int = axis) -> None:
            state._launch_label("draw", axis, 0, (state._slots.T, *state._update_buffer.given[1:]), state._tables)

        lines.append(_line(f"labels of {name}", elapsed(label, stream), sums + obs.shape[axis], 3))
    lines += _small(state)
    return lines


def _small(state: Any) -> list[dict[str, Any]]:
    """Kernels that move next to nothing."""
    from accams.engine.cuda import steps

    stream, slots, sheet, line = state.stream, state._slots, state._visit_buffer, 0
    told = state._prices, sheet.moved, sheet.gain
    draw = state._tables, K, K, 0, slots.T, slots.counts, 0, state.engine.grid.limit
    threads = state._threads

    def step() -> None:
        stream.launch(steps.next_step, 1, threads, 0, *draw, *sheet.given, line, 0, 1, *told)

    def remember() -> None:
        stream.spread(steps.remember, max(state.shape), *slots.arrays, 0, slots.old)

    return [
        _line("template and weights of clusters", elapsed(step, stream), 0, 6),
        _line("keeping what a stencil was", elapsed(remember, stream), 2 * sum(state.shape), 1),
    ]


def _line(what: str, seconds: float, moved: int, times: int) -> dict[str, Any]:
    return {"what": what, "seconds": seconds, "bytes": moved, "times": times}
