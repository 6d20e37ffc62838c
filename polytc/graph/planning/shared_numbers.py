"""Programs of a plan that differ in numbers only become one program, to which the numbers are inputs.

    Y[i] = X[i]/0.11 + b[i]   and   Y[i] = X[i]/0.23 + b[i]     ->   Y[i] = X[i]/n[] + b[i]  of 0.11, and of 0.23

    Y[i] = u8(clamp(round(X[i]/0.11) + f32(u8(3)), 0, 255))     ->   Y[i] = u8(clamp(round(X[i]/n[]) + f32(m[]), 0, 255))

The scales and zero points of quantised models are such numbers. Only those that decide nothing are: float operands of
+ - * / that are neither whole, from which ranges and integers follow, nor powers of two, by which divisions become products;
and bytes that are added to or subtracted from floats, or from what becomes a float, which rewrite/tidy/rounding.py allows for.
Numbers that all programs of one form agree on stay.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from polytc.graph.plan import Array, Plan
from polytc.program import program as pr
from polytc.program.canonical import canonical
from polytc.program.names import fresh
from polytc.program.terms import Binary, Cast, Const, Expr, Read, children, rebuild
from polytc.program.traces.traced import traced
from polytc.rewrite.tidy.pad import drop_guards


@dataclass(frozen=True)
class _Form:
    """A program whose numbers are inputs behind its own. numbers: in the order of these inputs."""

    program: pr.Program
    numbers: tuple[Const, ...]


def share_numbers(plan: Plan) -> Plan:
    """The plan with calls of fewer programs."""
    forms = [_form(c.program, {}) for c in plan.calls]
    alike: dict[str, list[int]] = defaultdict(list)
    for k, form in enumerate(forms):
        if form.numbers:
            alike[canonical(form.program)].append(k)
    calls, types, constants = list(plan.calls), dict(plan.types), dict(plan.constants)
    names: dict[Const, str] = {}
    for members in alike.values():
        kept = _agreed([forms[k].numbers for k in members])
        for k in members if len(kept) < len(forms[members[0]].numbers) else ():
            made = _form(plan.calls[k].program, kept)
            for number in made.numbers:
                if number not in names:
                    names[number] = fresh(f"number_{number.value:g}", {*types, *names.values()})
                    types[names[number]] = Array(number.dtype, ())
                    constants[names[number]] = np.asarray(number.value, number.dtype.numpy)
            calls[k] = replace(calls[k], program=made.program,
                               inputs=(*calls[k].inputs, *(names[number] for number in made.numbers)))
    return replace(plan, calls=tuple(calls), types=types, constants=constants)


def _agreed(rows: Sequence[tuple[Const, ...]]) -> Mapping[int, Const]:
    """The places at which all have the same number."""
    return {k: column[0] for k, column in enumerate(zip(*rows, strict=True)) if len(set(column)) == 1}


def _form(program: pr.Program, kept: Mapping[int, Const]) -> _Form:
    """The program with its numbers as inputs, in order of appearance. kept: those that stay, by their places."""
    if not (program.sequential or program.dynamic):
        program = drop_guards(program)  # what stands for elements outside may be a zero point, too
    taken = {t.name for t in program.tensors}
    found: list[Const] = []
    inputs: dict[str, Const] = {}

    def put(e: Const) -> Expr:
        found.append(e)
        if len(found) - 1 in kept:
            return e
        name = fresh(f"number{len(inputs)}", taken)
        taken.add(name)
        inputs[name] = e
        return Read(name, (), e.dtype)

    def walk(e: Expr, to_float: bool = False) -> Expr:
        operands = children(e)
        if not operands:
            return e
        if isinstance(e, Binary) and e.op in ("+", "-", "*", "/"):
            return rebuild(e, tuple(number(x, e, to_float) or walk(x) for x in operands))
        return rebuild(e, tuple(walk(x, isinstance(e, Cast) and e.dtype.is_float) for x in operands))

    def number(x: Expr, around: Binary, to_float: bool) -> Expr | None:
        """What stands for an operand that is a number; to_float: what is made of both becomes a float."""
        if isinstance(x, Const) and _decides_nothing(x):
            return put(x)
        if isinstance(x, Cast) and isinstance(x.a, Const) and x.a.dtype.is_int and x.a.dtype.bits == 8:
            free = around.op in ("+", "-") and (around.dtype.is_float or to_float)
            return rebuild(x, (put(x.a),)) if free else None
        return None
    statements = tuple(replace(s, value=walk(s.value)) for s in program.statements)
    tensors = tuple(pr.Tensor(name, e.dtype, (), ()) for name, e in inputs.items())
    made = replace(program, tensors=(*program.tensors, *tensors), statements=statements, inputs=(*program.inputs, *inputs))
    return _Form(made, tuple(inputs.values()))


def _decides_nothing(e: Const) -> bool:
    value = e.value
    if traced(value) or not e.dtype.is_float:
        return False
    return math.isfinite(value) and value != int(value) and abs(math.frexp(value)[0]) != 0.5
