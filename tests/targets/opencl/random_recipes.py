"""Run by test_recipes.py in a process of its own: random programs whose loops random steps bind to groups and items.

    random_recipes.py SEED COUNT [SCHEDULE]      prints what is wrong, a line each, and last how many programs ran

SCHEDULE: 'user' for random steps, 'automatic' for what the strategies for GPUs make of the program.

Where the process sees oclgrind, what that finds in a kernel is wrong too.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from polytc.errors import PolytcError
from tests import drivers
from tests.generator import choices, gpus, programs
from tests.generator.case import Case
from tests.generator.judge import built, judge

POINTS = 4000
"""Of all statements' boxes: oclgrind interprets every instruction."""


def case(seed: int, schedule: str = "user") -> Case | None:
    """A program with steps for a GPU; None where it is no program, or too large."""
    c = choices.seeded(seed)
    made = replace(programs.case(c), target=c.of([*gpus.TARGETS]), schedule=schedule, open=(), called=False, out=False,
                   constants=(), steps=tuple(c.below(1000) for _ in range(40)))
    try:
        small = sum(s.points for s in built(made).statements) <= POINTS
    except PolytcError:
        return None
    return made if small and "~" not in made.text else None  # ~x: see generator.programs


def main(first: int, count: int, schedule: str = "user") -> None:
    """See above."""
    drivers.one_thread()
    log = Path(os.environ.get("OCLGRIND_LOG", os.devnull))
    kinds = Counter[str]()
    seen = 0
    for seed in range(first, first + count):
        made = case(seed, schedule)
        if made is None:
            continue
        outcome = judge(made)
        kinds[outcome.kind] += 1
        found = drivers.FINDINGS.findall(log.read_text()) if log.exists() else []
        if outcome.bad or len(found) > seen:
            print(f"seed {seed}: {outcome.kind} {sorted({*found[seen:]})}\n{made}\n{outcome.detail}", flush=True)
        seen = len(found)
    print(dict(kinds))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
