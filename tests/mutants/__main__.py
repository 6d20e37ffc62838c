"""Mutants by the thousand: `PYTHONPATH=benchmarks python -m tests.mutants schedules --count 20000 --processes 2 --minutes 60`.

Of models (ONNX files), of schedules (YAML), of programs (text). What ends in anything but a diagnostic or a right result is
kept in a folder, with what happened. A campaign goes on where it stopped: the numbers are seeds. The exit status is 1 if there
are any.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.generator.judge import Outcome
from tests.generator.worker import Worker
from tests.mutants import programs, schedules
from tests.mutants.judge import Mutant, judge
from tests.mutants.mutate import mutant


def seeds(largest: int = 20000) -> list[bytes]:
    """The models of onnx's own node tests that are no larger than so many bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests
        found = load_model_tests(kind="node")
    return [data for case in found if len(data := case.model.SerializeToString()) <= largest]


def _model(models: list[bytes]) -> Callable[[int], Mutant]:
    return lambda number: Mutant(mutant(models, number), "cpu" if number % 50 == 0 else "evaluate")


KINDS: dict[str, tuple[Callable[[int], Any], Callable[[Any], Outcome]]] = {
    "schedules": (schedules.mutant, schedules.judge), "programs": (programs.mutant, programs.judge)}
"""What is made a mutant of -> the mutant of a number, and what becomes of it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", nargs="?", choices=["models", *KINDS], default="models")
    parser.add_argument("--count", type=int, default=2000, help="mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--limit", type=float, default=60, help="seconds one mutant may take")
    parser.add_argument("--out", type=Path, default=Path("failures"))
    options = parser.parse_args()
    mutants, how = KINDS[options.kind] if options.kind in KINDS else (_model(seeds()), judge)
    end = time.monotonic() + 60 * options.minutes
    numbers, lock, kinds = iter(range(options.seed, options.seed + options.count)), threading.Lock(), Counter[str]()

    def work() -> None:
        worker = Worker(options.limit, how)
        while time.monotonic() < end:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            case = mutants(number)
            note(number, case, worker.judge(case))
        worker.close()

    def note(number: int, case: Any, outcome: Outcome) -> None:
        with lock:
            kinds[f"refused {outcome.detail}" if outcome.kind == "refused" else outcome.kind] += 1
            if sum(kinds.values()) % 1000 == 0:
                print(dict(kinds.most_common()), flush=True)
        if outcome.bad:
            options.out.mkdir(parents=True, exist_ok=True)
            if isinstance(case, Mutant):
                (options.out / f"{outcome.kind}-{number}.onnx").write_bytes(case.data)
            (options.out / f"{outcome.kind}-{number}.txt").write_text(f"{outcome.detail}\n{case}"[:20000], encoding="utf-8")
            last = outcome.detail.strip().splitlines()[-1:] or [""]
            print(f"{number}: {outcome.kind}: {last[0][:160]}", flush=True)

    threads = [threading.Thread(target=work) for _ in range(options.processes)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    bad = sum(n for kind, n in kinds.items() if kind not in ("right", "ran") and not kind.startswith("refused"))
    print(f"{sum(kinds.values())} mutants: {', '.join(f'{n} {k}' for k, n in kinds.most_common())}; {bad} went wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
