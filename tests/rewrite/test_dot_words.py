"""Sums of products of narrow numbers as dot products of words: exact for all types, extents and machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import polytc
from polytc.codegen.target import Target
from polytc.compiler import compile_program, lower_program
from polytc.lang import build, evaluate
from polytc.machine import AVX2, AVX512, NEON, SVE, Machine
from polytc.native import jit
from polytc.program import program as pr
from polytc.program.calls.words import DOTS
from polytc.program.scalars import named
from polytc.rewrite import dot_words, table
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from tests.processor_here import target_for
from tests.rewrite.equal import same_results

VNNI = replace(AVX512, features="+avx512vnni,+avx512bf16,+avx512vl,+avx512bw")
AMX = replace(VNNI, features=VNNI.features + ",+amx-tile,+amx-int8,+amx-bf16")
VNNI256 = replace(AVX2, features="+avxvnni")
DOTPROD = replace(NEON, features="+neon,+dotprod")
SVE_DOTPROD = replace(SVE, features="+neon,+sve,+dotprod,+i8mm")
I8MM = replace(NEON, features="+neon,+dotprod,+i8mm")
MACHINES = {"VNNI": VNNI, "AMX": AMX, "AVX-VNNI": VNNI256, "AVX2": AVX2, "dotprod": DOTPROD, "i8mm": I8MM}
TARGETS: dict[str, Target | str] = {"cpu": "cpu"} | {
    name: target_for(m, "cpu" if name == "dotprod" else "interp") for name, m in MACHINES.items()}
BYTES = ("i8", "u8")
PATHS = [pytest.param(t, marks=() if t in ("cpu", "AMX", "AVX2", "dotprod") else pytest.mark.long) for t in TARGETS]
"""Of the machines, quick are one with each way to add up bytes: tiles, words of four, pairs of i16, and the processor here."""
MATMUL = "C[i,j] += i32(A[i,k]) * i32(B[k,j])"


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], extreme: bool) -> np.ndarray:
    """Numbers of the whole range, or only its ends."""
    limits = np.iinfo(named(dtype).numpy)
    if extreme:
        return rng.choice(np.array([limits.min, limits.max], limits.dtype), shape)
    return rng.integers(limits.min, limits.max, shape, limits.dtype, endpoint=True)


def run(program: pr.Program, target: Target | str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    t = program.tensor(program.outputs[0])
    out = np.full(t.shape, 77, t.dtype.numpy)
    compile_program(program, target).run([*(arrays[n] for n in program.inputs), out])
    return out


def has_dots(program: pr.Program, machine: Machine) -> bool:
    text = str(lower_program(program, InterpTarget(machine)).loops)
    return any(name in text for name in DOTS)


PRODUCTS = given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.sampled_from(("i8", "u8", "i16")),
                 st.sampled_from(("i8", "u8", "i16")), st.booleans(), st.sampled_from(list(TARGETS)), st.integers(0, 99))


@pytest.mark.long
@settings(max_examples=4, deadline=None)
@PRODUCTS
@example(33, 35, 37, "i8", "i8", True, "cpu", 0)
@example(16, 16, 64, "i8", "i8", True, "cpu", 0)
@example(70, 90, 150, "i8", "i8", False, "cpu", 0)
@example(49, 81, 131, "i8", "u8", True, "cpu", 0)
@example(49, 81, 131, "u8", "i8", True, "AMX", 0)
@example(64, 64, 256, "u8", "u8", True, "cpu", 0)
@example(33, 35, 37, "u8", "u8", True, "cpu", 0)
@example(33, 35, 37, "u8", "i8", True, "cpu", 0)
@example(33, 35, 37, "i8", "u8", True, "cpu", 0)
@example(33, 35, 37, "i16", "i16", True, "cpu", 0)
def test_matrix_products(m: int, n: int, k: int, a: str, b: str, extreme: bool, target: str, seed: int) -> None:
    matrix_product(m, n, k, a, b, extreme, target, seed)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@PRODUCTS
def test_many_matrix_products(m: int, n: int, k: int, a: str, b: str, extreme: bool, target: str, seed: int) -> None:
    matrix_product(m, n, k, a, b, extreme, target, seed)


def matrix_product(m: int, n: int, k: int, a: str, b: str, extreme: bool, target: str, seed: int) -> None:
    program = build(MATMUL, {"A": (m, k), "B": (k, n)}, {"A": a, "B": b})
    rng = np.random.default_rng(seed)
    arrays = {"A": numbers(rng, a, (m, k), extreme), "B": numbers(rng, b, (k, n), extreme)}
    expected = (arrays["A"].astype(np.int64) @ arrays["B"].astype(np.int64)).astype(np.int32)
    assert np.array_equal(run(program, TARGETS[target], arrays), expected)


@pytest.mark.part(4)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("a", BYTES)
@pytest.mark.parametrize("b", BYTES)
def test_each_machine_uses_what_it_has(machine: str, a: str, b: str) -> None:
    assert has_dots(build(MATMUL, {"A": (32, 64), "B": (64, 32)}, {"A": a, "B": b}), MACHINES[machine])


@pytest.mark.parametrize("machine", MACHINES)
def test_precise_sums_keep_their_order(machine: str) -> None:
    program = build(MATMUL, {"A": (32, 64), "B": (64, 32)}, {"A": "u8", "B": "i8"})
    assert not has_dots(replace(program, precise=True), MACHINES[machine])


@pytest.mark.parametrize("a", BYTES)
@pytest.mark.parametrize("b", BYTES)
def test_without_such_instructions_the_sums_stay_as_they_are(a: str, b: str) -> None:
    assert not has_dots(build(MATMUL, {"A": (32, 64), "B": (64, 32)}, {"A": a, "B": b}), NEON)


@pytest.mark.part(5)
@pytest.mark.parametrize(("cell", "place", "words"), [
    ("i,j", lambda i, j: (i, j), True), ("j,i", lambda i, j: (j, i), True), ("0,i,j", lambda i, j: (0 * i, i, j), True),
    ("i,3,j", lambda i, j: (i, 0 * i, j), True), ("i//2,j", lambda i, j: (i // 2, j), True),  # gathered: two rows a place
    ("23-i,j", lambda i, j: (23 - i, j), True),  # its place becomes the index
    ("2*i,j", lambda i, j: (2 * i, j), False), ("i+j", lambda i, j: (i + j,), False), ("i,i,j", lambda i, j: (i, i, j), False)])
def test_results_of_words_have_places_of_their_own(
        cell: str, place: Callable[..., tuple[np.ndarray, ...]], words: bool) -> None:
    """Zero points are taken off once for each of them."""
    text = f"C[{cell}] += (i32(A[i,k]) - 7) * (i32(B[k,j]) - 3)"
    program = build(text, {"A": (24, 19), "B": (19, 37)}, {"A": "u8", "B": "i8"})
    assert has_dots(program, VNNI) == words
    rng = np.random.default_rng(0)
    arrays = {"A": numbers(rng, "u8", (24, 19), False), "B": numbers(rng, "i8", (19, 37), False)}
    found = run(program, TARGETS["cpu"], arrays)
    expected = np.zeros_like(found)
    i, j = np.ogrid[:24, :37]
    np.add.at(expected, place(i, j), ((arrays["A"].astype(int) - 7) @ (arrays["B"].astype(int) - 3)).astype(np.int32))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.part(14)
@pytest.mark.parametrize(("target", "a", "b"), [
    pytest.param(t, *types, marks=() if t in ("cpu", "AVX2", *also) else pytest.mark.long)
    for types, also in ((("u8", "i8"), ("VNNI", "i8mm")), (("u8", "u8"), ("AVX-VNNI",)), (("i8", "i8"), ("AMX", "dotprod")),
                        (("i16", "i8"), ("VNNI",))) for t in TARGETS])
def test_zero_points(target: str, a: str, b: str) -> None:
    """Numbers, and tensors that the sum does not depend on."""
    text = "C[i,j] += (i32(A[i,k]) - 7) * (i32(B[k,j]) - i32(Z[j]))"
    program = build(text, {"A": (24, 19), "B": (19, 37), "Z": (37,)}, {"A": a, "B": b, "Z": b})
    rng = np.random.default_rng(0)
    arrays = {"A": numbers(rng, a, (24, 19), True), "B": numbers(rng, b, (19, 37), True), "Z": numbers(rng, b, (37,), False)}
    wide = {n: x.astype(np.int64) for n, x in arrays.items()}
    expected = ((wide["A"] - 7) @ (wide["B"] - wide["Z"])).astype(np.int32)
    assert np.array_equal(run(program, TARGETS[target], arrays), expected)
    assert target != "cpu" or has_dots(program, VNNI)


@pytest.mark.part(8)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("weights", "lead"), [
    ((), ""), (("W",), "0,"), pytest.param((), "0,", marks=pytest.mark.long), pytest.param(("W",), "", marks=pytest.mark.long)])
def test_convolutions_with_padding(target: str, weights: tuple[str, ...], lead: str) -> None:
    """lead: the axis of one image."""
    channels, high = (10, 9) if target == "cpu" else (6, 3)  # the interpreter runs loops in Python
    text = f"O[{lead}m,h,w] += (i32(X[c,h+r-1,w+s-1] else 0) - 3) * i32(W[m,c,r,s]) where h in 0:{high}, w in 0:17"
    image, filters = (channels, high, 17), (16, channels, 3, 3)
    program = replace(build(text, {"X": image, "W": filters}, {"X": "u8", "W": "i8"}), constants=weights)
    rng = np.random.default_rng(0)
    arrays = {"X": numbers(rng, "u8", image, False), "W": numbers(rng, "i8", filters, True)}
    padded = np.pad(arrays["X"].astype(np.int64), ((0, 0), (1, 1), (1, 1))) - 3
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    expected = np.einsum("chwrs,mcrs->mhw", windows, arrays["W"].astype(np.int64)).astype(np.int32)
    assert np.array_equal(run(program, TARGETS[target], arrays).reshape(expected.shape), expected)
    assert target != "cpu" or has_dots(program, VNNI)


@pytest.mark.part(39)
@pytest.mark.parametrize("target", PATHS)
@pytest.mark.parametrize("text", [
    "C[0,i,j] = i32(A[i,j])\nC[0,i,j] += (i32(A[i,k]) - 1) * (i32(B[k,j]) - 2)",
    "C[i,j,0] += (i32(A[i,k]) - 1) * i32(B[k,j])\nY[i,j] = C[i,j,0] + 1",
    "C[i,j] = i32(A[i,j])\nC[i,j] += i32(A[i,k]) * i32(B[k,j])",
    "C[i,j] = i32(A[i,j])\nS[j] += C[i,j]\nC[i,j] += i32(A[i,k]) * i32(B[k,j])\nY[i,j] = C[i,j] + S[j]",
    "S[i,j] = i32(A[i,j])\nC[i,j] = S[i,j]\nS[i,j] = 7\nC[i,j] += (i32(A[i,k]) - 1) * i32(B[k,j])\nY[i,j] = C[i,j] + S[i,j]",
    "C[j,i] += i32(A[i,k]) * i32(B[j,k])",
    "C[i,j] += i32(A[i,k]) * i32(B[k,j])\nC[i,j] += i32(A[i,k]) * i32(B[j,k])",
    "C[n,i,j] += (i32(A[i,k]) - 1) * (i32(D[n,k,j]) - 2)",
    "C[i] += i32(A[i,k]) * i32(B[k,5])",
    "C[i,j] max= i32(A[i,k]) * i32(B[k,j])",
    "C[i,j] += i32(A[i,k]) * i32(B[k,j]) where k <= i",
])
def test_what_surrounds_the_sum(target: str, text: str) -> None:
    n = 33 if target in ("cpu", "AMX") else 19  # tiles need as much; the interpreter runs loops in Python
    shapes = {t: s for t, s in {"A": (n, n), "B": (n, n), "D": (3, n, n)}.items() if f"{t}[" in text}
    program = build(text, shapes, dict.fromkeys(shapes, "i8"))
    rng = np.random.default_rng(0)
    arrays = {n: numbers(rng, "i8", s, False) for n, s in shapes.items()}
    expected = evaluate(program, arrays)[program.outputs[0]]
    assert np.array_equal(run(program, TARGETS[target], arrays), expected)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 30), st.integers(1, 40), st.integers(1, 40), st.sampled_from(["cpu", "VNNI"]), st.integers(0, 99))
@example(24, 35, 37, "cpu", 0)
@example(24, 35, 37, "VNNI", 0)
@example(70, 90, 150, "cpu", 0)
def test_bf16_accumulated_in_f32(m: int, n: int, k: int, target: str, seed: int) -> None:
    program = build("C[i,j] += f32(A[i,k]) * f32(B[k,j])", {"A": (m, k), "B": (k, n)}, {"A": "bf16", "B": "bf16"})
    rng = np.random.default_rng(seed)
    arrays = {name: rng.standard_normal(s).astype(ml_dtypes.bfloat16) for name, s in {"A": (m, k), "B": (k, n)}.items()}
    a, b = (x.astype(np.float64) for x in arrays.values())
    error = np.abs(run(program, TARGETS[target], arrays) - a @ b)
    assert (error <= (k + 2) * 2.0 ** -24 * (np.abs(a) @ np.abs(b))).all()


def test_bf16_uses_words() -> None:
    program = build("C[i,j] += f32(A[i,k]) * f32(B[k,j])", {"A": (32, 64), "B": (64, 32)}, {"A": "bf16", "B": "bf16"})
    assert "dot_bf16" in str(lower_program(program, InterpTarget(VNNI)).loops)


def test_rewritten_programs_mean_the_same() -> None:
    """The rewrite alone, by the reference evaluator."""
    program = build("C[i,j] += (i32(A[i,k]) - 5) * (i32(B[k,j]) + -9)", {"A": (20, 21), "B": (21, 22)}, {"A": "i8", "B": "u8"})
    rng = np.random.default_rng(0)
    arrays = {"A": numbers(rng, "i8", (20, 21), True), "B": numbers(rng, "u8", (21, 22), True)}
    expected = evaluate(program, arrays)["C"]
    for machine in MACHINES.values():
        assert np.array_equal(evaluate(table.named("dot_words").run(program, machine), arrays)["C"], expected)


@pytest.mark.part(4)
@pytest.mark.parametrize(("machine", "cpu", "operands", "instruction"), [
    (DOTPROD, "neoverse-n1", ("i8", "i8"), "sdot"), (DOTPROD, "neoverse-n1", ("u8", "u8"), "udot"),
    (SVE_DOTPROD, "neoverse-v1", ("i8", "i8"), "sdot"), (I8MM, "neoverse-n2", ("u8", "i8"), "usdot"),
    (VNNI, "cascadelake", ("u8", "i8"), "vpdpbusd"), (VNNI, "cascadelake", ("i8", "i8"), "vpdpbusd"),
    (AMX, "sapphirerapids", ("u8", "i8"), "tdpbusd"), (AMX, "sapphirerapids", ("i8", "i8"), "tdpbusd"),
    (AMX, "sapphirerapids", ("bf16", "bf16"), "tdpbf16ps"),
    (VNNI, "cooperlake", ("bf16", "bf16"), "vdpbf16ps"),
    (VNNI, "cascadelake", ("i16", "i16"), "vpdpwssd"),
    (VNNI256, "alderlake", ("u8", "i8"), "vpdpbusd"), (AVX2, "haswell", ("i8", "i8"), "vpmaddwd")])
def test_instructions(machine: Machine, cpu: str, operands: tuple[str, str], instruction: str) -> None:
    triple = "aarch64-unknown-linux-gnu" if machine.has("neon") else "x86_64-unknown-linux-gnu"
    wide = "f32" if operands[0] == "bf16" else "i32"
    text = MATMUL.replace("i32", wide)
    program = build(text, {"A": (64, 64), "B": (64, 64)}, dict(zip("AB", operands, strict=True)))
    source = lower_program(program, LLVMTarget(replace(machine, cpu=cpu))).source
    tuning = jit.Tuning(slp=False, vectorize=False, level=1)
    assert instruction in jit.assembly(source.text, cpu, machine.features, tuning, triple)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", "AMX", "AVX2"])
def test_an_index_of_one_factor_alone(target: str) -> None:
    """The sum goes over r, too, which B does not have; so do the sums that the zero points ask for."""
    text = "C[i,j] += (i32(A[r,i,k]) - 3) * (i32(B[k,j]) - 5)"
    program = build(text, {"A": (3, 17, 64), "B": (64, 33)}, {"A": "u8", "B": "i8"})
    assert has_dots(program, AMX)
    rng = np.random.default_rng(0)
    arrays = {"A": numbers(rng, "u8", (3, 17, 64), False), "B": numbers(rng, "i8", (64, 33), False)}
    expected = np.einsum("rik,kj->ij", arrays["A"].astype(np.int64) - 3, arrays["B"].astype(np.int64) - 5)
    assert np.array_equal(run(program, TARGETS[target], arrays), expected)


def test_matrix_units_take_two_by_two_tiles() -> None:
    """Four products for two loads of each operand, in tiles as high and wide as what is there: 70 rows are 2 blocks of 24 and
    one of 22, 90 columns 2 panels of 32 and one of 26, 38 words 3 tiles."""
    program = build(MATMUL, {"A": (70, 150), "B": (150, 90)}, {"A": "u8", "B": "i8"})
    lowered = lower_program(program, LLVMTarget(AMX))
    assert "u32[3, 3, 24, 16] A_words" in str(lowered.rewritten)
    assert "u32[3, 3, 16, 32] B_words" in str(lowered.rewritten)
    text = lowered.source.text
    nests = text.count("call void @llvm.x86.tdpbusd(") // 4
    assert nests > 0
    assert text.count("call void @llvm.x86.tdpbusd(") == text.count("call void @llvm.x86.tileloadd64(") == 4 * nests
    assert text.count("call void @llvm.x86.tilezero(") == 4 * nests
    assert "vpdpbusd" not in text, "nothing is left to vector code"


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 300), st.sampled_from(["i8", "u8", "bf16"]),
       st.sampled_from([(), ("B",)]))
def test_any_extents_compile_for_a_matrix_unit(m: int, n: int, k: int, dtype: str, constants: tuple[str, ...]) -> None:
    """LLVM aborts where tiles run out."""
    text = MATMUL.replace("i32", "f32") if dtype == "bf16" else MATMUL
    program = replace(build(text, {"A": (m, k), "B": (k, n)}, {"A": dtype, "B": dtype}), constants=constants)
    source = lower_program(program, LLVMTarget(AMX)).source
    jit.assembly(source.text, "sapphirerapids", AMX.features, jit.Tuning(slp=False, vectorize=False, level=1),
                 "x86_64-unknown-linux-gnu")


IMAGE = ("O[h,w,m] += i32(X[{stride}*h+r-{pad}, {stride}*w+s-{pad}, c] else 3) * i32(W[m,c,r,s])"
         " where h in 0:{high}, w in 0:{wide}")


def image_program(high: int, wide: int, channels: int, filters: int, window: int, stride: int) -> pr.Program:
    """A convolution of bytes, with channels last, that keeps the image's extents but for the stride."""
    text = IMAGE.format(stride=stride, pad=window // 2, high=-(-high // stride), wide=-(-wide // stride))
    shapes = {"X": (high, wide, channels), "W": (filters, channels, window, window)}
    return replace(build(text, shapes, {"X": "u8", "W": "i8"}), constants=("W",))


def image_result(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    window = w.shape[-1]
    padded = np.pad(x.astype(np.int64), (*[(window // 2,) * 2] * 2, (0, 0)), constant_values=3)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (0, 1))[::stride, ::stride]
    return np.einsum("hwcrs,mcrs->hwm", windows, w.astype(np.int64)).astype(np.int32)


IMAGES = ((5, 14, 64, 64, 3, 1), (3, 28, 64, 32, 3, 1), (7, 7, 64, 48, 3, 1), (4, 29, 128, 33, 3, 2), (1, 47, 68, 24, 3, 1))
FEW = ((7, 7, 128, 64, 1, 1), (5, 32, 100, 16, 1, 1), (9, 9, 3, 32, 5, 2))
LESS = ((2, 14, 64, 32, 3, 1), (1, 28, 64, 16, 3, 1), (3, 7, 64, 48, 3, 1), (1, 29, 64, 33, 3, 2), (1, 19, 68, 24, 3, 1))
"""As IMAGES, but fewer rows, filters and channels, for the interpreter."""


@pytest.mark.part(11)
@pytest.mark.parametrize(("target", "high", "wide", "channels", "filters", "window", "stride"), [
    *(("cpu", *image) for image in IMAGES + FEW), *(("AMX", *image) for image in FEW + LESS),
    *(pytest.param("AMX", *image, marks=pytest.mark.long) for image in IMAGES)])
def test_images_with_channels_last(target: str, high: int, wide: int, channels: int, filters: int, window: int, stride: int
                                   ) -> None:
    """Sums over windows and channels: tiles as high as rows of images allow, and what is left beside them."""
    program = image_program(high, wide, channels, filters, window, stride)
    rng = np.random.default_rng(0)
    arrays = {n: numbers(rng, program.tensor(n).dtype.name, program.tensor(n).shape, False) for n in "XW"}
    expected = image_result(arrays["X"], arrays["W"], stride)
    assert np.array_equal(run(program, TARGETS[target], arrays), expected)


def test_sums_over_windows_stay_in_tiles() -> None:
    """The tiles of results begin with zeros, go through all loops of the reduction, and are stored once; 28 rows are two tiles
    of 14."""
    text = lower_program(image_program(3, 28, 64, 32, 3, 1), LLVMTarget(AMX)).source.text
    assert text.count("call void @llvm.x86.tilezero(") == 4
    assert text.count("call void @llvm.x86.tdpbusd(") == 4
    assert text.count("call void @llvm.x86.tilestored64(") == 4
    assert "vpdpbusd" not in text, "nothing is left to vector code"


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 12), st.integers(1, 60), st.integers(16, 140), st.integers(1, 70), st.sampled_from([1, 3]),
       st.sampled_from([1, 2]))
def test_any_image_compiles_for_a_matrix_unit(high: int, wide: int, channels: int, filters: int, window: int, stride: int
                                              ) -> None:
    """LLVM aborts where tiles run out."""
    source = lower_program(image_program(high, wide, channels, filters, window, stride), LLVMTarget(AMX)).source
    jit.assembly(source.text, "sapphirerapids", AMX.features, jit.Tuning(slp=False, vectorize=False, level=1),
                 "x86_64-unknown-linux-gnu")


def test_a_machine_without_matrix_unit_has_no_tiles() -> None:
    program = build(MATMUL, {"A": (64, 64), "B": (64, 64)}, {"A": "u8", "B": "i8"})
    assert "tile" not in lower_program(program, LLVMTarget(VNNI)).source.text


def test_opencl_has_no_words(targets: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, "i8", (32, 5), False), numbers(rng, "u8", (5, 33), False)
    for target in targets:
        np.testing.assert_array_equal(polytc.compile(MATMUL, target=target)(a, b), a.astype(np.int32) @ b.astype(np.int32))
    assert AVX2.dots
    assert not replace(AVX2, max_work_group=4096).dots


@pytest.mark.parametrize(("a", "b", "flipped"), [("u8", "i8", False), ("i8", "i8", True)])
def test_what_is_decided_is_done_and_exact(a: str, b: str, flipped: bool) -> None:
    before = build(MATMUL, {"A": (64, 63), "B": (63, 64)}, {"A": a, "B": b})
    decision = dot_words.decide(before, VNNI)
    assert decision.choices == (dot_words.DotWords("S1", "dot_u8i8", "k"),)
    after = dot_words.group(before, decision)
    assert ("dot_u8i8" in str(after), "128" in str(after)) == (True, flipped)
    assert after.tensor("A_words").shape == (64, 16), "63 numbers and a 0"
    same_results(before, after)


@pytest.mark.parametrize(("machine", "dtype"), [("VNNI", "i8"), ("VNNI", "u8"), ("dotprod", "i8")])
def test_numbers_with_their_top_bit_flipped(machine: str, dtype: str) -> None:
    """The rewrite alone against numpy."""
    program = build(MATMUL, {"A": (20, 21), "B": (21, 22)}, {"A": dtype, "B": dtype})
    rng = np.random.default_rng(0)
    arrays = {"A": numbers(rng, dtype, (20, 21), False), "B": numbers(rng, dtype, (21, 22), False)}
    after = table.named("dot_words").run(program, MACHINES[machine])
    assert (" ^ " in str(after)) == (machine == "VNNI")
    expected = arrays["A"].astype(np.int32) @ arrays["B"].astype(np.int32)
    np.testing.assert_array_equal(evaluate(after, arrays)["C"], expected)
