"""Prefetches: the next panel of a large packed operand while tiles of rows use this one, what comes next of one used once."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.codegen import prefetch
from polytc.compiler import Lowered, compile_program, lower_program
from polytc.lang import build
from polytc.machine import AVX2, AVX512, DEVICES, GENERIC_GPU, Machine
from polytc.program.program import Program
from polytc.program.scalars import F32
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.codegen.loop_programs import add, load, loop, module

PRODUCT = "C[i,j] += A[i,k]*B[k,j]"
CALL = "call void @llvm.prefetch"
POCL = DEVICES["pocl-cpu"]


def product(rows: int, columns: int, depth: int) -> Program:
    shapes = {"A": (rows, depth), "B": (depth, columns)}
    return replace(build(PRODUCT, shapes, dict.fromkeys(shapes, "f32")), constants=("B",))


def lowered(program: Program, machine: Machine = AVX512) -> Lowered:
    return lower_program(program, LLVMTarget(machine))


@pytest.mark.parametrize("machine", [AVX2, AVX512])
def test_a_large_packed_operand_is_fetched_ahead(machine: Machine) -> None:
    text = lowered(product(128, 768, 768), machine).source.text
    assert CALL in text
    distances = {int(n) for n in re.findall(r"add i64 %\S+, (\d+)\n\s+%\S+ = getelementptr i8", text)}
    assert distances
    assert all(n % 64 == 0 and n >= 8 << 10 for n in distances)


@pytest.mark.parametrize("rows", [1, 4, 9])
def test_an_operand_that_is_used_once_is_fetched_some_kilobytes_ahead(rows: int) -> None:
    text = lowered(product(rows, 1024, 1024)).source.text
    assert CALL in text
    assert {int(n) for n in re.findall(r"getelementptr i8, ptr %\S+, i64 (\d+)", text)} >= {prefetch.DISTANCE}


@pytest.mark.parametrize("program", [
    product(128, 64, 64),                                                      # stays in the cache
    product(8, 256, 768),                                                      # used once, and stays in the cache
])
def test_others_are_not(program: Program) -> None:
    assert CALL not in lowered(program).source.text


def test_panels_are_fetched_ahead_where_the_number_of_rows_is_open() -> None:
    program = polytc.lower(PRODUCT, shapes={"A": ("M", 768), "B": (768, 768)}).program
    text = lowered(replace(program, constants=("B",))).source.text
    assert CALL in text
    assert re.search(r"udiv i64 \d+, %", text), "the lines of a panel are shared out among the tiles that there are"
    short = polytc.lower(PRODUCT, shapes={"A": ("M", 64), "B": (64, 64)}).program
    assert CALL not in lowered(replace(short, constants=("B",))).source.text


def panels(turns: int, width: int) -> L.Module:
    """Tiles of rows 2 to 2 + turns that use panels of 3 x 50 vectors."""
    b, c, lanes = L.Buffer("B", F32, (64, 3, 50, width)), L.Buffer("C", F32, (32, width)), L.Ramp(L.const(0), 1, width)
    read = load(b, L.Var("p"), L.Var("r"), L.Var("k"), lanes, lanes=width)
    inner = loop("k", 50, L.Store(c, (L.Var("t"), lanes), add(load(c, L.Var("t"), lanes, lanes=width), read)))
    rows = replace(loop("t", 2 + turns, loop("r", 3, inner)), lower=L.const(2))
    return module("panels", (b, c), ("C",), loop("p", 64, rows))


@pytest.mark.parametrize("turns", [2, 3, 5, 7, 16])
@pytest.mark.parametrize("width", [16, 32, 48])
def test_all_lines_of_the_next_panel_are_fetched_in_their_order(turns: int, width: int) -> None:
    steps, first = (3, 50), 2
    around = panels(turns, width).kernels[0].body
    assert isinstance(around, L.For)
    rows = around.body
    assert isinstance(rows, L.For)
    ahead, = prefetch.plan(rows, (around,), frozenset("C"), AVX512)
    assert ahead.distance == steps[0] * steps[1] * width
    fetched: list[int] = []
    for t, r, k in itertools.product(range(first, first + turns), range(steps[0]), range(steps[1])):
        values = {"t": t, "r": r, "k": k}
        passed = ahead.passed.constant + sum(x * values[v.name] for v, x in ahead.passed.terms if isinstance(v, L.Var))
        line = passed * ahead.rate >> prefetch.SHIFT
        fetched += range(line, line + ahead.each)
    lines = range(ahead.distance * 4 // prefetch.LINE)
    assert {*fetched} >= {*lines}
    assert max(fetched) < len(lines) + ahead.each
    assert [*dict.fromkeys(fetched)] == sorted({*fetched})


@pytest.mark.part(2)
@pytest.mark.parametrize(("rows", "columns", "depth"), [(128, 768, 768), (37, 1000, 515), (3, 1000, 777)])
def test_results(rows: int, columns: int, depth: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((rows, depth), (depth, columns)))
    c = np.empty((rows, columns), np.float32)
    compile_program(product(rows, columns, depth), "cpu", 2).run([a, b, c])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)


def test_each_nest_below_the_rows_has_its_own() -> None:
    """Two loops of one name, of which only one is inside of a third: what is fetched in one must not name the other's loops."""
    a, b, c = L.Buffer("A", F32, (64, 256, 16)), L.Buffer("B", F32, (512, 256, 16)), L.Buffer("C", F32, (8, 16))
    lanes = L.Ramp(L.const(0), 1, 16)

    def step(read: L.Load) -> L.Store:
        return L.Store(c, (L.Var("t"), lanes), add(load(c, L.Var("t"), lanes, lanes=16), read))

    first = loop("u", 64, loop("k", 256, step(load(a, L.Var("u"), L.Var("k"), lanes, lanes=16))))
    second = loop("k", 256, step(load(b, L.const(3), L.Var("k"), lanes, lanes=16)))
    m = module("two", (a, b, c), ("C",), loop("t", 8, L.Block((first, second))))
    assert LLVMTarget(AVX512).emit(m).text.count(CALL) == 2


