"""How much of a program can run at once: against chains by hand."""

from __future__ import annotations

import pytest

from polytc.poly import dependences, scop
from polytc.schedule.parallelism import Independent, independent
from polytc.stages import build

STENCIL = """def f(inout f32[2000] A) -> (A) {
    for t in 0:100 { B[i] = A[i-1] + A[i+1] where i in 1:1999
                     A[i] = B[i] where i in 1:1999 }
}"""
SWEEP = """def f(inout f32[34,34] A) -> (A) {
    for i in 1:33 { for j in 1:33 { A[i,j] = A[i-1,j] + A[i,j-1] } }
}"""


def of(text: str, shapes: dict[str, tuple[int, ...]], name: str = "S1") -> Independent:
    facts = scop.extract(build(text, shapes))
    return independent(facts, dependences.analyse(facts), facts.program.statement(name))


@pytest.mark.parametrize(("text", "shapes", "instances", "chain", "carried"), [
    ("Y[i] = 2*X[i]", {"X": (500,)}, 500, 1, ()),
    ("C[i,j] += A[i,k]*B[k,j]", {"A": (20, 30), "B": (30, 40)}, 24000, 1, ()),
    ("s += x[k] where k % 2 == 0", {"x": (100,)}, 50, 1, ()),
    ("def f(precise f32[8,100] x) -> (s) { s[i] += x[i,k] }", {}, 800, 100, ("k",)),
    ("def f(precise f32[8,100] x) -> (s) { s[i] max= x[i,k] }", {}, 800, 1, ()),
    ("def f(i32[100] x) -> (i32[8] H) { H[x[i]] += 1 }", {}, 100, 1, ()),
    ("def f(inout f32[100] x) -> (x) { for i in 1:100 { x[i] = x[i-1]*x[i-1] } }", {}, 99, 99, ("i",)),
    ("def f(inout f32[9,100] x) -> (x) { for i in 1:100 { x[b,i] = x[b,i-1]*x[b,i-1] where b in 0:9 } }", {}, 891, 99, ("i",)),
    (STENCIL, {}, 199800, 100, ("t",)),
    (SWEEP, {}, 1024, 63, ("i", "j")),
])
def test_instances_and_the_chain_that_they_make(text: str, shapes: dict[str, tuple[int, ...]], instances: int, chain: int,
                                                carried: tuple[str, ...]) -> None:
    found = of(text.replace("precise f32", "f32"), shapes) if "precise" not in text else of(
        text.replace("precise f32", "f32").replace("def", "precise def", 1), shapes)
    assert (found.instances.value, found.chain, found.carried) == (instances, chain, carried)
    assert found.at_once == instances // chain
