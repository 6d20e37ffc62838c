"""Nodes of ONNX Runtime's own operators to nodes of onnx's.

When a model is read, each node becomes what its text says (`expand`), so that passes see plain operators. A text that
depends on shapes or types that the file does not tell is written when these are known (`definition`)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.parser

from polytc.graph.ir import Graph, Node, Value, bodies
from polytc.graph.onnx.contrib.blocked_channels import unblocked
from polytc.graph.onnx.contrib.sites import NoText, Shape, ShapesNeeded, Site
from polytc.graph.onnx.contrib.table import CONTRIB, Contrib
from polytc.graph.onnx.importer import nodes_of
from polytc.graph.ranks import rank
from polytc.graph.user_operators import OWN_TEXTS
from polytc.program.traces.traced import by_number, is_tracing, named_numbers, number_of_word

DOMAIN = "com.microsoft"
OPSET = 23
"""Of onnx's operators in the texts."""
_STANDARD = frozenset({"SimplifiedLayerNormalization"})
"""ONNX Runtime's operators that it writes without a domain."""
_NONE: Mapping[str, np.ndarray] = {}


def of_contrib(op: str) -> Contrib | None:
    """The operator of a node called `op`, if it is one of ONNX Runtime's that has a text, and for which no user has one."""
    domain, _, name = op.rpartition("::")
    return CONTRIB.get(name) if (domain == DOMAIN or op in _STANDARD) and op not in OWN_TEXTS else None


def why_not(node: Node) -> str | None:
    """Why a node of one of ONNX Runtime's operators has no text, as far as its attributes tell; None where it may have one."""
    known = of_contrib(node.op)
    if known is None:
        return "polytc has no text for it"
    try:
        _parsed(node, known, {}, {})
    except ShapesNeeded:
        return None
    except NoText as reason:
        return str(reason)
    return None


def expand(graph: Graph, outer: Mapping[str, np.ndarray] = _NONE) -> Graph:
    """The graph with onnx's operators in place of ONNX Runtime's, in bodies too, as far as a text can be written by now.
    outer: constants of the graphs around."""
    graph = unblocked(graph, outer)
    if not any(of_contrib(node.op) or bodies(node) for node in graph.nodes):
        return graph
    taken = {n for node in graph.nodes for n in (*node.inputs, *node.outputs)} | set(graph.constants)
    fresh = (name for k in itertools.count() if (name := f"contrib{k}") not in taken)
    known, nodes = _Known.of(graph, outer), list[Node]()
    for node in graph.nodes:
        for made in _made(node, known, fresh):
            known.learn(made)
            nodes.append(made)
    return replace(graph, nodes=tuple(nodes))


class _Known:
    """What a file tells of values: extents of constants alone, as sizes of a run need not be those that are declared."""

    def __init__(self, shapes: dict[str, Shape], types: Mapping[str, np.dtype], stored: Mapping[str, np.ndarray]) -> None:
        self.shapes, self.types, self.stored = shapes, types, stored
        self.ranks = {n: len(s) for n, s in shapes.items() if s is not None}

    def learn(self, node: Node) -> None:
        """The ranks of the results of a node."""
        found, perm = rank(node, self.ranks), node.ints("perm")
        if found is None and node.op == "Transpose" and perm is not None:
            found = len(perm)
        elif found is None and node.op in ("Conv", "QLinearConv"):
            found = self.ranks.get(node.inputs[1 if node.op == "Conv" else 3])
        elif found is None and node.op in ("QuantizeLinear", "DequantizeLinear"):
            found = self.ranks.get(node.inputs[0])
        for name in node.outputs if found is not None else ():
            self.shapes.setdefault(name, (None,) * (found or 0))
            self.ranks.setdefault(name, found or 0)

    @staticmethod
    def of(graph: Graph, outer: Mapping[str, np.ndarray]) -> _Known:
        stored = {**outer, **graph.constants}
        shapes: dict[str, Shape] = {n: (None,) * len(v.shape) for n, v in graph.values.items() if v.shape}
        types = {n: v.dtype.numpy for n, v in graph.values.items() if v.dtype is not None}
        return _Known(shapes | {n: a.shape for n, a in stored.items()}, types | {n: a.dtype for n, a in stored.items()}, stored)


