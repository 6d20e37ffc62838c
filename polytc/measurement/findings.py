"""What was measured, put into a machine: each number with the field it belongs to, and how it was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from polytc.machine import Machine
from polytc.machine.quantities import quantities

WHOLE = ("fma_latency", "fma_ports", "load_ports")
"""Fields of the machine itself that are whole numbers."""


@dataclass(frozen=True)
class Finding:
    """field: 'clock', or a cost such as 'threads.region'; '' for what is told and decides nothing. value: in the field's unit.
    how: it was measured."""

    field: str
    value: float
    how: str
    unit: str = ""


def measured(machine: Machine, findings: Iterable[Finding], where: str) -> Machine:
    """The machine with what was found, rounded to three digits; its other fields as they are. where: it was measured."""
    costs = {q.name: q.value for q in quantities(machine.costs)}
    own, found, origins = dict[str, float](), dict[str, float](), dict(machine.origins)
    for f in findings:
        if not f.field:
            continue
        value = float(f"{f.value:.3g}")
        if f.field in costs:
            found[f.field] = max(1, round(value)) if isinstance(costs[f.field], int) else value
            origins[f"costs.{f.field}"] = f"measured: {f.how}, on {where}"
        else:
            own[f.field] = max(1, round(value)) if f.field in WHOLE else value
            origins[f.field] = f"measured: {f.how}, on {where}"
    changed: Machine = replace(machine, **own, origins=tuple(origins.items()))  # type: ignore[arg-type]
    return changed.costing(found)
