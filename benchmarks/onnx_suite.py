"""onnx's official backend tests through `polytc.backend`: how many pass natively, how many with onnx's evaluator for the rest.

    python benchmarks/onnx_suite.py [--target cpu] [--kind node] [--only REGEX] [--every 10] [--workers 2] [--timeout 120]
                                    [--results FILE]

Each test runs twice in a child process, so that no crash or hang ends the run: with `backend.native`, which refuses what only
onnx's evaluator could run, and, if that fails, with the named fallback. A table counts both by operator; what passes in neither
way is listed with the reason, and so is what took long. `dense` are tests of the standard operators on tensors of f16, f32,
f64, integers and bool. `--every 10` runs the first of each operator and every tenth after it. With `--results` each outcome is
kept in the file as soon as it is known, and tests whose outcomes it has do not run again.
Exit code 1 if a test passes in neither way that EXCLUDED does not explain.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import select
import subprocess
import sys
import time
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests
from rich.console import Console
from rich.table import Table

import polytc.backend

KINDS = ("node", "real", "simple", "pytorch-converted", "pytorch-operator")

EXCLUDED = {
    r"image_decoder": "decoding images needs a package for images",
    r"gradient_of": "onnx defines Gradient by no formula, and its evaluator does not have it",
    r"dft_inverse(_opset19)?$": "expects the rounding errors of numpy's transform where the exact result is 0",
    r"bernoulli": "expects the draws of one generator",
    r"strnormalizer.*(upper|lower)": "needs the locale en_US.UTF-8",
    r"loop16_seq_none": "the runner cannot compare sequences of scalars",
}
"""Parts of test names -> why neither way needs to pass."""

READY = "ready"
"""What a child says first."""

_PLAIN = {onnx.TensorProto.DataType.Value(n) for n in (
    "FLOAT", "DOUBLE", "FLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL")}

_NO_TENSORS = re.compile("Sequence|Optional|String|Regex|SplitToSequence|ConcatFromSequence")


@dataclass(frozen=True)
class Outcome:
    """name: of a test. native, fallback: empty if it passes so, else the reason why not. seconds: of processor time that
    the native run took."""

    name: str
    native: str
    fallback: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Test:
    """family: its operator, or what it is called if it has several."""

    name: str
    family: str
    dense: bool


# ---- what there is

def catalogue(kinds: Iterable[str]) -> list[Test]:
    """All tests of these kinds."""
    found = []
    for kind in kinds:
        for case in load_model_tests(kind=kind):
            model = case.model if case.model is not None else onnx.load(_file(case))
            found.append(Test(case.name, _family(case.name, model, kind), _is_dense(model)))
    return found


def _file(case: Any) -> str:
    if case.model_dir:
        return os.path.join(case.model_dir, "model.onnx")
    return os.path.join(os.path.dirname(onnx.__file__), "..", case.url)


def _family(name: str, model: onnx.ModelProto, kind: str) -> str:
    ops = {n.op_type for n in model.graph.node}
    if "_expanded" in name:
        return "definitions by onnx (*_expanded)"
    return ops.pop() if len(ops) == 1 else f"several operators ({kind})"


def _is_dense(model: onnx.ModelProto) -> bool:
    nodes = list(_nodes(model.graph))
    attributes = [a for n in nodes for a in n.attribute if a.type == onnx.AttributeProto.TENSOR]
    values = [*model.graph.input, *model.graph.output]
    return (all(o.domain in ("", "ai.onnx") for o in model.opset_import)
            and all(a.t.data_type in _PLAIN for a in attributes)
            and all(v.type.HasField("tensor_type") and v.type.tensor_type.elem_type in _PLAIN for v in values)
            and not any(_NO_TENSORS.match(n.op_type) for n in nodes))


def _nodes(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(a.g)


# ---- a child

def tests_by(backend: polytc.backend.Backend, target: str, **compiled: Any) -> dict[str, Callable[[], None]]:
    """The tests as functions that raise if they fail, on one thread. compiled: further options of `Graph.compile`."""
    class Here:
        """What the runner asks for."""

        @staticmethod
        def supports_device(device: str) -> bool:
            return device == "CPU"

        @staticmethod
        def prepare(model: onnx.ModelProto, device: str = "CPU", **options: Any) -> polytc.backend.Prepared:
            return backend.prepare(model, target.upper(), threads=1, **compiled)

    found = {}
    for cases in BackendTest(Here, __name__).test_cases.values():
        for method in (m for m in dir(cases) if m.startswith("test_") and m.endswith("_cpu")):
            found[method.removesuffix("_cpu")] = getattr(cases(method), method)
    return found


def attempt(test: Callable[[], None]) -> str:
    """Why a test fails; empty if it does not."""
    try:
        with np.errstate(all="ignore"):
            test()
    except unittest.SkipTest as reason:
        return f"skipped: {reason}"
    except Exception as error:  # whatever a test or a backend raises
        return " ".join(f"{type(error).__name__}: {error}".split())[:300] or "failed"
    return ""


def child(target: str) -> None:
    """Read names of tests, write their outcomes."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what onnx and its tests print is no outcome
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    native, whole = tests_by(polytc.backend.native, target), tests_by(polytc.backend.Backend(), target)
    print(READY, file=out, flush=True)
    for line in sys.stdin:
        name = line.strip()
        start = time.process_time()
        refusal = attempt(native[name])
        seconds = time.process_time() - start
        outcome = Outcome(name, refusal, attempt(whole[name]) if refusal else "", round(seconds, 2))
        print(json.dumps(asdict(outcome)), file=out, flush=True)


