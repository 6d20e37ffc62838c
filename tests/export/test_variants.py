"""Exports with several variants of a program of open sizes: which there are, and what they are estimated to take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import pytest

import polytc
from polytc.cli import options
from polytc.errors import ArgumentError
from polytc.export import bundle, planning, variants
from polytc.export.bundle import Bundle
from polytc.machine import DEVICES
from polytc.program.sizes import representative, with_products
from polytc.targets import registry
from polytc.targets.opencl import estimate, launch_times, warp_traffic
from polytc.targets.opencl.target import OpenCLTarget
from tests.export.test_refusals import library, session  # noqa: F401
from tests.export.variants_here import MATMUL, POINTS, SHAPES, SM90, SOFTMAX, of, program, seconds

# ---- which there are

def test_a_program_is_planned_for_many_sizes_and_few_plans_stay() -> None:
    made = variants.of_program(program(), OpenCLTarget(SM90), "mm", limit=3)
    assert 2 <= len(made.variants) <= 3
    plans = [[str(e) for e in v.units[0].lowered.decisions.entries if e.step == "local_tiles"] for v in made.variants]
    assert len({str(p) for p in plans}) == len(plans)
    assert any("by=parts" in line for p in plans for line in p), "few results and many terms are divided"
    assert any("by=parts" not in str(p) and "by=tiles" in str(p) for p in plans), "large products are not"
    one_plan = bundle.of_program(program(), OpenCLTarget(SM90))
    for point, most in (({"I": 64, "K": 4096, "J": 64}, 0.5), ({"I": 4096, "K": 4096, "J": 4096}, 1.05)):
        own, one = (min(seconds(v, point) for v in b.variants) for b in (made, one_plan))
        assert own < most * one, point
    assert "Planned for" in made.about[0]


def test_those_that_are_asked_for_and_no_others() -> None:
    made = of()
    assert [v.model.typical for v in made.variants if v.model] == POINTS
    assert len(of(limit=2).variants) == 2
    assert len(of(points=POINTS[:1]).variants) == 1
    assert of(points=[{"I": 2048}, {"I": 2048}]).others == ()                  # the same plan
    assert variants.of_program(program(), registry.target("c")).others == ()
    assert variants.of_program(polytc.build(MATMUL, {"A": (8, 9), "B": (9, 7)}), OpenCLTarget(SM90), limit=3).others == ()
    record = "polytc decisions 1\nlocal_tiles: none"
    assert of(schedule=record).others == ()
    with pytest.raises(ArgumentError, match="no size"):
        of(points=[{"M": 3}, {"I": 5}])
    with pytest.raises(ArgumentError, match="variants is a number from 1"):
        of(limit=0)


def test_each_makes_up_for_what_the_others_lose() -> None:
    """A plan that is the best at one point by far is there, one that is never better is not."""
    def plan(*seconds: float) -> planning.Plan:
        return planning.Plan({}, None, (), seconds)
    even, left, right, worse = plan(2, 2, 2), plan(1, 9, 9), plan(9, 1, 1), plan(2, 2, 3)
    assert variants._cover([worse, even, left, right], 4) == [right, left]
    assert variants._cover([worse, even, left, right], 1) == [even]
    assert len(variants._cover([even, plan(1.99, 2, 2)], 4)) == 1
    assert variants._cover([even, left, right], 2, [even])[0] is even


@pytest.mark.parametrize(("count", "extents"), [
    (2, (1, 4096)), *(pytest.param(n, (1, 64, 4096), marks=pytest.mark.long) for n in (2, 3))])
def test_forks_plan_the_same(count: int, extents: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    built, target = program(), OpenCLTarget(SM90)
    points = [{"I": i, "K": k, "J": 64} for i in extents for k in (*extents, 1 << 16)]

    def planned(number: int) -> list[planning.Plan]:
        monkeypatch.setenv("POLYTC_PROCESSES", str(number))
        return planning.of_points(built, target, points, POINTS)
    alone, shared = planned(1), planned(count)
    assert len(alone) >= 2 * len(extents) - 1
    assert [(p.typical, p.launches, p.seconds) for p in alone] == [(p.typical, p.launches, p.seconds) for p in shared]
    assert all(p.lowered is not None and not p.lowered.source.text for p in alone)
    for a, b in zip(alone, shared, strict=True):
        texts = [planning.whole(p, built, target).source.text for p in (a, b)]
        assert texts[0] == texts[1] != ""


def test_what_was_decided_before_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, count = list[str](), launch_times.of_source
    monkeypatch.setenv("POLYTC_PROCESSES", "1")

    def watched(source: Any, *rest: Any) -> Any:
        made.append(str(source.module))
        return count(source, *rest)
    monkeypatch.setattr(launch_times, "of_source", watched)
    points = [{"I": n, "K": n, "J": n} for n in (2048, 2048, 2000, 64)]
    assert len(planning.of_points(program(), OpenCLTarget(SM90), points, POINTS)) == len(set(made)) == len(made) == 2


PREFIX = """def prefix(f32[n] v) -> (P) {
    P[i] = v[i] where i in 0:1
    for i in 1:n { P[i] = P[i-1] + v[i] }
}"""


@pytest.mark.part(3)
@pytest.mark.parametrize("machine", ["nvidia-sm90", "amd-gfx90a", "mali"])
def test_a_loop_without_iterations_at_a_typical_size(machine: str) -> None:
    target, points = OpenCLTarget(DEVICES[machine]), [{"n": 1}, {"n": 1 << 20}]
    made = variants.of_program(program(PREFIX, {"v": ("n",)}), target, typical=points)
    assert made.sizes == ("n",)


def test_points_of_the_command_line() -> None:
    assert options.points(["I=64", "J=1"]) == [{"I": 64, "J": 1}]
    assert options.points(["I=64,J=1", "I=512"]) == [{"I": 64, "J": 1}, {"I": 512}]
    assert options.points(None) == []


# ---- estimates as formulas

def exact(v: Bundle, point: Mapping[str, int]) -> float:
    """The estimate with everything counted at these sizes."""
    low = v.units[0].lowered
    known, total = with_products(point, low.source.module.products), 0.0
    assert v.model is not None
    for launch, kernel, x in zip(low.source.launches, low.source.module.kernels, v.model.launches, strict=True):
        traffic = warp_traffic.count(representative(kernel), launch.local_size, SM90, known)
        assert traffic is not None
        moved = sum(polytc.program.extents.at(n, known) for n in x.arrays)
        found = estimate.estimate(launch_times.with_tests(traffic, SM90), x.groups(known), x.resident, moved, SM90,
                                  estimate.rates_of(SM90))
        total += SM90.costs.launches.launch + found.seconds
    return total


@pytest.mark.part(3)
@pytest.mark.parametrize(("text", "shapes", "points"), [
    (MATMUL, SHAPES, POINTS),
    (SOFTMAX, {"X": ("n", "m"), "b": ("m",)}, [{"n": 4096, "m": 512}, {"n": 16, "m": 1 << 16}]),
    ("S[i] += X[i,j]", {"X": ("n", "m")}, [{"n": 4096, "m": 512}, {"n": 1, "m": 1 << 20}, {"n": 1 << 20, "m": 4}])])
def test_formulas_choose_as_counting_would(text: str, shapes: Any, points: Any) -> None:
    made = of(text, shapes, points)
    assert len(made.variants) == len(points)
    losses = []
    for values in itertools.product((1, 100, 5000), repeat=len(made.sizes)):
        point = dict(zip(points[0], values, strict=True))
        by_formula, counted = [seconds(v, point) for v in made.variants], [exact(v, point) for v in made.variants]
        losses.append(counted[by_formula.index(min(by_formula))] / min(counted))
    assert sum(losses) / len(losses) < 1.1
    assert sorted(losses)[len(losses) * 9 // 10] < 1.5


def test_a_large_launch_is_counted_right() -> None:
    for v in of().variants:
        point = {n: max(x, 512) for n, x in {"I": 8192, "K": 16384, "J": 8192}.items()}
        if math.isfinite(seconds(v, point)) and v.model is not None and not v.model.launches[0].near:
            assert abs(seconds(v, point) / exact(v, point) - 1) < 0.05
