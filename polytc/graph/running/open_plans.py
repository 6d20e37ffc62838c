"""Plans for all sizes that meet some conditions, made once; for given sizes their formulas are evaluated, and code is bound.

    x: f32[n, 64], n of 16       ->  plan  y: f32[n, 64] = Relu(x), with the guards  64*n <= memory, ...
    a run with n of 30           ->  y: f32[30, 64], the same code, with 30 for its size

A graph is walked once with traced sizes (program/traced.py), which makes formulas of all extents and notes what was decided by
them. Other sizes that meet these guards have the same calls, so that nothing is looked at again: neither texts nor programs nor
what is fused. Sizes that do not meet them are traced in their turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from polytc.codegen.target import Resizable
from polytc.errors import ModelError, fail
from polytc.graph.plan import Array, Call, Plan
from polytc.graph.planning import memory
from polytc.graph.running import instance
from polytc.graph.running.instance import Instance, Link
from polytc.graph.running.open_kernels import LARGEST, OpenKernels
from polytc.graph.running.rebinding import Opening, Rebinding, Temporaries, shared
from polytc.options import Licence
from polytc.program.program import Program
from polytc.program.scalars import DType
from polytc.program.traces.traced import Trace
from polytc.program.traces.values import Formulas, Guards, any_traced, at, sizes_in
from polytc.runtime import packages
from polytc.runtime.sized import Sized, workspace

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Step:
    """The code of a call. program: of traced sizes; code: None where it is made for each set of sizes; sizes: of the kernel, as
    formulas, None where it has none; workspace: type and elements of the temporaries that it wants of its caller. resizable:
    does it make itself code for given sizes?"""

    program: Program
    code: Any  # a Bindable, or, with sizes, an Executable of the kernel
    sizes: dict[str, int] | None = None
    workspace: tuple[tuple[np.dtype, int], ...] = ()
    resizable: bool = False


class Types(Mapping[str, Array]):
    """The types of a plan's values for given sizes, made when somebody asks for them. places: of each value, its type and
    where its extents are among `numbers`."""

    def __init__(self, places: Mapping[str, tuple[DType, int, int]], numbers: Sequence[int]) -> None:
        self._places, self._numbers = places, numbers

    def __getitem__(self, name: str) -> Array:
        dtype, start, end = self._places[name]
        return Array(dtype, tuple(self._numbers[start:end]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def bytes(self, name: str) -> int:
        """Of a value."""
        dtype, start, end = self._places[name]
        return math.prod(self._numbers[start:end]) * dtype.bytes


def layout(types: Mapping[str, Array]) -> tuple[dict[str, tuple[DType, int, int]], int]:
    """Where the extents of values are if they stand one behind another, and how many there are."""
    found, end = {}, 0
    for name, t in types.items():
        found[name] = t.dtype, end, end + len(t.shape)
        end += len(t.shape)
    return found, end


class Calls(Sequence[Call]):
    """The calls of a plan for given sizes. Their programs are made when somebody asks for them."""

    def __init__(self, calls: Sequence[Call], sizes: Sizes) -> None:
        self._calls, self._sizes = calls, sizes

    def __len__(self) -> int:
        return len(self._calls)

    def __getitem__(self, k: Any) -> Any:
        found = self._calls[k]
        return Calls(found, self._sizes) if isinstance(k, slice) else replace(found, program=at(found.program, self._sizes))

    def __iter__(self) -> Iterator[Call]:
        return (self[k] for k in range(len(self)))


class OpenPlan:
    """A plan of traced sizes with its code. trace: of these sizes; kernels: makes what has no code for all sizes."""

    def __init__(self, plan: Plan, steps: Sequence[Step], trace: Trace, kernels: OpenKernels) -> None:
        self.plan, self.steps, self.trace, self.kernels = plan, tuple(steps), trace, kernels
        named = dict.fromkeys((*plan.inputs, *plan.lasting, *(n for c in plan.calls for n in (*c.inputs, *c.outputs)),
                               *(g.value for c in plan.calls for g in c.guards)))
        named |= dict.fromkeys(plan.base(n) for n in tuple(named))
        types = {n: plan.types[n] for n in named}
        self._links = [Link(c.inputs, c.outputs, c.guards) for c in plan.calls]
        self._lives = instance.lifetimes(plan, lambda t: 0)
        self._layout, self._extents = layout(types)
        numbers = [*(d for t in types.values() for d in t.shape), *(n for s in steps for n in (s.sizes or {}).values()),
                   *(n for s in steps for _, n in s.workspace)]
        self._constants = {n: a for n, a in plan.constants.items() if a.dtype == object}
        numbers += [n for a in self._constants.values() for n in a.reshape(-1)]
        found = sizes_in((tuple(numbers), tuple(s.program for s in steps)))
        self._used = tuple(n for n in trace.sizes if n in found)
        self._guards = Guards(tuple(trace.sizes), trace.conditions)
        self._formulas = Formulas(self._used, numbers)

    def fits(self, sizes: Sizes) -> bool:
        """Is it the plan for these sizes?"""
        return self._guards.met(sizes)

    def used(self, sizes: Sizes) -> tuple[tuple[str, int], ...]:
        """The sizes that extents and programs follow from: where these are equal, code and memory are the same."""
        return tuple((n, sizes[n]) for n in self._used)

    def instance(self, used: Iterable[tuple[str, int]], known: Rebinding | None = None) -> Instance:
        """Code and memory for these sizes; known: shares both. Raises ModelError E612 if they do not fit this machine."""
        sizes = dict(used)
        numbers = self._formulas.values(sizes)
        types, rest = Types(self._layout, numbers), iter(numbers[self._extents:])
        arena = memory.plan(memory.Life(v.name, types.bytes(v.name), v.first, v.last) for v in self._lives)
        if arena.bytes > memory.LARGEST:
            raise fail("E612", f"the intermediate values of {self.plan.name} need {arena.bytes / 1e9:,.1f} GB", kind=ModelError,
                       notes=[f"this machine has {memory.LARGEST / 1e9:,.1f} GB; give the model smaller shapes"])
        values = [tuple(next(rest) for _ in s.sizes or ()) for s in self.steps]
        temporaries = [[(dtype, next(rest)) for dtype, _ in s.workspace] for s in self.steps]
        constants = {n: np.array([next(rest) for _ in range(a.size)], self.plan.types[n].dtype.numpy).reshape(a.shape)
                     for n, a in self._constants.items()}
        calls = cast("tuple[Call, ...]", Calls(self.plan.calls, sizes))
        plan = replace(self.plan, calls=calls, types=types, constants={**self.plan.constants, **constants})
        if known is not None:
            opened = [t for t, s in zip(temporaries, self.steps, strict=True) if s.sizes is not None]
            return known.instance(plan, arena, [n for each in values for n in each], opened)
        codes = [self._code(*row, sizes) for row in zip(self.steps, values, temporaries, strict=True)]
        return instance.bind(plan, self._links, codes, arena)

    def rebinding(self, made: Instance) -> Rebinding | None:
        """What makes further instances of one; None where each has code of its own."""
        if not shared(made.chain) or any(s.code is None or s.resizable for s in self.steps):
            return None
        openings = [Opening(None if s.sizes is None else len(s.sizes), len(s.workspace)) for s in self.steps]
        return Rebinding(made, openings, self._constants.keys())

    def _code(self, step: Step, given: Sequence[int], temporaries: Temporaries, sizes: Sizes) -> Any:
        """The code of a step for given sizes."""
        if step.code is None:
            return self.kernels.settled(at(step.program, sizes)).result()
        if step.sizes is None:
            return step.code
        if step.resizable:
            return step.code.at(dict(zip(step.sizes, given, strict=True)))
        return Sized(step.code, np.array(given, np.int64), temporaries)


def compiled(plan: Plan, trace: Trace, kernels: OpenKernels, licence: Licence, points: Sequence[Sizes],
             tell: Callable[[int], None]) -> OpenPlan:
    """A plan of traced sizes with its code. points: sizes that meet its guards, see OpenKernels.traced."""
    found: list[tuple[Program, Future[Any] | None, dict[str, int] | None]] = []
    for k, program in enumerate(instance.compiled_programs(plan, licence)):
        tell(k)
        if not any_traced(program):
            found.append((program, kernels.settled(program), None))
            continue
        small = all(t.size <= LARGEST for t in program.tensors)
        made = kernels.traced(program, points, trace) if small else None
        if made is None:
            kernels.leave(program, alone=not points)
        found.append((program, None, None) if made is None else (program, *made))
    steps = []
    for program, code, sizes in found:
        ready: Any = code.result() if code is not None else None
        resizable = sizes is not None and isinstance(ready, Resizable)
        wanted = () if sizes is None or resizable else workspace(packages.binary(ready).options, sizes)
        steps.append(Step(program, ready, sizes, wanted, resizable))
    return OpenPlan(plan, steps, trace, kernels)
