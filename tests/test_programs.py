"""A table of programs, on every target and with every way of scheduling, against the evaluator."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polytc import compiler, errors
from polytc.codegen.target import Target
from polytc.lang import build, evaluate
from polytc.program.program import Program
from polytc.targets.opencl.target import OpenCLTarget
from tests import guarded

GPU = OpenCLTarget()
Shapes = dict[str, tuple[int, ...]]

SOFTMAX = "M[i] max= X[i,j]; E[i,j] = exp(X[i,j]-M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i]"

SMALL: dict[str, tuple[str, Shapes]] = {
    "matmul": ("C[i,j] += A[i,k]*B[k,j]", {"A": (7, 5), "B": (5, 19)}),
    "matmul transposed left": ("C[i,j] += A[k,i]*B[k,j]", {"A": (6, 7), "B": (6, 9)}),
    "matmul transposed right": ("C[i,j] += A[i,k]*B[j,k]", {"A": (5, 37), "B": (6, 37)}),
    "batched, bias, relu": ("T[b,i,j] += A[b,i,k]*B[b,k,j]; D[b,i,j] = max(T[b,i,j] + v[j], 0)",
                            {"A": (2, 5, 7), "B": (2, 7, 10), "v": (10,)}),
    "accumulate on a bias": ("C[i,j] = b[j] where i in 0:7; C[i,j] += A[i,k]*B[k,j]", {"A": (7, 5), "B": (5, 9), "b": (9,)}),
    "padded strided conv": ("O[m,h,w] += (I[c,2*h+r-1,2*w+s-1] else 0) * W[m,c,r,s] where h in 0:4, w in 0:5",
                            {"I": (3, 8, 9), "W": (4, 3, 3, 3)}),
    "padded conv, bias, relu": ("O[m,h,w] += (I[c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:5, w in 0:11\n"
                                "Y[m,h,w] = max(O[m,h,w] + b[m], 0)", {"I": (2, 5, 11), "W": (3, 2, 3, 3), "b": (3,)}),
    "depthwise conv": ("O[c,h,w] += I[c,h+r,w+s] * W[c,r,s]", {"I": (3, 8, 14), "W": (3, 3, 3)}),
    "transposed conv": ("O[m,2*h+r,2*w+s] += I[c,h,w]*W[c,m,r,s]", {"I": (2, 4, 5), "W": (2, 3, 3, 3)}),
    "max pool, partial windows": ("P[c,h,w] max= (I[c,2*h+r-1,2*w+s-1] else identity) "
                                  "where r in 0:3, s in 0:3, h in 0:5, w in 0:6", {"I": (2, 9, 11)}),
    "softmax, long rows": (SOFTMAX, {"X": (33, 70)}),
    "softmax, short rows": (SOFTMAX, {"X": (40, 7)}),
    "layernorm": ("m[i] += X[i,k]/24; v[i] += (X[i,k]-m[i])*(X[i,k]-m[i])/24\n"
                  "Y[i,j] = (X[i,j]-m[i])*rsqrt(v[i]+1e-5)*g[j]+b[j]", {"X": (34, 24), "g": (24,), "b": (24,)}),
    "transpose": ("Y[j,i] = X[i,j]", {"X": (9, 13)}),
    "permute": ("Y[i,k,j] = X[i,j,k]*2", {"X": (3, 5, 9)}),
    "sum of all": ("S[] += X[i,j]", {"X": (9, 31)}),
    "sum of rows": ("S[i] += X[i,j]", {"X": (9, 131)}),
    "sum of columns": ("S[j] += X[i,j]", {"X": (9, 31)}),
    "product and minimum": ("Y[i] *= X[i,j]; Z[i] min= X[i,j]", {"X": (5, 40)}),
    "triangular": ("y[i] += A[i,k]*x[k] where k <= i", {"A": (17, 17), "x": (17,)}),
    "every second": ("y[i] += A[i,k] where k % 2 == 0, i <= 2*k", {"A": (12, 13)}),
    "every second element": ("y[i] += x[i] where i % 2 == 0", {"x": (9,)}),
    "every third from anywhere": ("Y[i,j] += X[i,j] where (i + j) % 3 == 1, j < 4*i", {"X": (9, 70)}),
    "shifted": ("O[i] = A[i-1]", {"A": (10,)}),
    "chain of shifts": ("P[h] = X[h-5]; T[h] += P[2*h+k]*W[k]", {"X": (20,), "W": (3,)}),
    "concat": ("O[i] = A[i]; O[10+i] = B[i]", {"A": (10,), "B": (13,)}),
    "pixel shuffle": ("O[c,2*h+a,2*w+b] = I[4*c+2*a+b,h,w] where a in 0:2, b in 0:2, c in 0:3", {"I": (12, 3, 5)}),
    "nearest": ("Y[i] = X[i//2] where i in 0:20", {"X": (10,)}),
    "guarded stencil": ("T[h] = (X[h-1] else 0) + (X[h+1] else 0) where h in 0:20", {"X": (20,)}),
    "chain": ("A[i]=X[i]+1; B[i]=A[i]*2; C[i]=B[i]-X[i]; Y[i]=C[i]*C[i]", {"X": (37,)}),
    "pool, then dense": ("G[n,c] += X[n,c,h,w]/49; F[n,m] += G[n,c]*W[m,c]; Y[n,m] = F[n,m]+b[m]",
                         {"X": (1, 6, 7, 7), "W": (11, 6), "b": (11,)}),
    "moments": ("G[n,c] += X[n,c,h,w]; V[n,c] += X[n,c,h,w]*X[n,c,h,w]", {"X": (2, 20, 5, 5)}),
    "index values": ("Y[i,j] = X[i,j]*i - j // 2", {"X": (4, 19)}),
}
"""name -> (text, shapes): small enough for the interpreter, odd enough for partial tiles."""

LARGE: dict[str, tuple[str, Shapes]] = {
    "matmul": ("C[i,j] += A[i,k]*B[k,j]", {"A": (101, 67), "B": (67, 131)}),
    "batched matmul": ("C[b,i,j] += A[b,i,k]*B[b,j,k]", {"A": (3, 33, 64), "B": (3, 45, 64)}),
    "conv 3x3": ("O[m,h,w] += (I[c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:28, w in 0:28",
                 {"I": (16, 28, 28), "W": (32, 16, 3, 3)}),
    "conv 1x1": ("O[n,m,h,w] += I[n,c,h,w] * W[m,c]; Y[n,m,h,w] = max(O[n,m,h,w] + R[n,m,h,w], 0)",
                 {"I": (1, 64, 14, 14), "W": (48, 64), "R": (1, 48, 14, 14)}),
    "attention scores": ("P[h,s,t] += Q[h,s,d]*K[h,t,d]; M[h,s] max= P[h,s,t]; E[h,s,t] = exp((P[h,s,t]-M[h,s])*0.125)\n"
                         "Z[h,s] += E[h,s,t]; O[h,s,d] += E[h,s,t]*V[h,t,d]; Y[h,s,d] = O[h,s,d]/Z[h,s]",
                         {"Q": (4, 33, 16), "K": (4, 40, 16), "V": (4, 40, 16)}),
    "conv 3x3, small maps": ("O[m,h,w] += (I[c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:7, w in 0:7",
                             {"I": (24, 7, 7), "W": (40, 24, 3, 3)}),
    "element-wise, 4-d": ("Y[a,b,c,d] = tanh(X[a,b,c,d]) + Z[c,d]", {"X": (3, 16, 17, 33), "Z": (17, 33)}),
}


def arrays(program: Program) -> dict[str, np.ndarray]:
    """Seeded inputs of a program."""
    rng = np.random.default_rng(0)
    made = {}
    for name in program.inputs:
        t = program.tensor(name)
        values = rng.standard_normal(t.shape) if t.dtype.is_float else rng.integers(0, 10, t.shape)
        made[name] = values.astype(t.dtype.numpy)
    return made


def check(program: Program, target: str | Target, schedule: str | None = None, threads: int = 1) -> None:
    """The compiled program gives what the evaluator gives, and touches nothing beside its arrays. Its schedule is legal."""
    inputs = arrays(program)
    expected = evaluate(program, inputs)
    outputs = [np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy) for n in program.outputs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "lower_program", stands)
        code = compiler.compile_program(program, target, threads, schedule)
    guarded.run(code, [*(inputs[n] for n in program.inputs), *outputs])
    for name, got in zip(program.outputs, outputs, strict=True):
        scale = max(1.0, largest(expected[name]))
        if not np.allclose(got, expected[name], rtol=1e-5, atol=2e-6 * scale):
            scale = max(scale, magnitude(program, inputs, name))
        np.testing.assert_allclose(got, expected[name], rtol=1e-5, atol=2e-6 * scale, err_msg=f"{name} on {target}")


def magnitude(program: Program, inputs: dict[str, np.ndarray], name: str) -> float:
    """The largest value of an output where no terms cancel: sums round by their terms' sizes, not by what is left of them."""
    sizes = {n: np.abs(a) if a.dtype.kind == "f" else a for n, a in inputs.items()}
    return largest(evaluate(program, sizes)[name])


