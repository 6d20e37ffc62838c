"""Temporaries of numbers alone have the type that their readers cast them to, where this is one.

    temp f64[3] list1                                          temp f32[3] list1
    S1: list1[i] = i < 1 ? 0.25 : 0.5                   ->     S1: list1[i] = i < 1 ? f32(0.25) : f32(0.5)
    S2: B[i] += f32(list1[k]) * A[i+k]                         S2: B[i] += list1[k] * A[i+k]

No value changes: a number that is stored is rounded as one that is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from polytc.program import program as pr
from polytc.program import type_promotion
from polytc.program.scalars import F32, F64, DType


def narrow(program: pr.Program, declared: Collection[str]) -> pr.Program:
    """declared: temporaries whose type the text states, which they keep."""
    found = {n: to for n in program.temporaries if n not in declared and (to := _wanted(program, n)) is not None}
    if not found:
        return program

    def read(e: pr.Expr) -> pr.Expr:
        if not (isinstance(e, pr.Cast) and isinstance(e.a, pr.Read) and found.get(e.a.tensor) == e.dtype):
            return e
        return replace(e.a, dtype=e.dtype, default=_default(e.a, e.dtype))

    statements = [replace(s, value=pr.map_expr(s.value, read)) for s in program.statements]
    statements = [replace(s, value=_stored(s.value, found[s.target])) if s.target in found else s for s in statements]
    tensors = tuple(replace(t, dtype=found.get(t.name, t.dtype)) for t in program.tensors)
    return replace(program, tensors=tensors, statements=tuple(statements))


def _wanted(program: pr.Program, name: str) -> DType | None:
    """The only type, f32 or f64, that a tensor of numbers is cast to wherever it is read."""
    writers = [s for s in program.statements if s.target == name]
    if not all(s.op is None and _is_number(s.value) for s in writers):
        return None
    types: set[DType | None] = set()
    for s in program.statements:
        casts = [x.dtype for x in pr.walk(s.value) if _is_cast(x, (name,))]
        within = sum(isinstance(x, pr.Read) and x.tensor == name for x in pr.walk(s.value))
        elsewhere = (*s.subscripts, *s.where, *(e for b in s.bounds for e in (b.lower, b.upper)))
        other = any(isinstance(x, pr.Read) and x.tensor == name for e in elsewhere for x in pr.walk(e))
        types |= {*casts, *([None] if other or within > len(casts) else [])}
    return types.pop() if len(types) == 1 and types <= {F32, F64} else None


def _is_number(e: pr.Expr) -> bool:
    return isinstance(e, pr.Const) or isinstance(e, pr.Select) and _is_number(e.a) and _is_number(e.b)


def _is_cast(e: pr.Expr, found: Collection[str]) -> bool:
    return isinstance(e, pr.Cast) and isinstance(e.a, pr.Read) and e.a.tensor in found


def _default(e: pr.Read, dtype: DType) -> pr.Const | None:
    return None if e.default is None else pr.Const(float(e.default.value), dtype)


def _stored(e: pr.Expr, dtype: DType) -> pr.Expr:
    """Numbers in a type."""
    if isinstance(e, pr.Select):
        return replace(e, a=_stored(e.a, dtype), b=_stored(e.b, dtype), dtype=dtype)
    assert isinstance(e, pr.Const)
    return type_promotion.cast(type_promotion.number(e.value), dtype).expr
