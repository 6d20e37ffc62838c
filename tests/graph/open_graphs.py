"""Models with sizes of each kind that change from call to call, for the tests of open graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

R = np.random.default_rng(11)
Feeds = dict[str, np.ndarray]


def array(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) / 2).astype(np.float32)


@dataclass(frozen=True)
class Open:
    """make: the model; feeds: its inputs for one number; sizes: such numbers, the first of which is compiled for; traces: how
    many walks of the graph these take at most; alone: numbers that other programs serve, as 1 does, and few rows of a
    forest."""

    make: Callable[[], onnx.ModelProto]
    feeds: Callable[[int], Feeds]
    sizes: tuple[int, ...]
    traces: int
    alone: tuple[int, ...] = (1,)


def parsed(text: str, constants: Mapping[str, np.ndarray], domain: str = "com.microsoft") -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "{domain}" : 1]>\n{text}')
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items())
    return model


def trees(depth: int = 3, count: int = 5, features: int = 4) -> onnx.ModelProto:
    """A forest of full trees over random features."""
    columns: dict[str, list[Any]] = {n: [] for n in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    leaves: dict[str, list[Any]] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
    inner = 2**depth - 1
    for tree in range(count):
        for k in range(2 * inner + 1):
            leaf = k >= inner
            row = (tree, k, 0 if leaf else int(R.integers(features)), 0.0 if leaf else float(array(1)[0]),
                   "LEAF" if leaf else "BRANCH_LEQ", 0 if leaf else 2 * k + 1, 0 if leaf else 2 * k + 2)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            for column, value in zip(leaves.values(), (tree, k, 0, float(array(1)[0])) if leaf else (), strict=False):
                column.append(value)
    attributes = {f"nodes_{n}": v for n, v in columns.items()} | {f"target_{n}": v for n, v in leaves.items()}
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **attributes)
    info = helper.make_tensor_value_info
    graph = helper.make_graph([node], "trees", [info("x", TensorProto.FLOAT, ["N", features])],
                              [info("y", TensorProto.FLOAT, ["N", 1])])
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])


def decoder(past: str = "P") -> onnx.ModelProto:
    """An embedding, attention of 4 heads over 2 heads of a cache that grows, and scores of words."""
    return parsed(f"""
        g (int64[B, S] ids, int32[B] lengths, int32[1] total, float[B, 2, {past}, 8] pk, float[B, 2, {past}, 8] pv)
          => (float[B, S, 11] y, float[B, 2, T, 8] k, float[B, 2, T, 8] v) {{
            e = Gather (table, ids)
            q0 = MatMul (e, wq)
            k0 = MatMul (e, wk)
            v0 = MatMul (e, wv)
            a, k, v = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q0, k0, v0, pk, pv, lengths, total)
            b = Add (a, e)
            y = MatMul (b, head)
        }}""", {"table": array(11, 32), "wq": array(32, 32), "wk": array(32, 16), "wv": array(32, 16), "head": array(32, 11)})


def step(past: int) -> Feeds:
    """One more token behind those of a cache."""
    return {"ids": R.integers(0, 11, (1, 1)), "lengths": np.array([past], np.int32), "total": np.array([past + 1], np.int32),
            "pk": array(1, 2, past, 8), "pv": array(1, 2, past, 8)}


def encoder() -> onnx.ModelProto:
    """Positions are cut from a table by the length, and heads are made by its value."""
    return parsed("""
        g (int64[B, S] ids) => (float[B, S, 12] y) {
            e = Gather (table, ids)
            shape = Shape (ids)
            length = Slice (shape, one, two)
            places = Slice (all_places, zero, length, one)
            p = Gather (positions, places)
            x = Add (e, p)
            heads = Concat <axis = 0> (shape, split)
            flat = Concat <axis = 0> (shape, width)
            q0 = MatMul (x, w)
            q1 = Reshape (q0, heads)
            q = Transpose <perm = [0, 2, 1, 3]> (q1)
            k = Transpose <perm = [0, 2, 3, 1]> (q1)
            s = MatMul (q, k)
            m = Softmax <axis = -1> (s)
            o = MatMul (m, q)
            o1 = Transpose <perm = [0, 2, 1, 3]> (o)
            o2 = Reshape (o1, flat)
            r = Add (o2, x)
            y = LayerNormalization (r, g, b)
        }""", {"table": array(9, 12), "positions": array(64, 12), "all_places": np.arange(64)[None], "zero": np.array([0]),
               "one": np.array([1]), "two": np.array([2]), "split": np.array([3, 4]), "width": np.array([12]),
               "w": array(12, 12), "g": array(12), "b": array(12)})


def recogniser() -> onnx.ModelProto:
    """Convolutions with strides over a line of text of any width, and scores of letters for each column."""
    return parsed("""
        g (float[1, 3, 8, W] x) => (float[1, L, 6] y) {
            a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w0, b0)
            b = HardSwish (a)
            c = Conv <group = 4, strides = [2, 1], pads = [1, 1, 1, 1]> (b, w1)
            d = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
            e = Squeeze (d, axes)
            f = Transpose <perm = [0, 2, 1]> (e)
            h = MatMul (f, w2)
            y = Softmax <axis = -1> (h)
        }""", {"w0": array(4, 3, 3, 3), "b0": array(4), "w1": array(4, 1, 3, 3), "w2": array(4, 6), "axes": np.array([2])})


def exported() -> onnx.ModelProto:
    """As exporters write it: a shape that is chosen where it is -1, heads of one sentence, and the first row of the result."""
    return parsed("""
        g (float[1, S, 12] x) => (float[1, 12] y) {
            shape = Shape (x)
            ones = ConstantOfShape <value = int64[1] {1}> (three)
            flat = Reshape (shape, minus)
            unset = Equal (flat, minus)
            wanted = Where (unset, ones, flat)
            wide = Expand (bias, wanted)
            a = Add (x, wide)
            q0 = MatMul (a, w)
            q1 = Reshape (q0, heads)
            q = Transpose <perm = [0, 2, 1, 3]> (q1)
            k = Transpose <perm = [0, 2, 3, 1]> (q1)
            s = MatMul (q, k)
            m = Softmax <axis = -1> (s)
            o = MatMul (m, q)
            first = Gather <axis = 2> (o, zero)
            y = Reshape (first, row)
        }""", {"three": np.array([3]), "minus": np.array([-1]), "bias": array(1, 1, 12), "w": array(12, 12),
               "heads": np.array([0, 0, 3, 4]), "zero": np.int64(0), "row": np.array([1, 12])})


def images() -> onnx.ModelProto:
    """The first extent and those of the images have no names."""
    return parsed("""
        g (float[?, 3, ?, ?] x) => (float[?, 8, ?, ?] y, float[?, 8] z) {
            c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
            r = Relu (c)
            p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
            y = Conv <pads = [1, 1, 1, 1]> (p, v)
            g = GlobalAveragePool (y)
            z = Flatten (g)
        }""", {"w": array(8, 3, 3, 3), "v": array(8, 8, 3, 3)})


def recurrent() -> onnx.ModelProto:
    return parsed("""
        g (float[L, B, 3] x) => (float[L, B, 4] y, float[1, B, 4] c) {
            s, h, c = LSTM <hidden_size = 4> (x, w, r, b)
            y = Squeeze (s, axes)
        }""", {"w": array(1, 16, 3), "r": array(1, 16, 4), "b": array(1, 32), "axes": np.array([1])})


MODELS: dict[str, Open] = {
    "trees": Open(trees, lambda n: {"x": array(n, 4)}, (20, 33, 17, 64, 100, 129, 257), 1, (0, 1, 7)),
    "decoder": Open(decoder, step, (20, *range(21, 40), 5, 6, 200), 3, (0, 1)),
    "encoder": Open(encoder, lambda n: {"ids": R.integers(0, 9, (2, n))}, (20, 21, 5, 33, 40, 7, 64, 13), 2, (1,)),
    "exported": Open(exported, lambda n: {"x": array(1, n, 12)}, (20, 21, 5, 33, 40, 7, 64, 13), 2, (1,)),
    "recogniser": Open(recogniser, lambda n: {"x": array(1, 3, 8, n)}, (32, *range(33, 53), 100, 77, 12), 2, (4, 5)),
    "recurrent": Open(recurrent, lambda n: {"x": array(n, 2, 3)}, (10, 11, 12, 20, 33, 5, 100), 1, (1,)),
}
"""By kind."""
