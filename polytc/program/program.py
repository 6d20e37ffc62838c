"""Program: a checked tensor program with concrete sizes, the first value of the pipeline.

Semantics. Statements run in textual order; the instances of one statement are independent and run in any order, except that
instances of an update (`op=`) that meet in one element are combined in any order by an associative and commutative operator,
and that those of an assignment that reads its own target (a scan, see rewrite.tidy.scan) run in the order of the indices.
Statements inside `for` loops run once an iteration, the iterations one after another, outermost loop first; what is said above
holds for the instances of one iteration of all the loops around a statement.
Every read is in bounds or guarded, every element read has been written or is an input: `lang.soundness.check` has proved it.
Float reductions may be reassociated unless `precise`; integers wrap; min/max propagate NaN.

An update into a fresh tensor is two statements here: `C_init` writes the identity to the whole tensor, then the update
accumulates. Subscripts are quasi-affine integer expressions (`+ - *const //const %const` over indices), except that a
subscript may contain a `Read` of an integer tensor: on the right (a gather) its value is clamped into bounds by every
target; on the left (a scatter) an instance that would leave the tensor does not happen, and those of an assignment run in
the order of the indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from math import prod
from typing import TypeAlias

from polytc.errors import Span
from polytc.options import Licence, check_fast
from polytc.program.fetching import Ahead
from polytc.program.intrinsics import Call as IntrinsicCall
from polytc.program.scalars import BOOL, DType
from polytc.program.terms import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    Read,
    Select,
    Unary,
    children,
    factors,
    format_expr,
    index_names,
    levels,
    map_expr,
    rebuild,
    substitute,
    walk,
)
from polytc.program.traces.traced import whole

__all__ = ["Binary", "Call", "Cast", "Const", "Expr", "Index", "Read", "Select", "Unary",
           "children", "factors", "format_expr", "index_names", "levels", "map_expr", "rebuild", "substitute", "walk"]
"""What `program.terms` has and is used as `program.Read` everywhere."""


@dataclass(frozen=True)
class Tensor:
    """A named array. lower: its first coordinate in each dimension (`O[i] = I[i-1]` makes O start at 1); shape: its extents,
    so coordinate x of dimension d lies at lower[d] <= x < lower[d] + shape[d] and is stored row-major at x - lower[d]. title:
    the name in the text of what it holds, if that is another."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    lower: tuple[int, ...]
    title: str = field(default="", compare=False, repr=False)

    @property
    def size(self) -> int:
        """Elements, of open sizes for the representative ones."""
        return prod(map(whole, self.shape))


