"""What follows from constants runs once: what does, what does not, and that results stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.machine import AVX512
from polytc.program.evaluator import evaluate
from polytc.program.program import Program
from polytc.rewrite.tidy import hoist

SHAPES: dict[str, tuple[int | str, ...]] = {"X": (5, 8), "W": (8,), "V": (8, 8)}
ONCE = {
    "a temporary": ("T[i] = W[i]*2; Y[n,i] = X[n,i] + T[i]", {"T"}),
    "in two steps": ("T[i] = W[i]*2; U[i] = T[i] + V[i,i]; Y[n,i] = X[n,i] * U[i]", {"T", "U"}),
    "a sum": ("T[i] += V[i,k]*W[k]; Y[n,i] = X[n,i] + T[i]", {"T"}),
    "only some": ("T[i] = W[i]*2; U[n,i] = X[n,i]*T[i]; Y[n,i] = U[n,i] + T[i]", {"T"}),
}
WHY = {
    "a temporary": ["S1: T follows from the constant W alone, and is computed once"],
    "in two steps": ["S1: T follows from the constant W alone, and is computed once",
                     "S2: U follows from the constants W, V alone, and is computed once"],
    "a sum": ["S1_init, S1: T follows from the constants V, W alone, and is computed once"],
    "only some": ["S1: T follows from the constant W alone, and is computed once"],
    "an output": ["S1: not computed once, although Z follows from the constant W alone: it is an output"],
    "read before it is whole": ["S1, S3: not computed once, although T follows from the constant W alone: it is read before it "
                                "is complete"],
    "in a loop": ["S1, S2: not computed once, although T follows from the constant W alone: it is made in a `for` loop"],
}
EACH_TIME = {
    "from an input": "T[i] = X[0,i] + W[i]; Y[n,i] = X[n,i] + T[i]",
    "from nothing": "T[i] = 3 where i in 0:8; Y[n,i] = X[n,i] + T[i]",
    "an output": "Z[i] = W[i]*2; Y[n,i] = X[n,i] + Z[i]",
    "read before it is whole": "T[i] = W[i]*2; Y[n,i] = X[n,i] + T[i]; T[i] += W[i]; Z[i] = T[i]",
    "in a loop": "T[i] = W[i]*2\n for t in 0:8 { T[i] = T[i]*W[t]\n Y[t,i] = X[0,i] + T[i] }",
}


def program(body: str, shapes: dict[str, tuple[int | str, ...]]) -> Program:
    used = {n: s for n, s in shapes.items() if f"{n}[" in body}
    outputs = ", ".join(n for n in "YZ" if f"{n}[" in body)
    head = ", ".join(f"f64[{','.join(map(str, s))}] {n}" for n, s in used.items())
    p = polytc.build(f"def f({head}) -> ({outputs}) {{ {body} }}", used)
    return replace(p, constants=tuple(n for n in "WV" if n in used))


def halves(p: Program) -> tuple[Program | None, Program]:
    """What is computed once, and the rest."""
    decision = hoist.decide(p, AVX512)
    return hoist.prologue(p, decision), hoist.STEP.applied(p, decision)


def agrees(p: Program, once: Program | None, main: Program) -> None:
    rng = np.random.default_rng(0)
    given = {n: rng.integers(1, 9, p.tensor(n).shape).astype(float) for n in p.inputs}
    made = evaluate(once, {n: given[n] for n in once.inputs}) if once is not None else {}
    assert once is None or set(once.inputs) <= set(p.constants)
    found = evaluate(main, {n: {**given, **made}[n] for n in main.inputs})
    for name, value in evaluate(p, given).items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("name", ONCE)
def test_what_follows_from_constants_runs_once(name: str) -> None:
    body, early = ONCE[name]
    p = program(body, SHAPES)
    once, main = halves(p)
    assert once is not None
    assert {s.target for s in once.statements} == early
    assert early.isdisjoint(s.target for s in main.statements)
    assert main.inputs == (*p.inputs, *once.outputs)
    assert main.constants == (*p.constants, *once.outputs)
    agrees(p, once, main)


@pytest.mark.parametrize("name", EACH_TIME)
def test_everything_else_runs_in_each_call(name: str) -> None:
    p = program(EACH_TIME[name], SHAPES)
    once, main = halves(p)
    assert once is None
    assert main == p
    agrees(p, once, main)


@pytest.mark.parametrize("name", [*ONCE, *EACH_TIME])
def test_reasons_name_the_constants(name: str) -> None:
    """And say of what follows from constants alone why it is computed in each call nevertheless."""
    body = ONCE[name][0] if name in ONCE else EACH_TIME[name]
    assert [str(r) for r in hoist.decide(program(body, SHAPES), AVX512).reasons] == WHY.get(name, [])


def test_reasons_of_long_chains() -> None:
    """Each temporary reads the one before twice, so that there are 2**40 ways back to the constant."""
    chain = "; ".join(f"T{k}[i] = T{k - 1}[i] + T{k - 1}[7-i]" for k in range(1, 40))
    reasons = hoist.decide(program(f"T0[i] = W[i]*2; {chain}; Y[n,i] = X[n,i] + T39[i]", SHAPES), AVX512).reasons
    assert [str(r).split(": ", 1)[1] for r in reasons] == [
        f"T{k} follows from the constant W alone, and is computed once" for k in range(40)]


def test_reasons_where_a_tensor_is_begun_before_what_it_follows_from() -> None:
    body = "T[i] = W[i]; U[i] += V[i,k]*W[k]; T[i] += U[i]; Y[n,i] = X[n,i] + T[i]"
    assert {str(r).split(": ", 1)[1] for r in hoist.decide(program(body, SHAPES), AVX512).reasons} == {
        f"{t} follows from the constants {c} alone, and is computed once" for t, c in (("T", "W, V"), ("U", "V, W"))}


def test_where_sizes_are_open_what_has_none_of_them_runs_once() -> None:
    body = ONCE["a temporary"][0]
    once, main = halves(program(body, {**SHAPES, "X": ("N", 8)}))
    assert once is not None
    assert (once.sizes, main.sizes) == ((), ("N",))
    once, _ = halves(program(body, {**SHAPES, "X": ("N", "K"), "W": ("K",)}))
    assert once is None
    (reason,) = hoist.decide(program(body, {**SHAPES, "X": ("N", "K"), "W": ("K",)}), AVX512).reasons
    assert str(reason).endswith("it depends on sizes that stay open")
