"""Which results of a sum have a term."""

from __future__ import annotations

import islpy

from polytc.poly import isl
from polytc.program import program as pr


def all_have_terms(program: pr.Program, s: pr.Statement, applied: pr.Statement) -> bool:
    """Has each result that `applied` writes a term in the sum `s`, whatever the sizes? False where isl does not find out."""
    if not s.where and not program.sizes:
        return all(r.extent > 0 for r in s.ranges)
    ctx, given = isl.new_context(), isl.parameters(program)

    def proved() -> bool:
        terms, results = (islpy.Set.read_from_str(ctx, f"{given}{{ {isl.domain(x)} }}") for x in (s, applied))
        for place in reversed(range(len(s.ranges))):
            if s.ranges[place] not in applied.ranges:
                terms = terms.project_out(islpy.dim_type.set, place, 1)
        known = islpy.Set.read_from_str(ctx, f"{given}{{ : {isl.facts(program)} }}")
        return bool(results.intersect_params(known).is_subset(terms.set_tuple_name(isl.name(s.name))))
    try:
        return isl.bounded(ctx, isl.BUDGET, proved)
    except isl.QuotaExceeded:
        return False
