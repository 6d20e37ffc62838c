"""Words for a matrix unit lie in memory as it loads them: tile after tile, in the order in which the sums go through them.

    C[i,j] += f32(A[i,k])*f32(B[k,j])                   with bf16 A[64,64], bf16 B[64,64] on amx
    ->  A_words[x0 // 32, x1 // 16, x0 % 32, x1 % 16] = word(...)
        B_words[x1 // 32, x0 // 16, x0 % 16, x1 % 32] = word(...)
        C[i,j] += dot_bf16(A_words[i // 32, k_tile, i % 32, k],
            B_words[j // 32, k_tile, k, j % 32]) where k_tile in 0:2, k in 0:16

Rows of a tile at the distance of rows of a matrix would fall into few sets of the first cache, and into a page each. The words
are temporaries (rewrite.word_tensors), so that another layout costs nothing: what makes them writes them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.calls.words import DOTS
from polytc.program.names import fresh
from polytc.program.scalars import I64
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.rewrite.word_tensors import dimension, named, sides
from polytc.schedule.cost.register_tiles import MATRIX, height, strips
from polytc.schedule.facts.fusion_groups import coincident_indices, reduced_indices


@dataclass(frozen=True)
class Tiles:
    """The words of a statement lie in tiles along the index `along`, those of one operand in blocks of `high` values of the
    index `rows`, those of the other in blocks of `wide` of `columns`; 0 for an operand that has no blocks: the words of its
    rows are neighbours all the same, those of its columns keep their order."""

    statement: str
    along: str
    rows: str
    high: int
    columns: str
    wide: int


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The dot products of words that a matrix unit does."""
    chosen, why = list[Tiles](), Reasons()
    for s in program.statements:
        tiles = _tiles(program, s, machine)
        if tiles is not None:
            chosen.append(tiles)
            why.acts(s.name, f"words in tiles of {MATRIX} along {tiles.along}" + "".join(
                f", blocks of {n} along {i}" for i, n in ((tiles.rows, tiles.high), (tiles.columns, tiles.wide)) if n))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def lay_out(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen words in tiles."""
    for tiles in decision.choices:
        program = _applied(program, tiles)
    return program


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each sum of dot products that a matrix unit does, words in tiles or in the order of their tensors."""
    found = (_tiles(program, s, machine) for s in program.statements)
    return [[Option(), Option((t,))] for t in found if t is not None]


def fits(program: pr.Program, machine: Machine, tiles: Tiles) -> str:
    """Why words cannot lie so; '' if they can."""
    s = program.statement(tiles.statement)
    possible = _tiles(program, s, machine)
    if possible is None:
        return f"{s.name} is no sum of dot products of words that a matrix unit does"
    for name in ("along", "rows", "columns"):
        if getattr(tiles, name) != getattr(possible, name):
            return f"{name} is {getattr(possible, name)!r}"
    high, wide = 2 * MATRIX if possible.high else 0, s.extents[tiles.columns] + MATRIX if possible.wide else 0
    whole = 0 <= tiles.high <= high and 0 <= tiles.wide < max(wide, 1) and tiles.wide % MATRIX == 0
    return "" if whole else f"high is {high} at most, and wide a multiple of {MATRIX} below {wide}, or 0"


# ---- what is possible

def _tiles(program: pr.Program, s: pr.Statement, machine: Machine) -> Tiles | None:
    """How the words of a statement should lie; None if it is nothing for a matrix unit."""
    found = _operands(program, s, machine)
    if found is None:
        return None
    index, a, b = found
    of = sides(program, s, a, b, [i for i in coincident_indices(s) if s.box[i][0] == 0])
    if of is None:
        return None
    high = height(s.extents[of.rows])
    wide = min(strips(high), -(-s.extents[of.columns] // MATRIX)) * MATRIX
    return Tiles(s.name, index, of.rows, high if _blocked(program, of.row, of.rows) else 0,
                 of.columns, wide if _blocked(program, of.column, of.columns) else 0)


def _blocked(program: pr.Program, read: pr.Read, index: str) -> bool:
    """May the words of an operand lie in blocks along an index?"""
    d = dimension(read, index)
    return d >= 0 and program.tensor(read.tensor).lower[d] == 0


def _operands(program: pr.Program, s: pr.Statement, machine: Machine) -> tuple[str, pr.Read, pr.Read] | None:
    """The index of the words, and a read of each operand, of a sum of dot products for a matrix unit of words that may lie in
    tiles."""
    if not isinstance(s.value, pr.Call) or not machine.multiplies_tiles(s.value.fn) or s.op != "+" or s.where or s.bounds:
        return None
    reads = [a for a in s.value.args if isinstance(a, pr.Read)]
    if len(reads) < DOTS[s.value.fn].operands:
        return None
    along = [i for i in reduced_indices(s) if s.extents[i] % MATRIX == 0 and s.box[i][0] == 0
             and all(_blocked(program, r, i) for r in reads)]
    if not along or not all(_movable(program, r, dimension(r, along[-1])) for r in reads):
        return None
    return along[-1], reads[0], reads[-1]


def _movable(program: pr.Program, read: pr.Read, words: int) -> bool:
    """Are the words a temporary that others assign, and whose readers go through all words of a row? words: their dimension."""
    users = [(x, r) for x in program.statements for r in pr.reads(x) if r.tensor == read.tensor]
    return read.tensor not in (*program.inputs, *program.outputs) \
        and all(x.op is None for x in program.statements if x.target == read.tensor) \
        and all(_through(program, x, r, words) for x, r in users)


def _through(program: pr.Program, x: pr.Statement, read: pr.Read, words: int) -> bool:
    """Does a statement go through all words of a row with one index, by itself?"""
    sub = read.subscripts[words]
    return isinstance(sub, pr.Index) and not x.where and not x.bounds and dimension(read, sub.name) == words \
        and x.box[sub.name][0] == 0 and x.extents[sub.name] == program.tensor(read.tensor).shape[words]


# ---- the other layout

def _applied(program: pr.Program, t: Tiles) -> pr.Program:
    """The program with the words of a statement in tiles."""
    s, layouts = program.statement(t.statement), dict[str, _Layout]()
    for read in pr.reads(s):
        layouts[read.tensor] = _layout(program, s, read, t)
    tensors = tuple(layouts[x.name].tensor(x) if x.name in layouts else x for x in program.tensors)
    return replace(program, tensors=tensors, statements=tuple(_moved(x, layouts) for x in program.statements))


def _moved(x: pr.Statement, layouts: Mapping[str, _Layout]) -> pr.Statement:
    """A statement that assigns or reads the words where they lie now; where it reads them, a loop over tiles and one over the
    words of a tile go through what one went through."""
    reads = [r for r in dict.fromkeys(pr.reads(x)) if r.tensor in layouts]
    taken, ranges = set(x.indices), x.ranges
    split = dict[pr.Expr, pr.Expr]()
    for index in dict.fromkeys(e.name for r in reads if isinstance(e := r.subscripts[layouts[r.tensor].words], pr.Index)):
        outer = fresh(f"{index}_tile", taken)
        taken.add(outer)
        split |= {_over(pr.Index(index), MATRIX): pr.Index(outer), _within(pr.Index(index), MATRIX): pr.Index(index)}
        kept = tuple(r for r in ranges if r.index != index)
        ranges = (*kept, pr.Range(outer, 0, x.extents[index] // MATRIX), pr.Range(index, 0, MATRIX))
    for r in reads:
        at = tuple(split.get(sub, sub) for sub in layouts[r.tensor].of(r.subscripts))
        x = pr.replaced(x, r, replace(r, subscripts=at))
    target = layouts[x.target].of(x.subscripts) if x.target in layouts else x.subscripts
    return replace(x, ranges=ranges, subscripts=target)


@dataclass(frozen=True)
class _Layout:
    """The dimensions of a tensor in tiles: the number of one of its own, how many of its coordinates make a block, and whether
    it counts blocks ('//') or what is in them ('%'); '' for all coordinates. words: the number of the one along which words
    run."""

    dimensions: tuple[tuple[int, int, str], ...]
    words: int

    def of(self, subscripts: tuple[pr.Expr, ...]) -> tuple[pr.Expr, ...]:
        """Where an element lies."""
        return tuple(_over(subscripts[d], size) if half == "//" else _within(subscripts[d], size) if half == "%"
                     else subscripts[d] for d, size, half in self.dimensions)

    def tensor(self, t: pr.Tensor) -> pr.Tensor:
        """The tensor itself, in this order."""
        shape = tuple(-(-t.shape[d] // size) if half == "//" else size if half == "%" else t.shape[d]
                      for d, size, half in self.dimensions)
        return replace(t, shape=shape, lower=tuple(0 if half else t.lower[d] for d, _, half in self.dimensions))


def _layout(program: pr.Program, s: pr.Statement, read: pr.Read, t: Tiles) -> _Layout:
    """Blocks, then what the sum goes through, tile by tile; in a tile the words of a row or a column are neighbours."""
    words, of_rows = dimension(read, t.along), t.rows in named(read)
    size = t.high if of_rows else t.wide
    block = dimension(read, t.rows if of_rows else t.columns) if size else -1
    order = range(len(read.subscripts))
    if block < 0 and not of_rows:
        split = [[(d, MATRIX, "//"), (d, MATRIX, "%")] if d == words else [(d, 1, "")] for d in order]
        return _Layout(tuple(x for dimensions in split for x in dimensions), words)
    reduced, whole = set(reduced_indices(s)), [d for d in order if d not in (words, block)]
    summed = [d for d in whole if reduced & set(pr.index_names(read.subscripts[d]))]
    outside = [d for d in whole if d not in summed]
    inside = [(words, MATRIX, "%")]
    if block >= 0:
        inside = [(block, size, "%"), *inside] if of_rows else [*inside, (block, size, "%")]
    return _Layout((*((d, 1, "") for d in outside), *((block, size, "//") for _ in range(block >= 0)),
                    *((d, 1, "") for d in summed), (words, MATRIX, "//"), *inside), words)


def _over(sub: pr.Expr, size: int) -> pr.Expr:
    if isinstance(sub, pr.Const):
        return pr.Const(int(sub.value) // size, I64)
    return pr.Binary("//", sub, pr.Const(size, I64), I64)


def _within(sub: pr.Expr, size: int) -> pr.Expr:
    if isinstance(sub, pr.Const):
        return pr.Const(int(sub.value) % size, I64)
    return pr.Binary("%", sub, pr.Const(size, I64), I64)
