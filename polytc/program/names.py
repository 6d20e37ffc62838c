"""Names for what is added to a program, none of them in use; and names for what knows ASCII alone: isl, C, files."""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Mapping, Set
from dataclasses import dataclass, replace
from itertools import count

from polytc.program import program as pr

_INITIALISATION = "_init"
_SPELLED = re.compile("_u[0-9a-f]+_")


def fresh(name: str, taken: Container[str]) -> str:
    """`name`, with a number if it is taken."""
    return name if name not in taken else next(f"{name}{n}" for n in count(2) if f"{name}{n}" not in taken)


def claim(name: str, taken: set[str]) -> str:
    """As `fresh`; it is taken from now on."""
    found = fresh(name, taken)
    taken.add(found)
    return found


def initialisation(statement: str) -> str:
    """The name of the statement that writes the identity before an update."""
    return f"{statement}{_INITIALISATION}"


def update_of(statement: str) -> str | None:
    """The update before which a statement writes the identity, by its name; None for others."""
    return statement.removesuffix(_INITIALISATION) if statement.endswith(_INITIALISATION) else None


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
        return claim(base, self.indices)

    def label(self, base: str) -> str:
        """For a tensor or a statement."""
        return claim(base, self.taken)


def indices_beside_sizes(program: pr.Program) -> pr.Program:
    """The program with no index that is called as an open size is: a set of isl would take the one for the other."""
    return indices_beside(program, frozenset(program.sizes)) if program.sizes else program


def indices_beside(program: pr.Program, names: Set[str]) -> pr.Program:
    """The program with other indices for those of these names."""
    used = {i for s in program.statements for i in s.indices}
    taken = used | names | set(program.sizes) | {t.name for t in program.tensors}
    new = {i: claim(f"{i}_", taken) for i in sorted(used & names)}
    return replace(program, statements=tuple(_with_indices(s, new) for s in program.statements)) if new else program


def _with_indices(s: pr.Statement, names: Mapping[str, str]) -> pr.Statement:
    """The statement with other names for indices."""
    new: dict[str, pr.Expr] = {old: pr.Index(name) for old, name in names.items()}
    return replace(s, subscripts=tuple(pr.substitute(e, new) for e in s.subscripts), value=pr.substitute(s.value, new),
                   ranges=tuple(replace(r, index=names.get(r.index, r.index)) for r in s.ranges),
                   where=tuple(pr.substitute(c, new) for c in s.where),
                   bounds=tuple(pr.Bound(names.get(b.index, b.index), pr.substitute(b.lower, new), pr.substitute(b.upper, new))
                                for b in s.bounds))


@functools.lru_cache(maxsize=4096)
def ascii_name(name: str) -> str:
    """The name in ASCII, another one for each name: `A\u00e9` is `A_ue9_`, and what looks like that is spelled as well."""
    if name.isascii() and not _SPELLED.search(name):
        return name
    return "".join(c if c.isascii() else f"_u{ord(c):x}_" for c in re.sub("_(?=u)", "_u5f_", name))
