"""What polytc adds to its own machine code: the cost of a call, of a parallel region, and of finding a program on disk.

    python benchmarks/overhead.py [--threads 2]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

import polytc
from polytc import compiler
from polytc.codegen import loops
from polytc.native import threads as pool
from polytc.program.scalars import I64
from polytc.runtime.pending import Pending
from polytc.targets import registry
from polytc.targets.llvm.target import LLVMTarget

TEXTS = ("Y[i] = A[i]", "Y[i] = A[i] + B[i]", "Y[i] = A[i] + B[i] + C[i]", "Y[i] = A[i] + B[i] + C[i] + D[i]")
PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "matrix product": ("C[i,j] += A[i,k] * B[k,j]", {"A": (512, 512), "B": (512, 512)}),
    "padded convolution": ("O[n,m,h,w] += (I[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:56, w in 0:56",
                           {"I": (1, 64, 56, 56), "W": (64, 64, 3, 3)}),
    "element-wise": ("Y[i,j] = max(X[i,j], 0) * 2", {"X": (512, 512)})}


def microseconds(call: Callable[[], object], calls: int = 20_000, rounds: int = 9) -> float:
    """Of one call, best of the rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - start)
    return best / calls * 1e6


def calls() -> Table:
    """Tiny arrays, so that nothing but the call is measured; `native` is the kernel called on fixed addresses."""
    table = Table("inputs", "native", "op(...)", "op(..., out=)", "op(name=...)", "polytc.run(...)", "over native",
                  title="a call, microseconds; one thread")
    for count, text in enumerate(TEXTS, 1):
        op = polytc.compile(text, threads=1)
        arrays, out = [np.ones(4, np.float32) for _ in range(count)], np.empty(4, np.float32)
        named = dict(zip(op.inputs, arrays, strict=True))
        bound = op.specialise(dict.fromkeys(op.inputs, (4,))).executable.bind([*arrays, out])
        rows: list[Callable[[], object]] = [bound, partial(op, *arrays), partial(op, *arrays, out=out), partial(op, **named),
                                            partial(polytc.run, text, *arrays, threads=1)]
        times = [microseconds(row) for row in rows]
        table.add_row(str(count), *(f"{t:.2f}" for t in times), f"{max(times[1], times[2]) - times[0]:.2f}")
    return table


def regions(threads: int) -> Table:
    """A parallel loop of so little work that its time is that of opening and closing the region."""
    table = Table("threads", "time", "of the region", title="a parallel region, microseconds")
    out = np.zeros(64, np.int64)
    alone = microseconds(_parallel(1, out))
    table.add_row("1", f"{alone:.2f}", "")
    for count in sorted({2, threads}):
        if count <= threads:
            time_ = microseconds(_parallel(count, out))
            table.add_row(str(count), f"{time_:.2f}", f"{time_ - alone:.2f}")
    return table


def _parallel(threads: int, out: np.ndarray) -> Callable[[], None]:
    """out[p] += 1 in parallel for every eighth p, so that no cache line is shared."""
    buffer, at = loops.Buffer("out", I64, (len(out),)), loops.binary("*", loops.Var("p"), loops.const(8))
    step = loops.Store(buffer, (at,), loops.binary("+", loops.Load(buffer, (at,), I64), loops.const(1)))
    body = loops.For("p", loops.const(0), loops.const(len(out) // 8), 1, step, "parallel")
    module = loops.Module("region", (buffer,), ("out",), (), (loops.Kernel("k", (buffer,), ("out",), body),))
    target = LLVMTarget()
    return target.load(target.build(target.emit(module)), threads).bind([out])


def hits() -> Table:
    """The same programs compiled, then found on disk by a process that knows nothing."""
    table = Table("program", "compiled", "found on disk", title="a program, milliseconds; cold, then from the disk cache")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"POLYTC_CACHE": "1", "POLYTC_CACHE_DIR": folder}
        for name, (text, shapes) in PROGRAMS.items():
            program = polytc.build(text, shapes)
            cold, *warm = [_milliseconds(partial(compiler.compile_program, program, "cpu", 1)) for _ in range(9)]
            table.add_row(name, f"{cold:.1f}", f"{sorted(warm)[len(warm) // 2]:.2f}")
    return table


def _milliseconds(call: Callable[[], object]) -> float:
    compiler._EXECUTABLES = Pending(1)
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=pool.default_threads(registry.target("cpu").machine.cores))
    options = parser.parse_args(arguments)
    console = Console(highlight=False, width=120)
    for table in (calls(), regions(options.threads), hits()):
        console.print(table)


if __name__ == "__main__":
    main()
