"""Tensorization: the innermost loops of a statement become an intrinsic that a user declared, if they compute what it does.

    for k.1 in 0:8: S1: C[i,j] += i32(A[i,k]) * i32(B[j,k])        with dot8: C += i32(A[k]) * i32(B[k])
    ->  S1 is marked: where a target has the text of dot8 for its language, k.1 is a call of it

Both are compared as what they are in the polyhedral model: the box of the loops, the operator, the value, and each access as an
affine map of the loops. A saved schedule lists it as `tensorize S1 k/1%8 {...}`, with the declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from polytc import errors, lang
from polytc.program import program as pr
from polytc.program.intrinsics import Call, Intrinsic, Operand
from polytc.program.linear import linear
from polytc.program.names import update_of
from polytc.program.sizes import Size
from polytc.schedule.user.changes import elements
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
    """What an intrinsic computes, and its one statement. Raises E711 where it has several, and what building a program
    raises."""
    program = lang.build(intrinsic.text, dict(intrinsic.shapes), dict(intrinsic.dtypes), name=intrinsic.name)
    found = [s for s in program.statements if update_of(s.name) is None]
    s = found[0]
    forms = [linear(sub) for sub in (*s.subscripts, *(sub for r in pr.reads(s) for sub in r.subscripts))]
    if len(found) > 1 or s.where or s.loops or s.bounds or None in forms or any(
            isinstance(r.extent, Size) or r.lower for r in s.ranges):
        raise _refuse(intrinsic, "is no single statement over a box from 0 with affine subscripts")
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
        why = _mismatch(program, s, loops, [walked[n] for n in order], [loops[n] for n in order], model, t, intrinsic)
        if why is None:
            names = [t.indices[order.index(n)] for n in range(len(walked))]
            return Call(intrinsic, tuple(_operand(model, *x, names) for x in operands(t)), tuple(walked))
        reasons.append(why)
    raise _refuse(intrinsic, reasons[0])


def _operand(model: pr.Program, name: str, subscripts: Sequence[pr.Expr], names: Sequence[str]) -> Operand:
    """names: of the intrinsic's indices, in the order of the loops."""
    forms = [linear(sub) for sub in subscripts]
    rows = tuple(tuple(f.coefficient(i) for i in names) for f in forms if f is not None)
    return Operand(name, model.tensor(name).shape, rows)


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


def _walk(e: pr.Expr) -> Iterator[str]:
    """An expression as words, without what is read and where."""
    if isinstance(e, pr.Read):
        yield f"a read of {e.dtype}" + ("" if e.default is None else " with a default")
        return
    if isinstance(e, pr.Index):
        yield f"the index {e.name}"
        return
    head = {pr.Const: "value", pr.Unary: "op", pr.Binary: "op", pr.Call: "fn"}.get(type(e))
    yield f"{type(e).__name__.lower()} {getattr(e, head) if head else ''} of {e.dtype}".replace("  ", " ")
    for x in pr.children(e):
        yield from _walk(x)


def operands(s: pr.Statement) -> list[tuple[str, tuple[pr.Expr, ...]]]:
    """The tensors of a statement, and where it touches them: the one that it writes, and each read in order."""
    return [(s.target, s.subscripts), *((r.tensor, r.subscripts) for r in _reads_in_order(s.value))]


def _reads_in_order(e: pr.Expr) -> Iterator[pr.Read]:
    if isinstance(e, pr.Read):
        yield e
        return
    for x in pr.children(e):
        yield from _reads_in_order(x)


def _mismatch(program: pr.Program, s: pr.Statement, loops: Sequence[Piece], extents: Sequence[int], pieces: Sequence[Piece],
              model: pr.Program, t: pr.Statement, intrinsic: Intrinsic) -> str | None:
    """Why loops in this order are not those of the intrinsic; None if they are."""
    for r, n, p in zip(t.ranges, extents, pieces, strict=True):
        if r.extent != n:
            return f"runs {r.index} in 0:{r.extent}, {s.name} runs {pr.format_expr(p.value)} in {n} iterations"
    moves = {r.index: p for p, r in zip(pieces, t.ranges, strict=True)}
    for (tensor, mine), (name, its) in zip(operands(s), operands(t), strict=True):
        found = [_row(sub, moves) for sub in mine]
        wanted = [dict(linear(sub).terms) for sub in its]  # type: ignore[union-attr]
        unknown = next((sub for sub, row in zip(mine, found, strict=True) if row is None), None)
        if unknown is not None:
            return f"moves through {name} by sums of its indices, {s.name} reads {tensor} at {pr.format_expr(unknown)}"
        moving = [(d, row) for d, row in enumerate(found) if row]
        if [row for _, row in moving] != [row for row in wanted if row]:
            at, here = ", ".join(map(pr.format_expr, mine)), ", ".join(map(pr.format_expr, its))
            return f"moves through {name} as {name}[{here}], {s.name} through {tensor} as {tensor}[{at}] does not"
        why = _strides(program, tensor, [d for d, _ in moving], intrinsic, name, model)
        if why:
            return why
    return None


def _row(sub: pr.Expr, moves: Mapping[str, Piece]) -> dict[str, int] | None:
    """How a subscript moves with each index of the intrinsic, which walks a piece of the statement's; None where it does so by
    more than a factor."""
    found = {index: _factor(sub, p) for index, p in moves.items()}
    return None if None in found.values() else {index: c for index, c in found.items() if c}


def _factor(e: pr.Expr, p: Piece) -> int | None:
    """What one step of a piece adds to an expression: j % 4 adds nothing to j // 8, and 1 to j % 8. None for other formulas."""
    whole = p.divisor * p.modulus
    match e:
        case pr.Index(name=name):
            return p.divisor if name == p.index else 0
        case pr.Binary(op="+" | "-"):
            a, b = _factor(e.a, p), _factor(e.b, p)
            return None if a is None or b is None else a + b if e.op == "+" else a - b
        case pr.Binary(op="*", a=inner, b=pr.Const(value=c)) | pr.Binary(op="*", a=pr.Const(value=c), b=inner):
            a = _factor(inner, p)
            return None if a is None else a * int(c)
        case pr.Binary(op="//", a=pr.Index(), b=pr.Const(value=c)) if p.index in pr.index_names(e) and whole and c % whole == 0:
            return 0
        case pr.Binary(op="%", a=pr.Index(), b=pr.Const(value=c)) if p.index in pr.index_names(e) and whole and c % whole == 0:
            return p.divisor
    return 0 if p.index not in pr.index_names(e) else None


def _strides(program: pr.Program, tensor: str, dims: Sequence[int], intrinsic: Intrinsic, name: str, model: pr.Program) -> str:
    """Why the elements of an operand lie otherwise than the intrinsic has them; '' if they do not. dims: that move."""
    shape, its = program.tensor(tensor).shape, model.tensor(name).shape
    moving = [e for e, n in enumerate(its)]
    code = " ".join(text for _, text in intrinsic.code)
    if len(dims) != len(moving):
        return ""
    for e, d in zip(moving, dims, strict=True):
        if re.search(rf"\{{{re.escape(name)}\.{e}\}}", code):
            continue
        mine, wanted = _product(shape[d + 1:]), _product(its[e + 1:])
        if mine != wanted:
            return (f"has steps of {wanted} in dimension {e} of {name}, those of dimension {d} of {tensor} are {mine} "
                    f"elements apart: take {{{name}.{e}}} in its text, or cache {tensor}")
    return ""


def _product(shape: Sequence[int]) -> int | str:
    found: int = 1
    for n in shape:
        if isinstance(n, Size):
            return " * ".join(map(str, shape))
        found *= n
    return found
