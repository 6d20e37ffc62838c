"""Programs that differ in numbers become one; what a number decides stays, and results are the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

import polytc
from polytc import lang
from polytc.graph.plan import Array, Call, Plan
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.planning.shared_numbers import share_numbers
from polytc.graph.specialisation.specialise import specialise
from polytc.program.canonical import canonical
from polytc.program.scalars import F16, F32, F64, DType

R = np.random.default_rng(5)
N = helper.make_node


def planned(model: onnx.ModelProto) -> tuple[Plan, Plan]:
    """The plan before and after."""
    graph = polytc.load_onnx(model)
    plan = fuse(specialise(graph, {v.name: Array(v.dtype, v.static_shape) for v in graph.inputs}).plan)
    return plan, share_numbers(plan)


def programs(plan: Plan) -> int:
    """How many are compiled."""
    return len({canonical(c.program) for c in plan.calls})


def plan_of(*values: str, dtype: DType = F32) -> Plan:
    """A plan of programs of x[8], with a call for each expression."""
    calls = []
    for k, value in enumerate(values):
        program = lang.build(f"Y[i] = {value}", {"X": (8,)}, {"X": dtype})
        calls.append(Call(program, ("x",), (f"y{k}",), f"call {k}"))
    outputs = tuple(f"y{k}" for k in range(len(values)))
    return Plan("p", tuple(calls), ("x",), outputs, dict.fromkeys(("x", *outputs), Array(dtype, (8,))), {}, {})


def results(plan: Plan, x: np.ndarray) -> list[np.ndarray]:
    """What the calls make of x."""
    known = {"x": x, **plan.constants}
    return [lang.evaluate(c.program, dict(zip(c.program.inputs, (known[n] for n in c.inputs), strict=True)))["Y"]
            for c in plan.calls]


@pytest.mark.parametrize(("form", "numbers"), [
    ("exp(X[i])*{}", (0.3, 0.7, -1.3)), ("X[i]/{} + 1.0", (0.3, 1e-9)), ("X[i]/{} + 1.0", (-0.3, -1.5e-9)),
    ("{} - X[i]", (0.3, 1.5e-30)),
    ("max(X[i], 0)*{}", (.1, .2)),
    ("f32(u8(clamp(round(X[i]/{}) + f32(u8(3)), 0, 255)))", (0.1, 0.3)),
    ("f32(i32(u8(X[i])) - i32(u8({})))*0.5", (7, 9)), ("X[i] + f32(u8({}))", (0, 200))])
def test_programs_that_differ_in_a_number_become_one(form: str, numbers: Sequence[float]) -> None:
    before = plan_of(*(form.format(n) for n in numbers))
    after = share_numbers(before)
    assert (programs(before), programs(after)) == (len(numbers), 1)
    assert len(after.constants) == len(numbers)
    x = R.standard_normal(8).astype(np.float32)
    for a, b in zip(results(before, x), results(after, x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_numbers_that_are_always_equal_are_one_input() -> None:
    """Such as the scale and the zero point of what is quantised and dequantised again, on which rewrites go."""
    form = "f32(i32(u8(clamp(round(X[i]/{0}) + f32(u8({1})), 0, 255))) - i32(u8({1})))*{0} + {2}"
    before = plan_of(*(form.format(*n) for n in ((0.1, 3, 0.7), (0.3, 5, 0.3))))
    plan = share_numbers(before)
    assert programs(plan) == 1
    assert [len(c.inputs) for c in plan.calls] == [4, 4]
    x = 9 * R.standard_normal(8).astype(np.float32)
    for a, b in zip(results(before, x), results(plan, x), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("numbers", [(0.3, 1.1e-30), (0.3, -0.3), (1.3e-25, 1.7e-25)])
def test_divisors_of_which_nothing_is_known_stay(numbers: tuple[float, ...]) -> None:
    """Where the quotient is rounded, those that are far from 1 stay in the text; of either sign are two programs."""
    assert programs(share_numbers(plan_of(*(f"round(X[i]/{n})" for n in numbers)))) == 2
    assert programs(share_numbers(plan_of(*(f"X[i]/{n}" for n in numbers)))) == 1


@pytest.mark.parametrize(("form", "told"), [("round(X[i]/{})", True), ("X[i]/{}", False), ("round(1 + X[i]/{})", False)])
def test_what_is_rounded_says_between_what_its_divisor_lies(form: str, told: bool) -> None:
    after = share_numbers(plan_of(form.format(0.3), form.format(0.7)))
    assert ("clamp(" in str(after.calls[0].program)) == told


@pytest.mark.parametrize(("form", "numbers"), [
    ("pow(X[i], {})", (0.3, 0.7)), ("X[i]*{}", (3.0, 5.0)), ("X[i]/{}", (0.5, 0.25)), ("X[i]*{}", (0.3, 2.0)),
    ("max(X[i], {})", (0.3, 0.7)), ("clamp(X[i], 0, {})", (0.3, 0.7)), ("X[i] < {} ? 1.0 : 2.0", (0.3, 0.7)),
    ("X[i]*{}", (math.inf, 0.3)), ("f32(i32(u8(X[i]))*(i32(u8(X[i])) - i32(u8({}))))", (7, 9))])
def test_what_a_number_decides_stays(form: str, numbers: Sequence[float]) -> None:
    """Exponents, whole numbers, powers of two, ends of ranges, conditions; a division by a power of two is a product, and a
    product of integers may be one of bytes."""
    before = plan_of(*(form.format(n) for n in numbers))
    assert share_numbers(before) == before


def test_numbers_that_all_agree_on_stay() -> None:
    after = share_numbers(plan_of("X[i]*0.3 + 0.01", "X[i]*0.7 + 0.01"))
    assert programs(after) == 1
    assert "0.01" in str(after.calls[0].program)
    assert [len(c.inputs) for c in after.calls] == [2, 2]


@pytest.mark.parametrize("dtype", [F16, F64])
def test_other_types(dtype: DType) -> None:
    before = plan_of("X[i]*0.3", "X[i]*0.7", dtype=dtype)
    after, x = share_numbers(before), R.standard_normal(8).astype(dtype.numpy)
    assert programs(after) == 1
    for a, b in zip(results(before, x), results(after, x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_names_that_are_taken() -> None:
    plan = plan_of("X[i]*0.3", "X[i]*0.7")
    plan = replace(plan, types={**plan.types, "number_0.3": Array(F32, ())}, constants={"number_0.3": np.float32(5)})
    after = share_numbers(plan)
    assert after.constants["number_0.3"] == 5
    np.testing.assert_array_equal(results(after, np.ones(8, np.float32))[0], np.full(8, np.float32(.3)))


def quantised(build, zeros: Sequence[int], kind: type = np.uint8) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Convolutions of bytes, each with scales and zero points of its own, which a QuantizeLinear cuts off."""
    nodes, last = [N("QuantizeLinear", ["x", "s", "z"], ["q"])], "q"
    constants: dict[str, np.ndarray] = {"s": np.float32(.021), "z": kind(zeros[0]), "t": np.float32(.017), "v": np.int8(0)}
    for k, zero in enumerate(zeros[1:]):
        constants |= {f"u{k}": np.float32(.011 + .002 * k), f"z{k}": kind(zero),
                      f"w{k}": R.integers(-9, 9, (4, 4, 1, 1)).astype(np.int8)}
        before = ("s", "z") if k == 0 else (f"u{k - 1}", f"z{k - 1}")
        nodes += [N("DequantizeLinear", [last, *before], [f"d{k}"]), N("DequantizeLinear", [f"w{k}", "t", "v"], [f"e{k}"]),
                  N("Conv", [f"d{k}", f"e{k}"], [f"c{k}"]),
                  N("QuantizeLinear", [f"c{k}", f"u{k}", f"z{k}"], [f"q{k}"])]
        last = f"q{k}"
    return build(nodes, {"x": (np.float32, [1, 4, 9, 9])}, [last], constants), {
        "x": R.standard_normal((1, 4, 9, 9)).astype(np.float32)}


