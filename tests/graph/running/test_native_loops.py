"""Loops of many iterations as few native calls: the same results as ONNX Runtime's, whatever the body hands on."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import polytc
from polytc.graph.running import native_loops

N = helper.make_node
R = np.random.default_rng(23)
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, kind: int = F, shape=(2,)):
    return helper.make_tensor_value_info(name, kind, shape)


def array(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


@pytest.fixture
def counted(monkeypatch):
    """How many iterations ran in native calls."""
    found: list[int] = []
    run = native_loops.NativeLoop.run

    def counting(self, *arguments):
        done = run(self, *arguments)
        found.append(done[0])
        return done
    monkeypatch.setattr(native_loops.NativeLoop, "run", counting)
    return found


HEAD = [value("k", I, []), value("keep", B, [])]
BODIES = {
    "sums and rows": ([N("Gather", ["x", "k"], ["row"]), N("Add", ["s", "row"], ["s2"]), N("Mul", ["s2", "row"], ["r"]),
                       N("Identity", ["keep"], ["go"])], ["s"], ["s2"], ["r"]),
    "a row that is the state": ([N("Gather", ["x", "k"], ["row"]), N("Add", ["s", "row"], ["s2"]), N("Identity", ["s2"], ["r"]),
                                 N("Identity", ["s"], ["before"]), N("Identity", ["keep"], ["go"])],
                                ["s"], ["s2"], ["r", "before"]),
    "states that stay": ([N("Gather", ["x", "k"], ["row"]), N("Add", ["s", "row"], ["s2"]), N("Identity", ["t"], ["t2"]),
                          N("Identity", ["keep"], ["go"])], ["s", "t"], ["s2", "t2"], []),
    "states that change places": ([N("Gather", ["x", "k"], ["row"]), N("Add", ["s", "row"], ["s2"]),
                                   N("Identity", ["s"], ["t2"]), N("Identity", ["keep"], ["go"])],
                                  ["s", "t"], ["s2", "t2"], []),
    "a condition": ([N("Gather", ["x", "k"], ["row"]), N("Abs", ["row"], ["size"]), N("Add", ["s", "size"], ["s2"]),
                     N("ReduceMax", ["s2"], ["top"], keepdims=0), N("Less", ["top", "limit"], ["go"])], ["s"], ["s2"], ["s2"]),
}


def looping(build, name: str, rows: int):
    nodes, states, after, results = BODIES[name]
    body = helper.make_graph(nodes, "body", [*HEAD, *map(value, states)],
                             [value("go", B, []), *map(value, after), *map(value, results)])
    outputs = [f"o{i}" for i in range(len(after) + len(results))]
    loop = N("Loop", ["n", "yes", *(f"start{i}" for i in range(len(states)))], outputs, body=body)
    starts = [N("Mul", ["z", f"c{i}"], [f"start{i}"]) for i in range(len(states))]
    constants = {"yes": np.array(True), "limit": np.float32(9), "c0": np.float32(1), "c1": np.float32(2)}
    ends = [N("Neg", [o], [f"y{o}"]) for o in outputs]
    return build([*starts, loop, *ends], {"x": (np.float32, [rows, 2]), "z": (np.float32, [2]), "n": (np.int64, [])},
                 [f"y{o}" for o in outputs], constants)


@pytest.mark.part(4)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", BODIES)
def test_loops(build, runtime, counted, monkeypatch, name: str, threads: int) -> None:
    source = looping(build, name, 40)
    model = polytc.load_onnx(source).compile(target="cpu", threads=threads)
    for most in (4096, 7):
        monkeypatch.setattr(native_loops, "MAX_ITERATIONS", most)
        for n in (40, 1, 0, 5, 3, 39):
            feeds = {"x": array(40, 2), "z": array(2), "n": np.array(n)}
            for mine, theirs in zip(model.run(None, feeds), runtime(source, feeds), strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert bool(counted) == (name != "states that change places")
    assert max(counted, default=0) == {"a condition": max(counted, default=0), "states that change places": 0}.get(name, 39)


def test_the_condition_stops_at_any_iteration(build, runtime, counted) -> None:
    source = looping(build, "a condition", 40)
    model = polytc.load_onnx(source).compile(target="cpu", threads=1)
    for stop in range(12):
        x = np.full((40, 2), 0.01, np.float32)
        x[stop] = 100
        feeds = {"x": x, "z": np.zeros(2, np.float32), "n": np.array(40)}
        last, rows = model.run(None, feeds)
        assert rows.shape == (stop + 1, 2)
        np.testing.assert_allclose(last, runtime(source, feeds)[0], rtol=1e-5)
    assert sorted(set(counted)) == list(range(1, 12))


def test_results_are_memory_of_their_own(build) -> None:
    model = polytc.load_onnx(looping(build, "sums and rows", 40)).compile(target="cpu", threads=1)
    kept = []
    for n in (40, 40, 20):
        x, z = array(40, 2), array(2)
        sums = z + np.cumsum(x[:n].astype("f8"), 0)
        kept.append((model.run(None, {"x": x, "z": z, "n": np.array(n)}), [-sums[-1], -sums * x[:n]]))
    for mine, theirs in kept:
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("axis", "backwards"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_scans(build, runtime, counted, axis: int, backwards: int) -> None:
    """100 slices, each of 2 numbers, with weights from outside."""
    body = helper.make_graph([N("MatMul", ["s", "w"], ["m"]), N("Add", ["m", "v"], ["a"]), N("Tanh", ["a"], ["s2"]),
                              N("Mul", ["s2", "v"], ["r"]), N("Relu", ["r"], ["q"])], "body",
                             [value("s"), value("v")], [value("s2"), value("r"), value("q")])
    shape = [100, 2] if axis == 0 else [2, 100]
    scan = N("Scan", ["start", "x"], ["last", "rows", "more"], body=body, num_scan_inputs=1, scan_input_axes=[axis],
             scan_input_directions=[backwards], scan_output_axes=[axis, 0], scan_output_directions=[backwards, 0])
    source = build([scan], {"start": (np.float32, [2]), "x": (np.float32, shape)}, ["last", "rows", "more"], {"w": array(2, 2)})
    model = polytc.load_onnx(source).compile(target="cpu", threads=1)
    for _ in range(2):
        feeds = {"start": array(2), "x": array(*shape)}
        for mine, theirs in zip(model.run(None, feeds), runtime(source, feeds), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert counted == [99, 99]


def test_a_state_that_grows_is_not_for_native_calls(build, counted) -> None:
    body = helper.make_graph([N("Concat", ["s", "x"], ["s2"], axis=0), N("Identity", ["keep"], ["go"])], "body",
                             [*HEAD, value("s", shape=["A"])], [value("go", B, []), value("s2", shape=["C"])])
    source = build([N("Loop", ["n", "yes", "x"], ["y"], body=body)], {"x": (np.float32, [2]), "n": (np.int64, [])}, ["y"],
                   {"yes": np.array(True)})
    model = polytc.load_onnx(source).compile(target="cpu", threads=1)
    x = array(2)
    np.testing.assert_array_equal(model.run(None, {"x": x, "n": np.array(8)})[0], np.tile(x, 9))
    assert not counted
