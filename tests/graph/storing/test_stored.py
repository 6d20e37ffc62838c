"""Models that an earlier process compiled: found on disk, run without the compiler, and never taken for another model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polytc.disk import folder

pytestmark = pytest.mark.skipif(not folder.SUPPORTED or not Path("/proc/cpuinfo").exists(), reason="models are kept on Linux")

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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(60) == 0


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, np.ndarray]:
    x = np.random.default_rng(5).standard_normal((3, 40)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    return tmp_path, x


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


def test_the_second_start_needs_no_compiler(files: tuple[Path, np.ndarray], server: Server) -> None:
    weights = save(files[0] / "model.onnx", 1)
    first = run(files, None)
    second = run(files, None)
    assert not first["started"]
    assert second["started"]
    np.testing.assert_allclose(second["y"], expected(files[1], weights), rtol=1e-4, atol=1e-4)
    assert second["y"] == first["y"]
    loaded = [m for m in second["modules"] for heavy in HEAVY if m == heavy or m.startswith(heavy + ".")]
    assert not loaded
    run(files, None, MORE)
    assert not run(files, server, POLYTC_CHECK="1")["started"]
    assert not run(files, server, threads=2)["started"]
    assert run(files, server, threads=2)["y"] == first["y"]


@pytest.mark.parametrize("external", [False, True])
def test_a_model_that_was_written_to_is_another_one(files: tuple[Path, np.ndarray], server: Server, external: bool) -> None:
    save(files[0] / "model.onnx", 1, external)
    run(files, server)
    assert run(files, server)["started"]
    before = os.stat(files[0] / "model.onnx")
    weights = save(files[0] / "model.onnx", 2, external)
    os.utime(files[0] / "model.onnx", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(files[0] / "model.onnx").st_size == before.st_size
    found = run(files, server)
    assert not found["started"]
    np.testing.assert_allclose(found["y"], expected(files[1], weights), rtol=1e-4, atol=1e-4)
    if external:
        other = np.fromfile(files[0] / "weights.bin", "f4") * 0
        other.tofile(files[0] / "weights.bin")
        assert not np.any(run(files, server)["y"])


def test_a_link_to_weights_that_is_pointed_elsewhere(files: tuple[Path, np.ndarray], server: Server) -> None:
    """Both files of weights stay as they were: only the link changes."""
    folder_ = files[0]
    weights = []
    for seed in (1, 2):
        weights.append(save(folder_ / "model.onnx", seed, external=True))
        (folder_ / "weights.bin").rename(folder_ / f"{seed}.bin")
    link = folder_ / "weights.bin"
    link.symlink_to("1.bin")
    run(files, server)
    assert run(files, server)["started"]
    link.unlink()
    link.symlink_to("2.bin")
    found = run(files, server)
    assert not found["started"]
    np.testing.assert_allclose(found["y"], expected(files[1], weights[1]), rtol=1e-4, atol=1e-4)
    assert run(files, server)["started"]


def test_two_versions_of_a_hub_share_the_model_but_not_the_weights(files: tuple[Path, np.ndarray], server: Server) -> None:
    """The links of both lead to one file of the graph and to different weights."""
    folder_ = files[0]
    (folder_ / "blobs").mkdir()
    weights = []
    for seed in (1, 2):
        weights.append(save(folder_ / "blobs" / "graph", seed, external=True))
        (folder_ / "blobs" / "weights.bin").rename(folder_ / "blobs" / str(seed))
        (folder_ / f"v{seed}").mkdir()
        (folder_ / f"v{seed}" / "model.onnx").symlink_to("../blobs/graph")
        (folder_ / f"v{seed}" / "weights.bin").symlink_to(f"../blobs/{seed}")
    for _ in range(2):
        for k, seed in enumerate((1, 2)):
            (folder_ / "model.onnx").unlink(missing_ok=True)
            np.save(folder_ / f"v{seed}" / "x.npy", files[1])
            found = run((folder_ / f"v{seed}", files[1]), server, POLYTC_CACHE_DIR=str(folder_ / "cache"))
            np.testing.assert_allclose(found["y"], expected(files[1], weights[k]), rtol=1e-4, atol=1e-4)


SPOILED = """
import sys
import numpy as np
from polytc.disk import stamps, weights
stamps.SETTLED = -1000.0
weights.LARGE = int(sys.argv[4])
import polytc.graph
model = polytc.graph.load_onnx(sys.argv[1]).compile(threads=1)
x = np.load(sys.argv[3])
before = model.run(None, {"x": x})[0]
for path in sys.argv[5:]:
    size = len(open(path, "rb").read())
    with open(path, "r+b") as file:
        file.write(b"\\x11" * size)
    assert np.array_equal(model.run(None, {"x": x})[0], before), "overwritten"
    with open(path, "r+b") as file:
        file.truncate(0)
    assert np.array_equal(model.run(None, {"x": x})[0], before), "cut"
