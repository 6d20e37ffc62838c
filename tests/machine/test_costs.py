"""Costs: numbers with a unit and an origin; estimates: seconds by named parts."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

import polytc
from polytc.machine import AVX2, AVX512, GENERIC_CPU, GENERIC_GPU, Cache, Estimate, estimates
from polytc.machine.costs import COSTS
from polytc.machine.quantities import quantities

UNITS = {"cycles", "cycles/byte", "bytes/cycle", "bytes/second", "bytes", "seconds", "ratio", "loads", "uses", "elements",
         "elements moved", "multiply-adds", "steps", "vectors", "instances", "work-items", "groups", "banks"}


def test_each_number_says_what_it_is_and_where_it_is_from() -> None:
    found = list(quantities(COSTS))
    assert len({q.name for q in found}) == len(found) > 50
    for q in found:
        assert q.unit in UNITS, q.name
        assert q.origin.kind in ("measured", "documented", "guess"), q.name
        assert q.what
        assert q.origin.told
        assert q.value >= 0


def test_every_cost_is_read_somewhere() -> None:
    """A field that no decision reads would be measured for nothing."""
    root = Path(polytc.__file__).parent
    text = "\n".join(p.read_text() for p in root.rglob("*.py") if p.name not in ("costs.py", "device_costs.py"))
    text += (root / "machine" / "costs.py").read_text().partition("class Costs")[2]
    missing = [q.name for q in quantities(COSTS) if f".{q.name.partition('.')[2]}" not in text]
    assert not missing


def test_other_costs_are_another_machine() -> None:
    dear = AVX2.costing({"threads.region": 1.0, "launches.launch": 2.0})
    assert (dear.costs.threads.region, dear.costs.launches.launch) == (1.0, 2.0)
    assert dear != AVX2
    assert repr(dear) != repr(AVX2), "the key of compiled code has the machine's text"
    assert dear.costing({"threads.region": 9000.0, "launches.launch": 5e-6}) == AVX2
    with pytest.raises(FrozenInstanceError):
        dear.costs.threads.region = 3.0  # type: ignore[misc]


def test_estimates_are_sums_of_parts() -> None:
    a, b = Estimate(arithmetic=9e-7), Estimate(second=4e-7)
    assert (a + b).seconds == pytest.approx(1.3e-6)
    assert str(a + b) == "1.3 us: arithmetic 0.9, second 0.4"
    assert (2 * (a + b)).second == pytest.approx(8e-7)
    assert ((a + b) / 2).arithmetic == pytest.approx(4.5e-7)
    assert str(Estimate()) == "0 ns"
    assert str(Estimate(launches=2.5)) == "2.5 s: launches 2.5"
    assert str(Estimate(memory=0.0123)) == "12 ms: memory 12"
    assert str(Estimate(threads=123.4e-6)) == "123 us: threads 123"


@pytest.mark.parametrize("part", [f.name for f in fields(Estimate)])
def test_each_part_counts(part: str) -> None:
    assert replace(Estimate(), **{part: 2.0}).seconds == 2.0
    assert str(replace(Estimate(), **{part: 2.0})) == f"2 s: {part} 2"


def test_bytes_come_from_the_smallest_memory_that_holds_them() -> None:
    sizes = [c.bytes for c in AVX512.caches]
    parts = ("first", "second", "third", "memory")
    for part, size in zip(parts, (*sizes, sizes[-1] + 1), strict=True):
        found = estimates.moved(AVX512, 1000, size)
        assert found == replace(Estimate(), **{part: getattr(AVX512.costs.traffic, part) * 1000 / AVX512.clock})
    two = estimates.moved(GENERIC_CPU, 1000, 1 << 30)
    assert two.memory > 0
    assert two.third == 0
    four = replace(AVX512, caches=(*AVX512.caches, Cache(1 << 30, 16, 64)))
    assert estimates.moved(four, 1000, 1 << 29).seconds == estimates.moved(AVX512, 1000, 1 << 29).seconds


def test_what_is_read_once_comes_from_the_cache_that_it_half_fills() -> None:
    second, third = AVX512.caches[1].bytes, AVX512.caches[2].bytes
    assert estimates.streamed(AVX512, second // 2).second > 0
    assert estimates.streamed(AVX512, second // 2 + 1).third > 0
    assert estimates.streamed(AVX512, third // 2 + 1).memory > 0
    assert estimates.streamed(GENERIC_CPU, 1 << 30).memory > 0


def test_the_clock_makes_seconds_of_cycles() -> None:
    fast = replace(AVX2, clock=2 * AVX2.clock)
    assert estimates.arithmetic(fast, 100).seconds * 2 == estimates.arithmetic(AVX2, 100).seconds
    assert estimates.regions(fast, 3).threads == pytest.approx(3 * 9000 / fast.clock)
    assert GENERIC_GPU.costs is COSTS
