"""Scans in one pass, whose groups look back: that results stay, also where groups run at once; which scans are made so."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from polytc import compiler, errors
from polytc.codegen.target import Target
from polytc.machine import DEVICES
from polytc.program import program as pr
from polytc.program.program import Program
from polytc.program.scalars import BOOL, F32, I64
from polytc.rewrite import parallel_scans
from polytc.rewrite.gpu import look_back, scan_shapes
from polytc.rewrite.parallel_scans import Blocks
from polytc.rewrite.step import Decision
from polytc.rewrite.tidy import scan
from polytc.stages import build
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.interp.target import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import cuda_here
from tests.rewrite.equal import right_at, with_open_sizes
from tests.rewrite.gpu.test_work_group_scans import MORE, chosen, holds, line
from tests.rewrite.test_parallel_scans import OPEN, SCANS

GPU = DEVICES["nvidia-sm90"]
FORMS = [(4, 2), (2, 4), (4, 8)]
"""Items: several windows, also such that an item waits for more than one of them, and one."""
ROWS = [name for name in {**SCANS, **MORE} if name != "columns"]
HERE = pytest.mark.skipif(cuda_here.COMPILER is None, reason="no C++ compiler is here")


def whole(items: tuple[int, int]) -> int:
    """The elements of a group."""
    return items[0] * items[0] * items[1]


def back(program: Program, items: tuple[int, int]) -> str:
    """The record that asks for groups that look back."""
    return line(program, whole(items), items).rstrip("\n") + " by=look_back\n"


def misfit(program: Program, schedule: str, items: tuple[int, int]) -> str:
    """Why the statement that a record names cannot be scanned so."""
    statement = schedule.split()[-4].rstrip(":")
    return parallel_scans.fits(scan.simplify_prefixes(program), GPU, Blocks(statement, whole(items), items, "look_back"))


@pytest.mark.part(35)
@pytest.mark.parametrize("items", FORMS, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_groups_look_back_as_the_text_says(name: str, items: tuple[int, int]) -> None:
    """In one launch, and one that clears the words; with every access looked at."""
    program = build({**SCANS, **MORE}[name])
    schedule = back(program, items)
    if why := misfit(program, schedule, items):
        assert "half of a row" in why
        return
    assert len(compiler.lower_program(program, InterpTarget(GPU), schedule).source.launches) == 2
    holds(program, InterpTarget(GPU), schedule)


@HERE
@pytest.mark.part(35)
@pytest.mark.parametrize("items", FORMS, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_blocks_of_cuda(name: str, items: tuple[int, int]) -> None:
    program = build({**SCANS, **MORE}[name])
    schedule = back(program, items)
    if not misfit(program, schedule, items):
        holds(program, cuda_here.CompiledCuda(GPU), schedule)


TYPES = {"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8"}
OPERATORS = {"+": np.add, "*": np.multiply, "max": np.maximum, "min": np.minimum}


def drawn(rng: np.random.Generator, dtype: str, op: str, shape: tuple[int, int]) -> np.ndarray:
    """Numbers whose sums and products are exact, whatever the order."""
    if dtype[0] == "i":
        return rng.integers(-2**31, 2**31, shape).astype(TYPES[dtype])
    low, high = ((-64, 64) if op == "+" else (0, 2)) if op in "+*" else (-2**20, 2**20)
    found = rng.integers(low, high, shape)
    return (found * 2 - 1 if op == "*" else found).astype(TYPES[dtype])


@HERE
@pytest.mark.part(24)
@pytest.mark.parametrize("seed", range(24))
def test_rows_of_lengths_around_the_ends_of_blocks(seed: int) -> None:
    """Against numpy: types, operators, rows, from either end, with what stands before; blocks one after another and at once."""
    rng = np.random.default_rng(seed)
    dtype, op = list(TYPES)[seed % 4], list(OPERATORS)[seed // 4 % 4]
    items = FORMS[seed % 3]
    blocks = int(rng.integers(2, 1 + 3 * items[0] * items[1]))
    n, rows = whole(items) * blocks + int(rng.integers(-1, 2)), int(rng.integers(1, 4))
    reverse, exclusive = bool(rng.integers(2)), bool(rng.integers(2))
    at, before = (f"{n} - i", f"{n} - i + 1") if reverse else ("i", "i - 1")
    term = (f"A[r,{n - 1} - i + 1]" if reverse else "A[r,i - 1]") if exclusive else f"A[r,{n} - i]" if reverse else "A[r,i]"
    own = n if exclusive else n + 1
    joined = f"{op}(S[r,{before}], {term})" if op in ("min", "max") else f"S[r,{before}] {op} {term}"
    first = n if reverse else 0
    start = f"{3 if op != '*' else 1}" if exclusive else f"A[r,{first}]"
    text = (f"def f({dtype}[{rows},{own}] A) -> ({dtype}[{rows},{n + 1}] S) {{ S[r,{first}] = {start} where r in 0:{rows};"
            f" for i in 1:{n + 1} {{ S[r,{at}] = {joined} }} }}")
    terms = drawn(rng, dtype, op, (rows, own))
    there = terms[:, ::-1] if reverse else terms
    if exclusive:
        there = np.concatenate([np.full((rows, 1), 3 if op != "*" else 1, terms.dtype), there], axis=1)
    with np.errstate(over="ignore"):
        expected = OPERATORS[op].accumulate(there, axis=1, dtype=terms.dtype)
    expected = expected[:, ::-1] if reverse else expected
    program = build(text)
    for target in (cuda_here.CompiledCuda(GPU), cuda_here.CompiledCuda(GPU, together=True)):
        found = np.zeros((rows, n + 1), terms.dtype)
        executable = compiler.compile_program(program, target, schedule=back(program, items))
        assert len(executable.binary.launches) == 2  # type: ignore[attr-defined]
        executable.run([terms, found])
        np.testing.assert_array_equal(found, expected)


@HERE
def test_sums_of_floats_do_not_vary() -> None:
    """Groups that run at once, the last ones first, add up in the order in which others do."""
    program = build("def f(f32[2,9001] A) -> (f32[2,9001] S) { S[r,i] += A[r,k] where k <= i, i in 0:9001 }")
    terms = np.random.default_rng(5).standard_normal((2, 9001)).astype("f4")
    results = []
    for target in (InterpTarget(GPU), cuda_here.CompiledCuda(GPU), *[cuda_here.CompiledCuda(GPU, together=True)] * 2):
        found = np.empty_like(terms)
        compiler.compile_program(program, target, schedule=back(program, (4, 8))).run([terms, found])
        results.append(found)
    exact = np.cumsum(terms.astype("f8"), axis=1)
    assert (np.abs(results[0] - exact) <= 64 * 2.0 ** -24 * np.cumsum(np.abs(terms.astype("f8")), axis=1)).all()
    for found in results[1:]:
        np.testing.assert_array_equal(found, results[0])


@pytest.mark.part(11)
@pytest.mark.parametrize("name", [name for name in OPEN if name not in ("columns", "rows in the middle")])
def test_sizes_that_stay_open(name: str) -> None:
    """The last window of other sizes is a part of one."""
    program = with_open_sizes(OPEN[name], {"n": 400})
    targets: list[Target] = [InterpTarget(GPU)] + [cuda_here.CompiledCuda(GPU)] * (cuda_here.COMPILER is not None)
    for target in targets:
        executable = compiler.compile_program(program, target, schedule=back(program, (2, 2)))
        for n in (1, 2, 9, 33, 130):
            sizes = {name: n if name == "n" else 2 for name in program.sizes}
            right_at(executable, program, sizes)


def test_windows() -> None:
    """One as long as it holds all blocks, else as few of equal length as do."""
    assert look_back.windows(25, 256) == look_back.Windows(25, 1, 25, 1)
    assert look_back.windows(25, 256).words == 26
    assert look_back.windows(256, 256).count == 1
    assert look_back.windows(300, 256) == look_back.Windows(300, 2, 150, 1)
    assert look_back.windows(65536, 256) == look_back.Windows(65536, 256, 256, 1)
    many = look_back.windows(65537, 256)
    assert (many.count, many.rounds) == (257, 2)
    assert many.count * many.members >= 65537
    assert many.words == 1 + 65537 + 257


SUMS = "def f({2}[{0},{1}] A) -> ({2}[{0},{1}] S) {{ S[r,0] = A[r,0]; for i in 1:{1} {{ S[r,i] = S[r,i-1] + A[r,i] }} }}"


def test_what_is_chosen() -> None:
    """Long rows of which there are few, on machines that say that groups may wait for others."""
    for dtype in ("f32", "f64", "i32", "i64"):
        (one,) = chosen(SUMS.format(1, 1 << 24, dtype))
        assert (one.by, one.elements) == ("look_back", whole((16, 16)))
        assert [c.by for c in chosen(SUMS.format(1, 1 << 24, dtype), DEVICES["amd-gfx90a"])] == ["look_back"]
    for machine in (replace(GPU, waiting_groups=False), DEVICES["mali"], DEVICES["generic-gpu"], DEVICES["apple-m1"],
                    OpenCLTarget(GPU).machine):
        assert not machine.waiting_groups
        assert {c.by for c in chosen(SUMS.format(1, 1 << 24, "f32"), machine)} == {""}
    assert [(c.by, c.elements) for c in chosen(SUMS.format(4096, 4096, "f32"))] == [("", 0)]
    assert [(c.by, c.elements) for c in chosen(SUMS.format(1, 9000, "f32"))] == [("", 0)]
    (slow,) = chosen(SUMS.format(1, 1 << 20, "f32"), GPU.costing({"launches.seen": 1e-3}))
    assert (slow.by, slow.elements > 0) == ("", True)


def test_the_reason_tells_the_ways() -> None:
    tidy = scan.simplify_prefixes(build(SUMS.format(1, 1 << 24, "f32")))
    (told,) = [r.text for r in parallel_scans.decide(tidy, GPU).reasons]
    assert re.search(r"blocks of 4096 elements in one pass by groups of 16 x 16 .*estimated: 63 us: memory 53, launches 10; "
                     r"whole rows .*; in three launches 93 us", told)
    (told,) = [r.text for r in parallel_scans.decide(tidy, replace(GPU, waiting_groups=False)).reasons]
    assert "not in one pass: the machine does not say that groups may wait for others" in told


@pytest.mark.parametrize(("choice", "machine", "said"), [
    (Blocks("S2", 128, (4, 8), "look_back"), GPU, ""),
    (Blocks("S2", 256, (4, 8), "look_back"), GPU, "a group that looks back has 128 elements"),
    (Blocks("S2", 0, (4, 8), "look_back"), GPU, "a group that looks back has 128 elements"),
    (Blocks("S2", 128, (4, 8), "look"), GPU, "`by` is look_back, with `items`"),
    (Blocks("S2", 128, (), "look_back"), GPU, "`by` is look_back, with `items`"),
    (Blocks("S2", 128, (4, 8), "look_back"), DEVICES["mali"], "does not say that groups may wait"),
    (Blocks("S2", 8, (2, 2), "look_back"), GPU, "more than 16 windows")])
def test_what_does_not_fit(choice: Blocks, machine: object, said: str) -> None:
    program = scan.simplify_prefixes(build(SUMS.format(1, 9000, "f32")))
    found = parallel_scans.fits(program, machine, choice)  # type: ignore[arg-type]
    assert (said in found) if said else not found


def test_columns_do_not_look_back() -> None:
    program = build("def f(inout f32[9000,5] x) -> (x) { for t in 1:9000 { x[t,j] += x[t-1,j] where j in 0:5 } }")
    assert "along memory alone" in parallel_scans.fits(program, GPU, Blocks("S1", 512, (8, 32), "look_back"))
    assert {c.by for c in parallel_scans.decide(program, GPU).choices} == {""}


@pytest.mark.part(4)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("blocks", [200, 60000])
def test_local_memory_is_enough(dtype: str, blocks: int) -> None:
    """What a kernel has is no more than was reckoned with."""
    program = build(SUMS.format(1, 4096 * blocks, dtype))
    source = compiler.lower_program(program, CudaTarget(GPU)).source
    assert len(source.launches) == 2
    used = [int(n) for n in re.findall(r"shared memory (\d+) bytes", source.text)]
    s = scan.simplify_prefixes(program).statements[-1]
    found = parallel_scans.scan_of(scan.simplify_prefixes(program), s)
    assert found is not None
    assert scan_shapes.fits((16, 16), 1, s, found, replace(GPU, local_bytes=max(used) + 16 * found.dtype.bytes), True) or \
        blocks == 200
    assert not scan_shapes.fits((16, 16), 1, s, found, replace(GPU, local_bytes=max(used) - 1), True)


def test_the_kernel_reads_once_and_takes_a_number() -> None:
    source = compiler.lower_program(build(SUMS.format(1, 1 << 24, "f32")), CudaTarget(GPU)).source
    kernel = source.text.split('extern "C"')[-1]
    assert len(re.findall(r"= A\[", kernel)) == len(re.findall(r"\bS\[.*\] =", kernel)) == 16
    assert re.search(r"turn = atomicInc\(\(unsigned int\*\)S_words, gridDim\.x - 1\);\n    __syncthreads\(\);", kernel)
    assert "blockIdx" not in kernel
    assert kernel.count("__syncthreads();") == 11
    assert kernel.index("polytc_publish_f32") < kernel.index("polytc_awaited_f32")


class Promising(OpenCLTarget):
    """Its machine says more than OpenCL C does."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "machine", replace(self.machine, matrix_unit=None))


