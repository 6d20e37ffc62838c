"""What decides, exactly, the questions that are too large for the proofs of `lang.soundness.check`: polytc.poly.proofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from polytc.errors import Diagnostic, Span
from polytc.lang.typing.ranges import Hull
from polytc.program import program as pr
from polytc.program.domain import Domain

Places: TypeAlias = Mapping[tuple[str, pr.Read | None], Span]
"""(statement, read) -> where it stands in the text; None: the left side."""


class Prover(Protocol):
    """Exact answers on quasi-affine programs of any size."""

    def hull(self, subscripts: Sequence[pr.Expr], domain: Domain) -> Hull | None:
        """The smallest box that holds the elements with these subscripts; None if that takes too long."""
        ...

    def refusals(self, program: pr.Program, places: Places, sizes: Mapping[str, object],
                 presumed: frozenset[str] = frozenset()) -> list[Diagnostic]:
        """What is wrong with a program, each with a witness: accesses out of bounds (E203), elements written twice (E210),
        instances that depend on each other (E211), reads of what nothing wrote (E213), outputs with holes (E214); E204 where
        the answer takes too long. sizes: of the declaration, for the text of the witness; presumed: outputs that have no holes,
        or a run tells of them."""
        ...


def begun(tensor: str, hull: Hull) -> str:
    """What helps where an output has holes. hull: its bounds, both included."""
    indices = "ijklmnopqrstuvwxyz"[:len(hull)]
    where = ", ".join(f"{i} in {low}:{high + 1}" for i, (low, high) in zip(indices, hull, strict=False))
    return f"write the rest too, or all of it before, `{tensor}[{','.join(indices)}] = 0 where {where}`; an update such as " \
        "`+=` starts from its identity everywhere"


CHECKED = "if the scatter reaches every element, as a permutation does, compile with checked=True, which looks whether it did"
"""The note that leads from a permutation to code that looks at it."""


def scattered(program: pr.Program) -> frozenset[str]:
    """The outputs that scatters are assigned to, and that nothing reads."""
    read = {r.tensor for s in program.statements for r in pr.reads(s)}
    own = {s.target for s in program.statements if s.op is None and pr.scatters(s)}
    return frozenset(own.intersection(program.outputs).difference(program.inputs, read))


def apart(s: pr.Statement) -> str:
    """How a statement that reads what others of its instances write may leave these out, as in Floyd-Warshall's
    `D[i,j] min= D[i,k] + D[k,j]`: by `where i != k, j != k`. "" if it is not so simple."""
    around = frozenset(s.indices[:s.depth])
    clauses = dict[str, None]()
    for read in (r for r in pr.reads(s) if r.tensor == s.target and r.subscripts != s.subscripts):
        found = [f"{own.name} != {pr.format_expr(e)}" for own, e in zip(s.subscripts, read.subscripts, strict=True)
                 if isinstance(own, pr.Index) and own.name not in around and frozenset(pr.index_names(e)) <= around
                 and not any(isinstance(x, pr.Read) for x in pr.walk(e))]
        if not found or s.downward:
            return ""
        clauses[found[0]] = None
    cure = f"`where {', '.join(clauses)}`"
    return f"if those that write what others read change nothing, leave them out: {cure}" if clauses else ""
