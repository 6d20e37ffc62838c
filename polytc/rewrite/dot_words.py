"""Sums of products of narrow numbers become dot products of words, where the machine has them.

    C[i,j] += i32(A[i,k])*i32(B[k,j])                   with u8 A[64,64], i8 B[64,64] on vnni
    ->  A_words[x0,x1] = word(A[x0, 4*x1], ..., A[x0, 4*x1 + 3])
        B_words[x0,x1] = word(B[4*x0, x1], ..., B[4*x0 + 3, x1])
        C[i,j] += dot_u8i8(A_words[i, k], B_words[k, j]) where k in 0:16

    C[i,j] += i32(A[i,k])*i32(B[k,j])                   with i8 A[1024,1024], i8 B[1024,1024] on gpu
    ->  A_words[x0,x1] = word(A[x0, 4*x1], ...)
        B_words[x1,x0] = word(B[4*x0, x1], ...)
        C[i,j] += dot_i8i8(A_words[i, k], B_words[j, k]) where k in 0:256

A word holds what one lane of the instruction multiplies and adds (program.calls), so that the words are a contraction of 32-bit
numbers like any other: packing, register tiles and blocks follow as for f32, on GPUs tiles in local memory, and a matrix unit
where words lie along the sum. Whether that is worth it is estimated there (rewrite.word_estimates), and words need no kernel of
their own (rewrite.word_copies). A factor may be less a number that the sum does
not depend on, as the zero points of quantised tensors are; and where the instruction wants the other signedness, 128 is added
to a factor (its top bit flipped) and is such a number, too:

    sum (a - x) * (b - y)  =  sum a * b  -  x * sum b  -  y * sum a  +  n * x * y

All of it is exact, since integers wrap. (The offset is that of Jacob et al., Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference, CVPR 2018, section 2.3.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.calls.words import DOTS, Dot
from polytc.program.scalars import I8, I32, U8, U32, DType
from polytc.rewrite import word_estimates
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.rewrite.tidy import hoist
from polytc.rewrite.word_tensors import (
    Factor,
    Words,
    WordTensors,
    along,
    dimension,
    named,
    number,
    plain_target,
    total,
    whole_words,
)
from polytc.schedule.facts.fusion_groups import is_contraction, reduced_indices


@dataclass(frozen=True)
class DotWords:
    """A sum of products is one of such dot products, of words along the index. swapped: 1 if the instruction's first operand is
    the second factor. rows: 1 if words lie in rows along the index, as a GPU's matrix unit wants them."""

    statement: str
    dot: str
    along: str
    swapped: int = 0
    rows: int = 0


@dataclass(frozen=True)
class _Plan:
    """dot: of the words of a and b, in this order, along the reduced index `index`."""

    dot: Dot
    index: str
    a: Words
    b: Words


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The sums of products of narrow numbers that are used often enough."""
    chosen, why, fixed = list[DotWords](), Reasons(), hoist.constants(program)
    for s in program.statements if machine.dots else ():
        plan, told = _plan(program, s, fixed, machine, why), ""
        if plan is not None and machine.kind == "gpu":
            plan, told = _on_gpu(program, s, plan, fixed, machine, why)
        if plan is not None:
            why.acts(s.name, f"{plan.a.factor.read.tensor} and {plan.b.factor.read.tensor} in words along {plan.index}, "
                             f"for {plan.dot.name}{told}")
            chosen.append(_choice(s, plan, machine))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def group(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with dot products of words in the chosen statements."""
    for choice in decision.choices:
        s = program.statement(choice.statement)
        plan = next(p for p in _plans(program, s, decision.machine) if _choice(s, p, decision.machine) == choice)
        program = _applied(program, s, plan)
    return program


