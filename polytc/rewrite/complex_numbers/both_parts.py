"""Real sums to which both parts of complex numbers add alike are sums over the parts, too: memory is walked element by element.

    E += real(Z[i]*conj(Z[i]))                                  with c64 Z[99]
    ->  E += Z[i,part]*Z[i,part] where part in 0:2

In complex sums the imaginary part is none, and both parts are made in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polytc.program import program as pr
from polytc.program.scalars import I64


def summed(s: pr.Statement, tensors: Mapping[str, pr.Tensor], part: str) -> pr.Statement:
    """The statement, of real numbers, as a sum over both parts if it is one along memory. tensors: as they were before numbers
    became pairs; part: a name for the index of the parts."""
    if s.op != "+" or s.bounds or pr.scatters(s) or any(r.tensor == s.target for r in pr.reads(s)):
        return s
    value = _alike(s.value, tensors, part)
    left = {i for e in s.subscripts for i in pr.index_names(e)}
    if value is None or not all(_walks(r, left, part) for r in pr.walk(value) if isinstance(r, pr.Read)):
        return s
    return replace(s, value=value, ranges=(*s.ranges, pr.Range(part, 0, 2)))


def _walks(read: pr.Read, left: set[str], part: str) -> bool:
    """Does a read of parts walk along memory as the sum goes on? Others have to stay where they are."""
    if not read.subscripts or read.subscripts[-1] != pr.Index(part):
        return False
    return len(read.subscripts) > 1 and isinstance(e := read.subscripts[-2], pr.Index) and e.name not in left


def _alike(e: pr.Expr, tensors: Mapping[str, pr.Tensor], part: str) -> pr.Expr | None:
    """What both terms of a sum are, with `part` for the part."""
    whole, e = _signed(e)
    if not (isinstance(e, pr.Binary) and e.op in ("+", "-")):
        return None
    (sign, a), (other, b) = _signed(e.a), _signed(e.b)
    if sign != (other if e.op == "+" else -other):
        return None
    for first in (0, 1):
        found, same = _of(a, first, tensors, part), _of(b, 1 - first, tensors, part)
        if found is not None and found == same:
            return found if sign * whole > 0 else pr.Unary("-", found, found.dtype)
    return None


def _signed(e: pr.Expr) -> tuple[int, pr.Expr]:
    """The sign of a product, and the rest."""
    if isinstance(e, pr.Unary) and e.op == "-":
        sign, rest = _signed(e.a)
        return -sign, rest
    if isinstance(e, pr.Binary) and e.op == "*":
        (x, a), (y, b) = _signed(e.a), _signed(e.b)
        return x * y, replace(e, a=a, b=b)
    return 1, e


def _of(e: pr.Expr, number: int, tensors: Mapping[str, pr.Tensor], part: str) -> pr.Expr | None:
    """The expression with `part` where it reads the part of that number; None if it reads other parts, or none."""
    parts = [r.subscripts[-1] for r in pr.walk(e) if isinstance(r, pr.Read) and tensors[r.tensor].dtype.is_complex]
    if not parts or any(p != pr.Const(number, I64) for p in parts):
        return None

    def other(x: pr.Expr) -> pr.Expr:
        if isinstance(x, pr.Read) and tensors[x.tensor].dtype.is_complex:
            return replace(x, subscripts=(*x.subscripts[:-1], pr.Index(part)))
        return x
    return pr.map_expr(e, other)
