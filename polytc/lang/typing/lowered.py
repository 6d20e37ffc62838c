"""What lowering gets and gives: the meaning of names, and statements with typed expressions whose ranges are not known yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polytc.errors import Span
from polytc.lang.parsing import syntax as sx
from polytc.program import program as pr
from polytc.program.scalars import DType
from polytc.program.type_promotion import Value

INSIDE = "inside"
"""A call of this name, of a guarded read: is it in bounds? Bounds are known later; no Program has it."""


@dataclass(frozen=True)
class Scope:
    """What names mean. numbers: sizes, scalars and attributes; ranks: of every tensor; shapes: of the inputs; dtypes: those
    known so far; functions: names of the definitions in the text; broken: tensors whose writers have been refused; typed: types
    of the scalars that are declared with a float type."""

    numbers: Mapping[str, complex]
    ranks: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, DType]
    functions: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    typed: Mapping[str, DType] = field(default_factory=dict)


@dataclass(frozen=True)
class Bound:
    """`index in lower:upper:step`, as written; expressions over other indices."""

    index: str
    lower: pr.Expr
    upper: pr.Expr
    step: int
    span: Span


@dataclass(frozen=True)
class Lowered:
    """A statement with typed expressions, before its ranges are known.

    indices: of the `for` loops, then those of the left side, then the others, in order of appearance, or as a label lists
    them; left: those that are of loops or occur on the left.
    skipped: reads `else identity` inside a larger value; also: what else the instances of a tuple reduction compute, so that
    its ranges suit all of it; spans: the place of every read. limits: ranges that memory decides; masks: conditions with reads.
    """

    name: str
    source: sx.Statement
    target: str
    subscripts: tuple[pr.Expr, ...]
    value: Value
    bounds: tuple[Bound, ...]
    conditions: tuple[tuple[pr.Expr, Span], ...]
    indices: tuple[str, ...]
    left: frozenset[str]
    skipped: tuple[pr.Read, ...]
    also: tuple[pr.Expr, ...] = ()
    limits: tuple[pr.Bound, ...] = ()
    masks: tuple[pr.Expr, ...] = ()
    spans: Mapping[pr.Read, Span] = field(default_factory=dict, compare=False)

    @property
    def loops(self) -> tuple[str, ...]:
        """Labels of the loops around it."""
        return tuple(x.label for x in self.source.loops)

    @property
    def op(self) -> str | None:
        return self.source.op

    @property
    def expressions(self) -> tuple[pr.Expr, ...]:
        """All that the instances compute: every read of the statement is in one of these."""
        ends = (e for b in self.limits for e in (b.lower, b.upper))
        return (self.value.expr, *self.subscripts, *self.also, *self.masks, *ends)

    @property
    def subscripted(self) -> frozenset[str]:
        """The indices that occur in a subscript."""
        dims = [*self.subscripts, *(d for n in pr.walk(self.value.expr) if isinstance(n, pr.Read) for d in n.subscripts)]
        return frozenset(n.name for d in dims for n in pr.walk(d) if isinstance(n, pr.Index))

    def span(self, read: pr.Read) -> Span:
        return self.spans.get(read, self.source.span)
