"""Complex numbers on every target: numpy says what comes out, in the types that numpy has."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.errors import CompileError

R = np.random.default_rng(20)
TARGETS = ("evaluate", "interp", "cpu")


def z(*shape: int, dtype: Any = np.complex64) -> np.ndarray:
    return (R.normal(size=shape) + 1j * R.normal(size=shape)).astype(dtype)


def close(found: Any, wanted: Any, tolerance: float | None = None) -> None:
    """Of numpy's type, and as near to its number as some roundings allow."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    eps = np.finfo(wanted.dtype).eps if wanted.dtype.kind in "fc" else 0
    scale = max(1.0, float(np.abs(wanted).max())) if wanted.size else 1.0
    np.testing.assert_allclose(found, wanted, rtol=32 * eps, atol=(tolerance or 32 * eps) * scale)


def everywhere(text: str, wanted: Any, *args: Any, targets: tuple[str, ...] = TARGETS, tolerance: float | None = None,
               **arrays: Any) -> None:
    for target in targets:
        found = polytc.run(text, *args, target=target, **arrays)
        for a, b in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
            close(a, b, tolerance)


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "conj(x[i])": np.conj, "real(x[i])": np.real, "imag(x[i])": np.imag, "abs(x[i])": np.abs, "angle(x[i])": np.angle,
    "exp(x[i])": np.exp, "sqrt(x[i])": np.sqrt, "-x[i]": np.negative, "2*x[i]": lambda a: 2 * a, "x[i]/2": lambda a: a / 2,
    "x[i] + 1j": lambda a: a + 1j, "1j*x[i]": lambda a: 1j * a, "2.5j - x[i]": lambda a: 2.5j - a, "1/x[i]": lambda a: 1 / a,
    "x[i]/2j": lambda a: a / 2j, "x[i]*x[i]": lambda a: a * a, "x[i] == x[i]": lambda a: a == a, "isnan(x[i])": np.isnan,
    "x[i] != 1j": lambda a: a != 1j, "isinf(x[i])": np.isinf,
    "exp(x[i])*sqrt(x[i])/(x[i]*x[i]+1)": lambda a: np.exp(a) * np.sqrt(a) / (a * a + 1),
    "abs(x[i]*x[i] - 1) < 1 ? x[i] : 0": lambda a: np.where(abs(a * a - 1) < 1, a, 0),
    "((((x[i]+1)*x[i]+2)*x[i]-3)*x[i]+4)*x[i]/x[i]": lambda a: ((((a + 1) * a + 2) * a - 3) * a + 4) * a / a}


@pytest.mark.part(23)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("text", UNARY)
def test_elements(text: str, dtype: Any, targets: tuple[str, ...]) -> None:
    x = z(19, dtype=dtype)
    everywhere(f"Y[i] = {text}", UNARY[text](x), x, targets=targets)


@pytest.mark.part(12)
@pytest.mark.parametrize("b", ["c64", "c128", "f32", "f64", "f16", "i32", "i8", "bool"])
@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_two_types(op: str, b: str) -> None:
    x, y = z(11), R.uniform(1, 9, 11).astype(polytc.program.scalars.DTYPES[b].numpy)
    y = y + 1j * y if b[0] == "c" else y
    wanted = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op]
    everywhere(f"Y[i] = x[i] {op} y[i]", wanted(x, y), x=x, y=y)
    everywhere(f"Y[i] = y[i] {op} x[i]", wanted(y, x), x=x, y=y)


