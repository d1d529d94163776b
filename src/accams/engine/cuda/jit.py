"""Kernels for GPUs: compiled once, and kept on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import config, cuda

part = cuda.jit(device=True)  # of a kernel


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """A kernel; it is compiled when it is first started, unless that was done before on this machine."""
    try:
        return cuda.jit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return cuda.jit(**options)(function)


def fitted(threads: int, together: int = 1024) -> Callable[[Callable[..., Any]], Any]:
    """A kernel for blocks of so many threads, as many of which find room on a multiprocessor together.

    Without being told, the compiler leaves room for more, and so for less that is read ahead, or for fewer. Most of
    the multiprocessor's fast memory is to be shared memory.
    """
    if config.ENABLE_CUDASIM:
        return kernel
    options = {"launch_bounds": (threads, max(1, together // threads)), "shared_memory_carveout": "maxshared"}
    return lambda function: kernel(function, **options)


def on_device(function: Any, **replaced: Any) -> Any:
    """A CPU kernel's function for the device, calling these instead of the functions it names."""
    plain = function.py_func
    names = {**plain.__globals__, **replaced}
    return part(FunctionType(plain.__code__, names, plain.__name__))