@dataclass(frozen=True)
class Range:
    """lower <= index < upper, e.g. Range('i', 0, 512): the bounding box of the domain in this index. kind: how its loop runs,
    where the rewrite that made the index knows ('block0', 'thread1', 'unroll', see program.kinds.KINDS); '' is open. down: the
    index of the text of which this one is the negative, of a `for` that counts down; else ''. typical: is the extent that of
    the representative sizes, and any in a run?"""

    index: str
    lower: int
    upper: int
    kind: str = ""
    down: str = field(default="", compare=False, repr=False)
    typical: bool = field(default=False, repr=False)

    @property
    def extent(self) -> int:
        return self.upper - self.lower

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and the largest value, both included."""
        return self.lower, self.upper - 1


Box: TypeAlias = Mapping[str, tuple[int, int]]
"""index -> (smallest, largest) value, both included."""


def box(ranges: Iterable[Range]) -> Box:
    """The values that each index takes."""
    return {r.index: r.ends for r in ranges}


def by_index(ranges: Iterable[Range]) -> dict[str, Range]:
    """The range of each index, in their order."""
    return {r.index: r for r in ranges}


@dataclass(frozen=True)
class Bound:
    """lower <= index < upper, with reads of integer tensors in lower and upper: `p in R[i]:R[i+1]`."""

    index: str
    lower: Expr
    upper: Expr


@dataclass(frozen=True)
class Statement:
    """`target[subscripts] = value` or `target[subscripts] op= value` for all points of the domain.

    name: unique in the program and an isl identifier, e.g. 'S1', 'S1_init'.
    op: None for '=', else a key of scalars.REDUCTIONS.
    ranges: the box of the domain; the indices of the loops, then the others in order of first appearance (left side first).
    where: affine conditions (bool expressions over indices) that narrow the box, e.g. j <= i, i % 2 == 0; usually none.
    span: the place in the source text, if it came from there.
    loops: labels of the `for` loops around it, outermost first, e.g. ('L1', 'L2'). Two statements are in one loop iff they have
        its label at the same depth; the statements of a loop are neighbours, and call its index by one name.
    bounds: ranges that memory decides; the box holds all values that such an index can have.
    atomic: each instance of an update of whole numbers reads and writes its element in one step, so that the items of a GPU may
        run instances that meet in one element at once.
    intrinsic: what its innermost loops become where a target has its text (schedule.user.changes.tensorization).
    ahead: what of its reads is fetched before (schedule.user.changes.prefetching).
    """

    name: str
    target: str
    subscripts: tuple[Expr, ...]
    op: str | None
    value: Expr
    ranges: tuple[Range, ...]
    where: tuple[Expr, ...] = ()
    span: Span | None = None
    loops: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    atomic: bool = False
    intrinsic: IntrinsicCall | None = None
    ahead: tuple[Ahead, ...] = ()

    @property
    def depth(self) -> int:
        """How many `for` loops are around the statement."""
        return len(self.loops)

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(r.index for r in self.ranges)

    @cached_property
    def by_index(self) -> Mapping[str, Range]:
        """The range of each index, in their order."""
        return by_index(self.ranges)

    @cached_property
    def extents(self) -> Mapping[str, int]:
        """How many values each index takes in the box."""
        return {r.index: r.extent for r in self.ranges}

    @cached_property
    def box(self) -> Box:
        """The values that each index takes."""
        return box(self.ranges)

    @property
    def downward(self) -> dict[str, str]:
        """Of indices of loops that count down: the index of the text whose negative each is."""
        return {r.index: r.down for r in self.ranges if r.down}

    @property
    def points(self) -> int:
        """Instances of the statement's box, of open sizes for the representative ones."""
        return prod(whole(r.extent) for r in self.ranges)

    @cached_property
    def _reads(self) -> tuple[Read, ...]:
        ends = (e for b in self.bounds for e in (b.lower, b.upper))
        found = [r for e in (self.value, *self.subscripts, *ends) for r in walk(e) if isinstance(r, Read)]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Program:
    """name: of the def, or 'program'. inputs: tensors that the caller gives, in signature order; outputs: tensors the caller
    gets, in order, some of which may be inputs that are written in place (`inout`); every other tensor is a temporary.
    precise: every float operation is rounded, and reductions keep their order; fast: any of them may be reassociated, and
    divisions be products with reciprocals (never both). constants: inputs whose contents do not change between the calls of a
    bound executable, such as weights; what follows from them alone is computed once. direct: the products are those that are
    written, no algorithm with fewer of them and larger rounding errors. checked: an index in memory that leaves its tensor is
    an error of the run. sizes: names of sizes that stay open: numbers may be formulas of them (program.sizes.Size) then.
    products: the last of the sizes, which rewrites added, each with the two extents of whose product it is the name. folded:
    temporaries whose storage may be a ring of the elements that are alive at once (poly.storage_folding). once: it
    runs once, when arrays are bound, so that short code is better than code that is a little faster. same: finds the
    sizes at which the text is this program, as a set of isl (poly.same_program), which takes a while; None where each call
    looks at the program of its sizes."""

    name: str
    tensors: tuple[Tensor, ...]
    statements: tuple[Statement, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    precise: bool = False
    constants: tuple[str, ...] = ()
    direct: bool = False
    checked: bool = False
    sizes: tuple[str, ...] = ()
    fast: bool = False
    once: bool = False
    same: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    products: tuple[tuple[str, tuple[int, int]], ...] = ()
    folded: tuple[str, ...] = ()

    def licensed(self, licence: Licence) -> Program:
        """The program with what its caller allows. Raises ArgumentError E410 if that is against what its text says."""
        check_fast(self.precise, licence)
        return replace(self, direct=self.direct or licence.direct, fast=self.fast or licence.fast)

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.tensors if t.name == name)

    def statement(self, name: str) -> Statement:
        return next(s for s in self.statements if s.name == name)

    @property
    def arrays(self) -> tuple[str, ...]:
        """The tensors that a call passes: inputs, then the outputs that are no inputs."""
        return tuple(dict.fromkeys((*self.inputs, *self.outputs)))

    @property
    def inouts(self) -> tuple[str, ...]:
        """The inputs that are written in place, in order of the outputs."""
        return tuple(n for n in self.outputs if n in self.inputs)

    @property
    def sequential(self) -> bool:
        """Are there `for` loops?"""
        return any(s.loops for s in self.statements)

    @property
    def dynamic(self) -> bool:
        """Does memory decide some range?"""
        return any(s.bounds for s in self.statements)

    @property
    def temporaries(self) -> tuple[str, ...]:
        outer = {*self.inputs, *self.outputs}
        return tuple(t.name for t in self.tensors if t.name not in outer)

    def __str__(self) -> str:
        from polytc.program.printing import format_program  # needs the rules of types, which need this module

        return format_program(self)


