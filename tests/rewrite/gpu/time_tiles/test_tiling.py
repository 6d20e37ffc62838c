"""Loops around stencils in tiles of several iterations: the numbers of the text for any extents, shapes and counts of steps."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import compiler, decisions, stages
from polytc.codegen.target import Target
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.program import Program
from polytc.rewrite import table
from polytc.rewrite.gpu.time_tiles import geometry, launches, loop_text, shapes, stencils, tiling
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import cubins, cuda_here
from tests.nvrtc_here import NEEDS_NVRTC
from tests.rewrite.gpu.time_tiles.stencil_programs import FORMS, Stencil, Tap, drawn

GPU = DEVICES["nvidia-sm90"]
HEAD = f"{decisions.HEAD} {decisions.VERSION}\n"
SHAPES = {1: [((16,), (1,)), ((8,), (4,)), ((32,), (2,)), ((128,), (1,))],
          2: [((16, 4), (1, 4)), ((8, 8), (2, 2)), ((8, 4), (4, 8)), ((16, 4), (2, 8))],
          3: [((8, 4, 2), (2, 2, 8)), ((16, 2, 2), (1, 8, 4)), ((8, 4, 4), (2, 4, 4))]}
"""Items and elements: small tiles, so that small arrays have several."""


def line(p: Program, steps: int, items: tuple[int, ...], elements: tuple[int, ...]) -> tiling.Tiled:
    first = next(s.name for s in p.statements if s.loops)
    return tiling.Tiled(first, steps, items, elements)


def record(choice: tiling.Tiled) -> str:
    return f"{HEAD}{decisions.entry('time_tiles', choice)}\n"


def fitting(rng: np.random.Generator, p: Program, rank: int) -> tiling.Tiled | None:
    """A shape of SHAPES that fits, with as many steps as may be of a random number."""
    most = int(rng.integers(1, 7))
    for n in rng.permutation(len(SHAPES[rank])):
        for steps in range(most, 0, -1):
            choice = line(p, steps, *SHAPES[rank][n])
            if not tiling.fits(p, GENERIC_GPU, choice):
                return choice
    return None


def check(s: Stencil, choice: tiling.Tiled, p: Program, target: Target) -> None:
    given = s.inputs(np.random.default_rng(5))
    expected, arrays = s.expected(given), {n: a.copy() for n, a in given.items()}
    low = compiler.lower_program(p, target, schedule=record(choice))
    assert "program order" not in low.schedule.how
    assert any("tile" in t.name for t in low.rewritten.tensors)
    target.load(target.build(low.source), 1).run([arrays[n] for n in p.arrays])
    for n, e in expected.items():
        told = f"{n} of\n{s.text()}\n{choice} on {target.name}"
        if isinstance(target, InterpTarget) or e.dtype.kind != "f":
            assert np.array_equal(arrays[n], e, equal_nan=True), told
        else:  # compilers of devices contract products and sums
            largest = np.max(np.abs(e), where=np.isfinite(e), initial=0.0)
            np.testing.assert_allclose(arrays[n], e, rtol=0, atol=64 * np.finfo(e.dtype).eps * largest, err_msg=told)


def random_cases(seed: int) -> tuple[Stencil, Program, tiling.Tiled | None]:
    rng = np.random.default_rng(seed)
    rank = (1, 1, 2, 2, 2, 3)[seed % 6]
    s = drawn(rng, rank, int(rng.integers(1, 14)) if rank < 3 else int(rng.integers(1, 7)))
    p = stages.build(s.text(), {})
    return s, p, fitting(rng, p, rank)


@pytest.mark.part(48)
@pytest.mark.parametrize("seed", range(96))
def test_random_stencils(seed: int) -> None:
    s, p, choice = random_cases(seed)
    if choice is not None:
        check(s, choice, p, InterpTarget(GENERIC_GPU))


def test_most_of_them_have_tiles() -> None:
    found = [random_cases(seed)[2] for seed in range(48)]
    assert sum(x is not None for x in found) > 30


@pytest.mark.part(48)
@pytest.mark.parametrize("seed", range(200, 248))
def test_random_stencils_by_compilers(seed: int, targets: tuple[str, ...]) -> None:
    s, p, choice = random_cases(seed)
    if choice is None:
        return
    if "opencl" in targets:
        check(s, choice, p, OpenCLTarget(GENERIC_GPU))
    if cuda_here.COMPILER:
        check(s, choice, p, cuda_here.CompiledCuda(GENERIC_GPU))


LINE = (Tap((-1,), 1, False), Tap((0,), 2, True), Tap((1,), 1, False))


@pytest.mark.part(14)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 17, 24, 25])
def test_any_number_of_steps(form: str, steps: int) -> None:
    """Pairs of launches, of fewer steps what is left, and the last ones as they are."""
    s = Stencil(form, (70,), LINE, None, "i32", steps)
    p = stages.build(s.text(), {})
    k = 6 if form == "waves" else 4
    choice = line(p, k, (32,), (1,))
    why = tiling.fits(p, GENERIC_GPU, choice)
    if not why:
        check(s, choice, p, InterpTarget(GENERIC_GPU))
    assert not why or steps < 7
    assert why == "" or "too few for two launches" in why or "`steps` is a multiple" in why or "reads no neighbours" in why


@pytest.mark.part(2)
@pytest.mark.parametrize("form", FORMS)
def test_one_group_runs_all_iterations(form: str) -> None:
    s = Stencil(form, (29,), LINE, None, "i32", 12)
    p = stages.build(s.text(), {})
    choice = line(p, 12, (32,), (1,))
    check(s, choice, p, InterpTarget(GENERIC_GPU))
    low = compiler.lower_program(p, OpenCLTarget(GENERIC_GPU), schedule=record(choice))
    (launch,) = low.source.launches
    assert launch.global_size == launch.local_size
    assert not low.loops.scratch


def test_no_steps() -> None:
    s = Stencil("alternating", (29,), LINE, None, "i32", 0)
    p = stages.build(s.text(), {})
    assert not tiling.decide(p, GPU).choices
    given = s.inputs(np.random.default_rng(0))
    arrays = {n: a.copy() for n, a in given.items()}
    compiler.compile_program(p, InterpTarget(GENERIC_GPU)).run([arrays[n] for n in p.arrays])
    assert all(np.array_equal(arrays[n], given[n]) for n in s.fields)


JACOBI = """def jacobi(inout f64[N,N] A, inout f64[N,N] B) -> (A, B) {
    for t in 0:T {
        B[i,j] = 0.2 * (A[i,j] + A[i,j-1] + A[i,j+1] + A[i+1,j] + A[i-1,j])
        A[i,j] = 0.2 * (B[i,j] + B[i,j-1] + B[i,j+1] + B[i+1,j] + B[i-1,j])
    }
}"""


def jacobi(n: int, steps: int) -> Program:
    return stages.build(JACOBI.replace("0:T", f"0:{steps}"), {"A": (n, n), "B": (n, n)})


def test_launches_and_local_memory() -> None:
    """2 launches for 8 iterations, 2 for the 3 that are left, and the last iteration; tiles are in local memory."""
    p = jacobi(1300, 500)
    low = compiler.lower_program(p, CudaTarget(GPU), schedule=record(line(p, 4, (32, 16), (2, 2))))
    assert [len(x.loops) for x in low.source.launches] == [1, 1, 0, 0, 0, 0]
    assert str(low.source.launches[0].loops[0]) == "for t in 0:62"
    assert [b.name for b in low.loops.scratch] == ["A_next"]
    assert low.source.text.count("__shared__ double") == 8


@pytest.mark.long
def test_items_meet_where_all_of_them_are() -> None:
    """No barrier stands in a condition."""
    p = jacobi(200, 30)
    text = compiler.lower_program(p, CudaTarget(GPU), schedule=record(line(p, 3, (32, 8), (1, 4)))).source.text
    depth, around = 0, list[tuple[int, str]]()
    for row in text.splitlines():
        depth -= row.strip().startswith("}")
        around = [x for x in around if x[0] < depth]
        if "__syncthreads" in row:
            assert not [x for _, x in around if x.startswith(("if", "} else"))]
        if row.rstrip().endswith("{"):
            around.append((depth, row.strip()))
            depth += 1


@pytest.mark.parametrize(("size", "steps", "said"), [(1300, 500, "iterations in a launch"), (1300, 1, "too few"),
                                                     (4000, 2, "not in time tiles")])
def test_reasons(size: int, steps: int, said: str) -> None:
    (reason,) = tiling.decide(jacobi(size, steps), GPU).reasons
    assert said in str(reason) or not reason.acted


REFUSED = [
    ("for i in 1:39 { A[i] = A[i-1] + A[i+1] }", "one level of statements"),
    ("B[i] = A[i-1] + A[i+1] where i in 1:39; A[i] = B[i] + B[39-i] where i in 1:39", "elsewhere than beside"),
    ("B[i] = A[i-1] + A[0] where i in 1:39; A[i] = B[i] + 0 where i in 1:39", "elsewhere than beside"),
    ("B[i] = A[i-1] where i in 1:39; A[39-i] = B[i] where i in 1:39", "elsewhere than at its indices"),
    ("B[i] = A[i-1] where i in 1:39; A[i] += B[i] where i in 1:39, i % 2 == 0", "is no assignment of a box"),
    ("s +=! A[i] where i in 1:39; A[i] = A[i] + s where i in 1:39", "is no assignment of a box"),
    ("B[i] = A[i-1] where i in 1:39; A[i] = B[i] where i in 1:39; E[t] +=! A[i]", "writes other elements of E"),
    ("E[t] = A[t]; A[t+1] = E[t] + A[t]", ""),
    ("B[i] = A[i] + 1 where i in 0:40; A[i] = B[i] * 2 where i in 0:40", "")]


@pytest.mark.parametrize(("body", "said"), REFUSED)
def test_what_is_no_stencil_is_told(body: str, said: str) -> None:
    p = stages.build(f"def f(inout f32[40] A) -> (A) {{ for t in 0:20 {{ {body} }} }}", {})
    decision = tiling.decide(p, GPU)
    assert not decision.choices
    assert said in str(decision.reasons[0]) if said else not decision.reasons


@pytest.mark.parametrize(("values", "said"), [
    ("steps=4 items=32 elements=1", "are 2 numbers"), ("steps=40 items=32,8 elements=1,1", "its halo takes all of it"),
    ("steps=1 items=64,64 elements=1,1", "a group has 1 to"), ("steps=1 items=32,8 elements=8,8", "bytes of local memory")])
def test_lines_that_do_not_fit(values: str, said: str) -> None:
    p = jacobi(100, 30)
    with pytest.raises(polytc.PolytcError, match=f"(?s)E710.*{said}"):
        compiler.lower_program(p, OpenCLTarget(GENERIC_GPU), schedule=f"{HEAD}time_tiles S1: {values}\n")


def test_alternatives_are_priced() -> None:
    (place,) = tiling.options(jacobi(1300, 500), GPU)
    costs = [o.cost for o in place]
    assert len(costs) > 4
    assert costs[1:] == sorted(costs[1:])
    assert all(c is not None for c in costs)


def test_how_far_tiles_reach() -> None:
    p = jacobi(100, 30)
    s = stencils.of(p, p.statements)
    assert isinstance(s, stencils.Stencils)
    found = geometry.reach(p, s)
    assert found.more == ((2, 2), (2, 2))
    assert [x.beside for x in found.instances] == [((1, 1), (1, 1)), ((0, 0), (0, 0))]
    assert found.halo(3) == ((6, 6), (6, 6))
    assert found.stored == ("A",)
    loop = loop_text.Loop.of(p, s)
    assert (loop.last, loop.doubled) == (1, ("A",))
    assert shapes.Costs(loop, GPU).choose() is not None
    assert launches.Frame((8, 32), (4, 1), loop.grid, 3, (), launches.Affine(0, ())).widths == (32, 32)


def test_processors_have_no_time_tiles() -> None:
    assert table.named("time_tiles").kinds == frozenset(("gpu",))


class TestRegisters:
    pytestmark = NEEDS_NVRTC

    @pytest.mark.parametrize("dtype", ["f32", "f64"])
    def test_nothing_is_spilled(self, dtype: str) -> None:
        text = JACOBI.replace("f64", dtype).replace("0:T", "0:100")
        source = compiler.lower_program(stages.build(text, dict.fromkeys("AB", (1300, 1300))), CudaTarget(GPU)).source
        assert "__shared__" in source.text
        used = cubins.kernels(nvrtc.compiled(source.text, "sm_90", source.options["build"].split(), ptx=False))
        assert set(used) == {x.entry for x in source.launches}
        assert {entry: stack for entry, (_, stack) in used.items() if stack} == {}
        assert all(1 <= registers <= 64 for registers, _ in used.values())


TWO = """def two(inout f32[50] A, f32[50] X) -> (A, Y, Z) {
    Y[i] = X[i] * 2
    for t in 0:9 { B[i] = A[i-1] + A[i+1] where i in 1:49; A[i] = B[i] where i in 1:49 }
    Z[i] = A[i] + Y[i]
    for t in 0:9 { B2[i] = Z[i-1] - Z[i+1] where i in 1:49; Z[i] = B2[i] where i in 1:49 }
    Y[i] = Z[49-i] + Y[i]
}"""


def test_two_loops_among_other_statements() -> None:
    p = stages.build(TWO, {})
    firsts = [s.name for s in p.statements if s.loops][::2]
    lines = "".join(f"{decisions.entry('time_tiles', tiling.Tiled(n, 2, (16,), (1,)))}\n" for n in firsts)
    rng = np.random.default_rng(1)
    a, x = (rng.integers(-3, 4, 50).astype("f4") for _ in range(2))
    got = {"A": a.copy(), "X": x, "Y": np.zeros(50, "f4"), "Z": np.zeros(50, "f4")}
    made = compiler.compile_program(p, InterpTarget(GENERIC_GPU), schedule=HEAD + lines)
    made.run([got[n] for n in p.arrays])
    for _ in range(9):
        a[1:-1] = a[:-2] + a[2:]
    z = a + 2 * x
    for _ in range(9):
        z[1:-1] = z[:-2] - z[2:]
    for n, e in {"A": a, "Z": z, "Y": z[::-1] + 2 * x}.items():
        assert np.array_equal(got[n], e), n


@pytest.mark.parametrize(("body", "said"), [
    ("B[i] = A[i-99] where i in 99:300; A[i] = B[i] where i in 99:300", "elements away"),
    ("B[i] = A[(i+1)%300] where i in 0:300; A[i] = B[i] where i in 0:300", "elsewhere than beside"),
    ("B[i] = A[max(i-1,0)] where i in 0:300; A[i] = B[i] where i in 0:300", "elsewhere than beside")])
def test_what_has_no_tiles(body: str, said: str) -> None:
    p = stages.build(f"def f(inout f32[300] A) -> (A) {{ for t in 0:20 {{ {body} }} }}", {})
    assert said in str(tiling.decide(p, GPU).reasons[0])


def test_complex_numbers_have_no_tiles() -> None:
    p = stages.build("def f(inout c64[300] A) -> (A) { for t in 0:20 { B[i] = A[i-1] + A[i+1] where i in 1:299; "
                     "A[i] = B[i] where i in 1:299 } }", {})
    assert "complex numbers" in str(tiling.decide(p, GPU).reasons[0])


def test_stores_of_different_boxes_are_one_phase() -> None:
    """What an item stores is told apart by conditions on its place: no barrier stands in them."""
    p = stages.build("def f(inout i16[5,8,8] A, inout i16[5,8,8] B) -> (A, B) { for t in 1:3 { "
                     "B[i,j,k] = B[i,j,k] + A[i-1,j,k-1] where i in 1:5, j in 0:8, k in 1:8; "
                     "A[i,j,k] = max(B[i+2,j+1,k+1], B[i+3,j+1,k+3]) + A[i,j,k] where i in 0:2, j in 0:7, k in 0:5 } }", {})
    low = compiler.lower_program(p, CudaTarget(GPU), schedule=record(line(p, 2, (8, 4, 4), (2, 4, 4))))
    assert "program order" not in low.schedule.how
