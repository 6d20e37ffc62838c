"""isl's scheduler ends in time, whatever it is asked: what it would think about for minutes runs in the order of the text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import islpy
import pytest

from examples.polybench.kernels import KERNELS
from polytc import compiler
from polytc.poly import dependences, isl, scheduler, scop
from polytc.program.program import Program
from polytc.schedule.facts import scheduler_constraints
from polytc.stages import build

NAMES = "abcdef"
LINES = [f"v{k}[{x}] = v{k}[{x}-1]*0.5 + v{(k + 1) % 6}[{x}]" for k, x in enumerate(NAMES)]
LONG_NUMBERS = (f"def f({', '.join(f'inout f64[7] v{k}' for k in range(6))}) -> ({', '.join(f'v{k}' for k in range(6))}) {{ "
                + " ".join(f"for {x} in 1:6 {{ {line}\n" for x, line in zip(NAMES, LINES, strict=True)) + " }" * 6 + " }")
"""isl solves linear programs for it whose numbers double in length from step to step."""
CALLS = """
def smooth(f64[n,n] X) -> (Y) { Y[i,j] = (X[i-1,j] else 0) + (X[i,j-1] else 0) + X[i,j] }
def mixed(f64[n,n] X, f64[n] w) -> (Z) { T = smooth(X)\n U = smooth(T)\n Z[i,j] = U[i,j]*w[i] + T[j,i] }
def f(inout f64[8,8] A, inout f64[8] v, inout f64[1] s) -> (A, v, s) {
  for a in 1:8 { v[a] = v[a-1]*0.5 + s[0]
    for b in 1:8 { B = mixed(A, v)
      A[a,j] = B[a,j] + A[a-1,j]
      for c in 1:8 { C = smooth(B)
        A[i,c] = C[i,c]*0.5 + A[i,c-1]
        for d in 1:8 { s[0] = s[0]*0.5 + A[c,d]\n v[d] = v[d-1] + A[d,c] } } } } }
