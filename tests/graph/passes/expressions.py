"""Graphs written as expressions of operators: `Relu(Transpose(x, perm=[1, 0]))`.

Names are values, numbers constants of f32, keywords attributes. Statements in front, as in `a = Exp(x); Add(a, a)`,
name what is read more than once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

import polytc
from polytc.graph import passes
from polytc.graph.ir import Graph, Node
from tests.graph.small_models import model_of

OPSET = 21


def _statements(text: str) -> list[ast.stmt]:
    """w' is a name, too: of a constant that a pass has made."""
    return ast.parse(re.sub(r"(\w)'", r"\1_made", " ".join(text.split()))).body


class _Writer:
    """Writes expressions as nodes of ONNX."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.numbers: dict[str, np.ndarray] = {}

    def value(self, e: ast.expr, name: str = "") -> str:
        """The name of the value that an expression computes, as which it is known if it has none."""
        match e:
            case ast.Name():
                return e.id
            case ast.Constant():
                key = f"number{len(self.numbers)}"
                self.numbers[key] = np.float32(e.value)
                return key
            case ast.Call(func=ast.Name(id=op)):
                inputs = ["" if isinstance(a, ast.Constant) and a.value is None else self.value(a) for a in e.args]
                attributes = {k.arg: ast.literal_eval(k.value) for k in e.keywords}
                name = name or f"v{len(self.nodes)}"
                self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
                return name
        raise AssertionError(ast.dump(e))


def graph_of(text: str, inputs: Mapping[str, tuple[np.dtype, tuple[int, ...]]], constants: Mapping[str, np.ndarray]) -> Graph:
    """The graph before any pass; its outputs are the expressions that have no name."""
    writer, outputs = _Writer(), []
    for s in _statements(text):
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
            writer.value(s.value, s.targets[0].id)
        elif isinstance(s, ast.Expr):
            outputs.append(writer.value(s.value, f"result{len(outputs)}"))
    model = model_of(writer.nodes, dict(inputs), outputs, {**constants, **writer.numbers}, OPSET)
    return polytc.load_onnx(model, without=list(passes.PIPELINE))


def is_shown(text: str, graph: Graph, known: frozenset[str]) -> bool:
    """Does the text show the graph? known: the names of constants before the pass; a name with ' stands for any other one.
    Attributes that the text does not give are not looked at."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    named: dict[str, str] = {}
    seen = set[str]()

    def same(e: ast.expr, value: str) -> bool:
        match e:
            case ast.Name(id=name) if name.endswith("_made"):
                return value in graph.constants and value not in known
            case ast.Name(id=name):
                return named.get(name, name) == value
            case ast.Constant():
                return value in graph.constants and np.all(graph.constants[value] == e.value)
            case ast.Call(func=ast.Name(id=op)):
                return value in makers and called(e, op, makers[value])
        raise AssertionError(ast.dump(e))

    def called(e: ast.Call, op: str, node: Node) -> bool:
        seen.add(node.outputs[0])
        stated = {k.arg or "": ast.literal_eval(k.value) for k in e.keywords}
        inputs = [n for n in node.inputs if n]
        return (node.op == op and len(inputs) == len(e.args) and all(map(same, e.args, inputs))
                and all(_plain(node.attributes.get(k)) == v for k, v in stated.items()))

    outputs = [v.name for v in graph.outputs]
    for s in _statements(text):
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and isinstance(s.value, ast.Call):
            found = next((n for n in graph.nodes if n.outputs[0] not in named.values() and same(s.value, n.outputs[0])), None)
            if found is None:
                return False
            named[s.targets[0].id] = found.outputs[0]
        elif isinstance(s, ast.Expr) and not (outputs and same(s.value, outputs.pop(0))):
            return False
    return not outputs and seen >= {n.outputs[0] for n in graph.nodes}


def _plain(attribute: Any) -> Any:
    return attribute.tolist() if isinstance(attribute, np.ndarray) else attribute
