"""Operands of intrinsics: the accesses of a statement beside those of the program that was declared.

    S1 reads X[i, k+1], walked in pieces of 8;  the intrinsic reads A[k], k in 0:8   ->   A[k] is X[i, 8*k.0 + 1 + k]

One name is one tensor at one place, as a text has one pointer to it: to the element A[0], wherever the loops begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from polytc.program import program as pr
from polytc.program.affine import Affine, add, affine, interval
from polytc.program.intrinsics import Intrinsic, Operand
from polytc.program.linear import linear
from polytc.program.scalars import I64
from polytc.program.sizes import Size
from polytc.schedule.user.changes.pieces import Piece


@dataclass(frozen=True)
class _Access:
    """A pair of accesses. tensor, mine: of the statement; name, its: of the intrinsic; dims: (its dimension, that of the
    tensor) that move with the loops; offsets: for each of its dimensions, what it has beyond the operand's first element."""

    tensor: pr.Tensor
    mine: tuple[pr.Expr, ...]
    operand: pr.Tensor
    its: tuple[pr.Expr, ...]
    dims: tuple[tuple[int, int], ...]
    offsets: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.operand.name}[{_list(self.its)}]"

    @property
    def statement(self) -> str:
        """What the statement accesses."""
        return f"{self.tensor.name}[{_list(self.mine)}]"

    def apart(self, other: _Access, counted: Mapping[str, pr.Expr]) -> bool:
        """May the operand begin elsewhere than that of another access? counted: see `matched`."""
        if self.tensor != other.tensor or self.dims != other.dims:
            return True
        begins, others = (a.begins(counted) for a in (self, other))
        return not all(map(same, begins, others))

    def begins(self, counted: Mapping[str, pr.Expr]) -> list[pr.Expr]:
        """Where the operand begins in the tensor."""
        its = {d: pr.substitute(self.its[e], dict(counted)) for e, d in self.dims}
        return [pr.Binary("-", sub, its[d], I64) if d in its else sub for d, sub in enumerate(self.mine)]


def same(a: pr.Expr, b: pr.Expr) -> bool:
    """Are two numbers the same wherever they are computed?"""
    x, y = affine(a), affine(b)
    return add(x, y, -1) == Affine() if x is not None and y is not None else a == b


def matched(program: pr.Program, s: pr.Statement, model: pr.Program, t: pr.Statement, moves: Mapping[str, Piece],
            counted: Mapping[str, pr.Expr], names: Sequence[str], intrinsic: Intrinsic) -> tuple[Operand, ...] | str:
    """The operands of the call, or why the statement's accesses are not those of the intrinsic. moves: what each index of the
    intrinsic walks; counted: the iterations of these loops, from 0, by the statement's indices; names: the intrinsic's indices
    in the order of the loops, outermost first."""
    found: list[_Access] = []
    for (tensor, mine), (name, its) in zip(accesses(s), accesses(t), strict=True):
        a = _access(program.tensor(tensor), mine, model.tensor(name), its, moves, s.name)
        why = a if isinstance(a, str) else _strides(a, intrinsic)
        if isinstance(a, str) or why:
            return why
        found.append(a)
    whole: dict[str, tuple[int, ...]] = {}
    for name in dict.fromkeys(a.operand.name for a in found):
        used = [a for a in found if a.operand.name == name]
        other = next((a for a in used if a.apart(used[0], counted)), None)
        if other is not None:
            return (f"has one operand {name} in {used[0]} and {other}, {s.name} accesses {used[0].statement} and "
                    f"{other.statement}: these are no elements of one piece of memory")
        if not all(_touched(used, e, t) for e in range(len(used[0].offsets))):
            why = next((w for a in used if (w := _outside(a, s, t))), "")
            if why:
                return why
            whole[name] = used[0].tensor.shape
    return tuple(Operand(a.operand.name, a.operand.shape, _rows(a.its, names), a.offsets, whole.get(a.operand.name, ()))
                 for a in found)


def accesses(s: pr.Statement) -> list[tuple[str, tuple[pr.Expr, ...]]]:
    """The tensors of a statement, and where it touches them: the one that it writes, and each read in order."""
    return [(s.target, s.subscripts), *((r.tensor, r.subscripts) for r in _reads_in_order(s.value))]


def _reads_in_order(e: pr.Expr) -> Iterator[pr.Read]:
    if isinstance(e, pr.Read):
        yield e
        return
    for x in pr.children(e):
        yield from _reads_in_order(x)


def _list(subscripts: Sequence[pr.Expr]) -> str:
    return ", ".join(map(pr.format_expr, subscripts))


