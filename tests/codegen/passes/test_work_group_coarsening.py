"""Iterations of small parallel loops share work-groups on CPUs, and each still runs once."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen.passes import work_group_coarsening
from polytc.lang import build
from polytc.machine import AVX2, AVX512, GENERIC_GPU
from polytc.machine.costs import COSTS
from polytc.program.scalars import F32
from polytc.targets.opencl.emit import emit
from polytc.targets.opencl.target import OpenCLTarget
from tests.codegen import loop_programs as P
from tests.opencl_here import NEEDS_OPENCL


def scaled(count: int, first: int = 0, inner: int = 1) -> L.Module:
    """y[i, :] = 2 i for i in first:count."""
    y = L.Buffer("y", F32, (count, inner))
    i, j = L.Var("i"), L.Var("j")
    store = P.loop("j", inner, L.Store(y, (i, j), L.Cast(L.binary("*", i, L.const(2)), F32)))
    body = L.For("i", L.const(first), L.const(count), 1, store, "parallel")
    return P.module("scaled", (y,), ("y",), body)


@pytest.mark.parametrize(("count", "first"), [(100_000, 0), (100_003, 0), (99_999, 7)])
def test_every_iteration_belongs_to_one_group(count: int, first: int) -> None:
    (kernel,) = scaled(count, first).kernels
    group = work_group_coarsening.coarsen(kernel, AVX2).body
    assert isinstance(group, L.For)
    assert isinstance(group.body, L.For)
    assert isinstance(group.upper, L.Const)
    assert group.kind == "parallel"
    assert 1 < int(group.upper.value) < count - first
    size = group.body
    values = []
    for g in range(int(group.upper.value)):
        low, high = (int(at(e, group.var, g)) for e in (size.lower, size.upper))
        values += range(low, high)
    assert values == list(range(first, count))


def at(e: L.Expr, var: str, value: int) -> float:
    """An index expression of one variable, by itself."""
    match e:
        case L.Const():
            return e.value
        case L.Var():
            assert e.name == var
            return value
        case L.Call(fn="min"):
            return min(at(a, var, value) for a in e.args)
        case L.Binary():
            a, b = at(e.a, var, value), at(e.b, var, value)
            return {"+": a + b, "*": a * b, "-": a - b}[e.op]
    raise AssertionError(e)


def test_gpus_and_loops_with_enough_work_keep_their_groups() -> None:
    assert emit(scaled(100_000), GENERIC_GPU).launches[0].global_size == (100_000,)
    assert emit(scaled(1000, inner=COSTS.groups.coarse), AVX2).launches[0].global_size == (1000,)


def test_all_cores_have_groups_left() -> None:
    (launch,) = emit(scaled(640), AVX2).launches
    assert launch.global_size == (64,)  # two cores


def test_two_loops_that_became_one_have_the_work_of_one_iteration() -> None:
    """Only what reaches memory counts, once for each element: not the rows that are transposed on the way."""
    program = build("Y[j,i] = X[i,j]", {"X": (2048, 2048)})
    (launch,) = compiler.lower_program(program, OpenCLTarget(AVX512)).source.launches
    assert launch.global_size == (2048 * 2048 // COSTS.groups.coarse,)


class TestOnADevice:
    pytestmark = NEEDS_OPENCL

    @pytest.mark.parametrize("n", [100_003, 1 << 16])
    def test_elementwise(self, n: int) -> None:
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(polytc.compile("y[i] = 2*x[i] + 1", target="opencl")(x), 2 * x + 1)

    def test_rows_with_temporaries_of_their_own(self) -> None:
        x = np.random.default_rng(0).random((3001, 37), np.float32)
        text = "m[i] max= x[i,j]\ne[i,j] = x[i,j] - m[i]\ny[i,j] = e[i,j] * e[i,j]"
        np.testing.assert_allclose(polytc.compile(text, target="opencl")(x), (x - x.max(1, keepdims=True)) ** 2, rtol=1e-6)
