"""The second meaning is right: numpy by hand for what docs/language.md and the table of programs show."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from language.program import Program
from language.programs import PROGRAMS
from language.tc import PROGRAMS as TC
from tests.docs.test_language import EXAMPLES, numbers, tensors
from tests.meaning import types
from tests.meaning.run import Refused, meaning
from tests.meaning.values import wide


def _conv(i: np.ndarray, w: np.ndarray, pad: int, n: int, stride: int = 2) -> np.ndarray:
    i = np.pad(i, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    o = np.zeros((len(i), len(w), n, n))
    for h, v, r, s in np.ndindex(n, n, 3, 3):
        o[:, :, h, v] += i[:, :, stride * h + r, stride * v + s] @ w[:, :, r, s].T
    return o


def _transposed(i: np.ndarray, w: np.ndarray) -> np.ndarray:
    o = np.zeros((2, 5, 9, 9))
    for h, v, r, s in np.ndindex(4, 4, 3, 3):
        o[:, :, 2 * h + r, 2 * v + s] += i[:, :, h, v] @ w[:, :, r, s]
    return o


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _shuffled(i: np.ndarray) -> np.ndarray:
    o = np.zeros((2, 6, 10))
    for c, h, w in np.ndindex(o.shape):
        o[c, h, w] = i[4 * c + 2 * (h % 2) + w % 2, h // 2, w // 2]
    return o


def _scattered(i: np.ndarray, x: np.ndarray) -> np.ndarray:
    y = np.zeros((20, 4))
    for n, to in enumerate(i):
        y[to] = x[n]
    return y


def _heat(x: np.ndarray) -> np.ndarray:
    a = x.astype(np.float64)
    for _ in range(4):
        b = a.copy()
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = b
    return a


def _back(x: np.ndarray) -> np.ndarray:
    p, last = np.zeros(9), 0.0
    for i in range(8, -1, -1):
        p[i] = last = 0.5 * last + x[i]
    return p


def _lu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, p = a.copy(), []
    for k in range(8):
        p.append(k + int(np.abs(a[k:, k]).argmax()))
        a[[k, p[-1]]] = a[[p[-1], k]]
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return np.array(p), a


def _sparse(v: np.ndarray, col: np.ndarray, r: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([sum(v[p] * x[col[p]] for p in range(r[i], min(r[i + 1], 90))) for i in range(20)], np.float64)


def _pool(i: np.ndarray) -> np.ndarray:
    wide = np.pad(i, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.array([[[[wide[n, c, 2 * h:2 * h + 3, 2 * w:2 * w + 3].max() for w in range(5)] for h in range(5)]
                      for c in range(2)] for n in range(1)])


def _grouped(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.concatenate([_conv(x[:, :2], w[:3], 1, 5), _conv(x[:, 2:], w[3:], 1, 5)], 1)


def _called(a: np.ndarray, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s = a.mean(1)
    c = a - s[:, None]
    return np.where(c > 0, c, c * 0.2 * 0.1) * gain, s


def _steps(x: np.ndarray) -> np.ndarray:
    v = x[0].copy()
    for row in x:
        v = v / v.sum() + 0.5 + _softmax(row)
    return v


def _tuple(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    return x.max(1), x.argmax(1), w[x.argmax(1)]


def _mandelbrot(c: np.ndarray) -> np.ndarray:
    z, n = 0 * c, np.zeros(c.shape, int)
    for _ in range(20):
        z = np.where(np.abs(z) <= 2, z * z + c, z)
        n += np.abs(z) <= 2
    return n


def _tap(a: np.ndarray, *by: int) -> np.ndarray:
    """The matrix shifted, its border repeated."""
    return a[tuple(np.ix_(*(np.clip(np.arange(n) + k, 0, n - 1) for n, k in zip(a.shape, by))))]


BY_HAND: dict[str, Callable[..., Any]] = {
    "def hypotenuse": lambda a, b: np.hypot(_tap(a, -1), b),
    "def blur": lambda a: 0.25 * (_tap(a, -1, 0) + _tap(a, 1, 0) + _tap(a, 0, -1) + _tap(a, 0, 1)),
    "Y[i] += w[k] * v[19": lambda v, w: np.convolve(np.pad(v, 2, "reflect"), w[::-1], "valid"),
    "y[i] += A[i,k] * x[k] where k in max": lambda a, x: np.triu(np.tril(a, 1), -1) @ x,
    "Y[i] = v[i < 10": lambda v: v[[19 - i if i == 3 or i > 9 else i for i in range(20)]],
    "Y[i,j] += A[i,j] where i*i": lambda a: np.where(np.add.outer(np.arange(8) ** 2, np.arange(8) ** 2) <= 9, a, 0),
    "D[i] = (u[i+1]": lambda u, v: (_tap(u, 1) - _tap(u, -1), np.r_[u, v]),
    "C[i,j] += A[i,k] * B[k,j]\n": lambda a, b: a @ b,
    "M[i] max= X[i,j]": lambda x: (x.max(1), _softmax(x)),
    "def mlp": lambda x, w, bias: np.maximum(x @ w + bias, 0) / 8,
    "def mm(float": lambda a, b: a @ b,
    "O[i] += alpha": lambda v, w: 0.5 * np.array([v[2 * i:2 * i + 3] @ w for i in range(4)]),
    "(M[i], J[i], V[i])": _tuple,
    "O[n,m,h,w] += I[n,c,2*h+r,2*w+s]": lambda i, w: _conv(i, w, 0, 4),
    "O[n,m,2*h+r": _transposed,
    "O[i] = A[i]; O[i+4]": lambda a, b: np.r_[a, b],
    "O[c,h,w] = I[4*c": _shuffled,
    "O[b,d] += T[I[b,k], d]": lambda t, i: t[i].sum(1),
    "H[b[i]] += 1": lambda b: np.bincount(b, minlength=10),
    "Y[i,d] = 0.0": _scattered,
    "for i in 0:9": np.cumsum,
    "for i in 8": _back,
    "def heat": _heat,
    "for t in 0:5 {": lambda x: (np.cumsum(x.sum(1)), x.sum(1)),
    "def cholesky": lambda a: np.tril(np.linalg.cholesky(a)) + np.triu(a, 1),
    "def lu": _lu,
    "P[b,s,t] += Q": lambda q, k: np.tril(np.einsum("bsd,btd->bst", q, k)),
    "def scan": np.cumsum,
    "s += V[k] where": lambda v: v[[1, 4, 7]].sum(),
    "y[i] += v[p]": _sparse, "def spmv": lambda r, col, v, x: _sparse(v, col, r, x), "def scaled": lambda z, w: z * w / w.sum(),
    "O[n,m,h,w] += (I": lambda i, w: _conv(i, w, 1, 5),
    "P[n,c,h,w] max= I": _pool,
    "C[i,j] += i32": lambda a, b: a.astype(np.int32) @ b.astype(np.int32),
    "acc(f64)": lambda a, x: a.astype(np.float64) @ x,
    "op Softmax": _softmax,
    "op Conv": _grouped,
    "op Add(A[*i?], B": lambda a, b: a + b,
    "def centred": _called,
    "def step": _steps,
    "def program(f32[9] X)": lambda x: (x, x.sum() / 2),
    "Y = softmax(linear": lambda x, w, b: _softmax(x @ w.T + b),
    "C[i,j] += conj(A[i,k])": lambda a, b: a.conj() @ b,
    "Y[b,k] += x[b,n] * exp(-2j*pi": np.fft.fft,
    "def mandelbrot": _mandelbrot,
    "D[i] = i > 0 ? x[i] - x[i-1]": lambda x: (
        np.concatenate([x[1:2] - x[:1], np.diff(x)]), np.concatenate([np.zeros(2), x]), np.cumsum(x)),
    "J[i] = i < 9 ? x[i] : y[i-9]": lambda x, y: np.concatenate([x, y]),
}
"""The first words of an example -> what it gives."""

SHOWN = [e for e in EXAMPLES if not re.fullmatch(r"E\d+", e[1])]


def close(found: dict[str, tuple[np.ndarray, np.ndarray]], expected: dict[str, np.ndarray]) -> None:
    """Equal up to the stated errors, those of the reference's own f64 and f32 arithmetic added."""
    for name, a in expected.items():
        value, error = found[name]
        assert value.shape == np.shape(a)
        assert np.isfinite(error).all()
        apart = np.abs(value.astype(wide(value)) - a)
        assert ((value == a) | (apart <= error + 2e-6 * np.abs(a))).all(), name


