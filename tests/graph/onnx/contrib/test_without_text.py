"""What polytc has no text for: run by ONNX Runtime where that has a kernel, else refused, all of it in one message."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import polytc
from polytc.graph.ir import foreign, runner
from polytc.graph.onnx import onnx_runtime
from polytc.graph.onnx.contrib.table import CONTRIB
from polytc.graph.operators.table import TABLE
from polytc.graph.user_operators import OWN_TEXTS
from tests.graph.onnx.contrib import attention_cases, block_cases, more_cases, test_operators
from tests.graph.onnx.contrib.cases import Case, by_onnx_runtime, f, model_of


def chain(*nodes: onnx.NodeProto, shape: tuple[int, ...] = (2, 4)) -> onnx.ModelProto:
    """Nodes one behind the other, from x to y."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", 1, shape)], [info("y", 1, None)])
    domains = {n.domain for n in nodes} | {""}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, 1 if d else 17) for d in sorted(domains)],
        ir_version=8)


def fused(activation: str, x: str, y: str) -> onnx.NodeProto:
    return helper.make_node("FusedGemm", [x, x], [y], f"into_{y}", domain="com.microsoft", activation=activation, transB=1)


def test_every_text_is_tested() -> None:
    cases = [*test_operators.CASES, *attention_cases.CASES, *block_cases.CASES, *more_cases.CASES]
    assert {*CONTRIB, "Inverse"} == {c.op for c in cases if c.domain or c.op in CONTRIB}
    assert len(CONTRIB) >= 60


def test_onnx_runtime_runs_what_has_no_text() -> None:
    made = chain(helper.make_node("Relu", ["x"], ["a"]),
                 helper.make_node("MurmurHash3", ["a"], ["h"], "hash", domain="com.microsoft", positive=0),
                 helper.make_node("Cast", ["h"], ["y"], to=1))
    graph, x = polytc.load_onnx(made), f(2, 4)
    assert "ONNX Runtime runs the com.microsoft::MurmurHash3 node 'hash': polytc has no text for it" in graph.report()
    model = graph.compile(threads=1)
    for _ in range(2):
        np.testing.assert_array_equal(model(x), by_onnx_runtime(made, {"x": x})[0])
    assert model.fallbacks() == ["com.microsoft::MurmurHash3 node 'hash': polytc has no text for it"]
    assert "(ONNX Runtime)" in model.report()
    with pytest.raises(polytc.ModelError, match=r"E605.*MurmurHash3"):
        polytc.load_onnx(made, strict=True)


def test_a_mode_without_text_says_which() -> None:
    case = Case("GroupQueryAttention", attention_cases.grouped(1, 4, 0, [4], 4).inputs,
                {"num_heads": 4, "kv_num_heads": 2, "qk_output": 1}, ["o0", "o1", "o2", "scores"])
    made, feeds = model_of(case)
    model = polytc.load_onnx(made).compile(threads=1)
    for a, b in zip(model.run(None, feeds), by_onnx_runtime(made, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert "'qk_output' is 1" in model.fallbacks()[0]


def test_one_message_for_all_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = chain(fused("Mish", "x", "a"), helper.make_node("Nothing", ["a"], ["b"], domain="com.microsoft"),
                 fused("Mish", "b", "c"), helper.make_node("Custom", ["c"], ["d"], "mine", domain="ai.onnx.contrib"),
                 helper.make_node("Other", ["d"], ["y"], domain="com.example"))
    monkeypatch.setattr(onnx_runtime, "_kernels", lambda: frozenset())
    with pytest.raises(polytc.ModelError) as caught:
        polytc.load_onnx(made)
    found = [d.message for d in caught.value.diagnostics]
    assert [d.code for d in caught.value.diagnostics] == ["E605"] * 4
    assert found[0] == "polytc does not have the operator com.microsoft::FusedGemm (com.microsoft::FusedGemm node 'into_a' " \
        "and 1 more)"
    assert "com.microsoft::Nothing" in found[1]
    assert "ai.onnx.contrib::Custom node 'mine'" in found[2]
    assert "Other" in found[3]
    assert caught.value.diagnostics[0].notes[0] == "the activation 'Mish'"


def test_domains_that_nobody_has() -> None:
    for domain in ("ai.onnx.contrib", "com.example"):
        with pytest.raises(polytc.ModelError, match=f"E605.*{domain}::Custom"):
            polytc.load_onnx(chain(helper.make_node("Custom", ["x"], ["y"], domain=domain)))


def test_what_onnx_runtime_refuses_names_the_node() -> None:
    case = Case("MurmurHash3", [f(2, 3).astype(np.float16)], {"positive": 0})
    made, feeds = model_of(case)
    model = polytc.load_onnx(made).compile(threads=1)
    with pytest.raises(polytc.ModelError, match=r"E609.*MurmurHash3"):
        model.run(None, feeds)


def test_behind_a_node_of_others_the_text_waits_for_types() -> None:
    made = chain(helper.make_node("MurmurHash3", ["x"], ["h"], domain="com.microsoft", positive=0),
                 helper.make_node("Cast", ["h"], ["c"], to=1), helper.make_node("Sin", ["c"], ["s"]),
                 helper.make_node("FusedMatMul", ["s", "s"], ["y"], domain="com.microsoft", transBatchA=1, transBatchB=1,
                     transB=1),
                 shape=(3, 2, 4))
    x = f(3, 2, 4)
    model = polytc.load_onnx(made).compile(threads=1)
    np.testing.assert_allclose(model(x), by_onnx_runtime(made, {"x": x})[0], rtol=1e-4, atol=1e-4)


def test_a_text_of_the_user_goes_first() -> None:
    made = chain(helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft"))
    x, before = f(2, 4), (dict(TABLE), dict(OWN_TEXTS))
    try:
        polytc.graph.register("com.microsoft", "QuickGelu", "op Twice(A) -> C { C[i, j] = 2 * A[i, j] }")
        np.testing.assert_array_equal(polytc.load_onnx(made).compile(threads=1)(x), 2 * x)
    finally:
        for table, old in zip((TABLE, OWN_TEXTS), before, strict=True):
            table.clear()
            table.update(old)


def test_who_runs_what() -> None:
    assert [foreign(op) for op in ("com.microsoft::X", "ai.onnx.contrib::X", "Conv", "ai.onnx.ml::Scaler")] == [
        True, True, False, False]
    assert runner("com.microsoft::X node 'a'") == "ONNX Runtime"
    assert runner("ai.onnx.ml::Scaler node 'a'") == runner("Conv node 'a::b'") == "onnx's evaluator"
