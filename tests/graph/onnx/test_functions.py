"""Operators without a row of their own come from their definitions by onnx."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph.operators.binding import Site
from polytc.graph.operators.table import TABLE

N = helper.make_node
R = np.random.default_rng(6)


def test_expanded_at_import(build, reference) -> None:
    """The body of AffineGrid has branches on constants and shapes."""
    source = build([N("AffineGrid", ["theta", "size"], ["grid"], align_corners=1)], {"theta": (np.float32, [2, 2, 3])},
                   ["grid"], {"size": np.array([2, 3, 4, 5])}, 20)
    graph = polytc.load_onnx(source, strict=True)
    assert "AffineGrid" in TABLE or all(n.op != "AffineGrid" for n in graph.nodes)
    theta = R.standard_normal((2, 2, 3)).astype(np.float32)
    got = graph.compile(target="evaluate", strict=True)(theta)
    np.testing.assert_allclose(got, reference(source, {"theta": theta})[0], rtol=1e-5, atol=1e-6)


def test_defaults_of_attributes_reach_the_body(build, reference) -> None:
    source = build([N("HannWindow", ["n"], ["w"]), N("Mul", ["x", "w"], ["y"])], {"x": (np.float32, [7])}, ["y"],
                   {"n": np.int64(7)}, 17)
    x = R.standard_normal(7).astype(np.float32)
    got = polytc.load_onnx(source, strict=True).compile(target="evaluate", strict=True)(x)
    np.testing.assert_allclose(got, reference(source, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_a_mode_without_text_comes_from_the_body(build, reference, monkeypatch) -> None:
    def refuse(site: Site):
        raise site.unsupported("not today")

    monkeypatch.setitem(TABLE, "LogSoftmax", refuse)
    source = build([N("Neg", ["x"], ["n"]), N("LogSoftmax", ["n"], ["s"], axis=0), N("Relu", ["s"], ["y"])],
                   {"x": (np.float32, [3, 4])}, ["s", "y"])
    feeds = {"x": R.standard_normal((3, 4)).astype(np.float32)}
    model = polytc.load_onnx(source).compile(target="evaluate", strict=True)
    for got, wanted in zip(model.run(None, feeds), reference(source, feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert model.fallbacks() == []


def test_old_operator_sets_whose_operators_have_not_changed(build) -> None:
    model = build([N("Not", ["x"], ["y"])], {"x": (np.bool_, [3])}, ["y"], opset=1)
    x = np.array([True, False, True])
    np.testing.assert_array_equal(polytc.load_onnx(model).compile(target="evaluate")(x), ~x)
    with pytest.raises(polytc.ModelError, match="E613"):
        polytc.load_onnx(build([N("Relu", ["x"], ["y"])], {"x": (np.float32, [3])}, ["y"], opset=1))


def function_of(version: int, nodes: list, build) -> object:
    model = build([N("F", ["x"], ["y"], domain="own")], {"x": (np.float32, [3, 4])}, ["y"], opset=18)
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], nodes, [helper.make_opsetid("", version)]))
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


@pytest.mark.parametrize("version", [16, 17, 18, 20])
def test_functions_of_another_version(build, version: int) -> None:
    """As those of skl2onnx: none of their operators has changed up to the version of the model."""
    branches = [helper.make_graph([N(op, ["a"], [f"r{op}"])], "g", [], [helper.make_empty_tensor_value_info(f"r{op}")])
                for op in ("Neg", "Abs")]
    nodes = [N("ReduceSum", ["a"], ["s"], keepdims=0), N("Constant", [], ["zero"], value_float=0.0),
             N("Greater", ["s", "zero"], ["c"]), N("If", ["c"], ["d"], then_branch=branches[0], else_branch=branches[1]),
             N("Transpose", ["a"], ["t"]), N("MatMul", ["d", "t"], ["b"])]
    if version == 20:  # If of 19 and later has other types
        nodes = [n for n in nodes if n.op_type in ("Transpose", "MatMul")]
        nodes[1].input[0] = "a"
    model = polytc.load_onnx(function_of(version, nodes, build)).compile(target="evaluate")
    for sign in (1, -1):
        x = sign * np.abs(R.standard_normal((3, 4))).astype(np.float32)
        inner = x if version == 20 else -x if sign > 0 else np.abs(x)
        np.testing.assert_allclose(model(x), inner @ x.T, rtol=1e-5, atol=1e-6)


def test_functions_whose_operators_have_changed(build) -> None:
    """Axes of ReduceMax became an input in 18; onnx converts functions towards newer versions only."""
    x = R.standard_normal((3, 4)).astype(np.float32)
    model = polytc.load_onnx(function_of(16, [N("ReduceMax", ["a"], ["b"], axes=[1])], build), strict=True)
    np.testing.assert_array_equal(model.compile(target="evaluate")(x), x.max(1, keepdims=True))
    model = polytc.load_onnx(function_of(10, [N("Relu", ["a"], ["r"]), N("Softmax", ["r"], ["b"])], build), strict=True)
    e = np.exp(np.maximum(x, 0))
    np.testing.assert_allclose(model.compile(target="evaluate")(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    with pytest.raises(polytc.ModelError, match="E605"):
        polytc.load_onnx(function_of(20, [N("Gelu", ["a"], ["b"])], build))
