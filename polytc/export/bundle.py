"""Bundle: a program or a model as steps on arrays, for any target whose source is text.

    def mm(A, B) -> (C)   ->   arguments A, B, C;  one unit, the lowered program;  one step: unit 0 on A, B, C

Where intermediate values lie is the writer's choice: a bundle says only how long each lives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from polytc import loading
from polytc.codegen.passes.analyses.local_memory_room import TooLarge, too_large
from polytc.codegen.target import Target
from polytc.compiler import Lowered, lower_program
from polytc.export.multiples import Part
from polytc.graph.library import assembly
from polytc.graph.library.headers import identifier, parameters
from polytc.graph.plan import Array, Call, Plan
from polytc.graph.planning.memory import Life
from polytc.graph.running.instance import Progress, lifetimes
from polytc.options import NONE, Licence, check_unchecked
from polytc.poly import in_bounds, isl
from polytc.program import extents
from polytc.program.affine import QuasiAffine
from polytc.program.extents import Extent
from polytc.program.program import Program
from polytc.program.scalars import DType
from polytc.program.sizes import Size
from polytc.rewrite.index_checks import decides
from polytc.schedule.user.recipe import Recipe
from polytc.targets.c import language
from polytc.targets.ctext.constants import MACROS
from polytc.targets.cuda import types
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.opencl.launch_times import LaunchTime
from polytc.targets.opencl.starvation import Starving

RESERVED = frozenset("""
    self queue waits wait_list done made folder log log_bytes threads memory buffers aligned given error k a l p c from
    assert inline restrict PARALLEL
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t reserve floordiv product
    and or not xor class new delete this template namespace operator private public protected friend virtual typename using
    try catch throw explicit export mutable asm typeof
    main CMakeLists area place launch launches places argument_bytes weight_offsets weight_bytes buffer_bytes copies copy
    build_options rounded_options read_file check_device build make_memory make_kernels check_call fail print transfer find
    refused format
    argument about bytes measure shared written saturated weight_header are_weights check_buffer size_t FILE printf snprintf
    fopen fread fwrite fclose fseek ftell malloc calloc free strlen strcmp memcpy
    kernel_text start event observer observed key key_begin mix identify compile load restored device given_values binary code
    length lines memset clone
    stream sizes own dim3 code_of enqueue static_cast const_cast reinterpret_cast
    room variant forced firsts buffer_counts estimate estimates real count turns launch_seconds seconds least found groups total
""".split()) | MACROS
"""Names that the hosts have for other things, that headers define, or that C++ has for itself: of no argument and no bundle."""
PREFIXES = ("INT", "UINT", "CL_", "cl_", "cuda", "hip")
"""What headers' names for other things begin with."""

Role: TypeAlias = Literal["input", "output", "inout"]


@dataclass(frozen=True)
class Argument:
    """An array of the caller. name: a C identifier, unlike those of the others; title: what the program calls it."""

    name: str
    title: str
    type: Array
    role: Role


@dataclass(frozen=True)
class Place:
    """Where an array of a step lies: argument or weight `key` (a number), or intermediate value `key` (a name); or which size
    a number of it is, or the variable of which of the loops around its launch, from the outside."""

    area: Literal["argument", "weight", "value", "size", "counter"]
    key: int | str


@dataclass(frozen=True)
class Unit:
    """A lowered program that steps share. label: of the operator or node it came from, as the user wrote it."""

    lowered: Lowered
    label: str


@dataclass(frozen=True)
class Step:
    """A unit run once. places: buffer name of the unit's module -> where it lies."""

    unit: int
    places: dict[str, Place]


@dataclass(frozen=True)
class Copy:
    """After the last step: an output that is another value, too. target: number of the argument."""

    source: Place
    target: int
    bytes: int


