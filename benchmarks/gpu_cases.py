"""What benchmarks/gpu.py measures: each program beside the same in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.program.scalars import BF16

ROWS = "M[i] max= A[i,j]\nE[i,j] = exp(A[i,j] - M[i])\nS[i] += E[i,j]\nY[i,j] = E[i,j] / S[i]"
ATTENTION = """P[b,i,j] += Q[b,i,d]*K[b,j,d]
M[b,i] max= P[b,i,j] * 0.125{mask}
E[b,i,j] = exp(P[b,i,j] * 0.125 - M[b,i]){mask}
S[b,i] += E[b,i,j]{mask}
O[b,i,d] += E[b,i,j] * V[b,j,d]{mask}
Y[b,i,d] = O[b,i,d] / S[b,i]"""
HIDDEN = ATTENTION.format(mask="").replace("M[b,i] max= P[b,i,j] * 0.125", """L[b,i,j] = j <= i ? P[b,i,j] * 0.125 : -inf
M[b,i] max= L[b,i,j]""").replace("exp(P[b,i,j] * 0.125 -", "exp(L[b,i,j] -")
"""Causal attention as graphs have it: by a choice."""
CONVOLUTION = "O[n,m,h,w] += (X[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:56, w in 0:56"
BYTE_CONVOLUTION = "O[n,m,h,w] += i32(X[n,c,h+r-1,w+s-1] else 0) * i32(W[m,c,r,s]) where h in 0:56, w in 0:56"
"""torch has none of bytes on GPUs: it is of f32 there, whose sums of so few products of bytes are exact."""
POOL = "O[n,c,h,w] max= (X[n,c,2*h+r-1,2*w+s-1] else -inf) where h in 0:56, w in 0:56, r in 0:3, s in 0:3"
NORM = """def norm(f32[I,J] X, f32[J] G, f32[J] B) -> (Y) {
    m[i] += X[i,j] / J
    v[i] += (X[i,j] - m[i])*(X[i,j] - m[i]) / J
    Y[i,j] = (X[i,j] - m[i]) / sqrt(v[i] + 1e-5) * G[j] + B[j]
}"""


@dataclass(frozen=True)
class Case:
    """shapes: of the inputs. torch: the same of tensors. operations: multiplications and additions; 0 where bytes are what
    takes time. tolerance: of the largest number of a result. record: of decisions, '' for polytc's own."""

    name: str
    text: str
    shapes: Mapping[str, tuple[int, ...]]
    torch: Callable[..., Any]
    operations: int = 0
    tolerance: float = 1e-4
    draw: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] | None = None
    record: str = ""

    def inputs(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Normal numbers, or what `draw` says."""
        return {n: (self.draw or {}).get(n, _normal)(rng, s) for n, s in self.shapes.items()}


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def _below(n: int) -> Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]:
    return lambda rng, shape: rng.integers(0, n, shape, np.int32)


def _bytes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 256, shape, np.uint8)


def _half(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return _normal(rng, shape).astype(np.float16)


def _bfloat(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return _normal(rng, shape).astype(BF16.numpy)


def _of_halves(name: str, text: str, shapes: dict[str, tuple[int, ...]], torch: Callable[..., Any], operations: int,
               draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] = _half, record: str = "") -> Case:
    return Case(name, text, shapes, torch, operations, 2e-2, dict.fromkeys(shapes, draw), record)


def _half_product(m: int, n: int, k: int, items: str = "") -> Case:
    """items: of a group, warps' beside each other last, elements of an item, and steps."""
    record = "polytc decisions 1\nlocal_tiles S1_init: by=matrix rows=j,i items=4,{},{} elements={},{} along=k steps={}\n"
    return _of_halves(f"matmul f16 {m}x{n}x{k}{f' by {items}' if items else ''}", "C[i,j] += A[i,k]*B[k,j]",
                      {"A": (m, k), "B": (k, n)}, lambda t, a, b: a @ b, 2 * m * n * k,
                      record=record.format(*items.split()) if items else "")


def _signed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-128, 128, shape, np.int8)


