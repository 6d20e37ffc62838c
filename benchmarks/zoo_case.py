"""One model of a folder beside other runtimes (benchmarks/zoo_turns.py): what benchmarks/zoo.py starts.

    python benchmarks/zoo_case.py FOLDER/NAME [--threads 1,2] [--seconds 1] [--target cpu] [--batch N]    rows as lines of JSON

FOLDER/NAME/model.onnx is the model; io.npz, where there is one, holds its inputs as arrays `in_INPUT`, and meta.json the error
that is allowed as `tol`. Else inputs are random, and extents without a number are 1 (batch, channels) or 64.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import polytc
import zoo_batch
from polytc.graph.ir import Dim, Graph, Value
from zoo_turns import OURS, Runtimes

TOLERANCE = 1e-4
SMALL = 8
"""Extents below are taken for batches, which grow by one; others by the next in this list that divides them."""
STEPS = (32, 16, 8, 4, 1)

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Row:
    """One model at one size on some threads.

    size: extents of the inputs, where they are open. error: largest difference from ONNX Runtime without its optimisations,
    over the largest magnitude of that output; allowed: how large it may be. kernels: programs; fallbacks: nodes that onnx's
    evaluator runs. compile: seconds to the first result, in the first row of some threads from the file on. arena: bytes.
    times: seconds of `polytc`, `onnxruntime`, `openvino`: of those that run the model.
    """

    model: str
    size: str
    threads: int
    error: float
    allowed: float
    kernels: int
    fallbacks: list[str]
    compile: float
    arena: int
    times: dict[str, float]

    @property
    def ratio(self) -> float | None:
        """Our time over that of the fastest other: below 1 is faster than all."""
        others = [t for name, t in self.times.items() if name != OURS]
        return self.times[OURS] / min(others) if others else None


def feeds_of(folder: Path, graph: Graph) -> Feeds:
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


def open_extents(inputs: tuple[Value, ...], feeds: Feeds) -> dict[object, int]:
    """The extents of these feeds that the model leaves open, by name; those without a name that are equal are taken for one."""
    return {_key(d, extent): extent for v in inputs if v.shape is not None
            for d, extent in zip(v.shape, feeds[v.name].shape) if not isinstance(d, int)}


def _key(d: Dim, extent: int) -> object:
    return d if isinstance(d, str) else extent


def grown(extent: int, times: int) -> int:
    """A larger extent that a model which halves it a few times probably takes as well."""
    return extent + times * (1 if extent < SMALL else next(s for s in STEPS if extent % s == 0))


def resized(inputs: tuple[Value, ...], feeds: Feeds, new: Mapping[object, int]) -> Feeds:
    """Feeds of other extents: the old ones repeated or cut."""
    found = dict(feeds)
    for v in inputs:
        for axis, d in enumerate(v.shape or ()):
            extent = feeds[v.name].shape[axis]
            if not isinstance(d, int) and _key(d, extent) in new:
                found[v.name] = np.take(found[v.name], np.arange(new[_key(d, extent)]), axis, mode="wrap")
    return {n: np.ascontiguousarray(a).reshape(a.shape) for n, a in found.items()}


def sizes(inputs: tuple[Value, ...], feeds: Feeds, accepted: Callable[[Feeds], bool]) -> Iterator[Feeds]:
    """The feeds, and for a model of open extents two larger ones that it accepts: all extents grow, or else only the batch, or
    only the largest."""
    yield feeds
    extents = open_extents(inputs, feeds)
    for times in (1, 2):
        largest = max(extents.values(), default=0)
        batch, longest = ({k: e for k, e in extents.items() if c(e)} for c in (SMALL.__gt__, largest.__eq__))
        for chosen in (extents, batch, longest):
            other = resized(inputs, feeds, {k: grown(e, times) for k, e in chosen.items()})
            if chosen and accepted(other):
                yield other
                break


def relative_error(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference over the largest magnitude; infinite where shapes or types differ, or NaNs do."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype or not np.array_equal(np.isnan(mine), np.isnan(theirs)):
        return float("inf")
    if mine.size == 0:
        return 0.0
    a, b = np.nan_to_num(mine.astype(np.float64)), np.nan_to_num(theirs.astype(np.float64))
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def session(path: Path, optimised: bool, threads: int = 1) -> Callable[[Feeds], list[np.ndarray]]:
    """A model in ONNX Runtime."""
    import onnxruntime  # slow to import

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: made.run(None, feeds)


def expected(path: Path, graph: Graph, feeds: Feeds) -> list[tuple[Feeds, list[np.ndarray]]]:
    """The sizes of a model, each with ONNX Runtime's results."""
    run = session(path, optimised=False)
    results: dict[int, list[np.ndarray]] = {}

    def accepted(other: Feeds) -> bool:
        try:
            results[id(other)] = run(other)
        except Exception:  # its exceptions have no common base
            return False
        return True
    return [(each, results[id(each)] if id(each) in results else run(each)) for each in sizes(graph.inputs, feeds, accepted)]


def measure(folder: Path, target: str, threads: list[int], seconds: float, batch: int = 0) -> Iterator[Row]:
    """The rows of a model; of the one with that batch, if one is given. Raises SystemExit with what ours says if it fails."""
    path = folder / "model.onnx"
    graph = polytc.load_onnx(path)
    feeds = feeds_of(folder, graph)
    with TemporaryDirectory() as made:
        if batch:
            path, feeds = zoo_batch.batched(path, batch, Path(made)), zoo_batch.repeated(feeds, batch)
            cases = [(feeds, session(path, optimised=False)(feeds))]
        else:
            cases = expected(path, graph, feeds)
        yield from _rows(folder, path, graph, cases, target, threads, seconds)


def _rows(folder: Path, path: Path, graph: Graph, cases: list[tuple[Feeds, list[np.ndarray]]], target: str, threads: list[int],
          seconds: float) -> Iterator[Row]:
    meta = json.loads((folder / "meta.json").read_text()) if (folder / "meta.json").exists() else {}
    for count in threads:
        runtimes = Runtimes(path, target, count)
        try:
            for feeds, theirs in cases:
                ready = runtimes.prepare(feeds)
                for name, reason in runtimes.refusals.items():
                    print(f"{name}: {reason}", file=sys.stderr)
                if OURS not in ready:
                    sys.exit(runtimes.refusals[OURS])
                mine = ready[OURS]
                error = max((relative_error(a, b) for a, b in zip(mine.results, theirs, strict=True)), default=0.0)
                shapes = " ".join("x".join(map(str, feeds[v.name].shape)) for v in graph.inputs
                                  if v.static_shape != feeds[v.name].shape)
                yield Row(folder.name, shapes, count, error, (meta.get("tol") or [TOLERANCE])[0], mine.kernels,
                          list(mine.fallbacks), mine.seconds, mine.arena, runtimes.times(list(ready), seconds))
        finally:
            runtimes.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--batch", type=int, default=0)
    arguments = parser.parse_args()
    try:
        threads = [int(t) for t in arguments.threads.split(",")]
        for row in measure(arguments.folder, arguments.target, threads, arguments.seconds, arguments.batch):
            print(json.dumps(asdict(row) if math.isfinite(row.error) else {**asdict(row), "error": 1e300}), flush=True)
    except polytc.ModelError as error:
        sys.exit(f"{error.code} {error}")


if __name__ == "__main__":
    main()
