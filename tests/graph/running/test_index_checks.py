"""Models that are `checked`: an index outside of its axis raises, with node, input and element; numpy says which it is."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import polytc
import polytc.graph
from polytc.errors import ArgumentError, CompileError, IndexOutOfBounds, ModelError
from polytc.graph import ahead
from polytc.graph.operators.table import TABLE
from polytc.graph.plan import IndexCheck
from polytc.graph.user_operators import OWN_TEXTS
from polytc.rewrite.index_checks import decides

N = helper.make_node
R = np.random.default_rng(8)


def floats(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def ints(low: int, high: int, *shape: int) -> np.ndarray:
    return R.integers(low, high, shape)


def distinct(low: int, high: int, *shape: int) -> np.ndarray:
    """Numbers of which none names the same place as another."""
    return R.permutation(np.arange(low, high))[:int(np.prod(shape))].reshape(shape)


CASES: dict[str, tuple[onnx.NodeProto, dict[str, np.ndarray], str, list[tuple[int, int]], int]] = {
    "gather": (N("Gather", ["x", "i"], ["y"]), {"x": floats(7, 3), "i": ints(-7, 7, 4, 2)}, "i", [(-7, 7)], 13),
    "gather axis": (N("Gather", ["x", "i"], ["y"], axis=1), {"x": floats(3, 9), "i": ints(-9, 9, 5)}, "i", [(-9, 9)], 13),
    "gather scalar": (N("Gather", ["x", "i"], ["y"], axis=1), {"x": floats(3, 9), "i": np.array(-9)}, "i", [(-9, 9)], 13),
    "gather elements": (N("GatherElements", ["x", "i"], ["y"], axis=1), {"x": floats(4, 6), "i": ints(-6, 6, 4, 3)}, "i",
                        [(-6, 6)], 13),
    "gather nd": (N("GatherND", ["x", "i"], ["y"]), {"x": floats(4, 6, 2), "i": np.stack([ints(-4, 4, 5), ints(-6, 6, 5)], 1)},
                  "i", [(-4, 4), (-6, 6)], 13),
    "gather nd of batches": (N("GatherND", ["x", "i"], ["y"], batch_dims=1),
                             {"x": floats(3, 5, 2), "i": ints(-5, 5, 3, 2, 1)}, "i", [(-5, 5)], 13),
    "scatter elements": (N("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add"),
                         {"x": floats(5, 3), "i": ints(-5, 5, 4, 3), "u": floats(4, 3)}, "i", [(-5, 5)], 18),
    "scatter": (N("ScatterElements", ["x", "i", "u"], ["y"]), {"x": floats(9), "i": distinct(-9, 0, 4), "u": floats(4)}, "i",
                [(-9, 9)], 18),
    "scatter nd": (N("ScatterND", ["x", "i", "u"], ["y"], reduction="max"),
                   {"x": floats(4, 6, 2), "i": np.stack([ints(-4, 4, 5), ints(-6, 6, 5)], 1), "u": floats(5, 2)}, "i",
                   [(-4, 4), (-6, 6)], 18),
    "loss": (N("NegativeLogLikelihoodLoss", ["x", "i"], ["y"], ignore_index=-1, reduction="sum"),
             {"x": floats(5, 4), "i": np.array([0, 3, -1, 2, 1])}, "i", [(0, 4)], 13),
    "cross entropy": (N("SoftmaxCrossEntropyLoss", ["x", "i", "w"], ["y"]),
                      {"x": floats(5, 4, 2), "i": ints(0, 4, 5, 2), "w": abs(floats(4))}, "i", [(0, 4)], 13),
    "rotary": (N("RotaryEmbedding", ["x", "c", "s", "i"], ["y"]),
               {"x": floats(2, 3, 4, 8), "c": floats(9, 4), "s": floats(9, 4), "i": ints(0, 9, 2, 4)}, "i", [(0, 9)], 23),
    "tensor scatter": (N("TensorScatter", ["x", "u", "i"], ["y"], axis=1),
                       {"x": floats(2, 7, 3), "u": floats(2, 3, 3), "i": ints(0, 5, 2)}, "i", [(0, 5)], 24),
    "lengths": (N("ReverseSequence", ["x", "i"], ["y"]), {"x": floats(6, 3), "i": ints(1, 7, 3)}, "i", [(0, 7)], 10),
    "regions": (N("RoiAlign", ["x", "r", "i"], ["y"], output_height=2, output_width=2),
                {"x": floats(3, 1, 4, 4), "r": abs(floats(2, 4)), "i": ints(0, 3, 2)}, "i", [(0, 3)], 16),
    "unpool": (N("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
               {"x": floats(1, 1, 2, 2), "i": distinct(0, 16, 1, 1, 2, 2)}, "i", [(0, 16)], 11),
}


@pytest.mark.part(10)
@pytest.mark.parametrize("target", ["cpu", "interp", "evaluate"])
@pytest.mark.parametrize("name", CASES)
def test_each_operator_names_the_first_index_outside(name: str, target: str, build, reference) -> None:
    node, feeds, where, allowed, opset = CASES[name]
    node = copy.deepcopy(node)
    node.name = "here"
    made = build([node], feeds, ["y"], opset=opset)
    model = polytc.load_onnx(made).compile(target=target, threads=2, checked=True)
    plain = polytc.load_onnx(made).compile(target=target, checked=False)
    (expected,) = reference(made, feeds)
    for _ in range(2):
        np.testing.assert_allclose(model.run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)
    good = feeds[where]
    for number in {0, good.size - 1, good.size // 2}:
        low, high = allowed[number % len(allowed)]
        for value in (low - 2, high, 2**62, -2**63):  # -1 is what a loss ignores
            bad = good.copy()
            bad.flat[number] = value
            bad.flat[-1] = bad.flat[-1] if number % 2 else min(value, -100)  # another one behind the first
            place = ", ".join(map(str, np.unravel_index(number, good.shape)))
            told = bad.flat[number]
            with pytest.raises(IndexError) as found:
                model.run(None, {**feeds, where: bad})
            assert isinstance(found.value, IndexOutOfBounds)
            assert found.value.code == "E418"
            at = f"[{place}]" if good.ndim else ""
            assert f"node 'here': 'i'{at} = {told} is no index of " in str(found.value)
            assert f", {low}:{high}\n" in str(found.value)
            if target != "evaluate":  # the reference stops there
                assert plain.run(None, {**feeds, where: bad})[0].shape == expected.shape
    for _ in range(2):
        np.testing.assert_allclose(model.run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)


OWN_PLACES = {"Resize", "Det", "GridSample", "TfIdfVectorizer", "DeformConv", "TopK"}
"""Operators whose places follow from coordinates, an order or attributes; all of them are inside, as are those of TensorScatter
in its circular mode."""


@pytest.mark.long
def test_every_operator_of_the_suite_that_takes_indices_is_looked_at() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests
        cases = load_model_tests(kind="node")
    looked: set[str] = set()
    for case in cases:
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in TABLE:
            continue
        try:
            model = polytc.load_onnx(case.model, strict=True).compile(target="evaluate", strict=True, checked=True)
        except CompileError:
            continue
        for _, ready in model._compiled.partitioned.parts():
            own = [c for c in ready.plan.calls if not c.label.startswith("Indices")]
            if any(decides(c.program) for c in own) and not ready.plan.index_checks:
                assert nodes[0].op_type in OWN_PLACES or case.name == "test_tensorscatter_circular", case.name
            looked |= {nodes[0].op_type} if ready.plan.index_checks else set()
    assert looked >= {"Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "ReverseSequence", "RoiAlign"}


@pytest.fixture
def lookup(build) -> onnx.ModelProto:
    """y = relu(table[int64(i)]), and rows of it by another index."""
    return build([N("Cast", ["i"], ["c"], to=TensorProto.INT64), N("Gather", ["table", "c"], ["e"], name="lookup"),
                  N("Relu", ["e"], ["y"]), N("Gather", ["y", "j"], ["z"], name="rows")],
                 {"i": (np.int32, ["B"]), "j": (np.int64, ["K"])}, ["y", "z"], {"table": floats(20, 6)})


def fails(model: Any, feeds: dict[str, np.ndarray], what: str) -> None:
    with pytest.raises(IndexOutOfBounds) as found:
        model.run(None, feeds)
    assert what in str(found.value)


@pytest.mark.part(4)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_open_sizes_and_indices_that_are_computed(lookup, runtime, target: str, symbolic: bool) -> None:
    model = polytc.load_onnx(lookup).compile(target=target, symbolic=symbolic, checked=True)
    for b, k in ((1, 2), (5, 3), (4, 2), (5, 3)):
        feeds = {"i": ints(-20, 20, b).astype("i4"), "j": ints(-b, b, k)}
        for got, wanted in zip(model.run(None, feeds), runtime(lookup, feeds), strict=True):
            np.testing.assert_array_equal(got, wanted)
        i, j = feeds["i"].copy(), feeds["j"].copy()
        i[b - 1], j[1] = 20, b
        fails(model, {**feeds, "i": i}, f"node 'lookup': 'c'[{b - 1}] = 20 is no index of axis 0 of 'table', -20:20")
        fails(model, {**feeds, "j": j}, f"node 'rows': 'j'[1] = {b} is no index of axis 0 of 'y', -{b}:{b}")


def test_no_indices_are_all_inside(lookup) -> None:
    model = polytc.load_onnx(lookup).compile(checked=True)
    y, z = model.run(None, {"i": np.zeros(3, "i4"), "j": np.zeros(0, "i8")})
    assert (y.shape, z.shape) == ((3, 6), (0, 6))


def test_the_environment_asks_for_it(lookup, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = {"i": np.array([0, 99], "i4"), "j": np.array([0])}
    polytc.load_onnx(lookup).compile().run(None, feeds)
    monkeypatch.setenv("POLYTC_CHECK_INDICES", "1")
    model = polytc.load_onnx(lookup).compile()
    polytc.load_onnx(lookup).compile(checked=False).run(None, feeds)
    monkeypatch.delenv("POLYTC_CHECK_INDICES")
    for again in (model, model.session(), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        fails(again, feeds, "'c'[1] = 99")
    with pytest.raises(ArgumentError, match="E410"):
        polytc.load_onnx(lookup).compile(checked="yes")  # type: ignore[arg-type]


def test_a_known_index_outside_is_refused_whether_checked_or_not(build) -> None:
    made = build([N("NegativeLogLikelihoodLoss", ["x", "i"], ["y"])], {"x": (np.float32, [2, 3])}, ["y"],
                 {"i": np.array([0, 3])})
    for checked in (False, True):
        with pytest.raises(ModelError, match="index 3 is out of range for axis 1 of 'x', 0:3"):
            polytc.load_onnx(made).compile(checked=checked)


def test_one_input_is_looked_at_once_for_equal_axes(build) -> None:
    made = build([N("Gather", ["x", "i"], ["a"]), N("Gather", ["v", "i"], ["b"]), N("Gather", ["w", "i"], ["c"])],
                 {"x": (np.float32, [4, 2]), "v": (np.float32, [4]), "w": (np.float32, [5]), "i": (np.int64, [3])},
                 ["a", "b", "c"])
    model = polytc.load_onnx(made).compile(checked=True)
    assert len(model._instances.items()[-1][1].plan.index_checks) == 2
    feeds = {"x": floats(4, 2), "v": floats(4), "w": floats(5), "i": np.array([0, 4, 3])}
    fails(model, feeds, "'i'[1] = 4 is no index of axis 0 of 'x', -4:4")
    fails(model, {**feeds, "i": np.array([0, 1, -5])}, "'i'[2] = -5")


def branches(build, condition: str) -> onnx.ModelProto:
    def body(name: str, source: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [2])
        return helper.make_graph([N("Gather", [source, "i"], [f"{name}_y"], name=name)], name, [], [out])
    return build([N("Greater", ["p", "zero"], ["c"]), N("If", ["c"], ["y"], then_branch=body("then", "x"),
                                                       else_branch=body("other", "w"))],
                 {"p": (np.float32, []), "x": (np.float32, [5]), "w": (np.float32, [3]), "i": (np.int64, [2])}, ["y"],
                 {"zero": np.float32(0)})


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_only_the_branch_that_is_taken_counts(build, target: str) -> None:
    model = polytc.load_onnx(branches(build, "p")).compile(target=target, checked=True)
    feeds = {"x": floats(5), "w": floats(3), "i": np.array([4, 0])}
    for _ in range(2):
        np.testing.assert_array_equal(model.run(None, {**feeds, "p": np.float32(1)})[0], feeds["x"][[4, 0]])
        fails(model, {**feeds, "p": np.float32(-1)}, "node 'other': 'i'[0] = 4")
        fails(model, {**feeds, "p": np.float32(1), "i": np.array([0, 5])}, "'i'[1] = 5 is no index of axis 0 of 'x'")


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_iterations_are_looked_at_one_by_one(build, target: str) -> None:
    """Each takes place k of i: the index of only one of them is outside."""
    head = [helper.make_tensor_value_info(n, t, []) for n, t in (("k", TensorProto.INT64), ("keep", TensorProto.BOOL))]
    state = helper.make_tensor_value_info("s", TensorProto.FLOAT, [])
    inner = helper.make_graph(
        [N("Gather", ["i", "k"], ["at"], name="which"), N("Gather", ["x", "at"], ["v"], name="what"),
         N("Add", ["s", "v"], ["t"]), N("Identity", ["keep"], ["go"])], "body", [*head, state],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("t", TensorProto.FLOAT, [])])
    made = build([N("Loop", ["n", "", "zero"], ["y"], body=inner)],
                 {"n": (np.int64, []), "x": (np.float32, [5]), "i": (np.int64, [9])}, ["y"], {"zero": np.float32(0)})
    model = polytc.load_onnx(made).compile(target=target, checked=True)
    feeds = {"n": np.array(9), "x": floats(5), "i": ints(0, 5, 9)}
    np.testing.assert_allclose(model.run(None, feeds)[0], feeds["x"][feeds["i"]].sum(), rtol=1e-5)
    for k in (0, 4, 8):
        bad = feeds["i"].copy()
        bad[k] = 5
        fails(model, {**feeds, "i": bad}, "node 'what': 'at' = 5 is no index of axis 0 of 'x', -5:5")
    fails(model, {**feeds, "n": np.array(10)}, "node 'which'")


@pytest.mark.parametrize("target", ["cpu", "evaluate"])
def test_a_users_own_text_is_looked_at(build, target: str) -> None:
    before = dict(TABLE), dict(OWN_TEXTS)
    try:
        polytc.graph.register("own", "Pick", "op Pick(X, I) -> Y { Y[i, k] = X[I[i, k] + k] * 2 }")
        made = build([N("Pick", ["x", "i"], ["y"], domain="own", name="mine"), N("Relu", ["y"], ["z"])],
                     {"x": (np.float32, [7]), "i": (np.int64, [4, 3])}, ["z"])
        model = polytc.load_onnx(made).compile(target=target, checked=True)
        x, i = floats(7), ints(0, 5, 4, 3)
        np.testing.assert_allclose(model(x, i), np.maximum(x[i + np.arange(3)] * 2, 0))
        i[2, 1] = 6
        i[3, 2] = 6
        if target == "cpu":
            fails(model, {"x": x, "i": i}, "node 'mine': I[i, k] + k is no index of dimension 0 of X, 0:7\n  note: at i=2, k=1")
        else:
            with pytest.raises(IndexError):
                model(x, i)
    finally:
        for table, old in zip((TABLE, OWN_TEXTS), before):
            table.clear()
            table.update(old)


RUN = """
import json, sys
import numpy as np
from polytc.disk import stamps
stamps.SETTLED = -1000.0  # the file was written just now
import polytc.graph
model = polytc.graph.load_onnx(sys.argv[1]).compile(threads=1, checked=sys.argv[2] == "1")
feeds = {"i": np.array([0, 99], "i4"), "j": np.array([0])}
try:
    model.run(None, feeds)
    told = ""
