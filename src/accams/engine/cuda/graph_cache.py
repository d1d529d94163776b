"""Cache of CUDA graphs for recurring work: recorded the second time, and launched as one from then on."""

import warnings
from collections.abc import Callable, Hashable

from accams.engine.cuda.device import Stream
from accams.engine.cuda.residual import DeviceResidual, Waiting

MOST = 256  # cached graphs
Graph = tuple[Callable[[], None], list[Waiting]]  # launches it, and the shifts that wait afterwards


class GraphCache:
    """Recordings of kernels.

    The arguments of kernels depend on the work and on the stencils that wait to be added to the residual, so both
    form the key. Passes over streamed chunks are not recorded.
    """

    def __init__(self, stream: Stream, residual: DeviceResidual) -> None:
        self._stream, self._residual = stream, residual
        self._known: dict[Hashable, Graph | None] = {}  # None: seen once, not recorded
        self._recordable = not residual.streamed

    def clear(self) -> None:
        """Drop all recordings, before arrays that they use are replaced."""
        self._known.clear()

    def run(self, name: Hashable, work: Callable[[], None]) -> None:
        """Launch the kernels that `work` launches, from a recording if there is one."""
        key = name, tuple(map(tuple, self._residual.waiting))
        graph = self._known.get(key)
        if graph is None and self._recordable and key in self._known:
            graph = self._known[key] = self._recorded(work)
        if graph is not None:
            graph[0]()
            self._residual.waiting = _copied(graph[1])
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[key] = None
        work()

    def _recorded(self, work: Callable[[], None]) -> Graph | None:
        """Record work, or return None with a warning if the driver cannot."""
        before = _copied(self._residual.waiting)
        try:
            return self._stream.recorded(work), _copied(self._residual.waiting)
        except Exception as error:
            self._recordable, self._residual.waiting = False, before
            warnings.warn(f"the GPU's kernels cannot be recorded ({error}): each is launched on its own", stacklevel=2)
            return None


def _copied(waiting: list[Waiting]) -> list[Waiting]:
    return [[*shifts] for shifts in waiting]
