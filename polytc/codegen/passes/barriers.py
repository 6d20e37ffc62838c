"""Barriers between the phases of a work-group.

    block0 for b in 0:4 {                               with X[256], Y[256] on gpu
        alloc local f32 T[64]
        thread0 for item0 in 0:64 { T[item0] = X[64*b + item0] }
        thread0 for item0 in 0:64 { Y[64*b + item0] = T[63 - item0] }
    }
    ->  block0 for b in 0:4 {
            alloc local f32 T[64]
            thread0 for item0 in 0:64 { T[item0] = X[64*b + item0] }
            barrier
            thread0 for item0 in 0:64 { Y[64*b + item0] = T[63 - item0] }
        }

A phase is a statement that each work-item runs for itself: a loop over the items, or what one item runs for all. Two phases
need a barrier between them where one stores to a buffer of the group that the other uses too, unless each element is one
item's own. In a sequential loop the last phases of an iteration meet the first ones of the next. As few barriers as a walk in
order finds are inserted; each stands outside of all loops over items, where control is the same for all of them. A phase
without a loop over one axis is the first item's along it alone if it loads what it stores: the others would load it meanwhile;
so is a loop that is none over items, whose iterations would have to wait for each other.
Guarantees: work-items that touch one element, one of them storing, have a barrier between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import TypeAlias

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.passes import simplify, work_items
from polytc.program.calls.published import AWAITED


@dataclass(frozen=True)
class _Uses:
    """Names of the buffers that phases load and store."""

    loaded: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()

    def __or__(self, other: _Uses) -> _Uses:
        return _Uses(self.loaded | other.loaded, self.stored | other.stored)

    def conflicts(self, other: _Uses) -> bool:
        """Must the work-items wait for each other between what has these uses and what has the others?"""
        return bool(self.stored & (other.loaded | other.stored) or self.loaded & other.stored)


_NOTHING = _Uses()
_Axes: TypeAlias = Mapping[str, tuple[int, int]]
"""Of loops over items: variable -> axis, and iterations at most."""


def insert_barriers(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with its barriers; one whose items run a single phase needs none."""
    if not work_items.has_phases(kernel):
        return kernel
    axes = _axes(kernel.body)
    common = _common(kernel.body, axes) - _published(kernel.body)
    through = loops.Barrier(common & {b.name for b in kernel.args})
    body, _ = _walk(_alone(kernel.body, axes, common), _NOTHING, common, axes)
    return replace(kernel, body=traverse.map_stmt(body, lambda s: through if isinstance(s, loops.Barrier) else s, lambda e: e))


def _alone(s: loops.Stmt, axes: _Axes, common: frozenset[str]) -> loops.Stmt:
    """The statement with the loops that its phases lack and need, over the first item only.

    axes, common: see _walk.
    """
    match s:
        case loops.Store():
            return s                                                  # with what it loads the first item's anyway
        case _ if _is_phase(s) and isinstance(s, loops.For) and s.kind == "thread" or _is_uniform(s):
            uses = _uses(s, common)
            idle = {axis for axis, _ in axes.values()} - {axis for axis, _ in _axes(s).values()}
            alone = uses.loaded & uses.stored or uses.stored and _repeats(s)
            for axis in sorted(idle) if alone and not _is_private(s) else ():
                s = loops.For(f"item{axis}", loops.const(0), loops.const(1), 1, s, "thread", axis)
            return s
        case loops.For(kind="thread"):
            left = {var: known for var, known in axes.items() if known[0] != s.axis}
            return replace(s, body=_alone(s.body, left, common))
        case loops.For() | loops.Alloc():
            return replace(s, body=_alone(s.body, axes, common))
        case loops.If():
            return replace(s, then=_alone(s.then, axes, common),
                           orelse=_alone(s.orelse, axes, common) if s.orelse is not None else None)
        case loops.Block():
            return loops.block(*(_alone(x, axes, common) for x in s.stmts))
        case _:
            return s


def _is_uniform(s: loops.Stmt) -> bool:
    """Do all items run the same, without a loop over them or a barrier inside?"""
    return not any(isinstance(x, loops.Barrier) or isinstance(x, loops.For) and x.kind in ("thread", "block", "parallel")
                   for x in traverse.walk_stmt(s))


