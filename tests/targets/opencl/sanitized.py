"""Run by test_sanitized.py in a process of its own, on oclgrind: kernels with barriers, guards and vectors.

Argument 'broken': the tiled matmul without its barriers instead, whose races must be found; 'unset': see below; 'quick': a few
of each.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

import polytc
from polytc import compiler, stages
from polytc.codegen import loops as L
from polytc.lang import evaluate
from polytc.machine import GENERIC_GPU
from polytc.program.scalars import F32
from polytc.program.sizes import specialised
from polytc.runtime.sized import sized
from polytc.targets.opencl.target import OpenCLTarget
from tests import drivers
from tests.codegen import loop_programs as P
from tests.codegen.passes.local_memory import test_register_prefetch, test_shared_storage
from tests.schedule.gpu import test_blocked
from tests.schedule.user.changes import test_sliding

STAGED = [("C[i,j] += A[i,k]*B[k,j]", {"A": (37, 21), "B": (21, 29)}),
          ("O[c,h,w] += W[c,d,r,s]*X[d,h+r,w+s]", {"W": (9, 3, 3, 3), "X": (3, 9, 19)}),
          ("B[i,j] = A[j,i] + A[i,j]", {"A": (37, 37)}),
          ("y[i] += x[i,j]", {"x": (5, 213)}),
          ("y[i] += x[i,j] where j <= i", {"x": (37, 37)}),
          ("y[j] += x[i,j]", {"x": (300, 5)}),
          ("s += x[i]", {"x": (4500,)}),
          ("(M[i], J[i]) argmax= (X[i,j], j)", {"X": (3, 70)}),
          ("m[i] max= x[i,j]; y[i,j] = x[i,j] - m[i]; s[i] += y[i,j]; z[i,j] = y[i,j]*s[i] + s[i] -> (y, z)", {"x": (33, 19)})]
"""What the strategy for GPUs makes barriers for: contractions in tiles, turned tiles, reductions by many items."""

OPEN = [("C[i,j] += A[i,k]*B[k,j]", {"A": ("M", "K"), "B": ("K", "N")}),
        ("B[i,j] = A[j,i] + A[i,j]", {"A": ("M", "M")}),
        ("y[i] max= x[i,j]", {"x": ("M", "K")}),
        ("s += x[i]*x[i]", {"x": ("K",)})]
"""The same where the sizes are arguments."""

WIDE = [("C[i] = A[i]*2", {"A": (2052,)}), ("Y[i,j] = X[i,j]+b[j]", {"X": (31, 68), "b": (68,)}),
        ("T[n,c,w] = X[n,c,w]*s[c]; Y[n,c,w] = max(T[n,c,w], 0) + T[n,c,w] -> (Y)", {"X": (3, 7, 100), "s": (7,)}),
        ("Y[i,j] = X[i,j]*2 where i in 3:38, j in 4:68", {"X": (40, 72)})]
"""What items move whole vectors of: groups that are not whole in each direction, parts."""
STEPS = [("""def heat(inout f32[N,M] A) -> (A) {
                for t in 0:3 {
                    B[i,j] = A[i-1,j] + A[i,j-1] - A[i+1,j]    where i in 1:N-1, j in 1:M-1
                    A[i,j] = B[i,j]                            where i in 1:N-1, j in 1:M-1
                }
            }""", {"A": (7, 37)}),
         ("""def sweeps(inout f32[N,N] A) -> (A) {
                for t in 0:2 {
                    for i in 1:N {
                        for j in 1:N {
                            A[i,j] = A[i-1,j] - A[i,j-1]
                        }
                    }
                }
            }""", {"A": (19, 19)}),
         ("""def eliminate(inout f32[N,N] A, inout f32[N] x) -> (A, x) {
                for k in 0:N-1 {
                    x[i] += A[i,k] * x[k]         where i in k+1:N
                    A[i,j] += A[i,k] - A[k,j]     where i in k+1:N, j in k+1:N
                    s += x[i]
                    x[k] = s
                }
            }""", {"A": (11, 11), "x": (11,)})]
"""Programs that wait for themselves, as launches in loops of the host and as one group with barriers."""


BATCHES = [("""def lu(inout f32[B,N,N] A) -> (A) {
                   for k in 0:N-1 {
                       A[b,i,k] = A[b,i,k] / 2 + A[b,k,k]          where i in k+1:N
                       A[b,i,j] += A[b,i,k] - A[b,k,j] * 0.5       where i in k+1:N, j in k+1:N
                   }
               }""", {"A": (3, 19, 19)}),
           ("A[b,i] = X[b,i] - X[b,36-i]; C[b,i] = A[b,i] - A[b,36-i]; D[b,i] = C[b,i] + C[b,36-i]; E[b,i] = D[b,i]*D[b,36-i]",
            {"X": (9, 37)})]


def steps(target: OpenCLTarget) -> None:
    """The programs of STEPS in both ways, with small groups, so that there are several."""
    target = replace(target, machine=replace(target.machine, max_work_group=16))
    for launch in (0.0, 1e9):
        costly = replace(target, machine=target.machine.costing({"launches.launch": launch}))
        for text, shapes in STEPS:
            program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
            source = compiler.lower_program(program, costly).source
            assert ("barrier(" in source.text) == (launch > 0)
            given = {n: np.random.default_rng(1).integers(-2, 3, s).astype(np.float32) for n, s in shapes.items()}
            expected = evaluate(program, {n: a.copy() for n, a in given.items()})
            target.load(target.build(source)).run([given[n] for n in program.arrays])
            for n, array in expected.items():
                np.testing.assert_allclose(given[n], array, rtol=1e-5)


def blocked() -> None:
    """Eliminations by blocks, whose items begin elsewhere in each step."""
    for text, made, oracle in test_blocked.PROGRAMS.values():
        given = made(24)
        program = stages.build(text.replace("BLOCK", "8"), {n: a.shape for n, a in given.items()}, dict.fromkeys(given, "f64"))
        arrays = {n: a.copy() for n, a in given.items()}
        low = compiler.lower_program(program, OpenCLTarget())
        assert "in one group of" in low.schedule.how
        low.target.load(low.target.build(low.source)).run([arrays[n] for n in program.arrays])
        np.testing.assert_allclose(*oracle(**given, found=arrays[program.outputs[0]]), rtol=1e-9, atol=1e-9)


def batches() -> None:
    """A group for each member of a batch, in a loop and in a row of statements."""
    machine = GENERIC_GPU.costing({"launches.launch": 1.0e-3, "launches.step": 1.0e-2})
    for text, shapes in BATCHES:
        program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
        source = compiler.lower_program(program, OpenCLTarget(machine)).source
        assert "barrier(" in source.text
        assert all(x.global_size[0] // x.local_size[0] in (3, 9) for x in source.launches)
        given = {n: np.random.default_rng(1).integers(1, 5, s).astype(np.float32) for n, s in shapes.items()}
        expected = evaluate(program, {n: a.copy() for n, a in given.items()})
        given |= {n: np.zeros_like(e) for n, e in expected.items() if n not in given}
        OpenCLTarget().load(OpenCLTarget().build(source)).run([given[n] for n in program.arrays])
        for n, array in expected.items():
            np.testing.assert_allclose(given[n], array, rtol=1e-5)


def tiles_and_rings() -> None:
    """Local arrays that share storage, tiles that are loaded ahead with one copy and with two, rows in a ring."""
    for seed in (0, 1, 3):
        program, expected, x = test_shared_storage.built(seed)
        record = test_shared_storage.record(program)
        low = compiler.lower_program(program, OpenCLTarget(test_shared_storage.GPU), schedule=record)
        assert any(k.shares for k in low.loops.kernels)
        y = np.zeros_like(x)
        low.target.load(low.target.build(low.source)).run([x, y])
        np.testing.assert_array_equal(y, expected(x))
    a, b = (np.random.default_rng(n).integers(-4, 5, s).astype(np.float32) for n, s in enumerate(((37, 90), (90, 37))))
    for machine in (test_register_prefetch.GPU, test_register_prefetch.SMALL):
        found = polytc.run(test_register_prefetch.MATMUL, a, b, target=OpenCLTarget(machine),
                           schedule=test_register_prefetch.asked(37, 90))
        np.testing.assert_array_equal(found, a @ b)
    x = np.random.default_rng(2).integers(-4, 5, (34, 66)).astype(np.float32)
    found = polytc.run(test_sliding.ROWS, x, target=OpenCLTarget(), schedule=test_sliding.on_a_grid())
    np.testing.assert_array_equal(found, test_sliding.of_numpy(x))


def main(broken: bool, quick: bool) -> None:
    """Compare each module with numpy; what oclgrind finds goes to its log."""
    drivers.one_thread()
    target = OpenCLTarget()
    for m in (P.matmul(5, 6, 7), P.tiled_matmul(8, 4), P.vector_matmul(4, 16, 5, 2, 4)):
        source = target.emit(m)
        if broken:
            source = replace(source, text=source.text.replace("barrier(CLK_LOCAL_MEM_FENCE);", ""))
        a, b, c = (np.random.default_rng(0).standard_normal(x.shape).astype(np.float32) for x in m.args)
        target.load(target.build(source)).run([a, b, c])
        if not broken:
            np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
    small = OpenCLTarget(replace(GENERIC_GPU, cores=1))
    for text, shapes in () if broken else STAGED[::3] + WIDE[::3] if quick else STAGED + WIDE:
        program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
        source = compiler.lower_program(program, small if (text, shapes) in WIDE else target).source
        assert ("*(__global float4*)" if (text, shapes) in WIDE else "barrier(") in source.text
        given = {n: np.random.default_rng(1).integers(-4, 5, s).astype(np.float32) for n, s in shapes.items()}
        results = {n: np.zeros(program.tensor(n).shape, program.tensor(n).dtype.numpy) for n in program.outputs}
        target.load(target.build(source)).run([*given.values(), *results.values()])
        for n, expected in evaluate(program, given).items():
            np.testing.assert_array_equal(results[n], expected)
    if not broken:
        steps(target)
        batches()
    if not broken and not quick:
        blocked()
        tiles_and_rings()
    for text, shapes in () if broken else OPEN[::2] if quick else OPEN:
        _open(text, shapes, {"M": 37, "K": 21, "N": 29})
    beyond = L.Buffer("x", F32, (4,))
    if broken:
        m = P.module("beyond", (beyond,), ("x",), L.Store(beyond, (L.const(4),), L.Const(1.0, beyond.dtype)))
        target.load(target.build(target.emit(m))).run([np.zeros(4, np.float32)])


def unset() -> None:
    """A kernel that uses what nobody stored."""
    drivers.one_thread()
    target, x, t = OpenCLTarget(), L.Buffer("x", F32, (4,)), L.Buffer("t", F32, (4,), "private")
    stored = L.Store(x, (L.const(0),), L.Load(t, (L.const(0),), F32))
    m = P.module("unset", (x,), ("x",), L.Alloc(t, stored))
    target.load(target.build(target.emit(m))).run([np.zeros(4, np.float32)])


def _open(text: str, shapes: dict[str, tuple[str, ...]], sizes: dict[str, int]) -> None:
    """Compare a program of open sizes with the interpreter for these sizes."""
    low = polytc.lower(text, shapes=shapes, target="opencl")
    assert "barrier(" in low.source.text
    executable = compiler.compile_program(low.program, OpenCLTarget())
    program = specialised(low.program, sizes)
    given = {n: np.random.default_rng(1).integers(-4, 5, [sizes[d] for d in s]).astype(np.float32) for n, s in shapes.items()}
    results = {n: np.zeros(program.tensor(n).shape, program.tensor(n).dtype.numpy) for n in program.outputs}
    numbers = {n: sizes[n] for n in low.program.sizes}
    sized(executable, compiler.options(executable), numbers).run([*given.values(), *results.values()])
    for n, expected in evaluate(program, given).items():
        np.testing.assert_array_equal(results[n], expected)


if __name__ == "__main__":
    unset() if "unset" in sys.argv[1:] else main("broken" in sys.argv[1:], "quick" in sys.argv[1:])
