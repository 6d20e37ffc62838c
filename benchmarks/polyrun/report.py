"""Results of PolyBench's kernels as a table, as lines while they come, and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from polyrun.turns import OURS, Result, Timed


@dataclass(frozen=True)
class Goal:
    """Our time over the best peer's may be this in each of the kernels; geomean: on the average of them."""

    name: str
    ratio: float
    kernels: tuple[str, ...]


GOALS = (
    Goal("dense", 0.25, ("gemm", "2mm", "3mm", "syrk", "syr2k", "symm", "trmm", "doitgen", "covariance", "correlation",
                         "cholesky", "lu", "ludcmp", "gramschmidt")),
    Goal("stencils", 0.5, ("jacobi-2d", "heat-3d", "fdtd-2d", "seidel-2d", "adi")),
    Goal("min-plus", 0.3, ("floyd-warshall", "nussinov")),
)
GEOMEAN, FASTER = 0.3, 28
"""Of all 30 kernels at LARGE: the geometric mean of the ratios, and in how many we are to be faster."""
COMPILE_MEDIAN, COMPILE_WORST = 1.0, 5.0
"""Seconds."""


@dataclass(frozen=True)
class Run:
    """What a file holds: one problem size, one number of threads. machine, versions: in words."""

    size: str
    threads: int
    machine: str
    versions: Mapping[str, str]
    results: tuple[Result, ...]

    def write(self, path: Path) -> None:
        """As JSON. What the file has already and this run did not measure stays: kernels, and contenders of a kernel."""
        old = read(path) if path.exists() else Run(self.size, self.threads, self.machine, {}, ())
        if (old.size, old.threads) != (self.size, self.threads):
            old = Run(self.size, self.threads, self.machine, {}, ())
        merged = {r.kernel: r for r in old.results}
        for r in self.results:
            before = merged.get(r.kernel, Result(r.kernel, {}, {}))
            times = {n: t for n, t in before.times.items() if n not in r.failed}
            failed = {n: why for n, why in before.failed.items() if n not in r.times}
            merged[r.kernel] = Result(r.kernel, times | dict(r.times), failed | dict(r.failed))
        data = {"size": self.size, "threads": self.threads, "machine": self.machine,
                "versions": {**old.versions, **self.versions}, "results": [asdict(r) for r in merged.values()]}
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Run:
    data = json.loads(path.read_text(encoding="utf-8"))
    results = [Result(r["kernel"], {n: Timed(**t) for n, t in r["times"].items()}, r["failed"]) for r in data["results"]]
    return Run(data["size"], data["threads"], data["machine"], data["versions"], tuple(results))


def show(run: Run, console: Console) -> None:
    """The table, worst ratios first, then what was reached of the goals, and why contenders took no part."""
    peers = [p for p in dict.fromkeys(p for r in run.results for p in r.times) if p != OURS]
    shown = Table(title=f"PolyBench/C 4.2.1, {run.size}, {run.threads} thread(s), median ms")
    for column in ("kernel", OURS, *peers, "best peer", "ratio", "goal", "deviation", "compile s"):
        shown.add_column(column, justify="left" if column in ("kernel", "best peer") else "right", no_wrap=True)
    for r in sorted(run.results, key=_badness, reverse=True):
        shown.add_row(*_cells(r, peers))
    console.print(shown)
    for line in verdicts(run.results):
        console.print(line, highlight=False)
    for r in run.results:
        for name, reason in r.failed.items():
            console.print(f"{r.kernel}: {name}: {reason[:170]}", style="yellow", highlight=False, markup=False)
    console.print(run.machine, highlight=False)
    console.print("; ".join(f"{p}: {v}" for p, v in run.versions.items()), highlight=False)


def _badness(r: Result) -> float:
    ratio = r.ratio()
    return ratio if ratio is not None else float("inf") if OURS not in r.times else 0.0


def _cells(r: Result, peers: Sequence[str]) -> list[str]:
    times = [f"{r.times[p].median * 1e3:.4g}" if p in r.times else "-" for p in (OURS, *peers)]
    ours, ratio = r.times.get(OURS), r.ratio()
    goal = next((f"{g.ratio}" for g in GOALS if r.kernel in g.kernels), "")
    return [r.kernel, *times, r.best_peer() or "-", "-" if ratio is None else f"{ratio:.2f}", goal,
            f"{ours.deviation:.0e}" if ours else "-", f"{ours.compiled:.2f}" if ours else "-"]


def verdicts(results: Sequence[Result]) -> Iterable[str]:
    """A line for each goal, of the kernels that were measured."""
    ratios = {r.kernel: ratio for r in results if (ratio := r.ratio()) is not None}
    if ratios:
        faster = sum(r < 1 for r in ratios.values())
        yield (f"all: {len(ratios)} kernels, geometric mean {statistics.geometric_mean(ratios.values()):.2f} (goal {GEOMEAN}), "
               f"faster in {faster} (goal {FASTER} of 30)")
    for goal in GOALS:
        within = {k: ratios[k] for k in goal.kernels if k in ratios}
        if within:
            missed = [f"{k} {r:.2f}" for k, r in sorted(within.items(), key=lambda item: -item[1]) if r > goal.ratio]
            yield (f"{goal.name}: {len(within) - len(missed)} of {len(within)} within {goal.ratio}"
                   + (f"; missed: {', '.join(missed)}" if missed else ""))
    seconds = [r.times[OURS].compiled for r in results if OURS in r.times]
    if seconds:
        yield (f"compiling: median {statistics.median(seconds):.2f} s (goal {COMPILE_MEDIAN}), "
               f"worst {max(seconds):.2f} s (goal {COMPILE_WORST})")


def line(r: Result) -> str:
    """A result in one line, as it comes."""
    times = "  ".join(f"{p} {t.median * 1e3:.4g}" for p, t in r.times.items())
    ratio = r.ratio()
    failed = "".join(f"  {p}: {reason[:100]}" for p, reason in r.failed.items())
    return f"{r.kernel:15}{'-' if ratio is None else f'{ratio:.2f}':>6}  ms: {times}{failed}"
