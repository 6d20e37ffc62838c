"""If over data as one native call: only the branch that is taken runs, whatever its results are, wherever the If stands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import polytc
from polytc.disk import folder
from polytc.graph import ahead
from polytc.graph.plan import Guard
from polytc.graph.planning import branch_guards

N = helper.make_node
R = np.random.default_rng(31)
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
CC = shutil.which("cc") or shutil.which("gcc")


def value(name: str, kind: int = F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def body(name: str, nodes, *results: str, constants=None):
    stored = [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    return helper.make_graph(nodes, name, [], [value(r) for r in results], stored)


def deciding(source: str = "x") -> list:
    """p: is the sum positive?"""
    return [N("ReduceSum", [source], ["s"], keepdims=0), N("Greater", ["s", "zero"], ["p"])]


ZERO = {"zero": np.float32(0)}
W = R.standard_normal((6, 6)).astype(np.float32)


def plain(build):
    """Products in both branches, the same names inside, and work before and after that could be fused."""
    then = body("b", [N("MatMul", ["h", "w"], ["a"]), N("Relu", ["a"], ["r"])], "r", constants={"w": W})
    other = body("b", [N("Mul", ["h", "h"], ["a"]), N("MatMul", ["a", "w"], ["r"])], "r", constants={"w": W.T})
    return build([N("Tanh", ["x"], ["h"]), *deciding("h"), N("If", ["p"], ["i"], then_branch=then, else_branch=other),
                  N("Add", ["i", "x"], ["y"])], {"x": (np.float32, [4, 6])}, ["y", "p"], ZERO)


def handing_on(build):
    """Results that are values from outside, constants, scalars, views, one value twice, and an output of the model."""
    then = body("t", [N("Abs", ["x"], ["a"]), N("Identity", ["h"], ["b"]), N("Reshape", ["a", "shape"], ["c"]),
                      N("Identity", ["k"], ["d"]), N("Identity", ["a"], ["e"])], "a", "b", "c", "d", "e",
                constants={"k": W, "shape": np.array([24])})
    other = body("e", [N("Neg", ["x"], ["a"]), N("Reshape", ["x", "shape"], ["c"]), N("Identity", ["one"], ["d"]),
                       N("Add", ["x", "h"], ["b"])], "h", "b", "c", "d", "a",
                 constants={"one": 1 + W, "shape": np.array([24])})
    return build([N("Tanh", ["x"], ["h"]), *deciding(), N("If", ["p"], list("abcde"), then_branch=then, else_branch=other),
                  N("Neg", ["c"], ["z"])], {"x": (np.float32, [4, 6])}, ["a", "b", "z", "d", "e", "h"], ZERO)


def nested(build):
    """An If in a branch, with a condition that is computed there, and an If after it with the same condition."""
    inner = [body("i", [N("Exp", ["m"], ["r"])], "r"), body("i", [N("Sqrt", ["square"], ["r"])], "r")]
    then = body("t", [N("ReduceMax", ["x"], ["top"], keepdims=0), N("Greater", ["top", "limit"], ["q"]),
                      N("Neg", ["x"], ["m"]), N("Mul", ["x", "x"], ["square"]),
                      N("If", ["q"], ["r"], then_branch=inner[0], else_branch=inner[1]), N("Add", ["r", "m"], ["o"])], "o", "r",
                constants={"limit": np.float32(2)})
    other = body("e", [N("Abs", ["x"], ["o"]), N("Identity", ["x"], ["r"])], "o", "r")
    again = [body("t", [N("Mul", ["o", "r"], ["y"])], "y"), body("e", [N("Sub", ["o", "r"], ["y"])], "y")]
    return build([*deciding(), N("If", ["p"], ["o", "r"], then_branch=then, else_branch=other),
                  N("If", ["p"], ["y"], then_branch=again[0], else_branch=again[1])],
                 {"x": (np.float32, [4, 6])}, ["y", "o"], ZERO)


def given(build):
    """A condition that is an input."""
    then, other = body("t", [N("Exp", ["x"], ["y"])], "y"), body("e", [N("MatMul", ["x", "w"], ["y"])], "y", constants={"w": W})
    return build([N("If", ["p"], ["y"], then_branch=then, else_branch=other)],
                 {"x": (np.float32, [4, 6]), "p": (np.bool_, [])}, ["y"])


MODELS = {"plain": plain, "handing on": handing_on, "nested": nested, "given": given}


def feeds_of(source) -> list[dict[str, np.ndarray]]:
    """Inputs that take each way."""
    x = abs(R.standard_normal((4, 6))).astype(np.float32)
    if any(v.name == "p" for v in source.graph.input):
        return [{"x": x, "p": np.array(p)} for p in (True, False, True)]
    return [{"x": a} for a in (x, -x, np.minimum(x, 1), x + 2, -x)]


@pytest.mark.part(4)
@pytest.mark.parametrize("name", MODELS)
def test_all_ways_through(build, reference, targets, name) -> None:
    source = MODELS[name](build)
    for target in ("evaluate", *targets):
        model = polytc.load_onnx(source, strict=True).compile(target=target, threads=2, strict=True)
        for feeds in feeds_of(source):
            for mine, wanted in zip(model.run(None, feeds), reference(source, feeds), strict=True):
                assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape)
                np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=1e-5, err_msg=target)
        if target == "cpu":
            assert [depth for depth, _ in model._partitioned.parts()] == [0]


def test_only_the_branch_that_is_taken_runs(build) -> None:
    model = polytc.load_onnx(plain(build)).compile(threads=1)
    for sign, idle in ((1, ["Mul", "MatMul"]), (-1, ["MatMul_Relu"])):
        x = np.full((4, 6), sign, np.float32)
        model.run(None, {"x": x})
        (_, ready), = model._partitioned.parts()
        assert ready.instance is not None
        assert ready.instance.chain.native
        labels = [c.label for c in ready.plan.calls]
        times = ready.instance.chain.timed()
        assert [label for label, (start, end) in zip(labels, times, strict=True) if start == end] == idle
    assert len(model.profile({"x": x}, runs=2).kernels) == len(labels)


def test_a_body_with_an_if_runs_its_iterations_in_native_calls(build, runtime) -> None:
    """Collatz' steps of three numbers at once, by their sum."""
    then = body("t", [N("Mul", ["n", "half"], ["m"])], "m", constants={"half": np.float32(0.5)})
    other = body("e", [N("Mul", ["n", "three"], ["t"]), N("Add", ["t", "one"], ["m"])], "m",
                 constants={"three": np.float32(3), "one": np.float32(1)})
    step = helper.make_graph(
        [N("ReduceSum", ["n"], ["s"], keepdims=0), N("Mod", ["s", "two"], ["odd"], fmod=1), N("Equal", ["odd", "zero"], ["p"]),
         N("If", ["p"], ["next"], then_branch=then, else_branch=other), N("Identity", ["go"], ["on"])], "step",
        [value("k", I, []), value("go", B, []), value("n", F, [3])], [value("on", B, []), value("next", F, [3]),
                                                                      value("s", F, [])])
    source = build([N("Loop", ["count", "", "x"], ["y", "sums"], body=step)], {"x": (np.float32, [3]), "count": (np.int64, [])},
                   ["y", "sums"], {"two": np.float32(2), "zero": np.float32(0)})
    model = polytc.load_onnx(source, strict=True).compile(threads=1, strict=True)
    for count in (12, 30):
        feeds = {"x": np.float32([7, 2, 6]), "count": np.array(count)}
        for mine, wanted in zip(model.run(None, feeds), runtime(source, feeds), strict=True):
            np.testing.assert_array_equal(mine, wanted)


