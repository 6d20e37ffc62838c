"""Nests of `for` loops that walk memory together become one loop, in the same order, whatever their depth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.program.evaluator import evaluate
from polytc.program.program import Program
from polytc.program.sizes import specialised
from polytc.rewrite.tidy.coalesce import coalesce
from polytc.runtime.sized import sized
from polytc.stages import build
from polytc.targets.opencl.target import OpenCLTarget

SHAPES = {"X": (3, 4, 5), "Y": (3, 4, 5), "Z": (3, 5, 4), "W": (3, 4), "s": (1,)}
MERGED = {
    "a sum": ("s[0] += X[a,b,c]", 1),
    "a recurrence over all loops": ("s[0] = s[0]*0.5 + X[a,b,c]", 1),
    "two statements, one without the loops": ("s[0] *= 0.5\n s[0] += X[a,b,c]*Y[a,b,c]", 1),
    "what was there before": ("Y[a,b,c] = X[a,b,c] + s[0]\n s[0] = Y[a,b,c]*0.25", 1),
    "a row apart": ("X[a,b,c] += W[a,b]\n s[0] = s[0]*0.5 + X[a,b,c]", 2),
    "no tensor": ("s[0] = s[0]*0.5 + 1", 1),
    "the row before": ("X[a,b,c] += (X[a-1,b,c] else 0)", 2),
}
APART = {
    "another order": "s[0] = s[0]*0.5 + Z[a,c,b]*W[a,b]",
    "part of a row": "s[0] = s[0]*0.5 + X[0,b,2]*a",
    "an index as a value": "s[0] = s[0]*0.5 + X[a,b,c]*(a+2*b+3*c)",
    "a condition": "s[0] = s[0]*0.5 + X[a,b,c] where a < b, b < c",
    "columns before": "X[a,b,c] = X[a,b,c]*0.5 + (X[a,b,c-1] else 0) + (X[a,b-1,c] else 0)",
}
ROUNDS = """for a in 0:3 {{ for b in 0:4 {{ for c in 0:5 {{ {} }} }} }}"""


def program(body: str) -> Program:
    head = ", ".join(f"inout f64[{','.join(map(str, shape))}] {name}" for name, shape in SHAPES.items())
    return build(f"def f({head}) -> ({', '.join(SHAPES)}) {{ {body} }}", SHAPES)


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {n: rng.standard_normal(shape) for n, shape in SHAPES.items()}


def expected(body: str) -> dict[str, np.ndarray]:
    """By Python's own loops and statements: the texts are theirs too, but for conditions and guards."""
    found = arrays()
    lines = [line.strip() for line in body.split("\n")]
    for a, b, c in product(range(3), range(4), range(5)):
        for line in lines:
            text, _, where = line.partition(" where ")
            text = text.replace("(X[a,b,c-1] else 0)", "(X[a,b,c-1] if c else 0)")
            text = text.replace("(X[a,b-1,c] else 0)", "(X[a,b-1,c] if b else 0)")
            text = text.replace("(X[a-1,b,c] else 0)", "(X[a-1,b,c] if a else 0)")
            if not where or eval(where.replace(",", " and "), {"a": a, "b": b, "c": c}):
                exec(text, {**found, "a": a, "b": b, "c": c})
    return found


def check(body: str) -> None:
    p, wanted = program(ROUNDS.format(body)), expected(body)
    for target in ("cpu", "interp"):
        got = arrays()
        compiler.compile_program(p, target, 2).run([got[n] for n in dict.fromkeys((*p.inputs, *p.outputs))])
        for n in SHAPES:
            np.testing.assert_allclose(got[n], wanted[n], rtol=1e-12, err_msg=f"{target} {n}")


@pytest.mark.part(2)
@pytest.mark.parametrize("name", MERGED)
def test_loops_that_walk_together_are_one(name: str) -> None:
    body, left = MERGED[name]
    assert {s.depth for s in coalesce(program(ROUNDS.format(body))).statements} == {left}
    check(body)


@pytest.mark.parametrize("name", APART)
def test_other_loops_stay(name: str) -> None:
    p = program(ROUNDS.format(APART[name]))
    assert {s.depth for s in coalesce(p).statements} == {3}
    check(APART[name])


@pytest.mark.parametrize("text", [
    "for a in 0:3 { for b in 0:4 { s[0] = s[0]*0.5 + W[a,b] }\n s[0] += 1 }",
    "for a in 0:3 { s[0] *= 2\n for b in 0:4 { s[0] = s[0]*0.5 + W[a,b] } }",
    "for a in 0:3 { for b in 0:4 { s[0] = s[0]*0.5 + W[a,b] }\n for b in 0:4 { s[0] = s[0]*0.25 + W[a,b] } }",
    "for a in 0:3 { for b in 1:4 { s[0] = s[0]*0.5 + W[a,b] } }",
    "for a in 2:-1:-1 { for b in 0:4 { s[0] = s[0]*0.5 + W[a,b] } }",
])
def test_loops_with_more_in_them_or_parts_of_rows_stay(text: str) -> None:
    p = program(text)
    assert coalesce(p) == p


