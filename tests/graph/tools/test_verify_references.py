"""Verification says WRONG only of what is wrong: where onnx's evaluator errs, its definition or another reference decides."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import helper

from polytc.graph import onnx as door
from polytc.graph.comparison import allowed_error, largest_error
from polytc.graph.evaluation.folding import evaluate, foldable
from polytc.graph.ir import Node
from polytc.graph.operators.table import TABLE
from polytc.graph.tools import verify
from tests.graph.operators import learning_cases, moving_cases
from tests.graph.operators.operator_case import case, f, numbers, positive
from tests.graph.operators.test_operators import CASES

N = helper.make_node
R = np.random.default_rng(16)

STATISTICS = [f(3), f(3), f(3), positive(3)]
OLD = [
    *(case("BatchNormalization", f(2, 3, 5), *STATISTICS, momentum=0.7, opset=v) for v in (7, 9, 13)),
    case("BatchNormalization", f(2, 3, 5), *STATISTICS, opset=7),
    *(case(op, f(2, 3, 4), opset=11) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    case("Softmax", f(2, 3, 4, 1), axis=2, opset=9), case("LRN", f(1, 7, 2, 3), size=3, alpha=0.5),
    case("GlobalMaxPool", f(2, 3, 4)), case("LpNormalization", f(2, 3), p=1),
    case("Slice", f(3, 6), numbers(-9, -1), numbers(-9, -9), numbers(0, 1), numbers(-1, -2)),
    case("RoiAlign", f(1, 2, 8, 9), np.float32([[0, 1, 7, 6]]), np.int64([0]), output_height=2, output_width=3,
         sampling_ratio=2, opset=10)]


def node_of(c) -> Node:
    names = tuple(f"i{k}" if a is not None else "" for k, a in enumerate(c.inputs))
    return Node(c.op, "n", names, tuple(f"o{k}" for k in range(c.outputs)), c.attributes, c.opset)


@pytest.mark.parametrize("c", OLD, ids=str)
def test_older_versions_as_onnx_runtime_has_them(build, c) -> None:
    found, expected = evaluate(node_of(c), c.inputs), door.second_opinion(node_of(c), c.inputs)
    assert expected is not None
    assert all(largest_error(a, b) <= allowed_error(b.dtype) for a, b in zip(found, expected, strict=True))
    names = node_of(c).inputs
    model = build([N(c.op, names, node_of(c).outputs, **c.attributes)], dict(zip(names, c.inputs)), node_of(c).outputs,
                  opset=c.opset)
    (finding,) = verify.nodes(verify.imported(model), dict(zip(names, c.inputs)), "evaluate")
    assert not finding.wrong
    assert not finding.remark


def test_the_mask_of_an_older_dropout_has_the_type_of_the_data(build) -> None:
    x = f(2, 3)
    model = build([N("Dropout", ["x"], ["y", "mask"])], {"x": x}, ["y", "mask"], opset=7)
    (finding,) = verify.nodes(verify.imported(model), {"x": x}, "evaluate")
    assert finding.error == 0
    assert evaluate(verify.imported(model).nodes[0], [x])[1].dtype == np.float32


KNOWN = {"TfIdfVectorizer": "ONNX Runtime counts skips otherwise", "Resize": "ONNX Runtime rounds bytes otherwise",
         "Dropout": "ONNX Runtime leaves the mask of older versions empty", "Attention": "ONNX Runtime hands out other scores",
         "MatMulInteger": "ONNX Runtime saturates sums of two products on processors without VNNI"}
"""Operators on which onnx's evaluator and ONNX Runtime differ, and the first is right."""


@pytest.mark.long
def test_every_version_of_every_operator_is_evaluated_as_onnx_runtime_does() -> None:
    """What finds the next operator of which onnx's evaluator knows one version only."""
    wrong, ran = [], 0
    for c in [*CASES, *learning_cases.CASES, *moving_cases.CASES]:
        schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == c.op and not s.domain]
        for version in sorted({min(max(s.since_version, 7), 21) for s in schemas} | {c.opset}):
            node = Node(**{**vars(node_of(c)), "opset": version})
            if not foldable(node) or c.op in KNOWN:
                continue
            try:
                found = evaluate(node, c.inputs)
            except Exception:
                continue
            expected = door.second_opinion(node, c.inputs)
            ran += expected is not None
            wrong += [(str(c), version) for a, b in zip(found, expected or ()) if largest_error(a, b) > allowed_error(b.dtype)]
    assert ran > 1000
    assert not wrong


def test_another_reference_decides_where_the_first_overflows(build) -> None:
    """x times the rsqrt of the sum of squares: in f32 the squares are infinite."""
    x = np.float32([3e20, 4e20])
    graph = verify.imported(build([N("LpNormalization", ["x"], ["y"], axis=0)], {"x": x}, ["y"], opset=13))
    node = graph.nodes[0]
    with np.errstate(all="ignore"):
        first, second = verify.reference(node, {"x": x}), verify._in_double(node, {"x": x})
    assert second is not None
    assert largest_error(first[0], np.float32([0.6, 0.8])) > 0.1
    np.testing.assert_allclose(second[0], [0.6, 0.8], rtol=1e-6)
    assert second[0].dtype == np.float32


def test_a_model_whose_output_is_a_sequence(build) -> None:
    x = f(4)
    graph = verify.imported(build([N("Relu", ["x"], ["r"]), N("SequenceConstruct", ["r", "x"], ["y"])], {"x": x}, ["y"]))
    assert not any(finding.wrong for finding in verify.nodes(graph, {"x": x}, "evaluate"))
    assert verify.whole(graph, {"x": x}, [[np.maximum(x, 0), x]], "evaluate").error == 0
    assert verify.whole(graph, {"x": x}, [[np.maximum(x, 0), x + 1]], "evaluate").wrong
    assert verify.whole(graph, {"x": x}, [[x]], "evaluate").wrong


def test_what_differs_from_all_references_is_wrong(build, monkeypatch) -> None:
    monkeypatch.setitem(TABLE, "Mul", TABLE["Add"])
    x = f(4)
    (finding,) = verify.nodes(verify.imported(build([N("Mul", ["x", "x"], ["y"])], {"x": x}, ["y"])), {"x": x}, "evaluate")
    assert finding.wrong


def test_a_node_that_only_another_reference_knows(build, monkeypatch) -> None:
    """What the first has no result for is compared with ONNX Runtime; without that, verification ends there."""
    def failing(node, values, widened):
        raise verify.fail("E609", "no", kind=verify.ModelError)

    x = f(4)
    graph = verify.imported(build([N("Relu", ["x"], ["y"])], {"x": x}, ["y"]))
    monkeypatch.setattr(verify, "_by_evaluator", failing)
    (finding,) = verify.nodes(graph, {"x": x}, "evaluate")
    assert finding.error == 0
    assert verify.whole(graph, {"x": x}, verify.outputs(graph, {"x": x}), "evaluate").error == 0
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (finding,) = verify.nodes(graph, {"x": x}, "evaluate")
    assert finding.stuck
