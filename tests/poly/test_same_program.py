"""Sizes at which a text is the program that it is for all sizes, against the front end at each of them."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

import polytc
from polytc import symbolic
from polytc.errors import PolytcError
from polytc.export import formula
from polytc.lang.parsing import syntax as sx
from polytc.poly import in_bounds
from polytc.program.affine import at
from polytc.program.sizes import specialised
from tests.rewrite.equal import same_results

MINIMUM = "def f(f32[m] A, f32[k] Z) -> (C, S) { C[i] = Z[i]*2 where i in 0:k, i < m\nS[i] = A[i] }"


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "limits"), [
    (MINIMUM, ["-k + m"]),
    ("def f(f32[m] A) -> (C) { C[i] = A[i]*2 }", []),
    ("def f(f32[m] A) -> (C) { C[i] = A[5*i] }", []),
    ("def f(f32[m] A, f32[n] B) -> (C) { C[i] = A[i] + B[i] }", ["-m + n", "m - n"]),
    ("def f(f32[m] A, f32[n] B) -> (C) { assume m >= n + 3\nC[i] = A[i] + B[i] where i in 0:n }", ["m - n - 3"]),
    ("def f(f32[m] A) -> (C) { assume m % 4 == 0\nC[i] = A[4*i] }", ["-m + 4*(m//4)", "m - 4*(m//4)"]),
    ("def f(f32[m] A) -> (C) { assume m < 1000 || m > 2000\nC[i] = A[i] }", ["-m + 999"]),
    ("def f(f32[m] A) -> (C) { C[i] max= A[2*i + r] where r in 0:3 }", ["m - 3"]),
    ("def f(f32[m] A) -> (C) { C[i] = A[i] where i in 0:5\nC[i] = 2*A[i] where i in 5:m }", ["m - 5"]),
    ("def f(f32[m] A) -> (C) { C[i] = A[(i + 1) % m] where i in 0:m }", []),
    ("def f(f32[m,m] A) -> (C) { C[i] += A[i,j] where j <= i }", []),
    ("def f(f32[m] A) -> (C) { C[i] = A[i] / f32(m) }", []),
    ("def f(f32[m,n] A) -> (C) { C[i,j] = A[i,j] + f32(i*n + j) }", []),
    ("def f(f32[m] A) -> (C) { C[i] = A[i]\nfor i in 1:m { C[i] = C[i-1] + A[i] } }", []),
    ("def f(inout f32[m] A) { for t in 0:3 { B[i] = A[i-1] + A[i+1]\nA[i] = B[i] where i in 1:m-1 } }", ["m - 2"]),
])
def test_limits_are_those_of_the_front_end(text: str, limits: list[str]) -> None:
    """A program whose sizes are allowed means what the one for these sizes means; others are refused, or are other programs."""
    signature = polytc.lang.signature(text)
    names = polytc.lang.dimensions(text)
    dims = {p.name: tuple(e.id for e in names[p.name] if isinstance(e, sx.Name)) for p in signature.inputs}
    program = polytc.build(text, shapes=dims)
    forms = in_bounds.size_limits(program)
    assert sorted(str(formula.limit(f)) for f in forms) == sorted(limits)
    for numbers in product((1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 516), repeat=len(program.sizes)):
        sizes = dict(zip(program.sizes, numbers, strict=True))
        try:
            fixed = polytc.build(text, shapes={n: tuple(sizes[d] for d in shape) for n, shape in dims.items()})
        except PolytcError:
            fixed = None
        if all(at(f, sizes) >= 0 for f in forms):
            assert fixed is not None, sizes
            assert [t.shape for t in map(fixed.tensor, fixed.arrays)] == [
                t.shape for t in map(specialised(program, sizes).tensor, fixed.arrays)]
            if max(numbers) < 12:
                same_results(fixed, specialised(program, sizes))
        elif fixed is not None:
            shapes = [[fixed.tensor(n).shape, specialised(program, sizes).tensor(n).shape] for n in fixed.arrays]
            assert any(a != b for a, b in shapes), sizes


def test_the_kernel_for_all_sizes_is_right_where_formulas_round() -> None:
    op = polytc.compile("C[i] = A[5*i]", "interp", shapes={"A": ("m",)}, dtypes={"A": "f32"})
    for m in range(511, 523):
        a = np.arange(m, dtype=np.float32)
        np.testing.assert_array_equal(op(a), a[::5])
    assert op._open is not None
    assert op._open.kernels == 1


def test_nobody_who_does_not_export_waits_for_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, "same_sizes", lambda *_: pytest.fail("nobody asked"))
    program = polytc.build(MINIMUM, shapes={"A": ("m",), "Z": ("k",)})
    monkeypatch.undo()
    assert program.same is not None
    assert program.same() == pickle.loads(pickle.dumps(program)).same() == "[m, k] -> {  : 0 < k <= m }"
