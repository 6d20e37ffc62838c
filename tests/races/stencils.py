"""Run by `python -m tests.races` in a process of its own, on oclgrind: loops around stencils in tiles of several iterations.

    stencils.py MACHINE

With the argument 'broken' the kernels have no barriers, which is to be found. Expected results are NumPy's.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from polytc import compiler, decisions
from polytc.codegen import loops
from polytc.codegen.target import Source, Target
from polytc.rewrite.gpu.time_tiles.tiling import Tiled
from polytc.stages import build
from polytc.targets.opencl.target import OpenCLTarget
from tests.races import serving
from tests.rewrite.gpu.time_tiles.stencil_programs import Stencil, Tap

_LINE = (Tap((-1,), 1, False), Tap((0,), 2, True), Tap((2,), 1, False))
_PLANE = (Tap((-1, 0), 1, False), Tap((0, 1), 1, True), Tap((1, -1), 2, False), Tap((0, 0), 1, False))
_SPACE = (Tap((0, 0, -1), 1, False), Tap((0, 1, 0), 1, False), Tap((-1, 0, 0), 1, False), Tap((1, 0, 1), 1, False))
CASES: dict[str, tuple[Stencil, int, tuple[int, ...], tuple[int, ...]]] = {
    "copied back": (Stencil("copied", (70,), _LINE, None, "i32", 13), 4, (16,), (2,)),
    "ends": (Stencil("alternating", (45,), _LINE, 3, "f32", 9), 2, (16,), (2,)),
    "one group": (Stencil("alternating", (25,), _LINE, None, "f32", 5), 5, (32,), (1,)),
    "plane": (Stencil("fields", (21, 30), _PLANE, None, "f32", 6), 2, (16, 4), (1, 4)),
    "waves": (Stencil("waves", (14, 19), _PLANE, 1, "i32", 13), 3, (16, 4), (1, 4)),
    "space": (Stencil("copied", (7, 9, 11), _SPACE, None, "f32", 5), 2, (8, 4, 2), (2, 2, 4)),
}


def wrong(name: str, target: Target) -> str:
    """Which fields differ; or that a loop has no tiles."""
    s, steps, items, elements = CASES[name]
    p = build(s.text())
    choice = Tiled(next(x.name for x in p.statements if x.loops), steps, items, elements)
    record = f"{decisions.HEAD} {decisions.VERSION}\n{decisions.entry('time_tiles', choice)}\n"
    given = s.inputs(np.random.default_rng(0))
    arrays = {n: a.copy() for n, a in given.items()}
    low = compiler.lower_program(p, target, schedule=record)
    low.target.load(low.target.build(low.source), 1).run([arrays[n] for n in p.arrays])
    said = [] if "__local" in low.source.text else ["no tiles in local memory"]
    return "; ".join(said + [f"{n} differs" for n, e in s.expected(given).items() if not np.array_equal(arrays[n], e)])


def _without_barriers() -> None:
    """From now on items do not meet."""
    emit = OpenCLTarget.emit

    def broken(self: OpenCLTarget, module: loops.Module) -> Source:
        source = emit(self, module)
        lines = (x for x in source.text.split("\n") if not x.strip().startswith("barrier("))
        return replace(source, text="\n".join(lines))
    OpenCLTarget.emit = broken  # type: ignore[method-assign]


if __name__ == "__main__":
    if "broken" in sys.argv:
        _without_barriers()
    serving.serve(serving.attempts(wrong))
