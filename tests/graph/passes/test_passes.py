"""What each graph pass removes, and that results stay those of ONNX Runtime with and without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

import polytc
from polytc.errors import ModelError
from polytc.graph import passes

R = np.random.default_rng(7)
N = helper.make_node


def array(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


@pytest.fixture
def check(build, runtime) -> Callable[..., list[str]]:
    """Compiles a model with all passes and with none, compares both with ONNX Runtime; the operators that are left."""
    def run(nodes, inputs, outputs, constants=None, opset: int = 17) -> list[str]:
        feeds = {k: array(*s) for k, s in inputs.items()}
        model: onnx.ModelProto = build(nodes, feeds, outputs, constants, opset)
        expected = runtime(model, feeds)
        graph = polytc.load_onnx(model)
        for each in (graph, polytc.load_onnx(model, without=list(passes.PIPELINE))):
            for got, wanted in zip(each.compile(target="evaluate").run(None, feeds), expected, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        return [n.op for n in graph.nodes]
    return run


def test_identities(check) -> None:
    nodes = [N("Identity", ["x"], ["a"]), N("Dropout", ["a"], ["b"]), N("Transpose", ["b"], ["c"], perm=[0, 1]),
             N("Max", ["c"], ["d"]), N("Relu", ["d"], ["y"])]
    assert check(nodes, {"x": (3, 4)}, ["y"]) == ["Relu"]


def test_an_output_keeps_its_name(check) -> None:
    nodes = [N("Identity", ["x"], ["y"]), N("Relu", ["y"], ["a"]), N("Identity", ["a"], ["z"])]
    assert check(nodes, {"x": (3,)}, ["y", "z"]) == ["Identity", "Relu"]


def test_two_names_of_one_result(check) -> None:
    nodes = [N("Relu", ["x"], ["a"]), N("Identity", ["a"], ["y"]), N("Identity", ["a"], ["z"]), N("Neg", ["a"], ["u"])]
    assert check(nodes, {"x": (3,)}, ["y", "z", "u"]) == ["Relu", "Identity", "Neg"]


def test_duplicates(check) -> None:
    nodes = [N("Exp", ["x"], ["a"]), N("Exp", ["x"], ["b"]), N("Add", ["a", "k"], ["c"]), N("Add", ["b", "m"], ["d"]),
             N("Mul", ["c", "d"], ["y"])]
    same = array(4)
    assert check(nodes, {"x": (3, 4)}, ["y"], {"k": same, "m": same.copy()}) == ["Exp", "Add", "Mul"]


def test_random_numbers_are_no_duplicates(build) -> None:
    nodes = [N("RandomNormalLike", ["x"], ["a"]), N("RandomNormalLike", ["x"], ["b"]), N("Sub", ["a", "b"], ["y"])]
    graph = passes.run(_raw(build(nodes, {"x": (np.float32, [4])}, ["y"])))
    assert [n.op for n in graph.nodes] == ["RandomNormalLike", "RandomNormalLike", "Sub"]


def _raw(model: onnx.ModelProto):
    from polytc.graph import onnx as door

    return door.import_model(*door.read_model(model))


@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1), (1,), ()])
def test_scales_behind_a_convolution(check, shape) -> None:
    nodes = [N("Conv", ["x", "w", "b"], ["c"]), N("Mul", ["s", "c"], ["d"]), N("Add", ["d", "t"], ["e"]),
             N("Sub", ["e", "t"], ["f"]), N("Div", ["f", "q"], ["y"])]
    constants = {"w": array(6, 3, 3, 3), "b": array(6), "s": array(*shape), "t": array(*shape), "q": abs(array(*shape)) + 1}
    assert check(nodes, {"x": (2, 3, 8, 8)}, ["y"], constants) == ["Conv"]


def test_scales_along_other_axes_stay(check) -> None:
    nodes = [N("Conv", ["x", "w"], ["c"]), N("Mul", ["c", "s"], ["y"])]
    assert check(nodes, {"x": (1, 3, 6, 6)}, ["y"], {"w": array(4, 3, 3, 3), "s": array(4)}) == ["Conv", "Mul"]


def test_scales_of_a_transposed_convolution_and_a_product(check) -> None:
    nodes = [N("ConvTranspose", ["x", "w"], ["c"]), N("Mul", ["c", "s"], ["y"]),
             N("MatMul", ["u", "v"], ["p"]), N("Mul", ["p", "r"], ["q"]), N("Add", ["q", "r"], ["z"])]
    constants = {"w": array(3, 4, 2, 2), "s": array(4, 1, 1), "v": array(5, 7), "r": array(7)}
    assert check(nodes, {"x": (1, 3, 6, 6), "u": (2, 4, 5)}, ["y", "z"], constants) == ["ConvTranspose", "MatMul", "Add"]


def test_a_convolution_with_another_reader_keeps_its_weights(check) -> None:
    nodes = [N("Conv", ["x", "w"], ["c"]), N("Mul", ["c", "s"], ["d"]), N("Add", ["c", "d"], ["y"])]
    assert check(nodes, {"x": (1, 3, 6, 6)}, ["y"], {"w": array(4, 3, 3, 3), "s": array(4, 1, 1)}) == ["Conv", "Mul", "Add"]


BYTES = R.integers(-127, 128, (5, 7)).astype(np.int8)


@pytest.mark.parametrize("scale", [(7,), (1, 7), (1, 1), (1,), ()])
def test_scales_of_bytes_behind_a_product(check, scale: tuple[int, ...]) -> None:
    nodes = [N("Cast", ["w"], ["f"], to=1), N("Mul", ["s", "f"], ["d"]), N("MatMul", ["x", "d"], ["y"])]
    assert check(nodes, {"x": (2, 4, 5)}, ["y"], {"w": BYTES, "s": array(*scale) / 10}) == ["MatMul", "Mul"]


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("zero", [None, np.zeros(7, np.int8), np.full(7, 1, np.int8)])
def test_dequantised_weights(check, turned: int, zero: np.ndarray | None) -> None:
    nodes = [N("DequantizeLinear", ["w", "s", "z"][:2 + (zero is not None)], ["d"], axis=1 - turned),
             N("Gemm", ["x", "d", "b"], ["y"], transB=turned)]
    constants = {"w": BYTES.T.copy() if turned else BYTES, "s": abs(array(7)) / 10, "b": array(7)}
    ops = check(nodes, {"x": (4, 5)}, ["y"], constants if zero is None else constants | {"z": zero})
    assert ops == ["MatMul", "Mul", "Add"]


def test_bytes_that_stay_real_numbers(check) -> None:
    """Scales along the sum, differences beyond a byte, another factor of the product, bytes that are no constants' columns."""
    cast, product = N("Cast", ["w"], ["f"], to=1), N("MatMul", ["x", "d"], ["y"])
    rows = check([cast, N("Mul", ["f", "s"], ["d"]), product], {"x": (4, 5)}, ["y"], {"w": BYTES, "s": array(5, 1)})
    assert rows == ["MatMul"]
    far = {"w": np.where(BYTES > 0, BYTES, -127).astype(np.int8), "s": abs(array(7)), "z": np.full(7, 120, np.int8)}
    assert check([N("DequantizeLinear", ["w", "s", "z"], ["d"], axis=1), product], {"x": (4, 5)}, ["y"], far) == ["MatMul"]
    scaled = [N("Gemm", ["x", "d"], ["y"], alpha=0.5)]
    assert check([cast, N("Mul", ["f", "s"], ["d"]), *scaled], {"x": (4, 5)}, ["y"], {"w": BYTES, "s": array(7)}) == ["Gemm"]