def test_statements_outside_follow() -> None:
    """What is done to the whole tensor before and after has the new shape too."""
    p = program("W[i,j] *= 2\n for a in 0:3 { for b in 0:4 { s[0] = s[0]*0.5 + W[a,b] } }\n W[i,j] += s[0]")
    assert {len(s.ranges) for s in coalesce(p).statements} == {1}
    got = arrays()
    w, s = arrays()["W"] * 2, arrays()["s"][0]
    for x in w.flat:
        s = s * 0.5 + x
    compiler.compile_program(p, "cpu", 2).run([got[n] for n in dict.fromkeys((*p.inputs, *p.outputs))])
    np.testing.assert_allclose(got["s"], [s], rtol=1e-12)
    np.testing.assert_allclose(got["W"], w + s, rtol=1e-12)


def test_a_guard_that_acts_follows() -> None:
    """The outer index of the two leaves the tensor: so does theirs."""
    body = "for a in 0:2 { for b in 0:6 { for c in 0:5 { s[0] = s[0]*0.5 + (X[a,b,c] else 3) } } }"
    p = program(body)
    assert {s.depth for s in coalesce(p).statements} == {2}
    s = arrays()["s"][0]
    for a, b, c in product(range(2), range(6), range(5)):
        s = s * 0.5 + (arrays()["X"][a, b, c] if b < 4 else 3)
    got = arrays()
    compiler.compile_program(p, "cpu", 2).run([got[n] for n in dict.fromkeys((*p.inputs, *p.outputs))])
    np.testing.assert_allclose(got["s"], [s], rtol=1e-12)


def test_loops_that_no_tensor_bounds_stay_countable() -> None:
    p = program("for a in 0:3000000000 { for b in 0:3000000000 { for c in 0:3000000000 { s[0] = s[0]*0.5 + 1 } } }")
    assert coalesce(p) == p


@pytest.mark.parametrize("body", ["s[0] += T[{0}]", "s[0] = s[0]*0.5 + T[{0}]", "T[{0}] += (T[{1}] else 0)"])
def test_deep_nests_with_an_order_are_shallow(body: str) -> None:
    """Compile times grew by half a level."""
    names = "abcdefgh"
    first, before = ",".join(names), ",".join(("a-1", *names[1:]))
    nest = "".join(f"for {x} in 0:3 {{ " for x in names) + body.format(first, before) + " }" * 8
    p = build(f"def f(inout f64[{','.join('3' * 8)}] T, inout f64[1] s) -> (T, s) {{ {nest} }}", {"T": (3,) * 8, "s": (1,)})
    assert all(len(s.ranges) <= 2 for s in compiler.lower_program(p, "cpu").rewritten.statements)


FILLED = {"X": (3, 8, 8), "W": (4, 3), "V": (2, 3)}


@pytest.mark.parametrize("body", [
    "P[c,h,w] = X[c,2*h,2*w] where h in 0:4, w in 0:4; O[m,h,w] += W[m,c]*P[c,h,w]; Q[m,h,w] += V[m,c]*P[c,h,w]",
    "P[c,h,w] = X[c,2*h,w+1] where h in 0:4, w in 0:6; Q[m,h,w] += V[m,c]*P[c,h,w]; O[m,h,w] = Q[m,h,w]*2",
    "P[c,h,w] = X[c,h,w+1] where h in 0:8, w in 0:6; O[m,h,w] += W[m,c]*P[c,h,w]; Q[m,w,h] += V[m,c]*P[c,h,w]",
    "P[c,h,w] = X[c,h,w] + h where h in 0:4, w in 0:8; O[m,h] += W[m,c]*P[c,h,w]; Q[m,h,w] += V[m,c]*P[c,h,w]",
])
def test_several_reductions_of_one_temporary(body: str) -> None:
    """All that read it follow, or none does."""
    p = build(f"def f(f64[3,8,8] X, f64[4,3] W, f64[2,3] V) -> (O, Q) {{ {body} }}", FILLED)
    used = {n: np.random.default_rng(2).standard_normal(p.tensor(n).shape) for n in p.inputs}
    wanted, made = evaluate(p, used), coalesce(p)
    found = evaluate(made, {n: x.reshape(made.tensor(n).shape) for n, x in used.items()})
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name].reshape(value.shape), value, rtol=1e-12)


