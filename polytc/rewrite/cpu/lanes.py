"""Reductions along memory get partial results, one a vector lane.

    S[i] += X[i,k]                                      with X[8,515] on avx512
    ->  S_S1_lanes[i,k_l] += X[i, k_l + 64*k_q] where k_l in 0:64, k_q in 0:8
        S[i] += X[i,k] where k in 512:515
        S[i] += S_S1_lanes[i,k_l]

    S[i] += X[i,k] where k <= i                         with X[64,64] on avx512
    ->  S_S1_lanes[i,k_l] += X[i, k_l + 16*k_q] where 16*k_q + 15 <= i
        S_S1_lanes[i,k_l] += k_l + 16*k_q <= i ? X[i, k_l + 16*k_q] : 0.0 where 16*k_q <= i, i <= 16*k_q + 14
        S[i] += S_S1_lanes[i,k_l]

so that the lanes are a dimension like any other: independent, contiguous, ready for vectors and register tiles. (Suriana,
Adams & Kamil, Parallel Associative Reductions in Halide, CGO 2017.) Reassociates the reduction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, add, interval
from polytc.program.domain import condition_indices
from polytc.program.generalise import numeric
from polytc.program.names import fresh, initialisation
from polytc.program.scalars import identity
from polytc.program.sizes import Size, rest_start
from polytc.rewrite.bounds import conjuncts, inequality, linear_bound, speculable
from polytc.rewrite.index_digits import digits_for
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.fusion_groups import coincident_indices, is_contraction
from polytc.schedule.facts.strides import ROW, AccessStrides, lane_width, of_statement

STEPS = 4
"""Elements that a reduced index may step over, if none runs along memory: so many vectors are read and shuffled."""
VECTORS = (1, 2, 4, 8)
"""Vectors of partial results that there are to choose from."""
EDGES = 2
"""Conditions along an index, at most, whose steps that are met in part become statements of their own."""


@dataclass(frozen=True)
class Lanes:
    """So many partial results, one for each place of the reduced index in a row of as many."""

    statement: str
    along: str
    lanes: int


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The reductions that run along memory while their results do not. Of open sizes the typical ones decide."""
    chosen, why, typical = list[Lanes](), Reasons(), numeric(program)
    in_flight = machine.costs.arithmetic.in_flight
    for s, fixed in zip(program.statements, typical.statements, strict=True):
        reduced, lanes = _reduced(typical, s, machine), lane_width(typical, fixed, machine)
        if reduced is None:
            if s.op is not None and len(coincident_indices(s)) < len(s.ranges):
                why.declines(s.name, "in lanes: its results run along memory, or no reduced index runs along all that it reads")
            continue
        many = not is_contraction(fixed) and _longest(fixed, int(reduced.extent), reduced.index) >= 2 * in_flight * lanes
        chosen.append(Lanes(s.name, reduced.index, lanes * (in_flight if many else 1)))
        why.acts(s.name, f"{chosen[-1].lanes} partial results along {reduced.index}, which runs along memory")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each reduction that runs along memory, how many partial results it may have."""
    typical, places = numeric(program), list[list[Option]]()
    for s, fixed in zip(program.statements, typical.statements, strict=True):
        reduced, lanes = _reduced(typical, s, machine), lane_width(typical, fixed, machine)
        if reduced is not None:
            counts = [lanes * n for n in VECTORS if lanes * n <= int(reduced.extent)]
            places.append([Option(), *(Option((Lanes(s.name, reduced.index, n),)) for n in counts)])
    return places


def _reduced(typical: pr.Program, s: pr.Statement, machine: Machine) -> pr.Range | None:
    """The range along which a statement may have partial results. typical: the program with typical sizes."""
    fixed = typical.statement(s.name)
    long = along(typical, fixed, lane_width(typical, fixed, machine))
    reduced = s.by_index.get(long.index) if long is not None else None
    return reduced if reduced is not None and not isinstance(reduced.lower, Size) else None


def split_reductions(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with partial results for the chosen reductions."""
    tensors, statements = list(program.tensors), list[pr.Statement]()
    chosen = {choice.statement: choice for choice in decision.choices}
    for s in program.statements:
        if s.name not in chosen:
            statements.append(s)
            continue
        reduced = s.by_index[chosen[s.name].along]
        partial = _partial(program, s, reduced, chosen[s.name].lanes, {t.name for t in tensors})
        tensors.append(partial[0])
        statements += partial[1]
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def fits(program: pr.Program, machine: Machine, choice: Lanes) -> str:
    """Why a statement cannot have such partial results; '' if it can."""
    typical = numeric(program)
    s, r = typical.statement(choice.statement), typical.statement(choice.statement).by_index.get(choice.along)
    if r is None or r.index in coincident_indices(s):
        return f"{choice.along} is no index over which {s.name} reduces"
    if not _divisible(typical, s, of_statement(typical, s)) or r.lower != 0 or isinstance(r.lower, Size):
        return "a reduction with guarded reads, ranges of its own or conditions that reads need has no partial results"
    return "" if 1 < choice.lanes <= r.extent else f"there may be 2 to {r.extent} partial results along {r.index}"


