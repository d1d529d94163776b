"""Detection of a GPU, and streams of work for it."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda
from numpy.typing import NDArray

from accams.errors import InputError

UNASKED = 32 << 10  # bytes of dynamic shared memory that every kernel may use without opting in
Array = Any  # on the device
_allowed: dict[Any, int] = {}  # bytes of shared memory that each kernel has opted in to
_driver_lock = RLock()  # chains launch from threads of their own


class Device(NamedTuple):
    """Properties of a GPU that launches depend on."""

    processors: int  # multiprocessors
    shared: int  # bytes of shared memory that a block may use
    memory: int  # free bytes
    threads: int  # of a block, unless a kernel says otherwise
    simulated: bool  # numba's simulator (NUMBA_ENABLE_CUDASIM is set, for tests)

    def blocks(self, size: int, together: int = 1024) -> int:
        """Return the blocks for so many items: a thread each, or as many as fit, `together` per multiprocessor."""
        return min(-(-size // self.threads), 2 if self.simulated else together // self.threads * self.processors)


def find_device() -> Device:
    """Return the GPU of this machine, or raise an `InputError` that says what is missing."""
    if config.ENABLE_CUDASIM:
        return Device(1, 200 << 10, 1 << 32, 4, True)
    if find_spec("numba_cuda") is None:
        raise InputError("engine='cuda' needs numba-cuda: pip install 'accams[cuda]', or use engine='cpu'")
    try:
        gpu, (free, _) = cuda.get_current_device(), cuda.current_context().get_memory_info()
    except Exception as error:
        raise InputError(
            f"engine='cuda' needs an NVIDIA GPU and its driver, and finds none ({_first_line(error)}): "
            "install the driver, or use engine='cpu'"
        ) from error
    try:
        with warnings.catch_warnings(action="ignore"):  # of numba, about small grids
            _nothing[1, 1]()
    except Exception as error:
        raise InputError(
            f"engine='cuda' cannot compile for this GPU ({_first_line(error)}): update NVIDIA's driver, "
            "reinstall with pip install 'accams[cuda]', or use engine='cpu'"
        ) from error
    shared = gpu.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    threads = 128 if shared > 96 << 10 else 64  # sums of 32 clusters take half a KB per thread
    return Device(gpu.MULTIPROCESSOR_COUNT, shared, int(free), threads, False)


@cuda.jit
def _nothing():  # type: ignore[no-untyped-def]
    """Do nothing, to test whether kernels can be compiled and run."""


def _first_line(error: Exception) -> str:
    lines = [line.strip(" :") for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


def free_unused() -> None:
    """Free device memory whose deallocation numba has deferred."""
    if not config.ENABLE_CUDASIM:
        with _driver_lock:
            cuda.current_context().memory_manager.deallocations.clear()


class Stream:
    """Queue of work for the GPU, done in order and asynchronously; Python waits only for what it fetches."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle = cuda.stream()
        self._ready: dict[Any, Any] = {}
        self._tape: list[Callable[[], None]] | None = None  # launches of a recording, in the simulator

    def upload(self, array: NDArray[Any]) -> Array:
        """Return a copy on the device."""
        with _driver_lock:
            return cuda.to_device(np.ascontiguousarray(array), stream=self.handle)

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> Array:
        return self.upload(np.zeros(shape, kind))

    def empty(self, shape: int | tuple[int, ...], kind: Any) -> Array:
        with _driver_lock:
            return cuda.device_array(shape, kind, stream=self.handle)

    def copied(self, array: Array) -> Array:
        """Return a copy of a device array on the device."""
        with _driver_lock:
            copy = cuda.device_array_like(array)
            copy.copy_to_device(array, stream=self.handle)
            return copy

    def send(self, array: NDArray[Any], to: Array) -> None:
        """Copy into a device array; a pinned source must not change until the copy is done."""
        with _driver_lock:
            to.copy_to_device(np.ascontiguousarray(array), stream=self.handle)

    def fetch(self, array: Array) -> NDArray[Any]:
        """Wait for all work, and return a copy of a device array."""
        self.wait()
        with _driver_lock:
            copy: NDArray[Any] = array.copy_to_host(stream=self.handle)
        self.wait()
        return copy

    def receive(self, array: Array, into: NDArray[Any]) -> None:
        """Copy a device array to pinned memory after the preceding work, without waiting."""
        with _driver_lock:
            array.copy_to_host(into, stream=self.handle)

    def after(self, other: "Stream") -> None:
        """Make later work of this stream wait for all work given to the other so far."""
        with _driver_lock:
            event = cuda.event()
            event.record(other.handle)
            event.wait(self.handle)

    def mark(self) -> Callable[[], None]:
        """Return a function that waits, on any thread, for all work given to this stream so far."""
        with _driver_lock:
            event = cuda.event()
            event.record(self.handle)

        def ready() -> None:
            cuda.current_context()  # a new thread has no context yet
            event.synchronize()

        return ready

    def wait(self) -> None:
        self.handle.synchronize()

    def launch(self, kernel: Any, blocks: int | tuple[int, int], threads: int, shared: int, *args: Any) -> None:
        if not np.prod(blocks):
            return
        with _driver_lock:
            if shared > UNASKED and not self.device.simulated:
                _allow(kernel, shared, args)
            start = partial(self._start, kernel, (blocks, threads, shared), args)
            if self._tape is None:
                start()
            else:
                self._tape.append(start)

    def _start(self, kernel: Any, shape: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        """Start a kernel with a shape of (blocks, threads, bytes of shared memory)."""
        ready = self._ready.get((kernel, shape))
        if ready is None:
            with warnings.catch_warnings(action="ignore"):
                ready = kernel[shape[0], shape[1], self.handle, shape[2]]
            if not self.device.simulated:  # the simulator's configured kernels share their last shape
                self._ready[kernel, shape] = ready
        ready(*args)

    def spread(self, kernel: Any, size: int, *args: Any) -> None:
        """Queue a kernel for `size` items."""
        self.launch(kernel, self.device.blocks(size), self.device.threads, 0, *args)

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """Record the kernels that `work` launches, without running them, and return what launches them together."""
        if self.device.simulated:
            tape = self._tape = []
            try:
                work()
            finally:
                self._tape = None

            def play() -> None:
                for start in tape:
                    start()

            return play
        from cuda.bindings import driver

        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        stream = driver.CUstream(int(self.handle))
        with _driver_lock, cuda.defer_cleanup():
            _checked(driver.cuStreamBeginCapture(stream, mode))
            try:
                work()
            finally:
                graph = _checked(driver.cuStreamEndCapture(stream))[0]
            ready = _checked(driver.cuGraphInstantiate(graph, 0))[0]
            _checked(driver.cuGraphDestroy(graph))
        return Recording(ready, stream)


class Recording:
    """CUDA graph of recorded kernels, launched by calling it."""

    def __init__(self, graph: Any, stream: Any) -> None:
        self._graph, self._stream = graph, stream

    def __call__(self) -> None:
        from cuda.bindings import driver

        with _driver_lock:
            _checked(driver.cuGraphLaunch(self._graph, self._stream))

    def __del__(self) -> None:
        with suppress(Exception):  # at exit the driver may be gone
            from cuda.bindings import driver

            driver.cuGraphExecDestroy(self._graph)


def _checked(result: Sequence[Any]) -> Sequence[Any]:
    """Return the results of a driver call, or raise if it failed."""
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(f"the GPU's driver reports {error}")
    return values


def _allow(kernel: Any, shared: int, args: tuple[Any, ...]) -> None:
    """Opt a kernel in to more shared memory than the default."""
    from cuda.bindings import driver

    if _allowed.get(kernel, 0) >= shared:
        return
    function = kernel.compile(tuple(kernel.typeof_pyval(arg) for arg in args))._codelibrary.get_cufunc()
    wanted = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _checked(driver.cuKernelSetAttribute(wanted, shared, function.handle, function.device.id))
    _allowed[kernel] = shared
