"""Calls of branches among those of a plan: how they are skipped, and what of the plan may be changed at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from polytc.graph.plan import Array, Call, Guard, Plan


def guard_jumps(guards: Sequence[tuple[Guard, ...]]) -> list[tuple[int | Guard, int]]:
    """The numbers of steps that have these guards, in order, each guard before the steps in a row that share it, with how many
    rows of this list it guards; 0 beside steps.

        [(), (p,), (p, q)]   ->   (0, 0), (p, 3), (1, 0), (q, 1), (2, 0)
    """
    def rows(steps: Sequence[int], depth: int) -> list[tuple[int | Guard, int]]:
        found: list[tuple[int | Guard, int]] = []
        for guard, members in itertools.groupby(steps, lambda k: guards[k][depth] if depth < len(guards[k]) else None):
            if guard is None:
                found += [(k, 0) for k in members]
            else:
                inner = rows(list(members), depth + 1)
                found += [(guard, len(inner)), *inner]
        return found
    return rows(range(len(guards)), 0)


def change_branches(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """The plan with the calls of each branch, and those between branches, changed without the others.

    change: may put other calls in place of a plan's, which make the same outputs.
    """
    pieces = [tuple(members) for _, members in itertools.groupby(plan.calls, lambda c: c.guards)]
    if all(not c.guards for c in plan.calls):
        return change(plan)
    merged = {n for c in plan.calls for n in c.outputs if n in plan.aliases}
    views = {n: base for n, base in plan.aliases.items() if n not in merged}
    calls: list[Call] = []
    types: dict[str, Array] = dict(plan.types)
    for k, own in enumerate(pieces):
        others = [c for n, piece in enumerate(pieces) if n != k for c in piece]
        changed = change(_piece(plan, own, others, merged, views))
        calls += [replace(c, guards=own[0].guards) for c in changed.calls]
        types |= changed.types
    return replace(plan, calls=tuple(calls), types=types)


def _piece(plan: Plan, own: Sequence[Call], others: Sequence[Call], merged: set[str], views: Mapping[str, str]) -> Plan:
    """Calls of a plan as a plan of their own. others: all other calls; merged: values that are what a branch makes of another
    one; views: all other aliases."""
    made = [n for c in own for n in c.outputs]
    read = {n for c in others for n in (*c.inputs, *(g.value for g in c.guards))}
    outside = {plan.base(n) for n in (*read, *plan.lasting)}
    outputs = tuple(n for n in made if n in merged or n in outside)
    inputs = tuple(dict.fromkeys(n for c in own for n in c.inputs if n not in made and n not in plan.constants))
    return replace(plan, calls=tuple(own), inputs=inputs, outputs=outputs, aliases=views)
