"""Attributes, numbers of inputs and outputs, element types and bodies that onnx's schemas do not allow end in a diagnostic when
the model is read. ONNX Runtime, which refuses these, is the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc
from polytc.errors import ModelError
from polytc.graph.onnx.choices import CHOICES, choices
from tests.graph.onnx.test_contradictions import refused
from tests.graph.operators.operator_case import Case, case, f, flags, ints, numbers, positive

N = helper.make_node
X, I, B, IMAGE = f(2, 3), ints(2, 3), flags(2, 3), f(1, 4, 6, 6)
SCALES, GRID = np.array([1, 1, 2, 2], np.float32), np.zeros((1, 2, 2, 2), np.float32)
LAYER = [f(4, 2, 3), f(1, 5, 3), f(1, 5, 5)]
TYPES = [
    case("Add", X, I), case("Add", I, I.astype(np.int32)), case("Add", B, B), case("Relu", I, opset=13), case("Where", B, X, I),
    case("Where", X, X, X), case("Clip", X, np.array(0.0), constant=(1,)), case("Concat", X, I, axis=0), case("Gather", X, X),
    case("Sum", X, X.astype(np.float64)), case("MatMul", f(2, 3), ints(3, 2)), case("Pow", B, X), case("Not", X),
    case("Range", np.array(0.0), np.array(3.0), np.array(1)), case("Reshape", X, np.array([3, 2], np.int32), constant=(1,)),
    case("Conv", IMAGE, IMAGE.astype(np.float64)), case("Slice", X, numbers(0), np.array([1], np.int32), constant=(1, 2)),
    case("And", B, I), case("Loop", X, B)]
ATTRIBUTES = [
    case("Relu", X, foo=1), case("Softmax", X, axis="a"), case("Softmax", X, axis=1.0), case("LeakyRelu", X, alpha=1),
    case("Cast", X), case("Relu", X, X), case("Add", X), case("Relu", X, outputs=2), case("Cast", X, to=99),
    case("Cast", X, to=0)]
WORDS = [
    case("BitShift", I.astype(np.uint8), I.astype(np.uint8), direction="UP"), case("Gelu", X, approximate="x"),
    case("Pad", X, numbers(1, 1, 1, 1), constant=(1,), mode="x"), case("DepthToSpace", IMAGE, blocksize=2, mode="x"),
    *(case("Resize", IMAGE, None, SCALES, constant=(1, 2), **a) for a in (
        {"mode": "x"}, {"nearest_mode": "x"}, {"coordinate_transformation_mode": "x"})),
    case("Resize", IMAGE, None, None, numbers(1, 4, 8, 8), constant=(3,), keep_aspect_ratio_policy="x"),
    case("Upsample", IMAGE, SCALES, constant=(1,), opset=9, mode="x"), case("GridSample", IMAGE, GRID, mode="bilinear"),
    case("GridSample", IMAGE, GRID, mode="cubic", opset=16), case("GridSample", IMAGE, GRID, padding_mode="x"),
    case("RoiAlign", IMAGE, f(1, 4), numbers(0), mode="x"), case("Cast", X, to=1, round_mode="x", opset=24),
    case("TfIdfVectorizer", numbers(1, 2), mode="x", min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0],
         ngram_indexes=[0, 1], pool_int64s=[1, 2]),
    *(case("RNN", *LAYER, hidden_size=5, **a) for a in ({"direction": "x"}, {"layout": 2})),
    *(case(op, IMAGE, f(4, 2, 3, 3), auto_pad="SAME") for op in ("Conv", "ConvTranspose")),
    *(case(op, IMAGE, kernel_shape=[2, 2], auto_pad="same") for op in ("MaxPool", "AveragePool", "LpPool")),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], storage_order=2), case("Mod", X, X, fmod=2),
    case("CumSum", X, np.array(0), exclusive=2), case("StringNormalizer", np.array(["a"]), case_change_action="x")]


def model_of(c: Case, build: Any) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(c.inputs)]
    given = {n: a for n, a in zip(names, c.inputs, strict=True) if a is not None}
    feeds = {n: a for n, a in given.items() if int(n[1:]) not in c.constant}
    outputs = [f"y{i}" for i in range(c.outputs)]
    node = N(c.op, names, outputs, name="it", **c.attributes)
    return build([node], feeds, outputs, {n: a for n, a in given.items() if n not in feeds}, c.opset), feeds


@pytest.mark.parametrize("c", TYPES + ATTRIBUTES, ids=str)
def test_nodes_that_break_the_contract_of_their_operator(build, c: Case) -> None:
    assert f"{c.op} node 'it'" in str(refused(*model_of(c, build)))


@pytest.mark.parametrize("c", WORDS, ids=str)
def test_words_that_no_operator_knows(build, c: Case) -> None:
    error = refused(*model_of(c, build))
    assert f"{c.op} node 'it': the attribute '" in str(error)
    assert "it may be" in str(error)


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_reductions_that_no_operator_knows(build, op: str) -> None:
    """ONNX Runtime takes some of these for the default."""
    inputs = [f(3, 4), numbers(0, 1, 2)] if "Loss" in op else [f(2, 3), ints(2, 3, low=0, high=1), f(2, 3)]
    model, _ = model_of(case(op, *inputs, reduction="most"), build)
    with pytest.raises(ModelError, match="'reduction' is 'most'") as caught:
        polytc.load_onnx(model)
    assert caught.value.code == "E609"
    assert "none" in str(caught.value)


FREE = {"delimiter", "equation", "activations", "locale", "stopwords", "pattern", "pool_strings", "value_string",
        "value_strings", "xs", "y", "zs", "default_string", "cats_strings", "string_vocabulary", "classes_strings",
        "values_strings", "keys_strings", "classlabels_strings"}
"""Attributes of text that may be anything, or that their operators judge."""


@pytest.mark.parametrize("schema", [s for s in onnx.defs.get_all_schemas_with_history() if s.since_version >= 6 or s.domain],
                         ids=lambda s: f"{s.name}-{s.since_version}")
def test_attributes_of_text_have_a_list_of_their_values(schema: onnx.defs.OpSchema) -> None:
    """Each attribute of text, and each value that is its default: no other version of an operator has a new one."""
    kinds = onnx.defs.OpSchema.AttrType
    for name, a in schema.attributes.items():
        known = choices(schema.name, schema.since_version, name)
        if a.type in (kinds.STRING, kinds.STRINGS) and name not in FREE:
            assert known, f"{schema.name} has {name!r}: {a.description}"
        default = onnx.helper.get_attribute_value(a.default_value) if a.default_value.name else None
        if known and default is not None:
            assert (default.decode() if isinstance(default, bytes) else default) in known


def test_lists_of_values_are_of_attributes_that_there_are() -> None:
    there = {(s.name, a) for s in onnx.defs.get_all_schemas_with_history() for a in s.attributes}
    assert {(op.partition("-")[0], a) for op, a in CHOICES} <= there


# ---- bodies

def info(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[int] | None = (3,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


INT, DOUBLE = TensorProto.INT64, TensorProto.DOUBLE


def branching(then: onnx.ValueInfoProto, other: onnx.ValueInfoProto, outputs: Sequence[str] = ("y",), op: str = "Abs"
              ) -> onnx.NodeProto:
    to = {"to": INT} if op == "Cast" else {}
    return N("If", ["c"], outputs, name="it",
             then_branch=helper.make_graph([N("Relu", ["x"], ["r"])], "then", [], [then]),
             else_branch=helper.make_graph([N(op, ["x"], ["q"], **to)], "other", [], [other]))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("node", [
    branching(info("r", INT), info("q")), branching(info("r"), info("q", DOUBLE)), branching(info("r", INT), info("q", INT)),
    branching(info("r"), info("q"), ("y", "z")), branching(info("r"), info("q", INT), op="Cast")])
def test_branches_that_contradict_their_node(build, node: onnx.NodeProto, known: bool) -> None:
    """Also those that no run would come to."""
    feeds = {"x": f(3)} | ({} if known else {"c": np.array(True)})
    refused(build([node], feeds, list(node.output), {"c": np.array(True)} if known else {}), feeds)


def looping(outputs: Sequence[str] = ("y", "z"), inputs: Sequence[str] = ("m", "go", "s"), op: str = "Identity", **other: Any
            ) -> onnx.NodeProto:
    """other: name -> what the body declares it to be instead."""
    to = {"to": INT} if op == "Cast" else {}
    nodes = [N("Identity", ["c"], ["c2"]), N(op, ["s0"], ["t"], **to), N("Abs", ["t"], ["o"])]
    declared = {"i": info("i", INT, []), "c": info("c", TensorProto.BOOL, []), "s0": info("s0"),
                "c2": info("c2", TensorProto.BOOL, []), "t": info("t"), "o": info("o")} | other
    v = list(declared.values())
    return N("Loop", inputs, outputs, name="it", body=helper.make_graph(nodes, "body", v[:3], v[3:]))


@pytest.mark.parametrize("trips", [3, 300])
@pytest.mark.parametrize("node", [
    looping(c=info("c", TensorProto.FLOAT, [])), looping(i=info("i", TensorProto.INT32, [])), looping(s0=info("s0", DOUBLE)),
    looping(t=info("t", DOUBLE)), looping(o=info("o", DOUBLE)), looping(["y"]), looping(["y", "z", "w"]),
    looping(inputs=["m", "go"]), looping(inputs=["m", "go", "s", "s"]), looping(op="Cast", t=info("t", INT), o=info("o", INT))])
def test_loops_that_contradict_their_bodies(build, node: onnx.NodeProto, trips: int) -> None:
    feeds = {"s": f(3)}
    refused(build([node], feeds, list(node.output), {"m": np.array(trips), "go": np.array(True)}), feeds)


def accepted(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """By ONNX Runtime and by polytc, with the same results."""
    wanted = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    got = polytc.load_onnx(model).compile(target="evaluate").run(None, feeds)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return got


@pytest.mark.part(2)
@pytest.mark.parametrize("trips", [1, 3, 300])
def test_states_may_change_their_shapes(build, trips: int) -> None:
    """What a loop declares of them holds in its first iteration at most."""
    body = helper.make_graph([N("Identity", ["c"], ["c2"]), N("Concat", ["s0", "one"], ["t"], axis=0)], "body",
                             [info("i", INT, []), info("c", TensorProto.BOOL, []), info("s0")],
                             [info("c2", TensorProto.BOOL, []), info("t")], [numpy_helper.from_array(f(1), "one")])
    feeds = {"s": f(3)}
    model = build([N("Loop", ["m", "go", "s"], ["y"], body=body)], feeds, ["y"], {"m": np.array(trips), "go": np.array(True)})
    assert accepted(model, feeds)[0].shape == (3 + trips,)


@pytest.mark.parametrize("shape", [[4], [3, 1], [4, 3]])
@pytest.mark.parametrize("steps", [4, 400])
def test_results_of_bodies_that_have_another_shape(build, steps: int, shape: list[int]) -> None:
    """ONNX Runtime warns of these, as it does of the model's own outputs."""
    body = helper.make_graph([N("Add", ["s", "e"], ["t"]), N("Identity", ["t"], ["o"])], "body", [info("s"), info("e")],
                             [info("t"), info("o", shape=shape)])
    feeds = {"a": f(3), "b": f(steps, 3)}
    with pytest.raises(ModelError, match="is declared as") as caught:
        polytc.load_onnx(build([N("Scan", ["a", "b"], ["y", "z"], body=body, num_scan_inputs=1)], feeds, ["y", "z"])).compile(
            target="evaluate").run(None, feeds)
    assert caught.value.code == "E606"


