"""A chain of kernels for C of the plans of a library: where the arrays of each call lie, and what follows from open sizes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polytc.codegen import weight_file
from polytc.errors import ModelError, fail
from polytc.graph.library import assembly
from polytc.graph.library.plans import Coded, Found, Sizes, points
from polytc.graph.plan import Array, Call, Plan
from polytc.graph.plan import Guard as Taken
from polytc.graph.planning import branch_guards, memory
from polytc.graph.running.instance import lifetimes
from polytc.machine import ALIGNMENT
from polytc.program.scalars import DTYPES, I64, DType
from polytc.program.traces.formulas import Guard, Range, Terms, add, always, constant, magnitude
from polytc.program.traces.traced import terms_of
from polytc.program.traces.values import Guards, at
from polytc.targets.llvm.standalone.chain import (
    ARENA,
    NUMBERS,
    OWN,
    SCRATCH,
    WEIGHTS,
    Copy,
    OpenSize,
    Place,
    Skip,
    Step,
    Variant,
    Word,
)


class WeightStore:
    """The arrays that all variants of a library keep in its file of weights; equal ones once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._size = weight_file.BYTES
        self._known: dict[bytes, Place] = {}
        self._made: dict[tuple[int, ...], tuple[list[np.ndarray], list[Place]]] = {}

    def made(self, plan: Plan, kernel: assembly.Kernel, values: Sequence[str]) -> list[Place]:
        """Where that lies what a kernel makes of the constants among a call's values, which variants share: it is made once."""
        given = [plan.constants[plan.base(v)] for v in assembly.prologue_values(kernel.lowered, values)]
        key = kernel.number, *map(id, given)
        if key not in self._made:
            self._made[key] = given, [self.place(a) for a in assembly.made(plan, kernel.lowered, values)]
        return self._made[key][1]

    def place(self, array: np.ndarray) -> Place:
        """Where an array lies."""
        key = hashlib.blake2b(np.ascontiguousarray(array).tobytes()).digest()
        if key not in self._known:
            self._known[key] = Place(WEIGHTS, self._size)
            self.arrays.append(array)
            self._size += _rounded(array.nbytes)
        return self._known[key]


def fitting(plans: Sequence[Found], level: int, weights: WeightStore, sizes: Sequence[OpenSize]
            ) -> list[tuple[VariantMaker, Variant]]:
    """The variants of plans that serve, one or the other, all sets of sizes that are looked at. level: number of the kind of
    processor that they are for. Memory is for the largest sizes, and for those whose values turn out to need more."""
    largest: list[list[Sizes]] = [[{s.name: s.largest for s in sizes}] for _ in plans]
    made: dict[int, tuple[VariantMaker, Variant]] = {}
    names, ranges = [s.name for s in sizes], {s.name: (s.least, s.largest) for s in sizes}
    able = [Guards(names, plan.guards) for plan in plans]
    while len(made) < len(plans):
        for n in sorted(set(range(len(plans))) - made.keys()):
            maker = VariantMaker(plans[n], level, weights, ranges, largest[n])
            made[n] = maker, maker.run()
        serve = [Guards(names, made[k][1].guards) for k in range(len(plans))]
        for point in points(sizes) if sizes else ():
            if not any(guards.met(point) for guards in serve):
                k = next((k for k, guards in enumerate(able) if guards.met(point)), None)
                if k is not None:  # its memory is too small; what no plan is for is refused
                    largest[k].append(point)
                    made.pop(k, None)
    return [made[k] for k in range(len(plans))]


