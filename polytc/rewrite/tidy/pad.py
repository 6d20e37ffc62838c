"""Guarded reads inside reductions become plain reads of a padded copy.

    O[m,h] += (I[c,h+r-1] else 0)*W[m,c,r] where h in 0:30        with I[16,30], W[16,16,3]
    ->  I_pad[x0,x1] = (I[x0,x1] else 0.0) where x1 in -1:31;  O[m,h] += I_pad[c,h+r-1]*W[m,c,r]

The copy costs one pass over the input; the guard would cost a test in the innermost loop. Where it would not, because the
guard is the same for all neighbours in memory and holds but at the edges (codegen.passes.index_set_splitting), few uses of an
element are no reason for a copy. On GPUs items test while others wait for memory, and a copy is one more launch: it takes as
many uses as tests that cost what writing and reading an element does.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import affine, interval
from polytc.program.linear import linear
from polytc.program.names import fresh
from polytc.program.scalars import I64
from polytc.program.sizes import shortfall
from polytc.rewrite.bounds import inside
from polytc.rewrite.step import Decision

USES = 2
"""Of an element that are worth a copy on a processor."""
SELDOM = 64
"""Uses of an element up to which there is no copy if guards are the same for all neighbours in memory."""
NEIGHBOURS = 8
"""Fewest of them that are worth it."""
GROWTH = 4
"""Largest size of the copy, in sizes of the tensor plus a constant, that is still worth it."""


def materialise(program: pr.Program, uses: float = USES) -> pr.Program:
    """The program with padded copies for the guarded reads of updates. uses: of an element that are worth it."""
    tensors, statements = list(program.tensors), list[pr.Statement]()
    copies: dict[tuple[object, ...], pr.Tensor] = {}
    for s in program.statements:
        for read in pr.reads(s):
            box = _box(program, s, read, uses)
            if box is None:
                continue
            assert read.default is not None
            source = program.tensor(read.tensor)
            key = (read.tensor, read.default, box)
            if key not in copies:
                name = fresh(f"{read.tensor}_pad", {t.name for t in tensors})
                copies[key] = pr.Tensor(name, source.dtype, tuple(b - a + 1 for a, b in box), tuple(a for a, _ in box))
                tensors.append(copies[key])
                statements.append(_copy(copies[key], read, fresh(f"{s.name}_{name}", {x.name for x in statements})))
            s = pr.replaced(s, read, replace(read, tensor=copies[key].name, default=None))
        statements.append(s)
        copies = {key: copy for key, copy in copies.items() if key[0] != s.target}  # a later read sees another value
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def drop_guards(program: pr.Program) -> pr.Program:
    """The program without guards that never act, because the read is in bounds for all points of the statement's box.

        O[h] = (I[h] else 0)*2 where h in 0:30              with I[30]
        ->  O[h] = I[h]*2.0
    """
    return replace(program, statements=tuple(_unguarded(program, s) for s in program.statements))


def _unguarded(program: pr.Program, s: pr.Statement) -> pr.Statement:
    for read in pr.reads(s):
        if read.default is not None and inside(program.tensor(read.tensor), read.subscripts, s.ranges):
            s = pr.replaced(s, read, replace(read, default=None))
    return s


def for_devices(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with padded copies where these take a GPU less time than tests."""
    costs = decision.machine.costs.groups
    return materialise(program, costs.partial / costs.guard)


def _box(program: pr.Program, s: pr.Statement, read: pr.Read, uses: float) -> tuple[tuple[int, int], ...] | None:
    """The coordinates that the read touches, in and out of bounds; None if no copy shall be made."""
    if read.default is None or s.op is None or any(r.tensor == s.target for r in pr.reads(s)):
        return None
    if any(kinds.is_group(r.kind) for r in s.ranges):
        return None  # a tile of a group, whose guards cost no more than a copy
    forms = [affine(sub) for sub in read.subscripts]
    box = tuple(interval(form, s.box) for form in forms if form is not None)
    size = program.tensor(read.tensor).size
    if len(box) < len(forms) or not box or prod(int(b) - int(a) + 1 for a, b in box) > GROWTH * size + 4096:
        return None
    short = [shortfall(b - a + 1) for a, b in box]
    if None in short:
        return None
    box = tuple((a, b + n) for (a, b), n in zip(box, short, strict=True) if n is not None)  # no copy has fewer than 0 elements
    return box if s.points >= (SELDOM if _uniform(program, s, read) else uses) * size else None


def _uniform(program: pr.Program, s: pr.Statement, read: pr.Read) -> bool:
    """Is the guard the same for all neighbours in memory that one index of the target's last dimension walks along?"""
    tensor, last = program.tensor(read.tensor), linear(read.subscripts[-1])
    index = last.index if last is not None else None
    walked = s.by_index.get(index) if index is not None else None
    inside = walked is not None and tensor.lower[-1] <= walked.lower and walked.upper <= tensor.lower[-1] + tensor.shape[-1]
    return inside and walked is not None and walked.extent >= NEIGHBOURS and s.subscripts[-1:] == (pr.Index(walked.index),)


def _copy(target: pr.Tensor, read: pr.Read, name: str) -> pr.Statement:
    indices = tuple(pr.Index(f"x{d}", I64) for d in range(len(target.shape)))
    ranges = tuple(pr.Range(i.name, lo, lo + n) for i, lo, n in zip(indices, target.lower, target.shape, strict=True))
    return pr.Statement(name, target.name, indices, None, replace(read, subscripts=indices), ranges)
