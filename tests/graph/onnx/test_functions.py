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
