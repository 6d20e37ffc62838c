"""Instance: a model for one set of input shapes, with its memory, ready to run.

Steps are bound to fixed addresses once. At each run only the addresses of the graph's inputs and outputs change: the caller's
arrays are read where they are, and results are written where the caller will find them.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from polytc.codegen.target import Bound
from polytc.disk.mapped import release
from polytc.errors import ModelError, fail
from polytc.graph.plan import Array, Call, Guard, Plan
from polytc.graph.planning import branch_guards, memory
from polytc.graph.running import index_checks
from polytc.native.aligned import aligned_bytes, aligned_copy, plain, usable
from polytc.native.huge_pages import OWN_MAPPING_BYTES
from polytc.options import Licence
from polytc.runtime.call_chains import Chain, Skip, slots
from polytc.runtime.packages import in_use
from polytc.runtime.sized import Sized

if TYPE_CHECKING:
    from polytc.program.program import Program

Progress = Callable[[int, int, str], None]
"""Called with (kernels compiled so far, all kernels, name of the next)."""


@dataclass(frozen=True)
class Place:
    """An argument of a step that is the elements of a value, seen in some shape."""

    step: Bound
    position: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Link:
    """The values that a step reads and writes, in the order of its arguments, and when it runs, see Call."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    guards: tuple[Guard, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        return self.inputs + self.outputs


