"""Formulas of sizes in native code: what Python computes."""

from __future__ import annotations

import ctypes
import random

import pytest

from polytc.native import jit, linking
from polytc.program.scalars import DTYPES
from polytc.program.traces import formulas as F
from polytc.targets.llvm.standalone.formulas import FLOOR, Formulas

NAMES = ("a", "b")


def some(chance: random.Random, depth: int = 3) -> F.Terms:
    """A random formula."""
    if depth == 0:
        return F.constant(chance.randint(-9, 9)) if chance.random() < .4 else (((chance.choice(NAMES),), 1),)
    x, y = some(chance, depth - 1), some(chance, depth - 1)
    kind = chance.randrange(4)
    if kind == 3 and y:
        return F.divide(x, y)
    return F.add(x, y, chance.choice([1, -1, 3])) if kind < 2 else F.multiply(x, y)


def native(lines: Formulas, result: str) -> ctypes.CFUNCTYPE:
    """A function of the array of sizes."""
    loads = "".join(f"  %s{k}.p = getelementptr i64, ptr %sizes, i64 {k}\n  %s{k} = load i64, ptr %s{k}.p\n" for k in range(2))
    text = f"{FLOOR}define i64 @f(ptr %sizes) {{\n{loads}{''.join(lines.lines)}  ret i64 {result}\n}}\n"
    code = linking.Code(jit.build(text, *jit.host(), jit.Tuning(slp=False, vectorize=False, level=2)))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address("f"))
    function.kept = code
    return function


def at(function: ctypes.CFUNCTYPE, sizes: dict[str, int]) -> int:
    found: int = function(ctypes.addressof((ctypes.c_int64 * 2)(*(sizes[n] for n in NAMES))))
    return found


@pytest.mark.part(2)
@pytest.mark.parametrize("seed", range(30))
def test_values_guards_and_intervals(seed: int) -> None:
    chance = random.Random(seed)
    terms, limits = some(chance), {n: tuple(sorted(chance.randint(-8, 12) for _ in range(2))) for n in NAMES}
    guard = terms, chance.choice(["==", "!=", ">", "<="])
    lines = Formulas({n: f"%s{k}" for k, n in enumerate(NAMES)})
    value, met = lines.value(terms), lines.met(guard)
    divides = lines.all(lines.divides())
    both = lines.product([value, "1"])
    of_value = native(lines, both)
    bit = lines._line(f"and i1 {met}, {divides}")
    of_guard = native(lines, lines._line(f"zext i1 {bit} to i64"))
    points = [{n: chance.randint(*limits[n]) for n in NAMES} for _ in range(40)]
    for sizes in points:
        try:
            wanted = F.evaluated(terms, sizes)
        except ZeroDivisionError:
            assert at(of_guard, sizes) == 0
            continue
        assert at(of_value, sizes) == wanted, sizes
        assert at(of_guard, sizes) == F.holds(guard, sizes), sizes
        assert abs(wanted) <= F.magnitude(terms, limits)
        if F.always(guard, limits):
            assert F.holds(guard, sizes)
    try:
        low, high = F.interval(terms, limits)
    except ZeroDivisionError:
        return
    assert all(low <= F.evaluated(terms, sizes) <= high for sizes in points)


@pytest.mark.parametrize(("dtype", "number", "bits"), [
    ("i64", -3, -3), ("i32", -3, 2**32 - 3), ("u8", 200, 200), ("bool", 7, 1), ("bool", 0, 0), ("f32", 3, 0x40400000),
    ("f64", -2, -0x4000000000000000)])
def test_elements(dtype: str, number: int, bits: int) -> None:
    lines = Formulas({n: f"%s{k}" for k, n in enumerate(NAMES)})
    value, kind = lines.converted((((NAMES[0],), 1),), DTYPES[dtype])
    size = {"float": 32, "double": 64}.get(kind) or int(kind[1:])
    whole = lines._line(f"bitcast {kind} {value} to i{size}")
    found = lines._line(f"zext i{size} {whole} to i64") if size < 64 else whole
    assert at(native(lines, found), {"a": number, "b": 0}) == bits
