"""Factors that no reduced index names leave sums of floats: they are applied once to each result, not to each term.

    O[i,d] += E[i,j]/Z[i]*V[j,d]                        with E[64,64], Z[64], V[64,64]
    ->  O_unscaled[i,d] += E[i,j]*V[j,d];  O[i,d] = 0.0 + O_unscaled[i,d] / Z[i]

A division for each term takes longer than its sum, and what is left is often a contraction of two operands like any other.
Results are still added to what the target holds, 0 of a new one, so that updates of `inout` tensors, several updates of one
tensor and the signs of zeros are as written; and only where the sum has a term, so that nothing becomes 0/0 where it has none.
The rest is summed in the type of the value, which is f32 for halves.

A rewrite from Program to Program. docs/accuracy.md has its bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, prod

from polytc.machine import Machine
from polytc.poly.nonempty_sums import all_have_terms
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.names import Names, initialisation
from polytc.rewrite.long_sums import summed
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.fusion_groups import conditions_on, is_contraction

PRODUCTS = 16
"""Terms of a sum of products at least, for a mere multiplication to leave it: in plain sums, which wait for memory, it costs
nothing, and for short ones a pass over the results costs as much. Divisions, and factors with functions in them, leave all."""

Factors = tuple[tuple[str, pr.Expr], ...]
"""Factors and divisors in the order of the text, with `*` or `/` before each."""


@dataclass(frozen=True)
class Unscaled:
    """A sum is made without the factors that can leave it."""

    statement: str


@dataclass(frozen=True)
class _Parts:
    """What becomes of a sum. rest: the value of its terms; applied: the statement over all results, its value yet to come."""

    rest: pr.Expr
    factors: Factors
    applied: pr.Statement


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The statements whose sums are made without the factors that can be applied to their results, where that takes less time.
    Of open sizes the typical ones decide."""
    typical, chosen, why = numeric(program), list[Unscaled](), Reasons()
    for s, fixed in zip(program.statements, typical.statements, strict=True):
        over = summed(typical, fixed)
        parts = _parts(program, s, over)
        if parts is not None and _pays(s, parts, over, why) and _defined(program, s, parts, why):
            why.acts(s.name, f"`{_told(parts)}` leaves the sum over {', '.join(r.index for r in over)}")
            chosen.append(Unscaled(s.name))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def factor_out(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the factors of the chosen statements applied to the results of their sums."""
    names, chosen, typical = Names.of(program), {choice.statement for choice in decision.choices}, numeric(program)
    tensors, statements = list(program.tensors), list[pr.Statement]()
    for s, fixed in zip(program.statements, typical.statements, strict=True):
        parts = _parts(program, s, summed(typical, fixed)) if s.name in chosen else None
        if parts is None:
            statements.append(s)
            continue
        over = parts.applied.ranges
        tensors.append(pr.Tensor(names.label(f"{s.target}_unscaled"), s.value.dtype, tuple(r.extent for r in over),
                                 tuple(r.lower for r in over)))
        first = _start(program, s, parts.applied)
        statements = [x for x in statements if x is not first]
        statements += _statements(s, parts, tensors[-1], first, names)
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def fits(program: pr.Program, machine: Machine, choice: Unscaled) -> str:
    """Why nothing can leave a statement's sum; '' if something can."""
    typical, s = numeric(program), program.statement(choice.statement)
    parts = _parts(program, s, summed(typical, typical.statement(s.name)))
    if parts is None:
        return f"{s.name} has no factor that can leave a sum of floats"
    why = Reasons()
    return "" if _defined(program, s, parts, why) else why.rows[0].text


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each sum that factors can leave, that they do or not."""
    choices = (Unscaled(s.name) for s in program.statements)
    return [[Option(), Option((c,))] for c in choices if not fits(program, machine, c)]


# ---- what leaves

def _parts(program: pr.Program, s: pr.Statement, reduced: tuple[pr.Range, ...]) -> _Parts | None:
    """How a statement can be taken apart; None if it cannot. reduced: the ranges, of typical sizes, that it sums over."""
    terms, over = prod(r.extent for r in reduced), frozenset(r.index for r in reduced)
    rest, factors = _taken(s.value, over)
    if terms < 2 or rest is None or not factors or s.value.dtype != program.tensor(s.target).dtype:
        return None
    kept = tuple(r for r in s.ranges if r.index not in over)
    return _Parts(rest, factors, replace(s, ranges=kept, where=conditions_on(s, [r.index for r in kept])))


def _told(parts: _Parts) -> str:
    return " ".join(f"{op} {pr.format_expr(e)}" for op, e in parts.factors)


def _pays(s: pr.Statement, parts: _Parts, reduced: tuple[pr.Range, ...], why: Reasons) -> bool:
    """Does it save time?"""
    terms = prod(r.extent for r in reduced)
    if any(_slow(op, e) for op, e in parts.factors) or is_contraction(s) and terms >= PRODUCTS:
        return True
    why.declines(s.name, f"`{_told(parts)}`: beside a sum of {terms} terms a multiplication costs nothing")
    return False


def _defined(program: pr.Program, s: pr.Statement, parts: _Parts, why: Reasons) -> bool:
    """Has each result a term?"""
    if all_have_terms(program, s, parts.applied):
        return True
    why.declines(s.name, f"`{_told(parts)}`: some results may have no term, and would become 0/0")
    return False


def _taken(e: pr.Expr, reduced: frozenset[str]) -> tuple[pr.Expr | None, Factors]:
    """A product as the part that names reduced indices, if there is one, and its other factors."""
    if not any(isinstance(x, pr.Index) and x.name in reduced for x in pr.walk(e)):
        return None, (("*", e),)
    match e:
        case pr.Unary(op="-"):
            rest, factors = _taken(e.a, reduced)
            return pr.Unary("-", rest, e.dtype) if rest is not None else None, factors
        case pr.Binary(op="*"):
            (a, left), (b, right) = _taken(e.a, reduced), _taken(e.b, reduced)
            return a if b is None else b if a is None else pr.Binary("*", a, b, e.dtype), (*left, *right)
        case pr.Binary(op="/"):
            rest, factors = _taken(e.a, reduced)
            if rest is not None and _taken(e.b, reduced)[0] is None:
                return rest, (*factors, ("/", e.b))
    return e, ()


def _slow(op: str, factor: pr.Expr) -> bool:
    """Does the factor cost a term more than a multiplication by what is read or known?"""
    number = factor.value if isinstance(factor, pr.Const) and not isinstance(factor.value, complex) else None
    halving = number is not None and abs(frexp(number)[0]) == 0.5  # a product with an exact reciprocal
    inside = any(isinstance(e, pr.Call) or isinstance(e, pr.Binary) and e.op == "/" for e in pr.walk(factor))
    return inside or op == "/" and not halving


# ---- the rewrite

def _start(program: pr.Program, s: pr.Statement, applied: pr.Statement) -> pr.Statement | None:
    """The statement that makes the target's elements 0, if `applied`, in place of `s`, then writes each of them once, nothing
    else does, and all reads come later."""
    t, place = program.tensor(s.target), program.statements.index(s)
    before, later = (tuple(x for x in part if t.name in (x.target, *(r.tensor for r in pr.reads(x))))
                     for part in (program.statements[:place], program.statements[place + 1:]))
    if len(before) != 1 or any(x.target == t.name for x in later) or t.name in program.inputs or applied.where:
        return None
    first, ranges = before[0], dict(applied.by_index)
    if first.target != t.name or first.op is not None or not isinstance(first.value, pr.Const) or first.value.value != 0:
        return None
    own = [ranges.pop(sub.name, None) if isinstance(sub, pr.Index) else None for sub in s.subscripts]
    whole = not ranges and all(r is not None and (r.lower, r.extent) == (low, extent)
                               for r, low, extent in zip(own, t.lower, t.shape, strict=True))
    return first if whole else None


def _statements(s: pr.Statement, parts: _Parts, rest: pr.Tensor, first: pr.Statement | None, names: Names
                ) -> list[pr.Statement]:
    """The sum of the rest, and what adds it with its factors to the target, or to what `first` writes there."""
    applied, cell = parts.applied, tuple(pr.Index(r.index) for r in parts.applied.ranges)
    value: pr.Expr = pr.Read(rest.name, cell, rest.dtype)
    for op, factor in parts.factors:
        value = pr.Binary(op, value, factor, rest.dtype)
    if first is not None:
        value = pr.Binary("+", first.value, value, rest.dtype)
    start = replace(applied, name=names.label(initialisation(f"{s.name}_unscaled")), target=rest.name, subscripts=cell, op=None,
                    value=pr.Const(0.0, rest.dtype))
    total = replace(s, name=names.label(f"{s.name}_unscaled"), target=rest.name, subscripts=cell, value=parts.rest)
    return [start, total, replace(applied, op=s.op if first is None else None, value=value)]
