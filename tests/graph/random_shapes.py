"""Random graphs that compute with shapes, for open sizes: what depends on sizes in one, and which sizes it refuses, is left to
chance. ONNX Runtime says what is right; numpy's results for a few sizes only keep the graphs sensible while they are made.

    Shape(x) -> s;  Gather(s, [1]) -> n;  Div(n, 2) -> h;  Concat(h, -1) -> t;  Reshape(x, t) -> y;  Slice(y, 0, n) -> z
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = (1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, 12, 13, 16, 17, 20, 31, 33)
LARGEST = 20_000
TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}
Point = dict[str, Any]


class Unsuitable(Exception):
    """A node that some sizes do not allow, or that makes too much."""


class RandomGraph:
    """A model with its inputs for any point: a size for each of A, B and C, and two elements of an input of integers."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.chance = random.Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: dict[str, list[np.ndarray]] = {}
        self.names: dict[str, list[str]] = {"f": [], "i": [], "b": []}
        self.inputs: dict[str, list[str | int]] = {"x": [self.dim() for _ in range(self.chance.choice([2, 2, 3]))]}
        if self.chance.random() < 0.6:
            self.inputs["y"] = [self.dim()]
        if self.chance.random() < 0.4:
            self.inputs["n"] = [self.chance.choice([1, 2])]
        points = [self.point() for _ in range(3)]
        for name in self.inputs:
            self.values[name] = [self.feeds(p)[name] for p in points]
            self.names["i" if name == "n" else "f"].append(name)
        for _ in range(12 * nodes):
            if len(self.nodes) < nodes:
                self.attempt()

    def dim(self) -> str | int:
        return self.chance.choice(["A", "B", "C", "A", "B", 4])

    def point(self) -> Point:
        found: Point = {d: self.chance.choice(SIZES) for d in "ABC"}
        found["B"] = found["A"] if self.chance.random() < 0.2 else found["B"]
        found["n"] = [self.chance.choice([1, 1, 2, 2, 3, 4, 5, 8]) for _ in range(2)]
        return found | {"seed": self.chance.randrange(1 << 30)}

    def feeds(self, point: Point) -> dict[str, np.ndarray]:
        r = np.random.default_rng(point["seed"])
        shapes = {n: [point[d] if isinstance(d, str) else d for d in dims] for n, dims in self.inputs.items()}
        return {n: np.array(point["n"][:s[0]]) if n == "n" else r.standard_normal(s).astype(np.float32)
                for n, s in shapes.items()}

    def model(self) -> onnx.ModelProto:
        def info(name: str, kind: str, shape: Any) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TYPES[kind], shape)
        kinds = {n: k for k, names in self.names.items() for n in names}
        made = [n.output[0] for n in self.nodes if n.output[0] in kinds]
        used = {i for n in self.nodes for i in n.input}
        outputs = [n for n in made if n not in used or self.chance.random() < 0.2]
        graph = helper.make_graph(self.nodes, "g", [info(n, kinds[n], dims) for n, dims in self.inputs.items()],
                                  [info(n, kinds[n], None) for n in outputs], self.constants)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])

    # ---- nodes

    def attempt(self) -> None:
        """Add a node, with what it needs; nothing if it is unsuitable."""
        before = len(self.nodes), len(self.constants), {k: len(names) for k, names in self.names.items()}
        try:
            self.chance.choice((*INTEGERS, *ARRAYS))(self)
        except (Unsuitable, ValueError, IndexError):
            del self.nodes[before[0]:], self.constants[before[1]:]
            for kind, count in before[2].items():
                del self.names[kind][count:]

    def constant(self, value: Any) -> str:
        name = f"c{len(self.values)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        self.values[name] = [np.asarray(value)] * 3
        return name

    def node(self, op: str, inputs: list[str], f: Callable[..., Any], **attributes: Any) -> str:
        name = f"v{len(self.values)}"
        with np.errstate(all="ignore"):
            values = [np.asarray(f(*(self.values[n][k] for n in inputs))) for k in range(3)]
        if any(v.size > LARGEST or v.size == 0 or v.ndim > 5 or v.ndim != values[0].ndim for v in values):
            raise Unsuitable
        if any(v.dtype.kind == "i" and abs(v).max() > 1 << 40 for v in values):
            raise Unsuitable
        self.values[name] = values
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.names[values[0].dtype.kind].append(name)
        return name

    def one(self, kind: str, rank: int | None = None) -> str:
        """Some value, mostly one of the last."""
        names = [n for n in self.names[kind] if rank is None or self.rank(n) == rank]
        return self.chance.choice(names[-6:] if self.chance.random() < 0.8 else names)

    def rank(self, name: str) -> int:
        return self.values[name][0].ndim

    def element(self) -> str:
        """A vector of one integer."""
        if self.chance.random() < 0.25:
            return self.constant([self.chance.choice([1, 1, 2, 2, 3, 4])])
        vector = self.one("i", 1) if self.names["i"] else shape(self)
        k = self.chance.randrange(-1, min(len(v) for v in self.values[vector]))
        return self.node("Gather", [vector, self.constant([k])], lambda a, i: a[i])

    def vector(self, length: int) -> str:
        parts = [self.element() for _ in range(length)]
        return self.node("Concat", parts, lambda *a: np.concatenate(a), axis=0)


