"""One case between all contenders: the results must agree, then they take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from versus.case import Case, Peer
from versus.machine import Limits
from versus.remote import Lost
from versus.worker import Failed, Ready, Worker

TURN = 5e-3
"""Seconds of work in one turn, at least."""
ROUNDS, SLOW_ROUNDS = 5, 3
"""Turns of each, at least; the second where a round takes longer than all of the time that was asked for."""
HOPELESS = 20.0
"""A contender that needs so many times as long as the fastest gets a single turn."""
OURS = "polytc"


@dataclass(frozen=True)
class Timed:
    """Seconds of a call. error: the largest difference from the reference results, relative to their largest magnitude.
    prepared: seconds to compile, with the first call."""

    median: float
    best: float
    rounds: int
    error: float
    prepared: float


@dataclass(frozen=True)
class Result:
    """A case as it was measured. limits: of the machine, a moment before. failed: why contenders took no part."""

    table: str
    case: str
    group: str
    flops: float
    traffic: int
    least: tuple[str, float] | None
    limits: Limits
    times: Mapping[Peer, Timed]
    failed: Mapping[Peer, str] = field(default_factory=dict)

    def best(self, against: Sequence[Peer]) -> Peer | None:
        """The fastest of those peers with a right result."""
        able = [p for p in against if p in self.times and p != OURS]
        return min(able, key=lambda p: self.times[p].median, default=None)

    def ratio(self, against: Sequence[Peer]) -> float | None:
        """Our time over that of the best of the peers: below 1 we are faster. None where there is nothing to compare."""
        best = self.best(against)
        return self.times[OURS].median / self.times[best].median if best and OURS in self.times else None

    def rate(self, peer: Peer) -> float:
        """GFLOP/s, or GB/s where no operations are counted."""
        return (self.flops or self.traffic) / self.times[peer].median * 1e-9

    def share(self, limit: str = "") -> float:
        """Our speed over what the machine can do: 'fma' or 'copy', or what fits the unit of the speed."""
        return self.rate(OURS) / self.limits.of(limit or ("fma" if self.flops else "copy"))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Result:
        least = data["least"]
        return Result(**{**data, "least": least and (least[0], least[1]), "limits": Limits(**data["limits"]),
                         "times": {p: Timed(**t) for p, t in data["times"].items()}})


def compete(table: str, case: Case, workers: Mapping[Peer, Worker], seconds: float, limits: Limits, least: float = TURN
            ) -> Result:
    """Measure a case. seconds: of timing, all contenders together; least: of work in one turn."""
    ready, failed = _prepare(table, case, workers)
    errors, wrong = _judge(case, ready)
    failed |= wrong
    active = {p: workers[p] for p in ready if p not in wrong}
    taken = _take_turns(active, seconds, failed, least)
    times = {p: Timed(statistics.median(t), min(t), len(t), errors[p], ready[p].seconds) for p, t in taken.items() if t}
    for peer, worker in workers.items():
        if peer in ready:
            worker.ask("release")
    return Result(table, case.name, case.group, case.flops, case.traffic, case.least, limits, times, failed)


def _prepare(table: str, case: Case, workers: Mapping[Peer, Worker]) -> tuple[dict[Peer, Ready], dict[Peer, str]]:
    ready: dict[Peer, Ready] = {}
    failed: dict[Peer, str] = {}
    for peer, worker in workers.items():
        try:
            answer = worker.ask("prepare", table, case.name)
        except Lost as loss:
            answer = Failed(str(loss))
        if isinstance(answer, Ready):
            ready[peer] = answer
        elif answer.reason:
            failed[peer] = answer.reason
    return ready, failed


def _judge(case: Case, ready: Mapping[Peer, Ready]) -> tuple[dict[Peer, float], dict[Peer, str]]:
    """(errors, those whose result is wrong): the reference is the result from which most of the others do not differ."""
    differences = {p: {q: max(map(difference, ready[p].results, ready[q].results), default=0.0) for q in ready} for p in ready}
    agreeing = {p: sum(d <= case.tolerance for d in row.values()) for p, row in differences.items()}
    reference = max((p for p in ready if p != OURS), key=lambda p: agreeing[p], default=OURS)
    errors = {p: differences[p][reference] for p in ready}
    wrong = {p: f"wrong result: differs by {e:.1e}" for p, e in errors.items() if not e <= case.tolerance}
    return errors, wrong


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference over the largest magnitude of `b`; infinite where shapes, types or NaNs differ."""
    if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    x, y = np.nan_to_num(a.astype(np.float64)), np.nan_to_num(b.astype(np.float64))
    return float(np.abs(x - y).max(initial=0.0) / max(np.abs(y).max(initial=0.0), 1e-30))


def _take_turns(active: Mapping[Peer, Worker], seconds: float, failed: dict[Peer, str], least: float
                ) -> dict[Peer, list[float]]:
    """Seconds of a call in each turn. Who is lost on the way joins the failed. least: seconds of work in a turn."""
    taken: dict[Peer, list[float]] = {p: [] for p in active}

    def turn(peer: Peer, count: int) -> None:
        try:
            taken[peer].append(active[peer].ask("run", count) / count)
            if active[peer].threads > 1:
                active[peer].settle()
        except Lost as loss:
            failed[peer] = str(loss)
            taken.pop(peer)

    for peer in active:
        turn(peer, 1)
    first = {p: t[-1] for p, t in taken.items()}
    fastest = min(first.values(), default=0.0)
    racing = [p for p in taken if first[p] <= HOPELESS * fastest or p == OURS and first[p] < seconds]
    for peer in racing:
        turn(peer, max(1, int(least / first[peer])))
    counts = {p: max(1, round(least / taken[p][-1])) for p in racing if p in taken}
    rounds = ROUNDS if sum(n * taken[p][-1] for p, n in counts.items()) <= seconds else SLOW_ROUNDS
    for peer in counts:
        taken[peer].clear()
    end, done = time.perf_counter() + seconds, 0
    while counts and (done < rounds or time.perf_counter() < end):
        order = list(counts)
        for peer in order[done % len(order):] + order[:done % len(order)]:
            if peer in taken:
                turn(peer, counts[peer])
        done += 1
    return taken
