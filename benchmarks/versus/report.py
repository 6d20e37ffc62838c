"""Results as a table, as lines while they come, and as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from versus.case import Goal, Peer, Set
from versus.contest import OURS, Result
from versus.machine import Limits
from versus.sets import SETS


@dataclass(frozen=True)
class Run:
    """What a file holds: results measured on one machine with one number of threads. versions: of contender -> text."""

    limits: Limits
    versions: Mapping[Peer, str]
    results: tuple[Result, ...]

    def write(self, path: Path) -> None:
        """As JSON; results that the file has of other cases stay."""
        kept = {(r.table, r.case): r for r in (read(path).results if path.exists() else ())}
        kept |= {(r.table, r.case): r for r in self.results}
        data = {"machine": {**asdict(self.limits), "platform": platform.platform(), "python": platform.python_version()},
                "versions": dict(self.versions), "results": [r.as_json() for r in kept.values()]}
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Run:
    data = json.loads(path.read_text(encoding="utf-8"))
    limits = Limits(**{k: v for k, v in data["machine"].items() if k in Limits.__dataclass_fields__})
    return Run(limits, data["versions"], tuple(map(Result.from_json, data["results"])))


@dataclass(frozen=True)
class Verdict:
    """A goal, and what was reached in the cases of its group. missing: cases without a time of ours."""

    goal: Goal
    cases: int
    geomean: float
    worst: float
    missing: int

    @property
    def met(self) -> bool:
        return self.cases > 0 and self.missing == 0 and self.geomean <= self.goal.geomean and (
            self.goal.worst is None or self.worst <= self.goal.worst)

    def __str__(self) -> str:
        if not self.cases:
            return "nothing to compare"
        bound = "" if self.goal.worst is None else f", goal {self.goal.worst}"
        missing = f", {self.missing} without a time of ours" * (self.missing > 0)
        return (f"{self.cases} cases, geometric mean {self.geomean:.2f} (goal {self.goal.geomean}), worst {self.worst:.2f}"
                f"{bound}{missing}: {'met' if self.met else 'MISSED'}")


def judge(goal: Goal, results: Sequence[Result]) -> Verdict:
    ratios = [r for r in (result.ratio(goal.against) for result in results) if r is not None]
    missing = sum(OURS not in r.times for r in results)
    return Verdict(goal, len(ratios), statistics.geometric_mean(ratios) if ratios else 1.0, max(ratios, default=0.0), missing)


def show(run: Run, console: Console) -> None:
    """A table for each set, worst cases first, and the verdicts."""
    for name in dict.fromkeys(r.table for r in run.results):
        table, results = SETS[name], [r for r in run.results if r.table == name]
        console.print(_table(table, results, run.limits.threads))
        for group, goal in table.goals.items():
            verdict = judge(goal, [r for r in results if r.group == group])
            console.print(f"{group or table.title}: {verdict}", style="green" if verdict.met else "red")
        for line in _below_limits(results):
            console.print(line, style="red")
        for result in results:
            for peer, reason in result.failed.items():
                console.print(f"{result.case}: {peer}: {reason.splitlines()[0][:150]}", style="yellow", highlight=False)
    machine = run.limits
    console.print(f"{machine.cpu}, {machine.threads} thread(s): {machine.fma:.0f} GFLOP/s fused multiply-adds (f32), "
                  f"{machine.copy:.1f} GB/s copying")
    console.print(", ".join(f"{p} {v}" for p, v in run.versions.items()), highlight=False)


def _table(table: Set, results: Sequence[Result], threads: int) -> Table:
    peers = [p for p in dict.fromkeys(p for r in results for p in r.times) if p != OURS]
    shown = Table(title=f"{table.title}; {threads} thread(s), median ms")
    for column in ("case", OURS, *peers, "best peer", "ratio", "speed", "of limit", "error"):
        shown.add_column(column, justify="left" if column in ("case", "best peer") else "right", no_wrap=True)

    def badness(r: Result) -> float:
        return _ratio(table, r) or (float("inf") if OURS not in r.times else 0.0)

    for r in sorted(results, key=badness, reverse=True):
        shown.add_row(*_cells(table, r, peers))
    return shown


def _cells(table: Set, r: Result, peers: Sequence[Peer]) -> list[str]:
    times = [f"{r.times[p].median * 1e3:.4g}" if p in r.times else "-" for p in (OURS, *peers)]
    ratio, best = _ratio(table, r), r.best(table.goals[r.group].against)
    ours = r.times.get(OURS)
    unit = "GFLOP/s" if r.flops else "GB/s"
    speed = f"{r.rate(OURS):.1f} {unit}" if ours else "-"
    share = f"{r.share():.2f}" if ours else "-"
    return [r.case, *times, best or "-", "-" if ratio is None else f"{ratio:.2f}", speed, share,
            f"{ours.error:.0e}" if ours else "-"]


def _ratio(table: Set, r: Result) -> float | None:
    return r.ratio(table.goals[r.group].against)


def _below_limits(results: Sequence[Result]) -> list[str]:
    """Cases that do not reach the share of the machine's limit that they are to reach."""
    lines = []
    for r in results:
        if r.least is not None and OURS in r.times:
            limit, least = r.least
            if r.share(limit) < least:
                lines.append(f"{r.case}: {r.share(limit):.2f} of the machine's {limit} limit, goal {least}")
    return lines


def line(table: Set, r: Result) -> str:
    """A result in one line, as it comes."""
    times = "  ".join(f"{p} {t.median * 1e3:.4g}" for p, t in r.times.items())
    ratio = _ratio(table, r)
    speed = f"{r.rate(OURS):.0f} {'GFLOP/s' if r.flops else 'GB/s'}" if OURS in r.times else ""
    failed = "".join(f"  {p}: {reason.splitlines()[0][:60]}" for p, reason in r.failed.items())
    return f"{table.name} {r.case:34} {'-' if ratio is None else f'{ratio:.2f}':>6}  {speed:>12}  ms: {times}{failed}"


def versions(peers: Mapping[Peer, str]) -> dict[Peer, str]:
    """With that of the code generator."""
    return {**peers, "llvmlite": importlib.metadata.version("llvmlite")}
