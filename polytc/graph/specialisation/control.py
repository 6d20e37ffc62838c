"""Control flow: branches become part of the graph around them, bodies of loops become graphs of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph import passes
from polytc.graph.hosts import Host, Repeat
from polytc.graph.ir import Graph, Node, Value, captured
from polytc.graph.specialisation.declared import Promise


@dataclass
class Inlined:
    """Nodes that take the place of another one, the constants that came with them, and what their bodies declare."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    promises: list[Promise] = field(default_factory=list)

    def add(self, other: Inlined) -> None:
        self.nodes += other.nodes
        self.constants |= other.constants
        self.promises += other.promises


def branch(node: Node, taken: bool) -> Inlined:
    """The nodes and constants that an If comes down to once its condition is known.

    Values of the branch get the name of the If before theirs, so that they meet no others.
    """
    body: Graph = node.attributes["then_branch" if taken else "else_branch"]
    return inlined(body, {}, node.outputs, node.outputs[0])


def inlined(body: Graph, given: Mapping[str, str], outputs: tuple[str, ...], prefix: str, constant: str = "") -> Inlined:
    """A body as nodes of the graph around it. given: names there for the body's inputs; outputs: names there of its results;
    prefix: before the names of its own values; constant: before those of its constants, if another."""
    names = {n: f"{prefix}/{n}" for node in body.nodes for n in node.outputs if n}
    names |= {n: f"{constant or prefix}/{n}" for n in body.constants} | dict(given)
    nodes = [renamed(node, names) for node in body.nodes]
    constants = {names[n]: a for n, a in body.constants.items()}
    nodes += [Node("Identity", "", (names.get(v.name, v.name),), (out,), {}, 13)
              for v, out in zip(body.outputs, outputs, strict=True) if out]
    promise = Promise(f"of the body {body.name!r}", tuple((v, given[v.name]) for v in body.inputs if v.name in given),
                      tuple((v, out) for v, out in zip(body.outputs, outputs) if out))
    return Inlined(nodes, constants, [promise])


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """The node with other names of values, in its bodies too."""
    attributes = {k: _renamed_body(v, names) if isinstance(v, Graph) else v for k, v in node.attributes.items()}
    return replace(node, inputs=tuple(names.get(n, n) for n in node.inputs),
                   outputs=tuple(names.get(n, n) for n in node.outputs), attributes=attributes)


def _renamed_body(body: Graph, names: Mapping[str, str]) -> Graph:
    own = {n for node in body.nodes for n in node.outputs} | set(body.constants) | {v.name for v in body.inputs}
    outer = {old: new for old, new in names.items() if old not in own}
    outputs = tuple(replace(v, name=outer.get(v.name, v.name)) for v in body.outputs)
    return replace(body, nodes=tuple(renamed(n, outer) for n in body.nodes), outputs=outputs)


def repeated(node: Node, known: Mapping[str, np.ndarray]) -> Host:
    """The step that runs the body of a Loop, a Scan or a SequenceMap. known: values that the body may take as constants."""
    work = repeat(node, known)
    work = replace(work, body=passes.run(work.body))
    return Host(node.label, node.op, work, (*node.inputs, *work.captured), node.outputs)


def repeat(node: Node, known: Mapping[str, np.ndarray]) -> Repeat:
    """What is repeated, as the file has it."""
    body = stateless(node)
    outside = captured(body)
    constants = {n: known[n] for n in outside if n in known}
    late = tuple(n for n in outside if n not in known)
    whole = replace(body, inputs=(*body.inputs, *map(Value, late)), constants={**body.constants, **constants})
    work = Repeat(node.op, whole, late)
    return replace(work, **_scan(node, body)) if node.op == "Scan" else work


def stateless(node: Node) -> Graph:
    """The body of a node that repeats it. The states of a Loop may change their shapes: what it declares of these holds in no
    iteration in particular."""
    body: Graph = node.attributes["body"]
    if node.op != "Loop":
        return body
    states = range(1, len(node.inputs) - 1)
    return replace(body, outputs=tuple(replace(v, shape=None) if i in states else v for i, v in enumerate(body.outputs)))


def _scan(node: Node, body: Graph) -> dict[str, Any]:
    """The axes and directions of a Scan. Before opset 9 it had a batch axis, and the lengths of the sequences as an input."""
    count = node.attributes["num_scan_inputs"]
    states = len(body.inputs) - count
    results = len(body.outputs) - states
    given = len(node.inputs) - (node.opset < 9)
    if not 0 < count <= given or given != len(body.inputs) or results < 0 or len(node.outputs) > len(body.outputs):
        raise fail("E609", f"{node.label}: {given} inputs, {count} of them scanned, and {len(node.outputs)} outputs do not fit "
                   f"a body of {len(body.inputs)} inputs and {len(body.outputs)} outputs", kind=ModelError)

    def numbers(name: str, n: int) -> tuple[int, ...]:
        found = tuple(node.attributes.get(name) or [0] * n)
        if len(found) != n or name.endswith("directions") and not {*found} <= {0, 1}:
            raise fail("E609", f"{node.label}: the attribute {name!r} is {list(found)}, {n} are needed", kind=ModelError)
        return found

    axes = numbers("scan_output_axes", results)
    for v, axis in zip(body.outputs[states:], axes):
        if v.shape and not -len(v.shape) - 1 <= axis <= len(v.shape):
            raise fail("E609", f"{node.label}: the attribute 'scan_output_axes' is {list(axes)}, results have "
                       f"{len(v.shape) + 1} axes", kind=ModelError)
    return {"scanned": count, "batched": node.opset < 9, "in_axes": numbers("scan_input_axes", count),
            "in_backwards": tuple(map(bool, numbers("directions" if node.opset < 9 else "scan_input_directions", count))),
            "out_axes": axes,
            "out_backwards": tuple(map(bool, numbers("scan_output_directions", results)))}
