"""Producers: the statement that makes a temporary, which can be made to compute parts of it where they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.program import program as pr
from polytc.program.affine import affine, interval
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import may_be_less
from polytc.schedule.user.changes import elements


@dataclass(frozen=True)
class Producer:
    """update: the assignment or update; first: its initialisation, of an update; cell: the index and the number in each of its
    subscripts."""

    update: pr.Statement
    first: pr.Statement | None
    cell: tuple[tuple[str, int], ...]

    @property
    def left(self) -> tuple[pr.Range, ...]:
        """The ranges of indices that elements do not tell."""
        told = {i for i, _ in self.cell}
        return tuple(r for r in self.update.ranges if r.index not in told)


def of(program: pr.Program, tensor: str, reader: pr.Statement) -> Producer:
    """What makes a tensor, so that a reader may compute it again. Raises E708 where nothing does so alone, element by element,
    or what it is made of changes before the reader runs."""
    writers = [x for x in program.statements if x.target == tensor]
    updates = [x for x in writers if x.op is not None or len(writers) == 1]
    if len(updates) != 1:
        raise _refused(tensor, f"is made by {', '.join(x.name for x in writers) or 'nothing'}", "name what one statement makes")
    s = elements.plain(program, updates[0].name, "recomputation")
    first = elements.initialisation(program, s) if s.op is not None else None
    cell = elements.cell(s)
    if cell is None or (s.op is None and {i for i, _ in cell if i} != set(s.indices)) \
            or writers != [x for x in (first, s) if x is not None]:
        raise _refused(tensor, f"is not made element by element by {s.name}", "name what one statement makes as a whole")
    at, last = program.statements.index(s), program.statements.index(reader)
    if last < at or reader.loops:
        raise _refused(tensor, f"is not made before all that {reader.name} runs", "fuse the loops instead")
    operands = {r.tensor for r in pr.reads(s)}
    writer = next((x.name for x in program.statements[at + 1:last + 1] if x.target in operands), None)
    if writer is not None:
        raise _refused(tensor, f"would be computed after {writer} has changed what it is made of", "leave it where it is")
    return Producer(s, first, cell)


def without(program: pr.Program, made: Producer) -> pr.Program:
    """The program without a producer, if nothing reads what it makes any more."""
    tensor = made.update.target
    if tensor not in program.temporaries or any(r.tensor == tensor for x in program.statements for r in pr.reads(x)):
        return program
    return replace(program, tensors=tuple(t for t in program.tensors if t.name != tensor),
                   statements=tuple(x for x in program.statements if x.target != tensor))


def within(e: pr.Expr, lower: int, upper: int, box: pr.Box) -> list[pr.Expr]:
    """The conditions that an integer lies between two, the second excluded; none that holds anyway. box: of its indices."""
    form = affine(e)
    low, high = interval(form, box) if form is not None else (lower - 1, upper)
    return [*([pr.Binary(">=", e, pr.Const(lower, I64), BOOL)] if may_be_less(low, lower) else []),
            *([pr.Binary("<", e, pr.Const(upper, I64), BOOL)] if may_be_less(upper - 1, high) else [])]


def _refused(tensor: str, why: str, cure: str) -> errors.CompileError:
    return errors.fail("E708", f"{tensor} {why}: it is not computed where it is read", notes=[cure])
