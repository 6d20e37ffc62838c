"""Tuple reductions as ordinary statements.

    (M[i], J[i]) argmax= (X[i,j], e(i,j))
    ->  M[i] max= X[i,j]
        P[i] min= (X[i,j] == M[i] || X[i,j] != X[i,j]) ? j : big
        J[i] = e(i, P[i])

P numbers the instances that meet in an element in the order of their indices, so that the lowest wins a tie, and the first NaN
wins over all, as in numpy's argmax. Elements that no instance meets have the identity in M and 0 in J. In a `for` all of this
happens in each iteration, for the elements that start again in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from polytc.lang.soundness.check import Placed
from polytc.lang.typing.ranges import Hull
from polytc.program import program as pr
from polytc.program import scalars, type_promotion
from polytc.program.names import fresh, initialisation
from polytc.program.scalars import BOOL, I32, I64, DType


@dataclass(frozen=True)
class Lead:
    """The first component: init and update are its statements as those of any update, init in the same loops; inside: the
    conditions under which an instance counts."""

    init: pr.Statement
    update: pr.Statement
    inside: tuple[pr.Expr, ...]


@dataclass(frozen=True)
class _Place:
    """Where the winner of each element is kept. at: the subscripts of an element; indices: the extents and first values of
    those that a number tells, most significant first; everywhere: whether every element has a winner; scattered: whether memory
    decides where instances meet."""

    tensor: pr.Tensor
    at: tuple[pr.Expr, ...]
    indices: tuple[tuple[str, int, int], ...]
    everywhere: bool
    scattered: bool

    @property
    def number(self) -> pr.Expr:
        """The number of an instance, from its indices."""
        total: pr.Expr = pr.Const(0, I64)
        for name, first, extent in self.indices:
            scaled = pr.Binary("*", total, pr.Const(extent, I64), I64)
            total = pr.Binary("+", scaled, pr.Binary("-", pr.Index(name), pr.Const(first, I64), I64), I64)
        found = type_promotion.fold(total)
        return found if self.tensor.dtype == I64 else pr.Cast(found, self.tensor.dtype)

    @property
    def read(self) -> pr.Read:
        return pr.Read(self.tensor.name, self.at, self.tensor.dtype)

    def index(self, k: int) -> pr.Expr:
        """The value of one of these indices for the winner."""
        _, first, extent = self.indices[k]
        number: pr.Expr = self.read if self.tensor.dtype == I64 else pr.Cast(self.read, I64)
        below = prod(n for _, _, n in self.indices[k + 1:])
        found: pr.Expr = pr.Binary("//", number, pr.Const(below, I64), I64)
        if k > 0:
            found = pr.Binary("%", found, pr.Const(extent, I64), I64)
        return type_promotion.fold(pr.Binary("+", found, pr.Const(first, I64), I64))


def statements(members: Sequence[Placed], lead: Lead, hulls: Mapping[str, Hull], types: Mapping[str, DType]
               ) -> tuple[list[pr.Statement], list[pr.Tensor]]:
    """The statements of one tuple reduction, and the tensors that they need. members: one a target, the deciding one first."""
    made: list[pr.Tensor] = []
    out: list[pr.Statement] = []
    s, update = members[0], lead.update
    value, dtype = type_promotion.adapt(s.lowered.value, update.value.dtype), update.value.dtype
    if dtype.is_half:  # what is compared with the extremum is what the extremum is taken of
        value = pr.Cast(value, dtype)
    if not _repeatable(value):
        inner = update.ranges[update.depth:]
        kept = pr.Tensor(fresh(f"{update.target}_of", hulls), dtype, tuple(r.extent for r in inner),
                         tuple(r.lower for r in inner))
        at = tuple(pr.Index(r.index) for r in inner)
        out.append(replace(update, name=f"{update.name}_value", target=kept.name, subscripts=at, op=None, value=value))
        made.append(kept)
        value = pr.Read(kept.name, at, dtype)
    own = value
    if lead.inside:
        identity = pr.Const(scalars.identity(update.op or "", dtype), dtype)
        own = pr.Select(pr.conjunction(lead.inside), value, identity, dtype, skips=True)
    out += [lead.init, replace(update, value=own)]
    place = _place(s, lead, hulls)
    made.append(place.tensor)
    out += _numbers(lead, place, value)
    elements = _elements(s, lead, place, hulls)
    return out + [_component(m, place, _within(elements, hulls[m.lowered.target]), types[m.lowered.target])
                  for m in members[1:]], made


def _repeatable(e: pr.Expr) -> bool:
    """Does `e` have the same value wherever it is computed? Float arithmetic may be fused in one place and not in another."""
    if isinstance(e, pr.Binary | pr.Call) and e.dtype.is_float:
        return False
    return all(map(_repeatable, pr.children(e)))


def _place(s: Placed, lead: Lead, hulls: Mapping[str, Hull]) -> _Place:
    update = lead.update
    hull = hulls[update.target]

    def place(at: tuple[pr.Expr, ...], known: Collection[str | None], everywhere: bool) -> _Place:
        """known: the indices of the statement that an element tells."""
        numbered = tuple((r.index, r.lower, r.extent) for r in update.ranges if r.index not in known)
        dtype = I32 if prod(extent for _, _, extent in numbered) < 1 << 31 else I64
        tensor = pr.Tensor(fresh(f"{update.target}_at", hulls), dtype, tuple(high - low + 1 for low, high in hull),
                           tuple(low for low, _ in hull))
        return _Place(tensor, at, numbered, everywhere, bool(s.scattered))

    sure = not (update.where or s.scattered or lead.inside or update.bounds)
    if update.loops:
        around, inner = lead.init.indices[:update.depth], set(lead.init.indices[update.depth:])
        plain = {f.index for f in s.forms} if lead.init.subscripts != update.subscripts else inner
        sure = sure and inner <= plain and all(r in update.ranges for r in lead.init.ranges)
        return place(lead.init.subscripts, plain | set(around), sure)
    own = [f.index if f.index is not None and f.index not in [g.index for g in s.forms[:d]] else None
           for d, f in enumerate(s.forms)]
    names: list[str] = []
    for d, index in enumerate(own):
        names.append(index or fresh(f"d{d}", (*update.indices, *names)))
    return place(tuple(map(pr.Index, names)), own, sure and None not in own)


def _numbers(lead: Lead, place: _Place, value: pr.Expr) -> list[pr.Statement]:
    """The smallest number of an instance whose value is the extremum."""
    update, name, dtype = lead.update, place.tensor.name, place.tensor.dtype
    none = pr.Const(scalars.identity("min", dtype), dtype)
    outside = pr.Const(scalars.identity(update.op or "", value.dtype), value.dtype)
    best = pr.Read(update.target, update.subscripts, value.dtype, outside if place.scattered else None)
    wins: pr.Expr = pr.Binary("==", value, best, BOOL)
    if value.dtype.is_float:
        wins = pr.Binary("||", wins, pr.Binary("!=", value, value, BOOL), BOOL)
    wins = pr.conjunction((*lead.inside, wins))
    return [replace(lead.init, name=initialisation(f"{update.name}_at"), target=name, value=none),
            replace(update, name=f"{update.name}_at", target=name, op="min",
                    value=pr.Select(wins, place.number, none, dtype, skips=True))]


def _elements(s: Placed, lead: Lead, place: _Place, hulls: Mapping[str, Hull]) -> pr.Statement:
    """A statement, but for its value, that writes the elements for which the reduction has a result."""
    if lead.update.loops:
        return lead.init
    ranges = tuple(pr.Range(e.name, low, high + 1) for e, (low, high) in zip(place.at, hulls[s.lowered.target], strict=True)
                   if isinstance(e, pr.Index))
    return replace(lead.init, subscripts=place.at, ranges=ranges)


def _within(elements: pr.Statement, hull: Hull) -> pr.Statement:
    """The elements that a component has: other statements may have made the deciding tensor larger."""
    ends = {e.name: ends for e, ends in zip(elements.subscripts, hull, strict=True) if isinstance(e, pr.Index)}
    ranges = tuple(replace(r, lower=max(r.lower, ends[r.index][0]), upper=min(r.upper, ends[r.index][1] + 1))
                   if r.index in ends else r for r in elements.ranges)
    return replace(elements, ranges=ranges)


def _component(s: Placed, place: _Place, elements: pr.Statement, dtype: DType) -> pr.Statement:
    """`J[i] = e(i, P[i])`."""
    found = {name: place.index(k) for k, (name, _, _) in enumerate(place.indices)}
    value = pr.substitute(type_promotion.adapt(s.lowered.value, dtype), found)
    if not place.everywhere:
        none = pr.Const(scalars.identity("min", place.tensor.dtype), place.tensor.dtype)
        zero = pr.Const(scalars.identity("+", dtype), dtype)
        found_one = pr.Binary("!=", place.read, none, BOOL)
        value = pr.Select(found_one, pr.map_expr(value, lambda e: _guarded(e, place)), zero, dtype)
    return replace(elements, name=s.lowered.name, target=s.lowered.target, value=value, span=s.lowered.source.span)


def _guarded(e: pr.Expr, place: _Place) -> pr.Expr:
    """A read at the winner's indices may be anywhere if there is no winner."""
    if isinstance(e, pr.Read) and e.default is None and e != place.read:
        return replace(e, default=pr.Const(scalars.identity("+", e.dtype), e.dtype), shielded=True)
    return e
