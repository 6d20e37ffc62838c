"""Constants of two numbers, one of them in a band along the diagonal, are computed from the indices in place of being read.

    Y[i,j] = X[i,j] + M[i,j],  M 0 up to the diagonal, -inf above   ->   Y[i,j] = X[i,j] + (j <= i ? 0 : -inf)

so that the compiler sees what a mask hides (rewrite.cpu.masked_blocks). The numbers are looked at: it is the same value at each
place. Only element-wise statements get it; the operands of products stay arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from polytc.graph.plan import Call, Plan
from polytc.program import program as pr
from polytc.program.affine import affine
from polytc.program.scalars import BOOL, I64, DType


@dataclass(frozen=True)
class DiagonalBand:
    """In the last two dimensions, i and j: `inside` where lower <= j - i <= upper, else `outside`; None: no such bound."""

    lower: int | None
    upper: int | None
    inside: float | bool
    outside: float | bool

    def at(self, row: pr.Expr, column: pr.Expr, dtype: DType) -> pr.Expr:
        """The number at a place."""
        ends = ((">=", self.lower), ("<=", self.upper))
        within = pr.conjunction(tuple(pr.Binary(op, column, _plus(row, n), BOOL) for op, n in ends if n is not None))
        if dtype == BOOL:
            return within if self.inside else pr.Unary("!", within, BOOL)
        return pr.Select(within, pr.Const(self.inside, dtype), pr.Const(self.outside, dtype), dtype)


def _plus(e: pr.Expr, number: int) -> pr.Expr:
    return pr.Binary("+", e, pr.Const(number, I64), I64) if number else e


def compute_bands(plan: Plan) -> Plan:
    """The plan with the bands among its constants as conditions where element-wise statements read them."""
    used = {n for c in plan.calls for n in c.inputs}
    found = {n: b for n, a in plan.constants.items() if n in used and (b := diagonal_band(a)) is not None}
    if not found:
        return plan
    calls = tuple(_call(c, found) for c in plan.calls)
    kept = {n for c in calls for n in c.inputs} | {*plan.lasting, *map(plan.base, (*plan.lasting, *plan.aliases))}
    return replace(plan, calls=calls, constants={n: a for n, a in plan.constants.items() if n in kept or n not in found})


def diagonal_band(a: np.ndarray) -> DiagonalBand | None:
    """The band that an array of floats or truth values is; all matrices in it are equal."""
    if a.ndim < 2 or min(a.shape[-2:]) < 2 or a.dtype.kind not in "fb" or a.size == 0:
        return None
    matrix = a.reshape(-1, *a.shape[-2:])
    first = np.ascontiguousarray(matrix[0])
    outside, corner = first[0, -1], first[-1, 0]
    inside = next((x for x in (first[0, 0], first[-1, -1], corner) if _bits(x) != _bits(outside)), None)
    if inside is None or not _all_of(first[0], (inside, outside)) or not _same(matrix, first):
        return None
    held = _equal(first, inside)
    if not np.array_equal(~held, _equal(first, outside)):
        return None
    distance = np.arange(first.shape[1]) - np.arange(first.shape[0])[:, None]
    lower, upper = int(distance[held].min()), int(distance[held].max())
    if not np.array_equal(held, (lower <= distance) & (distance <= upper)):
        return None
    ends = int(distance.min()), int(distance.max())
    return DiagonalBand(None if lower == ends[0] else lower, None if upper == ends[1] else upper, inside.item(), outside.item())


def _all_of(row: np.ndarray, numbers: tuple[np.generic, np.generic]) -> bool:
    """Are all elements of a row one of the numbers? Of weights the first row says no, before anything looks at the others."""
    return bool((_equal(row, numbers[0]) | _equal(row, numbers[1])).all())


def _bits(x: np.generic) -> bytes:
    return x.tobytes()


def _equal(a: np.ndarray, number: np.generic) -> np.ndarray:
    """Where an array is exactly this number: zeros of another sign are not."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return a.view(unsigned) == number.view(unsigned)


def _same(matrices: np.ndarray, first: np.ndarray) -> bool:
    return all(m.tobytes() == first.tobytes() for m in matrices[1:])


def _call(call: Call, found: Mapping[str, DiagonalBand]) -> Call:
    """The call without the bands that only element-wise statements read where they stand."""
    p = call.program
    bands = {t: found[n] for t, n in zip(p.inputs, call.inputs, strict=True) if n in found}
    bands = {t: b for t, b in bands.items() if all(_suits(s, t) for s in p.statements)}
    if not bands or not set(p.inputs) - set(bands):
        return call

    def on_expr(e: pr.Expr) -> pr.Expr:
        if isinstance(e, pr.Read) and e.tensor in bands:
            return bands[e.tensor].at(e.subscripts[-2], e.subscripts[-1], e.dtype)
        return e
    statements = tuple(replace(s, value=pr.map_expr(s.value, on_expr)) for s in p.statements)
    program = replace(p, statements=statements, inputs=tuple(t for t in p.inputs if t not in bands),
                      tensors=tuple(t for t in p.tensors if t.name not in bands),
                      constants=tuple(t for t in p.constants if t not in bands))
    inputs = tuple(n for t, n in zip(p.inputs, call.inputs, strict=True) if t not in bands)
    return replace(call, program=program, inputs=inputs)


def _suits(s: pr.Statement, tensor: str) -> bool:
    """May the statement compute what it reads of a tensor?"""
    reads = [r for r in pr.reads(s) if r.tensor == tensor]
    ends = (e for b in s.bounds for e in (b.lower, b.upper))
    elsewhere = {r.tensor for e in (*s.subscripts, *s.where, *ends) for r in pr.walk(e) if isinstance(r, pr.Read)}
    plain = all(r.default is None and all(affine(x) is not None for x in r.subscripts) for r in reads)
    return s.target != tensor and (not reads or s.op is None and plain and tensor not in elsewhere)
