"""Pieces of OpenCL C: functions on vectors, halves in memory, private vectors, named loads, loops for a faulty driver."""

from __future__ import annotations

import re

import pytest

from polytc.codegen import loops as L
from polytc.program.scalars import F32, F64, I32, U8, DType
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.opencl import workarounds
from polytc.targets.opencl.emit import emit
from polytc.targets.opencl.language import OPENCL
from polytc.targets.opencl.memory import Place
from tests.codegen import loop_programs as P

HELPERS = {"div": (I32, "int"), "rem": (I32, "int"), "floordiv": (I32, "int"), "mod": (I32, "int"), "udiv": (U8, "uchar"),
           "urem": (U8, "uchar"), "ffloordiv": (F32, "float"), "fmodulo": (F64, "double"), "shl": (I32, "int"),
           "shr": (I32, "int"), "ushr": (U8, "uchar"), "ipow": (I32, "int"), "upow": (U8, "uchar"), "min": (F32, "float"),
           "max": (F64, "double"), "sign": (F32, "float"), "isign": (I32, "int"), "toulong": (F32, "float")}


@pytest.mark.parametrize("lanes", [1, 2, 16])
@pytest.mark.parametrize("name", HELPERS)
def test_functions_take_and_give_vectors_of_their_type(name: str, lanes: int) -> None:
    dtype: DType
    dtype, scalar = HELPERS[name]
    preamble = Preamble(OPENCL)
    spelled = preamble.helper(name, dtype, lanes)
    (head,) = re.findall(rf"static inline (\w+) {spelled}\((.*)\)", str(preamble))
    of, width = ("ulong" if name == "toulong" else scalar), str(lanes) if lanes > 1 else ""
    unary = name in ("sign", "isign", "toulong")
    assert head == (f"{of}{width}", f"{scalar}{width} a" + ("" if unary else f", {scalar}{width} b"))
    body = str(preamble).split(spelled)[1]
    assert f"return ({of}{width})(" in body or lanes == 1 or name in ("min", "max", "sign")


@pytest.mark.parametrize(("half", "lanes", "load", "store"), [
    ("f16", 1, "vload_half(k, X)", "vstore_half(v, k, X);"), ("f16", 4, "vload_half4(0, X + k)", "vstore_half4(v, 0, X + k);"),
    ("bf16", 1, "as_float((uint)X[k] << 16)", "X[k] = (ushort)(as_uint(v) >> 16);"),
    ("bf16", 4, "as_float4(convert_uint4(vload4(0, X + k)) << 16)", "vstore4(convert_ushort4(as_uint4(v) >> 16), 0, X + k);")])
def test_halves_in_memory(half: str, lanes: int, load: str, store: str) -> None:
    place = Place("X", "half" if half == "f16" else "ushort", "global", 0, half=half)
    assert (place.load_half("k", lanes), place.store_half("k", lanes, "v")) == (load, store)


@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_private_arrays_of_whole_vectors_are_arrays_of_vectors(lanes: int) -> None:
    x, y, t = L.Buffer("x", F32, (2 * lanes,)), L.Buffer("y", F32, (2 * lanes,)), L.Buffer("t", F32, (2 * lanes,), "private")

    def whole(k: int) -> L.Expr:
        return L.Ramp(L.const(k * lanes), 1, lanes)

    copy = [L.Store(t, (whole(k),), P.load(x, whole(k), lanes=lanes)) for k in (0, 1)]
    held = [P.load(t, whole(k), lanes=lanes) for k in (0, 1)]
    back = [L.Store(y, (whole(k),), P.add(held[1 - k], held[k])) for k in (0, 1)]
    text = emit(P.module("m", (x, y), ("y",), P.loop("b", 1, L.Alloc(t, L.block(*copy, *back)), "block"))).text
    assert f"float{lanes} t[2];" in text
    assert text.count("t[1] + t[0]") == text.count("t[0] + t[1]") == 1
    assert "t[0]." not in text