assert np.array_equal(model.session().run(None, {"x": x})[0], before)
"""


@pytest.mark.part(2)
@pytest.mark.parametrize("large", [0, 1 << 30])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("external", [False, True])
def test_files_that_are_overwritten_or_cut_under_a_running_model(files: tuple[Path, np.ndarray], server: Server, external: bool,
                                                                 cached: bool, large: int) -> None:
    folder_ = files[0]
    save(folder_ / "model.onnx", 1, external)
    if cached:
        run(files, server)
    names = [str(folder_ / n) for n in ("weights.bin", "model.onnx") if (folder_ / n).exists()]
    execute(files, server, SPOILED, "1", str(folder_ / "x.npy"), str(large), *names)


def test_broken_entries_are_made_again(files: tuple[Path, np.ndarray], server: Server) -> None:
    weights = save(files[0] / "model.onnx", 3)
    run(files, server)
    entries = sorted((files[0] / "cache" / "code").glob("*.bin"))
    assert len(entries) >= 3
    for n, entry in enumerate(entries):
        data = bytearray(entry.read_bytes())
        data[-1 - n % 7] ^= 0x5A
        entry.write_bytes(data if n % 2 else data[:len(data) // 2])
    np.testing.assert_allclose(run(files, server)["y"], expected(files[1], weights), rtol=1e-4, atol=1e-4)
    assert run(files, server)["started"]


def test_a_missing_kernel_means_compiling(files: tuple[Path, np.ndarray], server: Server) -> None:
    weights = save(files[0] / "model.onnx", 4)
    run(files, server)
    for entry in (files[0] / "cache" / "code").glob("*.bin"):
        if b"parts" in entry.read_bytes()[:200]:  # a package: see codegen/package.py
            entry.unlink()
    found = run(files, server)
    assert not found["started"]
    np.testing.assert_allclose(found["y"], expected(files[1], weights), rtol=1e-4, atol=1e-4)


def test_a_file_that_was_changed_just_now_is_not_kept(files: tuple[Path, np.ndarray], server: Server) -> None:
    save(files[0] / "model.onnx", 5)
    soon = RUN.replace("-1000.0", "1000.0")
    run(files, server, soon)
    assert not run(files, server, soon)["started"]


def test_nodes_are_read_from_the_file_that_was_loaded(files: tuple[Path, np.ndarray], server: Server) -> None:
    save(files[0] / "model.onnx", 6)
    run(files, server)
    run(files, server, RUN + """
open(sys.argv[1], "ab").write(b"x")
try:
    graph.nodes
    raise SystemExit("no error")
except polytc.ModelError as error:
    assert "E614" in str(error)
""")


def test_operators_of_the_user_count_whenever_they_are_registered(files: tuple[Path, np.ndarray], server: Server) -> None:
    weights = save(files[0] / "model.onnx", 7)
    late = RUN.replace("model =", 'polytc.graph.register("", "Relu", "op Own(X) -> Y { Y[i, j] = X[i, j] + 1 }")\nmodel =')
    own = ((files[1] @ weights["w"] + weights["b"] + 1) @ weights["v"] * 2).tolist()
    for script, wanted in ((late, own), (RUN, expected(files[1], weights)), (late, own)):
        np.testing.assert_allclose(run(files, server, script)["y"], wanted, rtol=1e-4, atol=1e-4)


def test_a_graph_that_was_found_is_changed_as_any_other(files: tuple[Path, np.ndarray], server: Server) -> None:
    save(files[0] / "model.onnx", 8)
    run(files, server)
    assert run(files, None, RUN + """
import copy, dataclasses, pickle
again = polytc.graph.load_onnx(sys.argv[1])
other = dataclasses.replace(again, name="other")
assert other.name == "other" and other.nodes == again.nodes and type(other) is type(again)
assert "origin" not in vars(other)
for each in (graph, again):
    assert [n.op for n in pickle.loads(pickle.dumps(each)).nodes] == [n.op for n in copy.deepcopy(each).nodes]
