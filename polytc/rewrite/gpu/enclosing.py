"""What is around a group of statements whose items a rewrite divides: other statements, and `for` loops."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.program import program as pr
from polytc.schedule.facts.fusion_groups import Group


@dataclass(frozen=True)
class Enclosing:
    """ranges: of the `for` loops around, outermost first; statements: all others of the program."""

    ranges: tuple[pr.Range, ...] = ()
    statements: tuple[pr.Statement, ...] = ()

    def uses(self, program: pr.Program, group: Group, tensor: str) -> bool:
        """Does anything but the group use a tensor, or the group in a later iteration of the loops around? program: that of the
        group, without what else is around."""
        inside = {s.name for s in group.statements}
        others = (s for s in (*program.statements, *self.statements) if s.name not in inside)
        return tensor in program.arrays or any(_touches(s, tensor) for s in others) or self._lasts(group, tensor)

    def is_own(self, program: pr.Program, group: Group, tensor: str) -> bool:
        """Does the group alone write a tensor, of which nobody reads then what its statements leave out?"""
        inside = {s.name for s in group.statements}
        others = (s for s in (*program.statements, *self.statements) if s.name not in inside)
        return tensor not in program.arrays and all(s.target != tensor for s in others) and not self._lasts(group, tensor)

    def _lasts(self, group: Group, tensor: str) -> bool:
        """May the group read what an earlier iteration of the loops around wrote? It does not if it begins with setting all
        that it uses of the tensor."""
        first = next((s for s in group.statements if _touches(s, tensor)), None)
        if not self.ranges or first is None:
            return False
        return first.target != tensor or first.op is not None or bool(first.where) or any(
            r.tensor == tensor for r in pr.reads(first))


def _touches(s: pr.Statement, tensor: str) -> bool:
    return tensor in (s.target, *(r.tensor for r in pr.reads(s)))
