"""Calls of definitions: what they compute, what they may be given, and the prelude."""

import math

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.lang.definitions import calls, prelude
from polytc.program import scalars
from polytc.program.typenames import dtype_of

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 7)).astype("f4")
W = RNG.standard_normal((3, 7)).astype("f4")
V = RNG.standard_normal(7).astype("f4")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def close(found: object, expected: object) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def parts(x: np.ndarray) -> np.ndarray:
    """The program `updates of parts` below, for one row."""
    y = np.zeros_like(x)
    y[:2] += x[:2]
    y[3:] += np.cumsum(x)[2:-1]
    y[1:] += 3
    y[:3] += np.maximum.accumulate(x)[:3]
    return y


PROGRAMS = {
    "of the prelude": ("Y = softmax(X)", {"X": X}, softmax(X)),
    "nested": ("Y = relu(softmax(softmax(X)))", {"X": X}, softmax(softmax(X))),
    "own definition, sizes and indices of the same names": (
        "def mean(f32[i,j] X) -> (S) { S[m] += X[m,n] / j }\ndef main(f32[m,n] X) -> (Y) { M = mean(X); Y[S] = M[S] * n }",
        {"X": X}, X.sum(1)),
    "several results and a number": (
        "def two(f32[N] a, f32[N] b, i32 n) -> (s, d) { s[i] = a[i] + n*b[i]; d[i] = a[i] - b[i]*N }\n"
        "(A, B) = two(x, y, x.shape[0] - 4)\nC[i] = A[i]*B[i]",
        {"x": V, "y": 2*V}, (V + 6*V) * (V - 14*V)),
    "into its own argument": ("Y[i,j] = X[i,j]; Y = softmax(Y)", {"X": X}, softmax(X)),
    "into its own argument, reversed": (
        "def rev(f32[N] x) -> (y) { y[i] = x[N-1-i] }\nS[i] = x[i]; S = rev(S); S = rev(rev(S))", {"x": V}, V[::-1]),
    "over what was written before": ("S[i] = x[i]; S = relu(x); S[i] += 1", {"x": V}, np.maximum(V, 0) + 1),
    "twice": ("A = softmax(X); B[i,j] = X[i,j]*2; C = softmax(B); D[i,j] = A[i,j] - C[i,j]", {"X": X},
              softmax(X) - softmax(2 * X)),
    "an argument that starts elsewhere": ("P[i] = x[i-3]; Y = relu(P); Z[i] = Y[i] + P[i+3]", {"x": V}, np.maximum(V, 0) + V),
    "a result that starts elsewhere": (
        "def shift(f32[N] x) -> (y) { y[i] = x[i-2] * i }\nY = shift(x)", {"x": V}, V * np.arange(2, 9, dtype="f4")),
    "an update from its identity, over all of the result": (
        "def lower(f32[N,M] x) -> (y) { y[i,j] += x[i,j] where j <= i }\nT[i,j] = 9 + X[i,j]; T = lower(X)",
        {"X": X[:, :5]}, np.tril(X[:, :5])),
    "a call in a call": (
        "def norm(f32[N] x) -> (y) { s += x[i]*x[i]; y[i] = x[i] / sqrt(s) }\n"
        "def both(f32[N] x) -> (a, b) { a = norm(x); t[i] = x[i]*x[i]; b = norm(t) }\n"
        "def main(f32[N] x) -> (Y) { (p, q) = both(x); Y[i] = p[i] + q[i] }",
        {"x": V}, V / np.linalg.norm(V) + V**2 / np.linalg.norm(V**2)),
    "an op in an op": (
        "op Scale<alpha>(X[*i]) -> Y[*i] { Y[*i] = alpha * X[*i] }\n"
        "op Twice<beta>(X[*i, j]) -> Y[*i, j] { T = Scale<alpha=beta + 1>(X); S = softmax(T)\n"
        "Y[*i, j] = S[*i, j] * T[*i, j] }\n"
        "Y = Twice<beta=1>(X)", {"X": X}, softmax(2 * X) * 2 * X),
    "list attributes are handed on": (
        "op Shift<pad>(X[*i]) -> Y[*i] { Y[*i] = (X[*(i - pad)] else 0) where *i in 0:*(3 + 0*pad) }\n"
        "op Outer<pad>(X[*i]) -> Z[*i] { Y = Shift<pad=pad>(X); Z[*i] = Y[*i] + 1 where *i in 0:*(3 + 0*pad) }\n"
        "Y = Outer<pad=[1, 2]>(X)", {"X": X}, np.pad(X, ((1, 0), (2, 0)))[:3, :3] + 1),
    "guards and gathers": (
        "def take(f32[N,D] T, i64[K] I) -> (Y) { Y[k,d] = T[I[k], d] }\n"
        "def pad(f32[N,D] T) -> (Y) { Y[i,j] = (T[i-1,j] else 7) where i in 0:N+1 }\nY = take(pad(X), I)",
        {"X": X, "I": np.array([0, 3, 5])}, np.pad(X, ((1, 0), (0, 0)), constant_values=7)[[0, 3, 5]]),
    "a declared result is wider": (
        "def wide(f32[N] x) -> (f64[N] y) { y[i] = x[i]; y[i] += 1 }\nY = wide(x)", {"x": V}, V.astype("f8") + 1),
    "in a loop": ("for t in 0:5 { r[i] = X[t,i]; s = softmax(r); Y[t,i] = s[i] } -> (Y)", {"X": X}, softmax(X)),
    "in a loop, over its own argument": (
        "Y[i,j] = X[i,j]; for t in 0:3 { Y = softmax(Y) }", {"X": X}, softmax(softmax(softmax(X)))),
    "in a loop, nested, with an index of the loop's name": (
        "def norm(f32[N] x) -> (y) { s += x[t]*x[t]; y[t] = x[t] / sqrt(s) }\n"
        "for t in 0:5 { r[i] = X[t,i]; s = norm(norm(r)); Y[t,i] = s[i] } -> (Y)", {"X": X},
        X / np.linalg.norm(X, axis=1, keepdims=True)),
    "in a loop, updates of parts and a loop of its own": (
        "def parts(f32[N] x) -> (y) { y[i] += x[i] where i in 0:2; y[i] += x[k] where i in 3:N, k < i\n"
        "for t in 0:3 { y[i] += t where i in 1:N; z[t] max= x[k] where k <= t }\ny[i] += z[i] where i in 0:3 }\n"
        "for t in 0:5 { r[i] = X[t,i]; s = parts(r); Y[t,i] = s[i] } -> (Y)", {"X": X},
        np.stack([parts(x) for x in X])),
    "in a loop, with a tuple reduction": (
        "def arg(f32[N] x) -> (j) { (m, j) argmax= (x[i], i) }\n"
        "for t in 0:5 { r[i] = X[t,i]; k = arg(r); Y[t] = k } -> (Y)", {"X": X}, X.argmax(1)),
    "in a loop, carried by it": (
        "def mix(f32[N] x, f32[N] y) -> (z) { z[i] = 0.5*x[i] + y[i] }\n"
        "def main(f32[M,N] X) -> (S) { S[i] = X[0,i]; for t in 1:M { r[i] = X[t,i]; q = mix(S, r); S[i] = q[i] } }", {"X": X},
        ((((X[0] / 2 + X[1]) / 2 + X[2]) / 2 + X[3]) / 2 + X[4])),
    "in place": (
        "def step(inout f32[N] v, f32 a) { s += v[i]*v[i]; v[i] = v[i]/sqrt(s) + a }\nW[i] = x[i]; step(W, 0.5)", {"x": V},
        V / np.linalg.norm(V) + 0.5),
    "in place, what starts elsewhere": (
        "def add(inout f32[N] v) { v[i] += i where i in 1:N }\nW[i] = x[i-3]; add(W); Z[i] = W[i+3]", {"x": V},
        V + np.arange(7, dtype="f4")),
    "in place, with results": (
        "def swap(inout f32[N] a, inout f32[N] b) -> (s, a) { s += a[i]; t[i] = a[i]; a[i] = b[i]; b[i] = t[i] }\n"
        "A[i] = x[i]; B[i] = 2*x[i]; (s, C) = swap(A, B); Y[i] = A[i] + 10*B[i] + 100*C[i] + s", {"x": V}, 212 * V + V.sum()),
    "in place, into itself": (
        "def inc(inout f32[N] a) -> (a) { a[i] += 1 }\nA[i] = x[i]; A = inc(A); for t in 0:2 { A = inc(A); inc(A) }", {"x": V},
        V + 5),
    "a scalar argument goes on": (
        "def scale(f32[N] x, f32 a) -> (y) { y[i] = a * x[i] }\ndef main(f32[N] x, f32 alpha) -> (Y) { Y = scale(x, alpha) }",
        {"x": V, "alpha": 2.5}, 2.5 * V),
    "Tensor Comprehensions' notation": (
        "def mv(float(M,K) A, float(K) x) -> (o) { o(i) +=! A(i,k) * x(k) }\n"
        "def main(float(M,K) X, float(K) v) -> (O) { t = mv(X, v)\n O(i) = fmax(t(i), 0) }", {"X": X, "v": V},
        np.maximum(X @ V, 0)),
    "matmul and linear of the prelude": ("P = linear(X, W, b); Y = matmul(P, transpose(P))", {"X": X, "W": W, "b": V[:3]},
                                         (X @ W.T + V[:3]) @ (X @ W.T + V[:3]).T),
}


