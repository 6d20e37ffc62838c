"""Open sizes: one kernel for all of them, against the reference evaluator and numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polytc
from polytc import compiler, symbolic
from polytc.codegen.target import Bound, BoundRun, Executable
from polytc.machine import DEVICES
from polytc.program import extents
from polytc.program.program import Program
from polytc.stages import build
from polytc.targets.opencl.target import OpenCLTarget

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Case:
    """shapes: of the inputs, sizes by name; dtypes: f32 else; valid: what sizes the program allows; below: for integer inputs,
    the size below which their elements stay; reference: the result, where the evaluator takes long."""

    text: str
    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, str] = field(default_factory=dict)
    valid: Callable[[Mapping[str, int]], bool] = lambda sizes: True
    below: Mapping[str, str] = field(default_factory=dict)
    typical: Mapping[str, int] = field(default_factory=dict)
    reference: Callable[..., np.ndarray] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d for shape in self.shapes.values() for d in shape if isinstance(d, str)))

    def arrays(self, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        found = {}
        for name, shape in self.shapes.items():
            extents = tuple(sizes[d] if isinstance(d, str) else d for d in shape)
            dtype = np.dtype({"f32": "f4", "f64": "f8", "i8": "i1", "i32": "i4", "i64": "i8"}[self.dtypes.get(name, "f32")])
            if dtype.kind == "i":
                top = sizes[self.below[name]] if name in self.below else 100
                found[name] = rng.integers(0, top, extents).astype(dtype)
            else:
                found[name] = (rng.random(extents) - 0.3).astype(dtype)
        return found

    def check(self, op: polytc.Op, sizes: Mapping[str, int], seed: int) -> None:
        """`op` at these sizes, if the program allows them."""
        if self.valid(sizes):
            arrays = self.arrays(sizes, seed)
            given = {n: a.copy() for n, a in arrays.items()}
            close(op(**arrays), self.reference(**given) if self.reference else polytc.evaluate(self.text, **given))


def convolution(I: np.ndarray, W: np.ndarray, padding: int = 0) -> np.ndarray:
    """Of stride 2."""
    image = np.pad(I, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    return np.einsum("nchwrs,mcrs->nmhw", windows[:, :, ::2, ::2], W, optimize=True)


def averages_in_place(A: np.ndarray) -> np.ndarray:
    a = A.tolist()
    for i in range(1, len(a) - 1):
        for j in range(1, len(a[0]) - 1):
            a[i][j] = (a[i-1][j-1] + a[i-1][j] + a[i][j-1] + a[i][j] + a[i][j+1] + a[i+1][j])/6
    return np.array(a, A.dtype)


def shortest_paths(A: np.ndarray) -> np.ndarray:
    a = A.tolist()
    for k in range(len(a)):
        for row in a:
            for j in range(len(a)):
                row[j] = min(row[j], row[k] + a[k][j])
    return np.array(a, A.dtype)


CASES = {
    "matmul": Case("C[i,j] += A[i,k]*B[k,j]", {"A": ("M", "K"), "B": ("K", "N")}),
    "matmul of doubles": Case("C[i,j] += A[i,k]*B[k,j]", {"A": ("M", "K"), "B": ("K", "N")}, {"A": "f64", "B": "f64"}),
    "one fixed extent": Case("C[i,j] += A[i,k]*B[k,j]", {"A": ("M", "K"), "B": ("K", 20)}),
    "layer": Case("T[n,m] += X[n,k]*W[m,k]\nY[n,m] = max(T[n,m] + b[m], 0)\n-> (Y)",
                  {"X": ("N", "K"), "W": ("M", "K"), "b": ("M",)}),
    "batched": Case("C[b,i,j] += A[b,i,k]*B[b,j,k]", {"A": ("G", "M", "K"), "B": ("G", "N", "K")}),
    "matrix times vector": Case("y[i] += A[i,k]*x[k]", {"A": ("M", "K"), "x": ("K",)}),
    "transpose": Case("C[i,j] = A[j,i]", {"A": ("M", "N")}),
    "element-wise": Case("C[i,j] = exp(A[i,j]) * b[j] + 1", {"A": ("M", "N"), "b": ("N",)}),
    "small integers": Case("C[i,j] = i16(A[i,j]) + i16(B[i,j])", {"A": ("M", "N"), "B": ("M", "N")}, {"A": "i8", "B": "i8"}),
    "integer products": Case("C[i,j] += i32(A[i,k])*i32(B[k,j])", {"A": ("M", "K"), "B": ("K", "N")}, {"A": "i8", "B": "i8"}),
    "strided convolution": Case(
        "O[n,m,h,w] += I[n,c,2*h+r,2*w+s]*W[m,c,r,s]", {"I": ("N", "C", "H", "V"), "W": ("M", "C", 3, 3)},
        valid=lambda s: min(s["H"], s["V"]) > 2, typical={"N": 2, "C": 16, "M": 16, "H": 32, "V": 32}, reference=convolution),
    "padded convolution": Case(
        "def conv(f32[N,C,H,V] I, f32[M,C,3,3] W) -> (O) { O[n,m,h,w] += (I[n,c,2*h+r-1,2*w+s-1] else 0)*W[m,c,r,s]\n"
        "where h in 0:(H+1)//2, w in 0:(V+1)//2 }", {"I": ("N", "C", "H", "V"), "W": ("M", "C", 3, 3)},
        typical={"N": 2, "C": 16, "M": 16, "H": 32, "V": 32}, reference=lambda I, W: convolution(I, W, 1)),
    "window of any size": Case("O[i] += I[i+k]*W[k]", {"I": ("H", ), "W": ("K",)}, valid=lambda s: s["H"] >= s["K"]),
    "pooling": Case("O[n,h,w] max= I[n,2*h+r,2*w+s] where r in 0:2, s in 0:2", {"I": ("N", "H", "V")},
                    valid=lambda s: s["H"] > 1 and s["V"] > 1),
    "softmax": Case(
        "M[i] max= X[i,j]\nE[i,j] = exp(X[i,j] - M[i])\nS[i] += E[i,j]\nY[i,j] = E[i,j]/S[i]\n-> (Y)", {"X": ("I", "J")}),
    "mean": Case("def f(f32[R,L] X) -> (Y) { S[i] += X[i,j]\nY[i] = S[i] / L }", {"X": ("R", "L")}),
    "causal scores": Case("def f(f32[T,D] Q, f32[T,D] K) -> (P) { P[i,j] += Q[i,d]*K[j,d] where j <= i }",
                          {"Q": ("T", "D"), "K": ("T", "D")}),
    "prefix sum": Case("def f(f32[L] X) -> (P) { P[i] += X[k] where i in 0:L, k <= i }", {"X": ("L",)}),
    "gather": Case("Y[n,d] = T[I[n],d]", {"T": ("V", "D"), "I": ("N",)}, {"I": "i64"}, below={"I": "V"}),
    "scatter": Case("def f(i64[N] b) -> (i32[10] H) { H[b[i]] += 1 }", {"b": ("N",)}, {"b": "i64"}),
    "two parts": Case("def f(f32[M] A, f32[N] B) -> (f32[M+N] C) { C[i] = A[i]\nC[i+M] = B[i] }", {"A": ("M",), "B": ("N",)}),
    "shuffle": Case("def f(f32[C,H,V] X) -> (f32[C,2*H,2*V] Y) { Y[c,h,w] = X[c,h//2,w//2] where h in 0:2*H, w in 0:2*V }",
                    {"X": ("C", "H", "V")}),
    "position": Case("(M[i], J[i]) argmax= (X[i,j], j)", {"X": ("R", "L")}),
    "recurrence": Case("def f(f32[L,D] X) -> (H) { H[t,d] = X[t,d]\nfor t in 1:L { H[t,d] = H[t-1,d]*0.5 + X[t,d] } }",
                       {"X": ("L", "D")}, valid=lambda s: s["L"] > 1),
    "stencil": Case("def f(inout f64[M,N] A) { for t in 0:5 { B[i,j] = (A[i,j] + A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1])/5\n"
                    "A[i,j] = B[i,j] where i in 1:M-1, j in 1:N-1 } }", {"A": ("M", "N")}, {"A": "f64"},
                    valid=lambda s: s["M"] > 2 and s["N"] > 2),
    "in place": Case("def f(inout f64[M,N] A) { for i in 1:M-1 { for j in 1:N-1 {\n"
                     "A[i,j] = (A[i-1,j-1] + A[i-1,j] + A[i,j-1] + A[i,j] + A[i,j+1] + A[i+1,j])/6 } } }",
                     {"A": ("M", "N")}, {"A": "f64"}, valid=lambda s: s["M"] > 2 and s["N"] > 2,
                     reference=averages_in_place),
    "triangle": Case("def f(inout f64[N,N] A) { for k in 0:N-1 { A[i,k] = A[i,k]/(A[k,k]*A[k,k] + 9) where i in k+1:N\n"
                     "A[i,j] -= A[i,k]*A[k,j] where i in k+1:N, j in k+1:N } }", {"A": ("N", "N")}, {"A": "f64"},
                     valid=lambda s: s["N"] > 1),
    "shortest paths": Case("def f(inout f32[N,N] A) { for k in 0:N { for i in 0:N { for j in 0:N {\n"
                           "A[i,j] = min(A[i,j], A[i,k] + A[k,j]) } } } }", {"A": ("N", "N")}, reference=shortest_paths),
    "sparse": Case("y[i] += v[p]*x[col[p]] where i in 0:3, p in r[i]:r[i+1]",
                   {"v": ("P",), "col": ("P",), "r": (4,), "x": ("N",)}, {"col": "i32", "r": "i32"},
                   below={"col": "N", "r": "P"}),
}


def close(result: Any, expected: Any) -> None:
    results = result if isinstance(result, tuple) else (result,)
    for a, b in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def opened(case: Case, target: str) -> polytc.Op:
    return polytc.compile(case.text, target, shapes=case.shapes, dtypes=case.dtypes, typical=case.typical)


@pytest.mark.part(15)
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_serves_all_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled once."""
    case, made = CASES[name], []
    compile_ = compiler.compile_program
    monkeypatch.setattr(compiler, "compile_program", lambda p, *rest: made.append(p) or compile_(p, *rest))
    op = opened(case, "cpu")
    size = st.integers(1, 40 if len(case.names) < 4 else 9)
    drawn = st.fixed_dictionaries(dict.fromkeys(case.names, size)).filter(case.valid)

    @settings(max_examples=12, deadline=None)
    @given(drawn, st.integers(0, 1000))
    def serves(sizes: dict[str, int], seed: int) -> None:
        case.check(op, sizes, seed)
    serves()
    assert len(made) == 1
    assert made[0].sizes


