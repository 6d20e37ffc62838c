"""Packing: an operand of a contraction is laid out so that the vector loop walks it contiguously, panel by panel.

    O[m,h,w] += X[c,h+r,w+s]*W[m,c,r,s]                 with X[64,30,30], constant W[64,64,3,3] on avx512
    ->  W_packed[m // 64, c, r, s, m % 64] = W[m,c,r,s]
        O[m,h,w] += X[c,h+r,w+s]*W_packed[m // 64, c, r, s, m % 64]

An operand whose elements are repeated in vectors is laid out in panels as high as the tile, where the reduction walks through
it in long strides.

A rewrite from Program to Program: the copy is a statement like any other. For a constant operand it runs once, when the program
is bound to its arrays (see compiler.py); otherwise it must pay for itself in every call. (The layout of BLIS's panels: Van Zee
& van de Geijn, BLIS: A Framework for Rapidly Instantiating BLAS Functionality, TOMS 2015.)
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.linear import linear
from polytc.program.names import fresh
from polytc.program.scalars import I64
from polytc.rewrite.cpu.lanes import along
from polytc.rewrite.step import Decision, Option, Reasons, counted
from polytc.rewrite.tidy import hoist
from polytc.schedule.cost import register_tiles, streams, strips
from polytc.schedule.facts.fusion_groups import coincident_indices, is_contraction, reduced_indices
from polytc.schedule.facts.strides import AccessStrides, along_rows, lane_width, of_access, of_statement, panel

GROWTH = 1.25
"""Largest size of a packed copy, in sizes of the tensor."""
GAIN = 0.75
"""Cycles with a packed copy, in those without, at most, where the sizes are open: it costs much where they are small."""


@dataclass(frozen=True)
class Panels:
    """What is packed: the operand, by its number among what the statement reads, which is of that tensor, in panels of `width`
    values of the index `along`."""

    statement: str
    tensor: str
    operand: int
    along: str
    width: int


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The operands for which the cycle count of schedule.cost.register_tiles says that packing pays; of open sizes, for the
    typical ones. Each choice is made with the copies of those before it."""
    chosen, why, around = list[Panels](), Reasons(), _around(program, machine)
    for s in program.statements:
        if is_contraction(s) and not s.bounds:
            for _ in pr.reads(s):
                found = _chosen(numeric(program), s.name, around, why)
                if found is None:
                    break
                chosen.append(found)
                program = _packed(program, found)
    return Decision(machine, tuple(chosen), tuple(dict.fromkeys(why.rows)))


