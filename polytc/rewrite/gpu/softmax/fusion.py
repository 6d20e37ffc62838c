"""Softmax between two products in one kernel: each group has some rows, and goes through the keys block by block.

    S[i,j] += Q[i,d]*K[j,d];  M[i] max= S[i,j];  E[i,j] = exp(S[i,j] - M[i])
    Z[i] += E[i,j];  O[i,e] += E[i,j]*V[j,e];  R[i,e] = O[i,e]/Z[i]
        with Q[4096,64], K[4096,64], V[4096,64] on gpu
    ->  M_own[i_group,line,item,i_row] = -inf
        ...
        for j_block2 in 0:32 {
            ...
            M_scale[i_group,line3,item3,i_row] = exp(M_own[i_group,line3,item3,i_row] - M_base[i_group,line3,item3,i_row])
            S_own[i_group,line3,item3,i_row,j_vector,j_lane] =
                exp(S_own[i_group,line3,item3,i_row,j_vector,j_lane] - M_base[i_group,line3,item3,i_row])
            ...
            O_own[...] = O_own[...]*M_scale[i_group,line3,item3,i_row]
            M_own[i_group,line3,item3,i_row] = M_next[i_group,line3,item3,i_row]
            ...
            O_own[...] += S_tile[i_group, j_at2 + 64*j_step, i_row + 2*line4]*V_tile[i_group,j_at2, e_lane + 4*item4]
        }
        ...
        R[16*i_group + i_row + 2*line5, e_lane + 4*item5] = R_own[i_group,line5,item5,i_row,e_vector,e_lane]

What is so far the maximum of a row takes the place of that of all: where it grows, sums and results are multiplied by the
exponential of what it grew by. So the scores and the weights, which are far more than all that goes in and comes out, stay in
registers and local memory. Sums of floats are made in other parts than those of the text: not in precise programs
(docs/accuracy.md). (Milakov & Gimelshein, Online Normalizer Calculation for Softmax, 2018; Rabe & Staats, Self-attention Does
Not Need O(n^2) Memory, 2021; Dao et al., FlashAttention, 2022.)
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from polytc.machine import Estimate, Machine
from polytc.program import program as pr
from polytc.program.names import Names
from polytc.rewrite.gpu import matrix_tiles
from polytc.rewrite.gpu.softmax import shapes
from polytc.rewrite.gpu.softmax.chain import Chain
from polytc.rewrite.gpu.softmax.chains import chains
from polytc.rewrite.gpu.softmax.key_blocks import WAYS, KeyBlocks
from polytc.rewrite.gpu.softmax.shapes import Extents
from polytc.rewrite.gpu.softmax.streamed import StreamedSoftmax
from polytc.rewrite.step import Decision, Option, Reasons


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The chains that take less time as one kernel."""
    chosen, why = list[KeyBlocks](), Reasons()
    for chain in chains(program):
        told = ", ".join(chain.names)
        if not machine.fast_local_memory:
            why.declines(told, "one kernel: local memory, in which weights go from item to item, is no faster than the caches")
            continue
        best = next(shapes.candidates(program, chain, machine), None)
        if best is None:
            why.declines(told, f"one kernel: local memory and registers do not hold {chain.column.extent} columns of values")
            continue
        (by, seconds), apart = best, shapes.separate(program, chain, machine)
        estimated = f"{_told(seconds)}; {_told(apart)} in kernels of their own"
        if seconds >= apart:
            why.declines(told, f"one kernel: estimated: {estimated}")
            continue
        chosen.append(by)
        unit = ", multiplied by the matrix unit" if by.is_matrix else ""
        shape = f"{by.rows} rows by {by.items[0]} x {by.items[1]} items, {by.keys} values of {chain.key} at a time"
        why.acts(told, f"one kernel, {shape}{unit}: estimated: {estimated}")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def _told(seconds: float) -> str:
    return str(Estimate(arithmetic=seconds)).split(":")[0]


def fuse(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen chains as one kernel each."""
    by = {c.statement: c for c in decision.choices}
    for name in by:
        chain = next(c for c in chains(program) if c.score.name == name)
        program = _fused(program, StreamedSoftmax(program, chain, by[name], Names.of(program)))
    return program


def _fused(program: pr.Program, made: StreamedSoftmax) -> pr.Program:
    """The program with a chain's statements replaced, where its last one stood."""
    new, names = made.statements(), set(made.chain.names)
    last = max(n for n, s in enumerate(program.statements) if s.name in names)
    before, behind = program.statements[:last], program.statements[last + 1:]
    statements = (*(s for s in before if s.name not in names), *new, *behind)
    used = {s.target for s in statements} | {r.tensor for s in statements for r in pr.reads(s)} | set(program.arrays)
    tensors = (*program.tensors, *made.tensors)
    return replace(program, tensors=tuple(t for t in tensors if t.name in used), statements=statements)


def fits(program: pr.Program, machine: Machine, choice: KeyBlocks) -> str:
    """Why a chain cannot be one kernel so; '' if it can."""
    found = {c.score.name: c for c in chains(program)}
    chain = found.get(choice.statement)
    if chain is None:
        return f"softmax between products begins with {' or '.join(found) or 'no statement'}"
    numbers = (*choice.items, *choice.elements, *choice.steps)
    if (len(choice.items), len(choice.elements), len(choice.steps)) != (2, 3, 2) or min(numbers) < 1:
        return "`items` are two numbers, `elements` three, and `steps` two"
    return _misfit(choice, program, chain, machine)


def _misfit(choice: KeyBlocks, program: pr.Program, chain: Chain, machine: Machine) -> str:
    """See `fits`."""
    x = Extents.of(program, chain)
    if prod(choice.items) > machine.max_work_group:
        return f"a group has {machine.max_work_group} items at most"
    if choice.by not in WAYS:
        return f"`by` is {' or '.join(WAYS)}"
    if choice.is_matrix:
        why = matrix_tiles.problem((*choice.items, 1), choice.elements[2:] + choice.elements[1:2], choice.steps[0])
        why = why or matrix_tiles.problem((*choice.items, 1), choice.elements[:2], choice.steps[1])
        if why or not shapes.half(program, chain, machine):
            return why or "a matrix unit may not multiply there"
    if choice.columns < x.columns:
        return f"a group has all {x.columns} columns"
    if choice.keys % choice.steps[1]:
        return f"the second of `steps` divides {choice.keys}, the keys of a block"
    bytes_ = shapes.local_bytes(choice, x)
    return "" if bytes_ <= machine.local_bytes else f"local memory would have to hold {bytes_} bytes"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each chain, that it stays as it is, or runs in one of the shapes that are weighed."""
    if not machine.fast_local_memory:
        return []
    return [[Option((), shapes.separate(program, chain, machine)),
             *(Option((by,), seconds) for by, seconds in shapes.candidates(program, chain, machine))]
            for chain in chains(program)]