INTERPRETED = ("several results and a number", "a result that starts elsewhere", "guards and gathers",
               "in a loop, carried by it", "in place, with results", "in place, into itself", "an op in an op")
"""What a definition becomes is the same for each target."""


@pytest.mark.part(8)
@pytest.mark.parametrize(("name", "target"), [
    pytest.param(n, t, marks=pytest.mark.long if t == "interp" and n not in INTERPRETED else [])
    for n in PROGRAMS for t in ("evaluate", "interp", "cpu")])
def test_program(name: str, target: str) -> None:
    text, arrays, expected = PROGRAMS[name]
    found = polytc.run(text, target=target, **arrays)
    close(found, expected)
    assert found.dtype == np.asarray(expected).dtype


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "expected"), [
    ("Y = leaky_relu<alpha=0.1>(X)", np.where(X > 0, X, 0.1 * X)),
    ("Y = leaky_relu(X)", np.where(X > 0, X, 0.01 * X)),
    ("Y = elu<alpha=2>(X)", np.where(X > 0, X, 2 * np.expm1(X))),
    ("Y = silu(X)", X / (1 + np.exp(-X))),
    ("Y = softplus(X)", np.log1p(np.exp(X))),
    ("Y = hardswish(X)", X * np.clip(X + 3, 0, 6) / 6),
    ("Y = log_softmax(X)", np.log(softmax(X))),
    ("Y = layernorm(X, v, w)", (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5) * V + W[0]),
    ("Y = rmsnorm<epsilon=1e-3>(X, v)", X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-3) * V),
    ("Y = l2norm(X)", X / np.linalg.norm(X, axis=1, keepdims=True)),
    ("Y = batchnorm(X, v, w, u, d)", (X - 2 * V) / np.sqrt(V * V + 1e-5) * V + W[0]),
    ("Y = matvec(X, v)", X @ V), ("Y = outer(v, w)", np.outer(V, W[0])), ("Y = transpose(X)", X.T),
    ("Y = bmm(X, transpose(W))", X @ W.T), ("Y = gelu(X)", None),
])
def test_prelude(text: str, expected: np.ndarray | None) -> None:
    arrays = {"X": X, "v": V, "w": W[0], "W": W, "u": 2 * V, "d": V * V}
    inputs = [p.name for p in lang.signature(text).inputs]
    found = polytc.run(text, **{n: arrays[n] for n in inputs})
    if expected is None:
        expected = 0.5 * X * (1 + np.vectorize(math.erf)(X / np.sqrt(2)))
    close(found, expected)


