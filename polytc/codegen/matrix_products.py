"""Products of tiles that a matrix unit may do: loops of the kind 'matrix', and what they say.

    matrix for k in 0:32 { matrix for r in 0:8 { matrix for c in 0:4 { matrix for p in 0:2 {
        C_acc[r, c, p] = C_acc[r, c, p] + f32(A_tile[item1 + 16*r, k]) * f32(B_tile[k, 2*item0 + 8*c + p])
    } } } }

A loop of the kind runs as a sequential one wherever there is no such unit: each item adds up its own results. What a unit does
for the items of a warp together is the same sums in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polytc.codegen import loops, traverse

STEPS = 16
"""Of a sum that a unit makes at once."""


@dataclass(frozen=True)
class MatrixProduct:
    """One nest of such loops: those over steps of the sum, rows, columns and the two columns of a pair; what is stored; the
    operand that moves with the rows, and the one that moves with the columns, both of which are halves in local memory."""

    steps: loops.For
    rows: loops.For
    columns: loops.For
    pair: loops.For
    store: loops.Store
    left: loops.Load
    right: loops.Load


def product_of(s: loops.Stmt) -> MatrixProduct | None:
    """What a nest says; None for other statements, and for loops that somebody called so."""
    nest: list[loops.For] = []
    while isinstance(s, loops.For) and s.kind == "matrix" and s.lower == loops.const(0) and s.step == 1 and isinstance(
            s.upper, loops.Const):
        nest.append(s)
        s = s.body
    if len(nest) != 4 or not isinstance(s, loops.Store) or s.buffer.space != "private" or s.buffer.dtype.name != "f32":
        return None
    steps, rows, columns, pair = nest
    places = tuple(loops.Var(x.var) for x in nest[1:])
    operands = _operands(s)
    if s.indices[-3:] != places or operands is None or _trips(steps) % STEPS or _trips(rows) % 2 or _trips(pair) != 2:
        return None
    left, right = sorted(operands, key=lambda e: _uses(e, pair))
    apart = _uses(left, rows) and not _uses(left, columns) and not _uses(left, pair) and not _uses(right, rows)
    both = _uses(left, steps) and _uses(right, steps) and _uses(right, columns) and _uses(right, pair)
    return MatrixProduct(steps, rows, columns, pair, s, left, right) if apart and both else None


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


def _operands(s: loops.Store) -> tuple[loops.Load, loops.Load] | None:
    """The factors of `R = R + f32(a) * f32(b)`, halves of one type in local memory."""
    match s.value:
        case loops.Binary(op="+", a=loops.Load() as old, b=loops.Binary(op="*", a=loops.Cast() as a, b=loops.Cast() as b)):
            found = (a.a, b.a)
            if (old.buffer, old.indices) == (s.buffer, s.indices) and all(map(_is_half, found)) and a.a.dtype == b.a.dtype:
                first, second = found
                assert isinstance(first, loops.Load)
                assert isinstance(second, loops.Load)
                return first, second
    return None


def _is_half(e: loops.Expr) -> bool:
    return isinstance(e, loops.Load) and e.dtype.is_half and e.buffer.space == "local"


def _uses(e: loops.Load, s: loops.For) -> bool:
    return s.var in traverse.variables(e)


def _trips(s: loops.For) -> int:
    assert isinstance(s.upper, loops.Const)
    return int(s.upper.value)
