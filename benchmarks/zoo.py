"""Compile and run a folder of ONNX models, compare results with ONNX Runtime, times with it and OpenVINO: one line a model.

    python benchmarks/zoo.py FOLDER [--only a,b] [--target cpu] [--threads 1] [--rounds 7]

FOLDER/NAME/model.onnx is a model; FOLDER/NAME/io.npz, where there is one, holds its inputs as arrays `in_INPUT`. Otherwise
inputs are random, and extents without a number are 1 (batch, channels) or 64. The error is the largest difference from ONNX
Runtime, divided by the largest magnitude of that output. Times are medians of rounds in which all take turns; OpenVINO is left
out where it is not installed or refuses a model. Exit code 1 if an error is above 1e-4 or a model fails.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import typer
from rich.console import Console
from rich.table import Table

import polytc
from polytc.cli import peers
from polytc.graph.ir import Graph

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Result:
    """error: relative to the largest magnitude of the output; times in seconds."""

    name: str
    kernels: int
    error: float
    compile_time: float
    run_time: float
    reference_time: float
    openvino_time: float | None

    @property
    def ratio(self) -> float:
        """Our time over that of the faster of the others: below 1 is faster than both."""
        return self.run_time / min(t for t in (self.reference_time, self.openvino_time) if t is not None)

    @property
    def other(self) -> str:
        """OpenVINO's time in ms, if it was measured."""
        return "-" if self.openvino_time is None else f"{self.openvino_time * 1e3:.2f}"

    def line(self) -> str:
        verdict = "" if self.error <= TOLERANCE else "  WRONG"
        return (f"{self.name:20} error {self.error:8.1e}  compile {self.compile_time:6.2f} s  "
                f"run {self.run_time * 1e3:8.2f} ms  "
                f"onnxruntime {self.reference_time * 1e3:8.2f} ms  openvino {self.other:>8} ms  ratio {self.ratio:5.2f}  "
                f"{self.kernels} programs{verdict}")


def feeds_of(folder: Path, graph: Graph) -> dict[str, np.ndarray]:
    """Inputs from io.npz, or random ones."""
    stored = folder / "io.npz"
    if stored.exists():
        with np.load(stored) as archive:
            return {k.removeprefix("in_"): archive[k] for k in archive.files if k.startswith("in_")}
    random = np.random.default_rng(0)
    feeds = {}
    for v in graph.inputs:
        shape = [d if isinstance(d, int) else (1 if axis < 2 else 64) for axis, d in enumerate(v.shape or ())]
        dtype = v.dtype.numpy if v.dtype else np.dtype(np.float32)
        numbers = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2, shape)
        feeds[v.name] = numbers.astype(dtype)
    return feeds


def reference(path: Path, threads: int) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
    """ONNX Runtime with its own optimisations, on as many threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, dict(feeds))


def median_times(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Median seconds of each call, the calls taking turns; the first round is not counted."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for own, call in zip(times, calls, strict=True):
            start = time.perf_counter()
            call()
            own.append(time.perf_counter() - start)
    return [statistics.median(own[1:]) for own in times]


def measure(folder: Path, target: str, threads: int, rounds: int) -> Result:
    """One model."""
    start = time.perf_counter()
    graph = polytc.load_onnx(folder / "model.onnx")
    feeds = feeds_of(folder, graph)
    model = graph.compile(target=target, threads=threads, shapes={n: a.shape for n, a in feeds.items()})
    mine = model.run(None, feeds)
    compile_time = time.perf_counter() - start
    run = reference(folder / "model.onnx", threads)
    theirs = run(feeds)
    error = max((relative_error(a, b) for a, b in zip(mine, theirs, strict=True)), default=0.0)
    calls: list[Callable[[], object]] = [lambda: model.run(None, feeds), lambda: run(feeds)]
    with contextlib.suppress(peers.Refused, typer.BadParameter):
        calls.append(peers.openvino(folder / "model.onnx", feeds, threads))
    own, theirs_time, *openvino = median_times(calls, rounds)
    return Result(folder.name, model.kernels, error, compile_time, own, theirs_time, next(iter(openvino), None))


def relative_error(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference over the largest magnitude; infinite where shapes or types differ, or NaNs do."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype or not np.array_equal(np.isnan(mine), np.isnan(theirs)):
        return float("inf")
    if mine.size == 0:
        return 0.0
    a, b = np.nan_to_num(mine.astype(np.float64)), np.nan_to_num(theirs.astype(np.float64))
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def show(results: list[Result], failed: list[str], threads: int) -> None:
    table = Table(title=f"polytc, ONNX Runtime and OpenVINO, {threads} thread(s); ratio: to the faster of both")
    for column in ("model", "error", "programs", "compile s", "run ms", "onnxruntime ms", "openvino ms", "ratio"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for r in results:
        table.add_row(r.name, f"{r.error:.1e}", str(r.kernels), f"{r.compile_time:.2f}", f"{r.run_time * 1e3:.2f}",
                      f"{r.reference_time * 1e3:.2f}", r.other, f"{r.ratio:.2f}")
    if results:
        mean = statistics.geometric_mean(r.ratio for r in results)
        table.add_section()
        table.add_row("geometric mean", "", "", "", "", "", "", f"{mean:.2f}")
    console = Console(width=110)
    console.print(table)
    if failed:
        console.print(f"failed: {', '.join(failed)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    chosen = [n for n in arguments.only.split(",") if n]
    folders = sorted(p.parent for p in arguments.folder.glob("*/model.onnx") if not chosen or p.parent.name in chosen)
    if not folders:
        parser.error(f"no model.onnx below {arguments.folder}")
    results: list[Result] = []
    failed: list[str] = []
    for folder in folders:
        try:
            results.append(measure(folder, arguments.target, arguments.threads, arguments.rounds))
            print(results[-1].line(), flush=True)
        except Exception as error:  # one broken model must not hide the others
            failed.append(folder.name)
            print(f"{folder.name:20} FAILED {type(error).__name__}: {error}", flush=True)
    show(results, failed, arguments.threads)
    return 1 if failed or any(not r.error <= TOLERANCE for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
