"""The sizes at which a text is one program: those for which the front end, given them as numbers, makes the program that it has
for all sizes.

    C[i] = Z[i]*2 where i in 0:K, i < M, for the typical sizes of K and M a range 0:K   ->   [K, M] -> { : M >= K }

The front end runs on traced sizes (program.traces) at the typical ones, and what it decided on the way is a region of sizes for
which it does the same. It runs again at a point outside of all regions so far, until there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import islpy

from polytc.errors import CompileError, Diagnostic
from polytc.lang.soundness.proof import Places
from polytc.poly import isl
from polytc.poly.proofs import Proofs
from polytc.program import program as pr
from polytc.program.generalise import agrees
from polytc.program.sizes import specialised
from polytc.program.traces.formulas import Atom, Guard, Terms, always
from polytc.program.traces.traced import Trace, tracing
from polytc.program.type_promotion import fold_one

Build: TypeAlias = Callable[[dict[str, Any]], pr.Program]
"""The program for sizes, which may be traced ones."""

REGIONS = 128
"""Regions that are looked at. Programs have two to forty: those of sizes of 1 are their own."""

LARGEST = 1 << 40
"""Guards that all sizes up to here meet are none."""


@dataclass(frozen=True)
class Presumed(Proofs):
    """A prover for programs that are proved at typical sizes. Accesses are proved for all sizes elsewhere (poly.in_bounds)."""

    def refusals(self, program: pr.Program, places: Places, sizes: Mapping[str, object],
                 presumed: frozenset[str] = frozenset()) -> list[Diagnostic]:
        """Nothing."""
        return []


def same_sizes(program: pr.Program, build: Build, typical: Mapping[str, int]) -> str:
    """The sizes at which `build` gives `program`, or one that means the same, as a set of isl, with those of which that is not
    found out; '' where it is of none. typical: sizes at which it does."""
    ctx = isl.new_context()

    def found() -> str:
        given = isl.parameters(program)
        left = islpy.Set.read_from_str(ctx, f"{given}{{ : {isl.facts(program)} }}")
        same, point = left.subtract(left), dict(typical)
        for _ in range(REGIONS):
            is_same, guards = _looked_at(program, build, point)
            text = _region(guards, point)
            if text is None:
                break
            region = islpy.Set.read_from_str(ctx, f"{given}{{ : {text} }}").intersect(left)
            left = left.subtract(region).coalesce()
            same = same.union(region) if is_same else same
            if left.is_empty():
                break
            point = _point(left, program.sizes)
        return str(same.union(left).coalesce())
    try:
        return isl.bounded(ctx, isl.BUDGET, found)
    except isl.QuotaExceeded:
        return ""


def _looked_at(program: pr.Program, build: Build, point: Mapping[str, int]) -> tuple[bool, Sequence[Guard]]:
    """Is the program the same one at a point? With what it takes for the answer to be the same elsewhere."""
    trace = Trace(point, dict.fromkeys(point, 1))
    with tracing(trace):
        sizes = {n: trace.size(n) for n in point}
        try:
            same = _agrees(trace, program, build(sizes), sizes)
        except CompileError:  # as a violated `assume`
            same = False
    trace.closed = True
    return same, tuple(trace.guards)


def _agrees(trace: Trace, program: pr.Program, other: pr.Program, sizes: Mapping[str, int]) -> bool:
    """Is the program the other one at these sizes, or does it mean the same?"""
    with trace.tentative() as keep:
        if agrees(program, other, sizes):
            keep()
            return True
    return agrees(_plain(specialised(program, sizes)), _plain(replace(other, sizes=program.sizes)), sizes)


def _plain(program: pr.Program) -> pr.Program:
    """The program without statements that have no instances, and with the values of indices that have one.

        C[i] = A[(i + 1) % 1] where i in 0:1   ->   C[0] = A[0]
    """
    kept = [replace(s, name="", subscripts=tuple(_settled(e, s) for e in s.subscripts), value=_settled(s.value, s))
            for s in program.statements if all(r.extent > 0 for r in s.ranges)]
    used = {*program.arrays, *(s.target for s in kept), *(r.tensor for s in kept for r in pr.reads(s))}
    tensors = sorted((t for t in program.tensors if t.name in used), key=lambda t: t.name)
    return replace(program, tensors=tuple(tensors), statements=tuple(kept))


def _settled(e: pr.Expr, s: pr.Statement) -> pr.Expr:
    """An expression of a statement with what its indices are known to be, and its arithmetic on numbers carried out."""
    single = {r.index: r.lower for r in s.ranges if r.extent == 1}

    def value(x: pr.Expr) -> pr.Expr:
        return pr.Const(single[x.name], x.dtype) if isinstance(x, pr.Index) and x.name in single else fold_one(x)
    return pr.map_expr(e, value)


def _region(guards: Iterable[Guard], point: Mapping[str, int]) -> str | None:
    """The sizes that meet these guards, in isl's notation; None where no set has them. Of formulas with products of sizes only
    how many elements arrays have is asked, which the host looks at."""
    found = ["true"]
    for terms, question in guards:
        if always((terms, question), dict.fromkeys(point, (1, LARGEST))):
            continue
        text = _text(terms)
        if text is not None:
            found.append(f"({text}) {question.replace('==', '=')} 0")
        elif question == "==":
            return None
    return " and ".join(found)


def _text(terms: Terms) -> str | None:
    """A formula in isl's notation; None if it has products of sizes."""
    parts = [str(c) if not atoms else None if len(atoms) > 1 or (a := _atom(atoms[0])) is None else f"{c} * {a}"
             for atoms, c in terms]
    return None if None in parts else " + ".join(p for p in parts if p) or "0"


def _atom(atom: Atom) -> str | None:
    if isinstance(atom, str):
        return isl.name(atom)
    inner, divisor = _text(atom.a), _text(atom.b)
    return None if inner is None or divisor is None or not divisor.isdigit() else f"floor(({inner})/{divisor})"


def _point(left: islpy.Set, sizes: Sequence[str]) -> dict[str, int]:
    """One of some sizes."""
    found = left.sample_point()
    return {n: found.get_coordinate_val(islpy.dim_type.param, k).to_python() for k, n in enumerate(sizes)}
