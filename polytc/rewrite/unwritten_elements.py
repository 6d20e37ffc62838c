"""Programs that find out whether scatters reach every element of a tensor: one more output for each that nothing else fills.

    O[p[i]] = X[i]

has `written_O[x] = 0` before it, and behind it

    written_O[p[i]] = 1
    missing_O min= written_O[x] == 0 ? x : 2**63 - 1

Such a program is refused unless a run looks (`lang.build(presume=True)`): only memory knows whether `p` is a permutation. Where
an assignment fills the tensor before, nothing is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polytc.program import program as pr
from polytc.program import type_promotion
from polytc.program.names import Names, initialisation
from polytc.program.scalars import BOOL, I64, U8
from polytc.rewrite.index_checks import NONE, Check, Domain, check_indices, layout, telling

LAST = 1 << 30
"""Places of these checks begin here: an index outside of its tensor, which leaves an element unwritten, is told first."""


def check_memory(program: pr.Program) -> tuple[pr.Program, tuple[Check, ...]]:
    """The program with outputs for indices that leave their tensors and for elements that scatters leave out, and what they
    tell. Raises CompileError E412 where sizes are open."""
    inside, indices = check_indices(program)
    whole, elements = check_scatters(inside)
    return whole, (*indices, *elements)


def check_scatters(program: pr.Program) -> tuple[pr.Program, tuple[Check, ...]]:
    """The program with an output for each tensor that scatters have to fill, behind its own ones; and what they tell."""
    names = Names.of(program)
    checks: list[Check] = []
    firsts: list[pr.Statement] = []
    beside: dict[str, pr.Statement] = {}
    lasts: list[pr.Statement] = []
    masks: list[pr.Tensor] = []
    for place, t in enumerate(_filled_by_scatters(program), LAST):
        mask = pr.Tensor(names.label(f"written_{t.name}"), U8, t.shape, t.lower)
        masks.append(mask)
        ranges = tuple(pr.Range(names.index(f"x{d}"), low, low + extent)
                       for d, (low, extent) in enumerate(zip(t.lower, t.shape, strict=True)))
        at = tuple(pr.Index(r.index) for r in ranges)
        firsts.append(pr.Statement(initialisation(mask.name), mask.name, at, None, pr.Const(0, U8), ranges))
        writers = [s for s in program.statements if s.target == t.name and s.op is None]
        for s in writers:
            beside[s.name] = replace(s, name=names.label(f"{s.name}_{mask.name}"), target=mask.name, value=pr.Const(1, U8))
        test = pr.Binary("==", pr.Read(mask.name, at, U8), pr.Const(0, U8), BOOL)
        source = replace(writers[-1], name=names.label(f"{t.name}_missing"), loops=(), where=(), bounds=(), ranges=ranges)
        for first, last, check in _tests(source, t, test, names.label(f"missing_{t.name}"), place):
            firsts.append(first)
            lasts.append(last)
            checks.append(check)
    body = [x for s in program.statements for x in (s, *((beside[s.name],) if s.name in beside else ()))]
    outputs = tuple(c.output for c in checks)
    return replace(program, tensors=(*program.tensors, *masks, *outputs), statements=(*firsts, *body, *lasts),
                   outputs=program.outputs + tuple(t.name for t in outputs)), tuple(checks)


def _tests(s: pr.Statement, t: pr.Tensor, missing: pr.Expr, name: str, place: int
           ) -> Iterator[tuple[pr.Statement, pr.Statement, Check]]:
    """`name[row] min= the number of an element that is missing`. s: the last scatter, over all elements of the tensor."""
    domain = Domain(s.ranges, (), ())
    for rows in layout(s, domain):
        value = pr.Select(pr.substitute(missing, rows.swapped), type_promotion.fold(rows.number), pr.Const(NONE, I64), I64)
        yield telling(s, name, rows, domain, "min", value, pr.Const(NONE, I64), lambda out, width: Check(
            out, place, s, t, 0, pr.Const(0, I64), True, domain.ranges, width, None, unwritten=True))


def _filled_by_scatters(program: pr.Program) -> Iterator[pr.Tensor]:
    """Tensors into which scatters are assigned, and which no assignment fills before."""
    settled = set(program.inputs)
    for s in program.statements:
        t = program.tensor(s.target)
        if t.name in settled or s.op is not None:
            continue
        if pr.scatters(s):
            settled.add(t.name)
            yield t
        elif _fills(s, t):
            settled.add(t.name)


def _fills(s: pr.Statement, t: pr.Tensor) -> bool:
    """Does an assignment write every element, each by indices of its own?"""
    own = {r.index: (r.lower, r.extent) for r in s.ranges}
    ends = [own.pop(e.name, None) if isinstance(e, pr.Index) else None for e in s.subscripts]
    return not (s.where or s.bounds or s.loops) and ends == list(zip(t.lower, t.shape, strict=True))
