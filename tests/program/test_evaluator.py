"""The reference evaluator against numpy: one row a program."""

# ruff: noqa: C408 -- dict(A=A) reads better than {"A": A} in rows of tables

import math

import numpy as np
import pytest

from polytc import lang
from polytc.program import scalars
from tests.functions import exact

SEED = np.random.default_rng(7)


def f(*shape):
    return SEED.standard_normal(shape).astype("f4")


def i(dtype, low, high, *shape):
    return SEED.integers(low, high, shape).astype(dtype)


def run(text, arrays, **more):
    arrays = {n: np.asarray(a) for n, a in arrays.items()}
    types = {n: scalars.from_numpy(a.dtype) for n, a in arrays.items()}
    program = lang.build(text, {n: a.shape for n, a in arrays.items()}, types, **more)
    return tuple(lang.evaluate(program, arrays).values())


def windows(a, kernel, stride=1, dilation=1):
    """a[..., h, w] -> [..., oh, ow, r, s]."""
    span = (kernel - 1) * dilation + 1
    view = np.lib.stride_tricks.sliding_window_view(a, (span, span), (-2, -1))
    return view[..., ::stride, ::stride, ::dilation, ::dilation]


def pad(a, n, value=0.0):
    return np.pad(a, [(0, 0)] * (a.ndim - 2) + [(n, n)] * 2, constant_values=value)


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


X4, W4 = f(2, 3, 9, 9), f(4, 3, 3, 3)
A, B, V = f(5, 6), f(6, 7), f(9)
Q, K, U = f(2, 5, 4), f(2, 5, 4), f(2, 5, 3)
MASK = np.where(np.tril(np.ones((5, 5))), 0, -np.inf).astype("f4")
INT, BYTES = i("i4", -9, 9, 6), i("u1", 0, 255, 6)


def transposed(x, w):
    n, _, h, _ = x.shape
    out = np.zeros((n, w.shape[1], 2 * h + 1, 2 * h + 1), "f4")
    for r in range(3):
        for s in range(3):
            out[:, :, r:r + 2 * h:2, s:s + 2 * h:2] += np.einsum("nchw,cm->nmhw", x, w[:, :, r, s])
    return out