@pytest.mark.parametrize("narrow", [0, 1, 2])
def test_private_arrays_with_other_loads_are_arrays_of_numbers(narrow: int) -> None:
    """Of half a vector, of vectors between two, of an element that a variable chooses."""
    x, y, t = L.Buffer("x", F32, (8,)), L.Buffer("y", F32, (8,)), L.Buffer("t", F32, (8,), "private")
    copy = [L.Store(t, (L.Ramp(L.const(k), 1, 4),), P.load(x, L.Ramp(L.const(k), 1, 4), lanes=4)) for k in (0, 4)]
    at, there = [(L.Ramp(L.const(4), 1, 2), L.Ramp(L.const(0), 1, 2)), (L.Ramp(L.const(2), 1, 4), L.Ramp(L.const(0), 1, 4)),
                 (L.Var("k"), L.Var("k"))][narrow]
    back = L.Store(y, (there,), P.load(t, at, lanes=at.lanes))
    body = L.Alloc(t, L.block(*copy, P.loop("k", 8, back) if narrow == 2 else back))
    text = emit(P.module("m", (x, y), ("y",), P.loop("b", 1, body, "block"))).text
    assert "float t[8];" in text
    assert "float4 t" not in text


@pytest.mark.parametrize("sure", [False, True])
def test_loads_that_statements_share_are_named_only_if_all_perform_them(sure: bool) -> None:
    """What a condition guards lies outside of the array else."""
    x, y, z = L.Buffer("x", F32, (40,)), L.Buffer("y", F32, (64,)), L.Buffer("z", F32, (64,))
    i, one = L.Var("i"), L.Const(1.0, F32)
    at = P.add(i, L.const(-8))
    inside = P.all_of(L.binary(">=", at, L.const(0)), P.less(at, 40))
    value: L.Expr = P.load(x, L.binary("%", i, L.const(40))) if sure else L.Select(inside, P.load(x, at), one, F32)
    body = L.block(L.Store(y, (i,), P.add(value, one)), L.Store(z, (i,), P.mul(value, value)))
    text = emit(P.module("m", (x, y, z), ("y", "z"), P.loop("i", 64, body, "parallel"))).text
    assert ("const float x_value = x[" in text) == sure
    for line in text.splitlines():
        assert sure or "x[" not in line or "?" in line


def test_only_loops_inside_of_those_whose_remainders_count_are_rolled() -> None:
    """That driver computes others rightly, unrolled or not."""
    t, y = L.Buffer("t", F32, (2,), "private"), L.Buffer("y", F32, (64,))

    def kinds(stored: L.Expr) -> dict[str, str]:
        inner = P.loop("k", 8, L.Store(y, (L.Var("k"),), L.Const(1.0, F32)))
        first = P.loop("m", 8, L.block(inner, L.Store(t, (stored,), L.Const(0.0, F32))))
        last = P.loop("n", 8, L.Store(y, (L.Var("n"),), L.Const(1.0, F32)), "unroll")
        m = P.module("m", (y,), ("y",), L.Alloc(t, L.block(first, last)))
        body = workarounds.work_around(m.kernels[0], frozenset({"carried"})).body
        return {s.var: s.kind for s in P.traverse.walk_stmt(body) if isinstance(s, L.For)}

    assert kinds(L.binary("%", L.Var("m"), L.const(2))) == {"m": "sequential", "k": "rolled", "n": "unroll"}
    assert kinds(L.const(1)) == {"m": "sequential", "k": "sequential", "n": "unroll"}


@pytest.mark.parametrize(("place", "added", "kind"), [
    (L.binary("-", L.const(7), L.Var("m")), True, "rolled"), (L.binary("-", L.const(7), L.Var("m")), False, "sequential"),
    (L.Var("m"), True, "sequential")])
def test_loops_inside_of_one_that_adds_up_backwards_are_rolled(place: L.Expr, added: bool, kind: str) -> None:
    y, x = L.Buffer("y", F32, (8,)), L.Buffer("x", F32, (8,))
    value: L.Expr = L.Load(x, (L.Var("k"),), F32)
    value = L.binary("+", L.Load(y, (place,), F32), value) if added else value
    m = P.module("m", (x, y), ("y",), P.loop("m", 8, P.loop("k", 8, L.Store(y, (place,), value))))
    body = workarounds.work_around(m.kernels[0], frozenset({"carried"})).body
    assert {s.var: s.kind for s in P.traverse.walk_stmt(body) if isinstance(s, L.For)} == {"m": "sequential", "k": kind}
