"""Reductions for GPUs: divided among the items of a group, and among groups; against numpy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen import loops, traverse
from polytc.codegen.target import Target
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.rewrite.gpu import work_group_reductions
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

Arrays = dict[str, np.ndarray]

SOFTMAX = "M[i] max= X[i,j]; E[i,j] = exp(X[i,j]-M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i] -> (Y)"
LAYERNORM = ("m[i] += X[i,j]/50; D[i,j] = X[i,j]-m[i]; v[i] += D[i,j]*D[i,j]/50;"
             " Y[i,j] = D[i,j]/sqrt(v[i]+0.00001)*g[j]+b[j] -> (Y)")


def softmax(X: np.ndarray, axis: int = 1) -> np.ndarray:
    e = np.exp(X - X.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layernorm(X: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    d = X - X.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b


def normalised(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).sum())


PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]], Callable[..., np.ndarray]]] = {
    "rows": ("y[i] += x[i,j]", {"x": (37, 213)}, lambda x: x.sum(1)),
    "a product": ("y[i] *= x[i,j]", {"x": (7, 40)}, lambda x: x.prod(1)),
    "a maximum": ("y[i] max= x[i,j]", {"x": (3, 600)}, lambda x: x.max(1)),
    "a minimum, few items": ("y[i] min= x[i,j]", {"x": (5, 16)}, lambda x: x.min(1)),
    "everything": ("s += x[i]", {"x": (10007,)}, lambda x: x.sum()),
    "everything, once": ("s += x[i]", {"x": (300,)}, lambda x: x.sum()),
    "a dot product": ("s += x[i]*y[i]", {"x": (70007,), "y": (70007,)}, lambda x, y: x @ y),
    "columns": ("y[j] += x[i,j]", {"x": (509, 37)}, lambda x: x.sum(0)),
    "few columns": ("y[j] += x[i,j]", {"x": (5090, 3)}, lambda x: x.sum(0)),
    "the middle": ("y[i,k] max= x[i,j,k]", {"x": (3, 509, 7)}, lambda x: x.max(1)),
    "a part": ("y[i] += x[i,j] where i in 3:30, j in 5:200", {"x": (37, 213)}, lambda x: x[3:30, 5:200].sum(1)),
    "beyond the end": ("y[i] += x[i,j-1] else 2 where i in 0:37, j in 0:30", {"x": (37, 28)}, lambda x: x.sum(1) + 4),
    "softmax": (SOFTMAX, {"X": (33, 100)}, softmax),
    "softmax of long rows": (SOFTMAX, {"X": (33, 5000)}, softmax),
    "softmax of few rows": (SOFTMAX, {"X": (3, 5000)}, softmax),
    "softmax of columns": (SOFTMAX.replace("[i]", "[k]").replace("i,j", "j,i").replace("[k]", "[i]"), {"X": (100, 33)},
                           lambda X: softmax(X, 0)),
    "layernorm": (LAYERNORM, {"X": (33, 50), "g": (50,), "b": (50,)}, layernorm),
    "a norm": ("s += x[i]*x[i]; y[i] = x[i]/sqrt(s)", {"x": (5000,)}, normalised),
    "argmax": ("(M[i], J[i]) argmax= (X[i,j], j)", {"X": (12, 1000)}, lambda X: X.argmax(1)),
    "argmin of everything": ("(M, J) argmin= (X[j], j)", {"X": (1000,)}, lambda X: X.argmin()),
    "logsumexp": ("M[i] max= X[i,j]; S[i] += exp(X[i,j]-M[i]); L[i] = log(S[i]) + M[i]", {"X": (12, 1000)},
                  lambda X: np.log(np.exp(X).sum(1))),
    "matrix times vector": ("y[i] += A[i,j]*x[j]", {"A": (51, 100), "x": (100,)}, lambda A, x: A @ x),
    "transposed": ("y[i] += A[j,i]*x[j]", {"A": (510, 10), "x": (510,)}, lambda A, x: x @ A),
    "channels": ("m[c] += X[n,c,h,w]; q[c] += X[n,c,h,w]*X[n,c,h,w] where h in 0:7", {"X": (5, 6, 7, 20)},
                 lambda X: (X * X).sum((0, 2, 3))),
    "a triangle": ("y[i] += x[i,j] where j <= i", {"x": (90, 90)}, lambda x: np.tril(x).sum(1)),
    "a band": ("y[i] max= x[i,j] where j >= i-20, j <= i+20", {"x": (100, 100)},
               lambda x: np.array([r[max(0, i - 20):i + 21].max() for i, r in enumerate(x)])),
    "every third": ("y[i] += x[i,j] where j % 3 == 1", {"x": (19, 100)}, lambda x: x[:, 1::3].sum(1)),
    "every third row": ("y[i] += x[i,j] where i % 3 == 0", {"x": (37, 100)},
                        lambda x: np.where(np.arange(37) % 3 == 0, x.sum(1), 0)),
    "one result of a triangle": ("s += x[i,j] where j <= i", {"x": (300, 300)}, lambda x: np.tril(x).sum()),
    "one result of long rows": ("s += x[i,j]", {"x": (4, 30000)}, lambda x: x.sum()),
    "causal softmax": ("M[i] max= X[i,j] where j <= i; E[i,j] += exp(X[i,j]-M[i]) where j <= i; S[i] += E[i,j];"
                       " Y[i,j] = E[i,j]/S[i] -> (Y)", {"X": (70, 70)},
                       lambda X: softmax(np.where(np.tri(70) > 0, X, -np.inf))),
    "argmax of a triangle": ("(M[i], J[i]) argmax= (X[i,j], j) where j <= i", {"X": (80, 80)},
                             lambda X: np.where(np.tri(80) > 0, X, -np.inf).argmax(1)),
    "one uses another": ("a[i] += X[i,j]; b[i] += X[i,j]*a[i]; c[i] = b[i] + a[i] -> (a, c)", {"X": (20, 50)},
                         lambda X: X.sum(1) * (X.sum(1) + 1)),
}
INTERPRETED = ("a minimum, few items", "softmax", "columns", "argmin of everything", "one uses another", "beyond the end",
               "a triangle", "every third row")


def given(shapes: dict[str, tuple[int, ...]], low: int = -3) -> Arrays:
    rng = np.random.default_rng(7)
    return {n: rng.integers(low, 4, s).astype("f4") for n, s in shapes.items()}


def run(text: str, arrays: Arrays, target: Target) -> np.ndarray:
    program = stages.build(text, {n: a.shape for n, a in arrays.items()}, {n: a.dtype for n, a in arrays.items()})
    buffers = {n: np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy) for n in program.outputs} | arrays
    compiler.compile_program(program, target).run([buffers[n] for n in program.arrays])
    return buffers[program.outputs[-1]]


def lowered(text: str, shapes: dict[str, tuple[int, ...]], device: str = "generic-gpu", dtype: str = "f32") -> compiler.Lowered:
    found = compiler.lower_program(stages.build(text, shapes, dict.fromkeys(shapes, dtype)), OpenCLTarget(DEVICES[device]))
    assert "refused" not in found.schedule.how
    return found


def own(module: loops.Module) -> list[loops.Buffer]:
    return [s.buffer for k in module.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Alloc)]


ALIKE = ("a maximum", "everything, once", "few columns", "softmax of few rows", "softmax of long rows", "logsumexp", "argmax",
         "matrix times vector", "transposed", "every third", "one result of long rows", "causal softmax", "the middle")
"""Programs whose kernels another one has, too."""


@pytest.mark.part(17)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n in ALIKE else []) for n in PROGRAMS])
def test_results(name: str, targets: tuple[str, ...]) -> None:
    text, shapes, expected = PROGRAMS[name]
    arrays = given(shapes, 1 if name == "a product" else -3)
    where: list[Target] = [InterpTarget(GENERIC_GPU)] if name in INTERPRETED else []
    where += [OpenCLTarget()] if "opencl" in targets else []
    for target in where:
        wide = {n: a.astype("f8") for n, a in arrays.items()}
        np.testing.assert_allclose(run(text, arrays, target), expected(**wide), rtol=1e-5, atol=1e-6, err_msg=target.name)


@pytest.mark.parametrize(("text", "expected"), [
    ("y[i+j] += a[i]*b[j]", lambda a, b: np.convolve(a, b)),
    ("y[i+j] max= a[i]+b[j]", lambda a, b: [np.diagonal(np.add.outer(a, b[::-1]), 49 - n).max() for n in range(349)])])
def test_results_at_sums_of_what_is_reduced(text: str, expected: Callable[..., np.ndarray], targets: tuple[str, ...]) -> None:
    """Partial results have no place of their own then."""
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    arrays = {n: a.round() for n, a in given({"a": (300,), "b": (50,)}, -3).items()}
    np.testing.assert_array_equal(run(text, arrays, OpenCLTarget()), expected(**arrays))


@pytest.mark.part(4)
@pytest.mark.parametrize(("op", "dtype", "expected"), [
    ("+", "i4", np.add), ("+", "u1", np.add), ("+", "f8", np.add), ("max", "i2", np.maximum), ("|", "u4", np.bitwise_or),
    ("&", "i8", np.bitwise_and), ("^", "i4", np.bitwise_xor), ("+", "f2", np.add)])
def test_operators_and_types(op: str, dtype: str, expected: np.ufunc, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    x = np.random.default_rng(3).integers(0, 5, (9, 70)).astype(dtype)
    np.testing.assert_array_equal(run(f"y[i] {op}= x[i,j]", {"x": x}, OpenCLTarget()), expected.reduce(x, 1, dtype=dtype))


def test_maxima_propagate_nan(targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    x = given({"x": (4, 300)})["x"]
    x[2, 217] = np.nan
    np.testing.assert_array_equal(run("y[i] max= x[i,j]", {"x": x}, OpenCLTarget()), np.maximum.reduce(x, 1))


def test_an_update_goes_on_with_what_there_is(targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    arrays = given({"A": (18, 121), "y": (18,)})
    expected = arrays["y"] + arrays["A"].sum(1)
    np.testing.assert_array_equal(run("def f(A[M,K], inout y[M]) -> (y) { y[i] += A[i,k] }", arrays, OpenCLTarget()), expected)


@pytest.mark.parametrize(("op", "expected"), [("|", np.logical_or), ("&", np.logical_and)])
def test_any_and_all(op: str, expected: np.ufunc, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    x = np.random.default_rng(3).integers(0, 300, (9, 200)) == (17 if op == "|" else 18)
    x = x if op == "|" else ~x
    found = run(f"y[i] {op}= x[i,j]", {"x": x}, OpenCLTarget())
    assert 0 < found.sum() < 9
    np.testing.assert_array_equal(found, expected.reduce(x, 1))


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["a triangle", "a band", "every third", "every third row", "argmax of a triangle"])
def test_conditions_do_not_keep_items_from_dividing(name: str) -> None:
    text, shapes, _ = PROGRAMS[name]
    assert "barrier(" in lowered(text, shapes).source.text


def test_rows_that_a_condition_leaves_out_are_not_touched(targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    arrays = given({"x": (37, 100), "y": (37,)})
    expected = arrays["y"] + np.where(np.arange(37) % 3 == 0, arrays["x"].sum(1), 0)
    text = "def f(x[M,K], inout y[M]) -> (y) { y[i] += x[i,j] where i % 3 == 0 }"
    np.testing.assert_array_equal(run(text, arrays, OpenCLTarget()), expected)


@pytest.mark.part(8)
@pytest.mark.parametrize(("text", "device"), [
    *((SOFTMAX, d) for d, m in DEVICES.items() if m.kind == "gpu"),
    *(pytest.param(LAYERNORM.replace("*g[j]+b[j]", ""), d, marks=[] if d == "generic-gpu" else pytest.mark.long)
      for d, m in DEVICES.items() if m.kind == "gpu")])
def test_a_row_stays_in_its_group(text: str, device: str) -> None:
    """One kernel that reads and writes each element once; what lies between is in registers and local memory."""
    found = lowered(text, {"X": (512, 1000)}, device)
    assert found.loops.scratch == ()
    assert len(found.source.launches) == 1
    local = [b for b in own(found.loops) if b.space == "local"]
    assert sum(b.size * b.dtype.bytes for b in local) <= 4 * 1024 * 2 * 2
    lines = found.source.text.splitlines()
    assert [line for line, following in pairwise(lines) if "barrier(" in following and " if " in line] == []
    assert found.source.text.count("barrier(") == 4


def test_a_single_result_is_in_a_register_until_the_first_item_stores_it() -> None:
    found = lowered("s += x[i]", {"x": (300,)})
    assert found.source.text.count("barrier(") == 2
    assert "float s_own;" in found.source.text


def test_groups_divide_what_has_few_results() -> None:
    """As many as the device runs at once, in equal parts where there are such."""
    found = lowered("s += x[i]", {"x": (1 << 22,)}, "nvidia-sm90")
    first = found.source.launches[0]
    assert first.local_size == (256,)
    groups = int(first.global_size[0]) // 256
    assert groups == 1024
    assert " ? " not in found.source.text
    assert [(b.name, b.shape) for b in found.loops.scratch] == [("s_parts", (groups,))]


@pytest.mark.parametrize(("text", "shapes"), [
    ("y[i] += x[i,j]", {"x": (4096, 3)}), ("y[j] += x[i,j]", {"x": (64, 40000)}), ("y[i,j] = x[i,j] + 1", {"x": (64, 64)}),
    ("y[i,h] max= x[i,2*h+r] where h in 0:500, r in 0:2", {"x": (600, 1001)})])
def test_what_has_items_enough_is_left_alone(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert "barrier(" not in lowered(text, shapes).source.text


@pytest.mark.parametrize(("items", "expected"), [
    (2, [2]), (16, [16]), (32, [8, 4]), (64, [8, 8]), (128, [16, 8]), (256, [16, 16])])
def test_levels_of_the_tree(items: int, expected: list[int]) -> None:
    assert work_group_reductions.tree_levels(items) == expected
