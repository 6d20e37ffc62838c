"""Products of what DequantizeLinear makes of bytes work on the bytes themselves.

    QuantizeLinear(Conv(DequantizeLinear(x, s, z), DequantizeLinear(w, t, v), b), u, z)
        with u8 x[1,3,8,8], constant s[], constant u8 z[], constant i8 w[4,3,3,3], constant t[], constant i8 v[], constant b[4],
             constant u[]
    ->  QLinearConv(x, s, z, w, t, v, u, z, b')

    QuantizeLinear(MatMul(DequantizeLinear(a, s, z), DequantizeLinear(b, t, v)), u, z)
        with u8 a[5,6], constant s[], constant u8 z[], constant i8 b[6,7], constant t[], constant i8 v[], constant u[]
    ->  QLinearMatMul(a, s, z, b, t, v, u, z)

    Gemm(DequantizeLinear(a, s, z), DequantizeLinear(b, t, v), c)
        with u8 a[5,6], constant s[], constant u8 z[], constant i8 b[6,7], constant t[], constant i8 v[], constant c[7]
    ->  Add(Mul(Cast(MatMulInteger(a, b, z, v)), r'), c)

for constant weights and constant scales. A Relu before the QuantizeLinear goes where the zero point is the lowest number of its
type, which cuts off the same. The bias of a Conv is rounded to multiples of the product of both scales, as the operator has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from polytc.graph.ir import Graph, Node, consumers, without_dead_nodes

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_F32 = 1
"""onnx's number of the type."""


@dataclass(frozen=True)
class _Quantised:
    """What a DequantizeLinear reads or a QuantizeLinear writes with: names of scale and zero point, and their values."""

    names: tuple[str, str]
    scale: np.ndarray
    zero: np.ndarray
    axis: int

    @property
    def single(self) -> bool:
        return self.scale.size == 1 and self.zero.size == 1


def use_integers(graph: Graph) -> Graph:
    """No Conv with weights in bytes stands alone between DequantizeLinear and QuantizeLinear, and no MatMul or Gemm with such
    weights behind DequantizeLinear."""
    constants = dict(graph.constants)
    makers = {name: n for n in graph.nodes for name in n.outputs if name}
    readers = consumers(graph)
    shared = {v.name for v in graph.outputs} | {n for n, users in readers.items() if len(users) > 1}
    merged: dict[str, tuple[Node, ...]] = {}
    for node in graph.nodes:
        found = _merged(node, makers, shared, constants) if node.op == "QuantizeLinear" else None
        made = (found,) if found is not None else _summed(node, makers, constants)
        if made is not None:
            merged[node.outputs[0]] = made
    if not merged:
        return graph
    nodes = tuple(n for node in graph.nodes for n in merged.get(node.outputs[0], (node,)))
    return without_dead_nodes(replace(graph, nodes=nodes, constants=constants))


def _merged(last: Node, makers: Mapping[str, Node], shared: set[str], constants: dict[str, np.ndarray]) -> Node | None:
    result = _quantised(last, constants)
    product = makers.get(last.inputs[0])
    if result is None or not result.single or last.inputs[0] in shared:
        return None
    if product is not None and product.op == "Relu" and result.zero.item() == np.iinfo(result.zero.dtype).min:
        if product.inputs[0] in shared:
            return None
        product = makers.get(product.inputs[0])
    factors = _factors(product, makers, constants) if product is not None and product.op in ("Conv", "MatMul") else None
    if product is None or factors is None:
        return None
    (image, data), (kernel, weights) = factors
    inputs = (image, *data.names, kernel, *weights.names, *result.names)
    if product.op == "MatMul":
        return Node("QLinearMatMul", product.name, inputs, last.outputs, {}, product.opset)
    if len(product.inputs) > 2 and product.inputs[2]:
        step = data.scale.reshape(-1).astype(np.float64) * weights.scale.reshape(-1)
        bias = _bias(product.inputs[2], makers, constants, step)
        if bias is None:
            return None
        name = f"{last.outputs[0]}.bias"
        constants[name] = bias
        return Node("QLinearConv", product.name, (*inputs, name), last.outputs, product.attributes, product.opset)
    return Node("QLinearConv", product.name, inputs, last.outputs, product.attributes, product.opset)