def _made(node: Node, values: _Known, fresh: Iterator[str]) -> Iterator[Node]:
    inner = {n: expand(v, values.stored) for n, v in node.attributes.items() if isinstance(v, Graph)}
    node = replace(node, attributes={**node.attributes, **inner}) if inner else node
    known = of_contrib(node.op)
    try:
        body, names = _parsed(node, known, values.shapes, values.types) if known is not None else (None, {})
    except (NoText, ShapesNeeded):
        body = None
    if body is None:
        yield node
        return
    for name in (n for p in body.node for n in p.output if n and n not in names):
        names[name] = next(fresh)
    for each in _renamed(body, names, node):
        yield from _made(each, values, fresh)


def definition(node: Node, types: Sequence[tuple[np.dtype, tuple[int, ...]] | None]) -> Graph | None:
    """What a node of one of ONNX Runtime's operators is for inputs of these types (None for those left out), as a graph whose
    inputs are those that the node has and whose outputs are those that it names, in order; None where there is no such
    operator. Raises NoText."""
    known = of_contrib(node.op)
    if known is None:
        return None
    shapes: dict[str, Shape] = {n: t[1] for n, t in zip(node.inputs, types, strict=True) if t is not None}
    body, names = _parsed(node, known, shapes, {n: t[0] for n, t in zip(node.inputs, types, strict=True) if t is not None})
    given = {a: f"given{i}" for i, a in enumerate(node.inputs) if a}
    inputs = tuple(Value(f"given{i}") for i, a in enumerate(node.inputs) if a)
    outputs = {a: f"made{i}" for i, a in enumerate(node.outputs) if a}
    own = {f: outputs.get(a) or given[a] for f, a in names.items()}
    nodes = map(_decoded, _renamed(body, own, node)) if is_tracing() else _renamed(body, own, node)
    return Graph(node.op, tuple(nodes), inputs, tuple(map(Value, outputs.values())), {})


def _parsed(node: Node, known: Contrib, shapes: Mapping[str, Shape], types: Mapping[str, np.dtype]
            ) -> tuple[onnx.FunctionProto, dict[str, str]]:
    """The text of a node, and formal -> actual names of its inputs and outputs. Raises NoText and ShapesNeeded."""
    formal = _formal(known, len(node.inputs))
    if len(node.inputs) > len(formal) or len(node.outputs) > len(known.outputs):
        raise NoText("it has more inputs or outputs than polytc knows of")
    actual = {f.removesuffix("?"): a for f, a in zip(formal, node.inputs, strict=False) if a}
    results = {f: a for f, a in zip(known.outputs, node.outputs, strict=False) if a}
    site = Site(node.attributes, frozenset(actual), frozenset(results),
        {f: shapes[a] for f, a in actual.items() if a in shapes},
                {f: types[a] for f, a in actual.items() if a in types})
    missing = next((f for f in formal if not f.endswith("?") and f not in actual), None)
    if missing is not None:
        raise NoText(f"it has no {missing!r}")
    imports = f'<opset_import: ["" : {OPSET}, "{DOMAIN}" : 1], domain: "{DOMAIN}">'
    text = f'{imports} F ({", ".join(actual)}) => ({", ".join(results)}) {{\n{known.text(site)}\n}}'
    return onnx.parser.parse_function(_coded(text)), actual | results


TRACED = 0x51C0_DE00_0000_0000
"""An integer from here on stands for a traced size in a text of onnx's, whose attributes can be numbers alone."""


def _coded(text: str) -> str:
    """The text with integers in place of the words for traced sizes."""
    for word in named_numbers(text):
        text = re.sub(rf"\b{word}\b", str(TRACED + number_of_word(word)), text)
    return text


def _decoded(node: Node) -> Node:
    """The node with traced sizes in place of the integers for them."""
    def number(n: Any) -> Any:
        return n if not isinstance(n, int) or abs(n) < TRACED else by_number(n - TRACED) if n > 0 else -by_number(-n - TRACED)
    return replace(node, attributes={k: [number(n) for n in v] if isinstance(v, list) else number(v)
                                     for k, v in node.attributes.items()})


def _renamed(body: onnx.FunctionProto, names: Mapping[str, str], node: Node) -> Iterator[Node]:
    for n in nodes_of(body.node, {"": OPSET, DOMAIN: 1}):
        yield replace(n, name=node.name, inputs=tuple(names.get(i, i) for i in n.inputs),
                      outputs=tuple(names.get(o, o) for o in n.outputs))


def _formal(known: Contrib, count: int) -> tuple[str, ...]:
    fixed = [n for n in known.inputs if not n.endswith("*")]
    repeated = [n.removesuffix("*") for n in known.inputs if n.endswith("*")]
    for k in itertools.count() if repeated else ():
        if len(fixed) >= count:
            break
        fixed += [f"{n}{k}" for n in repeated]
    return tuple(fixed)


