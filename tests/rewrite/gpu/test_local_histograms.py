"""Histograms in local memory: beside numpy's, on loops in Python, OpenCL C, and CUDA C on the processor."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np
import pytest

import polytc
from polytc import compiler, decisions, errors
from polytc.codegen import loops, traverse
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.poly import dependences
from polytc.program.canonical import canonical
from polytc.program.program import Program
from polytc.program.scalars import I32
from polytc.rewrite import staging
from polytc.rewrite.gpu import histogram_shapes, local_histograms
from polytc.schedule import tree
from polytc.stages import build
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.interp.target import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import guarded
from tests.cuda_here import COMPILER, CompiledCuda
from tests.rewrite.equal import same_results

GPU = OpenCLTarget(GENERIC_GPU)
Arrays = Mapping[str, np.ndarray]


def places(x: np.ndarray, size: int, lower: int = 0) -> np.ndarray:
    """The instances whose place is one of the target."""
    return (x >= lower) & (x < lower + size)


def counted(size: int) -> Callable[[Arrays], np.ndarray]:
    """numpy.bincount of the places that there are."""
    return lambda a: np.bincount(a["x"][places(a["x"], size)], minlength=size)


def scattered(ufunc: np.ufunc, start: int, size: int, dtype: str, weights: Callable[[Arrays], np.ndarray]
              ) -> Callable[[Arrays], np.ndarray]:
    """`ufunc.at` of numpy."""
    def expected(a: Arrays) -> np.ndarray:
        found, inside = np.full(size, start, dtype), places(a["x"], size)
        ufunc.at(found, a["x"][inside], np.broadcast_to(weights(a), inside.shape)[inside].astype(dtype))
        return found
    return expected


def of_two(a: Arrays) -> np.ndarray:
    found, inside = np.zeros((5, 6), "i4"), places(a["c"], 5) & places(a["x"], 6)
    np.add.at(found, (a["c"][inside], a["x"][inside]), 1)
    return found


def of_rows(a: Arrays) -> np.ndarray:
    return np.stack([np.bincount(row[places(row, 9)], minlength=9) for row in a["x"]])


def of_an_image(a: Arrays) -> np.ndarray:
    return np.bincount(a["x"][places(a["x"], 16)].reshape(-1), minlength=16)


def of_some(a: Arrays) -> np.ndarray:
    x = a["x"][np.array([i for i in range(3, 5003) if i % 3 == 1])]
    return np.bincount(x[places(x, 8)], minlength=8)


def from_four(a: Arrays) -> np.ndarray:
    return np.bincount(a["x"][places(a["x"], 6, -2)] + 2, minlength=6)


def sums_of_two(a: Arrays) -> np.ndarray:
    x = a["x"] * 2 + a["c"]
    return np.bincount(x[places(x, 10)], minlength=10)


def of_weighted_rows(a: Arrays) -> np.ndarray:
    found, inside = np.zeros(9, "i4"), places(a["x"], 9)
    np.add.at(found, a["x"][inside], np.broadcast_to(a["w"][:, None], inside.shape)[inside])
    return found


def of_quotients(a: Arrays) -> np.ndarray:
    found, inside = np.zeros((51, 9), "i4"), places(a["x"], 9)
    np.add.at(found, ((np.arange(4001) // 80)[inside], a["x"][inside]), 1)
    return found


def of_places(a: Arrays) -> np.ndarray:
    x = a["c"][np.clip(a["x"], 0, 899)]
    return np.bincount(x[places(x, 9)], minlength=9)


@dataclass(frozen=True)
class Case:
    """text: a def; expected: its result, of the inputs."""

    text: str
    expected: Callable[[Arrays], np.ndarray]


CASES = {
    "counts": Case("def f(i32[5000] x) -> (i64[8] H) { H[x[i]] += 1 }", counted(8)),
    "whole vectors": Case("def f(i32[4096] x) -> (i64[16] H) { H[x[i]] += 1 }", counted(16)),
    "a prime of items": Case("def f(i32[5003] x) -> (i32[37] H) { H[x[i]] += 1 }", counted(37)),
    "one group": Case("def f(i32[100] x) -> (i32[300] H) { H[x[i]] += 1 }", counted(300)),
    "i64 places": Case("def f(i64[3001] x) -> (i64[20] H) { H[x[i]] += 1 }", counted(20)),
    "u8 places": Case("def f(u8[4096] x) -> (i64[256] H) { H[x[i]] += 1 }", counted(256)),
    "u32 places": Case("def f(u32[4001] x) -> (u32[9] H) { H[x[i]] += 1 }", counted(9)),
    "weights": Case("def f(i32[4001] x, i32[4001] w) -> (i32[6] H) { H[x[i]] += w[i] }",
                    scattered(np.add, 0, 6, "i4", lambda a: a["w"])),
    "weights of 8 bits": Case("def f(i32[4000] x, i8[4000] w) -> (i64[6] H) { H[x[i]] += w[i] }",
                              scattered(np.add, 0, 6, "i8", lambda a: a["w"])),
    "sums of 8 bits, which wrap": Case("def f(i32[4001] x, i8[4001] w) -> (i8[6] H) { H[x[i]] += w[i] }",
                                       scattered(np.add, 0, 6, "i1", lambda a: a["w"])),
    "differences": Case("def f(i32[4001] x, u32[4001] w) -> (u32[6] H) { H[x[i]] += 0 - w[i] }",
                        scattered(np.add, 0, 6, "u4", lambda a: np.uint32(0) - a["w"])),
    "what is true": Case("def f(i32[4001] x, bool[4001] w) -> (i64[6] H) { H[x[i]] += i64(w[i]) }",
                         scattered(np.add, 0, 6, "i8", lambda a: a["w"])),
    "largest": Case("def f(i32[4001] x, i32[4001] w) -> (i32[500] H) { H[x[i]] max= w[i] }",
                    scattered(np.maximum, -2**31, 500, "i4", lambda a: a["w"])),
    "smallest of 16 bits": Case("def f(i32[4001] x, u16[4001] w) -> (u16[500] H) { H[x[i]] min= w[i] }",
                                scattered(np.minimum, 2**16 - 1, 500, "u2", lambda a: a["w"])),
    "all bits": Case("def f(i32[4001] x, u8[4001] w) -> (u8[500] H) { H[x[i]] &= w[i] }",
                     scattered(np.bitwise_and, 255, 500, "u1", lambda a: a["w"])),
    "some bits": Case("def f(i32[4001] x, u32[4001] w) -> (u32[500] H) { H[x[i]] |= w[i] }",
                      scattered(np.bitwise_or, 0, 500, "u4", lambda a: a["w"])),
    "odd bits": Case("def f(i32[4001] x, i32[4001] w) -> (i32[7] H) { H[x[i]] ^= w[i] }",
                     scattered(np.bitwise_xor, 0, 7, "i4", lambda a: a["w"])),
    "any": Case("def f(i32[4001] x, bool[4001] w) -> (bool[500] H) { H[x[i]] |= w[i] }",
                scattered(np.logical_or, 0, 500, "?", lambda a: a["w"])),
    "two dimensions": Case("def f(i32[5000] x, i32[5000] c) -> (i32[5,6] H) { H[c[i],x[i]] += 1 }", of_two),
    "a histogram of each row": Case("def f(i32[5,3001] x) -> (i64[5,9] H) { H[r,x[r,i]] += 1 }", of_rows),
    "an image": Case("def f(u8[61,67] x) -> (i64[16] H) { H[x[i,j]] += 1 }", of_an_image),
    "a place that is computed": Case("def f(i32[4001] x, i32[4001] c) -> (i32[10] H) { H[2*x[i] + c[i]] += 1 }", sums_of_two),
    "some of them": Case("def f(i32[6000] x, inout i32[8] H) -> (H) { H[x[i]] += 1 where i in 3:5003, i % 3 == 1 }", of_some),
    "a target that begins below 0": Case("def f(i32[5000] x) -> (i32[-2:4] H) { H[x[i]] += 1 }", from_four),
    "weights of rows": Case("def f(i32[61,301] x, i32[61] w) -> (i32[9] H) { H[x[i,j]] += w[i] }", of_weighted_rows),
    "quotients": Case("def f(i32[4001] x) -> (i32[51,9] H) { H[i//80,x[i]] += 1 }", of_quotients),
    "places of places": Case("def f(i32[5000] x, i32[900] c) -> (i32[9] H) { H[c[x[i]]] += 1 }", of_places),
    "ranges of the target": Case("def f(i32[20000] x) -> (i32[12001] H) { H[x[i]] += 1 }", counted(12001)),
}


def drawn(program: Program, seed: int, one: bool = False) -> dict[str, np.ndarray]:
    """Inputs, of which some places are outside. one: all the same."""
    rng, found = np.random.default_rng(seed), {}
    most = max(program.tensor("H").shape)
    for n in program.inputs:
        t = program.tensor(n)
        ends = np.iinfo(t.dtype.numpy) if t.dtype.is_int else None
        if n == "H":
            found[n] = np.zeros(t.shape, t.dtype.numpy)
        elif n in ("x", "c"):
            assert ends is not None
            found[n] = rng.integers(max(ends.min, -4), min(ends.max, most + 4), t.shape, endpoint=True).astype(t.dtype.numpy)
            found[n][...] = 3 if one else found[n]
        elif ends is not None:
            found[n] = rng.integers(ends.min, ends.max, t.shape, t.dtype.numpy, endpoint=True)
        else:
            found[n] = rng.integers(0, 2, t.shape).astype(bool)
    return found


Gpu: TypeAlias = OpenCLTarget | CudaTarget | InterpTarget


def run(lowered: compiler.Lowered, target: Gpu, given: Arrays) -> np.ndarray:
    """H, between canaries."""
    program = lowered.program
    arrays = {n: given[n].copy() if n in given else np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy)
              for n in program.arrays}
    guarded.run(target.load(target.build(target.emit(lowered.loops))), [arrays[n] for n in program.arrays])
    return arrays["H"]


def shaped(text: str, items: int, copies: int, parts: int, ranges: int = 1) -> compiler.Lowered:
    """A program with its update in a shape that somebody decides, along the index that polytc has."""
    own = str(polytc.lower(text, GPU).decisions)
    found = re.search(r"local_tiles S1: by=atomics .*along=(\w+)", own)
    assert found is not None, own
    line = f"local_tiles S1: by=atomics items={items} elements={copies} along={found[1]}" + ",H" * (ranges > 1)
    record = f"{decisions.HEAD} {decisions.VERSION}\n{line} steps={parts}" + f",{ranges}" * (ranges > 1) + "\n"
    return polytc.lower(text, GPU, decisions=record)


def in_groups(lowered: compiler.Lowered) -> bool:
    """Do the items of groups make atomic updates in local memory?"""
    updated = [k for k in lowered.loops.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Store) and s.atomic]
    spaces = {s.buffer.space for k in updated for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Store) and s.atomic}
    return spaces == {"local"} and "program order" not in lowered.schedule.how


def same(lowered: compiler.Lowered, case: Case, made: Sequence[Gpu], seeds: Sequence[tuple[int, bool]] = ((0, False), (1, True))
         ) -> None:
    """A program gives numpy's numbers, for places anywhere, and all in one element."""
    assert in_groups(lowered), lowered.schedule.how
    for seed, one in seeds:
        given = drawn(lowered.program, seed, one)
        for target in made:
            np.testing.assert_array_equal(run(lowered, target, given), case.expected(given), err_msg=target.name)


