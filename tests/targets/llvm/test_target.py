"""The CPU target on hand-made Loop ASTs against numpy."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler, errors, lang
from polytc import machine as machines
from polytc.codegen import loops, traverse, verify
from polytc.machine import Machine
from polytc.program.scalars import BOOL, DTYPES, F32, I8, I32, I64, REAL, U8, U64, DType
from polytc.targets.llvm.target import LLVMTarget
from tests.targets.llvm.llvm_modules import TARGET, V, add, c, elementwise, load, module, run

# ---- matmul with a register tile

def tiled_matmul(m: int, n: int, k: int, rows: int, vectors: int, lanes: int, kind: loops.LoopKind) -> loops.Module:
    a, b, out = loops.Buffer("A", F32, (m, k)), loops.Buffer("B", F32, (k, n)), loops.Buffer("C", F32, (m, n))
    acc = loops.Buffer("acc", F32, (rows, vectors * lanes), "private")
    tile = [(r, s) for r in range(rows) for s in range(vectors)]

    def reg(r: int, s: int) -> tuple[loops.Expr, loops.Expr]:
        return c(r), loops.Ramp(c(s * lanes), 1, lanes)

    def column(s: int) -> loops.Ramp:
        return loops.Ramp(add(V("j"), c(s * lanes)), 1, lanes)

    def product(r: int, s: int) -> loops.Expr:
        x = loops.Broadcast(load(a, add(V("i"), c(r)), V("k")), lanes, F32)
        return loops.binary("*", x, load(b, V("k"), column(s), lanes=lanes))

    start = [loops.Store(acc, reg(r, s), loops.Const(0.0, F32, lanes)) for r, s in tile]
    step = [loops.Store(acc, reg(r, s), loops.binary("+", load(acc, *reg(r, s), lanes=lanes), product(r, s))) for r, s in tile]
    finish = [loops.Store(out, (add(V("i"), c(r)), column(s)), load(acc, *reg(r, s), lanes=lanes)) for r, s in tile]
    inner = loops.Alloc(acc, loops.block(*start, loops.For("k", c(0), c(k), 1, loops.block(*step)), *finish))
    body = loops.For("i", c(0), c(m), rows, loops.For("j", c(0), c(n), vectors * lanes, inner), kind)
    return module(body, a, b, out)


@pytest.mark.parametrize("threads", [1, 2])
def test_matmul(threads: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((48, 37), np.float32), rng.random((37, 64), np.float32)
    got = run(tiled_matmul(48, 64, 37, 6, 2, 8, "parallel"), a, b, threads=threads)
    assert np.allclose(got, a @ b, rtol=1e-5)


def test_a_register_tile_stays_in_registers() -> None:
    """12 accumulators, 2 vectors of B and a broadcast fit 16 registers: no vector goes through the stack."""
    if TARGET.machine.vector_bytes < 32:
        pytest.skip("checks AVX code")
    text = TARGET.assembly(TARGET.emit(tiled_matmul(48, 64, 256, 6, 2, 8, "sequential")))
    assert len(re.findall(r"vfmadd\w+", text)) >= 12
    assert not [line for line in text.splitlines() if "rsp" in line and re.search("[xyz]mm", line)]


def test_code_for_another_machine() -> None:
    """Emission needs no such machine, and wide vectors are used where it has them."""
    target = LLVMTarget(machines.AVX512)
    text = target.assembly(target.emit(tiled_matmul(48, 64, 37, 6, 2, 16, "sequential")))
    assert "zmm" in text
    assert target.emit(tiled_matmul(8, 16, 4, 2, 1, 8, "sequential")).text.count("x86-64-v4")


# ---- arithmetic

def edge_values(dtype: DType, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return np.concatenate([rng.uniform(-9, 9, 40), rng.integers(-4, 5, 24)]).astype(dtype.numpy)
    if dtype.kind == "b":
        return rng.random(64) > 0.5
    info = np.iinfo(dtype.numpy)
    ends = np.array([info.min, info.max, 0, 1, 2, info.max - 1, info.min, 3], dtype.numpy)
    return np.concatenate([rng.integers(info.min, info.max, 48, dtype.numpy, endpoint=True), rng.permutation(ends), ends])


NUMPY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.remainder,
         "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift,
         "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
COMPARE = ("==", "!=", "<", "<=", ">", ">=")


def operators(dtype: DType) -> list[str]:
    if dtype.kind == "b":
        return ["+", "*", "&", "|", "^", *COMPARE]
    if dtype.is_float:
        return ["+", "-", "*", "/", "//", "%", *COMPARE]
    return ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", *COMPARE]


@pytest.mark.part(9)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", REAL.values(), ids=str)
def test_binary_operators(dtype: DType, lanes: int) -> None:
    """All operators of a type in one module, with zero divisors, the smallest number divided by -1, and overflow."""
    x, y = edge_values(dtype, 1), edge_values(dtype, 2)
    a, b = loops.Buffer("a", dtype, (64,)), loops.Buffer("b", dtype, (64,))
    for op in operators(dtype):
        if dtype.kind == "i" and op in ("<<", ">>"):
            y = np.abs(y // 2)
        out = loops.Buffer("out", BOOL if op in COMPARE else dtype, (64,))
        m = elementwise(lambda at, w, op=op: loops.binary(op, load(a, at, lanes=w), load(b, at, lanes=w)),
                        out, a, b, lanes=lanes)
        with np.errstate(all="ignore"):
            want = NUMPY[op](x, y)
        assert np.array_equal(run(m, x, y), want, equal_nan=True), op


@pytest.mark.part(5)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("divisor", [1, 2, 3, 8, 10, -3, -4])
@pytest.mark.parametrize("dtype", [I8, I32, I64, U8, U64], ids=str)
def test_division_by_constants(dtype: DType, divisor: int, lanes: int) -> None:
    if divisor < 0 and dtype.kind == "u":
        divisor = -divisor
    x = edge_values(dtype, 1)
    a, out = loops.Buffer("a", dtype, (64,)), loops.Buffer("out", dtype, (64,))
    for op in ("//", "%"):
        m = elementwise(lambda at, w, op=op: loops.binary(op, load(a, at, lanes=w), loops.Const(divisor, dtype, w)),
                        out, a, lanes=lanes)
        with np.errstate(all="ignore"):
            want = NUMPY[op](x, np.array(divisor, dtype.numpy))
        assert np.array_equal(run(m, x), want)


@pytest.mark.parametrize("lower", [-20, 0])
def test_floor_division_of_indices(lower: int) -> None:
    out = loops.Buffer("out", I64, (40, 4))
    at = loops.binary("-", V("i"), c(lower))
    cases = [("//", 3), ("%", 3), ("//", 4), ("%", 4)]
    body = loops.block(*[loops.Store(out, (at, c(n)), loops.binary(op, V("i"), c(d))) for n, (op, d) in enumerate(cases)])
    got = run(module(loops.For("i", c(lower), c(lower + 40), 1, body), out))
    i = np.arange(lower, lower + 40)
    assert np.array_equal(got, np.stack([i // 3, i % 3, i // 4, i % 4], 1))


@pytest.mark.part(13)
@pytest.mark.parametrize("source", REAL.values(), ids=str)
def test_casts(source: DType) -> None:
    x = edge_values(source, 5)
    for target in REAL.values():
        y = np.abs(x) if source.is_float and target.kind == "u" else x
        a, out = loops.Buffer("a", source, (64,)), loops.Buffer("out", target, (64,))
        with np.errstate(all="ignore"):
            want = y.astype(target.numpy)
        for lanes in (1, 8):
            m = elementwise(lambda at, w, a=a, t=target: loops.Cast(load(a, at, lanes=w), t, w), out, a, lanes=lanes)
            assert np.array_equal(run(m, y), want), target


def test_casts_of_what_is_no_number_of_the_target_are_harmless() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 300, -300, 1] * 2, np.float32)
    for target in (I8, U8, I32, I64, U64, BOOL):
        a, out = loops.Buffer("a", F32, (16,)), loops.Buffer("out", target, (16,))
        got = run(elementwise(lambda at, w, a=a, t=target: loops.Cast(load(a, at, lanes=w), t, w), out, a, lanes=8), x)
        assert got[7] == 1


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", REAL.values(), ids=str)
def test_reductions_of_lanes(dtype: DType) -> None:
    x = edge_values(dtype, 7)[:16]
    a = loops.Buffer("a", dtype, (16,))
    ops = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}
    if not dtype.is_float:
        ops |= {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
    for op, f in ops.items():
        out = loops.Buffer("out", dtype, ())
        value = loops.Reduce(op, load(a, loops.Ramp(c(0), 1, 16), lanes=16), dtype)
        got = run(module(loops.Store(out, (), value), a, out), x)
        with np.errstate(over="ignore"):
            want = f.reduce(x, dtype=dtype.numpy)
        tolerance = {"f16": 2e-2, "bf16": 5e-2, "f32": 1e-5, "f64": 1e-13}.get(dtype.name, 0)
        assert np.allclose(got.astype(float), np.asarray(want).astype(float), rtol=tolerance, atol=tolerance), op


@pytest.mark.parametrize("op", ["min", "max"])
def test_reduced_nan_stays(op: str) -> None:
    a, out = loops.Buffer("a", F32, (8,)), loops.Buffer("out", F32, ())
    value = loops.Reduce(op, load(a, loops.Ramp(c(0), 1, 8), lanes=8), F32)
    x = np.array([1, 2, np.nan, 3, 4, 5, 6, 7], np.float32)
    assert np.isnan(run(module(loops.Store(out, (), value), a, out), x))


@pytest.mark.parametrize("fast", [False, True])
def test_scalar_sum(fast: bool) -> None:
    """A plain loop of sums: in its order, so that the rounding is that of a running sum, unless it is fast: LLVM reorders
    nothing by itself, not even what looks like a reduction."""
    a, out = loops.Buffer("a", F32, (1000,)), loops.Buffer("out", F32, ())
    step = loops.Store(out, (), loops.binary("+", load(out), load(a, V("i"))))
    m = module(loops.block(loops.Store(out, (), loops.Const(0.0, F32)), loops.For("i", c(0), c(1000), 1, step)), a, out,
               fast=fast)
    x = np.random.default_rng(0).random(1000, np.float32)
    got = run(m, x)
    assert np.allclose(got, x.sum(), rtol=1e-5)
    text = TARGET.assembly(TARGET.emit(m))
    if not fast:
        assert got == np.cumsum(x, dtype=np.float32)[-1]
        assert "addps" not in text
    else:
        assert "addps" in text


def test_precise_does_not_fuse() -> None:
    a, out = loops.Buffer("a", F32, (8,)), loops.Buffer("out", F32, (8,))
    at = loops.Ramp(c(0), 1, 8)
    x = load(a, at, lanes=8)
    value = loops.binary("+", loops.binary("*", x, x), x)
    assert "fmadd" not in TARGET.assembly(TARGET.emit(module(loops.Store(out, (at,), value), a, out, precise=True)))


# ---- scratch and allocations

@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [64, 40000])
def test_local_buffers_per_thread(size: int, threads: int) -> None:
    """Each parallel iteration fills its own buffer, on the stack or in the arena, and sums it backwards."""
    out = loops.Buffer("out", I64, (37,))
    tmp, other = loops.Buffer("tmp", I64, (size,), "local"), loops.Buffer("other", I64, (size,), "local")
    fill = loops.For("q", c(0), c(size), 1, loops.block(
        loops.Store(tmp, (V("q"),), add(V("q"), V("p"))), loops.Store(other, (V("q"),), V("p"))))
    total = loops.binary("-", add(load(out, V("p")), load(tmp, V("r"))), load(other, V("r")))
    collect = loops.For("r", c(0), c(size), 1, loops.Store(out, (V("p"),), total))
    body = loops.For("p", c(0), c(37), 1, loops.block(
        loops.Store(out, (V("p"),), c(0)), loops.Alloc(tmp, loops.Alloc(other, loops.block(fill, collect)))), "parallel")
    assert np.array_equal(run(module(body, out), threads=threads), np.full(37, size * (size - 1) // 2))


def test_shared_scratch_between_parallel_loops_inside_a_sequential_one() -> None:
    """A buffer made outside of a parallel loop is one buffer for all of its threads; outer variables are seen inside."""
    out = loops.Buffer("out", I64, (4, 64))
    tmp = loops.Buffer("tmp", I64, (64,), "local")
    three = [add(V("p"), c(d)) for d in range(3)]
    guarded = [loops.If(loops.binary("<", p, c(64)), loops.Store(tmp, (p,), loops.binary("*", p, V("t")))) for p in three]
    write = loops.For("p", c(0), c(64), 3, loops.block(*guarded), "parallel")
    read = loops.For("p", c(0), c(64), 1, loops.Store(
        out, (V("t"), V("p")), load(tmp, loops.binary("-", c(63), V("p")))), "parallel")
    body = loops.For("t", c(0), c(4), 1, loops.Alloc(tmp, loops.block(write, read)))
    want = np.arange(4)[:, None] * np.arange(63, -1, -1)[None]
    for threads in (1, 2, 3):
        assert np.array_equal(run(module(body, out), threads=threads), want)


def test_several_kernels_share_scratch_buffers() -> None:
    a, out, t = loops.Buffer("a", F32, (8,)), loops.Buffer("out", F32, (8,)), loops.Buffer("t", F32, (8,))
    at = loops.Ramp(c(0), 1, 8)
    exp, log = (loops.Call(f, (load(b, at, lanes=8),), F32, 8) for f, b in (("exp", a), ("log", t)))
    first = loops.Kernel("expf", (a, t), ("t",), loops.Store(t, (at,), exp))
    second = loops.Kernel("run", (t, out), ("out",), loops.Store(out, (at,), log))
    m = verify.verify(loops.Module("m", (a, out), ("out",), (t,), (first, second)))
    x = np.random.default_rng(0).random(8, np.float32)
    assert np.allclose(run(m, x), x, rtol=1e-5)


def test_empty_loops_and_zero_dimensions() -> None:
    out = loops.Buffer("out", F32, ())
    never = loops.For("i", c(5), c(5), 1, loops.Store(out, (), loops.Const(1.0, F32)), "parallel")
    body = loops.block(loops.Store(out, (), loops.Const(3.0, F32)), never)
    assert run(module(body, out), threads=2) == 3


def test_the_outermost_loop_that_repeats_is_the_parallel_one() -> None:
    out = loops.Buffer("out", I64, (1, 6, 2))
    store = loops.Store(out, (V("n"), V("p"), V("q")), add(V("p"), V("q")))
    inner = loops.For("p", c(0), c(6), 1, loops.For("q", c(0), c(2), 1, store, "parallel"), "parallel")
    m = module(loops.For("n", c(0), c(1), 1, inner, "parallel"), out)
    text = TARGET.emit(m).text
    assert text.count("call void %launch(") == 1
    assert "i64 %in.n" in text
    assert np.array_equal(run(m, threads=2)[0], np.arange(6)[:, None] + np.arange(2))


def test_a_parallel_loop_takes_along_no_variable_of_a_loop_that_ended() -> None:
    out = loops.Buffer("out", F32, (4, 6))

    def rows(first: int, value: float) -> loops.Stmt:
        inner = loops.For("j", c(0), c(6), 1, loops.Store(out, (V("i"), V("j")), loops.Const(value, F32)))
        return loops.For("i", c(first), c(first + 2), 1, inner, "sequential" if first == 0 else "parallel")
    before = loops.For("b", c(0), c(1), 1, rows(0, 1.0))
    result = run(module(loops.block(before, rows(2, 2.0)), out), threads=2)
    np.testing.assert_array_equal(result, [[1.0] * 6] * 2 + [[2.0] * 6] * 2)


def test_f16_needs_instructions() -> None:
    a, out = loops.Buffer("a", DTYPES["f16"], (8,)), loops.Buffer("out", F32, (8,))
    m = elementwise(lambda at, w: loops.Cast(load(a, at, lanes=w), F32, w), out, a, lanes=8)
    with pytest.raises(errors.TargetError, match="E530"):
        LLVMTarget(machines.GENERIC_CPU).emit(m)


def test_bound_calls() -> None:
    m = tiled_matmul(8, 16, 8, 2, 2, 8, "parallel")
    executable = TARGET.load(TARGET.build(TARGET.emit(m)), 2)
    a, b, out = np.eye(8, dtype=np.float32), np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    call = executable.bind([a, b, out])
    call()
    assert np.array_equal(out, b)
    b *= 3
    call()
    assert np.array_equal(out, b)


def test_inputs_are_not_written() -> None:
    """The arguments that a kernel only reads say so to LLVM."""
    text = TARGET.emit(tiled_matmul(8, 16, 8, 2, 2, 8, "sequential")).text
    assert re.search(r"readonly dereferenceable\(\d+\) align 4 %p.A", text)
    assert not re.search(r"readonly [^,]*%p.C", text)


def test_the_machine_is_this_one() -> None:
    assert isinstance(TARGET.machine, Machine)
    assert TARGET.machine.cpu


@pytest.mark.parametrize("divisor", [2, 3, 4])
def test_elements_that_several_lanes_read_under_a_mask(divisor: int) -> None:
    """An element is read if any of its lanes counts, not only the first."""
    x = np.arange(1, 1 + 8 * 5, dtype=np.int32).reshape(8, 5)
    rows = polytc.compile(f"T[i,j] = 0 where i in 0:16, j in 0:16\nT[i,j] += X[j//{divisor},k] where j in i:16")(X=x)
    beside = polytc.compile(f"T[i,j] = 0 where i in 0:16, j in 0:16\n"
                            f"T[i,j] += X[0,k] * X[k,j//{4 * divisor}] where j in i:16, k in 0:5")(X=x)
    i, j = np.mgrid[:16, :16]
    np.testing.assert_array_equal(rows, np.where(j >= i, x.sum(1)[j // divisor], 0))
    np.testing.assert_array_equal(beside, np.where(j >= i, (x[0] @ x[:5])[j // (4 * divisor)], 0))


@pytest.mark.parametrize(("text", "passes"), [
    ("C[i,j] += A[i,k]*B[k,j]", "few"), ("Y[i,j] = A[i,j]*2 + 1", "few"),
    ("for t in 1:9 { P[t] = 2*(P[t-1] else 1) + A[t,0] }; Y[i,j] = A[i,j]*P[8]", "all")],
    ids=["tiles", "vectors", "recurrence"])
def test_only_code_without_scalar_loops_takes_few_passes(text: str, passes: str) -> None:
    shapes = {n: (64, 64) for n in "AB" if f"{n}[" in text}
    assert polytc.lower(text, LLVMTarget(machines.AVX512), shapes=shapes).source.options["passes"] == passes


def test_what_runs_once_takes_few_passes() -> None:
    """A copy that has no vectors of ours; LLVM's own would take longer than the copy."""
    text = "Y[i,j,c] += X[i+r,j+s,c] * W[c,r,s]"
    program = replace(lang.build(text, {"X": (16, 16, 32), "W": (32, 3, 3)}), constants=("W",))
    once = compiler.lower_program(program, LLVMTarget(machines.AVX2)).prologue
    assert once is not None
    assert once.loops.once
    assert not any(traverse.has_vectors(k.body) for k in once.loops.kernels)
    assert once.source.options["passes"] == "few"


def test_few_passes_leave_nothing_of_variables_in_memory() -> None:
    """What LLVM's first half would do to tiles and addresses is done: the loop of the multiply-adds has these, loads, and at
    most the steps of its addresses."""
    if TARGET.machine.vector_bytes < 32:
        pytest.skip("checks AVX code")
    source = polytc.lower("C[i,j] += A[i,k]*B[k,j]", TARGET, shapes={"A": (96, 256), "B": (256, 96)}).source
    assert source.options["passes"] == "few"
    blocks = re.split(r"^\.LBB\w+:", TARGET.assembly(source), flags=re.MULTILINE)
    inner = max(blocks, key=lambda b: len(re.findall(r"vfmadd\w+", b)))
    assert len(re.findall(r"vfmadd\w+", inner)) >= 12
    assert "rsp" not in inner
