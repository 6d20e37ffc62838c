"""Run by test_opencl_sanitized.py in a process of its own, on oclgrind: kernels with barriers, guards and vectors.

Argument 'broken': the tiled matmul without its barriers instead, whose races must be found.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import loop_programs as P
import numpy as np

from polytc.codegen import loops as L
from polytc.codegen.opencl.target import OpenCLTarget
from polytc.lang.scalars import F32


def main(broken: bool) -> None:
    """Compare each module with numpy; what oclgrind finds goes to its log."""
    target = OpenCLTarget()
    for m in (P.matmul(5, 6, 7), P.tiled_matmul(8, 4), P.vector_matmul(4, 16, 5, 2, 4)):
        source = target.emit(m)
        if broken:
            source = replace(source, text=source.text.replace("barrier(CLK_LOCAL_MEM_FENCE);", ""))
        a, b, c = (np.random.default_rng(0).standard_normal(x.shape).astype(np.float32) for x in m.args)
        target.load(target.build(source)).run([a, b, c])
        if not broken:
            np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
    beyond = L.Buffer("x", F32, (4,))
    if broken:
        m = P.module("beyond", (beyond,), ("x",), L.Store(beyond, (L.const(4),), L.Const(1.0, beyond.dtype)))
        target.load(target.build(target.emit(m))).run([np.zeros(4, np.float32)])


if __name__ == "__main__":
    main("broken" in sys.argv[1:])
