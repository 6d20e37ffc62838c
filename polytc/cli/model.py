"""`polytc compile`: compile an ONNX model, say what came out, and check and time it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import polytc
from polytc.cli import inputs, options, peers, tables
from polytc.cli.run import Input, Seed
from polytc.cli.timing import duration, interleaved
from polytc.graph.comparison import allowed_error, largest_error

if TYPE_CHECKING:
    from polytc import Graph


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL.onnx", exists=True, dir_okay=False, help="An ONNX file.")]


def compile_model(model: ModelFile, target: options.Target = "cpu", threads: options.Threads = None,
                  algebra: options.Algebra = None, fast: options.Fast = False, shape: options.OpenShape = None,
                  size: options.SizeRange = None, symbolic: options.Symbolic = False, machine: options.Machine = None,
                  input: Input = None, random: Seed = 0,
                  output: Annotated[Path | None, typer.Option(
                      "--output", "-o", help="A .npz for the outputs, or a folder for the model compiled for C.")] = None,
                  processor: Annotated[str, typer.Option(
                      help="For C: host, x86-64-v3, x86-64-v4, x86-64 (both), or aarch64.")] = "host",
                  report: Annotated[bool, typer.Option("--report", help="Print what the model consists of.")] = False,
                  text: Annotated[bool, typer.Option("--text", help="Print the graph and stop.")] = False,
                  check: Annotated[bool, typer.Option("--check", help="Compare with ONNX Runtime, time both.")] = False
                  ) -> None:
    """Compile an ONNX model and run it once. Dimensions without a number are 1 unless --shape says otherwise."""
    graph = polytc.load_onnx(model)
    if text:
        print(graph)
        return
    if report:
        print(graph.report())
    if output is not None and output.suffix != ".npz":
        if symbolic:
            raise typer.BadParameter("code in a folder has ranges of its sizes: say --size NAME=1:64, not --symbolic")
        _export(graph, model, output, options.open_shapes(shape), options.ranges(size), processor, algebra, fast)
        return
    if size:
        raise typer.BadParameter("--size is for code that is written to a folder; a run has --shape, and --symbolic")
    feeds = feeds_for(graph, options.shapes(shape), inputs.load(input), random)
    start = time.perf_counter()
    with progress(f"compiling {model.name}") as advance:
        compiled = graph.compile(target=target, threads=threads, shapes={n: a.shape for n, a in feeds.items()},
                                 progress=advance, algebra=algebra, fast=fast, symbolic=symbolic, machine=machine)
    seconds = time.perf_counter() - start
    results = dict(zip((v.name for v in graph.outputs), compiled.run(None, feeds)))
    if output is not None:
        inputs.save(output, results)
    tables.print_arrays(results)
    print(f"compiled for {target} in {duration(seconds)}")
    if check and not _check(model, compiled, feeds, results, threads):
        raise typer.Exit(1)


def _export(graph: Graph, model: Path, folder: Path, given: Mapping[str, tuple[int | str, ...]],
            sizes: Mapping[str, tuple[int, int]], processor: str, algebra: str | None, fast: bool) -> None:
    """The model as an object file with a header, for C."""
    _known(graph, given)
    from polytc.graph import ahead  # slow to import

    with progress(f"compiling {model.name}") as advance:
        files = ahead.export(graph, folder, given, processor, model.stem, algebra, advance, fast, sizes)
    for path in (files.code, files.header, files.weights, files.main, *files.packages):
        print(f"{path}  {path.stat().st_size:,} bytes")
    print(f"cc -O2 {files.main.name} {files.code.name} -lm -lpthread -o {files.code.stem}")


def fixed_shapes(graph: Graph, given: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs for code that serves one set of them: those given, else those declared. A usage error for one
    that is neither."""
    _known(graph, given)
    for v in graph.inputs:
        if v.name not in given and v.static_shape is None:
            shape = ",".join(map(str, v.shape)) if v.shape is not None else "..."
            raise typer.BadParameter(f"the model leaves sizes of {v.name} open, and code in a folder is for one set of sizes: "
                                     f"give numbers for --shape {v.name}={shape}")
    return dict(given)


def _known(graph: Graph, names: Iterable[str]) -> None:
    """A usage error for a name that no input has."""
    known = [v.name for v in graph.inputs]
    unknown = [n for n in names if n not in known]
    if unknown:
        raise typer.BadParameter(f"the model has no input {', '.join(unknown)}; it has {', '.join(known)}")


def feeds_for(graph: Graph, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, np.ndarray], seed: int
           ) -> dict[str, np.ndarray]:
    """Arrays for the inputs: those given, else random ones of the shapes given or declared. Says which sizes are made 1."""
    _known(graph, (*shapes, *given))
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in graph.inputs:
        if value.name in given:
            feeds[value.name] = given[value.name]
            continue
        extents = shapes.get(value.name)
        if extents is None and value.shape is None:
            raise typer.BadParameter(f"the model does not say the rank of {value.name}: give --shape {value.name}=...")
        if extents is None:
            extents = tuple(d if isinstance(d, int) else 1 for d in value.shape or ())
            if value.static_shape is None:
                typer.echo(f"{value}: taken as {'x'.join(map(str, extents))}; --shape {value.name}=... says else", err=True)
        dtype = np.dtype(np.float32) if value.dtype is None else value.dtype.numpy
        # Integers are mostly indices into tables: 0 and 1 are valid in all of them.
        small = rng.integers(0, 2, extents).astype(dtype)
        feeds[value.name] = inputs.random_array(rng, extents, dtype) if dtype.kind == "f" else small
    return feeds


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error for what takes longer than a second; yields `advance(done, total, what)`."""
    bar = Progress(TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("{task.fields[what]}"), console=Console(stderr=True), transient=True)
    task = bar.add_task("compile", total=None, what="")
    start, shown = time.monotonic(), False

    def advance(done: int, total: int, what: str) -> None:
        nonlocal shown
        bar.update(task, completed=done, total=total, what=what)
        if not shown and time.monotonic() - start > 1:
            bar.start()
            shown = True

    try:
        yield advance
    finally:
        bar.stop()


def _check(path: Path, compiled: Any, feeds: dict[str, np.ndarray], results: dict[str, np.ndarray],
           threads: int | None) -> bool:
    """Compare with ONNX Runtime and print both times; False where a result is wrong."""
    try:
        peer = peers.onnxruntime(path, feeds, threads)
    except peers.Refused as refusal:
        typer.echo(f"--check is not possible: ONNX Runtime refuses this model: {refusal}", err=True)
        return False
    reference = peer()
    good = True
    for (name, found), expected in zip(results.items(), reference):
        error = largest_error(found, expected)
        allowed = allowed_error(expected.dtype)
        good &= error <= allowed
        print(f"{name}: largest error {error:.2g} relative to ONNX Runtime's largest magnitude"
              + ("" if error <= allowed else "  WRONG"))
    times = interleaved({"polytc": lambda: compiled.run(None, feeds), "ONNX Runtime": peer})
    table = Table("", "median", "best", "calls")
    for name, t in times.items():
        table.add_row(name, duration(t.median), duration(t.best), str(t.calls))
    tables.console().print(table)
    return good