@pytest.mark.part(20)
@pytest.mark.parametrize(("text", "a", "b", "wanted"), [
    ("C[i,j] += A[i,k]*B[k,j]", (17, 20), (20, 33), lambda a, b: a @ b),
    ("C[i,j] += conj(A[i,k])*B[k,j]", (17, 20), (20, 33), lambda a, b: a.conj() @ b),
    ("C[i,j] += A[i,k]*conj(B[k,j])", (17, 20), (20, 33), lambda a, b: a @ b.conj()),
    ("C[j,i] += conj(A[i,k])*conj(B[k,j])", (17, 20), (20, 33), lambda a, b: (a @ b).conj().T),
    ("C[i,j] += (2j*A[i,k])*B[j,k]", (17, 20), (33, 20), lambda a, b: 2j * a @ b.T),
    ("C[i,j] += A[i,k]*B[k,j] where k <= i", (17, 17), (17, 33), lambda a, b: np.tril(a) @ b),
    ("C[i] += A[i,k]*B[k]", (17, 20), (20,), lambda a, b: a @ b),
    ("C[i] += A[k,i]*B[k]", (20, 17), (20,), lambda a, b: b @ a),
    ("C[n,i,j] += A[n,i,k]*B[n,k,j]", (3, 9, 5), (3, 5, 10), lambda a, b: a @ b),
    ("C[n,j] += A[n,j,k]*B[n,k]", (3, 9, 5), (3, 5), lambda a, b: np.einsum("njk,nk->nj", a, b)),
    ("C[i,j] += A[i,j+k]*B[k]", (9, 20), (4,), lambda a, b: np.stack([a[:, j:j + 4] @ b for j in range(17)], 1)),
    ("C[i,j] = A[i]*B[j]", (9,), (10,), np.outer),
    ("s += conj(A[i])*B[i]", (100,), (100,), np.vdot),
    ("precise def f(c64[I,K] A, c64[K,J] B) -> (C) { C[i,j] += A[i,k]*B[k,j] }", (17, 20), (20, 33), lambda a, b: a @ b)])
def test_sums_of_products(text: str, a: tuple[int, ...], b: tuple[int, ...], wanted: Any, targets: tuple[str, ...]) -> None:
    x, y = z(*a), z(*b)
    everywhere(text, wanted(x, y), x, y, targets=targets)


def test_a_product_with_real_numbers() -> None:
    x, w = z(12, 15), R.normal(size=(15, 9)).astype(np.float32)
    everywhere("C[i,j] += x[i,k]*w[k,j]", x @ w, x, w)
    everywhere("C[i,j] += conj(x[i,k])*w[k,j]", x.conj() @ w, x, w)


def test_discrete_fourier_transform() -> None:
    x = z(24, dtype=np.complex128)
    everywhere("Y[k] += x[n] * exp(-2j*pi*(k*n % 24)/24) where k in 0:24", np.fft.fft(x), x)
    rows = z(40, 24, dtype=np.complex128)
    everywhere("Y[b,k] += x[b,n] * exp(-2j*pi*(k*n % 24)/24) where k in 0:24", np.fft.fft(rows), rows)


FFT_STEP = """
    def step(c128[2,H,M] x) -> (y) {
        y[j,0,k] = x[0,j,k] + x[1,j,k]
        y[j,1,k] = (x[0,j,k] - x[1,j,k]) * exp(-1j*pi*j/H)
    }"""


def test_steps_of_a_radix_2_fft(targets: tuple[str, ...]) -> None:
    """Stockham's: each step halves the transforms that are left, and doubles how many there are."""
    x = z(32, dtype=np.complex128)
    for target in targets:
        step, y = polytc.compile(FFT_STEP, target), x
        for s in range(5):
            y = step(y.reshape(2, 16 >> s, 1 << s))
        np.testing.assert_allclose(y.reshape(-1), np.fft.fft(x), rtol=1e-12, atol=1e-12)


MANDELBROT = """
    def mandelbrot(c128[H,W] c, i32 T) -> (i32[H,W] n) {
        v[i,j] = 0*c[i,j];  n[i,j] = 0 where i in 0:H, j in 0:W
        for t in 0:T {
            v[i,j] = v[i,j]*v[i,j] + c[i,j]  where abs(v[i,j]) <= 2
            n[i,j] += 1                      where abs(v[i,j]) <= 2
        }
    }"""


