"""Exported C folders: what they say, what they compute, built by gcc and clang with all warnings as errors."""

from __future__ import annotations

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
from polytc.errors import TargetError
from polytc.export import bundle, c_host
from polytc.graph import ahead
from polytc.targets import registry
from tests.c_here import COMPILERS
from tests.export import exported
from tests.export.test_opencl_folder import (
    CONV,
    CONV_SHAPES,
    LAYERNORM,
    OPEN,
    ROW_SHAPES,
    ROW_SIZES,
    ROWS,
    padded_convolution,
    random,
)

pytestmark = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
BOTH = pytest.mark.parametrize("compiler_of_c", COMPILERS[:2])


def write(text: str, to: Path, name: str = "", **arguments: Any) -> Path:
    c_host.write(bundle.of_program(polytc.build(text, **arguments), registry.target("c"), name), to)
    return to


def run(folder: Path, name: str, inputs: Sequence[np.ndarray], cc: str, sizes: Mapping[str, int] | None = None,
        flags: Sequence[str] = ()) -> dict[str, np.ndarray]:
    return exported.in_c(folder, name, inputs, ["-lm", *flags], sizes, cc)


@pytest.mark.part(2)
@BOTH
def test_a_padded_convolution(compiler_of_c: str, tmp_path: Path) -> None:
    x, w = random(1, 8, 14, 14), random(16, 8, 3, 3, seed=1)
    folder = write(CONV, tmp_path, "conv3x3", shapes=CONV_SHAPES)
    exported.agree(run(folder, "conv3x3", [x, w], compiler_of_c), [padded_convolution(x, w)])


@pytest.mark.part(2)
@BOTH
def test_a_normalisation(compiler_of_c: str, tmp_path: Path) -> None:
    x, g = random(37, 53), random(53, seed=1)
    folder = write(LAYERNORM, tmp_path, shapes={"X": x.shape, "G": g.shape})
    y = x.astype(np.float64) - x.mean(axis=1, dtype=np.float64, keepdims=True)
    expected = y / np.sqrt((y * y).mean(axis=1, keepdims=True) + 1e-5) * g
    exported.agree(run(folder, "layernorm", [x, g], compiler_of_c), [expected])


COMPLEX = "C[i,j] += A[i,k]*conj(B[k,j]); s += C[i,j]*2j\n-> (C, s)"


@pytest.mark.part(2)
@BOTH
def test_complex_numbers_are_pairs(compiler_of_c: str, tmp_path: Path) -> None:
    a, b = (x + 1j * y for x, y in ((random(9, 7), random(9, 7, seed=1)), (random(7, 20, seed=2), random(7, 20, seed=3))))
    folder = write(COMPLEX, tmp_path, "mm", shapes={"A": a.shape, "B": b.shape}, dtypes={"A": "c64", "B": "c64"})
    header = (folder / "mm.h").read_text()
    assert "A: f32[9][7][2], input, real and imaginary parts" in header
    assert "const float *A, const float *B, float *C, float *s" in header
    c = a @ b.conj()
    found = run(folder, "mm", [a.astype(np.complex64), b.astype(np.complex64)], compiler_of_c)
    np.testing.assert_allclose(found["C"], c, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found["s"], c.sum() * 2j, rtol=1e-4, atol=1e-3)


def test_threads_compute_the_same(tmp_path: Path) -> None:
    x, w = random(130, 70), random(70, 90, seed=1)
    folder = write("C[i,j] += A[i,k]*B[k,j]", tmp_path, "mm", shapes={"A": x.shape, "B": w.shape})
    exported.agree(run(folder, "mm", [x, w], "gcc", flags=["-fopenmp"]), [x.astype(np.float64) @ w])


