"""Kernels for GPUs under oclgrind, which finds races, accesses outside of arrays, barriers that not all items of a group reach
and values that nobody stored; their results are compared as well.

    python -m tests.races [polybench] [nodes] [histograms] [attention] [byte_sums] [stencils] [--every 10]
        [--machine generic-gpu/16] [--only REGEX] [--minutes 60]

polybench: all its kernels, of the size MINI. nodes: of onnx's tests of single operators the first of each operator, and
every Nth after it. histograms: scattered updates, in which items meet. byte_sums: by dot products of words. stencils:
several iterations in a launch. Each program runs for each machine, in processes that are made anew when they crash. Prints
what is found, a line each, and last how many programs ran; exit code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_suite
from examples.polybench.kernels import KERNELS
from tests import drivers
from tests.races.attention import NAMES as ATTENTION
from tests.races.byte_sums import NAMES as BYTE_SUMS
from tests.races.histograms import TEXTS
from tests.races.stencils import CASES

HERE = Path(__file__).parent
SCRIPTS = {"polybench": HERE / "kernels.py", "nodes": HERE / "nodes.py", "histograms": HERE / "histograms.py",
           "attention": HERE / "attention.py", "byte_sums": HERE / "byte_sums.py", "stencils": HERE / "stencils.py"}
MACHINES = ("generic-gpu", "generic-gpu/16", "amd-gfx90a", "mali")
"""The groups of 16 items are several where programs are small; with wide wavefronts; without local memory."""
REFUSED = re.compile(r"\b(?:E605|E608)\b")
"""Codes of what no native code is made for, which is not what is looked for here."""


@dataclass(frozen=True)
class Found:
    """What is wrong with a program on a machine; reason: '' if nothing is."""

    part: str
    name: str
    machine: str
    reason: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.part} {self.name} on {self.machine}: {self.reason}"


def names(part: str, every: int, only: str) -> list[str]:
    """What runs of a part."""
    if part == "polybench":
        return [n for n in sorted(KERNELS) if re.search(only, n)]
    if part == "histograms":
        return [n for n in TEXTS if re.search(only, n)]
    if part == "attention":
        return [n for n in ATTENTION if re.search(only, n)]
    if part == "byte_sums":
        return [n for n in BYTE_SUMS if re.search(only, n)]
    if part == "stencils":
        return [n for n in CASES if re.search(only, n)]
    tests = [t for t in onnx_suite.catalogue(("node",)) if re.search(only, t.name) and not onnx_suite.explained(t.name)]
    return [t.name for t in onnx_suite.sample(tests, every) if t.dense]


def found(part: str, chosen: list[str], machines: list[str], timeout: float = 300, until: float = float("inf"),
          arguments: Sequence[str] = ()) -> Iterator[Found]:
    """What is found, one by one, until that time; nothing of what is refused. arguments: further ones of the script."""
    for machine in machines:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**drivers.environment("oclgrind", Path(folder)), "POLYTC_CACHE_DIR": f"{folder}/cache",
                           "OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_NUM_THREADS": "1"}
            child = onnx_suite.Child([sys.executable, str(SCRIPTS[part]), machine, *arguments], timeout, environment)
            try:
                for name in chosen:
                    if time.monotonic() > until:
                        break
                    outcome = child.run(name)
                    if not REFUSED.search(outcome.native):
                        yield Found(part, name, machine, outcome.native, outcome.seconds)
            finally:
                child.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.races", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*SCRIPTS, []], default=[*SCRIPTS])
    parser.add_argument("--every", type=int, default=10, help="of onnx's tests of an operator, one in so many")
    parser.add_argument("--machine", action="append", help=f"instead of {', '.join(MACHINES)}; may be given several times")
    parser.add_argument("--only", default="", help="programs whose name matches")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after that")
    parser.add_argument("--verbose", action="store_true", help="print what is right as well")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    count = bad = 0
    for part in given.parts:
        for x in found(part, names(part, given.every, given.only), given.machine or list(MACHINES), until=until):
            count, bad = count + 1, bad + bool(x.reason)
            if x.reason or given.verbose:
                print(f"{x} ({x.seconds} s)", flush=True)
    print(f"{count} programs ran, {bad} with findings")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
