"""Model: a compiled graph. Compiles for the shapes it meets, plans memory, and runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from polytc import errors, processors
from polytc.errors import ArgumentError, fail
from polytc.graph import instance, profiling
from polytc.graph.binding import NeedsValue
from polytc.graph.executables import Compile, compiler_for
from polytc.graph.instance import Instance, Progress
from polytc.graph.ir import Graph, Value, sources
from polytc.graph.partition import fuse
from polytc.graph.plan import Plan
from polytc.graph.profiling import Profile
from polytc.graph.specialise import specialise
from polytc.op import check_algebra, check_threads
from polytc.runtime import forks
from polytc.runtime.recent import Recent
from polytc.runtime.threads import default_threads

errors.register(E610="inputs or outputs of a model's run", E611="shape of a model's input")

INSTANCES = 16
"""Sets of input shapes that a model keeps code and memory for; of more, the least recently used are made again."""

LARGEST_FIXED = 4096
"""Elements: a larger input is never compiled in as a value."""


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
        self._instances: Recent[object, Instance] = Recent(INSTANCES)
        self._by_value: set[str] = set()
        self._lock = forks.Lock()

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
                known = self._instances.get(key)
                if known is not None:
                    return known
                self._check_dims(chosen)
                try:
                    plan = specialise(self.graph, chosen, {n: a.copy() for n, a in fixed.items()})
                    return self._instances.put(key, self._build(plan))
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
        return instance.build(plan, self._compile, self._direct, self._progress)

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
            return self.prepare({n: a.shape for n, a in arrays.items()}, arrays).run(arrays, wanted)

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
        known = self._instances.items()
        return len(known[-1][1].plan.calls) if known else 0

    def report(self) -> str:
        """What was compiled: for each set of shapes the number of kernels, and the memory for intermediate values."""
        lines = [f"model {self.graph.name} for {self.target}"]
        for _, made in self._instances.items():
            plan = made.plan
            weights = sum(a.nbytes for a in plan.constants.values())
            lines.append(f"  {', '.join(f'{n}: {plan.types[n]}' for n in plan.inputs)}: {len(plan.calls)} programs, "
                         f"arena {made.arena.bytes / 1e6:.2f} MB, constants {weights / 1e6:.2f} MB")
        return "\n".join(lines)

    def profile(self, feeds: Mapping[str, Any], runs: int = 10) -> Profile:
        """Time each kernel of some runs on these inputs. Print the result, or `save` it as a trace for Chrome and Perfetto.

        Raises ArgumentError as `run` does.
        """
        arrays = self._checked(feeds)
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
            raise fail("E610", f"runs is {runs!r}, not a number from 1 on", kind=ArgumentError)
        with self._lock:
            made = self.prepare({n: a.shape for n, a in arrays.items()}, arrays)
            return profiling.profile(made, arrays, check_threads(self.threads) or default_threads(processors.usable()), runs,
                                     roofs=self.target == "cpu")

    def __str__(self) -> str:
        return self.report()


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