@pytest.mark.part(8)
@BOTH
def test_sizes_that_are_not_fixed_are_arguments(compiler_of_c: str, tmp_path: Path) -> None:
    folder = write(OPEN, tmp_path, shapes={"X": ("N", "M"), "W": ("M", "K")})
    for n, m, k in ((37, 19, 5), (3, 2, 70)):
        x, w = random(n, m), random(m, k, seed=1)
        e = np.exp((x @ w).astype(np.float64))
        found = run(folder, "layers", [x, w], compiler_of_c, {"N": n, "M": m, "K": k})
        exported.agree(found, [e / e.sum(axis=1, keepdims=True)], 1e-4)
    done = subprocess.run(["./run", ".", "0", "1", "1"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, "is no size" in done.stderr) == (1, True)


def test_a_remainder_by_a_size_that_is_not_fixed(tmp_path: Path) -> None:
    folder = write("def turned(f32[N] X) -> (Y) { Y[i] = X[(i+1)%N] - X[i] where i in 0:N }", tmp_path, shapes={"X": ("N",)})
    for n in (1, 2, 3, 37):
        x = random(n)
        exported.agree(run(folder, "turned", [x], COMPILERS[0], {"N": n}), [np.roll(x, -1) - x])


@pytest.mark.part(2)
@BOTH
def test_halves_booleans_doubles_and_integers(compiler_of_c: str, tmp_path: Path) -> None:
    given, expected = exported.many()
    folder = write(exported.MANY, tmp_path, shapes={n: a.shape for n, a in given.items()})
    found = run(folder, "many", list(given.values()), compiler_of_c)
    for name, wanted in expected.items():
        np.testing.assert_array_equal(found[name], wanted)


def test_values_that_are_halves_where_no_array_is(tmp_path: Path) -> None:
    a, b = random(33), random(33, seed=1)
    folder = write("C[i] = f16(A[i]) + f16(B[i]); D[i] = f32(bf16(A[i]))", tmp_path, "sums", shapes={"A": (33,), "B": (33,)},
                   dtypes={"A": "f32", "B": "f32"})
    found = run(folder, "sums", [a, b], COMPILERS[0])
    np.testing.assert_array_equal(found["C"], a.astype(np.float16) + b.astype(np.float16))
    bits = a.view(np.uint32)
    np.testing.assert_array_equal(found["D"].view(np.uint32), (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000)


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["main", "exp", "int", "I", "2 bad */ name", "size_t", "memory"])
def test_any_name_gives_code_that_compiles(name: str, tmp_path: Path) -> None:
    folder = write("exp[i] = self[i] + memory[i] * I[i]", tmp_path, name, shapes={"self": (5,), "memory": (5,), "I": (5,)})
    (own,) = (p.stem for p in folder.glob("*.h"))
    a, b, c = random(5), random(5, seed=1), random(5, seed=2)
    exported.agree(run(folder, own, [a, b, c], COMPILERS[0]), [a + b * c])


OF_C = ("NAN INFINITY M_PI", "BUFSIZ SEEK_SET SIZE_MAX", "INT8_MAX OF AS")
OF_HOSTS = ("buffers aligned places", "mm mm_1 mm_run", "PARALLEL self number", "file_of loaded stored")


@pytest.mark.part(7)
@pytest.mark.parametrize(("names", "extent"), [
    *((n, 6) for n in OF_C), *((n, "N") for n in OF_HOSTS),
    *(pytest.param(n, e, marks=pytest.mark.long) for group, e in ((OF_C, "N"), (OF_HOSTS, 6)) for n in group)])
def test_any_array_gives_code_that_compiles(names: str, extent: int | str, tmp_path: Path) -> None:
    a, b, c = names.split()
    folder = write(f"T[i,j] += {a}[i,k]*{b}[k,j]; {c}[i,j] = T[i,j] + {a}[i,j]", tmp_path, "mm",
                   shapes={a: (extent, extent), b: (extent, extent)})
    x, y = random(6, 6), random(6, 6, seed=1)
    found = run(folder, "mm", [x, y], COMPILERS[0], {"N": 6} if extent == "N" else None)
    exported.agree(found, [x.astype(np.float64) @ y + x])


@pytest.mark.part(2)
@pytest.mark.parametrize("size", ["product", "saturated", "floordiv"])
def test_any_size_gives_code_that_compiles(size: str, tmp_path: Path) -> None:
    folder = write("B[i,j] = A[i,j] + 1", tmp_path, "plus", shapes={"A": (size, "n")})
    a = random(3, 5)
    exported.agree(run(folder, "plus", [a], COMPILERS[0], {size: 3, "n": 5}), [a + 1])


@pytest.mark.part(2)
@BOTH
def test_a_model_with_hostile_names(compiler_of_c: str, tmp_path: Path) -> None:
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
    loaded = polytc.load_onnx(tmp_path / "net.onnx")
    c_host.write(bundle.of_plan(ahead.plan_of(loaded, {}), registry.target("c"), "net"), tmp_path / "out")
    x = random(1, 3, 8, 8, seed=4)
    exported.agree(run(tmp_path / "out", "net", [x], compiler_of_c), loaded.compile().run(None, {"x*/\n": x}))
    weights = tmp_path / "out" / "net.weights"
    weights.write_bytes(weights.read_bytes()[:-64])
    done = subprocess.run(["./run", "."], cwd=tmp_path / "out", capture_output=True, text=True)
    assert (done.returncode, "weights cannot be read" in done.stderr) == (1, True)


@pytest.mark.part(2)
@BOTH
def test_inputs_that_nothing_reads(compiler_of_c: str, tmp_path: Path) -> None:
    a, b = random(5), random(7, seed=1)
    folder = write("def f(A[N], B[M]) -> (C) { C[i] = A[i] * M }", tmp_path / "program", shapes={"A": a.shape, "B": b.shape})
    exported.agree(run(folder, "f", [a, b], compiler_of_c), [7 * a])
    values = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [5]) for v in "abyz"]
    nodes = [helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Identity", ["w"], ["z"])]
    graph = helper.make_graph(nodes, "net", values[:2], values[2:], [numpy_helper.from_array(a, "w")])
    model = polytc.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    c_host.write(bundle.of_plan(ahead.plan_of(model, {}), registry.target("c"), "net"), tmp_path / "model")
    exported.agree(run(tmp_path / "model", "net", [a, a], compiler_of_c), [-a, a])


def test_the_description(tmp_path: Path) -> None:
    folder = write("C[i,j] += A[i,k]*B[k,j]", tmp_path, "mm", shapes={"A": ("M", 4), "B": (4, 5)})
    found = json.loads((folder / "mm.json").read_text())
    assert found["sizes"] == ["M"]
    assert [(a["name"], a["shape"], a["role"]) for a in found["arguments"]] == [
        ("A", ["M", 4], "input"), ("B", [4, 5], "input"), ("C", ["M", 5], "output")]


def test_programs_do_not_run_on_the_target() -> None:
    with pytest.raises(TargetError, match="for export only") as info:
        polytc.compile("C[i] = A[i] + 1", target="c")(np.zeros(3, np.float32))
    assert info.value.code == "E514"


@pytest.mark.part(2)
@BOTH
def test_rows_that_are_walked_as_one(compiler_of_c: str, tmp_path: Path) -> None:
    folder = write(ROWS, tmp_path, shapes=ROW_SHAPES)
    for sizes in ROW_SIZES:
        x, z = random(*sizes), random(*sizes, seed=1)
        exported.agree(run(folder, "rows", [x, z], compiler_of_c, dict(zip("nm", sizes, strict=True))), [2*x + z])


@pytest.mark.part(2)
@BOTH
def test_what_is_named_is_used(compiler_of_c: str, tmp_path: Path) -> None:
    """All warnings are errors: numbers that tiles of a strided convolution share, and only some of them need."""
    text = "def conv(f32[C,H,V] I, f32[M,C,3,3] W) -> (O) { O[m,h,w] += I[c,2*h+r,2*w+s]*W[m,c,r,s] }"
    folder = write(text, tmp_path, shapes={"I": ("C", "H", "V"), "W": ("M", "C", 3, 3)},
                   typical={"C": 16, "M": 16, "H": 32, "V": 32})
    exported.built(folder, "conv", ["-lm"], compiler_of_c)