except IndexError as error:
    told = str(error)
print(json.dumps({"told": told, "started": len(model._starts) > 0}))
"""


@pytest.mark.long
def test_kept_models_look_at_indices_too(lookup, tmp_path: Path) -> None:
    for d in (*lookup.graph.input[0].type.tensor_type.shape.dim, *lookup.graph.input[1].type.tensor_type.shape.dim):
        d.dim_value = 1 if d.dim_param == "K" else 2
    onnx.save(lookup, tmp_path / "m.onnx")

    def run(checked: str) -> dict[str, Any]:
        environment = {**os.environ, "POLYTC_CACHE_DIR": str(tmp_path / "cache"), "POLYTC_CACHE": "1"}
        for name in ("POLYTC_CHECK", "POLYTC_DUMP", "POLYTC_CHECK_INDICES"):
            environment.pop(name, None)
        done = subprocess.run([sys.executable, "-c", RUN, str(tmp_path / "m.onnx"), checked], capture_output=True, text=True,
                              env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    for started in (False, True, True):
        for checked in ("0", "1"):
            found = run(checked)
            assert ("'c'[1] = 99 is no index of axis 0 of 'table', -20:20" in found["told"]) == (checked == "1")
            assert found["started"] == started


def test_what_is_kept_comes_back() -> None:
    w = IndexCheck("a", "b", "c", "d", ((0, 2), (1, 3)), ("i", "k"), ("e",), 7)
    fields = [w.first, w.index, w.label, w.subject, w.ranges, w.names, w.allowed, w.width]
    assert IndexCheck.of(json.loads(json.dumps(fields))) == w


def test_models_compiled_ahead_of_time_do_not_look_and_say_so(build, lookup, tmp_path: Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    graph, shapes = polytc.load_onnx(lookup), {"i": (3,), "j": (2,)}
    assert not ahead.plan_of(graph, shapes).index_checks
    monkeypatch.setenv("POLYTC_CHECK_INDICES", "1")
    with pytest.raises(ArgumentError, match="E410: a model that is compiled ahead of time does not look at indices"):
        ahead.plan_of(graph, shapes)
    with pytest.raises(ArgumentError, match="E410"):
        ahead.export(graph, tmp_path, shapes)
    plain = polytc.load_onnx(build([N("Relu", ["x"], ["y"])], {"x": (np.float32, ["n", 3])}, ["y"]))
    assert ahead.export(plain, tmp_path, sizes={"n": 4}).code.exists()
