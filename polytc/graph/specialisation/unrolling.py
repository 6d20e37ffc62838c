"""Short loops of known length become straight graphs: each iteration is the body once more, with names of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from polytc.graph import passes
from polytc.graph.hosts import Repeat, keeps_going
from polytc.graph.ir import CONTROL, Graph, Node, Value, captured
from polytc.graph.operators.routines import ROWS as ROUTINES
from polytc.graph.specialisation.control import Inlined, inlined, stateless

MOST_NODES = 256
"""Of all iterations together: beyond this the body is compiled once, and run once for each iteration."""


def unrolled_loop(node: Node, known: Mapping[str, np.ndarray]) -> Inlined | None:
    """The iterations of a Loop that makes a known number of them; None for any other."""
    trip, condition, *states = node.inputs
    body = stateless(node)
    count, going = known.get(trip), known.get(condition)
    if count is None or (condition and (going is None or not going.item())) or not keeps_going(body):
        return None
    n = int(count.item())
    if not _short(body, n):
        return None
    own = _whole(body)
    made = Inlined(constants={f"{_name(node)}/true": np.array(True)})
    rows: list[list[str]] = []
    for k in range(n):
        made.constants[f"{_name(node)}/{k}/k"] = np.array(k, np.int64)
        given = [f"{_name(node)}/{k}/k", f"{_name(node)}/true", *states]
        states, row = _iteration(node, own, k, given, made, len(states), skip=1)
        rows.append(row)
    made.nodes += _ends(node, states)
    made.add(_stacks(node, rows, len(states)))
    return made


def unrolled_scan(node: Node, work: Repeat, length: int) -> Inlined | None:
    """The iterations of a Scan over `length` slices; None if they are many."""
    body: Graph = node.attributes["body"]
    if work.batched or not _short(body, length):
        return None
    split = len(node.inputs) - work.scanned
    states, scanned = list(node.inputs[:split]), node.inputs[split:]
    own = _whole(body)
    made = Inlined()
    rows: list[list[str]] = []
    for k in range(length):
        slices = []
        for i, name in enumerate(scanned):
            place, slot = f"{_name(node)}/{k}/at{i}", f"{_name(node)}/{k}/slice{i}"
            made.constants[place] = np.array(length - 1 - k if work.in_backwards[i] else k, np.int64)
            made.nodes.append(Node("Gather", "", (name, place), (slot,), {"axis": work.in_axes[i]}, 13))
            slices.append(slot)
        states, row = _iteration(node, own, k, [*states, *slices], made, split)
        rows.append(row)
    made.nodes += _ends(node, states)
    made.add(_stacks(node, rows, split, work.out_axes, work.out_backwards))
    return made


def _name(node: Node) -> str:
    return next(filter(None, node.outputs), node.op)


def _short(body: Graph, count: int) -> bool:
    """Few nodes, all of them with text."""
    return 0 < count * len(body.nodes) <= MOST_NODES and not any(n.op in CONTROL or n.op in ROUTINES for n in body.nodes)


def _whole(body: Graph) -> Graph:
    """The body after all passes, with what it captures as further inputs."""
    return passes.run(replace(body, inputs=(*body.inputs, *map(Value, captured(body)))))


def _iteration(node: Node, body: Graph, k: int, given: Sequence[str], made: Inlined, states: int, skip: int = 0
               ) -> tuple[list[str], list[str]]:
    """Add one iteration to what is made; the names of its states and of its other results. skip: results before the states."""
    outputs = [f"{_name(node)}/{k}/result{i}" if i >= skip else "" for i in range(len(body.outputs))]
    names = dict(zip((v.name for v in body.inputs), given))
    made.add(inlined(body, names, tuple(outputs), f"{_name(node)}/{k}", f"{_name(node)}/own"))
    return outputs[skip:skip + states], outputs[skip + states:]


def _ends(node: Node, states: Sequence[str]) -> list[Node]:
    return [Node("Identity", "", (last,), (out,), {}, 13) for last, out in zip(states, node.outputs) if out]


def _stacks(node: Node, rows: Sequence[Sequence[str]], states: int, axes: Sequence[int] = (), backwards: Sequence[bool] = ()
            ) -> Inlined:
    """The results of all iterations side by side along new axes."""
    made = Inlined()
    for i, out in enumerate(node.outputs[states:]):
        if not out:
            continue
        axis = axes[i] if i < len(axes) else 0
        made.constants[f"{out}/axis"] = np.array([axis], np.int64)
        column = [row[i] for row in rows]
        made.nodes += [Node("Unsqueeze", "", (each, f"{out}/axis"), (f"{each}/row",), {}, 13) for each in column]
        ordered = column[::-1] if i < len(backwards) and backwards[i] else column
        made.nodes.append(Node("Concat", "", tuple(f"{each}/row" for each in ordered), (out,), {"axis": axis}, 13))
    return made
