"""What strategies decide about schedules, as lines of a record (polytc.decisions), and what somebody else decided instead.

    fusion S1_init: policy=smart                             # or one `group` line for each set of statements that share loops
    group S1_init: statements=S1_init,S1,S2
    tile S1_init: rows=i,j sizes=6,32 order=j,i vector=j
    threads S1_init: parallel=yes
    band S4: sizes=16,64,0
    loop S4: by=isl
    items S5: rows=j,i sizes=32,8 vector=4

Whatever is given, the tree made of it is checked against the dependences like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from polytc import decisions
from polytc.decisions import Entry, Record

C = TypeVar("C")


@dataclass(frozen=True)
class Fused:
    """Which statements share loops: a policy of schedule.fusion.policies, for the statements from this one on that are planned
    together. A line without a statement is for all."""

    statement: str
    policy: str


@dataclass(frozen=True)
class SharedBy:
    """These statements share loops, the first of which names the line; all that no such line names have loops of their own."""

    statement: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class Tiled:
    """The tile of a group on a CPU. rows: its shared loops, by the indices of its first statement; sizes: iterations of each in
    a tile; order: of the loops over tiles, outermost first; vector: the row that becomes vectors, or ''. blocked, along, block,
    depth: the reduction of that statement over that index runs in blocks of so many steps, inside of so many loops over tiles;
    unrolled: a statement, and indices of its reduction that are; caches: iterations of a block of tiles of each row, or 0."""

    statement: str
    rows: tuple[str, ...]
    sizes: tuple[int, ...]
    order: tuple[str, ...]
    vector: str = ""
    blocked: str = ""
    along: str = ""
    block: int = 0
    depth: int = 0
    unrolled: tuple[str, ...] = ()
    caches: tuple[int, ...] = ()


@dataclass(frozen=True)
class Threaded:
    """Do threads share the outermost loops of a group, or of groups under common loops? 'yes' or 'no'."""

    statement: str
    parallel: str


@dataclass(frozen=True)
class BandTiled:
    """Iterations in a tile of each loop of the band that isl's scheduler found for these statements; 0: not tiled."""

    statement: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Items:
    """Work-items of a group of a GPU. rows: shared loops that they run along, by the indices of the first statement, the
    fastest axis first; sizes: items along each; vector: iterations of the first row that are one item's."""

    statement: str
    rows: tuple[str, ...]
    sizes: tuple[int, ...]
    vector: int = 1


@dataclass(frozen=True)
class LoopMapped:
    """From what a `for` loop is mapped to launches: 'text', the loops as written, 'isl', those of isl's scheduler, or 'tiles',
    wavefronts of tiles."""

    statement: str
    by: str


KINDS: dict[str, type[Any]] = {"fusion": Fused, "group": SharedBy, "tile": Tiled, "threads": Threaded, "band": BandTiled,
                               "loop": LoopMapped, "items": Items}
"""Step -> type of its choices."""
class Misfit(Exception):
    """A choice that somebody else made does not fit; the text says why."""


class Decisions:
    """The decisions of one schedule. given: what is decided already; taken: what was, in order."""

    def __init__(self, given: Record | None = None) -> None:
        self.given = given or Record()
        self.taken = list[Entry]()

    def all(self, step: str) -> tuple[Any, ...]:
        """The choices that are given for a step."""
        return tuple(decisions.choice(KINDS[step], e, self.given) for e in self.given.of(step) or ())

    def take(self, step: str, statement: str, own: Callable[[], C], choice: Callable[[C], Any], read: Callable[[Any], C],
             reason: str = "") -> C:
        """What is given for a statement, read; else polytc's own decision. choice, read: translate a decision into what a line
        says, and back; read raises Misfit. Raises E710 for what does not fit."""
        entries = self.given.of(step) or ()
        entry = next((e for e in entries if e.statement == statement), next((e for e in entries if not e.statement), None))
        if entry is None:
            made = own()
        else:
            try:
                made = read(decisions.choice(KINDS[step], entry, self.given))
            except Misfit as why:
                raise self.given.refused(entry, str(why)) from None
            reason = "as given"
        self.taken.append(decisions.entry(step, choice(made), reason))
        return made

    def refused(self, step: str, statement: str, why: str) -> Exception:
        """The exception for the line of a statement."""
        entry = next(e for e in self.given.of(step) or () if e.statement == statement)
        return self.given.refused(entry, why)
