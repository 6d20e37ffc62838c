"""Histograms whose items have a copy each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler, decisions, errors
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.names import Names
from polytc.program.sizes import specialised
from polytc.rewrite.gpu import division, scattered_parts, split_reduction
from polytc.runtime.sized import sized
from polytc.schedule.facts.fusion_groups import coincident_indices
from polytc.stages import build
from polytc.targets.interp.target import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.rewrite.equal import same_results, with_open_sizes

GPU = DEVICES["nvidia-sm90"]
PROGRAMS = {
    "numbers": ("def f(i32[5000] x, f32[5000] w) -> (f32[8] H) { H[x[i]] += w[i] }", 5000),
    "a prime": ("def f(i32[5003] x, f32[5003] w, inout f32[8] H) -> (H) { H[x[i]] += w[i] where i in 0:5003 }", 5003),
    "weights": ("def f(i32[4001] x, f32[4001] w) -> (f32[6] H) { H[x[i]] += w[i] }", 4001),
    "sums of 64 bits": ("def f(i32[4001] x, i64[4001] w) -> (i64[6] H) { H[x[i]] += w[i] }", 4001),
    "rows": ("def f(i32[6000] x, f32[6000,3] g) -> (f32[7,3] E) { E[x[i],d] += g[i,d] }", 6000),
    "largest": ("def f(i32[4001] x, f32[4001] w) -> (f32[6] H) { H[x[i]] max= w[i] }", 4001),
    "two dimensions": ("def f(i32[5000] x, i32[5000] y, f32[5000] w) -> (f32[5,6] H) { H[x[i],y[i]] += w[i] }", 5000),
    "a condition": ("def f(i32[5003] x, inout f32[8] H) -> (H) { H[x[i]] += 1.0 where i in 3:5003, i % 3 == 1 }", 5000),
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


RANGES = {
    "as large as what is scattered": ("def f(i32[3000] x) -> (f32[2900] H) { H[x[i]] += 1.5 }", 1),
    "a gradient of an embedding": ("def f(i64[700] x, f32[700,6] g) -> (f32[450,6] H) { H[x[i],d] += g[i,d] }", 1),
    "parts and ranges": ("def f(i32[9001] x, f32[9001] w) -> (f32[2999] H) { H[x[i]] += w[i] }", 3),
    "the second dimension": ("def f(i32[3000] x, i32[3000] y) -> (f32[3,1000] H) { H[x[i],y[i]] += 1.5 }", 1),
    "largest": ("def f(i32[3001] x, f32[3001] w) -> (f32[2000] H) { H[x[i]] max= w[i] }", 1),
    "the last one counts": ("def f(i32[3000] x, inout i32[2900] H) -> (H) { H[x[i]] = i32(i) where i in 0:3000 }", 1),
    "rows, the last of which count": ("def f(i32[3000] x, f32[3000,3] g, inout f32[901,3] H) -> (H) { H[x[i],d] = g[i,d] }", 1),
    "a start by another statement": ("def f(i32[3000] x, i32[2900] y) -> (i32[2900] H) { H[j] = y[j]; "
                                     "H[x[i]] = i32(i) where i in 0:3000 }", 1),
    "a sum that goes on": ("def f(i32[3000] x, inout f32[2900] H) -> (H) { H[x[i]] += 2.5 where i in 3:2990, i % 3 == 1 }", 1),
}


@pytest.mark.part(9)
@pytest.mark.parametrize("name", RANGES)
def test_items_divide_a_large_target(name: str, targets: tuple[str, ...]) -> None:
    text, parts = RANGES[name]
    before = build(text)
    found = scattered_parts.choose(before, before.statements[-1], GPU)
    assert found is not None
    assert found[1] == parts
    assert found[2] > 100
    after, _ = split_reduction.split(before, Names.of(before), division.own(GPU).parts)
    made = after.statement(f"{before.statements[-1].name}_parts")
    assert made.bounds
    assert coincident_indices(made)[:1 + (parts > 1)] == tuple(r.index for r in made.ranges[:1 + (parts > 1)])
    same_results(before, after)
    if "opencl" in targets:
        rng = np.random.default_rng(1)
        rows = before.tensor("H").shape
        given = {n: rng.integers(-2, max(rows) + 2, before.tensor(n).shape).astype(before.tensor(n).dtype.numpy)
                 for n in before.inputs}
        expected = compiler.compile_program(before, InterpTarget())
        results = []
        for run in (expected, compiler.compile_program(before, OpenCLTarget(GPU))):
            buffers = {n: np.zeros(before.tensor(n).shape, before.tensor(n).dtype.numpy) for n in before.outputs} | {
                n: a.copy() for n, a in given.items()}
            run.run([buffers[n] for n in before.arrays])
            results.append(buffers["H"])
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("along", "steps", "words"), [
    ("i,H", "4,50", ""), ("i,H", "1,50", ""), ("i,H", "4,5000", "may be divided into 2 to 2900 ranges"),
    ("i,K", "4,50", "groups may divide S1 along i")])
def test_a_line_says_how_many_ranges(along: str, steps: str, words: str) -> None:
    text = RANGES["as large as what is scattered"][0]
    record = f"{decisions.HEAD} {decisions.VERSION}\nlocal_tiles S1: by=parts along={along} steps={steps}\n"
    if words:
        with pytest.raises(errors.CompileError, match=words):
            polytc.lower(text, OpenCLTarget(GPU), decisions=record)
    else:
        made = polytc.lower(text, OpenCLTarget(GPU), decisions=record)
        assert f"along={along} steps={steps}" in str(made.decisions)
        assert "H_parts" in str(made.rewritten)


@pytest.mark.parametrize("text", [
    "def f(i32[50] x, f32[50] w) -> (f32[8] H) { H[x[i]] += w[i] }",                  # short
    "def f(i32[40] x, inout i32[8] H) -> (H) { H[x[i]] = i where i in 0:40 }",                      # short
    "def f(i32[5000] x, f32[5000,200000] g) -> (f32[6,200000] E) { E[x[i],d] += g[i,d] }",     # items enough
])
def test_what_stays(text: str) -> None:
    before = build(text)
    assert scattered_parts.choose(before, before.statements[-1], GPU) is None
    after, _ = split_reduction.split(before, Names.of(before), division.own(GPU).parts)
    assert after == before


def test_indices_beyond_the_target_are_left_out_in_kernels() -> None:
    """Counted by numpy; the interpreter sees every access, and items at once."""
    program = build("def f(i32[3001] x) -> (f32[8] H) { H[x[i]] += 1.0 }")
    machine = GENERIC_GPU
    assert "H_parts" in str(compiler.lower_program(program, OpenCLTarget(machine)).rewritten)
    x = np.random.default_rng(3).integers(-2, 11, 3001).astype("i4")
    found = np.full(8, 77, "f4")
    compiler.compile_program(program, InterpTarget(machine)).run([x, found])
    np.testing.assert_array_equal(found, np.bincount(x[(x >= 0) & (x < 8)], minlength=8))


OPEN = {
    "a histogram": ("def f(i32[n] x) -> (i32[8] H) { H[x[i]] += 1 }", lambda x: np.bincount(x, minlength=8)),
    "weights": ("def f(i32[n] x, f32[n] w) -> (f32[8] H) { H[x[i]] += w[i] }", lambda x, w: np.bincount(x, w, 8)),
    "largest": ("def f(i32[n] x, f32[n] w) -> (f32[8] H) { H[x[i]] max= w[i] }",
                lambda x, w: [max(w[x == k], default=-np.inf) for k in range(8)]),
    "rows": ("def f(i32[n] x, f32[n,3] w) -> (f32[8,3] H) { H[x[i],d] += w[i,d] }",
             lambda x, w: np.stack([np.bincount(x, w[:, d], 8) for d in range(3)], 1))}


@pytest.mark.part(3)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n == "rows" else ()) for n in OPEN])
def test_sizes_that_stay_open(name: str) -> None:
    text, expected = OPEN[name]
    inputs = {"x": ("n",), "w": ("n", 3) if name == "rows" else ("n",)}
    shapes = {n: inputs[n] for n in ("x", "w") if f"{n}[i" in text}
    program = build(text, shapes, typical={"n": 50_000})
    lowered = compiler.lower_program(program, OpenCLTarget(GPU))
    assert "S1_parts" in [s.name for s in lowered.rewritten.statements]
    assert not lowered.starving
    op = polytc.compile(text, InterpTarget(GPU), shapes=shapes, typical={"n": 50_000})
    rng = np.random.default_rng(3)
    for n in (1, 9, 70):
        given = {"x": rng.integers(0, 8, n).astype(np.int32),
                 "w": rng.integers(-4, 5, (n, 3) if name == "rows" else n).astype(np.float32)}
        given = {k: a for k, a in given.items() if k in shapes}
        np.testing.assert_array_equal(op(**given), np.asarray(expected(**given)))


@pytest.mark.long
def test_a_large_target_and_open_sizes() -> None:
    """Items divide the target, as the rows of an embedding's gradient."""
    text = "def f(i32[n] x, f32[n,3] g) -> (f32[450,3] H) { H[x[i],d] += g[i,d] }"
    shapes = {"x": ("n",), "g": ("n", 3)}
    lowered = compiler.lower_program(build(text, shapes, typical={"n": 50_000}), OpenCLTarget(GPU))
    assert lowered.rewritten.statement("S1_parts").bounds
    op = polytc.compile(text, InterpTarget(GPU), shapes=shapes, typical={"n": 50_000})
    rng = np.random.default_rng(4)
    for n in (1, 31):
        x, g = rng.integers(0, 450, n).astype(np.int32), rng.integers(-4, 5, (n, 3)).astype(np.float32)
        expected = np.zeros((450, 3), np.float32)
        np.add.at(expected, x, g)
        np.testing.assert_array_equal(op(x, g), expected)


