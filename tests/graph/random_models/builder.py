"""A model that grows node by node: a recipe asks for a tensor of a type and a shape, and gets a graph input, a constant, a
value that is there already, or what a plain node makes of one of these.

Shapes of requests are known, so that no shape is inferred here; of results only those are known that the recipe says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.generator.choices import Choices

SIZES = [2, 1, 3, 4, 5, 7, 8, 13, 16, 17, 33]
FLOATS = [np.float32] * 6 + [np.float16, np.float16, np.float64]
BYTES = [np.uint8, np.int8]
NUMBERS = [np.float32, np.int64, np.int32, np.float64, np.float16, np.uint8, np.int8, np.bool_]
NODES = 6
Shape = tuple[int, ...]
Fill = Callable[[np.random.Generator, Shape], np.ndarray]


@dataclass(frozen=True)
class Value:
    """shape: None where only ONNX Runtime tells it; rank: likewise. shown: may be an output of the model."""

    name: str
    dtype: Any
    shape: Shape | None = None
    rank: int | None = None
    shown: bool = True


@dataclass
class Builder:
    """feeds: graph inputs; count: names so far; open: nodes whose inputs are being made."""

    c: Choices
    opset: int = 21
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    count: int = 0
    open: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def size(self, most: int = 33) -> int:
        """An extent; rarely 0."""
        return 0 if self.c.likely(2) else self.c.of([n for n in SIZES if n <= most])

    def positive(self, most: int = 33) -> int:
        return self.c.of([n for n in SIZES if n <= most])

    def shape(self, low: int = 1, high: int = 4) -> Shape:
        rank = self.c.between(low, high)
        return tuple(self.size((33, 33, 17, 8, 5)[rank]) for _ in range(rank))

    def random(self) -> np.random.Generator:
        return np.random.default_rng(self.c.below(1 << 16))

    def filled(self, dtype: Any, shape: Shape, fill: Fill | None = None) -> np.ndarray:
        r, dtype = self.random(), np.dtype(dtype)
        if fill is not None:
            return np.asarray(fill(r, shape)).astype(dtype).reshape(shape)
        if dtype.kind == "f":
            return (r.standard_normal(shape) * 2).astype(dtype)
        if dtype.kind == "b":
            return r.integers(0, 2, shape).astype(dtype)
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize == 1 else (-9, 9)
        return r.integers(low, high + 1, shape).astype(dtype)

    def constant(self, array: Any) -> str:
        name = self.fresh()
        self.constants[name] = np.asarray(array)
        return name

    def given(self, array: Any, constant: int = 40) -> str:
        """An input of the model or, so many times in a hundred, a constant."""
        if self.c.likely(constant):
            return self.constant(array)
        name = self.fresh()
        self.feeds[name] = np.asarray(array)
        return name

    def tensor(self, dtype: Any, shape: Shape, fill: Fill | None = None) -> str:
        """fill: where not all values will do; then no node makes it."""
        if fill is None:
            same = [v.name for v in self.values if v.dtype == dtype and v.shape == shape]
            if same and self.c.likely(40):
                return self.c.of(same)
            if len(self.nodes) + self.open < NODES - 1 and self.c.likely(25):
                self.open += 1
                name = PRODUCERS[self.c.below(len(PRODUCERS))](self, dtype, shape)
                self.open -= 1
                return name
        return self.given(self.filled(dtype, shape, fill), 25)

    def maybe(self, ask: Callable[[], str], percent: int = 50) -> str:
        """An optional input, or '' for none."""
        return ask() if self.c.likely(percent) else ""

    def node(self, op: str, inputs: Sequence[str], *results: tuple[Any, Any] | None, domain: str = "com.microsoft",
             shown: int = 99, **attributes: Any) -> list[str]:
        """results: type and shape, or rank, of each; None for one that is left out. shown: how many may be outputs."""
        inputs = list(inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        names = [self.fresh() if r is not None else "" for r in results]
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}{len(self.nodes)}", domain=domain, **attributes))
        for k, (name, result) in enumerate(zip(names, results, strict=True)):
            if result is not None:
                dtype, shape = result
                known = shape if isinstance(shape, tuple) else None
                self.values.append(Value(name, dtype, known, len(known) if known is not None else shape, k < shown))
        return names

    def model(self) -> onnx.ModelProto:
        used = {n for node in self.nodes for n in node.input}
        outputs = [v for v in self.values if v.shown and (v.name not in used or self.c.likely(15))]
        named = self.c.likely(30)
        inputs = [helper.make_tensor_value_info(n, kind_of(a.dtype), [
            f"{n}_{k}" if named and self.c.likely(60) else s for k, s in enumerate(a.shape)]) for n, a in self.feeds.items()]
        results = [helper.make_tensor_value_info(v.name, kind_of(v.dtype), None) if v.dtype is not None
                   else helper.make_empty_tensor_value_info(v.name) for v in outputs]
        for info, v in zip(results, outputs, strict=True):
            if v.dtype is list:
                info.ClearField("type")
        stored = [helper.make_tensor(n, TensorProto.STRING, a.shape, [x.encode() for x in a.ravel()]) if a.dtype.kind in "OU"
                  else numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, results, stored)
        opsets = [("", self.opset), ("com.microsoft", 1), ("ai.onnx.ml",
                 5 if any(n.op_type == "TreeEnsemble" for n in self.nodes)
                                                         else 3)]
        return helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets], ir_version=10)


def kind_of(dtype: Any) -> int:
    if dtype is str or np.dtype(dtype if dtype is not list else object).kind in "OU":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _plain(b: Builder, op: str, inputs: Sequence[str], dtype: Any, shape: Any, **attributes: Any) -> str:
    return b.node(op, inputs, (dtype, shape), domain="", **attributes)[0]


def _element_wise(b: Builder, dtype: Any, shape: Shape) -> str:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return _plain(b, "Not", [b.tensor(dtype, shape)], dtype, shape)
    if kind == "f":
        op = b.c.of(["Relu", "Neg", "Tanh", "Sigmoid", "Abs", "Identity", "Floor"])
        return _plain(b, op, [b.tensor(dtype, shape)], dtype, shape)
    op = b.c.of(["Identity", "Max", "Min"])
    return _plain(b, op, [b.tensor(dtype, shape)] + [b.tensor(dtype, shape)] * (op != "Identity"), dtype, shape)


def _broadcast(b: Builder, dtype: Any, shape: Shape) -> str:
    if np.dtype(dtype).kind == "b":
        return _plain(b, b.c.of(["And", "Or", "Xor"]), [b.tensor(dtype, shape), b.tensor(dtype, shape[1:])], dtype, shape)
    if np.dtype(dtype).itemsize == 1:
        return _element_wise(b, dtype, shape)
    other = tuple(1 if b.c.likely(30) else n for n in shape[b.c.below(len(shape) + 1):])
    return _plain(b, b.c.of(["Add", "Sub", "Mul"]), [b.tensor(dtype, shape), b.tensor(dtype, other)], dtype, shape)


def _transposed(b: Builder, dtype: Any, shape: Shape) -> str:
    if not shape:
        return _element_wise(b, dtype, shape)
    order = b.c.shuffled(range(len(shape)))
    before = [0] * len(shape)
    for k, axis in enumerate(order):
        before[axis] = shape[k]
    return _plain(b, "Transpose", [b.tensor(dtype, tuple(before))], dtype, shape, perm=order)


def _reshaped(b: Builder, dtype: Any, shape: Shape) -> str:
    flat = (int(np.prod(shape)),)
    return _plain(b, "Reshape", [b.tensor(dtype, flat), b.constant(np.array(shape, np.int64))], dtype, shape, **(
        {"allowzero": 1} if 0 in shape else {}))


def _cast(b: Builder, dtype: Any, shape: Shape) -> str:
    source = b.c.of([np.bool_, np.int32] if np.dtype(dtype).itemsize == 1 else [np.float32, np.int32, np.float16, np.uint8])
    if np.dtype(dtype).itemsize == 1:
        source = np.bool_
    if np.dtype(dtype).kind in "iu" and np.dtype(source).kind == "f":
        source = np.int32
    return _plain(b, "Cast", [b.tensor(source, shape)], dtype, shape, to=kind_of(dtype))


def _joined(b: Builder, dtype: Any, shape: Shape) -> str:
    if not shape or shape[0] < 2:
        return _element_wise(b, dtype, shape)
    first = b.c.between(1, shape[0] - 1)
    parts = [b.tensor(dtype, (first, *shape[1:])), b.tensor(dtype, (shape[0] - first, *shape[1:]))]
    return _plain(b, "Concat", parts, dtype, shape, axis=0)


def _sliced(b: Builder, dtype: Any, shape: Shape) -> str:
    if not shape:
        return _element_wise(b, dtype, shape)
    axis, extra = b.c.below(len(shape)), b.c.between(0, 3)
    wide = (*shape[:axis], shape[axis] + extra, *shape[axis + 1:])
    ends = [b.constant(np.int64([n])) for n in (extra, shape[axis] + extra, axis)]
    return _plain(b, "Slice", [b.tensor(dtype, wide), *ends], dtype, shape)


def _quantised(b: Builder, dtype: Any, shape: Shape) -> str:
    if dtype not in BYTES:
        return _broadcast(b, dtype, shape)
    scale, zero = b.given(np.float32(b.c.between(1, 9) / 64), 70), b.given(dtype(b.c.between(0, 90)), 70)
    return _plain(b, "QuantizeLinear", [b.tensor(np.float32, shape), scale, zero], dtype, shape)


PRODUCERS = [_element_wise, _broadcast, _transposed, _reshaped, _cast, _joined, _sliced, _quantised]


def follow(b: Builder) -> None:
    """One plain node behind a value whose rank may be unknown."""
    found = [v for v in b.values if v.shown and v.dtype not in (str, list, None)]
    if not found:
        return
    v = found[b.c.below(len(found))]
    kind = np.dtype(v.dtype).kind
    match b.c.below(5):
        case 0 if kind == "f":
            _plain(b, b.c.of(["Relu", "Tanh", "Sigmoid", "Neg"]), [v.name], v.dtype, v.shape if v.shape is not None else v.rank)
        case 1 if v.rank:
            _plain(b, "Transpose", [v.name], v.dtype, v.shape[::-1] if v.shape else v.rank)
        case 2 if kind == "f" and v.rank:
            keep = b.c.below(2)
            _plain(b, "ReduceSum", [v.name, b.constant(np.int64([b.c.of([-1, 0])]))], v.dtype, v.rank - 1 + keep, keepdims=keep)
        case 3:
            to = b.c.of([np.float32, np.float64]) if kind == "f" else b.c.of([np.float32, np.int64, np.int32])
            _plain(b, "Cast", [v.name], to, v.shape if v.shape is not None else v.rank, to=kind_of(to))
        case _:
            _plain(b, "Reshape", [v.name, b.constant(np.int64([-1]))], v.dtype, 1)
