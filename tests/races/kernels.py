"""Run by `python -m tests.races` in a process of its own, on oclgrind: PolyBench's kernels, of the size MINI.

    kernels.py MACHINE

Expected results are those of tests.polybench.reference, which is NumPy.
"""

from __future__ import annotations

import numpy as np

from examples.polybench.kernels import KERNELS
from polytc import compiler
from polytc.codegen.target import Target
from tests.polybench import reference
from tests.polybench.test_polybench_gpu import TOLERANCE, program
from tests.races import serving


def wrong(name: str, target: Target) -> str:
    """How the results of a kernel differ; or that it does not run as the strategy for GPUs wants it."""
    given, p = KERNELS[name].arguments("MINI"), program(name, "MINI")
    arrays = {n: np.array(given[n]) if n in given else np.zeros(p.tensor(n).shape, p.tensor(n).dtype.numpy) for n in p.arrays}
    low = compiler.lower_program(p, target)
    low.target.load(low.target.build(low.source), 1).run([arrays[n] for n in p.arrays])
    found = KERNELS[name].determined("MINI", {n: arrays[n] for n in p.outputs})
    said = [] if low.schedule.how.startswith("gpu strategy") else [low.schedule.how]
    for n, array in KERNELS[name].determined("MINI", reference.results(name, given)).items():
        error = np.abs(found[n].astype(np.float64) - array).max() / np.abs(array).max()
        said += [] if error <= TOLERANCE[found[n].dtype.char] else [f"{n} differs by {error}"]
    return "; ".join(said)


if __name__ == "__main__":
    serving.serve(serving.attempts(wrong))
