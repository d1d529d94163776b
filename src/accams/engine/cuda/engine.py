"""The `cuda` engine: observed cells in both orders on an NVIDIA GPU."""

import gc
from contextlib import suppress
from typing import Any

from accams.engine.cuda.data import CudaData
from accams.engine.cuda.device import free_unused
from accams.engine.cuda.state import CudaState


class CudaEngine(CudaData):
    """Observations on a GPU, and the chains that share them; parameters as of `CudaData`."""

    name = "cuda"
    in_turn = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._states: list[CudaState] = []

    def new_state(self, chain: int = 0) -> CudaState:
        self._states.append(CudaState(self, self._states[0] if self._states else None))
        return self._states[-1]

    def close(self) -> None:
        """Free the device and the threads."""
        super().close()
        for state in self._states:
            state.free()
        self._states, self.orders = [], []
        gc.collect()  # compiling leaves reference cycles of frames, which hold the arguments of kernels
        with suppress(Exception):  # a device that has failed rejects all calls
            free_unused()
