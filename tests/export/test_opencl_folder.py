"""Exported OpenCL folders: what they say, and what their two hosts compute."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc
from polytc import cli, compiler
from polytc.export import bundle, formula, opencl
from polytc.graph import ahead
from polytc.machine import GENERIC_GPU, Machine
from polytc.program.sizes import Size, at
from polytc.targets import registry
from polytc.targets.opencl.target import OpenCLTarget
from tests.export import exported

CONV = "O[n,m,h,w] += (I[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:14, w in 0:14"
CONV_SHAPES = {"I": (1, 8, 14, 14), "W": (16, 8, 3, 3)}
LAYERNORM = """def layernorm(f32[B,N] X, f32[N] G) -> (Y) {
    M[b] += X[b,i]
    V[b] += (X[b,i] - M[b] / N) * (X[b,i] - M[b] / N)
    Y[b,i] = (X[b,i] - M[b] / N) * rsqrt(V[b] / N + 1e-5) * G[i]
}"""

ROWS = "def rows(f32[n,m] X, f32[n,m] Z) -> (Y) { Y[i,j] = X[i,j]*2 + Z[i,j] }"
ROW_SHAPES = {"X": ("n", "m"), "Z": ("n", "m")}
ROW_SIZES = [(33, 65), (1, 1), (7, 3), (300, 1), (1, 300)]


def write(text: str, to: Path, name: str = "", machine: Machine = GENERIC_GPU, **arguments: Any) -> Path:
    target = OpenCLTarget(machine)
    opencl.write(bundle.of_program(polytc.build(text, **arguments), target, name), target.machine, to)
    return to


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def padded_convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwrs,mcrs->nmhw", windows, w)


def test_a_padded_convolution(tmp_path: Path) -> None:
    x, w = random(1, 8, 14, 14), random(16, 8, 3, 3, seed=1)
    folder = write(CONV, tmp_path, "conv3x3", shapes=CONV_SHAPES)
    exported.agree(exported.in_c(folder, "conv3x3", [x, w]), [padded_convolution(x, w)])
    exported.agree(exported.in_python(folder, "conv3x3", [x, w]), [padded_convolution(x, w)])


def test_the_hosts_compute_what_the_jit_does(tmp_path: Path) -> None:
    x, g = random(37, 53), random(53, seed=1)
    folder = write(LAYERNORM, tmp_path, shapes={"X": x.shape, "G": g.shape})
    exported.device()
    program = polytc.build(LAYERNORM, {"X": x.shape, "G": g.shape})
    expected = np.zeros_like(x)
    compiler.compile_program(program, registry.target("opencl")).run([x, g, expected])
    for found in (exported.in_c(folder, "layernorm", [x, g]), exported.in_python(folder, "layernorm", [x, g])):
        np.testing.assert_array_equal(found["Y"], expected)


def test_complex_numbers_are_pairs_in_c_and_arrays_in_python(tmp_path: Path) -> None:
    a, b = ((random(n, m) + 1j * random(n, m, seed=1)).astype(np.complex64) for n, m in ((9, 7), (7, 20)))
    folder = write("C[i,j] += A[i,k]*conj(B[k,j])", tmp_path, "mm", shapes={"A": a.shape, "B": b.shape},
                   dtypes={"A": "c64", "B": "c64"})
    assert "C: f32[9][20][2], output, real and imaginary parts" in (folder / "mm.h").read_text()
    for host in (exported.in_python, exported.in_c):
        np.testing.assert_allclose(host(folder, "mm", [a, b])["C"], a @ b.conj(), rtol=1e-5, atol=1e-4)


def test_halves_booleans_doubles_and_integers(tmp_path: Path) -> None:
    text = """def many(f16[N] H, i8[N] Q, f64[N] D, bool[N] B) -> (P, R, S) {
        P[i] = H[i] + f16(1)
        R[i] = B[i] && Q[i] > 3
        S[i] = D[i] * 0.5 + Q[i]
    }"""
    r = np.random.default_rng(2)
    h, q = r.standard_normal(19).astype(np.float16), r.integers(-9, 9, 19).astype(np.int8)
    d, b = r.standard_normal(19), r.integers(0, 2, 19).astype(bool)
    folder = write(text, tmp_path, shapes={"H": (19,), "Q": (19,), "D": (19,), "B": (19,)})
    assert json.loads((folder / "many.json").read_text())["requires"]["fp64"]
    for found in (exported.in_c(folder, "many", [h, q, d, b]), exported.in_python(folder, "many", [h, q, d, b])):
        exported.agree(found, [h + np.float16(1), b & (q > 3), d * 0.5 + q])


def test_what_is_written_in_place_is_one_argument(tmp_path: Path) -> None:
    text = "def scale(inout f32[N] A, f32[N] B) -> (A) { A[i] = A[i] * 2 + B[i] }"
    a, b = random(33), random(33, seed=1)
    folder = write(text, tmp_path, shapes={"A": (33,), "B": (33,)})
    assert [(x["name"], x["role"]) for x in exported.arguments(folder, "scale")] == [("A", "inout"), ("B", "input")]
    exported.agree(exported.in_python(folder, "scale", [a, b]), [a * 2 + b])
    exported.in_c(folder, "scale", [a, b])
    exported.agree({"A": np.fromfile(folder / "0.raw", np.float32)}, [a * 2 + b])


@pytest.fixture
def net(tmp_path: Path) -> tuple[polytc.Graph, Path]:
    """A convolution with constant weights, a view, a product, a softmax; outputs that are an input, a constant, one another."""
    r = np.random.default_rng(3)
    constants = {"w": r.standard_normal((8, 3, 3, 3)).astype(np.float32), "k": np.arange(5, dtype=np.int32),
                 "v": r.standard_normal((8 * 64, 6)).astype(np.float32), "s": np.array([-1])}
    n = helper.make_node
    nodes = [n("Conv", ["x*/"], ["c"], pads=[1, 1, 1, 1]), n("HardSwish", ["c"], ["h"]), n("Flatten", ["h"], ["f"]),
             n("MatMul", ["f", "v"], ["p"]), n("Softmax", ["p"], ["y*/\n"], axis=-1), n("Identity", ["k"], ["constant"]),
             n("Identity", ["x*/"], ["same"]), n("Reshape", ["c", "s"], ["queue"])]
    nodes[0].input.append("w")
    nodes[0].name = '*/ "conv" \\'
    outputs = [helper.make_tensor_value_info(o, t, None) for o, t in
               (("y*/\n", TensorProto.FLOAT), ("constant", TensorProto.INT32), ("same", TensorProto.FLOAT),
                ("queue", TensorProto.FLOAT), ("c", TensorProto.FLOAT))]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x*/", TensorProto.FLOAT, [1, 3, 8, 8])], outputs,
                              [numpy_helper.from_array(a, name) for name, a in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    return polytc.load_onnx(path), path


def export(graph: polytc.Graph, to: Path) -> Path:
    target = registry.target("opencl")
    opencl.write(bundle.of_plan(ahead.plan_of(graph, {}), target, "net"), target.machine, to)
    return to


def test_a_model_with_hostile_names(net: tuple[polytc.Graph, Path], tmp_path: Path) -> None:
    graph, _ = net
    x = random(1, 3, 8, 8, seed=4)
    folder = export(graph, tmp_path / "out")
    expected = graph.compile().run(None, {"x*/": x})
    for found in (exported.in_c(folder, "net", [x]), exported.in_python(folder, "net", [x])):
        exported.agree(found, expected)
    comments = re.findall(r"/\*.*?\*/", (folder / "net.cl").read_text(), re.DOTALL)
    assert not any(re.search(r"\*/|/\*", c[2:-2]) for c in comments)


def test_a_cut_file_of_weights_is_refused(net: tuple[polytc.Graph, Path], tmp_path: Path) -> None:
    folder = export(net[0], tmp_path / "out")
    exported.in_c(folder, "net", [random(1, 3, 8, 8)])
    weights = folder / "net.weights"
    weights.write_bytes(weights.read_bytes()[:-64])
    done = subprocess.run(["./run", "."], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert "weights cannot be read" in done.stderr


def test_kernels_that_do_not_build_show_the_compilers_words(tmp_path: Path) -> None:
    folder = write("C[i] = A[i] + 1", tmp_path, "plus", shapes={"A": (8,)})
    exported.in_c(folder, "plus", [random(8)])
    source = folder / "plus.cl"
    source.write_text(source.read_text().replace("restrict", "restricted", 1))
    done = subprocess.run(["./run", "."], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert "restricted" in done.stderr
    assert "refuses the kernels" in done.stderr


def test_a_buffer_that_is_too_small_is_refused(tmp_path: Path) -> None:
    folder = write("C[i] = A[i] + 1", tmp_path, "plus", shapes={"A": (8,)})
    main = folder / "main.c"
    main.write_text(main.read_text().replace("COPY_HOST_PTR, bytes + 1", "COPY_HOST_PTR, bytes - 4"))
    with pytest.raises(AssertionError, match="too few bytes"):
        exported.in_c(folder, "plus", [random(8)])


@pytest.mark.part(4)
@pytest.mark.parametrize("name", ["main", "queue", "exp", "int", "build", "2 bad */ name", "launches", "size_t"])
def test_any_name_gives_code_that_compiles(name: str, tmp_path: Path) -> None:
    folder = write("queue[i] = self[i] + memory[i] * k[i]", tmp_path, name,
                   shapes={"self": (5,), "memory": (5,), "k": (5,)})
    (own,) = (p.stem for p in folder.glob("*.cl"))
    a, b, c = random(5), random(5, seed=1), random(5, seed=2)
    exported.agree(exported.in_c(folder, own, [a, b, c]), [a + b * c])


def test_values_that_do_not_live_together_share_buffers(tmp_path: Path) -> None:
    text = "\n".join(f"X{n + 1}[i] = exp(X{n}[i] + X{n}[{63 - n}])" for n in range(6)) + "\n-> (X6)"
    folder = write(text, tmp_path, "chain", shapes={"X0": (64,)})
    found = json.loads((folder / "chain.json").read_text())
    temporaries = {place["buffer"] for launch in found["launches"] for place in launch["arguments"] if "buffer" in place}
    assert len(found["launches"]) > 2
    assert set(range(len(found["buffers"]))) == temporaries


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["conv3x3.cl", "conv3x3.json"])
def test_golden(name: str, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    write(CONV, tmp_path, "conv3x3", shapes=CONV_SHAPES)
    golden(name, (tmp_path / name).read_text().replace(polytc.__version__, "VERSION"))


OPEN = """def layers(f32[N,M] X, f32[M,K] W) -> (Y) {
    H[i,k] += X[i,j] * W[j,k]
    S[i] max= H[i,k]
    E[i,k] = exp(H[i,k] - S[i])
    T[i] += E[i,k]
    Y[i,k] = E[i,k] / T[i]
}"""


def test_sizes_that_are_not_fixed_are_arguments(tmp_path: Path) -> None:
    folder = write(OPEN, tmp_path, shapes={"X": ("N", "M"), "W": ("M", "K")})
    for n, m, k in ((37, 19, 5), (3, 2, 70)):
        x, w = random(n, m), random(m, k, seed=1)
        e = np.exp((x @ w).astype(np.float64))
        expected = e / e.sum(axis=1, keepdims=True)
        exported.agree(exported.in_python(folder, "layers", [x, w]), [expected], 1e-4)
        found = exported.in_c(folder, "layers", [x, w], sizes={"N": n, "M": m, "K": k})
        exported.agree(found, [expected], 1e-4)
    for sizes, part in ((["0", "1", "1"], "is no size"), (["65536", "65536", "4"], "more elements than"), (["1"], "usage"),
                        (["37", "19", "5", "0.raw"], "has not the 2812 bytes of X"), (["1", "2", "3", *"----"], "usage")):
        done = subprocess.run(["./run", ".", *sizes], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 1
        assert part in done.stderr


def test_sizes_at_which_arrays_end_too_early_are_refused(tmp_path: Path) -> None:
    folder = write("def few(A) -> (C) { C[i] = 2*A[i + 2] where i in 0:5 }", tmp_path, shapes={"A": ("m",)})
    a = random(7)
    exported.agree(exported.in_python(folder, "few", [a]), [2 * a[2:]])
    with pytest.raises(AssertionError, match=r"ValueError: (?s:.)*beyond the end of an array.*: at least 0 are to be m - 7"):
        exported.in_python(folder, "few", [a[:6]])
    exported.agree(exported.in_c(folder, "few", [a], sizes={"m": 7}), [2 * a[2:]])
    done = subprocess.run(["./run", ".", "6"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert "out of range" in done.stderr


def test_the_python_host_as_a_script(tmp_path: Path) -> None:
    folder = write(OPEN, tmp_path, shapes={"X": ("N", "M"), "W": ("M", "K")})
    exported.device()
    for name, shape in (("x", (3, 2)), ("w", (2, 5)), ("v", (1, 5))):
        np.save(folder / f"{name}.npy", np.ones(shape, np.float32))
    for files, part in (([], "X.npy, W.npy"), (["x.npy"] * 3, "X.npy, W.npy"), (["x.npy", "none.npy"], "none.npy"),
                        (["x.npy", "v.npy"], "has the shape")):
        done = subprocess.run([sys.executable, "layers.py", *files], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 1
        assert part in done.stderr.splitlines()[-1]
    done = subprocess.run([sys.executable, "layers.py", "x.npy", "w.npy"], cwd=folder, check=True, text=True,
                          stdout=subprocess.PIPE)
    assert done.stdout.split() == ["Y", *["0.2"] * 8]


@pytest.mark.long
def test_the_python_host_counts_elements(tmp_path: Path) -> None:
    folder = write(OPEN, tmp_path, shapes={"X": ("N", "M"), "W": ("M", "K")})
    exported.device()
    script = f"""
