"""PolyBench/C 4.2.1: polytc against C compilers, in turns; times, ratios, goals, compile times.

    python benchmarks/polybench.py [--size LARGE] [--threads 2] [--only gemm,lu] [--source FOLDER] [--peers clang,polly]
                                   [--seconds 2] [--json out.json]
    python benchmarks/polybench.py --show out.json          # the table of stored results, nothing measured

FOLDER is where PolyBench/C 4.2.1 was unpacked; without it polytc alone is measured. benchmarks/README.md says how to read what
it prints.
"""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import polytc
from polyrun import compilers, report, turns
from polyrun.contestant import Contestant
from polyrun.kernels import KERNELS, SIZES, checksums
from versus.machine import cpu_name

WIDTH = 150


def main(size: Annotated[str, typer.Option(help=", ".join(SIZES))] = "LARGE",
         threads: Annotated[int, typer.Option(min=1)] = 2,
         only: Annotated[str, typer.Option(help="Kernels, separated by commas.")] = "",
         source: Annotated[Path | None, typer.Option(help="PolyBench/C's folder.", exists=True, file_okay=False)] = None,
         against: Annotated[str, typer.Option("--peers", help="Separated by commas; those installed, if not given.")] = "",
         seconds: Annotated[float, typer.Option(help="Of timing for each kernel, all contenders together.")] = 2.0,
         json: Annotated[Path | None, typer.Option(help="Write results there; others in it stay.")] = None,
         show: Annotated[Path | None, typer.Option(help="Print the results of this JSON file, measure nothing.")] = None,
         keep_checksums: Annotated[bool, typer.Option(help="Of the C programs' results, in examples/polybench.")] = False,
         ) -> None:
    """Measure, print, and keep."""
    console = Console(width=WIDTH)
    if show is not None:
        report.show(report.read(show), console)
        return
    if size not in SIZES:
        raise typer.BadParameter(f"there is no size {size!r}; the sizes are {', '.join(SIZES)}")
    kernels = _kernels(only)
    if keep_checksums:
        _keep_checksums(kernels, size, source)
        return
    run = _measure(kernels, size, threads, _peers(against, source), source, seconds, console)
    if json is not None:
        run.write(json)
        run = report.read(json)
    report.show(run, console)


def _kernels(only: str) -> list[str]:
    chosen = [k for k in only.split(",") if k] or list(KERNELS)
    unknown = set(chosen) - set(KERNELS)
    if unknown:
        raise typer.BadParameter(f"there is no kernel {', '.join(sorted(unknown))}; the kernels are {', '.join(KERNELS)}")
    return chosen


def _peers(against: str, source: Path | None) -> list[str]:
    """Those named, else all, as far as they are installed."""
    if source is None and not against:
        return []
    if source is None:
        raise typer.BadParameter("peers need --source")
    wanted = [p for p in against.split(",") if p] or [p for p in compilers.PEERS if p != compilers.EXACT]
    unknown = set(wanted) - set(compilers.PEERS)
    if unknown:
        raise typer.BadParameter(f"there is no peer {', '.join(sorted(unknown))}; the peers are {', '.join(compilers.PEERS)}")
    missing = [p for p in wanted if compilers.command(p) is None]
    if missing and against:
        raise typer.BadParameter(f"not installed: {', '.join(missing)}")
    return [p for p in wanted if p not in missing]


def _measure(kernels: list[str], size: str, threads: int, peers: list[str], source: Path | None, seconds: float,
             console: Console) -> report.Run:
    if hasattr(os, "sched_setaffinity"):  # for all contestants
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    results = []
    try:
        for kernel in kernels:
            results.append(turns.compete(kernel, size, threads, peers, source, seconds))
            console.print(report.line(results[-1]), highlight=False, soft_wrap=True, markup=False)
    except KeyboardInterrupt:
        console.print("interrupted: this is what was measured")
    versions = {turns.OURS: polytc.__version__, **{p: compilers.version(p) for p in peers}}
    return report.Run(size, threads, f"{cpu_name()}, {platform.platform()}", versions, tuple(results))


def _keep_checksums(kernels: list[str], size: str, source: Path | None) -> None:
    if source is None or compilers.command(compilers.EXACT) is None:
        raise typer.BadParameter("checksums are those of PolyBench's own programs: they need --source and gcc")
    with tempfile.TemporaryDirectory() as folder:
        for kernel in kernels:
            program = compilers.build(compilers.EXACT, source, kernel, size, 1, Path(folder))
            contestant = Contestant([program], {}, turns.PATIENCE)
            contestant.run()
            checksums.keep(KERNELS[kernel], size, contestant.arrays())
            contestant.stop()


if __name__ == "__main__":
    typer.run(main)
