"""Coordinates that are digits of one number, in one dimension."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.machine import DEVICES
from polytc.program.scalars import F32, I64
from polytc.targets.ctext import joined_digits
from polytc.targets.opencl.target import OpenCLTarget
from tests.codegen import loop_programs as P

G, I = L.Var("g"), L.Var("i")
X, Y = L.Buffer("X", F32, (4, 5, 7)), L.Buffer("Y", F32, (20, 7))


def digits(number: L.Expr, n: int) -> tuple[L.Expr, L.Expr]:
    return L.binary("//", number, L.const(n)), L.binary("%", number, L.const(n))


def kernel(*indices: L.Expr) -> L.Kernel:
    """for g in 0:20 { for i in 0:7 { Y[g,i] = X[indices] } }"""
    store = L.Store(Y, (G, I), L.Load(X, indices, F32))
    return P.module("rows", (X, Y), ("Y",), P.loop("g", 20, P.loop("i", 7, store))).kernels[0]


def loaded(k: L.Kernel) -> L.Load:
    assert isinstance(k.body, L.For)
    assert isinstance(k.body.body, L.For)
    assert isinstance(k.body.body.body, L.Store)
    assert isinstance(k.body.body.body.value, L.Load)
    return k.body.body.body.value


def test_digits_are_joined() -> None:
    found = joined_digits.joined(kernel(*digits(G, 5), I))
    (index,) = loaded(found).indices
    assert index == P.add(L.binary("*", G, L.const(7)), I)
    assert [b.shape for b in found.args] == [(140,), (20, 7)]


def test_vectors_are_joined() -> None:
    found = joined_digits.joined(kernel(*digits(G, 5), L.Ramp(I, 1, 4)))
    (index,) = loaded(found).indices
    assert index == L.Ramp(P.add(L.binary("*", G, L.const(7)), I), 1, 4, I64)


@pytest.mark.parametrize("indices", [
    (*digits(G, 4), I),                                                             # of another number
    (*reversed(digits(G, 5)), I), (L.const(1), L.binary("%", G, L.const(5)), I),
    (*digits(G, 5), L.Broadcast(I, 4, I64)), (*digits(G, 5), L.Load(X, (G, I, I), I64))])
def test_others_stay(indices: tuple[L.Expr, ...]) -> None:
    before = kernel(*indices)
    assert joined_digits.joined(before) is before


def test_one_place_that_cannot_leaves_the_buffer() -> None:
    block = L.Block((L.Store(Y, (G, I), L.Load(X, (*digits(G, 5), I), F32)),
                     L.Store(Y, (G, I), L.Load(X, (G, I, L.Load(X, (I, I, I), I64)), F32))))
    before = P.module("rows", (X, Y), ("Y",), P.loop("g", 20, P.loop("i", 7, block))).kernels[0]
    assert joined_digits.joined(before) is before


def test_places_are_read_as_they_are_computed(targets: tuple[str, ...]) -> None:
    """Extents in the text, and no division where rows of two dimensions lie behind each other."""
    text, shapes = "M[b,i] max= X[b,i,j]; Y[b,i,j] = X[b,i,j] - M[b,i]", {"X": (3, 50, 100)}
    source = str(polytc.lower(text, OpenCLTarget(DEVICES["nvidia-sm90"]), shapes=shapes).source)
    assert "/ 50" not in source
    target = OpenCLTarget(DEVICES["nvidia-sm90"])
    source = str(polytc.lower("Y[n,c,h] = X[c,n,h] + 1", target, shapes={"X": (60, 70, 90)}).source)
    assert "X[(c * 70 + n) * 90 + h]" in source
    if "opencl" in targets:
        x = np.random.default_rng(0).normal(size=(3, 50, 100)).astype("f4")
        found = polytc.compile(text, OpenCLTarget(DEVICES["nvidia-sm90"]))(x)
        found = found[-1] if isinstance(found, tuple) else found
        np.testing.assert_array_equal(found, x - x.max(2, keepdims=True))