""")["started"]


def save_open(path: Path, seed: int) -> dict[str, np.ndarray]:
    """As `save`, with an open number of rows."""
    weights = save(path, seed)
    model = onnx.load(path)
    for v in (model.graph.input[0], model.graph.output[0]):
        v.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save_model(model, str(path))
    return weights


OPEN = """
import json, sys
import numpy as np
from polytc.disk import stamps
stamps.SETTLED = -1000.0
import polytc.graph
model = polytc.graph.load_onnx(sys.argv[1]).compile(threads=int(sys.argv[2]))
x = np.load(sys.argv[3])
found = [(model.run(None, {"x": x[:n]})[0].tolist(), len(model._starts)) for n in json.loads(sys.argv[4])]
print(json.dumps([found, sorted(sys.modules)]))
"""


def test_a_model_of_open_sizes_starts_for_the_shapes_of_a_run(files: tuple[Path, np.ndarray], server: Server) -> None:
    wanted = expected(files[1], save_open(files[0] / "model.onnx", 11))

    def starts(by: Server | None, rows: list[int]) -> tuple[list[int], list[str]]:
        found, modules = json.loads(execute(files, by, OPEN, "1", str(files[0] / "x.npy"), json.dumps(rows)))
        for (y, _), n in zip(found, rows, strict=True):
            np.testing.assert_allclose(y, wanted[:n], rtol=1e-4, atol=1e-4)
        return [n for _, n in found], modules
    assert starts(server, [3, 2])[0] == [0, 0]
    counts, modules = starts(None, [2, 3, 3, 2, 2, 3])
    assert counts == [1, 2, 2, 2, 2, 2]
    assert not [m for m in modules for heavy in HEAVY if m == heavy or m.startswith(heavy + ".")]
    assert starts(server, [3, 1, 2, 3])[0] == [1, 0, 0, 0]  # one that is not there: from then on all are compiled
    assert starts(server, [1, 2, 3])[0] == [1, 2, 3]


def test_all_shapes_are_prepared_where_the_first_is_found(files: tuple[Path, np.ndarray], server: Server) -> None:
    save_open(files[0] / "model.onnx", 9)
    run(files, server, RUN.replace("threads=int", 'shapes={"x": (3, 40)}, threads=int'))
    run(files, server, RUN.replace("threads=int", 'shapes=[{"x": (3, 40)}, {"x": (5, 40)}], threads=int').replace("(y,)", """
assert len(model._instances) == 2
(y,)"""))


MADE = """
import json, sys
import numpy as np
from polytc.disk import mapped, stamps, weights
stamps.SETTLED = -1000.0
weights.LARGE = weights.LEAST = 1
import polytc.graph
model = polytc.graph.load_onnx(sys.argv[1]).compile(threads=1)
y = model.run(None, {"x": np.load(sys.argv[2])})[0]
started = len(model._starts) > 0
((_, ready),) = [(0, each.instance) for _, each in model._starts._found.items()] if started else model._instances.items()
assert np.array_equal(model.session().run(None, {"x": np.load(sys.argv[2])})[0], y)
print(json.dumps([y.tolist(), started, [mapped.origin(a) is not None for a in ready.plan.constants.values() if a.size > 100]]))
"""


def test_what_passes_made_of_weights_is_in_a_file(files: tuple[Path, np.ndarray], server: Server) -> None:
    """So that nobody keeps it beside what kernels packed of it."""
    weights = save(files[0] / "model.onnx", 12)
    model = onnx.load(files[0] / "model.onnx")
    (w,) = [t for t in model.graph.initializer if t.name == "w"]
    w.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weights["w"].T), "turned"))
    model.graph.node.insert(0, helper.make_node("Transpose", ["turned"], ["w"]))
    onnx.save_model(model, str(files[0] / "model.onnx"))

    def process() -> tuple[bool, list[bool]]:
        y, started, in_files = json.loads(execute(files, server, MADE, str(files[0] / "x.npy")))
        np.testing.assert_allclose(y, expected(files[1], weights), rtol=1e-4, atol=1e-4)
        return started, in_files
    assert process() == (False, [True, True])
    assert process() == (True, [True, True])
    for path in (files[0] / "cache" / "weights").glob("*"):
        path.unlink()
    assert not process()[0]
    assert process()[0]
