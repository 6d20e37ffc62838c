"""Do estimates order candidates as time does? `python benchmarks/estimates.py [--only NAME] [--machine FILE] [--count N]`

For 60 programs of the tables in benchmarks/versus, of each set those in even distances: the candidates that a record of
decisions allows (tiles, fusion, packing, Winograd), the five best by estimate, each compiled from its record and timed on one
thread, in turns, beside what polytc decides. Printed are the time of the first by estimate, that of the best, their ratio
(regret), and the rank correlation of estimates and times (Spearman). With --machine once more by the costs of that record:
before, and after.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import polytc
from polytc import compiler, decisions, errors
from polytc.cli.timing import interleaved
from polytc.compiler import Lowered
from polytc.decisions import Entry, Record
from polytc.machine import Machine, record_files
from polytc.schedule.cost import program_time
from polytc.targets import registry
from polytc.targets.llvm.target import LLVMTarget
from versus.case import Case
from versus.peers import polytc_peer
from versus.sets import SETS

SHARES = {"gemm": 10, "conv": 16, "ansor": 10, "memory": 14, "dtypes": 4, "tc": 6}
"""Programs of each set."""
LARGEST_FLOPS, LARGEST_BYTES = 4e8, 16 << 20
BEST = 5
"""Candidates that are timed: those of the smallest estimates."""
HEIGHTS, WIDTHS = (1, 2, 4, 6, 8, 12), (1, 2, 4)
"""Rows and vectors of the tiles that are tried beside what polytc decides."""


@dataclass(frozen=True)
class Candidate:
    """A record, and what was made of it."""

    record: str
    lowered: Lowered


@dataclass(frozen=True)
class Row:
    """Of one program and one machine. first: seconds of the first by estimate; best: of the fastest of the five."""

    name: str
    estimate: float
    first: float
    best: float
    correlation: float

    @property
    def regret(self) -> float:
        return self.first / self.best


def programs(count: int) -> list[Case]:
    """So many of the cases, of each set those in even distances."""
    found = []
    for name, share in SHARES.items():
        cases = [c for c in SETS[name].cases if c.flops <= LARGEST_FLOPS
                 and sum(t.bytes for t in (*c.inputs.values(), *c.outputs.values())) <= LARGEST_BYTES]
        wanted = min(len(cases), max(1, round(share * count / 60)))
        found += [cases[k * len(cases) // wanted] for k in range(wanted)]
    return found


def candidates(case: Case, machine: Machine) -> list[Candidate]:
    """What polytc decides, and other records, of which those that do not fit are left out."""
    program = polytc_peer.program(case)

    def lowered(record: str | None) -> Lowered | None:
        try:
            return compiler.lower_program(program, LLVMTarget(machine), record)
        except errors.CompileError:
            return None
    found: dict[str, Candidate] = {}

    def add(record: str | None) -> Lowered | None:
        low = lowered(record)
        if low is not None:
            found.setdefault(str(low.source), Candidate(str(low.decisions), low))
        return low
    own = add(None)
    assert own is not None
    bases = [own, *filter(None, (add(str(Record((Entry(step, what="none"),)))) for step in ("pack", "winograd")))]
    for base in {str(b.decisions): b for b in bases}.values():
        for record in variants(base):
            add(record)
    return list(found.values())


def variants(base: Lowered) -> Iterator[str]:
    """Records that differ from what was decided: in the policy of fusion, or in the tile of what has most instances."""
    entries = base.decisions.entries
    rewriting = [e for e in entries if e.step not in ("fusion", "group", "threads", "tile", "band")]
    for policy in ("min", "max"):
        yield str(Record((*rewriting, Entry("fusion", values=(("policy", policy),)))))
    points = {s.name: s.points for s in base.rewritten.statements}
    tiles = [e for e in entries if e.step == "tile" and dict(e.values).get("vector")]
    heavy = max(tiles, key=lambda e: points.get(e.statement, 0), default=None)
    if heavy is None:
        return
    values = dict(heavy.values)
    rows, sizes, vector = list(_texts(values["rows"])), list(_numbers(values["sizes"])), str(values["vector"])
    lanes = base.target.machine.lanes(4)
    at = rows.index(vector)
    others = [r for r in range(len(rows)) if r != at]
    jam = max(others, key=lambda r: sizes[r], default=None)
    for height in HEIGHTS if jam is not None else (1,):
        for width in WIDTHS:
            tile = list(sizes)
            tile[at] = width * lanes
            if jam is not None:
                tile[jam] = height
            changed = tuple(v if n != "sizes" else (n, tuple(tile)) for n, v in ((x[0], x) for x in heavy.values)
                            if n not in ("blocked", "along", "block", "depth", "unrolled", "caches"))
            kept = tuple(e if e is not heavy else replace(e, values=changed) for e in entries)
            yield str(Record(kept))


def _texts(value: Any) -> Sequence[str]:
    return value if isinstance(value, tuple) else (str(value),)


def _numbers(value: Any) -> Sequence[int]:
    return value if isinstance(value, tuple) else (int(value),)


def estimates(found: Sequence[Candidate], machine: Machine) -> list[float]:
    """Seconds of each."""
    return [program_time.estimate(c.lowered.rewritten, decisions.read(c.record), machine).seconds for c in found]


def times(case: Case, found: Sequence[Candidate], seconds: float) -> list[float]:
    """Median seconds of each on one thread, in turns."""
    rng = np.random.default_rng(0)
    arrays = {n: t.random(rng) for n, t in case.inputs.items()}
    shapes, types = {n: t.shape for n, t in case.inputs.items()}, {n: t.dtype for n, t in case.inputs.items()}
    constants = {n: arrays[n] for n, t in case.inputs.items() if t.constant}
    calls = {}
    for k, c in enumerate(found):
        asked: Mapping[str, Any] = {"threads": 1, "decisions": c.record, "dtypes": types}
        op: Any = polytc.compile(case.text, constants=constants, **asked) if constants else \
            polytc.compile(case.text, shapes=shapes, **asked)
        given = [arrays[n] for n in op.inputs]
        out = op(*given)
        calls[str(k)] = lambda op=op, given=given, out=out: op(*given, out=out)
    taken = interleaved(calls, seconds)
    return [taken[str(k)].median for k in range(len(found))]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """The correlation of ranks, equal values sharing theirs; nan where one of the two has one rank alone."""
    x, y = _ranks(a), _ranks(b)
    return float(np.corrcoef(x, y)[0, 1]) if len(set(x)) > 1 and len(set(y)) > 1 else math.nan


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(values)
    return [(order.index(v) + len(order) - 1 - order[::-1].index(v)) / 2 for v in values]


def measured(case: Case, machines: Mapping[str, Machine], seconds: float) -> dict[str, Row]:
    """A row for each machine: the candidates that any of them has among its best, and what polytc
    decides, the first of them, are timed together."""
    found = candidates(case, next(iter(machines.values())))
    by = {name: estimates(found, m) for name, m in machines.items()}
    chosen = {name: sorted(range(len(found)), key=lambda k: each[k])[:BEST] for name, each in by.items()}
    timed = sorted({0, *(k for best in chosen.values() for k in best)})
    taken = dict(zip(timed, times(case, [found[k] for k in timed], seconds), strict=True))
    rows = {}
    for name, best in chosen.items():
        rows[name] = Row(case.name, by[name][best[0]], taken[best[0]], min(taken[0], *(taken[k] for k in best)),
                         spearman([by[name][k] for k in best], [taken[k] for k in best]))
    return rows


def summary(name: str, rows: Sequence[Row]) -> str:
    """The last line of a machine."""
    known = [r.correlation for r in rows if not math.isnan(r.correlation)]
    regret = math.exp(statistics.fmean(math.log(r.regret) for r in rows)) if rows else math.nan
    mean, worst = statistics.fmean(known) if known else math.nan, max(rows, key=lambda r: r.regret)
    return (f"{name}: {len(rows)} programs, rank correlation {mean:.2f} in the mean of {len(known)}, "
            f"regret {regret:.3f} (geometric mean), worst {worst.regret:.2f} ({worst.name})")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs with this in their names")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.3, help="for the timing of a program's candidates")
    parser.add_argument("--machine", help="a record of `polytc devices --measure`, to be compared with the described costs")
    given = parser.parse_args(arguments)
    machines = {"described": registry.target("cpu").machine}
    if given.machine:
        machines["measured"] = record_files.named(given.machine)
    print(f"{'program':44}{'by':>11}{'estimate':>11}{'first':>11}{'best':>11}{'regret':>8}{'rank':>7}")
    rows: dict[str, list[Row]] = {name: [] for name in machines}
    for case in programs(given.count):
        if given.only not in case.name:
            continue
        for name, row in measured(case, machines, given.seconds).items():
            rows[name].append(row)
            print(f"{row.name[:43]:44}{name:>11}" + "".join(f"{1e6 * t:>11.1f}" for t in (row.estimate, row.first, row.best))
                  + f"{row.regret:>8.2f}{row.correlation:>7.2f}", flush=True)
    for name, found in rows.items():
        if found:
            print(summary(name, found))


if __name__ == "__main__":
    main()
