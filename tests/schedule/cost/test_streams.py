"""Large operands that few rows of results read: row by row of memory, for machines that are only described."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.lang import build
from polytc.machine import AVX2, Cache
from polytc.program.program import Program
from polytc.schedule.cost import register_tiles, streams
from polytc.schedule.facts.fusion_groups import coincident_indices
from polytc.schedule.facts.strides import lane_width, of_statement

VECTOR = "y[j] += x[i] * A[i,j]"
PRODUCT = "C[b,j] += x[b,i] * A[i,j]"
SMALL = replace(AVX2, caches=(Cache(2 << 10, 8, 64), Cache(8 << 10, 8, 64), Cache(1 << 20, 16, 64)))


def found(program: Program, better: bool = False) -> streams.Stream | None:
    s = program.statements[-1]
    accesses, shared, lanes = of_statement(program, s), coincident_indices(s), lane_width(program, s, AVX2)
    plain = register_tiles.best(s, accesses, shared, lanes, AVX2)
    assert plain is not None
    given = (program, s, accesses, *((plain,) if better else ()), shared, lanes, AVX2)
    return streams.better(*given) if better else streams.best(*given)


@pytest.mark.parametrize("steps", [1024, 1021, 31 * 32])
@pytest.mark.parametrize("rows", [1, 2, 8])
def test_a_large_matrix_is_read_some_rows_at_a_time(steps: int, rows: int) -> None:
    """Whatever their number."""
    stream = found(build(PRODUCT, {"x": (rows, steps), "A": (steps, 1000)}), better=True)
    assert stream is not None
    assert (stream.index, stream.tile.vector, stream.tile.jam) == ("i", "j", "b" if rows > 1 else None)


def test_threads_share_columns() -> None:
    stream = found(build(VECTOR, {"x": (1024,), "A": (1024, 8192)}))
    assert stream is not None
    assert 8192 / AVX2.cores <= stream.columns or stream.columns * 4 >= streams.COLUMNS


@pytest.mark.parametrize(("text", "shapes"), [
    (VECTOR, {"x": (1024,), "A": (1024, 16)}),                                  # rows shorter than pages
    (VECTOR, {"x": (16,), "A": (16, 1024)}),                                    # small
    ("y[j] += x[i] * A[j,i]", {"x": (1024,), "A": (1024, 1024)}),               # walked along as it is
    ("y[j] += A[i,j] * B[i,j]", {"A": (1024, 1024), "B": (1024, 1024)}),        # two of them
    (PRODUCT, {"x": (16, 1024), "A": (1024, 1024)}),                            # rows of results meet in sets of a cache
])
def test_others_are_not(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert found(build(text, shapes)) is None


def test_for_many_rows_of_results_it_costs_more_than_a_copy() -> None:
    few, many = (found(build(PRODUCT, {"x": (rows, 1000), "A": (1000, 1000)})) for rows in (4, 64))
    assert few is not None
    assert many is not None
    assert many.cycles > 16 * few.cycles * 0.9


@pytest.mark.part(6)
@pytest.mark.parametrize("text", ["C[b,j] += x[b,i]*A[i,j]", "C[b,j] max= x[b,i]*A[i,j]",
                                  "C[b,j] += x[b,i]*A[i,j]; D[b,j] = C[b,j]*2 + 1",
                                  "C[b,j] += x[b,i]*A[i,j] where i in 3:61, j in 5:1290"])
@pytest.mark.parametrize(("rows", "threads", "cores"), [(1, 1, 2), (3, 2, 2), (7, 2, 3)])
def test_results(text: str, rows: int, threads: int, cores: int) -> None:
    """Steps that are no multiple of eight, columns that are none of vectors, blocks of unequal width."""
    r = np.random.default_rng(rows)
    x, a = r.random((rows, 61), np.float32), r.random((61, 1291), np.float32)
    machine = replace(SMALL, cores=cores)
    op = polytc.compile(text, shapes={"x": x.shape, "A": a.shape}, machine=machine, threads=threads)
    assert "caches=" in str(op.decisions), "no stream"
    result = op(x, a)
    result = result[-1] if isinstance(result, tuple) else result
    inner, outer = (slice(3, 61), slice(5, 1290)) if "where" in text else (slice(None), slice(None))
    terms = x[:, inner, None] * a[None, inner]
    expected = terms.max(1) if "max=" in text else terms.sum(1)
    if "D[" in text:
        expected = expected * 2 + 1
    np.testing.assert_allclose(result, expected[:, outer], rtol=1e-5)
