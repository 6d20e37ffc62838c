"""Programs of a plan that differ in numbers only become one program, to which the numbers are inputs.

    Y[i] = X[i]*0.11 + b[i]   and   Y[i] = X[i]*0.23 + b[i]     ->   Y[i] = X[i]*n[] + b[i]  of 0.11, and of 0.23

    Y[i] = u8(clamp(round(X[i]/0.11) + f32(u8(3)), 0, 255))
    ->   Y[i] = u8(clamp(round(X[i]/clamp(n[], 1e-18, 1e+18)) + f32(m[]), 0, 255))

The scales and zero points of quantised models are such numbers. Only those that decide nothing are: float operands of
+ - * / that are neither whole, from which ranges and integers follow, nor powers of two, by which divisions become products;
and bytes that are added to or subtracted from floats, or from what becomes a float, which rewrite/tidy/rounding.py allows for.
The divisor of a quotient that is rounded says between what it lies, so that code need not divide (targets/llvm/quotients.py);
one that is far from 1 stays. Numbers that all programs of one form agree on stay; those that are equal to another one in each
program are that one.
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
from polytc.program.scalars import F32
from polytc.program.terms import Binary, Call, Cast, Const, Expr, Read, children, rebuild
from polytc.program.traces.traced import traced
from polytc.rewrite.tidy.pad import drop_guards

ENDS = (1e-18, 1e18)
"""Of the divisors that programs share."""


@dataclass(frozen=True)
class _Form:
    """A program whose numbers are inputs behind its own. numbers: in the order of these inputs."""

    program: pr.Program
    numbers: tuple[Const, ...]


def share_numbers(plan: Plan) -> Plan:
    """The plan with calls of fewer programs."""
    forms = [_form(c.program, {}, {}) for c in plan.calls]
    alike: dict[tuple[str, int], list[int]] = defaultdict(list)  # what is a number in one may be an input in another
    for k, form in enumerate(forms):
        if form.numbers:
            alike[canonical(form.program), len(form.numbers)].append(k)
    calls, types, constants = list(plan.calls), dict(plan.types), dict(plan.constants)
    names: dict[Const, str] = {}
    for members in alike.values():
        rows = [forms[k].numbers for k in members]
        kept, first = _agreed(rows), _first_equal(rows)
        for k in members if len(kept) < len(rows[0]) else ():
            made = _form(plan.calls[k].program, kept, first)
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


def _first_equal(rows: Sequence[tuple[Const, ...]]) -> Mapping[int, int]:
    """Place -> the first place at which each has the same number as there."""
    columns = list(zip(*rows, strict=True))
    return {k: columns.index(column) for k, column in enumerate(columns)}


def _form(program: pr.Program, kept: Mapping[int, Const], first: Mapping[int, int]) -> _Form:
    """The program with its numbers as inputs, in order of appearance. kept: those that stay, by their places; first: the place
    of the input that stands at a place, if it is not its own."""
    if not (program.sequential or program.dynamic):
        program = drop_guards(program)  # what stands for elements outside may be a zero point, too
    taken = {t.name for t in program.tensors}
    inputs: dict[str, Const] = {}
    names = list[str]()

    def put(e: Const, divides: bool = False) -> Expr:
        place = len(names)
        if place in kept:
            names.append("")
            return e
        equal = first.get(place, place)
        name = names[equal] if equal < place else fresh(f"number{len(inputs)}", taken)
        names.append(name)
        taken.add(name)
        inputs[name] = e
        read = Read(name, (), e.dtype)
        return Call("clamp", (read, *(Const(end, e.dtype) for end in _around(e.value))), e.dtype) if divides else read

    def walk(e: Expr, around: Expr | None = None) -> Expr:
        operands = children(e)
        if not operands:
            return e
        if isinstance(e, Binary) and e.op in ("+", "-", "*", "/"):
            return rebuild(e, tuple(number(x, e, around) or walk(x, e) for x in operands))
        return rebuild(e, tuple(walk(x, e) for x in operands))

    def number(x: Expr, around: Binary, outside: Expr | None) -> Expr | None:
        """What stands for an operand that is a number; outside: the expression whose operand both are."""
        to_float = isinstance(outside, Cast) and outside.dtype.is_float
        rounded = isinstance(outside, Call) and outside.fn == "round" and outside.dtype == F32
        divides = rounded and around.op == "/" and x is around.b
        if isinstance(x, Const) and _decides_nothing(x) and not (divides and _around(x.value) == ()):
            return put(x, divides)
        if isinstance(x, Cast) and isinstance(x.a, Const) and x.a.dtype.is_int and x.a.dtype.bits == 8:
            free = around.op in ("+", "-") and (around.dtype.is_float or to_float)
            return rebuild(x, (put(x.a),)) if free else None
        return None
    statements = tuple(replace(s, value=walk(s.value)) for s in program.statements)
    tensors = tuple(pr.Tensor(name, e.dtype, (), ()) for name, e in inputs.items())
    made = replace(program, tensors=(*program.tensors, *tensors), statements=statements, inputs=(*program.inputs, *inputs))
    return _Form(made, tuple(inputs.values()))


def _around(divisor: float) -> tuple[float, ...]:
    """Ends that the reciprocals of numbers between them are far from overflow and underflow for; none for other numbers."""
    low, high = ENDS if divisor > 0 else (-ENDS[1], -ENDS[0])
    return (low, high) if low <= divisor <= high else ()


def _decides_nothing(e: Const) -> bool:
    value = e.value
    if traced(value) or not e.dtype.is_float:
        return False
    return math.isfinite(value) and value != int(value) and abs(math.frexp(value)[0]) != 0.5