@dataclass(frozen=True)
class Model:
    """What is known of a variant's time. typical: the sizes that it is made for; launches: their estimates; reasons: lines on
    what it decides otherwise than others, and where it is the fastest."""

    typical: Mapping[str, int]
    launches: tuple[LaunchTime, ...]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bundle:
    """name: a C identifier. lives: of the intermediate values, in steps, whose bytes are formulas where sizes are not fixed.
    sizes: C identifiers of those that are not; limits: forms of them, by their names in formulas, that are at least 0 where
    everything stays inside of its array, and the text is this program; titles: what the program calls the sizes; parts,
    products: names of quotients of sizes and of products of two extents, which count as further sizes.

    others: more variants of the program of open sizes, each a bundle of the same arguments, sizes and limits; the host takes
    the one whose `model` says that it is the fastest. about: lines on how they were chosen; spent: seconds that it took."""

    name: str
    arguments: tuple[Argument, ...]
    weights: tuple[np.ndarray, ...]
    units: tuple[Unit, ...]
    steps: tuple[Step, ...]
    copies: tuple[Copy, ...]
    lives: tuple[Life, ...]
    sizes: tuple[str, ...] = ()
    limits: tuple[QuasiAffine, ...] = ()
    titles: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    products: tuple[tuple[str, tuple[int, int]], ...] = ()
    others: tuple[Bundle, ...] = ()
    model: Model | None = None
    about: tuple[str, ...] = ()
    spent: float = 0.0

    @property
    def variants(self) -> tuple[Bundle, ...]:
        """All, in the order of their numbers."""
        return (self, *self.others)

    @property
    def derived(self) -> tuple[str, ...]:
        """The names of what follows from the sizes."""
        return (*(p.name for p in self.parts), *(name for name, _ in self.products))

    @property
    def starving(self) -> tuple[Starving, ...]:
        """The launches that leave most of a GPU idle although there is more to do at once."""
        return tuple(x for v in self.variants for unit in v.units for x in unit.lowered.starving)

    @property
    def too_large(self) -> tuple[TooLarge, ...]:
        """The temporaries of a GPU's kernels that local memory has no room for."""
        made = [unit.lowered for v in self.variants for unit in v.units]
        return tuple(x for low in made if low.target.machine.kind == "gpu" for x in too_large(low.loops, low.target.machine))


def of_program(program: Program, target: Target, name: str = "", schedule: str | Recipe | None = None) -> Bundle:
    """The bundle of a program. name: of what is exported; the program's if not said; schedule: as `polytc.compile` takes it.
    Raises ArgumentError E410 where POLYTC_CHECK_INDICES asks for what no host does."""
    check_exported(program)
    return of_lowered(program, lower_program(program, target, loading.request(schedule, target.machine)), target, name)


def check_exported(program: Program) -> None:
    """Raises ArgumentError E410 where POLYTC_CHECK_INDICES asks for what no host does."""
    if decides(program):
        check_unchecked("exported code")


def of_lowered(program: Program, lowered: Lowered, target: Target, name: str = "",
               limits_: tuple[QuasiAffine, ...] | None = None, parts: tuple[Part, ...] = ()) -> Bundle:
    """The bundle of a program that is lowered. program: as it was given; name: as of_program takes it; limits_: see `limits`,
    where the caller knows them; parts: of the sizes, which it is lowered for."""
    roles: dict[str, Role] = {n: "inout" if n in program.inouts else "input" for n in program.inputs}
    own_name = _named(name or program.name, target)
    named = _parameters([*program.arrays, *program.sizes], own_name, target)
    arguments = tuple(Argument(own, n, Array(program.tensor(n).dtype, program.tensor(n).shape), roles.get(n, "output"))
                      for own, n in zip(named, program.arrays))
    places = {n: Place("argument", k) for k, n in enumerate(program.arrays)}
    module = lowered.source.module
    places |= {isl.name(n): Place("size", k) for k, n in enumerate((
        *program.sizes, *(p.name for p in parts), *(n for n, _ in module.products)))}
    lives = tuple(_scratch(lowered, 0))
    places |= {b.name: Place("value", life.name) for b, life in zip(lowered.source.module.scratch, lives, strict=True)}
    unit = Unit(lowered, program.name)
    return Bundle(own_name, arguments, (), (unit,), (Step(0, places),), (), lives,
                  tuple(named[len(arguments):]), limits(program) if limits_ is None else limits_, program.sizes, parts,
                  module.products)


def limits(program: Program) -> tuple[QuasiAffine, ...]:
    """See Bundle.limits."""
    return in_bounds.size_limits(program)


def of_plan(plan: Plan, target: Target, name: str = "", *, licence: Licence = NONE, progress: Progress | None = None
            ) -> Bundle:
    """The bundle of a whole model. licence: what it may do to digits."""
    return _Walk(plan, target, licence).run(_named(name or plan.name, target), progress)


