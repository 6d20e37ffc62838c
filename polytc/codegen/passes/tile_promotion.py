"""Register tiles as arrays: what the copies of a region touch of a buffer lies in a private array of the tile's shape.

    for k in 0:9 { unroll for r in 0:6 { unroll for c in 0:64:16 {
        C[r, ramp(c, 1, 16)] = C[r, ramp(c, 1, 16)] + x16(a[r,k]) * b[k, ramp(c, 1, 16)] } } }
                                                        with C[6,64], a[6,9], b[9,64] on avx512
    ->  alloc private f32 C_tile[6,64]
        unroll for r in 0:6 { unroll for c in 0:64:16 { C_tile[r, ramp(c, 1, 16)] = C[r, ramp(c, 1, 16)] } }
        for k in 0:9 { unroll for r in 0:6 { unroll for c in 0:64:16 {
            C_tile[r, ramp(c, 1, 16)] = C_tile[r, ramp(c, 1, 16)] + x16(a[r,k]) * b[k, ramp(c, 1, 16)] } } }
        ...

as passes.scalar_replacement does with elements that stand in the text one by one. Here an access is a form, base + numbers that
the copies run through; all forms of a buffer have one base, and the array is the hull of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.passes import unrolling

ROOM = 2
"""Times that the array may be as large as what is touched of it."""


@dataclass(frozen=True)
class Side:
    """One dimension of an access: base + number + sum(coefficient * variable of a copy) .. + span - 1. The span is
    of all lanes, also those that do not count: registers need no masks."""

    base: frozenset[tuple[loops.Expr, int]]
    number: int
    coefficients: tuple[int, ...]
    span: int


@dataclass(frozen=True)
class Form:
    """What all copies of an access touch. indices, lanes: of the access; copies: the loops around it that it depends on."""

    indices: tuple[loops.Expr, ...]
    lanes: int
    copies: tuple[loops.For, ...]
    sides: tuple[Side, ...]

    @cached_property
    def slots(self) -> tuple[tuple[int, ...], ...]:
        """Where each copy begins, from the base, in their order."""
        return tuple(tuple(s.number + sum(c * v for c, v in zip(s.coefficients, point, strict=True)) for s in self.sides)
                     for point in unrolling.points(self.copies))

    @property
    def spans(self) -> tuple[int, ...]:
        return tuple(s.span for s in self.sides)

    @property
    def shape(self) -> tuple[object, ...]:
        """What accesses of one slot have in common: the room that it takes, its lanes, and which of them count."""
        return self.spans, self.lanes, traverse.active_lanes(self.indices)

    def same_steps(self, other: Form) -> bool:
        """Does each copy of one access touch what the same copy of another one does?"""
        return self.sides == other.sides and self.shape == other.shape and \
            [(s.var, unrolling.values(s)) for s in self.copies] == [(s.var, unrolling.values(s)) for s in other.copies]


@dataclass(frozen=True)
class TileUse:
    """An access of a region. copies: all loops of copies around it, outermost first."""

    form: Form
    store: bool
    conditional: bool
    copies: tuple[loops.For, ...]

    @property
    def times(self) -> int:
        """How often it happens each time that the region runs."""
        return prod(len(unrolling.values(s)) for s in self.copies)


@dataclass(frozen=True)
class Tile:
    """A private array in place of a buffer. starts: where it begins in each dimension of the buffer, base and number; order:
    its dimensions, by those of the buffer: all with more than one coordinate, that of the lanes last; first, last: what is
    loaded before the region, and stored behind it."""

    array: loops.Buffer
    starts: tuple[tuple[frozenset[tuple[loops.Expr, int]], int], ...]
    order: tuple[int, ...]
    first: tuple[Form, ...]
    last: tuple[Form, ...]

    def at(self, indices: Sequence[loops.Expr]) -> tuple[loops.Expr, ...]:
        """Where an access finds its element."""
        return tuple(_moved(indices[d], dict(self.starts[d][0]), self.starts[d][1]) for d in self.order)

    def around(self, s: loops.Stmt, buffer: loops.Buffer) -> loops.Stmt:
        """The region between the loads of what it reads first and the stores of what it writes."""
        before, after = ([self._transfer(f, buffer, load) for f in forms] for forms, load in
                         ((self.first, True), (self.last, False)))
        return loops.Alloc(self.array, loops.block(*before, s, *after))

    def _transfer(self, f: Form, buffer: loops.Buffer, load: bool) -> loops.Stmt:
        """All copies of an element into the array, or out of it."""
        private = self.at(f.indices)
        if load:
            one = loops.Store(self.array, private, loops.Load(buffer, f.indices, buffer.dtype, f.lanes))
        else:
            one = loops.Store(buffer, f.indices, loops.Load(self.array, private, buffer.dtype, f.lanes))
        return unrolling.written_out(unrolling.nested(f.copies, one), unrolling.FEW)


def form(indices: tuple[loops.Expr, ...], lanes: int, around: Sequence[loops.For]) -> Form | None:
    """The form of an access inside of loops of copies; None if an index is no rising ramp or sum."""
    sides = [side for i in indices if (side := _side(i, [s.var for s in around])) is not None]
    if len(sides) < len(indices):
        return None
    moving = [n for n in range(len(around)) if any(s.coefficients[n] for s in sides)]
    return Form(indices, lanes, tuple(around[n] for n in moving),
                tuple(replace(s, coefficients=tuple(s.coefficients[n] for n in moving)) for s in sides))


def _side(index: loops.Expr, names: Sequence[str]) -> Side | None:
    """The dimension of an index. names: of the variables of copies."""
    span, first = 1, index
    if isinstance(index, loops.Ramp) and index.stride > 0:
        span, first = (index.lanes - 1) * index.stride + 1, index.base
    if first.lanes > 1:
        return None
    terms = linear_forms.linear(first)
    own = {a.name: c for a, c in terms.items() if isinstance(a, loops.Var)}
    base = frozenset((a, c) for a, c in terms.items()
                     if not isinstance(a, loops.Const) and not (isinstance(a, loops.Var) and a.name in names))
    return Side(base, terms.get(loops.const(1), 0), tuple(own.get(n, 0) for n in names), span)


def pays(uses: Sequence[TileUse], most: int, needless: bool) -> bool:
    """Can the elements live in registers, and do they gain by it? most: slots, at most; needless: they gain nothing unless some
    are stored twice."""
    owned = {at for u in uses if u.store and not u.conditional for at in u.form.slots}
    if any(u.conditional and not owned.issuperset(u.form.slots) for u in uses):
        return False
    slots = {at for u in uses for at in u.form.slots}
    stored = sum(u.times for u in uses if u.store)
    return len(slots) <= most and not (needless and stored <= len(slots))


def tile(name: str, buffer: loops.Buffer, uses: Sequence[TileUse]) -> Tile | None:
    """The array of that name for all uses of a buffer in a region, in the order of the text; None if these are no one tile."""
    forms = list(dict.fromkeys(u.form for u in uses))
    slots = {(at, f.shape): f.spans for f in forms for at in f.slots}
    placed = [(at, spans) for (at, _), spans in slots.items()]
    across = {d for f in forms for d, i in enumerate(f.indices) if i.lanes > 1}
    if len({tuple(s.base for s in f.sides) for f in forms}) > 1 or not _apart(placed) or not _in_step(uses):
        return None
    if len(across) > 1 or any(i.stride > 1 for f in forms for i in f.indices if isinstance(i, loops.Ramp)):
        return None  # a vector is a row of the array
    first, last = _first(uses), _covered([u.form for u in uses if u.store])
    if first is None or last is None:
        return None
    low = tuple(min(at[d] for at, _ in placed) for d in range(len(buffer.shape)))
    high = tuple(max(at[d] + spans[d] for at, spans in placed) for d in range(len(buffer.shape)))
    shape = tuple(h - n for n, h in zip(low, high, strict=True))
    if prod(shape) > ROOM * sum(prod(spans) for _, spans in placed):
        return None
    order = tuple(sorted((d for d, n in enumerate(shape) if n > 1), key=lambda d: d in across))
    array = loops.Buffer(name, buffer.dtype, tuple(shape[d] for d in order), "private")
    starts = tuple((side.base, n) for side, n in zip(forms[0].sides, low, strict=True))
    return Tile(array, starts, order, first, last)


def _apart(slots: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> bool:
    """Have different slots no element in common? slots: where each begins, and its spans."""
    taken: set[tuple[int, ...]] = set()
    for at, spans in slots:
        cells = set(product(*(range(a, a + n) for a, n in zip(at, spans, strict=True))))
        if not taken.isdisjoint(cells):
            return False
        taken |= cells
    return True


def _in_step(uses: Sequence[TileUse]) -> bool:
    """Do accesses of one nest that meet meet in the same copy? Then the order of the text is that of each element."""
    together: dict[int, list[Form]] = {}
    for u in uses:
        if u.copies:
            together.setdefault(id(u.copies[0]), []).append(u.form)
    return all(a.same_steps(b) or set(a.slots).isdisjoint(b.slots)
               for forms in together.values() for n, a in enumerate(forms) for b in forms[:n])


def _first(uses: Sequence[TileUse]) -> tuple[Form, ...] | None:
    """The forms whose slots hold something when the region begins: they are read first, or not stored for certain."""
    seen: set[tuple[int, ...]] = set()
    wanted: set[tuple[int, ...]] = set()
    for u in uses:
        wanted |= set(u.form.slots) - seen if not u.store or u.conditional else set()
        seen |= set(u.form.slots)
    return _covered([u.form for u in uses], wanted)


def _covered(forms: Sequence[Form], wanted: set[tuple[int, ...]] | None = None) -> tuple[Form, ...] | None:
    """Some of the forms that together have each wanted slot once, or each of theirs; None if there are none such."""
    left = {at for f in forms for at in f.slots} if wanted is None else set(wanted)
    found = []
    for f in dict.fromkeys(forms):
        if left and left.issuperset(f.slots):
            found.append(f)
            left -= set(f.slots)
    return tuple(found) if not left else None


def _moved(index: loops.Expr, base: linear_forms.Terms, low: int) -> loops.Expr:
    """The index in the array."""
    if isinstance(index, loops.Ramp):
        return replace(index, base=_moved(index.base, base, low), active=None)
    terms = {a: c for a, c in linear_forms.linear(index).items() if a not in base}
    one = loops.const(1)
    return linear_forms.build({**terms, one: terms.get(one, 0) - low})
