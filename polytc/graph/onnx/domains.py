"""Domains of operators: the standard one has two names in files, and one here, ''."""

from __future__ import annotations

import onnx

from polytc.graph.ir import qualified

STANDARD = ("", "ai.onnx")
"""How files name the domain of onnx's own operators."""


def domain_of(proto: onnx.NodeProto | onnx.OperatorSetIdProto) -> str:
    return "" if proto.domain in STANDARD else proto.domain


def operator_of(proto: onnx.NodeProto) -> str:
    return qualified(domain_of(proto), proto.op_type)


def versions(model: onnx.ModelProto) -> dict[str, int]:
    """Domain -> the version of its operators that a model asks for."""
    return {domain_of(o): o.version for o in model.opset_import}
