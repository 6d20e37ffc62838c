"""Runs of a model on arrays of just the right kind: nothing is converted, compared in Python or copied.

What `Instance.run` does for any arrays takes Python some twenty microseconds, more than small models need. Where a graph is one
native chain and the arrays are what it was compiled for, one native function looks at them (runtime/arguments.py) and what is
left is to make the outputs and to write all addresses into the tables that the chain's steps read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from polytc.graph import memory
from polytc.graph.instance import Instance
from polytc.runtime import arguments
from polytc.runtime.chains import slots

QuickRun: TypeAlias = Callable[[Sequence[Any]], "list[np.ndarray] | None"]
"""(the graph's inputs) -> all its outputs as fresh arrays; None, with nothing done, if the arrays are of another kind. One
thread at a time, and not beside Instance.run."""


def quick_run(instance: Instance) -> QuickRun | None:
    """The quick run of an instance; None where there is none: for code that is not native, and for outputs that are inputs,
    constants or other outputs."""
    plan = instance.plan
    bases = [plan.base(n) for n in plan.outputs]
    made = [b for b in instance.places if b not in plan.inputs]
    if not instance.chain.native or len({*bases}) != len(bases) or {*bases} != {*made}:
        return None
    inputs = [(plan.types[n].shape, plan.types[n].dtype.numpy) for n in plan.inputs]
    sizes = [plan.types[b].bytes + memory.ALIGNMENT for b in bases]
    expected = arguments.expect(inputs, [((size,), _BYTES) for size in sizes])
    if expected is None:
        return None
    table = (ctypes.c_int64 * (len(inputs) + len(sizes)))()
    names = [*plan.inputs, *bases]
    given = [(i, slot) for i, n in enumerate(names[:len(inputs)]) for slot in _slots(instance, n)]
    results = [(len(inputs) + k, plan.types[n].shape, plan.types[n].dtype.numpy, tuple(_slots(instance, b)))
               for k, (n, b) in enumerate(zip(plan.outputs, bases, strict=True))]
    check, ours, theirs, chain = expected.check, expected.address, ctypes.addressof(table), instance.chain

    def run(arrays: Sequence[Any], _alive: object = expected, empty: Any = np.empty, array: Any = np.ndarray,
            mask: int = memory.ALIGNMENT - 1) -> list[np.ndarray] | None:
        fresh = [empty(size, _BYTES) for size in sizes]
        if not check(ours, theirs, *arrays, *fresh):
            return None
        for i, slot in given:
            slot.value = table[i]
        found = []
        for raw, (i, shape, dtype, places) in zip(fresh, results):
            start = -table[i] & mask
            found.append(array(shape, dtype, raw, start))
            for slot in places:
                slot.value = table[i] + start
        chain()
        return found
    return run


_BYTES = np.dtype(np.uint8)


def _slots(instance: Instance, name: str) -> list[ctypes.c_int64]:
    """Where the steps read the address of a value."""
    return [slot for place in instance.places.get(name, ()) for slot in slots(place.step, place.position)]
