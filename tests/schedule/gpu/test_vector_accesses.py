"""Elementwise kernels for GPUs whose items move whole vectors; against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen import loops, traverse
from polytc.codegen.target import Target
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.generalise import generalise
from polytc.program.program import Program
from polytc.schedule.facts.fusion_groups import partition
from polytc.schedule.gpu import vector_accesses
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

SMALL = replace(GENERIC_GPU, cores=1)
"""A GPU that has enough items with a few thousand elements."""

Case = tuple[str, dict[str, tuple[tuple[int, ...], str]], Callable[..., np.ndarray]]
F, G = "f4", "f8"
VECTORS: dict[str, Case] = {
    "a sum": ("C[i] = A[i]+B[i]", {"A": ((4096,), F), "B": ((4096,), F)}, lambda A, B: A + B),
    "a last group that is not whole": ("C[i] = A[i]*2", {"A": ((4100,), F)}, lambda A: A * 2),
    "rows of odd length, as one": ("C[i,j] = A[i,j]*2", {"A": ((44, 77), F)}, lambda A: A * 2),
    "a number for each channel": ("Y[n,c,h,w] = max(X[n,c,h,w]*s[c]+b[c], 0)",
                                  {"X": ((3, 5, 10, 18), F), "s": ((5,), F), "b": ((5,), F)},
                                  lambda X, s, b: np.maximum(X * s[:, None, None] + b[:, None, None], 0)),
    "a number for each column": ("Y[i,j] = X[i,j]-b[j]", {"X": ((35, 68), F), "b": ((68,), F)}, lambda X, b: X - b),
    "a value in between": ("T[i,j] = X[i,j]+b[j]; Y[i,j] = T[i,j]*T[i,j] -> (Y)", {"X": ((35, 68), F), "b": ((68,), F)},
                           lambda X, b: (X + b)**2),
    "two results": ("T[i,j] = X[i,j]+b[j]; Y[i,j] = T[i,j]*3 -> (T, Y)", {"X": ((35, 68), F), "b": ((68,), F)},
                    lambda X, b: (X + b) * 3),
    "the index as a value": ("Y[i,j] = X[i,j]*j+i", {"X": ((35, 68), F)},
                             lambda X: X * np.arange(68, dtype=F) + np.arange(35, dtype=F)[:, None]),
    "a part": ("Y[i,j] = X[i,j]*2 where i in 3:38, j in 4:68", {"X": ((40, 72), F)}, lambda X: X[3:38, 4:68] * 2),
    "rows that memory names": ("Y[i,j] = X[k[i],j]*2", {"X": ((9, 68), F), "k": ((35,), "i4")}, lambda X, k: X[k] * 2),
    "doubles": ("Y[i,j] = X[i,j]+b[j]", {"X": ((35, 66), G), "b": ((66,), G)}, lambda X, b: X + b),
    "integers": ("Y[i,j] = X[i,j]//3 + b[j]", {"X": ((35, 68), "i4"), "b": ((68,), "i4")}, lambda X, b: X // 3 + b),
    "bytes": ("Y[i,j] = max(X[i,j], b[j])", {"X": ((150, 64), "i1"), "b": ((64,), "i1")}, lambda X, b: np.maximum(X, b)),
    "bytes and floats": ("Y[i,j] = X[i,j]*b[j]", {"X": ((35, 68), "i1"), "b": ((68,), F)}, lambda X, b: X * b),
    "comparisons": ("Y[i,j] = X[i,j] <= b[j]", {"X": ((35, 68), F), "b": ((68,), F)}, lambda X, b: np.less_equal(X, b)),
    "selections of numbers": ("Y[i,j] = X[i,j]*(X[i,j] > b[j] ? 2 : 3)",
                              {"X": ((35, 68), F), "b": ((68,), F)},
                              lambda X, b: X * np.where(np.greater(X, b), 2, 3).astype(F)),
    "functions": ("Y[i,j] = exp(X[i,j]) + erf(b[j]) + tanh(X[i,j]) + abs(b[j])", {"X": ((35, 68), F), "b": ((68,), F)},
                  lambda X, b: np.exp(X) + np.vectorize(math.erf)(b).astype(F) + np.tanh(X) + abs(b)),
}
SCALARS: dict[str, Case] = {
    "an odd number": ("C[i] = A[i]*2", {"A": ((4099,), F)}, lambda A: A * 2),
    "rows of odd length": ("Y[i,j] = X[i,j]+b[j]", {"X": ((35, 67), F), "b": ((67,), F)}, lambda X, b: X + b),
    "few": ("C[i] = A[i]*2", {"A": ((1024,), F)}, lambda A: A * 2),
    "neighbours": ("Y[i,j] = X[i,j] + X[i,j+1]", {"X": ((35, 69), F)}, lambda X: X[:, :-1] + X[:, 1:]),
    "a part that begins elsewhere": ("Y[i,j] = X[i,j]*2 where i in 3:38, j in 3:67", {"X": ((40, 72), F)},
                                     lambda X: X[3:38, 3:67] * 2),
    "operands of longer rows": ("Y[i,j] = X[i,j]+b[j] where i in 0:35, j in 0:68", {"X": ((35, 69), F), "b": ((68,), F)},
                                lambda X, b: X[:, :68] + b),
    "every second": ("Y[i,j] = X[i,2*j]", {"X": ((35, 136), F)}, lambda X: X[:, ::2]),
    "columns that memory names": ("Y[i,j] = X[i,k[j]]", {"X": ((35, 9), F), "k": ((68,), "i4")}, lambda X, k: X[:, k]),
    "beyond the ends": ("Y[i,j] = (X[i,j-4] else 1) + b[j] where i in 0:35, j in 0:68", {"X": ((35, 64), F), "b": ((68,), F)},
                        lambda X, b: np.pad(X, ((0, 0), (4, 0)), constant_values=1) + b),
    "selections of elements": ("Y[i,j] = m[i] > 0 ? X[i,j] : 0 - b[j]",
                               {"X": ((35, 68), F), "m": ((35,), F), "b": ((68,), F)},
                               lambda X, m, b: np.where(m[:, None] > 0, X, -b)),
    "halves": ("Y[i,j] = X[i,j]+b[j]", {"X": ((35, 68), "f2"), "b": ((68,), "f2")}, lambda X, b: X + b),
}


def program(case: Case) -> Program:
    text, given, _ = case
    return stages.build(text, {n: s for n, (s, _) in given.items()}, {n: np.dtype(t) for n, (_, t) in given.items()})


def moved(module: loops.Module) -> set[int]:
    """Elements that the stores to the kernels' arrays write at once."""
    stores = [s for k in module.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Store)]
    return {max(i.lanes for i in s.indices) for s in stores if s.buffer.space == "global"}