def test_mandelbrot() -> None:
    c = np.linspace(-2, 1, 13)[None, :] + 1j * np.linspace(-1, 1, 9)[:, None]
    v, n = 0 * c, np.zeros(c.shape, np.int32)
    for _ in range(12):
        v = np.where(abs(v) <= 2, v * v + c, v)
        n += abs(v) <= 2
    for target in TARGETS:
        found = polytc.run(MANDELBROT, c, 12, target=target)
        assert (found != n).mean() < 0.02  # a point on the border may be on either side of it


def test_a_loop_over_an_element_that_is_made_of_itself() -> None:
    x, c = z(9) * np.complex64(0.5), z(9) * np.complex64(0.1)
    wanted = x
    for _ in range(4):
        wanted = np.conj(wanted * wanted) + c
    everywhere("def f(c64[N] x, c64[N] c) -> (v) { v[i] = x[i]; for t in 0:4 { v[i] = conj(v[i]*v[i]) + c[i] } }", wanted, x, c)
    in_place = "def f(inout c64[N] v, c64[N] c) { for t in 0:4 { v[i] = conj(v[i]*v[i]) + c[i] } }"
    for target in TARGETS:
        memory = x.copy()
        polytc.run(in_place, memory, c, target=target)
        close(memory, wanted)


@pytest.mark.part(5)
@pytest.mark.parametrize(("value", "wanted"), [
    ("v[i] * abs(v[i])", lambda v: v * abs(v)), ("v[i] / abs(v[i])", lambda v: v / abs(v)),
    ("real(v[i]) * v[i]", lambda v: v.real * v),
    ("real(v[i]) > 0 ? -v[i] : 2*v[i]", lambda v: np.where(v.real > 0, -v, 2 * v)),
    ("-v[i] where real(v[i]) > 0", lambda v: np.where(v.real > 0, -v, v))])
def test_both_parts_are_made_of_the_element_as_it_was(value: str, wanted: Any) -> None:
    x = z(9)
    for target in TARGETS:
        once, often = x.copy(), x.copy()
        polytc.run(f"def f(inout c64[N] v) {{ v[i] = {value} }}", once, target=target)
        close(once, wanted(x))
        polytc.run(f"def f(inout c64[N] v) {{ for t in 0:2 {{ v[i] = {value} }} }}", often, target=target)
        close(often, wanted(wanted(x)))
        polytc.run("def f(inout c64[N] v) { v[i] += v[i]*real(v[i]) }", once := x.copy(), target=target)
        close(once, x + x * x.real)


def test_a_product_of_many_numbers_in_a_loop() -> None:
    x = z(6, 7)
    everywhere("def f(c64[M,K] x) -> (p) { p[i] = c64(1) where i in 0:M; for k in 0:K { p[i] = p[i]*x[i,k] } }", x.prod(1), x)


def test_tuples_guards_gathers_and_scatters() -> None:
    a, q = z(9, 12), np.array([3, 0, 3, 8])
    at = np.abs(a).argmax(1)
    everywhere("(M[i], V[i]) argmax= (abs(a[i,j]), a[i,j])", (np.abs(a).max(1), a[np.arange(9), at]), a)
    row = a[0].copy()
    everywhere("Y[i] = (x[i-1] else 1+2j)*x[i] where i in 0:12", np.r_[np.complex64(1 + 2j), row[:-1]] * row, x=row)
    everywhere("Y[i] = (x[i-1] else x[i])*2j where i in 0:12", np.r_[row[0], row[:-1]] * 2j, x=row)
    everywhere("Y[i] = x[q[i]]*1j", row[q] * 1j, x=row, q=q)
    wanted = np.zeros(9, np.complex64)
    np.add.at(wanted, q, row[:4])
    everywhere("Y[q[i]] += x[i] where i in 0:4 -> (c64[9] Y)", wanted, x=row, q=q)


def test_lists_of_numbers() -> None:
    x = z(3)
    everywhere("Y[i] = [1, 2.5, 3][i]*x[i]", np.array([1, 2.5, 3], np.float32) * x, x=x)
    everywhere("Y[i] = [1j, 2, 3-1j][i]*x[i]", np.array([1j, 2, 3 - 1j], np.complex64) * x, x=x)
    everywhere("Y[i] = ([1, 2.5, 3][i]*1j + 2)*x[i]", np.array([2 + 1j, 2 + 2.5j, 2 + 3j], np.complex64) * x, x=x)


