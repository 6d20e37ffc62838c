"""Copies of tensors for one statement: a program with a statement more, which a schedule then moves next to its reader.

    S1: C[i,j] += A[i,k]*B[k,j]   ->   S1_A: A_S1[i,k] = A[i,k];  S1: C[i,j] += A_S1[i,k]*B[k,j]

A saved schedule lists it as `cache S1 A 0,1` (schedule.user.saved). Iterations that run at once have copies of their own where
several use one element: `cache S1 A 0,1 j/16` has one for each value of j // 16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.lang.report import closest
from polytc.program import program as pr
from polytc.program.affine import affine, interval
from polytc.program.linear import linear
from polytc.program.names import fresh
from polytc.program.scalars import I64
from polytc.schedule.user.changes.pieces import Piece


@dataclass(frozen=True)
class Copy:
    """statement: the reader; tensor: what it reads; order: of the copy's dimensions, by the tensor's: (1, 0) transposes. each:
    pieces of the reader's indices: there is a copy for each of their values."""

    statement: str
    tensor: str
    order: tuple[int, ...]
    each: tuple[Piece, ...] = ()

    def __str__(self) -> str:
        order = ",".join(map(str, self.order)) or ("-" if self.each else "")
        return " ".join([f"cache {self.statement} {self.tensor} {order}".rstrip(), *map(str, self.each)])

    def apply(self, program: pr.Program) -> pr.Program:
        """The program with the copy."""
        return apply(program, self)[0]

    @staticmethod
    def read(text: str) -> Copy | None:
        """The copy that prints so, behind `cache`."""
        statement, tensor, order, *each = [*text.split(), "", "", ""][:max(3, len(text.split()))]
        pieces = tuple(map(Piece.read, each))
        numbers = [] if order in ("", "-") else order.split(",")
        if not tensor or None in pieces or not all(map(str.isdecimal, numbers)):
            return None
        return Copy(statement, tensor, tuple(map(int, numbers)), tuple(p for p in pieces if p is not None))


def apply(program: pr.Program, c: Copy) -> tuple[pr.Program, pr.Statement]:
    """The program with one copy, made before the outermost `for` around the reader, and the statement that makes it.

    Raises E707 if the statement does not read the tensor, E708 where the order does not fit or the loop writes the tensor.
    """
    s, reads, first = reader(program, c.statement, c.tensor)
    tensor = program.tensor(c.tensor)
    if sorted(c.order) != list(range(len(tensor.shape))):
        raise errors.fail("E708", f"{list(c.order)} is no order of the dimensions of {c.tensor}",
                          notes=["name each once, from 0"])
    return _copied(program, s, tensor, reads, c, first)


def reader(program: pr.Program, statement: str, tensor: str) -> tuple[pr.Statement, list[pr.Read], pr.Statement]:
    """A statement that reads a tensor, its reads of it, and the statement before which copies for it are made. Raises E707 if
    it does not read the tensor, E708 where a loop around it writes the tensor."""
    s = next((x for x in program.statements if x.name == statement), None)
    if s is None:
        raise errors.fail("E707", f"there is no statement {statement!r}", notes=["the schedule asks for a copy for it"])
    reads = [r for r in pr.reads(s) if r.tensor == tensor]
    if not reads:
        known = list(dict.fromkeys(r.tensor for r in pr.reads(s)))
        notes = [n for n in (closest(tensor, known), f"it reads {', '.join(known) or 'nothing'}") if n]
        raise errors.fail("E707", f"{s.name} does not read {tensor!r}", notes=notes)
    around = [x for x in program.statements if x is s or (s.loops and x.loops[:1] == s.loops[:1])]
    writer = next((x.name for x in around if x.target == tensor), None)
    if writer is not None:
        raise errors.fail("E708", f"{writer} writes {tensor} where {s.name} reads it: a copy would be out of date",
                          notes=["copy tensors that the loops around the statement do not change"])
    return s, reads, around[0]


