"""Program: a checked tensor program with concrete sizes, the first value of the pipeline.

Semantics. Statements run in textual order; the instances of one statement are independent and run in any order, except that
instances of an update (`op=`) that meet in one element are combined in any order by an associative and commutative operator,
and that those of an assignment that reads its own target (a scan, see rewrites.scan) run in the order of the indices.
Every read is in bounds or guarded, every element read has been written or is an input: `lang.check` has proved it. Float
reductions may be reassociated unless `precise`; integers wrap; min/max propagate NaN.

An update into a fresh tensor is two statements here: `C_init` writes the identity to the whole tensor, then the update
accumulates. Subscripts are quasi-affine integer expressions (`+ - *const //const %const` over indices), except that a
subscript may contain a `Read` of an integer tensor (a gather), whose value is clamped into bounds by every target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

from polytc.errors import Span
from polytc.lang.scalars import BOOL, I64, DType


@dataclass(frozen=True)
class Const:
    """A number of type `dtype`: Python int, float or bool (never numpy)."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True)
class Index:
    """The value of a loop index of the statement, e.g. `i`; type i64."""

    name: str
    dtype: DType = I64


@dataclass(frozen=True)
class Read:
    """`A[i-1, j]` or, with default, `A[i-1, j] else v`: `default` is the value outside of A's bounds.

    subscripts: one integer expression a dimension, in the tensor's own coordinates (see Tensor.lower).
    """

    tensor: str
    subscripts: tuple[Expr, ...]
    dtype: DType
    default: Const | None = None


@dataclass(frozen=True)
class Unary:
    """op: '-', '!' (bool), '~' (integers)."""

    op: str
    a: Expr
    dtype: DType


@dataclass(frozen=True)
class Binary:
    """op: a row of scalars.ARITHMETIC, COMPARISONS or LOGICAL. Both operands have one type, except for shifts."""

    op: str
    a: Expr
    b: Expr
    dtype: DType


@dataclass(frozen=True)
class Call:
    """An intrinsic of scalars.INTRINSICS, e.g. `exp(x)`, `max(a, b)`; all arguments have one type."""

    fn: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True)
class Cast:
    """Conversion as numpy's astype does it."""

    a: Expr
    dtype: DType


