"""Work that comes again and again: recorded the second time, and started as one from then on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable

from accams.engine.cuda.device import Stream
from accams.engine.cuda.residual import DeviceResidual, Waiting

MOST = 256  # recordings
Program = tuple[Callable[[], None], list[Waiting]]  # what starts it, and what waits to be added afterwards


class GraphCache:
    """Recordings of kernels.

    Kernels have the same arguments whenever the same work comes with the same stencils waiting to be added, so these
    are part of its name. What passes by in chunks is not recorded.
    """

    def __init__(self, stream: Stream, residual: DeviceResidual) -> None:
        self._stream, self._residual = stream, residual
        self._known: dict[Hashable, Program | None] = {}  # None: it has come once
        self._recordable = not residual.streamed

    def clear(self) -> None:
        """Forget all recordings: arrays that they use are to be replaced."""
        self._known.clear()

    def run(self, name: Hashable, work: Callable[[], None]) -> None:
        """Start the kernels that `work` starts."""
        key = name, tuple(map(tuple, self._residual.waiting))
        program = self._known.get(key)
        if program is None and self._recordable and key in self._known:
            program = self._known[key] = self._recorded(work)
        if program is not None:
            program[0]()
            self._residual.waiting = _copied(program[1])
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[key] = None
        work()

    def _recorded(self, work: Callable[[], None]) -> Program | None:
        """A recording, if the driver can make one."""
        before = _copied(self._residual.waiting)
        try:
            return self._stream.recorded(work), _copied(self._residual.waiting)
        except Exception as error:
            self._recordable, self._residual.waiting = False, before
            warnings.warn(f"the GPU's kernels cannot be recorded ({error}): each is started by itself", stacklevel=2)
            return None


def _copied(waiting: list[Waiting]) -> list[Waiting]:
    return [[*each] for each in waiting]
