"""Sums of products of complex numbers as sums of products of real matrices.

    C[i,j] += A[i,k]*B[k,j]                                     with c64 A[16,20], c64 B[20,24]
    ->  B_matrix[k,0,j,0] = B[k,j,0]
    B_matrix[k,0,j,1] = B[k,j,1]
    B_matrix[k,1,j,0] = -B[k,j,1]
    B_matrix[k,1,j,1] = B[k,j,0]
    C[i,j,part] += A[i,k,row]*B_matrix[k,row,j,part] where row in 0:2, part in 0:2

A complex number b is the real matrix of multiplying by it, of two rows. A and C are taken as they lie in memory, as matrices of
real numbers with twice as many columns, and B as one with twice as many rows and columns: what is left is a product like
any other, with as many operations as the four products of parts, and its memory is walked element by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from polytc.program import program as pr
from polytc.program.names import Names
from polytc.program.scalars import I64
from polytc.rewrite.bounds import inside
from polytc.rewrite.complex_numbers.parts import both, negative, uniform

REUSED = 8
"""Products at least that an element of the matrix is in: to make its four numbers takes about as long as two products."""

LARGEST = 1 << 26
"""Numbers of the matrix at most."""


@dataclass(frozen=True)
class Product:
    """A sum of products. row: the factor that is taken as it lies in memory, without `conj`; conjugated: whether that stood
    there; factor: the one that becomes a matrix; over: the ranges that this one has; summed: those that are summed over."""

    row: pr.Expr
    conjugated: bool
    factor: pr.Expr
    over: tuple[pr.Range, ...]
    summed: frozenset[str]


def product(s: pr.Statement, tensors: Mapping[str, pr.Tensor], *, vectors: bool = False) -> Product | None:
    """How a statement is a sum of products of a row and a matrix; None if it is none, or if the matrix would be used too
    seldom. vectors: take parts of rows that are read once in strides apart in vectors, see statements.as_real."""
    if s.op != "+" or s.loops or s.bounds or pr.scatters(s):
        return None
    e = s.value
    if isinstance(e, pr.Unary) and isinstance(e.a, pr.Binary):  # `-=`: the matrix is negated
        e = replace(e.a, b=pr.Unary("-", e.a.b, e.dtype))
    if not (isinstance(e, pr.Binary) and e.op == "*") or any(r.tensor == s.target for r in pr.reads(s)):
        return None
    kept = [i for sub in s.subscripts for i in pr.index_names(sub)]
    found = [p for a, b in ((e.a, e.b), (e.b, e.a)) if (p := _product(s, a, b, kept)) is not None
             and not (vectors and _read_once(s, p, kept))
             and (not s.where or all(inside(tensors[r.tensor], r.subscripts, s.ranges)
                                     for r in pr.walk(b) if isinstance(r, pr.Read)))]
    last = kept[-1] if kept else None
    return max(found, key=lambda p: (last in {r.index for r in p.over}, _reuse(s, p, kept)), default=None)


def _product(s: pr.Statement, a: pr.Expr, b: pr.Expr, kept: list[str]) -> Product | None:
    conjugated = isinstance(a, pr.Call) and a.fn == "conj"
    row = a.args[0] if isinstance(a, pr.Call) and conjugated else a
    own = set(pr.index_names(b))
    over = tuple(r for r in s.ranges if r.index in own)
    summed = frozenset(s.indices) - set(kept)
    made = Product(row, conjugated, b, over, summed)
    if uniform(row, pr.Index("")) is None or not _two_parts(row) or not _two_parts(b) or not summed & own:
        return None
    few = 4 * prod(int(r.extent) for r in over) <= LARGEST
    return made if few and _reuse(s, made, kept) >= REUSED else None


def _read_once(s: pr.Statement, p: Product, kept: list[str]) -> bool:
    """Is each number of the row in one product alone, and does the sum not go along its memory? There are vectors for that
    which take the parts of numbers apart."""
    names = set(pr.index_names(p.row))
    reads = [r for r in pr.walk(p.row) if isinstance(r, pr.Read) and r.dtype.is_complex and r.subscripts]
    along = all(not p.summed.isdisjoint(pr.index_names(r.subscripts[-1])) for r in reads)
    return not along and all(i in names or int(s.extents[i]) == 1 for i in kept)


def _two_parts(e: pr.Expr) -> bool:
    """Has it an imaginary part?"""
    return any(isinstance(x, pr.Read) and x.dtype.is_complex or isinstance(x, pr.Const) and isinstance(x.value, complex)
               for x in pr.walk(e))


def _reuse(s: pr.Statement, p: Product, kept: list[str]) -> int:
    """In how many products an element of the matrix is."""
    own = {r.index for r in p.over}
    return prod(int(s.extents[i]) for i in dict.fromkeys(kept) if i not in own)


def statements(s: pr.Statement, p: Product, names: Names, part: str, row: str) -> tuple[list[pr.Statement], pr.Tensor]:
    """What makes the matrix, then the sum, and the matrix itself. part, row: names for indices."""
    first = next((x.tensor for x in pr.walk(p.factor) if isinstance(x, pr.Read)), s.target)
    kept = [i for sub in s.subscripts for i in pr.index_names(sub)]
    other, inner = ([r for r in p.over if (r.index in p.summed) == summed] for summed in (False, True))
    shared = [r for r in other if r.index in set(pr.index_names(p.row))]
    own = [r for r in other if r not in shared]
    pair = pr.Range(part, 0, 2), pr.Range(row, 0, 2)
    last = bool(own) and own[-1].index == kept[-1]  # then columns of the matrix are columns of the result, else rows are rows
    axes = [*shared, *inner, pair[1], *own, pair[0]] if last else [*shared, *own, pair[0], *inner, pair[1]]
    part_type = s.value.dtype.part
    tensor = pr.Tensor(names.label(f"{first}_matrix"), part_type, tuple(r.extent for r in axes), tuple(r.lower for r in axes))
    made = list[pr.Statement]()
    for (n, m), value in _entries(p).items():
        at = {part: pr.Const(m, I64), row: pr.Const(n, I64)}
        made.append(replace(s, name=names.label(f"{s.name}_matrix"), target=tensor.name, op=None, value=value, ranges=p.over,
                            subscripts=tuple(at.get(r.index, pr.Index(r.index)) for r in axes), where=()))
    taken = uniform(p.row, pr.Index(row))
    assert taken is not None, "complex_numbers: a row whose parts are not alike"
    entry = pr.Read(tensor.name, tuple(pr.Index(r.index) for r in axes), part_type)
    outer = [r for r in s.ranges if r.index not in p.summed]
    ranges = (*outer, pair[0], *(r for r in s.ranges if r.index in p.summed), pair[1])
    value = pr.Binary("*", taken, entry, part_type)
    return [*made, replace(s, subscripts=(*s.subscripts, pr.Index(part)), value=value, ranges=ranges)], tensor


def _entries(p: Product) -> dict[tuple[int, int], pr.Expr]:
    """(row, part) -> what the part of the row's number is multiplied by, in the part of the result."""
    re, im = both(p.factor)
    opposite = negative(im)
    assert opposite is not None
    if not p.conjugated:
        return {(0, 0): re, (0, 1): im, (1, 0): opposite, (1, 1): re}
    less = negative(re)
    assert less is not None
    return {(0, 0): re, (0, 1): im, (1, 0): im, (1, 1): less}
