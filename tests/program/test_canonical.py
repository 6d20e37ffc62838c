"""The canonical text: the same for programs that differ in names only, another for any other difference."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from polytc.lang import build
from polytc.program import program as pr
from polytc.program.canonical import canonical
from polytc.program.scalars import DTYPES, F32, F64

BASE = build("def f(A[n,m], B[m,n]) -> (C) { T[i,j] += A[i,k] * B[k,j]; C[i,j] += i < 2 ? max(T[i,j] + (B[i-1,j] else 0.5), 0)"
             " : f32(i) where j <= 7 - i }", {"A": (8, 8), "B": (8, 8)})


def test_names_do_not_count() -> None:
    other = build("def other(X[a,b], Y[b,a]) -> (out) { tmp[y,x] += X[y,r] * Y[r,x]; "
                  "out[p,q] += p < 2 ? max(tmp[p,q] + (Y[p-1,q] else 0.5), 0) : f32(p) where q <= 7 - p }",
                  {"X": (8, 8), "Y": (8, 8)})
    assert canonical(BASE) == canonical(other)
    assert canonical(BASE, names=True) != canonical(other, names=True)
    assert canonical(BASE, names=True) == canonical(replace(BASE, name="other"), names=True)


@pytest.mark.parametrize(("text", "shapes"), [
    ("C[i] = A[i] + B[i] where i in 0:8", {"A": (8,), "B": (9,)}),
    ("C[i] = A[i] - B[i]", {"A": (8,), "B": (8,)}),
    ("C[i] = A[i] + A[i]", {"A": (8,), "B": (8,)}),
    ("C[i] = A[i] + B[i] + 0", {"A": (8,), "B": (8,)}),
    ("C[i] = A[i] + B[i] + 0.5", {"A": (8,), "B": (8,)}),
    ("C[i] = A[i] + B[i] where i in 0:7", {"A": (8,), "B": (8,)}),
    ("C[i] = A[i] + B[7-i]", {"A": (8,), "B": (8,)}),
    ("C[i] max= A[i] + B[i]", {"A": (8,), "B": (8,)}),
    ("C[i] += A[i] + B[i]", {"A": (8,), "B": (8,)}),
])
def test_everything_else_does(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert canonical(build(text, shapes)) != canonical(build("C[i] = A[i] + B[i]", {"A": (8,), "B": (8,)}))


def test_the_type_of_a_number_counts() -> None:
    texts = {canonical(build("C[i] = A[i] * 2", {"A": (8,)}, {"A": dtype})) for dtype in DTYPES if dtype != "bool"}
    assert len(texts) == len(DTYPES) - 1
    statement = BASE.statements[0]
    assert isinstance(statement.value, pr.Const)
    wide = replace(BASE, statements=(replace(statement, value=replace(statement.value, dtype=F64)), *BASE.statements[1:]))
    minus = replace(BASE, statements=(replace(statement, value=pr.Const(-0.0, F32)), *BASE.statements[1:]))
    assert len({canonical(BASE), canonical(wide), canonical(minus)}) == 3


def test_constants_and_precision_count() -> None:
    assert len({canonical(BASE), canonical(replace(BASE, precise=True)), canonical(replace(BASE, constants=("A",))),
                canonical(replace(BASE, constants=("B",)))}) == 4


def test_every_field_of_the_classes_is_written() -> None:
    """A field that is left out must be one of those that carry no meaning, now and when classes grow."""
    left_out = {pr.Program: {"name", "same"}, pr.Statement: {"name", "span"}, pr.Tensor: {"title"},
                pr.Range: {"down"}, pr.Read: {"shielded"}, pr.Select: {"skips"}}
    from polytc.program.canonical import _layout
    for kind in (pr.Program, pr.Statement, pr.Tensor, pr.Range, pr.Const, pr.Index, pr.Read, pr.Unary, pr.Binary, pr.Call,
                 pr.Cast, pr.Select):
        assert {f.name for f in fields(kind)} - {name for name, _ in _layout(kind)} == left_out.get(kind, set())