def shape(g: RandomGraph) -> str:
    return g.node("Shape", [g.one("f")], lambda a: np.array(a.shape))


def size(g: RandomGraph) -> str:
    return g.node("Size", [g.one("f")], lambda a: np.array(a.size))


def arithmetic(g: RandomGraph) -> str:
    op = g.chance.choice(["Add", "Sub", "Mul", "Div", "Div", "Mod", "Mod", "Min", "Max"])
    a = g.one("i")
    b = g.one("i") if g.chance.random() < 0.5 else g.constant(g.chance.choice([1, 2, 2, 3, 4, 5, 7, -1, -2, 16]))
    if op in ("Div", "Mod") and any((v == 0).any() for v in g.values[b]):
        raise Unsuitable
    f = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Mod": np.mod, "Min": np.minimum, "Max": np.maximum,
         "Div": lambda a, b: np.trunc(a / b).astype(np.int64)}[op]
    return g.node(op, [a, b], f)


def vector(g: RandomGraph) -> str:
    return g.vector(g.chance.choice([1, 2, 3]))


def reduced(g: RandomGraph) -> str:
    op, f = g.chance.choice([("ReduceProd", np.prod), ("ReduceMax", np.max), ("ReduceSum", np.sum)])
    return g.node(op, [g.one("i", 1)], lambda a: f(a, keepdims=True))


def through_floats(g: RandomGraph) -> str:
    a = g.node("Cast", [g.one("i")], lambda a: a.astype(np.float32), to=TensorProto.FLOAT)
    b = g.node("Mul", [a, g.constant(np.float32(g.chance.choice([0.25, 0.5, 1.5, 2])))], np.multiply)
    return g.node("Cast", [b], lambda a: a.astype(np.int64), to=TensorProto.INT64)


def compared(g: RandomGraph) -> str:
    op, f = g.chance.choice([("Less", np.less), ("Equal", np.equal), ("GreaterOrEqual", np.greater_equal)])
    return g.node(op, [g.one("i"), g.one("i") if g.chance.random() < 0.5 else g.constant(g.chance.choice([1, 2, 4, 8]))], f)


def chosen(g: RandomGraph) -> str:
    kind = g.chance.choice("if")
    return g.node("Where", [compared(g), g.one(kind), g.one(kind)], np.where)


def reshaped(g: RandomGraph) -> str:
    x = g.one("f")
    parts = [g.constant([0]) if g.chance.random() < 0.4 else g.element() for _ in range(g.chance.choice([0, 1, 1, 2]))]
    parts.insert(g.chance.randrange(len(parts) + 1), g.constant([-1]) if g.chance.random() < 0.8 else g.element())
    to = g.node("Concat", parts, lambda *a: np.concatenate(a), axis=0)
    return g.node("Reshape", [x, to], lambda a, n: a.reshape([a.shape[k] if d == 0 else d for k, d in enumerate(n)]))


