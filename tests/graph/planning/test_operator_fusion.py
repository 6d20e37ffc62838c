"""What is merged, folded and grouped: the structure of the plan, not only its results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph.ir import Graph
from polytc.graph.plan import Array, Plan
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.specialisation.specialise import specialise

R = np.random.default_rng(11)
N = helper.make_node


def array(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def planned(graph: Graph) -> Plan:
    return fuse(specialise(graph, {v.name: Array(v.dtype, v.static_shape) for v in graph.inputs}).plan)


@pytest.fixture
def groups(build) -> Callable[..., list[list[str]]]:
    """The outputs of each program of a model's plan."""
    def run(nodes, inputs, outputs, constants=None, opset: int = 21) -> list[list[str]]:
        graph = polytc.load_onnx(build(nodes, {k: (np.float32, s) for k, s in inputs.items()}, outputs, constants, opset))
        return [list(c.outputs) for c in planned(graph).calls]
    return run


def test_convolution_takes_bias_and_activation(groups) -> None:
    assert groups([N("Conv", ["x", "w", "b"], ["c"]), N("HardSwish", ["c"], ["h"]),
    N("Conv", ["h", "v"], ["y"])], {"x": [1, 3, 8, 8]}, ["y"],
                  {"w": array(4, 3, 3, 3), "b": array(4), "v": array(2, 4, 1, 1)}) == [["h"], ["y"]]


def test_residual_joins_the_later_producer(groups) -> None:
    assert groups([N("MatMul", ["x", "w"], ["a"]), N("Relu", ["a"], ["r"]), N("MatMul", ["r", "w"], ["b"]),
    N("Add", ["b", "r"], ["s"]), N("Relu", ["s"], ["y"])],
                  {"x": [4, 4]}, ["y"], {"w": array(4, 4)}) == [["r"], ["y"]]


def test_a_value_with_several_readers_in_its_group_stays_inside(groups) -> None:
    nodes = [N("Conv", ["x", "w"], ["c"]), N("Add", ["c", "three"], ["t"]), N("Clip", ["t", "zero", "six"], ["k"]),
    N("Mul", ["c", "k"], ["m"]), N("Div", ["m", "six"], ["y"])]
    assert groups(nodes, {"x": [1, 2, 4, 4]}, ["y"], {"w": array(2, 2, 1, 1), "three": np.float32(3), "zero": np.float32(0),
                                                      "six": np.float32(6)}) == [["y"]]


def test_a_group_never_needs_itself(groups) -> None:
    """Squeeze and excitation: the gate is computed from the tensor it scales."""
    nodes = [N("Conv", ["x", "w"], ["c"]), N("Relu", ["c"], ["r"]), N("GlobalAveragePool", ["r"], ["p"]),
    N("Conv", ["p", "w"], ["g"]), N("Mul", ["r", "g"], ["y"])]
    assert groups(nodes, {"x": [1, 2, 4, 4]}, ["y"], {"w": array(2, 2, 1, 1)}) == [["r"], ["p"], ["g"], ["y"]]


def test_softmax_takes_its_producers_and_is_one_program(groups) -> None:
    nodes = [N("Mul", ["x", "s"], ["a"]), N("Add", ["a", "m"], ["b"]), N("Softmax", ["b"], ["y"])]
    assert groups(nodes, {"x": [2, 3, 4, 4], "m": [4, 4]}, ["y"], {"s": np.float32(0.5)}) == [["y"]]


