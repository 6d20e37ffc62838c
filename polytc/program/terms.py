"""The expressions of a Program: nodes, traversal, and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from math import isfinite
from operator import is_
from typing import Any, TypeAlias

from polytc.program.node import node
from polytc.program.scalars import COMPARISONS, I64, DType


class Node:
    """Room for what is found out about an expression once: the hash of `node`, the nodes below it (`walk`), and its
    quasi-affine form (`program.affine`)."""

    __slots__ = ("_affine", "_hash", "_nodes")
    _affine: Any
    _hash: int
    _nodes: tuple[Expr, ...]


@node
class Const(Node):
    """A number of type `dtype`: Python int, float, bool or complex (never numpy). A float of a complex type is real."""

    value: Any
    dtype: DType


@node
class Index(Node):
    """The value of a loop index of the statement, e.g. `i`; type i64."""

    name: str
    dtype: DType = I64


@node
class Read(Node):
    """`A[i-1, j]` or, with default, `A[i-1, j] else v`: `default` is the value outside of A's bounds.

    subscripts: one integer expression a dimension, in the tensor's own coordinates (see Tensor.lower). shielded: the default is
    none of the text; it is there because the read is computed where `where` leaves the instance out, too, and must not fault.
    """

    tensor: str
    subscripts: tuple[Expr, ...]
    dtype: DType
    default: Const | None = None
    shielded: bool = field(default=False, compare=False, repr=False)

    @property
    def gathers(self) -> bool:
        """Does memory decide which element is read?"""
        return any(isinstance(x, Read) for sub in self.subscripts for x in walk(sub))


@node
class Unary(Node):
    """op: '-', '!' (bool), '~' (integers)."""

    op: str
    a: Expr
    dtype: DType


@node
class Binary(Node):
    """op: a row of scalars.ARITHMETIC, COMPARISONS or LOGICAL. Both operands have one type, except for shifts."""

    op: str
    a: Expr
    b: Expr
    dtype: DType


@node
class Call(Node):
    """An intrinsic of scalars.INTRINSICS, e.g. `exp(x)`, `max(a, b)`, or a call of program.calls.words; all arguments have one
    type."""

    fn: str
    args: tuple[Expr, ...]
    dtype: DType


@node
class Cast(Node):
    """Conversion as numpy's astype does it."""

    a: Expr
    dtype: DType


@node
class Select(Node):
    """`cond ? a : b`; both sides may be evaluated, so neither may fault. skips: it is none of the text; `cond` is what `where`
    asks of memory, and `b` what does nothing where that fails."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: DType
    skips: bool = field(default=False, compare=False, repr=False)


Expr: TypeAlias = Const | Index | Read | Unary | Binary | Call | Cast | Select


# ---- traversal

def children(e: Expr) -> tuple[Expr, ...]:
    """The direct operands of `e`, subscripts of reads included."""
    return _CHILDREN[type(e)](e)


# A table by type, since a match statement tests the types one after another.
_CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    **dict.fromkeys((Const, Index), lambda e: ()), **dict.fromkeys((Unary, Cast), lambda e: (e.a,)),
    Read: lambda e: e.subscripts, Binary: lambda e: (e.a, e.b), Call: lambda e: e.args, Select: lambda e: (e.cond, e.a, e.b)}


def rebuild(e: Expr, operands: tuple[Expr, ...]) -> Expr:
    """`e` with other operands, in the order of `children`; `e` itself if they are its own."""
    if all(map(is_, children(e), operands)):
        return e
    match e:
        case Read():
            return replace(e, subscripts=operands)
        case Unary() | Cast():
            return replace(e, a=operands[0])
        case Binary():
            return replace(e, a=operands[0], b=operands[1])
        case Call():
            return replace(e, args=operands)
        case Select():
            return replace(e, cond=operands[0], a=operands[1], b=operands[2])
        case _:
            return e


def walk(e: Expr) -> Iterator[Expr]:
    """`e` and all expressions below it, parents first."""
    try:
        return iter(e._nodes)
    except AttributeError:
        nodes, rest = list[Expr](), [e]
        while rest:
            nodes.append(rest.pop())
            rest += reversed(children(nodes[-1]))
        object.__setattr__(e, "_nodes", tuple(nodes))
        return iter(e._nodes)


def index_names(e: Expr) -> Iterator[str]:
    """The indices in an expression, from left to right, as often as they stand there."""
    return (x.name for x in walk(e) if isinstance(x, Index))


def factors(e: Expr) -> Iterator[Expr]:
    """The factors of a product, from left to right; what is no product is one."""
    if isinstance(e, Binary) and e.op == "*":
        yield from factors(e.a)
        yield from factors(e.b)
    else:
        yield e


DEEPEST = 150
"""Levels that an expression may have: of more, generated Python has more parentheses than Python reads, 200, and what goes down
expressions comes to the end of its stack soon after."""


def levels(e: Expr) -> int:
    """How many levels of operations an expression has; no more than DEEPEST + 1 are counted."""
    found, level = 0, children(e)
    while level and found <= DEEPEST:
        found, level = found + 1, tuple(c for x in level for c in children(x))
    return found


def map_expr(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rewrite bottom-up: f is applied to every node after its operands."""
    operands = children(e)
    return f(rebuild(e, tuple(map_expr(c, f) for c in operands))) if operands else f(e)


def substitute(e: Expr, values: dict[str, Expr]) -> Expr:
    """`e` with each index named in `values` replaced."""
    if isinstance(e, Index):
        return values.get(e.name, e)
    operands = children(e)
    return rebuild(e, tuple(substitute(c, values) for c in operands)) if operands else e


# ---- printing

_LEVEL = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5} | dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 6) | {
    "<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "//": 9, "%": 9}


def format_expr(e: Expr, level: int = 0) -> str:
    """The expression as DSL text, with the fewest parentheses."""
    match e:
        case Const():
            text, own = number_text(e), 12
            if text.startswith("("):  # a formula of sizes, which may be any operation
                text, own = text[1:-1], 0
        case Index():
            text, own = e.name, 12
        case Read():
            text = e.tensor + (f"[{', '.join(map(format_expr, e.subscripts))}]" if e.subscripts else "")
            text, own = (text, 12) if e.default is None else (f"({text} else {number_text(e.default)})", 12)
        case Unary():
            text, own = f"{e.op}{format_expr(e.a, 11)}", 10
        case Binary():
            own = _LEVEL[e.op]
            left = own + (e.op in COMPARISONS)  # `a < b < c` is a chain
            text = f"{format_expr(e.a, left)} {e.op} {format_expr(e.b, own + 1)}"
        case Call():
            text, own = f"{e.fn}({', '.join(map(format_expr, e.args))})", 12
        case Cast():
            text, own = f"{e.dtype}({format_expr(e.a)})", 12
        case Select():
            text, own = f"{format_expr(e.cond, 1)} ? {format_expr(e.a, 1)} : {format_expr(e.b)}", 0
    return f"({text})" if own < level else text


def number_text(c: Const) -> str:
    """A number as it is written; a formula of sizes in parentheses."""
    if c.dtype.kind == "b":
        return "true" if c.value else "false"
    text = repr(c.value)
    if isinstance(c.value, complex):  # Python writes the sign of a part that is 0
        imag = f"{c.value.imag!r}j" if isfinite(c.value.imag) else f"{c.value.imag!r} * 1j"
        sum_of = "".join((f"{c.value.real!r}", "" if imag.startswith("-") else "+", imag)) if c.value.real != 0 else imag
        return f"({sum_of})" if sum_of is not imag or "*" in imag else imag
    return f"({text})" if " " in text or "//" in text or "*" in text else text
