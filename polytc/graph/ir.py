"""Graph: a model as named values and the nodes that compute them; what an importer makes and every graph pass returns.

Semantics. Each value is computed by one node, given by the caller (`inputs`) or stored (`constants`). Nodes are in an order in
which each value is computed before it is used. A dimension may be a number, a name (one number for all its uses within a run)
or unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from polytc.program.scalars import DType, from_numpy

if TYPE_CHECKING:
    from polytc.codegen.target import Target
    from polytc.graph.model import Model

Dim: TypeAlias = int | str | None

REPEATED = ("Loop", "Scan", "SequenceMap")
"""Operators that run a body several times."""
CONTROL = ("If", *REPEATED)
"""Operators with bodies."""


@dataclass(frozen=True)
class Value:
    """What is known of a value before a run. dtype None: unknown or not a scalar type of polytc; shape None: unknown rank;
    tensor: false for sequences, maps and optional values. kind: of what has no dtype, its type as onnx writes it, e.g.
    'tensor(string)'; '' where the file does not say."""

    name: str
    dtype: DType | None = None
    shape: tuple[Dim, ...] | None = None
    tensor: bool = True
    kind: str = ""

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape, if every extent of it is a number."""
        if self.shape is None:
            return None
        numbers = tuple(d for d in self.shape if isinstance(d, int))
        return numbers if len(numbers) == len(self.shape) else None

    def __str__(self) -> str:
        dims = "[...]" if self.shape is None else f"[{', '.join('?' if d is None else str(d) for d in self.shape)}]"
        return f"{self.name}: {self.dtype or '?'}{dims}"


@dataclass(frozen=True)
class Node:
    """One operator. op: its type, e.g. 'Conv', prefixed 'domain::' outside of the standard operators.

    inputs: names of values, '' for an optional input that is left out. attributes: Python numbers, strings, lists of them,
    arrays, or a Graph for a body. opset: the version of the operator set that gives `op` its meaning.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 1

    def ints(self, name: str) -> list[int] | None:
        """An attribute as a list of numbers; None if it is not there, or something else."""
        found = self.attributes.get(name)
        return found if isinstance(found, list) and all(isinstance(x, int) for x in found) else None

    @property
    def label(self) -> str:
        """How messages call this node."""
        return f"{self.op} node {self.name!r}" if self.name else f"{self.op} node that computes {self.outputs[0]!r}"


@dataclass(frozen=True)
class Graph:
    """values: what is known about values, by name. constants: stored arrays, by name. outside: what is left to onnx's
    evaluator or to ONNX Runtime, one line for each node with the reason."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: Mapping[str, np.ndarray]
    values: Mapping[str, Value] = field(default_factory=dict)
    outside: tuple[str, ...] = ()

    def __str__(self) -> str:
        return format_graph(self)

    def report(self) -> str:
        """Sizes and operator counts, and the nodes that onnx's evaluator or ONNX Runtime will run."""
        weights = sum(a.size for a in self.constants.values())
        counts = Counter(n.op for n in self.nodes).most_common()
        return "\n".join([
            f"graph {self.name}: {len(self.nodes)} nodes, {weights:,} weights",
            *(f"  input   {v}" for v in self.inputs), *(f"  output  {v}" for v in self.outputs),
            "  " + ", ".join(f"{op} {n}" for op, n in counts),
            *(f"  {runner(each)} runs the {each}" for each in self.outside)])

    def draw(self) -> str:
        """The graph as a picture: the text of an SVG document (see graph.drawing)."""
        from polytc.graph import drawing  # running a model draws nothing

        return drawing.draw(self)

    def compile(self, target: str | Target = "cpu", threads: int | None = None,
                shapes: Mapping[str, tuple[int, ...]] | Sequence[Mapping[str, tuple[int, ...]]] | None = None,
                **options: Any) -> Model:
        """A Model that runs this graph; see `polytc.graph.model.compile_graph`."""
        # The only way up from this module: a function that polytc.graph puts here would be the same circle, seen neither by
        # readers nor by import-linter, and a Graph of another class would not stay one through `replace` in the passes.
        from polytc import graph

        return graph.compile_graph(self, target=target, threads=threads, shapes=shapes, **options)