def _of_bytes(name: str, text: str, shapes: dict[str, tuple[int, ...]], torch: Callable[..., Any], operations: int,
              dots: str = "") -> Case:
    """dots: the line of a record that says how the bytes are multiplied, '' for polytc's own choice."""
    return Case(name, text, shapes, torch, operations, 0, dict.fromkeys(shapes, _signed),
                f"polytc decisions 1\ndot_words{dots}\n" if dots else "")


def _byte_product(m: int, n: int, k: int, by: str = "", dots: str = "") -> Case:
    return _of_bytes(f"matmul i8 {m}x{n}x{k}{by}", "C[i,j] += i32(A[i,k])*i32(B[k,j])", {"A": (m, k), "B": (k, n)},
                     lambda t, a, b: t._int_mm(a, b), 2 * m * n * k, dots)


def _product(m: int, n: int, k: int) -> Case:
    return Case(f"matmul {m}x{n}x{k}", "C[i,j] += A[i,k]*B[k,j]", {"A": (m, k), "B": (k, n)},
         lambda t, a, b: a @ b, 2 * m * n * k)


def _attention(heads: int, rows: int, features: int, text: str = ATTENTION.format(mask=""), name: str = "attention",
               draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] | None = None, keys: int = 0) -> Case:
    """The scale is that of 64 features, whatever there are. keys: another number of them than of rows."""
    shapes = {"Q": (heads, rows, features), **dict.fromkeys("KV", (heads, keys or rows, features))}
    causal, half = text != ATTENTION.format(mask=""), draw is not None
    return Case(f"{name} {heads}x{rows}x{features}" + (f", {keys} keys" if keys else ""), text, shapes,
                lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal,
                                                                                scale=0.125)[0],
                4 * heads * rows * (keys or rows) * features // (2 if causal else 1), 2e-2 if half else 1e-4,
                dict.fromkeys(shapes, draw) if draw is not None else None)


def _causal(t: Any, q: Any, k: Any, v: Any) -> Any:
    return t.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def _transform(n: int) -> str:
    """Stockham's Fourier transform of rows of n complex numbers."""
    lines, source, d = [f"def fourier(c64[B,{n}] X, c64[{n // 2}] w) -> (Y) {{"], "X", 1
    while d < n:
        target = "Y" if 2 * d == n else f"T{d}"
        a, b, where = f"{source}[b, {d}*j+k]", f"{source}[b, {d}*j+k+{n // 2}]", f"where j in 0:{n // 2 // d}, k in 0:{d}"
        to = f"{target}[b, {2 * d}*j+k"
        lines += [f"{to}] = {a} + {b} {where}", f"{to}+{d}] = ({a} - {b})*w[{d}*j] {where}"]
        source, d = target, 2 * d
    return "\n".join([*lines, "}"])


