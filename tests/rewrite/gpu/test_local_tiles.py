"""Contractions for GPUs: tiles in local memory and registers, against numpy, in the interpreter and on an OpenCL device."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen import loops, traverse
from polytc.codegen.target import Target
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.rewrite import staging
from polytc.rewrite.gpu import division, local_tiles
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

Shapes = dict[str, tuple[int, ...]]

MATMUL = "C[i,j] += A[i,k]*B[k,j]"


def _conv(W: np.ndarray, X: np.ndarray, stride: int = 1) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(X, W.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("cdrs,ndhwrs->nchw", W, windows)


def _bordered(X: np.ndarray) -> np.ndarray:
    return np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)))


PROGRAMS: dict[str, tuple[str, Shapes, Callable[..., np.ndarray]]] = {
    "odd sizes": (MATMUL, {"A": (37, 53), "B": (53, 29)}, lambda A, B: A @ B),
    "whole tiles": (MATMUL, {"A": (64, 32), "B": (32, 64)}, lambda A, B: A @ B),
    "both transposed": ("C[j,i] += A[k,i]*B[j,k]", {"A": (21, 37), "B": (29, 21)}, lambda A, B: B @ A),
    "batched": ("C[b,i,j] += A[b,i,k]*B[b,k,j]", {"A": (3, 20, 30), "B": (3, 30, 40)}, lambda A, B: A @ B),
    "what follows": (f"{MATMUL}; D[i,j] = max(C[i,j] + b[j], 0)", {"A": (20, 19), "B": (19, 26), "b": (26,)},
                     lambda A, B, b: np.maximum(A @ B + b, 0)),
    "no sum of products": ("C[i,j] max= abs(A[i,k] - B[k,j])", {"A": (17, 21), "B": (21, 19)},
                           lambda A, B: np.abs(A[:, :, None] - B[None]).max(1)),
    "a factor without the reduced index": ("C[i,j] += A[i,k]*B[k,j]*s[i]", {"A": (17, 21), "B": (21, 19), "s": (17,)},
                                           lambda A, B, s: (A @ B) * s[:, None]),
    "a part of the operands": (f"{MATMUL} where i in 3:30, k in 5:42", {"A": (37, 53), "B": (53, 29)},
                               lambda A, B: A[3:30, 5:42] @ B[5:42]),
    "convolution": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,h+r,w+s]", {"W": (9, 5, 3, 3), "X": (2, 5, 11, 19)}, _conv),
    "strided convolution": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,2*h+r,2*w+s] where h in 0:8, w in 0:11",
                            {"W": (9, 5, 3, 3), "X": (1, 5, 17, 23)}, lambda W, X: _conv(W, X, 2)),
    "padded convolution": ("O[n,c,h,w] += W[c,d,r,s]*(X[n,d,h+r-1,w+s-1] else 0) where h in 0:13, w in 0:11",
                           {"W": (9, 5, 3, 3), "X": (2, 5, 13, 11)}, lambda W, X: _conv(W, _bordered(X))),
    "convolution of small images": ("O[n,c,h,w] += W[c,d,r,s]*(X[n,d,h+r-1,w+s-1] else 0) where h in 0:5, w in 0:6",
                                    {"W": (17, 9, 3, 3), "X": (1, 9, 5, 6)}, lambda W, X: _conv(W, _bordered(X))),
}

FEW = {
    "long sums": (f"{MATMUL}; D[i,j] = max(C[i,j] + b[j], 0)", {"A": (20, 768), "B": (768, 40), "b": (40,)},
                  lambda A, B, b: np.maximum(A @ B + b, 0)),
    "long sums of no products": ("C[i,j] max= abs(A[i,k] - B[k,j])", {"A": (17, 512), "B": (512, 19)},
                                 lambda A, B: np.abs(A[:, :, None] - B[None]).max(1)),
    "a small image": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,h+r,w+s]", {"W": (9, 32, 3, 3), "X": (1, 32, 9, 9)}, _conv),
    "a start from a sum": (f"m[i] += b[i,j]; C[i,j] = m[i] where j in 0:40; {MATMUL} -> (C)",
                           {"A": (20, 512), "B": (512, 40), "b": (20, 40)}, lambda A, B, b: A @ B + b.sum(1, keepdims=True)),
}
"""Contractions of a few tiles."""


def arrays(shapes: Shapes, dtype: str = "f4") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {n: rng.integers(-8, 9, s).astype(dtype) for n, s in shapes.items()}


def run(text: str, given: dict[str, np.ndarray], target: Target) -> np.ndarray:
    program = stages.build(text, {n: a.shape for n, a in given.items()}, {n: a.dtype for n, a in given.items()})
    name = program.outputs[-1]
    t = program.tensor(name)
    buffers = {n: np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy) for n in program.outputs} | given
    compiler.compile_program(program, target).run([buffers[n] for n in program.arrays])
    assert buffers[name].shape == t.shape
    return buffers[name]


def kernels(text: str, shapes: Shapes, machine: str = "generic-gpu") -> tuple[loops.Module, str]:
    """The loops, and OpenCL C."""
    program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
    lowered = compiler.lower_program(program, OpenCLTarget(DEVICES[machine]))
    assert "refused" not in lowered.schedule.how
    return lowered.loops, lowered.source.text


@pytest.mark.part(12)
@pytest.mark.parametrize("name", [
    pytest.param(n, marks=pytest.mark.long if n == "padded convolution" else []) for n in PROGRAMS])
def test_results(name: str, targets: tuple[str, ...]) -> None:
    """What is compiled is looked at, too: tiles are in local memory and accumulators in registers."""
    text, shapes, expected = PROGRAMS[name]
    given = arrays(shapes)
    if name == "what follows":
        np.testing.assert_array_equal(run(text, given, InterpTarget(GENERIC_GPU)), expected(**given))
    lowered = []
    with pytest.MonkeyPatch.context() as patch:
        lower = compiler.lower_program
        patch.setattr(compiler, "lower_program", lambda *a: lowered.append(lower(*a)) or lowered[-1])
        if "opencl" in targets:
            np.testing.assert_array_equal(run(text, given, OpenCLTarget()), expected(**given))
    if lowered:
        assert "refused" not in lowered[0].schedule.how
    assert_tiles(name, *((lowered[0].loops, lowered[0].source.text) if lowered else kernels(text, shapes)))


@pytest.mark.part(12)
@pytest.mark.parametrize(("name", "machine"), [
    pytest.param(n, m, marks=[] if m == "nvidia-sm90" or n == "long sums" else pytest.mark.long)
    for n in FEW for m in ("generic-gpu", "nvidia-sm90", "mali")])
def test_few_tiles_are_divided_along_the_reduction(name: str, machine: str, targets: tuple[str, ...]) -> None:
    text, shapes, expected = FEW[name]
    given = arrays(shapes)
    if "opencl" in targets:
        np.testing.assert_array_equal(run(text, given, OpenCLTarget(DEVICES[machine])), expected(*given.values()))
    if machine == "nvidia-sm90":
        module, _ = kernels(text, shapes, machine)
        assert any("_parts" in b.name for b in module.scratch)


def test_operands_of_one_dimension() -> None:
    text, given = "C[i,j] += x[i+k]*B[k,j]", arrays({"x": (53,), "B": (22, 32)})
    windows = np.lib.stride_tricks.sliding_window_view(given["x"], 22)
    np.testing.assert_array_equal(run(text, given, InterpTarget(GENERIC_GPU)), windows @ given["B"])
    module, _ = kernels(text, {n: a.shape for n, a in given.items()}, "generic-gpu")
    assert any(isinstance(s, loops.Alloc) and s.buffer.space == "local" for k in module.kernels
               for s in traverse.walk_stmt(k.body))


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", ["f2", "f8", "i4", "u1"])
def test_dtypes(dtype: str, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    given = arrays({"A": (33, 20), "B": (20, 22)}, "i8")
    given = {n: (a % 3).astype(dtype) for n, a in given.items()}
    np.testing.assert_array_equal(run(MATMUL, given, OpenCLTarget()), given["A"] @ given["B"])


def test_beyond_the_reduction_infinities_do_not_count(targets: tuple[str, ...]) -> None:
    """The last step is filled up with zeros; s has no zero there, and zero times infinity is no number."""
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    given = arrays({"A": (17, 21), "B": (21, 19), "s": (17,)})
    given["A"], given["B"] = np.abs(given["A"]) + 1, np.abs(given["B"]) + 1
    given["s"][:] = np.inf
    assert np.isinf(run("C[i,j] += A[i,k]*B[k,j]*s[i]", given, OpenCLTarget())).all()


def test_an_update_goes_on_with_what_there_is(targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    text = "def f(A[M,K], B[K,N], inout C[M,N]) { C[i,j] += A[i,k]*B[k,j] }"
    given = arrays({"A": (18, 21), "B": (21, 19), "C": (18, 19)})
    expected = given["C"] + given["A"] @ given["B"]
    np.testing.assert_array_equal(run(text, given, OpenCLTarget()), expected)


def test_contractions_of_one_size_are_kernels_of_their_own() -> None:
    module, source = kernels(f"{MATMUL}; D[i,j] += C[i,k]*E[k,j]", {"A": (64, 64), "B": (64, 64), "E": (64, 64)})
    assert [b.name for b in module.scratch] == ["C"]
    assert source.count("__kernel") == 2


def assert_tiles(name: str, module: loops.Module, source: str) -> None:
    own = {s.buffer.name: s.buffer for k in module.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Alloc)}
    tiles = [b for b in own.values() if b.space == "local"]
    assert module.scratch == ()
    assert len([b for b in tiles if not b.name.endswith("_other")]) == 2  # those are second buffers
    assert sum(b.size * b.dtype.bytes for b in tiles) <= GENERIC_GPU.local_bytes
    assert any(b.space == "private" and n.endswith("_acc") for n, b in own.items())
    assert source.count("barrier(") == (1 if "convolution" in name else 2)  # whose reduction is one step
    guarded = [line for line, following in pairwise(source.splitlines()) if "barrier(" in following and " if " in line]
    assert guarded == []


@pytest.mark.part(15)
@pytest.mark.parametrize("size", [40, pytest.param(300, marks=pytest.mark.long), 2048])
@pytest.mark.parametrize("machine", [n for n, m in DEVICES.items() if m.fast_local_memory])
def test_groups_keep_the_limits_of_the_device(machine: str, size: int) -> None:
    m = DEVICES[machine]
    program = stages.build(MATMUL, {"A": (size, size), "B": (size, size)}, {"A": "f32", "B": "f32"})
    source = compiler.lower_program(program, OpenCLTarget(m)).source
    items = source.launches[0].local_size
    assert 32 <= np.prod(items) <= m.max_work_group
    assert 0 < int(source.options["local_bytes"]) <= m.local_bytes


@pytest.mark.part(2)
@pytest.mark.parametrize(("size", "channels"), [
    pytest.param(56, 64, marks=pytest.mark.long), pytest.param(28, 128, marks=pytest.mark.long), (14, 256), (7, 512)])
def test_items_lie_over_the_rows_of_small_images_too(size: int, channels: int) -> None:
    """A tile is of no use beyond the ends of the image."""
    text = f"O[n,c,h,w] += W[c,d,r,s]*(X[n,d,h+r-1,w+s-1] else 0) where h in 0:{size}, w in 0:{size}"
    shapes = {"W": (channels, channels, 3, 3), "X": (1, channels, size, size)}
    program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
    lowered = compiler.lower_program(program, OpenCLTarget(DEVICES["nvidia-sm90"]))
    launch, own = lowered.source.launches[0], traverse.walk_stmt(lowered.loops.kernels[0].body)
    tile, = (s.buffer.size for s in own if isinstance(s, loops.Alloc) and s.buffer.name.endswith("_acc"))
    parts = next((b.shape[0] for b in lowered.loops.scratch if b.name == "O_parts"), 1)  # of the reduction
    assert "X_pad" not in {b.name for b in lowered.loops.scratch}
    assert np.prod(np.divide(launch.global_size, launch.local_size)) * tile <= 2.7 * channels * size * size * parts


def test_groups_divide_a_long_reduction_with_few_results(targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    given = arrays({"A": (40, 4096), "B": (4096, 36), "b": (36,)})
    text = f"{MATMUL}; D[i,j] = max(C[i,j] + b[j], 0)"
    target = OpenCLTarget(DEVICES["nvidia-sm90"])
    np.testing.assert_array_equal(run(text, given, target), np.maximum(given["A"] @ given["B"] + given["b"], 0))
    module, source = kernels(text, {n: a.shape for n, a in given.items()}, "nvidia-sm90")
    (parts,) = module.scratch
    assert parts.shape[0] >= 8
    assert parts.shape[1:] == (40, 36)
    assert source.count("__kernel") == 2


def test_words_of_neighbouring_items_are_in_different_banks() -> None:
    """Items copy weights in the order of memory, which the tile has the other way round."""
    text = "O[n,c,h,w] += W[c,d,r,s]*X[n,d,h+r,w+s]"
    _, source = kernels(text, {"W": (64, 64, 3, 3), "X": (1, 64, 30, 30)}, "nvidia-sm90")
    rows = int(source.split("__local float W_tile")[1].split(";")[0].split("[")[-1].split("]")[0])
    assert len({item * rows % 32 for item in range(32)}) >= 16


def test_vectors_are_loaded_and_stored_where_sizes_allow() -> None:
    _, source = kernels(MATMUL, {"A": (1024, 64), "B": (64, 1024)})
    assert "*(__global float4*)(C + " in source
    assert "*(__global const float4*)(B + " in source
    assert "*(__local const float4*)&B_tile[" in source
    assert " if (" not in source
    assert "float4 C_acc" in source


@pytest.mark.parametrize(("text", "shapes"), [
    ("y[i] += A[i,k]*x[k]", {"A": (64, 64), "x": (64,)}),
    (MATMUL, {"A": (4, 64), "B": (64, 64)}),
    (f"{MATMUL} where k <= i, k + 3 > i", {"A": (40, 40), "B": (40, 40)}),
    (f"{MATMUL}; y[i] = C[i,0]", {"A": (2, 3), "B": (3, 2)}),
])
def test_what_does_not_gain_is_left_alone(text: str, shapes: Shapes) -> None:
    assert "_tile" not in kernels(text, shapes)[1]


def test_reasons_tell_of_each_group() -> None:
    def told(text: str) -> str:
        program = stages.build(text, {n: (512, 512) for n in "AB" if n in text})
        return " | ".join(map(str, staging.STRAIGHT.decide(program, DEVICES["nvidia-sm90"]).reasons))
    assert "S1_parts: tiles of 64 x 64 results by 16 x 16 items, operands in local memory" in told(MATMUL)
    assert told("S[i] += A[i,k]") == "S1_init, S1: the items of a group reduce together"
    assert "not divided" in told("C[i,j] = A[i,j]*2")


def test_tensors_that_nothing_uses_go() -> None:
    program = stages.build(MATMUL, {"A": (64, 64), "B": (64, 64)})
    staged = local_tiles.map_to_work_groups(program, division.own(GENERIC_GPU))
    assert {"C_acc", "A_tile", "B_tile"} <= {t.name for t in staged.tensors}
    assert local_tiles.without_unused_tensors(staged) == staged
