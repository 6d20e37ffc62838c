"""Indices of which reads take the digits are two indices.

    y[i] += (W[i,k//2] >> 4*(k%2))*x[k] where i in 0:9, k in 0:64       with i32 W[9,32], i32 x[64]
    ->  y[i] += (W[i,k_high] >> i32(4*k_low))*x[2*k_high + k_low] where i in 0:9, k_high in 0:32, k_low in 0:2

    D[i] = i % 2 == 0 ? x[i//2] : y[i//2] where i in 0:64    with x[32], y[32]
    ->  D[2*i_high + i_low] = i_low == 0 ? x[i_high] : y[i_high] where i_high in 0:32, i_low in 0:2

What is read through a quotient walks memory then, and vectors of it are loads; they were gathers of single elements. Packed
weights of four bits, interleaved signals, upsampled and shuffled images are written so. An index along the memory of the result
must have two values of the lower digit: its vectors are put together from two. Where only one digit of the index of a sum is
read, a vector of it has one value, or few, which is as fast as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polytc.program import program as pr
from polytc.program.names import Names
from polytc.program.sizes import Size
from polytc.rewrite.index_digits import in_digits
from polytc.rewrite.tidy import inline
from polytc.schedule.facts import work_groups
from polytc.schedule.facts.strides import ROW

MOST = 8
"""Values of a lower digit: with more, its loop is a vector by itself."""


def split(program: pr.Program) -> pr.Program:
    """The program with such indices split, where the digits take all of their values. What a single read uses is computed
    there first, where its index may be one of a sum."""
    if work_groups.is_straight(program.statements):
        program = inline.inline(program, lambda s: bool(_found(s)))
    names = Names.of(program)
    return replace(program, statements=tuple(_split(s, names) for s in program.statements))


def _split(s: pr.Statement, names: Names) -> pr.Statement:
    for r, size in _found(s):
        high, low = (replace(r, index=names.index(f"{r.index}_{digit}"), lower=ends[0], upper=ends[1]) for digit, ends in
                     (("high", (r.lower // size, r.upper // size)), ("low", (0, size))))
        s = in_digits(s, r, high, low)
    return s


def _found(s: pr.Statement) -> list[tuple[pr.Range, int]]:
    """The indices that are worth being split, each with the values of its lower digit."""
    limited = {i for b in s.bounds for e in (b.lower, b.upper, pr.Index(b.index)) for i in pr.index_names(e)}
    fixed = [r for r in s.ranges[s.depth:] if not (
        r.index in limited or r.down or isinstance(r.extent, Size) or isinstance(r.lower, Size))]
    sizes = ((r, _size(s, r.index)) for r in fixed)
    return [(r, size) for r, size in sizes
            if size is not None and r.lower % size == 0 and r.extent % size == 0 and _worth(s, r.index, size)]


def _size(s: pr.Statement, index: str) -> int | None:
    """The smallest number by which quotients and remainders of an index are taken, in a subscript of a read at least once, if
    it divides the others; None where it does not, or they are of more than the index."""
    digits = [e for e in _expressions(s) if isinstance(e, pr.Binary) and e.op in ("//", "%") and index in pr.index_names(e.a)]
    sizes = {int(e.b.value) for e in digits if e.a == pr.Index(index) and isinstance(e.b, pr.Const)}
    inside = any(e in digits for r in pr.reads(s) for sub in r.subscripts for e in pr.walk(sub))
    plain = all(e.a == pr.Index(index) and isinstance(e.b, pr.Const) for e in digits)
    divides = bool(sizes) and not any(n % min(sizes) for n in sizes)
    return min(sizes) if inside and plain and divides and 1 < min(sizes) <= MOST else None


def _expressions(s: pr.Statement) -> Iterator[pr.Expr]:
    for e in (*s.subscripts, s.value, *s.where):
        yield from pr.walk(e)


def _worth(s: pr.Statement, index: str, size: int) -> bool:
    """Is it an index of a sum with both digits in pairs, as of packed numbers; along the memory of the result, where vectors
    are put together from two; or one of the sums, whose digits then run by themselves?"""
    left = [i for sub in s.subscripts for i in pr.index_names(sub)]
    if index not in left:
        used = {e.op for e in _expressions(s) if isinstance(e, pr.Binary) and e.op in ("//", "%") and e.a == pr.Index(index)}
        return size == ROW and len(used) == 2
    along = index in pr.index_names(s.subscripts[-1])
    return left.count(index) == 1 and pr.Index(index) in s.subscripts and (size == ROW if along else s.op is not None)
