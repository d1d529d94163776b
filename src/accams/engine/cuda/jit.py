"""Decorators for GPU kernels, which are compiled once and cached on disk where possible."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import config, cuda

part = cuda.jit(device=True)  # a device function, called by kernels


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Return a kernel that is compiled when first launched, unless it is in the cache."""
    try:
        return cuda.jit(cache=True, **options)(function)
    except RuntimeError:  # numba has found no writable cache directory
        return cuda.jit(**options)(function)


def fitted(threads: int, together: int = 1024) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for kernels with blocks of `threads`, `together` threads of which share a multiprocessor.

    These launch bounds let the compiler use all registers of a thread for reading ahead; without them it assumes more
    or fewer threads. The carveout makes most of the multiprocessor's fast memory shared memory.
    """
    if config.ENABLE_CUDASIM:
        return kernel
    options = {"launch_bounds": (threads, max(1, together // threads)), "shared_memory_carveout": "maxshared"}
    return lambda function: kernel(function, **options)


def on_device(function: Any, **replaced: Any) -> Any:
    """Compile a CPU kernel's function for the device, with some of its global names replaced."""
    plain = function.py_func
    names = {**plain.__globals__, **replaced}
    return part(FunctionType(plain.__code__, names, plain.__name__))
