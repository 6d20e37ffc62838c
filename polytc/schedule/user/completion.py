"""What a user's schedule leaves open, decided for a machine.

- Statements that the user did not touch get the strategy's loops (schedule.cpu.strategy, schedule.gpu.strategy): runs of them
  at the top of the program, outside of all `for` loops.
- A statement without a vector loop gets one, along the index in which its accesses are contiguous, and a contraction two: the
  register tile of schedule.cost.register_tiles, its second loop unrolled.
- On a GPU, an update whose items meet in each iteration of a sum over tiles gets accumulators of its own, which stay in
  registers meanwhile (ProgramSteps.accumulate).
- Where no loop of a nest is parallel, the outermost one is that may be; one around too little work is not.

What the user said stays as it is, and every addition is a step that is checked as the user's are; one that is illegal is left
out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeVar

from polytc import errors
from polytc.machine import Machine
from polytc.poly import nest
from polytc.poly.nest import Leaf
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.kinds import AT_ONCE
from polytc.schedule.cost import parallel_profitability, register_tiles, vector_loops
from polytc.schedule.cpu import strategy as cpu
from polytc.schedule.facts.fusion_groups import is_contraction, reduced_indices
from polytc.schedule.facts.strides import lane_width, of_statement
from polytc.schedule.gpu import strategy as gpu
from polytc.schedule.user import extents, loopnest, reading
from polytc.schedule.user.loopnest import Body, NamedLoop, Node
from polytc.schedule.user.program_steps import ProgramSteps
from polytc.schedule.user.steps import Steps

S = TypeVar("S", bound=ProgramSteps)


def complete(s: S, machine: Machine) -> S:
    """The schedule with all that it leaves open decided for the machine."""
    if s.deps.coarse:
        return s
    s = _untouched(s, machine)
    if machine.kind != "gpu":
        for statement in sorted(s.program.statements, key=lambda x: -x.points):
            s = _vectors(s, statement.name, machine)
    else:
        for statement in s.program.statements:
            s = _accumulators(s, statement)
    for name in [loopnest.statements((n,))[0] for n in s.body]:
        s = _parallel(s, name, 0, 1, machine)
    return s


def _attempt(s: S, step: Callable[[S], S]) -> S:
    """The step, if it is legal."""
    try:
        return step(s)
    except errors.CompileError as e:
        if e.code not in ("E701", "E704", "E706", "E708"):
            raise
        return s


# ---- statements that nobody touched

def _untouched(s: S, machine: Machine) -> S:
    """The strategy's loops for runs of statements that are as the program has them, outside of `for` loops."""
    written = loopnest.of(nest.program_order(s.program), s.program)
    free = {x.name for x in s.program.statements if not x.loops}
    runs = groupby(s.body, key=lambda n: n in written and free.issuperset(loopnest.statements((n,))))
    parts = [(plain, tuple(nodes)) for plain, nodes in runs]
    for n, (plain, nodes) in enumerate(parts):
        if not plain:
            continue
        planned = _planned(s, loopnest.statements(nodes), machine)
        body = tuple(x for m, (_, others) in enumerate(parts) for x in (planned if m == n else others))
        made = _attempt(s, partial(_step, f"strategy for {', '.join(loopnest.statements(nodes))}", body))
        if made is not s:
            parts[n] = (plain, planned)
            s = made
    return s


def _step(what: str, body: Body, s: S) -> S:
    return s.step(what, body)


def _planned(s: Steps, names: tuple[str, ...], machine: Machine) -> Body:
    program = s.program if machine.kind == "gpu" else numeric(s.program)  # work-groups must fit all sizes
    part = replace(program, statements=tuple(program.statement(n) for n in names))
    plan = gpu.nest(part, machine) if machine.kind == "gpu" else cpu.nest(part, machine)
    return reading.body(nest.tree(s.scop.ctx, part, plan), part)


# ---- vectors

def _vectors(s: S, name: str, machine: Machine) -> S:
    """A vector loop for a statement, and an unrolled one beside it where the register tile of a contraction has one."""
    around, typical = loopnest.loops(s.body, name), numeric(s.program)
    statement = typical.statement(name)
    if statement.where or statement.intrinsic is not None or any(x.kind in AT_ONCE[1:] for x in around):
        return s
    steps = {i: loop for loop in around if (i := _walks(loop, name)) is not None}
    accesses, lanes = of_statement(typical, statement), lane_width(typical, statement, machine)
    if lanes == 1:
        return s
    if is_contraction(statement):
        shared = tuple(i for i in steps if i not in reduced_indices(statement))
        chosen = vector_loops.of_contraction(statement, accesses, shared, lanes, machine)
        if chosen is not None:
            return _register_tile(s, name, chosen, {i: x.name(name) for i, x in steps.items()}, lanes)
    place, score = vector_loops.best(accesses, list(steps), reduced_indices(statement))
    if place is None or score <= 0:
        return s
    best, width = list(steps)[place], 2 * lanes
    return _attempt(s, lambda s: s.vectorize(name, steps[best].name(name), _fitting(s, steps[best], width, lanes)))


