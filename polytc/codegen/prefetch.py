"""Prefetches of packed operands: while tiles of rows use one panel, the next one is fetched into the second cache.

    for t (tiles of rows) { for k { acc += X[t, k] * P[p, k, 0:48] } }
    ->  for t { for k { prefetch line (48*K*t + 48*k) / (16*T) of P[p+1]; acc += ... } }             T tiles, K steps each

A panel is used by all tiles of rows. It comes from memory for the first one, which waits for it; the others leave the memory
idle. Spread over the tiles, the way of the next panel is hidden behind their arithmetic. The processor alone does not do so: it
looks some lines ahead, no further than the end of a page (Callahan, Kennedy & Porterfield, Software Prefetching, ASPLOS
1991). Lines are asked for in the order in which they lie: then it does look ahead of the prefetches, with the buffers of the
second cache, of which there are more than those that a prefetch occupies. A prefetch never faults, so that the panel after
the last one needs no care.

If all rows are one tile, each line is used once, and what lies some kilobytes ahead is fetched while it is.

Lines that are written are fetched, too, where each iteration writes some of them far from those of the one before:

    for i { Y[16*i, j..j+15] = ...; ...; Y[16*i+15, j..j+15] = ... }
    ->  for i { fetch Y[16*i+16, j], ..., Y[16*i+31, j]; Y[16*i, j..j+15] = ...; ... }

A store waits for its line, and those behind it wait for that store; what is asked for before comes at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from polytc.codegen import addresses, intervals, loops, traverse
from polytc.codegen.passes import unrolling
from polytc.machine import Cache, Machine
from polytc.program.fetching import CACHE

LINE = 64
"""Bytes of a cache line."""
PANEL = 8 << 10
"""Bytes of a panel from which on its next one is fetched ahead; shorter ones the processor's own prefetching covers."""
PART = 4
"""An operand is large if it takes more than this part of the second cache."""
MOST = 2
"""Lines fetched in an iteration at most: more would take the place of loads."""
DISTANCE = 8 << 10
"""Bytes between a line and what is fetched meanwhile, where each line is used once."""
FAR = 2 << 10
"""Bytes between what two iterations write from which on the processor sees no stride."""
ROWS = 4
"""Lines that an iteration writes; fewer wait for each other no longer than what is computed in between."""
WHOLE = 4
"""Times that a loop through a part of a dimension fits into it, at least."""
SHIFT = 24
"""Binary places of the lines for each element."""