def test_a_condition_of_several_elements_is_refused(build) -> None:
    then, other = body("t", [N("Exp", ["x"], ["y"])], "y"), body("e", [N("Neg", ["x"], ["y"])], "y")
    source = build([N("Greater", ["x", "zero"], ["p"]), N("If", ["p"], ["y"], then_branch=then, else_branch=other)],
                   {"x": (np.float32, [40])}, ["y"], ZERO)
    with pytest.raises(polytc.PolytcError) as caught:
        polytc.load_onnx(source).compile(target="evaluate").run(None, {"x": np.ones(40, np.float32)})
    assert caught.value.code == "E608"


def test_branches_of_different_shapes_are_parts_of_their_own(build, reference) -> None:
    then = body("t", [N("ReduceSum", ["x", "axis"], ["y"])], "y", constants={"axis": np.array([0])})
    other = body("e", [N("Neg", ["x"], ["y"])], "y")
    source = build([*deciding(), N("If", ["p"], ["y"], then_branch=then, else_branch=other)], {"x": (np.float32, [4, 6])},
                   ["y"], ZERO)
    model = polytc.load_onnx(source, strict=True).compile(strict=True)
    for feeds in feeds_of(source):
        np.testing.assert_allclose(model.run(None, feeds)[0], reference(source, feeds)[0], rtol=1e-5)
    assert 1 in [depth for depth, _ in model._partitioned.parts()]


