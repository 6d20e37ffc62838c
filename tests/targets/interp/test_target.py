"""The interpreter target: numpy's semantics, checked accesses, work-items that meet at barriers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from polytc.codegen import loops as L
from polytc.codegen.target import Executable
from polytc.errors import TargetError
from polytc.functions.numbers import FUNCTIONS
from polytc.program.scalars import BOOL, F32, F64, I32, I64, REAL, DType
from polytc.targets.interp import InterpTarget, support
from tests.codegen import loop_programs as P
from tests.targets import numpy_semantics as S

RNG = np.random.default_rng(0)


def interp(m: L.Module) -> Executable:
    target = InterpTarget()
    return target.load(target.build(target.emit(m)), 1)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.part(4)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", REAL.values(), ids=str)
def test_every_operation_is_numpys(dtype: DType, lanes: int) -> None:
    m, which = P.elementwise(dtype, lanes, 64)
    inputs = {x: P.samples(dtype, 64, seed) for seed, x in enumerate("abc")}
    outputs = P.run(interp(m), m, inputs)
    for (kind, name), got in zip(which, outputs.values(), strict=True):
        want, defined = S.expected(kind, name, dtype, *inputs.values()), S.defined(kind, name, dtype, inputs["a"])
        S.assert_agrees(got[defined], want[defined], S.places(name, 4), f"{kind} {name} of {dtype}")


@pytest.mark.parametrize("m", [P.matmul(5, 6, 7), P.tiled_matmul(6, 3), P.vector_matmul(4, 8, 5, 2, 4)], ids=lambda m: m.name)
def test_matmuls(m: L.Module) -> None:
    a, b = (floats(*buffer.shape) for buffer in m.args[:2])
    got = P.run(interp(m), m, {"A": a, "B": b})["C"]
    np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)


def test_source_is_the_printed_loops() -> None:
    m = P.matmul(2, 2, 2)
    source = InterpTarget().emit(m)
    assert str(source) == f"{m}\n"
    assert source.launches[0].args == ("A", "B", "C")


@pytest.mark.parametrize("index", [-1, 4])
def test_access_outside_of_a_buffer_is_an_error(index: int) -> None:
    x, y = L.Buffer("x", F32, (4,)), L.Buffer("y", F32, (1,))
    m = P.module("oob", (x, y), ("y",), L.Store(y, (L.const(0),), P.load(x, L.const(index))))
    with pytest.raises(TargetError, match=rf"x\[{index}\]' lies outside") as info:
        P.run(interp(m), m, {"x": floats(4)})
    assert info.value.code == "E520"
    assert info.value.notes == ("dimension 0 has the coordinates 0 to 3",)


def test_vector_access_outside_of_a_buffer_is_an_error() -> None:
    x, y = L.Buffer("x", F32, (6,)), L.Buffer("y", F32, (4,))
    m = P.module("oob", (x, y), ("y",),
                 L.Store(y, (L.Ramp(L.const(0), 1, 4),), P.load(x, L.Ramp(L.const(3), 1, 4), lanes=4)))
    with pytest.raises(TargetError, match="E520"):
        P.run(interp(m), m, {"x": floats(6)})


@pytest.mark.parametrize(("base", "stride", "inside"), [
    (0, 1, True), (5, 1, True), (6, 1, False), (-1, 1, False), (0, 2, True), (1, 2, True), (2, 2, True), (3, 2, False),
    (5, -2, False), (6, -2, True)])
@pytest.mark.parametrize("stored", [False, True])
def test_vectors_along_memory(base: int, stride: int, inside: bool, stored: bool) -> None:
    """All of their coordinates lie in the buffer, or an error says which do not; what was loaded does not change later."""
    x, y = L.Buffer("x", F32, (9,)), L.Buffer("y", F32, (9,))
    four, ramp = L.Ramp(L.const(0), 1, 4), L.Ramp(L.const(base), stride, 4)
    places = (ramp, four) if stored else (four, ramp)
    m = P.module("strip", (x, y), ("y",), L.Store(y, (places[0],), L.Load(x, (places[1],), F32, 4)))
    given = {"x": np.arange(9, dtype=np.float32) + 1}
    if not inside:
        with pytest.raises(TargetError, match="E520"):
            P.run(interp(m), m, given)
        return
    got, at = P.run(interp(m), m, given)["y"], [base + stride * n for n in range(4)]
    np.testing.assert_array_equal(got[at] if stored else got[:4], [1, 2, 3, 4] if stored else given["x"][at])


def test_write_to_a_read_buffer_is_an_error() -> None:
    x = L.Buffer("x", F32, (4,))
    m = L.Module("bad", (x,), (), (), (L.Kernel("k", (x,), (), L.Store(x, (L.const(0),), L.Const(1.0, F32))),))
    with pytest.raises(TargetError, match="E521"):
        interp(m).run([floats(4)])


def test_fresh_memory_is_not_zero() -> None:
    t, y = L.Buffer("t", F32, (4,), "private"), L.Buffer("y", F32, (1,))
    m = P.module("fresh", (y,), ("y",), L.Alloc(t, L.Store(y, (L.const(0),), P.load(t, L.const(2)))))
    assert np.isnan(P.run(interp(m), m, {})["y"]).all()


def test_fresh_numbers_and_flags_are_none_that_programs_have() -> None:
    """Large odd patterns of integers; flags that are set, and are 1 in memory as all flags."""
    assert [int(support.poison((2,), np.dtype(f"i{n}"))[1]) for n in (1, 4)] == [0x5A, 0x5A5A5A5A]
    assert list(support.poison((3,), np.dtype(bool)).view(np.uint8)) == [1, 1, 1]


def test_scratch_passes_values_between_kernels() -> None:
    x, t, y = (L.Buffer(n, F64, (5,)) for n in "xty")
    i = L.Var("i")
    m = P.module("two", (x, y), ("y",), P.loop("i", 5, L.Store(t, (i,), P.add(P.load(x, i), P.load(x, i)))),
                 P.loop("i", 5, L.Store(y, (i,), P.mul(P.load(t, i), P.load(t, i)))), scratch=(t,))
    x0 = RNG.standard_normal(5)
    np.testing.assert_array_equal(P.run(interp(m), m, {"x": x0})["y"], (2 * x0) ** 2)


def test_guarded_load_is_not_performed() -> None:
    x, y = L.Buffer("x", F32, (4,)), L.Buffer("y", F32, (6,))
    at = P.add(L.Var("i"), L.const(-1))
    inside = P.all_of(L.binary(">=", at, L.const(0)), P.less(at, 4))
    value = L.Select(inside, P.load(x, at), L.Const(9.0, F32), F32)
    m = P.module("pad", (x, y), ("y",), P.loop("i", 6, L.Store(y, (L.Var("i"),), value)))
    x0 = floats(4)
    np.testing.assert_array_equal(P.run(interp(m), m, {"x": x0})["y"], np.pad(x0, 1, constant_values=9))


def test_private_memory_belongs_to_a_work_item_across_thread_loops() -> None:
    y, p, t = L.Buffer("y", I32, (2, 4)), L.Buffer("p", I32, (), "private"), L.Var("t")
    first = P.loop("t", 4, L.Store(p, (), L.Cast(t, I32)), "thread")
    second = P.loop("t", 4, L.Store(y, (L.Var("b"), t), P.load(p)), "thread")
    m = P.module("private", (y,), ("y",), P.loop("b", 2, L.Alloc(p, L.block(first, L.Barrier(), second)), "block"))
    np.testing.assert_array_equal(P.run(interp(m), m, {})["y"], [[0, 1, 2, 3]] * 2)


def test_group_writes_once_outside_of_its_thread_loops() -> None:
    y, s, t = L.Buffer("y", I32, (1,)), L.Buffer("s", I32, (4,), "local"), L.Var("t")
    work = P.loop("t", 4, L.Store(s, (t,), L.Const(1, I32)), "thread")
    bump = L.Store(y, (L.const(0),), P.add(P.load(y, L.const(0)), P.load(s, L.const(3))))
    m = P.module("once", (y,), ("y",), P.loop("b", 3, L.Alloc(s, L.block(work, L.Barrier(), bump)), "block"))
    assert P.run(interp(m), m, {})["y"] == 3


def test_divergent_barrier_is_refused() -> None:
    y, t = L.Buffer("y", I32, (4,)), L.Var("t")
    body = P.loop("t", 4, L.block(L.If(P.less(t, 2), L.Barrier()), L.Store(y, (t,), L.Const(1, I32))), "thread")
    m = P.module("bad", (y,), ("y",), body)
    with pytest.raises(TargetError, match="E511"):
        interp(m)


def test_kernel_and_buffer_names_may_be_python_words() -> None:
    x, y = L.Buffer("lambda", F32, (2,)), L.Buffer("int", F32, (2,))
    m = P.module("class", (x, y), ("int",), P.loop("range", 2, L.Store(y, (L.Var("range"),), P.load(x, L.Var("range")))))
    x0 = floats(2)
    np.testing.assert_array_equal(P.run(interp(m), m, {"lambda": x0})["int"], x0)


def test_bind_sees_new_contents() -> None:
    m = P.matmul(3, 3, 3)
    a, b, c = floats(3, 3), floats(3, 3), np.zeros((3, 3), np.float32)
    call = interp(m).bind([a, b, c])
    a[:] = np.eye(3)
    call()
    np.testing.assert_allclose(c, b, rtol=1e-6)


def test_fma_rounds_once() -> None:
    x, y = L.Buffer("x", F64, (3,)), L.Buffer("y", F64, (1,))
    args = tuple(P.load(x, L.const(k)) for k in range(3))
    m = P.module("fma", (x, y), ("y",), L.Store(y, (L.const(0),), L.Call("fma", args, F64)))
    x0 = np.array([1 + 2.0**-30, 1 - 2.0**-30, -1.0])
    assert P.run(interp(m), m, {"x": x0})["y"] == -(2.0**-60)

def test_fma_of_f32_rounds_once() -> None:
    """Sums so near to the middle of two numbers that f64 takes them for it: the product is 2**-24 and a little less or more."""
    one = 2.0**-23
    less = (1 + one, (1 - one) * 2.0**-24)
    more = ((2.0**23 - 2.0**12 + 1) * one, (2.0**23 + 2.0**12 + 1) * one * 2.0**-24)
    rows = np.array([(x * sign, y, z * other) for x, y in (less, more) for z in (1.0, 1 + one, 1 + 2 * one)
                     for sign in (1, -1) for other in (1, -1)])
    a, b, c = rows.astype(np.float32).T
    for x, y, z, found in zip(a, b, c, FUNCTIONS["fma"](a, b, c), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        others = np.nextafter(found, np.float32([-np.inf, np.inf]))
        assert abs(Fraction(float(found)) - exact) < min(abs(Fraction(float(n)) - exact) for n in others), (x, y, z, found)
    assert FUNCTIONS["fma"](np.float32(2), np.float32(3), np.float32(4)) == 10
    with np.errstate(over="ignore"):
        assert FUNCTIONS["fma"](np.float32(3e38), np.float32(2), np.float32(1)) == np.inf


@pytest.mark.parametrize("lanes", [1, 4])
def test_constants_of_every_kind(lanes: int) -> None:
    numbers = [np.nan, np.inf, -np.inf, -0.0, 1e-45, 0.1]
    y = L.Buffer("y", F32, (len(numbers), lanes))
    at = L.const(0) if lanes == 1 else L.Ramp(L.const(0), 1, lanes)
    stores = [L.Store(y, (L.const(k), at), L.Const(x, F32, lanes)) for k, x in enumerate(numbers)]
    m = P.module("m", (y,), ("y",), L.block(*stores))
    got, want = P.run(interp(m), m, {})["y"], np.array(numbers, np.float32)
    np.testing.assert_array_equal(got, np.repeat(want[:, None], lanes, 1))
    assert np.array_equal(np.signbit(got[:, 0]), np.signbit(want))


def test_vector_select_loads_only_chosen_lanes() -> None:
    x, y = L.Buffer("x", F32, (5,)), L.Buffer("y", F32, (8,))
    ramp = L.Ramp(L.const(0), 1, 8)
    inside = L.Binary("<", ramp, L.Const(5, I64, 8), BOOL, 8)
    value = L.Select(inside, P.load(x, ramp, lanes=8), L.Const(-1.0, F32, 8), F32, 8)
    m = P.module("tail", (x, y), ("y",), L.Store(y, (ramp,), value))
    x0 = floats(5)
    np.testing.assert_array_equal(P.run(interp(m), m, {"x": x0})["y"], [*x0, -1, -1, -1])


def test_work_items_that_part_at_a_barrier_are_an_error() -> None:
    def item(t: int) -> Iterator[None]:
        if t < 2:
            yield

    with pytest.raises(TargetError, match="2 of 4 work-items") as info:
        support.run_group(item, (4,))
    assert info.value.code == "E522"
