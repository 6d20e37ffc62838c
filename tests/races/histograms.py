"""Run by `python -m tests.races` in a process of its own, on oclgrind: updates of elements in which the items of a group meet.

    histograms.py MACHINE

With the argument 'plain' these are not made in one step, which is to be found. Expected results are NumPy's.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import numpy as np

from polytc import compiler
from polytc.codegen import loops
from polytc.codegen.target import Source, Target
from polytc.program.program import Program
from polytc.stages import build
from polytc.targets.opencl.target import OpenCLTarget
from tests.races import serving

TEXTS = {
    "counts": "def f(i32[301] x) -> (i64[5] H) { H[x[i]] += 1 }",
    "vectors": "def f(i32[256] x, i32[256] w) -> (i32[5] H) { H[x[i]] += w[i] }",
    "largest": "def f(u8[301] x, i32[301] w) -> (i32[40] H) { H[x[i]] max= w[i] }",
    "smallest": "def f(i64[301] x, u16[301] w) -> (u16[7] H) { H[x[i]] min= w[i] }",
    "bits": "def f(i32[301] x, u32[301] w) -> (u32[3] H) { H[x[i]] ^= w[i] where i in 0:301, i % 3 == 1 }",
    "rows": "def f(i32[3,101] x) -> (i64[3,5] H) { H[r,x[r,i]] += 1 }",
    "ranges": "def f(i32[301] x) -> (i32[20001] H) { H[x[i]] += 1 }",
}
"""The last one has more elements than local memory: groups have ranges of them."""
UFUNCS = {"+=": np.add, "max=": np.maximum, "min=": np.minimum, "^=": np.bitwise_xor}
PLAIN = {"add": "*({}) += {};", "xor": "*({}) ^= {};", "min": "*({0}) = min(*({0}), {1});", "max": "*({0}) = max(*({0}), {1});"}
"""What atomic functions do, in several steps."""


def drawn(p: Program) -> dict[str, np.ndarray]:
    """Inputs, of which some places are outside."""
    rng, found = np.random.default_rng(0), {}
    for n in p.inputs:
        t = p.tensor(n)
        ends = np.iinfo(t.dtype.numpy)
        low, high = (max(ends.min, -2), min(ends.max, p.tensor("H").shape[-1] + 2)) if n == "x" else (ends.min, ends.max)
        found[n] = rng.integers(low, high, t.shape, t.dtype.numpy, endpoint=True)
    return found


def expected(name: str, p: Program, given: dict[str, np.ndarray]) -> np.ndarray:
    """H."""
    t, x = p.tensor("H"), given["x"].astype(np.int64)
    (op,) = (o for o in UFUNCS if f" {o} " in TEXTS[name])
    start = {"max=": np.iinfo(t.dtype.numpy).min, "min=": np.iinfo(t.dtype.numpy).max}.get(op, 0)
    found = np.full(t.shape, start, t.dtype.numpy)
    there = (x >= 0) & (x < t.shape[-1])
    if "i % 3" in TEXTS[name]:
        there &= np.arange(len(x)) % 3 == 1
    place = (*np.nonzero(there)[:-1], x[there])
    UFUNCS[op].at(found, place, given["w"][there] if "w" in given else 1)
    return found


def wrong(name: str, target: Target) -> str:
    """How the counters differ; or that items do not update them in local memory."""
    p = build(TEXTS[name])
    given = drawn(p)
    arrays = {n: given[n] if n in given else np.zeros(p.tensor(n).shape, p.tensor(n).dtype.numpy) for n in p.arrays}
    low = compiler.lower_program(p, target)
    low.target.load(low.target.build(low.source), 1).run([arrays[n] for n in p.arrays])
    said = [] if "by=atomics" in str(low.decisions) else ["no atomic updates"]
    return "; ".join(said + ([] if np.array_equal(arrays["H"], expected(name, p, given)) else ["H differs"]))


def _make_plain() -> None:
    """From now on updates are loads and stores."""
    emit = OpenCLTarget.emit

    def plain(self: OpenCLTarget, module: loops.Module) -> Source:
        source = emit(self, module)
        text = re.sub(r"atomic_(\w+)\((.*?), (.*)\);", lambda m: PLAIN[m[1]].format(m[2], m[3]), source.text)
        assert "atomic_" not in text
        return replace(source, text=text)
    OpenCLTarget.emit = plain  # type: ignore[method-assign]


if __name__ == "__main__":
    if "plain" in sys.argv:
        _make_plain()
    serving.serve(serving.attempts(wrong))
