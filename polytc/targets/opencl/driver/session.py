"""A device in use: its context, its queue, and how arrays of the host are lent to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polytc.machine import ALIGNMENT
from polytc.native import forks
from polytc.targets.opencl.driver import devices
from polytc.targets.opencl.driver.devices import Device


class Session:
    """A device in use: its context and its one in-order queue. lock: who holds it may enqueue."""

    def __init__(self, device: Device, context: Any = None) -> None:
        """context: of the caller, whose queues are used; else there is one of our own."""
        cl = devices.pyopencl()
        self.device = device
        self.lock = forks.Lock()
        # a queue does not keep its context alive in every runtime
        self.context = context if context is not None else cl.Context([device.handle])
        self.queue = cl.CommandQueue(self.context, device.handle)
        self.addresses = devices.takes_addresses(device)

    def finish(self) -> None:
        """Wait for all that was enqueued."""
        self.queue.finish()

    def replay(self) -> Callable[[Sequence[Any]], None]:
        """A function that enqueues the kernels of prepared executables, one after another."""
        def enqueue(steps: Sequence[Any]) -> None:
            for s in steps:
                s.enqueue(self.queue)
        return enqueue

    def sharing(self, alignment: int) -> int:
        """Bytes of which an array's address must be a multiple for kernels to work on the array itself, 0 if they never can.
        alignment: what the source needs (0: no more than the elements)."""
        if self.device.kind != "cpu":
            return 0
        # these runtimes assume nothing about a buffer's address; others may
        known = any(name in self.device.platform.lower() for name in ("intel", "portable computing"))
        return max(alignment, 8) if known else ALIGNMENT

    def lent(self, array: np.ndarray) -> Any:
        """The array's own memory as an argument of kernels. Where the device takes addresses of the host that costs nothing;
        what is written to a buffer is in the array once it has been mapped."""
        cl = devices.pyopencl()
        if self.addresses:
            return cl.SVM(array)
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=array)


@functools.cache
def session(device: Device) -> Session:
    """The session of a device, one for the process."""
    return Session(device)
