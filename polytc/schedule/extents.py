"""How many iterations a loop has."""

from __future__ import annotations

from typing import TypeAlias

import islpy

from polytc.lang import program as pr
from polytc.poly import isl
from polytc.poly.scop import Scop
from polytc.schedule.loopnest import Loop

Domains: TypeAlias = dict[str, tuple[pr.Statement, islpy.Set]]
"""Statement name -> the statement and its instances, where it has any."""


def domains(scop: Scop) -> Domains:
    """The instances of each statement."""
    known = {isl.name(s.name): s for s in scop.program.statements}
    return {known[d.get_tuple_name()].name: (known[d.get_tuple_name()], d) for d in isl.sets(scop.domain)}


def of(loop: Loop, instances: Domains) -> tuple[int, int]:
    """The smallest half-open range that holds all iterations of the loop; (0, 0) if there is none."""
    low: list[int] = []
    high: list[int] = []
    for r in loop.rows:
        if r.statement in instances:
            s, domain = instances[r.statement]
            value = islpy.PwAff.read_from_str(domain.get_ctx(), f"{{ {isl.instance(s)} -> [({isl.expr(r.value)})] }}")
            value = value.intersect_domain(domain)
            low.append(value.min_val().to_python())
            high.append(value.max_val().to_python())
    return (min(low), max(high) + 1) if low else (0, 0)