def test_algebra(check) -> None:
    nodes = [N("Add", ["x", "zero"], ["a"]), N("Mul", ["one", "a"], ["b"]), N("Neg", ["b"], ["c"]), N("Neg", ["c"], ["d"]),
             N("Mul", ["d", "two"], ["e"]), N("Mul", ["three", "e"], ["f"]), N("Relu", ["f"], ["g"]), N("Relu", ["g"], ["h"]),
             N("Exp", ["h"], ["y"])]
    numbers = {"zero": np.float32(-0.0), "one": np.float32(1), "two": np.float32(2), "three": np.float32(3)}
    assert check(nodes, {"x": (3, 4)}, ["y"], numbers) == ["Mul", "Mul", "Relu", "Exp"]


def test_a_neutral_constant_that_adds_an_axis_stays(check) -> None:
    assert check([N("Add", ["x", "zero"], ["y"])], {"x": (3,)}, ["y"], {"zero": np.zeros((1, 1), np.float32)}) == ["Add"]


def test_reshapes_collapse(check) -> None:
    nodes = [N("Reshape", ["x", "a"], ["b"]), N("Flatten", ["b"], ["c"]), N("Reshape", ["c", "d"], ["y"])]
    constants = {"a": np.array([2, 6]), "d": np.array([4, -1])}
    assert check(nodes, {"x": (3, 4)}, ["y"], constants) == ["Reshape"]


