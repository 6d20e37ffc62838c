"""Contractions inside of `for` loops keep their accumulators in registers, and give what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.machine import AVX2, AVX512, NEON, Machine
from polytc.schedule.facts.strides import of_statement
from polytc.schedule.tiling import contraction_nests

CELL = """def cell(f32[T,B,N] Z, f32[N,N] R) -> (Y) {
    H[b,k] = f32(0) where b in 0:B, k in 0:N
    for t in 0:T {
        G[b,j] = Z[t,b,j]
        G[b,j] += H[b,k] * R[k,j]
        H[b,k] = tanh(G[b,k])
        Y[t,b,k] = H[b,k]
    }
}"""
PANELS = CELL.replace("R[k,j]", "R[p,k,i]").replace("f32[N,N] R", "f32[P,N,16] R").replace(
    "G[b,j]", "G[b,p,i]").replace("Z[t,b,j]", "Z[t,b,16*p+i] where p in 0:P, i in 0:16").replace("G[b,k]", "G[b,k//16,k%16]")


def expected(z: np.ndarray, r: np.ndarray) -> np.ndarray:
    h, results = np.zeros_like(z[0]), []
    for step in z:
        h = np.tanh(step + h @ r)
        results.append(h)
    return np.array(results)


@pytest.mark.part(2)
@pytest.mark.parametrize(("batch", "n"), [(1, 48), (5, 48), (3, 37)])
def test_products_of_a_state(batch: int, n: int) -> None:
    rng = np.random.default_rng(n)
    z = rng.standard_normal((4, batch, n)).astype(np.float32)
    r = (rng.standard_normal((n, n)) / 8).astype(np.float32)
    np.testing.assert_allclose(polytc.compile(CELL, threads=2)(z, r), expected(z, r), rtol=1e-4, atol=1e-5)


def test_products_with_panels() -> None:
    rng = np.random.default_rng(1)
    z = rng.standard_normal((4, 3, 48)).astype(np.float32)
    r = (rng.standard_normal((48, 48)) / 8).astype(np.float32)
    panels = np.ascontiguousarray(r.reshape(48, 3, 16).transpose(1, 0, 2))
    np.testing.assert_allclose(polytc.compile(PANELS, threads=1)(z, panels), expected(z, r), rtol=1e-4, atol=1e-5)


def test_accumulators_stay_in_registers() -> None:
    """The loop over k runs inside of tiles of b and j, whose points are unrolled vectors."""
    low = polytc.lower(CELL, shapes={"Z": (4, 6, 64), "R": (64, 64)})
    marks = [line.strip() for line in str(low.schedule).splitlines() if "mark:" in line and ".S3." in line]
    assert [m.split(".S3.")[1].split()[0].rstrip('"') for m in marks] == ["tiles", "steps", "point"]
    assert "vector" in marks[2]


@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
@pytest.mark.parametrize("shape", [(64, 256, 512), (7, 100, 300), (64, 20, 256)])
def test_a_tile_is_whole_vectors_whose_results_fit_the_registers(machine: Machine, shape: tuple[int, int, int]) -> None:
    b, n, k = shape
    program = polytc.build("G[b,j] += H[b,k] * R[k,j]", {"H": (b, k), "R": (k, n)})
    s = program.statements[-1]
    found = contraction_nests.tile_of(program, s, of_statement(program, s), machine)
    assert found is not None
    assert found.reduced == ("k",)
    (row, rows), (vector, columns) = found.sizes
    assert (row, vector) == ("b", "j")
    lanes = machine.lanes(4)
    assert columns % lanes == 0 or columns == n
    vectors = -(-columns // lanes)
    assert machine.vector_registers // 3 <= rows * vectors + vectors + 1 <= machine.vector_registers
