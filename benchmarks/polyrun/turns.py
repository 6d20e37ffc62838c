"""One kernel between all contenders: the results must be PolyBench's, then they take turns."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polyrun import compilers
from polyrun.contestant import Contestant, Lost
from polyrun.kernels import KERNELS, checksums

OURS = "polytc"
TURN = 20e-3
"""Seconds of work in one turn, at least."""
ROUNDS = 3
"""Turns of each, at least."""
SLOW = 2.0
"""A peer that needs so many times as long as the fastest peer gets a single turn."""
PAUSE = 20e-3
"""Seconds between the turns: pools that spin after their work have given up by then."""
PATIENCE = 300.0
"""Seconds to wait for a compilation, or for a turn."""


@dataclass(frozen=True)
class Timed:
    """Seconds of a call. deviation: of the checksums. compiled: seconds of compiling; the C compilers' include the program's
    start-up code and linking."""

    median: float
    best: float
    rounds: int
    deviation: float
    compiled: float


@dataclass(frozen=True)
class Result:
    """A kernel as it was measured. failed: why contenders took no part."""

    kernel: str
    times: Mapping[str, Timed]
    failed: Mapping[str, str]

    def best_peer(self) -> str | None:
        peers = [p for p in self.times if p != OURS]
        return min(peers, key=lambda p: self.times[p].median, default=None)

    def ratio(self) -> float | None:
        """Our time over that of the best peer."""
        best = self.best_peer()
        return self.times[OURS].median / self.times[best].median if best and OURS in self.times else None


def compete(kernel: str, size: str, threads: int, peers: Sequence[str], source: Path | None, seconds: float) -> Result:
    """Measure a kernel. seconds: of timing, all contenders together; those that are slower than that have a single turn."""
    failed: dict[str, str] = {}
    times: dict[str, Timed] = {}
    with tempfile.TemporaryDirectory() as folder:
        contestants = _start(kernel, size, threads, peers, source, Path(folder), failed)
        try:
            taken, deviations = _take_turns(kernel, size, {n: c for n, (c, _) in contestants.items()}, seconds, failed)
        finally:
            for contestant, _ in contestants.values():
                contestant.stop()
    for name, t in taken.items():
        times[name] = Timed(statistics.median(t), min(t), len(t), deviations[name], contestants[name][1])
    return Result(kernel, times, failed)


def _start(kernel: str, size: str, threads: int, peers: Sequence[str], source: Path | None, folder: Path,
           failed: dict[str, str]) -> dict[str, tuple[Contestant, float]]:
    """(contestant, seconds of compiling) by name."""
    environment = {"OMP_NUM_THREADS": str(threads), "KMP_BLOCKTIME": "5", "POLYTC_CACHE": "0",
                   "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}
    started: dict[str, tuple[Contestant, float]] = {}
    for name in (OURS, *peers):
        try:
            start = time.perf_counter()
            if name == OURS:
                command: list[str | Path] = [sys.executable, "-m", "polyrun.ours", kernel, size, str(threads)]
            else:
                assert source is not None
                command = [compilers.build(name, source, kernel, size, threads, folder)]
            seconds = time.perf_counter() - start
            contestant = Contestant(command, environment, PATIENCE)
            started[name] = contestant, seconds if contestant.compiled is None else contestant.compiled
        except (Lost, FileNotFoundError) as loss:
            failed[name] = str(loss)
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines()
            failed[name] = next((line for line in lines if "error" in line), lines[0])
    return started


def _take_turns(kernel: str, size: str, contestants: Mapping[str, Contestant], seconds: float, failed: dict[str, str]
                ) -> tuple[dict[str, list[float]], dict[str, float]]:
    """(seconds of a call in each turn, deviations of the results). The first turn of each is a single run, which is checked,
    and counts where there is no other. Who is lost or wrong joins the failed."""
    taken: dict[str, list[float]] = {}
    deviations: dict[str, float] = {}
    for name, contestant in contestants.items():
        try:
            first = contestant.run()
            deviations[name] = checksums.largest_deviation(KERNELS[kernel], size, contestant.arrays())
            if deviations[name] <= checksums.tolerance(kernel):
                taken[name] = first
            else:
                failed[name] = f"wrong result: differs by {deviations[name]:.1e}"
        except Lost as loss:
            failed[name] = str(loss)
    fastest = min((t[0] for n, t in taken.items() if n != OURS), default=float("inf"))
    racing = {n: max(1, round(TURN / t[0])) for n, t in taken.items() if n == OURS or t[0] <= SLOW * fastest}
    begin, done = time.perf_counter(), 0
    while racing and (done < ROUNDS or time.perf_counter() - begin < seconds):
        for name in [*racing][done % len(racing):] + [*racing][:done % len(racing)]:
            time.sleep(PAUSE)
            try:
                turn = statistics.median(contestants[name].run(racing[name]))
                taken[name] = [*taken[name], turn] if done else [turn]
            except Lost as loss:
                failed[name] = str(loss)
        racing = {n: c for n, c in racing.items() if n not in failed}
        done += 1
    return {n: t for n, t in taken.items() if n not in failed}, deviations
