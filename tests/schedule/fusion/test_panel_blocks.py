"""Copies in panels and what reads them, a block of panels after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import errors
from polytc.codegen import loops, traverse
from polytc.compiler import lower_program
from polytc.lang import build
from polytc.machine import AVX2, Cache, Machine
from polytc.schedule.facts.fusion_groups import partition
from polytc.schedule.fusion import panel_blocks
from polytc.schedule.fusion.outer_fusion import clusters
from polytc.targets.llvm.target import LLVMTarget
from tests.behind import rewritten as behind_all

PRODUCT = "C[i,j] += A[i,k]*B[k,j]"
SMALL = replace(AVX2, caches=(Cache(1 << 10, 8, 64), Cache(4 << 10, 8, 64), Cache(1 << 20, 16, 64)), cores=1)
"""A machine on which small products are large ones."""


def blocks(text: str, shapes: dict[str, tuple[int, ...]], machine: Machine = AVX2) -> list[int]:
    """Iterations of a block of each cluster that has blocks."""
    rewritten = behind_all(build(text, shapes), machine)
    return [c.block for c in clusters(rewritten, partition(rewritten), machine) if c.block > 1]


def test_a_copy_is_made_in_blocks_of_some_hundred_bytes_a_row() -> None:
    (block,) = blocks(PRODUCT, {"A": (64, 1000), "B": (1000, 1000)})
    assert block % 8 == 0
    assert panel_blocks.ROW <= block * 4 < 2 * panel_blocks.ROW
    module = lower_program(build(PRODUCT, {"A": (64, 1000), "B": (1000, 1000)}), LLVMTarget(AVX2)).loops
    assert module.scratch == (), "a slice for each thread is left, inside the kernel"
    slices = [x.buffer for x in traverse.walk_stmt(module.kernels[0].body)
              if isinstance(x, loops.Alloc) and x.buffer.space == "local"]
    assert slices
    assert all(b.size <= 1000 * block for b in slices)


def test_threads_get_blocks_enough() -> None:
    wide, narrow = (blocks(PRODUCT, {"A": (64, 1000), "B": (1000, 1000)}, replace(AVX2, cores=c))[0] for c in (2, 16))
    assert narrow < wide
    assert not blocks(PRODUCT, {"A": (64, 1000), "B": (1000, 1000)}, replace(AVX2, cores=200)), "there are fewer panels"


def test_small_copies_stay_as_they_are() -> None:
    assert not blocks(PRODUCT, {"A": (200, 20), "B": (20, 200)})


@pytest.mark.part(18)
@pytest.mark.parametrize("text", [
    PRODUCT, "C[i,j] max= A[i,k]*B[k,j]", "C[i,j] += A[k,i]*B[k,j]", "C[i,j] += A[i,k]*B[j,k]",
    PRODUCT + "; D[i,j] = max(C[i,j] + V[j], 0)", PRODUCT + "; S[i] += C[i,j]", "T[k,j] = B[k,j]*2; C[i,j] += A[i,k]*T[k,j]",
    PRODUCT + "; D[i,l] += exp(C[i,j]*0.01)*B[j,l]", "C[i,j] += A[i,k]*B[k,j] where k in 3:47",
])
@pytest.mark.parametrize(("m", "threads"), [(40, 1), (33, 2)])
def test_results(text: str, m: int, threads: int) -> None:
    """Columns that are no multiple of panels, nor these of blocks."""
    r = np.random.default_rng(m)
    shapes = {"A": (50, m) if "A[k,i]" in text else (m, 50), "B": (101, 50) if "B[j,k]" in text else (50, 101), "V": (101,)}
    if "B[j,l]" in text:
        shapes |= {"A": (m, 70), "B": (70, 70)}
    arrays = {n: r.random(s, np.float32) for n, s in shapes.items() if f"{n}[" in text}
    op = polytc.compile(text, shapes={n: a.shape for n, a in arrays.items()}, machine=SMALL, threads=threads)
    assert " block=" in str(op.decisions), "no blocks"
    result = op(**arrays)
    results = result if isinstance(result, tuple) else (result,)
    exact = {n: a.astype(np.float64) for n, a in arrays.items()}
    for found, expected in zip(results, _expected(text, exact), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def _expected(text: str, x: dict[str, np.ndarray]) -> list[np.ndarray]:
    a, b = x["A"].T if "A[k,i]" in text else x["A"], x["B"].T if "B[j,k]" in text else x["B"]
    if "where" in text:
        return [a[:, 3:47] @ b[3:47]]
    product = (a[:, :, None] * b[None]).max(1) if "max=" in text else a @ b * (2 if "T[" in text else 1)
    if "D[i,j]" in text:
        return [np.maximum(product + x["V"], 0)]
    if "S[i]" in text:
        return [product.sum(1)]
    return [np.exp(product * 0.01) @ b] if "D[i,l]" in text else [product]


@pytest.mark.long
def test_a_record_says_the_block() -> None:
    shapes = {"A": (33, 50), "B": (50, 101)}
    own = polytc.compile(PRODUCT, shapes=shapes, machine=SMALL)
    line = next(x for x in str(own.decisions).splitlines() if x.startswith("outer"))
    width = int(next(x for x in str(own.decisions).splitlines() if x.startswith("pack")).split("width=")[1].split()[0])
    a, b = np.ones((33, 50), np.float32), np.ones((50, 101), np.float32)
    for panels in (1, 2, 3):
        text = str(own.decisions).replace(line, f"{line.split(' block=')[0]} block={panels * width}")
        op = polytc.compile(PRODUCT, shapes=shapes, machine=SMALL, decisions=text)
        np.testing.assert_array_equal(op(a, b), np.full((33, 101), 50, np.float32))
    for wrong in (width + 1, 0, -width, 101 * width):
        text = str(own.decisions).replace(line, f"{line.split(' block=')[0]} block={wrong}")
        with pytest.raises(errors.CompileError, match="E710"):
            polytc.compile(PRODUCT, shapes=shapes, machine=SMALL, decisions=text)
