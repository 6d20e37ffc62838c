"""Programs that find out whether an index in memory leaves its tensor: one more output for each gather and scatter.

    Y[i,d] += T[I[i,k],d]                               with T[20,8], i64 I[9,4]
    ->  outside_1[i] = 0;  outside_1[i] max= u64(I[i,k])
        Y[i,d] += T[I[i,k],d]

As a number without sign an index below its tensor is one far above it: one comparison when the run is over tells of both. Only
where that fails, `locating` makes the program that says which instance it was (runtime/checked.py):

    outside_1[i] min= I[i,k] < 0 || I[i,k] >= 20 ? k : 2**63 - 1

It reads inputs, which are still there. Indices that the program computes are numbered so at once. Both are reductions like any
other: vectors, threads and devices compute them, each row for itself, beside the statement where that takes the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard

from polytc import errors
from polytc.program import program as pr
from polytc.program import type_promotion
from polytc.program.affine import affine
from polytc.program.domain import condition_indices
from polytc.program.names import fresh, initialisation
from polytc.program.scalars import BOOL, I64, U32, U64, DType, identity
from polytc.program.sizes import Undecided

NONE = identity("min", I64)
"""What an output of numbers holds where every index was in bounds."""

ROWS = 1 << 16
"""Elements of an output at most: one for each value of the outermost index."""

BLOCK = 1 << 11
"""A single index is taken in rows of so many values, whose indices stay in a core's own cache."""


@dataclass(frozen=True)
class Check:
    """One subscript that memory decides. output: the tensor that tells of it; place: of the subscript among those of the
    program; statement: the one that has it; tensor, axis: where it points; write: is it on the left side? ranges: of the
    indices that number the instances, the last one fastest; width: how many of them each element of the output stands for.
    limit: elements of the output from here on tell of an index that is outside, perhaps of an instance that does not run;
    None: they are numbers of instances. unwritten: they are those of elements that scatters left out."""

    output: pr.Tensor
    place: int
    statement: pr.Statement
    tensor: pr.Tensor
    axis: int
    subscript: pr.Expr
    write: bool
    ranges: tuple[pr.Range, ...]
    width: int
    limit: int | None
    unwritten: bool = False

    def point(self, number: int) -> dict[str, int]:
        """The indices of a numbered instance."""
        found: dict[str, int] = {}
        for r in reversed(self.ranges):
            number, place = divmod(number, r.extent)
            found[r.index] = r.lower + place
        return {r.index: found[r.index] for r in self.ranges}


@dataclass(frozen=True)
class _Subscript:
    """A subscript that memory decides. known: conditions under which it counts; bounds: the ranges in memory inside which it
    is computed: not those whose ends it decides."""

    tensor: str
    axis: int
    place: pr.Expr
    known: tuple[pr.Expr, ...]
    write: bool
    bounds: tuple[pr.Bound, ...]


@dataclass(frozen=True)
class Rows:
    """How the instances of a test are laid out in an output. own: their indices; row: the one that the output has, if any;
    number: of an instance in its row; swapped: what stands for the statement's indices."""

    suffix: str
    own: tuple[pr.Range, ...]
    row: pr.Range | None
    number: pr.Expr
    width: int
    swapped: dict[str, pr.Expr]


@dataclass(frozen=True)
class Domain:
    """For which instances a subscript is tested."""

    ranges: tuple[pr.Range, ...]
    where: tuple[pr.Expr, ...]
    bounds: tuple[pr.Bound, ...]


_Made: TypeAlias = tuple[pr.Statement, pr.Statement, Check]
"""An output's initialisation and update, and what it tells."""


def decides(program: pr.Program) -> bool:
    """Has it a subscript that memory decides?"""
    return any(True for s in program.statements for _ in _decided(program, s))


