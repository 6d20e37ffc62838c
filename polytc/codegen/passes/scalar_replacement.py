"""Promotion to registers: elements that a region touches at addresses fixed in the region live in private arrays there.

    for k in 0:9 { C[4] = C[4] + a[k] * b[k] }          with C[5], a[9], b[9]
    ->  alloc private f32 C_r[1];  C_r[0] = C[4]
        for k in 0:9 { C_r[0] = C_r[0] + a[k] * b[k] }
        C[4] = C_r[0]

A region is the body of a loop (or of the kernel) without parallel, block or thread loops in it; each buffer is promoted at the
outermost region whose inner loops do not move its addresses. The private array is indexed by constants, so that LLVM's SROA
turns it into registers. Stores to scratch that nothing loads any more are then dead. Guarantees: every element of a buffer that
is read afterwards has its final value.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.passes import simplify, tile_promotion, unrolling
from polytc.machine import Machine
from polytc.program.names import fresh

Access: TypeAlias = tuple[tuple[loops.Expr, ...], int]
"""(indices, lanes) of one slot."""
Places: TypeAlias = dict[Access, tuple[loops.Buffer, tuple[loops.Expr, ...]]]
"""Slot -> array and indices that take its place."""


class _Use(NamedTuple):
    """One access inside a region. conditional: it may not happen (under an If, a Select, or a loop that may not run). copies:
    the loops of copies around it (passes.unrolling), outermost first. atomic: other items do the same to the element."""

    buffer: loops.Buffer
    slot: Access
    store: bool
    conditional: bool
    looped: bool
    copies: tuple[loops.For, ...] = ()
    atomic: bool = False


@dataclass(frozen=True)
class _Facts:
    """What holds for a kernel. scratch: names of the buffers that only this module sees; taken: names of its arguments."""

    machine: Machine
    scratch: frozenset[str]
    taken: frozenset[str]


def promote_kernel(kernel: loops.Kernel, machine: Machine, scratch: frozenset[str]) -> loops.Kernel:
    """scratch: names of the buffers that only this module sees; see `drop_dead_stores`."""
    facts = _Facts(machine, scratch, frozenset(b.name for b in kernel.args))
    return replace(kernel, body=_region(kernel.body, facts, frozenset()))


def _region(s: loops.Stmt, facts: _Facts, done: frozenset[str]) -> loops.Stmt:
    """Promote in this region what can be, then in the regions inside for the rest. done: buffers already promoted."""
    if _shared(s):
        return _inside(s, facts, done)
    promoted, chosen = _chosen(s, facts, done, looped=False)
    return _inside(promoted, facts, done | chosen)


def _loop(s: loops.For, facts: _Facts, done: frozenset[str]) -> loops.Stmt:
    """A loop, with what can be promoted around it alone, then in the regions inside: the region around touches it in other
    ways, too, or the loop may not run, and then that is for the case that it does. One that runs once is none: passes
    behind this one write its body alone."""
    if s.kind == "matrix":  # is done as a whole
        return s
    repeats = s.kind == "sequential" and not (_runs(s) and traverse.runs_once(s)) and not _shared(s)
    promoted, chosen = _chosen(s, facts, done, looped=True) if repeats else (s, frozenset[str]())
    if not chosen:
        return replace(s, body=_region(s.body, facts, done))
    inside = _inside(promoted, facts, done | chosen)
    return inside if _runs(s) else loops.If(simplify.expr(loops.binary("<", s.lower, s.upper), {}), inside)


def _shared(s: loops.Stmt) -> bool:
    """Would threads, or items, share a private array around it?"""
    return any(isinstance(x, loops.For) and x.kind in ("parallel", "block", "thread") for x in traverse.walk_stmt(s))


def _chosen(s: loops.Stmt, facts: _Facts, done: frozenset[str], *, looped: bool) -> tuple[loops.Stmt, frozenset[str]]:
    """A region with promoted what can be; the names of these buffers. looped: the region is a loop that runs."""
    uses: list[_Use] = []
    _collect(s.body if looped and isinstance(s, loops.For) else s, uses, looped=looped, conditional=False)
    moving = {x.var for x in traverse.walk_stmt(s) if isinstance(x, loops.For) and x.kind != "unroll"}
    chosen: dict[str, list[Access]] = {}
    tiles: dict[str, tuple[tile_promotion.Tile, loops.Buffer]] = {}
    for name in dict.fromkeys(u.buffer.name for u in uses if u.store and u.buffer.space == "global"):
        mine = [u for u in uses if u.buffer.name == name]
        if name in done or any(u.atomic for u in mine):
            continue
        if any(u.copies for u in mine):
            try:
                found = _tile(mine, moving, facts)
            except _NoTile:
                return _chosen(_apart(s, name), facts, done, looped=looped)
            if found is not None:
                tiles[name] = found, mine[0].buffer
        elif slots := _slots(mine, moving, facts.machine, name in facts.scratch):
            chosen[name] = slots
    if chosen:
        s = _promote(s, [u for u in uses if u.buffer.name in chosen], chosen, facts.taken)
    if tiles:
        s = _tiled(s, tiles)
    return s, frozenset(chosen) | frozenset(tiles)


class _NoTile(Exception):
    """What copies touch is no tile: they are written out, and looked at one by one."""


def _tile(uses: list[_Use], moving: set[str], facts: _Facts) -> tile_promotion.Tile | None:
    """The tile of a buffer that copies touch, if its elements can live in registers and gain by it. Raises _NoTile."""
    if not all(_fixed(i, moving) for u in uses for i in u.slot[0]):
        return None
    buffer = uses[0].buffer
    found = [(tile_promotion.form(*u.slot, u.copies), u) for u in uses]
    tiled = [tile_promotion.TileUse(form, u.store, u.conditional, u.copies) for form, u in found if form is not None]
    if len(tiled) < len(found):
        raise _NoTile
    needless = not _looped_or_handed_on(uses, buffer.name in facts.scratch)
    if not tile_promotion.pays(tiled, 4 * facts.machine.vector_registers, needless):
        return None
    made = tile_promotion.tile(fresh(f"{buffer.name}_tile", set(facts.taken)), buffer, tiled)
    if made is None:
        raise _NoTile
    return made


def _tiled(s: loops.Stmt, tiles: dict[str, tuple[tile_promotion.Tile, loops.Buffer]]) -> loops.Stmt:
    """The region with tiles in place of buffers."""
    def on_load(x: loops.Expr) -> loops.Expr:
        if isinstance(x, loops.Load) and x.buffer.name in tiles:
            made = tiles[x.buffer.name][0]
            return loops.Load(made.array, made.at(x.indices), x.dtype, x.lanes)
        return x

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        if isinstance(x, loops.Store) and x.buffer.name in tiles:
            made = tiles[x.buffer.name][0]
            return loops.Store(made.array, made.at(x.indices), x.value, x.origin)
        return x

    s = traverse.map_stmt(s, on_stmt, lambda e: _changed(e, tiles, on_load))
    for made, buffer in tiles.values():
        s = made.around(s, buffer)
    return s


def _changed(e: loops.Expr, names: Container[str], on_load: Callable[[loops.Expr], loops.Expr]) -> loops.Expr:
    """An expression with other loads of some buffers."""
    return traverse.map_expr(e, on_load) if any(x.buffer.name in names for x, _ in traverse.loads(e)) else e


def _apart(s: loops.Stmt, name: str) -> loops.Stmt:
    """The region with the copies written out that touch a buffer."""
    if unrolling.is_copies(s):
        touched = traverse.accesses(s, frozenset((name,)), None, lambda outside, _: outside)
        return unrolling.written_out(s) if any(True for _ in touched) else s
    match s:
        case loops.For() | loops.Alloc():
            return replace(s, body=_apart(s.body, name))
        case loops.If():
            return replace(s, then=_apart(s.then, name), orelse=_apart(s.orelse, name) if s.orelse is not None else None)
        case loops.Block():
            return loops.block(*(_apart(x, name) for x in s.stmts))
        case _:
            return s


def _inside(s: loops.Stmt, facts: _Facts, done: frozenset[str]) -> loops.Stmt:
    match s:
        case loops.For() if s.kind not in ("unroll", "vector"):
            return _loop(s, facts, done)
        case loops.If():
            return replace(s, then=_region(s.then, facts, done),
                           orelse=_region(s.orelse, facts, done) if s.orelse is not None else None)
        case loops.Block():
            return loops.block(*(_inside(x, facts, done) for x in s.stmts))
        case loops.Alloc():
            return replace(s, body=_inside(s.body, facts, done))
        case _:
            return s


def _collect(s: loops.Stmt, uses: list[_Use], *, looped: bool, conditional: bool, copies: tuple[loops.For, ...] = ()) -> None:
    """Append all accesses of a region, in the order of the text (loads before the store of a statement)."""
    for top in traverse.expressions(s):
        for e, chosen in traverse.loads(top):
            uses.append(_Use(e.buffer, (e.indices, e.lanes), False, conditional or chosen, looped, copies))
    match s:
        case loops.Store():
            uses.append(_Use(s.buffer, (s.indices, _lanes(s.indices)), True, conditional, looped, copies, s.atomic))
        case loops.For(kind="unroll"):
            _collect(s.body, uses, looped=looped, conditional=conditional, copies=(*copies, s))
        case loops.For():
            _collect(s.body, uses, looped=True, conditional=conditional or not _runs(s))
        case loops.If():
            _collect(s.then, uses, looped=looped, conditional=True)
            if s.orelse is not None:
                _collect(s.orelse, uses, looped=looped, conditional=True)
        case loops.Block():
            for x in s.stmts:
                _collect(x, uses, looped=looped, conditional=conditional, copies=copies)
        case loops.Alloc():
            _collect(s.body, uses, looped=looped, conditional=conditional)
        case _:
            pass


def _runs(s: loops.For) -> bool:
    """Has a loop iterations for certain?"""
    return isinstance(s.lower, loops.Const) and isinstance(s.upper, loops.Const) and s.lower.value < s.upper.value


def _lanes(indices: tuple[loops.Expr, ...]) -> int:
    return max((i.lanes for i in indices), default=1)


def _slots(uses: list[_Use], moving: set[str], machine: Machine, scratch: bool) -> list[Access]:
    """The distinct elements of a buffer in the region, if they can live in registers and gain by it; else nothing."""
    slots = list(dict.fromkeys(u.slot for u in uses))
    fixed = all(_fixed(i, moving) for indices, _ in slots for i in indices)
    gains = _looped_or_handed_on(uses, scratch) or sum(u.store for u in uses) > len(slots)
    owned = {u.slot for u in uses if u.store and not u.conditional}  # stored in any case, so that storing back changes nothing
    if any(u.conditional and u.slot not in owned for u in uses):
        return []
    if not fixed or not gains or len(slots) > 4 * machine.vector_registers:
        return []
    spans = [[_span(i) for i in indices] for indices, _ in slots]
    disjoint = all(_disjoint(a, b) for n, a in enumerate(spans) for b in spans[:n])
    return slots if disjoint else []


def _looped_or_handed_on(uses: list[_Use], scratch: bool) -> bool:
    """Does a loop touch the elements again and again, or does the region read scratch that it makes, so that the stores may be
    dead?"""
    return any(u.looped for u in uses) or scratch and not all(u.store for u in uses)


def _fixed(index: loops.Expr, moving: set[str]) -> bool:
    """Does the index depend neither on loops inside the region nor on memory?"""
    return not any(isinstance(e, loops.Load) or (isinstance(e, loops.Var) and e.name in moving)
                   for e in traverse.walk_expr(index))


@dataclass(frozen=True)
class _Span:
    """The coordinates base + first .. base + first + width - 1, where `base` is a linear form without its number."""

    base: frozenset[tuple[loops.Expr, int]]
    first: int
    width: int


def _span(index: loops.Expr) -> _Span | None:
    """The coordinates of an index, if it is a scalar or a rising ramp."""
    width, first = 1, index
    if isinstance(index, loops.Ramp) and index.stride > 0:
        width, first = (index.reach - 1) * index.stride + 1, index.base
    if first.lanes > 1:
        return None
    terms = linear_forms.linear(first)
    return _Span(frozenset(t for t in terms.items() if not isinstance(t[0], loops.Const)), terms.get(loops.const(1), 0), width)


def _disjoint(a: list[_Span | None], b: list[_Span | None]) -> bool:
    """Do two slots never share an element? Provable when in one dimension they lie a known distance apart."""
    return any(i is not None and j is not None and i.base == j.base and
               (j.first - i.first >= i.width or i.first - j.first >= j.width) for i, j in zip(a, b, strict=True))


def _promote(s: loops.Stmt, uses: list[_Use], chosen: dict[str, list[Access]], taken: frozenset[str]) -> loops.Stmt:
    """The region with the chosen slots of each buffer in private arrays."""
    buffers = {u.buffer.name: u.buffer for u in uses}
    places = {name: _places(buffers[name], slots, taken) for name, slots in chosen.items()}

    def load(x: loops.Expr) -> loops.Expr:
        if isinstance(x, loops.Load) and x.buffer.name in places:
            return loops.Load(*places[x.buffer.name][x.indices, x.lanes], x.dtype, x.lanes)
        return x

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        if isinstance(x, loops.Store) and x.buffer.name in places:
            return loops.Store(*places[x.buffer.name][x.indices, _lanes(x.indices)], x.value, x.origin)
        return x

    s = traverse.map_stmt(s, on_stmt, lambda e: _changed(e, places, load))
    for name, place in places.items():
        s = _around(s, buffers[name], [u for u in uses if u.buffer.name == name], place)
    return s


def _places(buffer: loops.Buffer, slots: list[Access], taken: frozenset[str]) -> Places:
    """Where each slot of a buffer lives: one array for each number of lanes."""
    places: Places = {}
    for lanes in sorted({lanes for _, lanes in slots}):
        members = [slot for slot in slots if slot[1] == lanes]
        shape = (len(members),) if lanes == 1 else (len(members), lanes)
        array = loops.Buffer(fresh(f"{buffer.name}_r{lanes if lanes > 1 else ''}", set(taken)), buffer.dtype, shape, "private")
        for n, slot in enumerate(members):
            places[slot] = (array, (loops.const(n),) if lanes == 1 else (loops.const(n), loops.Ramp(loops.const(0), 1, lanes)))
    return {slot: places[slot] for slot in slots}


def _around(s: loops.Stmt, buffer: loops.Buffer, uses: list[_Use], places: Places) -> loops.Stmt:
    """The region between the loads of what it reads first and the stores of what it writes."""
    first = {u.slot: u for u in reversed(uses)}
    before = [loops.Store(*place, loops.Load(buffer, slot[0], buffer.dtype, slot[1]))
              for slot, place in places.items() if not first[slot].store or first[slot].conditional]
    written = {u.slot for u in uses if u.store}
    after = [loops.Store(buffer, slot[0], loops.Load(*place, buffer.dtype, slot[1]))
             for slot, place in places.items() if slot in written]
    result: loops.Stmt = loops.block(*before, s, *after)
    for array in sorted({array for array, _ in places.values()}, key=lambda b: b.shape[1:]):
        result = loops.Alloc(array, result)
    return result


def drop_dead_stores(module: loops.Module) -> loops.Module:
    """The module without stores to scratch that nothing loads, and without that scratch."""
    kernels = module.kernels
    loaded = {e.buffer.name for k in kernels for x in traverse.walk_stmt(k.body) for top in traverse.expressions(x)
              for e, _ in traverse.loads(top)}
    dead = {b.name for b in module.scratch} - loaded

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        if isinstance(x, loops.Store) and x.buffer.name in dead:
            return loops.Block(())
        if isinstance(x, loops.Block):
            return loops.block(*x.stmts)
        return loops.Block(()) if isinstance(x, loops.For | loops.If | loops.Alloc) and _empty(x) else x

    kept = tuple(replace(k, body=traverse.map_stmt(k.body, on_stmt, lambda e: e)) for k in kernels) if dead else kernels
    return replace(module, scratch=tuple(b for b in module.scratch if b.name not in dead),
                   kernels=tuple(k for k in kept if not _nothing(k.body)))


def _empty(s: loops.For | loops.If | loops.Alloc) -> bool:
    if isinstance(s, loops.If):
        return _nothing(s.then) and (s.orelse is None or _nothing(s.orelse))
    return _nothing(s.body)


def _nothing(s: loops.Stmt) -> bool:
    return isinstance(s, loops.Block) and not s.stmts