def test_a_temporary_and_its_reductions_are_flat() -> None:
    body = "P[c,h,w] = X[c,2*h,2*w] where h in 0:4, w in 0:4; O[m,h,w] += W[m,c]*P[c,h,w]; Q[m,h,w] += V[m,c]*P[c,h,w]"
    made = coalesce(build(f"def f(f64[3,8,8] X, f64[4,3] W, f64[2,3] V) -> (O, Q) {{ {body} }}", FILLED))
    assert {t.name: t.shape for t in made.tensors if t.name in "POQ"} == {"P": (3, 16), "O": (4, 16), "Q": (2, 16)}


@pytest.mark.parametrize(("body", "left"), [
    ("Z[a,b,c,d] += V[a]\n s[0] = s[0]*0.5 + Z[a,b,c,d]", 2), ("s[0] = s[0]*0.5 + Z[a,b,c,d]*U[a,b]", 2),
    ("s[0] = s[0]*0.5 + Z[a,b,c,d]*U[b,c]", 3), ("Z[a,b,c,d] += (Z[a,b-1,c,d] else 0)", 3)])
def test_four_loops_in_their_order(body: str, left: int) -> None:
    """Loops in the middle become one, and those behind stay loops."""
    shapes = {"Z": (2, 3, 4, 5), "V": (2,), "U": (3, 4) if "U[b" in body else (2, 3), "s": (1,)}
    head = ", ".join(f"inout f64[{','.join(map(str, n))}] {name}" for name, n in shapes.items())
    nest = f"for a in 0:2 {{ for b in 0:3 {{ for c in 0:4 {{ for d in 0:5 {{ {body} }} }} }} }}"
    p = build(f"def f({head}) -> ({', '.join(shapes)}) {{ {nest} }}", shapes)
    made = coalesce(p)
    assert {s.depth for s in made.statements} == {left}
    assert all(len(s.ranges) == s.depth for s in made.statements)
    rng = np.random.default_rng(3)
    given = {n: rng.standard_normal(shape) for n, shape in shapes.items()}
    wanted = evaluate(p, given)
    found = evaluate(made, {n: x.reshape(made.tensor(n).shape) for n, x in given.items()})
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name].reshape(value.shape), value, rtol=1e-12)


def test_two_nests_in_a_row_are_two_loops() -> None:
    nest = "for a in 0:3 {{ for b in 0:4 {{ s[0] = s[0]*{} + W[a,b] }} }}\n"
    p = program(nest.format(0.5) + nest.format(0.25))
    assert [s.depth for s in coalesce(p).statements] == [1, 1]
    wanted, got = arrays(), arrays()
    for factor, place in product((0.5, 0.25), product(range(3), range(4))):
        wanted["s"][0] = wanted["s"][0] * factor + wanted["W"][place]
    compiler.compile_program(p, "cpu", 1).run([got[n] for n in dict.fromkeys((*p.inputs, *p.outputs))])
    np.testing.assert_allclose(got["s"], wanted["s"], rtol=1e-12)


@pytest.mark.part(3)
@pytest.mark.parametrize(("text", "shapes", "ranges"), [
    ("Y[b,c,h,w] = max(X[b,c,h,w], 0)", {"X": ("n", 6, 4, 5)}, ["120*n"]),
    ("Y[a,b] = X[a,b]*2", {"X": (6, "n")}, ["6*n"]),
    ("O[b,m,h,w] += W[m,c]*X[b,c,h,w]", {"X": ("n", 8, 7, 9), "W": (8, 8)}, ["n", "8", "63", "8"]),
    ("Y[a,b,c] = X[a,b,c]*2", {"X": ("m", "n", 3)}, ["3*m_n"]),
    ("Y[a,b] = X[a,b]*f32(b)", {"X": ("n", 3)}, ["n", "3"]),
])
def test_open_extents(text: str, shapes: dict[str, tuple[int | str, ...]], ranges: list[str], targets: tuple[str, ...]) -> None:
    made = polytc.lower(text, OpenCLTarget(), shapes=shapes)
    after = coalesce(made.program)
    assert [str(r.extent) for r in after.statements[-1].ranges] == ranges
    if "opencl" in targets:
        executable = compiler.compile_program(made.program, OpenCLTarget())
        for n in (1, 2, 37):
            sizes = dict.fromkeys(made.program.sizes, n)
            one = specialised(made.program, sizes)
            arrays = {t: np.arange(one.tensor(t).size, dtype="f4").reshape(one.tensor(t).shape) % 7 for t in one.inputs}
            result = np.zeros(one.tensor(one.outputs[0]).shape, "f4")
            sized(executable, compiler.options(executable), sizes).run([arrays.get(t, result) for t in one.arrays])
            np.testing.assert_array_equal(result, polytc.evaluate(text, **arrays))
