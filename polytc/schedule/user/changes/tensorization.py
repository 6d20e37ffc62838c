"""Tensorization: the innermost loops of a statement become an intrinsic that a user declared, if they compute what it does.

    for k.1 in 0:8: S1: C[i,j] += i32(A[i,k]) * i32(B[j,k])        with dot8: C += i32(A[k]) * i32(B[k])
    ->  S1 is marked: where a target has the text of dot8 for its language, k.1 is a call of it

Both are compared as what they are in the polyhedral model: the box of the loops, the operator, the value, and each access as an
affine map of the loops. A saved schedule lists it as `tensorize S1 k/1%8 {...}`, with the declaration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from polytc import errors, lang
from polytc.program import program as pr
from polytc.program.affine import affine
from polytc.program.intrinsics import Call, Intrinsic, Operand
from polytc.program.linear import linear
from polytc.program.names import update_of
from polytc.program.scalars import I64
from polytc.program.sizes import Size
from polytc.schedule.user.changes import elements, intrinsic_operands, intrinsic_texts
from polytc.schedule.user.changes.pieces import Piece

errors.register(E711="loops do not compute an intrinsic")


@dataclass(frozen=True)
class Tensorize:
    """statement: whose innermost loops; loops: what these walk, outermost first; intrinsic: what they become."""

    statement: str
    loops: tuple[Piece, ...]
    intrinsic: Intrinsic

    def __str__(self) -> str:
        return f"tensorize {self.statement} {','.join(map(str, self.loops))} {self.intrinsic}"

    def apply(self, program: pr.Program) -> pr.Program:
        """The program with the statement marked. Raises E707, E708, E711."""
        s = elements.plain(program, self.statement, "intrinsic")
        if s.intrinsic is not None:
            raise errors.fail("E708", f"{s.name} is a call of {s.intrinsic.intrinsic.name} already",
                              notes=["tensorize a statement once"])
        other = next((x for x in program.statements if x.intrinsic is not None and x.intrinsic.intrinsic != self.intrinsic
                      and x.intrinsic.intrinsic.name == self.intrinsic.name), None)
        if other is not None:
            raise _refuse(self.intrinsic, f"is the name of another intrinsic, which {other.name} calls")
        call = called(program, s, self.loops, self.intrinsic)
        made = tuple(replace(x, intrinsic=call) if x is s else x for x in program.statements)
        return replace(program, statements=made)

    @staticmethod
    def read(text: str) -> Tensorize | None:
        """What prints so, behind `tensorize`."""
        parts = text.split(" ", 2)
        found = Intrinsic.read(parts[2]) if len(parts) == 3 else None
        pieces = tuple(map(Piece.read, parts[1].split(","))) if len(parts) == 3 else ()
        if found is None or None in pieces:
            return None
        return Tensorize(parts[0], tuple(p for p in pieces if p is not None), found)


def semantics(intrinsic: Intrinsic) -> tuple[pr.Program, pr.Statement]:
    """What an intrinsic computes, and its one statement. Raises E711 where it has several, or a text does not fit it, and what
    building a program raises."""
    program = lang.build(intrinsic.text, dict(intrinsic.shapes), dict(intrinsic.dtypes), name=intrinsic.name)
    found = [s for s in program.statements if update_of(s.name) is None]
    s = found[0]
    forms = [linear(sub) for sub in (*s.subscripts, *(sub for r in pr.reads(s) for sub in r.subscripts))]
    if len(found) > 1 or s.where or s.loops or s.bounds or None in forms or any(
            isinstance(r.extent, Size) or r.lower for r in s.ranges) or any(r.default is not None for r in pr.reads(s)):
        raise _refuse(intrinsic, "is no single statement over a box from 0 with affine subscripts")
    why = intrinsic_texts.wrong(intrinsic, {n: len(x) for n, x in intrinsic_operands.accesses(s)})
    if why:
        raise _refuse(intrinsic, why)
    return program, s


def called(program: pr.Program, s: pr.Statement, loops: Sequence[Piece], intrinsic: Intrinsic) -> Call:
    """The call that loops over pieces of a statement's indices are. Raises E708, E711 where they do not compute the
    intrinsic."""
    model, t = semantics(intrinsic)
    if program.precise and s.op is not None and program.tensor(s.target).dtype.is_float:
        raise errors.fail("E708", f"{s.name} is precise: its sum keeps its order, which {intrinsic.name} does not say",
                          notes=["leave `precise` away"])
    walked = [_walked(s, p, intrinsic) for p in loops]
    if len(walked) != len(t.ranges):
        raise _refuse(intrinsic, f"has {len(t.ranges)} loops, {s.name} has {len(walked)} there")
    _check_value(program, s, model, t, intrinsic)
    reasons: list[str] = []
    for order in permutations(range(len(walked))):
        found = _operands(program, s, [walked[n] for n in order], [loops[n] for n in order], loops, model, t, intrinsic)
        if not isinstance(found, str):
            return Call(intrinsic, found, tuple(walked))
        reasons.append(found)
    raise _refuse(intrinsic, reasons[0])


def _operands(program: pr.Program, s: pr.Statement, extents: Sequence[int], pieces: Sequence[Piece], loops: Sequence[Piece],
              model: pr.Program, t: pr.Statement, intrinsic: Intrinsic) -> tuple[Operand, ...] | str:
    """The operands of the call where the intrinsic's indices walk these pieces, or why they do not. loops: the pieces,
    outermost first."""
    for r, n, p in zip(t.ranges, extents, pieces, strict=True):
        if r.extent != n:
            return f"runs {r.index} in 0:{r.extent}, {s.name} runs {pr.format_expr(p.value)} in {n} iterations"
    moves = {r.index: p for p, r in zip(pieces, t.ranges, strict=True)}
    counted = {index: _counted(s, p) for index, p in moves.items()}
    for mine, its in zip(_numbers(s.value), _numbers(t.value), strict=True):
        here = pr.substitute(its, counted)
        if not intrinsic_operands.same(mine, here):
            return (f"has {pr.format_expr(its)} in its value, which is {pr.format_expr(here)} in these loops, where {s.name} "
                    f"has {pr.format_expr(mine)}")
    names = {p: index for index, p in moves.items()}
    return intrinsic_operands.matched(program, s, model, t, moves, counted, [names[p] for p in loops], intrinsic)


def _counted(s: pr.Statement, p: Piece) -> pr.Expr:
    """The iterations of a loop over a piece, counted from 0."""
    r = s.by_index[p.index]
    if p.modulus and r.lower >= 0 and not isinstance(r.upper, Size) and r.upper <= p.divisor * p.modulus:
        p = replace(p, modulus=0)
    return elements.minus(p.value, p.range(r.lower, r.upper)[0])


def _refuse(intrinsic: Intrinsic, why: str) -> errors.CompileError:
    return errors.fail("E711", f"{intrinsic.name} {why}", notes=[f"it computes {intrinsic.text.strip()}"])


def _walked(s: pr.Statement, p: Piece, intrinsic: Intrinsic) -> int:
    """How many iterations a loop over a piece has, if all of them run wherever one does. Raises E711."""
    r = s.by_index[p.index]
    low, high = p.range(r.lower, r.upper)
    if any(p.index in pr.index_names(c) for c in s.where):
        raise _refuse(intrinsic, f"takes whole boxes: a condition on {p.index} leaves out iterations of {s.name}")
    whole = p.divisor * (p.modulus or 1)
    if isinstance(high, Size) or isinstance(low, Size) or ((p.modulus or p.divisor > 1) and (
            isinstance(r.extent, Size) or r.lower % whole or r.extent % whole)):
        raise _refuse(intrinsic, f"takes whole boxes: {pr.format_expr(p.value)} has fewer iterations where {p.index} ends at "
                      f"{r.upper}")
    return high - low


def _check_value(program: pr.Program, s: pr.Statement, model: pr.Program, t: pr.Statement, intrinsic: Intrinsic) -> None:
    """Operator, value and types are those of the intrinsic. Raises E711."""
    if s.op != t.op:
        raise _refuse(intrinsic, f"is `{t.op or ''}=`, {s.name} is `{s.op or ''}=`")
    mine, its = program.tensor(s.target).dtype, model.tensor(t.target).dtype
    if mine != its:
        raise _refuse(intrinsic, f"writes {its}, {s.name} writes {mine}")
    if s.target in {r.tensor for r in pr.reads(s)}:
        raise _refuse(intrinsic, f"writes when it has read all, {s.name} reads {s.target} meanwhile")
    for a, b in zip(_walk(s.value), _walk(t.value), strict=False):
        if a != b:
            raise _refuse(intrinsic, f"has {b} where {s.name} has {a}")
    if len(list(_walk(s.value))) != len(list(_walk(t.value))):
        raise _refuse(intrinsic, f"has another value than {s.name}: {pr.format_expr(t.value)}, {pr.format_expr(s.value)}")


def _is_number(e: pr.Expr) -> bool:
    """Is it a formula of indices and numbers alone?"""
    return e.dtype == I64 and affine(e) is not None


def _numbers(e: pr.Expr) -> Iterator[pr.Expr]:
    """What an expression computes of indices, in order, as `_walk` comes by."""
    if _is_number(e):
        yield e
    elif not isinstance(e, pr.Read):
        for x in pr.children(e):
            yield from _numbers(x)


def _walk(e: pr.Expr) -> Iterator[str]:
    """An expression as words, without what is read and where, and which formulas of indices it has."""
    if isinstance(e, pr.Read):
        yield f"a read of {e.dtype}" + ("" if e.default is None else " with a default")
        return
    if _is_number(e):
        yield "a formula of indices"
        return
    head = {pr.Const: "value", pr.Unary: "op", pr.Binary: "op", pr.Call: "fn"}.get(type(e))
    yield f"{type(e).__name__.lower()} {getattr(e, head) if head else ''} of {e.dtype}".replace("  ", " ")
    for x in pr.children(e):
        yield from _walk(x)
