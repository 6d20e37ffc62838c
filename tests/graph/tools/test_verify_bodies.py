"""Verification of models with branches, loops and sequences against onnx's evaluator, node by node."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import polytc
from polytc.graph.operators.table import TABLE
from polytc.graph.tools import verify

N = helper.make_node
R = np.random.default_rng(3)


def value(name: str, kind: int = TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.fixture
def source(build):
    """A loop and a branch that read values from outside, and a sequence."""
    body = helper.make_graph([N("Mul", ["s", "w"], ["s2"]), N("Identity", ["keep"], ["stay"])], "body",
                             [value("k", TensorProto.INT64, []), value("keep", TensorProto.BOOL, []), value("s")],
                             [value("stay", TensorProto.BOOL), value("s2"), value("s2")])
    then = helper.make_graph([N("Exp", ["last"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([N("Neg", ["rows"], ["e"])], "else", [], [value("e")])
    nodes = [N("Relu", ["x"], ["w"]), N("Loop", ["n", "", "x"], ["last", "rows"], body=body),
             N("ReduceSum", ["last"], ["sum"], keepdims=0), N("Greater", ["sum", "far"], ["c"]),
             N("If", ["c"], ["b"], then_branch=then, else_branch=other), N("SequenceConstruct", ["b", "w"], ["both"]),
             N("SequenceAt", ["both", "n0"], ["y"])]
    return build(nodes, {"x": (np.float32, [3])}, ["y"],
                 {"n": np.array(4), "n0": np.array(0), "far": np.float32(1e9)})


def test_bodies_and_sequences(source, monkeypatch) -> None:
    feeds = {"x": R.standard_normal(3).astype(np.float32)}
    graph = verify.imported(source)
    expected = verify.outputs(graph, feeds)
    np.testing.assert_allclose(expected[0], -np.stack([feeds["x"] * np.maximum(feeds["x"], 0) ** k for k in range(1, 5)]),
                               rtol=1e-5)
    found = list(verify.nodes(graph, feeds, "evaluate"))
    assert [(f.node.op, f.remark) for f in found if f.error is None] == [
        ("SequenceConstruct", "not only tensors"), ("SequenceAt", "not only tensors")]
    assert not any(f.wrong or f.stuck for f in found)
    assert not verify.whole(graph, feeds, expected, "evaluate").wrong
    monkeypatch.setitem(TABLE, "Mul", TABLE["Add"])
    wrong = [f.node.op for f in verify.nodes(graph, feeds, "evaluate") if f.wrong]
    assert wrong == ["Loop"]


def test_the_same_through_the_model(source) -> None:
    x = np.float32([2, 3, 0.5])
    np.testing.assert_allclose(polytc.load_onnx(source).compile(target="evaluate")(x),
                               -np.stack([x * x ** k for k in range(1, 5)]), rtol=1e-5)


@pytest.mark.long
def test_a_model_in_which_rounding_decides(build) -> None:
    """x -> 4x(1-x), sixty times: the logistic map doubles a difference in each step."""
    step = [[N("Sub", ["one", f"x{k}"], [f"r{k}"]), N("Mul", [f"x{k}", f"r{k}"], [f"p{k}"]),
             N("Mul", [f"p{k}", "four"], [f"x{k + 1}"])] for k in range(60)]
    source = build([n for nodes in step for n in nodes], {"x0": (np.float32, [5])}, ["x60"],
                   {"one": np.float32(1), "four": np.float32(4)})
    feeds = {"x0": np.array([.1, .2, .3, .4, .6], np.float32)}
    graph = verify.imported(source)
    expected = verify.outputs(graph, feeds)
    whole = verify.whole(graph, feeds, [e + np.float32(.1) for e in expected], "evaluate")  # as another order of terms would be
    assert whole.moved > 1e-2
    assert (whole.unstable, whole.wrong) == (True, False)
    stable = verify.imported(build([N("Relu", ["x0"], ["y"])], {"x0": (np.float32, [5])}, ["y"], {}))
    whole = verify.whole(stable, feeds, [e + np.float32(.1) for e in verify.outputs(stable, feeds)], "evaluate")
    assert (whole.unstable, whole.wrong) == (False, True)


def test_a_sum_between_two_steps_of_quantisation(build) -> None:
    """Added in order in f32 a sum is below the middle of two steps, in f64 above it, and each is right."""
    source = build([N("ReduceSum", ["x"], ["s"], keepdims=0), N("QuantizeLinear", ["s", "scale", "zero"], ["q"]),
                    N("DequantizeLinear", ["q", "scale", "zero"], ["y"])], {"x": (np.float32, [4])}, ["y"],
                   {"scale": np.float32(1), "zero": np.int8(0)})
    graph, feeds = verify.imported(source), {"x": np.float32([2 ** 24, 1.25, -2 ** 24, .125])}
    expected = verify.outputs(graph, feeds)
    assert (float(expected[0]), float(verify.outputs(graph, feeds, verify.is_float)[0])) == (2.0, 1.0)
    assert verify.whole(graph, feeds, [np.array(3, np.float32)], "evaluate").unstable
    assert verify.whole(graph, feeds, [np.array(np.nan, np.float32)], "evaluate").wrong


@pytest.mark.parametrize(("error", "moved", "unstable"), [
    (.1, .2, True), (.1, .01, False), (.1, 0.0, False), (np.inf, .2, False), (np.inf, np.inf, True), (.1, np.inf, True),
    (0.0, np.inf, False)])
def test_numbers_that_move_explain_no_nan(error: float, moved: float, unstable: bool) -> None:
    whole = verify.Whole(error, 1e-4, None, moved)
    assert (whole.unstable, whole.wrong) == (unstable, not unstable and error > 1e-4)


def test_zeros_of_inputs_are_no_rounding(build) -> None:
    """The signs of 0 and of a denormal number are apart, but that decides nothing: a wrong result remains wrong."""
    source = build([N("Sign", ["x"], ["s"]), N("Add", ["x", "s"], ["y"])], {"x": (np.float32, [4])}, ["y"], {})
    graph, feeds = verify.imported(source), {"x": np.array([0, 1, 2, np.nan], np.float32)}
    whole = verify.whole(graph, feeds, [e * np.float32(1.1) for e in verify.outputs(graph, feeds)], "evaluate")
    assert (whole.unstable, whole.wrong) == (False, True)
