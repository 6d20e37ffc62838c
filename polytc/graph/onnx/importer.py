"""ModelProto to Graph: names, types, constants and attributes become plain Python and numpy values."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import numpy_helper

from polytc import errors
from polytc.errors import Diagnostic, ModelError, fail
from polytc.graph.ir import Dim, Graph, Node, Value
from polytc.graph.onnx import domains
from polytc.graph.onnx.contracts import contradictions, type_text
from polytc.graph.onnx.external import Files, array_of
from polytc.graph.onnx.function_versions import all_nodes, mixed, of_one_version
from polytc.program.scalars import DType, from_numpy

errors.register(E606="broken graph", E607="tensor that cannot be read", E613="version of the operator set")

MOST_NODES = 100_000
"""That functions of a model may come to. The largest models have some ten thousand."""

OLDEST_OPSET = 6
"""Of the standard operators; before, many of them had other attributes and rules."""


def import_model(model: onnx.ModelProto, files: Files | None = None) -> Graph:
    """The main graph of a model, with model-local functions inlined. files: of external data. Raises ModelError for a graph
    that is not well formed, and for data that cannot be read."""
    model = inlined(model)
    opsets = domains.versions(model)
    _check_opset(model, opsets)
    graph = _graph(model.graph, _Context(opsets, files or Files()))
    bodies = [a.g for n in all_nodes(model.graph.node) for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    graphs = [(model.graph, True), *((body, False) for body in bodies)]
    problems = [p for g, whole in graphs for p in (*_twice(g, whole), *_otherwise(g))] + _problems(graph, set())
    found = [Diagnostic("E606", p) for p in problems] or contradictions(model.graph, opsets)
    if found:
        raise ModelError(found)
    return graph


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own. Raises ModelError E606."""
    if not model.functions:
        return model
    if (nodes := _nodes_of_functions(model)) > MOST_NODES:
        raise fail("E606", f"the functions of the model stand for {nodes:,} nodes", kind=ModelError,
                   notes=[f"polytc takes up to {MOST_NODES:,}: functions that call functions twice double them at each level"])
    model = of_one_version(model)
    if mixed(model):
        with contextlib.suppress(Exception):  # of onnx's C++ code, where it cannot convert: the call remains
            return onnx.inliner.inline_local_functions(model, convert_version=True)
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # whatever onnx's C++ code raises
        raise fail("E606", f"the functions of the model cannot be inlined: {error}", kind=ModelError) from error


def _nodes_of_functions(model: onnx.ModelProto) -> int:
    """How many nodes the graph has once each call of a function is its body. Raises ModelError E606 for functions that call
    themselves."""
    bodies = {(f.domain, f.name): list(all_nodes(f.node)) for f in model.functions}
    called = {name: [key for n in nodes if (key := (n.domain, n.op_type)) in bodies] for name, nodes in bodies.items()}
    sizes: dict[tuple[str, str], int] = {}
    try:
        for name in TopologicalSorter(called).static_order():
            sizes[name] = len(bodies[name]) - len(called[name]) + sum(sizes[key] for key in called[name])
    except CycleError as error:
        names = " -> ".join(op for _, op in error.args[1])
        raise fail("E606", f"functions of the model call themselves: {names}", kind=ModelError) from None
    return sum(sizes.get((n.domain, n.op_type), 1) for n in all_nodes(model.graph.node))


def _check_opset(model: onnx.ModelProto, opsets: dict[str, int]) -> None:
    """The version of the standard operators, which decides what they mean, is one that polytc and onnx know."""
    if not any(not domains.domain_of(n) for n in model.graph.node):
        return
    version, newest = opsets.get(""), onnx.defs.onnx_opset_version()
    if version is None:
        raise fail("E613", "the model does not say which version of the standard operator set it uses", kind=ModelError,
                   notes=["it has no opset_import for the domain ''; export it again"])
    if not OLDEST_OPSET <= version <= newest and not _unchanged(model, version):
        raise fail("E613", f"the model uses opset {version} of the standard operators, polytc has {OLDEST_OPSET} to {newest}",
                   kind=ModelError, notes=["install a newer onnx" if version > newest else
                                           "convert it: onnx.version_converter.convert_version(model, 13)"])