def check_indices(program: pr.Program, *, numbered: bool = False) -> tuple[pr.Program, tuple[Check, ...]]:
    """The program with an output for each subscript that memory decides, behind its own ones; and what they tell: numbers of
    instances in any case, if they are to be `numbered`. Raises CompileError E412 where sizes are open."""
    if program.sizes and decides(program):
        raise errors.fail("E412", f"the sizes {', '.join(program.sizes)} cannot stay open where indices are checked",
                          notes=["lower(checked=True) takes fixed sizes"])
    checks: list[Check] = []
    firsts: list[pr.Statement] = []
    statements: list[pr.Statement] = []
    for s, tests in _tests(program, numbered=numbered):
        for first, tested, check in tests:
            checks.append(check)
            firsts.append(first)
            statements.append(tested)
        statements.append(s)
    made = tuple(c.output for c in checks)
    return replace(program, tensors=program.tensors + made, statements=(*firsts, *statements),
                   outputs=program.outputs + tuple(t.name for t in made), checked=False), tuple(checks)


def locating(program: pr.Program) -> tuple[pr.Program, tuple[Check, ...]]:
    """The program that only numbers the first instance outside, for those subscripts of which `check_indices` tells no more
    than that there may be one. It takes the inputs that the program does not write."""
    made = [m for _, tests in _tests(program, numbered=True, late=True) for m in tests]
    lasting = _lasting(program)
    used = {r.tensor for _, tested, _ in made for r in pr.reads(tested)}
    inputs = tuple(n for n in program.inputs if n in lasting & used)
    outputs = tuple(c.output for _, _, c in made)
    return replace(program, tensors=(*map(program.tensor, inputs), *outputs), inputs=inputs, checked=False,
                   statements=(*(first for first, _, _ in made), *(tested for _, tested, _ in made)),
                   outputs=tuple(t.name for t in outputs),
                   constants=tuple(n for n in program.constants if n in inputs)), tuple(c for _, _, c in made)


def _tests(program: pr.Program, *, numbered: bool, late: bool = False) -> Iterator[tuple[pr.Statement, list[_Made]]]:
    """The statements with what tests their subscripts. numbered: by number; late: only those that are decided by inputs which
    are there after a run."""
    taken = {t.name for t in program.tensors}
    lasting, place = _lasting(program), 0
    for s in program.statements:
        made: list[_Made] = []
        for sub in dict.fromkeys(_decided(program, s)):
            place += 1
            ends = (x for b in sub.bounds for x in (b.lower, b.upper))
            known = all(r.tensor in lasting for e in (sub.place, *sub.known, *ends)
                        for r in pr.walk(e) if isinstance(r, pr.Read))
            if late and not known:
                continue
            name = fresh(f"outside_{place}", taken)
            found = _numbered if numbered or not known else _largest
            made += found(program, s, sub, name, place)
            taken.update(c.output.name for _, _, c in made)
        yield s, made


def _lasting(program: pr.Program) -> frozenset[str]:
    """The inputs that a run leaves as they are."""
    return frozenset(program.inputs) - frozenset(program.outputs)


def _decided(program: pr.Program, s: pr.Statement) -> Iterator[_Subscript]:
    """What memory decides in a statement. What stands behind `else` may be anywhere."""
    asked = tuple(e.cond for e in (s.value, *s.subscripts) if _skipping(e))
    parts = [(e, () if _skipping(e) else asked, s.bounds) for e in (*s.subscripts, s.value)]
    parts += [(e, (), _around(s, b)) for b in s.bounds for e in (b.lower, b.upper)]
    for e, guards, bounds in parts:
        for r, known in _reads(e, guards):
            for axis, place in enumerate(r.subscripts):
                if _of_memory(place):
                    yield _Subscript(r.tensor, axis, place, known, False, bounds)
    for axis, place in enumerate(s.subscripts):
        if _skipping(place):
            yield _Subscript(s.target, axis, place.a, (place.cond,), True, s.bounds)
        elif _of_memory(place):
            yield _Subscript(s.target, axis, place, asked, True, s.bounds)


def _of_memory(place: pr.Expr) -> bool:
    """Does memory decide a subscript? A remainder by an open size, which is no affine form, does not make it so."""
    try:
        return affine(place) is None
    except Undecided:
        return any(isinstance(e, pr.Read) for e in pr.walk(place))


def _skipping(e: pr.Expr) -> TypeGuard[pr.Select]:
    """Does it do nothing for instances that `where` leaves out? An update then adds the identity, which does nothing anywhere,
    and another scatter goes nowhere (lang.assemble)."""
    return isinstance(e, pr.Select) and e.skips