"""


GATES = """
def f(f32[T,B,4*N] X, f32[q,N,128] R) -> (Y) {
  H[b,k] = 0 where b in 0:B, k in 0:N
  C[b,k] = 0 where b in 0:B, k in 0:N
  for t in 0:T {
    G[b,p,i] = X[t,b,128*p+i]
    G[b,p,i] += H[b,k]*R[p,k,i]
    C[b,k] = G[b,k//128+8,k%128]*C[b,k] + G[b,k//128,k%128]*G[b,k//128+12,k%128]
    H[b,k] = G[b,k//128+4,k%128]*C[b,k]
    Y[t,b,k] = H[b,k] } }
"""


def gates(batch: int) -> Program:
    """A recurrent cell whose weights lie in blocks, so that each hidden number meets every one of the step before."""
    return build(GATES, {"X": (5, batch, 2048), "R": (16, 512, 128)})


def long_numbers() -> Program:
    return build(LONG_NUMBERS, {f"v{k}": (7,) for k in range(6)})


def question(program: Program) -> islpy.ScheduleConstraints:
    facts = scop.extract(program)
    deps = dependences.analyse(facts)
    return (islpy.ScheduleConstraints.on_domain(facts.domain).set_validity(deps.order).set_coincidence(deps.all)
            .set_proximity(deps.flow))


def children() -> set[str]:
    """The processes that this one has begun, those that ended without being waited for among them; ps itself not."""
    found = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "pid=,comm="], capture_output=True, text=True).stdout
    return {line.split()[0] for line in found.splitlines() if line.split()[1] != "ps"}


def test_a_schedule_that_needs_many_operations_comes_from_the_fork() -> None:
    """It is the one that isl finds here."""
    before = children()
    box = "where i in 1:39, j in 1:39"
    asked = question(build("def f(inout f64[40,40] A, inout f64[40,40] B) -> (A, B) { for t in 0:20 {"
                           f"B[i,j] = A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1] {box}\n A[i,j] = B[i,j]*0.2 {box} }} }}",
                           {"A": (40, 40), "B": (40, 40)}))
    here = str(isl.schedule(asked))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "FIRST", 100)
        assert str(scheduler.find(asked, scheduler.NUMERIC_ATTEMPTS)) == here
        with pytest.raises(isl.QuotaExceeded, match="more than 200 isl operations"):
            scheduler.find(asked, (scheduler.Attempt(200, 1.0),))
    assert children() <= before


def test_that_isl_gives_up_is_said_by_the_fork_too() -> None:
    asked = question(build("Y[i] = X[i]", {"X": (4,)}))

    def gives_up(_: object) -> None:
        if os.getpid() != parent:
            raise isl.Unschedulable("unable to carry dependences")
        raise isl.QuotaExceeded("more")
    parent = os.getpid()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isl, "schedule", gives_up)
        with pytest.raises(isl.Unschedulable, match="unable to carry dependences"):
            scheduler.find(asked, scheduler.NUMERIC_ATTEMPTS)


@pytest.mark.parametrize("sleeps", [False, True])
def test_a_fork_that_dies_or_sleeps_is_given_up(sleeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question(build("Y[i] = X[i]", {"X": (4,)}))
    parent, before = os.getpid(), children()

    def slow(_: object) -> None:
        if os.getpid() == parent:
            raise isl.QuotaExceeded("more")
        if sleeps:
            time.sleep(60)
        os.kill(os.getpid(), signal.SIGKILL)
    monkeypatch.setattr(isl, "schedule", slow)
    monkeypatch.setattr(scheduler, "PATIENCE", 0.3)
    start = time.monotonic()
    with pytest.raises(isl.QuotaExceeded, match="more time"):
        scheduler.find(asked, scheduler.NUMERIC_ATTEMPTS)
    assert time.monotonic() - start < 10
    assert children() <= before


@pytest.mark.long
def test_bounds_of_loops_are_left_out_where_they_cost_too_much() -> None:
    """Two seconds with the bounds, for the same schedule."""
    facts = scop.extract(gates(3))
    asked = scheduler_constraints.question(facts, dependences.analyse(facts), facts.program.statements[2:])
    whole = scheduler.find(asked.constraints, (scheduler.Attempt(10**7, 60.0),))
    plain = scheduler.find(asked.constraints, (scheduler.Attempt(260_000, 60.0, unbounded=True),))
    assert str(plain) == str(whole)


@pytest.mark.part(7)
@pytest.mark.parametrize("batch", [1, 2, 3, 5, 6, 7, 16])
def test_no_batch_of_a_recurrent_cell_is_without_vectors(batch: int) -> None:
    """isl's scheduler gave up for some of them, which ran twenty times as long as others."""
    how = compiler.lower_program(gates(batch), "cpu").schedule.how
    assert all(f"{s} vector" in how for s in ("S3", "S4", "S5", "S6", "S7"))


def test_loops_of_the_text_have_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "FIRST", 10)
    monkeypatch.setattr(scheduler, "SYMBOLIC_ATTEMPTS", ())
    how = compiler.lower_program(gates(2), "cpu").schedule.how
    assert "the loops of the text, as isl's scheduler gives up" in how
    assert all(f"{s} vector" in how for s in ("S3", "S4", "S5", "S6", "S7"))


def in_time(work: Callable[[], str]) -> str:
    start = time.monotonic()
    found = work()
    assert time.monotonic() - start < 15  # half a minute to minutes before; two seconds where nothing else runs
    return found


def test_long_numbers_end_in_the_order_of_the_text() -> None:
    how = in_time(lambda: compiler.lower_program(long_numbers(), "cpu").schedule.how)
    assert "the loops of the text, as isl's scheduler gives up: more time: its numbers become long" in how


@pytest.mark.long
def test_a_request_for_isl_ends_in_the_order_of_the_text() -> None:
    kernel = KERNELS["heat-3d"]
    sizes = kernel.sizes("MEDIUM")
    program = build(kernel.text, dict.fromkeys("AB", (sizes["N"],) * 3), scalars={"T": sizes["TSTEPS"]})
    how = in_time(lambda: compiler.lower_program(program, "cpu", "isl").schedule.how)
    assert how == "program order: isl's scheduler needs more time: its numbers become long"


@pytest.mark.part(4)
@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("request_", [None, "isl"])
def test_calls_in_nested_loops_end_in_time(target: str, request_: str | None) -> None:
    program = build(CALLS, {"A": (8, 8), "v": (8,), "s": (1,)})
    in_time(lambda: compiler.lower_program(program, target, request_).schedule.how)


def test_ctrl_c_ends_the_scheduler() -> None:
    code = """
import sys
from polytc.poly import scheduler
from tests.poly.test_scheduler import long_numbers, question
asked = question(long_numbers())
print("asks", flush=True)
scheduler.find(asked, (scheduler.Attempt(10**9, 100.0),))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "asks\n"
    time.sleep(1)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=15)
    assert "KeyboardInterrupt" in errors
    assert subprocess.run(["ps", "-s", str(process.pid), "-o", "pid="], capture_output=True, text=True).stdout.strip() == ""
