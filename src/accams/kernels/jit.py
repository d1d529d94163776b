"""The one decorator for compiled kernels."""

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile `function` as a serial kernel that releases the GIL and is cached on disk where possible.

    Kernels take a range of rows, and the caller runs ranges on threads. The cache lies beside the source file, or
    in the user's cache folder when the installation is read-only; with neither, every process compiles anew.
    """
    try:
        compiled: Callable[..., Any] = numba.njit(function, nogil=True, cache=True, **options)
    except RuntimeError:  # numba found no writable cache folder
        compiled = numba.njit(function, nogil=True, **options)
    return compiled


def readonly(x: Any) -> Any:
    """Return a read-only view of an array, or None.

    Kernels are compiled anew for each mix of writable and read-only arguments, and the same array is one or the other
    depending on where it comes from (memory, a store, a worker). Passing what is only read by this view avoids that.
    """
    if x is not None:
        x = x.view()
        x.flags.writeable = False
    return x


def contracted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a kernel in which a product and a sum may be fused; no other floating-point rule is relaxed.

    In particular sums are not reordered, so results do not depend on how a range of rows is cut.
    """
    return kernel(function, fastmath={"contract"}, **options)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a contracted function that is inlined into its callers, since a call per row would be too slow."""
    return contracted(function, inline="always")