def test_numbers_of_a_call() -> None:
    x = z(7)
    for a in (2.5, 1j, 2 - 3j, 4):
        everywhere("Y[i] = a*x[i] + a", a * x + a, x=x, a=a)
        everywhere("def f(c64[N] x, c64 a) -> (y) { y[i] = a*x[i] }", np.complex64(a) * x, x, a)
    everywhere("Y[i] = a*x[i]", 2j * x.real, x=x.real.copy(), a=2j)
    everywhere("Y[i] = a*x[i]", 2j * x, x=x, a=np.complex64(2j))
    everywhere("op F<a>(X[*i]) -> Y[*i] { Y[*i] = a*X[*i] }\nY = F<a=2j>(F<a=1+1j>(x))", (2j * (1 + 1j)) * x, x=x)
    everywhere("def m(w) -> (r) { r = real(w*conj(w)) }\nY[i] = m(x[i])", abs(x)**2, x=x)
    with pytest.raises(CompileError, match="E409"):
        polytc.run("def f(f32[N] x, f32 a) -> (y) { y[i] = a*x[i] }", x.real.copy(), 1j)


def test_strides_out_and_constants() -> None:
    a, b = z(300, 200), z(200, 60)
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]")
    close(op(a, b), a @ b)
    close(op(b.T, a.T), b.T @ a.T)
    close(op(a[::2, ::-1], b), a[::2, ::-1] @ b)
    close(op(a.real, b), a.real @ b)
    out = np.zeros((300, 120), np.complex64)
    assert op(a, b, out=out[:, ::2]) is not None
    close(out[:, ::2].copy(), a @ b)
    assert not out[:, 1::2].any()
    close(pickle.loads(pickle.dumps(op))(a, b), a @ b)
    fixed = polytc.compile("C[i,j] += A[i,k]*B[k,j]", constants={"B": b})
    close(fixed(a), a @ b)
    close(fixed(a), a @ b)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_open_sizes(target: str) -> None:
    op = polytc.compile("def f(c64[M,K] A, c64[K,N] B) -> (C) { C[i,j] += A[i,k]*B[k,j] }", symbolic=True, target=target)
    for m, k, n in ((9, 5, 20), (1, 7, 2), (16, 1, 1), (3, 0, 4)):
        a, b = z(m, k), z(k, n)
        close(op(a, b), a @ b)
    op = polytc.compile("Y[i] = x[i]*y[i]/(x[i]+2)", shapes={"x": ("N",), "y": ("N",)}, target=target)
    for n in (1, 17, 64):
        x, y = z(n), z(n)
        close(op(x, y), x * y / (x + 2))


@pytest.mark.part(2)
@pytest.mark.parametrize("spec", ["ij,jk->ik", "ij,ij->", "ij->ji", "bij,bjk->bik", "i,j->ij", "ii->i", "ij,jk,kl->il", "ij->"])
def test_einsum(spec: str) -> None:
    n = dict(zip("bijkl", (3, 5, 6, 7, 4), strict=True))
    n |= {"j": 5} if spec in ("ii->i",) else {}
    operands = [z(*(n[c] for c in term)) for term in spec.partition("->")[0].split(",")]
    close(polytc.einsum(spec, *operands), np.einsum(spec, *operands))
    real = [operands[0].real.copy(), *operands[1:]]
    close(polytc.einsum(spec, *real), np.einsum(spec, *real))
    out = np.empty(np.einsum(spec, *operands).shape, np.complex128)
    polytc.einsum(spec, *operands, out=out)
    np.testing.assert_allclose(out, np.einsum(spec, *operands), rtol=1e-4, atol=1e-4)