@pytest.mark.parametrize(("turns", "width"), [(2, 16), (5, 32), (16, 16)])
def test_the_same_lines_in_opencl(turns: int, width: int) -> None:
    text = OpenCLTarget(POCL).emit(panels(turns, width)).text
    offsets = [o.replace("/", "//") for o in re.findall(r"polytc_fetch\(B \+ (.*)\);", text)]
    panel, p = 150 * width, 5
    fetched = [eval(o, {"p": p, "t": t, "r": r, "k": k})
               for t, r, k in itertools.product(range(2, 2 + turns), range(3), range(50)) for o in offsets]
    assert {n - (p + 1) * panel for n in fetched} >= {*range(0, panel, 16)}
    assert min(fetched) >= (p + 1) * panel
    assert max(fetched) < (p + 2) * panel + 16


@pytest.mark.parametrize(("machine", "rows", "many"), [(POCL, 4096, True), (POCL, 64, False), (GENERIC_GPU, 4096, False)])
def test_opencl_fetches_ahead_on_processors_what_no_cache_holds(machine: Machine, rows: int, many: bool) -> None:
    program = build("y[i] += x[i,j]", {"x": (rows, 1024)}, {"x": "f32"})
    text = lower_program(program, OpenCLTarget(machine)).source.text
    assert ("polytc_fetch(x + i * 1024 + j_q * 64 + 2048);" in text) == many


def transposed(rows: int, columns: int) -> Program:
    return build("Y[j,i] = X[i,j]", {"X": (rows, columns)}, {"X": "f32"})


def test_lines_far_apart_are_fetched_before_they_are_written() -> None:
    """In each iteration those to which the next one stores."""
    text = lower_program(transposed(2000, 3000), OpenCLTarget(AVX512)).source.text
    loop = re.search(r"for \(int (\w+) = 0; \w+ < 4; \+\+\w+\) \{\n(\s+polytc_fetch_to_write[^}]*->v[^}]*)\}", text, re.DOTALL)
    assert loop is not None
    fetched, stored = (re.findall(rf"{start}\(Y \+ (.*?)\){end}", " ".join(loop[2].split()))
                       for start, end in (("polytc_fetch_to_write", ";"), (r"\*\)", r"\)->v")))
    assert len(fetched) == len(stored) == 16
    names = {n: 3 + k for k, n in enumerate(sorted(set(re.findall(r"[a-z]\w*", "".join(fetched)))))}
    later = {**names, loop[1]: names[loop[1]] + 1}
    assert sorted(eval(e, names) for e in fetched) == sorted(eval(e, later) for e in stored)


@pytest.mark.part(2)
@pytest.mark.parametrize(("program", "many"), [
    (transposed(2000, 3000), True), (transposed(1504, 1504), True),
    (transposed(400, 400), False),                                             # stays in the cache
    (transposed(2048, 2048), False),                                           # rows share few places of the first cache
    (build("Y[j,i,k] = X[i,k,j]", {"X": (1000, 64, 65)}, {"X": "f32"}), False),  # other rows come next
    (build("Y[i,j] = X[i,j] * 2", {"X": (2000, 3000)}, {"X": "f32"}), False),
])
def test_only_what_comes_next_and_finds_a_place_is_fetched(program: Program, many: bool) -> None:
    assert bool(re.search(rf"{CALL}.*i32 1, i32 3", lowered(program).source.text)) == many
