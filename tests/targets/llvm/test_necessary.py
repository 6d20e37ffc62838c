"""What must hold of scalars where a condition holds in some lane: compared with all lanes, at all values of a variable."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import polytc
from polytc.codegen import loops
from polytc.codegen.intervals import Interval
from polytc.program.scalars import BOOL, I64
from polytc.targets.llvm import necessary
from tests.guarded import guarded

I = loops.Var("i")
OPS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ANYTHING = {"i": Interval(-100, 100)}


def ramp(base: int, stride: int) -> loops.Expr:
    return loops.Ramp(loops.binary("+", I, loops.const(base)), stride, 4)


def value(e: loops.Expr, i: int) -> int | bool:
    match e:
        case loops.Var():
            return i
        case loops.Const():
            return e.value
        case loops.Binary("+"):
            return value(e.a, i) + value(e.b, i)
        case loops.Binary():
            return OPS[e.op](value(e.a, i), value(e.b, i))
    raise AssertionError(e)


@pytest.mark.parametrize(("op", "stride", "turned"), list(itertools.product(OPS, (1, -2, 0), (False, True))))
def test_comparisons(op, stride, turned):
    """The conditions hold exactly where some lane does, or where not all do."""
    a, b = ramp(-9, stride), loops.const(3, 4)
    cond = loops.binary(op, b, a) if turned else loops.binary(op, a, b)
    for i in range(-30, 31):
        lanes = [OPS[op](3, i - 9 + stride * k) if turned else OPS[op](i - 9 + stride * k, 3) for k in range(4)]
        some, rest = necessary.somewhere(cond, ANYTHING), necessary.elsewhere(cond, ANYTHING)
        assert all(value(c, i) for c in some) == any(lanes)
        assert all(value(c, i) for c in rest) == (not all(lanes))
        assert len(some) == len(rest) == 1


def test_what_always_holds_is_left_out():
    cond = loops.binary(">=", ramp(-3, 1), loops.const(0, 4))  # the last lane is i
    assert necessary.somewhere(cond, {"i": Interval(0, 9)}) == frozenset()
    assert necessary.somewhere(cond, {"i": Interval(-1, 9)})


def test_several_conditions():
    a, b = loops.binary(">=", ramp(-9, 1), loops.const(0, 4)), loops.binary("<", ramp(0, 1), loops.const(9, 4))
    same = loops.Broadcast(loops.binary("<", I, loops.const(5)), 4, BOOL)
    assert necessary.somewhere(loops.binary("&&", loops.binary("&&", a, b), same), ANYTHING) == \
        necessary.somewhere(a, ANYTHING) | necessary.somewhere(b, ANYTHING) | {same.a}
    assert necessary.elsewhere(loops.binary("||", a, b), ANYTHING) == \
        necessary.elsewhere(a, ANYTHING) | necessary.elsewhere(b, ANYTHING)
    assert necessary.somewhere(loops.binary("||", a, b), ANYTHING) == frozenset()
    assert necessary.elsewhere(loops.binary("&&", a, b), ANYTHING) == frozenset()


def test_conditions_on_memory_tell_nothing():
    data = loops.Load(loops.Buffer("a", I64, (64,)), (ramp(0, 1),), I64)
    assert necessary.somewhere(loops.binary("<", data, loops.const(3, 4)), ANYTHING) == frozenset()


@pytest.mark.parametrize("text", [
    "C[i] = (x[i-40] else 1) where i in 0:100", "C[i] = (x[i] else (x[i-50] else 2)) where i in 0:100",
    "C[i] = i < 37 ? x[i] : x[i-37] where i in 0:87", "C[i] = (x[40-i] else 1) where i in 0:100",
    "C[i] = (x[2*i-70] else 3) where i in 0:100"])
def test_vectors_of_no_lane(text):
    x = np.random.default_rng(0).random(50, np.float32)
    for side in ("start", "end"):
        held = guarded("x", x.nbytes, side, align=4).array.view(np.float32)
        held[:] = x
        assert np.array_equal(polytc.compile(text)(x=held), polytc.compile(text, target="interp")(x=x))
