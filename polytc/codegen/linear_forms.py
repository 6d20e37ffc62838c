"""Linear forms of integer expressions of the Loop AST: sums of atoms with coefficients."""

from __future__ import annotations

from typing import TypeAlias

from polytc.codegen import loops
from polytc.program.scalars import I64

Terms: TypeAlias = dict[loops.Expr, int]
"""A sum: atom -> coefficient; the number stands under ONE. This is program.affine.Affine of scalar expressions as a dictionary,
since here terms come and go by the million."""

ONE = loops.Const(1, I64)
SMALL = 1 << 31
"""Coefficients below this do not make sums of loop variables wrap; others may, as in a hash of the indices."""


def linear(e: loops.Expr) -> Terms:
    """The linear form of a scalar i64 expression; what is not linear is an atom."""
    match e:
        case loops.Var():
            return {e: 1}
        case loops.Const():
            return {ONE: int(e.value)} if e.value else {}
        case loops.Binary(op="+" | "-"):
            return added(linear(e.a), linear(e.b), 1 if e.op == "+" else -1)
        case loops.Binary(op="*", b=loops.Const() as factor, a=rest) | loops.Binary(op="*", a=loops.Const() as factor, b=rest):
            return scaled(linear(rest), int(factor.value))
        case loops.Unary(op="-"):
            return scaled(linear(e.a), -1)
        case _:
            return {e: 1}


def scaled(terms: Terms, factor: int) -> Terms:
    """factor * terms"""
    return {a: c * factor for a, c in terms.items()} if factor else {}


def added(a: Terms, b: Terms, sign: int) -> Terms:
    """a + sign * b"""
    total = dict(a)
    for atom, c in b.items():
        total[atom] = total.get(atom, 0) + sign * c
    return total if all(total.values()) else {a: c for a, c in total.items() if c}


def product(a: Terms, b: Terms) -> Terms:
    """a * b; an atom of its own if neither is a number."""
    for number, other in ((b, a), (a, b)):
        if not number or (len(number) == 1 and ONE in number):
            return scaled(other, number.get(ONE, 0))
    return {loops.Binary("*", build(a), build(b), I64): 1}


def build(terms: Terms) -> loops.Expr:
    """The expression of a linear form: atoms in the order of their text, the number last."""
    result: loops.Expr | None = None
    atoms = [a for a in terms if not isinstance(a, loops.Const)]
    for atom in sorted(atoms, key=loops.format_expr) if len(atoms) > 1 else atoms:
        c = _wrapped(terms[atom])
        if c == 0:
            continue
        term = atom if abs(c) == 1 else loops.Binary("*", atom, loops.const(abs(c)), I64)
        if result is None:
            result = term if c > 0 else loops.Binary("*", atom, loops.const(c), I64)
        else:
            result = loops.Binary("+" if c > 0 else "-", result, term, I64)
    number = _wrapped(terms.get(ONE, 0))
    if result is None:
        return loops.const(number)
    return result if not number else loops.Binary("+" if number > 0 else "-", result, loops.const(abs(number)), I64)


def _wrapped(number: int) -> int:
    """The i64 with these low 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def small(terms: Terms) -> bool:
    """Is the form's value in 64 bits the sum of its terms?"""
    return all(abs(c) < SMALL << (30 if atom == ONE else 0) for atom, c in terms.items())


def plus(terms: Terms, number: int) -> Terms:
    """terms + number"""
    total = terms.get(ONE, 0) + number
    return {**{a: c for a, c in terms.items() if a != ONE}, **({ONE: total} if total else {})}
