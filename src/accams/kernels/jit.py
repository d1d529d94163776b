"""The one decorator for compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile `function` for plain arrays: serial, without the GIL, cached on disk where that is possible.

    Kernels take a range of rows and are spread over threads by the caller. The cache sits beside the source
    file, or in the user's cache folder when the installation is read-only; with neither, it is compiled in
    every process.
    """
    try:
        compiled: Callable[..., Any] = numba.njit(function, nogil=True, cache=True, **options)
    except RuntimeError:  # numba found no folder that it may write to
        compiled = numba.njit(function, nogil=True, **options)
    return compiled


def contracted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A kernel in which a product and a sum may become one instruction; nothing else about its numbers is relaxed."""
    return kernel(function, fastmath={"contract"}, **options)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Part of another contracted kernel, put into it: for what is called once per row, where a call costs much."""
    return contracted(function, inline="always")
