"""`for` nests whose iterations are one chain, each link of which needs the one before: they have one order, that of the text.

    for i { u[i] = u[i-1] + s[0];  for j { s[0] = s[0]*r + A[j,i] } }

isl's scheduler would look for another one all the same, for longer with each level.
"""

from __future__ import annotations

from polytc.poly.scop import ordered
from polytc.program import program as pr


def is_totally_ordered(program: pr.Program, loop: pr.Loop) -> bool:
    """Is there a statement all of whose instances read one element and write it again, and does every other one, in some of the
    same loops, touch this element too? (Statements with indices of their own are not looked at: those may run as vectors.)"""
    return all(s.depth == len(s.ranges) for s in loop.statements) and any(
        _links(program, s) and all(_follows(x, s) for x in loop.statements) for s in loop.statements)


def _links(program: pr.Program, s: pr.Statement) -> bool:
    """Does each instance need the one before?"""
    fixed = all(isinstance(e, pr.Const) for e in s.subscripts)
    return fixed and (_reads(s, s) or ordered(program, s))


def _follows(x: pr.Statement, chain: pr.Statement) -> bool:
    """Does each instance of a statement stand between two links?"""
    inside = x.loops == chain.loops[:x.depth]
    return inside and ((x.target, x.subscripts) == (chain.target, chain.subscripts) or _reads(x, chain))


def _reads(x: pr.Statement, chain: pr.Statement) -> bool:
    return any((r.tensor, r.subscripts) == (chain.target, chain.subscripts) for r in pr.reads(x))
