"""Products of tiles that a matrix unit may do: loops of the kind 'matrix', and what they say.

    matrix for k in 0:32 { matrix for r in 0:8 { matrix for c in 0:4 { matrix for p in 0:2 {
        C_acc[r, c, p] = C_acc[r, c, p] + f32(A_tile[item1 + 16*r, k]) * f32(B_tile[k, 2*item0 + 8*c + p])
    } } } }

A loop of the kind runs as a sequential one wherever there is no such unit: each item adds up its own results. What a unit does
for the items of a warp together is the same sums in another order. Factors are halves, or words of bytes (program.calls), whose
dot products `dot_i8i8(A_tile[...], B_tile[...])` are four steps at once, in sums of i32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polytc.codegen import loops, traverse
from polytc.program.calls.words import DOTS
from polytc.program.scalars import F32, I32

BYTES = 32
"""Of each row of an operand that a unit multiplies at once: 16 halves, or 8 words of bytes."""


@dataclass(frozen=True)
class MatrixProduct:
    """One nest of such loops: those over steps of the sum, rows, columns and the two columns of a pair; what is stored; the
    operand that moves with the rows, and the one that moves with the columns, both of which are halves or words in local
    memory. of: the types of the factors, 'f16' and 'f16', or 'u8' and 'i8' in words."""

    steps: loops.For
    rows: loops.For
    columns: loops.For
    pair: loops.For
    store: loops.Store
    left: loops.Load
    right: loops.Load
    of: tuple[str, str]

    @property
    def at_once(self) -> int:
        """Steps of the sum that a unit makes at once."""
        return steps_at_once(self.left)


def steps_at_once(e: loops.Load) -> int:
    """Numbers of an operand's row that a unit multiplies at once."""
    return BYTES // e.dtype.bytes


def product_of(s: loops.Stmt) -> MatrixProduct | None:
    """What a nest says; None for other statements, and for loops that somebody called so."""
    nest: list[loops.For] = []
    while isinstance(s, loops.For) and s.kind == "matrix" and s.lower == loops.const(0) and s.step == 1 and isinstance(
            s.upper, loops.Const):
        nest.append(s)
        s = s.body
    if len(nest) != 4 or not isinstance(s, loops.Store) or s.buffer.space != "private":
        return None
    steps, rows, columns, pair = nest
    places = tuple(loops.Var(x.var) for x in nest[1:])
    operands = _operands(s)
    if s.indices[-3:] != places or operands is None or _trips(rows) % 2 or _trips(pair) != 2:
        return None
    (left, first), (right, second) = sorted(operands, key=lambda o: _uses(o[0], pair))
    if _trips(steps) % steps_at_once(left):
        return None
    apart = _uses(left, rows) and not _uses(left, columns) and not _uses(left, pair) and not _uses(right, rows)
    both = _uses(left, steps) and _uses(right, steps) and _uses(right, columns) and _uses(right, pair)
    return MatrixProduct(steps, rows, columns, pair, s, left, right, (first, second)) if apart and both else None


def products(s: loops.Stmt) -> Iterator[tuple[loops.For, MatrixProduct]]:
    """All nests of a statement, by their outermost loops."""
    if isinstance(s, loops.For) and s.kind == "matrix" and (found := product_of(s)) is not None:
        yield s, found
        return
    for x in traverse.children(s):
        yield from products(x)


def tiles(s: loops.Stmt) -> frozenset[str]:
    """The names of the arrays that products read."""
    return frozenset(e.buffer.name for _, p in products(s) for e in (p.left, p.right))


def _operands(s: loops.Store) -> tuple[tuple[loops.Load, str], tuple[loops.Load, str]] | None:
    """The factors of `R = R + f32(a) * f32(b)`, halves of one type in local memory, or of `R = R + dot(a, b)`, words there; and
    what each is."""
    match s.value:
        case loops.Binary(op="+", a=loops.Load() as old, b=product) if (old.buffer, old.indices) == (s.buffer, s.indices):
            return _halves(product) if s.buffer.dtype == F32 else _words(product) if s.buffer.dtype == I32 else None
    return None


def _halves(product: loops.Expr) -> tuple[tuple[loops.Load, str], tuple[loops.Load, str]] | None:
    match product:
        case loops.Binary(op="*", a=loops.Cast(a=loops.Load() as a), b=loops.Cast(a=loops.Load() as b)):
            fits = a.dtype.is_half and a.dtype == b.dtype and a.buffer.space == b.buffer.space == "local"
            return ((a, a.dtype.name), (b, b.dtype.name)) if fits else None
    return None


def _words(product: loops.Expr) -> tuple[tuple[loops.Load, str], tuple[loops.Load, str]] | None:
    match product:
        case loops.Call(args=(loops.Load() as a, loops.Load() as b)) if (dot := DOTS.get(product.fn)) is not None:
            fits = dot.result == I32 and dot.group == BYTES // 8 and a.buffer.space == b.buffer.space == "local"
            return ((a, dot.a.name), (b, dot.b.name)) if fits else None
    return None


def _uses(e: loops.Load, s: loops.For) -> bool:
    return s.var in traverse.variables(e)


def _trips(s: loops.For) -> int:
    assert isinstance(s.upper, loops.Const)
    return int(s.upper.value)
