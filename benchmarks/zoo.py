"""Compile and run a folder of ONNX models, compare results and times with ONNX Runtime and OpenVINO: one table.

    python benchmarks/zoo.py FOLDER [--only a,b] [--threads 1,2] [--seconds 1] [--json rows.json] [--batch N]

Each model is a process (benchmarks/zoo_case.py), so that one that fails, crashes or takes longer than --timeout is a row, and
each runtime is one, too (benchmarks/zoo_turns.py): they take turns, while the threads of all others sleep. Models with open
extents run at three sizes. Times are medians; OpenVINO is left out where it is not installed or refuses a model. A model that
polytc refuses because an operator is not its (E605) is no failure.
Peaks of memory: benchmarks/peak_memory.py.

--json keeps a line for each model as it is done; models that the file has already are not run again, so that a run that was cut
short goes on. Exit code 1 if an error is above what the model allows (1e-4, or the `tol` of meta.json) or a model fails.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from zoo_case import Row

CASE = Path(__file__).parent / "zoo_case.py"
COUNTED = 2e-4
"""Seconds: models that take less in the fastest runtime are not in the geometric mean."""


@dataclass(frozen=True)
class Outcome:
    """What became of a model. failure: why it was not run to its end, '' if it was; refused: polytc says at import that it does
    not have an operator."""

    model: str
    rows: list[Row]
    failure: str = ""
    refused: bool = False

    @property
    def right(self) -> bool:
        return self.refused or not self.failure and all(r.error <= r.allowed for r in self.rows)

    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, line: str) -> Outcome:
        """What `line` wrote."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**{**fields, "rows": [Row(**r) for r in fields["rows"]]})


def child(arguments: Sequence[str], timeout: float) -> tuple[list[str], str]:
    """The lines that zoo_case.py printed, and why it did not end well."""
    command = [sys.executable, str(CASE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as late:
        return _text(late.stdout).splitlines(), f"not done after {timeout:.0f} s"
    if done.returncode == 0:
        return done.stdout.splitlines(), ""
    said = done.stderr.strip().splitlines() or [""]
    reason = next((x for x in said if x.startswith("E6")), said[-1])
    return done.stdout.splitlines(), f"exit code {done.returncode}: {reason[:300]}"


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def measured(folder: Path, options: argparse.Namespace) -> Outcome:
    """One model, in processes of its own."""
    arguments = [str(folder), "--threads", options.threads, "--seconds", str(options.seconds), "--target", options.target,
                 "--batch", str(options.batch)]
    lines, failure = child(arguments, options.timeout)
    rows = [Row(**json.loads(x)) for x in lines if x.startswith("{")]
    return Outcome(folder.name, rows, failure, "E605" in failure)


def table(outcomes: Sequence[Outcome], threads: int) -> Table:
    """The rows of some number of threads, the slowest against the others first."""
    shown = Table(title=f"polytc, ONNX Runtime and OpenVINO, {threads} thread(s); ratio: to the faster of both")
    columns = ("model", "error", "programs", "fallbacks", "compile s", "arena MB", "run ms", "onnxruntime", "openvino", "ratio")
    for column in columns:
        shown.add_column(column, justify="left" if column == "model" else "right")
    rows = [r for o in outcomes for r in o.rows if r.threads == threads]
    for r in sorted(rows, key=lambda row: -(row.ratio or 0)):
        times = [f"{r.times[n] * 1e3:.2f}" if n in r.times else "-" for n in ("polytc", "onnxruntime", "openvino")]
        wrong = "" if r.error <= r.allowed else " WRONG"
        shown.add_row(f"{r.model} {r.size}".strip(), f"{r.error:.1e}{wrong}", str(r.kernels), str(len(r.fallbacks)),
                      f"{r.compile:.1f}", f"{r.arena / 1e6:.2f}", *times, "-" if r.ratio is None else f"{r.ratio:.2f}")
    ratios = list(counted(rows))
    if ratios:
        shown.add_section()
        shown.add_row("geometric mean", *[""] * 8, f"{statistics.geometric_mean(ratios):.2f}")
    return shown


def counted(rows: Sequence[Row]) -> Iterator[float]:
    """The ratios that count for the mean: of models that take long enough."""
    for r in rows:
        others = [t for n, t in r.times.items() if n != "polytc"]
        if r.ratio is not None and min(others) >= COUNTED:
            yield r.ratio


def known(path: Path | None) -> dict[str, Outcome]:
    """What an earlier run left in a file; what failed there is run again."""
    if path is None or not path.exists():
        return {}
    found = [Outcome.of(x) for x in path.read_text().splitlines()]
    return {o.model: o for o in found if o.refused or not o.failure}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--threads", default="1", help="numbers, separated by commas")
    parser.add_argument("--seconds", type=float, default=1.0, help="of turns, for each row")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a model, all its rows together")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--batch", type=int, default=0, help="first extent of the inputs where it is 1 or open; a file a batch")
    options = parser.parse_args()
    chosen = [n for n in options.only.split(",") if n]
    folders = sorted(p.parent for p in options.folder.glob("*/model.onnx") if not chosen or p.parent.name in chosen)
    if not folders:
        parser.error(f"no model.onnx below {options.folder}")
    before = known(options.json)
    outcomes = []
    for folder in folders:
        done = before.get(folder.name) or measured(folder, options)
        outcomes.append(done)
        print(f"{done.model:20} {done.failure or ('ok' if done.right else 'WRONG')}", flush=True)
        before[folder.name] = done
        if options.json:
            options.json.write_text("".join(o.line() + "\n" for o in before.values()))
    console = Console(width=170)
    for threads in options.threads.split(","):
        console.print(table(outcomes, int(threads)))
    failed = [o for o in outcomes if not o.right]
    for o in outcomes:
        if o.failure:
            console.print(f"{o.model}: {o.failure}", highlight=False)
        for fallback in sorted({f for r in o.rows for f in r.fallbacks}):
            console.print(f"{o.model}: onnx's evaluator runs the {fallback}", highlight=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
