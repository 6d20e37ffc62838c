"""Model: a compiled graph. Compiles for the shapes it meets, plans memory, and runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polytc import errors
from polytc.errors import ArgumentError, ModelError, fail
from polytc.graph import memory
from polytc.graph.binding import NeedsValue
from polytc.graph.executables import Compile, compiler_for
from polytc.graph.ir import Graph, Value, sources
from polytc.graph.partition import fuse
from polytc.graph.plan import Array, Plan
from polytc.graph.specialise import specialise
from polytc.op import check_algebra, check_threads

errors.register(E610="inputs or outputs of a model's run", E611="shape of a model's input")

LARGEST_FIXED = 4096
"""Elements: a larger input is never compiled in as a value."""

Progress = Callable[[int, int, str], None]
"""Called with (kernels compiled so far, all kernels, name of the next)."""


@dataclass
class Instance:
    """A model for one set of input shapes. inputs, outputs: buffers at fixed addresses; steps: bound code, in order."""

    plan: Plan
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    steps: list[Callable[[], None]]
    arena: memory.Arena
    keep: list[Any] = field(default_factory=list)


class Model:
    """A graph compiled for a target. Calling it follows ONNX Runtime: `run(output_names, feeds)`; `model(x)` and
    `model(name=x)` return the only output, or a list. Safe to call from several threads: runs take turns.

    inputs, outputs: what the graph declares, with names, types and shapes.
    """

    def __init__(self, graph: Graph, target: str = "cpu", threads: int | None = None, *, fusion: bool = True,
                 progress: Progress | None = None, algebra: str | None = None) -> None:
        self.graph, self.target, self.threads = graph, target, threads
        self.inputs: tuple[Value, ...] = graph.inputs
        self.outputs: tuple[Value, ...] = graph.outputs
        self._fusion, self._progress, self._direct = fusion, progress, check_algebra(algebra) == "direct"
        self._compile: Compile = compiler_for(target, threads)
        self._instances: dict[object, Instance] = {}
        self._by_value: set[str] = set()
        self._lock = threading.RLock()

    # ---- compiling

    def prepare(self, shapes: Mapping[str, Sequence[int]], arrays: Mapping[str, np.ndarray] | None = None) -> Instance:
        """Compile for these shapes of all inputs, unless that was done before.

        arrays: the inputs themselves. The values of those that decide shapes (a Reshape's shape, say) are compiled in; without
        arrays such a model raises NeedsValue.
        """
        chosen = {v.name: tuple(int(d) for d in shapes[v.name]) for v in self.inputs}
        with self._lock:
            while True:
                fixed = {n: arrays[n] for n in sorted(self._by_value)} if arrays is not None else {}
                key = (tuple(chosen.values()), tuple(a.tobytes() for a in fixed.values()))
                if key in self._instances:
                    return self._instances[key]
                self._check_dims(chosen)
                try:
                    self._instances[key] = self._build(specialise(self.graph, chosen, {n: a.copy() for n, a in fixed.items()}))
                except NeedsValue as need:
                    more = sources(self.graph, need.name)
                    if arrays is None or more <= self._by_value or any(arrays[n].size > LARGEST_FIXED for n in more):
                        raise
                    self._by_value |= more

    def _check_dims(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Given shapes agree with the declared ones; equal names mean equal extents."""
        names: dict[str, tuple[int, str]] = {}
        for v in self.inputs:
            shape = shapes[v.name]
            fits = v.shape is None or len(v.shape) == len(shape)
            for declared, extent in zip(v.shape or (), shape):
                if isinstance(declared, str):
                    known, other = names.setdefault(declared, (extent, v.name))
                    if known != extent:
                        raise fail("E611", f"{declared!r} is {known} in {other!r} and {extent} in {v.name!r}",
                                   kind=ArgumentError)
                fits = fits and (not isinstance(declared, int) or declared == extent)
            if not fits:
                raise fail("E611", f"the input {v.name!r} has the shape {list(shape)}", kind=ArgumentError,
                           notes=[f"the model declares {v}"])

    def _build(self, plan: Plan) -> Instance:
        plan = fuse(plan) if self._fusion else plan
        arena = memory.plan(lifetimes(plan))
        if arena.bytes > memory.LARGEST:
            raise fail("E612", f"the intermediate values of {plan.name} need {arena.bytes / 1e9:,.1f} GB", kind=ModelError,
                       notes=[f"this machine has {memory.LARGEST / 1e9:,.1f} GB; give the model smaller shapes"])
        store = aligned_bytes(arena.bytes)
        buffers = {n: aligned_array(plan.types[n]) for n in plan.inputs}
        for name in (plan.base(n) for n in plan.outputs):
            if name not in buffers and name not in plan.constants:
                buffers[name] = aligned_array(plan.types[name])
        buffers |= {n: aligned_copy(a) for n, a in plan.constants.items()}
        for name, offset in arena.offsets.items():
            t = plan.types[name]
            buffers[name] = store[offset:offset + t.bytes].view(t.dtype.numpy).reshape(t.shape)

        def buffer(name: str) -> np.ndarray:
            return buffers[plan.base(name)].reshape(plan.types[name].shape)

        started = []
        for k, call in enumerate(plan.calls):
            if self._progress:
                self._progress(k, len(plan.calls), call.label)
            fixed = tuple(own for own, value in zip(call.program.inputs, call.inputs) if plan.base(value) in plan.constants)
            started.append(self._compile(replace(call.program, constants=fixed, direct=self._direct)))
        steps = [code.result().bind([buffer(n) for n in (*call.inputs, *call.outputs)])
                 for code, call in zip(started, plan.calls)]
        if self._progress:
            self._progress(len(plan.calls), len(plan.calls), "")
        return Instance(plan, {n: buffers[n] for n in plan.inputs}, {n: buffer(n) for n in plan.outputs}, steps, arena,
                        [store, buffers])

    # ---- running

    def run(self, output_names: Iterable[str] | None, feeds: Mapping[str, Any]) -> list[np.ndarray]:
        """The named outputs (all for None) as fresh arrays. feeds: input name -> array of the declared type.

        Raises ArgumentError (E610, E611) for names, types and shapes that do not fit.
        """
        arrays = self._checked(feeds)
        known = [v.name for v in self.outputs]
        if isinstance(output_names, str) or not isinstance(output_names, Iterable | None):
            raise fail("E610", f"output_names is {output_names!r}, not a list of names", kind=ArgumentError,
                       notes=[f"the outputs are {', '.join(known)}; None asks for all"])
        wanted = known if output_names is None else list(output_names)
        for name in wanted:
            if name not in known:
                raise fail("E610", f"there is no output {name!r}", kind=ArgumentError,
                           notes=[f"the outputs are {', '.join(v.name for v in self.outputs)}"])
        with self._lock:
            instance = self.prepare({n: a.shape for n, a in arrays.items()}, arrays)
            for name, array in arrays.items():
                np.copyto(instance.inputs[name], array)
            for step in instance.steps:
                step()
            return [instance.outputs[n].copy() for n in wanted]

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        names = [v.name for v in self.inputs]
        if not isinstance(feeds, Mapping):
            raise fail("E610", f"feeds is {type(feeds).__name__}, not a dict of input names and arrays", kind=ArgumentError,
                       notes=[f"the model has the inputs {', '.join(map(str, self.inputs))}"])
        missing, unknown = [n for n in names if n not in feeds], [n for n in feeds if n not in names]
        if missing or unknown:
            problems = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(unknown)}"] * bool(unknown)
            raise fail("E610", f"the inputs do not fit ({'; '.join(problems)})", kind=ArgumentError,
                       notes=[f"the model has the inputs {', '.join(map(str, self.inputs))}"])
        arrays = {}
        for v in self.inputs:
            array = np.asarray(feeds[v.name])
            if v.dtype is not None and array.dtype != v.dtype.numpy:
                raise fail("E610", f"the input {v.name!r} is {array.dtype}, the model expects {v.dtype.numpy}",
                           kind=ArgumentError, notes=[f"convert it: array.astype(np.{v.dtype.numpy})"])
            arrays[v.name] = array
        return arrays

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Inputs by position or name; the output itself if there is one, else a list."""
        if len(arrays) > len(self.inputs):
            raise fail("E610", f"{len(arrays)} inputs given, the model has {len(self.inputs)}", kind=ArgumentError)
        feeds = dict(zip((v.name for v in self.inputs), arrays)) | named
        results = self.run(None, feeds)
        return results[0] if len(results) == 1 else results

    # ---- looking

    @property
    def kernels(self) -> int:
        """How many programs the last specialisation consists of; 0 before the first."""
        return len(next(reversed(self._instances.values())).plan.calls) if self._instances else 0

    def report(self) -> str:
        """What was compiled: for each set of shapes the number of kernels, and the memory for intermediate values."""
        lines = [f"model {self.graph.name} for {self.target}"]
        for instance in self._instances.values():
            plan = instance.plan
            weights = sum(a.nbytes for a in plan.constants.values())
            lines.append(f"  {', '.join(f'{n}: {plan.types[n]}' for n in plan.inputs)}: {len(plan.calls)} programs, "
                         f"arena {instance.arena.bytes / 1e6:.2f} MB, constants {weights / 1e6:.2f} MB")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report()


def lifetimes(plan: Plan) -> list[memory.Life]:
    """Of each value that lies in the arena: neither input, constant nor the base of an output."""
    outside = {*plan.inputs, *plan.constants, *(plan.base(n) for n in plan.outputs)}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for k, call in enumerate(plan.calls):
        for name in (*call.inputs, *call.outputs):
            base = plan.base(name)
            first.setdefault(base, k)
            last[base] = k
    return [memory.Life(n, plan.types[n].bytes, k, last[n]) for n, k in first.items() if n not in outside]


def aligned_bytes(size: int) -> np.ndarray:
    """Zeroed memory whose address is a multiple of memory.ALIGNMENT."""
    raw = np.zeros(size + memory.ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % memory.ALIGNMENT
    return raw[start:start + size]


def aligned_array(t: Array) -> np.ndarray:
    return aligned_bytes(t.bytes).view(t.dtype.numpy).reshape(t.shape)


def aligned_copy(a: np.ndarray) -> np.ndarray:
    """`a` itself if it is aligned and contiguous already."""
    if a.flags.c_contiguous and a.ctypes.data % memory.ALIGNMENT == 0 and a.dtype.isnative:
        return a
    new = aligned_bytes(a.nbytes).view(a.dtype.newbyteorder("=")).reshape(a.shape)
    np.copyto(new, a)
    return new


def compile_graph(graph: Graph, target: str = "cpu", threads: int | None = None,
                  shapes: Mapping[str, Sequence[int]] | None = None, fusion: bool = True,
                  progress: Progress | None = None, algebra: str | None = None) -> Model:
    """A Model for `graph`.

    target: 'cpu', 'opencl', 'interp', or 'evaluate' (the slow reference). threads: None for all.
    shapes: input -> concrete shape, for inputs whose declared shape has names in it; where all shapes are then known the
    model is compiled at once, otherwise at the first run (and again for each new set of shapes).
    fusion: False gives one kernel for each operator, to find out which one is wrong. algebra: 'direct' forbids algorithms with
    fewer products and larger rounding errors (see polytc.compile).
    """
    model = Model(graph, target, threads, fusion=fusion, progress=progress, algebra=algebra)
    threads = check_threads(threads)
    if not isinstance(shapes, Mapping | None):
        raise fail("E611", f"shapes is {shapes!r}, not a dict of input names and shapes", kind=ArgumentError)
    given = dict(shapes or {})
    names = [v.name for v in graph.inputs]
    for name in given:
        if name not in names:
            raise fail("E610", f"there is no input {name!r}", kind=ArgumentError, notes=[f"the inputs are {', '.join(names)}"])
        shape = given[name]
        if isinstance(shape, str) or not isinstance(shape, Sequence) or not all(
                isinstance(d, int | np.integer) and not isinstance(d, bool) and d >= 0 for d in shape):
            raise fail("E611", f"the shape of the input {name!r} is {shape!r}, not a tuple of integers from 0 on",
                       kind=ArgumentError, notes=["for a vector of 8: (8,)"])
    known = {v.name: tuple(given[v.name]) if v.name in given else v.static_shape for v in graph.inputs}
    if all(s is not None for s in known.values()):
        with contextlib.suppress(NeedsValue):
            model.prepare({n: s for n, s in known.items() if s is not None})
    return model
