"""`polytc bench`: time a program on random or given arrays."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.table import Table

from polytc.cli import options, tables
from polytc.cli.run import Input, Seed, prepare
from polytc.cli.timing import duration, interleaved


def bench(program: options.Program, input: Input = None, random: Seed = 0,
          target: options.Target = "cpu", threads: options.Threads = None,
          shape: options.Shape = None, dtype: options.DType = None, attr: options.Attr = None, scalar: options.Scalar = None,
          algebra: options.Algebra = None,
          seconds: Annotated[float, typer.Option(min=0.01, help="How long to repeat the call.")] = 1.0) -> None:
    """Time a program: the first call, which compiles, and the calls after it."""
    op, arrays = prepare(options.read_text(program), input, random, target, threads, shape, dtype, attr, scalar, algebra)
    ordered = tuple(arrays.values())
    start = time.perf_counter()
    op(*ordered)
    first = time.perf_counter() - start
    times = interleaved({"calls": lambda: op(*ordered)}, seconds)["calls"]
    table = Table("program", "target", "first call", "median", "best", "calls")
    table.add_row(op.name, target, duration(first), duration(times.median), duration(times.best), str(times.calls))
    tables.console().print(table)
