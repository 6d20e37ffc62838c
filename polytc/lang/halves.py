"""f16 and bf16 are types of storage: what is computed of them is computed in f32, and rounded where it is stored.

    f16[n] C                               f32[n] C_single
    S1_init: C[i] = 0             ->       S1_init: C_single[i] = 0
    S1: C[i] += A[i,k] * x[k]              S1: C_single[i] += f32(A[i,k]) * f32(x[k])
                                           S1_round: C[i] = f16(C_single[i])

A statement `=` rounds its value. Updates have their sum, product or extremum in f32 until the last of them; who reads the
tensor in between gets it rounded, too.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.lang import program as pr
from polytc.lang.scalars import F32, DType


def widen(program: pr.Program) -> pr.Program:
    """The program with no arithmetic on halves: they are only read, written and cast."""
    if not any(e.dtype.is_half for s in program.statements for e in (*pr.walk(s.value), program.tensor(s.target))):
        return program
    last = {s.target: k for k, s in enumerate(program.statements)}
    taken = {t.name for t in program.tensors}
    wide = {s.target: _fresh(s.target, taken) for s in program.statements
            if s.op is not None and program.tensor(s.target).dtype.is_half}
    statements: list[pr.Statement] = []
    for k, s in enumerate(program.statements):
        open_ = {name: to for name, to in wide.items() if k <= last[name]}
        statements.append(_statement(s, open_, program.tensor(s.target).dtype))
        if s.target in wide and k == last[s.target]:
            statements.append(_rounding(s, program.tensor(s.target), wide[s.target]))
    tensors: list[pr.Tensor] = []
    for t in program.tensors:
        tensors += [replace(t, name=wide[t.name], dtype=F32), t] if t.name in wide else [t]
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def _fresh(name: str, taken: set[str]) -> str:
    name += "_single"
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _statement(s: pr.Statement, wide: dict[str, str], dtype: DType) -> pr.Statement:
    value = single(s.value, wide)
    subscripts = tuple(single(e, wide) for e in s.subscripts)
    if s.target in wide:
        return replace(s, target=wide[s.target], subscripts=subscripts, value=value)
    return replace(s, subscripts=subscripts, value=cast(value, dtype) if dtype.is_half else value)


def single(e: pr.Expr, wide: dict[str, str]) -> pr.Expr:
    """The expression with f32 for halves. wide: tensor -> what holds it in f32 at this place."""
    if isinstance(e, pr.Const):
        return replace(e, dtype=F32) if e.dtype.is_half else e
    made = pr.rebuild(e, tuple(single(x, wide) for x in pr.children(e)))
    if isinstance(made, pr.Read) and made.tensor in wide:
        default = replace(made.default, dtype=F32) if made.default is not None else None
        return cast(cast(replace(made, tensor=wide[made.tensor], dtype=F32, default=default), e.dtype), F32)
    if isinstance(made, pr.Cast):
        made = cast(made.a, made.dtype)
    if not e.dtype.is_half:
        return made
    return cast(made, F32) if isinstance(made, pr.Read | pr.Cast) else replace(made, dtype=F32)


def cast(e: pr.Expr, dtype: DType) -> pr.Expr:
    """`dtype(e)`; to f32 and back is nothing."""
    if e.dtype == dtype:
        return e
    if isinstance(e, pr.Cast) and e.a.dtype == dtype and dtype.is_half and e.dtype == F32:
        return e.a
    return pr.Cast(e, dtype)


def _rounding(s: pr.Statement, tensor: pr.Tensor, wide: str) -> pr.Statement:
    """`tensor = half(wide)` on all of its elements."""
    names = tuple(f"d{k}" for k in range(len(tensor.shape)))
    at = tuple(pr.Index(n) for n in names)
    ranges = tuple(pr.Range(n, low, low + extent) for n, low, extent in zip(names, tensor.lower, tensor.shape, strict=True))
    return pr.Statement(f"{s.name}_round", tensor.name, at, None, pr.Cast(pr.Read(wide, at, F32), tensor.dtype), ranges, (),
                        s.span)
