"""Storage contraction: scratch that each iteration of some loops uses for itself keeps one iteration's slice, inside them.

    parallel for b in 0:16 {                            with X[64,32], Y[64,32], scratch T[64,32]
        for p in 0:4 { for j in 0:32 { T[4*b + p, j] = X[4*b + p, j] * 2 } }
        for p in 0:4 { for j in 0:32 { Y[4*b + p, j] = T[4*b + p, 31 - j] } }
    }
    ->  parallel for b in 0:16 {
            alloc local f32 T_slice[4,32]
            for p in 0:4 { for j in 0:32 { T_slice[p,j] = X[4*b + p, j] * 2 } }
            for p in 0:4 { for j in 0:32 { Y[4*b + p, j] = T_slice[p, 31 - j] } }
        }

so that fused stages hand their values on in the first caches, and threads have slices of their own. In each dimension an index
is split into a part that the shared loops fix, the same for all accesses, and a rest within an interval. Where different
iterations fix boxes that have no element in common, nothing flows between them. Loops of the host count as loops that are
shared, where launches differ in what they do with the buffer (see codegen.launch_invariance). (Lefebvre & Feautrier, Automatic
Storage Management for Parallel Programs, 1998, for the case of disjoint boxes.) Guarantees: loads find what they found before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from polytc.codegen import launch_invariance, linear_forms, loops, traverse
from polytc.codegen.lower import rebuilt
from polytc.codegen.passes import simplify, work_items
from polytc.codegen.passes.local_memory import shared_storage
from polytc.machine import Machine
from polytc.program.names import fresh
from polytc.program.scalars import OPPOSITES
from polytc.program.sizes import Size


@dataclass(frozen=True)
class _Level:
    """A loop around an access: its node, to tell loops of one name apart, the interval of its variable, and whether the host
    runs it."""

    node: loops.For
    known: simplify.Interval
    host: bool = False


@dataclass(frozen=True)
class _Access:
    """indices: of a load or a store; path: the loops around it, outermost first; store: in a store, not in a bound or test."""

    indices: tuple[loops.Expr, ...]
    path: tuple[_Level, ...]
    store: bool


@dataclass(frozen=True)
class _Side:
    """One dimension: index = base + rest, rest in low..low+extent-1; base: a linear form of the shared loops."""

    base: linear_forms.Terms
    low: int
    extent: int


@dataclass(frozen=True)
class _Slice:
    """What takes the place of a buffer inside the loops `shared` (their variables, outermost first)."""

    buffer: loops.Buffer
    sides: tuple[_Side, ...]
    shared: tuple[str, ...]

    def at(self, indices: Sequence[loops.Expr]) -> tuple[loops.Expr, ...]:
        """Where an element of the old buffer lies."""
        return tuple(_moved(i, side) for i, side in zip(indices, self.sides, strict=True) if side.extent > 1)


def contract(module: loops.Module, machine: Machine, wanted: Callable[[loops.Kernel], bool] = lambda k: True) -> loops.Module:
    """The module with the scratch that only one kernel uses contracted where that is provably right and makes it smaller.
    wanted: the kernels to look at."""
    found = [_accesses(k.body, frozenset(b.name for b in module.scratch)) for k in module.kernels]
    changing = frozenset(w for k in module.kernels for w in k.writes)
    users: dict[str, list[int]] = {}
    for n, accesses in enumerate(found):
        for name in accesses:
            users.setdefault(name, []).append(n)
    kernels, gone = list(module.kernels), set[str]()
    for n, k in enumerate(kernels):
        mine = [b for b in module.scratch if users.get(b.name) == [n]] if wanted(k) else []
        around = {b.name: _hosts(launch_invariance.deciding_loops(k, b.name, changing)) for b in mine}
        slices = _slices(k, mine, {name: _inside_of(levels, found[n][name]) for name, levels in around.items()}, machine)
        if slices:
            kernels[n] = rebuilt(k, _rewritten(k.body, slices))
            gone |= set(slices)
    return replace(module, kernels=tuple(kernels), scratch=tuple(b for b in module.scratch if b.name not in gone))


def group_bytes(k: loops.Kernel, b: loops.Buffer) -> int | None:
    """Bytes of a buffer that a work-group of a kernel uses for itself; None if groups use it together."""
    mapped = [x for x in traverse.walk_stmt(k.body) if isinstance(x, loops.For) and x.kind in ("block", "thread")]
    groups, axes = ({x.var for x in mapped if x.kind == kind} for kind in ("block", "thread"))
    accesses = _accesses(k.body, frozenset((b.name,))).get(b.name)
    small = _common(b, b.name, accesses, groups, frozenset(axes)) if groups and accesses else None
    return None if small is None else small.buffer.size * b.dtype.bytes


def _slices(k: loops.Kernel, buffers: list[loops.Buffer], accesses: dict[str, list[_Access]], machine: Machine) \
        -> dict[str, _Slice]:
    """The slices of a kernel's scratch, by the name of the buffer, within the memory that the machine has for them."""
    mapped = [x for x in traverse.walk_stmt(k.body) if isinstance(x, loops.For) and x.kind in ("block", "thread")]
    groups = {x.var for x in mapped if x.kind == "block"}
    axes = frozenset(x.var for x in mapped if x.kind == "thread")
    own = [x.buffer for x in traverse.walk_stmt(k.body) if isinstance(x, loops.Alloc)]
    taken = {b.name for b in (*k.args, *own)}
    outside, inside = list[loops.Buffer](), list[loops.Buffer]()
    result: dict[str, _Slice] = {}
    for b in buffers:
        name = b.name if work_items.has_phases(k) else fresh(f"{b.name}_slice", taken)
        if (small := _own(b, name, accesses[b.name], (groups, axes), machine)) is None:
            if (small := _common(b, name, accesses[b.name], groups, axes)) is None:
                continue
            place, more = outside if set(small.shared) <= groups else inside, replace(small.buffer, name=b.name)
            place.append(more)
            if machine.local_bytes and shared_storage.needed(k, outside, inside) > machine.local_bytes:
                place.remove(more)
                continue
        taken.add(small.buffer.name)
        result[b.name] = small
    return result


