"""What takes more bytes than what it is computed from is computed again by each program that reads it.

    a: y = dequantize(q);  b: z = y + x      ->      a: q;  b: y = dequantize(q), z = y + x

Memory then holds the narrow value alone: bytes in place of the f32 that a DequantizeLinear makes of them, f16 in place of f32.
Only element-wise arithmetic on one array is worth that, and only readers that take each element where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polytc.graph.plan import Call, Plan
from polytc.graph.planning.call_accesses import reads_same_rows, shape_of
from polytc.program import program as pr
from polytc.program.traces.traced import same_extents

LARGEST = 16
"""Statements of a program that takes in another one."""


def recompute(plan: Plan, groups: Sequence[list[Call]]) -> Plan:
    """The plan with the types of new values. groups: the calls of each program, in order, which are changed."""
    types = dict(plan.types)
    plan = replace(plan, types=types)
    kept = {*map(plan.base, plan.lasting), *plan.aliases.values()}
    for number, calls in enumerate(groups):
        for call in tuple(reversed(calls)):
            if not _widens(plan, call) or call.outputs[0] in kept:
                continue
            value = call.outputs[0]
            readers = [n for n, other in enumerate(groups) if n != number and any(value in c.inputs for c in other)]
            if not readers or not all(_suits(groups[n], value) for n in readers):
                continue
            for n in readers:
                own = f"{value}.again{n}"
                types[own] = types[value]
                groups[n][:] = [replace(call, outputs=(own,)), *(_reading(c, value, own) for c in groups[n])]
            if not any(value in c.inputs for c in calls):
                calls.remove(call)
    return plan


def _widens(plan: Plan, call: Call) -> bool:
    """Is it arithmetic that makes each element of one narrower array an element of its result?"""
    if len(call.outputs) != 1 or not shape_of(call.program).pointwise or any(
            isinstance(e, pr.Call) for s in call.program.statements for e in pr.walk(s.value)):
        return False
    result = plan.types[call.outputs[0]]
    read = [plan.types[n] for n in call.inputs if plan.base(n) not in plan.constants]
    return len(read) == 1 and same_extents(read[0].shape, result.shape) and read[0].bytes < result.bytes


def _suits(calls: Sequence[Call], value: str) -> bool:
    """May the programs of these calls, which read the value, take in what makes it?"""
    users = [c for c in calls if value in c.inputs]
    return all(shape_of(c.program).light and reads_same_rows(c, value) for c in users) \
        and sum(len(c.program.statements) for c in calls) < LARGEST


def _reading(call: Call, value: str, other: str) -> Call:
    """The call with another value in place of one."""
    return replace(call, inputs=tuple(other if n == value else n for n in call.inputs))
