"""Functions of a model that use another version of the standard operators than the model, where both mean the same.

    model of opset 18, function of opset 16: Where, IsNaN, ReduceSum, ...    ->  the function of opset 18

skl2onnx writes such functions. onnx's inliner leaves them alone where it is not asked to convert them, and can only convert
some: towards newer versions, of operators of which it knows what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

STANDARD = ("", "ai.onnx")
"""The names of the domain."""


def of_one_version(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with functions of its own version, as far as none of their operators has changed between both."""
    version = _version(model.opset_import)
    if version is None or not mixed(model):
        return model
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for function in found.functions:
        own = _version(function.opset_import)
        if own is not None and own != version and all(_same(n, own, version) for n in all_nodes(function.node)):
            for opset in function.opset_import:
                opset.version = version if opset.domain in STANDARD else opset.version
    return found


def mixed(model: onnx.ModelProto) -> bool:
    """Are there functions of another version than the model's?"""
    version = _version(model.opset_import)
    return version is not None and any(_version(f.opset_import) not in (None, version) for f in model.functions)


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """These and those of all bodies in them."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        todo += [inner for a in node.attribute for body in (a.g, *a.graphs) for inner in body.node]


def _version(imports: Iterable[onnx.OperatorSetIdProto]) -> int | None:
    return next((o.version for o in imports if o.domain in STANDARD), None)


def _same(node: onnx.NodeProto, one: int, other: int) -> bool:
    """Does a node mean the same in two versions?"""
    if node.domain not in STANDARD:
        return True
    try:
        first, second = (onnx.defs.get_schema(node.op_type, v) for v in (one, other))
    except onnx.defs.SchemaError:  # one of them does not have it
        return False
    return first.since_version == second.since_version or _said(first) == _said(second)


def _said(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    """What onnx says of an operator, but for its types, to which versions add."""
    attributes = sorted((a.name, a.description, a.required, str(a.default_value)) for a in schema.attributes.values())
    formals = [[(p.name, p.description, p.option) for p in ps] for ps in (schema.inputs, schema.outputs)]
    return schema.doc, attributes, formals
