"""Histograms whose items have a copy each."""

from __future__ import annotations

import numpy as np
import pytest

from polytc import compiler
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.names import Names
from polytc.rewrite.gpu import division, scattered_parts, split_reduction
from polytc.stages import build
from polytc.targets.interp.target import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.rewrite.equal import same_results

GPU = DEVICES["nvidia-sm90"]
PROGRAMS = {
    "integers": ("def f(i32[5000] x) -> (i32[8] H) { H[x[i]] += 1 }", 5000),
    "a prime": ("def f(i32[5003] x, inout i32[8] H) -> (H) { H[x[i]] += 1 where i in 0:5003 }", 5003),
    "weights": ("def f(i32[4001] x, f32[4001] w) -> (f32[6] H) { H[x[i]] += w[i] }", 4001),
    "rows": ("def f(i32[6000] x, f32[6000,3] g) -> (f32[7,3] E) { E[x[i],d] += g[i,d] }", 6000),
    "largest": ("def f(i32[4001] x, f32[4001] w) -> (f32[6] H) { H[x[i]] max= w[i] }", 4001),
    "two dimensions": ("def f(i32[5000] x, i32[5000] y) -> (i32[5,6] H) { H[x[i],y[i]] += 1 }", 5000),
    "a condition": ("def f(i32[5003] x, inout i32[8] H) -> (H) { H[x[i]] += 1 where i in 3:5003, i % 3 == 1 }", 5000),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_item_has_a_copy(name: str) -> None:
    text, extent = PROGRAMS[name]
    before = build(text)
    after, runs = split_reduction.split(before, Names.of(before), division.own(GPU).parts)
    assert [s.name for s in runs[0][-2:]] == ["S1_parts_init", "S1_parts"] or runs[0][0].name == "S1_parts_init"
    parts = after.statement("S1_parts").ranges[0].extent
    assert 1 < parts <= extent // 2
    assert after.tensor("H_parts" if "E" not in before.outputs else "E_parts").shape[0] == parts
    same_results(before, after)


@pytest.mark.parametrize("text", [
    "def f(i32[50] x) -> (i32[8] H) { H[x[i]] += 1 }",                              # short
    "def f(i32[5000] x) -> (i32[4000] H) { H[x[i]] += 1 }",                         # the copies would be larger than x
    "def f(i32[5000] x, inout i32[8] H) -> (H) { H[x[i]] = 1 where i in 0:5000 }",                  # the last one counts
    "def f(i32[5000] x, f32[5000,200000] g) -> (f32[6,200000] E) { E[x[i],d] += g[i,d] }",     # items enough
])
def test_what_stays(text: str) -> None:
    before = build(text)
    assert scattered_parts.count(before, before.statements[-1], GPU) is None
    after, _ = split_reduction.split(before, Names.of(before), division.own(GPU).parts)
    assert after == before


def test_indices_beyond_the_target_are_left_out_in_kernels() -> None:
    """Counted by numpy; the interpreter sees every access, and items at once."""
    program = build("def f(i32[3001] x) -> (i32[8] H) { H[x[i]] += 1 }")
    machine = GENERIC_GPU
    assert "H_parts" in str(compiler.lower_program(program, OpenCLTarget(machine)).rewritten)
    x = np.random.default_rng(3).integers(-2, 11, 3001).astype("i4")
    found = np.full(8, 77, "i4")
    compiler.compile_program(program, InterpTarget(machine)).run([x, found])
    np.testing.assert_array_equal(found, np.bincount(x[(x >= 0) & (x < 8)], minlength=8))
