"""What a program costs at its sizes: operations, bytes, arithmetic intensity. Counted, not measured."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.program import program as pr
from polytc.program.calls import matrix_rows
from polytc.program.cardinality import NOTHING, Count, instances
from polytc.program.scalars import COMPARISONS, INTRINSICS, LOGICAL


@dataclass(frozen=True)
class Work:
    """One statement. instances: points of its domain; arithmetic: additions, multiplications, divisions, minima ... of one
    instance; intrinsics: calls such as exp of one instance."""

    statement: str
    instances: Count
    arithmetic: int
    intrinsics: int

    @property
    def operations(self) -> Count:
        """Of all instances, an intrinsic counted as one."""
        return self.instances * (self.arithmetic + self.intrinsics)


@dataclass(frozen=True)
class Costs:
    """operations: of the whole program; compulsory: bytes of inputs and outputs, each moved once; temporaries: bytes of what
    the program makes for itself, if all of it went through memory."""

    work: tuple[Work, ...]
    compulsory: int
    temporaries: int

    @property
    def operations(self) -> Count:
        return sum((w.operations for w in self.work), NOTHING)

    @property
    def intensity(self) -> float:
        """Operations a compulsory byte."""
        return self.operations.value / max(1, self.compulsory)


def costs(program: pr.Program) -> Costs:
    """The costs of a program as it is written, or as a rewrite left it."""
    outer = dict.fromkeys((*program.inputs, *program.outputs))
    return Costs(tuple(_work(s) for s in program.statements), sum(_bytes(program.tensor(n)) for n in outer),
                 sum(_bytes(program.tensor(n)) for n in program.temporaries))


def _bytes(t: pr.Tensor) -> int:
    return t.size * t.dtype.bytes


def _work(s: pr.Statement) -> Work:
    arithmetic, intrinsics = _operations(s.value)
    return Work(s.name, instances(s), arithmetic + (s.op is not None), intrinsics)


def _operations(e: pr.Expr) -> tuple[int, int]:
    """(arithmetic operations, intrinsics) of an expression; subscripts, comparisons and choices are not counted."""
    if isinstance(e, pr.Read):
        return 0, 0
    below = [_operations(c) for c in pr.children(e)]
    arithmetic, intrinsics = sum(a for a, _ in below), sum(b for _, b in below)
    if isinstance(e, pr.Call) and matrix_rows.is_rows_call(e.fn):
        return arithmetic + round(matrix_rows.operations(e.fn)), intrinsics
    if isinstance(e, pr.Call):
        cheap = e.fn in ("min", "max", "abs") and e.fn in INTRINSICS
        return (arithmetic + 1, intrinsics) if cheap else (arithmetic, intrinsics + 1)
    counted = isinstance(e, pr.Unary | pr.Binary) and e.op not in COMPARISONS and e.op not in LOGICAL and e.op != "!"
    return arithmetic + counted, intrinsics
