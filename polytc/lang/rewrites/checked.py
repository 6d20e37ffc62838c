"""Programs that find out where an index in memory leaves its tensor: one more output for each gather and scatter.

    Y[i,d] += T[I[i,k],d]   ->   outside_1[i] = 2**63 - 1                                               (of i64)
                                 outside_1[i] min= I[i,k] < 0 || I[i,k] >= 20 ? k : 2**63 - 1
                                 Y[i,d] += T[I[i,k],d]

The number is that of the first instance which meets such an index, among those of the indices that the subscript needs; it
becomes an exception when the run is over (runtime/checked.py). It is a reduction like any other: vectors, threads and devices
compute it, each row for itself, beside the statement where that runs through the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from polytc import errors
from polytc.lang import program as pr
from polytc.lang import weak
from polytc.lang.affine import affine
from polytc.lang.domain import condition_indices
from polytc.lang.scalars import BOOL, I64

NONE = 2**63 - 1
"""What an output holds where every index was in bounds."""


ROWS = 1 << 16
"""Elements of an output at most: one for each value of the outermost index."""

BLOCK = 1 << 11
"""A single index is taken in rows of so many values, whose indices stay in a core's own cache."""


@dataclass(frozen=True)
class Check:
    """One subscript that memory decides. output: the tensor that tells of it; statement: the one that has it; tensor, axis:
    where it points; write: is it on the left side? ranges: of the indices that number the instances, the last one fastest;
    width: how many of them each element of the output stands for."""

    output: pr.Tensor
    statement: pr.Statement
    tensor: pr.Tensor
    axis: int
    subscript: pr.Expr
    write: bool
    ranges: tuple[pr.Range, ...]
    width: int

    def point(self, number: int) -> dict[str, int]:
        """The indices of a numbered instance."""
        found: dict[str, int] = {}
        for r in reversed(self.ranges):
            number, place = divmod(number, r.extent)
            found[r.index] = r.lower + place
        return {r.index: found[r.index] for r in self.ranges}


@dataclass(frozen=True)
class _Subscript:
    """A subscript that memory decides. known: conditions under which it counts."""

    tensor: str
    axis: int
    place: pr.Expr
    known: tuple[pr.Expr, ...]
    write: bool


def check_indices(program: pr.Program) -> tuple[pr.Program, tuple[Check, ...]]:
    """The program with an output for each subscript that memory decides, behind its own ones; and what they tell. Raises
    CompileError E412 where sizes are open."""
    if program.sizes and any(True for s in program.statements for _ in _decided(program, s)):
        raise errors.fail("E412", f"the sizes {', '.join(program.sizes)} cannot stay open where indices are checked",
                          notes=["checked=True takes fixed sizes"])
    taken = {t.name for t in program.tensors}
    checks: list[Check] = []
    firsts: list[pr.Statement] = []
    statements: list[pr.Statement] = []
    for s in program.statements:
        for sub in dict.fromkeys(_decided(program, s)):
            for first, tested, check in _tested(program, s, sub, _fresh(f"outside_{len(checks) + 1}", taken)):
                taken.add(check.output.name)
                checks.append(check)
                firsts.append(first)
                statements.append(tested)
        statements.append(s)
    made = tuple(c.output for c in checks)
    return replace(program, tensors=program.tensors + made, statements=(*firsts, *statements),
                   outputs=program.outputs + tuple(t.name for t in made), checked=False), tuple(checks)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _decided(program: pr.Program, s: pr.Statement) -> Iterator[_Subscript]:
    """What memory decides in a statement. What stands behind `else` may be anywhere."""
    for e in (*s.subscripts, s.value, *(x for b in s.bounds for x in (b.lower, b.upper))):
        for r, known in _reads(e, ()):
            for axis, place in enumerate(r.subscripts):
                if affine(place) is None:
                    yield _Subscript(r.tensor, axis, place, known, False)
    target = program.tensor(s.target)
    for axis, place in enumerate(s.subscripts):
        if affine(place) is not None:
            continue
        if isinstance(place, pr.Select) and place.b == pr.Const(target.lower[axis] - 1, I64):  # what `where` leaves out
            yield _Subscript(s.target, axis, place.a, (place.cond,), True)
        else:
            yield _Subscript(s.target, axis, place, (), True)


