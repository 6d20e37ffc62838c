"""Operands that lie the other way round, for GPUs: turned in local memory; against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen import loops, traverse
from polytc.codegen.target import Target
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.rewrite.gpu import local_transpose
from polytc.schedule.facts.fusion_groups import partition
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]], Callable[..., np.ndarray]]] = {
    "a transpose": ("B[i,j] = A[j,i]", {"A": (70, 45)}, lambda A: A.T),
    "whole tiles": ("B[i,j] = A[j,i]", {"A": (64, 32)}, lambda A: A.T),
    "channels last": ("O[n,h,w,c] = X[n,c,h,w]*2", {"X": (2, 19, 5, 11)}, lambda X: X.transpose(0, 2, 3, 1) * 2),
    "channels first": ("O[n,c,h,w] = X[n,h,w,c]+1", {"X": (2, 5, 11, 19)}, lambda X: X.transpose(0, 3, 1, 2) + 1),
    "another way round": ("B[k,j,i] = A[i,j,k]", {"A": (12, 13, 14)}, lambda A: A.transpose(2, 1, 0)),
    "with itself": ("C[i,j] = A[i,j] + A[j,i]", {"A": (45, 45)}, lambda A: A + A.T),
    "two operands": ("T[i,j] = A[j,i]*2; C[i,j] = T[i,j] + B[j,i]*T[i,j]", {"A": (45, 39), "B": (45, 39)},
                     lambda A, B: 2 * A.T * (1 + B.T)),
    "beyond the ends": ("B[i,j] = (A[j-1,i+2] else 3) where i in 0:40, j in 0:50", {"A": (45, 39)},
                        lambda A: np.pad(A, ((1, 4), (0, 3)), constant_values=3)[:, 2:].T),
    "a part": ("B[i,j] = A[j,i] where i in 3:30, j in 5:40", {"A": (45, 39)}, lambda A: A.T[3:30, 5:40]),
}


def run(text: str, arrays: dict[str, np.ndarray], target: Target) -> np.ndarray:
    program = stages.build(text, {n: a.shape for n, a in arrays.items()}, {n: a.dtype for n, a in arrays.items()})
    result = np.full(program.tensor(program.outputs[-1]).shape, 77, program.tensor(program.outputs[-1]).dtype.numpy)
    compiler.compile_program(program, target).run([*arrays.values(), result])
    return result


def lowered(text: str, shapes: dict[str, tuple[int, ...]], device: str = "generic-gpu") -> compiler.Lowered:
    found = compiler.lower_program(stages.build(text, shapes, dict.fromkeys(shapes, "f32")), OpenCLTarget(DEVICES[device]))
    assert "refused" not in found.schedule.how
    return found


def local(module: loops.Module) -> list[loops.Buffer]:
    return [s.buffer for k in module.kernels for s in traverse.walk_stmt(k.body)
            if isinstance(s, loops.Alloc) and s.buffer.space == "local"]


@pytest.mark.part(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, targets: tuple[str, ...]) -> None:
    text, shapes, expected = PROGRAMS[name]
    rng = np.random.default_rng(7)
    arrays = {n: rng.integers(-8, 9, s).astype("f4") for n, s in shapes.items()}
    where: list[Target] = [InterpTarget(GENERIC_GPU)] if name in ("two operands", "another way round") else []
    where += [OpenCLTarget()] if "opencl" in targets else []
    for target in where:
        np.testing.assert_array_equal(run(text, arrays, target), expected(**arrays), err_msg=target.name)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_tiles_are_in_local_memory_and_banks_do_not_meet(name: str) -> None:
    text, shapes, _ = PROGRAMS[name]
    found = lowered(text, shapes)
    assert found.loops.scratch == ()
    assert [b.shape[-1] % 2 for b in local(found.loops)] == [1] * (2 if name == "two operands" else 1)
    assert found.source.text.count("barrier(") == 1


@pytest.mark.parametrize(("text", "shapes", "device"), [
    ("B[i,j] = A[i,j]", {"A": (64, 64)}, "generic-gpu"), ("B[i,j] = A[j,i]", {"A": (64, 3)}, "generic-gpu"),
    ("B[i,j] = A[i,2*j]", {"A": (64, 64)}, "generic-gpu"), ("B[i,j] = x[i] + y[j]", {"x": (64,), "y": (64,)}, "generic-gpu"),
    ("B[i,j,k] = A[k,j,i] + D[i,k,j]", {"A": (20, 20, 20), "D": (20, 20, 20)}, "generic-gpu"),  # two ways round
    ("B[i,j] = A[j,i]", {"A": (64, 7)}, "generic-gpu"), ("B[i,j] = A[j,i]", {"A": (7, 64)}, "generic-gpu")])
def test_what_does_not_gain_is_left_alone(text: str, shapes: dict[str, tuple[int, ...]], device: str) -> None:
    assert local(lowered(text, shapes, device).loops) == []


@pytest.mark.parametrize(("text", "turn"), [
    ("B[i,j] = A[j,i]", local_transpose.TransposedRows(1, 0)), ("B[i,j] = A[i,j]", None),
    ("B[i,j] = A[j,i] + A[i,j]", local_transpose.TransposedRows(1, 0)), ("B[i,k] += A[j,i]*A[k,j]", None)])
def test_the_rows_to_turn(text: str, turn: local_transpose.TransposedRows | None) -> None:
    program = stages.build(text, {"A": (64, 64)})
    (group,) = partition(program, "smart")
    assert local_transpose.choose(program, group, GENERIC_GPU) == turn