def _copied(program: pr.Program, s: pr.Statement, tensor: pr.Tensor, reads: list[pr.Read], c: Copy, first: pr.Statement
            ) -> tuple[pr.Program, pr.Statement]:
    name = fresh(f"{tensor.name}_{s.name}", {t.name for t in program.tensors})
    label = fresh(f"{s.name}_{tensor.name}", {x.name for x in program.statements})
    box = [_extent(s, reads, tensor, d) for d in range(len(tensor.shape))]
    indices = _indices(s, reads[0])
    ranges = tuple(pr.Range(i, low, high) for i, (low, high) in zip(indices, box, strict=True))
    each = pieces(s, c.each, set(indices))
    box = [*box, *((r.lower, r.upper) for r in each)]
    order = (*range(len(indices), len(box)), *c.order)
    small = pr.Tensor(name, tensor.dtype, tuple(box[d][1] - box[d][0] for d in order), tuple(box[d][0] for d in order))
    cell = tuple(pr.Index(i) for i in indices)
    places = (*(pr.Index(r.index) for r in each), *(cell[d] for d in c.order))
    make = pr.Statement(label, name, places, None, pr.Read(tensor.name, cell, tensor.dtype), (*each, *ranges), span=s.span)

    def moved(e: pr.Expr) -> pr.Expr:
        if isinstance(e, pr.Read) and e.tensor == tensor.name:
            return replace(e, tensor=name, subscripts=(*(p.value for p in c.each), *(e.subscripts[d] for d in c.order)))
        return e
    reader = replace(s, value=pr.map_expr(s.value, moved), subscripts=tuple(pr.map_expr(x, moved) for x in s.subscripts))
    statements = tuple(y for x in program.statements for y in (
        *((make,) if x is first else ()), reader if x is s else x))
    return replace(program, tensors=(*program.tensors, small), statements=statements), make


def pieces(s: pr.Statement, each: tuple[Piece, ...], taken: set[str]) -> list[pr.Range]:
    """The ranges of what there is a copy for each value of, with names that are `taken` from then on. Raises E707 for an index
    that the reader does not have."""
    found = []
    for p in each:
        r = next((x for x in s.ranges if x.index == p.index), None)
        if r is None:
            raise errors.fail("E707", f"{s.name} has no index {p.index!r}",
                              notes=["the schedule asks for copies for its values"])
        name = fresh(f"{p.index}_each", taken)
        taken.add(name)
        found.append(pr.Range(name, *p.range(r.lower, r.upper)))
    return found


def _extent(s: pr.Statement, reads: list[pr.Read], tensor: pr.Tensor, d: int) -> tuple[int, int]:
    """The half-open interval of dimension d that the reads touch within the tensor."""
    box = s.box
    lower, upper = tensor.lower[d], tensor.lower[d] + tensor.shape[d]
    low, high = upper, lower
    for r in reads:
        form = affine(r.subscripts[d])
        if form is None or any(x.extent <= 0 for x in s.ranges):
            return lower, upper
        ends = interval(form, box)
        low, high = min(low, ends[0]), max(high, ends[1] + 1)
    low, high = max(low, lower), min(high, upper)
    return (low, high) if low < high else (lower, upper)


def _indices(s: pr.Statement, read: pr.Read) -> tuple[str, ...]:
    """Names for the copy's indices: what the reader walks each dimension with, where that is one index and no other's."""
    names: list[str] = []
    for d, sub in enumerate(read.subscripts):
        form = linear(sub)
        index = form.terms[0][0] if form is not None and len(form.terms) == 1 else f"d{d}"
        names.append(fresh(index if index not in names else f"d{d}", set(names)))
    return tuple(names)


def source(s: pr.Statement, make: pr.Statement, renamed: str) -> dict[str, pr.Expr]:
    """Index of the reader -> the index of the copy that has its value when the element is first read.

    renamed: the copy's tensor, which `s` reads.
    """
    found: dict[str, pr.Expr] = {}
    subscripts = list(make.subscripts)
    for d, sub in enumerate(subscripts):
        forms = [linear(r.subscripts[d]) for r in pr.reads(s) if r.tensor == renamed]
        indices = {f.terms for f in forms if f is not None}
        if None in forms or len(indices) != 1:
            continue
        terms = indices.pop()
        if len(terms) == 1 and terms[0][1] == 1:
            most = max(f.constant for f in forms if f is not None)
            found.setdefault(terms[0][0], pr.Binary("-", sub, pr.Const(most, I64), I64))
    return found
