"""Products between DequantizeLinear and QuantizeLinear work on the integers themselves.

    QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), b))   ->   QLinearConv(x, w, b')
    QuantizeLinear(MatMul(DequantizeLinear(a), DequantizeLinear(b)))    ->   QLinearMatMul(a, b)

for bytes, constant weights and constant scales. A Relu before the QuantizeLinear goes where the zero point is the lowest number
of its type, which cuts off the same. The bias is rounded to multiples of the product of both scales, as the operator has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from polytc.graph.ir import Graph, Node, consumers, without_dead_nodes

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


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
    """No Conv or MatMul with weights in bytes stands alone between DequantizeLinear and QuantizeLinear."""
    constants = dict(graph.constants)
    makers = {name: n for n in graph.nodes for name in n.outputs if name}
    readers = consumers(graph)
    shared = {v.name for v in graph.outputs} | {n for n, users in readers.items() if len(users) > 1}
    merged = {}
    for node in graph.nodes:
        if node.op == "QuantizeLinear":
            found = _merged(node, makers, shared, constants)
            if found is not None:
                merged[node.outputs[0]] = found
    if not merged:
        return graph
    nodes = tuple(merged.get(n.outputs[0], n) for n in graph.nodes)
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
    if product is None or product.op not in ("Conv", "MatMul"):
        return None
    sources = [makers.get(name) for name in product.inputs[:2]]
    data, weights = (_quantised(n, constants) if n is not None and n.op == "DequantizeLinear" else None for n in sources)
    if data is None or weights is None or not data.single or sources[0] is None or sources[1] is None:
        return None
    array = constants.get(sources[1].inputs[0])
    if array is None or array.dtype not in _BYTES or not _along_outputs(product, weights, array):
        return None
    inputs = (sources[0].inputs[0], *data.names, sources[1].inputs[0], *weights.names, *result.names)
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
    if product.op == "MatMul" and array.ndim != 2:
        return False
    if weights.single:
        return True
    channels = 0 if product.op == "Conv" else 1
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
