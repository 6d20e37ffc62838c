"""How long compiling takes, cold: each case in a fresh process, without the disk cache, stage by stage.

    python benchmarks/compile_time.py [--repeat 3] [--models FOLDER] [--only matmul,conv] [--json out.json]

`import` is what importing polytc costs and `start` what the first use of the compiler costs a process (modules, LLVM, finding
out about the processor); neither is part of the total. `total` is from the program to code that can be called; it is
compared with the goal. The stages are those of `polytc emit`, then LLVM: `passes` from its text to optimised IR, `code` from
there to an object file, `load`. FOLDER/NAME/model.onnx are models, compiled for one thread: their total includes reading the
file; LLVM works beside the other stages then, so that the stages add up to more than the total where there are two processors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], float]] = {
    "matmul": ("C[i,j] += A[i,k]*B[k,j]", {"A": (512, 512), "B": (512, 512)}, 0.150),
    "conv": ("O[n,m,h,w] += (I[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:56, w in 0:56",
             {"I": (1, 64, 56, 56), "W": (64, 64, 3, 3)}, 0.250),
    "elementwise": ("Y[i,j] = max(X[i,j]*2 + 1, 0)", {"X": (128, 768)}, 0.060),
    "softmax": ("M[i] max= X[i,j]; E[i,j] = exp(X[i,j]-M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i]", {"X": (128, 512)}, 0.150),
    "layernorm": ("m[i] += X[i,k]/768; v[i] += (X[i,k]-m[i])*(X[i,k]-m[i])/768\n"
                  "Y[i,j] = (X[i,j]-m[i])*rsqrt(v[i]+1e-5)*g[j]+b[j]",
                  {"X": (128, 768), "g": (768,), "b": (768,)}, 0.150),
}
"""name -> (text, shapes, goal in seconds)."""

STAGES = ("program", "scop", "deps", "schedule", "ast", "loops", "source", "passes", "code", "load")


def measure_here(case: str, model: Path | None) -> dict[str, float]:
    """Compile in this process: seconds by stage, and `import`, `start` and `total`."""
    begin = time.perf_counter()
    import polytc
    imported = time.perf_counter()
    from polytc import compiler
    from polytc.native import jit
    from polytc.targets.llvm.target import LLVMTarget
    polytc.compile("Y[i] = X[i]", threads=1, shapes={"X": (1,)})
    seconds = defaultdict[str, float](float, {"import": imported - begin, "start": time.perf_counter() - imported})

    def add(**spent: float) -> None:
        for stage, time_of_it in spent.items():
            seconds[stage] += time_of_it
    _time(jit, "build", lambda _, spent: add(code=spent))
    _time(jit, "optimize", lambda _, spent: add(passes=spent, code=-spent))
    _time(LLVMTarget, "load", lambda _, spent: add(load=spent))
    _time(compiler, "lower_program", lambda lowered, _: add(**lowered.seconds))
    if model is None:
        text, shapes, _ = CASES[case]
        program = polytc.build(text, shapes)
        start = time.perf_counter()
        compiler.compile_program(program, threads=1)
    else:
        start = time.perf_counter()
        graph = polytc.load_onnx(model)
        shapes = {v.name: tuple(d if isinstance(d, int) else (1 if axis < 2 else 64) for axis, d in enumerate(v.shape or ()))
                  for v in graph.inputs}
        graph.compile(threads=1, shapes=shapes)
    seconds["total"] = time.perf_counter() - start
    return dict(seconds)


def _time(owner: Any, name: str, note: Callable[[Any, float], None]) -> None:
    """Have `note` called with the result and the seconds of each call of a function."""
    original = getattr(owner, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = original(*args, **kwargs)
        note(result, time.perf_counter() - start)
        return result
    setattr(owner, name, timed)


def measure(case: str, model: Path | None, repeat: int) -> dict[str, float]:
    """The run with the median total of several, each in a process of its own."""
    command = [sys.executable, __file__, "--here", case, *(("--model", str(model)) if model else ())]
    runs = [json.loads(subprocess.run(command, env={**os.environ, "POLYTC_CACHE": "0"}, check=True, capture_output=True,
                                      text=True).stdout) for _ in range(repeat)]
    middle: dict[str, float] = sorted(runs, key=lambda r: r["total"])[(repeat - 1) // 2]
    return middle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only", default="", help="names of cases and models, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure_here(given.here, given.model)))
        return 0
    work: dict[str, Path | None] = dict.fromkeys(CASES)
    work |= {p.parent.name: p for p in sorted(given.models.glob("*/model.onnx"))} if given.models else {}
    chosen = [n for n in given.only.split(",") if n] or list(work)
    results = {}
    print(f"{'ms':20} {'total':>8} {'goal':>5}  {' '.join(f'{s:>8}' for s in STAGES)}")
    for name in chosen:
        results[name] = r = measure(name, work[name], given.repeat if work[name] is None else 1)
        goal = f"{CASES[name][2] * 1e3:5.0f}" if name in CASES else "    -"
        print(f"{name:20} {r['total'] * 1e3:8.0f} {goal}  {' '.join(f'{r.get(s, 0) * 1e3:8.1f}' for s in STAGES)}", flush=True)
    every = list(results.values())
    print(f"import {statistics.median(r['import'] for r in every) * 1e3:.0f} ms, "
          f"start {statistics.median(r['start'] for r in every) * 1e3:.0f} ms")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))
    return 1 if any(r["total"] > CASES[n][2] for n, r in results.items() if n in CASES) else 0


if __name__ == "__main__":
    sys.exit(main())
