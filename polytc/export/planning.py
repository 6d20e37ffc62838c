"""The plans of a program of open sizes: what is decided where some sizes are typical, with what the model says of each.

    C[i,j] += A[i,k]*B[k,j] at 24 typical sizes   ->   17 ways to run it, each with its seconds at all sizes of a sample

Most plans are not taken, so that they are made without texts, and by forks of this process beside itself, which send what they
estimated; what they made of a plan that is taken is made again here.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TypeAlias

from polytc import compile_all, compiler
from polytc.codegen import size_binding
from polytc.codegen.target import Target
from polytc.compiler import Lowered
from polytc.decisions import Entry, Record
from polytc.errors import PolytcError
from polytc.export import multiples
from polytc.export.multiples import Part
from polytc.machine import Machine
from polytc.native import processes
from polytc.program.program import Program
from polytc.program.sizes import Size, mapped, with_products
from polytc.program.sizes import at as size_at
from polytc.targets.ctext.work_groups import LARGEST_OPEN
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.opencl import launch_times
from polytc.targets.opencl.launch_times import LaunchTime
from polytc.targets.opencl.target import OpenCLTarget

LEAST = 4
"""Sizes for each process at least."""

Sizes: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    """A way to run the program. typical: the sizes that it is made for; lowered: what was made, without texts, if this process
    made it; seconds: at each point of the sample; parts: of the sizes that have to be multiples."""

    typical: Sizes
    lowered: Lowered | None
    launches: tuple[LaunchTime, ...]
    seconds: tuple[float, ...]
    parts: tuple[Part, ...] = ()


_Done: TypeAlias = tuple[str, Plan | None]
"""What was decided for some sizes, and the plan, if that is one which can be estimated and was not made before."""


def of_points(program: Program, target: Target, points: Sequence[Sizes], sample: Sequence[Sizes]) -> list[Plan]:
    """What is decided for some sizes, each way once, for the first of its points. The same decisions are the same code."""
    work = _Work(program, _textless(target), sample)
    done = dict[int, _Done | None]()
    count = min(compile_all.process_count(), compile_all.MOST, len(points) // LEAST) if not os.environ.get("POLYTC_DUMP") else 1
    if count > 1:
        with compiler.idle(), processes.Forks([partial(work.sent, p) for p in points], count - 1) as forks:
            while (k := forks.claim()) is not None:
                done[k] = work.done(points[k])
            for k in forks.others():
                data = forks.result(k)
                done[k] = pickle.loads(data) if data is not None else work.done(points[k])
    else:
        done = dict(enumerate(map(work.done, points)))
    first = dict[str, Plan]()
    for _, found in sorted(done.items()):
        if found is not None and found[1] is not None:
            first.setdefault(found[0], found[1])
    return list(first.values())


class _Known(Exception):
    """What is decided, the argument, is what this process decided before."""


@dataclass(frozen=True)
class _Work:
    """What a process does of all points, which it takes in their order. tried: what it decided so far."""

    program: Program
    target: Target
    sample: Sequence[Sizes]
    tried: set[str] = field(default_factory=set)

    def done(self, point: Sizes) -> _Done | None:
        """Of one point; None where there is no code for it."""
        def told(record: Record) -> None:
            if (key := _key(record)) in self.tried:
                raise _Known(key)
        try:
            lowered = compiler.lower_program(at(self.program, point), self.target, decided=told)
        except _Known as e:
            return str(e), None
        except PolytcError:
            return None
        key = _key(lowered.decisions)
        plan = of_lowered(lowered, self.target, point, self.sample) if key not in self.tried else None
        self.tried.add(key)
        return key, plan

    def sent(self, point: Sizes) -> bytes:
        """The same from a fork, without the code, whose objects of isl stay there."""
        found = self.done(point)
        if found is not None and found[1] is not None:
            found = found[0], replace(found[1], lowered=None)
        return pickle.dumps(found)


def at(program: Program, point: Sizes) -> Program:
    """The same program, made for other sizes."""
    made: Program = mapped(program, lambda n: Size.of(size_at(n, point), n.form))
    return made


def _textless(target: Target) -> Target:
    """The target, which leaves out the texts of kernels."""
    return replace(target, texts=False) if isinstance(target, OpenCLTarget | CudaTarget) else target


def whole(plan: Plan, program: Program, target: Target) -> Lowered:
    """What is made for a plan that is taken, with texts."""
    low = plan.lowered
    if low is None:
        return compiler.lower_program(at(program, plan.typical), target)
    return replace(low, target=target, source=target.emit(size_binding.flatten(low.loops)))


def _key(record: Record) -> str:
    """What was decided, without the reasons."""
    return "\n".join(map(decision, record.entries))


def decision(e: Entry) -> str:
    """A decision without its reason."""
    return str(replace(e, reason=""))


def of_multiple(program: Program, target: Target, typical: Sizes, parts: tuple[Part, ...], sample: Sequence[Sizes]
                ) -> Plan | None:
    """What is decided for sizes that are multiples, if there is such a plan."""
    try:
        lowered = compiler.lower_program(multiples.divided(program, parts, typical), _textless(target))
    except PolytcError:
        return None
    return of_lowered(lowered, target, typical, sample, parts)


def of_lowered(lowered: Lowered, target: Target, point: Sizes, sample: Sequence[Sizes], parts: tuple[Part, ...] = ()
               ) -> Plan | None:
    """The plan of a lowered program with its estimates; None where its launches cannot be counted."""
    own = {n: point.get(n, launch_times.LARGE) for n in lowered.program.sizes}
    launches = launch_times.of_source(lowered.source, lowered.rewritten, target.machine, own)
    if launches is None:
        return None
    return Plan(point, lowered, launches, tuple(seconds(lowered, launches, p, target.machine, parts) for p in sample), parts)


def seconds(lowered: Lowered, launches: tuple[LaunchTime, ...], sizes: Sizes, machine: Machine, parts: Sequence[Part] = ()
            ) -> float:
    """What a plan takes at some sizes; infinite where its temporaries are too long for its indices, or the sizes are no
    multiples."""
    own = multiples.with_parts(sizes, parts)
    if own is None:
        return math.inf
    known = with_products(own, lowered.source.module.products)
    if any(prod(size_at(n, known) for n in b.shape) > LARGEST_OPEN for b in lowered.source.module.scratch):
        return math.inf
    return launch_times.seconds(launches, known, machine)
