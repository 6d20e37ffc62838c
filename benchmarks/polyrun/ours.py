"""polytc as a contestant (polyrun/contestant.py has the protocol).

    python -m polyrun.ours KERNEL SIZE THREADS [SCHEDULE]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import polytc
from examples.polybench.kernels import KERNELS, Kernel

NAMES = {"d": "double", "f": "float", "i": "int", "b": "base"}
"""Types of elements as PolyBench spells them."""


class Runner:
    """A compiled kernel and its arrays. compiled: seconds that it took."""

    def __init__(self, kernel: Kernel, size: str, threads: int, schedule: str | None) -> None:
        polytc.compile("Y[i] = X[i]", threads=threads, shapes={"X": (64,)})  # the compiler's own start is not counted
        arguments = kernel.arguments(size)
        scalars = {n: a for n, a in arguments.items() if isinstance(a, int)}  # numbers of steps; other numbers are data
        self.initial = {n: np.asarray(a) for n, a in arguments.items() if n not in scalars}
        start = time.perf_counter()
        self.op = polytc.compile(kernel.text, threads=threads, schedule=schedule, scalars=scalars,
                                 fast=True,  # as the C programs
                                 shapes={n: a.shape for n, a in self.initial.items()},
                                 dtypes={n: a.dtype for n, a in self.initial.items()})
        self.compiled = time.perf_counter() - start
        self.inputs = [self.initial[n].copy() for n in self.op.inputs]
        self.result: Any = None

    def run(self) -> float:
        """Seconds. Results go to given memory, as those of the C programs do, where the program does not work in place."""
        for name, array in zip(self.op.inputs, self.inputs):
            np.copyto(array, self.initial[name])
        out = self.result if not set(self.op.inputs) & set(self.op.outputs) else None
        start = time.perf_counter()
        self.result = self.op(*self.inputs, out=out)
        return time.perf_counter() - start

    def dump(self, folder: Path) -> None:
        for name, array in zip(self.op.outputs, self.result if len(self.op.outputs) > 1 else (self.result,)):
            array.tofile(folder / f"{name}.{NAMES[array.dtype.char]}")


def serve(runner: Runner) -> None:
    print(f"ready {runner.compiled:.6f}", flush=True)
    for line in sys.stdin:
        name, argument = line.rstrip("\n").split(" ", 1)
        if name == "run":
            for _ in range(int(argument)):
                print(f"{runner.run():.9f}")
        else:
            runner.dump(Path(argument))
            print("done")
        sys.stdout.flush()


if __name__ == "__main__":
    kernel_name, size_name, thread_count, *schedules = sys.argv[1:]
    serve(Runner(KERNELS[kernel_name], size_name, int(thread_count), schedules[0] if schedules else None))
