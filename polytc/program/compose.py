"""Programs out of programs: put several into one, store known numbers in the text, give a tensor another shape.

All functions are Program -> Program and keep what is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from polytc.program import type_promotion
from polytc.program.program import Binary, Const, Expr, Program, Read, Statement, Tensor, map_expr
from polytc.program.scalars import I64


@dataclass(frozen=True)
class Part:
    """A program and what its inputs and outputs are called outside: tensor -> name of the value."""

    program: Program
    names: Mapping[str, str]


def _map_statement(s: Statement, f: Callable[[Expr], Expr]) -> Statement:
    return replace(s, subscripts=tuple(map_expr(e, f) for e in s.subscripts), value=map_expr(s.value, f),
                   bounds=tuple(replace(b, lower=map_expr(b.lower, f), upper=map_expr(b.upper, f)) for b in s.bounds))


def concatenate(parts: Sequence[Part], inputs: Sequence[str], outputs: Sequence[str], name: str) -> Program:
    """One program that runs `parts` in order; values that are neither inputs nor outputs become temporaries.

    Statements, loops and inner tensors of part k get the prefix `pK_`. A value has one shape and type in all parts.
    """
    tensors: dict[str, Tensor] = {}
    statements: list[Statement] = []
    for k, part in enumerate(parts):
        program = with_zero_origins(part.program)
        names = {t.name: part.names.get(t.name, f"p{k}_{t.name}") for t in program.tensors}
        for t in program.tensors:
            new = replace(t, name=names[t.name])
            known = tensors.setdefault(new.name, new)
            assert (known.shape, known.dtype) == (new.shape, new.dtype), f"{new.name} has two types: {known}, {new}"
        statements += [replace(_renamed(s, names), name=f"p{k}_{s.name}", loops=tuple(f"p{k}_{x}" for x in s.loops))
                       for s in program.statements]
    precise = any(p.program.precise for p in parts)
    fast = all(p.program.fast for p in parts)
    return Program(name, tuple(tensors.values()), tuple(statements), tuple(inputs), tuple(outputs), precise, fast=fast)


def _renamed(s: Statement, names: Mapping[str, str]) -> Statement:
    def rename(e: Expr) -> Expr:
        return replace(e, tensor=names[e.tensor]) if isinstance(e, Read) else e
    return replace(_map_statement(s, rename), target=names[s.target], span=None)


def with_zero_origins(p: Program) -> Program:
    """All tensors start at coordinate 0; subscripts shift accordingly (`O` over 1:9, `O[i]` -> `O` over 0:8, `O[i-1]`)."""
    origins = {t.name: t.lower for t in p.tensors if any(t.lower)}
    if not origins:
        return p

    def shift(e: Expr) -> Expr:
        if isinstance(e, Read) and e.tensor in origins:
            return replace(e, subscripts=_minus(e.subscripts, origins[e.tensor]))
        return e

    statements = []
    for s in p.statements:
        moved = _map_statement(s, shift)
        if s.target in origins:
            moved = replace(moved, subscripts=_minus(moved.subscripts, origins[s.target]))
        statements.append(moved)
    tensors = tuple(replace(t, lower=(0,) * len(t.shape)) for t in p.tensors)
    return replace(p, tensors=tensors, statements=tuple(statements))


def _minus(subscripts: tuple[Expr, ...], origin: tuple[int, ...]) -> tuple[Expr, ...]:
    return tuple(e if o == 0 else Const(e.value - o, I64) if isinstance(e, Const) else Binary("-", e, Const(o, I64), I64)
                 for e, o in zip(subscripts, origin, strict=True))


def embed(p: Program, numbers: Mapping[str, int | float | bool]) -> Program:
    """Inputs with one element become numbers in the text, and are inputs no longer.

    numbers: input -> its value. A guarded read of such an input keeps it an input.
    """
    guarded = {e.tensor for s in p.statements for e in _reads(s) if e.default is not None}
    numbers = {n: v for n, v in numbers.items() if n not in guarded}
    if not numbers:
        return p

    def put(e: Expr) -> Expr:
        return Const(numbers[e.tensor], e.dtype) if isinstance(e, Read) and e.tensor in numbers else type_promotion.fold_one(e)

    return replace(p, tensors=tuple(t for t in p.tensors if t.name not in numbers),
                   statements=tuple(_map_statement(s, put) for s in p.statements),
                   inputs=tuple(n for n in p.inputs if n not in numbers))


def _reads(s: Statement) -> list[Read]:
    found: list[Read] = []

    def note(e: Expr) -> Expr:
        if isinstance(e, Read):
            found.append(e)
        return e

    _map_statement(s, note)
    return found


def reshaped_input(p: Program, name: str, shape: tuple[int, ...]) -> Program | None:
    """The program with input `name` given under another `shape` of equal size, or None where that is not simple.

    Simple is: each axis of the new shape is an axis of the old, a row-major product of several (`A[h, d]` of 12 x 32 read as
    `B[32*h + d]`), or has extent 1; and guarded reads keep every axis they could leave.
    """
    tensor = p.tensor(name)
    runs = _runs(tensor.shape, shape)
    reads = [r for s in p.statements for r in _reads(s) if r.tensor == name]
    if runs is None or any(tensor.lower) or any(not _keeps_guards(r, tensor, runs) for r in reads):
        return None

    def fold(e: Expr) -> Expr:
        if not isinstance(e, Read) or e.tensor != name:
            return e
        return replace(e, subscripts=tuple(_joined(e.subscripts, tensor.shape, run) for run in runs))

    tensors = tuple(replace(t, shape=shape, lower=(0,) * len(shape)) if t.name == name else t for t in p.tensors)
    return replace(p, tensors=tensors, statements=tuple(_map_statement(s, fold) for s in p.statements))


def _runs(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """For each axis of `new`, the axes of `old` (extents above 1) that it is the product of."""
    left = [a for a, extent in enumerate(old) if extent != 1]
    runs: list[tuple[int, ...]] = []
    for extent in new:
        run: list[int] = []
        while left and math.prod(old[a] for a in run) < extent:
            run.append(left.pop(0))
        if math.prod(old[a] for a in run) != extent:
            return None
        runs.append(tuple(run))
    return None if left else tuple(runs)


def _keeps_guards(r: Read, tensor: Tensor, runs: tuple[tuple[int, ...], ...]) -> bool:
    if r.default is None:
        return True
    single = {run[0] for run in runs if len(run) == 1}
    return all(a in single or r.subscripts[a] == Const(0, I64) for a in range(len(tensor.shape)))


def _joined(subscripts: tuple[Expr, ...], shape: tuple[int, ...], run: tuple[int, ...]) -> Expr:
    """One subscript for the row-major product of the axes `run`."""
    result: Expr = Const(0, I64)
    for n, axis in enumerate(run):
        scaled = result if n == 0 else _scaled(result, shape[axis])
        result = subscripts[axis] if n == 0 else Binary("+", scaled, subscripts[axis], I64)
    return result


def _scaled(e: Expr, factor: int) -> Expr:
    return Const(e.value * factor, I64) if isinstance(e, Const) else Binary("*", e, Const(factor, I64), I64)
