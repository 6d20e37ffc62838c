"""Sums that read an element many times, through subscripts in pieces or through tables, read a copy with plain subscripts.

    O[m,h] += I[c,clamp(h+r-1,0,29)]*W[m,c,r] where h in 0:30      with I[64,30], W[64,64,3]
    ->  I_pieces[x0,x1] = I[x0,clamp(x1 - 1,0,29)] where x1 in 0:32;  O[m,h] += I_pieces[c,h+r]*W[m,c,r]

    Y[i] += X[T[i+a]] where i in 0:1024, a in 0:5                  with X[1024], i64 T[1028]
    ->  X_pieces[x0] = X[T[x0]] where x0 in 0:1028;  Y[i] += X_pieces[a+i]

The copy costs one pass over the input; choosing a piece for each term would cost that in the innermost loop, and would hide a
convolution from what makes convolutions fast. A gather costs more: a few uses of what it brings are enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, affine, interval
from polytc.program.linear import expression, linear
from polytc.program.names import Names
from polytc.program.scalars import I64
from polytc.program.sizes import none_negative, surely
from polytc.rewrite.bounds import hoisted

USES = 64
"""Uses of an element from which on there is a copy; with fewer, borders are split off."""
GATHERED_USES = 4
"""The same of what a table says, for windows over it and for the dimension along memory: elsewhere a place is found once for a
row."""
GROWTH = 4
"""Largest size of the copy, in sizes of the tensor plus a constant, that is still worth it."""


@dataclass(frozen=True)
class _Axis:
    """form: the linear form, without a number, of which a subscript is a function; low, high: its smallest and largest value;
    function: the subscript as an expression of `x`."""

    form: Linear
    low: int
    high: int
    function: pr.Expr


@dataclass(frozen=True)
class _Key:
    """What a copy holds. axes: low, high and function of each."""

    tensor: str
    default: pr.Expr | None
    axes: tuple[tuple[int, int, pr.Expr], ...]

    @property
    def tensors(self) -> set[str]:
        return {self.tensor, *(e.tensor for _, _, f in self.axes for e in pr.walk(f) if isinstance(e, pr.Read))}


def materialise(program: pr.Program) -> pr.Program:
    """The program with copies for the reads of updates that choose pieces again and again."""
    names = Names.of(program)
    tensors, statements = list(program.tensors), list[pr.Statement]()
    copies: dict[_Key, pr.Tensor] = {}
    for s in program.statements:
        for read in pr.reads(s):
            axes = _axes(program, s, read) if read in pr.reads(s) else None  # tables that a copy was made with are not read now
            if axes is None:
                continue
            key = _Key(read.tensor, read.default, tuple((a.low, a.high, a.function) for a in axes))
            if key not in copies:
                shape, lower = tuple(a.high - a.low + 1 for a in axes), tuple(a.low for a in axes)
                copies[key] = pr.Tensor(names.label(f"{read.tensor}_pieces"), read.dtype, shape, lower)
                tensors.append(copies[key])
                label = names.label(f"{s.name}_{copies[key].name}")
                statements.append(_copy(program, s, copies[key], read, axes, label))
            plain = tuple(expression(a.form) for a in axes)
            s = pr.replaced(s, read, replace(read, tensor=copies[key].name, subscripts=plain, default=None))
        statements.append(s)
        copies = {key: copy for key, copy in copies.items() if s.target not in key.tensors}  # a later read sees another value
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def _copy(program: pr.Program, s: pr.Statement, target: pr.Tensor, read: pr.Read, axes: tuple[_Axis, ...], name: str
          ) -> pr.Statement:
    indices = tuple(pr.Index(f"x{d}", I64) for d in range(len(axes)))
    subscripts = tuple(pr.substitute(a.function, {"x": i}) for a, i in zip(axes, indices, strict=True))
    ranges = tuple(pr.Range(i.name, a.low, a.high + 1) for a, i in zip(axes, indices, strict=True))
    own = {i for a in axes if len(a.form.terms) == 1 for i, _ in a.form.terms}
    value = hoisted(program, s, replace(read, subscripts=subscripts), ranges, own)
    return pr.Statement(name, target.name, indices, None, value, ranges)


def _axes(program: pr.Program, s: pr.Statement, read: pr.Read) -> tuple[_Axis, ...] | None:
    """The subscripts as functions of linear forms; None if no copy shall be made."""
    if s.op is None or s.depth or s.bounds or any(r.tensor == s.target for r in pr.reads(s)):
        return None
    if all(linear(sub) is not None for sub in read.subscripts):
        return None
    found = tuple(a for sub in read.subscripts if (a := _axis(program, s, sub)) is not None)
    size, copied = program.tensor(read.tensor).size, prod(int(a.high - a.low + 1) for a in found)
    if len(found) < len(read.subscripts) or copied > GROWTH * size + 4096 or not none_negative(
            a.high - a.low + 1 for a in found):
        return None
    tables = [n for n, a in enumerate(found) if any(isinstance(e, pr.Read) for e in pr.walk(a.function))]
    if tables and (tables[-1] == len(found) - 1 or any(len(found[n].form.terms) > 1 for n in tables)):
        return found if s.points >= GATHERED_USES * copied else None
    return found if s.points >= USES * size and not tables else None


def _axis(program: pr.Program, s: pr.Statement, sub: pr.Expr) -> _Axis | None:
    """A subscript whose linear parts are one form up to its sign and numbers."""
    tables = [e for e in pr.walk(sub) if isinstance(e, pr.Read)]
    if affine(sub) is None and not tables:
        return None
    parts = list(_linear_parts(sub))
    form = next((replace(f, constant=0) for f in parts if f.terms), Affine(0))
    opposite = Affine(0, tuple((i, -c) for i, c in form.terms))
    if any(f.terms not in ((), form.terms, opposite.terms) for f in parts):
        return None
    low, high = interval(form, s.box)
    axis = _Axis(form, low, high, _of_x(sub, form))
    return axis if all(_inside(program, e, low, high) for e in pr.walk(axis.function) if isinstance(e, pr.Read)) else None


def _inside(program: pr.Program, table: pr.Read, low: int, high: int) -> bool:
    """Does a table have what it is asked for, whatever the value of `x`? Conditions of the statement may exclude some."""
    t = program.tensor(table.tensor)
    ends = [interval(f, {"x": (low, high)}) if (f := linear(sub)) is not None else None for sub in table.subscripts]
    return table.default is not None or surely(lambda: all(
        e is None or (first <= e[0] and e[1] < first + n) for e, first, n in zip(ends, t.lower, t.shape, strict=True)))


def _linear_parts(e: pr.Expr) -> list[Linear]:
    """The largest linear expressions below an expression."""
    form = linear(e) if e.dtype == I64 else None
    return [form] if form is not None else [f for x in pr.children(e) for f in _linear_parts(x)]


def _of_x(e: pr.Expr, form: Linear) -> pr.Expr:
    """The expression with `x` for a linear form."""
    own = linear(e) if e.dtype == I64 else None
    if own is None:
        return pr.rebuild(e, tuple(_of_x(x, form) for x in pr.children(e)))
    sign = 0 if not own.terms else 1 if own.terms == form.terms else -1
    return expression(Affine(own.constant, (("x", sign),) if sign else ()))
