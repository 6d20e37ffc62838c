"""Run by `python -m tests.races` in a process of its own, on oclgrind: sums of products of bytes, by dot products of words.

    byte_sums.py MACHINE

Expected results are NumPy's. oclgrind's compiler has no instruction for them, so that the text's multiply-adds run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import polytc
from polytc.codegen.target import Target
from tests.byte_sums import PRODUCTS
from tests.races import serving

NAMES = ("an odd sum", "X'", "zero points", "windows with a border")
EAGER = {"launches.launch": 0.0, "groups.integer": 1000.0}
"""Costs by which small sums are made of words, too."""


def wrong(name: str, target: Target) -> str:
    """How the results differ; or that no words are multiplied."""
    s, signs = PRODUCTS[name], ("u8", "i8")
    low = polytc.lower(s.text, replace(target, machine=target.machine.costing(EAGER)),  # type: ignore[type-var]
                       shapes=s.shapes, dtypes=s.types(signs))
    given = s.inputs(signs)
    p = low.program
    arrays = {n: given[n] if n in given else np.zeros(p.tensor(n).shape, p.tensor(n).dtype.numpy) for n in p.arrays}
    low.target.load(low.target.build(low.source), 1).run([arrays[n] for n in p.arrays])
    said = [] if "dot_" in str(low.decisions) else ["no dot products"]
    return "; ".join(said + ([] if np.array_equal(arrays[p.outputs[-1]], s.wanted(given)) else ["it differs"]))


if __name__ == "__main__":
    serving.serve(serving.attempts(wrong))
