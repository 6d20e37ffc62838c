"""Places that an innermost loop walks over, as x86 addresses them: from a pointer that stays, by a number that is counted.

    for k in 0:512 { ... A[3072*i + k] ... B[64*k + j] ... }
        A + 3072*i and B + j stay; k, times the bytes of a number, is part of an address; 64*k is a counter in steps of 64

LLVM's loop-strength-reduce makes counters of multiplications, too, but takes a quarter of the time behind instruction selection
to choose among all ways; code whose loops are written so is made without it (`native.jit`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from polytc.codegen import loops, traverse
from polytc.codegen.addresses import Address
from polytc.targets.llvm import ir

SCALES = (1, 2, 4, 8)
"""Bytes that an address can multiply by."""
Term: TypeAlias = tuple[loops.Expr, int]
"""An atom of an address, and its factor."""


def of(var: str, lower: ir.Value, step: int, inside: loops.Stmt) -> Walk | None:
    """The walk of a loop, if it is an innermost one, but for copies."""
    inner = any(isinstance(x, loops.For) and x.kind != "unroll" for x in traverse.walk_stmt(inside))
    return None if inner else Walk(var, lower, step)


@dataclass
class Walk:
    """The innermost loop that is being written. lower, step: of its variable; counters: by factor, the variable times it."""

    var: str
    lower: ir.Value
    step: int
    counters: dict[int, ir.Value] = field(default_factory=dict)

    def parts(self, form: Address, around: Iterable[str]) -> tuple[tuple[Term, ...], Term] | None:
        """The terms that stay, those of outer loops first, so that sums of them leave inner ones; and the one of the variable.
        None where it does not occur, or elsewhere than as a term. around: the variables of all loops, outermost first."""
        moving = [(atom, c) for atom, c in form.terms if self.var in traverse.variables(atom)]
        if len(moving) != 1 or not isinstance(moving[0][0], loops.Var):
            return None
        depth = {name: n for n, name in enumerate(around)}

        def place(term: Term) -> int:
            return depth.get(term[0].name, len(depth)) if isinstance(term[0], loops.Var) else len(depth)
        return tuple(sorted((t for t in form.terms if t != moving[0]), key=place)), moving[0]

    def counter(self, fn: ir.Function, factor: int, size: int) -> ir.Value | None:
        """The variable times a number, of elements of so many bytes; None where an address does that."""
        if factor * size in SCALES:
            return None
        if factor not in self.counters:
            self.counters[factor] = ir.Value("i64", f"%step.{fn.fresh('')}")
        return self.counters[factor]

    def count(self, fn: ir.Function, before: str) -> tuple[list[str], list[str]]:
        """Count on, at the end of the loop. The lines for the end of the block before it, and for where it begins."""
        first, heads = [], []
        for factor, value in self.counters.items():
            start = ir.Value("i64", f"%start.{fn.fresh('')}")
            if self.lower.number is None:
                first.append(f"  {start.ref} = mul nsw {self.lower}, {factor}")
            else:
                start = ir.constant(factor * int(self.lower.number), "i64")
            after = fn.binary("add nsw", value, ir.constant(factor * self.step, "i64"))
            heads.append(f"  {value.ref} = phi i64 [ {start.ref}, %{before} ], [ {after.ref}, %{fn.block} ]")
        return first, heads
