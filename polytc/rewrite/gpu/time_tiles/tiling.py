"""`for` loops around stencils run several iterations in one launch: a group computes its tile, and what lies beside it, in
local memory.

    for t in 0:64 { B[i] = A[i-1] + A[i+1] where i in 1:399999; A[i] = B[i] where i in 1:399999 }   with inout A[400000] on gpu
    ->  A_tile[g0, 64*e0 + item0] = A[64*e0 + 448*g0 + item0 - 32]
        B_tile[...] = ... ? 0 : A[...]
        for round in 0:16 {
            B_tile[...] = A_tile[g0, 64*e03 + item03 - 1] + A_tile[g0, 64*e03 + item03 + 1] where 64*e03 + item03 - 2*round >= 1
            A_tile[...] = B_tile[g0, 64*e04 + item04 - 1] + B_tile[g0, 64*e04 + item04 + 1] where 64*e04 + item04 - 2*round >= 2
        }
        A_next[64*e05 + 448*g0 + item05 - 32] = A_tile[g0, 64*e05 + item05]
        ...
        A[...] = A_tile2[...]

An iteration is one launch or more otherwise, which reads and writes all of the tensors. With k iterations a launch there are as
many fewer launches and bytes moved, and more arithmetic: k cells more on either side of a tile (geometry.py). A loop whose
tensors one group has room for is one launch. Guarantees: the same values, as each is computed by the expression of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.names import Names
from polytc.rewrite.gpu.time_tiles import stencils
from polytc.rewrite.gpu.time_tiles.loop_text import Loop, Shape, TiledLoop
from polytc.rewrite.gpu.time_tiles.shapes import Costs
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.rewrite.tidy import rotated_buffers

CLEARLY = 0.8
"""Of the time without tiles that tiles may take at most: the estimate leaves out much of what tests and halos cost."""
OPTIONS = 16
"""Shapes that there are to choose from, those that are estimated to take least."""


@dataclass(frozen=True)
class Tiled:
    """The loop that the statement is the first one of runs in tiles. steps: iterations of a launch, at most; items, elements:
    of a group, and of an item, along each dimension, the last one first."""

    statement: str
    steps: int
    items: tuple[int, ...]
    elements: tuple[int, ...]


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The loops that tiles are quicker for."""
    chosen, why = list[Tiled](), Reasons()
    for members in rotated_buffers.loops(program):
        first, found = members[0].name, _loop(program, members)
        if isinstance(found, str):
            if found:
                why.declines(first, f"in time tiles: {found}")
            continue
        costs = Costs(found, machine)
        best = costs.choose()
        if best is None:
            why.declines(first, "in time tiles: none has room in local memory")
            continue
        told = f"estimated: {best.time}; without {costs.plain}"
        if best.time.seconds > CLEARLY * costs.plain.seconds:
            why.declines(first, f"in time tiles: {told}")
            continue
        chosen.append(_written(found, first, best.shape))
        why.acts(first, f"{_told(found, best.shape)}, {told}")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def tile(program: pr.Program, decision: Decision) -> pr.Program:
    """The program whose chosen loops run in tiles."""
    chosen, names = {choice.statement: choice for choice in decision.choices}, Names.of(program)
    statements, tensors = list[pr.Statement](), [*program.tensors]
    for x in pr.stretches(program.statements):
        members = x.statements if isinstance(x, pr.Loop) else x
        found = _loop(program, members) if isinstance(x, pr.Loop) and members[0].name in chosen else ""
        if isinstance(found, str):
            statements += members
            continue
        made = TiledLoop(found, _shape(found, chosen[members[0].name]), names).make()
        statements += made.statements
        tensors += made.tensors
    left = {*program.arrays, *(s.target for s in statements), *(r.tensor for s in statements for r in pr.reads(s))}
    return replace(program, tensors=tuple(t for t in tensors if t.name in left), statements=tuple(statements))


def fits(program: pr.Program, machine: Machine, choice: Tiled) -> str:
    """Why the loop of a statement does not run in such tiles; '' if it may."""
    members = next((m for m in rotated_buffers.loops(program) if m[0].name == choice.statement), None)
    found = _loop(program, members) if members is not None else "no loop begins with it"
    if isinstance(found, str):
        return found or "it reads no neighbours"
    s = found.stencils
    if len(choice.items) != s.rank or len(choice.elements) != s.rank:
        return f"`items` and `elements` are {s.rank} numbers, one a dimension"
    if choice.steps < s.round or choice.steps % s.round:
        return f"`steps` is a multiple of {s.round}, as {s.round} buffers take turns"
    return Costs(found, machine).misfit(_shape(found, choice))


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each loop around stencils the shapes of tiles that are estimated to take least, and none."""
    return [[Option((), plain), *found] for plain, found in _places(program, machine)]


def _places(program: pr.Program, machine: Machine) -> Iterator[tuple[float, list[Option]]]:
    for members in rotated_buffers.loops(program):
        found = _loop(program, members)
        if isinstance(found, str):
            continue
        costs = Costs(found, machine)
        shapes = sorted(costs.all(), key=lambda x: x.time.seconds)[:OPTIONS]
        yield costs.plain.seconds, [Option((_written(found, members[0].name, x.shape),), x.time.seconds) for x in shapes]


def _loop(program: pr.Program, members: tuple[pr.Statement, ...]) -> Loop | str:
    """The loop around some statements; else why it is none that can be tiled, '' if there is nothing to tile."""
    found = stencils.of(program, members)
    return found if isinstance(found, str) else Loop.of(program, found)


def _written(loop: Loop, first: str, shape: Shape) -> Tiled:
    return Tiled(first, shape.rounds * loop.stencils.round, shape.items[::-1], shape.elements[::-1])


def _shape(loop: Loop, choice: Tiled) -> Shape:
    return Shape(choice.steps // loop.stencils.round, choice.items[::-1], choice.elements[::-1])


def _told(loop: Loop, shape: Shape) -> str:
    """A shape in words."""
    s = loop.stencils
    if loop.is_alone(shape):
        return "all iterations in one launch of one group"
    rounds = loop.launches(shape)[0][1]
    tile_ = " x ".join(str(w - a - b) for w, (a, b) in zip(shape.widths, loop.reach.halo(rounds), strict=True))
    return f"{rounds * s.round} iterations in a launch, tiles of {tile_}"