def test_a_reshape_that_copies_an_extent_stays(check) -> None:
    nodes = [N("Reshape", ["x", "a"], ["b"]), N("Reshape", ["b", "d"], ["y"])]
    assert check(nodes, {"x": (3, 4)}, ["y"], {"a": np.array([2, 6]), "d": np.array([0, 3, 2])}) == ["Reshape", "Reshape"]


def test_transposes_cancel_across_elementwise_work(check) -> None:
    nodes = [N("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]), N("Relu", ["a"], ["b"]), N("Add", ["b", "k"], ["c"]),
             N("Mul", ["s", "c"], ["d"]), N("Transpose", ["d"], ["y"], perm=[0, 3, 1, 2])]
    assert check(nodes, {"x": (1, 3, 4, 5)}, ["y"], {"k": array(3), "s": array(4, 5, 1)}) == ["Relu", "Add", "Mul"]


def test_operands_turned_alike(check) -> None:
    nodes = [N("Transpose", ["x"], ["a"]), N("Transpose", ["z"], ["b"], perm=[1, 0]), N("Sub", ["a", "b"], ["c"]),
             N("Tanh", ["c"], ["y"])]
    assert check(nodes, {"x": (3, 4), "z": (3, 4)}, ["y"]) == ["Sub", "Tanh", "Transpose"]


def test_operands_turned_otherwise_stay(check) -> None:
    nodes = [N("Transpose", ["x"], ["a"], perm=[1, 0]), N("Add", ["a", "z"], ["y"])]
    assert check(nodes, {"x": (3, 4), "z": (4, 3)}, ["y"]) == ["Transpose", "Add"]


def test_reshape_moves_behind_an_activation(check) -> None:
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Reshape", ["a", "s"], ["b"]), N("Relu", ["b"], ["y"])]
    assert check(nodes, {"x": (4, 4)}, ["y"], {"w": array(4, 6), "s": np.array([2, 2, 6])}) == ["MatMul", "Relu", "Reshape"]


F = np.float32


@pytest.mark.parametrize(("name", "nodes", "constants"), [
    ("Gelu", [N("Div", ["x", "r"], ["a"]), N("Erf", ["a"], ["b"]), N("Add", ["one", "b"], ["c"]), N("Mul", ["x", "c"], ["d"]),
              N("Mul", ["d", "h"], ["y"])], {"r": F(np.sqrt(2)), "one": F(1), "h": F(0.5)}),
    ("Gelu", [N("Mul", ["x", "h"], ["d"]), N("Mul", ["x", "r"], ["a"]), N("Erf", ["a"], ["b"]), N("Add", ["b", "one"], ["c"]),
              N("Mul", ["c", "d"], ["y"])], {"r": F(np.sqrt(0.5)), "one": F(1), "h": F(0.5)}),
    ("Gelu", [N("Pow", ["x", "three"], ["a"]), N("Mul", ["a", "k"], ["b"]), N("Add", ["x", "b"], ["c"]),
              N("Mul", ["c", "r"], ["d"]), N("Tanh", ["d"], ["e"]), N("Add", ["e", "one"], ["f"]),
              N("Mul", ["x", "h"], ["g"]), N("Mul", ["g", "f"], ["y"])],
     {"three": F(3), "k": F(0.044715), "r": F(np.sqrt(2 / np.pi)), "one": F(1), "h": F(0.5)}),
    ("Swish", [N("Sigmoid", ["x"], ["a"]), N("Mul", ["a", "x"], ["y"])], {}),
    ("HardSwish", [N("HardSigmoid", ["x"], ["a"], alpha=1 / 6), N("Mul", ["a", "x"], ["y"])], {}),
    ("Mish", [N("Softplus", ["x"], ["a"]), N("Tanh", ["a"], ["b"]), N("Mul", ["x", "b"], ["y"])], {}),
    ("LayerNormalization", [
        N("ReduceMean", ["x"], ["m"], axes=[-1]), N("Sub", ["x", "m"], ["d"]), N("Pow", ["d", "two"], ["p"]),
        N("ReduceMean", ["p"], ["v"], axes=[-1]), N("Add", ["v", "e"], ["q"]), N("Sqrt", ["q"], ["r"]),
        N("Div", ["d", "r"], ["n"]), N("Mul", ["n", "g"], ["s"]), N("Add", ["b", "s"], ["y"])],
     {"two": F(2), "e": F(1e-5), "g": array(6), "b": array(6)}),
    ("RMSNormalization", [
        N("Mul", ["x", "x"], ["p"]), N("ReduceMean", ["p"], ["v"], axes=[2]), N("Add", ["v", "e"], ["q"]),
        N("Sqrt", ["q"], ["r"]), N("Reciprocal", ["r"], ["i"]), N("Mul", ["x", "i"], ["n"]), N("Mul", ["g", "n"], ["y"])],
     {"e": F(1e-5), "g": array(6)}),
])
def test_patterns(check, name, nodes, constants) -> None:
    assert check(nodes, {"x": (2, 5, 6)}, ["y"], constants) == [name]


def test_a_pattern_whose_inside_is_read_elsewhere_stays(check) -> None:
    nodes = [N("Sigmoid", ["x"], ["a"]), N("Mul", ["a", "x"], ["y"]), N("Neg", ["a"], ["z"])]
    assert check(nodes, {"x": (3,)}, ["y", "z"]) == ["Sigmoid", "Mul", "Neg"]


def test_another_hard_sigmoid_is_no_hard_swish(check) -> None:
    nodes = [N("HardSigmoid", ["x"], ["a"], alpha=0.3), N("Mul", ["a", "x"], ["y"])]
    assert check(nodes, {"x": (3,)}, ["y"]) == ["HardSigmoid", "Mul"]


def test_unknown_pass(build) -> None:
    with pytest.raises(ModelError, match="'layout'") as caught:
        polytc.load_onnx(build([N("Relu", ["x"], ["y"])], {"x": (np.float32, [4])}, ["y"]), without=["layout"])
    assert caught.value.code == "E620"


def test_dump(build, capsys, monkeypatch) -> None:
    model = build([N("Identity", ["x"], ["a"]), N("Relu", ["a"], ["y"])], {"x": (np.float32, [4])}, ["y"])
    monkeypatch.setenv("POLYTC_DUMP", "identities")
    polytc.load_onnx(model)
    shown = capsys.readouterr().err
    assert "# before identities" in shown
    assert "Identity" in shown.split("# after identities")[0]
    assert "Identity" not in shown.split("# after identities")[1]


@pytest.mark.part(2)
@pytest.mark.parametrize(("op", "attributes"), [
    ("MaxPool", {"kernel_shape": [2, 1], "pads": [1, 0, 1, 0]}),
    ("MaxPool", {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ("AveragePool", {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    ("LpPool", {"kernel_shape": [2, 1], "pads": [1, 0, 1, 0]}),
    ("GridSample", {"mode": "bicubic", "padding_mode": "border"}),
    ("ConvTranspose", {"kernel_shape": [1, 3], "auto_pad": "SAME_LOWER", "strides": [1, 2]})])
def test_what_onnx_evaluates_wrongly_is_compiled(build, runtime, op: str, attributes: dict) -> None:
    """onnx's evaluator takes paddings of one axis for another's, gets SAME_LOWER wrong, and cubic samples at a border."""
    others = {"ConvTranspose": (2, 2, 1, 3), "GridSample": (1, 5, 4, 2)}
    constants = {"c": array(1, 2, 7, 8)} | ({"w": array(*others[op])} if op in others else {})
    source = build([N(op, list(constants), ["d"], **attributes), N("Add", ["d", "x"], ["y"])], {"x": (np.float32, [1])}, ["y"],
                   constants, 19)
    feeds = {"x": array(1)}
    np.testing.assert_allclose(polytc.load_onnx(source).compile()(feeds["x"]), runtime(source, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("mode", "pads", "axes", "expected"), [
    ("constant", [1, -1, 0, 2], None, [[7, 7, 7, 7, 7], [1, 2, 3, 7, 7], [5, 6, 7, 7, 7], [9, 10, 11, 7, 7]]),
    ("reflect", [-1, 2], [-1], [[1, 2, 3, 2, 1], [5, 6, 7, 6, 5], [9, 10, 11, 10, 9]]),
    ("constant", [-3, 2], [0], [[7, 7, 7, 7], [7, 7, 7, 7]])])
def test_constants_are_cropped(build, mode: str, pads: list[int], axes: list[int] | None, expected: list[list[int]]) -> None:
    """onnx's evaluator has no negative pads."""
    constants = {"c": np.arange(12, dtype=np.float32).reshape(3, 4), "p": np.array(pads), "v": np.float32(7)}
    names = ["c", "p", "v"] + ["a"] * (axes is not None)
    constants |= {"a": np.array(axes)} if axes is not None else {}
    source = build([helper.make_node("Pad", names, ["d"], mode=mode), helper.make_node("Add", ["d", "x"], ["y"])],
                   {"x": (np.float32, [1])}, ["y"], constants, 18)
    np.testing.assert_array_equal(polytc.load_onnx(source).compile(target="evaluate")(np.zeros(1, np.float32)), expected)
