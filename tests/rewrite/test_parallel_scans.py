"""Scans in blocks of an item or a thread each: which are, and that results stay, whoever shares them. Those of work-groups that
scan together: tests/rewrite/gpu/test_work_group_scans.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polytc import compiler
from polytc.lang import evaluate
from polytc.machine import AVX512, DEVICES
from polytc.poly import in_bounds
from polytc.program.program import Program, reads
from polytc.program.sizes import specialised
from polytc.rewrite import parallel_scans
from polytc.rewrite.parallel_scans import Blocks
from polytc.rewrite.step import Decision
from polytc.rewrite.tidy import scan
from polytc.runtime.sized import sized
from polytc.stages import build
from polytc.targets.interp.target import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.rewrite.equal import right_at, small_numbers, with_open_sizes

GPU, CPU = replace(DEVICES["nvidia-sm90"], fast_local_memory=False), replace(AVX512, cores=8)
SCANS = {
    "in place": "def f(inout f32[1003] x) -> (x) { for i in 1:1003 { x[i] += x[i-1] } }",
    "whole blocks": "def f(inout f32[1025] x) -> (x) { for i in 1:1025 { x[i] = x[i-1] + x[i] } }",
    "from the right": "def f(inout f32[1003] P, f32[1003] v) -> (P) { for i in 1:1003 { P[i] = v[i] + P[i-1] } }",
    "largest": "def f(inout f32[1003] P, f32[1003] v) -> (P) { for i in 1:1003 { P[i] = max(P[i-1], v[i]*v[i-1]) } }",
    "products": "def f(inout i32[1003] P, i32[1003] v) -> (P) { for i in 1:1003 { P[i] = P[i-1]*v[i] } }",
    "columns": "def f(inout f32[701,5] x) -> (x) { for t in 1:701 { x[t,j] += x[t-1,j] where j in 0:5 } }",
    "rows": "def f(inout f32[5,701] x) -> (x) { for t in 1:701 { x[j,t] += x[j,t-1] where j in 0:5 } }",
    "a start of its own": "def f(inout f32[901] P, f32[901] v) -> (P) { for i in 0:901 { P[i] = (P[i-1] else 3) + v[i] } }",
    "backwards": "def f(inout f32[901] P, f32[901] v) -> (P) { for i in 1:901 { P[900-i] = P[901-i] + v[i] } }",
    "counting down": "def f(inout f32[901] P, f32[901] v) -> (P) { for i in 899:-1:-1 { P[i] = P[i+1] + v[i] } }",
    "taken away": "def f(inout i32[901] P, i32[901] v) -> (P) { for i in 1:901 { P[i] = P[i-1] - v[i] } }",
    "prefixes": "def f(f32[900] v) -> (f32[900] P) { P[i] += v[k] where k <= i, i in 0:900 }",
    "suffixes": "def f(f32[3,900] v) -> (f32[3,900] P) { P[j,i] += v[j,k] where k >= i, i in 0:900 }",
    "integers, precise": "precise def f(inout i32[1003] x) -> (x) { for i in 1:1003 { x[i] += x[i-1] } }",
}


def same(written: Program, after: Program) -> None:
    """Do both compute the same of small whole numbers, the one as numpy and the other in the order of its statements?"""
    given, expected = small_numbers(written), evaluate(written, small_numbers(written))
    arrays = {n: given.get(n, np.zeros(after.tensor(n).shape, after.tensor(n).dtype.numpy)) for n in after.arrays}
    compiler.compile_program(after, "cpu", 1, "program").run([arrays[n] for n in after.arrays])
    for n in written.outputs:
        np.testing.assert_array_equal(arrays[n], expected[n])


@pytest.mark.part(5)
@pytest.mark.parametrize("name", SCANS)
def test_results_stay(name: str) -> None:
    written = build(SCANS[name])
    before = scan.simplify_prefixes(written)
    decision = parallel_scans.decide(before, GPU)
    assert [c.elements for c in decision.choices] == [32]
    after = parallel_scans.split(before, decision)
    assert not after.sequential
    same(written, after)
    assert [r.text for r in decision.reasons if r.acted]


@pytest.mark.part(4)
@pytest.mark.parametrize("extent", [2101, 12801, 33000, 40001])
def test_what_comes_before_the_blocks_is_a_scan_in_blocks_while_it_is_long(extent: int) -> None:
    written = build(f"def f(inout i32[{extent}] x) -> (x) {{ for i in 1:{extent} {{ x[i] += x[i-1] }} }}")
    decision = parallel_scans.decide(written, GPU)
    after = parallel_scans.split(written, decision)
    assert (sum("before" in t.name for t in after.tensors) > 2) == (extent > 128 * 256)
    same(written, after)


@pytest.mark.part(4)
@pytest.mark.parametrize("elements", [2, 3, 64, 449])
def test_blocks_of_any_size(elements: int) -> None:
    written = build(SCANS["suffixes"])
    before = scan.simplify_prefixes(written)
    choice = Blocks(next(s.name for s in before.statements if any(r.tensor == s.target for r in reads(s))), elements)
    assert parallel_scans.fits(before, GPU, choice) == ""
    same(written, parallel_scans.split(before, Decision(GPU, (choice,))))
    assert "2 to 449" in parallel_scans.fits(before, GPU, replace(choice, elements=451))


OPEN = {
    "in place": "def f(inout f32[n] x) -> (x) { for i in 1:n { x[i] += x[i-1] } }",
    "largest": "def f(inout f32[n] P, f32[n] v) -> (P) { for i in 1:n { P[i] = max(P[i-1], v[i]*v[i-1]) } }",
    "columns": "def f(inout f32[n,5] x) -> (x) { for t in 1:n { x[t,j] += x[t-1,j] where j in 0:5 } }",
    "rows": "def f(inout f32[m,n] x) -> (x) { for t in 1:n { x[j,t] += x[j,t-1] where j in 0:m } }",
    "one more": "def f(f32[n] x) -> (P) { P[0] = 0.0; for i in 0:n { P[i+1] = P[i] + x[i] } }",
    "a start of its own": "def f(inout f32[n] P, f32[n] v) -> (P) { for i in 0:n { P[i] = (P[i-1] else 3) + v[i] } }",
    "backwards": "def f(inout f32[n] P, f32[n] v) -> (P) { for i in 1:n { P[n-1-i] = P[n-i] + v[i] } }",
    "counting down": "def f(inout f32[n] P, f32[n] v) -> (P) { for i in n-2:-1:-1 { P[i] = P[i+1] + v[i] } }",
    "from a later place": "def f(inout f32[n] x) -> (x) { for i in 3:n { x[i] += x[i-1] } }",
    "rows in the middle": "def f(inout f32[n,3] x) -> (x) { for t in 40:n-1 { x[t,j] += x[t-1,j] where j in 0:3 } }",
    "backwards to a place": "def f(inout f32[n] P, f32[n] v) -> (P) { for i in 2:n { P[n-1-i] = P[n-i] + v[i] } }",
    "prefixes": "def f(f64[n] v) -> (f64[n] P) { P[i] += v[k] where k <= i, i in 0:n }",
    "suffixes": "def f(i32[m,n] v) -> (i32[m,n] P) { P[j,i] min= v[j,k] where k >= i, i in 0:n }",
}


@pytest.mark.part(13)
@pytest.mark.parametrize("name", OPEN)
def test_sizes_that_stay_open(name: str, targets: tuple[str, ...]) -> None:
    """The blocks are those of the typical size; the last one of others is a part of one, or empty, or there is none."""
    program = with_open_sizes(OPEN[name], {"n": 1_000_000})
    lowered = compiler.lower_program(program, OpenCLTarget(GPU))
    assert not lowered.rewritten.sequential
    assert sum("_before" in t.name for t in lowered.rewritten.tensors) > 1
    for n in (1, 2, 3, 41, 128, 389):
        sizes = {name: n if name == "n" else 2 for name in program.sizes}
        same(specialised(replace(program, sizes=()), sizes), specialised(replace(lowered.rewritten, sizes=()), sizes))
        if "opencl" in targets:
            right_at(compiler.compile_program(program, OpenCLTarget(GPU)), program, sizes)


def test_threads_share_scans_of_open_sizes() -> None:
    program = with_open_sizes(OPEN["in place"], {"n": 1_000_000})
    target = LLVMTarget(replace(LLVMTarget().machine, cores=8))
    executable, rng = compiler.compile_program(program, target, 2), np.random.default_rng(3)
    assert "x_scan" in str(compiler.lower_program(program, target).rewritten)
    for n in (1, 8192, 8193, 40_000):
        x = rng.integers(-3, 4, n).astype("f4")
        expected = np.cumsum(x)
        sized(executable, compiler.options(executable), {"n": n}).run([x])
        np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("text", [
    "def f(inout f32[n] x, f32[m] y) -> (x) { for i in m:n { x[i] += x[i-1] } }",
    "def f(inout f32[n] x) -> (x) { for i in 5000:n { x[i] += x[i-1] } }"])
def test_what_stays_of_open_sizes(text: str) -> None:
    """An extent that may be below 0 by more than a block has no blocks."""
    program = with_open_sizes(text, {"n": 1_000_000, "m": 10})
    assert not parallel_scans.decide(program, GPU).choices


def test_the_element_before_a_scan_that_may_be_empty_is_guarded() -> None:
    """At two elements there is no third one."""
    program = with_open_sizes("def f(inout f32[n] x) -> (x) { for i in 3:n { x[i] += x[i-1] } }", {"n": 1_000_000})
    made = parallel_scans.split(program, parallel_scans.decide(program, GPU))
    assert "x_before[0] = (x[2] else 0.0)" in str(made)
    assert in_bounds.out_of_bounds(made) is None


@pytest.mark.parametrize("text", [
    "precise def f(inout f32[9000] x) -> (x) { for i in 1:9000 { x[i] += x[i-1] } }",             # digits
    "def f(inout f32[9000] x) -> (x) { for i in 2:9000 { x[i] += x[i-2] } }",
    "def f(inout f32[9000] x) -> (x) { for i in 1:9000 { x[i] -= x[i] * x[i-1] } }",
    "def f(inout f32[9000] x, f32[9000] y) -> (x) { for i in 1:9000 { x[i] = y[i] - x[i-1] } }",         # not associative
    "def f(inout f32[9000] x, f32[9000] y) -> (x) { for i in 1:9000 { x[i] = x[i-1] + y[i]*x[i-1] } }",
    "def f(inout f32[9000] x, inout f32[9000] y) -> (x, y) { for i in 1:9000 { x[i] += x[i-1]; y[i] = x[i] } }",
    "def f(inout f32[90] x) -> (x) { for i in 1:90 { x[i] += x[i-1] } }",                                # short
    "def f(inout f32[9000,99999] x) -> (x) { for i in 1:9000 { x[i,j] += x[i-1,j] where j in 0:99999 } }",     # items enough
])
def test_what_stays(text: str) -> None:
    before = build(text)
    decision = parallel_scans.decide(before, GPU)
    assert not decision.choices
    assert parallel_scans.split(before, decision) == before


@pytest.mark.parametrize("name", ["in place", "columns", "largest"])
def test_kernels(name: str) -> None:
    """Items at once, with every access looked at; numbers by numpy."""
    program = build(SCANS[name])
    rng = np.random.default_rng(5)
    given = [rng.integers(-3, 4, program.tensor(n).shape).astype("f4") for n in program.arrays]
    expected = np.cumsum(given[0], axis=0) if name != "largest" else np.maximum.accumulate(
        np.concatenate([given[0][:1], given[1][1:] * given[1][:-1]]))
    compiler.compile_program(program, InterpTarget(GPU)).run(given)
    np.testing.assert_array_equal(given[0], expected)


def test_threads_share_a_scan_and_change_no_bit() -> None:
    text = "def f(inout f32[100003] x) -> (x) { for i in 1:100003 { x[i] += x[i-1] } }"
    program, target = build(text), LLVMTarget(replace(LLVMTarget().machine, cores=8))
    assert "x_scan" in str(compiler.lower_program(program, target).rewritten)
    assert "x_scan" not in str(compiler.lower_program(program, LLVMTarget(replace(target.machine, cores=2))).rewritten)
    x = np.random.default_rng(2).standard_normal(100003).astype("f4")
    found = []
    for threads in (1, 2, 3):
        found.append(x.copy())
        compiler.compile_program(program, target, threads).run([found[-1]])
    assert all(np.array_equal(f.view("u4"), found[0].view("u4")) for f in found)
    np.testing.assert_allclose(found[0], np.cumsum(x.astype("f8")), atol=2e-2)
