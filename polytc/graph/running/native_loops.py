"""Iterations of a loop over a body that is one native chain, with states of unchanging types: many in one native call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.graph.plan import Array
from polytc.graph.running.instance import Instance, aligned_empty
from polytc.runtime import repeated_chains

MAX_ITERATIONS = 4096
"""Iterations of one native call, so that Python can be interrupted in between."""
MAX_BYTES = 1 << 24
"""Of the rows of results of one native call."""


@dataclass(frozen=True)
class NativeLoop:
    """A body that is bound to memory of its own, for one loop at a time.

    own: input -> its array, for those that are written between iterations, and a place for copies of all others; states:
    numbers of those inputs; fixed: (slot, address) of what stays where it is; going: the condition after an iteration;
    copies: from results to states; results: type and place of what each iteration gives; alive: arrays behind addresses.
    """

    instance: Instance
    own: tuple[np.ndarray, ...]
    states: range
    moved: tuple[tuple[int, tuple[ctypes.c_int64, ...]], ...]
    fixed: tuple[tuple[ctypes.c_int64, int], ...]
    counter: int
    going: np.ndarray
    copies: tuple[repeated_chains.Copy, ...]
    results: tuple[tuple[Array, int], ...]
    alive: object

    def begin(self, arrays: Sequence[np.ndarray]) -> None:
        """Take the values of all inputs in the next iteration."""
        for i in self.states:
            np.copyto(self.own[i], arrays[i])
        for slot, address in self.fixed:
            slot.value = address
        for i, slots in self.moved:
            array = arrays[i]
            if not (array.flags.c_contiguous and array.flags.aligned):
                np.copyto(self.own[i], array)
                array = self.own[i]
            for slot in slots:
                slot.value = array.ctypes.data

    def run(self, first: int, most: int, slices: Mapping[int, np.ndarray]) -> tuple[int, list[np.ndarray]]:
        """Iterations from the number `first` on, at most so many, fewer if they stop or would need much memory: how many there
        were, and their results along a new first axis. slices: inputs that are read slice by slice, C-contiguous."""
        size = sum(t.bytes for t, _ in self.results)
        count = max(1, min(most, MAX_ITERATIONS, MAX_BYTES // max(1, size)))
        rows = [np.empty((count, *t.shape), t.dtype.numpy) for t, _ in self.results]
        given = [(row.ctypes.data, source, t.bytes, t.bytes) for row, (t, source) in zip(rows, self.results, strict=True)]
        names = self.instance.plan.inputs
        moves = [(ctypes.addressof(slot), a[first:].ctypes.data, a.strides[0])
                 for i, a in slices.items() for slot in self.instance.slots.get(names[i], ())]
        done = repeated_chains.repeat_chain(self.instance.chain, first, count, self.counter, self.going.ctypes.data, moves,
                                            [*given, *self.copies])
        return done, [row[:done] for row in rows]

    def last(self) -> list[np.ndarray]:
        """The states after the last iteration."""
        return [self.own[i].copy() for i in self.states]


def has_types(instance: Instance, arrays: Sequence[Any]) -> bool:
    """Are these arrays of the types of the body's inputs?"""
    types = instance.plan.types
    return all(type(a) is np.ndarray and a.shape == types[n].shape and a.dtype == types[n].dtype.numpy
               for n, a in zip(instance.plan.inputs, arrays, strict=True))


def bind_loop(instance: Instance, states: range, condition: bool) -> NativeLoop | None:
    """The body of a loop with memory for its iterations; None where these need Python: code that is not native, indices that
    are looked at after each, or states whose types change or which change places.

    states: numbers of those inputs that are states. condition: the first input is the iteration's number and the second one
    the condition, which is the first output; the states follow it, then the results.
    """
    plan, types = instance.plan, instance.plan.types
    first = 1 if condition else 0
    after = plan.outputs[first:first + len(states)]
    if plan.index_checks or not instance.chain.native or [types[n] for n in after] != [types[plan.inputs[i]] for i in states]:
        return None
    written = {*states, *range(2 * first)}
    own = {n: aligned_empty(types[n]) for n in plan.inputs}
    made = {b: aligned_empty(types[b]) for b in instance.places if b not in plan.inputs}
    if condition:
        own[plan.inputs[1]][...] = True

    def source(output: str) -> np.ndarray:
        base = plan.base(output)
        return made[base] if base in made else own[base] if base in own else instance.buffers[base]

    copies = []
    for i, output in zip(states, after):
        if plan.base(output) in {plan.inputs[k] for k in states} - {plan.inputs[i]}:
            return None
        if plan.base(output) != plan.inputs[i]:
            copies.append((own[plan.inputs[i]].ctypes.data, source(output).ctypes.data, types[output].bytes, 0))
    if any(plan.base(n) in plan.inputs and plan.inputs.index(plan.base(n)) not in written for n in plan.outputs):
        return None
    stay = {n: a for k, (n, a) in enumerate(own.items()) if k in written} | made
    fixed = tuple((slot, a.ctypes.data) for n, a in stay.items() for slot in instance.slots.get(n, ()))
    moved = tuple((k, instance.slots.get(n, ())) for k, n in enumerate(plan.inputs) if k not in written)
    results = tuple((types[n], source(n).ctypes.data) for n in plan.outputs[first + len(states):])
    counter, going = (own[plan.inputs[0]], source(plan.outputs[0])) if condition else (np.zeros((), np.int64), np.array(True))
    return NativeLoop(instance, tuple(own.values()), states, moved, fixed, counter.ctypes.data, going, tuple(copies), results,
                      (counter, made))