def _rows(its: Sequence[pr.Expr], names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    forms = [linear(sub) for sub in its]
    return tuple(tuple(f.coefficient(i) for i in names) for f in forms if f is not None)


def _access(tensor: pr.Tensor, mine: tuple[pr.Expr, ...], operand: pr.Tensor, its: tuple[pr.Expr, ...],
            moves: Mapping[str, Piece], statement: str) -> _Access | str:
    """The two accesses beside each other, or why they move otherwise."""
    name, rows = operand.name, [_row(sub, moves) for sub in mine]
    unknown = next((sub for sub, row in zip(mine, rows, strict=True) if row is None), None)
    if unknown is not None:
        return (f"moves through {name} by sums of its indices, {statement} reads {tensor.name} at "
                f"{pr.format_expr(unknown)}")
    forms = [f for f in map(linear, its) if f is not None]
    moving = [d for d, row in enumerate(rows) if row]
    turning = [e for e, f in enumerate(forms) if f.terms]
    if [rows[d] for d in moving] != [dict(forms[e].terms) for e in turning]:
        return (f"moves through {name} as {name}[{_list(its)}], {statement} through {tensor.name} as "
                f"{tensor.name}[{_list(mine)}] does not")
    offsets = tuple(f.constant - low for f, low in zip(forms, operand.lower, strict=True))
    still = next((e for e in range(len(its)) if e not in turning and (offsets[e] or operand.shape[e] != 1)), None)
    if still is not None:
        return (f"reads one of {operand.shape[still]} elements in dimension {still} of {name}[{_list(its)}]: {statement} does "
                "not say where the others are")
    return _Access(tensor, mine, operand, its, tuple(zip(turning, moving, strict=True)), offsets)


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
        case pr.Unary(op="-"):
            a = _factor(e.a, p)
            return None if a is None else -a
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


def _strides(a: _Access, intrinsic: Intrinsic) -> str:
    """Why the elements of an operand lie otherwise than a text of the intrinsic has them; '' if they do not."""
    for e, d in a.dims:
        mine, wanted = _product(a.tensor.shape[d + 1:]), _product(a.operand.shape[e + 1:])
        untold = intrinsic.untold(a.operand.name, e)
        if untold and mine != wanted:
            name = a.operand.name
            texts = "its text" if len(untold) == len(intrinsic.code) else f"its text for {' and '.join(untold)}"
            return (f"has steps of {wanted} in dimension {e} of {name}, those of dimension {d} of {a.tensor.name} are {mine} "
                    f"elements apart: take {{{name}.{e}}} in {texts}, or cache {a.tensor.name}")
    return ""


def _product(shape: Sequence[int]) -> int | str:
    found: int = 1
    for n in shape:
        if isinstance(n, Size):
            return " * ".join(map(str, shape))
        found *= n
    return found


def _ends(sub: pr.Expr, s: pr.Statement) -> tuple[int, int] | None:
    """The interval of a subscript in all instances; None where open sizes say it."""
    form = affine(sub)
    used = [r for r in s.ranges if r.index in pr.index_names(sub)]
    if form is None or any(isinstance(n, Size) for r in used for n in (r.lower, r.upper)):
        return None
    return interval(form, s.box)


def _touched(used: Sequence[_Access], e: int, t: pr.Statement) -> bool:
    """Do the loops reach the first and the last element of an operand in a dimension? used: all accesses to it."""
    ends = [x for a in used if (x := _ends(a.its[e], t)) is not None]
    low, n = used[0].operand.lower[e], used[0].operand.shape[e]
    return min(first for first, _ in ends) == low and max(last for _, last in ends) == low + n - 1


def _outside(a: _Access, s: pr.Statement, t: pr.Statement) -> str:
    """Why elements of an operand that the loops do not touch may lie outside of the tensor; '' if all are in it."""
    for e, d in a.dims:
        mine, its = _ends(a.mine[d], s), _ends(a.its[e], t)
        low, n, size = a.operand.lower[e], a.operand.shape[e], a.tensor.shape[d]
        where = (f"has {n} elements in dimension {e} of {a.operand.name}, which it accesses as {a}: {s.name} accesses "
                 f"{a.statement}, ")
        if mine is None or its is None or isinstance(size, Size):
            return where + f"around which there may be no such elements of {a.tensor.name}"
        first, last = mine[0] - (its[0] - low), mine[1] - its[1] + low + n - 1
        begin = a.tensor.lower[d]
        if first < begin or last >= begin + size:
            return where + f"which takes {a.tensor.name} from {first} to {last} where it has {begin} to {begin + size - 1}"
    return ""
