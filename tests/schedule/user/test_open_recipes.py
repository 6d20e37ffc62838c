"""Schedules of programs whose sizes stay open: legal for all sizes, and right for each, against numpy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import polytc
from polytc.machine import AVX2
from tests.opencl_here import NEEDS_OPENCL

TARGETS = ["cpu", "interp", pytest.param("opencl", marks=NEEDS_OPENCL)]
MATMUL = "C[i,j] += A[i,k]*B[k,j]; Y[i,j] = max(C[i,j], 0)"
NAMED: dict[str, tuple[str | int, ...]] = {"A": ("M", "K"), "B": ("K", "N")}
SIZES = [(1, 1, 1), (7, 5, 3), (8, 4, 4), (9, 8, 5), (15, 9, 7), (16, 16, 8), (17, 13, 31), (2, 41, 1), (33, 3, 32)]

Step: TypeAlias = Callable[[polytc.Recipe], polytc.Recipe]
RECIPES: dict[str, Step] = {
    "program order": lambda s: s,
    "tiles": lambda s: s.tile("S1", i=8, j=4).parallel("S1", "i.0"),
    "tiles of three loops": lambda s: s.tile("S1", i=8, j=4, k=5),
    "fused tiles": lambda s: s.fuse("S1_init", "S1", "S2", depth=2).tile("S1", i=8, j=8).parallel("S1", "i.0"),
    "interchange": lambda s: s.interchange("S1", "i", "k").interchange("S2", "i", "j"),
    "vectors": lambda s: s.vectorize("S1", "j", 8).vectorize("S2", "j", 4).vectorize("S1_init", "i", 4),
    "lanes of a sum": lambda s: s.vectorize("S1", "k", 8),
    "a register tile": lambda s: s.tile("S1", i=16, k=8).unroll_and_jam("S1", "i.1", 4).vectorize("S1", "j", 8),
    "unrolled pieces": lambda s: s.unroll("S1", "k", 4).unroll("S2", "j", 3),
    "skewed": lambda s: s.skew("S1", "j", by="i").tile("S1", i=4, j=8).interchange("S2", "i", "j"),
    "shifted": lambda s: s.shift("S2", i=2),
    "a copy": lambda s: s.tile("S1", i=8, j=4).split("S1", "k", 5).cache("S1", "A", at="i.0"),
    "a packed copy": lambda s: s.split("S1", "k", 8).interchange("S1", "i", "k.0").cache("S1", "B", space="packed"),
}


def recipe(name: str, **options: Any) -> polytc.Recipe:
    return RECIPES[name](polytc.schedule(MATMUL, shapes=NAMED, **options))


def check(op: Any, sizes: list[tuple[int, int, int]] = SIZES) -> None:
    rng = np.random.default_rng(0)
    for m, k, n in sizes:
        a, b = rng.integers(-9, 9, (m, k)).astype(np.float32), rng.integers(-9, 9, (k, n)).astype(np.float32)
        np.testing.assert_array_equal(op(a, b), np.maximum(a @ b, 0), err_msg=f"{m}, {k}, {n}")


@pytest.mark.part(20)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", RECIPES)
def test_one_kernel_serves_all_sizes(name: str, target: str) -> None:
    """As YAML, which runs as it is."""
    text = recipe(name, exact=True).yaml()
    op = polytc.compile(MATMUL, target, shapes=NAMED, schedule=text)
    check(op, SIZES if target != "interp" else SIZES[:5])
    assert op._open is not None
    assert op._open.kernels == 1


@pytest.mark.part(7)
@pytest.mark.parametrize("name", RECIPES)
def test_completed_for_the_target(name: str) -> None:
    check(polytc.compile(MATMUL, shapes=NAMED, schedule=recipe(name)))
    assert str(recipe(name).complete(AVX2))


@pytest.mark.part(4)
@pytest.mark.parametrize("name", RECIPES)
def test_saved_and_read(name: str, tmp_path: Path) -> None:
    made = recipe(name)
    made.save(tmp_path / "schedule.yaml")
    again = polytc.schedule(MATMUL, shapes=NAMED).load(tmp_path / "schedule.yaml")
    assert (str(again), again.yaml(), again.steps) == (str(made), made.yaml(), made.steps)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other.yaml() == made.yaml()


@pytest.mark.part(13)
@pytest.mark.parametrize("name", RECIPES)
def test_ranges_hold_for_all_sizes(name: str) -> None:
    """A loop's range as formulas says, for given sizes, what the same schedule says that is made for these."""
    for m, k, n in SIZES:
        fixed = RECIPES[name](polytc.schedule(MATMUL, shapes={"A": (m, k), "B": (k, n)}))
        for general, line in zip(str(recipe(name)).splitlines(), str(fixed).splitlines(), strict=True):
            assert "..." not in general
            if " in " in line:
                ends = (general.split(" in ")[1].split("#")[0].rstrip(" :").split(":"))
                wanted = [int(x) for x in line.split(" in ")[1].split("#")[0].rstrip(" :").split(":")]
                found = [eval(x, {"M": m, "K": k, "N": n, "min": min, "max": max}) for x in ends]
                assert found[0] <= wanted[0]
                assert found[1] >= wanted[1]


def test_it_prints_formulas() -> None:
    assert str(recipe("tiles")).splitlines()[3:8] == [
        "parallel for i.0 in 0:(M + 7)//8:       # i // 8",
        "    for j.0 in 0:(N + 3)//4:            # j // 4",
        "        for i.1 in 0:min(8, M):         # i % 8",
        "            for j.1 in 0:min(4, N):     # j % 4",
        "                for k in 0:K:"]


