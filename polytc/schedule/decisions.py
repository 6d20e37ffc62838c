"""What strategies decide about schedules, as lines of a record (polytc.decisions), and what somebody else decided instead.

    fusion S1_init: policy=smart                             # or one `group` line for each set of statements that share loops
    group S1_init: statements=S1_init,S1,S2
    outer S3: joins=S1_init rows=i
    tile S1_init: rows=i,j sizes=6,32 order=j,i vector=j
    threads S1_init: parallel=yes
    band S4: sizes=16,64,0
    loop S4: by=isl
    items S5: rows=j,i sizes=32,8 vector=4

Whatever is given, the tree made of it is checked against the dependences like any other.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from polytc import decisions
from polytc.decisions import Entry, Open, Record, Way

C = TypeVar("C")

Priced = tuple[C, float | None]
"""What may be decided, and its estimated cost; None where a rule decides."""


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
class Outer:
    """A group shares outer loops with groups before it, or not. joins: the first statement of the first of them, or 'none';
    rows: the loops, by the indices of that statement, outermost first; block: iterations of the only such loop that the groups
    run one after another."""

    statement: str
    joins: str
    rows: tuple[str, ...] = ()
    block: int = 1


@dataclass(frozen=True)
class Tiled:
    """The tile of a group on a CPU. rows: its shared loops, by the indices of its first statement; sizes: iterations of each in
    a tile; order: of the loops over tiles, outermost first; vector: the row that becomes vectors, or ''. blocked, along, block,
    depth: the reduction of that statement over that index runs in blocks of so many steps, inside of so many loops over tiles;
    unrolled: a statement, and indices of its reduction that are; caches: iterations of a block of tiles of each row, or 0;
    around: 1 if the loops over such blocks are outside of all others."""

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
    around: int = 0


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
    fastest axis first; sizes: items along each; vector: iterations of the first row that are one item's; each: of the second
    row, or of the only one."""

    statement: str
    rows: tuple[str, ...]
    sizes: tuple[int, ...]
    vector: int = 1
    each: int = 1


@dataclass(frozen=True)
class LoopMapped:
    """From what a `for` loop is mapped to launches: 'text', the loops as written, 'isl', those of isl's scheduler, or 'tiles',
    wavefronts of tiles."""

    statement: str
    by: str


@dataclass(frozen=True)
class Chained:
    """How statements over a batch run, the first of which it is named after: by 'group', one launch with a work-group a member,
    or 'launches', one after another."""

    statement: str
    by: str


KINDS: dict[str, type[Any]] = {"fusion": Fused, "group": SharedBy, "outer": Outer, "tile": Tiled, "threads": Threaded,
                               "band": BandTiled, "loop": LoopMapped, "chain": Chained, "items": Items}
"""Step -> type of its choices."""


class Misfit(Exception):
    """A choice that somebody else made does not fit; the text says why."""


class Decisions:
    """The decisions of one schedule. given: what is decided already; taken: what was, in order. Where `given` asks, the first
    that is open raises decisions.Open."""

    def __init__(self, given: Record | None = None) -> None:
        self.given = given or Record()
        self.taken = list[Entry]()
        self.met = Counter[tuple[str, str]]()

    def all(self, step: str) -> tuple[Any, ...]:
        """The choices that are given for a step."""
        return tuple(decisions.choice(KINDS[step], e, self.given) for e in self.given.of(step) or ())

    def take(self, step: str, statement: str, own: Callable[[], C], choice: Callable[[C], Any], read: Callable[[Any], C],
             reason: str = "", options: Callable[[], Iterable[Priced[C]]] = lambda: ()) -> C:
        """What is given for a statement, read; else polytc's own decision. A statement that is asked about several times has a
        line for each. choice, read: translate a decision into what a line says, and back; read raises Misfit. options: what
        else may be decided, and its cost, in order. Raises E710 for what does not fit."""
        entry = self._given(step, statement)
        if entry is None:
            made = own()
            if self.given.asks:
                self.ask(self._ways(step, made, choice, read, options))
        else:
            try:
                made = read(decisions.choice(KINDS[step], entry, self.given))
            except Misfit as why:
                raise self.given.refused(entry, str(why)) from None
            reason = "as given"
        self.taken.append(decisions.entry(step, choice(made), reason))
        return made

    def ask(self, ways: Iterable[Way]) -> None:
        """Raises Open if there is a choice."""
        found = decisions.at_least_two(ways)
        if found is not None:
            raise Open(tuple(self.taken), found)

    def _given(self, step: str, statement: str) -> Entry | None:
        entries = self.given.of(step) or ()
        own = [e for e in entries if e.statement == statement]
        number = self.met[step, statement]
        self.met[step, statement] += 1
        return own[number] if number < len(own) else next((e for e in entries if not e.statement), None)

    def _ways(self, step: str, made: C, choice: Callable[[C], Any], read: Callable[[Any], C],
              options: Callable[[], Iterable[Priced[C]]]) -> Iterator[Way]:
        """What polytc decides, then those options that can be written and read as lines."""
        first, others = decisions.entry(step, choice(made)), iter(options())
        known = [(decisions.entry(step, choice(value)), cost) for value, cost in itertools.islice(others, 1)]
        yield Way((first,), next((cost for line, cost in known if line == first), None))
        lines = itertools.chain(known, ((decisions.entry(step, choice(value)), cost) for value, cost in others))
        seen = {first}
        for line, cost in lines:
            if line not in seen and self._reads(line, read):
                seen.add(line)
                yield Way((line,), cost)

    def _reads(self, line: Entry, read: Callable[[Any], C]) -> bool:
        try:
            read(decisions.choice(KINDS[line.step], line, self.given))
        except Misfit:
            return False
        return True

    def refused(self, step: str, statement: str, why: str) -> Exception:
        """The exception for the line of a statement."""
        entry = next(e for e in self.given.of(step) or () if e.statement == statement)
        return self.given.refused(entry, why)