@dataclass(frozen=True)
class Prefetch:
    """What to fetch in each iteration of the loop `inner`: `each` lines, as far into what begins `distance` elements behind
    `start` as the iteration is among all of the loop over tiles of rows.

    passed: the elements that came before this iteration, all tiles together; repetitions: of that loop, each of which passes
    by all elements; an expression where sizes are open. write: they are fetched to be written.
    """

    inner: loops.For
    buffer: loops.Buffer
    start: addresses.Address
    distance: int
    passed: addresses.Address
    repetitions: int | loops.Expr
    each: int
    write: bool = False

    @property
    def rate(self) -> int:
        """Lines for each element that came before, with SHIFT binary places; for one turn where their number is open."""
        repetitions = self.repetitions if isinstance(self.repetitions, int) else 1
        return -(-(self.buffer.dtype.bytes << SHIFT) // (LINE * repetitions))


@dataclass(frozen=True)
class EnclosingLoops:
    """The sequential loops that a statement stands in, outermost first, and what they want to be fetched."""

    outer: tuple[loops.For, ...] = ()
    prefetches: tuple[Prefetch, ...] = ()

    def into(self, s: loops.For, kernel: loops.Kernel, machine: Machine) -> tuple[EnclosingLoops, tuple[Prefetch, ...]]:
        """The same for the body of the loop `s` of a kernel, and what to fetch in each of its iterations: what a schedule asks
        for, and what is decided for other arrays."""
        written, own = frozenset(kernel.writes), asked(s, (*self.outer, s), kernel.ahead)
        own += tuple(a for a in (tuple(a for a in self.prefetches if a.inner is s) or stream(s, self.outer, written, machine))
                     if a.buffer not in {x.buffer for x in own})
        own += stores(s, machine)
        return EnclosingLoops((*self.outer, s), self.prefetches + plan(s, self.outer, written, machine)), own


OUTSIDE_LOOPS = EnclosingLoops()
"""Outside of all loops."""


def plan(rows: loops.For, around: tuple[loops.For, ...], written: frozenset[str], machine: Machine) -> tuple[Prefetch, ...]:
    """The prefetches for a loop over tiles of rows. around: the loops outside of it, outermost first; written: names of
    buffers that the kernel writes. Where the number of tiles depends on open sizes, one line an iteration at most."""
    times = _repetitions(rows)
    repetitions = times if times is not None else _open_repetitions(rows)
    if repetitions is None or times is not None and times < 2 or len(machine.caches) < 2:
        return ()
    found = []
    for nest in _nests(rows.body, (), whole=times is None):
        for buffer, form, width in _streams(nest[-1], written, machine.caches[1].bytes // PART):
            span = _span(form, width, nest)
            if span is None or span * buffer.dtype.bytes < PANEL or form.mentions(rows.var):
                continue
            lines = -(-width * buffer.dtype.bytes // LINE)
            each = -(-lines // times) if times is not None else 1
            if each <= MOST:
                start, passed = _parts(form, nest)
                passed = passed.plus(_repetition(rows).times(span // rows.step))
                found.append(Prefetch(nest[-1], buffer, start, _next(form, around, span), passed, repetitions, each))
    return tuple(found)


def stream(loop: loops.For, around: tuple[loops.For, ...], written: frozenset[str], machine: Machine) -> tuple[Prefetch, ...]:
    """The prefetches for an innermost loop that walks through an operand of which each element is read once: what comes
    DISTANCE bytes later. around: the loops outside of it."""
    if len(machine.caches) < 2 or not unrolling.is_innermost(loop):
        return ()
    found = []
    for buffer, form, width in _streams(loop, written, machine.caches[1].bytes):
        moves, size = all(intervals.trips(x) == 1 or form.mentions(x.var) for x in around), buffer.dtype.bytes
        ahead = DISTANCE // size
        if form.coefficient(loop.var) * loop.step == width and moves and _goes_on(form, width, (*around, loop), ahead):
            found.append(Prefetch(loop, buffer, form, ahead, addresses.Address(), 1, -(-width * size // LINE)))
    return tuple(found)


def asked(loop: loops.For, around: tuple[loops.For, ...], wanted: Iterable[loops.Asked]) -> tuple[Prefetch, ...]:
    """What a schedule asks to be fetched in an innermost loop: each line once that its accesses touch so many iterations later.
    around: the loops outside of it, and itself."""
    known = {(a.origin, a.ahead.tensor): a for a in wanted if a.ahead.into == CACHE}
    found: dict[tuple[object, ...], Prefetch] = {}
    for s, copies in unrolling.statements(loop.body) if known and unrolling.is_innermost(loop) else ():
        for load, conditional in (x for e in traverse.expressions(s) for x in traverse.loads(e)):
            a = known.get((s.origin, load.buffer.name)) if isinstance(s, loops.Store) else None
            if a is None or conditional:
                continue
            step = next((x.step for x in reversed(around) if x.var == a.var), 0)
            for form in _places(addresses.flatten(load.buffer, load.indices), copies):
                far = 0 if form is None else form.coefficient(a.var) * step * a.ahead.distance
                if form is not None and far:
                    size = load.buffer.dtype.bytes
                    start = addresses.Address(form.constant + min(form.lanes, default=0), form.terms)
                    lines = -(-(max(form.lanes, default=0) - min(form.lanes, default=0) + 1) * size // LINE)
                    found.setdefault((load.buffer, form.terms, start.constant * size // LINE),
                                     Prefetch(loop, load.buffer, start, far, addresses.Address(), 1, lines))
    return tuple(found.values())


@dataclass(frozen=True)
class Told:
    """What becomes of lines that a schedule asks for. places: in how many innermost loops some are fetched."""

    asked: loops.Asked
    places: int

    def __str__(self) -> str:
        a = self.asked.ahead
        what = f"{a.tensor} of {self.asked.origin}, {a.distance} of {a.loop} ahead"
        return f"{what}: in {self.places} innermost loop{'s' * (self.places > 1)}" if self.places else (
            f"{what}: nowhere, as no innermost loop reads it without a condition at places that {a.loop} moves: that may have "
            "one iteration, be collapsed with others, or be cut in other pieces")


def told(module: loops.Module) -> tuple[Told, ...]:
    """What becomes of all lines that a schedule asks for, in what is written for CPUs."""
    wanted = dict.fromkeys(a for k in module.kernels for a in k.ahead if a.ahead.into == CACHE)

    def places(s: loops.Stmt, around: tuple[loops.For, ...], a: loops.Asked) -> int:
        around = (*around, s) if isinstance(s, loops.For) else around
        own = isinstance(s, loops.For) and s.kind != "unroll" and bool(asked(s, around, (a,)))
        return own + sum(places(x, around, a) for x in traverse.children(s))
    return tuple(Told(a, sum(places(k.body, (), a) for k in module.kernels)) for a in wanted)


def _goes_on(form: addresses.Address, width: int, nest: tuple[loops.For, ...], distance: int) -> bool:
    """Is what lies so many elements later read after what lies between? Not where a loop outside jumps before."""
    span = width
    for loop in reversed(nest):
        times = intervals.trips(loop)
        if times is None or span >= distance:
            return True
        if times > 1 and form.coefficient(loop.var) * loop.step != span:
            return False
        span *= times
    return True


def stores(loop: loops.For, machine: Machine) -> tuple[Prefetch, ...]:
    """The prefetches for an innermost loop that writes vectors to lines far apart in an array that the second cache does not
    hold: those of the next iteration."""
    if len(machine.caches) < 2 or not unrolling.is_innermost(loop):
        return ()
    found: dict[tuple[object, ...], Prefetch] = {}
    for s, copies in unrolling.statements(loop.body):
        if isinstance(s, loops.Store) and s.value.lanes > 1 and s.buffer.space == "global" and (
                s.buffer.size * s.buffer.dtype.bytes > machine.caches[1].bytes and _is_part(s, loop)):
            size = s.buffer.dtype.bytes
            for form in _places(addresses.flatten(s.buffer, s.indices), copies):
                step = 0 if form is None else form.coefficient(loop.var) * loop.step
                if form is not None and abs(step) * size >= FAR and form.lanes == tuple(range(s.value.lanes)):
                    start = addresses.Address(form.constant, form.terms)
                    found.setdefault((s.buffer, form.terms, form.constant * size // LINE),
                                     Prefetch(loop, s.buffer, start, step, addresses.Address(), 1, 1, write=True))
    return tuple(found.values()) if len(found) >= ROWS and _fit(found.values(), machine.caches[0]) else ()


def _fit(found: Iterable[Prefetch], cache: Cache) -> bool:
    """Does a cache hold the lines of two iterations? Rows a multiple of its sets apart share a few places."""
    sets = cache.bytes // (cache.ways * cache.line)
    shared = Counter(a.start.constant * a.buffer.dtype.bytes // cache.line % sets for a in found)
    return 2 * max(shared.values()) <= cache.ways


def _is_part(s: loops.Store, loop: loops.For) -> bool:
    """Does a loop run through a small part of each dimension that it moves a store in? What lies behind its last iteration is
    then most often what comes next."""
    times = intervals.trips(loop)
    for index, extent in zip(s.indices, s.buffer.shape, strict=True):
        form = addresses.address(index)
        if times is None or form is None or WHOLE * abs(form.coefficient(loop.var)) * loop.step * times > extent:
            return False
    return True


def _nests(s: loops.Stmt, outer: tuple[loops.For, ...], *, whole: bool = False) -> Iterator[tuple[loops.For, ...]]:
    """The chains of loops below a statement that end in a loop without loops inside, the outermost first. whole: also in the
    first branch of a condition, which is that of whole tiles where sizes are open."""
    match s:
        case loops.For():
            inside = list(_nests(s.body, (*outer, s), whole=whole)) if s.kind != "unroll" else []
            yield from inside or [(*outer, s)] if s.kind != "unroll" else ()
        case loops.If():
            if whole:
                yield from _nests(s.then, outer, whole=whole)
        case _:
            for x in traverse.children(s):
                yield from _nests(x, outer, whole=whole)


def _streams(loop: loops.For, written: frozenset[str], large: int) -> Iterator[tuple[loops.Buffer, addresses.Address, int]]:
    """The large arrays that an iteration reads as neighbouring whole vectors: array, place of the first element, elements."""
    reads: dict[loops.Buffer, list[addresses.Address | None]] = {}
    for s, copies in unrolling.statements(loop.body):
        for e in traverse.expressions(s):
            for load, conditional in traverse.loads(e):
                b = load.buffer
                if load.lanes > 1 and not conditional and b.space == "global" and b.name not in written \
                        and b.size * b.dtype.bytes > large:
                    reads.setdefault(b, []).extend(_places(addresses.flatten(b, load.indices), copies))
    for buffer, forms in reads.items():
        known = {f for f in forms if f is not None}
        first = min(known, key=lambda f: f.constant, default=None)
        if first is None or len(known) < len(set(forms)) or any(f.terms != first.terms for f in known):
            continue
        elements = sorted({f.constant + lane for f in known for lane in f.lanes})
        if elements == list(range(elements[0], elements[0] + len(elements))):
            yield buffer, addresses.Address(first.constant, first.terms), len(elements)


def _places(form: addresses.Address | None, copies: tuple[loops.For, ...]) -> Iterator[addresses.Address | None]:
    """What all copies of an access touch; None: nothing that is known."""
    moving = tuple(s for s in copies if form is not None and form.mentions(s.var))
    for point in unrolling.points(moving):
        yield form.at(dict(zip((s.var for s in moving), point, strict=True))) if form is not None else None


def _span(form: addresses.Address, width: int, nest: tuple[loops.For, ...]) -> int | None:
    """Elements that the loops of the nest read one after another, without gaps; None if there are any."""
    span = width
    for loop in reversed(nest):
        times = intervals.trips(loop)
        if times is None or form.coefficient(loop.var) * loop.step != span:
            return None
        span *= times
    return span


def _parts(form: addresses.Address, nest: tuple[loops.For, ...]) -> tuple[addresses.Address, addresses.Address]:
    """(where the elements begin that the loops of the nest read, how many of them come before those of an iteration)."""
    inside = {loop.var: int(loop.lower.value) for loop in nest if isinstance(loop.lower, loops.Const)}
    moving = tuple((atom, c) for atom, c in form.terms if isinstance(atom, loops.Var) and atom.name in inside)
    first = sum(c * inside[atom.name] for atom, c in moving if isinstance(atom, loops.Var))
    fixed = tuple(term for term in form.terms if term not in moving)
    return addresses.Address(form.constant + first, fixed), addresses.Address(-first, moving)


def _next(form: addresses.Address, around: tuple[loops.For, ...], span: int) -> int:
    """How far on the panel lies that the next iteration of the nearest loop outside reads."""
    steps = (form.coefficient(loop.var) * loop.step for loop in reversed(around))
    return next((step for step in steps if step), span)


def _repetitions(loop: loops.For) -> int | None:
    """Iterations of a loop over tiles, also where it is one of two that became one parallel loop:

        for cd in 0:12 { for c in cd//4 : cd//4+1 { for d in cd%4 : cd%4+1 { ... } } }
    """
    match loop.lower, loop.upper:
        case loops.Binary(op="%", b=loops.Const(value=n)), loops.Binary(op="+", a=lower, b=loops.Const(value=1)) \
                if lower == loop.lower:
            return int(n)
        case _:
            return intervals.trips(loop)


def _open_repetitions(loop: loops.For) -> loops.Expr | None:
    """Iterations of a loop from 0 to a formula of sizes."""
    whole = isinstance(loop.lower, loops.Const) and loop.lower.value == 0 and loop.step == 1
    return loop.upper if whole and not isinstance(loop.upper, loops.Const) else None


def _repetition(loop: loops.For) -> addresses.Address:
    """The number of an iteration of such a loop, from 0, times its step."""
    first = int(loop.lower.value) if isinstance(loop.lower, loops.Const) else 0
    return addresses.Address(-first, ((loops.Var(loop.var), 1),))