def test_opencl_refuses_what_it_does_not_say() -> None:
    program = build(SUMS.format(1, 9000, "f32"))
    with pytest.raises(errors.CompileError, match="does not say that groups may wait"):
        compiler.lower_program(program, OpenCLTarget(GPU), back(program, (4, 8)))
    with pytest.raises(errors.TargetError, match="of f32 has no counterpart in OpenCL C"):
        compiler.lower_program(program, Promising(GPU), back(program, (4, 8)))


def changed(statement: Callable[[pr.Statement], pr.Statement]) -> int:
    """Launches of a scan whose groups look back by a changed statement."""
    tidy = scan.simplify_prefixes(build(SUMS.format(1, 1025, "f32")))
    made = parallel_scans.split(tidy, Decision(GPU, (Blocks("S2", 128, (4, 8), "look_back"),)))
    changes = tuple(statement(s) if s.name.endswith("seen_mine") else s for s in made.statements)
    return len(compiler.lower_program(replace(made, statements=changes), InterpTarget(GPU)).source.launches)


def test_groups_wait_for_those_before_them_alone() -> None:
    """What reads words without waiting, or waits for later groups, gets the order of the text, with a launch for each."""
    assert changed(lambda s: s) == 2

    def plain(s: pr.Statement) -> pr.Statement:
        assert isinstance(s.value, pr.Call)
        return replace(s, value=pr.Cast(s.value.args[0], F32))
    assert changed(plain) > 10

    def later(s: pr.Statement) -> pr.Statement:
        (before,) = s.where
        assert isinstance(before, pr.Binary)
        return replace(s, where=(replace(before, op=">"), pr.Binary("<", before.a, pr.Const(8, I64), BOOL)))
    assert changed(later) > 10

    def own(s: pr.Statement) -> pr.Statement:
        (before,) = s.where
        assert isinstance(before, pr.Binary)
        return replace(s, where=(replace(before, op="<="),))
    assert changed(own) == 2
