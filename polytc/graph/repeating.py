"""The iterations of Loop, Scan and SequenceMap over a body that is compiled for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph import memory
from polytc.graph.hosts import Repeat, Work
from polytc.graph.ir import Value

Body = Callable[[Sequence[Any]], list[Any]]
"""Runs a body once: the values of its inputs, captured ones included, to those of its outputs."""


def repeating(work: Repeat, body: Body) -> Work:
    """The function that runs all iterations."""
    runs = {"Loop": loop, "Scan": batched_scan if work.batched else scan, "SequenceMap": sequence_map}[work.kind]

    def run(*values: Any) -> list[Any]:
        split = len(values) - len(work.captured)
        own, outside = values[:split], values[split:]
        return runs(work, lambda given: body([*given, *outside]), own)
    return run


def loop(work: Repeat, body: Body, values: Sequence[Any]) -> list[Any]:
    """Trip count, condition, states; results: the last states, and what each iteration gave, stacked."""
    trip, condition, *states = values
    last = None if trip is None else int(np.asarray(trip).item())
    more = condition is None or bool(np.asarray(condition).item())
    rows: list[list[np.ndarray]] = []
    k = size = 0
    while more and (last is None or k < last):
        going, *results = body([np.array(k, np.int64), np.array(True), *states])
        more, states = bool(np.asarray(going).item()), results[:len(states)]
        rows.append(results[len(states):])
        k, size = k + 1, size + sum(r.nbytes for r in rows[-1])
        if size > memory.LARGEST:
            raise fail("E612", f"the results of a Loop have {size / 1e9:,.1f} GB after {k} iterations", kind=ModelError)
    return [*states, *stacked(work.body.outputs[1 + len(states):], rows)]


def stacked(declared: Sequence[Value], rows: Sequence[Sequence[np.ndarray]], axes: Sequence[int] = (),
            backwards: Sequence[bool] = ()) -> list[np.ndarray]:
    """The values of all iterations side by side along a new axis. Without any, an empty array of the declared type."""
    found = []
    for i, v in enumerate(declared):
        axis = axes[i] if i < len(axes) else 0
        if not rows:
            dtype = v.dtype.numpy if v.dtype is not None else np.dtype(np.float32)
            found.append(np.zeros((0, *(d if isinstance(d, int) else 0 for d in v.shape or ())), dtype))
            continue
        column = [row[i] for row in rows]
        found.append(np.stack(column[::-1] if i < len(backwards) and backwards[i] else column, axis))
    return found


def scan(work: Repeat, body: Body, values: Sequence[Any]) -> list[Any]:
    """States, then arrays that are read slice by slice."""
    split = len(values) - work.scanned
    states, arrays = list(values[:split]), values[split:]
    moved = [np.moveaxis(a, axis, 0)[::-1 if back else 1]
             for a, axis, back in zip(arrays, work.in_axes, work.in_backwards, strict=True)]
    rows = []
    for slices in _together(moved):
        results = body([*states, *slices])
        states = results[:split]
        rows.append(results[split:])
    return [*states, *stacked(work.body.outputs[split:], rows, work.out_axes, work.out_backwards)]


def _together(arrays: Sequence[np.ndarray]) -> Iterable[list[np.ndarray]]:
    length = min((len(a) for a in arrays), default=0)
    return ([np.ascontiguousarray(a[t]).reshape(a.shape[1:]) for a in arrays] for t in range(length))


def batched_scan(work: Repeat, body: Body, values: Sequence[Any]) -> list[Any]:
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


def sequence_map(work: Repeat, body: Body, values: Sequence[Any]) -> list[Any]:
    """The body on each element of the first sequence, with those of the other sequences, and with whole tensors."""
    rows = [body([v[k] if isinstance(v, list) else v for v in values]) for k in range(len(values[0]))]
    return [[row[i] for row in rows] for i in range(len(work.body.outputs))]