@pytest.mark.part(2)
@pytest.mark.parametrize(("zeros", "kind"), [
    ((3, 114, 127, 90), np.uint8), ((3, 255, 0, 1), np.uint8), ((-3, 7, -128, 127), np.int8)])
def test_scales_and_zero_points(build, runtime, zeros: Sequence[int], kind: type) -> None:
    model, feeds = quantised(build, zeros, kind)
    before, after = planned(model)
    assert programs(after) < programs(before)
    (expected,) = runtime(model, feeds)
    for target in ("cpu", "interp", "evaluate"):
        found = polytc.load_onnx(model).compile(target=target).run(None, feeds)[0]
        assert found.dtype == kind
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
        assert np.mean(found != expected) < .01


def test_a_number_in_one_is_an_input_in_another(build, runtime) -> None:
    """Two programs of one form, of which one has a zero point as a number and one reads it."""
    r = np.random.default_rng(3)
    feeds = {"a": r.integers(-60, 60, (8, 2)).astype(np.int8), "b": r.integers(-60, 60, (8, 2)).astype(np.int8),
             "z": np.array(5, np.int8)}
    nodes = [helper.make_node("DequantizeLinear", ["a", "s", "zero"], ["c"]),
             helper.make_node("DequantizeLinear", ["b", "s", "z"], ["d"]),
             helper.make_node("MatMul", ["c", "t"], ["e"]), helper.make_node("MatMul", ["d", "t"], ["f"])]
    table = r.normal(size=(2, 3)).astype(np.float32)
    model = build(nodes, feeds, ["e", "f"], {"s": np.float32(0.034), "zero": np.int8(89), "t": table})
    for mine, other in zip(polytc.load_onnx(model).compile(threads=1).run(None, feeds), runtime(model, feeds), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
