"""Addresses: affine forms (program.affine) of index expressions.

An address is `sum(coefficient * atom) + constant + lane offset`: atoms are scalar expressions, lane offsets are known numbers.
So neighbouring accesses share everything but a constant, and the pattern of a vector access is known when code is made.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from polytc.codegen import loops, traverse
from polytc.program.affine import Affine, add
from polytc.program.node import frozen
from polytc.program.scalars import I64


@frozen
class Address(Affine[loops.Expr]):
    """An affine form whose atoms are loop expressions, in order of appearance. lanes: what each lane adds, () for a scalar.
    E.g. ramp(8*i + 1, 2, 4) has the constant 1, the terms ((i, 8),) and the lanes (0, 2, 4, 6)."""

    lanes: tuple[int, ...] = ()

    def plus(self, other: Address) -> Address:
        """The sum."""
        total = add(self, other)
        return Address(total.constant, total.terms, _add_lanes(self.lanes, other.lanes))

    def times(self, factor: int) -> Address:
        """The product with a number."""
        if factor == 0:
            return Address(lanes=(0,) * len(self.lanes))
        terms = tuple((a, c * factor) for a, c in self.terms)
        return Address(self.constant * factor, terms, tuple(x * factor for x in self.lanes))

    def at(self, values: Mapping[str, int]) -> Address:
        """The form where some variables have known values, also those inside of atoms, as in `i * N` of an open size."""
        constant, kept, others = self.constant, list[tuple[loops.Expr, int]](), Address()
        for term in self.terms:
            atom, c = term
            if isinstance(atom, loops.Var) and atom.name in values:
                constant += c * values[atom.name]
            elif values.keys().isdisjoint(traverse.variables(atom)):
                kept.append(term)
            else:
                known = address(traverse.map_expr(atom, lambda e: _known(e, values)))
                others = others.plus(known.times(c)) if known is not None else others
        if len(kept) == len(self.terms):
            return self
        total = Address(constant, tuple(kept), self.lanes)
        return total.plus(others) if others.terms or others.constant else total

    def coefficient(self, index: str) -> int:
        """Of a loop variable that is an atom; 0 if it is none."""
        return next((c for atom, c in self.terms if isinstance(atom, loops.Var) and atom.name == index), 0)

    def mentions(self, var: str) -> bool:
        """Does an atom contain the loop variable?"""
        return any(var in traverse.variables(atom) for atom, _ in self.terms)

    @property
    def is_constant(self) -> bool:
        return not self.terms and len(set(self.lanes)) <= 1


def _known(e: loops.Expr, values: Mapping[str, int]) -> loops.Expr:
    """A variable's number, where it is known."""
    return loops.const(values[e.name]) if isinstance(e, loops.Var) and e.name in values else e


def _add_lanes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    if not a or not b:
        return a or b
    return tuple(x + y for x, y in zip(a, b, strict=True))


def address(e: loops.Expr) -> Address | None:
    """The affine form of an i64 expression; None for a vector whose lanes are not a known pattern."""
    if e.dtype != I64:
        return None if e.lanes > 1 else Address(0, ((e, 1),))
    match e:
        case loops.Const():
            return Address(int(e.value), (), (0,) * e.lanes if e.lanes > 1 else ())
        case loops.Broadcast():
            inner = address(e.a)
            return inner and Address(inner.constant, inner.terms, (0,) * e.lanes)
        case loops.Ramp():
            inner = address(e.base)
            return inner and Address(inner.constant, inner.terms, tuple(i * e.stride for i in range(e.lanes)))
        case loops.Unary(op="-"):
            inner = address(e.a)
            return inner and inner.times(-1)
        case loops.Shuffle() if e.a == e.b:
            inner = address(e.a)
            return inner and Address(inner.constant, inner.terms, tuple(inner.lanes[n % e.a.lanes] for n in e.order))
        case loops.Cast() if e.a.dtype == I64:
            return address(e.a)
        case loops.Binary():
            form = _binary(e)
            return form if form is not None else None if e.lanes > 1 else Address(0, ((e, 1),))
        case _:
            return None if e.lanes > 1 else Address(0, ((e, 1),))


def _binary(e: loops.Binary) -> Address | None:
    a, b = address(e.a), address(e.b)
    if a is None or b is None:
        return None
    match e.op:
        case "+":
            return a.plus(b)
        case "-":
            return a.plus(b.times(-1))
        case "*" if b.is_constant:
            return a.times(b.constant).plus(Address(lanes=(0,) * len(b.lanes)))
        case "*" if a.is_constant:
            return b.times(a.constant).plus(Address(lanes=(0,) * len(a.lanes)))
        case "//" | "%" if b.is_constant and b.constant > 0 and all(
                c % b.constant == 0 and abs(c) < 1 << 31 for _, c in a.terms):
            return _divide(e.op, a, b.constant)
        case _:
            return None


def _divide(op: str, a: Address, divisor: int) -> Address:
    """`a // divisor` or `a % divisor` where the divisor divides every coefficient: only the numbers are divided."""
    if op == "//":
        offset = a.constant // divisor
        return Address(offset, tuple((x, c // divisor) for x, c in a.terms),
                      tuple((a.constant + lane) // divisor - offset for lane in a.lanes))
    offset = a.constant % divisor
    return Address(offset, (), tuple((a.constant + lane) % divisor - offset for lane in a.lanes))


def pairs(kernel: loops.Kernel) -> frozenset[str]:
    """Buffers of rows of two elements, both of which the kernel loads: they lie in memory. Of an array in strides, whose rows
    end where its owner wants, it loads one (program.inputs.strides)."""
    if not any(b.shape and b.shape[-1] == 2 for b in kernel.args):
        return frozenset()
    loads = [e for s in traverse.walk_stmt(kernel.body) for top in traverse.expressions(s) for e in traverse.walk_expr(top)
             if isinstance(e, loops.Load) and e.indices and e.buffer.shape[-1] == 2]
    found = {(e.buffer.name, e.indices[-1].value) for e in loads if isinstance(e.indices[-1], loops.Const)}
    return frozenset(name for name, place in found if place == 0 and (name, 1) in found)


@functools.lru_cache(maxsize=1 << 12)  # copies of a statement ask the same
def flatten(buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> Address | None:
    """The element offset of buffer[indices], None if a lane pattern is unknown."""
    total = Address()
    for index, stride in zip(indices, buffer.strides, strict=True):
        form = address(index)
        if form is None:
            return None
        total = total.plus(form.times(stride))
    return total
