"""Contractions for devices whose local memory is no faster than the caches: operands in the registers of each item."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from polytc.codegen import loops, traverse
from polytc.machine import DEVICES
from polytc.program.names import Names
from polytc.rewrite import staging
from polytc.rewrite.gpu import contraction_tiles, division, local_tiles, matrix_tiles
from polytc.rewrite.gpu.enclosing import Enclosing
from polytc.rewrite.gpu.tiled_contraction import TiledContraction
from polytc.schedule.facts.fusion_groups import partition
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.rewrite.equal import same_results
from tests.rewrite.gpu.test_local_tiles import PROGRAMS, arrays, run

SLOW = ("intel-xe", "mali")
MATMUL = "C[i,j] += A[i,k]*B[k,j]"
MORE = {
    "unaligned": (MATMUL, {"A": (71, 43), "B": (43, 75)}, lambda A, B: A @ B),
    "rows of B": ("C[i,j] += A[i,k]*B[j,k]", {"A": (41, 38), "B": (35, 38)}, lambda A, B: A @ B.T),
    "columns of A": ("C[i,j] += A[k,i]*B[k,j]", {"A": (38, 41), "B": (38, 35)}, lambda A, B: A.T @ B),
    "a triangle": (f"{MATMUL} where k <= i", {"A": (41, 43), "B": (43, 37)}, lambda A, B: np.tril(A) @ B),
    "shorter steps": ("C[i,j] += A[i,3*k]*B[k,j] where k in 0:13", {"A": (41, 39), "B": (13, 37)},
                      lambda A, B: A[:, ::3] @ B),
    "no loop over steps": (MATMUL, {"A": (70, 6), "B": (6, 70)}, lambda A, B: A @ B),
}


def lowered(text: str, machine: str, **shapes: tuple[int, ...]) -> tuple[loops.Module, str]:
    """The loops, and OpenCL C."""
    made = compiler.lower_program(stages.build(text, shapes), OpenCLTarget(DEVICES[machine]))
    assert "refused" not in made.schedule.how
    return made.loops, made.source.text


@pytest.mark.part(18)
@pytest.mark.parametrize("machine", SLOW)
@pytest.mark.parametrize("name", [*PROGRAMS, *MORE])
def test_results(name: str, machine: str, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    text, shapes, expected = (PROGRAMS | MORE)[name]
    given = arrays(shapes)
    np.testing.assert_array_equal(run(text, given, OpenCLTarget(DEVICES[machine])), expected(**given))


@pytest.mark.part(4)
@pytest.mark.parametrize("machine", ["generic-gpu", "nvidia-sm90", *SLOW])
@pytest.mark.parametrize(("text", "einsum"), [
    ("T[i,j,k+2] += A[i,k]*B[q,k] where k in 1:8, j in 0:12", "ik,qk->ik"),
    ("T[i,j,k+2] += A[i,k]*C[q,k,j] where k in 1:8", "ik,qkj->ijk")])
def test_a_loop_that_moves_the_target_is_no_sum(text: str, einsum: str, machine: str, targets: tuple[str, ...]) -> None:
    """Of an update in place, whose elements one subscript shifts."""
    whole = f"def f(f32[32,8] A, f32[3,8] B, f32[3,8,12] C, inout f32[32,12,10] T) -> (T) {{ {text} }}"
    shapes = {"A": (32, 8), "B": (3, 8), "C": (3, 8, 12), "T": (32, 12, 10)}
    target = OpenCLTarget(DEVICES[machine])
    compiler.lower_program(stages.build(whole, shapes), target)
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    given = arrays(shapes)
    added = np.einsum(einsum, given["A"], given["C" if "C[" in text else "B"])
    expected = given["T"].copy()
    expected[:, :, 3:10] += added[:, None, 1:] if added.ndim == 2 else added[:, :, 1:]
    np.testing.assert_array_equal(polytc.run(whole, target=target, **given), expected)


@pytest.mark.parametrize("name", ["odd sizes", "padded convolution", "no sum of products", "a part of the operands"])
def test_cut_statements_mean_the_same(name: str) -> None:
    text, shapes, _ = PROGRAMS[name]
    program = stages.build(text, shapes)
    made = local_tiles.map_to_work_groups(program, division.own(DEVICES["mali"]))
    assert any("_own" in t.name for t in made.tensors)
    same_results(program, made)


@pytest.mark.part(10)
@pytest.mark.parametrize("machine", SLOW)
@pytest.mark.parametrize(("shift", "there"), [(0, 39), (0, 33), (-2, 39), (3, 41), (-9, 20)])
def test_operands_may_end_before_a_ragged_sum(shift: int, there: int, machine: str) -> None:
    """Steps with elements beyond an end that comes before that of the sum, or behind a beginning, have tests as well."""
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (20, there)).astype(np.uint8), rng.integers(0, 256, (64, 41)).astype(np.uint8)
    places = np.arange(41) + shift
    inside = (places >= 0) & (places < there)
    wanted = np.where(inside, x.astype(int)[:, np.clip(places, 0, there - 1)], 0) @ w.astype(int).T
    text = f"C[i,j] += i32(W[j,k])*i32((X[i,k+{shift}] else 0)) where k in 0:41".replace("+-", "-")
    np.testing.assert_array_equal(polytc.compile(text, InterpTarget(DEVICES[machine]))(X=x, W=w), wanted)


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", ["f2", "f8", "i4", "u1"])
def test_dtypes(dtype: str, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    given = {n: (a % 3).astype(dtype) for n, a in arrays({"A": (33, 22), "B": (22, 26)}, "i8").items()}
    np.testing.assert_array_equal(run(MATMUL, given, OpenCLTarget(DEVICES["mali"])), given["A"] @ given["B"])


def test_infinities_beyond_the_reduction_do_not_count(targets: tuple[str, ...]) -> None:
    """The last step reads no further; zero times infinity would be no number."""
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    given = {n: np.abs(a) + 1 for n, a in arrays({"A": (17, 21), "B": (21, 19), "s": (17,)}).items()}
    given["s"][:] = np.inf
    assert np.isinf(run("C[i,j] += A[i,k]*B[k,j]*s[i]", given, OpenCLTarget(DEVICES["mali"]))).all()


@pytest.mark.parametrize("machine", SLOW)
def test_operands_are_vectors_in_registers(machine: str) -> None:
    module, source = lowered(MATMUL, machine, A=(1024, 1024), B=(1024, 1024))
    assert "__local" not in source
    assert "barrier(" not in source
    assert " if (" not in source
    assert "*(__global const float4*)(A + " in source
    assert "*(__global const float4*)(B + " in source
    assert re.search(r"float4 C_acc\[(4|8|16)\]", source)
    assert module.scratch == ()


@pytest.mark.parametrize(("shapes", "steps"), [(((417, 211), (211, 417)), 52), (((5000, 417), (417, 211)), 104)])
def test_whole_tiles_of_ragged_products_have_no_tests(shapes: tuple[tuple[int, int], tuple[int, int]], steps: int) -> None:
    """One loop for those, one for what else there is."""
    module, source = lowered(MATMUL, "mali", A=shapes[0], B=shapes[1])
    inner, _ = (s for s in traverse.walk_stmt(module.kernels[0].body) if isinstance(s, loops.For) and s.kind == "sequential")
    assert f"< {steps};" in source
    assert not any(isinstance(e, loops.Select) for s in traverse.walk_stmt(inner.body) for top in traverse.expressions(s)
                   for e in traverse.walk_expr(top))
    assert any(isinstance(e, loops.Ramp) for s in traverse.walk_stmt(inner.body) for top in traverse.expressions(s)
               for e in traverse.walk_expr(top))
    assert not any(b.space == "global" for b in module.scratch)


@pytest.mark.parametrize("machine", SLOW)
@pytest.mark.parametrize(("text", "shapes"), [
    (MATMUL, {"A": (1000, 1000), "B": (1000, 1000)}),
    ("C[b,i,j] += A[b,i,k]*B[b,k,j]", {"A": (12, 128, 64), "B": (12, 64, 128)}),
    ("C[i,j] += A[k,i]*B[j,k]", {"A": (512, 512), "B": (512, 512)}),
    ("O[n,m,h,w] += W[m,c,r,s]*(X[n,c,h+r-1,w+s-1] else 0) where h in 0:28, w in 0:28",
     {"W": (64, 64, 3, 3), "X": (1, 64, 28, 28)}),
    ("C[i,j] += i32(A[i,k])*i32(B[k,j])", {"A": (512, 512), "B": (512, 512)})])
def test_items_have_eight_results_at_least_and_registers_enough(text: str, shapes: dict[str, tuple[int, ...]], machine: str
                                                                 ) -> None:
    dtypes = dict.fromkeys(shapes, "i8") if "i32" in text else None
    program, device = stages.build(text, shapes, dtypes), DEVICES[machine]
    found = contraction_tiles.choose(program, partition(program, "smart")[0], device)
    assert found is not None
    assert not found.staged
    assert np.prod(found.elements) >= 8
    assert np.prod(found.elements) + matrix_tiles.ADDRESSES < device.item_registers


def test_the_estimate_decides_where_operands_lie() -> None:
    program, fast = stages.build(MATMUL, {"A": (512, 512), "B": (512, 512)}), DEVICES["nvidia-sm90"]
    (group,) = partition(program, "smart")
    for cost, staged in ((4, True), (0.01, False)):
        found = contraction_tiles.choose(program, group, fast.costing({"groups.cached": cost}))
        assert found is not None
        assert found.staged == staged


def test_the_reason_says_where_operands_are() -> None:
    program = stages.build(MATMUL, {"A": (2048, 2048), "B": (2048, 2048)})
    told = " | ".join(map(str, staging.STRAIGHT.decide(program, DEVICES["mali"]).reasons))
    assert "operands read into registers for 4 x 4 results of each item, as local memory is no faster than the caches" in told


def test_transpositions_go_through_local_memory_where_there_is_some() -> None:
    _, source = lowered("B[j,i] = A[i,j]", "mali", A=(512, 512))
    assert "__local float A_tile" in source


@pytest.mark.parametrize("machine", [*SLOW, "nvidia-sm90"])
def test_each_point_is_one_element_of_one_item_and_one_step(machine: str) -> None:
    """The parts of an index are the digits of a number, also where tiles stick out."""
    program = stages.build(MATMUL, {"A": (200, 90), "B": (90, 300)})
    (group,) = partition(program, "smart")
    blocking = contraction_tiles.choose(program, group, DEVICES[machine])
    assert blocking is not None
    made = TiledContraction(program, group, blocking, Names.of(program), Enclosing())
    for index, extent in (("i", 200), ("j", 300), ("k", 90)):
        parts = (*made.cuts[index].outer, *made.cuts[index].inner)
        values = [made.cuts[index].start]
        for r, stride in parts:
            values = [v + stride * n for v in values for n in range(r.lower, r.upper)]
        assert sorted(values) == list(range(len(values)))
        assert len(values) >= extent