def _reads(e: pr.Expr, known: tuple[pr.Expr, ...]) -> Iterator[tuple[pr.Read, tuple[pr.Expr, ...]]]:
    """The unguarded reads with the conditions of the choices around them."""
    if isinstance(e, pr.Read) and e.default is None:
        yield e, known
    if isinstance(e, pr.Select):
        yield from _reads(e.cond, known)
        yield from _reads(e.a, (*known, e.cond))
        yield from _reads(e.b, (*known, pr.Unary("!", e.cond, BOOL)))
        return
    for x in pr.children(e):
        yield from _reads(x, known)


def _tested(program: pr.Program, s: pr.Statement, sub: _Subscript, name: str
            ) -> Iterator[tuple[pr.Statement, pr.Statement, Check]]:
    """(initialisation, `name[row] min= the number of an instance whose subscript is outside`, what it tells): one for all
    instances, or one for the blocks of a single index and one for the rest."""
    t = program.tensor(sub.tensor)
    place = sub.place if sub.place.dtype == I64 else pr.Cast(sub.place, I64)
    outside = pr.Binary("||", pr.Binary("<", place, pr.Const(t.lower[sub.axis], I64), BOOL),
                        pr.Binary(">=", place, pr.Const(t.lower[sub.axis] + t.shape[sub.axis], I64), BOOL), BOOL)
    test = pr.conjunction((*sub.known, outside))
    used = _tied(s, condition_indices(test))
    ranges = tuple(r for r in s.ranges if r.index in used)
    where = tuple(c for c in s.where if condition_indices(c) <= used)

    def made(name: str, own: tuple[pr.Range, ...], rows: pr.Range | None, number: pr.Expr, test: pr.Expr
             ) -> tuple[pr.Statement, pr.Statement, Check]:
        tensor = pr.Tensor(name, I64, (rows.extent,), (rows.lower,)) if rows is not None else pr.Tensor(name, I64, (), ())
        at: tuple[pr.Expr, ...] = (pr.Index(rows.index),) if rows is not None else ()
        none, total = pr.Const(NONE, I64), math.prod(r.extent for r in ranges)
        first = pr.Statement(f"{s.name}_{name}_init", name, at, None, none, (rows,) if rows is not None else (), span=s.span)
        update = pr.Statement(f"{s.name}_{name}", name, at, "min", pr.Select(test, weak.fold(number), none, I64), own, where,
                              s.span, s.loops, s.bounds)
        width = total if rows is None else BLOCK if rows not in ranges else total // rows.extent
        return first, update, Check(tensor, s, t, sub.axis, sub.place, sub.write, ranges, width)

    if len(ranges) > 1 and ranges[0].extent <= ROWS:
        yield made(name, ranges, ranges[0], _number(ranges[1:]), test)
    elif len(ranges) == 1 and ranges[0].extent >= 2 * BLOCK and not (where or s.loops or s.bounds):
        (r,) = ranges
        block, inner = pr.Range(f"{r.index}_block", 0, r.extent // BLOCK), pr.Range(f"{r.index}_inner", 0, BLOCK)
        start = pr.Binary("+", pr.Binary("*", pr.Index(block.index), pr.Const(BLOCK, I64), I64), pr.Const(r.lower, I64), I64)
        whole = pr.Binary("+", start, pr.Index(inner.index), I64)
        yield made(name, (block, inner), block, pr.Index(inner.index), pr.substitute(test, {r.index: weak.fold(whole)}))
        if r.extent % BLOCK:
            rest = pr.Range(r.index, r.lower + block.upper * BLOCK, r.upper)
            yield made(f"{name}_rest", (rest,), None, _number(ranges), test)
    else:
        yield made(name, ranges, None, _number(ranges), test)


def _number(ranges: tuple[pr.Range, ...]) -> pr.Expr:
    """The number of an instance among those of these ranges."""
    number: pr.Expr = pr.Const(0, I64)
    for k, r in enumerate(ranges):
        step = math.prod(x.extent for x in ranges[k + 1:])
        own = pr.Binary("-", pr.Index(r.index), pr.Const(r.lower, I64), I64)
        number = pr.Binary("+", number, pr.Binary("*", own, pr.Const(step, I64), I64), I64)
    return number


def _tied(s: pr.Statement, names: frozenset[str]) -> frozenset[str]:
    """The indices that decide with these whether an instance runs: of the loops, of conditions on them, of ranges in memory."""
    groups = [condition_indices(c) for c in s.where]
    groups += [frozenset((b.index,)) | condition_indices(b.lower) | condition_indices(b.upper) for b in s.bounds]
    found = names | frozenset(s.indices[:s.depth]) | frozenset(b.index for b in s.bounds)
    while True:
        grown = found.union(*(g for g in groups if g & found))
        if grown == found:
            return found
        found = grown
