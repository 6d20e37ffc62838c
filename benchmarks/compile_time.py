"""How long compiling takes, cold, beside ONNX Runtime's session creation and torch.compile's first call.

    python benchmarks/compile_time.py [--repeat 3] [--models FOLDER] [--only matmul,conv] [--cores 1,2] [--json out.json]

Each number is of a fresh process without the disk cache, the median of several. `total` of an operator is from its program to
code that can be called, in a process that has compiled something before; of a model it is from its file to a model that can
run, reading included, on so many processors as `--cores` says. `onnxruntime` is the creation of a session of the same operator
or file, `torch` the first call of what torch.compile makes of the operator (nothing where torch or a C++ compiler is missing).
The stages are those of `polytc emit`, then LLVM: `passes` from its text to optimised IR, `code` from there to an object file,
`load`. LLVM works beside the other stages, so that the stages add up to more than the total where there are two processors.

benchmarks/start_time.py has whole first uses: an operator that a new process finds in the cache, a shape that is new to a
process that has had others, a model of one node.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

CASES: dict[str, tuple[str, str, float | None]] = {
    "matmul": ("gemm", "512x512x512 variable", 0.040),
    "conv": ("conv", "resnet50 3x3 64->64 56x56", 0.200),
    "pointwise": ("conv", "resnet50 1x1 64->256 56x56", None),
    "depthwise": ("conv", "mobilenetv2 3x3 depthwise 32 112x112", None),
    "elementwise": ("memory", "a+b*c 256 KB", 0.015),
    "softmax": ("memory", "softmax 256 KB", None),
    "layernorm": ("memory", "layernorm 256 KB", None),
}
"""name -> (table, case of versus.sets, goal in seconds)."""
MODELS = {("resnet50", 2): 2.5}
"""(model, processors) -> goal in seconds."""
RATIO = 5.0
"""Goal: the geometric mean, over all models, of our time over ONNX Runtime's."""

STAGES = ("program", "scop", "deps", "schedule", "ast", "loops", "source", "passes", "code", "load")


def case_of(name: str) -> Any:
    from versus.sets import SETS

    table, title, _ = CASES[name]
    return next(c for c in SETS[table].cases if c.name == title)


def measure_polytc(name: str, model: Path | None) -> dict[str, float]:
    """Compile in this process: seconds by stage, and `import`, `start` (the first use of the compiler) and `total`."""
    begin = time.perf_counter()
    import polytc
    imported = time.perf_counter()
    from polytc import compiler
    from polytc.native import jit
    from polytc.targets.llvm.target import LLVMTarget
    polytc.compile("Y[i] = X[i]", threads=1, shapes={"X": (1,)})
    gc.collect()  # Python looks at all that was imported once, which is part of the start
    seconds = defaultdict[str, float](float, {"import": imported - begin, "start": time.perf_counter() - imported})

    def add(**spent: float) -> None:
        for stage, time_of_it in spent.items():
            seconds[stage] += time_of_it
    _time(jit, "build", lambda _, spent: add(code=spent))
    _time(jit, "optimize", lambda _, spent: add(passes=spent, code=-spent))
    _time(LLVMTarget, "load", lambda _, spent: add(load=spent))
    _time(compiler, "lower_program", lambda lowered, _: add(**lowered.seconds))
    if model is None:
        from versus.peers import polytc_peer

        program = polytc_peer.program(case_of(name))
        start = time.perf_counter()
        compiler.compile_program(program, threads=1)
    else:
        start = time.perf_counter()
        graph = polytc.load_onnx(model)
        shapes = {v.name: tuple(d if isinstance(d, int) else (1 if axis < 2 else 64) for axis, d in enumerate(v.shape or ()))
                  for v in graph.inputs}
        graph.compile(shapes=shapes)
    seconds["total"] = time.perf_counter() - start
    return dict(seconds)


def measure_onnxruntime(name: str, model: Path | None) -> dict[str, float]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    if model is None:
        from versus import onnx_model

        case = case_of(name)
        given: str | bytes = onnx_model.build(case, case.arrays()).SerializeToString()
    else:
        given = str(model)
    start = time.perf_counter()
    onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    return {"total": time.perf_counter() - start}


