"""The syntax tree: a program as it was written, every node with its place in the text. Nothing is resolved yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from polytc.errors import Span


@dataclass(frozen=True)
class Number:
    """A literal, e.g. 3, 0.5 or 2j (Python int, float or complex), or a constant put in by expansion (also bool)."""

    value: complex
    span: Span


@dataclass(frozen=True)
class Name:
    """A bare name: an index, a size, a scalar, an attribute, a tensor without dimensions, or a constant such as pi."""

    id: str
    span: Span


@dataclass(frozen=True)
class Access:
    """`A[i, j+1]`. subscripts: expressions, or `Pack`s before expansion; literal: of a list of numbers, `[1, 2, 1][k]`, whose
    type is weak as theirs are."""

    tensor: str
    subscripts: tuple[Expr, ...]
    span: Span
    literal: bool = False


@dataclass(frozen=True)
class Guarded:
    """`access else default`; default None means `else identity`."""

    access: Expr
    default: Expr | None
    span: Span


@dataclass(frozen=True)
class Extent:
    """`A.shape[axis]`; a negative axis counts from the end."""

    tensor: str
    axis: int
    span: Span


@dataclass(frozen=True)
class Unary:
    op: str
    a: Expr
    span: Span


@dataclass(frozen=True)
class Binary:
    """loose: `&`, `|` or `^` with an operand that is a comparison without parentheses, as in `x & 1 == 0`."""

    op: str
    a: Expr
    b: Expr
    span: Span
    loose: bool = False


@dataclass(frozen=True)
class ChainedComparison:
    """`a < b <= c`: every operand compared with the next one, ops[k] between operands k and k + 1. One comparison alone is a
    Binary."""

    operands: tuple[Expr, ...]
    ops: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Ternary:
    condition: Expr
    a: Expr
    b: Expr
    span: Span


@dataclass(frozen=True)
class Call:
    """`fn(args)`: an intrinsic, a cast, a definition, or (in Tensor Comprehensions' notation) a read.

    attributes: of the `op` that is called.
    """

    fn: str
    args: tuple[Expr, ...]
    span: Span
    attributes: tuple[Given, ...] = ()


@dataclass(frozen=True)
class Given:
    """`alpha=0.1` or `pad=[1, 1]` in the `< >` of a call. several: written as a list."""

    name: str
    values: tuple[Expr, ...]
    several: bool
    span: Span


@dataclass(frozen=True)
class Pack:
    """`*(e)` as a subscript or bound: one copy of `e` for each axis of the packs in it. `*i` is Pack(Name('i')).

    optional: written `*i?` (or, on a plain index of a parameter, `j?`): extents of 1 and missing axes broadcast.
    """

    a: Expr
    span: Span
    optional: bool = False
    single: bool = False


@dataclass(frozen=True)
class Interval:
    """`lower:upper` as a dimension of an output or a temporary whose first coordinate is not 0: `f32[1:N+1] O`."""

    lower: Expr
    upper: Expr
    span: Span


Expr: TypeAlias = (Number | Name | Access | Guarded | Extent | Unary | Binary | ChainedComparison | Ternary | Call | Pack
                   | Interval)


@dataclass(frozen=True)
class RangeClause:
    """`index in lower:upper:step`; pack: written `*index in ...`."""

    index: str
    lower: Expr
    upper: Expr
    step: Expr | None
    pack: bool
    span: Span


@dataclass(frozen=True)
class LetClause:
    """`name = value`: `name` stands for `value` in this statement."""

    name: str
    value: Expr
    span: Span


@dataclass(frozen=True)
class Condition:
    """A comparison that narrows the domain, e.g. `j <= i`."""

    value: Expr
    span: Span


Clause: TypeAlias = RangeClause | LetClause | Condition


@dataclass(frozen=True)
class Loop:
    """`for index in ... { }` around a statement. label: the same for all statements of the block and for no other block."""

    label: str
    index: str
    span: Span


@dataclass(frozen=True)
class Statement:
    """`target[subscripts] op= value where clauses`. op: None for '='. reset: written `op=!`.

    call_style: the left side was written with parentheses, as Tensor Comprehensions does.
    components: all values of a tuple reduction, which is one statement a target, in a row; member: which of them this one is.
    accumulator: the type in `acc(f64)` before the statement.
    loops: the `for` blocks around it, outermost first; their ranges are the first clauses, in the same order.
    label: what stands before a colon, `S1[i, k]: ...`: the statement's name, and the order of its indices if it has any.
    in_place: the operator of `T[i] /= e`, which stands here as `T[i] = T[i] / e`.
    """

    target: str
    subscripts: tuple[Expr, ...]
    op: str | None
    reset: bool
    value: Expr
    clauses: tuple[Clause, ...]
    call_style: bool
    target_span: Span
    span: Span
    components: tuple[Expr, ...] = ()
    member: int = 0
    accumulator: str | None = None
    loops: tuple[Loop, ...] = ()
    label: Label | None = None
    in_place: str | None = None


@dataclass(frozen=True)
class Label:
    """`S1:` or `S1[i, k]:`. indices: as written, none where the order is that of their appearance."""

    name: str
    indices: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class CallStatement:
    """`S = softmax(P)` or `(A, B) = f(X, n)`: whole tensors from another definition.

    targets: names and places. parameters: what the definition takes, one for each argument that has one: (whether it is a
    number, its rank or None where packs leave it open); written: the arguments that it writes in place; both filled in by
    `calls.resolve`. loops, clauses: the `for` blocks around the call and their ranges.
    """

    targets: tuple[tuple[str, Span], ...]
    call: Call
    parameters: tuple[tuple[bool, int | None], ...]
    span: Span
    loops: tuple[Loop, ...] = ()
    clauses: tuple[Clause, ...] = ()
    written: tuple[tuple[str, Span], ...] = ()

    @property
    def tensors(self) -> tuple[tuple[Name, int | None], ...]:
        """The arguments that are tensors, with the ranks that are expected of them."""
        pairs = zip(self.call.args, self.parameters)
        return tuple((a, rank) for a, (number, rank) in pairs if not number and isinstance(a, Name))

    @property
    def numbers(self) -> tuple[Expr, ...]:
        """The arguments and attributes that are numbers."""
        pairs = zip(self.call.args, self.parameters)
        return (*(a for a, (number, _) in pairs if number), *(v for g in self.call.attributes for v in g.values))


@dataclass(frozen=True)
class Assumption:
    """`assume M >= K`."""

    value: Expr
    span: Span


@dataclass(frozen=True)
class Param:
    """A parameter, an output or a declared temporary. dtype: as written, or None. dims: sizes (`f32[B, I] X`) or indices
    (`X[*i, j]`), None where nothing was written. default: of a number that a call may leave out, `f32 a = 0.5`."""

    name: str
    dtype: str | None
    dims: tuple[Expr, ...] | None
    inout: bool
    span: Span
    default: int | float | bool | None = None


Item: TypeAlias = Statement | CallStatement | Assumption


@dataclass(frozen=True)
class Attribute:
    """`<alpha=0.01>`: default None means that the attribute must be given."""

    name: str
    default: int | float | bool | tuple[int | float, ...] | None
    span: Span


@dataclass(frozen=True)
class Function:
    """A whole program. kind: 'bare' (statements alone), 'def' or 'op'. outputs: None where nothing names them.
    body: statements in order, those of `for` blocks among them (Statement.loops). precise, fast, direct: see program.Program.
    temporaries: those that are declared."""

    kind: str
    name: str
    attributes: tuple[Attribute, ...]
    params: tuple[Param, ...]
    outputs: tuple[Param, ...] | None
    body: tuple[Item, ...]
    precise: bool
    span: Span
    fast: bool = False
    temporaries: tuple[Param, ...] = ()
    direct: bool = False


def operands(e: Expr) -> tuple[Expr, ...]:
    """The direct operands of `e`, in order."""
    match e:
        case Access():
            return e.subscripts
        case Guarded():
            return (e.access,) if e.default is None else (e.access, e.default)
        case Unary() | Pack():
            return (e.a,)
        case Binary():
            return (e.a, e.b)
        case ChainedComparison():
            return e.operands
        case Interval():
            return (e.lower, e.upper)
        case Ternary():
            return (e.condition, e.a, e.b)
        case Call():
            return e.args
        case _:
            return ()


def rebuild(e: Expr, changed: tuple[Expr, ...]) -> Expr:
    """`e` with other operands, in the order of `operands`."""
    match e:
        case Access():
            return replace(e, subscripts=changed)
        case Guarded():
            return replace(e, access=changed[0], default=changed[1] if len(changed) > 1 else None)
        case Unary() | Pack():
            return replace(e, a=changed[0])
        case Binary():
            return replace(e, a=changed[0], b=changed[1])
        case ChainedComparison():
            return replace(e, operands=changed)
        case Ternary():
            return replace(e, condition=changed[0], a=changed[1], b=changed[2])
        case Call():
            return replace(e, args=changed)
        case _:
            return e
