"""Contractions for GPUs: indices cut into groups, items and elements, operands copied to local memory by all items of a group.

    C[i,j] += A[i,k]*B[k,j]                             with A[2048,64], B[64,2048] on gpu
    ->  A_tile[i_group,j_group,k_step,...] = A[...];  B_tile[i_group,j_group,k_step,...] = B[...]
        C_acc[i_group,j_group,i_item,j_item,i_row,j_vector,j_lane] += A_tile[i_group,j_group,k_step,k_at, 8*i_item + i_row]
            * B_tile[i_group,j_group,k_step,k_at, 4*j_item + j_lane + 64*j_vector] where i_row in 0:8, j_vector in 0:2
        C[128*i_group + 8*i_item + i_row, ...] = C_acc[i_group,j_group,i_item,j_item,i_row,j_vector,j_lane]

Where local memory is no faster than the caches, each item reads what it uses of the operands into registers
(rewrite.gpu.tiled_contraction).
All tiles are whole: results beyond the ends are computed and not stored, operands beyond the ends are copied as zeros. The
copies and accumulators are tensors with a slice for each group, which storage contraction (codegen.passes.array_contraction)
then keeps in local memory or registers, as it does with the copies that users ask for (schedule.user.changes.copies). A range
of an index says what its loop becomes; schedule.gpu.strategy builds the nest from that. (Verdoolaege et al., Polyhedral
Parallel Code Generation for CUDA, TACO 2013, with a second level of tiles in registers.)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import groupby

from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.names import Names
from polytc.program.sizes import Undecided
from polytc.rewrite.gpu import split_reduction, work_group_shape
from polytc.rewrite.gpu.contraction_tiles import Blocking
from polytc.rewrite.gpu.division import Cut, Division
from polytc.rewrite.gpu.enclosing import Enclosing
from polytc.rewrite.gpu.local_transpose import TransposedGroup, TransposedRows
from polytc.rewrite.gpu.tiled_contraction import TiledContraction
from polytc.rewrite.gpu.work_group_reductions import ReducedGroup
from polytc.rewrite.gpu.work_group_shape import WorkGroupShape
from polytc.schedule.facts.fusion_groups import Group, of_sizes, partition
from polytc.schedule.facts.work_groups import is_cut, is_straight


def map_to_work_groups(program: pr.Program, division: Division) -> pr.Program:
    """The program with its contractions, transpositions and reductions divided as somebody decides."""
    if not is_straight(program.statements) or program.precise:
        return program
    return without_unused_tensors(map_statements(program, division, Names.of(program), Enclosing()))


def survey(program: pr.Program, division: Division) -> None:
    """What of a program can be divided is decided, and nothing is made of it."""
    if not program.precise:
        _groups(program, division, Names.of(program))


def map_statements(program: pr.Program, division: Division, names: Names, around: Enclosing) -> pr.Program:
    """As map_to_work_groups, but for what is in loops. around: the `for` loops and statements that enclose the program."""
    program, groups = _groups(program, division, names)
    statements: list[pr.Statement] = []
    tensors = list(program.tensors)
    for group, whole, cut in groups:
        made, new = _divided(program, group, whole, cut, names, around)
        statements += made
        tensors += new
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def _groups(program: pr.Program, division: Division, names: Names
            ) -> tuple[pr.Program, list[tuple[Group, Group | None, Cut | None]]]:
    """The program with its long reductions divided, its groups of statements for typical sizes and for all sizes, and how each
    is divided."""
    program, runs = split_reduction.split(program, names, division.parts)
    typical, found = numeric(program), list[tuple[Group, Group | None, Cut | None]]()
    for cut, part in ((cut, tuple(part)) for run in runs for cut, part in groupby(run, is_cut)):
        if cut:  # by a step before, or by the split
            found.append((Group(part, (), ()), None, None))
            continue
        together = partition(replace(typical, statements=tuple(typical.statement(s.name) for s in part)))
        for group in (g for whole in together for g in work_group_shape.apart(typical, whole)):
            whole = of_sizes(program, group)
            found.append((group, whole, division.cut(typical, group) if whole is not None else None))
    return program, found


def without_unused_tensors(program: pr.Program) -> pr.Program:
    """The program without the tensors that nothing uses."""
    names = {s.target for s in program.statements} | {r.tensor for s in program.statements for r in pr.reads(s)}
    return replace(program, tensors=tuple(t for t in program.tensors if t.name in names | set(program.arrays)))


def _divided(program: pr.Program, group: Group, whole: Group | None, cut: Cut | None, names: Names, around: Enclosing
             ) -> tuple[list[pr.Statement], list[pr.Tensor]]:
    """The statements of a group, divided among the items of work-groups as is decided, and the tensors that are new.

    group, whole: it for the sizes that decide what is fast, and for all sizes.
    """
    if whole is not None and cut is not None:
        with suppress(Undecided):
            made = _of_cut(program, whole, cut, names, around)
            return made.statements(), made.tensors
    return [program.statement(s.name) for s in group.statements], []


def _of_cut(program: pr.Program, group: Group, cut: Cut, names: Names, around: Enclosing
            ) -> TiledContraction | TransposedGroup | ReducedGroup:
    """What a group becomes."""
    match cut:
        case Blocking():
            return TiledContraction(program, group, cut, names, around)
        case TransposedRows():
            return TransposedGroup(program, group, cut, names, around)
        case WorkGroupShape():
            rows = work_group_shape.row_tensors(group)
            assert rows is not None, "local tiles: a reduction without results"
            return ReducedGroup(program, group, cut, rows, names, around)
