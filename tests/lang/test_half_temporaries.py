"""Temporaries of half type: f16 and bf16 for promotion, held in f32. What is rounded is what the language says is.

The random programs are written together with what they mean in numpy's f64, where each value carries a bound of its error, so
that nothing of polytc says what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.targets import registry
from tests.c_here import COMPILERS
from tests.opencl_here import NEEDS_OPENCL

HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
ALL = pytest.mark.parametrize("half", HALVES)
TARGETS = pytest.mark.parametrize("target", ["evaluate", "interp", "cpu"])
EVERYWHERE = pytest.mark.parametrize("target", [
    "evaluate", "interp", "cpu", pytest.param("cc", marks=pytest.mark.skipif(not COMPILERS, reason="no C compiler here")),
    pytest.param("opencl", marks=NEEDS_OPENCL)])
UNIT = 2.0**-23


@pytest.fixture(autouse=True)
def c_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TARGETS, "cc", "tests.c_here:CompiledC")


def run(text: str, target: str = "cpu", **arrays: np.ndarray):
    if target == "evaluate":
        return polytc.evaluate(text, **arrays)
    return polytc.compile(text, target=target)(*arrays.values())


def activations(half: str, *shape: int) -> np.ndarray:
    return (20 + 5 * np.random.default_rng(1).standard_normal(shape)).astype(HALVES[half])


def types(text: str, half: str, **shapes: tuple[int, ...]) -> dict[str, str]:
    return {t.name: t.dtype.name for t in lang.build(text, shapes, dict.fromkeys(shapes, half)).tensors}


def close(found: np.ndarray, exact: np.ndarray, half: str) -> None:
    assert found.dtype == HALVES[half]
    exact = exact.astype(HALVES[half]).astype(np.float64)
    slack = 1e-6 * np.abs(exact).max()
    np.testing.assert_allclose(found.astype(np.float64), exact, 2.0 * float(ml_dtypes.finfo(HALVES[half]).eps), slack)


@pytest.mark.part(6)
@ALL
@EVERYWHERE
def test_sums_that_leave_the_range_of_f16(half: str, target: str) -> None:
    n = 64 if target == "interp" else 4096
    x = activations(half, 2, n) * HALVES[half].type(4 if target == "interp" else 1)
    v = x.astype(np.float64)
    close(run(f"S[i] += 16 * X[i,j]; Y[i] = S[i] / {16 * n}", target, X=x), v.mean(1), half)
    close(run(f"Q[i,j] = X[i,j] * X[i,j]; S[i] += Q[i,j]; Y[i] = S[i] / {n}", target, X=x), (v * v).mean(1), half)
    close(run(f"S[i] += X[i,j]; D[i,j] = X[i,j] - S[i] / {n}; V[i] += D[i,j] * D[i,j]; Y[i,j] = D[i,j] * rsqrt(V[i] / {n})",
              target, X=x), (v - v.mean(1)[:, None]) / v.std(1)[:, None], half)


@pytest.mark.part(2)
@ALL
@TARGETS
def test_named_outputs_casts_and_results_of_calls_are_rounded(half: str, target: str) -> None:
    x = np.array([1 + 2.0**-7, 1.5, 300], HALVES[half])
    square = x.astype(np.float64) ** 2
    with np.errstate(over="ignore"):
        rounded = square.astype(HALVES[half]).astype(np.float64)
    q, y = run("Q[i] = X[i] * X[i]; Y[i] = f32(Q[i]) -> (Q, Y)", target, X=x)
    np.testing.assert_array_equal(y, rounded)
    np.testing.assert_array_equal(q.astype(np.float64), rounded)
    np.testing.assert_array_equal(run("Q[i] = X[i] * X[i]; Y[i] = f32(Q[i])", target, X=x), square)
    np.testing.assert_array_equal(run(f"Y[i] = f32({half}(X[i] * X[i]))", target, X=x), rounded)
    np.testing.assert_array_equal(run(f"Q[i] = X[i] * X[i]; Y[i] = f32({half}(Q[i]))", target, X=x), rounded)
    np.testing.assert_array_equal(run("def sq(T) -> (Q) { Q[i] = T[i] * T[i] }\nR = sq(X)\nY[i] = f32(R[i])".replace(
        "T)", f"{half}[N] T)"), target, X=x), rounded)


def test_numbers_that_are_cast_are_rounded() -> None:
    x = np.ones(2, np.float16)
    np.testing.assert_array_equal(run("Y[i] = f32(f16(0.1) * X[i])", X=x), np.float32(np.float16(0.1)))
    np.testing.assert_array_equal(run("Y[i] = f32(f16(1e6) * X[i])", X=x), np.inf)
    np.testing.assert_array_equal(run("Y[i] = f32(0.1 * X[i])", X=x), np.float32(0.1))


@ALL
@pytest.mark.parametrize("target", ["evaluate", "cpu"])
def test_indices_are_not_rounded_to_halves(half: str, target: str) -> None:
    x = np.full(70001, 2.0**-16, HALVES[half])
    exact = np.arange(70001) * 2.0**-16
    close(run("Y[i] = X[i] * i", target, X=x), exact, half)
    places = run(f"Y[i] = f32({half}(i)) where i in 0:70001; Z[i] = X[i] -> (Y, Z)", target, X=x)[0]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(places, np.arange(70001).astype(HALVES[half]).astype(np.float32))


@pytest.mark.part(4)
@ALL
@TARGETS
def test_the_extremum_of_a_tuple_reduction_is_found_again(half: str, target: str) -> None:
    x = activations(half, 4, 50)
    for text in ("(M[i], J[i]) argmax= (X[i,k] * 1.7, k)", "T[i,k] = X[i,k] * 1.7; (M[i], J[i]) argmax= (T[i,k], k)"):
        m, j = run(text, target, X=x)
        values = (x.astype(np.float32) * np.float32(1.7)).astype(HALVES[half])
        np.testing.assert_array_equal(j, values.astype(np.float64).argmax(1))
        np.testing.assert_array_equal(m, values[np.arange(4), j])


@ALL
def test_what_holds_halves_alone_is_stored_as_such(half: str) -> None:
    text = (f"R[i,j] = max(X[i,j], 0); C[i,j] = i > 1 ? -R[i,j] : floor(R[j,i]); F[i,j] = {half}(X[i,j] * X[j,i])\n"
            "P[i,j] = 2 * X[i,j]; G[i,j] = P[i,j]; M[i] max= X[i,j]\n"
            "Y[i] += C[i,j] + F[i,j] + G[i,j] + M[i]")
    found = types(text, half, X=(4, 4))
    assert [n for n in "RCF" if found[n] != half] == []
    assert [n for n in "PGM" if found[n] != "f32"] == []


def test_factors_of_products_of_bf16_are_stored_as_bf16() -> None:
    text = "T[i,j] += X[i,k] * W[k,j]; R[i,j] = T[i,j] * 0.5; Y[i,j] += R[i,k] * W[k,j]"
    assert types(text, "bf16", X=(4, 4), W=(4, 4))["R"] == "bf16"
    assert types(text, "bf16", X=(4, 4), W=(4, 4))["T"] == "f32"
    assert types(text, "f16", X=(4, 4), W=(4, 4))["R"] == "f32"


@ALL
def test_loops_hold_what_they_carry(half: str) -> None:
    """A product of 40 numbers that leaves the range of f16, and what the numbers before it are of it."""
    x = np.full(40, 2, HALVES[half])
    for target in ("evaluate", "interp", "cpu"):
        y = run("for t in 0:40 { P[t] = X[t] * (P[t-1] else 1); Y[t] = P[t] / 2147483648.0 }", target, X=x)
        close(y, 2.0 ** (np.arange(40) - 30), half)


# ---- random programs


@dataclass
class Bounded:
    """Values, and how far an evaluation in f32 may be from them."""

    value: np.ndarray
    error: np.ndarray

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        return self.value - self.error, self.value + self.error


def computed(value: np.ndarray, error: np.ndarray) -> Bounded:
    return Bounded(value, error + 4 * UNIT * np.abs(value) + 1e-37)


def to_half(a: Bounded, half: str) -> Bounded:
    low, high = (e.astype(HALVES[half]).astype(np.float64) for e in a.ends())
    middle = a.value.astype(HALVES[half]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return Bounded(middle, np.maximum(high - middle, middle - low))


@dataclass
class Term:
    """An expression over i and j as text, and its values."""

    text: str
    of: Bounded


class Writer:
    """Writes a program of some statements, each over tensors written before."""

    def __init__(self, seed: int, half: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.half = half
        self.n, self.m = int(self.rng.integers(2, 7)), int(self.rng.integers(3, 90))
        self.x = (20 + 5 * self.rng.standard_normal((self.n, self.m))).astype(HALVES[half])
        exact = self.x.astype(np.float64)
        self.tensors = {"X[i,j]": Bounded(exact, np.zeros_like(exact))}

    def leaf(self) -> Term:
        kind = self.rng.integers(6)
        if kind == 0:
            number = float(self.rng.choice([0.5, 0.1, 3.0, -2.0, 40.0]))
            value = np.full((self.n, self.m), number)
            return Term(f"{number}", Bounded(value, UNIT * np.abs(value)))
        if kind == 1:
            value = np.broadcast_to(np.arange(self.m, dtype=np.float64), (self.n, self.m))
            return Term("j", Bounded(value, np.zeros_like(value)))
        name = str(self.rng.choice(list(self.tensors)))
        return Term(name, self.tensors[name])

    def term(self, depth: int) -> Term:
        if depth == 0:
            return self.leaf()
        a, b = self.term(depth - 1), self.term(depth - 1)
        u, v = a.of, b.of
        cases: list[Callable[[], Term]] = [
            lambda: Term(f"({a.text} + {b.text})", computed(u.value + v.value, u.error + v.error)),
            lambda: Term(f"({a.text} - {b.text})", computed(u.value - v.value, u.error + v.error)),
            lambda: Term(f"({a.text} * {b.text})", computed(u.value * v.value, np.abs(u.value) * v.error
                                                            + np.abs(v.value) * u.error + u.error * v.error)),
            lambda: Term(f"({a.text} / (abs({b.text}) + 1))", self.ratio(u, v)),
            lambda: Term(f"max({a.text}, {b.text})", Bounded(np.maximum(u.value, v.value), np.maximum(u.error, v.error))),
            lambda: Term(f"(X[i,j] > 20 ? {a.text} : {b.text})", Bounded(*(np.where(
                self.x.astype(np.float64) > 20, p, q) for p, q in ((u.value, v.value), (u.error, v.error))))),
            lambda: Term(f"{self.half}(X[i,j] + {a.text})", to_half(computed(self.x.astype(np.float64) + u.value, u.error),
                                                                   self.half)),
            lambda: Term(f"(X[i,j] * 0.01 + {a.text})", computed(self.x.astype(np.float64) * 0.01 + u.value, u.error)),
        ]
        return cases[self.rng.integers(len(cases))]()

    def ratio(self, u: Bounded, v: Bounded) -> Bounded:
        below = np.abs(v.value) + 1
        error = (u.error + np.abs(u.value / below) * v.error) / np.maximum(below - v.error, 1)
        return computed(u.value / below, error)

    def statement(self, name: str) -> tuple[str, str, Bounded]:
        """Its text, how it is read, and its values before any rounding."""
        t = self.term(int(self.rng.integers(1, 3)))
        kind = self.rng.integers(4)
        text = f"(X[i,j] * 0 + {t.text})"  # the type of a half, whatever the term is made of
        value, error = t.of.value, t.of.error + 2 * UNIT * np.abs(t.of.value)
        if kind < 2:
            return f"{name}[i,j] = {text}", f"{name}[i,j]", Bounded(value, error)
        if kind == 2:
            reduced, slack = value.max(1), error.max(1)
        else:
            reduced, slack = value.sum(1), error.sum(1) + self.m * UNIT * np.abs(value).sum(1)
        whole = Bounded(*(np.broadcast_to(p[:, None], (self.n, self.m)) for p in (reduced, slack)))
        return f"{name}[i] {'max' if kind == 2 else '+'}= {text}", f"{name}[i]", whole


def random_program(seed: int, half: str, target: str) -> None:
    """Statements until one is an output; outputs are read as they were found to be."""
    w = Writer(seed, half)
    count = int(w.rng.integers(2, 6))
    lines: list[str] = []
    outputs: dict[str, Bounded] = {}
    for k in range(count):
        line, read, of = w.statement(f"T{k}")
        if np.abs(of.value).max() > 1e30:
            continue
        lines.append(line)
        if k == count - 1 or w.rng.random() < 0.3:
            outputs[f"T{k}"] = of
            of = to_half(of, half)
            if not np.isfinite(of.value).all() or not np.isfinite(of.error).all():
                break
        w.tensors[read] = of
    if not outputs:
        return
    text = "\n".join(lines) + f"\n-> ({', '.join(outputs)})"
    results = run(text, target, X=w.x)
    for (name, of), found in zip(outputs.items(), results if isinstance(results, tuple | list) else [results], strict=True):
        low, high = (e.astype(HALVES[half]).astype(np.float64) for e in of.ends())
        if found.ndim == 1:
            low, high = low[:, 0], high[:, 0]
        assert found.dtype == HALVES[half], text
        got = found.astype(np.float64)
        assert ((low <= got) & (got <= high)).all(), f"{name} of\n{text}\n{got}\n{low}\n{high}"


@pytest.mark.part(12)
@ALL
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore:overflow")
def test_random_programs(seed: int, half: str) -> None:
    for target in ("evaluate", "cpu") if seed % 4 else ("interp",):
        random_program(seed, half, target)


@pytest.mark.long
@ALL
@pytest.mark.filterwarnings("ignore:overflow")
def test_many_random_programs(half: str) -> None:
    for seed in range(100, 700):
        for target in ("evaluate", "cpu"):
            random_program(seed, half, target)
