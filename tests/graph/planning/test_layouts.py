"""How values between convolutions are stored: what moves, what stays, and that results are those of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

import polytc
from polytc.graph.plan import Array, Plan
from polytc.graph.planning import layouts
from polytc.graph.specialisation.specialise import specialise
from polytc.machine import GENERIC_CPU, GENERIC_GPU

N = helper.make_node
WIDE = replace(GENERIC_CPU, vector_bytes=64)


def array(*shape: int) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / 4).astype(np.float32)


def planned(model: onnx.ModelProto) -> Plan:
    graph = polytc.load_onnx(model)
    return specialise(graph, {v.name: Array(v.dtype, v.static_shape) for v in graph.inputs}).plan


CONV3 = {"pads": [1, 1, 1, 1]}


def residual(build: Callable[..., onnx.ModelProto], channels: int, size: int) -> onnx.ModelProto:
    """x -> c -> r -> d (+ r) -> y, where y is an output."""
    nodes = [N("Conv", ["x", "w"], ["c"], **CONV3), N("Relu", ["c"], ["r"]), N("Conv", ["r", "v"], ["d"], **CONV3),
             N("Add", ["d", "r"], ["s"]), N("Relu", ["s"], ["t"]), N("Conv", ["t", "v"], ["y"])]
    constants = {"w": array(channels, 3, 3, 3), "v": array(channels, channels, 3, 3)}
    return build(nodes, {"x": (np.float32, [1, 3, size, size])}, ["y"], constants)


def test_inner_values_have_their_channels_last(build) -> None:
    plan = planned(residual(build, 32, 14))
    stored = layouts.choose(plan, WIDE)
    assert {n: stored.types[n].shape for n in "xcrdsty"} == {
        "x": (1, 3, 14, 14), "y": (1, 32, 12, 12), **dict.fromkeys("crdst", (1, 14, 14, 32))}
    for call in stored.calls:
        for tensor, value in zip((*call.program.inputs, *call.program.outputs), (*call.inputs, *call.outputs), strict=True):
            assert call.program.tensor(tensor).shape == stored.types[value].shape


def test_reductions_walk_along_the_channels(build) -> None:
    stored = layouts.choose(planned(residual(build, 32, 14)), WIDE)
    sums = [s for c in stored.calls if c.outputs == ("d",) for s in c.program.statements if s.op == "+"]
    assert [r.index for s in sums for r in s.ranges] == ["h0", "h1", "m", "r0", "r1", "c"]


def block(build: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    """As in ConvNeXt: x -> c, a convolution; its transpose t is normalised and goes through two products of matrices, o; o is
    turned back and added to c, which another convolution reads."""
    nodes = [N("Conv", ["x", "w"], ["c"], **CONV3), N("Transpose", ["c"], ["t"], perm=[0, 2, 3, 1]),
             N("LayerNormalization", ["t", "scale"], ["n"]), N("MatMul", ["n", "up"], ["u"]), N("Relu", ["u"], ["a"]),
             N("MatMul", ["a", "down"], ["o"]), N("Transpose", ["o"], ["b"], perm=[0, 3, 1, 2]), N("Add", ["b", "c"], ["s"]),
             N("Conv", ["s", "v"], ["y"], **CONV3)]
    constants = {"w": array(32, 3, 3, 3), "v": array(16, 32, 3, 3), "scale": array(32), "up": array(32, 64),
                 "down": array(64, 32)}
    return build(nodes, {"x": (np.float32, [1, 3, 16, 16])}, ["y"], constants)


def test_what_a_program_turns_is_no_region(build) -> None:
    plan = planned(block(build))
    stored = layouts.choose(plan, WIDE)
    moved = {n for n in "ctnuaobs" if stored.types[n].shape != plan.types[n].shape}
    assert moved == {"c", "b", "s"}


def test_results_of_what_is_turned(build, runtime) -> None:
    model, x = block(build), array(1, 3, 16, 16)
    (found,), (expected,) = polytc.load_onnx(model).compile().run(None, {"x": x}), runtime(model, {"x": x})
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("channels", "size"), [(5, 64), (3, 32)])
def test_few_channels_stay_first(build, channels: int, size: int) -> None:
    plan = planned(residual(build, channels, size))
    assert layouts.choose(plan, WIDE) == plan


def test_other_machines_and_scalars_leave_the_plan_alone(build) -> None:
    plan = planned(residual(build, 32, 14))
    assert layouts.choose(plan, GENERIC_GPU) == plan
    assert layouts.choose(plan, replace(GENERIC_CPU, vector_bytes=4)) == plan


def test_what_is_seen_in_another_shape_stays(build) -> None:
    nodes = [N("Conv", ["x", "w"], ["c"]), N("Relu", ["c"], ["r"]),
             N("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             N("Reshape", ["p", "shape"], ["f"]), N("Mul", ["f", "k"], ["y"])]
    plan = planned(build(nodes, {"x": (np.float32, [1, 64, 9, 9])}, ["y"], {
        "w": array(32, 64, 1, 1), "shape": np.array([4, -1]), "k": array(4, 128)}))
    stored = layouts.choose(plan, WIDE)
    assert [stored.types[n].shape for n in ("c", "r", "p")] == [(1, 9, 9, 32), (1, 9, 9, 32), (1, 32, 4, 4)]


def test_products_of_matrices_have_no_channels(build) -> None:
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Relu", ["a"], ["b"]), N("MatMul", ["b", "w"], ["c"]), N("Exp", ["c"], ["y"])]
    plan = planned(build(nodes, {"x": (np.float32, [2, 6, 32, 32])}, ["y"], {"w": array(32, 32)}))
    assert layouts.choose(plan, WIDE) == plan


@pytest.mark.parametrize("heads", [4, 12])
def test_attention_without_images_stays(build, heads: int) -> None:
    nodes = [N("Attention", ["q", "k", "v"], ["y"], q_num_heads=heads, kv_num_heads=heads, is_causal=1)]
    inputs = {n: (np.float32, [1, 256, 64 * heads]) for n in "qkv"}
    plan = planned(build(nodes, inputs, ["y"], {}, opset=23))
    assert layouts.choose(plan, WIDE) == plan


def _mixed(build: Callable[..., onnx.ModelProto], size: tuple[int, int]) -> onnx.ModelProto:
    """Everything that convolutional networks are made of."""
    nodes = [
        N("Conv", ["x", "w1", "b1"], ["c1"], pads=[3, 3, 3, 3], strides=[2, 2]), N("Relu", ["c1"], ["r1"]),
        N("MaxPool", ["r1"], ["m1"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        N("Conv", ["m1", "w2", "b2"], ["c2"]), N("Clip", ["c2", "zero", "six"], ["k2"]),
        N("Conv", ["k2", "w3"], ["c3"], group=24, pads=[1, 1, 1, 1]), N("HardSwish", ["c3"], ["h3"]),
        N("Conv", ["k2", "w4"], ["c4"], group=24, pads=[2, 2, 2, 2]),
        N("Concat", ["h3", "c4"], ["cat"], axis=1),
        N("Conv", ["cat", "w5", "b2"], ["c5"], **CONV3), N("Add", ["c5", "k2"], ["a5"]),
        N("GlobalAveragePool", ["a5"], ["g"]), N("Sigmoid", ["g"], ["sg"]), N("Mul", ["a5", "sg"], ["e"]),
        N("Conv", ["e", "w6"], ["c6"], group=2, pads=[1, 1, 1, 1], strides=[2, 2]),
        N("AveragePool", ["c6"], ["p6"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], count_include_pad=0),
        N("ConvTranspose", ["p6", "w7"], ["t"], strides=[2, 2]), N("Softmax", ["t"], ["s"], axis=1),
        N("Resize", ["s", "", "scales"], ["z"], mode="nearest"),
        N("Conv", ["z", "w8"], ["c8"]), N("Flatten", ["c8"], ["y"]), N("ReduceMean", ["e"], ["v"], axes=[2, 3], keepdims=0)]
    constants = {"w1": array(16, 3, 7, 7), "b1": array(16), "w2": array(24, 16, 1, 1), "b2": array(24),
                 "w3": array(24, 1, 3, 3), "w4": array(24, 1, 5, 5), "w5": array(24, 48, 3, 3),
                 "w6": array(32, 12, 3, 3), "w7": array(32, 18, 2, 2),
                 "w8": array(7, 18, 1, 1), "zero": np.float32(0), "six": np.float32(6),
                 "scales": np.array([1, 1, 2, 2], np.float32)}
    return build(nodes, {"x": (np.float32, [2, 3, *size])}, ["y", "v"], constants, opset=17)


@pytest.mark.long
@pytest.mark.parametrize("chosen", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("size", [(33, 47), pytest.param((64, 24), marks=pytest.mark.long)])
def test_results_of_a_network(build, runtime, size: tuple[int, int], chosen: bool) -> None:
    model = _mixed(build, size)
    feeds = {"x": 4 * array(2, 3, *size)}
    graph = polytc.load_onnx(model)
    assert layouts.choose(planned(model), WIDE) != planned(model)
    expected = runtime(model, feeds)
    for mine, wanted in zip(graph.compile(layouts=chosen).run(None, feeds), expected, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.part(2)
@pytest.mark.parametrize(("rank", "op"), [
    pytest.param(1, "Conv", marks=pytest.mark.long), (3, "Conv"), (1, "ConvTranspose"), (3, "MaxPool")])
def test_results_in_other_ranks(build, runtime, rank: int, op: str) -> None:
    size = (11, 6, 5)[:rank]
    weights = array(16, 16, *(2,) * rank)
    middle = N("MaxPool", ["a"], ["b"], kernel_shape=[3] * rank, pads=[1] * 2 * rank) if op == "MaxPool" else N(
        op, ["a", "v"], ["b"], pads=[1] * 2 * rank)
    nodes = [N("Conv", ["x", "w"], ["a"], pads=[1] * 2 * rank), middle, N("Conv", ["b", "v"], ["y"])]
    model = build(nodes, {"x": (np.float32, [1, 3, *size])}, ["y"], {"w": array(16, 3, *(3,) * rank), "v": weights})
    x = array(1, 3, *size)
    assert layouts.choose(planned(model), WIDE) != planned(model)
    np.testing.assert_allclose(polytc.load_onnx(model).compile()(x), runtime(model, {"x": x})[0], rtol=1e-4, atol=1e-5)
