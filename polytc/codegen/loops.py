"""The Loop AST: imperative loops over typed buffers, between isl's AST and every target's source.

Semantics. Loops run `for (var = lower; var < upper; var += step)`; bounds are evaluated once. Loop variables and index
arithmetic are i64. `//` and `%` round towards minus infinity. A value of `lanes` > 1 is a vector; operators work lane by lane
on operands of equal lanes. Buffers never alias each other. Loops of kind 'parallel', 'vector', 'block' and 'thread' carry no
dependence (the schedule proved it), so that their iterations may run in any order or at once. Float operations are those of
IEEE 754, but that a product and a sum may be one unless the kernel is precise; a fast one may reassociate them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from polytc.codegen.buffers import Buffer as Buffer
from polytc.codegen.buffers import Node as Node
from polytc.codegen.buffers import Space as Space
from polytc.program.fetching import Ahead
from polytc.program.intrinsics import Call as IntrinsicCall
from polytc.program.node import frozen, node
from polytc.program.scalars import BOOL, I64, DType

LoopKind: TypeAlias = Literal["sequential", "parallel", "vector", "reduce", "unroll", "rolled", "matrix", "block", "thread"]


# ---- expressions: every node has dtype and lanes

@node
class Var(Node):
    """A loop variable, or a size that is not fixed. least, most: its ends, where they do not follow from a loop."""

    name: str
    dtype: DType = I64
    lanes: int = 1
    least: int | None = None
    most: int | None = None


@node
class Const(Node):
    """A number (Python int, float, bool), in every lane."""

    value: int | float | bool
    dtype: DType
    lanes: int = 1


@node
class Unary(Node):
    """op: '-', '!', '~'."""

    op: str
    a: Expr
    dtype: DType
    lanes: int = 1


@node
class Binary(Node):
    """op: a row of scalars.ARITHMETIC, COMPARISONS (dtype is bool) or LOGICAL (no short circuit)."""

    op: str
    a: Expr
    b: Expr
    dtype: DType
    lanes: int = 1


@node
class Call(Node):
    """An intrinsic of scalars.INTRINSICS, a call of program.calls.words, or 'muladd' (a*b + c of floats, in one
    rounding where that is cheap)."""

    fn: str
    args: tuple[Expr, ...]
    dtype: DType
    lanes: int = 1


@node
class Cast(Node):
    a: Expr
    dtype: DType
    lanes: int = 1


@node
class Select(Node):
    """Both sides are evaluated unless they contain a Load: a Load is only performed in lanes that choose it."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: DType
    lanes: int = 1


@node
class Load(Node):
    """buffer[indices]; one index a dimension, scalar or vector of `lanes` (a Ramp in the last one is a contiguous load)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    dtype: DType
    lanes: int = 1


@node
class Ramp(Node):
    """(base, base + stride, ..., base + (lanes-1)*stride), integers; stride is a known number.

    active: as an index, the lanes that count: so many from the first, or those where a vector of bool is true. The others are
    neither loaded (they hold anything) nor stored. This is how a vector covers the end of a loop. None: all.
    """

    base: Expr
    stride: int
    lanes: int
    dtype: DType = I64
    active: int | Expr | None = None

    @property
    def reach(self) -> int:
        """Lanes from the first to the last that may count."""
        return self.active if isinstance(self.active, int) else self.lanes


@node
class Broadcast(Node):
    """A scalar in every lane."""

    a: Expr
    lanes: int
    dtype: DType


@node
class Reduce(Node):
    """A vector's lanes combined by a reduction operator (a key of scalars.REDUCTIONS): a scalar."""

    op: str
    a: Expr
    dtype: DType
    lanes: int = 1


@node
class Shuffle(Node):
    """Lanes of two vectors in another order: lane i is lane order[i] of a, followed by those of b."""

    a: Expr
    b: Expr
    order: tuple[int, ...]
    dtype: DType
    lanes: int


Expr: TypeAlias = Var | Const | Unary | Binary | Call | Cast | Select | Load | Ramp | Broadcast | Reduce | Shuffle


# ---- statements