def lowered(case: Case) -> compiler.Lowered:
    found = compiler.lower_program(program(case), OpenCLTarget(SMALL))
    assert "refused" not in found.schedule.how
    assert "program order" not in found.schedule.how
    return found


@pytest.mark.part(4)
@pytest.mark.parametrize("name", [*VECTORS, *SCALARS])
def test_results(name: str, targets: tuple[str, ...]) -> None:
    case = {**VECTORS, **SCALARS}[name]
    rng = np.random.default_rng(7)
    arrays = {n: rng.integers(0 if n == "k" else -4, 9, s).astype(t) for n, (s, t) in case[1].items()}
    where: list[Target] = [InterpTarget(SMALL)] if name in ("a part", "two results") else []
    where += [OpenCLTarget(SMALL)] if "opencl" in targets else []
    p = program(case)
    for target in where:
        results = [np.full(p.tensor(n).shape, 77, p.tensor(n).dtype.numpy) for n in p.outputs]
        compiler.compile_program(p, target).run([*(arrays[n] for n in p.inputs), *results])
        np.testing.assert_allclose(results[-1], case[2](**arrays), rtol=2e-6 if name == "functions" else 0, err_msg=target.name)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", VECTORS)
def test_items_move_vectors(name: str) -> None:
    found = lowered(VECTORS[name])
    assert moved(found.loops) == {{"doubles": 2, "rows that memory names": 2, "bytes": 16}.get(name, 4)}  # names become i64
    assert found.source.text.count("vload") == found.source.text.count("vstore") == 0
    assert found.source.options["alignment"] == "64"


@pytest.mark.parametrize("name", SCALARS)
def test_what_vectors_do_not_fit_keeps_scalars(name: str) -> None:
    assert moved(lowered(SCALARS[name]).loops) == {1}


def test_open_sizes_keep_scalars() -> None:
    def sized(n: Mapping[str, int]) -> Program:
        return stages.build("C[i] = A[i]*2", {"A": (n["N"],)}, {"A": "f32"})

    assert moved(compiler.lower_program(sized({"N": 4096}), OpenCLTarget(SMALL)).loops) == {4}
    assert moved(compiler.lower_program(generalise(sized, {"N": 4096}), OpenCLTarget(SMALL)).loops) == {1}


@pytest.mark.parametrize("device", ["nvidia-sm90", "amd-gfx90a", "generic-gpu", "intel-xe", "mali", "adreno"])
def test_the_text(device: str) -> None:
    case: Case = ("C[i] = A[i]+B[i]", dict.fromkeys("AB", ((1 << 20,), F)), lambda A, B: A + B)
    text = compiler.lower_program(program(case), OpenCLTarget(DEVICES[device])).source.text
    a, b, c = (f"{n} + i" for n in "ABC")
    line = f"*(__global float4*)({c}) = *(__global const float4*)({a}) + *(__global const float4*)({b});"
    assert "const int i = i_group * 1024 + i_item * 4;" in text
    assert line in " ".join(text.split())


@pytest.mark.parametrize(("text", "columns", "expected"), [
    ("Y[i,j] = max(X[i,j], 0)", 4096, 4), ("Y[i,j] = X[i,j] + x[i]", 4096, 4), ("Y[i,j] = max(X[i,j], 0)", 4095, 1),
    ("Y[i,j] = X[i,j-1] where j in 1:4096", 4096, 1), ("Y[i,j] = (X[i,j] else 0)", 4096, 1), ("Y[i,j] = X[i,2*j]", 4096, 1),
    ("Y[i] += X[i,j]", 4096, 1), ("Y[i,j] = max(X[i,j], 0)", 8, 1)])
def test_items_take_vectors_only_where_all_accesses_are_aligned(text: str, columns: int, expected: int) -> None:
    shapes = {"X": (4096, columns)} | ({"x": (4096,)} if "x[" in text else {})
    program = stages.build(text, shapes)
    group = partition(program, "smart")[-1]
    assert vector_accesses.lanes(program, group, len(group.rows) - 1, DEVICES["nvidia-sm90"]) == expected