def test_ahead_of_time(build, reference, tmp_path: Path) -> None:
    if CC is None:
        pytest.skip("there is no C compiler")
    source = nested(build)
    ahead.export(polytc.load_onnx(source), tmp_path, name="net")
    subprocess.run([CC, "-O1", "main.c", "net.o", "-lm", "-lpthread", "-o", "net"], cwd=tmp_path, check=True)
    for feeds in feeds_of(source):
        feeds["x"].tofile(tmp_path / "x.raw")
        for threads in ("1", "2"):
            done = subprocess.run(["./net", "net.weights", threads, "x.raw"], cwd=tmp_path, check=True, capture_output=True,
                                  text=True)
            lines = [line.split()[1:] for line in done.stdout.splitlines()]
            for got, wanted in zip(lines, reference(source, feeds), strict=True):
                np.testing.assert_allclose([float(v) for v in got], wanted.reshape(-1)[:8], rtol=1e-4, atol=1e-5)


@pytest.mark.long
@pytest.mark.skipif(not folder.SUPPORTED or not Path("/proc/cpuinfo").exists(), reason="models are kept on Linux")
def test_found_on_disk(build, reference, tmp_path: Path) -> None:
    source = nested(build)
    onnx.save(source, tmp_path / "m.onnx")
    code = ("import json, sys; import numpy as np; from polytc.disk import stamps; stamps.SETTLED = -1000.0;"
            "import polytc.graph; m = polytc.graph.load_onnx(sys.argv[1]).compile(threads=1);"
            "print(json.dumps([[m.run(None, {'x': np.load(f)})[0].tolist() for f in sys.argv[2:]], len(m._starts) > 0]))")
    all_feeds = feeds_of(source)
    for k, feeds in enumerate(all_feeds):
        np.save(tmp_path / f"{k}.npy", feeds["x"])
    names = [str(tmp_path / f"{k}.npy") for k in range(len(all_feeds))]
    around = {n: v for n, v in os.environ.items() if n not in ("POLYTC_CHECK", "POLYTC_CACHE", "POLYTC_DUMP")}
    for process in range(2):
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m.onnx"), *names], check=True, capture_output=True,
                              text=True, env=around | {"POLYTC_CACHE_DIR": str(tmp_path / "cache")})
        found, started = json.loads(done.stdout)
        assert started is (process == 1)
        for got, feeds in zip(found, all_feeds, strict=True):
            np.testing.assert_allclose(got, reference(source, feeds)[0], rtol=1e-5, atol=1e-6)


def test_jumps() -> None:
    p, q = Guard("p", True), Guard("q", False)
    assert branch_guards.guard_jumps([]) == []
    assert branch_guards.guard_jumps([(), (p,), (p, q), (p,), (q,), ()]) == [
        (0, 0), (p, 4), (1, 0), (q, 1), (2, 0), (3, 0), (q, 1), (4, 0), (5, 0)]
    assert branch_guards.guard_jumps([(p, q)]) == [(p, 2), (q, 1), (0, 0)]
