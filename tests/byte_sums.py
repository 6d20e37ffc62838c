"""Sums of products of bytes, the same in NumPy's whole numbers of 64 bits, and bytes at the ends of their ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

NUMPY = {"i8": np.int8, "u8": np.uint8}
SIGNS = [("i8", "i8"), ("u8", "u8"), ("u8", "i8"), ("i8", "u8")]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sum:
    """text: of a program with inputs X and W, and others of their own types; expected: of the inputs in 64 bits."""

    text: str
    shapes: dict[str, tuple[int, ...]]
    expected: Callable[[Arrays], np.ndarray]

    def types(self, signs: tuple[str, str]) -> dict[str, str]:
        return {n: {"X": signs[0], "W": signs[1], "b": "i32", "z": "i8"}.get(n, "f32") for n in self.shapes}

    def inputs(self, signs: tuple[str, str], seed: int = 0, extreme: bool = False) -> Arrays:
        """Random ones; where they are extreme, X and W have nothing but the ends of their ranges."""
        rng, made = np.random.default_rng(seed), Arrays()
        for n, dtype in self.types(signs).items():
            low, high = {"i8": (-128, 128), "u8": (0, 256), "i32": (-(2**31), 2**31), "f32": (0, 1)}[dtype]
            if dtype == "f32":
                made[n] = rng.standard_normal(self.shapes[n]).astype(np.float32)
            elif extreme and n in "XW":
                made[n] = rng.choice([low, high - 1], self.shapes[n], p=[0.9, 0.1]).astype(NUMPY[dtype])
            else:
                made[n] = rng.integers(low, high, self.shapes[n]).astype(NUMPY.get(dtype, np.int32))
        return made

    def wanted(self, given: Arrays) -> np.ndarray:
        """As i32, which wraps; f32 as it is."""
        found = self.expected({n: a.astype(np.int64) if a.dtype != np.float32 else a for n, a in given.items()})
        return found.astype(np.float32) if found.dtype.kind == "f" else (found & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def windows(x: np.ndarray, axes: tuple[int, int], pad: int = 0, value: int = 0, size: int = 3) -> np.ndarray:
    """Windows of size x size along two axes, behind the others."""
    wide = np.pad(x, [(pad, pad) if n in axes else (0, 0) for n in range(x.ndim)], constant_values=value)
    return np.lib.stride_tricks.sliding_window_view(wide, (size, size), axes)


PRODUCTS = {
    "rows": Sum("C[i,j] += i32(X[i,k])*i32(W[k,j])", {"X": (72, 64), "W": (64, 68)}, lambda a: a["X"] @ a["W"]),
    "an odd sum": Sum("C[i,j] += i32(X[i,k])*i32(W[k,j])", {"X": (37, 67), "W": (67, 45)}, lambda a: a["X"] @ a["W"]),
    "X'": Sum("C[i,j] += i32(X[k,i])*i32(W[k,j])", {"X": (64, 72), "W": (64, 40)}, lambda a: a["X"].T @ a["W"]),
    "W'": Sum("C[i,j] += i32(X[i,k])*i32(W[j,k])", {"X": (72, 64), "W": (40, 64)}, lambda a: a["X"] @ a["W"].T),
    "both, the other way round": Sum("C[i,j] += i32(W[j,k])*i32(X[k,i])", {"X": (68, 72), "W": (40, 68)},
                                     lambda a: (a["W"] @ a["X"]).T),
    "a batch": Sum("C[b,i,j] += i32(X[b,i,k])*i32(W[b,k,j])", {"X": (3, 40, 64), "W": (3, 64, 36)}, lambda a: a["X"] @ a["W"]),
    "a vector": Sum("y[i] += i32(X[i,k])*i32(W[k])", {"X": (70, 260), "W": (260,)}, lambda a: a["X"] @ a["W"]),
    "zero points": Sum("C[i,j] += (i32(X[i,k]) - 3)*(i32(W[k,j]) - i32(z[j]))", {"X": (40, 66), "W": (66, 36), "z": (36,)},
                       lambda a: (a["X"] - 3) @ (a["W"] - a["z"])),
    "zero points that are added": Sum("C[i,j] += (i32(X[i,k]) + 128)*i32(W[j,k])", {"X": (40, 64), "W": (36, 64)},
                                      lambda a: (a["X"] + 128) @ a["W"].T),
    "a bias and a scale": Sum("C[i,j] += i32(X[i,k])*i32(W[k,j])\nY[i,j] = max(f32(C[i,j])*s[j], 0)",
                              {"X": (40, 64), "W": (64, 36), "s": (36,)},
                              lambda a: np.maximum((a["X"] @ a["W"]).astype(np.float32) * a["s"], np.float32(0))),
    "windows": Sum("O[n,m,h,w] += i32(X[n,c,h+r,w+s])*i32(W[m,c,r,s])", {"X": (1, 32, 18, 18), "W": (32, 32, 3, 3)},
                   lambda a: np.einsum("nchwrs,mcrs->nmhw", windows(a["X"], (2, 3)), a["W"])),
    "windows with a border": Sum(
        "O[n,m,h,w] += i32(X[n,c,h+r-1,w+s-1] else 0)*i32(W[m,c,r,s]) where h in 0:14, w in 0:14",
        {"X": (1, 32, 14, 14), "W": (36, 32, 3, 3)},
        lambda a: np.einsum("nchwrs,mcrs->nmhw", windows(a["X"], (2, 3), 1), a["W"])),
    "windows with a zero point around": Sum(
        "O[n,m,h,w] += (i32(X[n,c,h+r-1,w+s-1] else 7) - 7)*(i32(W[m,c,r,s]) - 2) where h in 0:14, w in 0:14",
        {"X": (1, 32, 14, 14), "W": (36, 32, 3, 3)},
        lambda a: np.einsum("nchwrs,mcrs->nmhw", windows(a["X"] - 7, (2, 3), 1), a["W"] - 2)),
    "windows of an odd number of channels": Sum(
        "O[n,m,h,w] += i32(X[n,c,h+r,w+s])*i32(W[m,c,r,s])", {"X": (1, 19, 18, 18), "W": (32, 19, 3, 3)},
        lambda a: np.einsum("nchwrs,mcrs->nmhw", windows(a["X"], (2, 3)), a["W"])),
    "windows, channels last": Sum("O[n,h,w,m] += i32(X[n,h+r,w+s,c])*i32(W[r,s,c,m])",
                                  {"X": (1, 18, 18, 32), "W": (3, 3, 32, 32)},
                                  lambda a: np.einsum("nhwcrs,rscm->nhwm", windows(a["X"], (1, 2)), a["W"])),
}


def random_sum(seed: int) -> tuple[Sum, tuple[str, str]]:
    """A product of random sizes, layouts, zero points and what follows; and signs."""
    rng = np.random.default_rng(seed)
    batch, (i, j, k) = int(rng.integers(0, 4)), (int(n) for n in rng.integers(5, 90, 3))
    turned, zeros, signs = rng.integers(0, 2, 2), rng.choice([-200, -1, 0, 5, 255], 2), SIGNS[rng.integers(len(SIGNS))]
    first, second = "ik"[::-1] if turned[0] else "ik", "kj"[::-1] if turned[1] else "kj"
    extent = {"i": i, "j": j, "k": k, "n": batch}
    kept = "n" if batch else ""
    factors = [f"(i32({n}[{','.join(kept + at)}]) - {z})" if z > 0 else f"(i32({n}[{','.join(kept + at)}]) + {-z})" if z else
               f"i32({n}[{','.join(kept + at)}])" for n, at, z in (("X", first, zeros[0]), ("W", second, zeros[1]))]
    text, shapes = f"C[{','.join(kept + 'ij')}] += {'*'.join(factors)}", {
        "X": tuple(extent[c] for c in kept + first), "W": tuple(extent[c] for c in kept + second)}
    bias = bool(rng.integers(0, 2))
    if bias:
        text += f"\nY[{','.join(kept + 'ij')}] = C[{','.join(kept + 'ij')}] + b[j]"
        shapes["b"] = (j,)

    def expected(a: Arrays) -> np.ndarray:
        found = np.einsum(f"{kept}{first},{kept}{second}->{kept}ij", a["X"] - zeros[0], a["W"] - zeros[1])
        return found + a["b"] if bias else found
    return Sum(text, shapes, expected), signs
