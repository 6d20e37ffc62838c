"""Sums over windows that lie mostly outside of their data: one sum for each tap, over the places where it meets data.

    O[h,f] += (I[h+9*r-9,c] else 0)*W[r,c,f] where h in 0:12      with I[12,64], W[3,64,64]
    ->  O[h,f] += (I[h - 9, c] else 0.0)*W[0,c,f] where h in 9:12
        O[h,f] += (I[h,c] else 0.0)*W[1,c,f] where h in 0:12
        O[h,f] += (I[h + 9, c] else 0.0)*W[2,c,f] where h in 0:3

Windows dilated by about the extent of the image are of this kind: a guard would be tested, or zeros multiplied, at every place
for every tap, and nearly all of them come to nothing. In the sums that are left no guard acts.

Guarantees: the same terms in another order, without those that the default makes the identity of the reduction. A product with
a default of 0 counts as such, though with a factor that is infinite or NaN it would be NaN.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.linear import linear, normalise
from polytc.program.names import fresh
from polytc.program.scalars import I64, identity
from polytc.program.sizes import Size, Undecided, surely

MOST = 128
"""Taps of a window, at most."""
PART = 0.5
"""Terms that meet data, at most, of all: with more of them a padded copy is as fast."""
FEWEST = 1 << 16
"""Terms of a statement that is worth it."""


@dataclass(frozen=True)
class _Tap:
    """Values of the taps' indices, and what the other indices may be for the read to meet data; of open sizes extents may be
    below 0 where the window is the larger one. points: for the typical sizes."""

    values: dict[str, int]
    ranges: tuple[pr.Range, ...]

    @property
    def points(self) -> int:
        return prod(max(0, int(r.extent)) for r in self.ranges)


def split(program: pr.Program, of: Collection[str] | None = None) -> pr.Program:
    """The program with such sums divided; a `precise` one as it is. of: of the statements of these names; None: of all."""
    if program.precise:
        return program
    statements = list[pr.Statement]()
    names = {s.name for s in program.statements}
    for s in program.statements:
        try:
            found = _taps(program, s) if of is None or s.name in of else []
        except Undecided:  # sizes that stay open decide where a tap meets data
            found = []
        statements += [s] if not found else []
        for tap in found:
            statements.append(_summed(s, tap, fresh(f"{s.name}_tap", names)))
            names.add(statements[-1].name)
    return replace(program, statements=tuple(statements))


def _taps(program: pr.Program, s: pr.Statement) -> list[_Tap]:
    """The taps that meet data, if the sum shall be divided; none if it stays."""
    if s.op is None or s.where or s.bounds or s.points < FEWEST:
        return []
    for read in pr.reads(s):
        forms = [form for sub in read.subscripts if (form := linear(sub)) is not None]
        window = _window(s, forms)
        if read.tensor == s.target or len(forms) < len(read.subscripts) or not _vanishes(s.value, read, s.op) or not window:
            continue
        if any(isinstance(n, Size) for r in window for n in r.ends) or prod(r.extent for r in window) > MOST:
            continue
        rest = tuple(r for r in s.ranges if r not in window)
        found = [_Tap(values, _meeting(program.tensor(read.tensor), forms, values, rest))
                 for chosen in product(*(range(r.lower, r.upper) for r in window))
                 for values in [{r.index: v for r, v in zip(window, chosen, strict=True)}]]
        found = [tap for tap in found if not surely(lambda tap=tap: any(r.extent <= 0 for r in tap.ranges))]  # type: ignore[misc]
        if found and sum(tap.points for tap in found) <= PART * s.points:
            return found
    return []


def _window(s: pr.Statement, forms: list[Linear]) -> tuple[pr.Range, ...]:
    """The reduced indices that stand in a subscript beside another index."""
    kept = {i.name for sub in s.subscripts for i in pr.walk(sub) if isinstance(i, pr.Index)}
    beside = {index for form in forms if len(form.terms) > 1 for index, _ in form.terms}
    return tuple(r for r in s.ranges if r.index in beside - kept)


def _vanishes(e: pr.Expr, read: pr.Read, op: str) -> bool:
    """Is the value the identity of the reduction wherever the read is out of bounds?"""
    if read.default is None:
        return False
    if e == read:
        return read.default.value == identity(op, read.dtype)
    match e:
        case pr.Cast() if op == "+":
            return _vanishes(e.a, read, op)
        case pr.Unary("-") if op == "+":
            return _vanishes(e.a, read, op)
        case pr.Binary("*") if op == "+":
            return _vanishes(e.a, read, op) or _vanishes(e.b, read, op)
    return False


def _meeting(t: pr.Tensor, forms: list[Linear], values: dict[str, int], rest: tuple[pr.Range, ...]) -> tuple[pr.Range, ...]:
    """The ranges of the other indices without what puts a subscript out of bounds by itself; empty ones if nothing is left."""
    found = pr.by_index(rest)
    for form, lower, extent in zip(forms, t.lower, t.shape, strict=True):
        constant = form.constant + sum(c * values[index] for index, c in form.terms if index in values)
        free = [(index, c) for index, c in form.terms if index not in values]
        least, most = lower - constant, lower + extent - 1 - constant  # of what the free indices add
        if not free and not least <= 0 <= most:
            return tuple(replace(r, upper=r.lower) for r in rest)
        if len(free) == 1:
            (index, c), = free
            first, last = (-(-least // c), most // c) if c > 0 else (-(most // -c), -least // -c)
            r = found[index]
            r = replace(r, lower=max(r.lower, first), upper=min(r.upper, last + 1))
            found[index] = r if isinstance(r.extent, Size) else replace(r, upper=max(r.lower, r.upper))
    return tuple(found.values())


def _summed(s: pr.Statement, tap: _Tap, name: str) -> pr.Statement:
    fixed: dict[str, pr.Expr] = {index: pr.Const(value, I64) for index, value in tap.values.items()}
    return replace(s, name=name, value=normalise(pr.substitute(s.value, fixed)), ranges=tap.ranges)
