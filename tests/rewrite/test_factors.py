"""Factors that leave sums: which do, what stays as written, and results against exact arithmetic."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import polytc
from polytc import api, compiler, stages
from polytc.lang import evaluate
from polytc.machine import AVX512
from polytc.poly import isl
from polytc.program import program as pr
from polytc.rewrite import factors as factors_of_sums
from polytc.rewrite import table
from polytc.stages import build
from tests.behind import rewritten
from tests.meaning.run import meaning
from tests.opencl_here import NEEDS_OPENCL

Shapes = dict[str, tuple[int, ...]]
Arrays = dict[str, np.ndarray]

TARGETS = ["cpu", "interp", pytest.param("opencl", marks=NEEDS_OPENCL)]


def built(text: str, shapes: Shapes, dtypes: dict[str, str] | None = None) -> pr.Program:
    return stages.build(text, shapes, {n: np.dtype((dtypes or {}).get(n, "f4")) for n in shapes})


def terms(program: pr.Program) -> list[str]:
    """What the sums of the rewritten program add up."""
    return [pr.format_expr(s.value) for s in table.named("factors").run(program, AVX512).statements if s.op == "+"]


def small(shapes: Shapes, seed: int = 0) -> Arrays:
    """Small whole numbers, and powers of two for divisors, which are named D: sums of these are exact, in any order."""
    rng = np.random.default_rng(seed)
    return {n: (2.0 ** rng.integers(-2, 3, s) if n == "D" else rng.integers(-8, 9, s)).astype(np.float32)
            for n, s in shapes.items()}


# ---- which leave

LEAVE = {
    "a divisor": ("O[i,d] += E[i,j]/D[i]*V[j,d]", {"E": (5, 7), "D": (5,), "V": (7, 3)}, ["E[i, j] * V[j, d]"]),
    "a number": ("m[i] += X[i,j]/768", {"X": (5, 768)}, ["X[i, j]"]),
    "an element": ("m[i] += X[i,j]/D[0]", {"X": (5, 9), "D": (1,)}, ["X[i, j]"]),
    "columns": ("m[j] += X[i,j]/3", {"X": (9, 5)}, ["X[i, j]"]),
    "everything": ("m += X[i,j]/3", {"X": (9, 5)}, ["X[i, j]"]),
    "several": ("O[i] += 2*A[i,k]*(B[i]/D[i])*-x[k]/3", {"A": (4, 9), "B": (4,), "D": (4,), "x": (9,)}, ["A[i, k] * -x[k]"]),
    "a function": ("O[i] += A[i,k]*exp(B[i])", {"A": (4, 9), "B": (4,)}, ["A[i, k]"]),
    "a sign": ("O[i] += -(A[i,k]/D[i])", {"A": (4, 9), "D": (4,)}, ["-A[i, k]"]),
    "a guard": ("O[i] += (A[i+k-1] else 0)*W[k]/(D[i-1] else 1) where i in 0:9", {"A": (9,), "W": (3,), "D": (9,)},
                ["(A[i + k - 1] else 0.0) * W[k]"]),
    "a gather": ("O[i] += A[i,k]/D[J[i]]", {"A": (4, 9), "D": (3,), "J": (4,)}, ["A[i, k]"]),
    "a scale": ("O[m,h] += X[c,h+r]*W[m,c,r]*S[m]", {"X": (4, 9), "W": (3, 4, 5), "S": (3,)}, ["X[c, h + r] * W[m, c, r]"]),
    "a place of two": ("O[i//2] += A[i,k]/D[i]", {"A": (6, 9), "D": (6,)}, ["A[i, k]", "O_unscaled[i] / D[i]"]),
    "a triangle": ("O[i] += A[i,k]/D[i] where k <= i", {"A": (9, 9), "D": (9,)}, ["A[i, k]"]),
    "only some": ("O[i] += A[i,k]/D[i] where i % 2 == 0", {"A": (9, 9), "D": (9,)}, ["A[i, k]", "O_unscaled[i] / D[i]"]),
    "two sums": ("def f(A, B, D) -> O { O[i] += A[i,k]/D[i]; O[i] += B[i,k]/D[i] }", {"A": (4, 9), "B": (4, 9), "D": (4,)},
                 ["A[i, k]", "O_unscaled[i] / D[i]", "B[i, k]", "O_unscaled2[i] / D[i]"]),
}


def on_targets(names: Iterable[str], quick: Container[str]) -> list[Any]:
    """Each name on each target; what leaves does so for all, so that OpenCL compiles only some in the quick tests."""
    on_device = [pytest.param("opencl", n, marks=[*NEEDS_OPENCL, *([] if n in quick else [pytest.mark.long])]) for n in names]
    return [*((t, n) for t in ("cpu", "interp") for n in names), *on_device]


@pytest.mark.part(6)
@pytest.mark.parametrize(("target", "name"), on_targets(LEAVE, {"a divisor", "a guard", "a place of two", "a triangle"}))
def test_factors_leave_and_results_are_the_same(name: str, target: str) -> None:
    text, shapes, expected = LEAVE[name]
    program = built(text, shapes, {"J": "i4"})
    assert terms(program) == expected
    inputs = small(shapes)
    if "J" in inputs:
        inputs["J"] = np.array([2, 0, 1, 1], np.int32)
    _same(program, inputs, target, exact="exp" not in text and "/3" not in text and "/768" not in text)


def _same(program: pr.Program, inputs: Arrays, target: str, *, exact: bool = True) -> None:
    """What the evaluator computes of the program as written is what compiled code does."""
    found, expected = _run(program, inputs, target), evaluate(program, inputs)
    for n, e in expected.items():
        np.testing.assert_allclose(found[n], e, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-4)
        assert not exact or (np.signbit(found[n]) == np.signbit(e)).all()


def _run(program: pr.Program, inputs: Arrays, target: str = "cpu") -> Arrays:
    given = {n: a.copy() for n, a in inputs.items()}
    made = {n: given.get(n, np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy)) for n in program.outputs}
    compiler.compile_program(program, target, 1).run([made.get(n, given.get(n)) for n in program.arrays])
    return made


# ---- which stay

STAY = {
    "precise": ("precise def f(A, D) -> O { O[i] += A[i,k]/D[i] }", {"A": (4, 9), "D": (4,)}),
    "in a loop": ("for t in 0:4 { O[t] += A[t,k]/D[t] + (O[t-1] else 0)*0 }", {"A": (4, 9), "D": (4,)}),
    "rows in memory": ("O[i] += A[p]/D[i] where p in J[i]:J[i+1]", {"A": (9,), "D": (3,), "J": (4,)}),
    "integers": ("O[i] += J[i,k]*K[i]", {"J": (4, 90), "K": (4,)}),
    "integers that become floats": ("O[i] += f32(J[i,k]*K[i])", {"J": (4, 90), "K": (4,)}),
    "a scatter": ("O[i] = 0 where i in 0:4; O[J[k]] += A[k]/D[0]", {"A": (9,), "D": (1,), "J": (9,)}),
    "conditions on data": ("O[i] += A[i,k] > 0 ? A[i,k]/D[i] : 0", {"A": (4, 9), "D": (4,)}),
    "a result without a term": ("O[i] += A[i,k]/D[i] where k < i % 3", {"A": (9, 9), "D": (9,)}),
    "a divisor that changes": ("O[i] += A[i]/D[k]", {"A": (4,), "D": (9,)}),
    "no rest": ("O[i] += A[i]/D[i] where k in 0:9", {"A": (4,), "D": (4,)}),
    "a place that names all": ("O[i+k] += A[i]*B[k]/D[i]", {"A": (4,), "B": (9,), "D": (4,)}),
    "a sum of quotients": ("O[i] += A[i,k]/D[i] + 1", {"A": (4, 9), "D": (4,)}),
    "a rounding behind": ("O[i] += f32(f64(A[i,k])/D[i])", {"A": (4, 9), "D": (4,)}),
    "the largest": ("O[i] max= A[i,k]/D[i]", {"A": (4, 9), "D": (4,)}),
    "a product of a plain sum": ("O[i] += A[i,k]*B[i]*2 where k in 0:3", {"A": (4, 9), "B": (4,)}),
    "half of a plain sum": ("O[j] += A[i,j]/2", {"A": (99, 99)}),
}


@pytest.mark.parametrize("name", STAY)
def test_sums_that_stay_as_written(name: str) -> None:
    text, shapes = STAY[name]
    program = built(text, shapes, {"J": "i4", "K": "i4"})
    assert table.named("factors").run(program, AVX512) == program


def test_factors_stay_where_the_proof_of_terms_is_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    text, shapes, expected = LEAVE["a triangle"]
    program = built(text, shapes)
    assert terms(program) == expected
    monkeypatch.setattr(isl, "BUDGET", 1)
    assert table.named("factors").run(program, AVX512) == program


def test_direct_algebra_lets_factors_leave() -> None:
    program = replace(built("m[i] += X[i,j]/768", {"X": (5, 768)}), direct=True)
    assert terms(program) == ["X[i, j]"]


# ---- what the target held, and results without a term

UPDATES = {
    "an inout tensor": ("def f(A, D, inout f32[N] C) { C[i] += A[i,k]/D[i] }", {"A": (4, 9), "D": (4,), "C": (4,)}),
    "a part of one": ("def f(A, D, inout f32[N] C) { C[2*i+1] += A[i,k]/D[i] }", {"A": (4, 9), "D": (4,), "C": (9,)}),
    "a triangle of one": ("def f(A, D, inout f32[N,M] C) { C[i,j] += A[i,k]*A[j,k]/D[i] where j <= i }",
                          {"A": (5, 20), "D": (5,), "C": (5, 5)}),
    "places without a term": ("def f(A, D, inout f32[N] C) { C[i] += A[i,k]/D[i] where k < i % 3 }",
                              {"A": (9, 9), "D": (9,), "C": (9,)}),
    "a sum of no terms": ("O[i] += A[i,k]/D[i] where k in 0:0", {"A": (4, 9), "D": (4,)}),
    "a sum between two readers": ("def f(A, D) -> (Y, T) { T[i] += A[i,k]; Y[i] = T[i]; T[i] += A[i,k]/D[i] }",
                                  {"A": (4, 9), "D": (4,)}),
    "what was assigned": ("def f(A, B, D) -> O { O[i] = B[i]; O[i] += A[i,k]/D[i] }", {"A": (4, 9), "B": (4,), "D": (4,)}),
    "zeros that were read": ("def f(A, B, D) -> (O, Y) { O[i] = 0 where i in 0:4; Y[i] = O[i] + B[i]; O[i] += A[i,k]/D[i] }",
                             {"A": (4, 9), "B": (4,), "D": (4,)}),
    "what is assigned later": ("def f(A, B, D) -> O { O[i] += A[i,k]/D[i]; O[i] = B[i] where i in 0:2 }",
                               {"A": (4, 9), "B": (4,), "D": (4,)}),
    "what another sum reads": ("def f(A, B, D) -> Y { T[i] += A[i,k]/D[i]; Y += T[i]*B[i] }",
                               {"A": (4, 9), "B": (4,), "D": (4,)}),
    "in a loop": ("def f(A, D, inout f32[N] C) { for t in 0:3 { C[i] += A[i,k]/D[t] } }", {"A": (4, 9), "D": (4,), "C": (4,)}),
}


@pytest.mark.part(4)
@pytest.mark.parametrize(("target", "name"), on_targets(UPDATES, {"an inout tensor", "places without a term", "in a loop"}))
def test_what_a_tensor_held_stays_in_it(name: str, target: str) -> None:
    text, shapes = UPDATES[name]
    program = built(text, shapes)
    inputs = small(shapes)
    if name == "places without a term":
        inputs["D"][::3] = 0
    _same(program, inputs, target)


@pytest.mark.parametrize("target", TARGETS)
def test_zeros_keep_their_signs(target: str) -> None:
    """A sum from 0 on is no -0, whatever sign its factor has."""
    program = built("O[i] += A[i,k]/D[i]", {"A": (3, 6), "D": (3,)})
    assert terms(program) == ["A[i, k]"]
    A = np.array([[0] * 6, [1, -1] * 3, [-0.0] * 6], np.float32)
    found = _run(program, {"A": A, "D": np.full(3, -2, np.float32)}, target)["O"]
    assert found.tobytes() == np.zeros(3, np.float32).tobytes()


# ---- types and sizes

@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_of_halves_stay_finite(kind: str) -> None:
    """The sum without its divisor is above 65504, and held in f32."""
    text = f"def f({kind}[N,K] X) -> ({kind}[N] m) {{ m[i] += X[i,j]/5000 }}"
    program = stages.build(text, {"X": (3, 4096)}, {})
    assert terms(program) == ["f32(X[i, j])"]
    dtype = program.tensor("X").dtype.numpy
    X = np.full((3, 4096), 60000, np.float32).astype(dtype)
    found = _run(program, {"X": X})["m"].astype(np.float64)
    np.testing.assert_allclose(found, X[:, 0].astype(np.float64) * 4096 / 5000, rtol=2.0 ** -8)


def test_each_result_within_the_documented_bound() -> None:
    """m factors: (4200 + log2 n + m + 1) u sum|x|, against fractions."""
    rng, shapes = np.random.default_rng(3), {"E": (2, 3000), "V": (3000,), "Z": (2,), "s": (2,)}
    for dtype, u in ((np.float32, 2.0 ** -24), (np.float64, 2.0 ** -53)):
        program = built("O[i] += s[i]*E[i,j]/Z[i]*V[j]", shapes, dict.fromkeys(shapes, np.dtype(dtype).str))
        inputs = {n: (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)).astype(dtype)
                  for n, shape in shapes.items()}
        E, V, Z, s = ([*map(Fraction, map(float, inputs[n].reshape(-1)))] for n in ("E", "V", "Z", "s"))
        found = _run(program, inputs)["O"]
        for i in range(2):
            exact = [s[i] * E[3000 * i + j] / Z[i] * V[j] for j in range(3000)]
            allowed = (4200 + np.log2(3000) + 2 + 1) * u * float(sum(map(abs, exact)))
            assert abs(float(Fraction(float(found[i])) - sum(exact))) <= allowed


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", pytest.param("opencl", marks=NEEDS_OPENCL)])
def test_open_sizes(target: str) -> None:
    """Of any size, 0 and 1 too; a condition that leaves results without a term for some sizes keeps the factor."""
    text, shapes = "O[i,d] += E[i,j]/D[i]*V[j,d]", {"E": ("M", "K"), "D": ("M",), "V": ("K", "N")}
    assert terms(polytc.lower(text, shapes=shapes).program) == ["E[i, j] * V[j, d]"]
    op = api.compile(text, target, shapes=shapes)
    for m, k, n in ((5, 20, 3), (3, 0, 2), (33, 64, 17), *(((1, 1, 1), (0, 4, 4)) if target == "cpu" else ())):
        a = small({"E": (m, k), "D": (m,), "V": (k, n)})
        np.testing.assert_array_equal(op(a["E"], a["D"], a["V"]), a["E"] / a["D"][:, None] @ a["V"])
    text, shapes = "def f(f32[M,K] E, f32[M] D) -> O { O[i] += E[i,j]/D[i] where j in 1:K }", {"E": ("M", "K"), "D": ("M",)}
    assert terms(polytc.lower(text, shapes=shapes).program) == ["E[i, j] / D[i]"]
    some = api.compile(text, target, shapes=shapes)
    for k in (1, 7):
        a = small({"E": (4, k), "D": (4,)}) | {"D": np.array([1, 0, 2, 4], np.float32) if k == 1 else np.ones(4, np.float32)}
        np.testing.assert_array_equal(some(a["E"], a["D"]), a["E"][:, 1:].sum(1) if k > 1 else np.zeros(4))


# ---- what follows in the pipeline

ATTENTION = ("def f(Q, K, V) -> O {{ S[h,i,j] += Q[h,i,d]*K[h,j,d]; M[h,i] max= S[h,i,j]; E[h,i,j] = exp(S[h,i,j] - M[h,i]);"
             " Z[h,i] += E[h,i,j]; {} }}")
HEADS = {"Q": (2, 128, 32), "K": (2, 128, 32), "V": (2, 128, 32)}


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_attention_is_compiled_as_with_its_division_behind(target: str) -> None:
    """The same loops and kernels as of the text that sums first and divides then."""
    inside = ATTENTION.format("O[h,i,d] += E[h,i,j]/Z[h,i]*V[h,j,d]")
    behind = ATTENTION.format("T[h,i,d] += E[h,i,j]*V[h,j,d]; O[h,i,d] = T[h,i,d]/Z[h,i]")
    a, b = (polytc.lower(text, shapes=HEADS, target=target) for text in (inside, behind))
    assert [(s.target.replace("O_unscaled", "T"), s.op, s.ranges) for s in a.rewritten.statements] == \
        [(s.target, s.op, s.ranges) for s in b.rewritten.statements]
    assert len(a.loops.kernels) == len(b.loops.kernels)
    assert str(a.schedule).count("parallel") == str(b.schedule).count("parallel")


def test_a_scaled_convolution_is_one() -> None:
    """Without its scale it has the operands of a convolution: it becomes what that becomes."""
    text = "O[m,h,w] += (X[c,h+r-1,w+s-1] else 0)*W[m,c,r,s]*g[m] where h in 0:28, w in 0:28"
    shapes = {"X": (64, 28, 28), "W": (64, 64, 3, 3), "g": (64,)}
    program = replace(built(text, shapes), constants=("W",))
    plain = replace(built(text.replace("*g[m]", ""), {"X": shapes["X"], "W": shapes["W"]}), constants=("W",))
    names, expected = ({t.name for t in rewritten(p, AVX512).tensors} for p in (program, plain))
    assert len(expected) > 6
    assert {n.replace("O_unscaled", "O") for n in names} - {"g"} == expected


# ---- random products, against the second meaning

LEAVES = {"E[i,j]": (4, 9), "V[j]": (9,), "Z[i]": (4,), "s": (), "(G[i-1] else 2)": (4,), "W[i,j]": (4, 9)}


def _product(rng: np.random.Generator, depth: int) -> str:
    """A random tree of products, quotients, signs, sums and functions."""
    kind = rng.integers(9) if depth else 0
    a, b = (_product(rng, depth - 1) for _ in range(2)) if kind else ("", "")
    if kind == 0:
        return str(rng.choice([*LEAVES, "3", "0.5", "1.7"]))
    forms = {1: f"-({a})", 2: f"({a} + {b})", 3: f"exp({a}/8)", 4: f"({a})/({b})", 5: f"({a})/({b})"}
    return forms.get(int(kind), f"({a})*({b})")


@pytest.mark.part(3)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_random_products_differ_by_what_is_licensed(dtype: str) -> None:
    """Small numbers, huge and tiny ones, zeros and infinities, added to what the target holds; by the evaluator."""
    rng, left, bounded = np.random.default_rng(7), 0, 0
    for _ in range(60):
        tree = " * ".join(f"({_product(rng, d)})" for d in (0, 1, 2)) + f" / ({_product(rng, 0)})"
        inputs = {_tensor(name): _values(rng, shape, dtype) for name, shape in (LEAVES | {"C": (4,)}).items()}
        signature = ", ".join(f"{dtype}[{','.join(map(str, a.shape))}] {n}" if a.shape else f"{dtype} {n}"
                              for n, a in inputs.items() if n != "C")
        text = f"def f(inout {dtype}[4] C, {signature}) -> (C) {{ C[i] += {tree} where i in 0:4, j in 0:9 }}"
        program = stages.build(text, {n: a.shape for n, a in inputs.items()}, {}, scalars={})
        rewritten = table.named("factors").run(program, AVX512)
        left += rewritten != program
        with np.errstate(all="ignore"):
            found = evaluate(rewritten, {n: a.copy() for n, a in inputs.items()})["C"].astype(np.float64)
        expected, error = meaning(text, {n: a.copy() for n, a in inputs.items()})["C"]
        e = expected.astype(np.float64)
        allowed = error + (6e-5 if dtype == "f16" else float(np.finfo(np.float32).tiny)) * (error > 0)
        with np.errstate(all="ignore"):
            same = (found == e) | (np.isnan(found) & np.isnan(e)) | (np.abs(found - e) <= allowed) | np.isinf(allowed)
        assert same.all(), f"{text}\n{found}\n{e}\n{error}\n{rewritten}"
        bounded += int((rewritten != program) * (allowed < 1e-3 * np.abs(e)).sum())
    assert left > 20
    assert bounded > left  # of four results each


def _tensor(leaf: str) -> str:
    return leaf.strip("(")[0]


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of one kind: like 1, whole, of all magnitudes, or some of them special."""
    kind, ones = rng.integers(5), rng.standard_normal(shape)
    most = {"f16": 4, "f32": 35, "f64": 290}[dtype]
    if kind == 1:
        ones = np.round(ones * 3)
    elif kind == 2:
        ones = ones * 10.0 ** rng.integers(-most, most, shape)
    elif kind == 3:
        ones = np.where(rng.random(shape) < 0.1, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan], shape), ones)
    with np.errstate(all="ignore"):
        return np.asarray(ones, {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])


def test_what_is_decided_is_done() -> None:
    """Before -> after of the docstring."""
    before = build("O[i,d] += E[i,j]/Z[i]*V[j,d]", {"E": (8, 9), "Z": (8,), "V": (9, 7)})
    decision = factors_of_sums.decide(before, AVX512)
    assert [str(r) for r in decision.reasons] == ["S1: `/ Z[i]` leaves the sum over j"]
    after = factors_of_sums.factor_out(before, decision)
    assert [s.name for s in after.statements] == ["S1_unscaled_init", "S1_unscaled", "S1"]
    assert {r.tensor for r in pr.reads(after.statement("S1_unscaled"))} == {"E", "V"}
