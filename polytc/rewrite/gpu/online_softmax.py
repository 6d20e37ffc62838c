"""Softmax between two products in one kernel: a group has some rows, and goes through the keys block by block."""

from __future__ import annotations

from dataclasses import replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.names import Names
from polytc.rewrite.gpu.softmax_chains import chains
from polytc.rewrite.gpu.streamed_softmax import KeyBlocks, StreamedSoftmax
from polytc.rewrite.step import Decision, Reasons


def decide(program: pr.Program, machine: Machine) -> Decision:
    chosen, why = list[KeyBlocks](), Reasons()
    for chain in chains(program):
        by = KeyBlocks(chain.score.name, (16, 8), (2, 8, -(-chain.column.extent // 64) * 4), (64, 32))
        chosen.append(by)
        why.acts(", ".join(chain.names), "one kernel")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def fuse(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen chains as one kernel each."""
    by = {c.statement: c for c in decision.choices}
    for chain in list(chains(program)):
        if chain.score.name in by:
            program = _fused(program, StreamedSoftmax(program, chain, by[chain.score.name], Names.of(program)))
    return program


def _fused(program: pr.Program, made: StreamedSoftmax) -> pr.Program:
    new, names = made.statements(), set(made.chain.names)
    last = max(n for n, s in enumerate(program.statements) if s.name in names)
    before, behind = program.statements[:last], program.statements[last + 1:]
    statements = (*(s for s in before if s.name not in names), *new, *behind)
    used = {s.target for s in statements} | {r.tensor for s in statements for r in pr.reads(s)} | set(program.arrays)
    tensors = (*program.tensors, *made.tensors)
    return replace(program, tensors=tuple(t for t in tensors if t.name in used), statements=statements)