def example(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Small integers; a matrix that is positive definite where it is square and of f64; rows in order."""
    if dtype == "f64" and shape == (8, 8):
        return np.eye(8) * 9 + (a := rng.integers(-1, 2, shape)) + a.T
    if shape == (21,):
        return np.sort(rng.integers(0, 95, shape)).astype(types.stored(dtype))
    if types.is_complex(dtype):
        parts = rng.integers(-3, 4, (2, *shape)) * 0.37  # whole numbers would be on the borders of conditions
        return (parts[0] + 1j * parts[1]).astype(types.stored(dtype))
    return rng.integers(1 if dtype[0] in "iu" else -3, 4, shape).astype(types.stored(dtype))


@pytest.mark.parametrize(("given", "expected", "text"), SHOWN, ids=[e[2].split("\n")[0][:50] for e in SHOWN])
def test_an_example_of_the_language(given: str, expected: str, text: str) -> None:
    rng = np.random.default_rng(len(text))
    arrays = {n: example(s, t, rng) for n, (s, t) in tensors(given).items()}
    more = numbers(given)
    found = meaning(text, arrays, *(({}, more) if text.lstrip().startswith("op") else (more, {})))
    assert {n: a.shape for n, (a, _) in found.items()} == {n: s for n, (s, _) in tensors(expected).items()}
    known = [f for words, f in BY_HAND.items() if text.startswith(words)]
    if known:
        results = known[0](*arrays.values())
        close(found, dict(zip(found, results if isinstance(results, tuple) else (results,), strict=True)))


def test_most_examples_are_computed_by_hand() -> None:
    assert sum(any(t.startswith(words) for words in BY_HAND) for _, _, t in SHOWN) >= 0.8 * len(SHOWN)


@pytest.mark.part(2)
@pytest.mark.parametrize("p", [*PROGRAMS, *TC], ids=lambda p: p.name)
def test_a_program_of_the_table(p: Program) -> None:
    found = meaning(p.text, p.arrays(), dict(p.numbers))
    for (value, error), a in zip(found.values(), p.expected(), strict=True):
        assert value.shape == a.shape
        scale = max(1.0, float(np.abs(a).max()))
        np.testing.assert_allclose(value.astype(np.float64), a, rtol=0, atol=p.tolerance * scale)
        assert float(np.max(error, initial=0)) < 1e-2 * scale


SMALL: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # ranges
    ("O[i] = I[i-1]", {"I": "1 2 3"}, {"O": [1, 2, 3]}),
    ("O[i] += I[2*i+k]*W[k]", {"I": "1 2 3 4 5", "W": "1 1"}, {"O": [3, 7]}),
    ("O[i] = I[3*i]", {"I": "1 2 3 4 5"}, {"O": [1, 4]}),
    ("O[j] += A[i,i+j]", {"A": np.arange(8.0).reshape(2, 4)}, {"O": [5, 7, 9]}),
    ("P[i] += X[k] where k <= i, i in 0:4, k in 2:4", {"X": "1 2 3 4"}, {"P": [3, 7]}),
    ("O[i] = 1 > 2 ? I[i-1] : I[i]", {"I": "1 2"}, {"O": [1, 2]}),
    # types
    ("C[i] = A[i] + B[i]", {"A": np.array([250], "u1"), "B": np.array([100], "i1")}, {"C": np.array([350], "i2")}),
    ("C[i] = A[i] * 2", {"A": np.array([200], "u1")}, {"C": np.array([144], "u1")}),
    ("C[i] = A[i] / 2", {"A": np.array([3], "i4")}, {"C": np.array([1.5])}),
    ("C[i] = 0.5 * A[i]", {"A": np.array([3], "f4")}, {"C": np.array([1.5], "f4")}),
    ("C[i] = 0.5 * A[i]", {"A": np.array([3], "i4")}, {"C": np.array([1.5])}),
    ("S += A[i]", {"A": np.array([100, 100], "i1")}, {"S": np.array(-56, "i1")}),
    ("C[i] = u8(A[i])", {"A": np.array([-1.5, 3.7], "f4")}, {"C": np.array([255, 3], "u1")}),
    ("for t in 0:5 { P[t] = 3*(P[t-1] else 1) + A[t] }", {"A": np.ones(5, "u1")}, {"P": np.array([4, 13, 40, 121, 108], "u1")}),
    ("Z[i] = X[i]; for t in 0:2 { P[t] = 3*(P[t-1] else 1) + A[t] }", {"A": np.ones(2, "u1"), "X": np.ones(1, "f4")},
     {"Z": np.ones(1, "f4"), "P": np.array([4, 13], "u1")}),
    ("T[i] = 2 where i in 0:2; T[i] = T[i] + A[i] where i in 0:1", {"A": np.ones(1, "f4")}, {"T": np.array([3, 2], "f4")}),
    ("T = 0.0; for t in 0:2 { T = max(T, A[t]) }", {"A": np.ones(2, "f2")}, {"T": np.array(1, "f2")}),
    ("C[i] = A[i] * f16(0.1)", {"A": np.ones(1, "f4")}, {"C": np.array([np.float16(0.1)], "f4")}),
    ("C[i] = isnan(0.5) ? A[i] : 1 where i in 0:1", {"A": np.ones(1, "f4")}, {"C": np.array([1])}),
    ("C[i] = sin(2) > 0 && isnan(nan) ? A[i] : 1", {"A": np.array([5], "f4")}, {"C": np.array([5], "f4")}),
    # arithmetic
    ("C[i] = A[i] // 2 + A[i] % 3", {"A": np.array([-5, 5])}, {"C": [-3 + 1, 2 + 2]}),
    ("C[i] = (A[i] + 12582912.0) - 12582912.0", {"A": np.array([2.6], "f4")}, {"C": np.array([3], "f4")}),
    ("C[i] = round(A[i]) + floor(A[i]) + trunc(A[i])", {"A": np.array([-2.5], "f4")}, {"C": np.array([-7], "f4")}),
    ("M max= A[i]", {"A": np.array([1, np.nan, 3], "f4")}, {"M": np.array(np.nan, "f4")}),
    # what happens where
    ("C[i] = X[I[i]]", {"X": "1 2 3", "I": np.array([-4, 1, 9])}, {"C": [1, 2, 3]}),
    ("def f(i64[N] I) -> (i64[3] H) { H[I[i]] += 1 }", {"I": np.array([0, 7, 2, 2, -1])}, {"H": [1, 0, 2]}),
    ("def f(i64[N] I, f32[M] X) -> (f32[3] H) { H[i] = 0.0 where i in 0:3; H[I[n]] = X[n] }",
     {"I": np.array([0, 2, 0, 5]), "X": np.array([1, 2, 3, 4], "f4")}, {"H": np.array([3, 0, 2], "f4")}),
    ("C[i] max= A[i+k] else identity where i in 0:2, k in 0:3", {"A": "5 1"}, {"C": [5, 1]}),
    ("for s in 0:4 { M[s] +=! A[r] where r in 2:4, r <= s }", {"A": "1 2 3 4"}, {"M": [0, 0, 3, 7]}),
    ("precise def f(inout f32[1] X, f32[2] A) { acc(f64) X[i] += A[k] where i in 0:1 }",
     {"X": np.ones(1, "f4"), "A": np.array([2 ** -24, 2 ** -24], "f4")}, {"X": np.array([1 + 2 ** -23], "f4")}),
    ("(M, J) argmin= (A[i], i)", {"A": np.array([2, 1, 1, np.nan, np.nan], "f4")}, {"M": np.array(np.nan, "f4"), "J": 3}),
    ("(M, J) argmin= (A[i], i)", {"A": np.array([2, 1, 1, 3])}, {"M": 1, "J": 1}),
    ("C[i] = 0 <= A[i] < 3 != B[i]", {"A": "-1 0 2 3", "B": "0 3 1 1"}, {"C": [False, False, True, False]}),
    ("S += A[i] where 0 < i < 3", {"A": "1 2 3 4"}, {"S": np.array(5.0)}),
    # refused
    ("C[i] = A[i+j]", {"A": "1 2"}, Refused),
    ("C[i] = A[i] where i in 0:9", {"A": "1 2"}, Refused),
    ("C[i] = A[i] | 1", {"A": "1 2"}, Refused),
]


@pytest.mark.parametrize(("text", "arrays", "expected"), SMALL, ids=[s[0][:50] for s in SMALL])
def test_small(text: str, arrays: dict[str, Any], expected: Any) -> None:
    """Strings are arrays of f64."""
    given = {n: np.array(a.split(), np.float64) if isinstance(a, str) else a for n, a in arrays.items()}
    if expected is Refused:
        with pytest.raises(Refused):
            meaning(text, given)
        return
    found = meaning(text, given)
    assert list(found) == list(expected)
    for name, a in expected.items():
        value, error = found[name]
        np.testing.assert_array_equal(value, np.asarray(a))
        assert not error.any()
        assert not isinstance(a, np.ndarray) or value.dtype == a.dtype


def test_the_error_is_what_is_licensed() -> None:
    """The order of a sum that rounds, one rounding for a product and a sum, the last places of functions; nothing else."""
    x = np.array([0.1, 0.2, 0.3], "f4")
    def error(text: str) -> float:
        return float(np.max(meaning(text, {"X": x, "Y": x})["C"][1]))
    assert error("C[i] = X[i] * Y[i]") == error("C[i] = (X[i] + Y[i]) - X[i] / 3") == error("C[i] = sqrt(X[i])") == 0
    assert 0 < error("C += X[i]") < 1e-6
    assert 0 < error("C[i] = X[i] * Y[i] + X[i]") < 1e-7
    assert 0 < error("C[i] = exp(X[i])") < 1e-5
    assert error("precise def f(f32[N] X, f32[N] Y) -> (C) { C += X[i] * Y[i] }") == 0
    assert np.isinf(error("T += X[i]; C = T > 0.6 ? 1 : 2"))


def test_halves_are_rounded_where_they_are_given_back() -> None:
    x = np.full(70, 1000, np.float16)
    value, error = meaning("S += X[i]; Y = S / 70", {"X": x})["Y"]
    assert (value, error, value.dtype) == (1000, 0, np.float16)
    value, error = meaning("Y[i] = X[i] / 3; C[i] = f32(Y[i]) - X[i] / 3 -> (C, Y)", {"X": x})["C"]
    assert (value.max() < 0, error.max()) == (True, 0)  # rounded where another statement reads it


def test_arguments_of_calls_and_accumulators_are_not_rounded() -> None:
    """A temporary of halves is held in f32, whoever reads it."""
    x = np.array([1.0009765625], np.float16)  # its square lies between two halves
    call = "op Less<a>(X[*i]) -> Y[*i] { Y[*i] = X[*i] - a }"
    for made in ("T[i] = X[i] * X[i]", "acc(f64) T[i] += X[i] * X[i]"):
        for read in ("Z = Less<a=1>(T)", "Z[i] = T[i] - 1"):
            value, _ = meaning(f"{call}\n{made}\n{read}", {"X": x})["Z"]
            assert value[0] == np.float16(np.float64(x[0]) ** 2 - 1), (made, read)


def test_a_call_takes_a_tensor_as_far_as_it_is_written() -> None:
    """As a statement in its place would, see "Ranges" in docs/language.md: T grows behind the sum."""
    text = "T[i] += X[k] where i in 0:9, k < i\nfor t in 0:2 {{\n S = 0\n {}\n T[t] = 5\n}} -> (T, S)"
    plain = meaning(text.format("S += T[i]"), {"X": np.ones(9, np.float32)})
    assert plain["S"][0] == sum(range(1, 9))
    called = meaning("def Sum(X) -> (S) { S += X[i] }\n" + text.replace(" S = 0\n", "").format("S = Sum(T)"),
                     {"X": np.ones(9, np.float32)})
    assert called["S"][0] == plain["S"][0]
