"""Long sums of floats are made in blocks, whose sums are put together pairwise.

    S[i] += x[i,k]                                      with x[8,64000] on avx512
    ->  S_sums[i,k_block] += x[i, k_at + 1000*k_block] where k_block in 0:64, k_at in 0:1000
        S_sums2[i,k_block_above] = S_sums[i, 16*k_block_above] + S_sums[i, 16*k_block_above + 1] + (...)
        S[i] += S_sums2[i,0] + S_sums2[i,1] + (S_sums2[i,2] + S_sums2[i,3])

so that no accumulator adds up more than LIMIT terms one after another: of n terms the rounding error is at most about
(LIMIT + log2 n) u sum|x|, not n u sum|x|. The blocks follow from the extents and the machine's vectors, never from the number
of threads, which share them. Shorter sums stay as they are. (Higham, The Accuracy of Floating Point Summation, SIAM J. Sci.
Comput. 14, 1993; Castaldo, Whaley & Chronopoulos, Reducing Floating Point Error in Dot Product Using the Superblock Family of
Algorithms, SIAM J. Sci. Comput. 31, 2008.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.affine import Affine
from polytc.program.calls.words import DOTS
from polytc.program.generalise import numeric
from polytc.program.linear import collected, expression, normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import Size, rest_start
from polytc.rewrite.gpu.work_group_reductions import combine_as_tree
from polytc.rewrite.step import Decision, Reasons
from polytc.schedule.facts.fusion_groups import coincident_indices, conditions_on, is_contraction
from polytc.schedule.facts.strides import of_statement

LIMIT = 4096
"""Terms that one accumulator adds up in order at most."""
BLOCK = 256
"""Terms of a block of a plain sum at most, where vectors run along its results: such blocks cost nothing, and fewer terms lose
less."""
NARROW = 8192
"""Instances of a block of a plain sum at least, where its results are fewer: a loop has a beginning and an end."""
STEP = 16
"""Blocks of contractions have a multiple of this many terms where they can: whole steps of unrolled loops."""
BRANCHES = 16
"""Partial sums that one statement puts together at most."""
LEVELS = 2
"""Statements that put partial sums together, BRANCHES at a time, where open sizes decide how many there are; what is left is a
sum in order, of more than LIMIT terms from LIMIT**2 * 256 on."""



@dataclass(frozen=True)
class Cut:
    """How a sum is cut. whole: reduced indices of which each value has blocks of its own; index: the one that is cut; blocks:
    how many each has; length: values of the index in a block."""

    whole: tuple[str, ...]
    index: str
    blocks: int
    length: int


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The statements whose sums are too long; the choices are their names."""
    chosen, why, typical = list[str](), Reasons(), numeric(program)
    for s in typical.statements:
        found = cut(typical, s)
        if found is not None:
            chosen.append(s.name)
            count = prod(terms(s, summed(typical, s)))
            why.acts(s.name, f"{count} terms one after another: blocks of {found.length} along {found.index}")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def split_sums(program: pr.Program, chosen: frozenset[str] | None = None) -> pr.Program:
    """The program without long sums of floats; a precise one, whose sums keep the order of the text, as it is. Of open sizes
    the typical ones decide, and `conditions` says for which others that holds.

    chosen: the statements to look at, where a strategy divides the sums of others among many accumulators; None: all.
    """
    if program.precise:
        return program
    tensors, statements, names = list(program.tensors), list[pr.Statement](), Names.of(program)
    left = [*reversed(program.statements)]
    while left:
        s = left.pop()
        alone = replace(program, tensors=tuple(tensors), statements=(s,))
        typical = numeric(alone)
        found = cut(typical, typical.statements[0]) if chosen is None or s.name in chosen else None
        if found is None:
            statements.append(s)
            continue
        split = _Split(alone, s, found, names)
        statements += split.partial()
        left += [*reversed(split.combined()), *split.rest()]
        tensors += split.tensors
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def cut(program: pr.Program, s: pr.Statement) -> Cut | None:
    """How a statement's sums are cut; None if they are short, no sums of floats, or made where memory says. Of contractions the
    longest index is cut, of plain sums one that leaves neighbours in memory together."""
    reduced = summed(program, s)
    if prod(terms(s, reduced)) <= LIMIT:
        return None
    most, step = min(LIMIT, max(BLOCK, NARROW // _width(s))), 1
    if is_contraction(s):
        most, step = LIMIT, STEP
        reduced = tuple(sorted(reduced, key=lambda r: -r.extent))
    inner = [prod(terms(s, reduced[k + 1:])) for k in range(len(reduced))]
    at = next(k for k, count in enumerate(inner) if count <= most)
    blocks, length = _blocks(reduced[at].extent, most // inner[at], step)
    return Cut(tuple(r.index for r in reduced[:at]), reduced[at].index, blocks, length)


def summed(program: pr.Program, s: pr.Statement) -> tuple[pr.Range, ...]:
    """The ranges of a sum of floats that make one accumulator's terms, outermost first; none of other statements."""
    by_memory = any(isinstance(e, pr.Read) for b in s.bounds for end in (b.lower, b.upper) for e in pr.walk(end))
    if s.op != "+" or by_memory or pr.scatters(s) or not program.tensor(s.target).dtype.is_float:
        return ()
    kept = _kept(s)
    own = any(r.tensor == s.target for r in pr.reads(s))
    return () if own else tuple(r for r in s.ranges[s.depth:] if r.index not in kept)


def terms(s: pr.Statement, over: Sequence[pr.Range]) -> tuple[int, ...]:
    """Numbers whose product is how many terms a statement adds up over some indices. A dot product of words
    (rewrite.dot_words) adds as many as a word has numbers."""
    dots = (DOTS[e.fn].group for e in pr.walk(s.value) if isinstance(e, pr.Call) and e.fn in DOTS)
    return (*(r.extent for r in over), *dots)


def long(program: pr.Program, staged: pr.Program) -> frozenset[str]:
    """The sums of a program that are long in what a strategy for GPUs has made of it, whose statements bear their names, or
    those of the partial sums that groups make (rewrite.gpu.split_reduction)."""
    typical = numeric(staged)
    found = [s.name for s in typical.statements if not program.precise and prod(terms(s, summed(typical, s))) > LIMIT]
    return frozenset(s.name for s in program.statements if any(n == s.name or n.startswith(f"{s.name}_parts") for n in found))


def conditions(program: pr.Program) -> list[tuple[int, ...]]:
    """Extents of open sizes, and others, whose products are the terms of the program's accumulators: LIMIT at most, or the sums
    are long for these sizes."""
    found = [terms(s, summed(program, s)) for s in program.statements if not program.precise]
    return [numbers for numbers in dict.fromkeys(found) if any(isinstance(n, Size) for n in numbers)]


def _kept(s: pr.Statement) -> tuple[str, ...]:
    """The indices that partial sums have as well: the coincident ones, and others that the target's subscripts name, as those
    of `O[2*i] += A[i,k]` and `O[i//2] += A[i,k]`, of which the last statement adds up what meets in one place."""
    inner = {r.index for r in s.ranges[s.depth:]}
    named = (e.name for sub in s.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index) and e.name in inner)
    return tuple(dict.fromkeys((*coincident_indices(s), *named)))


def _width(s: pr.Statement) -> int:
    """Values of the index along which a statement's results lie in memory."""
    return next((s.extents[i] for i in reversed(_kept(s))), 1)


def _blocks(extent: int, most: int, step: int) -> tuple[int, int]:
    """(blocks, values of each): at most `most` values, and a multiple of `step` where that can be; as many blocks as full trees
    have; and as few values as possible left when all blocks are taken off."""
    least = -(-extent // most)
    full = BRANCHES ** _levels(least)
    step = step if most >= 4 * step else 1
    counts = range(-(-least // full) * full, min(2 * least + full, BRANCHES * full + 1), full)
    found = [(count, extent // count // step * step) for count in counts]
    return min((x for x in found if x[1]), key=lambda x: (extent - x[0] * x[1], x[0]), default=(extent // most, most))


class _Split:
    """The statements that take the place of one, and the tensors of partial sums that they need."""

    def __init__(self, program: pr.Program, s: pr.Statement, by: Cut, names: Names) -> None:
        self.s, self.by, self.names = s, by, names
        self.dtype = program.tensor(s.target).dtype
        self.tensors: list[pr.Tensor] = []
        ranges = s.by_index
        self.around = s.ranges[:s.depth]
        self.kept = [ranges[i] for i in _kept(s)]
        self.cut = ranges[by.index]
        self.block = pr.Range(names.index(f"{by.index}_block"), 0, self._blocks())
        self.parts = [*(ranges[i] for i in by.whole), self.block]
        self.before = self._before(program)

    def _blocks(self) -> int:
        """Whole blocks; of sums with conditions, a last one that the end cuts off."""
        if self.s.where:
            return -(-self.cut.extent // self.by.length)
        return self.cut.extent // self.by.length if isinstance(self.cut.extent, Size) else self.by.blocks

    def _before(self, program: pr.Program) -> int:
        """How many of the kept indices stand before those of the parts, in the order of memory: none in contractions, whose
        blocks are done one after another, else all but one along which vectors run."""
        if is_contraction(self.s) or not self.kept:
            return 0
        accesses = of_statement(numeric(program), numeric(program).statements[0])
        return len(self.kept) - any(a.stride(self.kept[-1].index) == 1 for a in accesses[1:])

    def _over(self, parts: list[pr.Range]) -> list[pr.Range]:
        return [*self.kept[:self.before], *parts, *self.kept[self.before:]]

    def _tensor(self, parts: list[pr.Range]) -> str:
        """A new tensor of partial sums."""
        over = self._over(parts)
        name = self.names.label(f"{self.s.target}_sums")
        self.tensors.append(pr.Tensor(name, self.dtype, tuple(r.extent for r in over), tuple(r.lower for r in over)))
        return name

    def _cell(self, parts: list[pr.Range]) -> tuple[pr.Expr, ...]:
        return tuple(pr.Index(r.index) for r in self._over(parts))

    def _statement(self, label: str, target: str, parts: list[pr.Range], op: str | None, value: pr.Expr,
                   inner: list[pr.Range], where: tuple[pr.Expr, ...] = ()) -> pr.Statement:
        outside = {r.index for r in self.around}
        ranges = (*self.around, *(r for r in self._over(parts) if r.index not in outside), *inner)
        return pr.Statement(self.names.label(f"{self.s.name}_{label}"), target, self._cell(parts), op, value, ranges, where,
                            self.s.span, self.s.loops)

    def partial(self) -> list[pr.Statement]:
        """The sums of all blocks."""
        self.sums = self._tensor(self.parts)
        at = self.names.index(f"{self.by.index}_at")
        place = _place(self.by.length, self.block.index, at, self.cut.lower)
        value = normalise(pr.substitute(self.s.value, {self.by.index: place}))
        where = tuple(normalise(pr.substitute(c, {self.by.index: place})) for c in self.s.where)
        if where:
            where += (normalise(pr.Binary("<", place, pr.Const(self.cut.upper, I64), BOOL)),)
        done = {r.index for r in (*self.around, *self.kept, *self.parts)}
        inner = [pr.Range(at, 0, self.by.length) if r is self.cut else r for r in self.s.ranges if r.index not in done]
        zero = pr.Const(0.0, self.dtype)
        return [self._statement("sums_init", self.sums, self.parts, None, zero, []),
                self._statement("sums", self.sums, self.parts, "+", value, inner, where)]

    def rest(self) -> list[pr.Statement]:
        """What is left when all blocks are taken off, as a sum of its own."""
        whole = self.block.extent * self.by.length
        if self.s.where or (not isinstance(self.cut.extent, Size) and whole == self.cut.extent):
            return []
        rest = replace(self.cut, lower=rest_start(self.cut.lower + whole, self.cut.upper))
        ranges = tuple(rest if r is self.cut else r for r in self.s.ranges)
        return [replace(self.s, name=self.names.label(f"{self.s.name}_rest"), ranges=ranges)]

    def combined(self) -> list[pr.Statement]:
        """The sums of the blocks put together: a tree for each of the parts' indices, innermost first."""
        made, parts = list[pr.Statement](), self.parts
        for part in reversed(self.parts):
            for _ in range(LEVELS if isinstance(part.extent, Size) else _levels(part.extent)):
                above = pr.Range(self.names.index(f"{part.index}_above"), 0, -(-part.extent // BRANCHES))
                made.append(self._level(parts, part, (above,)))
                parts = [above if r is part else r for r in parts]
                part = above
            if not isinstance(part.extent, Size) and len(parts) > 1:
                made.append(self._level(parts, part, ()))
                parts = [r for r in parts if r is not part]
        last = next((r for r in parts if not isinstance(r.extent, Size)), None)
        value = self._tree(parts, last, None)
        kept = [r for r in self.kept if r not in self.around]
        made.append(replace(self.s, name=self.names.label(f"{self.s.name}_total"), value=value,
                            ranges=(*self.around, *kept, *(r for r in parts if r is not last)),
                            where=conditions_on(self.s, [r.index for r in (*self.around, *self.kept)])))
        return made

    def _level(self, parts: list[pr.Range], part: pr.Range, above: tuple[pr.Range, ...]) -> pr.Statement:
        """One level of the tree of an index. above: the index over what it leaves, if that is more than one."""
        value = self._tree(parts, part, above[0] if above else None)
        fewer = [r for x in parts for r in (above if x is part else (x,))]
        self.sums = self._tensor(fewer)
        return self._statement("pairs", self.sums, fewer, None, value, [])

    def _tree(self, parts: list[pr.Range], part: pr.Range | None, above: pr.Range | None) -> pr.Expr:
        """The partial sums along `part` that belong to one value of `above`, or all of them, together; with no part, one."""
        cell = self._cell(parts)
        if part is None:
            return pr.Read(self.sums, cell, self.dtype)
        ragged = above is not None and (isinstance(part.extent, Size) or part.extent % BRANCHES != 0)
        zero = pr.Const(0.0, self.dtype) if ragged else None
        terms = tuple(() if above is None else ((above.index, BRANCHES),))
        reads = []
        for n in range(BRANCHES if above is not None else part.extent):
            place = expression(Affine(part.lower + n, terms))
            at = tuple(place if e == pr.Index(part.index) else e for e in cell)
            reads.append(pr.Read(self.sums, at, self.dtype, zero))
        return combine_as_tree("+", reads, self.dtype)


def _levels(count: int) -> int:
    """Levels of a tree after which at most BRANCHES partial sums are left."""
    return 0 if count <= BRANCHES else 1 + _levels(-(-count // BRANCHES))


def _place(length: int, block: str, at: str, lower: int) -> pr.Expr:
    """Where a place in a block is."""
    return expression(collected(((block, length), (at, 1)), lower))