def _complex(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def _roots(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.exp(-1j * np.pi * np.arange(shape[0]) / shape[0]).astype(np.complex64)


def _positive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    a = rng.standard_normal(shape, np.float32)
    return a @ a.swapaxes(1, 2) + shape[1] * np.eye(shape[1], dtype=np.float32)


def _heat(t: Any, a: Any) -> Any:
    a = a.clone()
    for _ in range(16):
        a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    return a


HEAT = """def heat(f32[N,N] X) -> (A) {
    A[i,j] = X[i,j]
    for t in 0:16 {
        B[i,j] = 0.25*(A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1]) where i in 1:N-1, j in 1:N-1
        A[i,j] = B[i,j] where i in 1:N-1, j in 1:N-1
    }
}"""
CHOLESKY = """def cholesky(f32[B,N,N] X) -> (A) {
    A[b,i,j] = j <= i ? X[b,i,j] : 0
    for k in 0:N {
        A[b,k,k] = sqrt(A[b,k,k])
        A[b,i,k] = A[b,i,k] / A[b,k,k] where i in k+1:N
        A[b,i,j] -= A[b,i,k] * A[b,j,k] where i in k+1:N, j in k+1:i+1
    }
}"""
BIG = 1 << 26
CASES = (
    *(_product(*s) for s in ((1024,) * 3, (2048,) * 3, (4096,) * 3, (1000, 1200, 1500), (4095, 4097, 4093), (128, 4096, 4096),
                             (16, 4096, 4096), (512, 512, 100_000))),
    Case("matmul A' B 2048", "C[i,j] += A[k,i]*B[k,j]", {"A": (2048, 2048), "B": (2048, 2048)},
         lambda t, a, b: a.T @ b, 2 * 2048**3),
    Case("matmul A B' 2048", "C[i,j] += A[i,k]*B[j,k]", {"A": (2048, 2048), "B": (2048, 2048)},
         lambda t, a, b: a @ b.T, 2 * 2048**3),
    *(_half_product(*s) for s in ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (1000, 1200, 1504), (4095, 4097, 4093),
                                  (128, 4096, 4096), (16, 4096, 4096), (512, 512, 100_000))),
    *(_half_product(4096, 4096, 4096, items) for items in (
        "16 4 8 8 32", "32 2 16 4 32", "16 4 16 8 16", "32 2 16 8 16", "16 2 16 8 16", "8 4 8 8 32")),
    _of_halves("matmul bf16 4096x4096x4096", "C[i,j] += A[i,k]*B[k,j]", {"A": (4096, 4096), "B": (4096, 4096)},
               lambda t, a, b: a @ b, 2 * 4096**3, _bfloat),
    _of_halves("matmul f16 A' B 2048", "C[i,j] += A[k,i]*B[k,j]", {"A": (2048, 2048), "B": (2048, 2048)},
               lambda t, a, b: a.T @ b, 2 * 2048**3),
    _of_halves("matmul f16 A B' 2048", "C[i,j] += A[i,k]*B[j,k]", {"A": (2048, 2048), "B": (2048, 2048)},
               lambda t, a, b: a @ b.T, 2 * 2048**3),
    _of_halves("matmul f16 batch 64x512x512x64", "C[b,i,j] += A[b,i,k]*B[b,k,j]", {"A": (64, 512, 64), "B": (64, 64, 512)},
               lambda t, a, b: a @ b, 2 * 64 * 512 * 512 * 64),
    _of_halves("linear f16 8192x1024 to 4096, relu", "C[i,j] += A[i,k]*B[j,k]\nY[i,j] = max(C[i,j] + b[j], 0)",
               {"A": (8192, 1024), "B": (4096, 1024), "b": (4096,)},
               lambda t, a, b, c: t.relu(t.nn.functional.linear(a, b, c)), 2 * 8192 * 1024 * 4096),
    _of_halves("conv f16 3x3 64 to 64, 16x56x56", CONVOLUTION, {"X": (16, 64, 56, 56), "W": (64, 64, 3, 3)},
               lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), 2 * 16 * 64 * 56 * 56 * 64 * 9),
    _of_halves("conv f16 3x3, channels last",
               "O[n,h,w,m] += (X[n,h+r-1,w+s-1,c] else 0) * W[r,s,c,m] where h in 0:56, w in 0:56",
               {"X": (16, 56, 56, 64), "W": (3, 3, 64, 64)},
               lambda t, x, w: t.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1).permute(
                   0, 2, 3, 1).contiguous(), 2 * 16 * 64 * 56 * 56 * 64 * 9),
    _of_halves("conv f16 1x1 256 to 64, 16x56x56", "O[n,m,p] += X[n,c,p] * W[m,c]", {"X": (16, 256, 3136), "W": (64, 256)},
               lambda t, x, w: t.nn.functional.conv1d(x, w[:, :, None]), 2 * 16 * 64 * 56 * 56 * 256),
    _of_halves("attention f16 64x1024x64", ATTENTION.format(mask=""), dict.fromkeys("QKV", (64, 1024, 64)),
               lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0],
               4 * 64 * 1024 * 1024 * 64),
    _of_halves("attention bf16 64x1024x64", ATTENTION.format(mask=""), dict.fromkeys("QKV", (64, 1024, 64)),
               lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0],
               4 * 64 * 1024 * 1024 * 64, _bfloat),
    *(_byte_product(*s) for s in ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (1000, 1200, 1504), (128, 4096, 4096))),
    _byte_product(4096, 4096, 4096, " by dot products of items", " S1: dot=dot_i8i8 along=k"),
    _byte_product(4096, 4096, 4096, " by multiply-adds", ": none"),
    _of_bytes("matmul i8 A B' 4096", "C[i,j] += i32(A[i,k])*i32(B[j,k])", {"A": (4096, 4096), "B": (4096, 4096)},
              lambda t, a, b: t._int_mm(a, b.T), 2 * 4096**3),
    _of_bytes("conv i8 3x3 64 to 64, 16x56x56", BYTE_CONVOLUTION, {"X": (16, 64, 56, 56), "W": (64, 64, 3, 3)},
              lambda t, x, w: t.nn.functional.conv2d(x.float(), w.float(), padding=1).int(), 2 * 16 * 64 * 56 * 56 * 64 * 9),
    _of_bytes("conv i8 3x3, channels last",
              "O[n,h,w,m] += i32(X[n,h+r-1,w+s-1,c] else 0) * i32(W[r,s,c,m]) where h in 0:56, w in 0:56",
              {"X": (16, 56, 56, 64), "W": (3, 3, 64, 64)},
              lambda t, x, w: t.nn.functional.conv2d(x.float().permute(0, 3, 1, 2), w.float().permute(3, 2, 0, 1), padding=1)
              .permute(0, 2, 3, 1).int().contiguous(), 2 * 16 * 64 * 56 * 56 * 64 * 9),
    Case("matmul batch 64x512x512x64", "C[b,i,j] += A[b,i,k]*B[b,k,j]", {"A": (64, 512, 64), "B": (64, 64, 512)},
         lambda t, a, b: a @ b, 2 * 64 * 512 * 512 * 64),
    Case("matrix times vector 16384", "y[i] += A[i,k]*x[k]", {"A": (16384, 8192), "x": (8192,)}, lambda t, a, x: a @ x),
    Case("vector times matrix 16384", "y[j] += A[k,j]*x[k]", {"A": (16384, 8192), "x": (16384,)}, lambda t, a, x: x @ a),
    Case("conv 3x3 64 to 64, 16x56x56", CONVOLUTION,
         {"X": (16, 64, 56, 56), "W": (64, 64, 3, 3)}, lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1),
         2 * 16 * 64 * 56 * 56 * 64 * 9),
    Case("conv 1x1 256 to 64, 16x56x56", "O[n,m,p] += X[n,c,p] * W[m,c]", {"X": (16, 256, 3136), "W": (64, 256)},
         lambda t, x, w: t.nn.functional.conv1d(x, w[:, :, None]), 2 * 16 * 64 * 56 * 56 * 256),
    Case("depthwise 3x3 16x256x56x56", "O[n,c,h,w] += (X[n,c,h+r-1,w+s-1] else 0) * W[c,r,s] where h in 0:56, w in 0:56",
         {"X": (16, 256, 56, 56), "W": (256, 3, 3)},
         lambda t, x, w: t.nn.functional.conv2d(x, w[:, None], padding=1, groups=256)),
    Case("max pool 3x3/2 64x64x112", POOL,
         {"X": (64, 64, 112, 112)}, lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1)),
    Case("attention 64x1024x64", ATTENTION.format(mask=""), dict.fromkeys("QKV", (64, 1024, 64)),
         lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0],
         4 * 64 * 1024 * 1024 * 64),
    Case("causal attention 64x1024x64", ATTENTION.format(mask=" where j <= i"), dict.fromkeys("QKV", (64, 1024, 64)), _causal,
         2 * 64 * 1024 * 1024 * 64),
    *(_attention(64, 1024, d) for d in (32, 80, 128)), _attention(16, 4096, 64), _attention(12, 128, 64),
    _attention(64, 1, 64, keys=4096), _attention(64, 128, 64, keys=2048),
    _attention(64, 1024, 64, HIDDEN, "hidden attention"),
    *(_attention(64, 1024, d, name="attention f16", draw=_half) for d in (32, 80, 128)),
    _attention(16, 4096, 64, name="attention f16", draw=_half),
    *(_attention(64, 1024, d, HIDDEN, "hidden attention f16", _half) for d in (64, 128)),
    _attention(64, 1024, 64, ATTENTION.format(mask=" where j <= i"), "causal attention f16", _half),
    Case("a + b*c", "Y[i] = A[i] + B[i]*C[i]", dict.fromkeys("ABC", (BIG,)), lambda t, a, b, c: t.addcmul(a, b, c)),
    Case("exp", "Y[i] = exp(A[i])", {"A": (BIG,)}, lambda t, a: t.exp(a)),
    Case("sum", "s += A[i]", {"A": (BIG,)}, lambda t, a: t.sum(a), tolerance=1e-2),
    Case("row sums 16384x4096", "Y[i] += A[i,j]", {"A": (16384, 4096)}, lambda t, a: t.sum(a, 1)),
    Case("row sums 128x524288", "Y[i] += A[i,j]", {"A": (128, 524288)}, lambda t, a: t.sum(a, 1), tolerance=1e-3),
    Case("column sums 16384x4096", "Y[j] += A[i,j]", {"A": (16384, 4096)}, lambda t, a: t.sum(a, 0)),
    Case("transpose 8192", "Y[i,j] = A[j,i]", {"A": (8192, 8192)}, lambda t, a: a.T.contiguous()),
    Case("permute 64x512x32x64", "Y[b,h,i,d] = A[b,i,h,d]", {"A": (64, 512, 32, 64)},
         lambda t, a: a.permute(0, 2, 1, 3).contiguous()),
    Case("softmax 16384x4096", ROWS, {"A": (16384, 4096)}, lambda t, a: t.softmax(a, 1)),
    Case("softmax 65536x1000", ROWS, {"A": (65536, 1000)}, lambda t, a: t.softmax(a, 1)),
    Case("layernorm 65536x768", NORM, {"X": (65536, 768), "G": (768,), "B": (768,)},
         lambda t, x, g, b: t.nn.functional.layer_norm(x, (768,), g, b)),
    Case("argmax of rows 16384x4096", "(M[i], Y[i]) argmax= (A[i,j], j)", {"A": (16384, 4096)},
         lambda t, a: tuple(t.max(a, 1)), tolerance=0),
    Case("prefix sum 2**26", "S[0] = A[0]\nfor i in 1:67108864 { S[i] = S[i-1] + A[i] }", {"A": (BIG,)},
         lambda t, a: t.cumsum(a, 0), tolerance=1e-3),
    Case("prefix sums of rows 4096^2", "S[r,0] = A[r,0]\nfor i in 1:4096 { S[r,i] = S[r,i-1] + A[r,i] }", {"A": (4096, 4096)},
         lambda t, a: t.cumsum(a, 1), tolerance=1e-3),
    Case("prefix sum 2**26 + 3", "S[0] = A[0]\nfor i in 1:67108867 { S[i] = S[i-1] + A[i] }", {"A": (BIG + 3,)},
         lambda t, a: t.cumsum(a, 0), tolerance=1e-3),
    Case("prefix sums of columns 4096^2", "S[0,r] = A[0,r]\nfor i in 1:4096 { S[i,r] = S[i-1,r] + A[i,r] }",
         {"A": (4096, 4096)}, lambda t, a: t.cumsum(a, 0), tolerance=1e-3),
    Case("running maxima of rows 65536x1000", "M[r,i] max= A[r,k] where k <= i, i in 0:1000", {"A": (65536, 1000)},
         lambda t, a: t.cummax(a, 1).values, tolerance=0),
    Case("histogram 2**26 of 256", "H[x[i]] += 1 -> (i64[256] H)", {"x": (BIG,)},
         lambda t, x: t.bincount(x, minlength=256), 0, 0,
         {"x": _below(256)}),
    Case("histogram 2**26 of 256, all in one", "H[x[i]] += 1 -> (i64[256] H)", {"x": (BIG,)},
         lambda t, x: t.bincount(x, minlength=256), 0, 0, {"x": _below(1)}),
    Case("histogram of 2**26 bytes", "H[x[i]] += 1 -> (i64[256] H)", {"x": (BIG,)},
         lambda t, x: t.bincount(x, minlength=256), 0, 0, {"x": _bytes}),
    Case("histogram 2**26 of 100000", "H[x[i]] += 1 -> (i64[100000] H)", {"x": (BIG,)},
         lambda t, x: t.bincount(x, minlength=100000), 0, 0, {"x": _below(100000)}),
    Case("histogram 2**26 of 16x64", "H[c[i],x[i]] += 1 -> (i64[16,64] H)", {"c": (BIG,), "x": (BIG,)},
         lambda t, c, x: t.bincount(c * 64 + x, minlength=1024).reshape(16, 64), 0, 0, {"c": _below(16), "x": _below(64)}),
    Case("histograms of rows 4096^2 of 64", "H[r,x[r,i]] += 1 -> (i64[4096,64] H)", {"x": (4096, 4096)},
         lambda t, x: t.zeros((4096, 64), dtype=t.int64, device=x.device).scatter_add_(
             1, x.long(), t.ones_like(x, dtype=t.int64)), 0, 0, {"x": _below(64)}),
    Case("sums of 2**26 bytes in 256", "H[x[i]] += w[i] -> (i64[256] H)", {"x": (BIG,), "w": (BIG,)},
         lambda t, x, w: t.zeros(256, dtype=t.int64, device=x.device).index_add_(0, x, w.long()), 0, 0,
         {"x": _below(256), "w": _bytes}),
    Case("embedding 2**17 of 50000x256", "Y[i,d] = E[x[i],d]", {"x": (1 << 17,), "E": (50000, 256)}, lambda t, x, e: e[x], 0, 0,
         {"x": _below(50000)}),
    Case("stencil of 5 points 8192", "Y[i,j] = 0.25*(A[i,j+1] + A[i+2,j+1] + A[i+1,j] + A[i+1,j+2]) - A[i+1,j+1]",
         {"A": (8192, 8192)},
         lambda t, a: 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) - a[1:-1, 1:-1]),
    Case("16 steps of heat 4096, copied back", HEAT, {"X": (4096, 4096)}, _heat),
    Case("Cholesky 4096 times 32", CHOLESKY, {"X": (4096, 32, 32)}, lambda t, a: t.linalg.cholesky(a), draw={"X": _positive}),
    Case("Cholesky 512 times 64", CHOLESKY, {"X": (512, 64, 64)}, lambda t, a: t.linalg.cholesky(a), draw={"X": _positive}),
    *(Case(f"Fourier transforms {count} of {n}", _transform(n), {"X": (count, n), "w": (n // 2,)},
           lambda t, x, w: t.fft.fft(x), draw={"X": _complex, "w": _roots})
      for count, n in ((1 << 18, 64), (1 << 16, 256), (1 << 14, 1024))),
    Case("lower triangle of A B 4096", "C[i,j] += A[i,k]*B[k,j] where j <= i", {"A": (4096, 4096), "B": (4096, 4096)},
         lambda t, a, b: t.tril(a @ b), 4096**3),
)