def _around(s: pr.Statement, bound: pr.Bound) -> tuple[pr.Bound, ...]:
    """The ranges in memory around this one: neither itself nor those whose ends use an index inside of it."""
    inside = {bound.index}
    while True:
        grown = inside | {b.index for b in s.bounds if inside & (condition_indices(b.lower) | condition_indices(b.upper))}
        if grown == inside:
            return tuple(b for b in s.bounds if b.index not in inside)
        inside = grown


def _reads(e: pr.Expr, known: tuple[pr.Expr, ...]) -> Iterator[tuple[pr.Read, tuple[pr.Expr, ...]]]:
    """The reads that the text does not guard, with the conditions of the choices around them; those in subscripts of others
    before these."""
    if isinstance(e, pr.Select):
        yield from _reads(e.cond, known)
        yield from _reads(e.a, (*known, e.cond))
        yield from _reads(e.b, (*known, pr.Unary("!", e.cond, BOOL)))
        return
    if isinstance(e, pr.Binary) and e.op in ("&&", "||"):
        yield from _reads(e.a, known)
        yield from _reads(e.b, (*known, e.a if e.op == "&&" else pr.Unary("!", e.a, BOOL)))
        return
    for x in pr.children(e):
        yield from _reads(x, known)
    if isinstance(e, pr.Read) and (e.default is None or e.shielded):
        yield e, known


def _harmless(e: pr.Expr) -> pr.Expr:
    """The expression with a number for reads whose own subscripts are outside: these have tests of their own."""
    def guard(x: pr.Expr) -> pr.Expr:
        if isinstance(x, pr.Read) and (x.default is None or x.shielded) and None in map(affine, x.subscripts):
            return replace(x, default=pr.Const(identity("+", x.dtype), x.dtype), shielded=False)
        return x
    return pr.map_expr(e, guard)


def _numbered(program: pr.Program, s: pr.Statement, sub: _Subscript, name: str, place: int) -> Iterator[_Made]:
    """`name[row] min= the number of an instance whose subscript is outside`, for the instances that run."""
    t, none = program.tensor(sub.tensor), pr.Const(NONE, I64)
    inside = replace(s, bounds=sub.bounds)
    at = _wide(_harmless(sub.place))
    outside = pr.Binary("||", pr.Binary("<", at, pr.Const(t.lower[sub.axis], I64), BOOL),
                        pr.Binary(">=", at, pr.Const(t.lower[sub.axis] + t.shape[sub.axis], I64), BOOL), BOOL)
    test = pr.conjunction((*map(_harmless, sub.known), outside))
    domain = _running(inside, condition_indices(test))
    for rows in layout(s, domain):
        value = pr.Select(pr.substitute(test, rows.swapped), type_promotion.fold(rows.number), none, I64)
        yield telling(s, name, rows, domain, "min", value, none,
                      lambda out, width: Check(out, place, s, t, sub.axis, sub.place, sub.write, domain.ranges, width, None))


def _largest(program: pr.Program, s: pr.Statement, sub: _Subscript, name: str, place: int) -> Iterator[_Made]:
    """`name[row] max= the subscript's distance from the tensor's first element, as a number without sign`; for all values of
    its indices where that is simpler than for the instances that run: then it may be too large for nothing."""
    t = program.tensor(sub.tensor)
    distance, limit = _distance(_harmless(sub.place), t.lower[sub.axis], t.shape[sub.axis])
    zero = pr.Const(0, distance.dtype)
    known = pr.conjunction(tuple(map(_harmless, sub.known))) if sub.known else None
    value = pr.Select(known, distance, zero, distance.dtype) if known is not None else distance
    indices, inside = condition_indices(value), replace(s, bounds=sub.bounds)
    domain = _everywhere(inside, indices) or _running(inside, indices)
    for rows in layout(s, domain):
        yield telling(s, name, rows, domain, "max", pr.substitute(value, rows.swapped), zero,
                      lambda out, width: Check(out, place, s, t, sub.axis, sub.place, sub.write, domain.ranges, width, limit))