def test_the_prelude_is_what_it_says() -> None:
    assert set(prelude.definitions()) == prelude.NAMES
    assert not [n for n in prelude.NAMES if n in scalars.INTRINSICS or dtype_of(n)]
    assert not [c for f in prelude.definitions().values() for c in calls.calls(f)]
    for name, f in prelude.definitions().items():
        text = f"({', '.join(o.name for o in f.outputs or ())}) = {name}({', '.join(p.name for p in f.params)})"
        assert len(f.outputs or ()) == 1, text


def test_one_prelude_definition_for_many_ranks() -> None:
    x = RNG.standard_normal((2, 3, 4, 5)).astype("f4")
    close(polytc.run("Y = softmax(X)", X=x), softmax(x))
    a, b = RNG.standard_normal((6, 1, 2, 3)).astype("f4"), RNG.standard_normal((5, 3, 4)).astype("f4")
    close(polytc.run("Y = bmm(A, B)", A=a, B=b), a @ b)


def test_names_of_the_text_come_first() -> None:
    """A definition hides the prelude, a tensor of that name too; an intrinsic stays one in expressions."""
    close(polytc.run("def relu(f32[N] x) -> (y) { y[i] = max(x[i], 1) }\nY = relu(x)", x=V), np.maximum(V, 1))
    close(polytc.run("def exp(f32[N] x) -> (y) { y[i] = exp(x[i]) + 1 }\nY = exp(x)", x=V), np.exp(V) + 1)
    p = lang.build("relu[i] = x[i]; y = relu(2)", {"x": (7,)})
    assert [x.target for x in p.statements] == ["relu", "y"]


