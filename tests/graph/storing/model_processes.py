"""A small model on disk, and processes that load and run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEAVY = ("islpy", "llvmlite", "lark", "onnx", "google.protobuf", "sympy", "rich", "pyopencl", "polytc.compiler",
         "polytc.schedule", "polytc.poly", "polytc.lang.building", "polytc.lang.parsing.parser", "polytc.program.evaluator",
         "polytc.graph.parts", "polytc.graph.importing", "polytc.graph.passes", "polytc.graph.operators.table")
"""What a start from the cache does without."""

RUN = """
import json, sys
import numpy as np
from polytc.disk import stamps
stamps.SETTLED = -1000.0  # files of tests were written just now
import polytc.graph
graph = polytc.graph.load_onnx(sys.argv[1])
model = graph.compile(threads=int(sys.argv[2]))
x = np.load(sys.argv[3])
(y,) = model.run(None, {"x": x})
(again,) = model.run(["y"], {"x": np.asfortranarray(x)})
assert np.array_equal(y, again)
print(json.dumps({"y": y.tolist(), "modules": sorted(sys.modules), "started": len(model._starts) > 0}))
"""
MORE = RUN + """
session = model.session()
assert np.array_equal(session.run(None, {"x": x})[0], y)
assert len(model._starts) > 0 and len(session._starts) > 0
for bad in ({"x": x[:1]}, {"x": x.astype("f8")}, {"z": x}, {}):
    try:
        model.run(None, bad)
        raise SystemExit(f"no error for {bad}")
    except polytc.ArgumentError as error:
        assert "E61" in str(error)
assert len(model._starts) > 0
assert model.kernels > 0 and "programs" in model.report() and not model._starts
assert np.array_equal(model.run(None, {"x": x})[0], y)
assert len(model.profile({"x": x}, runs=1).kernels) == model.kernels
assert [n.op for n in graph.nodes].count("MatMul") == 2
assert "Relu" in str(graph) and "w" in graph.constants
"""


SERVER = """
import json, os, signal, sys
import numpy, onnx, polytc.compiler, polytc.graph, polytc.graph.importing, polytc.graph.parts, polytc.graph.passes
for line in sys.stdin:
    asked = json.loads(line)
    if (child := os.fork()) == 0:
        signal.alarm(300)
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = ["-c", *asked["arguments"]]
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        exec(asked["script"], {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs scripts as `python -c` does, in forks: most of what a process takes is to import polytc's compiler and onnx."""


class Server:
    """Threads that wait for forks would be in the way of pytest's: the forks are another process's."""

    def __init__(self, folder_: Path) -> None:
        self.folder = folder_
        self.process = subprocess.Popen([sys.executable, "-c", SERVER], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, script: str, arguments: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
        out, err = self.folder / "out", self.folder / "err"
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"script": script, "arguments": arguments, "environment": environment, "out": str(out),
                          "err": str(err)}), file=self.process.stdin, flush=True)
        code = int(self.process.stdout.readline())
        return code, out.read_text(), err.read_text()


def save(path: Path, seed: int, external: bool = False) -> dict[str, np.ndarray]:
    """y = relu(x @ w + b) @ v * 2 + b[:7], with weights of that seed."""
    rng = np.random.default_rng(seed)
    weights = {"w": rng.standard_normal((40, 64)), "b": rng.standard_normal(64), "v": rng.standard_normal((64, 7))}
    weights = {n: a.astype("f4") for n, a in weights.items()}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["s"]),
             helper.make_node("Relu", ["s"], ["r"]), helper.make_node("MatMul", ["r", "v"], ["p"]),
             helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32(2), "two")),
             helper.make_node("Mul", ["p", "two"], ["y"])]
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 40])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 7])],
                              [numpy_helper.from_array(a, n) for n, a in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (path.parent / "weights.bin").unlink(missing_ok=True)  # onnx writes behind what is there
    onnx.save_model(model, str(path), save_as_external_data=external, location="weights.bin", size_threshold=0)
    return weights


def expected(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    return np.maximum(x @ weights["w"] + weights["b"], 0) @ weights["v"] * 2


def execute(files: tuple[Path, np.ndarray], server: Server | None, script: str, *arguments: str, **environment: str) -> str:
    """What a script prints about the model. server: None for a process that has imported nothing."""
    folder_, _ = files
    around = {n: v for n, v in os.environ.items() if n not in ("POLYTC_CHECK", "POLYTC_CACHE", "POLYTC_DUMP")}
    around |= {"POLYTC_CACHE_DIR": str(folder_ / "cache")} | environment
    given = [str(folder_ / "model.onnx"), *arguments]
    if server is not None:
        code, out, err = server.run(script, given, around)
    else:
        done = subprocess.run([sys.executable, "-c", script, *given], env=around, capture_output=True, text=True, timeout=300)
        code, out, err = done.returncode, done.stdout, done.stderr
    assert code == 0, err
    return out


def run(files: tuple[Path, np.ndarray], server: Server | None, script: str = RUN, threads: int = 1, **environment: str
        ) -> dict[str, Any]:
    """What another process makes of the model."""
    out = execute(files, server, script, str(threads), str(files[0] / "x.npy"), **environment)
    found: dict[str, Any] = json.loads(out)
    return found