import pyopencl as cl, sys
sys.path.insert(0, {str(folder)!r})
import layers
layers.Program(cl.create_some_context(interactive=False)).resize(N=65536, M=1, K=65536)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "more than the 1073741824 elements" in done.stderr


def test_a_device_that_is_too_small_is_told_why(tmp_path: Path) -> None:
    folder = write(OPEN, tmp_path, shapes={"X": (64, 64), "W": (64, 64)})
    host = folder / "layers.c"
    text = host.read_text()
    host.write_text(re.sub(r"group < \d+u", "group < 99999999u", text))
    assert host.read_text() != text
    with pytest.raises(AssertionError, match=r"the kernels need groups of 256 work-items, \d+ bytes of local memory; the"):
        exported.in_c(folder, "layers", [random(64, 64), random(64, 64, seed=1)])


def test_sizes_called_like_words_of_python_and_c(tmp_path: Path) -> None:
    folder = write("Y[i,j] = X[i,j] * 2", tmp_path, "twice", shapes={"X": ("class", "from")})
    x = random(9, 5)
    exported.agree(exported.in_python(folder, "twice", [x]), [2 * x])
    exported.agree(exported.in_c(folder, "twice", [x], sizes={"class": 9, "from": 5}), [2 * x])


@pytest.mark.part(2)
@pytest.mark.parametrize("machine", ["nvidia-sm90", "mali"])
def test_a_named_machine(machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["polytc", "export", "opencl", "C[i,j] += A[i,k]*B[k,j]", "--shape", "A=64,64", "--shape", "B=64,64",
                 "--machine", machine, "--name", "mm", "-o", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert not done.value.code
    assert json.loads((tmp_path / "mm.json").read_text())["made_for"] == machine
    a, b = random(64, 64), random(64, 64, seed=1)
    exported.agree(exported.in_python(tmp_path, "mm", [a, b]), [a.astype(np.float64) @ b])


def test_formulas_in_c_round_down() -> None:
    n = Size.named("N", 9)
    for made in ((n - 13) // 4, n % 3 * 2 + 1):
        text = formula.in_c(made, {"N": "N"})
        assert "floordiv(" in text
        for value in (1, 7, 8, 30):
            assert eval(text, {"floordiv": lambda a, b: a // b, "N": value}) == at(made, {"N": value})


TIMES = """def times(f32[T] c, f32[N] start) -> (f32[N] u) {
    u[i] = start[i]
    for t in 0:T {
        for s in t:T {
            v[i] = c[s] * (u[i-1] + u[i+1])    where i in 1:N-1
            u[i] = v[i]                        where i in 1:N-1
        }
    }
}"""


def times(c: np.ndarray, start: np.ndarray) -> np.ndarray:
    u = start.copy()
    for t in range(len(c)):
        for factor in c[t:]:
            u[1:-1] = factor * (u[:-2] + u[2:])
    return u


@pytest.mark.part(2)
@pytest.mark.parametrize("open_", [False, True])
def test_the_hosts_run_loops_of_launches(tmp_path: Path, open_: bool) -> None:
    machine = GENERIC_GPU.costing({"launches.launch": 0.0})
    c, start = random(5), random(41, seed=1)
    shapes = {"c": ("T",), "start": ("N",)} if open_ else {"c": c.shape, "start": start.shape}
    folder = write(TIMES, tmp_path, machine=machine, shapes=shapes)
    rows = json.loads((folder / "times.json").read_text())["launches"]
    outer = next(row for row in rows if "for" in row)
    (inner,) = outer["launches"]
    assert (outer["for"], outer["lower"], outer["upper"]) == ("t", 0, "T" if open_ else 5)
    assert (inner["for"], inner["lower"], inner["upper"]) == ("s", "t", "T" if open_ else 5)
    assert [len(row["global"]) for row in inner["launches"]] == [1, 1]
    assert {"counter": 1} in inner["launches"][0]["arguments"]
    sizes = {"T": 5, "N": 41} if open_ else {}
    exported.agree(exported.in_c(folder, "times", [c, start], sizes=sizes), [times(c, start)])
    exported.agree(exported.in_python(folder, "times", [c, start]), [times(c, start)])


@pytest.mark.part(5)
@pytest.mark.parametrize("sizes", ROW_SIZES)
def test_rows_that_are_walked_as_one(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """The product of two sizes is a size, which the hosts compute."""
    folder = write(ROWS, tmp_path, shapes=ROW_SHAPES)
    x, z = random(*sizes), random(*sizes, seed=1)
    assert json.loads((folder / "rows.json").read_text())["products"] == [["n_m", "n", "m"]]
    exported.agree(exported.in_python(folder, "rows", [x, z]), [2*x + z])
    exported.agree(exported.in_c(folder, "rows", [x, z], sizes=dict(zip("nm", sizes, strict=True))), [2*x + z])
