"""Barriers between the phases of a work-group.

    thread for t { T[t] = ... };  thread for t { ... = T[63 - t] }   ->   thread for t { ... };  barrier;  thread for t { ... }

A phase is a statement that each work-item runs for itself: a loop over the items, or what one item runs for all. Two phases
need a barrier between them where one stores to a buffer of the group that the other uses too, unless each element is one
item's own. In a sequential loop the last phases of an iteration meet the first ones of the next. As few barriers as a walk in
order finds are inserted; each stands outside of all loops over items, where control is the same for all of them.
Guarantees: work-items that touch one element, one of them storing, have a barrier between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd

from polytc.codegen import loops, traverse
from polytc.codegen.passes import items, simplify


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


def insert(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with its barriers; one whose items run a single phase needs none."""
    if not items.phased(kernel):
        return kernel
    common = _common(kernel.body)
    return replace(kernel, body=_walk(kernel.body, _NOTHING, common)[0])


def _walk(s: loops.Stmt, since: _Uses, common: frozenset[str]) -> tuple[loops.Stmt, _Uses]:
    """The statement with barriers, and the uses behind it since the last barrier. since: those before it; common: the buffers
    whose elements several items use."""
    if _is_phase(s):
        uses = _uses(s, common)
        return (loops.block(loops.Barrier(), s), uses) if since.conflicts(uses) else (s, since | uses)
    match s:
        case loops.Block():
            parts: list[loops.Stmt] = []
            for x in s.stmts:
                part, since = _walk(x, since, common)
                parts.append(part)
            return loops.block(*parts), since
        case loops.For() if s.kind == "block":
            body, since = _walk(s.body, since, common)
            return replace(s, body=body), since
        case loops.For() if s.kind == "parallel":                     # whose iterations need not wait for each other
            if since.conflicts(_uses(s.body, common)):
                body, after = _walk(s.body, _NOTHING, common)
                return loops.block(loops.Barrier(), replace(s, body=body)), after
            body, after = _walk(s.body, since, common)
            return replace(s, body=body), since | after
        case loops.For() if (since | (uses := _uses(s, common))).conflicts(uses) and _is_apart(s, common):
            return (loops.block(loops.Barrier(), s), uses) if since.conflicts(uses) else (s, since | uses)
        case loops.For():
            before, entry = since, since
            while True:                                               # an iteration follows what came before, or another one
                body, after = _walk(s.body, entry, common)
                if entry | after == entry:
                    return replace(s, body=body), after | before
                entry |= after
        case loops.If():
            then, one = _walk(s.then, since, common)
            other, two = _walk(s.orelse, since, common) if s.orelse is not None else (None, since)
            return replace(s, then=then, orelse=other), one | two
        case loops.Alloc():
            body, since = _walk(s.body, since, common)
            return replace(s, body=body), since
        case _:
            return s, _NOTHING                                        # a barrier


def _is_apart(s: loops.For, common: frozenset[str]) -> bool:
    """Does no item meet another one in a loop?"""
    body, _ = _walk(s.body, _uses(s.body, within := common & _common(s.body)), within)
    return not any(isinstance(x, loops.Barrier) for x in traverse.walk_stmt(body))


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


def _common(s: loops.Stmt) -> frozenset[str]:
    """The buffers that are written and of which some element may be several items'."""
    axes: dict[str, int] = {}
    for x in traverse.walk_stmt(s):
        if isinstance(x, loops.For) and x.kind == "thread":
            axes[x.var] = max(_extent(x), axes.get(x.var, 0))
    stored = {x.buffer for x in traverse.walk_stmt(s) if isinstance(x, loops.Store) and x.buffer.space != "private"}
    found = items.accesses_of(s, frozenset(b.name for b in stored))
    return frozenset(name for name, accesses in found.items() if not _own([a.indices for a in accesses], axes))


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
        forms.append((simplify.linear(first), width))
    step = forms[0][0].get(loops.Var(axis), 0)
    one = loops.const(1)
    low = min(terms.get(one, 0) for terms, _ in forms)
    spread = max(terms.get(one, 0) - low + width for terms, width in forms)
    unit = gcd(*(c for terms, _ in forms for atom, c in terms.items() if atom not in (one, loops.Var(axis))))
    same = all(terms.get(loops.Var(axis), 0) == step for terms, _ in forms)
    return same and step > 0 and spread <= step and (unit == 0 or step * extent <= unit)