def fits(program: pr.Program, machine: Machine, choice: DotWords) -> str:
    """Why a sum cannot be made so; '' if it can."""
    s = program.statement(choice.statement)
    possible = [_choice(s, p, machine) for p in _plans(program, s, machine)]
    if choice in possible:
        return ""
    told = "; ".join(f"dot={c.dot} along={c.along} swapped={c.swapped}{' rows=1' * c.rows}" for c in possible)
    return f"possible are {told}" if told else f"the machine has no dot product of what {s.name} multiplies"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each sum of products, the dot products that it may be made of."""
    found = ((s, _plans(program, s, machine)) for s in program.statements if machine.dots)
    return [[Option(), *(Option((_choice(s, p, machine),)) for p in plans)] for s, plans in found if plans]


# ---- what is possible, and what is best

def _plan(program: pr.Program, s: pr.Statement, fixed: frozenset[str], machine: Machine, why: Reasons) -> _Plan | None:
    factors = _grouped(s, machine)
    if factors is None:
        _told(program, s, machine, why)
        return None
    if machine.kind == "gpu":
        return _best(program, s, fixed, machine)
    seldom = next((f.read.tensor for f in factors if f.read.tensor not in fixed
                   and s.points < machine.costs.copies.word_uses * program.tensor(f.read.tensor).size), None)
    if seldom is not None:
        why.declines(s.name, f"{seldom} in words: each of its numbers is used {s.points // program.tensor(seldom).size} times, "
                             f"and words take {machine.costs.copies.word_uses}")
        return None
    return _best(program, s, fixed, machine)


def _best(program: pr.Program, s: pr.Statement, fixed: frozenset[str], machine: Machine) -> _Plan | None:
    """That with the fewest steps, corrections, and bytes of the other sign."""
    return min(_plans(program, s, machine), default=None, key=lambda p: (
        -p.dot.group, _corrections(s, p, fixed), p.a.flipped + p.b.flipped))


def _on_gpu(program: pr.Program, s: pr.Statement, plan: _Plan, fixed: frozenset[str], machine: Machine, why: Reasons
            ) -> tuple[_Plan | None, str]:
    """The plan with words as they are best, and what it takes; None if multiply-adds take no longer."""
    tiled = word_estimates.is_tiled(_applied(program, s, plan), s.name, machine)
    found = word_estimates.Dots(program, s, plan.dot, (plan.a, plan.b), fixed, machine, tiled)
    plain, items, unit = word_estimates.multiply_adds(s, machine), found.by_items(), found.by_unit()
    told = [f"{plain.told} by multiply-adds of i32", f"{items.told} by {plan.dot.name}"]
    told += [f"{unit.told} by the matrix unit"] if unit is not None else []
    if min(e.seconds for e in (items, unit) if e is not None) >= plain.seconds:
        why.declines(s.name, f"{plan.dot.name}: {', '.join(told)}")
        return None, ""
    rows = unit is not None and unit.seconds < items.seconds
    turned = (replace(plan.a, rows=True), replace(plan.b, rows=True)) if rows else (plan.a, plan.b)
    return _Plan(plan.dot, plan.index, *turned), f": {', '.join(told)}"


def _told(program: pr.Program, s: pr.Statement, machine: Machine, why: Reasons) -> None:
    """Why a sum of products of bytes stays as it is."""
    factors = _factors(s, machine)
    if factors is None or machine.kind != "gpu" or not is_contraction(s):
        return
    what = "its terms have conditions" if s.where else f"it is `{s.op}=`, and no sum" if s.op != "+" else \
        "it adds to places that are no plain indices"
    why.declines(s.name, f"dot products of words: {what}")


def _choice(s: pr.Statement, plan: _Plan, machine: Machine) -> DotWords:
    factors = _factors(s, machine)
    swapped = factors is not None and plan.a.factor != factors[0]
    return DotWords(s.name, plan.dot.name, plan.index, int(swapped), int(plan.a.rows))


def _grouped(s: pr.Statement, machine: Machine) -> tuple[Factor, Factor] | None:
    """The factors of a sum of products, if words can take their place."""
    factors = _factors(s, machine)
    return None if s.op != "+" or s.where or not is_contraction(s) or not plain_target(s) else factors


def _plans(program: pr.Program, s: pr.Statement, machine: Machine) -> list[_Plan]:
    """What is possible for a statement."""
    plans, factors = list[_Plan](), _grouped(s, machine)
    if factors is None:
        return plans
    for dot in (DOTS[name] for name in machine.dots if DOTS[name].result == program.tensor(s.target).dtype):
        for a, b in (factors, factors[::-1]):
            index = along(program, s, factors, dot.group)
            if index is not None and _fits(a, dot.a) and _fits(b, dot.b) and all(
                    f.read.default is None or _inside(program, f, index, dot) for f in factors):
                count = whole_words(dot, index.extent, machine)
                for rows in (False, True) if word_estimates.has_unit(machine) else (False,):
                    words = (Words(f, kind, dimension(f.read, index.index), index.extent, count, rows=rows)
                             for f, kind in ((a, dot.a), (b, dot.b)))
                    plans.append(_Plan(dot, index.index, *words))
    return plans


def _factors(s: pr.Statement, machine: Machine) -> tuple[Factor, Factor] | None:
    """The two factors of the value, if it is the product of two narrow reads, widened."""
    if not isinstance(s.value, pr.Binary) or s.value.op != "*":
        return None
    a, b = _factor(s, s.value.a, machine), _factor(s, s.value.b, machine)
    return (a, b) if a is not None and b is not None else None


def _factor(s: pr.Statement, e: pr.Expr, machine: Machine) -> Factor | None:
    if isinstance(e, pr.Binary) and e.op in "+-" and e.dtype == I32:
        inside = _factor(s, e.a, machine)
        zero = e.b if e.op == "-" else number(-int(e.b.value)) if isinstance(e.b, pr.Const) else None
        fixed = not any(isinstance(x, pr.Index) and x.name in reduced_indices(s) for x in pr.walk(e.b))
        return replace(inside, zero=zero) if inside is not None and inside.zero is None and zero is not None and fixed else None
    if not isinstance(e, pr.Cast) or not isinstance(e.a, pr.Read) or e.a.dtype == e.dtype or e.a.gathers:
        return None
    return Factor(e.a) if e.a.default is None or machine.kind == "gpu" else None  # CPUs read padded copies (tidy.pad)


def _fits(f: Factor, kind: DType) -> bool:
    """Can the numbers be put into words of this kind? Those of i16 take bytes, too; those of bytes either sign."""
    of = f.read.dtype
    return of == kind or (of in (I8, U8) and kind.is_int)


def _inside(program: pr.Program, f: Factor, index: pr.Range, dot: Dot) -> bool:
    """Are all numbers of a word there, or none, where a read has a default?"""
    extent = program.tensor(f.read.tensor).shape[dimension(f.read, index.index)]
    return index.extent <= extent and index.extent % dot.group == 0


def _corrections(s: pr.Statement, plan: _Plan, fixed: frozenset[str]) -> int:
    """Steps of the sums that the zeros ask for in each call."""
    extent = s.extents
    asked = [x.factor.read for x, other in ((plan.a, plan.b), (plan.b, plan.a)) if other.zero is not None]
    return sum(prod(extent[i] for i in named(r)) for r in asked if r.tensor not in fixed)


# ---- the rewrite

def _applied(program: pr.Program, s: pr.Statement, plan: _Plan) -> pr.Program:
    new = WordTensors(program)
    a, b = (new.words(x) for x in (plan.a, plan.b))
    steps = tuple(pr.Range(r.index, 0, plan.a.count) if r.index == plan.index else r for r in s.ranges)
    update = replace(s, value=pr.Call(plan.dot.name, (a, b), plan.dot.result), ranges=steps)
    terms: pr.Expr | None = None
    if plan.a.zero is not None or plan.b.zero is not None:
        ones = pr.Const(sum(1 << n * plan.a.kind.bits for n in range(plan.dot.group)), U32)
        for other, words, args in ((plan.b, a, (a, ones)), (plan.a, b, (ones, b))):
            if other.zero is not None:
                summed = new.sum_of(replace(update, value=pr.Call(plan.dot.name, args, plan.dot.result)), words)
                terms = total(terms, _product(_product(number(-1), summed), other.zero))
        if plan.a.zero is not None and plan.b.zero is not None:
            points = prod(s.extents[i] for i in reduced_indices(s))
            terms = total(terms, _product(number(points), _product(plan.a.zero, plan.b.zero)))
    return new.program(s, terms, update)


def _product(a: pr.Expr, b: pr.Expr) -> pr.Expr:
    if isinstance(a, pr.Const) and isinstance(b, pr.Const):
        return number(int(a.value) * int(b.value))
    if isinstance(b, pr.Const) and isinstance(a, pr.Binary) and a.op == "*" and isinstance(a.a, pr.Const):
        return pr.Binary("*", number(int(a.a.value) * int(b.value)), a.b, I32)
    return pr.Binary("*", a, b, I32)
