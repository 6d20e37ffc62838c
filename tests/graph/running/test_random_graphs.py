"""Random graphs give the same results fused, unfused, and by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

import polytc

UNARY = ("Relu", "Tanh", "Neg", "Abs", "Sigmoid", "Identity", "HardSigmoid")
BINARY = ("Add", "Mul", "Sub", "Max")
ROWS, COLUMNS = 3, 4


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[onnx.NodeProto], list[str]]:
    """Nodes over values of shapes (3, 4), and (3, 1) for means, with inputs x and y; and names of outputs."""
    full, narrow = ["x", "y"], ["row"]
    nodes: list[onnx.NodeProto] = []
    for k in range(draw(st.integers(2, 12))):
        name = f"v{k}"
        kind = draw(st.sampled_from(("unary", "binary", "mean", "softmax", "product", "turn")))
        if kind == "unary":
            nodes.append(helper.make_node(draw(st.sampled_from(UNARY)), [draw(st.sampled_from(full))], [name]))
        elif kind == "binary":
            nodes.append(helper.make_node(draw(st.sampled_from(BINARY)), [
                draw(st.sampled_from(full)), draw(st.sampled_from(full + narrow))], [name]))
        elif kind == "mean":
            nodes.append(helper.make_node("ReduceMean", [draw(st.sampled_from(full))], [name], axes=[1]))
        elif kind == "softmax":
            nodes.append(helper.make_node("Softmax", [draw(st.sampled_from(full))], [name], axis=draw(st.sampled_from((0, 1)))))
        elif kind == "product":
            nodes.append(helper.make_node("MatMul", [draw(st.sampled_from(full)), "w"], [name]))
        else:
            nodes += [helper.make_node("Transpose", [draw(st.sampled_from(full))], [f"t{k}"], perm=[1, 0]),
                      helper.make_node("Reshape", [f"t{k}", "shape"], [name])]
        (narrow if kind == "mean" else full).append(name)
    made = [n for n in full + narrow if n.startswith("v")]
    return nodes, draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))


@given(graphs())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fusion_keeps_results(build, runtime, graph) -> None:
    nodes, outputs = graph
    r = np.random.default_rng(2)
    feeds = {n: r.standard_normal((ROWS, COLUMNS)).astype(np.float32) for n in "xy"}
    constants = {"w": r.standard_normal((COLUMNS, COLUMNS)).astype(np.float32) / 2, "row": np.full((ROWS, 1), 0.5, np.float32),
                 "shape": np.array([ROWS, COLUMNS])}
    model = build(nodes, {n: (np.float32, [ROWS, COLUMNS]) for n in "xy"}, outputs, constants, 13)
    expected = runtime(model, feeds)
    imported = polytc.load_onnx(model)
    for fusion in (True, False):
        compiled = imported.compile(target="evaluate", fusion=fusion)
        for got, wanted in zip(compiled.run(None, feeds), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
