"""The one decorator for compiled kernels."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba


def kernel(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile `function` as a serial kernel that releases the GIL and is cached on disk where possible.

    Kernels take a range of rows, and the caller runs ranges on threads. The cache lies beside the source file, or
    in the user's cache folder when the installation is read-only; with neither, every process compiles anew.

    Compiling is what a first fit waits for. A slice that is assigned an array, ``x[:] = y``, takes two seconds of it,
    for the text of its error: write a loop.
    """
    # Nothing calls kernels from C: without that entry compiling takes a tenth less.
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}
    try:
        compiled: Callable[..., Any] = numba.njit(function, cache=_has_place(), **options)
    except RuntimeError:  # numba found no writable cache folder
        return numba.njit(function, **options)  # type: ignore[no-any-return]
    _guard_cache(compiled)
    return compiled


def _has_place() -> bool:
    """Return whether there may be a cache folder: numba takes an unknown home for a folder that is called ``~``."""
    return os.path.isabs(os.path.expanduser("~")) or bool(os.environ.get("NUMBA_CACHE_DIR"))


def _guard_cache(compiled: Any) -> None:
    """Let a kernel do without its cache on disk where that fails, as on a full disk; numba would raise.

    What is loaded must be of the wanted types: of two processes that begin with an empty cache, one may replace the
    code that the other's index names.
    """
    cache: Any = getattr(compiled, "_cache", None)
    load, save = getattr(cache, "load_overload", None), getattr(cache, "save_overload", None)
    if load is None or save is None:
        return

    def load_overload(types: Any, *args: Any) -> Any:
        try:
            found = load(types, *args)
        except Exception:  # damaged, as unpickling tells by any of them: begin anew
            with suppress(Exception):
                cache.flush()
            return None
        return found if found is None or tuple(found.signature.args) == tuple(types) else None

    def save_overload(*args: Any) -> None:
        with suppress(OSError):
            save(*args)

    cache.load_overload, cache.save_overload = load_overload, save_overload


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
