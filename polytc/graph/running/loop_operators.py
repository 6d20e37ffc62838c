"""The iterations of Loop, Scan and SequenceMap over a body that is compiled for itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.hosts import ENDLESS, Repeat, Work, keeps_going
from polytc.graph.ir import Value
from polytc.graph.planning import memory
from polytc.graph.running.instance import Instance
from polytc.graph.running.native_loops import NativeLoop, bind_loop, has_types
from polytc.runtime.lru_cache import LRUCache

FEW = 3
"""Iterations that Python runs as fast as it can prepare more of them as a native call."""


Body: TypeAlias = Callable[[Sequence[Any]], list[Any]]
"""Runs a body once: the values of its inputs, captured ones included, to those of its outputs."""

Compiled: TypeAlias = "Callable[[Sequence[Any]], Instance | None]"
"""A body's code for such inputs, if there is nothing else to it."""


@dataclass(frozen=True)
class LoopBody:
    """A body with the values that it captures. known: the rounds of its code, as far as they were asked for."""

    body: Body
    compiled: Compiled
    outside: Sequence[Any]
    known: LRUCache[int, tuple[Instance, NativeLoop | None]]

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        return self.body([*given, *self.outside])

    def native_loop(self, given: Sequence[Any], states: range, condition: bool) -> NativeLoop | None:
        """See graph.running.native_loops: ready for the iteration that is given these values, or None."""
        arrays = [*given, *self.outside]
        instance = self.compiled(arrays)
        if instance is None or not has_types(instance, arrays):
            return None
        found = self.known.get(id(instance))
        if found is None or found[0] is not instance:
            found = self.known.put(id(instance), (instance, bind_loop(instance, states, condition)))
        if found[1] is not None:
            found[1].begin(arrays)
        return found[1]


def loop_work(work: Repeat, body: Body, compiled: Compiled = lambda arrays: None) -> Work:
    """The function that runs all iterations."""
    runs = {"Loop": loop, "Scan": batched_scan if work.batched else scan, "SequenceMap": sequence_map}[work.kind]

    known: LRUCache[int, tuple[Instance, NativeLoop | None]] = LRUCache(4)

    def run(*values: Any) -> list[Any]:
        split = len(values) - len(work.captured)
        own, outside = values[:split], values[split:]
        return runs(work, LoopBody(body, compiled, outside, known), own)
    return run


def loop(work: Repeat, body: LoopBody, values: Sequence[Any]) -> list[Any]:
    """Trip count, condition, states; results: the last states, and what each iteration gave, stacked."""
    trip, condition, *states = values
    last = sys.maxsize if trip is None else int(np.asarray(trip).item())
    more = condition is None or bool(np.asarray(condition).item())
    if more and last > ENDLESS and keeps_going(work.body):
        raise fail("E608", f"the loop {work.body.name!r} never ends: it has {last} iterations, and its condition stays true",
                   kind=ModelError)
    rows: list[list[np.ndarray]] = []
    native: NativeLoop | None = None
    k = size = 0
    while more and k < last:
        given = [np.array(k, np.int64), np.array(True), *states]
        if k == 1 and last - k > FEW:
            native = body.native_loop(given, range(2, 2 + len(states)), True)
        if native is not None:
            count, found = native.run(k, last - k, {})
            more, states = bool(native.going), native.last()
        else:
            going, *results = body(given)
            more, states = bool(np.asarray(going).item()), results[:len(states)]
            count, found = 1, [r[None] for r in results[len(states):]]
        rows.append(found)
        k, size = k + count, size + sum(r.nbytes for r in found)
        if size > memory.LARGEST:
            raise fail("E612", f"the results of a Loop have {size / 1e9:,.1f} GB after {k} iterations", kind=ModelError)
    return [*states, *stack_results(work.body.outputs[1 + len(states):], rows)]


def stack_results(declared: Sequence[Value], rows: Sequence[Sequence[np.ndarray]], axes: Sequence[int] = (),
                  backwards: Sequence[bool] = ()) -> list[np.ndarray]:
    """What the iterations gave, one after another along a new axis. rows: results along a first axis, of some iterations at a
    time. Without any, an empty array of the declared type."""
    found = []
    for i, v in enumerate(declared):
        axis = axes[i] if i < len(axes) else 0
        if not rows:
            dtype = v.dtype.numpy if v.dtype is not None else np.dtype(np.float32)
            found.append(np.zeros((0, *(d if isinstance(d, int) else 0 for d in v.shape or ())), dtype))
            continue
        whole = np.concatenate([row[i] for row in rows])
        if not -whole.ndim <= axis < whole.ndim:
            raise fail("E609", f"the results {v.name!r} have {whole.ndim} axes, and are put beside each other along {axis}",
                       kind=ModelError)
        whole = whole[::-1] if i < len(backwards) and backwards[i] else whole
        found.append(np.ascontiguousarray(np.moveaxis(whole, 0, axis)))
    return found


def scan(work: Repeat, body: LoopBody, values: Sequence[Any]) -> list[Any]:
    """States, then arrays that are read slice by slice."""
    split = len(values) - work.scanned
    states, arrays = list(values[:split]), values[split:]
    length = work.length([a.shape for a in arrays])
    moved = [np.moveaxis(a, axis, 0)[::-1 if back else 1]
             for a, axis, back in zip(arrays, work.in_axes, work.in_backwards, strict=True)]
    rows: list[list[np.ndarray]] = []
    native: NativeLoop | None = None
    slices: dict[int, np.ndarray] = {}
    k = 0
    while k < length:
        given = [*states, *(np.ascontiguousarray(a[k]).reshape(a.shape[1:]) for a in moved)]
        if k == 1 and length - k > FEW:
            native = body.native_loop(given, range(split), False)
            slices = {split + i: np.ascontiguousarray(a) for i, a in enumerate(moved)}
        if native is not None:
            count, found = native.run(k, length - k, slices)
            states = native.last()
        else:
            results = body(given)
            states = results[:split]
            count, found = 1, [r[None] for r in results[split:]]
        rows.append(found)
        k += count
    return [*states, *stack_results(work.body.outputs[split:], rows, work.out_axes, work.out_backwards)]


def batched_scan(work: Repeat, body: LoopBody, values: Sequence[Any]) -> list[Any]:
    """As before opset 9: a batch axis first, and optionally the length of each sequence; results end in zeros."""
    lengths, *arrays = values
    split = len(arrays) - work.scanned
    batch, longest = arrays[split].shape[0], arrays[split].shape[1]
    ends = [longest] * batch if lengths is None else [int(n) for n in lengths]
    parts = []
    for b in range(batch):
        *results, = scan(work, body, [*(a[b] for a in arrays[:split]), *(a[b][:ends[b]] for a in arrays[split:])])
        padded = [np.concatenate([r, np.zeros((longest - len(r), *r.shape[1:]), r.dtype)]) for r in results[split:]]
        parts.append([*results[:split], *padded])
    return [np.stack(column) for column in zip(*parts, strict=True)]


def sequence_map(work: Repeat, body: LoopBody, values: Sequence[Any]) -> list[Any]:
    """The body on each element of the first sequence, with those of the other sequences, and with whole tensors."""
    rows = [body([v[k] if isinstance(v, list) else v for v in values]) for k in range(len(values[0]))]
    return [[row[i] for row in rows] for i in range(len(work.body.outputs))]
