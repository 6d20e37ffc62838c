"""Code whose additional outputs tell of indices outside of their tensors: a run that met one raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polytc import errors
from polytc.codegen.target import Bound, Executable, Held
from polytc.errors import Diagnostic, IndexOutOfBounds
from polytc.lang import evaluator
from polytc.lang import program as pr
from polytc.lang.program import Program
from polytc.lang.rewrites.checked import NONE, Check
from polytc.lang.scalars import I64

errors.register(E418="index outside of its tensor")


@dataclass(frozen=True)
class Checked:
    """An Executable for the arrays of the program before `check_indices` added its outputs. Several threads may run it."""

    executable: Executable
    program: Program
    checks: tuple[Check, ...]

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on the arrays. Raises IndexOutOfBounds E418, when all results are written, if an index left its tensor."""
        found = [np.empty(c.output.shape, np.int64) for c in self.checks]
        self.executable.run([*buffers, *found])
        for check, numbers in zip(self.checks, found, strict=True):
            rows = np.flatnonzero(numbers != NONE)
            if len(rows):
                number = int(rows[0]) * check.width + int(numbers.flat[rows[0]])
                raise self._outside(check, check.point(number), dict(zip(self.program.arrays, buffers, strict=False)))

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """`run` on these arrays as a function."""
        return Held(self.run, buffers)

    def _outside(self, c: Check, point: dict[str, int], arrays: Mapping[str, np.ndarray]) -> IndexOutOfBounds:
        low, extent = c.tensor.lower[c.axis], c.tensor.shape[c.axis]
        at = ", ".join(f"{i}={v}" for i, v in point.items()) or "its only instance"
        value = self._value(c.subscript, point, arrays)
        known = f" = {value}" if value is not None else ""
        inside = f"{low}:{low + extent}" if low else f"0:{extent}"
        without = "such an instance writes nothing" if c.write else "the nearest element is read"
        return IndexOutOfBounds([Diagnostic(
            "E418", f"{_at(c.subscript, point)}{known} is no index of dimension {c.axis} of {c.tensor.name}, {inside}",
            c.statement.span, (f"at {at}, the first such instance of {pr.format_statement(c.statement)}",
                               f"without checked=True {without}"))])

    def _value(self, e: pr.Expr, point: Mapping[str, int], arrays: Mapping[str, np.ndarray]) -> int | None:
        """The index itself, if it follows from arrays that the run leaves as they are."""
        fixed = {n: a.reshape(self.program.tensor(n).shape) for n, a in arrays.items()
                 if n in self.program.inputs and n not in self.program.outputs}
        if any(isinstance(x, pr.Read) and x.tensor not in fixed for x in pr.walk(e)):
            return None
        grid = {i: np.asarray(v) for i, v in point.items()}
        lower = {n: self.program.tensor(n).lower for n in fixed}
        try:
            return int(evaluator.compute(e, grid, fixed, lower))
        except IndexError:  # an index inside of it is outside, too
            return None


def _at(e: pr.Expr, point: Mapping[str, int]) -> str:
    """A subscript with numbers for its indices: 'I[3]'."""
    e = e.a if isinstance(e, pr.Cast) else e
    return pr.format_expr(pr.substitute(e, {i: pr.Const(v, I64) for i, v in point.items()}))