def _distance(place: pr.Expr, lower: int, extent: int) -> tuple[pr.Expr, int]:
    """A subscript's distance from `lower` without sign, of 32 bits where the index has no more; the least that is outside."""
    own = place.a if isinstance(place, pr.Cast) else place
    if lower == 0 and own.dtype.kind in "iu" and own.dtype.bits <= 32:
        return _cast(own, U32), min(extent, 2**31) if own.dtype.kind == "i" else extent
    start = pr.Binary("-", _wide(place), pr.Const(lower, I64), I64) if lower else _wide(place)
    return _cast(start, U64), extent


def _cast(e: pr.Expr, dtype: DType) -> pr.Expr:
    return e if e.dtype == dtype else pr.Cast(e, dtype)


def _wide(e: pr.Expr) -> pr.Expr:
    return _cast(e, I64)


def _running(s: pr.Statement, indices: frozenset[str]) -> Domain:
    """The instances that run."""
    used = _tied(s, indices)
    return _domain(s, used, s.bounds)


def _domain(s: pr.Statement, indices: frozenset[str], bounds: tuple[pr.Bound, ...]) -> Domain:
    """The values of these indices under the conditions on them alone."""
    return Domain(tuple(r for r in s.ranges if r.index in indices),
                   tuple(c for c in s.where if condition_indices(c) <= indices), bounds)


def _everywhere(s: pr.Statement, indices: frozenset[str]) -> Domain | None:
    """All values of these indices, whatever those of others are: all nonzeros of a sparse matrix, not those row by row. None
    where others decide which of them are in bounds, or where they alone decide which run."""
    ends = [(b, condition_indices(b.lower) | condition_indices(b.upper)) for b in s.bounds]
    if s.loops or any(b.index in indices and of <= indices for b, of in ends):
        return None
    if any(condition_indices(c) & indices and not condition_indices(c) <= indices for c in s.where):
        return None
    return _domain(s, indices, ())


def layout(s: pr.Statement, domain: Domain) -> Iterator[Rows]:
    """One output for all instances, or one for the blocks of a single index and one for the rest."""
    ranges = domain.ranges
    total = math.prod(r.extent for r in ranges)
    if len(ranges) > 1 and ranges[0].extent <= ROWS:
        yield Rows("", ranges, ranges[0], _number(ranges[1:]), total // ranges[0].extent, {})
    elif len(ranges) == 1 and ranges[0].extent >= 2 * BLOCK and not (domain.where or s.loops or domain.bounds):
        (r,) = ranges
        block, inner = pr.Range(f"{r.index}_block", 0, r.extent // BLOCK), pr.Range(f"{r.index}_inner", 0, BLOCK)
        start = pr.Binary("+", pr.Binary("*", pr.Index(block.index), pr.Const(BLOCK, I64), I64), pr.Const(r.lower, I64), I64)
        whole = type_promotion.fold(pr.Binary("+", start, pr.Index(inner.index), I64))
        yield Rows("", (block, inner), block, pr.Index(inner.index), BLOCK, {r.index: whole})
        if r.extent % BLOCK:
            rest = pr.Range(r.index, r.lower + block.upper * BLOCK, r.upper)
            yield Rows("_rest", (rest,), None, _number(ranges), total, {})
    else:
        yield Rows("", ranges, None, _number(ranges), total, {})


def telling(s: pr.Statement, name: str, rows: Rows, domain: Domain, op: str, value: pr.Expr, first: pr.Const,
            check: Callable[[pr.Tensor, int], Check]) -> _Made:
    """The statements that compute an output."""
    name, row = name + rows.suffix, rows.row
    at: tuple[pr.Expr, ...] = (pr.Index(row.index),) if row is not None else ()
    tensor = pr.Tensor(name, first.dtype, (row.extent,) if row is not None else (), (row.lower,) if row is not None else ())
    around = (row,) if row is not None else ()
    init = pr.Statement(initialisation(f"{s.name}_{name}"), name, at, None, first, around, span=s.span)
    update = pr.Statement(f"{s.name}_{name}", name, at, op, value, rows.own, domain.where, s.span, s.loops, domain.bounds)
    return init, update, check(tensor, rows.width)


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
