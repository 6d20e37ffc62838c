"""The copy of an operand's tile to local memory by all items of a group, neighbours taking neighbouring elements.

The elements of the tile, in the tensor's order, are numbered through and dealt out: item t copies t, t + items, ... A vector is
copied at once where all that counts is a multiple of its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from polytc.machine.device_costs import Groups
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, interval
from polytc.program.calls.words import DOTS
from polytc.program.linear import expression
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64, identity
from polytc.program.sizes import may_be_less
from polytc.rewrite.gpu.tiled_indices import is_ragged, plus, weighted

COPIES_IN_FLIGHT = 4
"""Elements or vectors that an item copies at once, so that their loads are under way together."""
ELEMENTS_IN_FLIGHT = 16
"""Elements of an item that are on their way at once, each in a register."""


@dataclass(frozen=True)
class Operand:
    """What of a tensor a group copies at once.

    base: the first coordinate in each dimension, over the indices of `around`; widths: coordinates copied from there; ends:
    those that exist, half-open; others become the read's default, or zero. order: of the dimensions in the copy; outside:
    `for` loops whose indices are in `base`, one iteration of which a copy is for.
    """

    read: pr.Read
    tensor: pr.Tensor
    base: tuple[Linear, ...]
    widths: tuple[int, ...]
    ends: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    outside: tuple[pr.Range, ...] = ()

    def lanes(self, most: int) -> int:
        """Elements that one access moves: `most` if vectors start at multiples of their size and none passes an end, else 1.
        Of halves, which fill no register each, a half or a quarter of so many may do."""
        first, (lower, upper) = self.base[-1], self.ends[-1]
        numbers = (self.widths[-1], self.tensor.shape[-1], lower, upper, first.constant, self.tensor.lower[-1],
                   *(c for _, c in first.terms))
        widths = (most, most // 2, most // 4) if self.tensor.dtype.is_half else (most,)
        return next((n for n in widths if n > 1 and not any(is_ragged(c, n) for c in numbers)), 1)


def copy(o: Operand, label: str, name: str, around: tuple[pr.Range, ...], items: tuple[int, ...], most: int, names: Names,
         in_flight: int = ELEMENTS_IN_FLIGHT) -> pr.Statement:
    """The statement that copies.

    label, name: of the statement and of the copy; around: the loops outside; items: of the group along x, y, z; most: lanes of
    a vector; in_flight: elements of an item that are on their way at once.
    """
    lanes = o.lanes(most)
    total, count = prod(o.widths) // lanes, prod(items)
    dealt = tuple((pr.Range(names.index(f"{name}_{'xyz'[axis]}"), 0, n, kinds.item(axis)), prod(items[:axis]))
                  for axis, n in reversed(tuple(enumerate(items))))
    again = tuple((pr.Range(names.index(f"{name}_{part}"), 0, n, kind), step * count)
                  for part, n, kind, step in _rounds(-(-total // count), lanes, in_flight))
    lane = pr.Range(names.index(f"{name}_lane"), 0, lanes, "vector")
    mine = tuple(r for r, _ in (*dealt, *again))
    number = weighted({r.index: step for r, step in (*again, *dealt)}, mine)
    local = _coordinates(expression(number), total, (*o.widths[:-1], o.widths[-1] // lanes))
    local[-1] = local[-1] if lanes == 1 else pr.Binary("*", local[-1], pr.Const(lanes, I64), I64)
    whole = [plus(expression(f), c) for f, c in zip(o.base, local, strict=True)]
    tests = _tests(o, whole, pr.box((*o.outside, *around)))
    if lanes > 1:
        local[-1], whole[-1] = plus(local[-1], pr.Index(lane.index)), plus(whole[-1], pr.Index(lane.index))
    value: pr.Expr = replace(o.read, subscripts=tuple(whole), default=None)
    if tests:
        value = pr.Select(pr.conjunction(tests), value, o.read.default or zero(o.read), o.read.dtype)
    x = dealt[-1][0].index
    rest = Affine(total, tuple((i, -c) for i, c in number.terms if i != x))
    limits = (pr.Bound(x, pr.Const(0, I64), expression(rest)),) if prod(r.extent for r in mine) != total else ()
    cell = (*(pr.Index(r.index) for r in around), *(local[d] for d in o.order))
    return pr.Statement(label, name, cell, None, value, (*around, *mine, lane), bounds=limits)


def to_registers(o: Operand, label: str, name: str, around: tuple[pr.Range, ...], most: int, names: Names,
                 tested: bool) -> pr.Statement:
    """The statement with which each item copies what it uses, one coordinate after another, and neighbours in memory as vectors
    where these exist as a whole or not at all. around: the loops outside, over the items too; tested: elements may not exist.
    See `copy`."""
    partial = tested and bool(_tests(o, [pr.Index("")] * len(o.base), pr.box((*o.outside, *around)), last=True))
    lanes = o.lanes(most) if partial else 1
    ranges = [pr.Range(names.index(f"{name}_{d}"), 0, n, "unroll") for d, n in enumerate(o.widths)]
    inside: list[pr.Expr] = [pr.Index(r.index) if r.extent > 1 else pr.Const(0, I64) for r in ranges]
    at: list[pr.Expr] = [*inside]
    if ranges and lanes > 1:
        vector = replace(ranges[-1], upper=o.widths[-1] // lanes)
        lane = pr.Range(names.index(f"{name}_lane"), 0, lanes, "vector")
        first: pr.Expr = pr.Const(0, I64)
        if vector.extent > 1:
            first = pr.Binary("*", pr.Index(vector.index), pr.Const(lanes, I64), I64)
        at[-1], inside[-1], ranges = first, plus(first, pr.Index(lane.index)), [*ranges[:-1], vector, lane]
    elif ranges and not partial:
        ranges[-1] = replace(ranges[-1], kind="vector")
    places = [plus(expression(f), c) for f, c in zip(o.base, at, strict=True)]
    tests = _tests(o, places, pr.box((*o.outside, *around))) if tested else ()
    whole = tuple(plus(expression(f), c) for f, c in zip(o.base, inside, strict=True))
    value: pr.Expr = replace(o.read, subscripts=whole, default=None)
    if tests:
        value = pr.Select(pr.conjunction(tests), value, o.read.default or zero(o.read), o.read.dtype)
    cell = (*(pr.Index(r.index) for r in around), *(inside[d] for d in o.order))
    return pr.Statement(label, name, cell, None, value, (*around, *(r for r in ranges if r.extent > 1)))


def whole(o: Operand, items: pr.Box, outside: pr.Box) -> Iterator[pr.Binary]:
    """The conditions under which all exists that any of the items copies, those left out that always hold. items, outside:
    where the indices of items are, and those of the loops around."""
    for f, width, (lower, upper) in zip(o.base, o.widths, o.ends, strict=True):
        mine = Affine(0, tuple((i, c) for i, c in f.terms if i in items))
        others = replace(f, terms=tuple((i, c) for i, c in f.terms if i not in items))
        (low, high), (first, last) = interval(mine, items), interval(others, outside)
        if may_be_less(first + low, lower):
            yield pr.Binary(">=", expression(others), pr.Const(lower - low, I64), BOOL)
        if may_be_less(upper, last + high + width):
            yield pr.Binary("<=", expression(others), pr.Const(upper - high - width, I64), BOOL)


def _rounds(count: int, lanes: int, in_flight: int) -> tuple[tuple[str, int, str, int], ...]:
    """The loops over the rounds of a copy: the name's end, iterations, how it runs, and rounds of one iteration. A few rounds
    run at once; more of them in a loop."""
    few = min(COPIES_IN_FLIGHT * in_flight // ELEMENTS_IN_FLIGHT, max(1, in_flight // lanes))
    if count <= few:
        return (("round", count, "unroll", 1),)
    return ("rounds", -(-count // few), "sequential", few), ("round", few, "unroll", 1)


def _coordinates(number: pr.Expr, total: int, widths: tuple[int, ...]) -> list[pr.Expr]:
    """The coordinates of an element by its number, the last dimension the fastest. total: elements."""
    found: list[pr.Expr] = []
    left = total
    for size in reversed(widths):
        if size == 1:
            found.insert(0, pr.Const(0, I64))
            continue
        found.insert(0, number if size == left else pr.Binary("%", number, pr.Const(size, I64), I64))
        number, left = pr.Binary("//", number, pr.Const(size, I64), I64), left // size
    return found


def _tests(o: Operand, at: list[pr.Expr], box: pr.Box, last: bool = False) -> tuple[pr.Expr, ...]:
    """The conditions under which an element exists, those left out that always hold. last: of the last dimension."""
    found: list[pr.Expr] = []
    for f, width, (lower, upper), place in [*zip(o.base, o.widths, o.ends, at, strict=True)][-1 if last else None:]:
        low, high = interval(f, box)
        if may_be_less(low, lower):
            found.append(pr.Binary(">=", place, pr.Const(lower, I64), BOOL))
        if may_be_less(upper, high + width):
            found.append(pr.Binary("<", place, pr.Const(upper, I64), BOOL))
    return tuple(found)


def zero(read: pr.Read) -> pr.Const:
    """What stands for elements that there are not."""
    return pr.Const(identity("+", read.dtype), read.dtype)


def cost(box: tuple[int, ...], costs: Groups) -> float:
    """Multiply-adds in the time of copying an operand's tile of that size to local memory. Rows that are no power of two begin
    anywhere, and the place of an element among them is found by divisions."""
    odd = [n for n in box if n & (n - 1)]
    beyond = (box[-1] + costs.sector - 1) / box[-1] if box[-1:] and box[-1] in odd else 1
    return prod(box) * (costs.copy + costs.division * len(odd)) * beyond


def loads(box: tuple[int, ...], lanes: int) -> int:
    """Of an item for an operand's tile of that size: whole vectors, and elements."""
    return prod(box[:-1]) * (box[-1] // lanes + box[-1] % lanes) if box else 1


def factors(value: pr.Expr) -> tuple[pr.Expr, ...]:
    """What is multiplied, numbers or words of them; () for other values."""
    if isinstance(value, pr.Call) and value.fn in DOTS:
        return value.args
    return tuple(map(_uncast, (value.a, value.b))) if isinstance(value, pr.Binary) and value.op == "*" else ()


def _uncast(e: pr.Expr) -> pr.Expr:
    """What is converted to another type of floats, or the expression itself."""
    return e.a if isinstance(e, pr.Cast) and e.a.dtype.is_float else e