def pack(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with packed copies of the chosen operands."""
    return functools.reduce(_packed, decision.choices, program)


def fits(program: pr.Program, machine: Machine, panels: Panels) -> str:
    """Why an operand cannot be packed so; '' if it can."""
    s = numeric(program).statement(panels.statement)
    operands = [r.tensor for r in pr.reads(s)]
    if not is_contraction(s) or s.bounds:
        return f"{s.name} is no contraction over fixed ranges"
    if not 0 <= panels.operand < len(operands) or operands[panels.operand] != panels.tensor:
        return f"the operands of {s.name} are {', '.join(f'{n}: {t}' for n, t in enumerate(operands))}"
    if not _indices(numeric(program), s, pr.reads(s)[panels.operand]):
        return f"a copy of {panels.tensor} would be much larger than what is read, or memory decides what is read"
    free = [i for i in coincident_indices(s) if i in _names(pr.reads(s)[panels.operand]) and s.box[i][0] == 0]
    if panels.along not in free:
        return f"panels of {panels.tensor} may run along {' or '.join(free) or 'no index'}"
    most = s.extents[panels.along]
    return "" if 1 <= panels.width <= most else f"a panel has 1 to {most} values of {panels.along}"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each contraction, the operands that `decide` weighs: one in panels, and the ones that may follow it."""
    around, places = _around(program, machine), list[list[Option]]()
    for s in program.statements:
        if is_contraction(s) and not s.bounds:
            found = dict[tuple[Panels, ...], float]()
            nothing = _follow(program, s.name, (), around, 0.0, found)
            places.append([counted((), nothing, machine), *(counted(panels, n, machine) for panels, n in found.items())])
    return places


def _follow(program: pr.Program, name: str, before: tuple[Panels, ...], around: _Around, copies: float,
            found: dict[tuple[Panels, ...], float]) -> float | None:
    """Collects what may be packed for a statement, with the cycles of it all. copies: cycles of those made before; returns
    those without a further one, None if nothing tells them."""
    weighed = _weighed(numeric(program), name, around, Reasons())
    others = (y for x in weighed.found for y in _other_widths(numeric(program), x, around.machine))
    for x in (*weighed.found, *others):
        panels = (*before, x.panels)
        found[panels] = x.cycles + copies
        if len(panels) < len(pr.reads(program.statement(name))):
            _follow(_packed(program, x.panels), name, panels, around, copies + x.copy, found)
    return weighed.unpacked + copies if weighed.unpacked < float("inf") else None


@dataclass(frozen=True)
class _Around:
    """What candidates depend on beside their statement. fixed: tensors that are constant while the program is bound to its
    arrays; given: those that are no packed copies; sized: other sizes than these will come too, so that rows that collide in a
    cache are no reason."""

    fixed: frozenset[str]
    given: frozenset[str]
    machine: Machine
    sized: bool


def _around(program: pr.Program, machine: Machine) -> _Around:
    return _Around(hoist.constants(program), frozenset(t.name for t in program.tensors), machine, bool(program.sizes))


@dataclass(frozen=True)
class _Candidate:
    """tile: cycles of the statement with the operand packed so; beside: those of copies, and of what is read again; copy: those
    of them that make the copy."""

    panels: Panels
    tile: float
    beside: float
    copy: float

    @property
    def cycles(self) -> float:
        return self.tile + self.beside


@dataclass(frozen=True)
class _Weighed:
    """unpacked: cycles of a statement as it is, infinite where there are no register tiles; found: what may be packed."""

    unpacked: float
    found: tuple[_Candidate, ...]


def _weighed(program: pr.Program, name: str, around: _Around, why: Reasons) -> _Weighed:
    """What may be packed for a statement next."""
    fixed, machine = around.fixed, around.machine
    s = program.statement(name)
    accesses = along_rows(program, (s,), of_statement(program, s))
    shared, costs = coincident_indices(s), machine.costs.copies
    lanes = lane_width(program, s, machine)
    plain = register_tiles.best(s, accesses, shared, lanes, machine)
    reduced = along(program, s, lanes)

    def waits(tile: register_tiles.RegisterTile, but: pr.Read | None = None) -> float:
        others = [] if around.sized else [r for r in pr.reads(s) if r != but]
        return sum(strips.cycles(program, s, r, tile, lanes, machine) for r in others)
    unpacked = s.points / lanes * machine.costs.arithmetic.dot if reduced is not None else float("inf")
    if plain is not None:
        stream = streams.best(program, s, accesses, shared, lanes, machine)
        streamed = stream.cycles + waits(stream.tile, stream.read) if stream is not None else float("inf")
        unpacked = min(plain.cycles + waits(plain), streamed)
    each = len(accesses) == 1 + len(pr.reads(s))  # not those that are put side by side into words
    tiled = isinstance(s.value, pr.Call) and machine.multiplies_tiles(s.value.fn)  # see rewrite.cpu.matrix_tiles
    found = list[_Candidate]()
    for place, read in enumerate(pr.reads(s), 1):
        formal = _indices(program, s, read)
        size = _points(s, formal)
        if not formal or read.tensor not in around.given or (tiled and any(map(panel, read.subscripts))):
            continue
        if each and accesses[place] != of_access(program, read) and not set(formal).isdisjoint(shared):
            why.declines(name, f"{read.tensor}: vectors take its rows apart, and a copy would have one part of them")
            continue
        if read.tensor not in fixed and around.sized and s.points < costs.pack_uses * size:
            times = s.points // max(1, size)
            why.declines(name, f"{read.tensor}: each element is used {times} times, and a copy takes {costs.pack_uses}")
            continue
        same = {place} if each else {n for n, a in enumerate(accesses) if not a.write and a.tensor == read.tensor}
        for vector in (i for i in shared if i in formal and s.box[i][0] == 0 and s.extents[i] >= lanes):
            moved = tuple(_repacked(a, formal, vector) if n in same else a for n, a in enumerate(accesses))
            tile = register_tiles.best(s, moved, shared, lanes, machine)
            high = each and tile is not None and tile.jam == vector and _walks(s, accesses[place], tile)
            if tile is None or not (tile.vector == vector or high):
                continue
            width = min(tile.width * lanes, s.extents[vector]) if vector == tile.vector else tile.rows
            if _as_it_lies(program, s, read, vector, width):
                why.declines(name, f"{read.tensor}: it lies as panels of {width} along {vector} would")
                continue
            copy = 0.0 if read.tensor in fixed else _copied(program, read, vector, around) * size
            beside = waits(tile, read) + copy
            found.append(_Candidate(Panels(name, read.tensor, place - 1, vector, width), tile.cycles, beside, copy))
    return _Weighed(unpacked, tuple(found))


def _copied(program: pr.Program, read: pr.Read, along: str, around: _Around) -> float:
    """Cycles that a copy takes for an element. Of fixed sizes it is made in blocks of panels (schedule.fusion.panel_blocks),
    which are used in the caches, and memory is read along rows."""
    costs, access, tensor = around.machine.costs, of_access(program, read), program.tensor(read.tensor)
    if around.sized or access.stride(along) != 1:
        return costs.copies.pack
    return costs.copies.pack_block + (access.width * costs.traffic.memory if strips.far(tensor, around.machine) else 0.0)


def _other_widths(program: pr.Program, x: _Candidate, machine: Machine) -> Iterator[_Candidate]:
    """The same operand in panels of other whole vectors, where the register tile is as wide."""
    lanes = lane_width(program, program.statement(x.panels.statement), machine)
    most = program.statement(x.panels.statement).extents[x.panels.along]
    widths = range(lanes, min(register_tiles.WIDEST * lanes, most) + 1, lanes) if x.panels.width % lanes == 0 else ()
    for width in widths:
        panels = replace(x.panels, width=width)
        made = _packed(program, panels)
        s = made.statement(panels.statement)
        tile = register_tiles.best(s, of_statement(made, s), coincident_indices(s), lanes, machine)
        if tile is not None and width != x.panels.width:
            yield replace(x, panels=panels, tile=tile.cycles)


def _chosen(program: pr.Program, name: str, around: _Around, why: Reasons) -> Panels | None:
    """What is to be packed for a statement next."""
    weighed = _weighed(program, name, around, why)
    best = min(weighed.found, key=lambda x: x.cycles, default=None)
    if best is None:
        if not any(row.statement == name for row in why.rows):
            why.declines(name, "in panels: no register tile walks along an index that an operand lies across")
        return None
    panels, cycles, unpacked = best.panels, best.cycles, weighed.unpacked
    variable = panels.tensor not in around.fixed
    gain = GAIN if around.sized and variable else 1
    part = f"{cycles / unpacked:.2f} of the cycles" if unpacked < float("inf") else "there are no register tiles without"
    told = f"{panels.tensor} in panels of {panels.width} along {panels.along}: {part}"
    if cycles > unpacked * gain or (cycles == unpacked and variable):
        why.declines(name, told)
        return None
    why.acts(name, told)
    return panels


def _as_it_lies(program: pr.Program, s: pr.Statement, read: pr.Read, vector: str, width: int) -> bool:
    """Would the panel be laid out as the operand is?"""
    forms = [linear(sub) for sub in read.subscripts if not isinstance(sub, pr.Const)]
    steps = [i for i in reduced_indices(s) if any(pr.Index(i) in pr.walk(sub) for sub in read.subscripts)]
    return [f.index if f is not None else None for f in forms][-len(steps) - 1:] == [*steps, vector] \
        and program.tensor(read.tensor).shape[-1] == width


def _walks(s: pr.Statement, operand: AccessStrides, tile: register_tiles.RegisterTile) -> bool:
    """Does the reduction walk in strides through an operand whose elements the tile repeats in vectors?"""
    reduced = [i for i in reduced_indices(s) if operand.stride(i) != 0]
    return operand.stride(tile.vector) == 0 and bool(reduced) and operand.stride(reduced[-1]) != 1


def _indices(program: pr.Program, s: pr.Statement, read: pr.Read) -> tuple[str, ...]:
    """The indices of a read, the dimensions of its packed copy; () if the copy would be much larger than what is read, as that
    of overlapping windows, or if other memory decides what is read."""
    names = _names(read)
    gathers = any(isinstance(e, pr.Read) for sub in read.subscripts for e in pr.walk(sub))
    return names if not gathers and _points(s, names) <= GROWTH * program.tensor(read.tensor).size else ()


def _names(read: pr.Read) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e.name for sub in read.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index)))