def measure_torch(name: str, model: Path | None) -> dict[str, float]:
    import inspect
    import shutil

    import torch

    case = case_of(name)
    if model is not None or case.torch is None or shutil.which("g++") is None:
        return {}
    torch.set_num_threads(1)
    torch.compile(lambda x: x + 1)(torch.ones(1))
    arrays = tuple(map(torch.from_numpy, case.arrays().values()))
    wants = {"out": None} if "out" in inspect.signature(case.torch).parameters else {}
    compiled = torch.compile(lambda *given: case.torch(torch, *given, **wants))
    start = time.perf_counter()
    with torch.inference_mode():
        compiled(*arrays)
    return {"total": time.perf_counter() - start}


CONTENDERS: dict[str, Callable[[str, Path | None], dict[str, float]]] = {
    "polytc": measure_polytc, "onnxruntime": measure_onnxruntime, "torch": measure_torch}


def _time(owner: Any, name: str, note: Callable[[Any, float], None]) -> None:
    """Have `note` called with the result and the seconds of each call of a function."""
    original = getattr(owner, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = original(*args, **kwargs)
        note(result, time.perf_counter() - start)
        return result
    setattr(owner, name, timed)


def measure(who: str, name: str, model: Path | None, cores: int, repeat: int) -> dict[str, float]:
    """The run with the median total of several, each in a process of its own; {} where the contender is not here."""
    command = [sys.executable, __file__, "--here", who, name, *(("--model", str(model)) if model else ())]
    own = sorted(os.sched_getaffinity(0))[:cores]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # modules are compiled once
    environment |= {"POLYTC_CACHE": "0", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    runs = []
    for _ in range(repeat):
        done = subprocess.run(command, env=environment,
                              capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, own))
        if done.returncode and who == "polytc":
            raise SystemExit(done.stderr)
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        if not found:
            return {}
        runs.append(found)
    middle: dict[str, float] = sorted(runs, key=lambda r: r["total"])[(repeat - 1) // 2]
    return middle


def row(name: str, model: Path | None, cores: int, repeat: int) -> dict[str, Any]:
    """Print a line: all contenders, then our stages."""
    times = {who: measure(who, name, model, cores, repeat) for who in CONTENDERS}
    goal = MODELS.get((name, cores)) if model is not None else CASES[name][2]
    ours, peers = times["polytc"], [times[who].get("total") for who in ("onnxruntime", "torch")]
    told = [f"{t * 1e3:11.0f}" if t is not None else f"{'-':>11}" for t in (ours["total"], goal, *peers)]
    stages = " ".join(f"{ours.get(s, 0) * 1e3:8.1f}" for s in STAGES)
    print(f"{name:20} {cores:5} {' '.join(told)}  {stages}", flush=True)
    return {"name": name, "cores": cores, "model": model is not None, "goal": goal, **times}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only", default="", help="names of cases and models, separated by commas")
    parser.add_argument("--cores", default="1", help="processors for models, e.g. 1,2")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        who, name = given.here
        print(json.dumps(CONTENDERS[who](name, given.model)))
        return 0
    models = {p.parent.name: p for p in sorted(given.models.glob("*/model.onnx"))} if given.models else {}
    chosen = [n for n in given.only.split(",") if n] or [*CASES, *models]
    columns = " ".join(f"{c:>11}" for c in ("total", "goal", "onnxruntime", "torch"))
    print(f"{'ms':20} {'cores':>5} {columns}  {' '.join(f'{s:>8}' for s in STAGES)}")
    rows = [row(n, models.get(n), cores, given.repeat if n in CASES else 1)
            for n in chosen for cores in ([1] if n in CASES else map(int, given.cores.split(",")))]
    for what in ("import", "start"):
        print(f"{what}: {statistics.median(r['polytc'][what] for r in rows) * 1e3:.0f} ms")
    ratios = [r["polytc"]["total"] / r["onnxruntime"]["total"] for r in rows if r["model"] and r["onnxruntime"]]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"models over ONNX Runtime's session creation, geometric mean: {mean:.1f} (goal {RATIO:.0f})")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    return 1 if any(r["goal"] is not None and r["polytc"]["total"] > r["goal"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
