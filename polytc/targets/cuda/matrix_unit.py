"""Which products of tiles in a kernel the matrix unit does, and where its threads find their numbers.

    matrix for k { ... C_acc[r, c, p] = C_acc[r, c, p] + f32(A_tile[item1 + 16*r, k]) * f32(B_tile[k, 2*item0 + 8*c + p]) }
    ->  of A_tile the thread `lane` of a warp reads the 16 bytes at [item1 // 8 * 8 + lane % 8 + 16*(r + lane // 8 % 2),
        k + lane // 16 * 8], of B_tile those at [k + lane % 16, 8*(c + lane // 16)], whose blocks the unit then transposes

for 16 steps k, two rows r and two columns c at a time (codegen.matrix_products). Each thread gets of a block of 8 x 8 numbers
two of row `lane // 4`; rows are those of an operand where it lies along k in memory, and its columns where it does not. That is
right where the places are those of a warp: each operand moves with the numbers of its items in strides that fit, and lies so
that blocks begin at multiples of 16 bytes. Words of bytes are read likewise, as 8 x 4 of them are as many bytes; their blocks
are never transposed, so that both operands lie along k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polytc.codegen import linear_forms, loops, matrix_products, ndrange, traverse
from polytc.codegen.linear_forms import Terms
from polytc.codegen.matrix_products import MatrixProduct
from polytc.targets.ctext.calls import word_dots

LANE = loops.Var("lane of a warp")
"""The number of a thread in its warp."""
SIDE = 8
"""Rows of a block, and halves in each."""
BLOCK = 16
"""Bytes of a row of a block."""
_COLUMN, _ROW = loops.Var("item0"), loops.Var("item1")


@dataclass(frozen=True)
class Reads:
    """What a thread reads of an operand: the place, and whether the blocks are transposed."""

    indices: tuple[loops.Expr, ...]
    across: bool


@dataclass(frozen=True)
class Unit:
    """products: by the identity of their outermost loops; tiles: the arrays of halves or words that they read."""

    products: Mapping[int, MatrixProduct] = field(default_factory=dict)
    tiles: frozenset[loops.Buffer] = frozenset()


def of_kernel(kernel: loops.Kernel) -> Unit:
    """The products of a kernel, if all of them fit the unit, and nothing else reads their tiles."""
    found = list(matrix_products.products(kernel.body))
    if not found:
        return Unit()
    tiles = frozenset(e.buffer for _, p in found for e in (p.left, p.right))
    read = {id(x) for _, p in found for x in (p.left, p.right)}
    across, down, *_ = (*ndrange.extract(kernel).items, 1, 1)
    inside = all(b not in tiles or id(e) in read for s in traverse.walk_stmt(kernel.body) for top in traverse.expressions(s)
                 for e, _ in traverse.loads(top) for b in (e.buffer,))
    fits = all(left(p) is not None and right(p) is not None for _, p in found)
    if (across, down % SIDE) != (4, 0) or not (inside and fits):
        return Unit()
    return Unit({id(s): p for s, p in found}, tiles)


def copied(value: loops.Expr) -> tuple[loops.Load, loops.Expr | None] | None:
    """What a value copies from global memory, and the condition under which it does, and is 0 otherwise; None if it is another
    value. Of words of bytes that lie side by side it is the first byte of all."""
    match value:
        case loops.Load() if value.buffer.space == "global":
            return value, None
        case loops.Call() if (words := word_dots.neighbours(value)) is not None and words[0].buffer.space == "global":
            return words[0], None
        case loops.Select(a=a, b=b, cond=cond) if not isinstance(a, loops.Select) and (load := copied(a)) is not None:
            zero, test = traverse.repeated(b), traverse.repeated(cond)
            known = isinstance(zero, loops.Const) and zero.value == 0 and test.lanes == 1
            return (load[0], test) if known else None
    return None


def left(p: MatrixProduct) -> Reads | None:
    """Where a thread reads the operand of the rows; None where it lies otherwise."""
    terms = _place(p.left)
    step, row = loops.Var(p.steps.var), loops.Var(p.rows.var)
    if terms is None or _ROW not in terms or _COLUMN in terms:
        return None
    lane, first = _digit(LANE, 1, SIDE), _times(_quotient(_ROW, SIDE), SIDE)
    rows, own = {row: _sum(row, _digit(LANE, SIDE, 2))}, _in_block(p.left)
    if _lies_along(terms, step, own):
        return _moved(p.left, False, {**rows, _ROW: _sum(first, lane), step: _sum(step, _times(_quotient(LANE, 16), own))})
    if p.left.dtype.is_half and _lies_along(terms, _ROW, own):
        far = _sum(_sum(step, _times(_quotient(LANE, 16), SIDE)), lane)
        return _moved(p.left, True, {**rows, _ROW: first, step: far})
    return None


def right(p: MatrixProduct) -> Reads | None:
    """Where a thread reads the operand of the columns; None where it lies otherwise."""
    terms, zero = _place(p.right), loops.const(0)
    step, column, pair = (loops.Var(s.var) for s in (p.steps, p.columns, p.pair))
    if terms is None or _ROW in terms or terms.get(_COLUMN) != 2 * terms.get(pair, 0):
        return None
    columns, own = {column: _sum(column, _quotient(LANE, 16)), _COLUMN: zero}, _in_block(p.right)
    if _lies_along(terms, step, own):
        return _moved(p.right, False, {**columns, pair: _digit(LANE, 1, SIDE),
                                       step: _sum(step, _times(_digit(LANE, SIDE, 2), own))})
    if p.right.dtype.is_half and _lies_along({a: c for a, c in terms.items() if a != _COLUMN}, pair, own):
        return _moved(p.right, True, {**columns, pair: zero, step: _sum(step, _digit(LANE, 1, 16))})
    return None


def _place(e: loops.Load) -> Terms | None:
    """The place of an element as a linear form, if the numbers of items are in no other part of it than terms."""
    total: Terms = {}
    for index, stride in zip(e.indices, e.buffer.strides, strict=True):
        total = linear_forms.added(total, linear_forms.scaled(linear_forms.linear(index), int(stride)), 1)
    items = {"item0", "item1"}
    hidden = any(not isinstance(a, loops.Var | loops.Const) and items & traverse.variables(a) for a in total)
    return None if hidden else total


def _in_block(e: loops.Load) -> int:
    """Numbers in a row of a block."""
    return BLOCK // e.dtype.bytes


def _lies_along(terms: Terms, along: loops.Var, own: int) -> bool:
    """Do blocks of the operand have rows along a variable, at multiples of their size? own: numbers in a row."""
    return terms.get(along) == 1 and all(c % own == 0 for a, c in terms.items() if a != along)


def _moved(e: loops.Load, across: bool, values: Mapping[loops.Var, loops.Expr]) -> Reads:
    def on_expr(x: loops.Expr) -> loops.Expr:
        return values.get(x, x) if isinstance(x, loops.Var) else x
    return Reads(tuple(_summed(traverse.map_expr(i, on_expr)) for i in e.indices), across)


def _summed(e: loops.Expr) -> loops.Expr:
    return linear_forms.build(linear_forms.linear(e))


def _digit(e: loops.Expr, divisor: int, count: int) -> loops.Expr:
    """e // divisor % count"""
    return loops.binary("%", _quotient(e, divisor), loops.const(count))


def _quotient(e: loops.Expr, divisor: int) -> loops.Expr:
    return e if divisor == 1 else loops.binary("//", e, loops.const(divisor))


def _times(e: loops.Expr, factor: int) -> loops.Expr:
    return loops.binary("*", e, loops.const(factor))


def _sum(a: loops.Expr, b: loops.Expr) -> loops.Expr:
    return loops.binary("+", a, b)


