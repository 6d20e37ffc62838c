"""Twins have the loops that isl generates for them."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.codegen import astgen
from polytc.codegen.target import Target
from polytc.compiler import Lowered
from polytc.machine import AVX2, DEVICES
from polytc.poly import twins
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget

TARGETS: dict[str, Target] = {"avx2": LLVMTarget(AVX2), "sm90": OpenCLTarget(DEVICES["nvidia-sm90"])}
ROWS = """def f(X[37,21]) -> Y {
    R[0,v,t] = X[t,v] - X[t,v+2] where v in 0:19
    R[1,v,t] = X[t,v+1] + X[t,v+2] where v in 0:19
    R[2,v,t] = X[t,v+2] - X[t,v+1] where v in 0:19
    Y[v,t] = R[0,v,t] * R[1,v,t] + R[2,v,t] where v in 0:19
}"""
PROGRAMS = {
    "rows": ROWS,
    "conditions": """def f(X[29]) -> (A, B) {
    A[i] = X[i] where i in 0:26
    B[i] = X[i] * 2.0 where i in 0:26
    A[i] = 0.0 where i in 26:29
    B[i] = 1.0 where i in 26:29
}""",
    "triangle": """def f(X[19,19]) -> (A, B) {
    A[i,j] = X[i,j] where j <= i
    B[i,j] = X[i,j] + 1.0 where j <= i
    A[i,j] = 0.0 where j > i
    B[i,j] = 0.0 where j > i
}""",
    "time": """def f(inout X[33]) -> (X, A, B) {
    for t in 0:5 {
        A[i] = X[i] + 1.0
        B[i] = X[i] - 1.0
        X[i] = A[i] * B[i]
    }
}""",
    "strides": """def f(X[40]) -> (A, B) {
    A[2*i] = X[2*i] where i in 0:20
    A[2*i+1] = X[2*i] where i in 0:20
    B[2*i] = X[2*i+1] where i in 0:20
    B[2*i+1] = X[2*i+1] where i in 0:20
}""",
    "open": """def f(X) -> (A, B) {
    A[i,j] = X[i,j] * 2.0
    B[i,j] = X[i,j] + 2.0
}"""}
"""Among them ways in which isl writes loops: with tests, with ends that depend on loops around, over other remainders."""


@pytest.mark.part(5)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("schedule", [None, "program"])
def test_loops_are_those_of_isl(name: str, target: str, schedule: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {"X": ("n0", "n1")} if name == "open" else None
    made = polytc.lower(PROGRAMS[name], TARGETS[target], shapes=shapes, schedule=schedule)
    assert families(made)
    ours = astgen.generate(made.scop, made.schedule)
    monkeypatch.setattr(twins, "found", lambda scop, tree: twins.Twins(tree, {}))
    assert ours == astgen.generate(made.scop, made.schedule)


def families(made: Lowered) -> list[tuple[str, ...]]:
    return list(twins.found(made.scop, made.schedule.tree).behind.values())


def test_neighbours_of_the_same_instances_and_loops_are_twins() -> None:
    assert families(polytc.lower(ROWS, TARGETS["avx2"])) == [("S1", "S2", "S3", "S4")]
    apart = ROWS.replace("R[1,v,t] = X[t,v+1] + X[t,v+2] where v in 0:19", "R[1,v,t] = X[t,v+1] where v in 0:20")
    assert families(polytc.lower(apart, TARGETS["avx2"])) == [("S3", "S4")]
    assert families(polytc.lower(ROWS, TARGETS["avx2"], schedule="program")) == [("S1", "S2", "S3", "S4")], "bands of their own"


DOMAIN = 'domain: "{ S1[i] : 0 <= i <= 19; S2[i] : 0 <= i <= 19 }"\nchild:\n'
BAND = '    schedule: "[{ S1[i] -> [(i)]; S2[i] -> [(i)] }]"\n    child:\n      sequence:\n'


def band(statement: str, *marks: str) -> str:
    """A filter of one statement with a band below marks."""
    above = "".join(f'mark: "{m}", child: {{ ' for m in marks)
    below = f'schedule: "[{{ {statement}[i] -> [(i)] }}]"'
    return f'{{ filter: "{{ {statement}[i] }}", child: {{ {above}{below} }}{" }" * len(marks)} }}'


def flat(*filters: str) -> str:
    return f'{{ {DOMAIN.splitlines()[0]}, child: {{ sequence: [ {", ".join(filters)} ] }} }}'


@pytest.mark.parametrize("schedule", [
    flat(band("S1", "S1"), band("S2", "S2")), flat(band("S1", "a", "a"), band("S2", "b", "b")),
    flat(band("S1", "a"), band("S2", "a")),
    f'{DOMAIN}  mark: "S1"\n  child:\n{BAND}      - filter: "{{ S1[i] }}"\n      - filter: "{{ S2[i] }}"\n',
    f'{DOMAIN}  mark: "o"\n  child:\n{BAND}' + "".join(f'      - filter: "{{ {x} }}"\n' for x in (
        "S1[i] : i < 5", "S2[i] : i < 9", "S1[i] : i >= 5", "S2[i] : i >= 9"))])
def test_marks_of_one_name_and_divided_statements(schedule: str) -> None:
    op = polytc.compile("""def f(X[20], inout A[20], inout B[20]) -> (A, B) {
        A[i] += X[i] + 1.0
        B[i] += X[i] * 2.0
    }""", schedule=schedule)
    x = np.arange(20, dtype=np.float32)
    found = op(x, np.zeros(20, np.float32), np.zeros(20, np.float32))
    np.testing.assert_array_equal(found, [x + 1, x * 2])


def nest(s: str, outer: str, inner: str, mark: str) -> str:
    """A filter of one statement with two bands, of these members each."""
    above, below = (f'schedule: "[{", ".join(f"{{ {s}[i, j, k] -> [({i})] }}" for i in band_)}]"' for band_ in (outer, inner))
    return (f'{{ filter: "{{ {s}[i, j, k] }}", child: {{ mark: "{s}.a sequential", child: {{ {above}, '
            f'child: {{ mark: "{mark} parallel", child: {{ {below} }} }} }} }} }}')


def two_nests(marks: tuple[str, str]) -> Lowered:
    """One of which has one more member around the mark."""
    domain = "0 <= i <= 5 and 0 <= j <= 7 and 0 <= k <= 49"
    domains = f"S1[i, j, k] : {domain}; S2[i, j, k] : {domain}; S2_init[i, j] : 0 <= i <= 5 and 0 <= j <= 7"
    filters = ", ".join(['{ filter: "{ S2_init[i, j] }" }', nest("S1", "ij", "k", marks[0]),
                         nest("S2", "i", "jk", marks[1])])
    return polytc.lower("""def f(X[6,8,50]) -> (A, B) {
        A[i,j,k] = X[i,j,k]*2.0
        B[i,j] += X[i,j,k]
    }""", TARGETS["avx2"], schedule=f'{{ domain: "{{ {domains} }}", child: {{ sequence: [ {filters} ] }} }}')


def test_marks_at_other_depths() -> None:
    assert not families(two_nests(("a", "b")))
    with pytest.raises(polytc.CompileError, match="E702: two bands have the mark `a parallel`"):
        two_nests(("a", "a"))