def _own(b: loops.Buffer, name: str, accesses: list[_Access], mapped: tuple[set[str], frozenset[str]], machine: Machine
         ) -> _Slice | None:
    """The slice that an item of a group keeps for itself, if each has its own and it is small. mapped: groups, axes."""
    groups, axes = mapped
    found = _contracted(b, accesses, whole=bool(axes)) if groups or axes else None
    if found is None or not groups <= set(found[1]):
        return None
    sides, shared = found
    small = _Slice(loops.Buffer(name, b.dtype, tuple(s.extent for s in sides if s.extent > 1), "private"), sides, shared)
    used = [work_items.Access(small.at(a.indices), frozenset(x.node.var for x in a.path if work_items.is_repeated(x.node)),
                              a.store) for a in accesses]
    left = axes - set(shared)
    owned = work_items.owned_dimensions(used, left)
    if left and not owned:
        return None
    size = small.buffer.size // prod(small.buffer.shape[d] for d in owned) * b.dtype.bytes
    return small if size <= machine.costs.groups.private else None


def _common(b: loops.Buffer, name: str, accesses: list[_Access], groups: set[str], axes: frozenset[str]) -> _Slice | None:
    """The slice that the items of a group share, or the iterations of other loops."""
    if groups and not axes:
        return None
    found = _contracted(b, accesses, axes, whole=bool(axes))
    if found is None or not groups <= set(found[1]):
        return None
    sides, shared = found
    return _Slice(loops.Buffer(name, b.dtype, tuple(s.extent for s in sides if s.extent > 1), "local"), sides, shared)


# ---- facts