def test_texts_parse_to_the_same_program() -> None:
    for text in ("C[i,j] += A[i,k]*conj(B[k,j])", "Y[i] = 2*x[i] + 1j*y[i] - 0.5j", "Y[i] = x[i] != 0 ? x[i] : 1 - 2j",
                 "Y[i] = c64(abs(x[i]), 2)*(y[i] else 1+2j)", "Y[k] += x[n]*exp(-2j*pi*(k*n%8)/8) where k in 0:8",
                 "Y[i] = -x[i]*(-1-1e-3j)"):
        names = [n for n in ("A", "B", "x", "y") if f"{n}[" in text]
        shapes = {n: (8, 8) if n in "AB" else (8,) for n in names}
        types = {n: "f32" if n == "y" else "c64" for n in names}
        program = polytc.build(text, shapes, types)
        assert str(polytc.build(str(program), shapes, types)) == str(program)
        assert polytc.build(str(program), shapes, types).statements[-1].value == program.statements[-1].value


@pytest.mark.long
def test_division_and_magnitude_do_not_overflow() -> None:
    for dtype, large in ((np.complex64, 1e30), (np.complex128, 1e300)):
        x = np.array([3 + 4j, 1 - 2j, 1j, 2, -5 - 12j]).astype(dtype) * dtype(large)
        for target in ("cpu", "interp"):
            close(polytc.run("Y[i] = x[i]/x[i]", x, target=target), np.ones(5, dtype))
            close(polytc.run("Y[i] = abs(x[i])/abs(x[0])", x, target=target), np.abs(x / dtype(large)) / 5)
            small = (1 / x).astype(dtype)
            close(polytc.run("Y[i] = (1/x[i])*x[0]", x, target=target), small * x[0])
            close(polytc.run("Y[i] = sqrt(x[i])*sqrt(x[i])/x[i]", x, target=target), np.ones(5, dtype))


@pytest.mark.part(8)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_roots_at_the_ends_of_the_range(dtype: Any) -> None:
    limits = np.finfo(dtype)
    least, most = limits.smallest_subnormal, limits.max
    ends = [0.0, least, -3 * least, limits.tiny, 1.0, most / 3, most, -most]
    x = np.array([complex(a, b) for a in ends for b in ends], dtype)
    for target in TARGETS:
        found = polytc.run("Y[i] = sqrt(x[i])", x, target=target)
        assert (np.abs(found - np.sqrt(x)) <= 8 * limits.eps * np.abs(np.sqrt(x))).all(), target


def test_branches_of_roots_and_angles() -> None:
    x = np.array([-4 + 0j, complex(-4, -0.0), 0j, 4, 2j, -2j, -3 + 1e-9j, -3 - 1e-9j])
    everywhere("Y[i] = sqrt(x[i])", np.sqrt(x), x)
    everywhere("Y[i] = angle(x[i])", np.angle(x), x)
    everywhere("Y[i] = exp(x[i])", np.exp(x), x)


@pytest.mark.parametrize(("text", "cure"), [
    ("C[i] = A[i] < 2", "no order"), ("C[i] = A[i] % 2", "take the parts"), ("C[i] = A[i] // A[i]", "take the parts"),
    ("C[i] max= A[i]", "compare `abs(z)`"), ("C[i] = max(A[i], 0)", "no order"), ("C[i] = A[i]; C[i] %= 2", "take the parts"),
    ("(m, k) argmax= (A[i], i)", "compare `abs(z)`"), ("C[i] = log(A[i])", "angle(z)"), ("C[i] = pow(A[i], 2)", "z*z"),
    ("C[i] = f32(A[i])", "real(z)"), ("C[i] = i where A[i] > 0, i in 0:4", "no order"),
    ("C[i] = c64(A[i], 1)", "parts are real"), ("C[i] = floor(A[i])", "functions of complex numbers")])
def test_refusals(text: str, cure: str) -> None:
    with pytest.raises(CompileError) as caught:
        polytc.build(text, {"A": (4,)}, {"A": "c64"})
    assert caught.value.code == "E312"
    assert caught.value.span is not None
    assert cure in str(caught.value)
    with pytest.raises(CompileError, match=r"(?s)E302.*real"):
        polytc.build("def f(c64[N] A) -> (f32[N] C) { C[i] = A[i] }", {"A": (4,)})
