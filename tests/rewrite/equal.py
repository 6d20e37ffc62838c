"""Programs before and behind a rewrite compute the same."""

from __future__ import annotations

import numpy as np

from polytc import symbolic
from polytc.lang import evaluate
from polytc.program.program import Program
from polytc.stages import build


def small_numbers(program: Program) -> dict[str, np.ndarray]:
    """Whole numbers for the inputs, so that sums are exact in any order."""
    rng = np.random.default_rng(0)
    return {n: rng.integers(0, 5, program.tensor(n).shape).astype(program.tensor(n).dtype.numpy) for n in program.inputs}


def same_results(before: Program, after: Program) -> None:
    """Of the outputs of `before`, to the last bit, for small whole numbers. Tensors may be seen in other shapes."""
    given = small_numbers(before)
    expected = evaluate(before, given)
    found = evaluate(after, {n: np.reshape(a, after.tensor(n).shape) for n, a in given.items()})
    for name in before.outputs:
        np.testing.assert_array_equal(np.reshape(found[name], expected[name].shape), expected[name])


def with_open_sizes(text: str, typical: dict[str, int]) -> Program:
    """The program of a `def`, all of whose sizes stay open. typical: may name more."""
    dims = symbolic.declared(text, None, {}, every=True)
    names = symbolic.OpenSizes(dims, {}, {}).names
    sizes = symbolic.OpenSizes(dims, {n: typical[n] for n in names if n in typical}, {})
    return sizes.general(lambda shapes: build(text, shapes, {}))