@pytest.mark.part(8)
@pytest.mark.parametrize("name", CASES)
def test_interp(name: str) -> None:
    case = CASES[name]
    op = opened(case, "interp")
    for start in (1, 2, 5, 9) if len(case.names) < 4 else (1, 2, 4):
        case.check(op, {n: start + 2 * k % 5 for k, n in enumerate(case.names)}, start)


@pytest.mark.part(10)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n in ("batched", "layer") else n for n in CASES])
def test_opencl(name: str, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver here")
    case = CASES[name]
    op = opened(case, "opencl")
    for start in (1, 2, 5, 9, 37):
        case.check(op, {n: start + 2 * k % 5 for k, n in enumerate(case.names)}, start)


@pytest.mark.part(2)
@pytest.mark.parametrize("size", ["nan", "Infinity", "MAX", "AND", "True", "Mod", "MAX_", "exists"])
def test_words_of_isl_in_any_case_are_names_of_sizes(size: str) -> None:
    double = polytc.compile("C[i] = A[i] * 2", shapes={"A": (size,)})
    for n in (3, 50):
        assert np.array_equal(double(np.arange(n, dtype="f4")), 2 * np.arange(n))


@pytest.mark.part(8)
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("sizes", ["x0 x1 x2", "x1 x0 k_lane", "c0 c1 c2", "i_block j_block k0", "t b u", "j_tile i_tile acc"])
def test_sizes_may_be_called_as_indices_of_rewrites_are(sizes: str, target: str) -> None:
    """A padded copy, partial sums for lanes, loops of isl: each has indices of its own."""
    first, second, third = sizes.split()
    op = polytc.compile(f"def f(X[{first},{second}], W[{third}]) -> (Y) {{ Z[i,j] += (X[i,j+k-1] else 0)*W[k] "
                        f"where i in 0:{first}, j in 0:{second}\nY[i] += Z[i,j] }}", target, symbolic=True)
    rng = np.random.default_rng(0)
    for m, n, k in ((3, 150, 64), (2, 9, 40)):
        x, w = rng.random((m, n), dtype=np.float32), rng.random(k, dtype=np.float32)
        padded = np.pad(x, ((0, 0), (1, k)))
        np.testing.assert_allclose(op(x, w), [np.convolve(row, w[::-1], "valid")[:n].sum() for row in padded], rtol=1e-4)


def test_a_size_may_be_called_as_an_index_of_the_text_is() -> None:
    op = polytc.compile("def f(f32[M] A) -> (C) { C[i] = A[i] }", shapes={"A": ("i",)})
    for n in (3, 70):
        np.testing.assert_array_equal(op(np.arange(n, dtype=np.float32)), np.arange(n))


@pytest.mark.parametrize(("name", "every"), [("matrix times vector", 1), *(
    pytest.param(n, 1, marks=pytest.mark.long) for n in ("padded convolution", "layer", "softmax", "batched"))])
def test_no_index_behind_a_step_is_called_as_a_size(name: str, every: int) -> None:
    """The sizes of a program called as the indices that steps make, each of them once, or one in some."""
    case = CASES[name]
    made = polytc.lower(case.text, shapes=case.shapes, dtypes=case.dtypes)
    indices = sorted({i for s in made.rewritten.statements for i in s.indices} | {"x0", "x1"})
    for k in range(0, len(indices), every):
        called = {n: indices[(k + place) % len(indices)] for place, n in enumerate(case.names)}
        shapes = {t: tuple(called[d] if isinstance(d, str) else d for d in shape) for t, shape in case.shapes.items()}
        low = polytc.lower(case.text, shapes=shapes, dtypes=case.dtypes)
        assert not {i for s in low.rewritten.statements for i in s.indices} & set(called.values())


def test_opencl_text_for_gpus_has_an_exact_grid() -> None:
    low = polytc.lower("C[i,j] = A[i,j] + b[j]", "opencl", shapes={"A": ("M", "N"), "b": ("N",)})
    (launch,) = low.source.launches
    assert launch.args == ("A", "C", "b", "M", "N")
    for m, n in ((1, 1), (8, 32), (9, 33), (100, 1000)):
        sizes = {"M": m, "N": n}
        assert [extents.at(x, sizes) for x in launch.global_size] == [-(-n // 32) * 32, -(-m // 8) * 8]
    assert str(launch.global_size[0]) == "((N + 31)//32) * 32"
    assert "const int M, const int N" in " ".join(low.source.text.split())


def test_arrays_beyond_what_an_opencl_kernel_counts_get_fixed_sizes(monkeypatch: pytest.MonkeyPatch,
                                                                    targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver here")
    monkeypatch.setattr("polytc.targets.ctext.launched.LARGEST_OPEN", 100)
    monkeypatch.setattr("polytc.disk.cache.get", lambda key: None)
    made = []
    compile_ = compiler.compile_program
    monkeypatch.setattr(compiler, "compile_program", lambda p, *rest: made.append(p) or compile_(p, *rest))
    op = polytc.compile("def f(f32[M,K] A) -> (B) { B[i,j] = A[j,i] + 17.25 }", "opencl", symbolic=True)
    for m, k in ((4, 5), (20, 6)):
        a = np.random.default_rng(m).random((m, k), dtype=np.float32)
        np.testing.assert_allclose(op(a), a.T + 17.25, rtol=1e-6)
    assert [bool(p.sizes) for p in made] == [True, False]


def test_large_matrices_against_numpy() -> None:
    op = opened(CASES["matmul"], "cpu")
    rng = np.random.default_rng(0)
    for m, k, n in ((1, 300, 1), (130, 257, 65), (511, 64, 513)):
        a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)
        np.testing.assert_allclose(op(a, b), a @ b, rtol=1e-4)


def test_for_loops_are_scheduled_for_all_sizes() -> None:
    """As the loops of a program of fixed sizes are."""
    case = CASES["stencil"]
    for shapes in (case.shapes, {"A": (576, 512)}):
        low = polytc.lower(case.text.replace("0:5", "0:90"), shapes=shapes, dtypes=case.dtypes)
        assert "in wavefronts of t and i + 2*t" in low.schedule.how


def test_for_loops_in_tiles_against_numpy() -> None:
    op = opened(CASES["stencil"], "cpu")
    for m, n in ((3, 300), (257, 131)):
        a = np.random.default_rng(m).random((m, n))
        expected = a.copy()
        for _ in range(5):
            expected[1:-1, 1:-1] = 0.2*(expected[1:-1, 1:-1] + expected[:-2, 1:-1] + expected[2:, 1:-1] + expected[1:-1, :-2]
                                        + expected[1:-1, 2:])
        op(a)
        np.testing.assert_allclose(a, expected, rtol=1e-12)


def test_declared_types_need_not_be_said_again() -> None:
    op = polytc.compile("def f(f64[M] A, i32[M] B) -> (C) { C[i] = A[i] + B[i] }", symbolic=True, typical={"M": 100})
    for m in (3, 7):
        np.testing.assert_array_equal(op(np.arange(m, dtype=np.float64), np.ones(m, np.int32)), np.arange(m) + 1.0)


# ---- printing

def test_stages_print_the_names_of_sizes() -> None:
    low = polytc.lower("C[i,j] += A[i,k]*B[k,j]", shapes={"A": ("M", "K"), "B": ("K", 128)})
    assert "f32[M, K] A, f32[K, 128] B) -> (f32[M, 128] C)" in str(low.program)
    assert "# open: M, K" in str(low.program)
    assert "0 <= i < M" in str(low.scop)
    assert "[M, K] -> {" in str(low.schedule)
    assert "f32 A[M, K]" in str(low.loops)
    assert "c2 in 0:K" in str(low.loops)
    assert low.source.module.args[-1].name == "sizes"


def test_formulas_of_sizes_print() -> None:
    low = polytc.lower("def f(f32[H] X) -> (Y) { Y[i] = X[2*i] + X[H-1] }", "interp", shapes={"X": ("H",)})
    assert "(f32[(H + 1)//2] Y)" in str(low.program)
    assert "X[H - 1]" in str(low.program)


# ---- other sizes, other programs

def test_sizes_may_be_0() -> None:
    op = opened(CASES["matmul"], "cpu")
    for m, k in ((0, 3), (3, 0), (2, 3), (0, 0), (3, 0)):
        found = op(np.ones((m, k), np.float32), np.ones((k, 4), np.float32))
        np.testing.assert_array_equal(found, np.full((m, 4), k, np.float32))


def test_where_the_program_is_another_one_there_are_more_kernels() -> None:
    op = polytc.compile("T[i] = B[i]; C[i] = A[i] + T[i] -> (C)", shapes={"A": ("M",), "B": ("K",)})
    for m, k in ((5, 9), (9, 5), (4, 4), (3, 8), (8, 3)):
        a, b = np.arange(m, dtype=np.float32), np.arange(k, dtype=np.float32)
        np.testing.assert_array_equal(op(a, b), a[:min(m, k)] + b[:min(m, k)])


def test_other_types_get_a_kernel_of_their_own() -> None:
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]", shapes={"A": ("M", "K"), "B": ("K", "N")})
    for dtype in (np.float32, np.float64, np.int32):
        for n in (3, 8):
            a = np.ones((n, n), dtype)
            np.testing.assert_array_equal(op(a, a), a @ a)


def test_scalars_and_sizes() -> None:
    op = polytc.compile("def f(f32[M] A, i64 k) -> (C) { C[i] = A[i+k] where i in 0:M-k }", symbolic=True)
    for k in (1, 2):
        for m in (5, 9):
            a = np.arange(m, dtype=np.float32)
            np.testing.assert_array_equal(op(a, k), a[k:])


def test_inout() -> None:
    op = polytc.compile("def f(inout f32[M] A) { A[i] += 1 }", symbolic=True)
    for m in (3, 70):
        a = np.arange(m, dtype=np.float32)
        op(a)
        np.testing.assert_array_equal(a, np.arange(m) + 1)


def test_results_go_where_out_says() -> None:
    op = opened(CASES["transpose"], "cpu")
    for m, n in ((3, 5), (20, 33)):
        a, out = np.random.default_rng(m).random((m, n), dtype=np.float32), np.zeros((n, m), np.float32)
        assert op(a, out=out) is out
        np.testing.assert_array_equal(out, a.T)


@dataclass
class Written:
    """What stands for code that never runs."""

    options: dict[str, str]

    def run(self, buffers: Sequence[np.ndarray]) -> None: ...

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        return BoundRun(self.run, buffers)


@pytest.mark.parametrize(("text", "typical", "calls", "made"), [
    ("def f(i32[n] X, f32[m] z) -> (f32[m] H) { H[X[i]] += z[0] }", {"n": 1_000_000, "m": 256},
     [(1000, 5), (100_000, 256), (3000, 3000), (200_000, 3_000_000), (200_000, 3_100_000), (10, 1)], [256, 3_000_000]),
    ("def f(u8[n] X, f32[m] z) -> (i64[m] H) { H[X[i]] += 1 }", {"n": 200_000, "m": 3000},      # indices have 32 bits
     [(1000, 50), (1 << 30, 40_000_000)], [3000, 40_000_000]),
    ("def f(f32[n] X, f32[m] z, f32[n,m] Y) -> (Z) { T[j] += z[j] + Y[i,j]; Z[i] += Y[i,j]*T[j]*X[i] }", {"n": 2000, "m": 200},
     [(2000, 200), (3, 100_000_000), (3, 100_000_001), (3, 100_000_002)], [200, 100_000_000]),
], ids=["bytes", "elements", "few rows"])
def test_kernels_whose_temporaries_would_be_far_larger_are_not_taken(
        text: str, typical: dict[str, int], calls: list[tuple[int, int]], made: list[int],
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a histogram or of a row, as many as pay for a small one."""
    dims, target = symbolic.declared(text, None, {}, True), OpenCLTarget(DEVICES["nvidia-sm90"])
    sizes, found = symbolic.OpenSizes(dims, typical, {}), list[int]()
    monkeypatch.setattr(compiler, "options", lambda e: e.options)

    def compiled(program: Program) -> Executable:
        found.append(program.tensor("z").size)
        lowered = compiler.lower_program(program, target)
        return Written({**lowered.source.options, **compiler.described(lowered)})
    for n, m in calls:
        shapes = sizes.shapes({"n": n, "m": m})
        sizes.load(build(text, shapes, {}), lambda shapes: build(text, shapes, {}), compiled)
    assert found == made
