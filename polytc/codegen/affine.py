"""Affine forms of index expressions.

An address is `sum(coefficient * atom) + offset + lane offset`: atoms are scalar expressions, lane offsets are known numbers.
So neighbouring accesses share everything but a constant, and the pattern of a vector access is known when code is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polytc.codegen import loops, traverse
from polytc.program.scalars import I64


@dataclass(frozen=True)
class Affine:
    """terms: (atom, coefficient != 0) in order of appearance; offset: constant part; lanes: what each lane adds, () for a
    scalar. E.g. ramp(8*i + 1, 2, 4) is terms ((i, 8),), offset 1, lanes (0, 2, 4, 6)."""

    terms: tuple[tuple[loops.Expr, int], ...] = ()
    offset: int = 0
    lanes: tuple[int, ...] = ()

    def plus(self, other: Affine) -> Affine:
        """The sum."""
        total = dict(self.terms)
        for atom, coefficient in other.terms:
            total[atom] = total.get(atom, 0) + coefficient
        terms = tuple((a, c) for a, c in total.items() if c)
        return Affine(terms, self.offset + other.offset, _add_lanes(self.lanes, other.lanes))

    def times(self, factor: int) -> Affine:
        """The product with a number."""
        if factor == 0:
            return Affine(lanes=(0,) * len(self.lanes))
        terms = tuple((a, c * factor) for a, c in self.terms)
        return Affine(terms, self.offset * factor, tuple(x * factor for x in self.lanes))

    def coefficient(self, var: str) -> int:
        """Of a loop variable that is an atom; 0 if it is none."""
        return next((c for atom, c in self.terms if isinstance(atom, loops.Var) and atom.name == var), 0)

    def mentions(self, var: str) -> bool:
        """Does an atom contain the loop variable?"""
        return any(var in traverse.variables(atom) for atom, _ in self.terms)

    @property
    def is_constant(self) -> bool:
        return not self.terms and len(set(self.lanes)) <= 1


def _add_lanes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    if not a or not b:
        return a or b
    return tuple(x + y for x, y in zip(a, b, strict=True))


def affine(e: loops.Expr) -> Affine | None:
    """The affine form of an i64 expression; None for a vector whose lanes are not a known pattern."""
    if e.dtype != I64:
        return None if e.lanes > 1 else Affine(((e, 1),))
    match e:
        case loops.Const():
            return Affine((), int(e.value), (0,) * e.lanes if e.lanes > 1 else ())
        case loops.Broadcast():
            inner = affine(e.a)
            return inner and Affine(inner.terms, inner.offset, (0,) * e.lanes)
        case loops.Ramp():
            inner = affine(e.base)
            return inner and Affine(inner.terms, inner.offset, tuple(i * e.stride for i in range(e.lanes)))
        case loops.Unary(op="-"):
            inner = affine(e.a)
            return inner and inner.times(-1)
        case loops.Cast() if e.a.dtype == I64:
            return affine(e.a)
        case loops.Binary():
            form = _binary(e)
            return form if form is not None else None if e.lanes > 1 else Affine(((e, 1),))
        case _:
            return None if e.lanes > 1 else Affine(((e, 1),))


def _binary(e: loops.Binary) -> Affine | None:
    a, b = affine(e.a), affine(e.b)
    if a is None or b is None:
        return None
    match e.op:
        case "+":
            return a.plus(b)
        case "-":
            return a.plus(b.times(-1))
        case "*" if b.is_constant:
            return a.times(b.offset).plus(Affine(lanes=(0,) * len(b.lanes)))
        case "*" if a.is_constant:
            return b.times(a.offset).plus(Affine(lanes=(0,) * len(a.lanes)))
        case "//" | "%" if b.is_constant and b.offset > 0 and all(c % b.offset == 0 and abs(c) < 1 << 31 for _, c in a.terms):
            return _divide(e.op, a, b.offset)
        case _:
            return None


def _divide(op: str, a: Affine, divisor: int) -> Affine:
    """`a // divisor` or `a % divisor` where the divisor divides every coefficient: only the numbers are divided."""
    if op == "//":
        offset = a.offset // divisor
        return Affine(tuple((x, c // divisor) for x, c in a.terms), offset,
                      tuple((a.offset + lane) // divisor - offset for lane in a.lanes))
    offset = a.offset % divisor
    return Affine((), offset, tuple((a.offset + lane) % divisor - offset for lane in a.lanes))


def flatten(buffer: loops.Buffer, indices: Sequence[loops.Expr]) -> Affine | None:
    """The element offset of buffer[indices], None if a lane pattern is unknown."""
    total = Affine()
    for index, stride in zip(indices, buffer.strides, strict=True):
        form = affine(index)
        if form is None:
            return None
        total = total.plus(form.times(stride))
    return total
