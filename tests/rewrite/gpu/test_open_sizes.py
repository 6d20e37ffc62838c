"""Sizes that stay open on GPUs: tiles, turned operands and divided reductions of any size, in one kernel; against numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program import extents
from polytc.program.generalise import generalise
from polytc.program.program import Program
from polytc.program.sizes import specialised
from polytc.runtime.sized import sized
from polytc.targets.opencl.target import OpenCLTarget

SOFTMAX = "P[i] max= X[i,j]; E[i,j] = exp(X[i,j]-P[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i] -> (Y)"
CONV = ("def conv(f32[G,8,H,L] I, f32[16,8,3,3] W) -> (O) {"
        " O[n,m,h,w] += (I[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:H, w in 0:L }")
Shapes = dict[str, tuple[str | int, ...]]


@dataclass(frozen=True)
class Case:
    """kernels: launches of the program; barriers: in its text."""

    text: str
    shapes: Shapes
    kernels: int = 1
    barriers: int = 2


CASES = {
    "a matmul": Case("C[i,j] += A[i,k]*B[k,j]", {"A": ("M", "K"), "B": ("K", "N")}),
    "a matmul with what follows": Case("T[i,j] += A[i,k]*B[k,j]; C[i,j] = max(T[i,j]+b[j], 0) -> (C)",
                                       {"A": ("M", "K"), "B": ("K", "N"), "b": ("N",)}),
    "a batch": Case("C[b,i,j] += A[b,i,k]*B[b,j,k]", {"A": ("G", "M", 20), "B": ("G", "K", 20)}),
    "a padded convolution": Case(CONV, {"I": ("G", 8, "H", "L"), "W": (16, 8, 3, 3)}),
    "rows": Case("y[i] += x[i,j]", {"x": ("M", "K")}),
    "rows of one size": Case("y[i] max= x[i,j]", {"x": ("M", 200)}),
    "columns": Case("y[j] += x[i,j]", {"x": ("M", "K")}, kernels=2, barriers=1),
    "a triangle": Case("y[i] += x[i,j] where j <= i", {"x": ("M", "M")}),
    "softmax": Case(SOFTMAX, {"X": ("M", "K")}, barriers=4),
    "argmax": Case("(P[i], J[i]) argmax= (X[i,j], j)", {"X": ("M", "K")}, barriers=4),
    "two results of one read": Case("m[i] += X[i,j]; q[i] += X[i,j]*X[i,j] -> (m, q)", {"X": ("M", "K")}, barriers=4),
    "everything": Case("s += x[i]", {"x": ("K",)}, kernels=2, barriers=4),
    "everything of rows": Case("s += x[i,j]", {"x": ("M", "K")}, kernels=2, barriers=4),
    "few columns": Case("y[j] min= x[i,j]", {"x": ("K", 3)}, kernels=2, barriers=4),
    "a transposed operand": Case("B[i,j] = A[j,i] + A[i,j]", {"A": ("M", "M")}, barriers=1),
}
SIZES = [{"M": 37, "K": 213, "N": 5, "G": 2, "H": 9, "L": 14}, {"M": 1, "K": 1, "N": 1, "G": 1, "H": 1, "L": 1},
         {"M": 64, "K": 1024, "N": 66, "G": 3, "H": 2, "L": 33}, {"M": 131, "K": 7, "N": 4, "G": 1, "H": 16, "L": 16}]


def lowered(text: str, shapes: Shapes) -> compiler.Lowered:
    found = polytc.lower(text, shapes=shapes, target="opencl")
    assert found.program.sizes
    assert "program order" not in found.schedule.how
    return found


def run(program: Program, sizes: dict[str, int], arrays: dict[str, np.ndarray]) -> None:
    """Run a program of open sizes on the kernels for a generic GPU."""
    executable = compiler.compile_program(program, OpenCLTarget())
    given = {n: sizes[n] for n in program.sizes}
    sized(executable, compiler.options(executable), given).run([arrays[n] for n in program.arrays])


@pytest.mark.part(8)
@pytest.mark.parametrize("name", CASES)
def test_one_text_serves_all_sizes(name: str, targets: tuple[str, ...]) -> None:
    case = CASES[name]
    low = lowered(case.text, case.shapes)
    assert (len(low.source.launches), low.source.text.count("barrier(")) == (case.kernels, case.barriers)
    if "opencl" not in targets:
        return
    rng = np.random.default_rng(5)
    for sizes in SIZES:
        arrays = {n: rng.integers(-3, 4, [sizes.get(d, d) for d in s]).astype("f4") for n, s in case.shapes.items()}
        program = specialised(low.program, sizes)
        results = {n: np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy) for n in program.outputs}
        run(low.program, sizes, arrays | results)
        expected = polytc.evaluate(case.text, **arrays)
        for n, e in zip(program.outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(results[n], e, rtol=1e-5, atol=1e-6, err_msg=f"{n} at {sizes}")


def test_the_grid_is_a_formula() -> None:
    (launch,) = lowered("C[i,j] += A[i,k]*B[k,j]", {"A": ("M", "K"), "B": ("K", "N")}).source.launches
    assert launch.args == ("A", "B", "C", "M", "K", "N")
    assert [str(n) for n in launch.global_size] == ["((N + 31)//32) * 8", "((M + 63)//64) * 16"]
    assert [extents.at(n, {"M": 65, "K": 5, "N": 64}) for n in launch.global_size] == [16, 32]


def test_as_many_groups_as_the_machine_needs_divide_what_has_one_result() -> None:
    first, second = lowered("s += x[i]", {"x": ("N",)}).source.launches
    assert (first.global_size, first.local_size) == ((GENERIC_GPU.cores * GENERIC_GPU.costs.launches.items,), (256,))
    assert second.local_size > (1,)


def test_sizes_that_are_alike_in_typical_ones_only_are_not_shared(targets: tuple[str, ...]) -> None:
    text = "def f(f32[M,L] X, f32[K] c) -> (a, b) { assume K <= M; a[i] += X[i,j]; b[k] = a[k] + c[k] where k in 0:K }"
    program = generalise(lambda s: stages.build(text, {"X": (s["M"], s["L"]), "c": (s["K"],)}, {}), {"K": 64, "L": 64, "M": 64})
    assert "barrier(" not in compiler.lower_program(program, OpenCLTarget()).source.text
    if "opencl" not in targets:
        return
    X, c = np.arange(50 * 9, dtype="f4").reshape(50, 9), np.arange(20, dtype="f4")
    a, b = np.zeros(50, "f4"), np.zeros(20, "f4")
    run(program, {"M": 50, "L": 9, "K": 20}, {"X": X, "c": c, "a": a, "b": b})
    np.testing.assert_array_equal(a, X.sum(1))
    np.testing.assert_array_equal(b, X.sum(1)[:20] + c)


WIDE = {"M": 32, "K": 1_000_000}
SPLIT = {
    "rows": (CASES["rows"], WIDE, 2),
    "largest": (Case("y[i] max= x[i,j]", {"x": (32, "K")}), WIDE, 2),
    "two sums": (CASES["two results of one read"], WIDE, 4),
    "argmax": (CASES["argmax"], WIDE, 4),
    "a condition": (Case("y[i] += x[i,j] where x[i,j] > 0", {"x": ("M", "K")}), WIDE, 2),
    "means of squares": (Case("y[a,i] += x[a,i,j]*x[a,i,j]", {"x": ("M", 2, "K")}), WIDE, 2),
    "softmax": (CASES["softmax"], {"M": 32, "K": 100_000}, 6),
    "columns": (CASES["columns"], {"M": 100_000, "K": 2048}, 2),
    "channels": (Case("m[c] += X[n,c,h,w]", {"X": ("G", 64, "H", "L")}), {"G": 32, "H": 56, "L": 56}, 2),
    "everything in three loops": (Case("s += X[i,j,k]", {"X": ("M", "N", "K")}), {"M": 100, "N": 100, "K": 100}, 2),
    "a query": (Case("O[h,d] += E[h,j]*V[h,j,d]", {"E": (8, "K"), "V": (8, "K", 64)}), {"K": 16_000}, 2),
    "a gradient of weights": (Case("W[m,c,r] += (I[n,c,h+r-1,w] else 0)*D[n,m,h,w] where r in 0:3",
                                   {"I": ("G", 8, "H", "L"), "D": ("G", 16, "H", "L")}), {"G": 8, "H": 64, "L": 64}, 2),
    "turned": (Case("C[i,j] += A[k,i]*B[k,j]", {"A": ("K", 128), "B": ("K", 96)}), {"K": 100_000}, 2),
    "few tiles": (CASES["a matmul"], {"M": 128, "N": 256, "K": 100_000}, 2),
    "few tiles, the last one": (Case("C[i,j] max= A[i,k]*B[k,j]", {"A": (64, "K"), "B": ("K", 64)}), {"K": 50_000}, 2),
    "few tiles of a batch": (Case("C[b,i,j] += A[b,k,i]*B[b,k,j]", {"A": ("G", "K", 32), "B": ("G", "K", 32)}),
                             {"G": 3, "K": 50_000}, 2),
    "few tiles with what follows": (Case("T[i,j] += A[k,i]*B[k,j]; C[i,j] = max(T[i,j]+b[j], 0) -> (C)",
                                         {"A": ("K", 64), "B": ("K", 64), "b": (64,)}), {"K": 100_000}, 2),
}


@pytest.mark.part(20)
@pytest.mark.parametrize("name", SPLIT)
def test_groups_divide_reductions_with_few_results(name: str, targets: tuple[str, ...]) -> None:
    case, typical, kernels = SPLIT[name]
    sm90 = OpenCLTarget(DEVICES["nvidia-sm90"])
    low = polytc.lower(case.text, sm90, shapes=case.shapes, typical={n: typical[n] for n in typical if n in str(case.shapes)})
    assert len(low.source.launches) == kernels
    assert not [x for x in low.starving if x.groups < x.needed * 9 // 10]
    if "opencl" not in targets:
        return
    executable, rng = compiler.compile_program(low.program, sm90), np.random.default_rng(5)
    for sizes in [*SIZES[:3], {"M": 2, "K": 4007, "N": 3, "G": 1, "H": 70, "L": 65}]:
        sizes = {n: sizes[n] for n in low.program.sizes}
        program = specialised(low.program, sizes)
        arrays = {n: rng.integers(-3, 4, program.tensor(n).shape).astype("f4") for n in program.inputs}
        results = {n: np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy) for n in program.outputs}
        sized(executable, compiler.options(executable), sizes).run([(arrays | results)[n] for n in program.arrays])
        expected = polytc.evaluate(case.text, **arrays)
        for n, e in zip(program.outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(results[n], e, rtol=1e-5, atol=1e-6, err_msg=f"{n} at {sizes}")


@pytest.mark.part(2)
@pytest.mark.parametrize("typical", [{"M": 300, "K": 1000, "N": 300}, {"M": 1000, "K": 1000, "N": 1000}])
def test_where_there_may_be_many_results_few_parts_do(typical: dict[str, int]) -> None:
    low = polytc.lower("C[i,j] += A[i,k]*B[k,j]", OpenCLTarget(DEVICES["nvidia-sm90"]), shapes=CASES["a matmul"].shapes,
                       typical=typical)
    assert len(low.source.launches) == 1