def _walks(loop: NamedLoop, name: str) -> str | None:
    """The index that each iteration of the loop advances by one, if the loop does nothing else: of `i` and `i % 32`, i."""
    match next(r.value for r in loop.rows if r.statement == name):
        case pr.Index(index) | pr.Binary("%", pr.Index(index), pr.Const()):
            return index
        case _:
            return None


def _register_tile(s: S, name: str, chosen: register_tiles.RegisterTile, loops: dict[str, str], lanes: int) -> S:
    """loops: index -> the name of the loop that walks it."""
    def along(index: str) -> NamedLoop:
        return loopnest.loops(s.body, name)[loopnest.depth(s.body, name, loops[index])]
    width = _fitting(s, along(chosen.vector), chosen.width * lanes, lanes)
    made = _attempt(s, lambda s: s.vectorize(name, loops[chosen.vector], width))
    if made is s or chosen.jam is None:
        return made
    rows, jam = _fitting(s, along(chosen.jam), chosen.rows, 1), loops[chosen.jam]
    return _attempt(made, lambda s: s.unroll_and_jam(name, jam, rows)) if rows > 1 else made


def _trips(s: Steps, loop: NamedLoop) -> int:
    """Iterations, of open sizes for the representative ones."""
    low, high = extents.of(loop, extents.domains(s.scop))
    return high - low


def _fitting(s: Steps, loop: NamedLoop, most: int, lanes: int) -> int:
    """Iterations of a point loop: a multiple of `lanes` that divides the trip count, if one is not far below `most`."""
    if s.program.sizes:
        return most
    trips = _trips(s, loop)
    if trips <= most:
        return max(1, trips)
    return next((n for n in range(most, most // 2, -1) if n % lanes == 0 and trips % n == 0), most)


# ---- accumulators

def _accumulators(s: S, statement: pr.Statement) -> S:
    """Accumulators for an update into an array, where a loop that is summed over stands around loops over items."""
    if statement.op is None or statement.target in s.program.temporaries:
        return s
    kept = {i for x in statement.subscripts for i in pr.index_names(x)}
    around = loopnest.loops(s.body, statement.name)
    sums = [n for n, x in enumerate(around) if x.kind == "sequential"
            and any(i not in kept for i in pr.index_names(x.value(statement.name)))]
    if not sums or not any(kinds.is_item(x.kind) for x in around[sums[0]:]):
        return s
    return _attempt(s, lambda s: s.accumulate(statement.name))


# ---- threads

def _parallel(s: S, name: str, depth: int, around: int, machine: Machine) -> S:
    """The outermost loops in the nest of a statement that may be parallel, from this depth on. around: iterations of the loops
    outside."""
    loops = loopnest.loops(s.body, name)
    if len(loops) <= depth or _decided(loops[depth]):
        return s
    loop = loops[depth]
    typical = numeric(s.program)
    work = parallel_profitability.work(typical, (typical.statement(r.statement) for r in loop.rows), machine)
    if loop.kind != "sequential" or not parallel_profitability.pays(work // around, machine):
        return s
    made = _attempt(s, lambda s: s.parallel(name, loop.name(name)))
    trips = _trips(s, loop)
    if made is not s:
        few = trips < 4 * machine.cores or machine.kind == "gpu"
        inner = loop.body[0]
        if few and depth < 2 and len(loop.body) == 1 and isinstance(inner, NamedLoop) and inner.kind == "sequential":
            return _attempt(made, lambda s: s.parallel(name, inner.name(name)))
        return made
    for child in loop.body:
        s = _parallel(s, loopnest.statements((child,))[0], depth + 1, around * max(1, trips), machine)
    return s


def _decided(n: Node) -> bool:
    """Did the user say what runs in parallel in this nest?"""
    if isinstance(n, Leaf):
        return False
    return n.kind == "parallel" or kinds.is_mapped(n.kind) or any(map(_decided, n.body))

