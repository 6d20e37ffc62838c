"""A loop nest as text for people: loops with names, ranges and kinds, statements as they were written.

    parallel for i.0 in 0:3:                # i // 32
        for k in 0:64:
            for i.1 in 0:32:                # i % 32
                S1: C[i, j] += A[i, k] * B[k, j]
"""

from __future__ import annotations

from polytc.poly.nest import Leaf
from polytc.poly.scop import Scop
from polytc.program import program as pr
from polytc.schedule.user import extents
from polytc.schedule.user.loopnest import Body, NamedLoop

COMMENT = 40
"""The column in which comments begin."""


def text(body: Body, scop: Scop) -> str:
    """The nest. Ranges are the smallest that hold all iterations; a comment says which iteration runs an instance, where
    that is not the value of an index of the loop's name."""
    statements = {s.name: s for s in scop.program.statements}
    return "\n".join(_lines(body, "", statements, extents.domains(scop)))


def _lines(body: Body, margin: str, statements: dict[str, pr.Statement], domains: extents.Domains) -> list[str]:
    lines = []
    for n in body:
        if isinstance(n, Leaf):
            s = statements[n.statement]
            asked = "".join(f"  # {a.tensor} {a.distance} of {a.loop} ahead into {a.into}" for a in s.ahead)
            lines.append(f"{margin}{s.name}: {statement(s)}{asked}")
            continue
        kind = "" if n.kind == "sequential" else f"{n.kind} "
        low, high = extents.texts(n, domains)
        head = f"{margin}{kind}for {n.title} in {low}:{high}:"
        comment = _comment(n)
        lines.append(f"{head.ljust(COMMENT - 2)}  # {comment}" if comment else head)
        lines += _lines(n.body, margin + "    ", statements, domains)
    return lines


def statement(s: pr.Statement) -> str:
    """The statement without its ranges."""
    left, _, where = pr.format_statement(s).partition("  where ")
    kept = [pr.format_expr(c) for c in s.where]
    return f"{left}  where {', '.join(kept)}" if where and kept else left


def _comment(n: NamedLoop) -> str:
    values = [(r.statement, pr.format_expr(r.value)) for r in n.rows]
    if all(value == r.name for (_, value), r in zip(values, n.rows, strict=True)):
        return ""
    distinct = {value for _, value in values}
    return distinct.pop() if len(distinct) == 1 else ", ".join(f"{s}: {value}" for s, value in values)
