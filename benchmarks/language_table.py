"""The language's table of programs: which targets each ran on, its largest error, what was fused, and what is parallel.

    python benchmarks/language_table.py [--only conv]

The error is against numpy, relative to the largest number of the result. Groups are the statements (S1, S2, ... as in `polytc
emit --stage program`) that share a loop nest in the schedule for this machine; a group is parallel if its outermost loop
carries no dependence, whether or not it is worth threads at these sizes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import polytc
from language.program import Program
from language.programs import PROGRAMS
from language.tc import PROGRAMS as TC
from polytc.errors import CompileError, TargetError

TARGETS = ("evaluate", "interp", "cpu", "opencl")

_GROUP = re.compile(r'mark: "G\d+ [^"]*"\n\s*child:\n\s*schedule: "(.*)"\n((?:\s*(?:permutable|coincident): .*\n?)*)')
"""The mark of a group in a schedule's YAML, its band, and what is said of the band."""


def error(program: Program, target: str) -> float:
    """The largest error of any output against numpy, relative to the largest number of it."""
    given: dict[str, Any] = {**program.arrays(), **program.numbers}
    found = polytc.run(program.text, target=target, **given)
    results = found if isinstance(found, tuple) else (found,)
    return max(float(np.abs(got.astype("f8") - want).max(initial=0)) / max(1.0, float(np.abs(want).max(initial=0)))
               for got, want in zip(results, program.expected(), strict=True))


def groups(program: Program) -> tuple[str, str]:
    """(the statements that share loops, how many groups there are and how many of them are parallel)."""
    arrays = program.arrays()
    lowered = polytc.lower(program.text, shapes={n: a.shape for n, a in arrays.items()},
                           dtypes={n: a.dtype for n, a in arrays.items()}, scalars=dict(program.numbers))
    fused: list[str] = []
    parallel = count = 0
    for band, flags in _GROUP.findall(str(lowered.schedule)):
        names = dict.fromkeys(re.findall(r"(S\d+)\w*\[", band))
        fused += ["+".join(names)] if len(names) > 1 else []
        count += 1
        parallel += "coincident: [ 1" in flags
    return ", ".join(fused) or "-", f"{parallel} of {count}"


def row(program: Program) -> tuple[str, ...]:
    """One line of the table."""
    errors: dict[str, float] = {}
    for target in TARGETS:
        try:
            errors[target] = error(program, target)
        except TargetError:
            continue  # no driver here
        except CompileError as refusal:
            return program.name, f"refused: {refusal.code} {refusal.diagnostics[0].message}", "", "", ""
    fused, parallel = groups(program)
    worst = max(errors.values())
    good = worst <= program.tolerance
    return program.name, " ".join(errors), f"{worst:.1e}{'' if good else ' WRONG'}", fused, parallel


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    options = parser.parse_args(arguments)
    table = Table(title="Programs of the language")
    for title in ("program", "targets", "largest error", "fused", "groups that are parallel"):
        table.add_column(title)
    for program in (*PROGRAMS, *TC):
        if options.only in program.name:
            table.add_row(*row(program))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
