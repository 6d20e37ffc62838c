"""Run by `python -m tests.races` in a process of its own, on oclgrind: softmax between two products as one kernel.

    attention.py MACHINE

Expected results are NumPy's.
"""

from __future__ import annotations

import numpy as np

import polytc
from polytc.codegen.target import Target
from tests.races import serving
from tests.rewrite.gpu.softmax.test_fusion import CASES, TOLERANCES, record

NAMES = [n for n, case in CASES.items() if "matrix" not in case.record]


def wrong(name: str, target: Target) -> str:
    """How the results differ; or that there are several kernels."""
    case, given = CASES[name], CASES[name].arrays
    dtypes = {} if "def" in case.text else dict.fromkeys(given, np.dtype(case.dtype).name.replace("loat", ""))
    low = polytc.lower(case.text, target, shapes=case.shapes, dtypes=dtypes, decisions=record(case))
    p = low.program
    arrays = {n: given[n] if n in given else np.zeros(p.tensor(n).shape, p.tensor(n).dtype.numpy) for n in p.arrays}
    low.target.load(low.target.build(low.source), 1).run([arrays[n] for n in p.arrays])
    wanted = case.expected(**given)
    said = [] if len(low.loops.kernels) == 1 else [f"{len(low.loops.kernels)} kernels"]
    rtol, atol = TOLERANCES[case.dtype]
    for n, w in zip(p.outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        said += [] if np.allclose(arrays[n], w, rtol, atol, equal_nan=True) else [f"{n} differs"]
    return "; ".join(said)


if __name__ == "__main__":
    serving.serve(serving.attempts(wrong))
