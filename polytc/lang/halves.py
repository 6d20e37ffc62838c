"""f16 and bf16 are types of storage: what is computed of them is computed in f32, and rounded where it is stored.

    f16[n] C                               f32[n] C_single
    S1_init: C[i] = 0             ->       S1_init: C_single[i] = 0
    S1: C[i] += A[i,k] * x[k]              S1: C_single[i] += f32(A[i,k]) * f32(x[k])
                                           S1_round: C[i] = f16(C_single[i])

Outputs are rounded, and so are `f16(e)` and the results of calls. A statement `=` rounds its value. Updates have their sum,
product or extremum in f32 until the last of them, and until the `for` loops around them end; who reads the tensor in between
gets it rounded, too. `acc(type)` asks for the same in another type. Temporaries are f32 altogether, where
`lang.half_temporaries` says so:

    Y[i] = C[i] / 4096            ->       Y[i] = f16(C[i] / 4096), with f32[n] C
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from polytc.errors import Span
from polytc.lang.half_temporaries import held_in_single
from polytc.program import program as pr
from polytc.program import type_promotion
from polytc.program.names import claim
from polytc.program.scalars import F32, DType


@dataclass(frozen=True)
class _Wide:
    """What holds a tensor: another one of another type while it is updated, or itself with another type. seen: the type to
    which readers have it rounded."""

    name: str
    dtype: DType
    seen: DType


def widen(program: pr.Program, accumulators: Mapping[str, DType] | None = None, rounded: Collection[str] = (),
          unrounded: Collection[str] = ()) -> pr.Program:
    """The program with no arithmetic on halves: they are only read, written and cast.

    accumulators: tensor -> the type that its updates are to be combined in. rounded: temporaries whose halves are rounded as
    those of outputs are. unrounded: inputs that are given in f32 though their type is a half, and outputs that are what
    temporaries are.
    """
    asked = dict(accumulators or {})
    types = (e.dtype for s in program.statements for e in (*pr.walk(s.value), program.tensor(s.target)))
    if not asked and not unrounded and not any(t.is_half for t in types):
        return program
    program, held = _held(program, rounded, unrounded)
    last = {s.target: _end(program.statements, k) for k, s in enumerate(program.statements)}
    taken = {t.name for t in program.tensors}
    wide: dict[str, _Wide] = {}
    for s in program.statements:
        own = program.tensor(s.target).dtype
        dtype = asked.get(s.target, F32 if own.is_half else own)
        if dtype != own and s.op is not None and s.target not in wide:
            name = claim(f"{s.target}_{'single' if dtype == F32 else dtype}", taken)
            wide[s.target] = _Wide(name, dtype, program.tensor(s.target).dtype)
    statements = [_opening(program.tensor(n), wide[n]) for n in program.inputs if n in wide]
    for k, s in enumerate(program.statements):
        open_ = held | {name: to for name, to in wide.items() if k <= last[name]}
        statements.append(_statement(s, open_, program.tensor(s.target).dtype))
        statements += [_rounding(s, program.tensor(name), wide[name]) for name in wide if k == last[name]]
    tensors: list[pr.Tensor] = []
    for t in program.tensors:
        tensors += [replace(t, name=wide[t.name].name, dtype=wide[t.name].dtype, title=t.name), t] if t.name in wide else [t]
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def _held(program: pr.Program, rounded: Collection[str], unrounded: Collection[str]) -> tuple[pr.Program, dict[str, _Wide]]:
    """The program with f32 for the tensors that are held so, and what that is to those who read them."""
    types = {t.name: t.dtype for t in program.tensors}
    given = {n for n in program.inputs if n in unrounded and types[n].is_half}
    fixed = {*program.inputs, *program.outputs, *rounded} - {*unrounded}
    candidates = [n for n, t in types.items() if t.is_half and n not in fixed and n not in program.inputs]
    statements = program.statements
    names = held_in_single(statements, types | dict.fromkeys(given, F32), candidates) | given
    tensors = tuple(replace(t, dtype=F32) if t.name in names else t for t in program.tensors)
    return replace(program, tensors=tensors), {n: _Wide(n, F32, F32) for n in names}


def _end(statements: tuple[pr.Statement, ...], k: int) -> int:
    """The place of the last statement of the outermost loop around statement k, or k itself."""
    outer = statements[k].loops[:1]
    return max(j for j, s in enumerate(statements) if j == k or (outer and s.loops[:1] == outer))


def _statement(s: pr.Statement, wide: Mapping[str, _Wide], dtype: DType) -> pr.Statement:
    value = single(s.value, wide)
    subscripts = tuple(single(e, wide) for e in s.subscripts)
    if s.target in wide:
        return replace(s, target=wide[s.target].name, subscripts=subscripts, value=cast(value, wide[s.target].dtype))
    return replace(s, subscripts=subscripts, value=cast(value, dtype) if dtype.is_half else value)


def single(e: pr.Expr, wide: Mapping[str, _Wide]) -> pr.Expr:
    """The expression with f32 for halves. wide: tensor -> what holds it at this place."""
    if isinstance(e, pr.Const):
        return replace(e, dtype=F32) if e.dtype.is_half else e
    made = pr.rebuild(e, tuple(single(x, wide) for x in pr.children(e)))
    if isinstance(made, pr.Read) and made.tensor in wide:
        held = wide[made.tensor]
        default = _constant(made.default, held.dtype) if made.default is not None else None
        read = cast(replace(made, tensor=held.name, dtype=held.dtype, default=default), held.seen)
        return cast(read, F32) if e.dtype.is_half else read
    if isinstance(made, pr.Cast) and made.a.dtype.is_float:
        made = cast(made.a, made.dtype)
    elif isinstance(made, pr.Cast) and made.dtype.is_half:  # of an index, or of a byte; `f16(i)` is f16(f32(i))
        return pr.Cast(made.a, F32)
    if e.dtype.is_half:
        made = cast(made, F32) if isinstance(made, pr.Read | pr.Cast) else replace(made, dtype=F32)
    return type_promotion.fold_one(made)


def _constant(e: pr.Const, dtype: DType) -> pr.Const:
    """A number in a wider type, or rounded by whoever uses it."""
    if isinstance(e.value, complex):
        return pr.Const(e.value, dtype)
    return pr.Const(float(e.value) if dtype.is_float else int(e.value), dtype)


def cast(e: pr.Expr, dtype: DType) -> pr.Expr:
    """`dtype(e)`; to f32 and back is nothing."""
    if e.dtype == dtype:
        return e
    if isinstance(e, pr.Const) and e.dtype.kind != "b" and dtype.kind == "f":
        return _constant(e, dtype)
    if isinstance(e, pr.Cast) and e.a.dtype == dtype and dtype.is_half and e.dtype == F32:
        return e.a
    return pr.Cast(e, dtype)


def _rounding(s: pr.Statement, tensor: pr.Tensor, wide: _Wide) -> pr.Statement:
    """`tensor = half(wide)` on all of its elements."""
    return _copy(f"{s.name}_round" if s.target == tensor.name else f"{s.name}_round_{tensor.name}", tensor,
                 lambda at: pr.Cast(pr.Read(wide.name, at, wide.dtype), tensor.dtype), tensor.name, s.span)


def _opening(tensor: pr.Tensor, wide: _Wide) -> pr.Statement:
    """`wide = type(tensor)` for a tensor that the caller gives and the program updates."""
    return _copy(f"{tensor.name}_open", tensor, lambda at: cast(single(pr.Read(tensor.name, at, tensor.dtype), {}), wide.dtype),
                 wide.name, None)


def _copy(name: str, tensor: pr.Tensor, value: Callable[[tuple[pr.Expr, ...]], pr.Expr], target: str, span: Span | None
          ) -> pr.Statement:
    names = tuple(f"d{k}" for k in range(len(tensor.shape)))
    at = tuple(pr.Index(n) for n in names)
    ranges = tuple(pr.Range(n, low, low + extent) for n, low, extent in zip(names, tensor.lower, tensor.shape, strict=True))
    return pr.Statement(name, target, at, None, value(at), ranges, (), span)
