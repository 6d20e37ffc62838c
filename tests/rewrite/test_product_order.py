"""Products of three and more factors, two at a time: which are, in what order, and results against exact arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from opt_einsum.testing import rand_equation

import polytc
from polytc import errors, stages
from polytc.lang import evaluate
from polytc.machine import AVX512, DEVICES
from polytc.program import program as pr
from polytc.rewrite import product_order, table
from tests.opencl_here import NEEDS_OPENCL

Shapes = Mapping[str, tuple[int, ...]]
STEP = table.named("product_order")
R = np.random.default_rng(12)

CHAIN = "Y[i,m] += A[i,j]*B[j,k]*C[k,l]*D[l,m]"
THIN: Shapes = {"A": (30, 40), "B": (40, 5), "C": (5, 60), "D": (60, 7)}
SQUARE: Shapes = dict.fromkeys("ABCD", (24, 24))


def ordered(text: str, shapes: Shapes, dtype: type = np.float32) -> pr.Program:
    return STEP.run(stages.build(text, shapes, dict.fromkeys(shapes, np.dtype(dtype))), AVX512)


def sums(program: pr.Program) -> list[str]:
    return [pr.format_statement(s).partition("  where")[0] for s in program.statements if not s.name.endswith("_init")]


def arrays(shapes: Shapes, dtype: type = np.float32) -> dict[str, np.ndarray]:
    draw = R.standard_normal if np.dtype(dtype).kind == "f" else lambda shape: R.integers(-1000, 1000, shape)
    return {n: np.asarray(draw(s)).astype(dtype) for n, s in shapes.items()}


def test_the_order_with_the_fewest_products() -> None:
    assert sums(ordered(CHAIN, THIN)) == [
        "Y_product[i, k] += A[i, j] * B[j, k]", "Y_product2[k, m] += C[k, l] * D[l, m]",
        "Y[i, m] += Y_product[i, k] * Y_product2[k, m]"]
    assert sums(ordered("Y[i] += A[i,j]*B[j,k]*x[k]", {"A": (90, 90), "B": (90, 90), "x": (90,)})) == [
        "Y_product[j] += B[j, k] * x[k]", "Y[i] += A[i, j] * Y_product[j]"]


@pytest.mark.parametrize(("text", "shapes", "first"), [
    ("Z[i,j] += X[i,k]*W[k,l]*Y[j,l]", {"X": (40, 30), "W": (30, 30), "Y": (50, 30)}, "Z_product[i, l] += X[i, k] * W[k, l]"),
    ("M[i,r] += T[i,j,k]*B[j,r]*C[k,r]", {"T": (50, 50, 50), "B": (50, 24), "C": (50, 24)},
     "M_product[j, r, k] = B[j, r] * C[k, r]"),
    ("Y[i,j] += A[i,k]*s[k]*B[k,j]", {"A": (60, 60), "s": (60,), "B": (60, 60)}, "Y_product[k, j] = s[k] * B[k, j]"),
    ("O[m,h] += exp(X[c,h+r])*D[c,r]*P[m,c]", {"X": (16, 70), "D": (16, 5), "P": (32, 16)},
     "O_product[c, h] += exp(X[c, h + r]) * D[c, r]")])
def test_any_factors(text: str, shapes: Shapes, first: str) -> None:
    assert first in sums(ordered(text, shapes))


@pytest.mark.parametrize(("text", "shapes"), [
    ("precise def f(A[N,N], B[N,N], C[N,N]) -> (Y) { Y[i,l] += A[i,j]*B[j,k]*C[k,l] }", dict.fromkeys("ABC", (24, 24))),
    ("Y[i,k] += A[i,j]*B[j,k]", dict.fromkeys("AB", (24, 24))),
    ("Y[i] += A[i,j]*B[i,j]*C[i,j]", dict.fromkeys("ABC", (24, 24))),
    ("Y[i,l] += A[i,j]*B[j,k]*C[k,l] where k <= i", dict.fromkeys("ABC", (24, 24))),
    ("Y[i] = A[i]*B[i]*C[i]", dict.fromkeys("ABC", (24,))),
    ("Y[i,l] max= A[i,j]*B[j,k]*C[k,l]", dict.fromkeys("ABC", (24, 24)))])
def test_what_stays(text: str, shapes: Shapes) -> None:
    """What is precise, what has two factors, or nothing to save, conditions, and what is no sum."""
    program = stages.build(text, shapes, {})
    lowered = polytc.lower(text, shapes=shapes)
    assert STEP.lacks(program) or STEP.run(program, AVX512) == program
    assert not any("_product" in t.name for t in lowered.rewritten.tensors)


def test_algebra_direct_forbids_it() -> None:
    assert "_product" not in str(polytc.lower(CHAIN, shapes=SQUARE, algebra="direct").rewritten)
    assert "_product" in str(polytc.lower(CHAIN, shapes=SQUARE).rewritten)


@pytest.mark.part(6)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("target", ["cpu", "interp", pytest.param("opencl", marks=NEEDS_OPENCL)])
def test_results(target: str, dtype: type) -> None:
    """Those of integers wrap as they do in any order."""
    given = arrays(THIN, dtype)
    found = polytc.run(CHAIN, **given, target=target)
    exact = [a.astype(np.float64 if np.dtype(dtype).kind == "f" else np.int64) for a in given.values()]
    expected = np.linalg.multi_dot(exact)
    if np.dtype(dtype).kind != "f":
        np.testing.assert_array_equal(found, expected.astype(dtype))
        return
    size = np.linalg.multi_dot([abs(a) for a in exact])
    assert np.all(abs(found - expected) <= 200 * np.finfo(np.promote_types(dtype, np.float32)).eps * size
                  + (abs(expected) * 1e-3 if dtype == np.float16 else 0))


def test_what_is_there_already_is_added_to() -> None:
    text = "def f(inout f32[N,N] Y, f32[N,N] A, f32[N,N] B, f32[N,N] C) { Y[i,l] += A[i,j]*B[j,k]*C[k,l] }"
    y, a, b, c = (R.standard_normal((24, 24)).astype(np.float32) for _ in range(4))
    expected = y + (a.astype(float) @ b @ c)
    polytc.compile(text)(y, a, b, c)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.part(2)
@pytest.mark.parametrize("number", range(40))
def test_random_networks(number: int) -> None:
    """The program behind the step means what that before it means; the indices of results that no factor has, too."""
    r = np.random.default_rng(number)
    equation, views = rand_equation(int(r.integers(3, 8)), int(r.integers(2, 4)), n_out=int(r.integers(0, 3)), d_min=1, d_max=4,
                                    seed=number)[:2]
    terms, result = equation.split("->")
    names = [f"T{n}" for n in range(len(views))]
    text = f"Y[{','.join(result)}] += " + "*".join(f"{n}[{','.join(t)}]" for n, t in zip(names, terms.split(","), strict=True))
    shapes = {n: tuple(v.shape if hasattr(v, "shape") else v) for n, v in zip(names, views, strict=True)}
    program = stages.build(text, shapes, dict.fromkeys(names, np.dtype("i8")))
    given = {n: r.integers(-5, 5, s) for n, s in shapes.items()}
    pairs = [product_order.Pairs(s.name, o.choices[0].pairs) for s in program.statements
             for rows in product_order.options(program, AVX512) for o in rows if o.choices and o.choices[0].statement == s.name]
    made = product_order.multiply_pairs(program, replace(STEP.decide(program, AVX512), choices=tuple(pairs)))
    assert not pairs or made != program
    np.testing.assert_array_equal(evaluate(made, given)["Y"], np.einsum(equation, *given.values(), optimize=True))


@pytest.mark.parametrize("text", [
    "Y[i,l] += A[i,j]*B[j,k]*C[k,l] where i in 0:24, m in 0:7", "S += A[i,j]*B[j,k]*C[k,l] where m in 0:3, n in 0:5",
    "Y[i] += A[i,j]*B[j,k]*C[k,l] where m in 0:3"])
def test_indices_that_no_factor_names(text: str) -> None:
    """They say how often each term is added."""
    given = arrays(dict.fromkeys("ABC", (24, 24)), np.int64)
    lowered = polytc.lower(text, shapes=dict.fromkeys("ABC", (24, 24)), dtypes=dict.fromkeys("ABC", "i64"))
    assert "_product" in str(lowered.rewritten)
    np.testing.assert_array_equal(polytc.run(text, **given), polytc.evaluate(text, **given))


def test_open_sizes() -> None:
    shapes = {"A": ("M", "N"), "B": ("N", "K"), "x": ("K",)}
    op = polytc.compile("Y[i] += A[i,j]*B[j,k]*x[k]", shapes=shapes)
    for m, n, k in ((90, 80, 70), (1, 1, 1), (7, 16, 33)):
        a, b, x = R.standard_normal((m, n)), R.standard_normal((n, k)), R.standard_normal(k)
        np.testing.assert_allclose(op(a, b, x), a @ (b @ x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("pairs", "why"), [
    ("0.1", "does not multiply 4 factors"), ("0.0,1.2,2.3", "does not multiply"), ("x", "does not multiply"),
    ("0.1,2.3,4.6", "does not multiply")])
def test_records_that_do_not_fit(pairs: str, why: str) -> None:
    with pytest.raises(errors.CompileError, match=why) as caught:
        polytc.lower(CHAIN, shapes=THIN, decisions=f"polytc decisions 1\nproduct_order S1: pairs={pairs}")
    assert caught.value.code == "E710"
    with pytest.raises(errors.CompileError, match="no sum of products of three"):
        polytc.lower("Y[i] = A[i]", shapes={"A": (3,)}, decisions="polytc decisions 1\nproduct_order S1: pairs=0.1,2.3")


def test_a_record_chooses_the_order() -> None:
    given = arrays(THIN, np.float64)
    op = polytc.compile(CHAIN, decisions="polytc decisions 1\nproduct_order S1: pairs=2.3,1.4,0.5")
    np.testing.assert_allclose(op(**given), np.linalg.multi_dot(list(given.values())))
    assert "pairs=2.3,1.4,0.5" in str(op.decisions)


def test_every_kind_of_machine() -> None:
    for name in ("nvidia-sm90", "mali"):
        assert "_product" in str(polytc.lower(CHAIN, "opencl", shapes=SQUARE, machine=DEVICES[name]).rewritten)
