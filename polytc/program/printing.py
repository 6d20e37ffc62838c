"""Programs as text of the language that parses to the same program.

    def program(f32[4, 9] A) -> (f32[4] y) {
        S1_init: y[i] = 0.0  where i in 0:4
        S1: y[i] += A[i, k]  where i in 0:4, k in 0:9
    }

Everything that the front end would work out is stated: types and shapes of all tensors, the range of each index, initial
values, names of the statements, the order of their indices where it is not that of appearance. A number is written with its
type, `f32(0.5)`, where it would get another one. What the language cannot say stands in comments: which inputs keep their
contents between calls (`Program.constants`), which sizes are open, and which updates are atomic (`Statement.atomic`).
"""

from __future__ import annotations

import itertools
import keyword
import math
import re
from collections.abc import Iterator
from dataclasses import replace

from polytc.program import program as pr
from polytc.program import scalars, type_promotion
from polytc.program.names import indices_beside
from polytc.program.scalars import BOOL, I64, INTRINSICS, DType
from polytc.program.sizes import Size, Undecided
from polytc.program.type_promotion import TypeProblem, Value
from polytc.program.typenames import CONSTANTS, dtype_of

_WORDS = frozenset(("def", "op", "for", "in", "where", "else", "assume", "precise", "fast", "direct", "inout", "identity",
                    *CONSTANTS))
"""What no name of a program may be."""


def format_program(p: pr.Program) -> str:
    """The program as text."""
    p = _readable(p)
    marks = ("precise " if p.precise else "") + ("fast " if p.fast else "") + ("direct " if p.direct else "")
    inputs = [("inout " if n in p.outputs else "") + _declaration(p.tensor(n)) for n in p.inputs]
    lines = [f"{marks}def {p.name}({', '.join(inputs)}) -> ({', '.join(_declaration(p.tensor(n)) for n in p.outputs)}) {{"]
    lines += [f"    # open: {', '.join(p.sizes)}"] if p.sizes else []
    lines += [f"    # {n} is ({a}) * ({b})" for n, (a, b) in p.products]
    lines += [f"    # constant: {n}" for n in p.constants]
    lines += [f"    temp {_declaration(p.tensor(n))}" for n in p.temporaries]
    lines += _lines(pr.nested((*p.statements, *_without_elements(p))), (), p)
    return "\n".join([*lines, "}"])


def _without_elements(p: pr.Program) -> Iterator[pr.Statement]:
    """A statement without instances for each output that has no elements, and so no other: the language wants a writer."""
    written = {s.target for s in p.statements}
    for t in (p.tensor(n) for n in p.outputs if n not in written and n not in p.inputs):
        if not t.size:
            ranges = tuple(pr.Range(f"d{k}", low, low + n) for k, (low, n) in enumerate(zip(t.lower, t.shape, strict=True)))
            yield pr.Statement(f"{t.name}_empty", t.name, tuple(pr.Index(r.index) for r in ranges), None,
                               pr.Const(scalars.identity("+", t.dtype), t.dtype), ranges)


def _declaration(t: pr.Tensor) -> str:
    bounds = [f"{lo}:{lo + n}" if lo != 0 else str(n) for lo, n in zip(t.lower, t.shape, strict=True)]
    return f"{t.dtype}[{', '.join(bounds)}] {t.name}"


def _lines(body: tuple[pr.Nested, ...], known: tuple[pr.Range, ...], p: pr.Program) -> Iterator[str]:
    """known: ranges of the loops around."""
    margin = "    " * (len(known) + 1)
    for x in body:
        if isinstance(x, pr.Statement):
            yield margin + format_statement(x, p, known)
            continue
        r = x.range(len(known))
        bound = _header(x, r.index)
        ends = f"{r.lower}:{r.upper}" if bound is None else f"{_integer(bound.lower)}:{_integer(bound.upper)}"
        yield f"{margin}{x.label}: for {r.index} in {ends} {{"
        yield from _lines(x.body, (*known, r), p)
        yield margin + "}"


def _header(x: pr.Loop, index: str) -> pr.Bound | None:
    """The range in memory that a loop has."""
    found = {b for s in x.statements for b in s.bounds if b.index == index}
    return found.pop() if len(found) == 1 else None


# ---- statements

