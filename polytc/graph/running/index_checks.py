"""Indices of a model's nodes, looked at in a run: for each input that holds some, a call finds the first that is outside.

    Y = Gather(X, I)    ->    first, index = Outside(I);  Y = Gather(X, I)

What it found is read when the run is over. A row says which inputs hold indices (`Site.within`); in a user's own text they are
found as in any program (rewrite/index_checks.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from polytc.codegen.target import Bound
from polytc.errors import Diagnostic, IndexOutOfBounds, register
from polytc.graph.plan import NONE, IndexCheck, Plan
from polytc.runtime.call_chains import Chain

if TYPE_CHECKING:
    from polytc.graph.running.instance import Link

register(E418="index outside of its tensor")


def checked_chain(plan: Plan, steps: Sequence[Bound], links: Sequence[Link], buffers: Mapping[str, np.ndarray]) -> Chain:
    """The steps as one call, which raises if an index was outside."""
    if not plan.index_checks:
        return Chain(steps)
    checked = {*plan.checked_values}
    for step, link in zip(steps, links, strict=True):
        for position, value in enumerate(link.values):
            if value in checked:  # moved, so that its contents come back from a device
                step.move(position, buffers[value])
    return CheckedChain(steps, [(w, buffers[w.first], buffers[w.index] if w.index else None) for w in plan.index_checks])


class CheckedChain(Chain):
    """A chain that raises IndexOutOfBounds E418 when it has run, if an index was outside."""

    def __init__(self, steps: Sequence[Bound], checks: Sequence[tuple[IndexCheck, np.ndarray, np.ndarray | None]]) -> None:
        super().__init__(steps)
        self._checks = tuple(checks)

    def __call__(self) -> None:
        for _, first, _ in self._checks:  # a branch that is not taken finds nothing
            first.fill(NONE)
        try:
            super().__call__()
        except IndexError:  # the evaluator stops at it
            self._judge()
            raise
        self._judge()

    def _judge(self) -> None:
        for check, first, index in self._checks:
            if first.min() != NONE:
                raise _outside(check, first.reshape(-1), index)


def _outside(w: IndexCheck, first: np.ndarray, index: np.ndarray | None) -> IndexOutOfBounds:
    row = int(np.flatnonzero(first != NONE)[0])
    number = row * w.width + int(first[row])
    point = [low + int(k) for (low, _), k in zip(w.ranges, np.unravel_index(number, [e for _, e in w.ranges]), strict=True)]
    value = f" = {int(index.item())}" if index is not None else ""
    at = "" if w.names or not point else f"[{', '.join(map(str, point))}]"
    notes = [f"at {', '.join(f'{n}={k}' for n, k in zip(w.names, point))}"] if w.names else []
    return IndexOutOfBounds([Diagnostic(
        "E418", f"{w.label}: {w.subject}{at}{value} is no index of {w.allowed[number % len(w.allowed)]}", None,
        (*notes, "without checked=True such an index reads some other element, or writes none"))])