def reads(s: Statement) -> tuple[Read, ...]:
    """All reads of a statement, left side and bounds included; the read of an update's own target is not listed."""
    return s._reads


Nested: TypeAlias = "Statement | Loop"


@dataclass(frozen=True)
class Loop:
    """A `for` loop as a tree: body holds statements, and loops one level deeper."""

    label: str
    body: tuple[Nested, ...]

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """All statements inside, in order."""
        return tuple(s for x in self.body for s in (x.statements if isinstance(x, Loop) else (x,)))

    def range(self, depth: int) -> Range:
        """The loop's index, from the first to the last iteration that any statement takes part in. depth: loops around it."""
        found = [s.ranges[depth] for s in self.statements]
        return Range(found[0].index, min(r.lower for r in found), max(r.upper for r in found))


def nested(statements: tuple[Statement, ...], depth: int = 0) -> tuple[Nested, ...]:
    """Statements as the tree of their `for` loops. depth: loops around all of them that are not to be in the tree."""
    found: list[Nested] = []
    for label, run in groupby(statements, lambda s: s.loops[depth] if s.depth > depth else None):
        inside = tuple(run)
        found += inside if label is None else [Loop(label, nested(inside, depth + 1))]
    return tuple(found)


def replaced(s: Statement, old: Expr, new: Expr) -> Statement:
    """The statement with another expression in its value wherever `old` stands."""
    return replace(s, value=map_expr(s.value, lambda e: new if e == old else e))


def with_expressions(s: Statement, change: Callable[[Expr], Expr], ranges: tuple[Range, ...] | None = None) -> Statement:
    """The statement with its expressions changed: subscripts, value, conditions, ranges in memory. ranges: others, if given."""
    return replace(s, subscripts=tuple(map(change, s.subscripts)), value=change(s.value), where=tuple(map(change, s.where)),
                   bounds=tuple(replace(b, lower=change(b.lower), upper=change(b.upper)) for b in s.bounds),
                   ranges=s.ranges if ranges is None else ranges)


def stretches(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...] | Loop]:
    """The outermost `for` loops, and the neighbouring statements between them, together."""
    for label, run in groupby(statements, lambda s: s.loops[0] if s.loops else None):
        inside = tuple(run)
        yield inside if label is None else Loop(label, nested(inside, 1))


def common_loops(a: Statement, b: Statement) -> int:
    """How many `for` loops two statements share."""
    return next((d for d, (x, y) in enumerate(zip(a.loops, b.loops, strict=False)) if x != y), min(a.depth, b.depth))


def scatters(s: Statement) -> bool:
    """Does memory decide where the statement writes?"""
    return any(isinstance(n, Read) for e in s.subscripts for n in walk(e))


def overlaps(s: Statement) -> bool:
    """May instances of an assignment write one element, because memory decides where they write, or which there are?"""
    return s.op is None and (scatters(s) or bool(s.bounds))


def within(bounds: tuple[Bound, ...]) -> tuple[Expr, ...]:
    """The conditions that ranges decided by memory are."""
    return tuple(c for b in bounds for c in (Binary(">=", Index(b.index), b.lower, BOOL),
                                             Binary("<", Index(b.index), b.upper, BOOL)))


def conjunction(conditions: tuple[Expr, ...]) -> Expr:
    """All of `conditions`, as one expression; at least one."""
    result = conditions[0]
    for c in conditions[1:]:
        result = Binary("&&", result, c, BOOL)
    return result


# ---- printing

def format_statement(s: Statement, known: tuple[Range, ...] = ()) -> str:
    """A statement as a reader sees it (program.printing writes what parses). known: ranges of the loops around it, which are
    not repeated."""
    left = s.target + (f"[{', '.join(map(format_expr, s.subscripts))}]" if s.subscripts else "")
    op = "=" if s.op is None else f"{s.op}=" if len(s.op) == 1 else f" {s.op}="
    clauses = [f"{r.index} in {r.lower}:{r.upper}" for r in s.ranges if r not in known] + [
        f"{b.index} in {format_expr(b.lower)}:{format_expr(b.upper)}" for b in s.bounds] + [format_expr(c) for c in s.where]
    where = f"  where {', '.join(clauses)}" if clauses else ""
    mark = "  # atomic" if s.atomic else ""
    return f"{left}{op if op.startswith(' ') else ' ' + op} {format_expr(s.value)}{where}{mark}"
