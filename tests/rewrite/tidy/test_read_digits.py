"""Indices of which reads take the digits are two indices: what is split, what stays, and the same results."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.rewrite.tidy import read_digits
from tests.rewrite.equal import same_results

R = np.random.default_rng(5)


@pytest.mark.parametrize(("text", "shapes", "expected"), [
    ("y[i] += W[i,k//2]*x[k]*v[k%2]", {"W": (9, 32), "x": (64,), "v": (2,)},
     "y[i] += W[i, k_high] * x[2 * k_high + k_low] * v[k_low]"),
    ("D[i] = i % 2 == 0 ? x[i//2] : y[i//2]", {"x": (8,), "y": (8,)},
     "D[2 * i_high + i_low] = i_low == 0 ? x[i_high] : y[i_high]"),
    ("D[i,j] = X[i,j]*s[j%2]", {"X": (3, 8), "s": (2,)}, "D[i, 2 * j_high + j_low] = X[i, 2 * j_high + j_low] * s[j_low]"),
    ("Y[m,h] += X[c+3*(m//4),h]*W[m,c]", {"X": (6, 5), "W": (8, 3)}, "Y[4 * m_high + m_low, h] += "),
    ("y += x[k//2]*z[k]*(k%2 + 1) where k >= i, i in 0:9, k in 4:16", {"x": (8,), "z": (16,)}, None),
    ("y[i] += W[i,k//2]*x[k%2]*z[k//8]*v[k%8] where k in 2:18", {"W": (9, 9), "x": (2,), "z": (3,), "v": (8,)},
     "W[i, k_high] * x[k_low] * z[k_high // 4] * v[2 * (k_high % 4) + k_low]"),
])
def test_split(text, shapes, expected):
    before = stages.build(text, shapes, {})
    after = read_digits.split(before)
    assert after != before
    if expected is not None:
        assert expected in str(after)
    same_results(before, after)


@pytest.mark.parametrize(("text", "shapes"), [
    ("y[i] += W[i,k//2]*x[k]", {"W": (9, 32), "x": (64,)}),  # one digit of a sum
    ("y[i] += W[i,k%4]*x[k//4]", {"W": (9, 4), "x": (16,)}),
    ("D[i,j] = X[i,j]*s[i%2]", {"X": (8, 3), "s": (2,)}),  # not along the memory of the result
    ("y[i] += W[i,k//2]*x[k]*(k%2 + 1) where k in 0:63", {"W": (9, 32), "x": (64,)}),  # half of a digit is left
    ("y[i] += W[i,k//2]*x[k]*(k%2 + 1) where k in 1:63", {"W": (9, 32), "x": (64,)}),
    ("y[i] += W[i,k//2]*x[k//3]*(k%2 + 1) where k in 0:60", {"W": (9, 32), "x": (64,)}),  # two kinds of digits
    ("y[i] += W[i,(k+1)//2]*x[k]*(k%2 + 1) where k in 0:62", {"W": (9, 32), "x": (64,)}),
    ("D[i] = x[i//3]", {"x": (8,)}),  # three elements side by side are no vector
    ("D[i] = x[i//16]", {"x": (8,)}),
    ("D[i] = i % 2 == 0 ? x[i] : -x[i]", {"x": (8,)}),  # no read has digits
    ("D[i,i//2] += x[i//2]", {"x": (8,)}),
    ("for t in 0:8 { y[t,i] = x[t//2,i] }", {"x": (4, 8)}),  # the order of a loop
])
def test_what_stays(text, shapes):
    before = stages.build(text, shapes, {})
    assert read_digits.split(before) == before


def test_digits_of_what_one_sum_reads_are_those_of_the_sum():
    """Not of a temporary, which then is computed where it is read."""
    text = "D[i,k] = (W[i,k//2] - k%2)*s[i,k//16];  y[i] += D[i,k]*x[k] -> (y)"
    before = stages.build(text, {"W": (9, 32), "s": (9, 4), "x": (64,)}, {})
    after = read_digits.split(before)
    assert "y[i] += (W[i, k_high] - f32(k_low)) * s[i, k_high // 8] * x[2 * k_high + k_low]" in str(after)
    assert "D" not in {t.name for t in after.tensors}
    same_results(before, after)


def test_open_sizes_stay():
    op = polytc.compile("D[i] = i % 2 == 0 ? x[i//2] : y[i//2]", shapes={"x": ("N",), "y": ("N",)}, symbolic=True)
    for n in (1, 5, 64):
        x, y = R.random(n, np.float32), R.random(n, np.float32)
        assert np.array_equal(op(x=x, y=y), np.stack([x, y], 1).ravel())


@pytest.mark.part(6)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 33, 100])
def test_on_targets(targets: tuple[str, ...], n: int) -> None:
    w, x = R.integers(0, 255, (5, n)).astype(np.uint8), R.integers(-3, 4, 2 * n).astype(np.float32)
    four_bits = np.stack([w & 15, w >> 4], -1).reshape(5, 2 * n).astype(np.float32)
    a = R.random((8, n, n), np.float32)
    for target in targets:
        text = f"y[i] += f32((i32(W[i,k//2])>>(4*(k%2)))&15)*x[k] where k in 0:{2 * n}"
        assert np.array_equal(polytc.compile(text, target)(W=w, x=x), four_bits @ x)
        assert np.array_equal(polytc.compile("D[i,j] = a[1,i//2,j//2]", target)(a=a), a[1].repeat(2, 0).repeat(2, 1))
        text = f"D[c,h,w] = a[4*c+2*(h%2)+w%2,h//2,w//2] where c in 0:2, h in 0:{2 * n}, w in 0:{2 * n}"
        shuffled = a.reshape(2, 2, 2, n, n).transpose(0, 3, 1, 4, 2).reshape(2, 2 * n, 2 * n)
        assert np.array_equal(polytc.compile(text, target)(a=a), shuffled)
