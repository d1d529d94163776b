"""The GPU: whether there is one, arrays on it, and launching kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda
from numpy.typing import NDArray

from accams.errors import InputError

DEFAULT_SHARED = 48 << 10  # bytes of shared memory that a kernel gets without asking
Array = Any  # on the device
_room: dict[tuple[Any, Any], int] = {}  # shared memory that each kernel was allowed
_one_at_a_time = Lock()  # chains launch from threads of their own


class Device(NamedTuple):
    """What a launch is fitted to.

    Attributes
    ----------
    processors : int
        Multiprocessors.
    shared : int
        Bytes of shared memory that a block may have.
    simulated : bool
        No GPU: NUMBA_ENABLE_CUDASIM is set, for tests.
    """

    processors: int
    shared: int
    simulated: bool


def find_device() -> Device:
    """The GPU of this machine, or one sentence on what is missing."""
    if config.ENABLE_CUDASIM:
        return Device(2, 200 << 10, True)
    if not cuda.is_available():
        raise InputError("engine='cuda' needs an NVIDIA GPU with its driver, and pip install 'accams[cuda]'")
    found = cuda.get_current_device()
    return Device(found.MULTIPROCESSOR_COUNT, found.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, False)


def upload(array: NDArray[Any]) -> Array:
    """A copy on the device."""
    return cuda.to_device(np.ascontiguousarray(array))


def zeros(shape: int | tuple[int, ...], kind: Any) -> Array:
    return upload(np.zeros(shape, kind))


def launch(kernel: Any, blocks: int, threads: int, shared: int, *args: Any) -> None:
    """Start a kernel; it runs when those before it are done."""
    if blocks == 0:
        return
    with _one_at_a_time:
        if shared > DEFAULT_SHARED and not config.ENABLE_CUDASIM:
            _allow(kernel, shared, args)
        kernel[blocks, threads, 0, shared](*args)


def _allow(kernel: Any, shared: int, args: tuple[Any, ...]) -> None:
    """Let a kernel have more shared memory than it gets without asking."""
    from cuda.bindings import driver

    kinds = tuple(kernel.typeof_pyval(each) for each in args)
    if _room.get((kernel, kinds), 0) >= shared:
        return
    function = kernel.compile(kinds)._codelibrary.get_cufunc()
    wanted = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = driver.cuKernelSetAttribute(wanted, shared, function.handle, function.device.id)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the GPU does not give a kernel {shared:,} bytes of shared memory: {error}")
    _room[kernel, kinds] = shared


class Mirrored(Sequence[NDArray[Any]]):
    """Arrays on the device, one for each stencil; as a sequence, copies of them, made when they are asked for."""

    def __init__(self) -> None:
        self.device: list[Array] = []
        self._copies: list[NDArray[Any] | None] = []

    def put(self, place: int, array: Array, copy: NDArray[Any] | None = None) -> None:
        """Replace an array, or append one; `copy` is what it holds, if that is known."""
        if place == len(self.device):
            self.device.append(None)
            self._copies.append(None)
        self.device[place], self._copies[place] = array, copy

    def __len__(self) -> int:
        return len(self.device)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: Any) -> Any:
        copy = self._copies[place]
        if copy is None:
            copy = self._copies[place] = self.device[place].copy_to_host()
        return copy