@pytest.fixture
def compiled(targets: tuple[str, ...]) -> list[Gpu]:
    """What runs kernels here, but for loops in Python."""
    made: list[Gpu] = [GPU] if "opencl" in targets else []
    return made + ([CompiledCuda(GENERIC_GPU)] if COMPILER else [])


@pytest.mark.part(84)
@pytest.mark.parametrize("machine", ["generic-gpu", "nvidia-sm90", "amd-gfx90a"])
@pytest.mark.parametrize("name", CASES)
def test_own_shapes(name: str, machine: str, compiled: list[Gpu]) -> None:
    lowered = polytc.lower(CASES[name].text, OpenCLTarget(DEVICES[machine]))
    assert "by=atomics" in str(lowered.decisions), lowered.decisions
    same(lowered, CASES[name], compiled)


@pytest.mark.part(140)
@pytest.mark.parametrize("shape", [(32, 1, 1), (32, 4, 3), (16, 16, 7), (64, 2, 4, 3), (8, 1, 1, 2)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_other_shapes(name: str, shape: tuple[int, ...], compiled: list[Gpu]) -> None:
    if name == "ranges of the target" and len(shape) < 4:
        with pytest.raises(errors.CompileError, match="of local memory"):
            shaped(CASES[name].text, *shape)
        return
    same(shaped(CASES[name].text, *shape), CASES[name], compiled)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["counts", "two dimensions", "largest", "some of them"])
def test_loops_in_python_see_every_access(name: str) -> None:
    """One group has the items that others have in several: each in turn, between barriers."""
    case = CASES[name]
    small = Case(re.sub(r"\b[45]00[01]\b", "301", case.text).replace("6000", "301").replace("5003", "300"), case.expected)
    if name == "some of them":
        small = replace(small, expected=lambda a: np.bincount(a["x"][4:300:3][places(a["x"][4:300:3], 8)], minlength=8))
    same(shaped(small.text, 8, 2, 3), small, [InterpTarget(GENERIC_GPU)], [(0, False)])


@pytest.mark.part(7)
@pytest.mark.parametrize("name", CASES)
def test_program_of_the_rewrite(name: str) -> None:
    lowered = polytc.lower(CASES[name].text, GPU)
    same_results(lowered.program, lowered.rewritten)


def test_sums_that_exceed_32_bits_have_groups_of_fewer_terms(compiled: list[Gpu]) -> None:
    text = "def f(i32[100000] x, u16[100000] w) -> (i64[4] H) { H[x[i]] += w[i] }"
    lowered = polytc.lower(text, GPU)
    made = lowered.rewritten
    group = made.statement("S1_local")
    assert made.tensor("H_local").dtype == I32
    assert prod(group.extents[r.index] for r in group.ranges if not r.kind.startswith("block")) * 65535 < 2**31
    with pytest.raises(errors.CompileError, match="leave 32 bits"):
        shaped(text, 32, 1, 2)
    given = {"x": np.full(100000, 2, "i4"), "w": np.full(100000, 65535, "u2")}
    for target in compiled:
        np.testing.assert_array_equal(run(lowered, target, given), [0, 0, 6553500000, 0])


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "why"), [
    ("def f(i32[5000] x, f32[5000] w) -> (f32[8] H) { H[x[i]] += w[i] }", "no operator of whole numbers"),
    ("def f(i32[5000] x, i32[5000] w) -> (i32[8] H) { H[x[i]] *= w[i] }", "no operator of whole numbers"),
    ("def f(i32[5000] x, i64[5000] w) -> (i64[8] H) { H[x[i]] += w[i] }", "its numbers need 64 bits"),
    ("def f(i32[5000] x, i32[5000] w) -> (i64[8] H) { H[x[i]] max= w[i] }", "its numbers need 64 bits"),
    ("def f(i32[5000] x, i32[5000,8] w) -> (i32[9,8] H) { H[x[i],d] += w[i,d] }", "walk the target along d"),
    ("def f(i32[50] x, inout i32[8] H) -> (H) { H[x[i]] = i32(i) where i in 0:50 }", "no operator of whole numbers"),
])
def test_what_stays(text: str, why: str) -> None:
    program = build(text)
    assert why in str(histogram_shapes.update(program, program.statements[-1], set()))
    assert not any(s.atomic for s in polytc.lower(text, GPU).rewritten.statements)