def _summed(product: Node, makers: Mapping[str, Node], constants: dict[str, np.ndarray]) -> tuple[Node, ...] | None:
    """The nodes in place of a MatMul or Gemm of bytes: the sums of integers, in real numbers, and the bias."""
    factors = _factors(product, makers, constants) if product.op in ("MatMul", "Gemm") else None
    given = product.attributes
    if factors is None or given.get("transA") or given.get("alpha", 1.0) != 1 or given.get("beta", 1.0) != 1:
        return None
    (a, data), (b, weights) = factors
    name = product.outputs[0]
    if given.get("transB"):
        b, constants[f"{name}.weights"] = f"{name}.weights", np.ascontiguousarray(constants[b].T)
    constants[f"{name}.scale"] = data.scale.reshape(()) * weights.scale
    biased = len(product.inputs) > 2 and product.inputs[2] != ""
    sums, real, scaled = f"{name}.sums", f"{name}.real", f"{name}.scaled" if biased else name

    def node(op: str, inputs: tuple[str, ...], output: str, **attributes: object) -> Node:
        return Node(op, product.name, inputs, (output,), attributes, product.opset)

    nodes = (node("MatMulInteger", (a, b, data.names[1], weights.names[1]), sums), node("Cast", (sums,), real, to=_F32),
             node("Mul", (real, f"{name}.scale"), scaled))
    return (*nodes, node("Add", (scaled, product.inputs[2]), name)) if biased else nodes


def _factors(product: Node, makers: Mapping[str, Node], constants: Mapping[str, np.ndarray]
             ) -> tuple[tuple[str, _Quantised], tuple[str, _Quantised]] | None:
    """What both factors of a product are dequantised from, the second one constant; None if they are not, or if the scales
    cannot be taken out of the sums."""
    first, second = (makers.get(name) for name in product.inputs[:2])
    if first is None or second is None or {first.op, second.op} != {"DequantizeLinear"}:
        return None
    data, weights, array = _quantised(first, constants), _quantised(second, constants), constants.get(second.inputs[0])
    if data is None or weights is None or array is None or array.dtype not in _BYTES or not data.single \
            or not _along_outputs(product, weights, array):
        return None
    return (first.inputs[0], data), (second.inputs[0], weights)


def _quantised(node: Node, constants: Mapping[str, np.ndarray]) -> _Quantised | None:
    """Constant scale and zero point, of numbers in bytes and of f32; None where anything else is asked for."""
    if len(node.inputs) != 3 or node.attributes.get("block_size") or node.attributes.get("output_dtype") \
            or node.attributes.get("precision"):
        return None
    scale, zero = (constants.get(name) for name in node.inputs[1:])
    if scale is None or zero is None or scale.dtype != np.float32 or zero.dtype not in _BYTES or not np.all(scale > 0):
        return None
    return _Quantised((node.inputs[1], node.inputs[2]), scale, zero, node.attributes.get("axis", 1))


def _along_outputs(product: Node, weights: _Quantised, array: np.ndarray) -> bool:
    """Is there one scale for all weights, or one for each output channel or column?"""
    if product.op != "Conv" and array.ndim != 2:
        return False
    if weights.single:
        return True
    channels = 0 if product.op == "Conv" or product.attributes.get("transB") else 1
    return weights.axis % array.ndim == channels and weights.scale.shape == weights.zero.shape == (array.shape[channels],)


def _bias(name: str, makers: Mapping[str, Node], constants: Mapping[str, np.ndarray], scale: np.ndarray) -> np.ndarray | None:
    """The bias in multiples of `scale`; None where it is not known or does not fit."""
    real, maker = constants.get(name), makers.get(name)
    if real is None and maker is not None and maker.op == "DequantizeLinear":
        numbers, step, *zero = (constants.get(name) for name in maker.inputs)
        if numbers is None or step is None or any(z is None or z.any() for z in zero):
            return None
        real = numbers * step.astype(np.float64)
    if real is None:
        return None
    whole = np.rint(real.astype(np.float64) / scale)
    return whole.astype(np.int32) if np.all(np.abs(whole) < 2**31) else None
