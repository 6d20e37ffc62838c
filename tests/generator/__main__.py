"""Random programs by the thousand: `python -m tests.generator --count 10000 --seed 0 --jobs 2 --minutes 60`.

Each program runs in a worker process with a time limit. What goes wrong is shrunk and written to a folder, a Python script that
shows it again each. The last lines are the summary; the exit status is 1 if anything went wrong.

    python -m tests.generator --language --count 100000 --minutes 600 --resume campaign.json

`--language` tries the language more than schedules and targets; `--cut-sums` makes each program a trial of long sums;
`--resume` keeps what is known in a file and goes on there.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

from tests.generator.campaign import Campaign, counts, load, summary
from tests.generator.case import Case
from tests.generator.judge import Outcome, driven, judge, judge_cut_sums
from tests.generator.shrink import alike, shrink
from tests.generator.worker import Worker

SAVED = 60.0
"""Seconds between two writings of the file."""


class Run:
    """Programs handed out to threads, each with a worker process."""

    def __init__(self, options: argparse.Namespace, campaign: Campaign) -> None:
        self.options, self.campaign = options, campaign
        self.end = time.monotonic() + 60 * options.minutes
        self.saved = time.monotonic()
        self.lock = threading.Lock()
        self.found: list[Outcome] = []

    def work(self) -> None:
        worker = Worker(self.options.limit, judge_cut_sums if self.options.cut_sums else judge)
        driver = Worker(self.options.limit, driven)
        while time.monotonic() < self.end:
            with self.lock:
                if self.campaign.next >= self.campaign.first + self.options.count:
                    break
                number, chance, case = self.campaign.begin()
            kind = case.target.partition("-")[0]
            if self.options.target not in ("", case.target, kind):
                self.campaign.running.discard(number)
                continue
            outcome = worker.judge(case)
            stopped = "crash", "hang"
            if outcome.kind in stopped and kind in ("gpu", "opencl") and driver.judge(case).kind in stopped:
                outcome = Outcome("driver", "the OpenCL compiler crashes on the kernels by themselves, or never ends")
            with self.lock:
                again = outcome.bad and sum(alike(outcome, x) for x in self.found) < self.options.each
                self.found += [outcome] * again
            if outcome.kind == "driver":
                print(f"program {number}: {outcome.detail}", flush=True)
            if again:
                small = shrink(chance.taken, outcome, worker.judge, self.options.shrink, self.campaign.language)
                self.report(number, *small)
            with self.lock:
                self.campaign.end(number, case, outcome)
                self.note()
        worker.close()
        driver.close()

    def note(self) -> None:
        if self.campaign.done % 200 == 0:
            print(f"{self.campaign.done} programs: {counts(self.campaign.kinds)}", flush=True)
        if self.options.resume and time.monotonic() > self.saved + SAVED:
            self.campaign.save(Path(self.options.resume))
            self.saved = time.monotonic()

    def report(self, number: int, case: Case, outcome: Outcome) -> None:
        """Writes a failure to the folder."""
        folder = Path(self.options.out)
        folder.mkdir(parents=True, exist_ok=True)
        comment = "\n".join(f"# {line}".rstrip() for line in f"program {number}: {outcome.kind}\n{outcome.detail}".splitlines())
        script = str(case)[:-1] + ", cut_sums=True)" if self.options.cut_sums else str(case)
        text = f"{script}\n\n{comment}\n"
        (folder / f"{outcome.kind}-{number}.py").write_text(text, encoding="utf-8")
        with self.lock:
            self.campaign.found.append(text)
        print(f"program {number}: {outcome.kind}, {folder / f'{outcome.kind}-{number}.py'}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.generator", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="number of the first")
    parser.add_argument("--language", action="store_true", help="nearly all on the CPU with the automatic schedule")
    parser.add_argument("--cut-sums", action="store_true", help="sums of more than six terms are taken in parts")
    parser.add_argument("--target", default="", help="only programs for this one")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--minutes", type=float, default=60, help="no program is begun later")
    parser.add_argument("--limit", type=float, default=300, help="seconds one program may take")
    parser.add_argument("--shrink", type=float, default=60, help="seconds for making a failure small")
    parser.add_argument("--each", type=int, default=5, help="failures that look alike and are kept")
    parser.add_argument("--out", default="failures", help="folder of the failures")
    parser.add_argument("--resume", default="", help="file of what is known, read if it is there, and kept")
    options = parser.parse_args()
    kept = Path(options.resume) if options.resume else None
    campaign = load(kept) if kept is not None and kept.exists() else Campaign(options.seed, options.seed, options.language)
    run, start = Run(options, campaign), time.monotonic()
    threads = [threading.Thread(target=run.work) for _ in range(options.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if kept is not None:
        campaign.save(kept)
    print(f"{time.monotonic() - start:.0f} s\n{summary(campaign)}" + (f", see {options.out}/" if campaign.found else ""))
    return 1 if any(Outcome(kind).bad for kind in campaign.kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
