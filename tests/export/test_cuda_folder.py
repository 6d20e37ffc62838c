"""Exported CUDA and HIP folders: what they say, and what they compute on the processor, behind runtime/cuda_runtime.h."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc
from polytc.export import bundle, cuda
from polytc.graph import ahead
from polytc.machine import DEVICES
from polytc.targets.cuda.target import CudaTarget
from tests import cuda_here
from tests.c_here import SENSE, TRAPS
from tests.export import exported
from tests.export.test_opencl_folder import CONV, CONV_SHAPES, LAYERNORM, OPEN, ROW_SHAPES, ROWS, padded_convolution, random

pytestmark = pytest.mark.skipif(cuda_here.COMPILER is None, reason="there is no C++ compiler")
RUNTIME = Path(cuda_here.__file__).parent / "targets/cuda/runtime"
DIALECTS = pytest.mark.parametrize("dialect", [cuda.CUDA, cuda.HIP], ids=["cuda", "hip"])


def write(text: str, to: Path, name: str = "", dialect: cuda.Dialect = cuda.CUDA, machine: str = "nvidia-sm90",
          **arguments: Any) -> Path:
    target = CudaTarget(DEVICES[machine])
    cuda.write(bundle.of_program(polytc.build(text, **arguments), target, name), target.machine, to, dialect)
    return to


def built(folder: Path, name: str) -> None:
    """The host and its kernels behind the runtime of the tests, main.c by the compiler of C."""
    (source,) = [p for p in folder.iterdir() if p.suffix in (".cu", ".hip")]
    text = source.read_text()
    rows = "".join(f"    {{(const void *){m[2]}, polytc_launch_{m[2]}}},\n" for m in cuda_here.KERNEL.finditer(text))
    (folder / "all.cpp").write_text(f'#include "{source.name}"\n{cuda_here.callers(text)}\n'
                                    f"const polytc_kernel polytc_kernels[] = {{\n{rows}    {{NULL, NULL}}\n}};\n")
    subprocess.run([exported.CC, *exported.STRICT, "-c", "main.c", "-o", "main.o"], cwd=folder, check=True)
    flags = [*cuda_here.STRICT, *SENSE, *TRAPS]
    subprocess.run([cuda_here.COMPILER, *flags, "-I", RUNTIME, "all.cpp", "main.o", "-o", "run"], cwd=folder, check=True)


def run(folder: Path, name: str, inputs: Sequence[np.ndarray], sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    built(folder, name)
    return exported.outputs(folder, name, inputs, sizes)


@pytest.mark.part(2)
@DIALECTS
def test_a_padded_convolution(dialect: cuda.Dialect, tmp_path: Path) -> None:
    x, w = random(1, 8, 14, 14), random(16, 8, 3, 3, seed=1)
    folder = write(CONV, tmp_path, "conv3x3", dialect, shapes=CONV_SHAPES)
    exported.agree(run(folder, "conv3x3", [x, w]), [padded_convolution(x, w)])


@pytest.mark.part(5)
@pytest.mark.parametrize("machine", ["generic-gpu", "nvidia-sm90", "amd-gfx90a", "mali", "intel-xe"])
def test_a_normalisation(machine: str, tmp_path: Path) -> None:
    x, g = random(37, 53), random(53, seed=1)
    folder = write(LAYERNORM, tmp_path, machine=machine, shapes={"X": x.shape, "G": g.shape})
    y = x.astype(np.float64) - x.mean(axis=1, dtype=np.float64, keepdims=True)
    expected = y / np.sqrt((y * y).mean(axis=1, keepdims=True) + 1e-5) * g
    exported.agree(run(folder, "layernorm", [x, g]), [expected])
    assert json.loads((folder / "layernorm.json").read_text())["made_for"] == machine


def test_sizes_that_are_not_fixed_are_arguments(tmp_path: Path) -> None:
    folder = write(OPEN, tmp_path, shapes={"X": ("N", "M"), "W": ("M", "K")})
    built(folder, "layers")
    for n, m, k in ((37, 19, 5), (3, 2, 70), (130, 64, 96)):
        x, w = random(n, m), random(m, k, seed=1)
        e = np.exp((x @ w).astype(np.float64))
        found = exported.outputs(folder, "layers", [x, w], {"N": n, "M": m, "K": k})
        exported.agree(found, [e / e.sum(axis=1, keepdims=True)], 1e-4)
    done = subprocess.run(["./run", ".", "0", "1", "1"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, "is no size" in done.stderr) == (1, True)


@pytest.mark.part(2)
@DIALECTS
def test_launches_in_loops_of_the_host(dialect: cuda.Dialect, tmp_path: Path) -> None:
    text = """def heat(inout f32[N,M] A) -> (A) {
        for t in 0:7 {
            B[i,j] = (A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1]) / 4    where i in 1:N-1, j in 1:M-1
            A[i,j] = B[i,j]                                             where i in 1:N-1, j in 1:M-1
        }
    }"""
    folder = write(text, tmp_path, dialect=dialect, shapes={"A": ("N", "M")})
    a = random(70, 150)
    expected = a.astype(np.float64)
    for _ in range(7):
        expected[1:-1, 1:-1] = (expected[:-2, 1:-1] + expected[2:, 1:-1] + expected[1:-1, :-2] + expected[1:-1, 2:]) / 4
    exported.agree(run(folder, "heat", [a], {"N": 70, "M": 150}), [expected])
    assert '"for": "t"' in (folder / "heat.json").read_text()


@pytest.mark.part(2)
@DIALECTS
def test_a_scan_in_one_pass(dialect: cuda.Dialect, tmp_path: Path) -> None:
    """Of a given size, and of sizes that the host is told; it clears the words by a launch."""
    text = "def sums(i64[R,N] A) -> (i64[R,N] S) { S[r,i] += A[r,k] where k <= i, i in 0:N }"
    machine = "nvidia-sm90" if dialect is cuda.CUDA else "amd-gfx90a"
    rng = np.random.default_rng(2)
    for place, shape, sizes in (("given", (1, 60_001), [(1, 60_001)]), ("open", ("R", "N"), [(3, 4097), (1, 9000), (2, 1)])):
        made = tmp_path / place
        made.mkdir()
        typical = {} if place == "given" else {"typical": {"R": 1, "N": 1 << 20}}
        folder = write(text, made, "sums", dialect, machine, shapes={"A": shape}, **typical)
        (code,) = [p.read_text() for p in folder.iterdir() if p.suffix in (".cu", ".hip")]
        assert "polytc_awaited_i64" in code
        built(folder, "sums")
        for rows, n in sizes:
            a = rng.integers(-2**60, 2**60, (rows, n))
            found = exported.outputs(folder, "sums", [a], {"R": rows, "N": n} if place == "open" else None)
            np.testing.assert_array_equal(found["S"], np.cumsum(a, axis=1))


def test_halves_booleans_doubles_and_integers(tmp_path: Path) -> None:
    given, expected = exported.many()
    folder = write(exported.MANY, tmp_path, shapes={n: a.shape for n, a in given.items()})
    found = run(folder, "many", list(given.values()))
    for name, wanted in expected.items():
        np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.part(8)
@pytest.mark.parametrize("name", ["main", "exp", "int", "threadIdx", "2 bad */ name", "size_t", "cudaMalloc", "dim3"])
def test_any_name_gives_code_that_compiles(name: str, tmp_path: Path) -> None:
    folder = write("exp[i] = self[i] + stream[i] * f32x4[i]", tmp_path, name,
                   shapes=dict.fromkeys(("self", "stream", "f32x4"), (5,)))
    (own,) = (p.stem for p in folder.glob("*.h"))
    a, b, c = random(5), random(5, seed=1), random(5, seed=2)
    exported.agree(run(folder, own, [a, b, c]), [a + b * c])


@pytest.mark.part(2)
@DIALECTS
def test_a_model_with_hostile_names(dialect: cuda.Dialect, tmp_path: Path) -> None:
    r = np.random.default_rng(3)
    constants = {"w": r.standard_normal((8, 3, 3, 3)).astype(np.float32), "v": r.standard_normal((512, 6)).astype(np.float32)}
    n = helper.make_node
    nodes = [n("Conv", ["x*/\n", "w"], ["ç"], pads=[1, 1, 1, 1], name='*/ "conv" \\'), n("HardSwish", ["ç"], ["double"]),
             n("Flatten", ["double"], ["f"]), n("MatMul", ["f", "v"], ["p"]), n("Softmax", ["p"], ["y*/\n"], axis=-1),
             n("Identity", ["x*/\n"], ["int"])]
    outputs = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in ("y*/\n", "int", "double")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x*/\n", TensorProto.FLOAT, [1, 3, 8, 8])], outputs,
                              [numpy_helper.from_array(a, name) for name, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "net.onnx")
    loaded, target = polytc.load_onnx(tmp_path / "net.onnx"), CudaTarget()
    cuda.write(bundle.of_plan(ahead.plan_of(loaded, {}), target, "net"), target.machine, tmp_path / "out", dialect)
    x = random(1, 3, 8, 8, seed=4)
    exported.agree(run(tmp_path / "out", "net", [x]), loaded.compile().run(None, {"x*/\n": x}))
    weights = tmp_path / "out" / "net.weights"
    whole = weights.read_bytes()
    for damaged in (whole[:-64], whole + b"\0", whole[:100] + b"\1" + whole[101:]):
        weights.write_bytes(damaged)
        done = subprocess.run(["./run", "."], cwd=tmp_path / "out", capture_output=True, text=True)
        assert (done.returncode, "weights cannot be read" in done.stderr) == (1, True)


def test_inputs_that_nothing_reads(tmp_path: Path) -> None:
    a, b = random(5), random(7, seed=1)
    folder = write("def f(A[N], B[M]) -> (C) { C[i] = A[i] * M }", tmp_path, shapes={"A": a.shape, "B": b.shape})
    exported.agree(run(folder, "f", [a, b]), [7 * a])


def test_the_description(tmp_path: Path) -> None:
    folder = write("C[i,j] += A[i,k]*B[k,j]", tmp_path, "mm", shapes={"A": ("M", 64), "B": (64, 96)})
    found = json.loads((folder / "mm.json").read_text())
    assert (found["sizes"], found["source"]) == (["M"], "mm.cu")
    (launch,) = found["launches"]
    blocks = eval(str(launch["grid"][-1]), {"M": 1000})
    assert blocks == (1000 + 63) // 64 or blocks * launch["block"][1] >= 1000 // 64
    assert launch["shared_bytes"] == found["requires"]["local_bytes"] > 0


def test_rows_that_are_walked_as_one(tmp_path: Path) -> None:
    folder = write(ROWS, tmp_path, shapes=ROW_SHAPES)
    x, z = random(7, 3), random(7, 3, seed=1)
    exported.agree(run(folder, "rows", [x, z], {"n": 7, "m": 3}), [2*x + z])


class Host:
    """The host of a program in a library, with what the runtime of the tests counts devices by."""

    def __init__(self, folder: Path, source: str) -> None:
        text = (folder / source).read_text()
        rows = "".join(f"    {{(const void *){m[2]}, polytc_launch_{m[2]}}},\n" for m in cuda_here.KERNEL.finditer(text))
        (folder / "all.cpp").write_text(f'#include "{source}"\n{cuda_here.callers(text)}\n'
                                        f"const polytc_kernel polytc_kernels[] = {{\n{rows}    {{NULL, NULL}}\n}};\n"
                                        'extern "C" void set_devices(int here, int of_all) '
                                        "{ polytc_device_here = here; polytc_device_of_all = of_all; }\n")
        subprocess.run([cuda_here.COMPILER, *cuda_here.STRICT, *SENSE, *TRAPS, "-shared", "-fPIC", "-I", RUNTIME, "all.cpp",
                        "-o", "host.so"], cwd=folder, check=True)
        self.code = ctypes.CDLL(str(folder / "host.so"))
        for name in ("host_create", "host_clone"):
            getattr(self.code, name).restype = ctypes.c_void_p
        self.code.host_error.restype = ctypes.c_char_p

    def run(self, made: ctypes.c_void_p, x: np.ndarray) -> np.ndarray:
        found = np.empty_like(x)
        assert self.code.host_run(made, ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(found.ctypes.data)) == 0
        return found


X = np.arange(512, dtype=np.float32)


def two(x: np.ndarray) -> np.ndarray:
    t = x + x[::-1]
    return t * t[::-1]


@pytest.mark.part(2)
@DIALECTS
def test_the_host_in_a_project(dialect: cuda.Dialect, tmp_path: Path) -> None:
    write("T[i] = X[i] + X[511-i]; Y[i] = T[i] * T[511-i]", tmp_path, "host", dialect, shapes={"X": (512,)})
    host = Host(tmp_path, f"host.{dialect.ending}")
    first = ctypes.c_void_p(host.code.host_create(None))
    other = ctypes.c_void_p(host.code.host_clone(first))
    seen: list[tuple[bytes, int]] = []
    observer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int)(
        lambda data, kernel, stream, ended: seen.append((kernel, ended)))
    host.code.host_observe(first, observer, None)
    np.testing.assert_array_equal(host.run(first, X), two(X))
    names = [row["kernel"].encode() for row in json.loads((tmp_path / "host.json").read_text())["launches"]]
    assert seen == [(name, ended) for name in names for ended in (0, 1)]
    host.code.host_release(first)
    np.testing.assert_array_equal(host.run(other, X), two(X))
    assert len(seen) == 2 * len(names)
    for here, of_all, code in ((0, 0, 0), (0, 1, 4), (1, 1, 4), (0, -1, 4)):
        host.code.set_devices(here, of_all)
        y = np.empty_like(X)
        assert host.code.host_run(other, *(ctypes.c_void_p(a.ctypes.data) for a in (X, y))) == code
    assert b"device" in host.code.host_error(4)
    host.code.set_devices(0, 0)
    host.code.host_release(other)


@DIALECTS
def test_the_description_has_a_schema_and_the_parameters_of_kernels(dialect: cuda.Dialect, tmp_path: Path) -> None:
    write("T[i] = X[i] + X[511-i]; Y[i] = T[i] * T[511-i]", tmp_path, "host", dialect, shapes={"X": (512,)})
    about = json.loads((tmp_path / "host.json").read_text())
    assert about["schema"] == 2
    found = {(p["name"], p["type"], p["access"]) for kernel in about["kernels"] for p in kernel["parameters"]}
    assert ("X", "const float* __restrict__", "read") in found
    assert ("Y", "float* __restrict__", "write") in found
