"""Models of f16 and bf16 whose activations have a mean of 20 and a deviation of 5, and rows long enough that sums leave f16.

What is expected is numpy's f64, rounded where a node has a result, and ONNX Runtime's f16 for operators alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import helper

import polytc

N = helper.make_node
R = np.random.default_rng(11)
HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
ALL = pytest.mark.parametrize("half", HALVES)
ROWS = 20 + 5 * R.standard_normal((3, 4096))
IMAGES = 20 + 5 * R.standard_normal((2, 6, 64, 64))
LONG = np.zeros((2, 100_000))


def rms(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def normal(x: np.ndarray, *axes: int) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def pooled(x: np.ndarray) -> np.ndarray:
    """Means of what windows of 63 x 63 meet, three beyond the borders."""
    def sums(a: np.ndarray) -> np.ndarray:
        padded = np.pad(a, ((0, 0), (0, 0), (3, 3), (3, 3)))
        return np.lib.stride_tricks.sliding_window_view(padded, (63, 63), (2, 3)).sum((4, 5))
    return sums(x) / sums(np.ones_like(x))


ones, zeros = np.ones, np.zeros
OPERATORS: dict[str, tuple[list, np.ndarray, dict[str, np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "LayerNormalization": ([N("LayerNormalization", ["x", "s", "b"], ["y"])], ROWS, {"s": ones(4096), "b": zeros(4096)},
                           lambda x: normal(x, -1)),
    "RMSNormalization": ([N("RMSNormalization", ["x", "s"], ["y"])], ROWS, {"s": ones(4096)}, rms),
    "InstanceNormalization": ([N("InstanceNormalization", ["x", "s", "b"], ["y"])], IMAGES, {"s": ones(6), "b": zeros(6)},
                              lambda x: normal(x, 2, 3)),
    "GroupNormalization": ([N("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)], IMAGES, {
        "s": ones(6), "b": zeros(6)}, lambda x: normal(x.reshape(2, 3, -1), 2).reshape(x.shape)),
    "BatchNormalization": ([N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])], IMAGES, {
        "s": ones(6), "b": zeros(6), "m": np.full(6, 20.0), "v": np.full(6, 25.0)}, lambda x: (x - 20) / np.sqrt(25 + 1e-5)),
    "LpNormalization1": ([N("LpNormalization", ["x"], ["y"], p=1)], ROWS, {}, lambda x: x / np.abs(x).sum(-1, keepdims=True)),
    "LpNormalization2": ([N("LpNormalization", ["x"], ["y"], p=2)], ROWS, {},
                         lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True))),
    "ReduceMean": ([N("ReduceMean", ["x"], ["y"])], ROWS, {}, lambda x: x.mean(keepdims=True)),
    "ReduceL2": ([N("ReduceL2", ["x"], ["y"])], ROWS, {}, lambda x: np.sqrt((x * x).sum(keepdims=True))),
    "ReduceLogSum": ([N("ReduceLogSum", ["x"], ["y"])], ROWS, {}, lambda x: np.log(x.sum(keepdims=True))),
    "ReduceLogSumExp": ([N("ReduceLogSumExp", ["x"], ["y"])], LONG, {}, lambda x: np.log(np.exp(x).sum(keepdims=True))),
    "Mean": ([N("Mean", ["x", "k", "x"], ["y"])], ROWS * 1000, {"k": np.full(4096, 29696.0)}, lambda x: (2 * x + 29696) / 3),
    "GlobalAveragePool": ([N("GlobalAveragePool", ["x"], ["y"])], IMAGES, {}, lambda x: x.mean((2, 3), keepdims=True)),
    "AveragePool": ([N("AveragePool", ["x"], ["y"], kernel_shape=[64, 64])], IMAGES, {},
                    lambda x: x.mean((2, 3), keepdims=True)),
    "AveragePoolPadded": ([N("AveragePool", ["x"], ["y"], kernel_shape=[63, 63], pads=[3, 3, 3, 3])], IMAGES, {}, pooled),
    "Softmax": ([N("Softmax", ["x"], ["y"])], LONG, {}, softmax),
    "LogSoftmax": ([N("LogSoftmax", ["x"], ["y"])], LONG, {}, lambda x: np.log(softmax(x))),
    "Gemm": ([N("Gemm", ["x", "w", "c"], ["y"], alpha=0.001)], ROWS, {"w": ones((4096, 3)), "c": ones(3)},
             lambda x: 0.001 * x.sum(1, keepdims=True) + ones(3)),
    "GemmOfOne": ([N("Gemm", ["x", "w", "c"], ["y"])], ROWS, {"w": ones((4096, 3)), "c": np.full(3, -59392.0)},
                  lambda x: x.sum(1, keepdims=True) - 59392 * ones(3)),
}


def halved(arrays: Mapping[str, np.ndarray], half: str) -> dict[str, np.ndarray]:
    return {n: a.astype(HALVES[half]) if a.dtype.kind == "f" else a for n, a in arrays.items()}


def source(build, nodes: Sequence, x: np.ndarray, constants: Mapping[str, np.ndarray]):
    kept = [n for n in constants if any(n in node.input for node in nodes)]
    return build(list(nodes), {"x": (x.dtype, list(x.shape))}, ["y"], {n: constants[n] for n in kept}, opset=23)


def check(found: np.ndarray, exact: np.ndarray, half: str, places: float) -> None:
    """places: how many last places of the largest result are allowed."""
    assert found.dtype == HALVES[half]
    assert np.isfinite(exact).all()
    slack = places * float(ml_dtypes.finfo(HALVES[half]).eps) * np.abs(exact).max() + 2.0**-24
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=0, atol=slack)


@pytest.mark.part(10)
@ALL
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str, half: str, build) -> None:
    nodes, x, constants, exact = OPERATORS[name]
    x, constants = x.astype(HALVES[half]), halved(constants, half)
    model = source(build, nodes, x, constants)
    found = polytc.load_onnx(model).compile(target="cpu")(x)
    check(found, exact(x.astype(np.float64)), half, 0.51 if name != "Mean" else 1)
    if half == "f16":
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        other = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        check(found, other.run(None, {"x": x})[0].astype(np.float64), half, 2)


# ---- models of several nodes: each result rounded

EXACT: dict[str, Callable] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Sqrt": np.sqrt,
    "ReduceMean": lambda x, axes=None: x.mean(-1, keepdims=True), "MatMul": np.matmul, "Softmax": softmax,
    "Transpose": lambda x: x.swapaxes(-1, -2), "Relu": lambda x: np.maximum(x, 0),
    "LayerNormalization": lambda x, s, b: normal(x, -1) * s + b,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "Conv": lambda x, w, b: np.einsum("nchwrs,mcrs->nmhw", np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)), w)
    + b[:, None, None],
    "BatchNormalization": lambda x, *p: p[0][:, None, None] * (x - p[2][:, None, None]) / np.sqrt(
        p[3] + 1e-5)[:, None, None] + p[1][:, None, None],
}
W = R.standard_normal((64, 64)) / 8
CONSTANTS = {"two": np.array(2.0), "axes": np.array([-1]), "tiny": np.array(1e-5), "gain": 1 + 0.1 * R.standard_normal(64),
             "bias": R.standard_normal(64), "wq": W, "wk": W[::-1] * 0.2, "wv": W.T, "scale": np.array(0.125),
             "kernels": R.standard_normal((6, 6, 3, 3)) / 7, "s6": 1 + R.random(6), "b6": R.standard_normal(6),
             "m6": 20 * R.standard_normal(6), "v6": 25 * (1 + R.random(6))}
TOKENS = 20 + 5 * R.standard_normal((2, 24, 64))
MODELS = {
    "normalised by hand": ([N("Pow", ["x", "two"], ["p"]), N("ReduceMean", ["p", "axes"], ["m"]),
                            N("Add", ["m", "tiny"], ["a"]), N("Sqrt", ["a"], ["r"]),
                            N("Div", ["x", "r"], ["d"]), N("Mul", ["d", "gain"], ["y"])], TOKENS),
    "layers by hand": ([N("ReduceMean", ["x", "axes"], ["u"]), N("Sub", ["x", "u"], ["c"]), N("Mul", ["c", "c"], ["q"]),
                        N("ReduceMean", ["q", "axes"], ["v"]), N("Add", ["v", "tiny"], ["a"]), N("Sqrt", ["a"], ["r"]),
                        N("Div", ["c", "r"], ["d"]), N("Add", ["d", "bias"], ["y"])], TOKENS),
    "attention": ([N("LayerNormalization", ["x", "gain", "bias"], ["n"]), N("MatMul", ["n", "wq"], ["q"]),
                   N("MatMul", ["n", "wk"], ["k"]), N("MatMul", ["n", "wv"], ["v"]),
                   N("Transpose", ["k"], ["t"], perm=[0, 2, 1]), N("MatMul", ["q", "t"], ["s"]),
                   N("Mul", ["s", "scale"], ["l"]), N("Softmax", ["l"], ["e"]),
                   N("MatMul", ["e", "v"], ["o"]), N("Add", ["o", "x"], ["y"])], TOKENS),
    "convolution": ([N("Conv", ["x", "kernels", "b6"], ["c"]), N("BatchNormalization", ["c", "s6", "b6", "m6", "v6"], ["n"]),
                     N("Relu", ["n"], ["r"]), N("GlobalAveragePool", ["r"], ["y"])], IMAGES),
}


def node_by_node(nodes: Sequence, x: np.ndarray, constants: Mapping[str, np.ndarray], half: str) -> np.ndarray:
    values = {n: np.asarray(a).astype(np.float64) for n, a in {**constants, "x": x}.items()}
    for node in nodes:
        exact = EXACT[node.op_type](*(values[n] for n in node.input))
        values[node.output[0]] = np.asarray(exact).astype(HALVES[half]).astype(np.float64)
    return values["y"]


@pytest.mark.part(16)
@ALL
@pytest.mark.parametrize("fusion", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, fusion: bool, half: str, build) -> None:
    nodes, x = MODELS[name]
    x, constants = x.astype(HALVES[half]), halved(CONSTANTS, half)
    found = polytc.load_onnx(source(build, nodes, x, constants)).compile(target="cpu", fusion=fusion)(x)
    check(found, node_by_node(nodes, x, constants, half), half, 4)


def test_a_scale_that_takes_weights_out_of_range_stays_behind_the_convolution(build) -> None:
    """1e4 of a kernel times 100 is no f16; the model's numbers are."""
    x = np.full((1, 1, 4, 4), 2.0**-10, np.float16)
    constants = {"w": np.full((1, 1, 3, 3), 1e4, np.float16), "c": np.zeros(1, np.float16), "s": np.full(1, 100, np.float16),
                 "b": np.zeros(1, np.float16), "m": np.full(1, 80, np.float16), "v": np.full(1, 1, np.float16)}
    nodes = [N("Conv", ["x", "w", "c"], ["d"]), N("BatchNormalization", ["d", "s", "b", "m", "v"], ["y"])]
    found = polytc.load_onnx(source(build, nodes, x, constants)).compile(target="cpu")(x)
    check(found, node_by_node(nodes, x, constants, "f16"), "f16", 2)


def test_a_result_of_a_node_is_rounded_inside_of_a_kernel(build) -> None:
    """300 * 300 is infinite in f16, whatever divides it afterwards, as in ONNX Runtime."""
    x = np.full((4, 8), 300, np.float16)
    nodes = [N("Mul", ["x", "x"], ["p"]), N("Div", ["p", "x"], ["y"])]
    assert np.isinf(polytc.load_onnx(source(build, nodes, x, {})).compile(target="cpu")(x)).all()
