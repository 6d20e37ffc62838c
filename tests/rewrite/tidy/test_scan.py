"""Prefix reductions as scans: which are, and that the results stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polytc import compiler
from polytc.codegen.target import Target
from polytc.lang import build
from polytc.machine import DEVICES
from polytc.program.program import Program, reads
from polytc.rewrite.tidy import scan
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.interp import InterpTarget
from tests.test_programs import check


def scans(program: Program) -> int:
    """Assignments that read their own target."""
    return sum(any(r.tensor == s.target for r in reads(s)) for s in scan.simplify_prefixes(program).statements)


@pytest.mark.part(4)
@pytest.mark.parametrize("text", [
    "Y[i,j] += X[i,k] where k <= j, j in 0:X.shape[1]",
    "Y[i,j] += X[i,k] where j >= k, j in 0:X.shape[1]",
    "Y[i,j] += X[i,k] where k < j, j in 0:X.shape[1]",
    "Y[i,j] += X[i,k] where k >= j, j in 0:X.shape[1]",
    "Y[i,j] += X[i,k] where k > j, j in 0:X.shape[1]",
    "Y[i,j] max= X[i,k] where k <= j, j in 0:X.shape[1]",
    "Y[j,i] += X[i,k]*X[i,k] where k <= j, j in 0:X.shape[1]",
    "Y[i,j] += X[i,k] where k <= j, j in 0:20",
    "Y[j] += X[0,k] where k <= j, j in 0:X.shape[1]",
    "T[i,j] += X[i,k] where k <= j, j in 0:X.shape[1]; Y[i,j] = T[i,j] * 2 + X[i,j]"])
@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_prefixes_are_scans(text: str, target: str) -> None:
    program = build(text, {"X": (13, 37)})
    assert scans(program) == 1
    check(program, target)


@pytest.mark.part(4)
@pytest.mark.parametrize("text", [
    "Y[i,j] += X[i,k] * j where k <= j, j in 0:X.shape[1]",              # the value depends on the place
    "Y[i,j] += X[i,k] where k <= j + 3, j in 0:20",                      # starts with more than one element
    "Y[i,j] += X[i,k] where k <= j, j in 0:50",                          # more results than elements
    "Y[i,j] += X[i,k] where k <= 2*j, j in 0:X.shape[1]",                # not one element more at each place
    "Y[j] += X[i,k] where k <= j, j in 0:X.shape[1]",                    # another index is reduced too
    "Y[i,j] += X[i,k] where k == j, j in 0:X.shape[1]",                  # one element, or all but one
    "Y[i,j] += X[i,k] where k != j, k in 0:36, j in 1:37",
    "Y[i,j] += X[i,k] where k <= j || k > 9, j in 0:X.shape[1]",         # two conditions, both conditions
    "Y[i,j] += X[i,k] where k <= j, k >= j - 3, j in 0:X.shape[1]",
    "Y[i,j] = X[i,j]; Y[i,j] += X[i,k] where k <= j",                    # starts from something else
    *(f"Y[i,j] = X[i,j]; {t}[i,j] = f32(0) where i in 0:13, j in 0:37; Y[i,j] += X[i,k] where k <= j" for t in "AZ"),
    "Y[i,j] = 1.0 where i in 0:13, j in 0:37; Y[i,j] += X[i,k] where k <= j",
    "Y[i,j] = 0.0 where i in 0:13, j in 0:37; Y[i,j] max= X[i,k] where k <= j"])
def test_other_reductions_stay(text: str) -> None:
    program = build(text, {"X": (13, 37)})
    assert scans(program) == 0
    check(program, "cpu")


BESIDE = "S[0] = 1; for i in 1:X.shape[0] { S[i] = S[i-1] * 0.5 + X[i] }; Y[i] += S[k] where k <= i, i in 0:X.shape[0]"


@pytest.mark.parametrize("target", [InterpTarget(), InterpTarget(DEVICES["nvidia-sm90"])], ids=["cpu", "gpu"])
def test_prefixes_beside_for_loops_are_scans(target: Target) -> None:
    """Also on GPUs, where the reductions of programs with `for` loops are divided among groups."""
    program = build(BESIDE, {"X": (300,)})
    x = np.random.default_rng(0).integers(-4, 5, 300).astype("f4")
    expected = [1.0]
    for value in x[1:]:
        expected.append(expected[-1] * 0.5 + float(value))
    found = np.zeros(300, "f4")
    compiler.compile_program(program, target).run([{"X": x, "Y": found}[n] for n in program.arrays])
    np.testing.assert_allclose(found, np.cumsum(expected), rtol=1e-4, atol=1e-3)


def test_prefixes_beside_for_loops_are_made_in_blocks() -> None:
    low = compiler.lower_program(build(BESIDE, {"X": (1 << 20,)}), CudaTarget(DEVICES["nvidia-sm90"]))
    assert low.schedule.how.startswith("gpu strategy")
    assert "in one pass by groups" in "\n".join(map(str, low.steps))


def test_prefixes_in_for_loops_stay() -> None:
    text = "for t in 0:3 { Z[j] +=! Y[k] where k <= j, j in 0:37, k in 0:37; Y[j] = Z[j] + X[j] where j in 0:37 }"
    program = build(f"def f(f32[37] X, inout f32[37] Y) -> (Y) {{ {text} }}", {})
    assert all(s.target != "Z" or s.op is not None or "init" in s.name for s in scan.simplify_prefixes(program).statements)
    check(program, "cpu")


def test_precise_sums_keep_their_order() -> None:
    text = "precise def f(f32[n,m] X) -> (Y) {{ Y[i,j] += X[i,k] where k {} j, j in 0:X.shape[1] }}"
    assert scans(build(text.format("<="), {"X": (5, 9)})) == 1
    assert scans(build(text.format(">="), {"X": (5, 9)})) == 0


def test_integers_wrap_alike() -> None:
    program = build("Y[j] += X[k] where k <= j, j in 0:X.shape[0]", {"X": (300,)}, {"X": "i32"})
    assert scans(program) == 1
    check(program, "cpu")


SCANS = (st.integers(1, 70), st.integers(1, 40), st.sampled_from(["<=", "<", ">=", ">"]), st.sampled_from(["i,j", "j,i"]),
         st.sampled_from(["+=", "max="]), st.sampled_from(["interp", "cpu"]))


@given(*SCANS)
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_scans_of_every_size(n: int, m: int, order: str, place: str, op: str, target: str) -> None:
    scanned(n, m, order, place, op, target)


@pytest.mark.long
@given(*SCANS)
@settings(max_examples=150, deadline=None)
def test_many_scans(n: int, m: int, order: str, place: str, op: str, target: str) -> None:
    scanned(n, m, order, place, op, target)


def scanned(n: int, m: int, order: str, place: str, op: str, target: str) -> None:
    source = place.replace("j", "k")
    text = f"Y[{place}] {op} X[{source}] where k {order} j, j in 0:X.shape[{place.split(',').index('j')}]"
    check(build(text, {"X": (n + 1, m + 1)}), target)


def test_many_rows_on_threads() -> None:
    check(build("Y[i,j] += X[i,k] where k <= j, j in 0:X.shape[1]", {"X": (700, 130)}), "cpu", threads=2)
