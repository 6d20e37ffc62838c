"""Inlining: a temporary is computed where it is read, as often as it is read.

    S1: T[i] = X[i]*2;  S2: Y[i] = T[i] + T[i+1]   ->   S2: Y[i] = X[i]*2 + X[i+1]*2

A saved schedule lists it as `inline T`. (compute_inline of TVM; the default of Halide: Ragan-Kelley et al., Halide, PLDI 2013.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from polytc import errors
from polytc.program import program as pr
from polytc.program.terms import DEEPEST
from polytc.schedule.user.changes import elements

LARGEST = 2000
"""Nodes that an expression may grow to."""


@dataclass(frozen=True)
class Inline:
    """tensor: the temporary."""

    tensor: str

    def __str__(self) -> str:
        return f"inline {self.tensor}"

    def apply(self, program: pr.Program) -> pr.Program:
        """The program without the temporary."""
        return inline(program, self.tensor)

    @staticmethod
    def read(text: str) -> Inline | None:
        """What prints so, behind `inline`."""
        return Inline(text) if text and not text.split()[1:] else None


def inline(program: pr.Program, tensor: str) -> pr.Program:
    """The program without a temporary. Raises E707 for an unknown tensor, E708 for one that cannot be inlined."""
    s, cell = _maker(program, tensor)
    users = [x for x in program.statements if any(r.tensor == tensor for r in pr.reads(x))]
    for x in users:
        _check(program, s, x)

    def value(e: pr.Expr) -> pr.Expr:
        if not (isinstance(e, pr.Read) and e.tensor == tensor):
            return e
        return pr.substitute(s.value, {i: elements.minus(x, c) for (i, c), x in zip(cell, e.subscripts, strict=True) if i})
    made = {x.name: replace(x, value=pr.map_expr(x.value, value)) for x in users}
    large = next((x for x in made.values() if _large(x.value)), None)
    if large is not None:
        raise errors.fail("E708", f"{large.name} would grow beyond {LARGEST} terms: {tensor} is not inlined",
                          notes=["fuse the loops instead: `compute_at` computes it next to its reader"])
    return replace(program, tensors=tuple(t for t in program.tensors if t.name != tensor),
                   statements=tuple(made.get(x.name, x) for x in program.statements if x is not s))


def _large(e: pr.Expr) -> bool:
    return pr.levels(e) > DEEPEST or len(list(pr.walk(e))) > LARGEST


def _maker(program: pr.Program, tensor: str) -> tuple[pr.Statement, tuple[tuple[str, int], ...]]:
    """The statement that makes a temporary, and the index and the number in each subscript of its left side."""
    if tensor not in {t.name for t in program.tensors}:
        raise errors.fail("E707", f"there is no tensor {tensor!r}", notes=[
            f"temporaries are {', '.join(program.temporaries) or 'none'}"])
    makers = [x for x in program.statements if x.target == tensor]
    if tensor not in program.temporaries or len(makers) != 1:
        what = "is no temporary" if tensor not in program.temporaries else f"is made by {', '.join(x.name for x in makers)}"
        raise _refused(tensor, what, "temporaries that one assignment makes can be inlined")
    s = elements.plain(program, makers[0].name, "inlining")
    cell = elements.cell(s)
    if s.op is not None or cell is None or {i for i, _ in cell if i} != set(s.indices):
        raise _refused(tensor, f"is not made element by element by {s.name}", "use `compute_at` for it")
    return s, cell


def _check(program: pr.Program, s: pr.Statement, x: pr.Statement) -> None:
    """Raises E708 where a reader cannot compute what it reads."""
    plain = [e for e in pr.walk(x.value) if isinstance(e, pr.Read) and e.tensor == s.target]
    outside: Iterable[pr.Expr] = (*x.subscripts, *x.where, *(e for b in x.bounds for e in (b.lower, b.upper)),
                                  *(sub for e in pr.walk(x.value) if isinstance(e, pr.Read) for sub in e.subscripts))
    if any(isinstance(e, pr.Read) and e.tensor == s.target for top in outside for e in pr.walk(top)):
        raise _refused(s.target, f"is an index for {x.name}", "leave it in memory")
    if any(e.default is not None for e in plain):
        raise _refused(s.target, f"is read by {x.name} where it may have no element", "use `compute_at` for it")
    if s.where and x.where != s.where and any(r.default is None for r in pr.reads(s)):
        raise _refused(s.target, f"is made by {s.name} under a condition", "use `compute_at` for it")
    operands = {r.tensor for r in pr.reads(s)}
    at = program.statements.index(s)
    last = max(n for n, y in enumerate(program.statements) if y is x or (x.loops and y.loops[:1] == x.loops[:1]))
    writer = next((y.name for y in program.statements[at + 1:last + 1] if y.target in operands), None)
    if writer is not None:
        raise _refused(s.target, f"would be computed after {writer} has changed what it is made of", "leave it in memory")


def _refused(tensor: str, why: str, cure: str) -> errors.CompileError:
    return errors.fail("E708", f"{tensor} {why}: it is not inlined", notes=[cure])
