"""Variants: several plans of a program of open sizes in one export, of which the host takes the fastest for the sizes at hand.

    C[i,j] += A[i,k]*B[k,j]
    ->  0: tiles of 64 x 64 and k in 4 parts    1: tiles of 64 x 16 and k in 32 parts, for few results
        2: tiles of 32 x 32                     3: tiles of 128 x 128, where I, K and J are multiples of 4

The program is planned for some typical sizes, each time as if these were all; what comes of it is right for all sizes. Of the
plans that differ those stay that together lose least time, by the model of kernels (targets.opencl.launch_times), at all sizes
of a sample: one after another, the one that helps most, until there are as many as are allowed, or the next one would save less
than GAIN; then each is exchanged for one that helps more beside the others. Where there is room left, large sizes may be
multiples (export.multiples). The host evaluates the same model, whose formulas the folder has.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from polytc.codegen.target import Target
from polytc.decisions import NONE
from polytc.export import bundle, multiples, planning
from polytc.export.bundle import Bundle, Model
from polytc.export.multiples import Part
from polytc.export.planning import Plan, Sizes
from polytc.options import check_typical, check_variants
from polytc.program.affine import QuasiAffine, at
from polytc.program.program import Program
from polytc.program.sizes import at as size_at
from polytc.program.sizes import representatives
from polytc.schedule.user.recipe import Recipe
from polytc.targets.ctext.work_groups import LARGEST_OPEN

VARIANTS = 4
"""Plans of an export where nobody says how many."""
GAIN = 0.05
"""What another variant has to save at least, of the time that those take which there are, over the sizes of the sample."""
MAGNITUDES = {1: (1, 32, 256, 2048, 1 << 14, 1 << 18, 1 << 22), 2: (1, 16, 128, 1024, 1 << 14), 3: (1, 64, 512, 4096)}
"""Values of each size in the sample, by the number of open sizes; of more sizes FEW."""
FEW, MOST_SIZES = (1, 48, 1024), 7
"""Values where there are more sizes; of more than so many, only those that the program has are looked at."""
SAMPLE, PLANNED = 256, 24
"""Points of the sample, and those of them that a program of few statements is planned for, at most; half as many where more
sizes are open than MAGNITUDES has, as in convolutions, whose plans take long."""
STATEMENTS, LEAST = 4, 8
"""Statements of such a program; one with more is planned for fewer points, but for so many."""
VECTOR, TILE, MULTIPLES = 16, 128, 8
"""Bytes that multiples of a size are for, so that rows are whole vectors; elements, so that tiles are whole; and how many times
as large a size has to be."""
SHOWN = 12
"""Points of the sample whose estimates are written down."""

def of_program(program: Program, target: Target, name: str = "", schedule: str | Recipe | None = None,
               limit: int | None = None, typical: Sequence[Sizes] = ()) -> Bundle:
    """As bundle.of_program, with at most so many variants where sizes are open. typical: the sizes that they are made for;
    where `limit` allows more than these, others are found. What a point does not say is as the program has it. A schedule
    leaves nothing to choose, and machines without work-groups have one plan. Raises ArgumentError E410 for no sizes."""
    points = [{**_own(program), **check_typical(point, program.sizes)} for point in typical]
    most = check_variants(limit) if limit is not None else len(points) or VARIANTS
    base = planning.at(program, points[0]) if points else program
    if not program.sizes or schedule is not None or most < 2 or target.machine.kind != "gpu":
        return bundle.of_program(base, target, name, schedule)
    bundle.check_exported(program)
    start, limits = time.perf_counter(), bundle.limits(program)
    lattice, odd = _sample(program, limits)
    sample: list[Sizes] = [*points, *(p for p in (*lattice, *odd) if p not in points)]
    planned = points if len(points) >= most else _planned(points, lattice, len(program.statements))
    plans, sample = _told(planning.of_points(base, target, planned, sample), sample)
    if not plans:                                                      # says why
        return bundle.of_program(base, target, name)
    wanted = [p for p in plans if p.typical in points]
    kept = wanted if limit is None and wanted else _cover(plans, most, wanted[:most])
    if len(points) < most and len(kept) < most:
        largest = max(planned, key=lambda p: prod(p.values()))
        kept += _of_multiples(program, target, kept, largest, sample, most - len(kept))
    if len(kept) == 1:
        low = planning.whole(kept[0], program, target)
        return bundle.of_lowered(planning.at(program, kept[0].typical), low, target, name, limits)
    about = _about(kept, [*plans, *(p for p in kept if p.parts)], len(planned), sample)
    return replace(_bundle(program, target, name, kept, limits), about=about, spent=time.perf_counter() - start)


def _own(program: Program) -> dict[str, int]:
    """The sizes that a program is made for."""
    return representatives((program.tensors, program.statements))


# ---- sizes

def _sample(program: Program, limits: Sequence[QuasiAffine]) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """The sizes that are looked at: those that the program has, and a lattice of magnitudes, which are multiples of much; and
    others between these, which are odd. Without those at which it is another program or whose arrays are too large."""
    def allowed(point: Sizes) -> bool:
        elements = [prod(size_at(n, point) for n in program.tensor(name).shape) for name in program.arrays]
        return all(at(form, point) >= 0 for form in limits) and max(elements, default=0) <= LARGEST_OPEN
    count = len(program.sizes)
    values = itertools.product(MAGNITUDES.get(count, FEW), repeat=count if count <= MOST_SIZES else 0)
    lattice = [dict(zip(program.sizes, point, strict=True)) for point in values if point]
    odd = [{n: v + v // 2 - 1 if v > 8 else v for n, v in point.items()} for point in lattice]
    even = [_own(program), *_spread(lattice, SAMPLE)]
    return list(filter(allowed, even)), list(filter(allowed, _spread(odd, SAMPLE)))


def _planned(points: Sequence[dict[str, int]], lattice: Sequence[dict[str, int]], statements: int) -> list[dict[str, int]]:
    """What the program is planned for: some points, and of the lattice as many as its statements allow."""
    few = any(len(p) <= max(MAGNITUDES) for p in lattice)
    most = (PLANNED if few else PLANNED // 2) * STATEMENTS // max(STATEMENTS, statements)
    return [*points, *(p for p in _spread(lattice, max(LEAST, most)) if p not in points)]


def _spread(points: Sequence[dict[str, int]], most: int) -> list[dict[str, int]]:
    """At most so many of some points, at equal distances."""
    if len(points) <= most:
        return list(points)
    return [points[k * (len(points) - 1) // (most - 1)] for k in range(most)]


# ---- choosing

def _told(plans: Sequence[Plan], sample: Sequence[Sizes]) -> tuple[list[Plan], list[Sizes]]:
    """The points of the sample at which there is something to do, and a plan that does it; none where none is."""
    best = [min(p.seconds[k] for p in plans) for k in range(len(sample))] if plans else []
    told = [k for k, b in enumerate(best) if 0 < b < math.inf]
    kept = [replace(p, seconds=tuple(p.seconds[k] for k in told)) for p in plans] if told else []
    return kept, [sample[k] for k in told]


def _cover(plans: Sequence[Plan], most: int, first: Sequence[Plan] = ()) -> list[Plan]:
    """The plans that together lose least, beside the best at each point. first: those that have to be there."""
    best = [min(times) for times in zip(*(p.seconds for p in plans), strict=True)]

    def loss(chosen: Sequence[Plan]) -> float:
        """How many times as long as the best plan takes: the quadratic mean over the sample, in which the worst count most."""
        return math.sqrt(sum((min(p.seconds[k] for p in chosen) / b) ** 2 for k, b in enumerate(best)) / len(best))
    kept = list(first) or [min(plans, key=lambda p: loss([p]))]
    while len(kept) < most:
        before, another = loss(kept), min(plans, key=lambda p: loss([*kept, p]))
        if not before - loss([*kept, another]) >= GAIN * before:       # both may be infinite
            break
        kept.append(another)
    for k in range(len(first), len(kept)):                             # the first ones were chosen without the last ones
        kept[k] = min([kept[k], *plans], key=lambda p: loss([*kept[:k], p, *kept[k + 1:]]))
    for p in kept[len(first):]:
        rest = [x for x in kept if x is not p]
        if rest and (1 - GAIN) * loss(rest) <= loss(kept):
            kept = rest
    return kept


# ---- multiples

def _of_multiples(program: Program, target: Target, kept: Sequence[Plan], largest: Sizes, sample: Sequence[Sizes], most: int
                  ) -> list[Plan]:
    """What is decided where large sizes are multiples, as long as that saves GAIN where it saves anything: for the largest
    sizes that were looked at, and those of the first plan."""
    found, plans = list[Plan](), list(kept)
    vector = max(2, VECTOR // min(program.tensor(n).dtype.part.bytes for n in program.arrays))
    points = [largest, kept[0].typical] if largest != kept[0].typical else [largest]
    options = [p for point in points for d in (vector, TILE)
               if (p := of_multiple(program, target, point, d, sample)) is not None]
    while options and len(found) < most:
        best = max(options, key=lambda p: sum(_saved(p, plans)))
        saved = _saved(best, plans)
        if not saved or sum(saved) < GAIN * len(saved):
            break
        found.append(best)
        plans.append(best)
    return found


def of_multiple(program: Program, target: Target, typical: Sizes, divisor: int, sample: Sequence[Sizes]) -> Plan | None:
    """What is decided for sizes of which the large ones are multiples; None if none is large, or there is no such plan."""
    divisors = {n: divisor for n, v in typical.items() if v >= MULTIPLES * divisor}
    if not divisors:
        return None
    point = {n: -(-v // divisors.get(n, 1)) * divisors.get(n, 1) for n, v in typical.items()}
    return planning.of_multiple(program, target, point, multiples.parts(program, divisors), sample)


def _saved(plan: Plan, others: Sequence[Plan]) -> list[float]:
    """What a plan saves of the time of the best other one, wherever it does."""
    pairs = ((t, min(p.seconds[k] for p in others)) for k, t in enumerate(plan.seconds))
    return [1 - t / other for t, other in pairs if t < other]


# ---- what is said

def _bundle(program: Program, target: Target, name: str, kept: Sequence[Plan], limits: tuple[QuasiAffine, ...]) -> Bundle:
    """The bundle of the first variant, with the others."""
    made, code = list[Bundle](), [planning.whole(p, program, target) for p in kept]
    common = set.intersection(*(set(map(planning.decision, low.decisions.entries)) for low in code))
    for plan, low in zip(kept, code, strict=True):
        wins = sum(t == min(p.seconds[k] for p in kept) for k, t in enumerate(plan.seconds))
        only = f", where {_multiples(plan.parts)}" if plan.parts else ""
        first = f"made for {listed(plan.typical)}{only}; the fastest at {wins} of {len(plan.seconds)} sizes that were looked at"
        own = [str(e) for e in low.decisions.entries if planning.decision(e) not in common and e.what != NONE]
        one = bundle.of_lowered(planning.at(program, plan.typical), low, target, name, limits, plan.parts)
        made.append(replace(one, model=Model(plan.typical, plan.launches, (first, *own))))
    return replace(made[0], others=tuple(made[1:]))


def _multiples(parts: Sequence[Part]) -> str:
    """`I, J are multiples of 128`; all have one divisor."""
    names = ", ".join(p.size for p in parts)
    return f"{names} {'is a multiple' if len(parts) == 1 else 'are multiples'} of {parts[0].divisor}"


def listed(sizes: Sizes) -> str:
    """`I=64, J=1`."""
    return ", ".join(f"{n}={v}" for n, v in sizes.items())


def _about(kept: Sequence[Plan], plans: Sequence[Plan], planned: int, sample: Sequence[Sizes]) -> tuple[str, ...]:
    """How the variants were chosen, with a table of estimates."""
    best, own = ([min(times) for times in zip(*(p.seconds for p in ps), strict=True)] for ps in (plans, kept))
    lines = [f"Planned for {planned} sizes, in {len(plans)} ways, of which {len(kept)} are here. By the model they take, at "
             f"{len(sample)} sizes, {_ratio(own, best)}",
             f"of the time of the best of all ways; variant 0 alone {_ratio(kept[0].seconds, best)}.",
             "Microseconds at some of these sizes, the fastest in brackets:"]
    shown, own_points = min(SHOWN, len(sample)), [k for p in kept for k, point in enumerate(sample) if point == p.typical]
    spread = [j * (len(sample) - 1) // max(1, shown - 1) for j in range(shown)]
    for k in sorted(dict.fromkeys([*own_points, *spread])):
        times = [p.seconds[k] for p in kept]
        told = [f"[{t * 1e6:.1f}]" if t == min(times) else f"{t * 1e6:.1f} " if t < math.inf else "- " for t in times]
        lines.append(f"  {listed(sample[k]):<36}{''.join(f'{text:>12}' for text in told)}")
    return tuple(lines)


def _ratio(own: Sequence[float], best: Sequence[float]) -> str:
    """In the mean and at most, as text."""
    each = [a / b for a, b in zip(own, best, strict=True)]
    return f"{sum(each) / len(each):.2f} in the mean and {max(each):.2f} at most"
