"""Products with weights that are scaled bytes read the bytes, and scale the sums.

    MatMul(x, Mul(Cast(w, to=1), s))                    with x[5,6], constant i8 w[6,7], constant s[7]
    ->  Mul(MatMul(x, w'), s')

    Gemm(x, DequantizeLinear(w, s, z), c)
        with x[5,6], constant i8 w[6,7], constant s[], constant i8 z[], constant c[7]
    ->  Add(Mul(MatMul(x, w'), s'), c)

for constant bytes and constant scales, one a column or one in all. A product of f32 and bytes is one of f32, in which bytes are
exact, as scaled weights are not. What is done with the bytes is left to each machine: converted as they come from memory where
each is used a few times (rewrite.cpu.widening), multiplied on a matrix unit where there is one (rewrite.cpu.split_floats).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from polytc.graph.ir import Graph, Node, without_dead_nodes

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


def narrow_weights(graph: Graph) -> Graph:
    """No MatMul or Gemm reads constant bytes that are made real numbers of, if one scale a column is all that it takes."""
    constants = dict(graph.constants)
    makers = {name: n for n in graph.nodes for name in n.outputs if name}
    nodes, changed = list[Node](), False
    for node in graph.nodes:
        found = _weights(node, makers, constants)
        nodes += [node] if found is None else _scaled(node, *found, constants)
        changed = changed or found is not None
    if not changed:
        return graph
    return without_dead_nodes(replace(graph, nodes=tuple(nodes), constants=constants))


def _scaled(product: Node, numbers: np.ndarray, scale: np.ndarray, constants: dict[str, np.ndarray]) -> list[Node]:
    """The nodes in place of a product with weights `numbers * scale`."""
    name = product.outputs[0]
    constants[f"{name}.bytes"], constants[f"{name}.scale"] = numbers, scale
    biased = len(product.inputs) > 2 and product.inputs[2] != ""
    sums, scaled = f"{name}.sums", f"{name}.scaled" if biased else name
    nodes = [Node("MatMul", product.name, (product.inputs[0], f"{name}.bytes"), (sums,), {}, product.opset),
             Node("Mul", product.name, (sums, f"{name}.scale"), (scaled,), {}, product.opset)]
    return [*nodes, Node("Add", product.name, (scaled, product.inputs[2]), (name,), {}, product.opset)] if biased else nodes


def _weights(product: Node, makers: Mapping[str, Node], constants: Mapping[str, np.ndarray]
             ) -> tuple[np.ndarray, np.ndarray] | None:
    """The bytes of a product's weights, in rows as long as the result's, and the scales of their columns."""
    given = product.attributes
    if product.op not in ("MatMul", "Gemm") or product.inputs[0] in constants or given.get("transA") \
            or given.get("alpha", 1.0) != 1 or given.get("beta", 1.0) != 1:
        return None
    maker = makers.get(product.inputs[1])
    found = None if maker is None else _cast(maker, makers, constants) or _dequantised(maker, constants)
    if found is None or found[0].ndim != 2:
        return None
    numbers, scale = (a.T if given.get("transB") and a.ndim == 2 else a for a in found)
    scale = np.broadcast_to(scale, (1, numbers.shape[1])) if scale.size == 1 else scale
    if scale.shape != (1, numbers.shape[1]):
        return None
    return np.ascontiguousarray(numbers), np.ascontiguousarray(scale.reshape(-1))


def _cast(maker: Node, makers: Mapping[str, Node], constants: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """The factors of Cast(bytes) * scale, the scale with as many axes."""
    if maker.op != "Mul":
        return None
    for converted, other in (maker.inputs, maker.inputs[::-1]):
        cast, scale = makers.get(converted), constants.get(other)
        numbers = constants.get(cast.inputs[0]) if cast is not None and cast.op == "Cast" else None
        if numbers is not None and scale is not None and numbers.dtype in _BYTES and scale.dtype == np.float32 \
                and scale.ndim <= numbers.ndim:
            return numbers, scale.reshape((1,) * (numbers.ndim - scale.ndim) + scale.shape)
    return None


def _dequantised(maker: Node, constants: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """The factors of what DequantizeLinear makes: the differences to the zero points, if these are bytes, and the scale."""
    if maker.op != "DequantizeLinear" or maker.attributes.get("block_size") or maker.attributes.get("output_dtype"):
        return None
    numbers, scale, *rest = (constants.get(name) for name in maker.inputs if name)
    if numbers is None or scale is None or numbers.dtype not in _BYTES or scale.dtype != np.float32 or scale.ndim > 1:
        return None
    shape = [1] * numbers.ndim
    if scale.size > 1:
        shape[maker.attributes.get("axis", 1)] = scale.size
    if rest:
        if rest[0] is None or rest[0].size not in (1, scale.size):
            return None
        zero = rest[0].astype(np.int16).reshape(shape if rest[0].size > 1 else [1] * numbers.ndim)
        differences = numbers.astype(np.int16) - zero
        kind = next((t for t in _BYTES if np.iinfo(t).min <= differences.min() and differences.max() <= np.iinfo(t).max), None)
        if not differences.size or kind is None:
            return None
        numbers = differences.astype(kind)
    return numbers, scale.reshape(shape)
