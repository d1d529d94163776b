"""The GPU: whether there is one, and work that is given to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda
from numpy.typing import NDArray

from accams.errors import InputError

UNASKED = 32 << 10  # bytes of shared memory that a kernel gets without asking, beside what it has anyway
Array = Any  # on the device
_room: dict[Any, int] = {}  # shared memory that each kernel was allowed
_one_at_a_time = RLock()  # chains launch from threads of their own


class Device(NamedTuple):
    """What a launch is fitted to.

    Attributes
    ----------
    processors : int
        Multiprocessors.
    shared : int
        Bytes of shared memory that a block may have.
    memory : int
        Bytes that are free.
    threads : int
        Of a block where nothing else says how many.
    simulated : bool
        No GPU: NUMBA_ENABLE_CUDASIM is set, for tests.
    """

    processors: int
    shared: int
    memory: int
    threads: int
    simulated: bool

    def blocks(self, size: int, together: int = 1024) -> int:
        """Blocks for so many numbers: one thread for each, or as many as find room, `together` a multiprocessor."""
        return min(-(-size // self.threads), 2 if self.simulated else together // self.threads * self.processors)


def find_device() -> Device:
    """The GPU of this machine, or one sentence on what is missing."""
    if config.ENABLE_CUDASIM:
        return Device(1, 200 << 10, 1 << 32, 4, True)
    if find_spec("numba_cuda") is None:
        raise InputError("engine='cuda' needs numba-cuda: pip install 'accams[cuda]', or use engine='cpu'")
    try:
        found, (free, _) = cuda.get_current_device(), cuda.current_context().get_memory_info()
    except Exception as error:
        raise InputError(
            f"engine='cuda' needs an NVIDIA GPU and its driver, and finds none ({_first_line(error)}): "
            "install the driver, or use engine='cpu'"
        ) from error
    try:
        with _quietly():
            _nothing[1, 1]()
    except Exception as error:
        raise InputError(
            f"engine='cuda' cannot compile for this GPU ({_first_line(error)}): update NVIDIA's driver, "
            "reinstall with pip install 'accams[cuda]', or use engine='cpu'"
        ) from error
    shared = found.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    threads = 128 if shared > 96 << 10 else 64  # sums of 32 clusters take half a KB a thread
    return Device(found.MULTIPROCESSOR_COUNT, shared, int(free), threads, False)


@cuda.jit
def _nothing():  # type: ignore[no-untyped-def]
    """A kernel to see whether kernels run at all."""


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the warning that there are few blocks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _first_line(error: Exception) -> str:
    lines = [line.strip(" :") for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


def free_unused() -> None:
    """Give back at once what nobody holds any more."""
    if not config.ENABLE_CUDASIM:
        with _one_at_a_time:
            cuda.current_context().memory_manager.deallocations.clear()


class Stream:
    """Work for the GPU, one thing after another; Python goes on meanwhile, and waits only for what it fetches."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle = cuda.stream()
        self._ready: dict[Any, Any] = {}
        self._tape: list[Callable[[], None]] | None = None  # what a recording holds, in the simulator

    def upload(self, array: NDArray[Any]) -> Array:
        """A copy on the device."""
        with _one_at_a_time:
            return cuda.to_device(np.ascontiguousarray(array), stream=self.handle)

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> Array:
        return self.upload(np.zeros(shape, kind))

    def room(self, shape: int | tuple[int, ...], kind: Any) -> Array:
        """An array that nothing has been written to."""
        with _one_at_a_time:
            return cuda.device_array(shape, kind, stream=self.handle)

    def copied(self, array: Array) -> Array:
        """Another array of the same content."""
        with _one_at_a_time:
            made = cuda.device_array_like(array)
            made.copy_to_device(array, stream=self.handle)
            return made

    def send(self, array: NDArray[Any], to: Array) -> None:
        """Copy into an array of the device; what is in pinned memory must stay as it is until then."""
        with _one_at_a_time:
            to.copy_to_device(np.ascontiguousarray(array), stream=self.handle)

    def fetch(self, array: Array) -> NDArray[Any]:
        """What is in an array of the device once all work is done."""
        self.wait()
        with _one_at_a_time:
            found: NDArray[Any] = array.copy_to_host(stream=self.handle)
        self.wait()
        return found

    def receive(self, array: Array, into: NDArray[Any]) -> None:
        """Copy to pinned memory, when what came before is done."""
        with _one_at_a_time:
            array.copy_to_host(into, stream=self.handle)

    def after(self, other: Stream) -> None:
        """Whatever is given to this stream from now on waits for all that the other has been given."""
        with _one_at_a_time:
            event = cuda.event()
            event.record(other.handle)
            event.wait(self.handle)

    def mark(self) -> Callable[[], None]:
        """Something to wait with, on any thread, for all that this stream has been given so far."""
        with _one_at_a_time:
            event = cuda.event()
            event.record(self.handle)

        def ready() -> None:
            cuda.current_context()  # a thread of its own has none yet
            event.synchronize()

        return ready

    def wait(self) -> None:
        """Wait until all work is done."""
        self.handle.synchronize()

    def launch(self, kernel: Any, blocks: int | tuple[int, int], threads: int, shared: int, *args: Any) -> None:
        """Start a kernel; it runs when what came before is done."""
        if not np.prod(blocks):
            return
        with _one_at_a_time:
            if shared > UNASKED and not self.device.simulated:
                _allow(kernel, shared, args)
            start = partial(self._start, kernel, (blocks, threads, shared), args)
            if self._tape is None:
                start()
            else:
                self._tape.append(start)

    def _start(self, kernel: Any, shape: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        """Start a kernel with so many blocks, threads and bytes of shared memory; few blocks are no reason to warn."""
        ready = self._ready.get((kernel, shape))
        if ready is None:
            with _quietly():
                ready = kernel[shape[0], shape[1], self.handle, shape[2]]
            if not self.device.simulated:  # there, a kernel has the shape that it was given last
                self._ready[kernel, shape] = ready
        ready(*args)

    def spread(self, kernel: Any, size: int, *args: Any) -> None:
        """Start a kernel with a thread for each of so many numbers, or with as many as there are."""
        self.launch(kernel, self.device.blocks(size), self.device.threads, 0, *args)

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """What starts once more all the kernels that `work` starts, at the price of one; they do not run now."""
        if self.device.simulated:
            tape = self._tape = []
            try:
                work()
            finally:
                self._tape = None
            return partial(_play, tape)
        from cuda.bindings import driver

        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        stream = driver.CUstream(int(self.handle))
        with _one_at_a_time, cuda.defer_cleanup():
            _checked(driver.cuStreamBeginCapture(stream, mode))
            try:
                work()
            finally:
                graph = _checked(driver.cuStreamEndCapture(stream))[0]
            ready = _checked(driver.cuGraphInstantiate(graph, 0))[0]
            _checked(driver.cuGraphDestroy(graph))
        return Recording(ready, stream)


def _play(tape: list[Callable[[], None]]) -> None:
    for start in tape:
        start()


class Recording:
    """Kernels that were recorded, to be started together."""

    def __init__(self, graph: Any, stream: Any) -> None:
        self._graph, self._stream = graph, stream

    def __call__(self) -> None:
        from cuda.bindings import driver

        with _one_at_a_time:
            _checked(driver.cuGraphLaunch(self._graph, self._stream))

    def __del__(self) -> None:
        with suppress(Exception):  # when Python ends, there may be no driver any more
            from cuda.bindings import driver

            driver.cuGraphExecDestroy(self._graph)


def _checked(result: Sequence[Any]) -> Sequence[Any]:
    """What a call of the driver gave, unless it failed."""
    error, *found = result
    if int(error) != 0:
        raise RuntimeError(f"the GPU's driver says {error}")
    return found


def _allow(kernel: Any, shared: int, args: tuple[Any, ...]) -> None:
    """Let a kernel have more shared memory than it gets without asking."""
    from cuda.bindings import driver

    if _room.get(kernel, 0) >= shared:
        return
    function = kernel.compile(tuple(kernel.typeof_pyval(each) for each in args))._codelibrary.get_cufunc()
    wanted = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _checked(driver.cuKernelSetAttribute(wanted, shared, function.handle, function.device.id))
    _room[kernel] = shared
