"""Sizes of tiles of bands: none of them alone can be changed for a better one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc.lang import build
from polytc.machine import AVX2, Machine
from polytc.poly import dependences, nest, scheduler, scop
from polytc.program import program as pr
from polytc.schedule.facts import bands, scheduler_constraints
from polytc.schedule.tiling import point_loops, tile_sizes

SMALL = replace(AVX2, caches=tuple(replace(c, bytes=c.bytes // 64) for c in AVX2.caches))
HEAT = """def heat(inout f32[N,M] A, f32[T] w) -> (A) {
    for t in 0:T {
        B[i,j] = w[t] * (A[i-1,j] + A[i,j-1] + A[i,j+1] + A[i+1,j]) where i in 1:N-1, j in 1:M-1
        A[i,j] = B[i,j] where i in 1:N-1, j in 1:M-1
    }
}"""
SEIDEL = """def seidel(inout f32[N,M] A, f32[T] w) -> (A) {
    for t in 0:T {
        for i in 1:N-1 {
            for j in 1:M-1 {
                A[i,j] = w[t] * (A[i-1,j] + A[i,j-1] + A[i,j+1] + A[i+1,j])
            }
        }
    }
}"""


def posed(text: str, n: int, m: int, machine: Machine) -> tuple[point_loops.Scene, bands.PermutableBand]:
    program = build(text, {"A": (n, m), "w": (100,)})
    facts = scop.extract(program)
    loop = next(x for x in pr.stretches(program.statements) if isinstance(x, pr.Loop))
    asked = scheduler_constraints.question(facts, dependences.analyse(facts), loop.statements)
    tree = asked.answer(scheduler.find(asked.constraints, scheduler.SYMBOLIC_ATTEMPTS))
    while not isinstance(tree, bands.PermutableBand):
        assert isinstance(tree, nest.Sequence)
        tree = tree.children[0]
    return point_loops.Scene(program, point_loops.names(loop.statements), asked.conflicts, machine), tree


@pytest.mark.part(6)
@pytest.mark.parametrize("machine", [SMALL, replace(SMALL, cores=1), AVX2])
@pytest.mark.parametrize("shape", [(200, 300), (1000, 70)])
@pytest.mark.parametrize("text", [HEAT, SEIDEL])
def test_no_size_alone_is_better(text: str, shape: tuple[int, int], machine: Machine) -> None:
    scene, band = posed(text, *shape, machine)
    standing = dict.fromkeys(bands.statements(band), ())
    best = tile_sizes.plan(scene, band, standing)
    extents = [tile_sizes.extent(scene, loop) for loop in band.loops]
    for m, e in enumerate(extents):
        for n in (None, 8, 16, 32, 64, 128, 256):
            if n is None or 2 * n <= e:
                other = tile_sizes.given(scene, band, standing, (*best.sizes[:m], n, *best.sizes[m + 1:]))
                assert best.time.seconds <= other.time.seconds, (best.sizes, m, n)
    assert all(n is None or 2 * n <= e for n, e in zip(best.sizes, extents, strict=True))
    assert tile_sizes.given(scene, band, standing, best.sizes).time == best.time