def test_the_one_that_none_calls_runs() -> None:
    text = "def g(f32[N] x) -> (y) { y[i] = x[i] }\ndef f(f32[N] x) -> (y) { y = g(x) }"
    assert lang.signature(text).name == "f"
    assert lang.signature(text, "g").name == "g"
    assert polytc.compile(text).inputs == ("x",)


def test_the_signature_knows_what_calls_take_and_give() -> None:
    text = "def g(f32[N] x, i32 n) -> (y, z) { y[i] = n*x[i]; z[i] = y[i] }\n(p, q) = g(a, k); b[i] = p[i]"
    found = lang.signature(text)
    assert [(p.name, p.kind, p.rank) for p in found.inputs] == [("a", "tensor", 1), ("k", "scalar", None)]
    assert found.outputs == ("q", "b")
    close(polytc.run(text, V, 3).q, 3 * V)
    close(polytc.run(text, a=V, k=3).b, 3 * V)


def test_results_have_the_type_of_their_definition(targets: tuple[str, ...]) -> None:
    """Another writer makes the tensor wider, not what the definition computes: sums of u32 wrap."""
    text = """op Rows(X[*i, j]) -> S[*i] { S[*i] += X[*i, j] }
        S = Rows(X);  S[1] |= Y[i];  Z[i] = S[i]
        -> (S, Z)"""
    x, y = np.full((3, 5), 2**31 + 7, np.uint32), np.array([-2**40], np.int64)
    expected = np.full(3, (5 * (2**31 + 7)) % 2**32)
    expected[1] |= -2**40
    for target in targets:
        found = polytc.run(text, X=x, Y=y, target=target)
        assert found.S.dtype == found.Z.dtype == np.int64
        np.testing.assert_array_equal(found.S, expected)
        np.testing.assert_array_equal(found.Z, expected)


def test_precise_is_handed_up() -> None:
    p = lang.build("precise def g(f32[N] x) -> (s) { s += x[i] }\ny = g(x)", {"x": (7,)})
    assert p.precise


def test_a_call_is_one_instance_for_equal_arguments() -> None:
    """Forty calls take forty times one call, not forty squared."""
    text = "; ".join(["T0 = softmax(X)"] + [f"T{k} = softmax(T{k - 1})" for k in range(1, 6)])
    assert len(lang.build(text, {"X": (4, 5)}).statements) == 6 * 6


def test_assumptions_that_hold() -> None:
    text = "def f(f32[M,K] A, i32 n) -> (C) { assume M >= K && n % 2 == 0; assume A.shape[1] < 9; C[i] += A[i,k] }"
    close(polytc.run(text, A=X[:, :4], n=4), X[:, :4].sum(1))
    with pytest.raises(polytc.CompileError, match="E220"):
        polytc.run(text, A=X, n=4)


def test_what_is_written_in_place_is_what_was_given():
    text = "def g(inout f32[N] a) { a[i+1] += 1 where i in 0:N }\nT[i] = v[i]; g(T)"
    with pytest.raises(polytc.CompileError, match="E203") as error:
        polytc.compile(text, shapes={"v": (4,)})
    assert "i=3 writes a[4], extent 4" in str(error.value)