@frozen
class For:
    """kind: how iterations may run. 'vector' and 'reduce' (a horizontal reduction) loops are expanded by passes; behind
    passes.vectorize an 'unroll' loop stands for copies of its body (passes.unrolling), which a target writes; a 'rolled' one is
    sequential and is not to be unrolled; 'matrix' loops are sequential ones, too, around a product of tiles that a matrix unit
    may do at once (matrix_products); 'block' and 'thread' loops become work-groups and work-items (`axis` 0, 1, 2; 0 is the
    fastest). title: what readers call the variable, e.g. 'k_tile'; it means nothing, and '' is no name. copies: of the body
    that an 'unroll' loop of a device is written out in; 0 is one for each iteration."""

    var: str
    lower: Expr
    upper: Expr
    step: int
    body: Stmt
    kind: LoopKind = "sequential"
    axis: int = 0
    title: str = field(default="", compare=False)
    copies: int = 0


@frozen
class If:
    cond: Expr
    then: Stmt
    orelse: Stmt | None = None


@frozen
class Store:
    """buffer[indices] = value. A vector store has a Ramp among the indices. origin: the statement of the program that it
    computes, for readers only. atomic: the value is `buffer[indices] op x`, of a reduction operator and whole numbers, and what
    is loaded, computed and stored for it is one step: other work-items may do the same to the element meanwhile."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    origin: str = field(default="", compare=False)
    atomic: bool = False


@frozen
class Block:
    stmts: tuple[Stmt, ...]


@frozen
class Alloc:
    """A local or private buffer that lives during `body`; its contents start undefined."""

    buffer: Buffer
    body: Stmt


@dataclass(frozen=True)
class Barrier:
    """All work-items of a work-group meet here (only under block loops, never under divergent control). through: the global
    buffers of which one item may store an element before it that another uses behind it."""

    through: frozenset[str] = frozenset()


Stmt: TypeAlias = For | If | Store | Block | Alloc | Barrier


@dataclass(frozen=True)
class Asked:
    """What a statement (Store.origin) is to be fetched ahead, in the loop of a variable."""

    origin: str
    var: str
    ahead: Ahead


@dataclass(frozen=True)
class Sharing:
    """An array before others came into its storage. stores, loads: the statements (Store.origin) that do so."""

    name: str
    stores: frozenset[str]
    loads: frozenset[str]


@dataclass(frozen=True)
class Shared:
    """An array that stands for several (passes.local_memory.shared_storage), in the order of their lives."""

    name: str
    members: tuple[Sharing, ...]


@dataclass(frozen=True)
class Kernel:
    """One loop nest that runs in one piece. args: global buffers in calling order. writes: names of those it writes. precise,
    fast: see program.program. intrinsics: of statements (Store.origin), whose 'matrix' loops are a call of one. host: loops
    that the host runs around it (passes.host_loops), outermost first, without bodies. resident: groups of a compute unit that
    registers should leave room for, where somebody asked for more of them (passes.local_memory.register_prefetch). ahead:
    what a schedule asks to be fetched before it is used. shares: arrays in local memory that stand for several."""

    name: str
    args: tuple[Buffer, ...]
    writes: tuple[str, ...]
    body: Stmt
    precise: bool = False
    host: tuple[For, ...] = ()
    fast: bool = False
    intrinsics: tuple[tuple[str, IntrinsicCall], ...] = ()
    resident: int = 0
    ahead: tuple[Asked, ...] = ()
    shares: tuple[Shared, ...] = ()

    def __str__(self) -> str:
        return format_kernel(self)


@dataclass(frozen=True)
class Module:
    """What a program becomes: kernels that run one after another.

    args: the caller's buffers (program inputs, then outputs), in order. scratch: global buffers for temporaries that the
    runtime provides. Each kernel's args are among both, by name. sizes: variables that all kernels may read, until
    codegen.size_binding gives them values; extents of global buffers may be formulas of them (program.sizes.Size) until then.
    products: the sizes that are products of two extents, as in Program.products. once: of a program that runs once.
    """

    name: str
    args: tuple[Buffer, ...]
    outputs: tuple[str, ...]
    scratch: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    sizes: tuple[str, ...] = ()
    once: bool = False
    products: tuple[tuple[str, tuple[int, int]], ...] = ()

    def __str__(self) -> str:
        head = f"module {self.name}({', '.join(map(_buffer, self.args))}) -> ({', '.join(self.outputs)})"
        return "\n".join([head, *(f"scratch {_buffer(b)}" for b in self.scratch), *map(format_kernel, self.kernels)])


def update(s: Store) -> tuple[str, Expr] | None:
    """The operator and the other operand of a store `buffer[indices] = buffer[indices] op x` of a number of 32 bits; None for
    others."""
    match s.value:
        case Binary(op=op, a=Load() as old, b=x) | Call(fn=op, args=(Load() as old, x)):
            whole = old.dtype.kind in "iu" and old.dtype.bits == 32 and op in ("+", "min", "max", "&", "|", "^")
            return (op, x) if whole and old.buffer == s.buffer and old.indices == s.indices else None
    return None


# ---- construction

def const(value: int, lanes: int = 1) -> Const:
    """An index constant."""
    return Const(value, I64, lanes)


def binary(op: str, a: Expr, b: Expr, dtype: DType | None = None) -> Binary:
    """`a op b` with the type and lanes that follow from the operands (comparisons and logic give bool)."""
    boolean = op in ("==", "!=", "<", "<=", ">", ">=", "&&", "||")
    return Binary(op, a, b, dtype or (BOOL if boolean else a.dtype), max(a.lanes, b.lanes))


def block(*stmts: Stmt) -> Stmt:
    """Statements in sequence, nested blocks flattened; a single one stays itself."""
    flat: list[Stmt] = []
    for s in stmts:
        flat += s.stmts if isinstance(s, Block) else (s,)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


# ---- printing

def format_expr(e: Expr) -> str:
    """An expression on one line."""
    match e:
        case Var():
            return e.name
        case Const():
            text = ("true" if e.value else "false") if e.dtype.kind == "b" else repr(e.value)
            return text if e.lanes == 1 else f"x{e.lanes}({text})"
        case Unary():
            return f"{e.op}{format_expr(e.a)}"
        case Binary():
            return f"({format_expr(e.a)} {e.op} {format_expr(e.b)})"
        case Call():
            return f"{e.fn}({', '.join(map(format_expr, e.args))})"
        case Cast():
            return f"{e.dtype}({format_expr(e.a)})"
        case Select():
            return f"select({format_expr(e.cond)}, {format_expr(e.a)}, {format_expr(e.b)})"
        case Load():
            return f"{e.buffer.name}[{', '.join(map(format_expr, e.indices))}]"
        case Ramp():
            return f"ramp({format_expr(e.base)}, {e.stride}, {e.lanes}{_active(e.active)})"
        case Broadcast():
            return f"x{e.lanes}({format_expr(e.a)})"
        case Reduce():
            return f"reduce_{e.op}({format_expr(e.a)})"
        case Shuffle():
            return f"shuffle({format_expr(e.a)}, {format_expr(e.b)}, {' '.join(map(str, e.order))})"


def _active(active: int | Expr | None) -> str:
    return "" if active is None else f", active {active if isinstance(active, int) else format_expr(active)}"


def _buffer(b: Buffer) -> str:
    return f"{b.dtype} {b.name}[{', '.join(map(str, b.shape))}]"


def format_stmt(s: Stmt, depth: int = 0) -> list[str]:
    """A statement as lines, indented by `depth` levels."""
    pad = "    " * depth
    match s:
        case For():
            kind = "" if s.kind == "sequential" else f"{s.kind} " if s.kind not in ("block", "thread") else f"{s.kind}{s.axis} "
            step = "" if s.step == 1 else f":{s.step}"
            head = f"{pad}{kind}for {s.var} in {format_expr(s.lower)}:{format_expr(s.upper)}{step}"
            return [head, *format_stmt(s.body, depth + 1)]
        case If():
            lines = [f"{pad}if {format_expr(s.cond)}", *format_stmt(s.then, depth + 1)]
            return lines if s.orelse is None else [*lines, f"{pad}else", *format_stmt(s.orelse, depth + 1)]
        case Store():
            mark = "atomic " if s.atomic else ""
            return [f"{pad}{mark}{s.buffer.name}[{', '.join(map(format_expr, s.indices))}] = {format_expr(s.value)}"]
        case Block():
            return [line for x in s.stmts for line in format_stmt(x, depth)]
        case Alloc():
            return [f"{pad}alloc {s.buffer.space} {_buffer(s.buffer)}", *format_stmt(s.body, depth)]
        case Barrier():
            return [f"{pad}barrier"]


def format_kernel(k: Kernel) -> str:
    """The kernel as text: signature, then its loops."""
    head = f"kernel {k.name}({', '.join(map(_buffer, k.args))}) writes {', '.join(k.writes)}"
    return "\n".join([head, *format_stmt(k.body, 1)])
