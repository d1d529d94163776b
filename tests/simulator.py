"""Mends of numba's CUDA simulator: two threads of a block may each get a shared array of their own there.

`FakeCUDAShared.array` looks an array up and, where there is none, makes it; a thread that is interrupted in between
makes a second one, and the threads of one block then compute with different memory. The thread that waits for a block
polls without a pause, so that each of the others waits for the interpreter for milliseconds.
"""

from __future__ import annotations

import os
import sys
import threading
from time import sleep
from typing import Any

import numpy as np


def mend_simulator() -> None:
    """Let one thread at a time ask for shared memory, if kernels are simulated."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "0":
        return
    try:
        from numba import cuda  # noqa: F401  (the simulator's modules are found after it)
        from numba.cuda.simulator.kernel import BlockThread
        from numba.cuda.simulator.kernelapi import FakeCUDAShared
        from numba.np import numpy_support
    except ImportError:
        return

    dynamic, lock = FakeCUDAShared.array, threading.Lock()

    def array(self: Any, shape: Any, dtype: Any) -> np.ndarray:
        if shape == 0:
            return dynamic(self, shape, dtype)
        asked_by = sys._getframe(1)
        with lock:
            return self._allocations.setdefault(
                (asked_by.f_code.co_filename, asked_by.f_lineno), np.empty(shape, numpy_support.as_dtype(dtype))
            )

    def is_alive(self: Any) -> bool:
        """Let other threads run: the one that starts a block asks this again and again, and they wait for it."""
        sleep(0)
        return threading.Thread.is_alive(self)

    FakeCUDAShared.array, BlockThread.is_alive = array, is_alive
