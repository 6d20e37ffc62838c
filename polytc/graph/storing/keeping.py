"""What `stored` will find: graphs and models of this process, written to disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from polytc import keys
from polytc.disk import cache, mapped, weights
from polytc.graph.ir import Graph, Value
from polytc.graph.plan import Plan
from polytc.graph.running.instance import Instance, compiled_programs
from polytc.graph.storing.stored import LENGTH, Choices, Made, Origin, Source, behind, mark, start_key
from polytc.targets.registry import target

LARGEST = 64 << 20
"""Bytes of weights in no file, because a pass made them; with more a model is not kept: so that code keeps its place."""


def keep_graph(found: Origin, graph: Graph, files: Iterable[np.ndarray]) -> None:
    """Keep what a graph declares. files: all that it was read from; where one was changed just now, nothing is kept."""
    rows = [Source.behind(f) for f in files if mapped.origin(f) is not None]
    known = [source for source in rows if source is not None]
    if len(known) != len(rows) or found.stamp not in [source.stamp for source in known]:
        return
    head = {"name": graph.name, "inputs": list(map(_row, graph.inputs)), "outputs": list(map(_row, graph.outputs)),
            "outside": graph.outside, "files": [source.row() for source in known]}
    cache.put(found.key, json.dumps(head).encode())
    mark(graph, found, known)


def _row(v: Value) -> list[Any]:
    return [v.name, None if v.dtype is None else v.dtype.name, v.shape, v.tensor, v.kind]


def keep_start(graph: Graph, choices: Choices, shapes: Mapping[str, Sequence[int]], instance: Instance) -> None:
    """Keep a model for these shapes, if it is one native call, and nothing in it depends on more than its file and options.
    instance: all of the model, for inputs of these shapes and whatever values."""
    key = start_key(graph, choices, shapes)
    to = target(choices.target) if key is not None else None
    if key is None or to is None or not instance.chain.native or not keys.lasting(to):
        return
    plan = instance.plan
    constants = _constants(plan)
    if plan.inputs != tuple(v.name for v in graph.inputs) or constants is None:
        return
    rows, files, blob = constants
    codes = [keys.key(p, to, None) for p in compiled_programs(plan, choices.licence)]
    kernels = list(dict.fromkeys(codes))
    used = {*plan.inputs, *plan.lasting, *(n for c in plan.calls for n in (*c.inputs, *c.outputs)),
            *(g.value for c in plan.calls for g in c.guards)}
    used |= {plan.base(n) for n in used}
    head = {"name": plan.name, "inputs": plan.inputs, "outputs": plan.outputs, "kernels": kernels,
            "tiles": to.machine.has("amx-tile"),
            "types": {n: (t.dtype.name, t.shape) for n, t in plan.types.items() if n in used},
            "aliases": {n: plan.base(n) for n in used if n in plan.aliases}, "constants": rows, "files": files,
            "links": [(kernels.index(code), c.inputs, c.outputs, [(g.value, g.taken) for g in c.guards])
                      for code, c in zip(codes, plan.calls, strict=True)],
            "arena": instance.arena.bytes, "offsets": instance.arena.offsets,
            "index_checks": [astuple(w) for w in plan.index_checks],
            "rounds": plan.rounds, "split": sorted(plan.split & used)}
    text = json.dumps(head).encode()
    cache.put(key, b"".join([LENGTH.pack(len(text)), text, *blob]))


_Rows = dict[str, tuple[int | None, int]]
"""Constant -> the number of its file, None for what is kept with the model, and bytes from the start there."""


def _constants(plan: Plan) -> tuple[_Rows, list[tuple[Any, ...]], list[bytes]] | None:
    """Where the constants are, the files, and what lies in none; None if that is too much or a file is not what it was."""
    rows: _Rows = {}
    files = list[Source | Made]()
    known = dict[mapped.Origin, Source | Made | None]()
    blob, size = list[bytes](), 0
    for name, array in plan.constants.items():
        found, at = mapped.origin(array), mapped.offset(array)
        little = found is not None and not found.live and array.nbytes < weights.LEAST  # not worth mapping a file
        if found is not None and not little and array.flags.c_contiguous and array.dtype.isnative:
            if found not in known:
                known[found] = behind(array)
            source = known[found]
            if source is None:
                return None
            if source not in files:
                files.append(source)
            rows[name] = files.index(source), at
        else:
            rows[name] = None, size
            blob.append(np.ascontiguousarray(array).tobytes())
            size += array.nbytes
            if size > LARGEST:
                return None
    return rows, [source.row() for source in files], blob
