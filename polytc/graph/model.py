"""Model: a compiled graph. Compiles for the shapes it meets, plans memory, and runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from polytc import errors
from polytc.errors import ArgumentError, fail
from polytc.graph.ir import Graph, Value, runner
from polytc.graph.plan import type_of
from polytc.graph.running.instance import Progress
from polytc.graph.storing import stored
from polytc.graph.storing.starts import Starts
from polytc.graph.storing.stored import Choices, Start
from polytc.native import forks
from polytc.options import KEPT, check_checked, check_kept, check_licence, check_threads, check_typical

if TYPE_CHECKING:
    from polytc.codegen.target import Target
    from polytc.graph.compiled import Compiled
    from polytc.graph.parts import PartitionedModel, Ready
    from polytc.graph.running.profiling import Profile
    from polytc.machine import Machine
    from polytc.runtime.lru_cache import LRUCache

errors.register(E610="inputs or outputs of a model's run", E611="shape of a model's input")


class Model:
    """A graph compiled for a target. Calling it follows ONNX Runtime: `run(output_names, feeds)`; `model(x)` and
    `model(name=x)` return the only output, or a list. Safe to call from several threads: runs take turns. `session()` gives
    models that run side by side.

    inputs, outputs: what the graph declares, with names, types and shapes.
    """

    def __init__(self, graph: Graph, choices: Choices) -> None:
        self.graph, self.target, self.threads = graph, choices.target, choices.threads
        self.inputs: tuple[Value, ...] = graph.inputs
        self.outputs: tuple[Value, ...] = graph.outputs
        self._choices = choices
        self._starts = Starts(graph, choices)
        self._lock = forks.Lock()

    @cached_property
    def _compiled(self) -> Compiled:
        """The graph with what this process compiles of it, from now on instead of what was found on disk."""
        from polytc.graph.compiled import Compiled  # the compiler is large, and models that are found on disk do without

        made = Compiled(self.graph, self._choices)
        for shapes in self._starts.shapes():
            made.prepare(shapes)
        self._starts = Starts(self.graph, self._choices)
        return made

    @property
    def _partitioned(self) -> PartitionedModel:
        return self._compiled.partitioned

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what another process reads, is made of the graph and options; its code comes from the cache."""
        return type(self), (self.graph, replace(self._choices, progress=None))

    def session(self) -> Model:
        """Another model of the same graph and options with memory of its own for intermediate values: each may run in a thread
        of its own at the same time. Compiled code and weights are shared."""
        other = Model.__new__(type(self))
        vars(other).update(vars(self))
        other._lock = forks.Lock()
        other._starts = self._starts.again()
        if not self._starts:
            vars(other)["_compiled"] = self._compiled.again()
        return other

    @property
    def _instances(self) -> LRUCache[object, Ready]:
        return self._partitioned.known

    # ---- compiling

    def prepare(self, shapes: Mapping[str, Sequence[int]], arrays: Mapping[str, np.ndarray] | None = None) -> Ready:
        """Compile for these shapes of all inputs, unless that was done before.

        arrays: the inputs themselves. The values of those that decide shapes (a Reshape's shape, say) are compiled in; without
        arrays such a model raises NeedsValue.
        """
        chosen = {v.name: tuple(int(d) for d in shapes[v.name]) for v in self.inputs if v.dtype is not None}
        with self._lock:
            self._check_dims(chosen)
            return self._compiled.prepare(chosen, arrays)

    def prepare_early(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Have code for these shapes of all inputs, as an earlier process made it or made now; or later, where values of inputs
        decide shapes."""
        chosen = {v.name: tuple(int(d) for d in shapes[v.name]) for v in self.inputs if v.dtype is not None}
        with self._lock:
            self._check_dims(chosen)
            if self._found(chosen) is None:
                self._compiled.prepare_early(chosen)

    def _found(self, shapes: Mapping[str, Sequence[int]]) -> Start | None:
        """What an earlier process compiled for these shapes of all inputs, as long as this one compiles nothing."""
        return self._starts.find(shapes) if "_compiled" not in vars(self) else None

    def _check_dims(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Given shapes agree with the declared ones; equal names mean equal extents."""
        names: dict[str, tuple[int, str]] = {}
        for v in self.inputs:
            shape = shapes.get(v.name)
            if shape is None:
                continue  # no tensor of a type that polytc has
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

    def check(self) -> None:
        """Raise TargetError E502 now, if there is no such target."""
        if not self._starts and not stored.may_start(self.graph, self._choices):
            self._compiled  # noqa: B018

    # ---- running

    def run(self, output_names: Iterable[str] | None, feeds: Mapping[str, Any]) -> list[np.ndarray]:
        """The named outputs (all for None) as fresh arrays. feeds: input name -> array of the declared type.

        Raises ArgumentError (E610, E611) for names, types and shapes that do not fit; IndexOutOfBounds E418 where the model is
        checked.
        """
        if output_names is None and type(feeds) is dict:
            with self._lock:
                found = (self._partitioned if "_compiled" in vars(self) else self._starts).try_fast_path(feeds)
            if found is not None:
                return found
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
        shapes = {n: a.shape for n, a in arrays.items() if type_of(a) is not None}
        with self._lock:
            self._check_dims(shapes)
            start = self._found(shapes) if len(shapes) == len(arrays) else None
            if start is not None and start.fits(arrays):
                return start.instance.run(arrays, wanted)
            return self._compiled.run(arrays, wanted)

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
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
            if feeds[v.name] is None and v.tensor:
                raise fail("E610", f"the input {v.name!r} is None, not an array", kind=ArgumentError,
                           notes=[f"the model declares {v}"])
            array = _as_array(v.name, feeds[v.name]) if v.tensor else feeds[v.name]
            if v.dtype is not None and array.dtype != v.dtype.numpy:
                raise fail("E610", f"the input {v.name!r} is {array.dtype}, the model expects {v.dtype.numpy}",
                           kind=ArgumentError, notes=[f"convert it: array.astype(np.{v.dtype.numpy})"])
            arrays[v.name] = array
        return arrays

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Inputs by position or name; the output itself if there is one, else a list."""
        if len(arrays) > len(self.inputs):
            raise fail("E610", f"{len(arrays)} inputs given, the model has {len(self.inputs)}", kind=ArgumentError)
        feeds = dict(zip((v.name for v in self.inputs), arrays))
        twice = [n for n in named if n in feeds]
        if twice:
            raise fail("E610", f"{', '.join(twice)} is given twice, by position and by name", kind=ArgumentError)
        feeds |= named
        results = self.run(None, feeds)
        return results[0] if len(results) == 1 else results

    # ---- looking

    @property
    def kernels(self) -> int:
        """How many programs the last specialisation consists of, all its parts together; 0 before the first."""
        known = self._instances.items()
        return sum(len(r.plan.calls) for r in known[-1][1].chain()) if known else 0

    @property
    def arena(self) -> int:
        """Bytes of memory for intermediate values of the last specialisation, all its parts together; 0 before the first."""
        known = self._instances.items()
        made = [r.instance for r in known[-1][1].chain()] if known else []
        return sum(i.arena.bytes for i in made if i is not None)

    def fallbacks(self) -> list[str]:
        """The nodes that onnx's evaluator or ONNX Runtime runs in what was compiled so far, each with the reason."""
        hosts = (h for _, ready in self._partitioned.parts() for h in ready.part.hosts)
        return list(dict.fromkeys(f"{h.label}: {h.why}" for h in hosts if h.why))

    def report(self) -> str:
        """What was compiled: for each set of shapes the number of kernels, and the memory for intermediate values; what runs
        between the parts of a model whose data decide shapes; and every node left to others, with the reason."""
        lines = [f"model {self.graph.name} for {self.target if isinstance(self.target, str) else self.target.name}"]
        kernels = self._compiled.kernels
        for depth, ready in self._partitioned.parts():
            lines += ["  " * (depth + 1) + line for line in _described(ready)]
        if kernels is not None:
            lines.append(f"  {kernels.kernels} kernels for all sizes")
            lines += [f"  {label} is compiled for each set of sizes: {why}" for label, why in kernels.fixed.items()]
        return "\n".join([*lines, *(f"  {runner(each)} runs the {each}" for each in self.fallbacks())])

    def profile(self, feeds: Mapping[str, Any], runs: int = 10) -> Profile:
        """Time each kernel of some runs on these inputs. Print the result, or `save` it as a trace for Chrome and Perfetto.

        Raises ArgumentError as `run` does.
        """
        arrays = self._checked(feeds)
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
            raise fail("E610", f"runs is {runs!r}, not a number from 1 on", kind=ArgumentError)
        with self._lock:
            return self._compiled.profile(arrays, runs)

    def __str__(self) -> str:
        return self.report()


def _as_array(name: str, value: Any) -> np.ndarray:
    """Any array as numpy's: tensors of other libraries by DLPack, on the same memory. Raises ArgumentError E610 for what is no
    array."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        # Not those on another device, or of a type that numpy does not have.
        with suppress(BufferError, TypeError, ValueError, RuntimeError):
            return np.from_dlpack(value)
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise fail("E610", f"the input {name!r} is no array: {error}", kind=ArgumentError) from error


def _sizes(graph: Graph) -> tuple[str, ...]:
    """The names in the shapes of the inputs, in order of appearance."""
    return tuple(dict.fromkeys(d for v in graph.inputs for d in v.shape or () if isinstance(d, str)))


def _described(ready: Ready) -> list[str]:
    """What `report` says about one part."""
    plan, made = ready.plan, ready.instance
    inputs = ", ".join(f"{n}: {plan.outside(n)}" for n in plan.inputs)
    weights = sum(a.nbytes for a in plan.constants.values())
    arena = made.arena.bytes if made is not None else 0
    lines = [f"{inputs}: {len(plan.calls)} programs, arena {arena / 1e6:.2f} MB, constants {weights / 1e6:.2f} MB"]
    steps = [h.label + (f" ({runner(h.op)})" if h.why else "") for h in ready.part.hosts]
    lines += [f"in {plan.rounds} rounds, each for the next part of the batch"] * (plan.rounds > 1)
    return lines + [f"then {', '.join(steps)}"] * bool(steps)


def compile_graph(graph: Graph, target: str | Target = "cpu", threads: int | None = None,
                  shapes: Mapping[str, Sequence[int]] | Sequence[Mapping[str, Sequence[int]]] | None = None,
                  fusion: bool = True, progress: Progress | None = None, algebra: str | None = None, strict: bool = False,
                  layouts: bool = True, symbolic: bool = False, typical: Mapping[str, int] | None = None,
                  fast: bool = False, checked: bool | None = None, machine: str | os.PathLike[str] | Machine | None = None,
                  kept: int = KEPT) -> Model:
    """A Model for `graph`.

    target: 'cpu', 'opencl', 'c', 'interp', 'evaluate' (the slow reference), or a Target (see polytc.compile).
    threads: None for all.
    shapes: input -> concrete shape, for inputs whose declared shape has names in it; where all shapes are then known the
    model is compiled at once, otherwise at the first run (and again for each new set of shapes). A list of them: for each.
    symbolic: kernels are made for all sizes, so that a run with new ones compiles nothing (see docs/onnx.md). typical: sizes by
    name for which these should be fast, else those of the first run; where it names all, the model is compiled at once.
    fusion: False gives one kernel for each operator, to find out which one is wrong. algebra: 'direct' forbids algorithms with
    fewer products and larger rounding errors; fast=True lets float operations be reordered (see polytc.compile). strict:
    refuse, with E605 or E608, whatever onnx's evaluator would have to run. layouts: False stores inner values as the model
    says, with channels first, too. checked: indices that leave the axis they are for raise IndexOutOfBounds, an IndexError that
    names node, input and element, when the run is over; None is what POLYTC_CHECK_INDICES says (see docs/onnx.md).
    machine: what kernels are made for, as in polytc.compile. kept: how many sets of shapes, and of values that decide shapes,
    the model keeps code and memory for; of more, those not met for the longest time are made again.
    """
    if machine is not None:
        from polytc.arguments import check_machine  # the compiler is large, as above

        target = check_machine(target, machine)
    choices = Choices(target, check_threads(threads), fusion, check_licence(algebra, fast), strict, layouts, symbolic,
                      check_typical(typical or {}, _sizes(graph)), check_checked(checked), progress, check_kept(kept))
    model = Model(graph, choices)
    sets = shapes if isinstance(shapes, list | tuple) and shapes else [shapes]
    for each in sets:
        if not isinstance(each, Mapping | None):
            raise fail("E611", f"shapes is {shapes!r}, not a dict of input names and shapes", kind=ArgumentError,
                       notes=["or a list of such dicts"])
        _prepare(model, dict(each or {}), dict(typical or {}) if symbolic else {})
    model.check()
    return model


def _prepare(model: Model, given: dict[str, Sequence[int]], typical: Mapping[str, int]) -> None:
    """Compile for the given shapes and what the graph declares, with typical sizes for its names, if that tells all shapes."""
    graph = model.graph
    names = [v.name for v in graph.inputs]
    for name in given:
        if name not in names:
            raise fail("E610", f"there is no input {name!r}", kind=ArgumentError, notes=[f"the inputs are {', '.join(names)}"])
        shape = given[name]
        if isinstance(shape, str) or not isinstance(shape, Sequence) or not all(
                isinstance(d, int | np.integer) and not isinstance(d, bool) and d >= 0 for d in shape):
            raise fail("E611", f"the shape of the input {name!r} is {shape!r}, not a tuple of integers from 0 on",
                       kind=ArgumentError, notes=["for a vector of 8: (8,)"])
    known = {v.name: tuple(given[v.name]) if v.name in given else _static(v, typical) if v.dtype is not None else ()
             for v in graph.inputs}
    if all(s is not None for s in known.values()):
        model.prepare_early({n: s for n, s in known.items() if s is not None})


def _static(v: Value, typical: Mapping[str, int]) -> tuple[int, ...] | None:
    """The shape of an input, with typical sizes for its names; None where an extent remains unknown."""
    shape = tuple(typical.get(d, d) if isinstance(d, str) else d for d in v.shape) if v.shape is not None else None
    return replace(v, shape=shape).static_shape