def _unchanged(model: onnx.ModelProto, version: int) -> bool:
    """Do all operators of the model mean in an older version of the operator set what they mean in the oldest that is known?"""
    nodes = model.graph.node
    if not 0 < version < OLDEST_OPSET or any(a.type == onnx.AttributeProto.GRAPH for n in nodes for a in n.attribute):
        return False

    def since(op: str, opset: int) -> int:
        return onnx.defs.get_schema(op, opset).since_version

    try:
        return all(since(n.op_type, version) == since(n.op_type, OLDEST_OPSET) for n in nodes if not domains.domain_of(n))
    except onnx.defs.SchemaError:
        return False


@dataclass(frozen=True)
class _Context:
    """opsets: domain -> version of its operators. files: where the data of tensors may lie."""

    opsets: Mapping[str, int]
    files: Files


def _graph(proto: onnx.GraphProto, context: _Context) -> Graph:
    constants = {t.name: _array(t, context) for t in proto.initializer}
    constants |= {s.values.name: _dense(s, context) for s in proto.sparse_initializer}
    inputs = tuple(declared(v) for v in proto.input if v.name not in constants)
    values = {v.name: declared(v) for v in (*proto.value_info, *proto.input, *proto.output)}
    nodes = tuple(_node(n, context) for n in proto.node)
    return Graph(proto.name or "graph", nodes, inputs, tuple(map(declared, proto.output)), constants, values)


def _node(proto: onnx.NodeProto, context: _Context) -> Node:
    attributes = {a.name: _attribute(a, context) for a in proto.attribute}
    operator, opset = domains.operator_of(proto), context.opsets.get(domains.domain_of(proto), 1)
    if operator == "Constant":
        attributes = _constant(attributes)
    return Node(operator, proto.name, tuple(proto.input), tuple(proto.output), attributes, opset)


def _constant(attributes: dict[str, Any]) -> dict[str, Any]:
    """Words and sparse tensors are tensors as others are."""
    other = next((a for n, a in attributes.items() if n in ("value_string", "value_strings", "sparse_value")), None)
    return attributes if other is None else {"value": other if isinstance(other, np.ndarray) else np.array(other, object)}


def nodes_of(protos: Iterable[onnx.NodeProto], opsets: Mapping[str, int]) -> tuple[Node, ...]:
    """Nodes that are in no file. opsets: domain -> the version of its operators."""
    return tuple(_node(p, _Context(opsets, Files())) for p in protos)


def _attribute(a: onnx.AttributeProto, context: _Context) -> Any:
    kinds = onnx.AttributeProto
    if a.type == kinds.GRAPH:
        return _graph(a.g, context)
    if a.type == kinds.TENSOR:
        return _array(a.t, context)
    if a.type == kinds.SPARSE_TENSOR:
        return _dense(a.sparse_tensor, context)
    try:
        value = onnx.helper.get_attribute_value(a)
    except (ValueError, TypeError) as error:
        raise fail("E606", f"the attribute {a.name!r} cannot be read: {error}", kind=ModelError) from None
    if a.type == kinds.STRING:
        return value.decode("utf-8", "replace")
    if a.type == kinds.STRINGS:
        return [s.decode("utf-8", "replace") for s in value]
    return list(value) if a.type in (kinds.INTS, kinds.FLOATS) else value


def _array(tensor: onnx.TensorProto, context: _Context) -> np.ndarray:
    if any(d < 0 for d in tensor.dims):
        raise fail("E607", f"the tensor {tensor.name!r} has the shape {list(tensor.dims)}", kind=ModelError)
    if tensor.data_type not in onnx.helper.get_all_tensor_dtypes():
        raise fail("E607", f"the tensor {tensor.name!r} has the unknown element type {tensor.data_type}", kind=ModelError)
    try:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return array_of(tensor, context.files)
        array = numpy_helper.to_array(tensor)
    except ModelError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, NotImplementedError) as error:
        raise fail("E607", f"the tensor {tensor.name!r} cannot be read: {error}", kind=ModelError) from error
    return array if array.ndim == 0 else np.ascontiguousarray(array)


