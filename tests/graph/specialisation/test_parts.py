"""Models whose data decide shapes, branches and trip counts: parts, their order, what is kept, and what is left to onnx."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

import polytc
from polytc.errors import ModelError

N = helper.make_node
R = np.random.default_rng(9)


def array(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def agree(model, feeds, got, reference) -> None:
    for mine, wanted in zip(got, reference(model, feeds), strict=True):
        assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)


@pytest.fixture
def choosing(build):
    """The squares of the positive elements, and the k largest of them negated."""
    nodes = [N("Mul", ["x", "x"], ["a"]), N("Greater", ["x", "zero"], ["g"]), N("NonZero", ["g"], ["i"]),
             N("Transpose", ["i"], ["it"]), N("GatherND", ["a", "it"], ["v"]), N("Relu", ["v"], ["w"]),
             N("TopK", ["w", "k"], ["top", "places"]), N("Neg", ["top"], ["y"]), N("Shape", ["w"], ["count"])]
    return build(nodes, {"x": (np.float32, ["N", 4]), "k": (np.int64, [1])}, ["y", "a", "places", "count"],
                 {"zero": np.float32(0)})


def test_data_decide_shapes(choosing, reference, targets) -> None:
    for target in ("evaluate", *targets):
        model = polytc.load_onnx(choosing, strict=True).compile(target=target, threads=1, strict=True)
        for rows, k in ((3, 2), (5, 3), (3, 4)) if target == "evaluate" else ((3, 2),):
            feeds = {"x": abs(array(rows, 4)) * np.resize([1, -1, 1], (rows, 4)).astype(np.float32), "k": np.array([k])}
            agree(choosing, feeds, model.run(None, feeds), reference)


def test_only_what_changed_is_specialised_again(choosing) -> None:
    model = polytc.load_onnx(choosing).compile(target="evaluate")
    for positive in (2, 3, 2, 3):
        x = np.full((1, 4), -1, np.float32)
        x[0, :positive] = 1
        assert model.run(["count"], {"x": x, "k": np.array([1])})[0] == [positive]
    parts = [depth for depth, _ in model._partitioned.parts()]
    assert parts.count(0) == 1
    assert parts.count(1) == 2
    assert "then NonZero node" in model.report()
    assert model.fallbacks() == []


def test_a_static_model_is_one_part(small_cnn) -> None:
    model = polytc.load_onnx(small_cnn).compile(target="evaluate", shapes={"x": (1, 3, 9, 9)})
    assert [depth for depth, _ in model._partitioned.parts()] == [0]
    assert all(ready.rest is None and not ready.works for _, ready in model._partitioned.parts())


def test_results_are_memory_of_their_own(build) -> None:
    nodes = [N("NonZero", ["x"], ["i"]), N("Identity", ["i"], ["j"]), N("Identity", ["x"], ["same"]),
             N("Add", ["x", "one"], ["z"]), N("Identity", ["z"], ["z2"])]
    model = polytc.load_onnx(build(nodes, {"x": (np.float32, [4])}, ["i", "j", "same", "z", "z2", "k"],
                                   {"one": np.float32(1), "k": np.arange(3)})).compile(target="evaluate")
    x = np.float32([0, 1, 0, 2])
    results = model(x)
    for k, one in enumerate(results):
        assert not np.shares_memory(one, x)
        assert not any(np.shares_memory(one, other) for other in results[k + 1:])
        one[...] = 7
    np.testing.assert_array_equal(model(x)[5], [0, 1, 2])


def test_shapes_computed_from_data(build, reference) -> None:
    """The extent of a range is the largest element: computed first, then compiled in, once for each value."""
    nodes = [N("ReduceMax", ["x"], ["m"], keepdims=0), N("Range", ["zero", "m", "one"], ["r"]), N("Mul", ["r", "r"], ["y"])]
    source = build(nodes, {"x": (np.int64, [20])}, ["y"], {"zero": np.int64(0), "one": np.int64(1)})
    model = polytc.load_onnx(source).compile(target="evaluate", strict=True)
    for top in (3, 5, 3, 0):
        feeds = {"x": np.resize([0, top, 0], 20)}
        agree(source, feeds, model.run(None, feeds), reference)
    assert len(model._partitioned.known) == 1


# ---- control flow

def branches(build, condition: str, inputs):
    f = TensorProto.FLOAT
    then = helper.make_graph([N("Add", ["x", "w"], ["t"])], "then", [], [helper.make_tensor_value_info("t", f, None)],
                             [helper.make_tensor("w", f, [3], [1, 2, 3])])
    other = helper.make_graph([N("Mul", ["h", "h"], ["t"])], "else", [], [helper.make_tensor_value_info("t", f, None)])
    nodes = [N("Relu", ["x"], ["h"]), N("ReduceSum", ["x"], ["s"], keepdims=0), N("Greater", ["s", "zero"], ["data"]),
             N("If", [condition], ["b"], then_branch=then, else_branch=other), N("Neg", ["b"], ["y"])]
    return build(nodes, inputs, ["y"], {"zero": np.float32(0), "yes": np.array(True), "no": np.array(False)})


@pytest.mark.parametrize("condition", ["yes", "no"])
def test_a_constant_condition_leaves_one_branch(build, reference, condition) -> None:
    source = branches(build, condition, {"x": (np.float32, [3])})
    model = polytc.load_onnx(source).compile(target="evaluate", strict=True)
    assert [depth for depth, _ in model._partitioned.parts()] == [0]
    feeds = {"x": array(3)}
    agree(source, feeds, model.run(None, feeds), reference)


def test_a_condition_from_the_data_or_an_input(build, reference) -> None:
    source = branches(build, "data", {"x": (np.float32, [3])})
    model = polytc.load_onnx(source).compile(target="evaluate", strict=True)
    for sign in (1, -1, 1):
        feeds = {"x": sign * abs(array(3))}
        agree(source, feeds, model.run(None, feeds), reference)
    source = branches(build, "c", {"x": (np.float32, [3]), "c": (np.bool_, [])})
    model = polytc.load_onnx(source).compile(target="evaluate", strict=True)
    for c in (True, False, True):
        feeds = {"x": array(3), "c": np.array(c)}
        agree(source, feeds, model.run(None, feeds), reference)


def value(name: str, kind: int = TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def summing(more: str = "keep"):
    """s += x[k] * scale and the running sums; goes on while the sum is below a limit, or as long as it is told to."""
    return helper.make_graph([
        N("Gather", ["x", "k"], ["row"]), N("Mul", ["row", "scale"], ["scaled"]), N("Add", ["s", "scaled"], ["s2"]),
        N("ReduceMax", ["s2"], ["top"], keepdims=0), N("Less", ["top", "limit"], ["below"]), N("Identity", ["keep"], ["stay"]),
        N("Identity", ["s2"], ["row_sum"])], "body",
        [value("k", TensorProto.INT64, []), value("keep", TensorProto.BOOL, []), value("s")],
        [value("below" if more == "below" else "stay", TensorProto.BOOL), value("s2"), value("row_sum", shape=[2])])


@pytest.mark.parametrize(("trip", "more"), [("five", "keep"), ("zero", "keep"), ("five", "below"), ("n", "below"),
                                            ("", "below")])
def test_loop(build, runtime, trip, more) -> None:
    nodes = [N("Neg", ["z"], ["start"]), N("Loop", [trip, "" if trip == "five" else "yes", "start"], ["last", "sums"],
                                          body=summing(more)), N("Relu", ["sums"], ["y"])]
    inputs = {"x": (np.float32, ["R", 2]), "z": (np.float32, [2]), "n": (np.int64, [])}
    source = build(nodes, inputs, ["last", "y"], {
        "five": np.int64(5), "zero": np.int64(0), "yes": np.array(True), "scale": np.float32(2), "limit": np.float32(9)})
    model = polytc.load_onnx(source, strict=True).compile(target="evaluate", strict=True)
    for n in (4, 2):
        feeds = {"x": abs(array(6, 2)) + 1, "z": array(2), "n": np.array(n)}
        agree(source, feeds, model.run(None, feeds), runtime)


def test_scan(build) -> None:
    """Running products of rows read backwards, states and results along other axes, and a value from outside."""
    body = helper.make_graph([N("Mul", ["s", "row"], ["p"]), N("Add", ["p", "extra"], ["s2"]), N("Identity", ["s2"], ["o"]),
                              N("Sub", ["row", "other"], ["d"])], "body",
                             [value("s"), value("row"), value("other")], [value("s2"), value("o"), value("d")])
    nodes = [N("Scan", ["s0", "x", "z"], ["last", "all", "ds"], body=body, num_scan_inputs=2, scan_input_axes=[1, 0],
               scan_input_directions=[1, 0], scan_output_axes=[1, 0], scan_output_directions=[0, 1])]
    source = build(nodes, {"s0": (np.float32, [3]), "x": (np.float32, [3, 4]), "z": (np.float32, [4, 3])},
                   ["last", "all", "ds"], {"extra": np.float32(0.5)})
    s, x, z = array(3), array(3, 4), array(4, 3)
    last, everything, differences = polytc.load_onnx(source, strict=True).compile(target="evaluate", strict=True)(s, x, z)
    column, rest = [], []
    for t in range(4):
        s = s * x[:, 3 - t] + np.float32(0.5)
        column.append(s)
        rest.append(x[:, 3 - t] - z[t])
    np.testing.assert_allclose(last, s, rtol=1e-6)
    np.testing.assert_allclose(everything, np.stack(column, 1), rtol=1e-6)
    np.testing.assert_allclose(differences, np.stack(rest[::-1]), rtol=1e-6)


# ---- what is left to onnx's evaluator

def test_sequences_are_named_and_refused_if_asked(build, reference) -> None:
    nodes = [N("Neg", ["x"], ["n"]), N("SequenceConstruct", ["x", "n"], ["seq"], name="make"),
             N("SequenceAt", ["seq", "one"], ["second"], name="take"), N("Relu", ["second"], ["y"])]
    source = build(nodes, {"x": (np.float32, [3])}, ["y"], {"one": np.int64(1)})
    graph = polytc.load_onnx(source)
    assert "onnx's evaluator runs the SequenceConstruct node 'make': it works on sequences" in graph.report()
    model = graph.compile(target="evaluate")
    x = array(3)
    np.testing.assert_array_equal(model(x), np.maximum(-x, 0))
    assert len(model.fallbacks()) == 2
    assert "onnx's evaluator runs the SequenceAt node 'take'" in model.report()
    with pytest.raises(ModelError) as caught:
        polytc.load_onnx(source, strict=True)
    assert [d.code for d in caught.value.diagnostics] == ["E605", "E605"]
    with pytest.raises(ModelError, match="E605"):
        graph.compile(target="evaluate", strict=True)(x)


def test_strings_as_inputs(build) -> None:
    model = build([N("StringConcat", ["a", "b"], ["y"])], {"a": (np.float32, [2]), "b": (np.float32, [2])}, ["y"])
    for v in model.graph.input:
        v.type.tensor_type.elem_type = TensorProto.STRING
    a, b = np.array(["x", "y"], object), np.array(["1", "2"], object)
    assert polytc.load_onnx(model).compile(target="evaluate")(a, b).tolist() == ["x1", "y2"]


def test_types_that_polytc_does_not_have_fall_back_with_the_reason(build, reference) -> None:
    nodes = [N("Relu", ["x"], ["r"]), N("Cast", ["r"], ["small"], to=TensorProto.FLOAT8E4M3FN, name="down"),
             N("Cast", ["small"], ["back"], to=TensorProto.FLOAT, name="up"), N("Neg", ["back"], ["y"])]
    source = build(nodes, {"x": (np.float32, [7])}, ["y"])
    model = polytc.load_onnx(source).compile(target="evaluate")
    feeds = {"x": array(7)}
    agree(source, feeds, model.run(None, feeds), reference)
    assert ["'down'" in line or "'up'" in line for line in model.fallbacks()] == [True, True]
    with pytest.raises(ModelError) as caught:
        polytc.load_onnx(source).compile(target="evaluate", strict=True)
    assert caught.value.code == "E608"


def test_values_that_do_not_fit_at_run_time_name_the_node(choosing) -> None:
    model = polytc.load_onnx(choosing).compile(target="evaluate")
    with pytest.raises(ModelError, match="TopK node that computes 'top' cannot be evaluated: 9 elements") as caught:
        model(np.ones((1, 4), np.float32), np.array([9]))
    assert caught.value.code == "E609"


# ---- threads

def test_sessions_run_side_by_side(choosing, reference) -> None:
    model = polytc.load_onnx(choosing).compile(target="cpu", threads=1)
    feeds = [{"x": abs(array(3, 4)), "k": np.array([2])} for _ in range(3)]
    expected = [model.run(None, f) for f in feeds]
    for f, results in zip(feeds, expected, strict=True):
        agree(choosing, f, results, reference)
    wrong: list[int] = []

    def work(k: int) -> None:
        own = model.session()
        for _ in range(10):
            if not all(np.array_equal(a, b) for a, b in zip(own.run(None, feeds[k]), expected[k], strict=True)):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


# ---- loops

def counting(build, trip: int, more: int):
    """x + 0 + 1 + ...: `more` nodes in each iteration, and its number compiled in as an extent."""
    body = helper.make_graph(
        [N("Cast", ["k"], ["f"], to=1), N("Add", ["s", "f"], ["s0"])]
        + [N("Neg", [f"s{i}"], [f"s{i + 1}"]) for i in range(2 * more)] + [N("Identity", ["keep"], ["stay"])], "body",
        [value("k", TensorProto.INT64, []), value("keep", TensorProto.BOOL, []), value("s")],
        [value("stay", TensorProto.BOOL), value(f"s{2 * more}")])
    return build([N("Relu", ["x"], ["r"]), N("Loop", ["n", "", "r"], ["last"], body=body), N("Neg", ["last"], ["y"])],
                 {"x": (np.float32, [3])}, ["y"], {"n": np.array(trip)})


@pytest.mark.parametrize(("trip", "more", "parts"), [(5, 1, 1), (60, 3, 3)])
def test_short_loops_are_straight_and_long_ones_repeat(build, trip, more, parts) -> None:
    model = polytc.load_onnx(counting(build, trip, more)).compile(target="evaluate", strict=True)
    x = array(3)
    np.testing.assert_allclose(model(x), -(np.maximum(x, 0) + sum(range(trip))), rtol=1e-5)
    assert len(list(model._partitioned.parts())) == parts


def test_a_loop_whose_shapes_grow_compiles_a_bounded_number_of_times(build) -> None:
    """s = concat(s, s[:1]) forty times: each iteration has other shapes."""
    body = helper.make_graph([N("Slice", ["s", "zero", "one"], ["first"]), N("Concat", ["s", "first"], ["s2"], axis=0),
                              N("Less", ["k", "end"], ["stay"])], "body",
                             [value("k", TensorProto.INT64, []), value("keep", TensorProto.BOOL, []), value("s")],
                             [value("stay", TensorProto.BOOL), value("s2")])
    source = build([N("Loop", ["", "yes", "x"], ["y"], body=body)], {"x": (np.float32, [2])}, ["y"],
                   {"zero": np.array([0]), "one": np.array([1]), "end": np.array(39), "yes": np.array(True)})
    model = polytc.load_onnx(source).compile(target="evaluate", strict=True)
    x = array(2)
    np.testing.assert_array_equal(model(x), np.concatenate([x, np.repeat(x[:1], 40)]))
    inner = next(ready for _, ready in model._partitioned.parts()).inner[0]
    assert inner._left is not None
    assert inner._left < 0


def test_a_loop_that_never_ends_is_refused(build) -> None:
    body = helper.make_graph([N("Neg", ["s"], ["s2"]), N("Identity", ["keep"], ["stay"])], "body",
                             [value("k", TensorProto.INT64, []), value("keep", TensorProto.BOOL, []), value("s")],
                             [value("stay", TensorProto.BOOL), value("s2")])
    source = build([N("Loop", ["", "", "x"], ["y"], body=body, name="for ever")], {"x": (np.float32, [2])}, ["y"])
    with pytest.raises(ModelError, match="'for ever' never ends"):
        polytc.load_onnx(source).compile(target="evaluate")


def test_inputs_by_dlpack(build) -> None:
    class Foreign:
        def __init__(self, inner: np.ndarray) -> None:
            self.inner = inner

        def __dlpack__(self, **options: object) -> object:
            return self.inner.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.inner.__dlpack_device__()

    model = polytc.load_onnx(build([N("Neg", ["x"], ["y"])], {"x": (np.float32, [3])}, ["y"])).compile(target="evaluate")
    x = array(3)
    np.testing.assert_array_equal(model(Foreign(x)), -x)


@pytest.mark.parametrize("outputs", [1, 2, 3, 4])
def test_results_at_the_end_may_be_left_out(build, reference, outputs) -> None:
    names = ["y", "first", "which", "counts"][:outputs]
    source = build([N("Unique", ["x"], names), N("Cast", ["y"], ["z"], to=1)], {"x": (np.int64, [6])}, [*names, "z"])
    feeds = {"x": np.array([3, 1, 3, 2, 1, 3])}
    agree(source, feeds, polytc.load_onnx(source).compile(target="evaluate", strict=True).run(None, feeds), reference)


def test_more_outputs_than_the_operator_has(build) -> None:
    for node in (N("NonZero", ["x"], ["i", "y"]), N("Shape", ["x"], ["", "y"])):
        with pytest.raises(ModelError, match="has 2 outputs, the operator has 1"):
            polytc.load_onnx(build([node], {"x": (np.float32, [3])}, ["y"]))


def test_what_follows_a_routine_of_known_shape_is_compiled_ahead(build, reference) -> None:
    nodes = [N("Neg", ["x"], ["n"]), N("TopK", ["n", "k"], ["top", "places"]), N("Relu", ["top"], ["y"])]
    source = build(nodes, {"x": (np.float32, [3, 90])}, ["y", "places"], {"k": np.array([2])})
    model = polytc.load_onnx(source).compile(target="evaluate", strict=True)
    assert len(list(model._partitioned.parts())) == 2
    feeds = {"x": array(3, 90)}
    agree(source, feeds, model.run(None, feeds), reference)
    assert len(list(model._partitioned.parts())) == 2