class VariantMaker:
    """State of one walk over the calls of a plan. level: number of the kind of processor that it is for; ranges: of the sizes;
    largest: sets of sizes that memory is for. Afterwards: arena, scratch and numbers, the bytes that it needs."""

    def __init__(self, found: Found, level: int, weights: WeightStore, ranges: Mapping[str, Range],
                 largest: Sequence[Sizes]) -> None:
        self.found, self.plan, self.level, self.weights = found, found.plan, level, weights
        self.ranges, self.largest = ranges, largest
        self.limits: dict[Terms, int] = {}
        self.words: dict[tuple[tuple[Terms, str], ...], Place] = {}
        self.numbers = self.scratch = 0
        self.stored: dict[str, Place] = {}
        self.memory = memory.plan(lifetimes(self.plan, self.bytes))
        self.arena = self.memory.bytes
        self.outputs = {base: self.output(j) for base, j in assembly.own_outputs(self.plan).items()}

    def run(self) -> Variant:
        """The variant of the chain."""
        steps = list[Step | Skip]()
        for k, length in branch_guards.guard_jumps([c.guards for c in self.plan.calls]):
            if isinstance(k, Taken):
                steps.append(Skip(self.place(k.value), k.taken, length))
                continue
            step = self.step(self.plan.calls[k], self.found.codes[k])
            self.scratch = max(self.scratch, step.arena)
            steps.append(step)
        types = [self.plan.types[n] for n in (*self.plan.inputs, *self.plan.outputs)]
        copies = tuple(Copy(self.place(value), self.output(j), size)
                       for j, value in assembly.late_outputs(self.plan) if (size := self.terms(_bytes(self.plan.types[value]))))
        extents = tuple(tuple(map(self.terms, t.shape)) for t in types)
        words = tuple(Word(place.offset + k * DTYPES[dtype].bytes, value, dtype)
                      for row, place in self.words.items() for k, (value, dtype) in enumerate(row))
        guards = tuple(g for g in (*self.found.guards, *self._limits()) if not always(g, self.ranges))
        self._small((*(terms for terms, _ in guards), *(w.value for w in words), *(c.bytes for c in copies),
                     *(n for shape in extents for n in shape)))
        return Variant(self.level, tuple(steps), copies, extents, guards, words)

    # ---- formulas

    def terms(self, n: Any) -> Terms:
        """The formula of a number."""
        trace = self.found.trace
        found = constant(int(n)) if trace is None else terms_of(n, trace)
        assert found is not None, f"{n} belongs to another trace"
        return found

    def bytes(self, t: Array) -> int:
        """What is reserved for a value."""
        return self.reserved(_bytes(t))

    def reserved(self, n: Any) -> int:
        """The largest value of a formula for the sizes that memory is for; that others need no more becomes a condition."""
        terms = self.terms(n)
        if all(not product for product, _ in terms):
            return int(n)
        self.limits[terms] = max(_values(n, self.largest), default=0)
        return self.limits[terms]

    def _limits(self) -> Iterator[Guard]:
        """That no formula exceeds what is reserved for it."""
        for terms, limit in self.limits.items():
            yield add(constant(limit + 1), terms, -1), ">"
            yield add(terms, constant(1)), ">"

    def _small(self, formulas: Iterable[Terms]) -> None:
        """Raises ModelError E621 where 64 bits do not hold a formula."""
        if any(magnitude(f, self.ranges) >= 1 << 62 for f in formulas):
            raise fail("E621", "what follows from sizes in these ranges exceeds 64 bits", kind=ModelError,
                       notes=["declare smaller ranges"])

    def written(self, values: Iterable[Any], dtype: DType) -> Place:
        """Where numbers lie that follow from sizes."""
        row = tuple((self.terms(n), dtype.name) for n in values)
        if row not in self.words:
            self.words[row] = Place(NUMBERS, self.numbers)
            self.numbers += _rounded(len(row) * dtype.bytes)
        return self.words[row]

    # ---- places

    def step(self, call: Call, code: Coded) -> Step:
        """A call."""
        lowered, values = code.kernel.lowered, [*call.inputs, *call.outputs]
        arrays = [*self.weights.made(self.plan, code.kernel, values)]
        end = 0
        for dtype, count in code.workspace:
            arrays.append(Place(SCRATCH, end))
            end += _rounded(self.reserved(count * dtype.itemsize))
        if code.sizes is not None:
            arrays.append(self.written(code.sizes, I64))
        places = [arrays[n - len(values)] if n >= len(values) else self.place(values[n]) for n in code.kernel.arrays]
        for buffer in lowered.source.module.scratch:
            places.append(Place(SCRATCH, end))
            end += _rounded(buffer.size * buffer.dtype.bytes)
        return Step(code.kernel.number, tuple(places), end)

    def output(self, number: int) -> Place:
        """The caller's array for an output."""
        return Place(OWN + len(self.plan.inputs) + number)

    def place(self, value: str) -> Place:
        """Where a value lies."""
        base = self.plan.base(value)
        if base in self.plan.inputs:
            return Place(OWN + self.plan.inputs.index(base))
        if base in self.outputs:
            return self.outputs[base]
        if base not in self.plan.constants:
            return Place(ARENA, self.memory.offsets[base])
        if base not in self.stored:
            array = self.plan.constants[base]
            self.stored[base] = self.written(array.reshape(-1), self.plan.types[base].dtype) if array.dtype == object \
                else self.weights.place(array)
        return self.stored[base]


def _values(n: Any, points: Sequence[Sizes]) -> list[int]:
    """A formula at some sizes, those left out at which it has no value."""
    found = []
    for point in points:
        try:
            found.append(at(n, point))
        except ZeroDivisionError:
            continue
    return [v for v in found if v >= 0]


def _bytes(t: Array) -> Any:
    return math.prod(t.shape) * t.dtype.bytes


def _rounded(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
