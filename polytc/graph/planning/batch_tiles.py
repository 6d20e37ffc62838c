"""The loop over the images of a batch around all calls of a plan, in tiles: a run goes through them for a few images after
another, so that what one call writes is still in a cache when the next one reads it.

    plan net(x: f32[32, 3, 224, 224])            16 times, each for the next part of x, y:
        t = Conv(x)                        ->        t: f32[2, 112, 112, 32] = Conv(x: f32[2, 3, 224, 224])
        y = Conv(t)                                  y = Conv(t)

It is strip-mining and interchange of the outermost loop, which all calls share; memory for intermediate values is that of a
tile. A tile of few images reads the weights more often: the estimate weighs that against what leaves the caches. A plan with a
call that touches no images stays whole, as that would run in each round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polytc.graph.plan import Array, Call, Plan
from polytc.graph.planning.image_programs import ImageProgram, separable
from polytc.machine import Estimate, Machine, estimates

ROUND = 50e-6
"""Seconds of a round besides its calls."""


def tile(plan: Plan, machine: Machine) -> Plan:
    """The plan in rounds, if that is estimated to take less time; else as it is."""
    batch = _Batch.of(plan)
    if batch is None:
        return plan
    times = {k: batch.time(k, machine).seconds for k in _sizes(batch.images, machine)}
    best = min(times, key=times.__getitem__)
    return batch.tiled(best) if best < batch.images else plan


def _sizes(images: int, machine: Machine) -> list[int]:
    """The tiles that there may be: whole ones, with an image for every second core at least; larger ones first."""
    return [k for k in range(images, 0, -1) if images % k == 0 and (k == images or 2 * k >= machine.cores)]


@dataclass(frozen=True)
class _Batch:
    """A plan that does the same for each image. split: the values of images, those that show others included; programs: of the
    calls, in order."""

    plan: Plan
    images: int
    split: frozenset[str]
    programs: tuple[ImageProgram, ...]

    @staticmethod
    def of(plan: Plan) -> _Batch | None:
        """None for a plan that is not known to be one."""
        first = next((plan.types[n].shape for n in plan.inputs if plan.types[n].shape), ())
        if not first or first[0] < 2 or plan.index_checks or any(c.guards for c in plan.calls):
            return None
        images, split, programs = first[0], set[str](), list[ImageProgram]()
        split |= {n for n in plan.inputs if plan.types[n].shape[:1] == (images,) and n not in plan.constants}
        for call in plan.calls:
            own = frozenset(i for i, n in zip(call.program.inputs, call.inputs, strict=True) if plan.base(n) in split)
            found = separable(call.program, own, images) if own else None
            if found is None or not found.tensors >= {*call.program.outputs}:
                return None
            programs.append(found)
            split |= {plan.base(n) for n in call.outputs}
        used = {*plan.inputs, *plan.outputs, *(n for c in plan.calls for n in (*c.inputs, *c.outputs))}
        every = frozenset(n for n in used | set(map(plan.base, used)) if plan.base(n) in split)
        whole = all(plan.types[n].shape and plan.types[n].shape[0] % images == 0 for n in every)
        return _Batch(plan, images, every, tuple(programs)) if whole and every.issuperset(plan.outputs) else None

    def time(self, some: int, machine: Machine) -> Estimate:
        """Of moving all bytes, in tiles of so many images. What a call reads and writes is near if both fit together."""
        weights = sum(a.nbytes for a in self.plan.constants.values())
        weights += sum(self.plan.types[n].bytes for n in self.plan.inputs if n not in self.split)
        rounds = self.images // some
        total = rounds * estimates.streamed(machine, weights) + Estimate(launches=rounds * ROUND)
        total += estimates.regions(machine, rounds * len(self.plan.calls))
        for call in self.plan.calls:
            touched = sum(self._bytes(call))
            total += estimates.moved(machine, touched, touched * some / self.images)
        return total

    def _bytes(self, call: Call) -> Iterator[int]:
        return (self.plan.types[n].bytes for n in {*call.inputs, *call.outputs} if n in self.split)

    def tiled(self, some: int) -> Plan:
        """The plan in rounds of so many images."""
        def part(name: str, t: Array) -> Array:
            return Array(t.dtype, (t.shape[0] // self.images * some, *t.shape[1:])) if name in self.split else t
        calls = tuple(replace(c, program=p.of(some)) for c, p in zip(self.plan.calls, self.programs, strict=True))
        return replace(self.plan, calls=calls, types={n: part(n, t) for n, t in self.plan.types.items()},
                       rounds=self.images // some, split=self.split)
