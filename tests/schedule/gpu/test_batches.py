"""A work-group for each member of a batch, whose items run its steps: which programs, and results against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen.target import Target
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.program import Program
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import cuda_here

GPU = DEVICES["nvidia-sm90"]
CHOLESKY = """def cholesky(inout f64[B,N,N] A) -> (A) {
    for k in 0:N {
        A[b,k,k] = sqrt(A[b,k,k])
        A[b,i,k] = A[b,i,k] / A[b,k,k]     where i in k+1:N
        A[b,i,j] -= A[b,i,k] * A[b,j,k]    where i in k+1:N, j in k+1:i+1
    }
}"""
LU = """def lu(inout f64[B,N,N] A) -> (A) {
    for k in 0:N-1 {
        A[c,i,k] = A[c,i,k] / A[c,k,k]     where i in k+1:N
        A[b,i,j] -= A[b,i,k] * A[b,k,j]    where i in k+1:N, j in k+1:N
    }
}"""
DISTANCE = """def distances(f32[B,N,N] W) -> (D) {
    D[b,i,j] = W[b,i,j]
    for k in 0:N { D[b,i,j] min= D[b,i,k] + D[b,k,j] where i != k, j != k }
}"""
VITERBI = """def viterbi(f32[B,T,S] E, f32[S,S] P) -> (V) {
    V[b,0,s] = E[b,0,s]
    for t in 1:T {
        M[b,t,s] max= V[b,t-1,r] + P[r,s]
        V[b,t,s] = M[b,t,s] + E[b,t,s]
    }
}"""
HEADS = """def heads(inout f64[A,B,N] x, f64[N,N] L) -> (x) {
    for k in 0:N-1 { x[a,b,i] -= L[i,k] * x[a,b,k]    where i in k+1:N }
}"""


def lu(A: np.ndarray) -> np.ndarray:
    A = A.copy()
    for k in range(A.shape[1] - 1):
        A[:, k + 1:, k] /= A[:, k, k, None]
        A[:, k + 1:, k + 1:] -= A[:, k + 1:, k, None] * A[:, k, None, k + 1:]
    return A


def distances(W: np.ndarray) -> np.ndarray:
    D = W.copy()
    for k in range(D.shape[1]):
        D = np.minimum(D, D[:, :, k, None] + D[:, k, None, :])
    return D


def viterbi(E: np.ndarray, P: np.ndarray) -> np.ndarray:
    V = E.copy()
    for t in range(1, E.shape[1]):
        V[:, t] += (V[:, t - 1, :, None] + P).max(1)
    return V


def heads(x: np.ndarray, L: np.ndarray) -> np.ndarray:
    x = x.copy()
    for k in range(len(L) - 1):
        x[..., k + 1:] -= L[k + 1:, k] * x[..., k, None]
    return x


def positive(rng: np.random.Generator, members: int, n: int) -> np.ndarray:
    a = rng.standard_normal((members, n, n))
    return a @ a.transpose(0, 2, 1) + n * np.eye(n)


Case = tuple[str, Callable[[np.random.Generator], dict[str, np.ndarray]], Callable[..., np.ndarray]]
CASES: dict[str, Case] = {
    "cholesky": (CHOLESKY, lambda rng: {"A": np.tril(positive(rng, 33, 21))},
                 lambda A: np.linalg.cholesky(A + np.tril(A, -1).transpose(0, 2, 1))),
    "lu": (LU, lambda rng: {"A": positive(rng, 17, 37)}, lu),
    "distances": (DISTANCE, lambda rng: {"W": rng.random((5, 40, 40), np.float32)}, distances),
    "viterbi": (VITERBI, lambda rng: {"E": rng.random((9, 12, 35), np.float32), "P": rng.random((35, 35), np.float32)},
                viterbi),
    "heads": (HEADS, lambda rng: {"x": rng.random((3, 4, 50)), "L": rng.random((50, 50))}, heads)}


def program(case: Case) -> tuple[Program, dict[str, np.ndarray]]:
    given = case[1](np.random.default_rng(8))
    return stages.build(case[0], {n: a.shape for n, a in given.items()}, {n: a.dtype for n, a in given.items()}), given


@pytest.mark.part(5)
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, targets: tuple[str, ...]) -> None:
    p, given = program(CASES[name])
    expected = CASES[name][2](**given)
    machine = GENERIC_GPU.costing({"launches.launch": 1.0e-3, "launches.step": 1.0e-2})
    where: list[Target] = [InterpTarget(machine)] if name in ("cholesky", "viterbi") else []
    where += [OpenCLTarget(machine)] if "opencl" in targets else []
    where += [cuda_here.CompiledCuda(machine)] if cuda_here.COMPILER else []
    for target in where:
        arrays = {n: a.copy() for n, a in given.items()}
        arrays |= {n: np.full(p.tensor(n).shape, 77, p.tensor(n).dtype.numpy) for n in p.outputs if n not in given}
        low = compiler.lower_program(p, target)
        assert "for each iteration of what carries nothing" in low.schedule.how, low.schedule.how
        target.load(target.build(low.source), 1).run([arrays[n] for n in p.arrays])
        np.testing.assert_allclose(arrays[p.outputs[0]], expected, rtol=2e-5, err_msg=target.name)


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "shape", "groups"), [
    (CHOLESKY, (512, 64, 64), (512,)), (CHOLESKY, (2000, 32, 32), (2000,)), (LU, (300, 48, 48), (300,)),
    (CHOLESKY.replace("A[b,j,k]", "A[b,j,k] * A[0,j,k]"), (512, 64, 64), ())])
def test_steps_of_a_batch_are_one_launch(text: str, shape: tuple[int, ...], groups: tuple[int, ...]) -> None:
    p = stages.build(text, {"A": shape}, {"A": np.dtype("f8")})
    source = compiler.lower_program(p, OpenCLTarget(GPU)).source
    first = source.launches[0]
    if not groups:
        assert all(x.loops for x in source.launches), "members read what others made"
        return
    assert (len(source.launches), first.loops) == (1, ())
    assert first.global_size[0] // first.local_size[0] == groups[0]
    assert source.text.count("barrier(") >= 2


def test_one_large_matrix_is_the_host_s() -> None:
    p = stages.build(CHOLESKY, {"A": (1, 2000, 2000)}, {"A": np.dtype("f8")})
    assert any(x.loops for x in compiler.lower_program(p, OpenCLTarget(GPU)).source.launches)
