"""Scans that the items of work-groups share: in one kernel and in three, tile after tile, of open sizes; against numpy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from polytc import compiler, decisions
from polytc.codegen.target import Target
from polytc.errors import CompileError
from polytc.lang import evaluate
from polytc.machine import DEVICES, GENERIC_GPU, Machine
from polytc.program.program import Const, Program
from polytc.program.scalars import F32
from polytc.rewrite import parallel_scans, scan_statements
from polytc.rewrite.gpu import scan_shapes, scan_text, scanned_columns, scanned_tiles, work_group_scans
from polytc.rewrite.parallel_scans import Blocks
from polytc.rewrite.tidy import scan
from polytc.stages import build
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.interp.target import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import cuda_here
from tests.rewrite.equal import right_at, small_numbers, with_open_sizes
from tests.rewrite.test_parallel_scans import OPEN, SCANS

GPU = DEVICES["nvidia-sm90"]
FORMS = [(0, (2, 2)), (16, (2, 4)), (64, (4, 2)), (0, (4, 8)), (128, (4, 8))]
"""Elements of a block, and items: one tile or several, one block or several, of rows that end in the middle of one."""
COLUMNS = {
    "columns": SCANS["columns"],
    "one column in a line": "def f(f32[130,33] A) -> (f32[130,33] S) {"
                            " S[0,r] = A[0,r]; for i in 1:130 { S[i,r] = S[i-1,r] + A[i,r] } }",
    "whole columns": "def f(f32[128,8] A) -> (f32[128,8] S) { S[0,r] = A[0,r]; for i in 1:128 { S[i,r] = S[i-1,r] + A[i,r] } }",
    "columns of planes": "def f(i32[3,140,6] A) -> (i32[3,140,6] S) { S[p,i,r] max= A[p,k,r] where k <= i, i in 0:140 }",
    "planes of planes": "def f(i32[140,3,6] A) -> (i32[140,3,6] S) { S[i,p,r] += A[k,p,r] where k <= i, i in 0:140 }",
    "columns, backwards": "def f(inout f32[901,3] P, f32[901,3] v) -> (P) {"
                          " for i in 1:901 { P[900-i,r] = P[901-i,r] + v[i,r] } }",
    "columns without their own": "def f(f64[301,5] A, f64[5] b) -> (f64[301,5] S) {"
                                 " S[0,r] = b[r]; for i in 1:301 { S[i,r] = S[i-1,r] + A[i-1,r] } }",
    "columns from a later one": "def f(inout f32[301,7] S) -> (S) { for i in 1:301 { S[i,r] += S[i-1,r] where r in 2:6 } }",
    "columns of rows": "def f(f32[3,200] A) -> (f32[200,3] S) { S[i,r] += A[r,k] where k <= i, i in 0:200 }",
}
COLUMN_FORMS = [(0, (2, 2)), (0, (4, 8)), (32, (2, 2)), (64, (8, 4))]
"""Columns in one line of items or several, items without a column."""
MORE = {
    "a sum": "def f(f32[301] A) -> (f32[301] S) { S[0] = A[0]; for i in 1:301 { S[i] = S[i-1] + A[i] } }",
    "rows, whole": "def f(f32[3,256] A) -> (f32[3,256] S) { S[r,0] = A[r,0]; for i in 1:256 { S[r,i] = S[r,i-1] + A[r,i] } }",
    "without its own": "def f(f32[301] A) -> (f32[301] S) { S[0] = 7; for i in 1:301 { S[i] = S[i-1] + A[i-1] } }",
    "rows without their own": "def f(f32[5,301] A, f32[5] b) -> (f32[5,301] S) {"
                              " S[r,0] = b[r]; for i in 1:301 { S[r,i] = S[r,i-1] + A[r,i-1] } }",
    "rows from a later one": "def f(inout f32[5,301] S) -> (S) { for i in 1:301 { S[r,i] += S[r,i-1] where r in 2:4 } }",
    "doubles": "def f(f64[301] A) -> (f64[301] S) { S[0] = A[0]; for i in 1:301 { S[i] = S[i-1] + A[i] } }",
    "longs": "def f(i64[301] A) -> (i64[301] S) { S[0] = A[0]; for i in 1:301 { S[i] = max(S[i-1], A[i]) } }",
    "bytes": "def f(u8[301] A) -> (u8[301] S) { S[0] = A[0]; for i in 1:301 { S[i] = S[i-1] * A[i] } }",
    "bits": "def f(i32[301] A) -> (i32[301] S) { S[0] = A[0]; for i in 1:301 { S[i] = S[i-1] | A[i] } }",
    "planes": "def f(f32[3,4,70] A) -> (f32[3,4,70] S) { S[p,r,i] += A[p,r,k] where k <= i, i in 0:70 }",
}


def scanned(program: Program) -> str:
    """The name of the last statement that is a scan."""
    tidy = scan.simplify_prefixes(program)
    return [s.name for s in tidy.statements if scan_statements.scan_of(tidy, s) is not None][-1]


def line(program: Program, elements: int, items: tuple[int, int]) -> str:
    """The record that asks for these groups."""
    head = f"{decisions.HEAD} {decisions.VERSION}\n"
    return f"{head}parallel_scans {scanned(program)}: elements={elements} items={items[0]},{items[1]}\n"


def holds(program: Program, target: Target, schedule: str | None = None) -> compiler.Lowered:
    """Does the target compute what the text says, of small whole numbers? What was lowered."""
    lowered = compiler.lower_program(program, target, schedule)
    given, expected = small_numbers(program), evaluate(program, small_numbers(program))
    arrays = {n: given.get(n, np.zeros(program.tensor(n).shape, program.tensor(n).dtype.numpy)) for n in program.arrays}
    target.load(target.build(lowered.source), 1).run([arrays[n] for n in program.arrays])
    for n in program.outputs:
        np.testing.assert_array_equal(arrays[n], expected[n])
    return lowered


CASES = [(name, form) for name in {**SCANS, **MORE} if name != "columns" for form in FORMS] + [
    (name, form) for name in COLUMNS for form in COLUMN_FORMS]


@pytest.mark.part(51)
@pytest.mark.parametrize(("name", "form"), CASES, ids=str)
def test_groups_scan_as_the_text_says(name: str, form: tuple[int, tuple[int, int]]) -> None:
    """With every access looked at, in one kernel, or three."""
    program = build({**SCANS, **MORE, **COLUMNS}[name])
    tidy = scan.simplify_prefixes(program)
    s = tidy.statement(scanned(program))
    found = scan_statements.scan_of(tidy, s)
    assert found is not None
    if 2 * form[0] > found.along.extent:
        assert parallel_scans.fits(tidy, GPU, Blocks(s.name, *form))
        return
    schedule = line(program, *form)
    lowered = holds(program, InterpTarget(GPU), schedule)
    assert len(lowered.source.launches) == (3 if form[0] else 1)


ON_DEVICES = [(name, form) for name in ("in place", "backwards", "suffixes", "rows without their own", "doubles", "bytes")
              for form in FORMS] + [(name, form) for name in ("columns", "planes of planes", "columns without their own")
                                    for form in COLUMN_FORMS]


@pytest.mark.part(21)
@pytest.mark.parametrize(("name", "form"), ON_DEVICES, ids=str)
def test_on_devices(name: str, form: tuple[int, tuple[int, int]], targets: tuple[str, ...]) -> None:
    program = build({**SCANS, **MORE, **COLUMNS}[name])
    if "opencl" in targets:
        holds(program, OpenCLTarget(GPU), line(program, *form))
    if cuda_here.COMPILER is not None:
        holds(program, cuda_here.CompiledCuda(GPU), line(program, *form))


@pytest.mark.part(39)
@pytest.mark.parametrize("form", [None, (0, (4, 8)), (128, (4, 8))], ids=str)
@pytest.mark.parametrize("name", OPEN)
def test_sizes_that_stay_open(name: str, form: tuple[int, tuple[int, int]] | None) -> None:
    """The last tile of other sizes is a part of one, or empty, or there is none."""
    program = with_open_sizes(OPEN[name], {"n": 1_000_000})
    schedule = line(program, *form) if form is not None else None
    executable = compiler.compile_program(program, InterpTarget(GPU), schedule=schedule)
    for n in (1, 2, 3, 41, 128, 389, 900):
        sizes = {name: n if name == "n" else 2 for name in program.sizes}
        right_at(executable, program, sizes)


def test_an_extent_that_may_be_far_below_0_has_no_groups() -> None:
    program = with_open_sizes("def f(inout f32[n] x) -> (x) { for i in 5000:n { x[i] += x[i-1] } }", {"n": 1_000_000})
    assert not parallel_scans.decide(program, GPU).choices
    assert "takes 4999 elements at once at least" in parallel_scans.fits(program, GPU, Blocks("S1", 0, (4, 8)))
    with pytest.raises(CompileError, match="takes 4999 elements at once"):
        compiler.lower_program(program, InterpTarget(GPU), line(program, 0, (4, 8)))


def chosen(text: str, machine: Machine = GPU) -> tuple[Blocks, ...]:
    """What polytc decides."""
    return parallel_scans.decide(scan.simplify_prefixes(build(text)), machine).choices


def test_what_is_chosen() -> None:
    """Rows and columns as a whole where there are enough of them, else in blocks; by items alone where local memory is slow."""
    sums = "def f(f32[{0},{1}] A) -> (f32[{0},{1}] S) {{ S[r,0] = A[r,0]; for i in 1:{1} {{ S[r,i] = S[r,i-1] + A[r,i] }} }}"
    (rows,), (few,) = chosen(sums.format(4096, 4096)), chosen(sums.format(4, 1 << 22))
    assert rows.elements == 0
    assert rows.items == (16, 16)
    assert few.elements % scanned_tiles.tile_elements((few.items[0], few.items[1])) == 0 != few.elements
    assert chosen(sums.format(9, 40)) == ()
    columns = "def f(inout f32[{0},{1}] x) -> (x) {{ for t in 1:{0} {{ x[t,j] += x[t-1,j] where j in 0:{1} }} }}"
    (many,), (five,) = chosen(columns.format(4096, 4096)), chosen(columns.format(90000, 5))
    assert many.elements == 0 != five.elements
    assert five.items == (8, 32)
    assert [c.items for c in chosen(columns.format(9000, 5), replace(GPU, fast_local_memory=False))] == [()]
    assert [c.items for c in chosen(sums.format(4, 9000), replace(GPU, fast_local_memory=False))] == [()]


@pytest.mark.part(4)
@pytest.mark.parametrize("machine", ["generic-gpu", "nvidia-sm90", "amd-gfx90a", "apple-m1"])
def test_a_group_fits_its_machine(machine: str) -> None:
    """Also of doubles, in what is made."""
    here = DEVICES[machine]
    text = "def f(f64[200000] A) -> (f64[200000] S) { S[0] = A[0]; for i in 1:200000 { S[i] = S[i-1] + A[i] } }"
    target = CudaTarget(here)
    source = compiler.lower_program(build(text), target).source
    assert len(source.launches) == (2 if here.waiting_groups else 3)
    for used in re.findall(r"shared memory (\d+) bytes", source.text):
        assert int(used) <= here.local_bytes


def test_the_kernels_of_a_long_sum() -> None:
    """Loads and stores whose neighbours are neighbouring items', in a tile with longer rows; nothing but the tile is an array
    with places that are not known; no launch for the first element."""
    text = "def f(f32[67108864] A) -> (f32[67108864] S) { S[0] = A[0]; for i in 1:67108864 { S[i] = S[i-1] + A[i] } }"
    source = compiler.lower_program(build(text), CudaTarget(replace(GPU, waiting_groups=False))).source
    assert len(source.launches) == 3
    last = source.text.split('extern "C"')[-1]
    assert re.search(r"__shared__ float S_tile\w*\[256\]\[17\]", last)
    assert re.search(r"S_tile\w*\[item_y \+ 16\]\[item_x\] = A\[.* item_x \+ item_y \* 16 \+ 256\]", last)
    assert re.search(r"\bS\[.* item_x \+ item_y \* 16 \+ 256\] = S_tile\w*\[item_y \+ 16\]\[item_x\]", last)
    assert re.findall(r"S_run\w*\[(?!\d+\])", last) == []
    assert last.count("__syncthreads();") == 6


def f32_within(found: np.ndarray, terms: np.ndarray) -> None:
    """Sums of blocks in order and of their sums are off by a few units of the absolute sums."""
    exact = np.cumsum(terms.astype("f8"), axis=-1)
    room = 64 * 2.0 ** -24 * np.cumsum(np.abs(terms.astype("f8")), axis=-1)
    assert (np.abs(found - exact) <= room).all()


@pytest.mark.part(2)
@pytest.mark.parametrize("shape", [(1, 100_003), (7, 5000)])
def test_sums_of_floats(shape: tuple[int, int], targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver is here")
    rows, n = shape
    text = f"def f(f32[{rows},{n}] A) -> (f32[{rows},{n}] S) {{ S[r,i] += A[r,k] where k <= i, i in 0:{n} }}"
    program, terms = build(text), np.random.default_rng(3).standard_normal(shape).astype("f4")
    found = np.empty(shape, "f4")
    compiler.compile_program(program, OpenCLTarget(GPU)).run([terms, found])
    f32_within(found, terms)


@pytest.mark.parametrize(("values", "expected"), [
    ([-0.0] * 300, np.full(300, -0.0)),
    ([1.0, np.inf, 2.0, -np.inf] + [3.0] * 296, np.array([1.0, np.inf, np.inf] + [np.nan] * 297))])
def test_zeros_keep_their_signs_and_infinities_stay(values: list[float], expected: np.ndarray) -> None:
    program = build("def f(f32[300] A) -> (f32[300] S) { S[0] = A[0]; for i in 1:300 { S[i] = S[i-1] + A[i] } }")
    for form in ((0, (4, 8)), (128, (4, 8))):
        found = np.empty(300, "f4")
        compiler.compile_program(program, InterpTarget(GPU), schedule=line(program, *form)).run([np.array(values, "f4"), found])
        np.testing.assert_array_equal(found, expected.astype("f4"))
        np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(expected[:2]))
        assert np.signbit(found[~np.isnan(found)]).tolist() == np.signbit(expected[~np.isnan(expected)]).tolist()


@pytest.mark.parametrize(("elements", "items", "said"), [
    (0, (4,), "two numbers"), (0, (64, 64), "two numbers"), (0, (1, 8), "two numbers"), (100, (4, 8), "a multiple of 128"),
    (1024, (4, 8), "half of a row")])
def test_what_does_not_fit(elements: int, items: tuple[int, ...], said: str) -> None:
    program = build(SCANS["in place"])
    assert said in parallel_scans.fits(program, GPU, Blocks("S1", elements, items))
    assert not parallel_scans.fits(program, GPU, Blocks("S1", 0, (4, 8)))
    assert parallel_scans.fits(program, replace(GPU, kind="cpu"), Blocks("S1", 0, (4, 8)))


STARTS: dict[str, tuple[str, Callable[[scan_statements.Scan], bool]]] = {
    "its first term": ("S[0] = A[0]", lambda x: x.along.lower == 0 and x.lead == x.neutral),
    "a number and its first term": ("S[0] = 5.0 + A[0]", lambda x: x.along.lower == 0 and x.lead == Const(5.0, F32)),
    "another": ("S[0] = A[5]", lambda x: x.along.lower == 1 and x.lead == x.start),
}


@pytest.mark.part(2)
@pytest.mark.parametrize("name", STARTS)
def test_the_element_before_is_the_scans_own(name: str) -> None:
    first, is_so = STARTS[name]
    program = build(f"def f(f32[300] A) -> (f32[300] S) {{ {first}; for i in 1:300 {{ S[i] = S[i-1] + A[i] }} }}")
    start, s = program.statements
    found = scan_statements.scan_of(program, s)
    assert found is not None
    whole = scan_statements.with_start(found, s, start)
    assert whole is not None
    assert is_so(whole)
    holds(program, InterpTarget(GPU), line(program, 0, (4, 8)))
    holds(program, InterpTarget(GPU), line(program, 128, (4, 8)))


@pytest.mark.part(2)
@pytest.mark.parametrize("first", ["S[0] = A[0]; S[1] = A[1]", "S[0] = A[0]; T[0] = A[1]", "S[0] = S[3]"])
def test_what_stays_before_a_scan(first: str) -> None:
    """Another element, something between, and what reads the target."""
    rest = "for i in 1:300 { S[i] = S[i-1] + A[i] }"
    program = build(f"def f(f32[300] A, inout f32[300] S, inout f32[1] T) -> (S, T) {{ {first}; {rest} }}")
    s = program.statements[-1]
    found = scan_statements.scan_of(program, s)
    assert found is not None
    assert scan_statements.with_start(found, s, program.statements[-2]) is None
    holds(program, InterpTarget(GPU), line(program, 0, (4, 8)))


def test_other_statements_are_divided_as_ever() -> None:
    """A product beside a scan has its tiles."""
    text = ("def f(f32[9000] A, f32[256,256] B, f32[256,256] C) -> (f32[9000] S, f32[256,256] D) {"
            " S[0] = A[0]; for i in 1:9000 { S[i] = S[i-1] + A[i] }; D[i,j] += B[i,k]*C[k,j] }")
    lowered = compiler.lower_program(build(text), CudaTarget(GPU))
    assert {"S_tile", "B_tile"} <= {t.name for t in lowered.rewritten.tensors}


def test_the_machine_tells_the_shapes() -> None:
    """A machine with less local memory has smaller groups for doubles."""
    s = build("def f(inout f64[100000] x) -> (x) { for i in 1:100000 { x[i] += x[i-1] } }").statements[0]
    program = build("def f(inout f64[100000] x) -> (x) { for i in 1:100000 { x[i] += x[i-1] } }")
    found = scan_statements.scan_of(program, s)
    assert found is not None
    wide, small = ({x.items for x in scan_shapes.shapes(s, found, m)} for m in (GPU, GENERIC_GPU))
    assert scanned_columns.tile_elements((32, 8)) == 128
    assert scan_text.number(3).value == 3
    assert (16, 16) in wide - small
    assert work_group_scans.tiles(100, 8) == 13
