"""Divisions and functions of constants inside of a statement become temporaries, which are computed once.

    Y[i,j] = X[i,j]*(g[j]/sqrt(v[j] + 1e-5))                    with X[90,64], constant g[64], constant v[64]
    ->  Y_term[j] = g[j]/sqrt(v[j] + 1e-05)
        Y[i,j] = X[i,j]*Y_term[j]

Such are the scales of quantised convolutions, and batch normalisation. Every number is the one that it was. Sums keep their
terms, which may be as large as weights.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from polytc.program import program as pr
from polytc.program.names import fresh
from polytc.program.sizes import none_negative
from polytc.rewrite.bounds import hoisted, inside
from polytc.rewrite.tidy import hoist
from polytc.schedule.cost.parallel_profitability import CHEAP

USES = 8
"""Instances of the statement for each element of a term, at least."""


def split(program: pr.Program) -> pr.Program:
    """The program with temporaries for such terms."""
    fixed = hoist.constants(program)
    if not fixed:
        return program
    terms = _Terms(program, fixed)
    statements = list[pr.Statement]()
    for s in program.statements:
        changed = s if s.op is not None else replace(s, value=terms.replaced(s, s.value))
        statements += [*terms.new(), changed]
    return replace(program, statements=tuple(statements), tensors=tuple(terms.tensors))


class _Terms:
    def __init__(self, program: pr.Program, fixed: frozenset[str]) -> None:
        self.program, self.fixed, self.tensors = program, fixed, list(program.tensors)
        self.names = {s.name for s in program.statements}
        self.made: list[pr.Statement] = []
        self.known: dict[tuple[str, tuple[pr.Range, ...]], str] = {}

    def new(self) -> list[pr.Statement]:
        """The statements of the terms that were found since it was called last."""
        made, self.made = self.made, []
        return made

    def replaced(self, s: pr.Statement, e: pr.Expr) -> pr.Expr:
        """An expression of a statement with reads in place of the largest terms; what is chosen by a condition stays, as it may
        be read nowhere else."""
        if not isinstance(e, pr.Unary | pr.Binary | pr.Cast | pr.Call):
            return e
        own = set(pr.index_names(e))
        ranges = tuple(r for r in s.ranges if r.index in own)
        pays = s.points >= USES * prod(int(r.extent) for r in ranges) and none_negative(r.extent for r in ranges)
        if pays and e.dtype.is_float and self._is_term(s, e):
            return self._read(s, e, ranges)
        return pr.rebuild(e, tuple(self.replaced(s, x) for x in pr.children(e)))

    def _is_term(self, s: pr.Statement, e: pr.Expr) -> bool:
        """Is it made of constants, whose elements are all there, and is it more than sums and products?"""
        nodes = list(pr.walk(e))
        reads = [x for x in nodes if isinstance(x, pr.Read)]
        costly = any((isinstance(x, pr.Binary) and x.op == "/" and x.dtype.is_float)
                     or (isinstance(x, pr.Call) and (x.fn not in CHEAP or x.fn == "sqrt")) for x in nodes)
        within = sum(sum(1 for _ in pr.index_names(r)) for r in reads)
        return costly and bool(reads) and not any(isinstance(x, pr.Select) for x in nodes) \
            and within == sum(1 for _ in pr.index_names(e)) and all(self._is_whole(s, r) for r in reads)

    def _is_whole(self, s: pr.Statement, read: pr.Read) -> bool:
        """Is it a read of a constant, by indices whose values are all in it, or, of open sizes, where the statement runs?"""
        if read.tensor not in self.fixed or read.default is not None:
            return False
        if not all(isinstance(e, pr.Index) for e in read.subscripts):
            return False
        return bool(self.program.sizes) or inside(self.program.tensor(read.tensor), read.subscripts, s.ranges)

    def _read(self, s: pr.Statement, e: pr.Expr, ranges: tuple[pr.Range, ...]) -> pr.Expr:
        text, indices = repr(e), tuple(pr.Index(r.index) for r in ranges)  # 0.0 == -0.0, and their quotients differ
        name = self.known.get((text, ranges))
        if name is None:
            name = self.known[text, ranges] = fresh(f"{s.target}_term", {t.name for t in self.tensors})
            self.tensors.append(pr.Tensor(name, e.dtype, tuple(r.extent for r in ranges), tuple(r.lower for r in ranges)))
            label, own = fresh(f"{s.name}_term", self.names), {r.index for r in ranges}
            self.names.add(label)
            value = pr.map_expr(e, lambda x: hoisted(self.program, s, x, ranges, own) if isinstance(x, pr.Read) else x)
            self.made.append(pr.Statement(label, name, indices, None, value, ranges))
        return pr.Read(name, indices, e.dtype)
