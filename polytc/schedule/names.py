"""Names for what a rewrite adds to a program: none of them in use."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.lang import program as pr
from polytc.lang.rewrites.pad import fresh


@dataclass(frozen=True)
class Names:
    """taken: by tensors and statements; indices: by indices of any statement, whose loops are not to be taken for one. What is
    given out is in use then."""

    taken: set[str]
    indices: set[str]

    @staticmethod
    def of(program: pr.Program) -> Names:
        """Those that a program has."""
        return Names({t.name for t in program.tensors} | {s.name for s in program.statements},
                     {i for s in program.statements for i in s.indices})

    def index(self, base: str) -> str:
        """For an index."""
        found = fresh(base, self.indices)
        self.indices.add(found)
        return found

    def label(self, base: str) -> str:
        """For a tensor or a statement."""
        found = fresh(base, self.taken)
        self.taken.add(found)
        return found
