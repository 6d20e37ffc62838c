"""Folding: the storage of a temporary may be a ring of the elements that are alive at once.

    for i { T[i+2] = ...; Y[i] = T[i] + T[i+1] + T[i+2] }   ->   three places, of which T[i] is in i % 3

How many places there are, and in which dimension, follows from the schedule that is compiled (poly.storage_folding): what is
alive longer has more, so that no later step can make it wrong. A saved schedule lists it as `fold T`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.program import program as pr


@dataclass(frozen=True)
class Fold:
    """tensor: the temporary."""

    tensor: str

    def __str__(self) -> str:
        return f"fold {self.tensor}"

    def apply(self, program: pr.Program) -> pr.Program:
        """The program in which the storage of the tensor may be folded. Raises E707 for what is no temporary."""
        if self.tensor not in program.temporaries:
            raise errors.fail("E707", f"there is no temporary {self.tensor!r}",
                              notes=[f"the temporaries are {', '.join(program.temporaries) or 'none'}"])
        return replace(program, folded=tuple(dict.fromkeys((*program.folded, self.tensor))))

    @staticmethod
    def read(text: str) -> Fold | None:
        """What prints so, behind `fold`."""
        return Fold(text) if text and not text.split()[1:] else None