def _scratch(lowered: Lowered, step: int) -> Iterator[Life]:
    """The lives of a unit's own temporaries in a step."""
    for b in lowered.source.module.scratch:
        yield Life(f"{step}:{b.name}", bytes_of(b.shape, b.dtype), step, step)  # type: ignore[arg-type]


def bytes_of(shape: Sequence[int], dtype: DType) -> Extent:
    """Bytes of an array, at least 1; a formula where extents are."""
    if not is_open(shape):
        return max(1, math.prod(shape) * dtype.bytes)
    total: Extent = dtype.bytes
    for n in shape:
        total = extents.times(total, n)
    return total


def is_open(shape: Sequence[int]) -> bool:
    """Is an extent not fixed?"""
    return any(isinstance(n, Size) for n in shape)


def _named(name: str, target: Target) -> str:
    """What a bundle is called: a C identifier that nothing else has."""
    taken = RESERVED | language.RESERVED | _words(target)
    (found,) = parameters([name], taken | {n for n in [identifier(name)] if n.startswith(PREFIXES)})
    return found


def _words(target: Target) -> frozenset[str]:
    """What the target's hosts cannot call anything."""
    return types.RESERVED if isinstance(target, CudaTarget) else frozenset()


def _parameters(names: Sequence[str], bundle: str, target: Target) -> list[str]:
    """C identifiers of arrays and sizes that nothing else has, nor a kernel or a function of the bundle."""
    found = map(identifier, names)
    taken = {n for n in found if n == bundle or n.startswith((f"{bundle}_", *PREFIXES))}
    return parameters(names, RESERVED | _words(target) | taken)


class _Walk:
    """State of one walk over the calls of a plan."""

    def __init__(self, plan: Plan, target: Target, licence: Licence) -> None:
        self.plan, self.target = plan, target
        self.kernels = assembly.Kernels(plan, target, licence)
        self.outputs = assembly.own_outputs(plan)
        self.weights: list[np.ndarray] = []
        self.stored: dict[str, Place] = {}
        self.lives: list[Life] = list(lifetimes(plan))

    def run(self, name: str, progress: Progress | None) -> Bundle:
        steps = []
        for k, call in enumerate(self.plan.calls):
            if progress:
                progress(k, len(self.plan.calls), call.label)
            steps.append(self.step(k, call))
        copies = tuple(Copy(self.place(value), len(self.plan.inputs) + j, size)
                       for j, value in assembly.late_outputs(self.plan) if (size := self.plan.types[value].bytes))
        units = tuple(Unit(k.lowered, k.label) for k in self.kernels.all)
        return Bundle(name, self.arguments(name), tuple(self.weights), units, tuple(steps), copies, tuple(self.lives))

    def arguments(self, name: str) -> tuple[Argument, ...]:
        """name: of the bundle."""
        values = (*self.plan.inputs, *self.plan.outputs)
        return tuple(Argument(own, value, self.plan.types[value], "input" if k < len(self.plan.inputs) else "output")
                     for k, (own, value) in enumerate(zip(_parameters(values, name, self.target), values, strict=True)))

    def step(self, number: int, call: Call) -> Step:
        kernel = self.kernels.of(call)
        values = [*call.inputs, *call.outputs]
        made = [self.store(a) for a in self.kernels.made(kernel.lowered, values)]
        places = {b.name: made[n - len(values)] if n >= len(values) else self.place(values[n])
                  for b, n in zip(kernel.lowered.loops.args, kernel.arrays, strict=True)}
        for buffer, life in zip(kernel.lowered.source.module.scratch, _scratch(kernel.lowered, number), strict=True):
            self.lives.append(life)
            places[buffer.name] = Place("value", life.name)
        return Step(kernel.number, places)

    def place(self, value: str) -> Place:
        """Where a value lies."""
        base = self.plan.base(value)
        if base in self.plan.inputs:
            return Place("argument", self.plan.inputs.index(base))
        if base in self.outputs:
            return Place("argument", len(self.plan.inputs) + self.outputs[base])
        if base in self.plan.constants:
            if base not in self.stored:
                self.stored[base] = self.store(self.plan.constants[base])
            return self.stored[base]
        return Place("value", base)

    def store(self, array: np.ndarray) -> Place:
        self.weights.append(np.ascontiguousarray(array))
        return Place("weight", len(self.weights) - 1)
