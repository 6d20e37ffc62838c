"""A plan as it is compiled: bands of constants, layouts, fusion, and numbers that programs share, in this order."""

from __future__ import annotations

from polytc.graph.plan import Plan
from polytc.graph.planning import banded_constants, layouts
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.planning.shared_numbers import share_numbers
from polytc.machine import Machine


def prepared(plan: Plan, machine: Machine | None, *, bands: bool = True, fusion: bool = True) -> Plan:
    """The plan for given sizes. machine: whose vectors decide how inner values are stored, as the model says for None."""
    plan = banded_constants.compute_bands(plan) if bands else plan
    plan = layouts.choose(plan, machine) if machine is not None else plan
    return share_numbers(fuse(plan)) if fusion else plan
