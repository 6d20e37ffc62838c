"""Operators of bits for all pairs of types: numpy says the type and the value, of counts beyond the bits, too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc.errors import CompileError

R = np.random.default_rng(5)
TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
OPERATORS: dict[str, Callable[..., np.ndarray]] = {
    "<<": np.left_shift, ">>": np.right_shift, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}


def numbers(kind: str) -> np.ndarray:
    if kind == "?":
        return R.integers(0, 2, 40).astype(bool)
    ends = np.iinfo(kind)
    return R.integers(ends.min, ends.max, 40, dtype=kind, endpoint=True)


def counts(kind: str) -> np.ndarray:
    return numbers(kind) if kind == "?" else R.integers(-9 if kind[0] == "i" else 0, 80, 40).astype(kind)


@pytest.mark.part(12)
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("a", TYPES)
def test_two_types(a: str, op: str, targets: tuple[str, ...]) -> None:
    given, wanted, text = {"x": numbers(a)}, {}, []
    for b in TYPES:
        y = counts(b) if op in ("<<", ">>") else numbers(b)
        if {a, b} == {"?"} and op in ("<<", ">>") or "u8" in (a, b) and {a[0], b[0]} == {"i", "u"}:
            continue                                                    # refused, see below
        name = f"y{TYPES.index(b)}"
        given[name], wanted[name] = y, OPERATORS[op](given["x"], y)
        text.append(f"O{name}[i] = x[i] {op} {name}[i]")
    text.append(f"-> ({', '.join(f'O{n}' for n in wanted)})")
    for target in ("evaluate", *targets):
        found = polytc.run("\n".join(text), target=target, **given)
        for f, (n, w) in zip(found, wanted.items(), strict=True):
            assert f.dtype == w.dtype, n
            np.testing.assert_array_equal(f, w, err_msg=f"{a} {op} {n} on {target}")


@pytest.mark.parametrize("kind", TYPES)
def test_numbers(kind: str) -> None:
    x, few = numbers(kind), R.integers(0, 2, 40).astype(kind)
    given = {"A": x << 3, "B": x >> 1, "C": x & 0x5, "D": x ^ 0b11, "E": 1 << few, "F": x << 64, "G": x >> 100}
    text = "A[i] = x[i] << 3; B[i] = x[i] >> 1; C[i] = x[i] & 0x5; D[i] = x[i] ^ 0b11; E[i] = 1 << y[i]; F[i] = x[i] << 64\n" \
           "G[i] = x[i] >> 100\n-> (A, B, C, D, E, F, G)"
    for target in ("evaluate", "cpu"):
        for found, wanted in zip(polytc.run(text, x=x, y=few, target=target), given.values(), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", OPERATORS)
def test_what_has_no_type_in_common(op: str) -> None:
    with pytest.raises(CompileError, match="u64 and i32 have no integer type in common") as raised:
        polytc.build(f"Y[i] = x[i] {op} n[i]", {"x": (3,), "n": (3,)}, {"x": "u64", "n": "i32"})
    assert raised.value.code == "E304"
    with pytest.raises(TypeError):
        OPERATORS[op](numbers("u8"), numbers("i4"))