PROGRAMS = {
    "matmul": ("C[i,j] += A[i,k]*B[k,j]", dict(A=A, B=B), lambda A, B: A @ B),
    "matmul, TC spelling": ("def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }", dict(A=A, B=B),
                            lambda A, B: A @ B),
    "batched, transposed operand, bias, relu": (
        "T[b,i,j] += A[b,k,i]*B[b,k,j]; C[b,i,j] = max(T[b,i,j] + c[j], 0)", dict(A=Q, B=U, c=f(3)),
        lambda A, B, c: np.maximum(np.einsum("bki,bkj->bij", A, B) + c, 0)),
    "mlp as def": ("def mlp(f32[B,I] X, f32[I,O] W, f32[O] bias) -> (Y) {\n T[b,o] += X[b,i] * W[i,o]\n"
                   " Y[b,o] = max(T[b,o] + bias[o], 0) }", dict(X=A, W=B, bias=f(7)),
                   lambda X, W, bias: np.maximum(X @ W + bias, 0)),
    "conv": ("O[n,m,h,w] += I[n,c,h+r,w+s] * W[m,c,r,s]", dict(I=X4, W=W4),
             lambda I, W: np.einsum("nchwrs,mcrs->nmhw", windows(I, 3), W)),
    "strided, dilated conv": ("O[n,m,h,w] += I[n,c,2*h+3*r,2*w+3*s] * W[m,c,r,s]", dict(I=X4, W=W4),
                              lambda I, W: np.einsum("nchwrs,mcrs->nmhw", windows(I, 3, 2, 3), W)),
    "padded conv": ("O[n,m,h,w] += (I[n,c,2*h+r-1,2*w+s-1] else 0) * W[m,c,r,s]"
                    " where h in 0:(I.shape[2]+1)//2, w in 0:(I.shape[3]+1)//2", dict(I=X4, W=W4),
                    lambda I, W: np.einsum("nchwrs,mcrs->nmhw", windows(pad(I, 1), 3, 2), W)),
    "grouped conv, 5-d": ("O[n,g,m,h,w] += I[n,g,c,h+r,w+s] * W[g,m,c,r,s]", dict(I=f(2, 2, 3, 6, 6), W=f(2, 4, 3, 3, 3)),
                          lambda I, W: np.einsum("ngchwrs,gmcrs->ngmhw", windows(I, 3), W)),
    "grouped conv, flat": ("O[n,m,h,w] += I[n, 3*(m//2) + c, h+r, w+s] * W[m,c,r,s] where c in 0:3",
                           dict(I=f(2, 6, 6, 6), W=f(4, 3, 3, 3)),
                           lambda I, W: np.einsum("ngchwrs,gmcrs->ngmhw", windows(I.reshape(2, 2, 3, 6, 6), 3),
                                                  W.reshape(2, 2, 3, 3, 3)).reshape(2, 4, 4, 4)),
    "depthwise conv": ("O[n,c,h,w] += I[n,c,h+r,w+s] * W[c,r,s]", dict(I=X4, W=f(3, 3, 3)),
                       lambda I, W: np.einsum("nchwrs,crs->nchw", windows(I, 3), W)),
    "transposed conv": ("O[n,m,2*h+r,2*w+s] += I[n,c,h,w] * W[c,m,r,s]", dict(I=f(2, 3, 4, 4), W=f(3, 5, 3, 3)), transposed),
    "max pool": ("O[n,c,h,w] max= I[n,c,2*h+r,2*w+s] where r in 0:3, s in 0:3", dict(I=X4),
                 lambda I: windows(I, 3, 2).max((-2, -1))),
    "max pool, partial windows": (
        "O[n,c,h,w] max= I[n,c,2*h+r-1,2*w+s-1] else identity where r in 0:3, s in 0:3, h in 0:5, w in 0:5", dict(I=X4),
        lambda I: windows(pad(I, 1, -np.inf), 3, 2).max((-2, -1))),
    "average pool without padding counted": (
        "S[n,c,h,w] += (I[n,c,2*h+r-1,2*w+s-1] else 0) where r in 0:3, s in 0:3, h in 0:5, w in 0:5\n"
        "N[h,w] += (I[0,0,2*h+r-1,2*w+s-1] else identity) * 0 + 1 where r in 0:3, s in 0:3, h in 0:5, w in 0:5\n"
        "O[n,c,h,w] = S[n,c,h,w] / N[h,w] -> (O)", dict(I=X4),
        lambda I: windows(pad(I, 1), 3, 2).sum((-2, -1)) / windows(pad(np.ones_like(I), 1), 3, 2).sum((-2, -1))),
    "softmax": ("M[i] max= X[i,j]\nE[i,j] = exp(X[i,j]-M[i])\nZ[i] += E[i,j]\nY[i,j] = E[i,j]/Z[i]", dict(X=A), softmax),
    "layernorm": ("m[i] += X[i,k]/X.shape[1]; v[i] += (X[i,k]-m[i])*(X[i,k]-m[i])/X.shape[1]\n"
                  "Y[i,j] = (X[i,j]-m[i]) * rsqrt(v[i]+1e-5) * g[j] + b[j]", dict(X=A, g=f(6), b=f(6)),
                  lambda X, g, b: (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5) * g + b),
    "causal attention": (
        "P[b,s,t] += Q[b,s,d]*K[b,t,d] where t <= s; M[b,s] max= P[b,s,t] where t <= s\n"
        "E[b,s,t] = exp((P[b,s,t]-M[b,s]) * rsqrt(Q.shape[2])) where t <= s; Z[b,s] += E[b,s,t] where t <= s\n"
        "O[b,s,d] += E[b,s,t]*V[b,t,d]/Z[b,s] where t <= s", dict(Q=Q, K=K, V=U),
        lambda Q, K, V: softmax((Q @ K.transpose(0, 2, 1)) / 2 + MASK) @ V),
    "concat": ("O[i] = A[i]; O[i+9] = B[i]", dict(A=V, B=f(4)), lambda A, B: np.concatenate([A, B])),
    "pixel shuffle": ("O[c,2*h+a,2*w+b] = I[4*c+2*a+b,h,w] where a in 0:2, b in 0:2", dict(I=f(8, 3, 5)),
                      lambda I: I.reshape(2, 2, 2, 3, 5).transpose(0, 3, 1, 4, 2).reshape(2, 6, 10)),
    "pixel shuffle, read form": ("O[c,h,w] = I[4*c+2*(h%2)+w%2,h//2,w//2]", dict(I=f(8, 3, 5)),
                                 lambda I: I.reshape(2, 2, 2, 3, 5).transpose(0, 3, 1, 4, 2).reshape(2, 6, 10)),
    "transpose": ("O[j,i] = A[i,j]", dict(A=A), lambda A: A.T),
    "reshape": ("O[k] = A[k//6, k%6]", dict(A=A), lambda A: A.reshape(-1)),
    "diagonal": ("O[i] = A[i,i]", dict(A=A), np.diagonal),
    "reverse": ("O[i] = V[8-i]", dict(V=V), lambda V: V[::-1]),
    "pad": ("O[i] = (V[i-2] else -1) where i in 0:13", dict(V=V), lambda V: np.pad(V, 2, constant_values=-1)),
    "embedding": ("O[b,k,d] = T[I[b,k],d]", dict(T=f(20, 4), I=i("i8", 0, 20, 3, 5)), lambda T, I: T[I]),
    "embedding bag": ("O[b,d] += T[I[b,k],d]", dict(T=f(20, 4), I=i("i4", 0, 20, 3, 5)), lambda T, I: T[I].sum(1)),
    "gather with negative indices": ("O[k] = V[I[k] < 0 ? I[k] + 9 : I[k]]", dict(V=V, I=i("i4", -9, 9, 12)),
                                     lambda V, I: V[I]),
    "sum": ("s += V[i]", dict(V=V), np.sum),
    "sum, empty brackets": ("s[] += V[i]; O[i] = V[i]/s", dict(V=V), lambda V: V / V.sum()),
    "product": ("s *= V[i]", dict(V=V), np.prod),
    "minimum of a column": ("m[j] min= A[i,j]", dict(A=A), lambda A: A.min(0)),
    "prefix sum": ("def f(f32[N] X) -> (f32[N] P) { P[i] += X[k] where k <= i }", dict(X=V), np.cumsum),
    "triangular product": ("C[i,j] += A[i,k]*B[k,j] where k <= i", dict(A=f(5, 5), B=f(5, 4)), lambda A, B: np.tril(A) @ B),
    "every third": ("s += V[i] where i % 3 == 1", dict(V=V), lambda V: V[1::3].sum()),
    "strided range": ("s += V[i] where i in 1:9:3", dict(V=V), lambda V: V[1:9:3].sum()),
    "stencil": ("O[i] = (V[i-1] + V[i] + V[i+1]) / 3", dict(V=V), lambda V: (V[:-2] + V[1:-1] + V[2:]) / 3),
    "outer": ("O[i,j] = V[i]*U[j]", dict(V=V, U=f(3)), np.outer),
    "gram from one operand": ("C[i,j] += A[i,k]*A[j,k]", dict(A=A), lambda A: A @ A.T),
    "accumulate in a written tensor": ("C[i,j] = c[j] where i in 0:5; C[i,j] += A[i,k]*B[k,j]", dict(A=A, B=B, c=f(7)),
                                       lambda A, B, c: A @ B + c),
    "reset": ("s += V[i]; T[i] = V[i] + s; s +=! V[i]*V[i]; O[i] = T[i] / s -> (O)", dict(V=V),
              lambda V: (V + V.sum()) / (V * V).sum()),
    "in place": ("C[i] = V[i]; C[i] = C[i] * 2 -> (C)", dict(V=V), lambda V: 2 * V),
    "index values": ("O[i] = V[i] * i + 0.5 * i", dict(V=V), lambda V: V * np.arange(9) + 0.5 * np.arange(9)),
    "argmax by mask": ("m max= V[i]; j min= V[i] == m ? i : 1000 -> (j)", dict(V=V), np.argmax),
    "integer arithmetic": ("O[i] = (a[i] // 4) * 10 + a[i] % 4", dict(a=INT), lambda a: a // 4 * 10 + a % 4),
    "bits": ("O[i] = (a[i] << 2 ^ b[i] >> 1) & ~a[i] | 1", dict(a=INT, b=INT[::-1].copy()),
             lambda a, b: (a << 2 ^ b >> 1) & ~a | 1),
    "bit reductions": ("x ^= a[i]; o |= a[i]; n &= a[i] -> (x)", dict(a=INT), np.bitwise_xor.reduce),
    "bytes wrap": ("O[i] = a[i] + a[i] * 3", dict(a=BYTES), lambda a: a * np.uint8(4)),
    "bytes taken away wrap": ("O[i] = a[i]; O[i] -= 200", dict(a=BYTES), lambda a: a - np.uint8(200)),
    "byte sums wrap": ("s += a[i]", dict(a=BYTES), lambda a: a.sum(dtype="u1")),
    "int8 matmul in i32": ("C[i,j] += i32(a[i,k]) * i32(b[k,j])",
                           dict(a=i("i1", -128, 127, 4, 300), b=i("i1", -128, 127, 300, 3)),
                           lambda a, b: a.astype("i4") @ b.astype("i4")),
    "logic": ("O[i] = a[i] > 2 && !(a[i] == 5) || b[i]", dict(a=INT, b=BYTES > 99), lambda a, b: (a > 2) & (a != 5) | b),
    "any, all": ("x |= a[i] > 3; y &= a[i] > 3; z[i] = x == y where i in 0:1 -> (z)", dict(a=INT),
                 lambda a: np.asarray([np.any(a > 3) == np.all(a > 3)])),
    "select": ("O[i] = V[i] > 0 ? V[i] : V[i] < -1 ? -1 : 0.1*V[i]", dict(V=V),
               lambda V: np.where(V > 0, V, np.where(V < -1, -1, np.float32(0.1) * V))),
    "casts": ("O[i] = f64(i32(V[i]*10)) / 3", dict(V=V), lambda V: (V * 10).astype("i4") / 3),
    "bilinear weights": ("O[i] += X[i//2 + t] * (t == 0 ? 1 - 0.5*(i%2) : 0.5*(i%2)) where t in 0:2, i in 0:16", dict(X=V),
                         lambda X: np.stack([X[:-1], (X[:-1] + X[1:]) / 2], 1).reshape(-1)),
    "variance of f64": ("m += x[k]/x.shape[0]; v += (x[k]-m)*(x[k]-m)/x.shape[0] -> (v)", dict(x=V.astype("f8")), np.var),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    text, arrays, reference = PROGRAMS[name]
    got, expected = run(text, arrays)[0], np.asarray(reference(*arrays.values()))
    assert got.shape == expected.shape
    if expected.dtype.kind in "iub" and got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


GRIDS = {"acosh": np.linspace(1, 9, 33), "atanh": np.linspace(-0.9, 0.9, 33), "asin": np.linspace(-1, 1, 33),
         "acos": np.linspace(-1, 1, 33), "erfinv": np.linspace(-1, 1, 33), "erfcinv": np.linspace(0, 2, 33),
         "normcdfinv": np.linspace(0, 1, 33), "tgamma": np.linspace(-3.9, 9, 33), "lgamma": np.linspace(-0.2, 9, 33),
         "fmod": np.linspace(-4, 4, 32)}
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow"}


@pytest.mark.parametrize("name", sorted(scalars.INTRINSICS))
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_intrinsic(name, dtype):
    """Against numbers from Python's math module, in double precision."""
    row = scalars.INTRINSICS[name]
    a = GRIDS.get(name, np.linspace(0.1, 4, 33) if name in POSITIVE else np.linspace(-4, 4, 33)).astype(dtype)
    arrays = {n: np.roll(a, 5 * k) for k, n in enumerate("abc"[:row.arity])}
    got = run(f"O[i] = {name}({', '.join(f'{n}[i]' for n in arrays)})", arrays)[0]
    expected = [MATH[name](*map(float, row)) for row in zip(*arrays.values())]
    assert got.dtype == (np.dtype(bool) if row.result == "bool" else np.dtype(dtype))
    tolerance = {"rtol": 3e-6, "atol": 1e-6} if dtype == "f4" else {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(got, np.asarray(expected), **tolerance)


MATH = exact.DOUBLE | {n: getattr(math, n) for n in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "pow", "fmod", "floor", "ceil", "trunc", "isnan",
    "isinf", "isfinite", "copysign")
} | {"signbit": lambda a: math.copysign(1, a) < 0, "rsqrt": lambda a: 1 / math.sqrt(a),
     "sigmoid": lambda a: 1 / (1 + math.exp(-a)), "min": min, "max": max, "abs": abs,
     "sign": lambda a: (a > 0) - (a < 0), "round": round, "clamp": lambda a, low, high: min(max(a, low), high)}


def test_nan_and_infinity():
    v = np.array([1, np.nan, -np.inf, 2], "f4")
    assert np.isnan(run("m max= v[i]", dict(v=v))[0])
    assert np.isnan(run("m min= v[i]", dict(v=v))[0])
    assert run("m min= v[i] where i != 1", dict(v=v))[0] == -np.inf
    np.testing.assert_array_equal(run("O[i] = isnan(v[i]) || isinf(v[i])", dict(v=v))[0], [False, True, True, False])
    np.testing.assert_array_equal(run("O[i] = max(v[i], 0)", dict(v=v))[0], [1, np.nan, 0, 2])


def test_scalars_specialise_subscripts_ranges_and_values():
    text = "O[i] += alpha * V[s*i + d*k] * W[k] where k in 0:n"
    got = run(text, dict(V=V, W=f(3)), scalars=dict(s=2, d=np.int64(2), n=2, alpha=np.float32(0.5)))
    w = run("O[k] = V[k]", dict(V=V))[0]
    assert got[0].shape == (4,)
    assert w.dtype == np.float32
    text = "def f(f32[N] X, i32 s, f32 alpha) -> (Y) { Y[i] = alpha * X[s*i] / N }"
    np.testing.assert_allclose(run(text, dict(X=V), scalars=dict(s=4, alpha=3))[0], 3 * V[::4] / 9, rtol=1e-6)


def test_several_outputs_keep_their_order():
    got = run("S[i] += A[i,j]; M[i] max= A[i,j] -> (M, S)", dict(A=A))
    np.testing.assert_allclose(got[0], A.max(1))
    np.testing.assert_allclose(got[1], A.sum(1), rtol=1e-5)


def test_outputs_start_at_their_lower_bound():
    program = lang.build("O[i] = V[i-3]; P[i] = O[i] * 2 where i in 5:8", {"V": (9,)})
    np.testing.assert_allclose(lang.evaluate(program, {"V": V})["P"], 2 * V[2:5])


def test_gather_out_of_bounds_names_statement_and_tensor():
    program = lang.build("O[k] = T[I[k]]", {"T": (4,), "I": (3,)}, {"I": "i64"})
    with pytest.raises(IndexError, match=r"S1 reads T at 4 in dimension 0, outside of its 0:4"):
        lang.evaluate(program, {"T": f(4), "I": np.array([0, 4, 1])})
    with pytest.raises(IndexError, match=r"S1 reads T at -1"):
        lang.evaluate(program, {"T": f(4), "I": np.array([0, 3, -1])})


def test_chunks_do_not_show():
    """A domain of many chunks, with and without conditions, in every reduction."""
    a = i("i8", -99, 99, 70, 80, 110)
    np.testing.assert_array_equal(run("C[j] += a[i,j,k]", dict(a=a))[0], a.sum((0, 2)))
    np.testing.assert_array_equal(run("C[k] max= a[i,j,k]", dict(a=a))[0], a.max((0, 1)))
    low = np.tril(np.ones((70, 80), int))[..., None]
    np.testing.assert_array_equal(run("s += a[i,j,k] where j <= i", dict(a=a))[0], (a * low).sum())


def test_identity_guard_inside_a_product():
    """`else identity` skips the whole term, not only the factor."""
    got = run("O[i] *= (V[i+k-1] else identity) + 1 where i in 0:9, k in 0:3", dict(V=V))[0]
    expected = [np.prod([V[i + k - 1] + 1 for k in range(3) if 0 <= i + k - 1 < 9]) for i in range(9)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)