def largest(a: np.ndarray) -> float:
    """The largest magnitude among what is finite; 0 if nothing is."""
    return float(np.abs(a).max(initial=0, where=np.isfinite(a)))


lower_program = compiler.lower_program


def stands(program: Program, *rest: Any) -> compiler.Lowered:
    """As lower_program, of what passes the legality check."""
    lowered = lower_program(program, *rest)
    assert "refused" not in lowered.schedule.how, lowered.schedule.how
    return lowered


def but(names: Iterable[str], others: Container[str]) -> list[Any]:
    """Parameters; the others, whose like is among the rest or in another test, are long."""
    return [pytest.param(n, marks=pytest.mark.long) if n in others else n for n in names]


CONVOLUTIONS = ("padded strided conv", "padded conv, bias, relu", "depthwise conv")
FAMILIES = (*CONVOLUTIONS, "softmax, long rows", "matmul transposed right", "batched, bias, relu", "max pool, partial windows",
            "every third from anywhere")
"""What OpenCL's compiler takes long for, and is on the GPU's strategy below or in tests/families.py."""


@pytest.mark.part(7)
@pytest.mark.parametrize("name", SMALL)
def test_small_on_every_target(name: str, targets: tuple[str, ...]) -> None:
    program = build(*SMALL[name])
    for target in targets:
        if target != "opencl":
            check(program, target)


