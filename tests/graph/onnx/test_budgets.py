"""Small files that ask for endless work: refused soon, or left at an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc
from polytc.errors import ModelError

N = helper.make_node
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]


def model_of(nodes, constants=(), functions=(), inputs=()) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    graph = helper.make_graph(nodes, "g", [x, *inputs], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.asarray(a), n) for n, a in constants])
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
    model.functions.extend(functions)
    return model


def function(name: str, *callees: str) -> onnx.FunctionProto:
    """One call after another."""
    names = ["x", *(f"t{k}" for k in range(len(callees) - 1)), "y"]
    nodes = [N(op, [a], [b], domain="" if op == "Relu" else "own") for op, a, b in zip(callees, names, names[1:])]
    return helper.make_function("own", name, ["x"], ["y"], nodes, OPSETS)


def nested(levels: int) -> onnx.ModelProto:
    """Each function calls the next one twice: 2**levels nodes."""
    functions = [function("F0", "Relu"), *(function(f"F{k + 1}", f"F{k}", f"F{k}") for k in range(levels))]
    return model_of([N(f"F{levels}", ["x"], ["y"], domain="own")], functions=functions)


def test_functions_that_double_at_each_level() -> None:
    start = time.monotonic()
    with pytest.raises(ModelError, match="stand for 1,073,741,824 nodes") as caught:
        polytc.load_onnx(nested(30))
    assert caught.value.code == "E606"
    assert time.monotonic() - start < 5
    x = np.float32([-1, 0, 2])
    assert polytc.load_onnx(nested(5)).compile(target="evaluate")(x).tolist() == [0, 0, 2]


def test_functions_that_call_themselves_or_in_a_long_chain() -> None:
    loop = [function("F", "G"), function("G", "F")]
    with pytest.raises(ModelError, match="call themselves"):
        polytc.load_onnx(model_of([N("F", ["x"], ["y"], domain="own")], functions=loop))
    chain = [function("F0", "Relu"), *(function(f"F{k + 1}", f"F{k}") for k in range(3000))]
    with pytest.raises(ModelError, match="cannot be inlined"):
        polytc.load_onnx(model_of([N("F3000", ["x"], ["y"], domain="own")], functions=chain))


def loop_of(trips: int | None) -> onnx.ModelProto:
    """x / 2, so many times; None: an input says how many."""
    value = helper.make_tensor_value_info
    body = helper.make_graph([N("Mul", ["s", "half"], ["t"]), N("Identity", ["c"], ["d"])], "body",
                             [value("k", TensorProto.INT64, []), value("c", TensorProto.BOOL, []),
                              value("s", TensorProto.FLOAT, [3])],
                             [value("d", TensorProto.BOOL, []), value("t", TensorProto.FLOAT, [3])])
    constants = [("half", np.float32(0.5)), *([("n", np.int64(trips))] if trips is not None else [])]
    inputs = [value("n", TensorProto.INT64, [])] if trips is None else []
    return model_of([N("Loop", ["n", "", "x"], ["y"], body=body)], constants, inputs=inputs)


def test_loops_that_never_end() -> None:
    with pytest.raises(ModelError, match="never ends: it has 9223372036854775807 iterations"):
        polytc.load_onnx(loop_of(2**63 - 1)).compile(threads=1)
    model = polytc.load_onnx(loop_of(None)).compile(threads=1)
    x = np.ones(3, np.float32)
    with pytest.raises(ModelError, match="never ends"):
        model.run(None, {"x": x, "n": np.array(2**63 - 1)})
    assert model.run(None, {"x": x, "n": np.array(3)})[0].tolist() == [0.125] * 3


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have commands behind `&` ignore it
import numpy as np
import polytc
model = polytc.load_onnx(sys.argv[1])
try:
    session = model.compile(threads=2, target=sys.argv[2])
    print("begins", flush=True)
    session.run(None, {"x": np.ones(3, np.float32)})
except KeyboardInterrupt:
    print("left", flush=True)
"""


@pytest.mark.part(2)
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("target", ["cpu", "evaluate"])
def test_an_interrupt_ends_a_long_loop(tmp_path: Path, target: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(loop_of(10**12).SerializeToString())
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(path), target], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(0.8)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert out == "left\n"
    assert process.returncode == 0


@pytest.mark.parametrize(("op", "inputs", "constants"), [
    ("Range", ["a", "b", "c"], {"a": np.float32(0), "b": np.float32(1e12), "c": np.float32(1)}),
    ("Tile", ["x", "a"], {"a": np.array([10**12])}), ("Expand", ["x", "a"], {"a": np.array([10**12, 3])}),
    ("ConstantOfShape", ["a"], {"a": np.array([10**12, 10**12])}), ("ConstantOfShape", ["a"], {"a": np.array([2**62, 4])}),
    ("OneHot", ["i", "d", "v"], {"i": np.array([1, 2]), "d": np.array(10**12), "v": np.float32([0, 1])}),
    ("Pad", ["x", "p"], {"p": np.array([10**12, 0])}), ("Resize", ["x", "", "s"], {"s": np.float32([1e13])})])
def test_results_beyond_memory(op: str, inputs, constants) -> None:
    with pytest.raises(ModelError) as caught:
        polytc.load_onnx(model_of([N(op, inputs, ["y"])], constants.items())).compile(target="evaluate")
    assert caught.value.code in ("E608", "E609", "E612")
