"""Counts: floats that are formulas of open sizes."""

from __future__ import annotations

from polytc.program.sizes import Size
from polytc.targets.opencl.counts import Count, at


def test_counts() -> None:
    n = Size.named("N", 100)
    trips = Count.trips((n + 15) // 16, {"N": 100})
    work = 64 + 2.5 * trips * trips - trips / 2
    assert isinstance(work, Count)
    assert float(work) == 64 + 2.5 * 49 - 3.5
    for size in (1, 16, 17, 1000):
        t = -(-size // 16)
        assert at(work, {"N": size}) == 64 + 2.5 * t * t - t / 2
    assert at(Count.trips(n - 50, {"N": 100}), {"N": 7}) == 0
    assert at(Count.whole_or_part((n + 15) // 16, {"N": 100}), {"N": 4}) == 0.25
    assert at(Count.whole_or_part(n // 16, {"N": 100}), {"N": 20}) == 1
    assert type(trips * 0) is float
    assert str(2.0 * trips + 1) == "2*((N + 15)//16) + 1"