def attention(heads: int) -> list:
    """Queries, keys and values of some heads lie side by side: transposition, scores, scale, mask, softmax, values, back."""
    def head(x: str, *perm: int) -> list:
        return [N("Reshape", [x, "shape"], [f"{x}.parts"]), N("Transpose", [f"{x}.parts"], [f"{x}.heads"], perm=perm)]
    return [*head("q", 0, 2, 1, 3), *head("k", 0, 2, 3, 1), *head("v", 0, 2, 1, 3), N("MatMul", ["q.heads", "k.heads"], ["s"]),
            N("Mul", ["s", "scale"], ["t"]), N("Add", ["t", "m"], ["u"]), N("Softmax", ["u"], ["p"], axis=-1),
            N("MatMul", ["p", "v.heads"], ["o"]), N("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3])]


def attention_inputs(heads: int) -> tuple[dict, dict]:
    inputs = {"q": [1, 9, heads * 16], "k": [1, 9, heads * 16], "v": [1, 9, heads * 16], "m": [9, 9]}
    return inputs, {"shape": np.array([1, 9, heads, 16]), "scale": np.float32(0.25)}


def test_attention_of_many_heads_is_one_program_with_its_transpositions(groups) -> None:
    inputs, constants = attention_inputs(8)
    assert groups(attention(8), inputs, ["y"], constants) == [["y"]]


def test_products_of_matrices_around_a_softmax_stay_apart(groups) -> None:
    """Weights are used again for all rows: nothing is gained by doing some rows at a time."""
    nodes = [N("MatMul", ["x", "w"], ["s"]), N("Softmax", ["s"], ["p"]), N("MatMul", ["p", "v"], ["y"])]
    assert groups(nodes, {"x": [16, 32]}, ["y"], {"w": array(32, 64), "v": array(64, 8)})[-1] == ["y"]
    assert len(groups(nodes, {"x": [16, 32]}, ["y"], {"w": array(32, 64), "v": array(64, 8)})) > 1


def test_probabilities_that_somebody_else_reads_leave_their_program(groups) -> None:
    inputs, constants = attention_inputs(8)
    found = groups(attention(8), inputs, ["y", "p"], constants)
    assert ["p"] in found
    assert ["y"] in found or ["o"] in found


@pytest.mark.part(2)
@pytest.mark.parametrize("heads", [2, 8])
def test_attention_results(build, heads: int) -> None:
    inputs, constants = attention_inputs(heads)
    data = build(attention(heads), {n: (np.float32, s) for n, s in inputs.items()}, ["y"], constants)
    feeds = {n: array(*s) for n, s in inputs.items()}
    q, k, v = (feeds[n].reshape(9, heads, 16).astype(np.float64) for n in "qkv")
    scores = np.einsum("ihd,jhd->hij", q, k) * 0.25 + feeds["m"]
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = np.einsum("hij,jhd->ihd", e / e.sum(axis=-1, keepdims=True), v)[None]
    np.testing.assert_allclose(polytc.load_onnx(data).compile().run(None, feeds)[0], expected, rtol=1e-5, atol=1e-5)


def test_a_layer_norm_in_pieces_is_one_program(groups) -> None:
    nodes = [N("ReduceMean", ["x"], ["m"], axes=[-1]), N("Sub", ["x", "m"], ["d"]), N("Mul", ["d", "d"], ["q"]),
    N("ReduceMean", ["q"], ["v"], axes=[-1]),
             N("Add", ["v", "e"], ["ve"]), N("Sqrt", ["ve"], ["s"]), N("Div", ["d", "s"], ["n"]), N("Mul", ["n", "g"], ["y"])]
    assert groups(nodes, {"x": [6, 16]}, ["y"], {"e": np.float32(1e-5), "g": array(16)}, opset=13) == [["y"]]


def test_values_asked_for_are_outputs(groups) -> None:
    assert groups([N("Relu", ["x"], ["a"]), N("Exp", ["a"], ["b"])], {"x": [4]}, ["a", "b"]) == [["a", "b"]]


def test_batch_norm_disappears_into_weights(build, runtime) -> None:
    def norm(before: str, after: str) -> list:
        return [N("BatchNormalization", [before, f"s{after}", f"o{after}", f"m{after}", f"v{after}"], [after])]

    constants = {"w": array(4, 3, 3, 3), "u": array(4, 2, 2, 2), "b": array(4)}
    for after, channels in (("n1", 4), ("n2", 2)):
        constants |= {f"s{after}": array(channels), f"o{after}": array(channels), f"m{after}": array(channels),
                      f"v{after}": abs(array(channels)) + 0.1}
    nodes = [N("Conv", ["x", "w", "b"], ["c"]), *norm("c", "n1"),
    N("ConvTranspose", ["n1", "u"], ["t"], strides=[2, 2]), *norm("t", "n2")]
    model = build(nodes, {"x": (np.float32, [1, 3, 6, 6])}, ["n2"], constants)
    graph = polytc.load_onnx(model)
    assert [n.op for n in graph.nodes] == ["Conv", "ConvTranspose"]
    x = array(1, 3, 6, 6)
    np.testing.assert_allclose(graph.compile(target="evaluate")(x), runtime(model, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_batch_norm_stays_where_the_convolution_is_read_twice(build) -> None:
    nodes = [N("Conv", ["x", "w"], ["c"]), N("BatchNormalization", ["c", "s", "s", "s", "v"], ["n"]),
    N("Add", ["c", "n"], ["y"])]
    graph = polytc.load_onnx(build(nodes, {"x": (np.float32, [1, 2, 3, 3])}, ["y"],
                                   {"w": array(2, 2, 1, 1), "s": array(2), "v": abs(array(2))}))
    assert [n.op for n in graph.nodes] == ["Conv", "BatchNormalization", "Add"]


def test_constants_are_folded_through(build) -> None:
    nodes = [N("Constant", [], ["k"], value_float=2.0), N("Mul", ["k", "w"], ["kw"]), N("Identity", ["kw"], ["i"]),
    N("Add", ["x", "i"], ["y"])]
    graph = polytc.load_onnx(build(nodes, {"x": (np.float32, [3])}, ["y"], {"w": array(3)}))
    assert [n.op for n in graph.nodes] == ["Add"]
    assert list(graph.constants) == ["kw"]


def test_shape_arithmetic_leaves_no_code(groups) -> None:
    nodes = [N("Shape", ["x"], ["s"]), N("Gather", ["s", "zero"], ["n"]), N("Concat", ["n", "rest"], ["t"], axis=0),
    N("Reshape", ["x", "t"], ["r"]), N("Relu", ["r"], ["y"])]
    programs = groups(nodes, {"x": [2, 3, 4]}, ["y"], {"zero": np.array([0]), "rest": np.array([-1])})
    assert [len(outputs) for outputs in programs] == [1]


def test_equal_layers_have_equal_texts(build) -> None:
    nodes = [N("MatMul", ["x", "a"], ["p"]), N("Relu", ["p"], ["q"]), N("MatMul", ["q", "b"], ["r"]), N("Relu", ["r"], ["y"])]
    graph = polytc.load_onnx(build(nodes, {"x": (np.float32, [4, 4])}, ["y"], {"a": array(4, 4), "b": array(4, 4)}))
    first, second = planned(graph).calls
    assert str(first.program) == str(second.program)


QUANTISED = {"s": np.float32(0.1), "z": np.uint8(120), "w": array(3, 3, 1, 1)}


def test_what_is_dequantised_is_computed_again_by_each_reader(build, runtime) -> None:
    """Bytes lie in memory between the programs, not the f32 made of them; a convolution reads f32 as it lies."""
    nodes = [N("Conv", ["x", "w"], ["c"]), N("QuantizeLinear", ["c", "s", "z"], ["q"]),
             N("DequantizeLinear", ["q", "s", "z"], ["d"]), N("Conv", ["d", "w"], ["e"]), N("Add", ["e", "d"], ["f"]),
             N("GlobalAveragePool", ["f"], ["g"]), N("Mul", ["g", "d"], ["y"])]
    without = [n for n in nodes if n.output[0] not in ("e", "f")]
    without[3] = N("GlobalAveragePool", ["x"], ["g"])
    for chosen, values in ((nodes, {"c": 1, "d": 1}), (without, {"d": 0})):
        m = build(chosen, {"x": (np.float32, [1, 3, 6, 6])}, ["y"], QUANTISED, 21)
        plan = planned(polytc.load_onnx(m))
        made = [n for c in plan.calls for n in c.outputs]
        assert made.count("d") == values["d"], made
        x = array(1, 3, 6, 6)
        got = polytc.load_onnx(m).compile().run(None, {"x": x})[0]
        np.testing.assert_allclose(got, runtime(m, {"x": x})[0], rtol=1e-5, atol=1e-5)