def _accesses(s: loops.Stmt, names: frozenset[str]) -> dict[str, list[_Access]]:
    """All accesses to the buffers of these names."""
    found: dict[str, list[_Access]] = {}
    outermost: tuple[_Level, ...] = ()
    for name, indices, path, store in traverse.accesses(s, names, outermost, _inside, _under):
        found.setdefault(name, []).append(_Access(indices, path, store))
    return found


def _hosts(around: tuple[loops.For, ...]) -> tuple[_Level, ...]:
    """Loops of the host."""
    found: tuple[_Level, ...] = ()
    for s in around:
        found = _inside(found, s)
    return tuple(replace(level, host=True) for level in found)


def _inside_of(around: tuple[_Level, ...], accesses: list[_Access]) -> list[_Access]:
    """The accesses inside of more loops."""
    paths = {id(a.path): (*around, *a.path) for a in accesses} if around else {}
    return [replace(a, path=paths[id(a.path)]) for a in accesses] if around else accesses


def _inside(path: tuple[_Level, ...], s: loops.For) -> tuple[_Level, ...]:
    return *path, _Level(s, simplify.values(s, _known(path)))


def _under(path: tuple[_Level, ...], s: loops.If, holds: bool) -> tuple[_Level, ...]:
    """The loops around what runs under a test of the variable of one, as `b >= 1`: where that leaves one iteration, its number
    stands in the place of the variable."""
    c = s.cond
    if not isinstance(c, loops.Binary) or not isinstance(c.a, loops.Var) or not isinstance(c.b, loops.Const):
        return path
    n, op = int(c.b.value), c.op if holds else OPPOSITES.get(c.op, "")
    low, high = {"==": (n, n), "<": (None, n - 1), "<=": (None, n), ">": (n + 1, None), ">=": (n, None)}.get(op, (None, None))

    def narrowed(known: simplify.Interval) -> simplify.Interval:
        if op == "!=":
            return known[0] + 1 if known[0] == n else known[0], known[1] - 1 if known[1] == n else known[1]
        return (low if known[0] is None or low is not None and low > known[0] else known[0],
                high if known[1] is None or high is not None and high < known[1] else known[1])
    return tuple(replace(level, known=narrowed(level.known)) if level.node.var == c.a.name else level for level in path)


def _known(path: Sequence[_Level]) -> dict[str, simplify.Interval]:
    return {level.node.var: level.known for level in path}


# ---- what may be contracted, and how far

def _contracted(b: loops.Buffer, accesses: list[_Access], apart: frozenset[str] = frozenset(), whole: bool = False
                ) -> tuple[tuple[_Side, ...], tuple[str, ...]] | None:
    """The sides of the slice inside as many loops as possible, and those of these loops that are in the kernel; None if no
    loops make it smaller. apart: the loops over the items that share the slice, inside of which it may not be. whole: it may
    be as large as the buffer."""
    most = _common_depth([a.path for a in accesses])
    names = [level.node.var for level in accesses[0].path[:most]]
    hosts = sum(level.host for level in accesses[0].path)
    most = next((n for n, name in enumerate(names) if name in apart), most)
    for depth in range(most, max(hosts, 0 if whole else 1) - 1, -1):
        shared = {level.node.var: _union([a.path[n].known for a in accesses])
                  for n, level in enumerate(accesses[0].path[:depth])}
        sides = tuple(_side(d, extent, accesses, shared) for d, extent in enumerate(b.shape))
        if any(isinstance(s.extent, Size) for s in sides):
            continue
        if _apart(sides, shared):
            if any(isinstance(extent, Size) for extent in b.shape):
                return sides, tuple(shared)[hosts:]
            size = loops.Buffer(b.name, b.dtype, tuple(s.extent for s in sides)).size
            return (sides, tuple(shared)[hosts:]) if size < b.size or whole else None
    return None