@dataclass(frozen=True)
class Select:
    """`cond ? a : b`; both sides may be evaluated, so neither may fault."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: DType


Expr: TypeAlias = Const | Index | Read | Unary | Binary | Call | Cast | Select


@dataclass(frozen=True)
class Tensor:
    """A named array. lower: its first coordinate in each dimension (`O[i] = I[i-1]` makes O start at 1); shape: its extents,
    so coordinate x of dimension d lies at lower[d] <= x < lower[d] + shape[d] and is stored row-major at x - lower[d]."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    lower: tuple[int, ...]

    @property
    def size(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n


@dataclass(frozen=True)
class Range:
    """lower <= index < upper, e.g. Range('i', 0, 512): the bounding box of the domain in this index."""

    index: str
    lower: int
    upper: int

    @property
    def extent(self) -> int:
        return self.upper - self.lower


@dataclass(frozen=True)
class Statement:
    """`target[subscripts] = value` or `target[subscripts] op= value` for all points of the domain.

    name: unique in the program and an isl identifier, e.g. 'S1', 'S1_init'.
    op: None for '=', else a key of scalars.REDUCTIONS.
    ranges: the box of the domain, in order of the indices' first appearance (left side first).
    where: affine conditions (bool expressions over indices) that narrow the box, e.g. j <= i, i % 2 == 0; usually none.
    span: the place in the source text, if it came from there.
    """

    name: str
    target: str
    subscripts: tuple[Expr, ...]
    op: str | None
    value: Expr
    ranges: tuple[Range, ...]
    where: tuple[Expr, ...] = ()
    span: Span | None = None

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(r.index for r in self.ranges)

    @property
    def points(self) -> int:
        """Instances of the statement's box."""
        return prod(r.extent for r in self.ranges)

    @cached_property
    def _reads(self) -> tuple[Read, ...]:
        found = [r for e in (self.value, *self.subscripts) for r in walk(e) if isinstance(r, Read)]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Program:
    """name: of the def, or 'program'. inputs: tensors that the caller gives, in signature order; outputs: tensors the caller
    gets, in order; every other tensor is a temporary. precise: float reductions keep their order. constants: inputs whose
    contents do not change between the calls of a bound executable, such as weights; what follows from them alone is computed
    once. direct: the products are those that are written, no algorithm with fewer of them and larger rounding errors."""

    name: str
    tensors: tuple[Tensor, ...]
    statements: tuple[Statement, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    precise: bool = False
    constants: tuple[str, ...] = ()
    direct: bool = False

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.tensors if t.name == name)

    def statement(self, name: str) -> Statement:
        return next(s for s in self.statements if s.name == name)

    @property
    def temporaries(self) -> tuple[str, ...]:
        outer = {*self.inputs, *self.outputs}
        return tuple(t.name for t in self.tensors if t.name not in outer)

    def __str__(self) -> str:
        return format_program(self)


# ---- traversal

def children(e: Expr) -> tuple[Expr, ...]:
    """The direct operands of `e`, subscripts of reads included."""
    match e:
        case Read():
            return e.subscripts
        case Unary() | Cast():
            return (e.a,)
        case Binary():
            return (e.a, e.b)
        case Call():
            return e.args
        case Select():
            return (e.cond, e.a, e.b)
        case _:
            return ()


def rebuild(e: Expr, operands: tuple[Expr, ...]) -> Expr:
    """`e` with other operands, in the order of `children`."""
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
    rest = [e]
    while rest:
        first = rest.pop()
        yield first
        rest += reversed(children(first))


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


def reads(s: Statement) -> tuple[Read, ...]:
    """All reads of a statement, gathers on the left side included; the read of an update's own target is not listed."""
    return s._reads


def conjunction(conditions: tuple[Expr, ...]) -> Expr:
    """All of `conditions`, as one expression; at least one."""
    result = conditions[0]
    for c in conditions[1:]:
        result = Binary("&&", result, c, BOOL)
    return result


# ---- printing

_LEVEL = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5} | dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 6) | {
    "<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "//": 9, "%": 9}


def format_expr(e: Expr, level: int = 0) -> str:
    """The expression as DSL text, with the fewest parentheses."""
    match e:
        case Const():
            text, own = _number(e), 12
        case Index():
            text, own = e.name, 12
        case Read():
            text = e.tensor + (f"[{', '.join(map(format_expr, e.subscripts))}]" if e.subscripts else "")
            text, own = (text, 12) if e.default is None else (f"({text} else {_number(e.default)})", 12)
        case Unary():
            text, own = f"{e.op}{format_expr(e.a, 11)}", 10
        case Binary():
            own = _LEVEL[e.op]
            text = f"{format_expr(e.a, own)} {e.op} {format_expr(e.b, own + 1)}"
        case Call():
            text, own = f"{e.fn}({', '.join(map(format_expr, e.args))})", 12
        case Cast():
            text, own = f"{e.dtype}({format_expr(e.a)})", 12
        case Select():
            text, own = f"{format_expr(e.cond, 1)} ? {format_expr(e.a, 1)} : {format_expr(e.b)}", 0
    return f"({text})" if own < level else text


def _number(c: Const) -> str:
    if c.dtype.kind == "b":
        return "true" if c.value else "false"
    return repr(c.value)


def format_statement(s: Statement) -> str:
    left = s.target + (f"[{', '.join(map(format_expr, s.subscripts))}]" if s.subscripts else "")
    op = "=" if s.op is None else f"{s.op}=" if len(s.op) == 1 else f" {s.op}="
    clauses = [f"{r.index} in {r.lower}:{r.upper}" for r in s.ranges] + [format_expr(c) for c in s.where]
    where = f"  where {', '.join(clauses)}" if clauses else ""
    return f"{left}{op if op.startswith(' ') else ' ' + op} {format_expr(s.value)}{where}"


def _declaration(t: Tensor) -> str:
    bounds = [f"{lo}:{lo + n}" if lo else str(n) for lo, n in zip(t.lower, t.shape, strict=True)]
    return f"{t.dtype}[{', '.join(bounds)}] {t.name}" if bounds else f"{t.dtype} {t.name}"


def format_program(p: Program) -> str:
    """The program as text: every tensor with its bounds, every statement with its name and domain."""
    marks = ("precise " if p.precise else "") + ("direct " if p.direct else "")
    lines = [f"{marks}def {p.name}({', '.join(_declaration(p.tensor(n)) for n in p.inputs)})"
             f" -> ({', '.join(_declaration(p.tensor(n)) for n in p.outputs)}) {{"]
    lines += [f"    constant {n}" for n in p.constants]
    lines += [f"    temp {_declaration(p.tensor(n))}" for n in p.temporaries]
    lines += [f"    {s.name}: {format_statement(s)}" for s in p.statements]
    return "\n".join([*lines, "}"])