def _repeats(s: loops.Stmt) -> bool:
    """Is there a loop, and none over items? All items would have to meet in each of its iterations."""
    return _is_uniform(s) and any(isinstance(x, loops.For) for x in traverse.walk_stmt(s))


def _published(s: loops.Stmt) -> frozenset[str]:
    """The buffers of which items wait for each element that they load (program.calls), so that nobody waits for all."""
    whole = [e for x in traverse.walk_stmt(s) for top in traverse.expressions(x) for e in traverse.walk_expr(top)]
    loaded = Counter(e.buffer.name for e in whole if isinstance(e, loops.Load))
    waits = Counter(a.buffer.name for e in whole if isinstance(e, loops.Call) and e.fn in AWAITED
                    for a in e.args if isinstance(a, loops.Load))
    return frozenset(name for name, count in waits.items() if loaded[name] == count)


def _is_private(s: loops.Stmt) -> bool:
    """Does a phase store to private memory that later ones may use?"""
    own = {x.buffer for x in traverse.walk_stmt(s) if isinstance(x, loops.Alloc)}
    return any(isinstance(x, loops.Store) and x.buffer.space == "private" and x.buffer not in own
               for x in traverse.walk_stmt(s))


def _walk(s: loops.Stmt, since: _Uses, common: frozenset[str], axes: _Axes) -> tuple[loops.Stmt, _Uses]:
    """The statement with barriers, and the uses behind it since the last barrier. since: those before it; common: the buffers
    whose elements several items use; axes: those of the kernel's items."""
    if _is_phase(s):
        uses = _uses(s, common)
        return (loops.block(loops.Barrier(), s), uses) if since.conflicts(uses) else (s, since | uses)
    match s:
        case loops.Block():
            parts: list[loops.Stmt] = []
            for x in s.stmts:
                part, since = _walk(x, since, common, axes)
                parts.append(part)
            return loops.block(*parts), since
        case loops.For() if s.kind == "block":
            body, since = _walk(s.body, since, common, axes)
            return replace(s, body=body), since
        case loops.For() if s.kind == "parallel":                     # whose iterations need not wait for each other
            if since.conflicts(_uses(s.body, common)):
                body, after = _walk(s.body, _NOTHING, common, axes)
                return loops.block(loops.Barrier(), replace(s, body=body)), after
            body, after = _walk(s.body, since, common, axes)
            return replace(s, body=body), since | after
        case loops.For() if (since | (uses := _uses(s, common))).conflicts(uses) and (
                _is_apart(s, common, axes) or _is_at_once(s, common, axes)):
            return (loops.block(loops.Barrier(), s), uses) if since.conflicts(uses) else (s, since | uses)
        case loops.For():
            before, entry = since, since
            while True:                                               # an iteration follows what came before, or another one
                body, after = _walk(s.body, entry, common, axes)
                if entry | after == entry:
                    return replace(s, body=body), after | before
                entry |= after
        case loops.If():
            then, one = _walk(s.then, since, common, axes)
            other, two = _walk(s.orelse, since, common, axes) if s.orelse is not None else (None, since)
            return replace(s, then=then, orelse=other), one | two
        case loops.Alloc():
            body, since = _walk(s.body, since, common, axes)
            return replace(s, body=body), since
        case _:
            return s, _NOTHING                                        # a barrier


def _is_apart(s: loops.For, common: frozenset[str], axes: _Axes) -> bool:
    """Does no item meet another one in a loop?"""
    body, _ = _walk(s.body, _uses(s.body, within := common & _common(s.body, axes)), within, axes)
    return not any(isinstance(x, loops.Barrier) for x in traverse.walk_stmt(body))


def _is_at_once(s: loops.For, common: frozenset[str], axes: _Axes) -> bool:
    """Is it a loop over items inside of which none waits? Each item runs one iteration, so that none follows another."""
    return s.kind == "thread" and not any(
        isinstance(x, loops.Barrier) for x in traverse.walk_stmt(_walk(s.body, _NOTHING, common, axes)[0]))