def _common_depth(paths: list[tuple[_Level, ...]]) -> int:
    """How many of the outermost loops all accesses share. Loops of one name that divide a range among them, full tiles and the
    last one, count as one loop; those of copies do not count."""
    paths = [tuple(level for level in p if level.node.kind != "unroll") for p in paths]
    together: dict[tuple[int, ...], list[tuple[_Level, ...]]] = {}
    for p in paths:  # those of one nest may be under different tests
        together.setdefault(tuple(id(level.node) for level in p), []).append(p)
    distinct = [tuple(replace(x[0], known=_union([level.known for level in x])) for x in zip(*same, strict=True))
                for same in together.values()]
    return min((_shared_depth(a, b) for a, b in combinations(distinct, 2)), default=len(distinct[0]))


def _shared_depth(a: tuple[_Level, ...], b: tuple[_Level, ...]) -> int:
    apart = False
    for n, (x, y) in enumerate(zip(a, b, strict=False)):
        if x.node.var != y.node.var or not (apart or x.node is y.node or _disjoint(x.known, y.known)):
            return n
        apart |= x.node is not y.node
    return min(len(a), len(b))


def _disjoint(a: simplify.Interval, b: simplify.Interval) -> bool:
    return (a[1] is not None and b[0] is not None and a[1] < b[0]) or (b[1] is not None and a[0] is not None and b[1] < a[0])


def _union(parts: list[simplify.Interval]) -> simplify.Interval:
    lows, highs = [p[0] for p in parts], [p[1] for p in parts]
    return (None if None in lows else min(x for x in lows if x is not None),
            None if None in highs else max(x for x in highs if x is not None))


@dataclass(frozen=True)
class _Split:
    """An index as a part that the shared loops fix and a rest from low to high. once: the values of those of these loops that
    are at their only iteration around the access, as in the last, partial tile."""

    fixed: linear_forms.Terms
    low: int
    high: int
    once: linear_forms.Terms


def _side(d: int, extent: int, accesses: list[_Access], shared: dict[str, simplify.Interval]) -> _Side:
    """Dimension d of all accesses; the whole of it where they do not agree on a base or the rest has no bounds."""
    whole = _Side({}, 0, extent)
    distinct = {(x.indices[d], id(x.path)): x for x in accesses}.values()
    splits = [_split(x.indices[d], shared, _known(x.path)) for x in distinct]
    found = [x for x in splits if x is not None]
    base = _base(found, shared) if found and len(found) == len(splits) else None
    if base is None:
        return whole
    beyond = [sum((x.fixed.get(atom, 0) - base.get(atom, 0)) * value for atom, value in x.once.items()) for x in found]
    low = min(x.low + n for x, n in zip(found, beyond, strict=True))
    high = max(x.high + n for x, n in zip(found, beyond, strict=True))
    smaller = isinstance(extent, Size) or high - low + 1 < extent
    return _Side(base, low, high - low + 1) if base or smaller else whole


def _base(splits: list[_Split], shared: dict[str, simplify.Interval]) -> linear_forms.Terms | None:
    """The part that the shared loops fix of all accesses alike; None if they do not agree. Where a loop is at its only
    iteration, its number may stand in the place of its variable."""
    base: linear_forms.Terms = {}
    for atom in map(loops.Var, shared):
        told = {x.fixed.get(atom, 0) for x in splits if atom not in x.once} or {x.fixed.get(atom, 0) for x in splits}
        if len(told) > 1:
            return None
        coefficient = told.pop()
        base |= {atom: coefficient} if coefficient else {}
    return base


def _split(index: loops.Expr, shared: dict[str, simplify.Interval], known: dict[str, simplify.Interval]) -> _Split | None:
    """The parts of an index; None if its rest has no bounds."""
    ramp = index if isinstance(index, loops.Ramp) else None
    scalar = ramp.base if ramp is not None else index
    if scalar.lanes != 1:
        return None
    span = (ramp.reach - 1) * ramp.stride if ramp is not None else 0
    terms = linear_forms.linear(scalar)
    fixed: linear_forms.Terms = {atom: c for atom, c in terms.items() if isinstance(atom, loops.Var) and atom.name in shared}
    low, high = simplify.interval(linear_forms.build({a: c for a, c in terms.items() if a not in fixed}), known)
    if low is None or high is None or not linear_forms.small(terms):
        return None
    once: linear_forms.Terms = {loops.Var(v): n for v in shared for n, last in [known[v]] if n is not None and n == last}
    return _Split(fixed, low + min(0, span), high + max(0, span), once)


