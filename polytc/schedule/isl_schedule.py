"""isl's affine scheduler, bounded, with program order to fall back on."""

from __future__ import annotations

import islpy

from polytc.poly import isl, scheduler
from polytc.poly.dependences import Dependences
from polytc.poly.scop import Scop
from polytc.schedule import transforms
from polytc.schedule.tree import Schedule, checked

TILE = 32


def schedule(scop: Scop, deps: Dependences) -> Schedule:
    """Validity from the order, coincidence from all dependences, proximity from flow (Verdoolaege & Janssens, Scheduling for
    PPCG, 2017); the outermost permutable band is tiled and its coincident tile loops run in parallel.

    When the scheduler's budget is exceeded, or the check's, or isl gives up, the result is program order, and `how` says so.
    """
    constraints = (islpy.ScheduleConstraints.on_domain(scop.domain).set_validity(deps.order)
                   .set_coincidence(deps.all).set_proximity(deps.flow))
    try:
        found = Schedule(scheduler.find(constraints, scheduler.NUMERIC_ATTEMPTS), "isl's scheduler, outer bands tiled")
        return isl.bounded(scop.ctx, isl.BUDGET, lambda: checked(transforms.tile_outer_bands(found, TILE), deps))
    except isl.QuotaExceeded as e:
        return Schedule(scop.original, f"program order: isl's scheduler needs {e}")
    except isl.Unschedulable as e:
        return Schedule(scop.original, f"program order: {e}")
