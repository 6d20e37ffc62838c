"""Random programs by the thousand: `python -m tests.generator --count 10000 --seed 0 --processes 2 --minutes 60`.

Each program runs in a worker process with a time limit. What goes wrong is shrunk and written to a folder, a Python script that
shows it again each. The last lines are the summary; the exit status is 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from tests.generator import choices, programs
from tests.generator.case import Case
from tests.generator.judge import Outcome, driven
from tests.generator.shrink import alike, shrink
from tests.generator.worker import Worker


class Run:
    """Seeds handed out to threads, each with a worker process; what came of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.seeds = iter(range(options.seed, options.seed + options.count))
        self.end = time.monotonic() + 60 * options.minutes
        self.lock = threading.Lock()
        self.kinds: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.ways: Counter[str] = Counter()
        self.found: list[Outcome] = []

    def work(self) -> None:
        worker, driver = Worker(self.options.limit), Worker(self.options.limit, driven)
        while time.monotonic() < self.end:
            with self.lock:
                seed = next(self.seeds, None)
            if seed is None:
                break
            chance = choices.seeded(seed)
            case = programs.case(chance)
            kind = case.target.partition("-")[0]
            if self.options.target not in ("", case.target, kind):
                continue
            outcome = worker.judge(case)
            stopped = "crash", "hang"
            if outcome.kind in stopped and kind in ("gpu", "opencl") and driver.judge(case).kind in stopped:
                outcome = Outcome("driver", "the OpenCL compiler crashes on the kernels by themselves, or never ends")
            with self.lock:
                self.note(case, outcome)
                again = outcome.bad and sum(alike(outcome, x) for x in self.found) < self.options.each
                self.found += [outcome] * again
            if outcome.kind == "driver":
                print(f"seed {seed}: {outcome.detail}", flush=True)
            if again:
                self.report(seed, *shrink(chance.taken, outcome, worker.judge, self.options.shrink))
        worker.close()
        driver.close()

    def note(self, case: Case, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        if outcome.kind == "refused":
            self.codes[outcome.detail] += 1
        elif not outcome.bad:
            self.ways[f"{case.target}, {case.schedule}"] += 1
        done = sum(self.kinds.values())
        if done % 200 == 0:
            print(f"{done} programs: {_counts(self.kinds)}", flush=True)

    def report(self, seed: int, case: Case, outcome: Outcome) -> None:
        """Writes a failure to the folder."""
        folder = Path(self.options.out)
        folder.mkdir(parents=True, exist_ok=True)
        comment = "\n".join(f"# {line}".rstrip() for line in f"seed {seed}: {outcome.kind}\n{outcome.detail}".splitlines())
        (folder / f"{outcome.kind}-{seed}.py").write_text(f"{case}\n\n{comment}\n", encoding="utf-8")
        print(f"seed {seed}: {outcome.kind}, {folder / f'{outcome.kind}-{seed}.py'}", flush=True)


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in found.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.generator", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first; program k has this + k")
    parser.add_argument("--target", default="", help="only programs for this one, one in seven or so")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60, help="no program is begun later")
    parser.add_argument("--limit", type=float, default=300, help="seconds one program may take")
    parser.add_argument("--shrink", type=float, default=60, help="seconds for making a failure small")
    parser.add_argument("--each", type=int, default=5, help="failures that look alike and are kept")
    parser.add_argument("--out", default="failures", help="folder of the failures")
    options = parser.parse_args()
    run, start = Run(options), time.monotonic()
    threads = [threading.Thread(target=run.work) for _ in range(options.processes)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    bad = sum(n for kind, n in run.kinds.items() if Outcome(kind).bad)
    done = sum(run.kinds.values())
    print(f"{done} programs in {time.monotonic() - start:.0f} s: {_counts(run.kinds)}")
    print(f"refused {100 * run.kinds['refused'] / max(done, 1):.1f} %: {_counts(run.codes)}")
    print(f"ran on: {_counts(run.ways)}")
    print(f"{bad} went wrong" + (f", see {options.out}/" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
