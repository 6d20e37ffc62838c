"""`for` loops that exchange buffers in place of copying them: which do, and results against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen.target import Target
from polytc.errors import PolytcError
from polytc.machine import AVX512, DEVICES, GENERIC_GPU
from polytc.program.program import Program
from polytc.rewrite import table
from polytc.rewrite.step import Decision
from polytc.rewrite.tidy import rotated_buffers
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import cuda_here

GPU = DEVICES["nvidia-sm90"]
HEAT = """def heat(f32[30,40] X, f32[9] w) -> (A) {
    A[i,j] = X[i,j]
    for t in 0:%d {
        B[i,j] = w[t] * (A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1])    where i in 1:29, j in 1:39
        A[i,j] = B[i,j]                                                where i in 1:29, j in 1:39
    }
}"""
SCALED = """def scaled(inout f32[40] A, f32[40] F) -> (A) {
    for t in 2:9 { B[p] = (A[p-1] else 1) + (A[p+1] else t) where p in 0:40;  A[i] = B[i] * 0.5 + i where i in 0:40 }
}"""
WAVE = """def wave(inout f32[30] P, inout f32[30] U, f32[30] c) -> (P, U) {
    for t in 0:%d {
        K[i] = c[i] * (U[i-1] - 2*U[i] + U[i+1])     where i in 1:29
        N[i] = 2*U[i] - P[i] + K[i]                  where i in 1:29
        P[i] = U[i]                                  where i in 1:29
        U[i] = N[i]                                  where i in 1:29
    }
}"""
FOUR = """def four(inout f32[50] A, inout f32[50] B, inout f32[50] C) -> (A, B, C) {
    for t in 0:%d {
        N[i] = A[i] + 0.5*B[i] - C[i-1] + 0.25*C[i+1]     where i in 3:47
        A[j] = B[j]     where j in 3:47
        B[k] = C[k]     where k in 3:47
        C[i] = N[i]     where i in 3:47
    }
}"""
TURNED = """def turned(inout f32[9,12] A) -> (A) {
    for t in 0:8 {
        B[j,i] = A[i,j] * 0.5 + (A[i-1,j] else 0)    where i in 0:9, j in 0:12
        A[i,j] = B[j,i]                              where i in 0:9, j in 0:12
    }
}"""


def heat(steps: int) -> Callable[[np.ndarray, np.ndarray], list[np.ndarray]]:
    def expected(X: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
        A = X.copy()
        for t in range(steps):
            A[1:-1, 1:-1] = w[t] * (A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:])
        return [A]
    return expected


def scaled(A: np.ndarray, F: np.ndarray) -> list[np.ndarray]:
    for t in range(2, 9):
        B = np.concatenate(([np.float32(1)], A[:-1])) + np.concatenate((A[1:], [np.float32(t)]))
        A = B * np.float32(0.5) + np.arange(40, dtype=np.float32)
    return [A]


def wave(steps: int) -> Callable[..., list[np.ndarray]]:
    def expected(P: np.ndarray, U: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        P, U = P.copy(), U.copy()
        for _ in range(steps):
            N = 2 * U[1:-1] - P[1:-1] + c[1:-1] * (U[:-2] - 2 * U[1:-1] + U[2:])
            P[1:-1], U[1:-1] = U[1:-1].copy(), N
        return [P, U]
    return expected


def four(steps: int) -> Callable[..., list[np.ndarray]]:
    def expected(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> list[np.ndarray]:
        A, B, C = A.copy(), B.copy(), C.copy()
        for _ in range(steps):
            N = A[3:47] + 0.5 * B[3:47] - C[2:46] + 0.25 * C[4:48]
            A[3:47], B[3:47] = B[3:47].copy(), C[3:47].copy()
            C[3:47] = N
        return [A, B, C]
    return expected


CASES: dict[str, tuple[str, Callable[..., list[np.ndarray]]]] = {
    **{f"heat {t}": (HEAT % t, heat(t)) for t in (6, 7)}, "scaled": (SCALED, scaled),
    **{f"wave {t}": (WAVE % t, wave(t)) for t in (9, 10, 11)}, **{f"four {t}": (FOUR % t, four(t)) for t in (12, 13, 14, 15)}}


HEAD = "polytc decisions 1\ntime_tiles: none\n"


def first(p: Program) -> str:
    return next(s.name for s in p.statements if s.loops)


def rotated(p: Program) -> Program:
    """The program behind the step, whatever it takes."""
    choice = rotated_buffers.Rotated(first(p))
    return p if rotated_buffers.fits(p, GPU, choice) else rotated_buffers.rotate(p, Decision(GPU, (choice,)))


@pytest.mark.part(10)
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, targets: tuple[str, ...]) -> None:
    text, expected = CASES[name]
    p = stages.build(text, {})
    assert rotated(p) != p
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-3, 4, p.tensor(n).shape).astype(np.float32) / 4 for n in p.inputs]
    where: list[Target] = [InterpTarget(GENERIC_GPU)]
    where += [OpenCLTarget(GENERIC_GPU)] if "opencl" in targets else []
    where += [cuda_here.CompiledCuda(GPU)] if cuda_here.COMPILER else []
    for target in where:
        given = {n: a.copy() for n, a in zip(p.inputs, arrays, strict=True)}
        given |= {n: np.full(p.tensor(n).shape, 77, np.float32) for n in p.outputs if n not in given}
        record = f"{HEAD}rotated_buffers {first(p)}:\n"
        compiler.compile_program(p, target, schedule=record).run([given[n] for n in p.arrays])
        for n, e in zip(p.outputs, expected(*arrays), strict=True):
            np.testing.assert_allclose(given[n], e, rtol=1e-6, atol=1e-6, err_msg=f"{n} of {target.name}")


def test_no_step_is_a_copy() -> None:
    loop = [s for s in rotated(stages.build(WAVE % 12, {})).statements if s.loops]
    assert [s.target for s in loop] == ["K", "U_next", "K", "P_turn", "K", "U"]
    assert {s.ranges[0].extent for s in loop} == {4}
    assert len({s.name for s in loop}) == 6


@pytest.mark.parametrize(("old", "new", "said"), [
    ("B[i,j] = w[t]", "B[i,j] += w[t]", "is not made by one assignment"),
    ("A[i,j] = B[i,j]   ", "A[i,j] = B[i,j] + w[t]*X[i,j]", ""),
    ("where i in 1:29, j in 1:39\n    }", "where i in 1:28, j in 1:39\n    }", "is not made by one assignment"),
    ("\n    }", "\n        A[0,j] = A[1,j]\n    }", ""),
    ("        A[i,j] = B", "        A[0,j] = A[1,j]\n        A[i,j] = B", "writes A, too"),
    ("}\n}", "}\n    C[i,j] = B[i,j] where i in 1:29, j in 1:39\n}", "is used elsewhere")])
def test_loops_that_copy(old: str, new: str, said: str) -> None:
    text = HEAT % 7
    assert old in text
    p = stages.build(text.replace(old, new), {})
    assert rotated(p) == p
    decision = rotated_buffers.decide(p, GPU)
    assert not decision.choices
    assert said in str(decision.reasons[0]) if said else not decision.reasons


@pytest.mark.parametrize(("size", "steps", "pays"), [(30, 30, True), (30, 3, False), (4000, 4, True), (4000, 2, True)])
def test_copies_of_a_few_steps_stay(size: int, steps: int, pays: bool) -> None:
    text = f"""def heat(inout f32[{size},{size}] A) -> (A) {{
        for t in 0:{steps} {{
            B[i,j] = A[i-1,j] + A[i+1,j]    where i in 1:{size - 1}
            A[i,j] = B[i,j]                 where i in 1:{size - 1}, j in 0:{size}
        }}
    }}"""
    (reason,) = rotated_buffers.decide(stages.build(text, {}), GPU).reasons
    assert reason.acted == pays
    assert "copies in the loop take" in reason.text


@pytest.mark.parametrize(("text", "said"), [
    ("N[i] = 1.5*U[i] - P[i] where i in 1:29; P[i] = U[i] where i in 1:29; U[i] = N[i] where i in 1:29", "from itself alone"),
    ("N[i] = U[i-1] - P[i] where i in 1:29; P[i] = U[i] where i in 1:29; U[i] = exp(N[i]) + N[i] where i in 1:29",
     "several times")])
def test_loops_whose_copies_cost_nothing_and_what_would_be_made_again(text: str, said: str) -> None:
    p = stages.build(f"def f(inout f32[30] P, inout f32[30] U) -> (P, U) {{ for t in 0:100 {{ {text} }} }}", {})
    assert rotated(p) == p
    assert said in str(rotated_buffers.decide(p, GPU).reasons[0])


def test_fewer_steps_than_states() -> None:
    """A loop of no turns would have no iterations."""
    text = """def f(inout f32[400000] A, inout f32[400000] B, inout f32[400000] C) -> (A, B, C, H) {
        for t in 0:3 {
            N[i] = A[i] + B[i] + C[i-1] + C[i+1]    where i in 1:399999
            H[t] = C[3] + 0
            A[i] = B[i]    where i in 1:399999
            B[i] = C[i]    where i in 1:399999
            C[i] = N[i]    where i in 1:399999
        }
    }"""
    p = stages.build(text, {})
    assert rotated(p) == p
    compiler.lower_program(p, OpenCLTarget(GPU))


def test_an_older_state_that_is_read_beside_its_place_is_copied() -> None:
    p = stages.build((WAVE % 12).replace("- P[i] +", "- P[i-1] +"), {})
    assert rotated(p) == p
    assert "reads P where it is not copied" in str(rotated_buffers.decide(p, GPU).reasons[0])


def test_states_of_exchanged_dimensions() -> None:
    p = stages.build(TURNED, {})
    assert rotated(p) == p or "A_next" in str(rotated(p))
    a = np.random.default_rng(2).standard_normal((9, 12), np.float32)
    expected = a.copy()
    for _ in range(8):
        expected = expected * np.float32(0.5) + np.pad(expected, ((1, 0), (0, 0)))[:-1]
    compiler.compile_program(p, InterpTarget(GENERIC_GPU)).run([a])
    np.testing.assert_allclose(a, expected, rtol=1e-5, atol=1e-6)


def test_a_record_decides() -> None:
    p = stages.build(HEAT % 7, {})
    target = OpenCLTarget(GENERIC_GPU)
    kept = compiler.lower_program(p, target, schedule=f"{HEAD}rotated_buffers: none\n")
    assert "A_next" not in str(kept.rewritten)
    short = stages.build(HEAT % 3, {})
    assert "A_next" not in str(compiler.lower_program(short, target).rewritten)
    assert "A_next" in str(compiler.lower_program(short, target, schedule=f"{HEAD}rotated_buffers S2:\n").rewritten)
    with pytest.raises(PolytcError, match="E710"):
        compiler.lower_program(p, target, schedule=f"{HEAD}rotated_buffers S1:\n")


def test_processors_keep_the_copies() -> None:
    assert "cpu" not in table.named("rotated_buffers").kinds
    assert "A_next" not in str(compiler.lower_program(stages.build(HEAT % 7, {}), InterpTarget(AVX512)).rewritten)
