"""Places that loops walk over, as x86 addresses them: from a pointer that stays in the innermost loop, by a number that is
counted.

    for i in 0:85 { for k in 0:512 { ... A[3072*i + k] ... B[64*k + j] ... } }
        the inner loop has pointers A + 3072*i and B + j; 3072*i and 64*k are counters of their loops, in steps of 3072 and 64

LLVM's loop-strength-reduce makes counters of multiplications, too, but takes a quarter of the time behind instruction selection
to choose among all ways; code whose loops are written so is made without it (`native.jit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.addresses import Address
from polytc.targets.llvm import ir

Term: TypeAlias = tuple[loops.Expr, int]
"""An atom of an address, and its factor."""


@dataclass
class Walk:
    """A loop that is being written. lower, step: of its variable; counters: by factor, the variable times it."""

    var: str
    lower: ir.Value
    step: int
    counters: dict[int, ir.Value] = field(default_factory=dict)

    def counter(self, fn: ir.Function, factor: int) -> ir.Value:
        """The variable times a number."""
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


def runs_once(s: loops.For) -> bool:
    """Has a loop one iteration at most, as those of a nest that became one have? To count in it would take longer."""
    count = linear_forms.linear(loops.binary("-", s.upper, s.lower))
    return all(atom == linear_forms.ONE for atom in count) and sum(count.values()) <= s.step


def parts(form: Address, walks: Mapping[str, Walk], around: Iterable[str]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The terms that stay in the innermost loop that moves a form, those of outer loops first, so that sums of them leave inner
    ones; and the one with the variable of that. Nothing where there is no such loop, or its variable is more than a term.
    around: the variables of all loops, outermost first."""
    depth = {name: n for n, name in enumerate(around)}
    moving = [(atom, c) for atom, c in form.terms if not walks.keys().isdisjoint(traverse.variables(atom))]
    last = max((n for atom, _ in moving for n in traverse.variables(atom) if n in walks), key=lambda n: depth[n], default="")
    own = [t for t in moving if last in traverse.variables(t[0])]
    if len(own) != 1 or not isinstance(own[0][0], loops.Var):
        return (), ()

    def place(term: Term) -> int:
        return depth.get(term[0].name, len(depth)) if isinstance(term[0], loops.Var) else len(depth)
    return tuple(sorted((t for t in form.terms if t != own[0]), key=place)), (own[0],)
