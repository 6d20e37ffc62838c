"""`polytc bench`: time a program, or an ONNX model beside other runtimes, on random or given arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import polytc
from polytc.arguments import check_machine
from polytc.cli import inputs, options, peers, tables
from polytc.cli.model import feeds_for
from polytc.cli.run import Input, Seed, prepare
from polytc.cli.timing import Times, duration, interleaved
from polytc.codegen.target import Target
from polytc.graph.comparison import largest_error

Measured = Annotated[str, typer.Argument(metavar="FILE|TEXT|MODEL.onnx",
                                         help="A program as for `polytc run`, or an ONNX model.")]
Against = Annotated[str, typer.Option("--vs", metavar="onnxruntime,openvino", help="For a model: runtimes to compare with.")]


def bench(program: Measured, input: Input = None, random: Seed = 0,
          target: options.Target = "cpu", threads: options.Threads = None,
          shape: options.OpenShape = None, size: options.Size = None, dtype: options.DType = None,
          attr: options.Attr = None, scalar: options.Scalar = None, algebra: options.Algebra = None, fast: options.Fast = False,
          symbolic: options.Symbolic = False, machine: options.Machine = None,
          vs: Against = "",
          seconds: Annotated[float, typer.Option(min=0.01, help="How long to repeat the call.")] = 1.0) -> None:
    """Time a program or a model: the first call, which compiles, and the calls after it."""
    if program.endswith(".onnx") and Path(program).is_file():
        feeds = (options.shapes(shape), inputs.load(input), random)
        made_for = check_machine(target, machine)
        _model(Path(program), feeds, made_for, threads, algebra, fast, symbolic, peers.chosen(vs), seconds)
        return
    if vs:
        raise typer.BadParameter("--vs compares ONNX models; see benchmarks/run.py for programs")
    op, arrays = prepare(options.read_text(program), input, random, target, threads, shape, size, dtype, attr, scalar, algebra,
                         fast, machine)
    ordered = tuple(arrays.values())
    start = time.perf_counter()
    op(*ordered)
    first = time.perf_counter() - start
    times = interleaved({"calls": lambda: op(*ordered)}, seconds)["calls"]
    table = Table("program", "target", "first call", "median", "best", "calls")
    table.add_row(op.name, target, duration(first), duration(times.median), duration(times.best), str(times.calls))
    tables.console().print(table)


def _model(path: Path, given: tuple[Mapping[str, tuple[int, ...]], Mapping[str, np.ndarray], int], target: str | Target,
           threads: int | None, algebra: str | None, fast: bool, symbolic: bool, against: list[str], seconds: float) -> None:
    """Time a model and its peers in turns. given: shapes, arrays and the seed for the inputs."""
    graph = polytc.load_onnx(path)
    feeds = feeds_for(graph, *given)
    start = time.perf_counter()
    model = graph.compile(target=target, threads=threads, algebra=algebra, fast=fast, symbolic=symbolic,
                          shapes={n: a.shape for n, a in feeds.items()})
    expected = model.run(None, feeds)
    first = {"polytc": time.perf_counter() - start}
    calls: dict[str, Callable[[], Any]] = {"polytc": lambda: model.run(None, feeds)}
    errors = {"polytc": ""}
    for name in against:
        start = time.perf_counter()
        try:
            calls[name] = peers.PEERS[name](path, feeds, threads)
        except peers.Refused as refusal:
            typer.echo(f"{name} refuses this model: {refusal}", err=True)
            continue
        first[name] = time.perf_counter() - start
        pairs = zip(expected, map(np.asarray, calls[name]()), strict=True)
        errors[name] = f"{max((largest_error(a, b) for a, b in pairs), default=0.0):.1e}"
    tables.console().print(_comparison(path.name, first, interleaved(calls, seconds), errors))


def _comparison(title: str, first: Mapping[str, float], times: Mapping[str, Times], errors: Mapping[str, str]) -> Table:
    """errors: differences of our results from theirs. The last column is their median over ours."""
    table = Table("runtime", "first call", "median", "best", "calls", "difference", "polytc is", title=title)
    for name, t in times.items():
        ratio = "" if name == "polytc" else f"{t.median / times['polytc'].median:.2f} x as fast"
        table.add_row(name, duration(first[name]), duration(t.median), duration(t.best), str(t.calls), errors[name], ratio)
    return table
