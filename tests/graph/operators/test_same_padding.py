"""auto_pad SAME where strides exceed windows: pools leave elements out, as in ONNX Runtime, convolutions do not, as in onnx."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import polytc
from tests.graph.small_models import model_of

WINDOWS = [(1, 2), (1, 3), (1, 4), (2, 4), (2, 5), (3, 5)]
LENGTHS = range(6, 12)


def theirs(model, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def pool(op: str, auto: str, kernel: int, stride: int, length: int | str):
    own = {"kernel_shape": [kernel, 1], "strides": [stride, 1], "auto_pad": auto}
    if op == "QLinearAveragePool":
        node = helper.make_node(op, ["x", "s", "z", "s", "z"], ["y"], domain="com.microsoft", **own)
        return model_of([node], {"x": (np.uint8, (1, 2, length, 3))}, ["y"], {"s": np.float32(0.5), "z": np.uint8(4)}, opset=18)
    return model_of([helper.make_node(op, ["x"], ["y"], **own)], {"x": (np.float32, (1, 2, length, 3))}, ["y"], opset=18)


def numbers(op: str, length: int) -> np.ndarray:
    x = np.arange(1, 1 + 6 * length).reshape(1, 2, length, 3)
    return x.astype(np.uint8 if op == "QLinearAveragePool" else np.float32)


@pytest.mark.part(12)
@pytest.mark.parametrize("op", ["LpPool", "QLinearAveragePool"])
@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), WINDOWS)
def test_pools_leave_elements_out(op: str, auto: str, kernel: int, stride: int) -> None:
    """Of each length from 6 to 11, sizes open: those that come to less than no padding and those that do not, in turns."""
    ours = polytc.load_onnx(pool(op, auto, kernel, stride, "n")).compile(symbolic=True)
    for length in LENGTHS:
        x = numbers(op, length)
        np.testing.assert_allclose(ours(x), theirs(pool(op, auto, kernel, stride, length), x), rtol=1e-6, err_msg=f"{length}")


@pytest.mark.parametrize(("kernel", "stride", "length"), [(1, 3, 6), (1, 3, 9), (2, 4, 8)])
def test_maximum(kernel: int, stride: int, length: int) -> None:
    """ONNX Runtime refuses these, onnx's reference takes elements from the middle."""
    model, x = pool("MaxPool", "SAME_UPPER", kernel, stride, length), numbers("MaxPool", length)
    np.testing.assert_array_equal(polytc.load_onnx(model).compile()(x), ReferenceEvaluator(model).run(None, {"x": x})[0])


@pytest.mark.part(4)
@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), WINDOWS)
def test_convolutions_begin_at_the_first(auto: str, kernel: int, stride: int) -> None:
    """So says onnx's reference; ONNX Runtime does the same for strides up to two more than windows."""
    w = np.arange(1, 1 + kernel, dtype=np.float32).reshape(1, 1, kernel)
    for length in LENGTHS:
        x = np.arange(length, dtype=np.float32).reshape(1, 1, length)
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride], auto_pad=auto)], {"x": x}, ["y"],
                         {"w": w}, opset=18)
        wanted = ReferenceEvaluator(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(polytc.load_onnx(model).compile()(x), wanted, rtol=1e-6, err_msg=f"{length}")


@pytest.mark.parametrize(("kernel", "stride"), [(1, 2), (1, 3), (2, 3), (2, 5)])
def test_transposed_convolutions_have_the_extents_of_onnx(kernel: int, stride: int) -> None:
    """Input times stride; ONNX Runtime's results, which are shorter, are followed by zeros."""
    x, w = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4), np.ones((1, 1, kernel), np.float32)
    model = model_of([helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride], auto_pad="SAME_UPPER")], {"x": x},
                     ["y"], {"w": w}, opset=18)
    shorter = theirs(model, x)
    assert shorter.shape[2] < 4 * stride
    wanted = np.concatenate([shorter, np.zeros((1, 1, 4 * stride - shorter.shape[2]), np.float32)], 2)
    np.testing.assert_array_equal(polytc.load_onnx(model).compile()(x), wanted)