@dataclass(frozen=True)
class Instance:
    """plan: what runs. steps: its calls as bound code, in order, with a Skip before those of each branch; links: the values of
    each; chain: of them. arena: where intermediate values lie. buffers:
    of every value that owns its elements, but constants that were only needed to make others. places: where the steps use a
    graph's input, or an output that a run may make anew."""

    plan: Plan
    steps: tuple[Bound, ...]
    links: tuple[Link, ...]
    chain: Chain
    arena: memory.Arena
    buffers: Mapping[str, np.ndarray]
    places: Mapping[str, tuple[Place, ...]]

    @cached_property
    def slots(self) -> dict[str, tuple[ctypes.c_int64, ...]]:
        """Where the steps of a native chain read the addresses of each value of `places`."""
        return {n: tuple(slot for p in places for slot in slots(p.step, p.position)) for n, places in self.places.items()}

    def run(self, arrays: Mapping[str, np.ndarray], wanted: Sequence[str], go: Callable[[Chain], object] = operator.call
            ) -> list[np.ndarray]:
        """The wanted outputs as fresh arrays. arrays: of all inputs, of the right types and shapes. One thread at a time.
        go: runs the chain."""
        used = dict(self.buffers)
        for name in self.plan.inputs:
            array = arrays[name]
            if not (array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative):
                kept = aligned_empty(self.plan.outside(name)) if name in self.plan.split else self.buffers[name]
                np.copyto(kept, array)
                array = kept
            used[name] = array
        asked = {self.plan.base(name) for name in wanted}
        fresh: dict[str, np.ndarray] = {}
        for base in self.places:
            if base not in self.plan.inputs and base in asked:
                fresh[base] = aligned_empty(self.plan.outside(base))
        for part in range(self.plan.rounds):
            for name in self.plan.inputs:
                self._move(name, used[name], part)
            for base in self.places:
                if base not in self.plan.inputs:  # what nobody asks for must not go where the last run's result is
                    self._move(base, fresh.get(base, self.buffers[base]), part if base in fresh else 0)
            go(self.chain)
        return self._results(wanted, fresh, used)

    def _move(self, name: str, array: np.ndarray, part: int) -> None:
        """Let the steps use an array, or a part of it, for a value."""
        places = self.places.get(name, ())  # an input that is compiled in by value has none
        size = self.plan.types[name].elements
        if places and size != array.size:
            array = array.reshape(-1)[part * size:(part + 1) * size]
        for place in places:
            place.step.move(place.position, array.reshape(place.shape))

    def _results(self, wanted: Sequence[str], fresh: Mapping[str, np.ndarray],
                 used: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs, each in memory of its own: a fresh array is given away once, the rest are copies of what was used."""
        found, given = list[np.ndarray](), set[str]()
        for name in wanted:
            base, shape = self.plan.base(name), self.plan.outside(name).shape
            array = fresh.get(base, used[base]).reshape(shape)
            found.append(array if base in fresh and base not in given else array.copy())
            given.add(base)
        return found


def compiled_programs(plan: Plan, licence: Licence) -> list[Program]:
    """What is compiled of a plan: the programs of its calls, which know their constant inputs."""
    fixed = {n for n, a in plan.constants.items() if a.dtype != object}  # others follow from sizes

    def constant(call: Call) -> tuple[str, ...]:
        return tuple(own for own, value in zip(call.program.inputs, call.inputs) if plan.base(value) in fixed)
    return [replace(c.program, constants=constant(c)).licensed(licence) for c in plan.calls]


def bind(plan: Plan, links: Sequence[Link], codes: Sequence[Any], arena: memory.Arena) -> Instance:
    """Code bound to memory. codes: Bindables, in order, that run on the values of the links; the plan's calls are not
    looked at.

    Raises ModelError E612 if that does not fit this machine.
    """
    try:
        buffers = _buffers(plan, arena)
    except MemoryError as error:
        raise fail("E612", f"the values of {plan.name} do not fit: {error}", kind=ModelError,
                   notes=["give the model smaller shapes"]) from error

    def argument(code: object, position: int, name: str) -> np.ndarray:
        base = plan.base(name)
        if base not in buffers and not in_use(code, position):
            constant = plan.constants[base]
            return (constant if plain(constant) else usable(constant)).reshape(plan.types[name].shape)
        if base not in buffers:
            buffers[base] = aligned_copy(plan.constants[base])
        return buffers[base].reshape(plan.types[name].shape)

    workspace = aligned_bytes(max((c.needs for c in codes if isinstance(c, Sized)), default=0))  # one step runs at a time
    made: dict[int, Bound] = {}
    for k in _largest_first(plan, links):
        code, link = codes[k], links[k]
        arguments = [argument(code, n, name) for n, name in enumerate(link.values)]
        made[k] = code.bind(arguments, workspace) if isinstance(code, Sized) else code.bind(arguments)
        for name in {plan.base(n) for n in link.inputs} & plan.constants.keys():  # in use is mostly what was made of it
            release(plan.constants[name])
    steps = [made[k] for k in range(len(links))]
    every, used = _guarded(steps, links, lambda name: buffers[plan.base(name)])
    places = _places(plan, used, every)
    chain = index_checks.checked_chain(plan, every, used, buffers)
    return Instance(plan, tuple(every), tuple(used), chain, arena, buffers, places)


def _largest_first(plan: Plan, links: Sequence[Link]) -> list[int]:
    """The steps in the order in which they are bound. While weights are packed they are in memory twice: the largest should be
    when there is little else. Those of usual sizes stay in the order in which they run."""
    def weights(link: Link) -> int:
        return sum(plan.constants[n].nbytes for n in {plan.base(n) for n in link.inputs} & plan.constants.keys())
    sizes = list(map(weights, links))
    return sorted(range(len(links)), key=lambda k: -sizes[k] if sizes[k] >= OWN_MAPPING_BYTES else 0)


def _guarded(steps: Sequence[Bound], links: Sequence[Link], condition: Callable[[str], np.ndarray]
             ) -> tuple[list[Bound], list[Link]]:
    """The steps with a Skip before those of each branch, and the values that each reads and writes."""
    every, used = list[Bound](), list[Link]()
    for k, skip in branch_guards.guard_jumps([link.guards for link in links]):
        if isinstance(k, Guard):
            every.append(Skip(condition(k.value), k.taken, skip))
            used.append(Link((k.value,), ()))
        else:
            every.append(steps[k])
            used.append(links[k])
    return every, used


def _buffers(plan: Plan, arena: memory.Arena) -> dict[str, np.ndarray]:
    """Memory of every value that owns its elements: inputs and outputs of the graph, the arena's values."""
    buffers = lasting_buffers(plan)
    store = aligned_bytes(arena.bytes)
    for name, offset in arena.offsets.items():
        t = plan.types[name]
        buffers[name] = store[offset:offset + t.bytes].view(t.dtype.numpy).reshape(t.shape)
    return buffers


def lasting_buffers(plan: Plan) -> dict[str, np.ndarray]:
    """Memory of the inputs and outputs of the graph."""
    buffers: dict[str, np.ndarray] = {}
    for name in dict.fromkeys((*plan.inputs, *(plan.base(n) for n in plan.lasting))):
        constant = plan.constants.get(name)  # inputs that are compiled in by value are some, too
        buffers[name] = aligned_array(plan.types[name]) if constant is None else aligned_copy(constant)
    return buffers


def _places(plan: Plan, links: Sequence[Link], steps: Sequence[Bound]) -> dict[str, tuple[Place, ...]]:
    """Where the steps use inputs of the graph, and the values behind its outputs."""
    outer = {*plan.inputs, *(plan.base(n) for n in plan.outputs)} - set(plan.constants)
    found: dict[str, list[Place]] = {name: [] for name in outer}
    for step, link in zip(steps, links, strict=True):
        for position, value in enumerate(link.values):
            if plan.base(value) in outer:
                found[plan.base(value)].append(Place(step, position, plan.types[value].shape))
    return {name: tuple(places) for name, places in found.items()}


def lifetimes(plan: Plan, size: Callable[[Array], int] = operator.attrgetter("bytes")) -> list[memory.Life]:
    """Of each value that lies in the arena: neither input, constant nor the base of an output. size: its bytes."""
    outside = {*plan.inputs, *plan.constants, *(plan.base(n) for n in plan.lasting)}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for k, call in enumerate(plan.calls):
        for name in (*call.inputs, *call.outputs, *(g.value for g in call.guards)):
            base = plan.base(name)
            first.setdefault(base, k)
            last[base] = k
    return [memory.Life(n, size(plan.types[n]), k, last[n]) for n, k in first.items() if n not in outside]


def aligned_array(t: Array) -> np.ndarray:
    return aligned_bytes(t.bytes).view(t.dtype.numpy).reshape(t.shape)


def aligned_empty(t: Array) -> np.ndarray:
    """An array on a cache line, with any contents."""
    return aligned_bytes(t.bytes, np.empty).view(t.dtype.numpy).reshape(t.shape)
