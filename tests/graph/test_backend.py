"""onnx's backend interface, and a part of its official tests through it, natively and with fallback."""

from __future__ import annotations

import re
import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnx_suite
import polytc
from polytc import backend
from polytc.errors import ModelError

N = helper.make_node
X = np.float32([[-1, 2, 3], [4, -5, 6]])

NATIVE = re.compile(r"^test_(if|loop11|scan9?_sum|scan9_multi_state|range_float_type_positive_delta_expanded|hannwindow|topk"
                    r"|nonzero_example|unique_sorted_with_axis|compress_1|nonmaxsuppression_suppress_by_IOU|not_2d"
                    r"|optional_get_element_tensor|ai_onnx_ml_binarizer|sequence_map_add_2_sequences|flexattention_causal_mask)$")
FALLBACK = re.compile(r"^test_(if_seq|if_opt|loop13_seq|split_to_sequence_1|string_split_basic|sequence_insert_at_front"
                      r"|cast_FLOAT_to_FLOAT8E4M3FN|sequence_map_extract_shapes_expanded)$")


def test_prepare_and_run(build) -> None:
    source = build([N("Relu", ["x"], ["y"]), N("Neg", ["y"], ["z"])], {"x": X}, ["y", "z"])
    for outputs in (backend.prepare(source).run([X]), backend.run_model(source, [X]), backend.prepare(source).run({"x": X}),
                    backend.native.run_model(source.SerializeToString(), [X], "EVALUATE")):
        np.testing.assert_array_equal(outputs[0], np.maximum(X, 0))
        np.testing.assert_array_equal(outputs[1], -np.maximum(X, 0))


def test_run_node() -> None:
    np.testing.assert_array_equal(backend.run_node(N("Add", ["a", "b"], ["c"]), [X, X[0]], "EVALUATE")[0], X + X[0])
    old = backend.run_node(N("Softmax", ["a"], ["c"], axis=0), [X], "EVALUATE", opset_version=11)[0]
    assert old.sum() == pytest.approx(1, abs=1e-6)  # over all axes, as it was


def test_devices_and_compatibility(build) -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA")
    sequence = build([N("SequenceConstruct", ["x"], ["s"]), N("SequenceAt", ["s", "i"], ["y"])], {"x": X}, ["y"],
                     {"i": np.int64(0)})
    foreign = build([N("Odd", ["x"], ["y"], domain="com.example")], {"x": X}, ["y"])
    assert [b.is_compatible(m) for b in (backend, backend.native) for m in (sequence, foreign)] == [True, False, False, False]
    np.testing.assert_array_equal(backend.run_model(sequence, [X], "EVALUATE")[0], X)
    with pytest.raises(ModelError, match="E605"):
        backend.native.prepare(sequence)


def test_official_tests() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        native = onnx_suite.tests_by(backend.native, "evaluate")
        whole = onnx_suite.tests_by(backend.Backend(), "evaluate")
        failures = {n: onnx_suite.attempt(t) for n, t in native.items() if NATIVE.match(n)}
        refusals = {n: onnx_suite.attempt(native[n]) for n in whole if FALLBACK.match(n)}
        rest = {n: onnx_suite.attempt(t) for n, t in whole.items() if FALLBACK.match(n)}
    assert len(failures) >= 14
    assert {n: why for n, why in failures.items() if why} == {}
    assert len(rest) == 8
    assert all("E605" in why or "E608" in why for why in refusals.values())
    assert {n: why for n, why in rest.items() if why} == {}


def test_what_counts_as_dense(build) -> None:
    assert onnx_suite._is_dense(build([N("Relu", ["x"], ["y"])], {"x": X}, [])) is True
    strings = build([N("StringConcat", ["x", "x"], ["y"])], {"x": X}, [])
    halves = build([N("Relu", ["x"], ["y"])], {"x": X}, [])
    halves.graph.input[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    assert [onnx_suite._is_dense(m) for m in (strings, halves)] == [False, False]


def test_a_child_that_dies_is_an_outcome(monkeypatch) -> None:
    own = onnx_suite.Child(onnx_suite.command("evaluate"), 60)
    monkeypatch.setattr(own, "command", ["false"])
    assert "ended with 1" in own.run("test_relu").native


def test_the_newest_operators_are_known() -> None:
    assert polytc.load_onnx(onnx.helper.make_model(onnx.helper.make_graph(
        [N("Relu", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [2])],
        [helper.make_tensor_value_info("y", 1, [2])]))).nodes[0].opset == onnx.defs.onnx_opset_version()
