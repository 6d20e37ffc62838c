"""How long isl's scheduler may take: by operations, and by time where an operation takes long."""

from __future__ import annotations

import time

import islpy

from polytc.poly import isl

FIRST = 50_000
"""isl operations of a first attempt."""
GROWTH, CAREFUL = 1.7, 1.3
"""Operations of an attempt over those of the one before; and where numbers become long, so that the last one is short."""
USUAL = 0.6e-6
"""Seconds an operation, twice the usual, from which on numbers become long."""
PATIENCE = 3e-6
"""Seconds an operation of an attempt behind which there is no other."""


def patiently(ctx: islpy.Context, constraints: islpy.ScheduleConstraints, most: int) -> islpy.Schedule:
    """What isl's scheduler finds within `most` operations, some more in each attempt, few where they become slow: an operation
    on long numbers takes a thousand times as long as others, so that their number alone bounds no time. Raises
    isl.QuotaExceeded, isl.Unschedulable."""
    operations = min(most, FIRST)
    while True:
        begun = time.thread_time()
        try:
            return isl.bounded(ctx, operations, lambda: isl.schedule(constraints))
        except isl.QuotaExceeded:
            taken = time.thread_time() - begun
            if operations >= most or taken > PATIENCE * operations + 0.05:
                raise
        operations = min(most, int((GROWTH if taken < USUAL * operations else CAREFUL) * operations))
