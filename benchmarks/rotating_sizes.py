"""A model whose sizes change from call to call, compiled once for all of them, and ONNX Runtime in one process, in turns.

    python benchmarks/rotating_sizes.py --model model.onnx --inputs "ids=1,* mask=1,*" --sizes 16:208:8 [--rounds 6]

`*` in the shape of an input stands for the size that changes. A round runs each size once on both runtimes, and both once more
on the same size. The first round, in which code is made, is told apart from the others; the lines tell

    first round   seconds of all its calls, code for all sizes and the loading of the model included
    median        of the times of a call whose size is another one than that of the call before
    ratio         the median, over the sizes, of our time over that of ONNX Runtime
    a new size    how much longer such a call takes than the same again: what finding and binding code for a size costs

More sizes than a model keeps bound code for (compile(kept=), 16) make every call of ours bind anew. Exit code 1 if results
differ from ONNX Runtime's by more than --tolerance of the largest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import polytc
from polytc.cli import inputs
from polytc.graph.ir import Graph
from zoo_case import relative_error, session

Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], list[np.ndarray]]
OURS, THEIRS = "polytc", "ONNX Runtime"


@dataclass
class Times:
    """Seconds of one runtime. load: of reading and compiling; new, again: for each size, of the first call of a turn and of
    the second, a number for each round."""

    load: float
    new: dict[int, list[float]] = field(default_factory=dict)
    again: dict[int, list[float]] = field(default_factory=dict)

    @property
    def first_round(self) -> float:
        return self.load + sum(t[0] for t in self.new.values())

    def warm(self) -> dict[int, float]:
        """The median of the later rounds for each size."""
        return {n: statistics.median(t[1:]) for n, t in self.new.items()}

    def extra(self) -> list[float]:
        """What a call with a new size took beyond the next one, for each of the later ones."""
        return [a - b for n in self.new for a, b in zip(self.new[n][1:], self.again[n][1:], strict=True)]


def shapes(text: str) -> dict[str, tuple[int | None, ...]]:
    """`x=1,3,48,* y=1,*` as extents; None for those that change."""
    found = {}
    for item in text.split():
        name, _, extents = item.rpartition("=")
        found[name] = tuple(None if d == "*" else int(d) for d in extents.split(","))
    return found


def feeds(graph: Graph, given: Mapping[str, tuple[int | None, ...]], size: int) -> Feeds:
    """Random inputs with this size; integers are ones in inputs whose name speaks of a mask."""
    random, found = np.random.default_rng(size), Feeds()
    for v in graph.inputs:
        shape = tuple(size if d is None else d for d in given[v.name])
        dtype = v.dtype.numpy if v.dtype else np.dtype(np.float32)
        found[v.name] = np.ones(shape, dtype) if "mask" in v.name else inputs.random_array(random, shape, dtype)
    return found


def turns(runtimes: Mapping[str, Run], times: Mapping[str, Times], cases: Mapping[int, Feeds], rounds: int) -> float:
    """Run all sizes so many times, and note the seconds. The largest relative difference of ours in the first round."""
    error, random = 0.0, np.random.default_rng(0)
    for k in range(rounds):
        for size in random.permutation(list(cases)).tolist():
            results = {}
            for name in (OURS, THEIRS) if k % 2 else (THEIRS, OURS):
                for into in (times[name].new, times[name].again):
                    start = time.perf_counter()
                    results[name] = runtimes[name](cases[size])
                    into.setdefault(size, []).append(time.perf_counter() - start)
            if k == 0:
                error = max(error, *(relative_error(a, b) for a, b in zip(results[OURS], results[THEIRS], strict=True)))
    return error


def measured(path: Path, given: str, sizes: Sequence[int], rounds: int, threads: int) -> tuple[dict[str, Times], float]:
    """The times of both, and the error."""
    start = time.perf_counter()
    graph = polytc.load_onnx(path)
    model = graph.compile(threads=threads, symbolic=True)
    times = {OURS: Times(time.perf_counter() - start)}
    start = time.perf_counter()
    theirs = session(path, optimised=True, threads=threads)
    times[THEIRS] = Times(time.perf_counter() - start)
    cases = {n: feeds(graph, shapes(given), n) for n in sizes}
    return times, turns({OURS: lambda f: model.run(None, f), THEIRS: theirs}, times, cases, rounds)


def table(times: Mapping[str, Times], title: str) -> Table:
    """A line for each runtime, and the ratios."""
    shown = Table("runtime", "first round", "median", "a new size", title=title)
    for name, t in times.items():
        shown.add_row(name, f"{t.first_round:.2f} s", f"{statistics.median(t.warm().values()) * 1e3:.2f} ms",
                      f"{statistics.median(t.extra()) * 1e3:.2f} ms")
    ours, theirs = times[OURS].warm(), times[THEIRS].warm()
    ratios = [ours[n] / theirs[n] for n in ours]
    shown.add_section()
    shown.add_row("ratio", f"{times[OURS].first_round / times[THEIRS].first_round:.2f}",
                  f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", "")
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--inputs", required=True, help="NAME=1,* for each input, separated by spaces")
    parser.add_argument("--sizes", required=True, help="FROM:TO:STEP, without the end, or numbers separated by commas")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    options = parser.parse_args(arguments)
    if options.rounds < 2:
        parser.error("--rounds: the first round alone tells no times")
    between = [int(n) for n in options.sizes.replace(",", ":").split(":")]
    sizes = list(range(*between)) if ":" in options.sizes else between
    times, error = measured(options.model, options.inputs, sizes, options.rounds, options.threads)
    title = (f"{options.model}, {len(sizes)} sizes from {min(sizes)} to {max(sizes)}, {options.threads} thread(s), "
             f"error {error:.1e}")
    Console(width=120).print(table(times, title))
    return int(not error <= options.tolerance)


if __name__ == "__main__":
    sys.exit(main())
