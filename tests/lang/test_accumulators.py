"""acc(type): what an update is combined in."""

import numpy as np
import pytest

import polytc
from polytc import lang

RNG = np.random.default_rng(0)
TARGETS = ["evaluate", "interp", "cpu"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_in_f64_is_rounded_once(target: str) -> None:
    a, x = RNG.standard_normal((3, 400)).astype("f4"), RNG.standard_normal(400).astype("f4")
    found = polytc.run("acc(f64) y[i] += A[i,k] * x[k]", A=a, x=x, target=target)
    assert found.dtype == np.float32
    assert np.array_equal(found, (a * x).sum(1, dtype="f8").astype("f4"))


@pytest.mark.parametrize("target", TARGETS)
def test_what_f32_loses(target: str) -> None:
    x = np.array([2.0**24, 1, 1, -(2.0**24)], "f4")
    assert polytc.run("precise def f(f32[N] x) -> (s) { s += x[i] }", x, target=target) == 0
    assert polytc.run("acc(f64) s += x[i]", x, target=target) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_halves_sum_in_f32_and_round_once(target: str) -> None:
    x = np.full(300, 0.1, "f2")
    once = np.float16(x.astype("f4").sum(dtype="f4"))
    assert polytc.run("s += x[i]", x, target=target) == once
    assert polytc.run("acc(f32) s += x[i]", x, target=target) == once
    big = np.array([60000, 60000, -60000, -60000, 1], "f2")
    assert polytc.run("s += x[i]", big, target=target) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_integers(target: str) -> None:
    x = np.array([100, 100, -100, 7], "i1")
    assert polytc.run("acc(i64) s max= x[i]; s += x[i]", x, target=target).dtype == np.int8
    assert polytc.run("acc(i32) s += x[i]", x, target=target) == 107
    assert polytc.run("acc(f64) s += x[i]", x, target=target) == 107


@pytest.mark.parametrize("target", TARGETS)
def test_readers_between_the_updates_get_it_rounded(target: str) -> None:
    x = np.array([1, 2.0**-30], "f4")
    text = "acc(f64) s += x[i]; t = s; s += -t -> (s, t)"
    found = polytc.run(text, x, target=target)
    assert found.t == 1
    assert found.s == np.float32(2.0**-30)


def test_the_program_says_it() -> None:
    p = lang.build("acc(f64) y[i] += A[i,k]", {"A": (2, 3)})
    assert [(s.target, s.op) for s in p.statements] == [("y_f64", None), ("y_f64", "+"), ("y", None)]
    assert p.tensor("y_f64").dtype.name == "f64"
    assert len(lang.build("acc(f32) y[i] += A[i,k]", {"A": (2, 3)}).statements) == 2
    names = lang.build("acc[i] = v[i]; acc[i] += v[i]", {"v": (3,)})
    assert names.outputs == ("acc",)
