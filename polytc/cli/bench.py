"""`polytc bench`: time a program on random or given arrays."""

from __future__ import annotations

import statistics
import time
from typing import Annotated

import typer
from rich.table import Table

from polytc.cli import options, tables
from polytc.cli.run import Input, Seed, prepare


def bench(program: options.Program, input: Input = None, random: Seed = 0,
          target: options.Target = "cpu", threads: options.Threads = None,
          shape: options.Shape = None, dtype: options.DType = None, attr: options.Attr = None, scalar: options.Scalar = None,
          seconds: Annotated[float, typer.Option(min=0.01, help="How long to repeat the call.")] = 1.0) -> None:
    """Time a program: the first call, which compiles, and the calls after it."""
    op, arrays = prepare(options.read_text(program), input, random, target, threads, shape, dtype, attr, scalar)
    ordered = tuple(arrays.values())
    start = time.perf_counter()
    op(*ordered)
    first = time.perf_counter() - start
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        op(*ordered)
        times.append(time.perf_counter() - start)
    table = Table("program", "target", "first call", "median", "best", "calls")
    table.add_row(op.name, target, duration(first), duration(statistics.median(times)), duration(min(times)), str(len(times)))
    tables.console().print(table)


def duration(seconds: float) -> str:
    """A time as text, e.g. '1.24 ms'."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"
    return ""
