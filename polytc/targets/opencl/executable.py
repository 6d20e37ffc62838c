"""OpenCL source, compiled for a device, callable on arrays."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from polytc import errors
from polytc.codegen import launch_order, size_names
from polytc.codegen.loops import Buffer
from polytc.codegen.target import Binary, Bound, BoundQueued, BoundRun, Launch, Types
from polytc.machine import ALIGNMENT
from polytc.native import call_arguments
from polytc.program import extents
from polytc.program import sizes as formulas
from polytc.targets.opencl.driver import devices, programs
from polytc.targets.opencl.driver.devices import Device
from polytc.targets.opencl.driver.session import Session, session

errors.register(E505="a kernel exceeds what the device can do", E507="an OpenCL command failed",
                E508="the OpenCL device has no memory left")


class OpenCLExecutable:
    """Built kernels of one module. Several Python threads may call it; their runs follow one another."""

    def __init__(self, binary: Binary, device: Device, numbers: Mapping[str, int] | None = None, program: Any = None,
                 on: Session | None = None) -> None:
        """numbers: values of the sizes that are not fixed, see `Open`. program: what was built of the binary's code. on: the
        session to use, if it is not the device's own."""
        self.binary = binary
        self.device = device
        self._session = on or session(device)
        self._numbers = {n: np.int32(v) for n, v in (numbers or {}).items()}
        check_limits(binary, device)
        program = _build(binary, self._session) if program is None else program
        with self._session.lock:
            self._program = program
            self._kernels = self._own_kernels()
            self._repeats = any(x.loops for _, x in self._kernels)
            for kernel, launch in self._kernels:
                limit = kernel.get_work_group_info(devices.pyopencl().kernel_work_group_info.WORK_GROUP_SIZE, device.handle)
                _check_group(launch, limit, device)
            self._scratch = {b.name: self._allocate(b.size * b.dtype.bytes) for b in binary.scratch}
        self._own: dict[str, Any] = {}
        # addresses of all arrays, where these are the arguments that the kernels have
        self._placed: list[int] | None = None
        self._sharing = self._session.sharing(int(binary.options.get("alignment", ALIGNMENT)))

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays that match binary.args: C-contiguous, right types and sizes. Outputs are overwritten."""
        cl = devices.pyopencl()
        queue, places = self._session.queue, [a.ctypes.data for a in buffers]
        with self._session.lock:
            if places == self._placed:
                self._again()
                return
            try:
                memory = self._memory(buffers)
                for kernel, launch in self._launches(memory):
                    cl.enqueue_nd_range_kernel(queue, kernel, launch.global_size, launch.local_size)
                self._collect(buffers, memory)
                queue.finish()
            except cl.Error as e:
                raise self.failure(e) from e
            lent = all(isinstance(memory[b.name], cl.SVM) for b in self.binary.args)
            self._placed = places if lent and not self._repeats else None

    def _again(self) -> None:
        """Run the kernels with the arguments that they have. The session's lock is held."""
        cl, queue = devices.pyopencl(), self._session.queue
        try:
            for kernel, launch in self._kernels:
                cl.enqueue_nd_range_kernel(queue, kernel, launch.global_size, launch.local_size)
            queue.finish()
        except cl.Error as e:
            raise self.failure(e) from e

    def fast_path(self, inputs: Types, outputs: Types) -> Callable[..., bool] | None:
        """See codegen.target.FastPath; for the arrays of the last run. Several Python threads may call the function at once."""
        expected = call_arguments.expect(inputs, outputs) if self._session.addresses and not self._repeats else None
        if expected is None:
            return None
        known, table = expected, (ctypes.c_uint64 * len(self.binary.args))()

        def call(*arrays: Any) -> bool:
            with self._session.lock:
                fits = known.check(known.address, ctypes.addressof(table), *arrays) != 0 and table[:] == self._placed
                if fits:
                    self._again()
            return fits
        return call

    def _memory(self, buffers: Sequence[np.ndarray]) -> dict[str, Any]:
        """What kernels get for the names of their arguments; contents are on their way to the device."""
        arrays = {b.name: self._to_device(b.name, a) for b, a in zip(self.binary.args, buffers, strict=True)}
        return self._scratch | self._numbers | arrays

    def _collect(self, buffers: Sequence[np.ndarray], memory: Mapping[str, Any]) -> None:
        """Enqueue what makes the arrays of the outputs have their contents."""
        for b, array in zip(self.binary.args, buffers, strict=True):
            if b.name in self.binary.outputs and array.size:
                self._to_host(array, memory[b.name])

    def enqueue(self, queue: Any, memory: Mapping[str, Any], wait_for: Sequence[Any] = ()) -> Any:
        """Enqueue the kernels on buffers of the device, one for each of binary.args by name, after some events; an event that
        is complete when they are. queue: of the session's context; it may be out of order. Nothing is copied."""
        return self._enqueue(queue, memory, wait_for)[-1][1]

    def prepared(self, memory: Mapping[str, Any]) -> Prepared:
        """Kernels whose arguments are these buffers until others are given, for runs that are repeated."""
        return Prepared(self, self._own_kernels(), {**memory, **self._scratch, **self._numbers})

    def _own_kernels(self) -> list[tuple[Any, Launch]]:
        """Kernels with arguments of their own, and how they are launched; without those that have nothing to do."""
        cl = devices.pyopencl()
        return [(cl.Kernel(self._program, x.entry), x) for x in self.binary.launches if 0 not in x.global_size]

    def timed(self, buffers: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        """Run on arrays as `run` does; each kernel's name and its seconds on the device, by the device's clock."""
        cl = devices.pyopencl()
        with self._session.lock:
            queue = cl.CommandQueue(self._session.context, self.device.handle, cl.command_queue_properties.PROFILING_ENABLE)
            memory = self._memory(buffers)
            self._session.queue.finish()
        events = self._enqueue(queue, memory, ())
        queue.finish()
        with self._session.lock:
            self._collect(buffers, memory)
            self._session.queue.finish()
        spent = {launch.entry: 0.0 for _, launch in self._kernels}
        for entry, e in events:
            if entry:
                spent[entry] += (e.profile.end - e.profile.start) * 1e-9
        return list(spent.items())

    def _launches(self, memory: Mapping[str, Any]) -> Iterator[tuple[Any, Launch]]:
        """The launches in order, each kernel with its arguments set when it is its turn. The session's lock is held."""
        self._placed = None
        for kernel, launch in self._kernels:
            counters = {r.var for r in launch.loops}
            for n, a in enumerate(launch.args):
                if a not in counters:
                    kernel.set_arg(n, memory[a])
            if not self._repeats:
                yield kernel, launch
        if self._repeats:
            for made in launch_order.in_order([x for _, x in self._kernels], {n: int(v) for n, v in self._numbers.items()}):
                kernel, launch = self._kernels[made.number]
                first = len(launch.args) - len([a for a in launch.args if a in made.values])
                for n, a in enumerate(launch.args[first:], first):
                    kernel.set_arg(n, np.int32(made.values[a]))
                yield kernel, launch

    def _enqueue(self, queue: Any, memory: Mapping[str, Any], wait_for: Sequence[Any]) -> list[tuple[str, Any]]:
        """The kernels launched, by name, with their events, each after the one before; a marker's if there is none."""
        cl = devices.pyopencl()
        known = self._scratch | self._numbers | dict(memory)
        chained = bool(queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        events: list[tuple[str, Any]] = []
        with self._session.lock:
            try:
                for kernel, launch in self._launches(known):
                    before = wait_for if not events else [events[-1][1]] if chained else ()
                    event = cl.enqueue_nd_range_kernel(queue, kernel, launch.global_size, launch.local_size,
                                                       wait_for=list(before))
                    events.append((launch.entry, event))
                return events or [("", cl.enqueue_marker(queue, wait_for=list(wait_for)))]
            except cl.Error as e:
                raise self.failure(e) from e

    def failure(self, e: Exception) -> errors.CompileError:
        """The diagnostic of a failed command."""
        what = f"'{self.binary.name}' on {self.device}"
        if isinstance(e, devices.pyopencl().MemoryError):
            size = sum(b.size * b.dtype.bytes for b in (*self.binary.args, *self.binary.scratch))
            return errors.fail("E508", f"there is no memory left for {what}: {e}", kind=errors.TargetError, notes=[
                f"its arrays have {size:,} bytes; the device has {self.device.handle.global_mem_size:,} for everything"])
        return errors.fail("E507", f"running {what} failed: {e}", kind=errors.TargetError)

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """A function that runs on these arrays, which it keeps alive."""
        return BoundQueued(self, buffers)

    # ---- memory of the device, for runs of several executables (see runtime/device_chains.py)

    @property
    def session(self) -> Session:
        """The device in use."""
        return self._session

    def shared(self, array: np.ndarray) -> Any:
        """The array's own memory as an argument of kernels, where the device can use it; else None."""
        return self._session.lent(array) if self._is_shared(array) else None

    def made(self, array: np.ndarray, read: bool) -> Any:
        """A buffer for an array, which stays: its own memory or memory of the device; with its contents, if it is read."""
        found = self.shared(array)
        if found is None:
            found = self._allocate(array.nbytes)
            if read:
                self.upload(array, found)
        return found

    def upload(self, array: np.ndarray, buffer: Any) -> None:
        """Enqueue a copy of an array, which may change when this returns, to a buffer of the device."""
        if array.size:
            with self._session.lock:
                devices.pyopencl().enqueue_copy(self._session.queue, buffer, array, is_blocking=True)

    def to_host(self, array: np.ndarray, buffer: Any) -> None:
        """Enqueue what makes an array have the buffer's contents. The session's lock is held."""
        self._to_host(array, buffer)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Where errors of the driver are raised as TargetError."""
        try:
            yield
        except devices.pyopencl().Error as e:
            raise self.failure(e) from e

    def _allocate(self, size: int) -> Any:
        cl = devices.pyopencl()
        try:
            return cl.Buffer(self._session.context, cl.mem_flags.READ_WRITE, max(size, 1))
        except cl.Error as e:
            raise self.failure(e) from e

    def _to_device(self, name: str, array: np.ndarray) -> Any:
        """A device buffer with the array's contents: the array's own memory where the device may use it."""
        cl = devices.pyopencl()
        if self._is_shared(array):
            return self._session.lent(array)
        buffer = self._own.get(name)
        if buffer is None:
            buffer = self._own[name] = self._allocate(array.nbytes)
        if array.size:
            # outputs too: elements that no statement writes keep the caller's values, as on every target
            cl.enqueue_copy(self._session.queue, buffer, array, is_blocking=False)
        return buffer

    def _to_host(self, array: np.ndarray, buffer: Any) -> None:
        cl = devices.pyopencl()
        if isinstance(buffer, cl.SVM):
            return
        if self._is_shared(array):
            mapped, _ = cl.enqueue_map_buffer(self._session.queue, buffer, cl.map_flags.READ, 0, array.shape, array.dtype)
            mapped.base.release(self._session.queue)
        else:
            cl.enqueue_copy(self._session.queue, array, buffer, is_blocking=False)

    def _is_shared(self, array: np.ndarray) -> bool:
        """A device of the host's memory, and an address that the kernels can do with; pyopencl wants it writable."""
        return array.size > 0 and array.flags.writeable and self._sharing > 0 and array.ctypes.data % self._sharing == 0


class Prepared:
    """Kernels of an executable with arguments that stay set. The caller holds the session's lock.

    memory: a buffer or number for each argument. Launches in loops of the host are made anew each time.
    """

    def __init__(self, executable: OpenCLExecutable, kernels: Sequence[tuple[Any, Launch]], memory: Mapping[str, Any]) -> None:
        self._executable, self._kernels, self._memory = executable, kernels, dict(memory)
        self._repeats = any(x.loops for _, x in kernels)
        self._uses: dict[str, list[tuple[Any, int]]] = {}
        for kernel, launch in () if self._repeats else kernels:
            for n, a in enumerate(launch.args):
                self._uses.setdefault(a, []).append((kernel, n))
                kernel.set_arg(n, memory[a])

    def move(self, name: str, buffer: Any) -> None:
        """Use another buffer for an argument."""
        self._memory[name] = buffer
        for kernel, n in self._uses.get(name, ()):
            kernel.set_arg(n, buffer)

    def enqueue(self, queue: Any) -> None:
        """Enqueue the kernels on an in-order queue."""
        if self._repeats:
            self._executable.enqueue(queue, self._memory)
            return
        cl = devices.pyopencl()
        try:
            for kernel, x in self._kernels:
                cl.enqueue_nd_range_kernel(queue, kernel, x.global_size, x.local_size)
        except cl.Error as e:
            raise self._executable.failure(e) from e


class Open:
    """Built kernels of one module whose sizes are not fixed."""

    def __init__(self, binary: Binary, device: Device) -> None:
        self.binary, self.device = binary, device
        self._program = _build(binary, session(device))

    def at(self, sizes: Mapping[str, int]) -> OpenCLExecutable:
        """The kernels for these sizes. Raises TargetError E505 if the device cannot hold the arrays."""
        spelled = size_names.spelled(self.binary.options, sizes)
        sizes = size_names.named(self.binary.options, sizes)

        def fixed(b: Buffer) -> Buffer:
            return replace(b, shape=tuple(formulas.at(n, sizes) for n in b.shape))
        launches = tuple(replace(x, global_size=tuple(max(0, extents.at(n, {**sizes, **spelled})) for n in x.global_size))
                         for x in self.binary.launches)
        m = replace(self.binary, args=tuple(map(fixed, self.binary.args)), scratch=tuple(map(fixed, self.binary.scratch)),
                    launches=launches)
        return OpenCLExecutable(m, self.device, spelled, self._program)

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """There are no sizes to run with."""
        raise AssertionError("opencl: sizes are not known")

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """See `run`."""
        return BoundRun(self.run, buffers)


def _build(binary: Binary, on: Session) -> Any:
    return programs.built(binary.name, binary.code.decode(), binary.options["build"].split(), on)


def check_limits(binary: Binary, device: Device) -> None:
    """Raises TargetError E505 for a module that the device cannot hold."""
    d = device.handle
    notes = []
    if binary.options.get("fp64") and not devices.has_double(device):
        notes.append("it computes with f64, which the device lacks")
    local = int(binary.options.get("local_bytes", "0"))
    if local > d.local_mem_size:
        notes.append(f"a work-group uses {local} bytes of local memory; the device has {d.local_mem_size}")
    for b in (*binary.args, *binary.scratch):
        size = b.size * b.dtype.bytes
        if size > d.max_mem_alloc_size:
            notes.append(f"'{b.name}' has {size} bytes; the device allocates at most {d.max_mem_alloc_size} at once")
    if notes:
        raise errors.fail("E505", f"'{binary.name}' does not fit {device}", kind=errors.TargetError, notes=notes)
    for launch in binary.launches:
        _check_group(launch, d.max_work_group_size, device)
        for axis, (size, limit) in enumerate(zip(launch.local_size, d.max_work_item_sizes, strict=False)):
            if size > limit:
                raise errors.fail("E505", f"'{launch.entry}' has {size} work-items on axis {axis}; {device} allows {limit}",
                                  kind=errors.TargetError)


def _check_group(launch: Launch, limit: int, device: Device) -> None:
    size = math.prod(launch.local_size)
    if size > limit:
        raise errors.fail("E505", f"'{launch.entry}' has work-groups of {size} work-items; {device} allows {limit}",
                          kind=errors.TargetError, notes=["a schedule with smaller thread loops fits"])
