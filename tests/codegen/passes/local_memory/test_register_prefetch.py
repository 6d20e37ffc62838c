"""Loads of the next step before the arithmetic of this one: the same results, chosen by registers, asked for by schedules."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polytc
from polytc import errors
from polytc.codegen import loops, traverse
from polytc.codegen.passes.local_memory import double_buffers, fetches, register_prefetch
from polytc.machine import DEVICES, Machine
from polytc.schedule.user.changes.prefetching import Prefetch
from polytc.schedule.user.recipe import Recipe
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.cuda_here import COMPILER, CompiledCuda
from tests.nvrtc_here import NEEDS_NVRTC
from tests.schedule.user.test_recipe import refusal

GPU = DEVICES["nvidia-sm90"]
SMALL = replace(GPU, local_bytes=3 << 10, unit_local_bytes=0)
"""Whose groups have no room for two copies of tiles."""
MATMUL = "C[i,j] += A[i,k]*B[k,j]"


def tiled(n: int = 64, k: int = 96) -> Recipe:
    """Tiles of 16 x 16 x 16 through local memory."""
    g = polytc.schedule(MATMUL, shapes={"A": (n, k), "B": (k, n)})
    g = g.fuse("S1_init", "S1", depth=2).tile("S1", i=16, j=16).split("S1", "k", 16)
    g = g.distribute("S1_init", "S1", depth=2).reorder("S1", "k.0", "i.1", "j.1", "k.1")
    g = g.bind("S1", {"i.0": "grid.y", "j.0": "grid.x", "i.1": "block.y", "j.1": "block.x"})
    g = g.bind("S1_init", {"i.1": "block.y", "j.1": "block.x"})
    g = g.cache("S1", "A", at="k.0", space="local").bind("S1_A", {"i": "block.y", "k": "block.x"})
    return g.cache("S1", "B", at="k.0", space="local").bind("S1_B", {"k": "block.y", "j": "block.x"})


def asked(n: int = 64, k: int = 96) -> Recipe:
    return tiled(n, k).prefetch("A_S1", "A", at="k.0").prefetch("B_S1", "B", at="k.0")


def source(machine: Machine, schedule: Recipe | None = None, n: int = 64, k: int = 96) -> str:
    low = polytc.lower(MATMUL, CudaTarget(machine), shapes={"A": (n, k), "B": (k, n)}, schedule=schedule)
    return low.source.text


def where(text: str, *marks: str) -> list[int]:
    """The places of the first lines that have these, in the innermost loop over steps."""
    inside = text[text.index("for (int k"):]
    return [inside.index(m) for m in marks]


TARGETS: list[Callable[[], Any]] = [
    lambda: InterpTarget(GPU), lambda: InterpTarget(SMALL), lambda: "cpu", lambda: "interp", lambda: "opencl",
    lambda: CompiledCuda(), lambda: CompiledCuda(SMALL)]


@pytest.mark.part(14)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "k"), [(64, 96), (37, 90), (64, 40), (64, 16)])
def test_results(target: Callable[[], Any], n: int, k: int, targets: tuple[str, ...]) -> None:
    to = target()
    if to == "opencl" and "opencl" not in targets or isinstance(to, CompiledCuda) and COMPILER is None:
        pytest.skip("not here")
    s, r = asked(n, k), np.random.default_rng(n + k)
    a, b = (r.integers(-4, 5, x).astype("f4") for x in ((n, k), (k, n)))
    np.testing.assert_array_equal(polytc.run(MATMUL, a, b, schedule=s, target=to), a @ b)


@pytest.mark.part(20)
@pytest.mark.parametrize("target", [lambda: InterpTarget(GPU), lambda: CompiledCuda(), lambda: CompiledCuda(SMALL),
                                    lambda: OpenCLTarget(GPU)])
@pytest.mark.parametrize(("text", "shapes", "types"), [
    (MATMUL, {"A": (70, 130), "B": (130, 75)}, {}),
    (MATMUL, {"A": (70, 128), "B": (128, 75)}, {"A": "f64", "B": "f64"}),
    (MATMUL, {"A": (64, 256), "B": (256, 64)}, {"A": "f16", "B": "f16"}),
    ("C[i,j] += i32(A[i,k])*i32(B[k,j])", {"A": (70, 130), "B": (130, 75)}, {"A": "i8", "B": "i8"}),
    ("O[n,m,h] += (I[n,c,h+r-1] else 0) * W[m,c,r] where h in 0:20", {"I": (3, 32, 20), "W": (16, 32, 3)}, {}),
])
def test_results_of_what_is_decided(target: Callable[[], Any], text: str, shapes: dict[str, tuple[int, ...]],
                                    types: dict[str, str], targets: tuple[str, ...]) -> None:
    """Against the same program with the order of its text, on numbers whose sums are exact."""
    to = target()
    if isinstance(to, OpenCLTarget) and "opencl" not in targets or isinstance(to, CompiledCuda) and COMPILER is None:
        pytest.skip("not here")
    r = np.random.default_rng(3)
    given = {n: r.integers(-3, 4, s).astype({"f16": "f2", "f64": "f8", "i8": "i1"}.get(types.get(n, ""), "f4"))
             for n, s in shapes.items()}
    expected = polytc.run(text, **given, target="interp", schedule="program")
    np.testing.assert_array_equal(polytc.run(text, **given, target=to), expected)


def test_loads_come_before_the_arithmetic_and_stores_behind_it() -> None:
    one = source(SMALL, asked())
    assert "_other" not in one
    assert (order := where(one, "A_S1[item_y]", "A_S1_next = A[", "C_S1 +=")) == sorted(order), "store, load the next, compute"
    two = source(GPU, asked())
    order = where(two, "A_S1_next = A[", "C_S1 +=", "A_S1_other[item_y][item_x] = A_S1_next")
    assert order == sorted(order), "load the next, compute, store"


def test_registers_decide() -> None:
    """Tiles of 8 x 8 sums take all that two groups of a unit have; smaller ones leave some."""
    def chosen(machine: Machine, n: int, **types: str) -> register_prefetch.Choice:
        low = polytc.lower(MATMUL, CudaTarget(machine), shapes={"A": (n, n), "B": (n, n)}, dtypes=types)
        before = dict(low.passes)[double_buffers.BEHIND]
        (found,) = (c for k in before.kernels for c in double_buffers.planned(k, machine)[1])
        assert ("_next" in low.source.text) == found.taken
        return found
    large, small = chosen(GPU, 4096), chosen(GPU, 512)
    assert (large.taken, large.words, large.fetches.words, large.groups) == (False, 120, 16, (2, 1))
    assert str(large).endswith("2 -> 1 groups of a unit, 1095 -> 1303 ns for a step of one; not taken")
    assert (small.taken, small.fetches.words, small.groups) == (True, 8, (2, 2))
    assert chosen(replace(GPU, item_registers=160), 4096).taken
    assert not chosen(GPU.costing({"groups.arrival": 0.0}), 512).taken, "nothing that is waited for"


def test_products_of_matrix_units_are_copied_past_registers() -> None:
    low = polytc.lower(MATMUL, CudaTarget(GPU), shapes={"A": (512, 512), "B": (512, 512)}, dtypes={"A": "f16", "B": "f16"})
    assert "polytc_copy_16" in low.source.text
    assert "_next" not in low.source.text


@pytest.mark.parametrize("architecture", [pytest.param(x, marks=NEEDS_NVRTC) for x in ("sm_80", "sm_90")])
def test_nvidias_compiler_spills_nothing(architecture: str) -> None:
    """Of what is decided, and of what a schedule asks for."""
    machine = DEVICES["nvidia-" + architecture.replace("_", "")]
    texts = [source(machine, asked()), source(machine, n=512, k=512), source(replace(machine, local_bytes=3 << 10), asked())]
    for text in texts:
        code = nvrtc.compiled(text, architecture, ptx=False)
        assert "_next" in text
        frames = [code[m.end() + 4:m.end() + 8] for m in re.finditer(rb"\x04\x11\x08\x00", code)]    # EIATTR_FRAME_SIZE
        assert frames
        assert not any(int.from_bytes(x, "little") for x in frames)


def test_saved_and_read() -> None:
    s = asked()
    assert [str(c) for c in s.changes if isinstance(c, Prefetch)] == [
        "prefetch S1_A A k.0 1 registers", "prefetch S1_B B k.0 1 registers"]
    again = tiled().read(s.yaml())
    assert (str(again), again.changes, again.steps) == (str(s), s.changes, s.steps)
    assert "S1_A: A_S1[j_each, i, k] = A[i, k]  # A 1 of k.0 ahead into registers" in str(s)
    assert source(SMALL, asked()) == polytc.lower(MATMUL, CudaTarget(SMALL), shapes={"A": (64, 96), "B": (96, 64)},
                                                  schedule=s.complete(SMALL).yaml()).source.text


def test_lines_of_caches(targets: tuple[str, ...]) -> None:
    """So many iterations ahead, each line once."""
    text, shapes = "Y[i] += A[i,k]*x[k]", {"A": (64, 4096), "x": (4096,)}
    far = polytc.schedule(text, shapes).vectorize("Y", "k", 16).prefetch("Y", "A", at="k.0", distance=24, into="cache")
    low = polytc.lower(text, "cpu", shapes=shapes, schedule=far)
    (line,) = (x for x in low.source.text.splitlines() if "call void @llvm.prefetch" in x)
    assert "i32 0, i32 2, i32 1" in line
    assert str(24 * 16 * 4) in low.source.text
    r = np.random.default_rng(0)
    a, x = (r.integers(-4, 5, s).astype("f4") for s in shapes.values())
    for target in {"cpu", "interp", "opencl"} & set(targets):
        np.testing.assert_array_equal(polytc.run(text, a, x, schedule=far, target=target), a @ x)


SCALED = "T[i,k] = f32(A[i,k]) * S[k]; C[i,j] += T[i,k]*B[k,j]"


@pytest.mark.part(4)
@pytest.mark.parametrize("target", TARGETS[:2] + TARGETS[-2:])
def test_a_tile_of_loads_of_several_types(target: Callable[[], Any]) -> None:
    """Registers of each type are an array with a name of its own."""
    to, r = target(), np.random.default_rng(0)
    if isinstance(to, CompiledCuda) and COMPILER is None:
        pytest.skip("not here")
    shapes, types = {"A": (32, 48), "S": (48,), "B": (48, 32)}, {"A": "i8"}
    g = polytc.schedule(SCALED, shapes=shapes, dtypes=types).tile("S2", i=16, j=16).split("S2", "k", 16)
    g = g.reorder("S2", "i.0", "j.0", "k.0", "i.1", "j.1", "k.1")
    g = g.bind("S2", {"i.0": "grid.y", "j.0": "grid.x", "i.1": "block.y", "j.1": "block.x"})
    g = g.compute_at("T", "S2", "k.0").bind("S2_T", {"i": "block.y", "k": "block.x"})
    g = g.prefetch("S2_T", "A", "k.0").prefetch("S2_T", "S", "k.0")
    a, s, b = r.integers(-4, 5, (32, 48)).astype("i1"), *(r.integers(-4, 5, shapes[n]).astype("f4") for n in "SB")
    np.testing.assert_array_equal(polytc.run(SCALED, a, s, b, schedule=g, target=to), (a * s) @ b)


def lines(loop: str, n: int = 3) -> Recipe:
    return polytc.schedule(MATMUL, {"A": (32, 48), "B": (48, 32)}).prefetch("S1", "A", at=loop, distance=n, into="cache")


@pytest.mark.part(2)
@pytest.mark.parametrize(("make", "says"), [
    (lambda: lines("k"), "A of S1, 3 of k ahead: in "),
    (lambda: lines("i", 2), "A of S1, 2 of i ahead: in "),
    (lambda: polytc.schedule(MATMUL, {"A": (32, 48), "B": (48, 32)}).collapse("S1", "i", "j").prefetch(
        "S1", "A", at="i_j", distance=3, into="cache"), "A of S1, 3 of i_j ahead: nowhere"),
    (lambda: polytc.schedule(MATMUL, {"A": (32, 48), "B": (48, 32)}).split("S1", "k", 48).prefetch(
        "S1", "A", at="k.0", distance=3, into="cache"), "A of S1, 3 of k.0 ahead: nowhere"),
])
def test_where_lines_are_asked_for_is_said(make: Callable[[], Recipe], says: str) -> None:
    """And nowhere is one asked for that is being read anyway."""
    shapes = {"A": (32, 48), "B": (48, 32)}
    assert says in str(polytc.explain(MATMUL, "cpu", shapes=shapes, schedule=make(), roofline=False))
    found = polytc.lower(MATMUL, "cpu", shapes=shapes, schedule=make()).source.text
    assert ("call void @llvm.prefetch" in found) == ("nowhere" not in says)
    assert "Lines of caches" not in str(polytc.explain(MATMUL, "interp", shapes=shapes, schedule=make(), roofline=False))


RECURRENCE = "def f(inout f32[N,M] A) -> (A) { for t in 0:4 { T[i] = A[t,i]; A[t+1,i] = T[i] + 1 } }"


@pytest.mark.part(2)
@pytest.mark.parametrize(("make", "code", "part"), [
    (lambda: polytc.schedule(RECURRENCE, {"A": (6, 8)}).prefetch("T", "A", at="t"), "E701",
     "into registers breaks S2[t=0, i=0] -> S1[t=1, i=0] on A[1, 0]"),
    (lambda: tiled().prefetch("S1", "A", at="k.0"), "E707", "S1 does not read 'A'"),
    (lambda: tiled().prefetch("S1", "A_S1", at="k.0"), "E708", "S1 is no copy"),
    (lambda: tiled().prefetch("A_S1", "A", at="j.0"), "E708", "all iterations of j.0 read the same of A"),
    (lambda: tiled().prefetch("A_S1", "A", at="i.0"), "E708", "i.0 of S1_A is a block1 loop"),
    (lambda: tiled().prefetch("A_S1", "A", at="k.0", distance=2), "E708", "not that of 2"),
    (lambda: tiled().prefetch("A_S1", "A", at="k.0", distance=0), "E708", "0 iterations ahead"),
    (lambda: tiled().prefetch("A_S1", "A", at="k.0", into="hat"), "E708", "no prefetch into 'hat'"),
    (lambda: tiled().prefetch("A_S1", "A", at="q"), "E707", "no loop 'q'"),
    (lambda: asked().split("S1_A", "k.0", 2), "E708", "S1_A has no loop k.0"),
    (lambda: asked().prefetch("A_S1", "A", at="k.0"), "E708", "A of S1_A is prefetched already, 1 of k.0 ahead"),
    (lambda: lines("k").cache("S1", "A", at="i"), "E708", "A is prefetched for S1, which then does not read it"),
    (lambda: lines("k").rfactor("S1", "k"), "E708", "A is prefetched for S1, which then does not read it"),
    (lambda: polytc.schedule("T[i] = X[i]; Y[i] = T[i]*2", {"X": (9,)}).prefetch("S1", "X", "i", 2, "cache").inline("T"),
     "E708", "X is prefetched for S1, which is then gone"),
    (lambda: tiled().read('changes:\n- "prefetch S1 A k 1"\n'), "E702", "is no change"),
    (lambda: tiled().read('changes:\n- "prefetch S9 A k 1 cache"\n'), "E707", "no statement 'S9'"),
])
def test_refusals(make: Callable[[], Recipe], code: str, part: str) -> None:
    assert part in refusal(make, code)


def test_what_a_later_step_makes_illegal_is_refused() -> None:
    """A writer that comes into the loop comes too late."""
    text = "def f(inout f32[N,M] A, f32[N,M] X) -> (A, Y) { A[i,j] = X[i,j]; T[i,j] = A[i,j]; Y[i,j] = T[i,j] * 2 }"
    s = polytc.schedule(text, {"A": (6, 8), "X": (6, 8)}).fuse("S2", "S3", depth=1).prefetch("S2", "A", at="i")
    assert "breaks S1[i=0, j=0] -> S2[i=0, j=0] on A[0, 0]" in refusal(lambda: s.fuse("S1", "S2", depth=1), "E701")


@pytest.mark.parametrize("change", [
    lambda text: text.replace(":i.0,j.0", ":a,b").replace(":k.0", ":z"), lambda text: text.replace("k.0 1 reg", "q 1 reg")])
def test_a_schedule_without_the_loop_is_refused(change: Callable[[str], str]) -> None:
    with pytest.raises(errors.TargetError, match="E528"):
        polytc.lower(MATMUL, CudaTarget(GPU), shapes={"A": (64, 96), "B": (96, 64)}, schedule=change(asked().yaml()))


def test_what_is_no_tile_of_a_group_is_refused() -> None:
    text, shapes = "T[k,i] = B[k,i]; U[k,i] = T[k,31-i]; Y[k,i] = U[k,31-i]", {"B": (6, 32)}
    s = polytc.schedule(text, shapes).fuse("S1", "S2", "S3", depth=1)
    for name in ("S1", "S2", "S3"):
        s = s.bind(name, {"i": "block.x"})
    with pytest.raises(errors.TargetError, match="E528"):
        polytc.lower(text, CudaTarget(GPU), shapes=shapes, schedule=s.prefetch("S1", "B", at="k").yaml())


def test_copies_in_two_parts() -> None:
    """What is no load stays with the store; loops of open length have no registers."""
    f32, f16 = polytc.program.scalars.named("f32"), polytc.program.scalars.named("f16")
    a, t = loops.Buffer("A", f16, (64,)), loops.Buffer("T", f32, (64,), "local")
    x = loops.Var("x")
    copy = loops.For("x", loops.const(0), loops.const(64), 1, loops.Store(
        t, (x,), loops.Cast(loops.Load(a, (x,), f16), f32)), "thread")
    found = fetches.split([copy], {"T_next"})
    assert found is not None
    assert [b.name for b in found.registers] == ["T_next_2"] or found.registers[0].name != "T_next"
    assert (found.registers[0].dtype, found.registers[0].shape, found.words) == (f16, (64, 1), 1)
    assert isinstance(next(s for s in traverse.walk_stmt(found.stores[0]) if isinstance(s, loops.Store)).value, loops.Cast)
    assert fetches.split([replace(copy, upper=loops.Var("n"))], set()) is None
    assert fetches.split([replace(copy, body=loops.Store(t, (x,), loops.Const(0.0, f32)))], set()) is None
