"""Code whose additional outputs tell of indices outside of their tensors: a run that met one raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from polytc import errors
from polytc.codegen.target import Bound, BoundRun, Executable, FastPath, Types
from polytc.errors import Diagnostic, IndexOutOfBounds
from polytc.program import evaluator, type_promotion
from polytc.program import program as pr
from polytc.program.program import Program
from polytc.program.scalars import I64
from polytc.rewrite.index_checks import NONE, Check, locating

errors.register(E418="index outside of its tensor", E419="element that no index reached")


@dataclass(frozen=True)
class Checked:
    """An Executable for the arrays of the program before `check_indices` added its outputs. Several threads may run it.

    program: the one without them; compiled: a program as code, for the one that says which index it was."""

    executable: Executable
    program: Program
    checks: tuple[Check, ...]
    compiled: Callable[[Program], Executable]

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on the arrays. Raises IndexOutOfBounds E418, when all results are written, if an index left its tensor. The
        evaluator stops at it."""
        found = self._empty()
        try:
            self.executable.run([*buffers, *found])
        except IndexError as error:
            arrays = dict(zip(self.program.arrays, buffers, strict=False))
            read = list[tuple[Check, np.ndarray]]()
            with suppress(IndexError):  # the index of an index
                read += [(c, numbers) for c, numbers in self._located(arrays) if not c.write]
            self._raise_first(read, arrays)
            raise IndexOutOfBounds([Diagnostic("E418", str(error), None, ())]) from None
        self._judge(buffers, found)

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """`run` on these arrays as a function."""
        return BoundRun(self.run, buffers)

    def fast_path(self, inputs: Types, outputs: Types) -> Callable[..., bool] | None:
        """See `codegen.target.FastPath`; it raises as `run` does."""
        call = self.executable.fast_path(inputs, (*outputs, *self._own)) if isinstance(self.executable, FastPath) else None
        if call is None:
            return None

        def run(*arrays: Any) -> bool:
            found = self._empty()
            ran = call(*arrays, *found)
            if ran:
                self._judge(arrays, found)
            return ran
        return run

    @cached_property
    def _own(self) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shapes and types of the outputs that tell."""
        return [(c.output.shape, c.output.dtype.numpy) for c in self.checks]

    def _empty(self) -> list[np.ndarray]:
        return [np.empty(shape, dtype) for shape, dtype in self._own]

    def _judge(self, buffers: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> None:
        """Raises for the first subscript, in the order of the text, of which an output tells."""
        known, doubtful = list[tuple[Check, np.ndarray]](), False
        for check, output in zip(self.checks, found):  # each call comes here: it is short
            if check.limit is None:
                if np.minimum.reduce(output, axis=None) != NONE:
                    known.append((check, output))
            elif np.maximum.reduce(output, axis=None) >= check.limit:
                doubtful = True
        if not (known or doubtful):
            return
        arrays = dict(zip(self.program.arrays, buffers, strict=False))
        if doubtful:
            known += self._located(arrays)
        self._raise_first(known, arrays)

    def _raise_first(self, known: Sequence[tuple[Check, np.ndarray]], arrays: Mapping[str, np.ndarray]) -> None:
        for check, numbers in sorted(known, key=lambda pair: pair[0].place):
            rows = np.flatnonzero(numbers != NONE)
            if len(rows):
                number = int(rows[0]) * check.width + int(numbers.flat[rows[0]])
                if check.unwritten:
                    raise self._unwritten(check, check.point(number))
                raise self._outside(check, check.point(number), arrays)

    @cached_property
    def _locating(self) -> tuple[Executable, Program, tuple[Check, ...]]:
        program, checks = locating(self.program)
        return self.compiled(program), program, checks

    def _located(self, arrays: Mapping[str, np.ndarray]) -> list[tuple[Check, np.ndarray]]:
        """The numbers of the first instances outside."""
        executable, program, checks = self._locating
        numbers = [np.empty(c.output.shape, np.int64) for c in checks]
        executable.run([*(arrays[n] for n in program.inputs), *numbers])
        return list(zip(checks, numbers, strict=True))

    def _outside(self, c: Check, point: dict[str, int], arrays: Mapping[str, np.ndarray]) -> IndexOutOfBounds:
        low, extent = c.tensor.lower[c.axis], c.tensor.shape[c.axis]
        down = c.statement.downward
        titles = {t.name: t.title for t in self.program.tensors if t.title}
        tensor = c.tensor.title or c.tensor.name
        at = ", ".join(f"{down[i]}={-v}" if i in down else f"{i}={v}" for i, v in point.items()) or "its only instance"
        value = self._value(c.subscript, point, arrays)
        known = f" = {value}" if value is not None else ""
        inside = f"{low}:{low + extent}" if low else f"0:{extent}"
        without = "such an instance writes nothing" if c.write else "the nearest element is read"
        return IndexOutOfBounds([Diagnostic(
            "E418", f"{_at(c.subscript, point)}{known} is no index of dimension {c.axis} of {tensor}, {inside}",
            c.statement.span, (f"at {at}, the first such instance of {pr.format_statement(_written(c.statement, titles))}",
                               f"without checked=True {without}"))])

    def _unwritten(self, c: Check, point: dict[str, int]) -> IndexOutOfBounds:
        name = c.tensor.title or c.tensor.name
        element = f"{name}[{', '.join(map(str, point.values()))}]"
        return IndexOutOfBounds([Diagnostic(
            "E419", f"no index reached {element}", c.statement.span,
            ("it is the first that the scatters leave out: its value may be any number",
             f"where they need not reach all of `{name}`, write it before them: zeros, say"))])

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


def _written(s: pr.Statement, titles: Mapping[str, str]) -> pr.Statement:
    """The statement as its text has it: with the indices of loops that count down, and no guards but its own. titles: of
    tensors that the text calls otherwise."""
    down = s.downward

    def up(e: pr.Expr) -> pr.Expr:
        match e:
            case pr.Unary(op="-", a=pr.Unary(op="-", a=pr.Index() as x)):
                return x
            case pr.Read() if e.tensor in titles:
                return replace(e, tensor=titles[e.tensor])
        return e

    swapped: dict[str, pr.Expr] = {i: pr.Unary("-", pr.Index(name), I64) for i, name in down.items()}

    def own(e: pr.Expr) -> pr.Expr:
        return pr.map_expr(pr.substitute(_unguarded(e), swapped), up)

    return replace(s, target=titles.get(s.target, s.target), subscripts=tuple(map(own, s.subscripts)), value=own(s.value),
                   where=tuple(map(own, s.where)),
                   ranges=tuple(pr.Range(r.down, 1 - r.upper, 1 - r.lower) if r.down else r for r in s.ranges),
                   bounds=tuple(replace(b, lower=own(b.lower), upper=own(b.upper)) for b in s.bounds))


def _unguarded(e: pr.Expr) -> pr.Expr:
    """An expression without the guards that `where` brought."""
    return pr.map_expr(e, lambda x: replace(x, default=None) if isinstance(x, pr.Read) and x.shielded else x)


def _at(e: pr.Expr, point: Mapping[str, int]) -> str:
    """A subscript with numbers for its indices: 'I[3]'."""
    e = _unguarded(e.a if isinstance(e, pr.Cast) else e)
    return pr.format_expr(type_promotion.fold(pr.substitute(e, {i: pr.Const(v, I64) for i, v in point.items()})))
