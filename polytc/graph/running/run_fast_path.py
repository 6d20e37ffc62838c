"""The fast path of a model, for arrays of just the right kind: nothing is converted, compared in Python or copied.

What `Instance.run` does for any arrays takes Python some twenty microseconds, more than small models need. Where a graph is one
native chain and the arrays are what it was compiled for, one native function looks at them (native/call_arguments.py) and what
is left is to make the outputs and to write all addresses into the tables that the chain's steps read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from polytc.graph.running.instance import Instance
from polytc.machine import ALIGNMENT
from polytc.native import call_arguments

RunFastPath: TypeAlias = Callable[[Sequence[Any]], "list[np.ndarray] | None"]
"""(the graph's inputs) -> all its outputs as fresh arrays; None, with nothing done, if the arrays are of another kind. One
thread at a time, and not beside Instance.run."""


def fast_path(instance: Instance) -> RunFastPath | None:
    """The fast path of an instance; None where there is none: for code that is not native, or runs in rounds."""
    plan = instance.plan
    if plan.rounds > 1:
        return None
    named: dict[str, str] = {}
    for n in plan.outputs:
        if plan.base(n) in instance.places and plan.base(n) not in plan.inputs:
            named.setdefault(plan.base(n), n)
    bases = list(named)
    if not instance.chain.native or {*bases} != {b for b in instance.places if b not in plan.inputs}:
        return None
    inputs = [(plan.types[n].shape, plan.types[n].dtype.numpy) for n in plan.inputs]
    sizes = [plan.types[b].bytes + ALIGNMENT for b in bases]
    expected = call_arguments.expect(inputs, [((size,), _BYTES) for size in sizes])
    if expected is None:
        return None
    table = (ctypes.c_int64 * (len(inputs) + len(sizes)))()
    names = [*plan.inputs, *bases]
    given = [(i, slot) for i, n in enumerate(names[:len(inputs)]) for slot in instance.slots.get(n, ())]
    results = [(len(inputs) + k, plan.types[n].shape, plan.types[n].dtype.numpy, tuple(instance.slots.get(b, ())))
               for k, (b, n) in enumerate(named.items())]
    finish = _finished(instance, named)
    check, ours, theirs, chain = expected.check, expected.address, ctypes.addressof(table), instance.chain

    def run(arrays: Sequence[Any], _alive: object = expected, empty: Any = np.empty, array: Any = np.ndarray,
            mask: int = ALIGNMENT - 1) -> list[np.ndarray] | None:
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
        return found if finish is None else finish(arrays, found)
    return run


def _finished(instance: Instance, named: Mapping[str, str]) -> Callable[[Sequence[Any], list[np.ndarray]],
                                                                       list[np.ndarray]] | None:
    """All outputs from the inputs and the fresh arrays: those that are inputs, constants or other outputs are copies. None if
    the fresh arrays are the outputs. named: values with arrays of their own -> the outputs that get them."""
    plan, bases = instance.plan, list(named)
    if tuple(named.values()) == plan.outputs:
        return None

    def source(output: str, inputs: Sequence[Any], found: list[np.ndarray]) -> np.ndarray:
        base = plan.base(output)
        if named.get(base) == output:
            return found[bases.index(base)]
        array = found[bases.index(base)] if base in named else \
            inputs[plan.inputs.index(base)] if base in plan.inputs else instance.buffers[base]
        return np.array(array.reshape(plan.types[output].shape))
    return lambda inputs, found: [source(n, inputs, found) for n in plan.outputs]


_BYTES = np.dtype(np.uint8)