def command(target: str) -> list[str]:
    """What makes this script a child."""
    return [sys.executable, __file__, "--child", "--target", target]


class Child:
    """A process that reads names of tests and writes outcomes, made anew when it dies or hangs. environment: what it sees, None
    for what this one does."""

    def __init__(self, command: list[str], timeout: float, environment: Mapping[str, str] | None = None) -> None:
        self.command, self.environment = command, environment
        self.timeout = timeout
        self.process: subprocess.Popen[str] | None = None

    def run(self, name: str) -> Outcome:
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                            stderr=subprocess.DEVNULL, env=self.environment)
            assert self.process.stdout is not None
            self.process.stdout.readline()  # READY, after a while: onnx makes all its tests first
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it ended already: nothing comes back either
            self.process.stdin.write(f"{name}\n")
            self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return Outcome(**json.loads(line))
        reason = f"the process ended with {self.process.wait()}" if ready else f"no result in {self.timeout:.0f} s"
        self.process.kill()
        self.process = None
        return Outcome(name, reason, reason, self.timeout)

    def stop(self) -> None:
        """End the process; `run` makes a new one."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def outcomes(names: list[str], target: str, workers: int, timeout: float, keep: Callable[[Outcome], None]) -> list[Outcome]:
    """All tests, dealt out among children. keep: is given each outcome when it is known."""
    def share(k: int) -> list[Outcome]:
        own = Child(command(target), timeout)
        found = []
        try:
            for name in names[k::workers]:
                found.append(own.run(name))
                keep(found[-1])
        finally:
            own.stop()
        return found

    with ThreadPoolExecutor(workers) as pool:
        return [o for part in pool.map(share, range(workers)) for o in part]


def kept(file: Path | None) -> dict[str, Outcome]:
    """The outcomes that a file has, one a line."""
    lines = file.read_text().splitlines() if file is not None and file.exists() else []
    return {o.name: o for o in (Outcome(**json.loads(line)) for line in lines)}


def keeper(file: Path | None) -> Callable[[Outcome], None]:
    """A function that adds an outcome to a file."""
    def keep(outcome: Outcome) -> None:
        if file is not None:
            with file.open("a") as out:
                out.write(json.dumps(asdict(outcome)) + "\n")
    return keep


def sample(tests: list[Test], every: int) -> list[Test]:
    """The first test of each family, and every so many after it."""
    seen: Counter[str] = Counter()
    chosen = []
    for test in tests:
        if seen[test.family] % every == 0:
            chosen.append(test)
        seen[test.family] += 1
    return chosen


# ---- the report

def explained(name: str) -> str:
    return next((why for part, why in EXCLUDED.items() if re.search(part, name)), "")


def table(tests: list[Test], found: dict[str, Outcome]) -> Table:
    """Counts by family, those with failures first, and the sums."""
    result = Table(title="onnx's backend tests that pass")
    for column in ("operator", "tests", "natively", "with fallback"):
        result.add_column(column, justify="left" if column == "operator" else "right")

    def row(label: str, chosen: list[Test]) -> tuple[str, str, str, str]:
        native = sum(not found[t.name].native for t in chosen)
        return label, str(len(chosen)), f"{native} ({native / max(len(chosen), 1):.1%})", str(
            sum(not found[t.name].fallback for t in chosen))

    families = Counter(t.family for t in tests)
    missing = Counter(t.family for t in tests if found[t.name].native)
    for family in sorted(families, key=lambda f: (-missing[f], f)):
        result.add_row(*row(family, [t for t in tests if t.family == family]))
    result.add_section()
    result.add_row(*row("all", tests))
    result.add_row(*row("dense", [t for t in tests if t.dense]))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu", choices=["cpu", "opencl", "cuda", "interp", "evaluate"])
    parser.add_argument("--kind", choices=KINDS, action="append", help="instead of all; may be given several times")
    parser.add_argument("--only", default="", help="tests whose name matches")
    parser.add_argument("--every", type=int, default=1, help="a sample: the first test of each operator, and every Nth after")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--results", type=Path, help="keep each outcome there; what it has does not run again")
    parser.add_argument("--slow", type=float, default=5, help="seconds from which a test is listed as slow")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that a test may take")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.target)
        return 0
    warnings.simplefilter("ignore")
    tests = sample([t for t in catalogue(given.kind or KINDS) if re.search(given.only, t.name)], given.every)
    found = kept(given.results)
    left = [t.name for t in tests if t.name not in found]
    found |= {o.name: o for o in outcomes(left, given.target, given.workers, given.timeout, keeper(given.results))}
    found = {t.name: found[t.name] for t in tests}
    return report(tests, found, given.slow)


def report(tests: list[Test], found: dict[str, Outcome], slow: float) -> int:
    """Print the table and what does not pass natively, or slowly; the exit code."""
    console = Console()
    console.print(table(tests, found))
    for outcome in found.values():
        if outcome.native:
            console.print(f"{outcome.name}: {outcome.native}", markup=False, highlight=False, soft_wrap=True)
    for outcome in sorted((o for o in found.values() if o.seconds > slow), key=lambda o: -o.seconds):
        console.print(f"slow: {outcome.name}: {outcome.seconds:.1f} s", markup=False, highlight=False, soft_wrap=True)
    failing = [o for o in found.values() if o.fallback]
    for outcome in failing:
        why = explained(outcome.name)
        console.print(f"{'excluded, ' + why if why else 'FAILS'}: {outcome.name}: {outcome.fallback}", markup=False,
                      highlight=False, soft_wrap=True)
    return int(any(not explained(o.name) for o in failing))


if __name__ == "__main__":
    sys.exit(main())