def _is_phase(s: loops.Stmt) -> bool:
    """Is it a store, or a loop over items with no further phases inside?"""
    if isinstance(s, loops.Store):
        return True
    if isinstance(s, loops.For) and s.kind == "thread":
        while isinstance(s, loops.For) and s.kind == "thread" or isinstance(s, loops.If) and s.orelse is None:
            s = s.body if isinstance(s, loops.For) else s.then
        return not any(isinstance(x, loops.For) and x.kind == "thread" for x in traverse.walk_stmt(s))
    return not any(isinstance(x, loops.Store | loops.Barrier) for x in traverse.walk_stmt(s))


def _uses(s: loops.Stmt, common: frozenset[str]) -> _Uses:
    loaded = {e.buffer.name for x in traverse.walk_stmt(s) for top in traverse.expressions(x) for e, _ in traverse.loads(top)}
    stored = {x.buffer.name for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)}
    return _Uses(frozenset(loaded) & common, frozenset(stored) & common)


def _common(s: loops.Stmt, axes: _Axes) -> frozenset[str]:
    """The buffers that are written and of which some element may be several items'. axes: those of the kernel: where one has
    no loop in the statement, its items have all elements in common."""
    s = traverse.map_stmt(s, _by_item, lambda e: e)
    own = _axes(s)
    present = {axis for axis, _ in own.values()}
    longest = {var: extent for var, (axis, extent) in {**axes, **own}.items() if var in own or axis not in present}
    stored = {x.buffer for x in traverse.walk_stmt(s) if isinstance(x, loops.Store) and x.buffer.space != "private"}
    found = work_items.accesses_of(s, frozenset(b.name for b in stored))
    return frozenset(name for name, accesses in found.items() if not _own([a.indices for a in accesses], longest))


def _by_item(s: loops.Stmt) -> loops.Stmt:
    """A loop over items whose variable is the number of the item: where a loop begins elsewhere in each iteration of the loops
    around it, one value of its variable is several items'."""
    if not isinstance(s, loops.For) or s.kind != "thread" or s.lower == loops.const(0):
        return s
    body = traverse.substitute(s.body, {s.var: loops.binary("+", loops.Var(s.var), s.lower)})
    return replace(s, lower=loops.const(0), upper=loops.binary("-", s.upper, s.lower), body=body)


def _axes(s: loops.Stmt) -> _Axes:
    """Of the loops over items in a statement; of those with one variable, the longest."""
    found: dict[str, tuple[int, int]] = {}
    for x in traverse.walk_stmt(s):
        if isinstance(x, loops.For) and x.kind == "thread":
            found[x.var] = x.axis, max(_extent(x), found.get(x.var, (0, 0))[1])
    return found


def _extent(s: loops.For) -> int:
    high = simplify.interval(s.upper, {})[1]
    return high if high is not None else 1 << 62


def _own(accesses: list[tuple[loops.Expr, ...]], axes: dict[str, int]) -> bool:
    """Is each element used by one item only? Each axis must be told by a dimension in which its number is a digit: all other
    terms are multiples of what the items of the axis span."""
    rank = len(accesses[0])
    return all(any(_digit([a[d] for a in accesses], axis, extent) for d in range(rank)) for axis, extent in axes.items())


def _digit(indices: Iterable[loops.Expr], axis: str, extent: int) -> bool:
    forms = []
    for i in indices:
        width = (i.reach - 1) * i.stride + 1 if isinstance(i, loops.Ramp) else 1
        first = i.base if isinstance(i, loops.Ramp) else i
        if first.lanes > 1 or width < 1:
            return False
        forms.append((linear_forms.linear(first), width))
    step = forms[0][0].get(loops.Var(axis), 0)
    one = loops.const(1)
    low = min(terms.get(one, 0) for terms, _ in forms)
    spread = max(terms.get(one, 0) - low + width for terms, width in forms)
    unit = gcd(*(c for terms, _ in forms for atom, c in terms.items() if atom not in (one, loops.Var(axis))))
    same = all(terms.get(loops.Var(axis), 0) == step for terms, _ in forms)
    return same and step > 0 and spread <= step and (unit == 0 or step * extent <= unit)
