"""Nests of `for` loops, one to seven levels deep: stencils, transposed and partial accesses, statements between loops.

Every kind computes what the evaluator does; and what polytc does for it grows slowly with the levels. What is counted is the
same on each machine: calls of Python's and isl's functions, isl's operations, and attempts of its scheduler.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from polytc import compiler
from polytc.poly import dependences, isl, scheduler, scop
from polytc.program import program as pr
from polytc.program.evaluator import evaluate
from polytc.schedule.facts import scheduler_constraints
from polytc.stages import build

NAMES = "abcdefg"


def text_of(*body: str, levels: int) -> str:
    """A statement, or several, inside of all loops."""
    return "".join(f"for {x} in 1:6 {{ " for x in NAMES[:levels]) + "\n".join(body) + " }" * levels


def between(line: Callable[[int], str], last: str, levels: int) -> str:
    """A statement in front of each inner loop, and one inside of all."""
    return "".join(f"for {x} in 1:6 {{ {line(k)}\n " for k, x in enumerate(NAMES[:levels])) + last + " }" * levels


def minus(levels: int, *places: int) -> str:
    """All indices, some of them one less."""
    return ",".join(f"{x}-1" if k in places else x for k, x in enumerate(NAMES[:levels]))


def here(n: int) -> str:
    return minus(n)


def ordered(n: int) -> str:
    return ", ".join(f"{p} <= {q}" for p, q in pairwise(NAMES[:n])) or "a >= 2"


KINDS: dict[str, Callable[[int], str]] = {
    "two neighbours": lambda n: text_of(f"A[{here(n)}] = A[{minus(n, 0)}]*0.5 + A[{minus(n, n - 1)}]*0.25", levels=n),
    "all neighbours": lambda n: text_of(
        f"A[{here(n)}] = ({' + '.join(f'A[{minus(n, k)}]' for k in range(n))})*0.125", levels=n),
    "both sides": lambda n: text_of(
        f"A[{here(n)}] = A[{minus(n, n - 1)}]*0.5 + A[{','.join((*NAMES[:n - 1], NAMES[n - 1] + '+1'))}]*0.5", levels=n),
    "the diagonal": lambda n: text_of(f"A[{here(n)}] = A[{minus(n, *range(n))}] + A[{here(n)}]*0.5", levels=n),
    "transposed": lambda n: text_of(f"A[{here(n)}] = A[{here(n)}]*0.5 + A[{','.join(reversed(NAMES[:n]))}]*0.25", levels=n),
    "transposed into a scalar": lambda n: text_of(
        f"s[0] = s[0]*0.5 + A[{here(n)}]*B[{','.join(reversed(NAMES[:n]))}]", levels=n),
    "some of the loops": lambda n: text_of(f"s[0] = s[0]*0.5 + A[{here(n)}]*v0[{NAMES[n - 1]}]*v0[a]", levels=n),
    "a place for one loop": lambda n: text_of(f"v0[a] = v0[a]*0.5 + A[{here(n)}]", levels=n),
    "two statements": lambda n: text_of(
        f"A[{here(n)}] = A[{minus(n, 0)}]*0.5 + B[{here(n)}]", f"B[{here(n)}] = B[{minus(n, n - 1)}]*0.5 + A[{here(n)}]",
        levels=n),
    "a triangle into a scalar": lambda n: text_of(f"s[0] = s[0]*0.5 + A[{here(n)}] where {ordered(n)}", levels=n),
    "scalar between loops": lambda n: between(
        lambda k: f"s[0] = s[0]*0.5 + v0[{NAMES[k]}]", f"A[{here(n)}] = s[0] + A[{minus(n, n - 1)}]*0.5", n),
    "rows between loops": lambda n: between(
        lambda k: f"v{k}[{NAMES[k]}] = v{k}[{NAMES[k]}-1]*0.5 + s[0]", f"s[0] = s[0]*0.5 + A[{here(n)}]", n),
    "tables between loops": lambda n: between(
        lambda k: f"T{k}[{','.join(NAMES[:k + 1])}] = T{k}[{minus(k + 1, k)}]*0.5 + "
                  + (f"T{k - 1}[{','.join(NAMES[:k])}]" if k else "1"), f"A[{here(n)}] = T{n - 1}[{here(n)}]", n),
    "rows that feed each other": lambda n: between(
        lambda k: f"v{k}[{NAMES[k]}] = v{k}[{NAMES[k]}-1]*0.5 + v{(k + 1) % n}[{NAMES[k]}]*0.25", "s[0] *= 0.5", n),
}
CHAINS = ("transposed into a scalar", "some of the loops", "a triangle into a scalar", "scalar between loops",
          "rows between loops")
"""Those that have one order."""


def program(kind: str, levels: int) -> pr.Program:
    shapes: dict[str, tuple[int, ...]] = {"A": (7,) * levels, "B": (7,) * levels, "s": (1,)}
    shapes |= {f"v{k}": (7,) for k in range(levels)} | {f"T{k}": (7,) * (k + 1) for k in range(levels)}
    head = ", ".join(f"inout f64[{','.join(map(str, shape))}] {name}" for name, shape in shapes.items())
    return build(f"def f({head}) -> ({', '.join(shapes)}) {{ {KINDS[kind](levels)} }}", shapes)


@pytest.mark.part(10)
@pytest.mark.parametrize(("kind", "levels"), [
    pytest.param(kind, n, marks=() if n in (1, 3) or (kind, n) == ("transposed", 4) else pytest.mark.long)
    for kind in KINDS for n in (1, 2, 3, 4)])
def test_nests_compute_what_is_written(kind: str, levels: int) -> None:
    p = program(kind, levels)
    rng = np.random.default_rng(levels)
    arrays = {n: rng.standard_normal(p.tensor(n).shape) for n in p.inputs}
    expected = evaluate(p, arrays)
    compiler.compile_program(p, "cpu", 2).run([arrays[n] for n in dict.fromkeys((*p.inputs, *p.outputs))])
    for name in p.outputs:
        np.testing.assert_allclose(arrays[name], expected[name], rtol=1e-9, err_msg=name)


def calls(work: Callable[[], Any]) -> int:
    """Calls of functions, Python's and others'."""
    count = 0

    def seen(frame: object, event: str, what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


MOST = {"the diagonal": 1_000_000, "transposed": 2_000_000, "tables between loops": 400_000,
        "rows that feed each other": 250_000, "scalar between loops": 200_000, "rows between loops": 200_000,
        "two statements": 200_000}
"""Calls of functions for seven levels, twice what there are; of all others 150,000; one level takes 15,000 to 30,000. (The rows
of the first two's wavefronts have long bounds.)"""


@pytest.mark.long
@pytest.mark.part(12)
@pytest.mark.parametrize("kind", KINDS)
def test_seven_levels_are_little_work(kind: str) -> None:
    p = program(kind, 7)
    start = time.thread_time()
    found = calls(lambda: compiler.lower_program(p, "cpu"))
    assert found < MOST.get(kind, 150_000)
    assert time.thread_time() - start < 10  # up to a minute before; one second where nothing else runs


@pytest.mark.part(3)
@pytest.mark.parametrize("kind", KINDS)
def test_dependences_need_few_operations(kind: str) -> None:
    facts = scop.extract(program(kind, 7), operations=100_000)
    assert not facts.boxed
    assert not dependences.analyse(facts, operations=600_000).coarse


@pytest.mark.part(5)
@pytest.mark.parametrize("levels", range(1, 8))
@pytest.mark.parametrize("kind", CHAINS)
def test_chains_are_not_scheduled(kind: str, levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("isl's scheduler is asked")
    monkeypatch.setattr(scheduler, "find", asked)
    p = program(kind, levels)
    lowered = compiler.lower_program(p, "cpu")
    if lowered.rewritten.sequential:
        assert "each instance needs the one before" in lowered.schedule.how


@pytest.mark.part(3)
@pytest.mark.parametrize("body", [
    "for a in 0:9 { for b in 0:9 { s[0] += A[a,b] } }",  # may be reordered
    "for a in 0:9 { v[a] = v[a]*0.5 + s[0]\n for b in 0:9 { s[0] += A[a,b] } }",
    "for a in 0:9 { v[a] = v[a]*0.5 + A[a,a]\n for b in 0:9 { s[0] = s[0]*0.5 + A[a,b] } }",  # v does not wait for s
    "for a in 0:9 { s[0] = s[0]*0.5 + 1\n for b in 0:9 { A[a,b] = A[a,b]*s[0] } }",  # rows run at once
    "for a in 0:9 { s[0] = s[0]*0.5 + 1\n A[a,j] = A[a,j]*s[0] where j in 0:9 }",
    "for a in 0:9 { for b in 0:9 { v[a] = v[a]*0.5 + A[a,b] } }",
])
def test_what_has_more_than_one_order_is_scheduled(body: str) -> None:
    text = f"def f(inout f64[9,9] A, inout f64[9] v, inout f64[1] s) -> (A, v, s) {{ {body} }}"
    p = build(text, {"A": (9, 9), "v": (9,), "s": (1,)})
    assert "each instance needs the one before" not in compiler.lower_program(p, "cpu").schedule.how


def test_sums_that_must_keep_their_order_are_chains() -> None:
    text = "precise def f(f64[9,9] A, inout f64[1] s) -> (s) { for a in 0:9 { for b in 0:a+1 { s[0] += A[a,b] } } }"
    how = compiler.lower_program(build(text, {"A": (9, 9), "s": (1,)}), "cpu").schedule.how
    assert "each instance needs the one before" in how


def test_isl_is_asked_within_its_limits_only() -> None:
    """The attempts in this process are of FIRST operations."""
    allowed: list[int] = []
    bounded = isl.bounded

    def seen(ctx: object, operations: int, compute: Callable[[], Any]) -> Any:
        allowed.append(operations)
        return bounded(ctx, operations, compute)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isl, "bounded", seen)
        lowered = compiler.lower_program(program("rows that feed each other", 6), "cpu")
    assert "isl's scheduler gives up" in lowered.schedule.how
    assert set(allowed) <= {isl.BUDGET, scheduler_constraints.POSING, scheduler.FIRST}


def test_many_statements_are_no_more_work_each() -> None:
    """The whole program was looked through for open sizes for each."""
    def lines(n: int) -> int:
        p = build("\n".join(f"Y{k}[i] = X[i]*{k}" for k in range(n)), {"X": (6,)})
        return calls(lambda: compiler.lower_program(p, "cpu"))
    lines(2)
    assert lines(120) < 1_300_000  # half as many; there were 2,800,000