def expanded(g: RandomGraph) -> str:
    x = g.one("f")
    to = g.vector(g.rank(x) + g.chance.choice([0, 0, 1]))
    return g.node("Expand", [x, to], lambda a, n: np.broadcast_to(a, np.broadcast_shapes(a.shape, tuple(n))))


def tiled(g: RandomGraph) -> str:
    x = g.one("f")
    return g.node("Tile", [x, g.vector(g.rank(x))], np.tile)


def sliced(g: RandomGraph) -> str:
    x = g.one("f")
    axis, step = g.chance.randrange(g.rank(x)), g.chance.choice([1, 1, 2, 3])
    start, end = (g.element() if g.chance.random() < 0.6 else g.constant([g.chance.choice([0, 1, 2, -1, -2, 1 << 60])])
                  for _ in range(2))

    def f(a: np.ndarray, low: Any, high: Any, *_: Any) -> np.ndarray:
        return a[(slice(None),) * axis + (slice(int(low[0]), int(high[0]), step),)]
    return g.node("Slice", [x, start, end, g.constant([axis]), g.constant([step])], f)


def gathered(g: RandomGraph) -> str:
    x = g.one("f")
    axis = g.chance.randrange(g.rank(x))
    extent = g.node("Shape", [x], lambda a: np.array(a.shape[axis:axis + 1]), start=axis, end=axis + 1)
    at = g.node("Mod", [g.one("i"), extent], np.mod)
    return g.node("Gather", [x, at], lambda a, i: np.take(a, i, axis), axis=axis)


def counted(g: RandomGraph) -> str:
    n = g.node("Squeeze", [g.element()], lambda a: a.reshape(()))
    start, step = g.chance.choice([0, 0, 1, -2]), g.chance.choice([1, 1, 2, 3])
    made = g.node("Range", [g.constant(start), n, g.constant(step)], np.arange)
    return g.node("Cast", [made], lambda a: a.astype(np.float32), to=TensorProto.FLOAT)


def filled(g: RandomGraph) -> str:
    value, extents = np.array([1.5], np.float32), g.vector(g.chance.choice([1, 2]))
    return g.node("ConstantOfShape", [extents], lambda n: np.full(tuple(n), value), value=numpy_helper.from_array(value))


def padded(g: RandomGraph) -> str:
    x = g.one("f")
    r = g.rank(x)
    pads = g.node("Mod", [g.vector(2 * r), g.constant(3)], np.mod)
    return g.node("Pad", [x, pads], lambda a, p: np.pad(a, list(zip(p[:r], p[r:], strict=True))))


def combined(g: RandomGraph) -> str:
    op, f = g.chance.choice([("Add", np.add), ("Mul", np.multiply), ("MatMul", np.matmul)])
    return g.node(op, [g.one("f"), g.one("f")], f)


def transposed(g: RandomGraph) -> str:
    x = g.one("f")
    order = g.chance.sample(range(g.rank(x)), g.rank(x))
    return g.node("Transpose", [x], lambda a: a.transpose(order), perm=order)


def joined(g: RandomGraph) -> str:
    x = g.one("f")
    axis = g.chance.randrange(g.rank(x))
    return g.node("Concat", [x, g.one("f", g.rank(x))], lambda *a: np.concatenate(a, axis), axis=axis)


def summed(g: RandomGraph) -> str:
    x = g.one("f")
    axis, keep = g.chance.randrange(g.rank(x)), g.chance.choice([0, 1])
    return g.node("ReduceSum", [x, g.constant([axis])], lambda a, _: a.sum(axis, keepdims=bool(keep)), keepdims=keep)


INTEGERS = (shape, shape, size, arithmetic, arithmetic, arithmetic, vector, reduced, through_floats, compared, chosen)
ARRAYS = (reshaped, reshaped, reshaped, expanded, tiled, sliced, sliced, gathered, counted, filled, padded, combined, combined,
          transposed, joined, summed)
