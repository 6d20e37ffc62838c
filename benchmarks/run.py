"""polytc and its peers on tables of operators: the same computations, in turns; times, ratios and goals.

    python benchmarks/run.py gemm conv memory [--only 3x3] [--threads 1] [--peers onnxruntime,openvino]
                             [--seconds 1] [--json out.json] [--plot out.svg]
    python benchmarks/run.py --show out.json        # tables and plot of stored results, nothing measured

benchmarks/README.md says how to read what it prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from versus import contest, peers, plot, report
from versus.case import Set
from versus.sets import SETS
from versus.worker import Worker, limit_threads

WIDTH = 190


def main(tables: Annotated[list[str] | None, typer.Argument(metavar="SET...", help=f"{', '.join(SETS)}; or all.")] = None,
         only: Annotated[str, typer.Option(help="Cases whose name holds one of these texts, separated by commas.")] = "",
         part: Annotated[str, typer.Option(metavar="K/N", help="Every N-th case, from the K-th on.")] = "1/1",
         threads: Annotated[int, typer.Option(min=1)] = 1,
         against: Annotated[str, typer.Option("--peers", help="Separated by commas; those installed, if not given.")] = "",
         seconds: Annotated[float, typer.Option(help="Of timing for each case, all contenders together.")] = 1.0,
         json: Annotated[Path | None, typer.Option(help="Write results there; those of other cases in it stay.")] = None,
         figure: Annotated[Path | None, typer.Option("--plot", help="A .png or .svg of all ratios.")] = None,
         show: Annotated[Path | None, typer.Option(help="Print the results of this JSON file, measure nothing.")] = None,
         ) -> None:
    """Measure, print, and keep."""
    console = Console(width=WIDTH)
    if show is not None:
        run = report.read(show)
    else:
        chosen = [(s, [c.name for c in s.cases]) for s in map(_table, _names(tables))]
        run = _measure([(s, _selected(names, only, part)) for s, names in chosen], threads, _peers(against), seconds, console)
        if json is not None:
            run.write(json)
    report.show(run, console)
    if figure is not None:
        plot.draw(run, figure)


def _names(tables: list[str] | None) -> list[str]:
    if not tables:
        raise typer.BadParameter(f"name a set: {', '.join(SETS)}, or all")
    return list(SETS) if tables == ["all"] else tables


def _table(name: str) -> Set:
    if name not in SETS:
        raise typer.BadParameter(f"there is no set {name!r}; the sets are {', '.join(SETS)}")
    return SETS[name]


def _peers(against: str) -> list[str]:
    """Those named, else all, as far as they are installed."""
    wanted = [p for p in against.split(",") if p] or list(peers.PEERS)
    unknown = set(wanted) - set(peers.PEERS)
    if unknown:
        raise typer.BadParameter(f"there is no peer {', '.join(sorted(unknown))}; the peers are {', '.join(peers.PEERS)}")
    missing = [p for p in wanted if not peers.installed(p)]
    if missing and against:
        raise typer.BadParameter(f"not installed: {', '.join(missing)}")
    return [p for p in wanted if p not in missing]


def _selected(names: list[str], only: str, part: str) -> list[str]:
    texts = [t for t in only.split(",") if t]
    chosen = [n for n in names if not texts or any(t in n for t in texts)]
    first, _, step = part.partition("/")
    if not (first.isdigit() and step.isdigit() and 1 <= int(first) <= int(step)):
        raise typer.BadParameter(f"--part is K/N with K from 1 to N, not {part!r}")
    return chosen[int(first) - 1::int(step)]


def _measure(tables: list[tuple[Set, list[str]]], threads: int, against: list[str], seconds: float, console: Console
             ) -> report.Run:
    limit_threads(threads)
    workers = {p: Worker(p, threads) for p in (contest.OURS, *against)}
    survey = Worker("machine", threads)
    results = []
    try:
        limits = survey.ask("limits")
        survey.stop()
        versions = {p: w.ask("version") for p, w in workers.items()}
        for table, names in tables:
            for name in names:
                results.append(contest.compete(table.name, table.case(name), workers, seconds, limits))
                console.print(report.line(table, results[-1]), highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        console.print("interrupted: this is what was measured")
    finally:
        for worker in (*workers.values(), survey):
            worker.stop()
    return report.Run(limits, report.versions(versions), tuple(results))


if __name__ == "__main__":
    typer.run(main)
