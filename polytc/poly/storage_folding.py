"""Storage folding: a temporary of which few elements are alive at once is stored in a ring of so many.

    for i in 0:100 { T[i+2] = ...; Y[i] = T[i] + T[i+1] + T[i+2] }   ->   T[i+2] lies at (i + 2) % 3

Two elements may share a place where, in the schedule, all that touches the one runs before all that writes the other. Instances
that different iterations of a parallel, mapped or vector loop run are in no order. Of one dimension the number of places is
found, such that elements whose numbers differ by a multiple of it never meet: more than the farthest two that are alive at once
are apart. (Lefebvre & Feautrier, Automatic Storage Management for Parallel Programs, 1998; storage folding of Halide: Ragan-
Kelley et al., PLDI 2013.) Only temporaries are looked at that a schedule asks it for (Program.folded).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import islpy

from polytc.poly import isl, marks
from polytc.poly.scop import Scop, access
from polytc.program import program as pr
from polytc.program.kinds import IN_ORDER

MORE = 1.5
"""How much more storage than what is alive at once a ring may have, so that it has a power of two of places."""


@dataclass(frozen=True)
class Fold:
    """A temporary whose elements lie at their coordinate modulo `places` in a dimension. extent: of the dimension before."""

    tensor: str
    dimension: int
    places: int
    extent: int

    def __str__(self) -> str:
        return f"{self.tensor} keeps {self.places} of {self.extent} in dimension {self.dimension}: no more are alive at once"


@dataclass(frozen=True)
class Unfolded:
    """A temporary that a schedule asks to be folded, and why it is not."""

    tensor: str
    why: str

    def __str__(self) -> str:
        return f"{self.tensor} is kept as a whole: {self.why}"


def found(scop: Scop, tree: islpy.Schedule) -> tuple[Fold, ...]:
    """The folds that a schedule allows, of the temporaries that may be folded."""
    return tuple(f for f in told(scop, tree) if isinstance(f, Fold))


def told(scop: Scop, tree: islpy.Schedule) -> tuple[Fold | Unfolded, ...]:
    """What becomes of each temporary that may be folded."""
    wanted = [t for t in scop.program.folded if t in scop.program.temporaries]
    if scop.boxed or scop.program.sizes:
        return tuple(Unfolded(t, "which elements are alive depends on sizes or conditions that stay open") for t in wanted)
    try:
        return isl.bounded(scop.ctx, isl.BUDGET, lambda: tuple(_fold(scop, t, *_orders(scop, tree, t)) for t in wanted))
    except isl.QuotaExceeded as e:
        return tuple(Unfolded(t, f"what is alive at once takes too long to find out: {e}") for t in wanted)


def _orders(scop: Scop, tree: islpy.Schedule, tensor: str) -> tuple[islpy.UnionMap, islpy.UnionMap]:
    """(pairs of instances that touch the tensor of which the first surely runs before the second, pairs that lanes of one
    vector run)."""
    users = islpy.UnionSet.empty(scop.domain.get_space())
    for accesses in (scop.reads, scop.writes):
        for m in isl.maps(accesses):
            if m.get_tuple_name(islpy.dim_type.out) == isl.name(tensor):
                users = users.union(m.domain().to_union_set())
    times = tree.get_map().intersect_domain(users)
    before, lanes = times.lex_lt_union_map(times), islpy.UnionMap.empty(scop.domain.get_space())

    def visit(node: islpy.ScheduleNode) -> None:
        nonlocal before, lanes
        if node.get_type() == islpy.schedule_node_type.mark and node.child(0).get_type() == islpy.schedule_node_type.band:
            kinds = marks.of(node).kinds
            for member, kind in enumerate(kinds):
                if kind not in IN_ORDER:
                    apart = _apart(node.child(0), member, users)
                    if kind != "unroll":
                        before = before.subtract(apart)
                    if kind in ("vector", "reduce", "unroll"):
                        lanes = lanes.union(apart)
        for n in range(node.n_children()):
            visit(node.child(n))
    visit(tree.get_root())
    return before, lanes


def _apart(band: islpy.ScheduleNode, member: int, users: islpy.UnionSet) -> islpy.UnionMap:
    """The pairs of instances that a member of a band runs in different iterations, and all outside of it in one."""
    instances = band.get_domain().intersect(users)
    pairs = islpy.UnionMap.from_domain_and_range(instances, instances)
    if band.get_schedule_depth() > 0:
        pairs = pairs.eq_at_multi_union_pw_aff(band.get_prefix_schedule_multi_union_pw_aff())
    rows = band.band_get_partial_schedule()
    for d in range(member):
        pairs = pairs.eq_at_multi_union_pw_aff(islpy.MultiUnionPwAff.from_union_pw_aff(rows.get_at(d)))
    here = pairs.eq_at_multi_union_pw_aff(islpy.MultiUnionPwAff.from_union_pw_aff(rows.get_at(member)))
    return pairs.subtract(here)


def _fold(scop: Scop, tensor: str, before: islpy.UnionMap, lanes: islpy.UnionMap) -> Fold | Unfolded:
    """The fold of a temporary that saves most."""
    own = islpy.UnionSet.read_from_str(scop.ctx, _everything(scop, tensor))
    writes, reads = (x.intersect_range(own) for x in (scop.writes, scop.reads))
    touches = writes.union(reads)
    late = islpy.UnionMap.from_domain_and_range(touches.domain(), writes.domain()).subtract(before)
    meets = touches.reverse().apply_range(late).apply_range(writes)          # element -> one that is not surely begun after it
    alive = meets.intersect(meets.reverse())
    beside = [x.reverse().apply_range(lanes.intersect_domain(x.domain())).apply_range(x).deltas()
              for x in _accesses(scop, tensor)]
    shape, best, vectors = scop.program.tensor(tensor).shape, None, list[int]()
    for d in range(len(shape)):
        if any(_moves(delta, d) for x in beside for delta in isl.sets(x)):
            vectors.append(d)                                              # lanes that walk a ring are no row of memory
            continue
        places = _places(_farthest(alive, d, len(shape)) + 1)
        if places < int(shape[d]) and (best is None or places * best.extent < best.places * int(shape[d])):
            best = Fold(tensor, d, places, int(shape[d]))
    walked = f", and lanes of vectors walk dimension {', '.join(map(str, vectors))}" if vectors else ""
    return best or Unfolded(tensor, f"no dimension has fewer elements alive at once{walked}")


def _accesses(scop: Scop, tensor: str) -> Iterator[islpy.UnionMap]:
    """Each access to the tensor by itself: a statement may read it in several places."""
    for s in scop.program.statements:
        places = [r.subscripts for r in pr.reads(s) if r.tensor == tensor] + ([s.subscripts] if s.target == tensor else [])
        for at in places:
            text = access(scop.program, s, tensor, at, guarded=True)
            yield islpy.UnionMap.read_from_str(scop.ctx, f"{{ {text} }}").intersect_domain(scop.domain)


def _moves(deltas: islpy.Set, d: int) -> bool:
    """Is there a difference other than 0 in a dimension?"""
    return not deltas.is_empty() and not (deltas.dim_max_val(d).is_zero() and deltas.dim_min_val(d).is_zero())


def _everything(scop: Scop, tensor: str) -> str:
    rank = len(scop.program.tensor(tensor).shape)
    return f"{{ {isl.name(tensor)}[{', '.join(f'a{d}' for d in range(rank))}] }}"


def _places(alive: int) -> int:
    """Of a ring that holds so many elements: a power of two, whose remainders are cheap, where that is little more."""
    power = 1 << (alive - 1).bit_length()
    return power if power <= MORE * alive else alive


def _farthest(alive: islpy.UnionMap, d: int, rank: int) -> int:
    """How far apart in a dimension are two elements that are alive at once, and agree in all others."""
    most = 0
    for m in isl.maps(alive):
        for other in range(rank):
            if other != d:
                m = m.equate(islpy.dim_type.in_, other, islpy.dim_type.out, other)
        if not m.is_empty():
            high = m.deltas().dim_max_val(d)
            most = max(most, int(high.to_python())) if high.is_int() else 1 << 62
    return most