def test_the_shape_that_takes_least_and_why() -> None:
    lowered = polytc.lower("H[x[i]] += 1 -> (i64[256] H)", OpenCLTarget(DEVICES["nvidia-sm90"]), shapes={"x": (1 << 26,)},
                           dtypes={"x": "i32"})
    line = next(x for x in str(lowered.decisions).splitlines() if "atomics" in x)
    assert re.search(r"along=i steps=\d+ +# updated in local memory, \d+ parts along i, .* otherwise .* ms", line), line
    assert lowered.rewritten.tensor("H_local").size * 4 < 32 << 20
    text = CudaTarget().emit(lowered.loops).text
    assert "const i32x4*)(x +" in text
    assert "long long" not in text[text.index("k0("):text.index("k1(")]


@pytest.mark.parametrize("line", ["items=24 elements=1 along=i steps=2", "items=32 elements=3 along=i steps=2",
                                  "items=32 elements=1 along=k steps=2", "items=32 elements=32 along=i steps=2",
                                  "items=32 elements=1 along=i,K steps=2,2", "items=32 along=i steps=2"])
def test_lines_that_do_not_fit(line: str) -> None:
    record = f"{decisions.HEAD} {decisions.VERSION}\nlocal_tiles S1: by=atomics {line}\n"
    with pytest.raises(errors.CompileError, match="does not fit"):
        polytc.lower(CASES["counts"].text, GPU, decisions=record)