@pytest.mark.parametrize("known", [True, False])
def test_branches_whose_result_has_another_shape(build, known: bool) -> None:
    feeds = {"x": f(3)} | ({} if known else {"c": np.array(True)})
    model = build([branching(info("r", shape=[4]), info("q"))], feeds, ["y"], {"c": np.array(True)} if known else {})
    with pytest.raises(ModelError, match="the output 'r' of the body 'then' is declared as") as caught:
        polytc.load_onnx(model).compile(target="evaluate").run(None, feeds)
    assert caught.value.code == "E606"


@pytest.mark.parametrize("shape", [None, [], [3]])
def test_branches_that_say_less(build, shape: list[int] | None) -> None:
    feeds = {"x": positive(3), "c": np.array(False)}
    accepted(build([branching(info("r", shape=shape), info("q", shape=shape))], feeds, ["y"]), feeds)


def test_values_declared_of_another_type(build) -> None:
    feeds = {"x": f(3)}
    model = build([N("Relu", ["x"], ["a"], name="it"), N("Abs", ["a"], ["y"])], feeds, ["y"])
    model.graph.value_info.append(info("a", DOUBLE))
    error = refused(model, feeds)
    assert "Relu node 'it': its result 'a' is declared as tensor(double), and computed as tensor(float)" in str(error)
