"""Reductions with few results: the groups of a GPU divide them, and a second kernel puts the partial results together.

    s[0] += x[k]                                        with x[1000000] on gpu
    ->  s_parts[k_part] += (x[k_at + 2304*k_part] else 0.0) where k_part in 0:435, k_at in 0:2304
        s[0] += s_parts[k_part]

Of an open size each group takes pieces by turns, so that there are as many groups as the machine needs, whatever the size:
group g of G the elements 256*g + 256*G*t + c of each turn t, of contractions 16*g + 16*G*t + c.

Contractions with few tiles are divided along their reduction in the same way, where it has steps enough:

    C[i,j] += A[i,k]*B[k,j]                             with A[512,512], B[512,512] on gpu
    ->  C_parts[k_part,i,j] += A[i, k_at + 128*k_part]*B[k_at + 128*k_part, j] where k_part in 0:4, k_at in 0:128
        C[i,j] += C_parts[k_part,i,j]

Parts need not divide the reduction: the last one reads zeros beyond its end.

Groups cannot wait for each other inside of a kernel. Results do not vary: the order of the operations is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Estimate, Machine
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.linear import expression, linear, normalise
from polytc.program.names import Names, initialisation
from polytc.program.scalars import BOOL, I64, identity
from polytc.program.sizes import Size, representative
from polytc.rewrite.gpu import contraction_tiles, histogram_shapes, local_histograms, scattered_parts
from polytc.rewrite.gpu.contraction_tiles import DEPTHS, SMALL
from polytc.rewrite.gpu.histogram_shapes import Histogram
from polytc.rewrite.gpu.local_histograms import Made
from polytc.rewrite.gpu.tiled_indices import TiledIndex
from polytc.rewrite.gpu.work_group_shape import COLUMNS, ELEMENTS_PER_ITEM, fastest_index
from polytc.rewrite.step import Reasons
from polytc.schedule.facts.fusion_groups import (
    MINIMAL_PARALLELISM,
    coincident_indices,
    conditions_on,
    is_contraction,
    reduced_indices,
    single,
)
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP
from polytc.schedule.facts.work_groups import is_cut

TILE = 64 * 64
"""Results of a contraction that a group computes, about."""
STEPS = 128
"""Of a contraction, that a group keeps at least."""
MOST = 1 << 16
"""Parts of an index of an open size at most."""
PARTS = 256
"""Partial results of one element of a contraction at most: few items add them up."""
BESIDE = 4
"""Elements of a contraction's operands for each of its partial results at least, where the number of results stays open: for
other sizes there may be as many results as terms, and the parts cost time and memory for nothing."""
AHEAD = 4
"""Loads of an item that are under way at once."""


@dataclass(frozen=True)
class Parts:
    """index: what the groups divide; count: of them; each: iterations that a group takes at once of an open size; first: their
    partial results lie apart, not side by side; ranges: of the target of a scatter, which others make."""

    index: str
    count: int
    each: int
    first: bool
    ranges: int = 1


Decide = Callable[[pr.Program, pr.Statement, set[str]], Parts | Histogram | None]
"""How a reduction is divided, of the program and its statement for typical sizes, and the indices of other extents."""


def split(program: pr.Program, names: Names, decide: Decide) -> tuple[pr.Program, list[tuple[pr.Statement, ...]]]:
    """The program with partial results for reductions; and its statements in runs: those that make partial results alone, so
    that they are not fused with what puts them together."""
    tensors, runs = list(program.tensors), list[tuple[pr.Statement, ...]]()
    run: list[pr.Statement] = []
    typical = numeric(program)
    for s in program.statements:
        left: pr.Statement | None = s
        found = decide(typical, typical.statement(s.name), _open(program, s)) if not is_cut(s) else None
        while found is not None and left is not None:
            scattered, known = pr.scatters(left), replace(program, tensors=tuple(tensors))
            start = _start(run, left) if left.op is not None else None
            fresh = start is not None and isinstance(found, Histogram) and local_histograms.may_begin(known, start, left, found)
            made = _made(known, left, found, names, fresh)
            tensors += made.tensors
            left = made.total
            kept = [start] if start is not None and not fresh else []
            runs += [(*run, *(kept if left is None else ())), made.statements]
            run = kept if left is not None else []
            typical = replace(typical, tensors=(*typical.tensors, *map(representative, made.tensors)))
            found = decide(typical, representative(left), _open(known, left)) if scattered and left is not None else None
        run += [left] if left is not None else []
    runs = [r for r in (*runs, tuple(run)) if r]
    return replace(program, tensors=tuple(tensors), statements=tuple(s for r in runs for s in r)), runs


def _made(program: pr.Program, s: pr.Statement, by: Parts | Histogram, names: Names, fresh: bool) -> Made:
    """A reduction divided so. fresh: see local_histograms."""
    if isinstance(by, Histogram):
        return local_histograms.made(program, s, by, names, fresh)
    if pr.scatters(s):
        tensor, statements, total = scattered_parts.made(program, s, by.index, by.count, by.ranges, names)
    else:
        tensor, statements, total = _parts(program, s, by, names)
    return Made((tensor,), statements, total)


def _open(program: pr.Program, s: pr.Statement) -> set[str]:
    if pr.scatters(s):
        return histogram_shapes.opened(program, s)
    return {r.index for r in s.ranges if isinstance(r.extent, Size)}


def _start(run: list[pr.Statement], s: pr.Statement) -> pr.Statement | None:
    """The assignment that the reduction goes on from, taken out of the run; None if it cannot come after the rest of it."""
    at = next((n for n in reversed(range(len(run))) if run[n].target == s.target), None)
    if at is None or run[at].op is not None:
        return None
    later = run[at + 1:]
    moved = {x.target for x in later} | {r.tensor for x in later for r in pr.reads(x)}
    return None if moved & {s.target, *(r.tensor for r in pr.reads(run[at]))} else run.pop(at)


def choose(program: pr.Program, s: pr.Statement, machine: Machine, open_: set[str], why: Reasons) -> Parts | Histogram | None:
    """The parts of a reduction that has too few groups: all that the machine runs at once are needed to keep its memory busy,
    since each item waits for its own loads (Little's law). open_: the indices of the statement whose extents are
    other ones too."""
    if pr.scatters(s):
        return _of_scatter(program, s, machine, open_, why)
    reduced, results = _divisible(program, s), [s.extents[i] for i in coincident_indices(s)]
    if not reduced:
        return None
    if _has_tiles(program, s):
        return _of_contraction(program, s, reduced, open_, machine)
    walked = fastest_index(program, s, {i: r.extent for i, r in reduced.items()})
    groups = prod(results) if walked in reduced else -(-prod(results) // COLUMNS)
    count = -(-machine.costs.launches.items * machine.cores // (MAX_WORK_GROUP * groups))
    if count < 2:
        return None
    elements = prod(r.extent for r in reduced.values()) * (1 if walked in reduced else min(COLUMNS, prod(results)))
    any_size = groups < MINIMAL_PARALLELISM and open_ & reduced.keys()  # of which most may be much longer than typical ones
    wanted = count if any_size else min(count, elements // _piece(groups, machine))
    outer = [r for i, r in reduced.items() if i != walked and (i in open_ or r.extent >= 2 * wanted)]
    index = max(outer or [reduced[walked]] if walked in reduced else reduced.values(), key=lambda r: r.extent)
    count = wanted if index.index in open_ else _equal(min(wanted, index.extent // 2), index.extent)
    return parts(program, s, index.index, count) if count > 1 else None


def _equal(count: int, extent: int) -> int:
    """As many parts, or about as many of which none reads beyond the end and all go whole rounds of a group's items."""
    def fits(n: int) -> bool:
        return extent % n == 0 and (extent // n % MAX_WORK_GROUP == 0 or extent // n < MAX_WORK_GROUP)
    about = range(max(1, count * 3 // 4), count * 5 // 4 + 1)
    return min(filter(fits, about), key=lambda n: abs(n - count), default=count)


def _piece(groups: int, machine: Machine) -> int:
    """Elements of a group that are worth a second kernel, beside so many groups: where these keep some of the machine busy,
    what the items of a group wait for in the time of a launch."""
    if groups < MINIMAL_PARALLELISM:
        return machine.costs.groups.pieces
    return max(1, int(MAX_WORK_GROUP * AHEAD * machine.costs.launches.launch / machine.costs.launches.step))


def _of_scatter(program: pr.Program, s: pr.Statement, machine: Machine, open_: set[str], why: Reasons
                ) -> Parts | Histogram | None:
    """Copies of the target in local memory, or for each item, what is estimated to take less."""
    copies = scattered_parts.choose(program, s, machine)
    apart = Parts(copies[0], copies[1], 1, True, copies[2]) if copies is not None else None
    update = histogram_shapes.update(program, s, open_)
    if isinstance(update, str):
        why.declines(s.name, f"updated in local memory: {update}")
        return apart
    found = histogram_shapes.choose(program, s, update, open_, machine)
    if found is None:
        why.declines(s.name, "updated in local memory: no copy of its target fits, or their sums may not")
        return apart
    by, time = found
    other = Estimate(memory=scattered_parts.seconds(program, s, *((apart.count, apart.ranges) if apart else (1, 1)), machine))
    if time.seconds >= other.seconds:
        why.declines(s.name, f"updated in local memory: {time}; otherwise {other}")
        return apart
    why.acts(s.name, f"{by}: {time}; otherwise {other}")
    return by


def histograms(program: pr.Program, s: pr.Statement, open_: set[str], machine: Machine) -> Iterator[Histogram]:
    """The shapes in which a scattered update may be made in local memory, those that take least first."""
    update = histogram_shapes.update(program, s, open_) if pr.scatters(s) else ""
    if not isinstance(update, str):
        found = histogram_shapes.shapes(program, s, update, open_, machine)
        yield from (by for by, _ in sorted(found, key=lambda x: x[1].seconds))


def indices(program: pr.Program, s: pr.Statement, open_: set[str]) -> dict[str, int]:
    """The indices along which groups can divide a reduction, and into how many parts."""
    if pr.scatters(s):
        divisible = scattered_parts.divisible(program, s).items()
        return {i: r.extent // 2 if s.op is not None else 1 for i, r in divisible if r.extent > 3}
    most = {i: MOST if i in open_ else r.extent // 2 for i, r in _divisible(program, s).items()}
    return {i: n for i, n in most.items() if n > 1}


def parts(program: pr.Program, s: pr.Statement, index: str, count: int) -> Parts:
    """So many parts along an index."""
    if pr.scatters(s):
        return Parts(index, count, 1, True)
    if _has_tiles(program, s):
        return Parts(index, count, _steps(s, index), True)
    reduced = {i: s.extents[i] for i in reduced_indices(s)}
    walked = fastest_index(program, s, reduced)
    each = 1 if walked in reduced and index != walked else MAX_WORK_GROUP * ELEMENTS_PER_ITEM
    return Parts(index, count, each, walked not in reduced)


def _divisible(program: pr.Program, s: pr.Statement) -> dict[str, pr.Range]:
    """The ranges that a statement reduces over, if groups can divide them."""
    reduced = {i: s.by_index[i] for i in reduced_indices(s)}
    own = any(r.tensor == s.target for r in pr.reads(s))
    at = {e.name for sub in s.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index)}
    if own or s.bounds or s.loops or pr.scatters(s) or at & reduced.keys():
        return {}
    plain = not s.where and not program.tensor(s.target).dtype.is_half
    return reduced if plain or not _has_tiles(program, s) else {}


def _has_tiles(program: pr.Program, s: pr.Statement) -> bool:
    """Is it a contraction whose results are divided in tiles?"""
    results = [s.extents[i] for i in coincident_indices(s)]
    large = prod(results) >= SMALL * max(results, default=1) >= SMALL * SMALL
    return large and is_contraction(s) and bool(contraction_tiles.axes(program, single((s,))))


def _of_contraction(program: pr.Program, s: pr.Statement, reduced: dict[str, pr.Range], open_: set[str], machine: Machine
                    ) -> Parts | None:
    """Along the longest reduced index in parts of whole steps, as many as are estimated to take least, equal ones where about
    as many are. Few terms of an accumulator are right for its digits, too: see rewrite.long_sums."""
    walked, groups = fastest_index(program, s, {i: r.extent for i, r in reduced.items()}), machine.costs.groups
    longest = max(reduced.values(), key=lambda r: (r.index != walked or _steps(s, r.index) > 1, r.extent))
    results, step = prod(s.extents[i] for i in coincident_indices(s)), _steps(s, longest.index)
    most = min(PARTS, prod(r.extent for r in reduced.values()) // STEPS, longest.extent // step)
    if open_ - reduced.keys():
        most = min(most, sum(program.tensor(r.tensor).size for r in pr.reads(s)) // (BESIDE * results))
    wanted = machine.costs.launches.items * machine.cores * TILE // (MAX_WORK_GROUP * results)
    if min(most, wanted) < 2:
        return None
    cost = contraction_tiles.parted(program, single((s,)), machine)
    if cost is None:
        return None
    counts = [n for k in range(PARTS.bit_length()) for n in (1 << k, 3 << k) if n <= most]
    each = {n: -(-longest.extent // (n * step)) * step if n > 1 else longest.extent for n in counts}
    best = min(sorted(counts), key=lambda n: cost(n) * n * each[n] / longest.extent + (
        groups.second + groups.partial * n * results / machine.cores) * (n > 1))
    equal = [n for n in range(-(-best * 7 // 8), min(most, best * 9 // 8) + 1) if longest.extent % (n * step) == 0]
    best = max(equal, default=best)
    return Parts(longest.index, best, step, True) if best > 1 else None


def _steps(s: pr.Statement, index: str) -> int:
    """Iterations of an index that a group of a contraction takes at once: whole steps of its tiles; single ones of an open size
    where another index has these steps."""
    others = (s.extents[i] for i in reduced_indices(s) if i != index)
    return 1 if s.by_index[index].typical and max(others, default=0) >= DEPTHS[0] else DEPTHS[0]


def _parts(program: pr.Program, s: pr.Statement, by: Parts, names: Names
           ) -> tuple[pr.Tensor, tuple[pr.Statement, ...], pr.Statement]:
    """The tensor of partial results, the statements that make them, and what takes the place of `s`."""
    assert s.op is not None
    target, r = program.tensor(s.target), s.by_index[by.index]
    kept = tuple(x for x in s.ranges if x.index in coincident_indices(s))
    parts, turns, whole = _pieces(r, by, names)
    around = (parts, *kept) if by.first else (*kept, parts)
    name, label = (names.label(f"{base}_parts") for base in (s.target, s.name))
    tensor = pr.Tensor(name, target.dtype, tuple(x.extent for x in around), tuple(x.lower for x in around))
    cell = tuple(pr.Index(x.index) for x in around)
    place = expression(TiledIndex(r.lower, whole, ()).whole)
    value = normalise(pr.substitute(s.value, {r.index: place}))
    neutral = pr.Const(identity(s.op, target.dtype), target.dtype)
    if prod(x.extent for x, _ in whole) != r.extent:
        padded = _padded(program, s, r)
        value = normalise(pr.substitute(padded, {r.index: place})) if padded is not None else \
             pr.Select(pr.Binary("<", place, pr.Const(r.upper, I64), BOOL), value, neutral, target.dtype)
    inner = tuple(new for x in s.ranges if x not in kept for new in (turns if x is r else (x,)))
    where = tuple(normalise(pr.substitute(c, {r.index: place})) for c in s.where)
    made = (pr.Statement(names.label(initialisation(label)), name, cell, None, neutral, around, span=s.span),
            pr.Statement(label, name, cell, s.op, value, (*around, *inner), where, span=s.span))
    outside = conditions_on(s, [x.index for x in kept])
    return tensor, made, replace(s, value=pr.Read(name, cell, target.dtype), ranges=(*kept, parts), where=outside)


def _padded(program: pr.Program, s: pr.Statement, r: pr.Range) -> pr.Expr | None:
    """The value of a sum of products, each of whose factors reads 0 beyond the end of a range; None where one would not."""
    factors = tuple(f.a if isinstance(f, pr.Cast) and f.a.dtype.is_half else f for f in pr.factors(s.value))
    reads = [f for f in factors if isinstance(f, pr.Read)]
    if s.op != "+" or s.value.dtype.kind == "b" or len(reads) < len(factors) or not all(_ends(program, f, r) for f in reads):
        return None
    zeros = {f: replace(f, default=pr.Const(0.0 if f.dtype.is_float else 0, f.dtype)) for f in reads}
    return pr.map_expr(s.value, lambda e: zeros.get(e, e) if isinstance(e, pr.Read) else e)


def _ends(program: pr.Program, read: pr.Read, r: pr.Range) -> bool:
    """Does a read leave its tensor just where an index leaves its range?"""
    t = program.tensor(read.tensor)
    if read.default is not None or read.gathers:
        return False
    forms = [(linear(sub), low + extent) for sub, low, extent in zip(read.subscripts, t.lower, t.shape, strict=True)]
    named = [(f, end) for f, end in forms if f is not None and f.coefficient(r.index)]
    return all(f is not None for f, _ in forms) and len(named) == 1 and all(
        f.terms == ((r.index, 1),) and r.upper + f.constant == end for f, end in named)


def _pieces(r: pr.Range, by: Parts, names: Names
            ) -> tuple[pr.Range, tuple[pr.Range, ...], tuple[tuple[pr.Range, int], ...]]:
    """The index over the groups that divide a range, those over what each does, and all as the parts of the range's index."""
    part, turn, at = (names.index(f"{r.index}_{name}") for name in ("part", "turn", "at"))
    if isinstance(r.extent, Size):
        parts, turns = pr.Range(part, 0, by.count), pr.Range(turn, 0, -(-r.extent // (by.each * by.count)))
        whole = ((parts, by.each), (turns, by.each * by.count))
        if by.each == 1:
            return parts, (turns,), whole
        each = pr.Range(at, 0, by.each)
        return parts, (turns, each), (*whole, (each, 1))
    size = -(-r.extent // by.count)
    if by.each == DEPTHS[0]:
        grain = 1 if size * by.count == r.extent else DEPTHS[0]
    else:
        grain = MAX_WORK_GROUP if size > MAX_WORK_GROUP else 1
    size = -(-size // grain) * grain
    parts, each = pr.Range(part, 0, -(-r.extent // size)), pr.Range(at, 0, size)
    return parts, (each,), ((parts, size), (each, 1))