def test_only_the_mark_lets_items_meet() -> None:
    """The same schedule of a program without it carries a dependence between items."""
    lowered = shaped(CASES["counts"].text, 32, 1, 3)
    assert tree.refusal(lowered.schedule, lowered.dependences) is None
    plain = replace(lowered.rewritten, statements=tuple(replace(s, atomic=False) for s in lowered.rewritten.statements))
    found = tree.refusal(lowered.schedule, dependences.analyse(replace(lowered.scop, program=plain)))
    assert found is not None
    assert found.code == "E704"
    assert found.loop is not None
    assert found.loop[0] == "thread0"
    own, again = lowered.dependences, pickle.loads(pickle.dumps(lowered.dependences))
    assert str(again.kept_apart("thread0")) == str(own.kept_apart("thread0")) != str(again.kept_apart("parallel"))


@pytest.mark.part(2)
@pytest.mark.parametrize("kind", ["vector", "parallel", "reduce"])
def test_schedules_cannot_have_updates_meet_otherwise(kind: str) -> None:
    """Lanes and threads are no items, and partial results of a reduce loop are no element that others update."""
    text = CASES["counts"].text
    own = str(polytc.lower(text, GPU).schedule)
    assert "K0.1.1 unroll unroll" in own
    for mark in (f"K0.1.1 unroll {kind}", f"K0.1.1 {kind} unroll"):
        with pytest.raises(errors.IllegalTransform, match="E704"):
            polytc.lower(text, GPU, schedule=own.replace("K0.1.1 unroll unroll", mark))