class Unread(Graph):
    """A graph of which nodes, constants and values are read when they are first asked for; it is a plain Graph from then on, so
    that `replace` makes one. read: the whole graph."""

    def __init__(self, name: str, inputs: tuple[Value, ...], outputs: tuple[Value, ...], outside: tuple[str, ...],
                 read: Callable[[], Graph]) -> None:
        vars(self).update(name=name, inputs=inputs, outputs=outputs, outside=outside, _read=read)

    def __getattr__(self, name: str) -> Any:
        if name not in ("nodes", "constants", "values"):
            raise AttributeError(name)
        read = vars(self).get("_read")
        if read is not None:  # else another thread has been here meanwhile
            whole = read()
            vars(self).update(nodes=whole.nodes, constants=whole.constants, values=whole.values)
            object.__setattr__(self, "__class__", Graph)
            vars(self).pop("_read", None)
        return vars(self)[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph, (self.name, self.nodes, self.inputs, self.outputs, self.constants, self.values, self.outside)


def foreign(op: str) -> bool:
    """Is an operator (or that with which a text begins, as the label of a node) in a domain that is not onnx's own?"""
    domain, found, _ = op.partition("::")
    return bool(found) and " " not in domain and domain != "ai.onnx.ml" and not domain.startswith("ai.onnx.preview")


def runner(op: str) -> str:
    """Who runs what polytc has no text for."""
    return "ONNX Runtime" if foreign(op) else "onnx's evaluator"


def qualified(domain: str, op: str) -> str:
    """An operator as in Node.op: 'Conv', 'com.microsoft::FusedMatMul'."""
    return f"{domain}::{op}" if domain else op


def bodies(node: Node) -> list[Graph]:
    """The graphs among the attributes of a node: branches of an If, the body of a Loop."""
    return [v for v in node.attributes.values() if isinstance(v, Graph)]


def captured(graph: Graph) -> list[str]:
    """Values from outside of a body that it reads, those of the bodies within it included."""
    own = {v.name for v in graph.inputs} | set(graph.constants)
    found: dict[str, None] = {}
    for node in graph.nodes:
        found |= dict.fromkeys(n for n in reads(node) if n not in own)
        own.update(node.outputs)
    return list(found | dict.fromkeys(v.name for v in graph.outputs if v.name not in own))


def reads(node: Node) -> list[str]:
    """Values that a node needs: its inputs, and what its bodies take from outside."""
    return list(dict.fromkeys([n for n in node.inputs if n] + [n for body in bodies(node) for n in captured(body)]))


def consumers(graph: Graph) -> dict[str, list[Node]]:
    """value -> the nodes that read it, in order."""
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in reads(node):
            found.setdefault(name, []).append(node)
    return found


def makers(graph: Graph) -> dict[str, Node]:
    """The node that makes each value."""
    return {output: node for node in graph.nodes for output in node.outputs}


def sources(makers: Mapping[str, Node], name: str) -> set[str]:
    """The values that a value is computed from, itself included; reading only the shape of a value needs none. makers: the
    nodes, by their outputs."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            node = makers.get(each)
            todo += reads(node) if node is not None and node.op not in ("Shape", "Size") else ()
    return seen


def without_dead_nodes(graph: Graph) -> Graph:
    """The graph without nodes and constants that no output needs."""
    needed = {v.name for v in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(reads(node))
    constants = {k: a for k, a in graph.constants.items() if k in needed}
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)


# ---- printing

def _attribute(value: Any) -> str:
    match value:
        case np.ndarray():
            return f"{value.dtype}{list(value.shape)}" if value.size > 8 else f"{value.dtype}{value.tolist()}"
        case Graph():
            return f"graph {value.name}"
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return f"[{', '.join(map(_attribute, value))}]"
        case _:
            return str(value)


def _constant(name: str, array: np.ndarray) -> str:
    dtype = from_numpy(array.dtype)
    return f"{name}: {dtype or array.dtype}{list(array.shape)}"


def _typed(names: Iterable[str], values: Mapping[str, Value]) -> str:
    return ", ".join(str(values[n]) if n in values else n for n in names if n)


def format_graph(g: Graph) -> str:
    """The graph as text: inputs, constants with their shapes, one line for each node, outputs."""
    lines = [f"graph {g.name} {{"]
    lines += [f"    input {v}" for v in g.inputs]
    lines += [f"    constant {_constant(k, a)}" for k, a in g.constants.items()]
    for n in g.nodes:
        attributes = ", ".join(f"{k}={_attribute(v)}" for k, v in sorted(n.attributes.items()))
        call = f"{n.op}({', '.join(x or '-' for x in n.inputs)})"
        lines.append(f"    {_typed(n.outputs, g.values)} = {call}{' {' + attributes + '}' if attributes else ''}")
    lines += [f"    output {v}" for v in g.outputs]
    return "\n".join([*lines, "}"])
