"""Sums are made only for the elements that something reads.

    P[i,j] += A[i,k]*B[j,k];  Y[i] max= P[i,j] where j <= i                    with A[8,5], B[8,5] on gpu
    ->  P[i,j] = 0.0 where j <= i;  P[i,j] += A[i,k]*B[j,k] where j <= i;  Y[i] max= P[i,j] where j <= i

as the scores of causal attention: groups and steps whose tiles nobody reads do not run (rewrite.gpu.tile_conditions), so of
more conditions those are taken with which there are tiles. On CPUs rows of scores are made block by block, and
`rewrite.cpu.masked_blocks` leaves out what a mask hides. (Dead code elimination of instances: Feautrier, Dataflow Analysis
of Array and Scalar References, IJPP 1991.)
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.rewrite.gpu import tile_conditions
from polytc.rewrite.tidy import dead_initialisation


def narrow(program: pr.Program) -> pr.Program:
    """The program whose temporaries have the conditions that all their readers have."""
    given = set(program.arrays)
    for tensor in dict.fromkeys(s.target for s in program.statements):
        if tensor not in given:
            program = _narrowed(program, tensor)
    return program


def _narrowed(program: pr.Program, tensor: str) -> pr.Program:
    """The statements that write a tensor with the conditions of its readers."""
    writers = [s for s in program.statements if s.target == tensor]
    found = {s.name: dead_initialisation.common_conditions(program, s, writers) for s in writers}
    if any(s.bounds or any(r.tensor == tensor for r in pr.reads(s)) for s in writers) or not all(found.values()):
        return program
    made = {s.name: _with(s, found[s.name] or ()) for s in writers}
    return replace(program, statements=tuple(made.get(s.name, s) for s in program.statements))


def _with(s: pr.Statement, conditions: tuple[pr.Expr, ...]) -> pr.Statement:
    """The statement under as many of the conditions as tiles do not mind."""
    for c in conditions:
        more = replace(s, where=(*s.where, c))
        if c not in s.where and tile_conditions.fits(more):
            s = more
    return s