OPEN = {
    "counts": ("def f(i32[n] x) -> (i64[8] H) { H[x[i]] += 1 }", {"x": ("n",)}, counted(8)),
    "rows": ("def f(i32[m,n] x) -> (i32[m,9] H) { H[r,x[r,i]] += 1 }", {"x": ("m", "n")}, of_rows),
    "an image": ("def f(u8[m,n] x) -> (i64[16] H) { H[x[i,j]] += 1 }", {"x": ("m", "n")}, of_an_image),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("name", OPEN)
def test_sizes_that_stay_open(name: str, compiled: list[Gpu]) -> None:
    text, shapes, expected = OPEN[name]
    typical = {"n": 50_000} if len(shapes["x"]) == 1 else {"m": 40, "n": 40_000}
    program = build(text, shapes, typical=typical)
    for target in compiled:
        lowered = compiler.lower_program(program, target)
        assert in_groups(lowered), lowered.schedule.how
        op = polytc.compile(text, target, shapes=shapes, typical=typical)
        for sizes in ((1, 1), (3, 300), (2, 1025)):
            rng = np.random.default_rng(3)
            shape = sizes[-len(shapes["x"]):]
            x = rng.integers(0 if name == "an image" else -2, 18, shape).astype(program.tensor("x").dtype.numpy)
            np.testing.assert_array_equal(np.reshape(op(x=x), expected({"x": x}).shape), expected({"x": x}))


def test_a_target_whose_size_stays_open_stays() -> None:
    program = build("def f(i32[n] x, inout i32[m] H) -> (H) { H[x[i]] += 1 }", {"x": ("n",), "H": ("m",)},
                    typical={"n": 50_000, "m": 16})
    lowered = compiler.lower_program(program, GPU)
    assert not any(s.atomic for s in lowered.rewritten.statements)


def test_programs_say_which_updates_are_atomic() -> None:
    printed = str(shaped(CASES["counts"].text, 32, 4, 3).rewritten)
    marked = [line for line in printed.splitlines() if line.endswith("# atomic")]
    assert len(marked) == 1
    assert marked[0].strip().startswith("S1_local: H_local[")
    plain = build(CASES["counts"].text)
    one = replace(plain, statements=tuple(replace(s, atomic=s.op is not None) for s in plain.statements))
    assert str(one) != str(plain)
    assert build(str(one)) == build(str(plain))                       # to the language the mark is a comment
    assert canonical(one) != canonical(plain)                         # to what code is looked up by it is not


def test_other_shapes_are_options() -> None:
    program = build("def f(i32[1048576] x) -> (i64[256] H) { H[x[i]] += 1 }")
    machine = DEVICES["nvidia-sm90"]
    found = [tuple(x for x in o.choices if x.statement == "S1") for places in staging.STRAIGHT.options(program, machine)
             for o in places[0] if o.choices]
    shapes = {(x.elements, x.steps) for lines in found for x in lines if x.by == "atomics"}
    assert {n for (n,), _ in shapes} == {1, 2, 4, 8, 16}
    assert any(x.by == "parts" for lines in found for x in lines)
    assert len(shapes) == len({steps for _, steps in shapes}) * 5
    assert all(staging.STRAIGHT.fits(program, machine, lines) is None for lines in found[:3])


@pytest.mark.parametrize(("text", "parts", "begins"), [
    ("H[x[i]] += 1 -> (i32[9] H)", 1, True), ("H[x[i]] += 1 -> (i32[9] H)", 2, False),
    ("H[k] = 5 where k in 0:9\nH[x[i]] += 1", 1, False),                        # it begins with another number
    ("H[r,x[r,i]] += 1 -> (i32[4,9] H)", 1, True),
    ("H[k,l] = 0 where k in 0:4, l in 0:9\nH[r,x[r,i]] += 1 where r in 0:3", 1, False),   # a row is no group's
    ("H[k,l] = 0 where k in 0:5, l in 0:9\nH[r+1,x[r,i]] += 1", 1, True),                 # a group has all of them
])
def test_a_kernel_sets_the_target_where_that_begins_with_nothing(text: str, parts: int, begins: bool) -> None:
    program = build(text, {"x": (4, 30) if "r,i" in text else (30,)}, {"x": I32})
    start, update = program.statements
    shape = histogram_shapes.Histogram("i", parts, 1, 1, 32)
    assert local_histograms.may_begin(program, start, update, shape) == begins