def format_statement(s: pr.Statement, p: pr.Program, known: tuple[pr.Range, ...] = ()) -> str:
    """A statement with its label. known: ranges of the loops around it, which are not repeated."""
    target = p.tensor(s.target)
    subscripts, value = tuple(_surface(e, I64) for e in s.subscripts), _surface(s.value, target.dtype)
    left = s.target + (f"[{', '.join(map(pr.format_expr, subscripts))}]" if subscripts else "")
    op = "=" if s.op is None else f"{s.op}="
    own = s.indices[:s.depth]
    held = {b.index for b in s.bounds if b.index in own}
    stated = [r for r in s.ranges if r not in known or r.index in held]
    clauses = [f"{r.index} in {r.lower}:{r.upper}" for r in stated]
    clauses += [f"{b.index} in {_integer(b.lower)}:{_integer(b.upper)}" for b in s.bounds if b.index not in own]
    clauses += [pr.format_expr(_surface(c, None)) for c in s.where]
    where = f"  where {', '.join(clauses)}" if clauses else ""
    appear = dict.fromkeys((*own, *(n.name for e in (*subscripts, value) for n in pr.walk(e) if isinstance(n, pr.Index)),
                            *(r.index for r in stated)))
    order = "" if tuple(appear) == s.indices else f"[{', '.join(s.indices)}]"
    mark = "  # atomic" if s.atomic else ""
    return f"{s.name}{order}: {left} {op} {pr.format_expr(value)}{where}{mark}"


def _integer(e: pr.Expr) -> str:
    return pr.format_expr(_surface(e, I64))


# ---- types of numbers

def _surface(e: pr.Expr, place: DType | None) -> pr.Expr:
    """The expression whose text means `e`: numbers (and indices) that would get another type have a cast around them.

    place: the type that the place of the expression asks for; None where it takes what comes. Where nothing else helps, as in
    what rewrites made, every number has its type."""
    if _means(e, e, place):
        return e
    operands = pr.children(e)
    choices = [list(dict.fromkeys((x, _surface(x, I64 if isinstance(e, pr.Read) else None)))) for x in operands]
    if not operands:
        return _typed(e)
    found = (pr.rebuild(e, chosen) for chosen in itertools.product(*choices))
    return next((x for x in found if _means(x, e, place)), pr.map_expr(e, _typed))


def _typed(e: pr.Expr) -> pr.Expr:
    return pr.Cast(e, e.dtype) if isinstance(e, pr.Index) or (isinstance(e, pr.Const) and e.dtype != BOOL) else e


def _means(text: pr.Expr, e: pr.Expr, place: DType | None) -> bool:
    """Is `e` what the front end makes of the text of an expression?"""
    text, e = pr.map_expr(text, _as_index), pr.map_expr(e, _as_index)
    try:
        found = _meaning(text)
        return _same(found.expr if place is None else type_promotion.adapt(found, place), e)
    except (TypeProblem, KeyError, Undecided):
        return False


def _as_index(e: pr.Expr) -> pr.Expr:
    """A formula of open sizes as what has its type and no number: an index."""
    if not (isinstance(e, pr.Const) and isinstance(e.value, Size)):
        return e
    return pr.Index(str(e.value)) if e.dtype == I64 else pr.Cast(pr.Index(str(e.value)), e.dtype)


def _meaning(e: pr.Expr) -> Value:
    """What the front end makes of the text of an expression."""
    match e:
        case pr.Const():
            return type_promotion.number(e.value)
        case pr.Index():
            return Value(e, weak_type=True)
        case pr.Read():
            return Value(replace(e, subscripts=tuple(type_promotion.adapt(_meaning(x), I64) for x in e.subscripts)))
        case pr.Unary():
            return type_promotion.unary(e.op, _meaning(e.a))
        case pr.Binary():
            return type_promotion.binary(e.op, _meaning(e.a), _meaning(e.b))
        case pr.Cast():
            return type_promotion.cast(_meaning(e.a), e.dtype)
        case pr.Call() if e.fn not in INTRINSICS:                   # no text can call it: see program.calls
            return Value(replace(e, args=tuple(_meaning(x).expr for x in e.args)))
        case pr.Call():
            return type_promotion.call(e.fn, [_meaning(x) for x in e.args])
        case pr.Select():
            return type_promotion.select(_meaning(e.cond), _meaning(e.a), _meaning(e.b))


def _same(a: pr.Expr, b: pr.Expr) -> bool:
    """Equal, where -0.0 is not 0.0 and nan is nan."""
    return repr(a) == repr(b) or (a == b and _signs(a) == _signs(b))


def _signs(e: pr.Expr) -> list[float]:
    return [math.copysign(1, part) for x in pr.walk(e) if isinstance(x, pr.Const) and x.dtype.is_float
            for part in (x.value.real, x.value.imag)]


# ---- names

def _readable(p: pr.Program) -> pr.Program:
    """The program with a name that a `def` may have, and with no index that is called as a tensor or a word is."""
    name = re.sub(r"\W", "_", p.name) or "program"
    known = name in scalars.FUNCTIONS or dtype_of(name) is not None or name in _WORDS
    name = f"{name}_" if known or name[0].isdigit() or keyword.iskeyword(name) else name
    return replace(indices_beside(p, _WORDS.union(p.sizes, (t.name for t in p.tensors))), name=name)
