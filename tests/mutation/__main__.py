"""Mutation testing of polytc: would the tests see a fault that somebody seeds into rewrites, strategies, passes or emitters?

    pip install -e '.[mutation]'
    python -m tests.mutation cover                    # which test runs which line: the tests once, with coverage (an hour)
    python -m tests.mutation sample --count 1000      # seeded faults, spread over the files by their lines
    python -m tests.mutation run --processes 2        # judges each; goes on where it was stopped
    python -m tests.mutation report                   # what was caught, and what survived
    python -m tests.mutation again tests/test_new.py  # do these tests catch what survived?

Each fault is judged by the tests whose coverage meets its line, the fastest first, for at most 30 seconds. cosmic-ray makes the
faults and applies them, coverage.py finds the tests. Everything lies in one folder (--folder, .mutation).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.mutation import covering, faults, judging, report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(".mutation"))
    commands = parser.add_subparsers(dest="command", required=True)
    cover = commands.add_parser("cover", help="find out which test runs which line")
    cover.add_argument("tests", nargs="*", default=["tests"])
    cover.add_argument("--processes", type=int, default=2)
    sample = commands.add_parser("sample", help="choose faults")
    sample.add_argument("--count", type=int, default=1000)
    sample.add_argument("--seed", type=int, default=0)
    run = commands.add_parser("run", help="judge the faults that are not judged yet")
    again = commands.add_parser("again", help="judge what survived by other tests")
    again.add_argument("tests", nargs="+")
    for command in (run, again):
        command.add_argument("--processes", type=int, default=2)
        command.add_argument("--minutes", type=float, default=600)
        command.add_argument("--seconds", type=float, default=30, help="of tests for each fault")
    commands.add_parser("report", help="print what was caught and what survived")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    match given.command:
        case "cover":
            return covering.measure(given.folder, given.tests, given.processes)
        case "sample":
            print(faults.sample(given.folder, given.count, given.seed), "faults")
        case "run":
            judging.run(given.folder, given.processes, given.minutes, given.seconds)
            print(report.summary(given.folder))
        case "again":
            judging.again(given.folder, given.tests, given.processes, given.minutes, given.seconds)
            print(report.summary(given.folder))
        case "report":
            print(report.whole(given.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
