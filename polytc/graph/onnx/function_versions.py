"""Functions of a model that use another version of the standard operators than the model, where both mean the same.

    model of opset 18, function of opset 16: Where, IsNaN, ReduceSum, ...    ->  the function of opset 18

skl2onnx writes such functions. onnx's inliner leaves them alone, or refuses where it is asked to convert them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

STANDARD = ("", "ai.onnx")
"""The names of the domain."""


def of_one_version(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with functions of its own version, as far as none of their operators has changed between both."""
    version = _version(model.opset_import)
    if version is None or all(_version(f.opset_import) in (None, version) for f in model.functions):
        return model
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for function in found.functions:
        own = _version(function.opset_import)
        if own is not None and own != version and all(_same(n, own, version) for n in all_nodes(function.node)):
            for opset in function.opset_import:
                opset.version = version if opset.domain in STANDARD else opset.version
    return found


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
        return onnx.defs.get_schema(node.op_type, one).since_version == onnx.defs.get_schema(node.op_type, other).since_version
    except onnx.defs.SchemaError:  # one of them does not have it
        return False
