"""The memory of whole processes that load a model and run it three times, and their processor time up to the first result.

    python benchmarks/peak_memory.py FOLDER [--only a,b] [--threads 1] [--repeat 1] [--cache PATH] [--json rows.json]

Each number is of a process of its own (benchmarks/model_start.py) that imports numpy and one runtime: polytc with nothing on
disk, which compiles; polytc with its code on disk; ONNX Runtime.

peak      most bytes resident at one time, files that are mapped included (VmHWM)
private   most bytes that are of no file (RssAnon, looked at every few milliseconds)
first s   processor time, user and system, from the start of Python to the first result

error     largest difference from ONNX Runtime's results, over the largest magnitude of that output

Peaks are the smallest of --repeat processes, times the median. Exit code 1 if polytc's peak is above ONNX Runtime's, or if what
was found on disk gives other results than what was compiled. (What errors are allowed: benchmarks/zoo.py.)
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

START = Path(__file__).parent / "model_start.py"
INTERVAL = 4e-3
"""Seconds between two looks at a process."""
ALLOWED = 1.0
"""polytc's peak over ONNX Runtime's."""


@dataclass(frozen=True)
class Sample:
    """What a process took. peak, private, forks: bytes, the last of its largest child; processor: seconds up to the first
    result."""

    peak: int
    private: int
    forks: int
    processor: float


@dataclass(frozen=True)
class Row:
    """A model: `cold`, `cached`, `onnxruntime`; failures: way -> the last line of what it said. error: see the head."""

    model: str
    samples: dict[str, Sample]
    failures: dict[str, str]
    error: float | None = None

    @property
    def ratio(self) -> float | None:
        """Of the peaks of a start from disk and of ONNX Runtime."""
        ours, theirs = self.samples.get("cached"), self.samples.get("onnxruntime")
        return ours.peak / theirs.peak if ours is not None and theirs is not None else None

    @classmethod
    def of(cls, line: str) -> Row:
        """What a line of the file says."""
        fields = json.loads(line)
        return cls(fields["model"], {n: Sample(**s) for n, s in fields["samples"].items()}, fields["failures"],
                   fields["error"])


def sample(command: Sequence[str], environment: dict[str, str], timeout: float) -> Sample | str:
    """What a process takes, or why it failed."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        private, end = 0, time.monotonic() + timeout
        while process.poll() is None:
            private = max(private, _resident(process.pid))
            time.sleep(INTERVAL)
            if time.monotonic() > end:
                process.kill()
                return f"not done after {timeout:.0f} s"
        out, said = process.communicate()
    if process.returncode:
        return (said.strip().splitlines() or [f"exit code {process.returncode}"])[-1][:200]
    found = json.loads(out.splitlines()[-1])
    return Sample(found["peak"], max(private, found["anonymous"]), found["forks"], found["processor"])


def _resident(pid: int) -> int:
    """Bytes of a process that are of no file; 0 if it ended meanwhile."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def measured(folder: Path, options: argparse.Namespace, cache: Path) -> Row:
    """All three ways of a model."""
    around = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # users have byte code on disk
    kept = {**around, "POLYTC_CACHE_DIR": str(cache / folder.name)}  # models may share programs
    samples, failures, results = dict[str, Sample](), dict[str, str](), dict[str, list[np.ndarray]]()
    ways = {"cold": ("polytc", kept, 1), "cached": ("polytc", kept, options.repeat),
            "onnxruntime": ("onnxruntime", around, options.repeat)}
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "results.npz"
        for way, (runtime, environment, count) in ways.items():
            command = [sys.executable, str(START), str(folder), runtime, "--threads", str(options.threads), "--keep", str(file)]
            found = [sample(command, environment, options.timeout) for _ in range(count)]
            done = [x for x in found if isinstance(x, Sample)]
            if len(done) < count:
                failures[way] = next(x for x in found if isinstance(x, str))
                continue
            samples[way] = Sample(min(x.peak for x in done), min(x.private for x in done), min(x.forks for x in done),
                                  statistics.median(x.processor for x in done))
            with np.load(file) as archive:
                results[way] = [archive[n] for n in archive.files]
    if not failures and any(a.tobytes() != b.tobytes() for a, b in zip(results["cold"], results["cached"], strict=True)):
        failures["cached"] = "other results than those of the process that compiled"
    return Row(folder.name, samples, failures, None if failures else max(map(error, results["cached"], results["onnxruntime"])))


def error(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference over the largest magnitude; infinite where shapes differ."""
    if mine.shape != theirs.shape:
        return float("inf")
    a, b = (np.nan_to_num(x.astype(np.float64)) for x in (mine, theirs))
    return float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-30))


def table(rows: Sequence[Row]) -> Table:
    """The worst ratio first."""
    shown = Table(title="peak memory in MB (in brackets: what is of no file), seconds of processor time to the first result")
    for column in ("model", "polytc", "onnxruntime", "ratio", "polytc cold", "its forks", "polytc s", "onnxruntime s", "error"):
        shown.add_column(column, justify="left" if column == "model" else "right")
    for r in sorted(rows, key=lambda row: -(row.ratio or 0)):
        ours, theirs, cold = (r.samples.get(way) for way in ("cached", "onnxruntime", "cold"))
        ratio = "-" if r.ratio is None else f"{r.ratio:.2f}"
        forks = f"{cold.forks / 1e6:.0f}" if cold is not None else "-"
        times = [f"{s.processor:.2f}" if s is not None else "-" for s in (ours, theirs)]
        shown.add_row(r.model, _bytes(ours), _bytes(theirs), ratio, _bytes(cold), forks, *times,
                      "-" if r.error is None else f"{r.error:.0e}")
    return shown


def _bytes(found: Sample | None) -> str:
    return f"{found.peak / 1e6:.0f} ({found.private / 1e6:.0f})" if found is not None else "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for a process")
    parser.add_argument("--cache", type=Path, help="folder for polytc's caches, kept: what is there is not compiled again")
    parser.add_argument("--json", type=Path, help="a line for each model; what is there and did not fail is not run again")
    options = parser.parse_args()
    chosen = [n for n in options.only.split(",") if n]
    folders = sorted(p.parent for p in options.folder.glob("*/io.npz") if not chosen or p.parent.name in chosen)
    if not folders:
        parser.error(f"no model with io.npz below {options.folder}")
    lines = options.json.read_text().splitlines() if options.json and options.json.exists() else []
    known = {r.model: r for r in map(Row.of, lines) if not r.failures}
    with tempfile.TemporaryDirectory() as fresh:
        for folder in folders:
            row = known.get(folder.name) or measured(folder, options, options.cache or Path(fresh))
            known[row.model] = row
            print(f"{row.model:20} {row.ratio or 0:5.2f} {row.failures or ''}", flush=True)
            if options.json:
                options.json.write_text("".join(json.dumps(asdict(r)) + "\n" for r in known.values()))
    rows = [known[f.name] for f in folders]
    Console(width=140).print(table(rows))
    return 1 if any((r.ratio or 0) > ALLOWED or r.failures for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
