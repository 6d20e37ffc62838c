"""Where the time of a model goes: each kernel's, against the least that its arithmetic and its bytes would take here."""

from __future__ import annotations

import io
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from polytc.explanation import costs, roofline
from polytc.graph.plan import Call
from polytc.graph.running.instance import Instance
from polytc.runtime.call_chains import Chain

WARMING = 2
"""Runs that are not counted."""


@dataclass(frozen=True)
class Kernel:
    """One program of a model. number: of the call; result: type of its first output; start, seconds: medians over the runs, the
    start counted from that of the first kernel; operations: of all its statements, bytes: of its inputs and outputs, each
    counted once; bound: seconds that these take at least, see explanation.roofline; None where that was not measured."""

    number: int
    label: str
    result: str
    start: float
    seconds: float
    operations: int
    bytes: int
    bound: roofline.Bound | None

    @property
    def fraction(self) -> float | None:
        """The bound over the time: 1 is as fast as this machine can, above 1 has fewer operations than the text says (Winograd)
        or found its data in a cache."""
        return self.bound.seconds / self.seconds if self.bound is not None and self.seconds > 0 else None

    def times(self, rounds: int) -> Kernel:
        """All rounds of a kernel together, from one of them."""
        b = self.bound
        bound = replace(b, arithmetic=b.arithmetic * rounds, memory=b.memory * rounds) if b is not None else None
        return replace(self, start=self.start * rounds, seconds=self.seconds * rounds, operations=self.operations * rounds,
                       bytes=self.bytes * rounds, bound=bound)


class _Printed(Table):
    """A table that `print` shows as rich does."""

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=140).print(self)
        return text.getvalue()


@dataclass(frozen=True)
class Profile:
    """kernels: in the order of their runs. seconds: median of the whole run, `between`: of that, what was no kernel. Prints as
    a table, the slowest first."""

    name: str
    threads: int
    runs: int
    kernels: tuple[Kernel, ...]
    seconds: float

    @property
    def between(self) -> float:
        return self.seconds - sum(k.seconds for k in self.kernels)

    def __str__(self) -> str:
        return str(self.table())

    def __rich__(self) -> Table:
        return self.table()

    def table(self, most: int | None = None) -> Table:
        """Kernels by time; most: rows at most, None for all."""
        title = f"{self.name}: {self.seconds * 1e3:.3f} ms, median of {self.runs} runs, {self.threads} thread(s)"
        table = _Printed(title=title)
        for column in ("#", "kernel", "result"):
            table.add_column(column, overflow="ellipsis", no_wrap=True)
        for column in ("ms", "%", "GFLOP/s", "GB/s", "of roof", "limit"):
            table.add_column(column, justify="right", no_wrap=True)
        for k in sorted(self.kernels, key=lambda k: -k.seconds)[:most]:
            time = max(k.seconds, 1e-12)
            table.add_row(str(k.number), k.label, k.result, f"{k.seconds * 1e3:.3f}", f"{k.seconds / self.seconds * 100:.1f}",
                          f"{k.operations / time / 1e9:.1f}", f"{k.bytes / time / 1e9:.1f}",
                          "" if k.fraction is None else f"{k.fraction:.2f}", "" if k.bound is None else k.bound.limit)
        table.add_section()
        table.add_row("", "between kernels", "", f"{self.between * 1e3:.3f}", f"{self.between / self.seconds * 100:.1f}")
        return table

    def trace(self) -> dict[str, Any]:
        """The Trace Event Format of Chrome (chrome://tracing) and Perfetto; times in microseconds."""
        return {"displayTimeUnit": "ns", "traceEvents": [
            {"name": k.label, "cat": "kernel", "ph": "X", "pid": 0, "tid": 0, "ts": k.start * 1e6, "dur": k.seconds * 1e6,
             "args": {"number": k.number, "result": k.result, "operations": k.operations, "bytes": k.bytes,
                      "fraction of roofline": k.fraction}} for k in self.kernels]}

    def save(self, path: str | Path) -> None:
        """Write `trace` as JSON."""
        Path(path).write_text(json.dumps(self.trace()), encoding="utf-8")


def profile(parts: Sequence[tuple[Instance, Mapping[str, np.ndarray]]], threads: int, runs: int, roofs: bool) -> Profile:
    """Time each kernel in some runs. parts: of a model, in order, with arrays for their inputs; what runs between them is left
    out. roofs: measure those of this machine, a tenth of a second once."""
    kernels: list[Kernel] = []
    seconds = 0.0
    for instance, arrays in parts:
        one = _profile(instance, arrays, threads, runs, roofs)
        kernels += [replace(k, number=k.number + len(kernels), start=k.start + seconds) for k in one.kernels]
        seconds += one.seconds
    return Profile(parts[0][0].plan.name if parts else "", threads, runs, tuple(kernels), seconds)


def _profile(instance: Instance, arrays: Mapping[str, np.ndarray], threads: int, runs: int, roofs: bool) -> Profile:
    """One part, all its rounds together."""
    rounds = instance.plan.rounds
    stamps: list[list[tuple[int, int]]] = []

    def go(chain: Chain) -> None:
        stamps.append(chain.timed())

    for _ in range(runs + WARMING):
        instance.run(arrays, (), go)
    counted = stamps[WARMING * rounds:]
    kernels = []
    for k, call in enumerate(instance.plan.calls):
        start = statistics.median(run[k][0] - run[0][0] for run in counted) / 1e9
        seconds = statistics.median(run[k][1] - run[k][0] for run in counted) / 1e9
        kernels.append(_kernel(instance, k, call, start, seconds, threads, roofs).times(rounds))
    whole = statistics.median(run[-1][1] - run[0][0] for run in counted) / 1e9 * rounds if kernels else 0.0
    return Profile(instance.plan.name, threads, runs, tuple(kernels), whole)


def _kernel(instance: Instance, number: int, call: Call, start: float, seconds: float, threads: int, roofs: bool) -> Kernel:
    """One round of it; the type of its result is that of all rounds."""
    cost = costs.costs(call.program)
    kind = roofline.kind(call.program) if roofs else None
    bound = None if kind is None else roofline.bound(cost, roofline.roofs(kind), threads)
    return Kernel(number, call.label, str(instance.plan.outside(call.outputs[0])), start, seconds,
                  int(cost.operations.value), cost.compulsory, bound)
