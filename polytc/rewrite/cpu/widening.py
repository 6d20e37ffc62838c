"""Halves and bytes that a contraction of f32 uses many times are converted once, not at each use.

    C[i,j] += f32(A[i,k])*f32(B[k,j])                   with f16 A[128,128], f16 B[128,128] on avx512
    ->  A_wide[x0,x1] = f32(A[x0,x1]);  B_wide[x0,x1] = f32(B[x0,x1])
        C[i,j] += A_wide[i,k]*B_wide[k,j]

What follows is a contraction of f32 like any other: Winograd's way, packing and register tiles apply to it. The copy of a
constant is made when arrays are bound. Exact, since every half and every byte is an f32. Where the machine has dot products of
halves, those are left to rewrite.dot_words, and bytes where it has a matrix unit to rewrite.cpu.split_floats; these take
fixed sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import frexp, prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.calls.words import DOTS
from polytc.program.names import fresh
from polytc.program.scalars import BF16, F16, F32, I8, U8
from polytc.program.sizes import representative
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.rewrite.tidy import hoist
from polytc.schedule.facts.fusion_groups import is_contraction


@dataclass(frozen=True)
class Widened:
    """What a statement reads of a tensor is converted before: the read by its number among those that could be."""

    statement: str
    tensor: str
    read: int = 0


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The halves and bytes that contractions use often. Where sizes are open, a constant is chosen if it is used often for the
    typical ones, another tensor only if it is so for all."""
    chosen, why = list[Widened](), Reasons()
    fixed, uses = hoist.constants(program), machine.costs.copies.convert_uses
    for s, number, read in _candidates(program, machine):
        source = program.tensor(read.tensor)
        always = not program.sizes or source.name in fixed or _repeats(s, read) >= uses
        used = f"{source.name} of {read.dtype}: each element is used {s.points // max(1, source.size)} times"
        if s.points < uses * source.size or not always:
            why.declines(s.name, f"{used}, and a copy takes {uses}")
            continue
        why.acts(s.name, f"{used}, and converted once")
        chosen.append(Widened(s.name, source.name, number))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each read that may be converted before, that it is or not."""
    return [[Option(), Option((Widened(s.name, read.tensor, number),))] for s, number, read in _candidates(program, machine)]


def _candidates(program: pr.Program, machine: Machine) -> Iterator[tuple[pr.Statement, int, pr.Read]]:
    """The reads to convert, with their statements and numbers: those that no later step has better instructions for."""
    dots = machine.dots if not program.sizes else ()
    kinds = {F16, BF16} - {t for name in dots for t in (DOTS[name].a, DOTS[name].b)}
    kinds |= set() if dots and machine.multiplies_tiles("dot_bf16") else {I8, U8}
    for s in program.statements:
        yield from ((s, number, read) for number, (_, read) in enumerate(_conversions(s)) if read.dtype in kinds)


def widen(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with f32 copies of what the chosen reads convert."""
    tensors, statements = list(program.tensors), list[pr.Statement]()
    copies: dict[str, str] = {}
    for s in program.statements:
        found = _conversions(s)
        for conversion, read in [found[c.read] for c in decision.choices if c.statement == s.name]:
            source = program.tensor(read.tensor)
            if source.name not in copies:
                copies[source.name] = fresh(f"{source.name}_wide", {t.name for t in tensors})
                tensors.append(replace(source, name=copies[source.name], dtype=F32))
                label = fresh(f"{s.name}_{copies[source.name]}", {x.name for x in (*program.statements, *statements)})
                statements.append(_copy(source, copies[source.name], label))
            s = pr.replaced(s, conversion, _wide(read, copies[source.name]))
        statements.append(s)
        copies.pop(s.target, None)  # a later read sees another value
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def fits(program: pr.Program, machine: Machine, choice: Widened) -> str:
    """Why the read cannot be converted before; '' if it can."""
    reads = [read.tensor for _, read in _conversions(program.statement(choice.statement))]
    if 0 <= choice.read < len(reads) and reads[choice.read] == choice.tensor:
        return ""
    return f"the reads that can be are {', '.join(f'{n}: {t}' for n, t in enumerate(reads)) or 'none'}"


def _conversions(s: pr.Statement) -> list[tuple[pr.Cast, pr.Read]]:
    """The reads of halves and bytes in a contraction, with their conversions to f32; none of what decides what is read."""
    if not is_contraction(s) or s.bounds:
        return []
    found = ((e, e.a) for e in pr.walk(s.value) if isinstance(e, pr.Cast) and e.dtype == F32 and isinstance(e.a, pr.Read))
    return [(e, read) for e, read in dict.fromkeys(found)
            if read.dtype in (F16, BF16, I8, U8) and (read.default is None or read.dtype.is_half and _is_exact(read.default))]


def _is_exact(default: pr.Const) -> bool:
    """Is the number the same in halves of both types? The arithmetic rounds others to the type of the read."""
    fraction, exponent = frexp(default.value)
    return (fraction * 2**8).is_integer() and abs(exponent) < 14


def _repeats(s: pr.Statement, read: pr.Read) -> int:
    """Times that indices of fixed extents have the statement read each element, at least."""
    own = {e.name for e in pr.walk(read) if isinstance(e, pr.Index)}
    return prod(r.extent for r in s.ranges if r.index not in own and representative(r) is r)


def _copy(source: pr.Tensor, target: str, name: str) -> pr.Statement:
    """`target = f32(source)`, element by element."""
    indices = tuple(pr.Index(f"x{d}") for d in range(len(source.shape)))
    ranges = tuple(pr.Range(i.name, low, low + n) for i, low, n in zip(indices, source.lower, source.shape, strict=True))
    return pr.Statement(name, target, indices, None, pr.Cast(pr.Read(source.name, indices, source.dtype), F32), ranges)


def _wide(read: pr.Read, copy: str) -> pr.Read:
    """The read of the copy's element; what it is beyond the ends stays."""
    default = pr.Const(float(read.default.value), F32) if read.default is not None else None
    return replace(read, tensor=copy, dtype=F32, default=default)
