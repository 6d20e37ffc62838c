"""A device in use: its primary context, which other libraries of the process share, its stream, and memory."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from polytc.native import forks
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.devices import call


class Memory:
    """Bytes of a device, which it has back when nobody holds this."""

    def __init__(self, on: Session, size: int) -> None:
        self.size = size
        self._address = int(call(on.driver.cuMemAlloc(max(1, size))))
        weakref.finalize(self, on.free, self._address)

    def __int__(self) -> int:
        return self._address


class Enqueued(Protocol):
    """Kernels whose arguments are set. version: another number whenever these are others."""

    version: int

    def enqueue(self, stream: int) -> None:
        """Launch them on a stream."""
        ...


class ContextLock:
    """A lock whose holder's thread has a device's context: a thread begins without one, or with one of another library."""

    def __init__(self, enter: Callable[[], object]) -> None:
        self._lock, self._enter = forks.Lock(), enter

    def __enter__(self) -> None:
        self._lock.__enter__()
        self._enter()

    def __exit__(self, *exception: object) -> None:
        self._lock.__exit__(*exception)


class Session:
    """A device in use. lock: who holds it may use the driver. stream: of our own, which waits for the default one and is waited
    for by it, as copies of the host's memory are."""

    def __init__(self, number: int) -> None:
        self.driver = driver = nvrtc.bindings("driver")
        context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(number))))
        self.lock = ContextLock(lambda: driver.cuCtxSetCurrent(context))
        with self.lock:
            self.stream = int(call(driver.cuStreamCreate(0)))

    def free(self, address: int) -> None:
        """Give memory back."""
        with self.lock:
            self.driver.cuMemFree(address)

    def upload(self, array: np.ndarray, to: int) -> None:
        """Copy an array, which may change when this returns, to the device."""
        if array.nbytes:
            call(self.driver.cuMemcpyHtoD(to, array.ctypes.data, array.nbytes))

    def download(self, array: np.ndarray, source: int) -> None:
        """Copy memory of the device to an array, behind what the stream has."""
        if array.nbytes:
            call(self.driver.cuMemcpyDtoH(array.ctypes.data, source, array.nbytes))

    def finish(self) -> None:
        """Wait for the stream."""
        call(self.driver.cuStreamSynchronize(self.stream))

    def replay(self) -> Replay:
        """What runs the same kernels again and again."""
        return Replay(self)


class Replay:
    """Kernels in a row, from their second run on as a graph: one call of the driver launches them all."""

    def __init__(self, on: Session) -> None:
        self._on = on
        self._known: tuple[tuple[int, int], ...] = ()
        self._graph: Graph | None = None

    def __call__(self, steps: Sequence[Enqueued]) -> None:
        """Enqueue the kernels of all steps on the session's stream."""
        known = tuple((id(s), s.version) for s in steps)
        if known != self._known:
            self._known, self._graph = known, None
            for s in steps:
                s.enqueue(self._on.stream)
            return
        if self._graph is None:
            self._graph = Graph(self._on, steps)
        self._graph.launch()


class Graph:
    """Launches that were recorded."""

    def __init__(self, on: Session, steps: Sequence[Enqueued]) -> None:
        self._on, driver = on, on.driver
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        call(driver.cuStreamBeginCapture(on.stream, mode))
        try:
            for s in steps:
                s.enqueue(on.stream)
        finally:
            made = driver.cuStreamEndCapture(on.stream)
        graph = call(made)
        self._ready = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphDestroy(graph))
        weakref.finalize(self, _destroy, on, self._ready)

    def launch(self) -> None:
        """Enqueue them on the session's stream."""
        call(self._on.driver.cuGraphLaunch(self._ready, self._on.stream))


def _destroy(on: Session, graph: object) -> None:
    with on.lock:
        on.driver.cuGraphExecDestroy(graph)


@functools.cache
def session(number: int) -> Session:
    """The session of a device, one for the process. number: in the driver's order."""
    return Session(number)
