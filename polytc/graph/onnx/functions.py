"""Operators that onnx defines by a function of other operators: their bodies in place of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnx.inliner

from polytc.errors import ModelError
from polytc.graph.ir import Graph, Node, bodies
from polytc.graph.onnx import domains
from polytc.graph.onnx.importer import import_model
from polytc.graph.onnx.node_evaluator import node_of


def expanded(model: onnx.ModelProto, native: Callable[[str], bool]) -> onnx.ModelProto:
    """The model with the bodies of functions in place of operators that are not native. native: of a name as in Node.op.

    What onnx cannot expand stays as it is.
    """
    versions = domains.versions(model)
    found = {(domain, n.op_type) for n in _nodes(model.graph) for domain in [domains.domain_of(n)]
             if not native(domains.operator_of(n)) and _is_function(domain, n.op_type, versions)}
    return _inlined(model, found) or model if found else model


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for a in node.attribute:
            for body in ([a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs):
                yield from _nodes(body)


def _is_function(domain: str, op: str, versions: Mapping[str, int]) -> bool:
    try:
        schema = onnx.defs.get_schema(op, versions.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _inlined(model: onnx.ModelProto, functions: set[tuple[str, str]]) -> onnx.ModelProto | None:
    """The model with these operators expanded; None where onnx cannot."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    versions = domains.versions(model)
    for node in _nodes(whole.graph):
        if (domains.domain_of(node), node.op_type) in functions:
            _complete(node, versions)
    try:
        result = onnx.inliner.inline_selected_functions(whole, sorted(functions), inline_schema_functions=True)
    except Exception:  # whatever onnx's C++ code raises
        return None
    if not any(not domains.domain_of(o) for o in result.opset_import):
        result.opset_import.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    return result


def _complete(node: onnx.NodeProto, versions: Mapping[str, int]) -> None:
    """Write down the attributes that a node leaves at their defaults, which a body refers to."""
    domain = domains.domain_of(node)
    given = {a.name for a in node.attribute}
    for name, attribute in onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain).attributes.items():
        if name not in given and attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            node.attribute.append(attribute.default_value)


def function_body(node: Node, types: Sequence[tuple[np.dtype, tuple[int, ...]] | None]) -> Graph | None:
    """The body of a node's operator for inputs of these types (None for those left out), as a graph whose inputs x0, x1, ...
    are the node's and whose outputs are those that it names, in order; None where onnx has no body for it."""
    domain, _, op = node.op.rpartition("::")
    if bodies(node) or not _is_function(domain, op, {domain: node.opset}):
        return None
    inputs = [f"x{i}" if t is not None else "" for i, t in enumerate(types)]
    infos = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(t[0]), t[1])
             for name, t in zip(inputs, types, strict=True) if t is not None]
    outputs = [f"y{i}" if n else "" for i, n in enumerate(node.outputs)]
    graph = onnx.helper.make_graph([node_of(node, inputs, outputs)], node.op, infos,
                                   [onnx.helper.make_empty_tensor_value_info(n) for n in outputs if n])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, node.opset)])
    body = _inlined(model, {(domain, op)})
    try:
        found = import_model(body) if body is not None else None
    except ModelError:
        return None
    return found if found is not None and all(n.op != node.op for n in found.nodes) else None