@pytest.mark.part(10)
@pytest.mark.parametrize("name", but(SMALL, FAMILIES))
def test_small_on_the_opencl_device(name: str, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    check(build(*SMALL[name]), "opencl")


@pytest.mark.parametrize("name", but(["matmul", "batched matmul", "conv 3x3, small maps"], ["batched matmul"]))
def test_constants_are_prepared_once(name: str) -> None:
    """Packed weights stay with the binding: the inputs may change between calls, the constants may not."""
    program = build(*LARGE[name])
    last = program.inputs[1]
    program = replace(program, constants=(last,))
    lowered = compiler.lower_program(program, "cpu")
    assert lowered.prologue is not None
    check(program, "cpu")
    inputs = arrays(program)
    outputs = [np.zeros(program.tensor(n).shape, "f4") for n in program.outputs]
    call = compiler.compile_program(program, "cpu", 1).bind([*(inputs[n] for n in program.inputs), *outputs])
    inputs[program.inputs[0]][...] *= 3
    call()
    expected = evaluate(program, inputs)
    np.testing.assert_allclose(outputs[0], expected[program.outputs[0]], rtol=1e-5, atol=1e-4)


@pytest.mark.part(8)
@pytest.mark.parametrize("name", SMALL)
def test_in_the_order_of_the_program(name: str) -> None:
    check(build(*SMALL[name]), "cpu", "program")


@pytest.mark.part(17)
@pytest.mark.parametrize("name", but(SMALL, {
    "padded conv, bias, relu", "depthwise conv", "softmax, short rows", "matmul transposed left", "matmul transposed right",
    "batched, bias, relu", "sum of all", "sum of columns", "pool, then dense", "moments", "guarded stencil", "permute"}))
def test_schedules_of_isl(name: str) -> None:
    check(build(*SMALL[name]), "cpu", "isl")


@pytest.mark.part(20)
@pytest.mark.parametrize("name", but({**SMALL, **LARGE}, {  # which tests/rewrite/gpu/test_local_tiles.py maps, too
    "batched matmul", "conv 3x3", "conv 1x1", "conv 3x3, small maps"}))
def test_gpu_mapping(name: str, targets: tuple[str, ...]) -> None:
    """Work-groups and work-items as for a GPU, whatever the device is."""
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    text, shapes = (SMALL.get(name) or LARGE[name])
    check(build(text, shapes), GPU)


@pytest.mark.part(7)
@pytest.mark.parametrize("target", ["cpu", pytest.param("opencl", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", LARGE)
def test_large(name: str, target: str, targets: tuple[str, ...]) -> None:
    if target not in targets:
        pytest.skip(f"{target} does not run here")
    check(build(*LARGE[name]), target, threads=2)


@pytest.mark.long  # `check` asks the same of every program that it compiles
@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_the_strategies_stand_the_legality_check(name: str) -> None:
    text, shapes = (SMALL.get(name) or LARGE[name])
    for target in ("cpu", "opencl"):
        how = compiler.lower_program(build(text, shapes), target).schedule.how
        assert "refused" not in how, how


QUICK_DTYPES = {"matmul": ("f64", "i32", "i64", "u8", "i8"), "matmul transposed right": ("f64", "u8"),
                "transpose": ("i64", "i8"), "sum of rows": ("f64", "i8"), "padded strided conv": ("i32",)}


@pytest.mark.part(13)
@pytest.mark.parametrize(("name", "dtype"), [
    pytest.param(name, dtype, marks=[] if dtype in quick else pytest.mark.long)
    for name, quick in QUICK_DTYPES.items() for dtype in ("f64", "i32", "i64", "u8", "i8")])
def test_dtypes(name: str, dtype: str, targets: tuple[str, ...]) -> None:
    text, shapes = SMALL[name]
    program = build(text, shapes, dict.fromkeys(shapes, dtype))
    for target in targets:
        check(program, target)


def test_gather(targets: tuple[str, ...]) -> None:
    program = build("Y[b,d] = T[I[b],d]", {"T": (20, 16), "I": (7,)}, {"T": "f32", "I": "i64"})
    for target in targets:
        check(program, target)


def test_guarded_gather(targets: tuple[str, ...]) -> None:
    """The guard asks the index that the program gives, not the clamped one that is loaded."""
    program = build("Y[b] = (T[I[b]] else 7)", {"T": (5,), "I": (20,)}, {"T": "f32", "I": "i64"})
    table, index = np.arange(5, dtype="f4"), np.resize([0, 4, 5, -1, 2**40, -2**40, 2**32 + 1], 20)
    for target in targets:
        out = np.empty(20, "f4")
        compiler.compile_program(program, target).run([table, index, out])
        assert out.tolist() == [float(i) if 0 <= i < 5 else 7 for i in index], target


def test_reductions_keep_their_order_when_precise() -> None:
    program = build("def f(f32[N] X) -> (S) { S[] += X[i] }", {"X": (4096,)})
    precise = replace(program, precise=True)
    x = np.random.default_rng(1).standard_normal(4096).astype("f4")
    out = np.zeros((), "f4")
    compiler.compile_program(precise, "cpu").run([x, out])
    total = np.float32(0)
    for v in x:
        total = np.float32(total + v)
    assert out == total


def test_integer_updates_stay_updates() -> None:
    """The simplifier once sorted `s + A[i]` as if it were an index, and the vectoriser took the wrong half for the update."""
    program = build("s += A[i] + B[i]", {"A": (40,), "B": (40,)}, {"A": "i64", "B": "i64"})
    check(program, "cpu")


REGRESSIONS: dict[str, tuple[str, Shapes, tuple[str, ...]]] = {
    "padded copy of a tensor that changes": ("T[i] = X[i]; O[i] += (T[i+r-1] else 0)*W[r] where i in 0:20\n"
                                             "T[i] += X[i]; Q[i] += (T[i+r-1] else 0)*W[r] where i in 0:20\n-> (O,Q)",
                                             {"X": (20,), "W": (3,)}, ()),
    "one sum of what lies outside, too": ("S += (X[61-i,i] else 1) where i in 0:57", {"X": (31, 62)}, ()),
    "constant tensor read before its last write": ("T[i] = W[i]*2; Y[i] = X[i]*T[i]; T[i] += W[i]; Z[i] = X[i]*T[i]\n-> (Y,Z)",
                                                   {"X": (20,), "W": (20,)}, ("W",)),
    "reduction of a constant": ("S[i] += X[i,j]; Y[i] = S[i]*Z[i]", {"X": (6, 70), "Z": (6,)}, ("X",)),
    "named like a register": ("C[i,j] += A[i,k]*C_r8[k,j]; D[i] += A[i,k]*C_r1[k]",
                              {"A": (7, 30), "C_r8": (30, 40), "C_r1": (30,)}, ()),
    "quotient on the left": ("T[j,i//4] += X[i]*Z[j,i]; U[i//8] += X[i]", {"X": (64,), "Z": (3, 64)}, ()),
    "isl's words": ("C[mod,mod_] += A[mod,k]*B[k,mod_]", {"A": (6, 5), "B": (5, 9)}, ()),
    "index values that wrap": ("Y[i] = (i*6364136223846793005 + 1442695040888963407)*300 % 10 where i in 0:20\n"
                               "Z[i,j] = (i*6364136223846793005 + j*1442695040888963407) // 7 > 5 ? A[i] : 0 where j in 0:30",
                               {"A": (20,)}, ()),
}


@pytest.mark.part(4)
@pytest.mark.parametrize("name", REGRESSIONS)
def test_regressions(name: str, targets: tuple[str, ...]) -> None:
    text, shapes, constants = REGRESSIONS[name]
    program = replace(build(text, shapes), constants=constants)
    for target in targets:
        check(program, target)


def test_computed_subscripts_stay_in_bounds() -> None:
    """A subscript that was a temporary is clamped as a gather is, and its reads are not taken for affine ones."""
    program = build("T[i] = i*i where i in 0:10; Y[i] = X[T[i]]", {"X": (20,)})
    x, y = np.arange(20, dtype="f4"), np.zeros(10, "f4")
    compiler.compile_program(program, "interp").run([x, y])
    assert list(y) == [min(i * i, 19) for i in range(10)]
    text = "B[i] = A[i]*3; T[i] = i64(f32(i)*0.5) where i in 0:30; Y[i] = B[T[i]]; B[i] += A[i]\n-> (B, Y)"
    assert "B[a0 = 0]" not in str(compiler.lower_program(build(text, {"A": (30,)}), "interp").scop.reads)


@pytest.mark.parametrize(("text", "kinds", "code"), [
    ("Y[i] = X[i,0] + 1", ("reduce",), "E704"),
    ("S[i] += X[i,j]", ("sequential", "reduce reduce"), "E704"),
    ("S[i] += X[i,j]", ("sequential", "sideways sequential"), "E702"),
    ("S[i] += X[i,j]", ("sequential", "sequential reduce vector"), "E702"),
    ("S[i] += X[i,j]", ("vector", "vector reduce"), None),
    ("Y[i,j] = X[j,i]", ("vector vector",), None),
])
def test_marks_of_a_given_schedule(text: str, kinds: tuple[str, ...], code: str | None) -> None:
    """Kinds that do not fit the statements are refused; nested vector loops are vectors in the inner one only."""
    program = build(text, {"X": (16, 16)})
    marks = iter(kinds)
    order = str(compiler.lower_program(program, "cpu", "program").schedule)
    schedule = re.sub(r'mark: "(\S+)[^"]*"', lambda m: f'mark: "{m.group(1)} {next(marks)}"', order)
    if code is None:
        check(program, "cpu", schedule)
        return
    with pytest.raises(errors.CompileError) as refusal:
        compiler.lower_program(program, "cpu", schedule)
    assert refusal.value.diagnostics[0].code == code


def test_precise_sums_keep_the_order_of_all_their_loops() -> None:
    program = replace(build("S[i] += X[a,i,b]", {"X": (70, 3, 90)}), precise=True)
    x = np.random.default_rng(1).standard_normal((70, 3, 90)).astype("f4")
    for schedule in (None, "isl"):
        out = np.zeros(3, "f4")
        compiler.compile_program(program, "cpu", 1, schedule).run([x, out])
        for i in range(3):
            total = np.float32(0)
            for v in x[:, i].ravel():
                total = np.float32(total + v)
            assert out[i] == total