def _dense(sparse: onnx.SparseTensorProto, context: _Context) -> np.ndarray:
    values, places = _array(sparse.values, context), _array(sparse.indices, context)
    try:
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        if places.ndim == 1:
            dense.reshape(-1)[places] = values
        else:
            dense[tuple(places.T)] = values
    except (ValueError, TypeError, LookupError, MemoryError) as error:
        raise fail("E607", f"the sparse tensor {sparse.values.name!r} cannot be read: {error}", kind=ModelError) from error
    return dense


def declared(v: onnx.ValueInfoProto) -> Value:
    """What a file says of a value."""
    if not v.type.HasField("tensor_type"):
        return Value(v.name, tensor=not v.type.WhichOneof("value"), kind=type_text(v.type) or "")
    tensor = v.type.tensor_type
    shape = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    dtype = dtype_of(tensor.elem_type)
    return Value(v.name, dtype, shape, kind=type_text(v.type) or "" if dtype is None else "")


def _dim(d: Any) -> Dim:
    """Exporters write 0, -1 and '?' for an extent they do not know."""
    if d.HasField("dim_param"):
        return d.dim_param if d.dim_param not in ("", "?") else None
    return int(d.dim_value) if d.HasField("dim_value") and d.dim_value > 0 else None


def dtype_of(element: int) -> DType | None:
    """The scalar type of an onnx element type, None where polytc has none."""
    try:
        return from_numpy(onnx.helper.tensor_dtype_to_np_dtype(element))
    except KeyError:
        return None


def _twice(proto: onnx.GraphProto, whole: bool) -> list[str]:
    """Names that a graph gives to two of its inputs or constants, or of the whole model's outputs: the results of a body go by
    their places, so that one value may be two of them."""
    return [f"the graph {proto.name!r} has {count} {kind}s named {name!r}" for kind, values in (
        ("input", proto.input), ("output", proto.output if whole else ()), ("constant", proto.initializer))
        for name, count in Counter(v.name for v in values).items() if count > 1]


def _otherwise(proto: onnx.GraphProto) -> list[str]:
    """Constants that are of another type or shape than the graph declares for the input of their name."""
    known = {v.name: declared(v) for v in proto.input if v.type.HasField("tensor_type")}
    found = []
    for t in proto.initializer:
        v, dtype = known.get(t.name), dtype_of(t.data_type)
        if v is not None and (v.dtype not in (None, dtype) or v.shape and not _is_of(tuple(t.dims), v.shape)):
            found.append(f"the constant {t.name!r} of {dtype}{list(t.dims)} is declared as {v}")
    return found


def _is_of(shape: tuple[int, ...], declared: tuple[Dim, ...]) -> bool:
    return len(shape) == len(declared) and all(d == e for d, e in zip(declared, shape) if isinstance(d, int))


def _problems(graph: Graph, outer: set[str]) -> list[str]:
    """What is wrong with the wiring, in bodies too: values that nothing computes, values computed twice."""
    known = outer | set(graph.constants) | {v.name for v in graph.inputs}
    found: list[str] = []
    for k, node in enumerate(graph.nodes):
        if not any(node.outputs):
            found.append(f"node {k}, {node.op} {node.name!r}, has no outputs")
            continue
        found += [f"{node.label} reads {name!r}, which nothing before it computes"
                  for name in node.inputs if name and name not in known]
        found += [f"{node.label} computes {name!r} a second time"
                  for name, count in Counter(n for n in node.outputs if n).items() if count > 1 or name in known - outer]
        for body in (a for a in node.attributes.values() if isinstance(a, Graph)):
            found += [f"in the body {body.name!r} of {node.label}: {problem}" for problem in _problems(body, known)]
        known.update(n for n in node.outputs if n)
    found += [f"nothing computes the output {v.name!r}" for v in graph.outputs if v.name not in known]
    return found
