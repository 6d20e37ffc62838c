"""The changes that a saved schedule lists, by the word that each begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from polytc import errors
from polytc.program import program as pr
from polytc.schedule.user.changes.accumulators import Accumulator
from polytc.schedule.user.changes.copies import Copy
from polytc.schedule.user.changes.folding import Fold
from polytc.schedule.user.changes.inlining import Inline
from polytc.schedule.user.changes.partial_sums import PartialSums
from polytc.schedule.user.changes.peeling import Peel
from polytc.schedule.user.changes.prefetching import Prefetch
from polytc.schedule.user.changes.tensorization import Tensorize
from polytc.schedule.user.changes.windows import Window


class Change(Protocol):
    """It prints as the line of a saved schedule that lists it."""

    def apply(self, program: pr.Program) -> pr.Program:
        """The changed program. Raises E707 for a statement, tensor or index that there is not, E708 where it does not fit."""
        ...


CHANGES: Mapping[str, Callable[[str], Change | None]] = {
    "cache": Copy.read, "accumulate": Accumulator.read, "rfactor": PartialSums.read, "peel": Peel.read, "inline": Inline.read,
    "tensorize": Tensorize.read, "fold": Fold.read, "prefetch": Prefetch.read,
    "window": Window.read, "recompute": partial(Window.read, recompute=True)}
"""First word -> what reads the rest of the line; None for what is none."""


def read(text: str) -> Change:
    """The change that prints so. Raises E702."""
    word, _, rest = text.partition(" ")
    found = CHANGES[word](rest) if word in CHANGES else None
    if found is None:
        raise errors.fail("E702", f"this is no change of a program in a schedule: {text!r}", notes=[
            f"one begins with {', '.join(CHANGES)}",
            '"cache S1 A 0,1" names a statement, a tensor, and the order of its dimensions'])
    return found


def applied(program: pr.Program, wanted: Iterable[Change]) -> pr.Program:
    """The program with the changes, made one after another. Raises E707, E708."""
    for c in wanted:
        program = c.apply(program)
    return program