def _divisible(program: pr.Program, s: pr.Statement, accesses: tuple[AccessStrides, ...]) -> bool:
    """May partial results stand in for the terms of a reduction?"""
    if s.op is None or s.bounds or any(r.default is not None for r in pr.reads(s)):
        return False
    if s.where and (program.sizes or not speculable(program, s) or _of_matrices(s)):
        return False
    plain = coincident_indices(s)
    return all(accesses[0].stride(r.index) == 0 for r in s.ranges if r.index not in plain)


def _of_matrices(s: pr.Statement) -> bool:
    """Is it a product in which each operand has an index of the result that another one has not, so that tiles are of rows and
    columns?"""
    plain = coincident_indices(s)
    own = [{i for i in plain if pr.Index(i) in pr.walk(r)} for r in pr.reads(s)]
    return is_contraction(s) and any(a - b and b - a for a in own for b in own)


def along(program: pr.Program, s: pr.Statement, lanes: int) -> pr.Range | None:
    """The reduced index that walks contiguously while no index of the result does."""
    accesses = of_statement(program, s)
    if lanes == 1 or not _divisible(program, s, accesses):
        return None
    plain = coincident_indices(s)
    reduced = [r for r in s.ranges if r.index not in plain]
    if any(_walks(accesses, r.index, 1) and r.extent >= max(lanes // 2, ROW + 1) for r in s.ranges if r.index in plain):
        return None
    steps = prod(r.extent for r in reduced)
    long = [r for r in reversed(reduced) if r.lower == 0 and (
        (n := _longest(s, r.extent, r.index)) >= 2 * lanes or n == r.extent == lanes and steps >= 2 * lanes)]
    return next((r for step in (1, STEPS) for r in long if _walks(accesses, r.index, step)), None)


def _longest(s: pr.Statement, extent: int, index: str) -> int:
    """Values that an index takes at most between two conditions on it, and in all."""
    forms = [f for c in conjuncts(s.where) if (f := linear_bound(c)) is not None]
    from_low, to_high = ([f for f in forms if f.coefficient(index) == c] for c in (1, -1))
    return min([extent, *(interval(add(low, high), s.box)[1] + 1 for low in from_low for high in to_high)])


def _walks(accesses: tuple[AccessStrides, ...], index: str, most: int) -> bool:
    """Does the index walk at least one read, and every one by so many elements at most?"""
    strides = {a.stride(index) for a in accesses[1:]}
    if most == 1:
        return 1 in strides and strides <= {0, 1}
    return bool(strides - {0}) and all(s is not None and abs(s) <= most for s in strides)


def _partial(program: pr.Program, s: pr.Statement, reduced: pr.Range, width: int, taken: set[str]) \
        -> tuple[pr.Tensor, list[pr.Statement]]:
    """The tensor of partial results and the statements that take the place of `s`."""
    assert s.op is not None
    target = program.tensor(s.target)
    plain = coincident_indices(s)
    kept = tuple(r for r in s.ranges if r.index in plain)
    block, lane = fresh(f"{reduced.index}_q", set(s.indices)), fresh(f"{reduced.index}_l", set(s.indices))
    name = fresh(f"{s.target}_{s.name}_lanes", taken)
    tensor = pr.Tensor(name, target.dtype, (*(r.extent for r in kept), width), (*(r.lower for r in kept), 0))
    cell = (*(pr.Index(r.index) for r in kept), pr.Index(lane))
    lanes = pr.Range(lane, 0, width)
    whole = reduced.extent // width
    start = pr.Const(identity(s.op, target.dtype), target.dtype)
    blocks = tuple(pr.Range(block, 0, whole) if r is reduced else r for r in s.ranges if r not in kept)
    around, inside = _split_conditions(s, reduced.index)
    lane_of = _LaneOf(reduced.index, block, lane, width)
    terms = replace(s, name=f"{s.name}_lanes", target=name, subscripts=cell, ranges=(*kept, lanes, *blocks))
    said = tuple(c for c in around if condition_indices(c) <= set(plain))
    statements = [replace(terms, name=initialisation(terms.name), op=None, value=start, ranges=(*kept, lanes), where=said)]
    for n, (steps, hidden) in enumerate(lane_of.pieces(inside)):
        statements.append(replace(terms, name=f"{terms.name}{'_edge' * n}", value=lane_of.value(s.value, hidden, start),
                                  where=(*around, *steps)))
    left = reduced.extent % width
    if isinstance(left, Size) or left:
        rest = tuple(pr.Range(r.index, rest_start(whole * width, r.upper), r.upper) if r is reduced else r for r in s.ranges)
        statements.append(replace(s, name=f"{s.name}_rest", ranges=rest))
    total = pr.Read(name, cell, target.dtype)
    statements.append(replace(s, value=total, ranges=(*kept, lanes), where=said))
    return tensor, statements


def _split_conditions(s: pr.Statement, along: str) -> tuple[tuple[pr.Expr, ...], tuple[pr.Expr, ...]]:
    """The conditions that say nothing of the index, and the others."""
    found = conjuncts(s.where)
    return (tuple(c for c in found if along not in condition_indices(c)),
            tuple(c for c in found if along in condition_indices(c)))


@dataclass(frozen=True)
class _LaneOf:
    """A reduced index as lanes of steps: along = width*step + lane."""

    along: str
    step: str
    lane: str
    width: int

    def moved(self, e: pr.Expr) -> pr.Expr:
        return digits_for(e, self.along, self.step, self.lane, self.width)

    def value(self, value: pr.Expr, conditions: tuple[pr.Expr, ...], neutral: pr.Const) -> pr.Expr:
        """What a lane adds in a step: nothing where a condition does not hold."""
        moved = self.moved(value)
        if not conditions:
            return moved
        return pr.Select(pr.conjunction(tuple(map(self.moved, conditions))), moved, neutral, neutral.dtype)

    def pieces(self, conditions: tuple[pr.Expr, ...]) -> Iterator[tuple[list[pr.Expr], tuple[pr.Expr, ...]]]:
        """Conditions on steps, and those that still hide some of their lanes. First the steps of which each lane fulfils what
        is linear, then those that fulfil the first ones only. Steps of which no lane fulfils them are left out."""
        forms = [(c, f) for c in conditions if (f := linear_bound(c)) is not None]
        others = tuple(c for c in conditions if linear_bound(c) is None)
        if len(forms) > EDGES:
            yield [inequality(self._extreme(f, 1)) for _, f in forms], conditions
            return
        met = list[pr.Expr]()
        edges = list[tuple[list[pr.Expr], tuple[pr.Expr, ...]]]()
        for n, (_, form) in enumerate(forms):
            least = self._extreme(form, -1)
            some = [inequality(self._extreme(f, 1)) for _, f in forms[n:]]
            edges.append(([*met, inequality(add(Affine(-1), least, -1)), *some], (*(c for c, _ in forms[n:]), *others)))
            met.append(inequality(least))
        yield met, others
        yield from edges

    def _extreme(self, form: Linear, sign: int) -> Linear:
        """The largest or, for the sign -1, the smallest value that a form has in a step."""
        c = form.coefficient(self.along)
        terms = tuple((self.step, c * self.width) if i == self.along else (i, k) for i, k in form.terms)
        return Affine(form.constant + sign * max(0, sign * c) * (self.width - 1), terms)