def _apart(sides: tuple[_Side, ...], shared: dict[str, simplify.Interval]) -> bool:
    """Do different iterations of the shared loops use boxes without a common element? Each loop must be told by a dimension
    in which the steps of one loop reach beyond all that the loops of smaller steps cover, like the digits of a number."""
    told = {var for var, (low, high) in shared.items() if low is not None and low == high}
    for side in sides:
        reach = side.extent - 1
        for atom, c in sorted(side.base.items(), key=lambda term: abs(term[1])):
            assert isinstance(atom, loops.Var)
            low, high = shared[atom.name]
            if abs(c) <= reach:
                break
            reach = reach + abs(c) * (high - low) if low is not None and high is not None else 1 << 62
        else:
            told |= {atom.name for atom in side.base if isinstance(atom, loops.Var)}
    return told >= set(shared)


# ---- the rewritten kernel

def _rewritten(body: loops.Stmt, slices: dict[str, _Slice]) -> loops.Stmt:
    """The statement with slices in place of their buffers."""
    def on_load(e: loops.Expr) -> loops.Expr:
        if isinstance(e, loops.Load) and e.buffer.name in slices:
            found = slices[e.buffer.name]
            return replace(e, buffer=found.buffer, indices=found.at(e.indices))
        return e

    def on_store(x: loops.Stmt) -> loops.Stmt:
        if isinstance(x, loops.Store) and x.buffer.name in slices:
            found = slices[x.buffer.name]
            return replace(x, buffer=found.buffer, indices=found.at(x.indices))
        return x

    moved = traverse.map_stmt(body, on_store, lambda e: traverse.map_expr(e, on_load))
    for x in slices.values():
        moved = _allocated(moved, x.buffer, x.shared)
    return moved


def _allocated(s: loops.Stmt, b: loops.Buffer, shared: tuple[str, ...]) -> loops.Stmt:
    """The statement with the buffer allocated inside the loops `shared`, around as few statements as possible."""
    if not _uses(s, b):
        return s
    match s:
        case loops.For() if shared:
            return replace(s, body=_allocated(s.body, b, shared[1:]))
        case loops.Block() if shared:
            return loops.Block(tuple(_allocated(x, b, shared) for x in s.stmts))
        case loops.Block():
            users = [n for n, x in enumerate(s.stmts) if _uses(x, b)]
            first, last = users[0], users[-1] + 1
            return loops.block(*s.stmts[:first], loops.Alloc(b, loops.block(*s.stmts[first:last])), *s.stmts[last:])
        case loops.Alloc() if shared:
            return replace(s, body=_allocated(s.body, b, shared))
        case loops.If() if shared:
            other = _allocated(s.orelse, b, shared) if s.orelse is not None else None
            return replace(s, then=_allocated(s.then, b, shared), orelse=other)
        case _:
            return loops.Alloc(b, s)


def _uses(s: loops.Stmt, b: loops.Buffer) -> bool:
    return any((isinstance(x, loops.Store) and x.buffer == b) or any(e.buffer == b for top in traverse.expressions(x)
               for e, _ in traverse.loads(top)) for x in traverse.walk_stmt(s))


def _moved(index: loops.Expr, side: _Side) -> loops.Expr:
    """The index in the slice: without the part that the shared loops fix, from 0."""
    if isinstance(index, loops.Ramp):
        return replace(index, base=_moved(index.base, side))
    if not side.base and not side.low:
        return index
    rest = loops.binary("-", index, linear_forms.build(side.base)) if side.base else index
    return simplify.expr(loops.binary("-", rest, loops.const(side.low)), {})