OPEN_TARGETS = {
    "copies": "def f(i32[n] x, f32[k] z) -> (i32[k] H) { H[x[i]] += 1 }",
    "ranges": "def f(i32[n] x, f32[n,3] g, f32[k] z) -> (f32[k,3] H) { H[x[i],d] += g[i,d] }",
    "copies of what there is": "def f(i32[n] x, f32[n,m] g, f32[k] z) -> (f32[k,m] H) { H[j,d] = z[j]; H[x[i],d] += g[i,d] }",
    "two dimensions": "def f(i32[n] x, i32[n] y, f32[k,m] z) -> (i32[k,m] H) { H[x[i],y[i]] += 1 }",
    "largest": "def f(i32[n] x, f32[n] g, f32[k] z) -> (f32[k] H) { H[x[i]] max= g[i] }",
    "the last one counts": "def f(i32[n] x, f32[n] g, inout f32[k] H) -> (H) { H[x[i]] = g[i] }"}


@pytest.mark.part(12)
@pytest.mark.parametrize("k", [6, 3000])
@pytest.mark.parametrize("name", OPEN_TARGETS)
def test_a_target_of_an_open_size(name: str, k: int, targets: tuple[str, ...]) -> None:
    """k: typical; places beyond the ends are left out, as they are in the text."""
    program = with_open_sizes(OPEN_TARGETS[name], {"n": 200_000, "k": k, "m": 5})
    lowered = compiler.lower_program(program, OpenCLTarget(GPU))
    assert not lowered.starving
    assert f"{program.statements[-1].name}_parts" in [s.name for s in lowered.rewritten.statements]
    if "opencl" not in targets:
        return
    executable, rng = compiler.compile_program(program, OpenCLTarget(GPU)), np.random.default_rng(6)
    for sizes in ({"n": 1, "k": 1, "m": 1}, {"n": 700, "k": 3, "m": 2}, {"n": 301, "k": 4099, "m": 3}):
        sizes = {n: sizes[n] for n in program.sizes}
        one = specialised(program, sizes)
        end = sizes["k"] + 2
        arrays = {n: rng.integers(-1, end, one.tensor(n).shape).astype(one.tensor(n).dtype.numpy) for n in one.inputs}
        found, expected = ({n: np.zeros(one.tensor(n).shape, one.tensor(n).dtype.numpy) for n in one.outputs} |
                           {n: a.copy() for n, a in arrays.items()} for _ in range(2))
        sized(executable, compiler.options(executable), sizes).run([found[n] for n in one.arrays])
        compiler.compile_program(replace(one, sizes=()), InterpTarget()).run([expected[n] for n in one.arrays])
        np.testing.assert_array_equal(found["H"], expected["H"], err_msg=str(sizes))
