"""What a campaign knows: which programs are done, what came of them, which pairs of features they had. It is kept in a file, so
that a campaign goes on where it was stopped."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.generator import programs
from tests.generator.case import Case
from tests.generator.choices import Choices, seeded
from tests.generator.features import Coverage
from tests.generator.judge import Outcome

CANDIDATES = 6
"""Programs that are made for each one that runs: that with the most rare pairs of features for its time does."""
SHORT, LETTER, OPEN = 0.1, 0.001, 2.0
"""Seconds, about: of every program, of each letter of its text, and how many times as long open sizes take."""


def seconds(case: Case) -> float:
    """What a program takes, about."""
    return SHORT + LETTER * len(case.text) * (OPEN if case.open else 1.0)


@dataclass
class Campaign:
    """first, next: numbers of programs; running: those that have begun; language: see programs.case. kinds: of outcomes; codes:
    of refusals; ways: targets and schedules of the others; printed: how many of these were printed and parsed; found: what went
    wrong, as scripts."""

    first: int = 0
    next: int = 0
    language: bool = False
    kinds: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    printed: int = 0
    running: set[int] = field(default_factory=set)

    def begin(self) -> tuple[int, Choices, Case]:
        """The next program, with its number and the choices that made it."""
        number = self.next
        self.next += 1
        self.running.add(number)
        made = [(x := seeded(number * CANDIDATES + k), programs.case(x, self.language)) for k in range(CANDIDATES)]
        chance, case = max(made, key=lambda pair: self.coverage.rarity(pair[1]) / seconds(pair[1]))
        return number, chance, case

    def end(self, number: int, case: Case, outcome: Outcome) -> None:
        self.running.discard(number)
        self.kinds[outcome.kind] += 1
        self.printed += outcome.detail == "printed"
        if outcome.kind == "refused":
            self.codes[outcome.detail] += 1
        elif not outcome.bad:
            self.ways[f"{case.target}, {case.schedule}"] += 1
            self.coverage.add(case)

    @property
    def done(self) -> int:
        return sum(self.kinds.values())

    def save(self, path: Path) -> None:
        """Writes the file anew. What is still running will be begun again."""
        state = {"first": self.first, "next": min([self.next, *self.running]), "language": self.language, "kinds": self.kinds,
                 "codes": self.codes, "ways": self.ways, "printed": self.printed, "found": self.found,
                 "pairs": self.coverage.counted()}
        made = path.with_name(path.name + ".new")
        made.write_text(json.dumps(state), encoding="utf-8")
        made.replace(path)


def load(path: Path) -> Campaign:
    """What `save` wrote."""
    x = json.loads(path.read_text(encoding="utf-8"))
    return Campaign(x["first"], x["next"], x["language"], Counter(x["kinds"]), Counter(x["codes"]), Counter(x["ways"]),
                    x["found"], Coverage(x["pairs"]), x["printed"])


def counts(found: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in found.most_common())


def summary(x: Campaign) -> str:
    """What came of it, in lines."""
    bad = sum(n for kind, n in x.kinds.items() if Outcome(kind).bad)
    return "\n".join((f"{x.done} programs: {counts(x.kinds)}",
                      f"refused {100 * x.kinds['refused'] / max(x.done, 1):.1f} %: {counts(x.codes)}",
                      f"ran on: {counts(x.ways)}; {x.printed} printed, parsed and equal",
                      x.coverage.summary(), f"{bad} went wrong"))