def test_what_is_illegal_for_some_sizes_is_refused() -> None:
    s = polytc.schedule(MATMUL, shapes=NAMED)
    with pytest.raises(polytc.IllegalTransform, match="E704"):
        s.parallel("S1", "k")
    stencil = polytc.schedule("T[i] = X[i] * 2; Y[i] = T[i] + T[i+1]", shapes={"X": ("N",)})
    with pytest.raises(polytc.IllegalTransform, match="E701"):
        stencil.fuse("S1", "S2")
    assert "0:N:" in str(stencil.shift("S2", i=1).fuse("S1", "S2"))


def test_time_loops() -> None:
    text = """def seidel(inout f64[N] A) -> (A) {
        for t in 0:5 { for i in 1:N-1 { A[i] = (A[i-1] + A[i] + A[i+1]) / 3 } }
    }"""
    s = polytc.schedule(text, shapes={"A": ("N",)}, dtypes={"A": "f64"})
    with pytest.raises(polytc.IllegalTransform, match="E701"):
        s.interchange("S1", "t", "i")
    s = s.skew("S1", "i", by="t").tile("S1", t=2, i=4).skew("S1", "t.0", by="i.0").parallel("S1", "i.0")
    op = polytc.compile(text, shapes={"A": ("N",)}, dtypes={"A": "f64"}, schedule=s)
    for n in (3, 4, 5, 8, 13, 32, 33):
        a = np.random.default_rng(n).random(n)
        wanted = a.copy()
        for _ in range(5):
            for i in range(1, n - 1):
                wanted[i] = (wanted[i - 1] + wanted[i] + wanted[i + 1]) / 3
        np.testing.assert_allclose(op(a.copy()), wanted, rtol=1e-13)


def test_of_an_op() -> None:
    op = polytc.compile(MATMUL, shapes=NAMED)
    assert "(M + 7)//8" in str(polytc.schedule(op).tile("S1", i=8))
    declared = polytc.compile("def f(f32[M,K] A, f32[K,N] B) -> (f32[M,N] C) { C[i,j] += A[i,k] * B[k,j] }", symbolic=True)
    assert "0:K" in str(polytc.schedule(declared))
    assert "0:4" in str(polytc.schedule(MATMUL, shapes={"A": ("M", 4), "B": (4, "N")}))


def test_of_another_program_is_refused() -> None:
    text = polytc.schedule("C[i] = A[i] + 1", shapes={"A": ("N",)}).tile("S1", i=8).yaml()
    for shapes in ({"A": (100,)}, {"A": ("M",)}):
        with pytest.raises(polytc.CompileError, match="E703"):
            polytc.compile("C[i] = A[i] + 1", shapes=shapes, schedule=text)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", TARGETS)
def test_work_groups(target: str) -> None:
    s = polytc.schedule(MATMUL, shapes=NAMED).fuse("S1_init", "S1", "S2", depth=2).tile("S1", i=8, j=8)
    s = s.bind("S1", {"i.0": "grid.y", "j.0": "grid.x", "i.1": "block.y", "j.1": "block.x"})
    check(polytc.compile(MATMUL, target, shapes=NAMED, schedule=s), SIZES[:6])


def test_what_cannot_stay_open_is_refused() -> None:
    s = polytc.schedule(MATMUL, shapes=NAMED, exact=True)
    with pytest.raises(polytc.CompileError, match="E412: k in 0:K cannot be written out") as refusal:
        s.unroll("S1", "k")
    assert 'unroll("S1", "k", 4)' in str(refusal.value)
    check(polytc.compile(MATMUL, shapes=NAMED, schedule=s.split("S1", "k", 4).unroll("S1", "k.1")))
    items = s.bind("S1", {"i": "grid.x", "j": "block.x"})
    with pytest.raises(polytc.PolytcError, match="E510"):
        polytc.lower(MATMUL, "opencl", shapes=NAMED, schedule=items)


def test_sizes_that_need_code_of_their_own() -> None:
    """A sum of more terms than one accumulator may add up runs in the automatic schedule."""
    op = polytc.compile(MATMUL, shapes=NAMED, schedule=recipe("tiles"))
    check(op, [(3, 5, 2), (3, 9001, 2), (3, 5, 4)])


@pytest.mark.part(7)
@pytest.mark.parametrize("make", [
    lambda s: s.tile("C", i=8, j=8, k=8).accumulate("C").parallel("C", "i.0"),
    lambda s: s.accumulate("C", at="i"),
    lambda s: s.split("C", "k", 16).rfactor("C", "k.0").parallel("S1_part", "k.0"),
    lambda s: s.split("C", "k", 16).rfactor("C", "k.1").parallel("S1_part", "k.1"),
    lambda s: s.tile("C", k=8).peel("C", "k.0"),
    lambda s: s.peel("C", "i", 2),
    lambda s: s.reverse("C", "k"),
])
def test_changed_programs_of_all_sizes(make: Step) -> None:
    text, named = "C[i,j] += A[i,k]*B[k,j]", {"A": ("M", "K"), "B": ("K", "N")}
    s = polytc.schedule(text, shapes=named)
    made = make(s)
    assert s.read(made.yaml()).program == made.program
    op = polytc.compile(text, shapes=named, schedule=made)
    rng = np.random.default_rng(0)
    for m, k, n in ((1, 1, 1), (9, 17, 5), (40, 33, 20)):
        a, b = rng.integers(-4, 5, (m, k)).astype("f4"), rng.integers(-4, 5, (k, n)).astype("f4")
        np.testing.assert_array_equal(op(a, b), a @ b)