def _points(s: pr.Statement, indices: tuple[str, ...]) -> int:
    return prod(r.extent for r in s.ranges if r.index in indices)


def _repacked(a: AccessStrides, formal: tuple[str, ...], vector: str) -> AccessStrides:
    """The strides after packing: the vector index walks by one, the others by whole rows of a panel."""
    return replace(a, strides=tuple((i, 1 if i == vector else streams.NEAR) for i in sorted(formal)))


def _packed(program: pr.Program, choice: Panels) -> pr.Program:
    """The program with a copy of an operand in panels."""
    s, along, width = program.statement(choice.statement), choice.along, choice.width
    read, ranges = pr.reads(s)[choice.operand], s.by_index
    formal = _names(read)
    steps = [i for i in reduced_indices(s) if i in formal]
    outer = [i for i in formal if i not in steps and i != along]
    source = program.tensor(read.tensor)
    panels = -(-ranges[along].extent // width)
    name = fresh(f"{read.tensor}_packed", {t.name for t in program.tensors})
    shape = (*(ranges[i].extent for i in outer), panels, *(ranges[i].extent for i in steps), width)
    lower = (*(ranges[i].lower for i in outer), 0, *(ranges[i].lower for i in steps), 0)
    target = pr.Tensor(name, source.dtype, shape, lower)
    vector, number = pr.Index(along), pr.Const(width, I64)
    which, place = pr.Binary("//", vector, number, I64), pr.Binary("%", vector, number, I64)
    cell: tuple[pr.Expr, ...] = (*map(pr.Index, outer), which, *map(pr.Index, steps), place)
    copied = tuple(ranges[i] for i in (*outer, *steps, along))
    copy = pr.Statement(fresh(f"{s.name}_{name}", {x.name for x in program.statements}), name, cell, None, read, copied)
    statements = list(program.statements)
    at = statements.index(s)
    statements[at:at + 1] = [copy, pr.replaced(s, read, replace(read, tensor=name, subscripts=cell, default=None))]
    return replace(program, tensors=(*program.tensors, target), statements=tuple(statements))
