"""Programs before and behind a rewrite compute the same."""

from __future__ import annotations

import numpy as np

from polytc import compiler, symbolic
from polytc.codegen.target import Executable
from polytc.lang import evaluate
from polytc.program.program import Program
from polytc.program.sizes import specialised
from polytc.runtime.sized import sized
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


def right_at(executable: Executable, program: Program, sizes: dict[str, int]) -> None:
    """What was compiled of a program of open sizes makes at these what the program does, to the last bit, of small numbers."""
    one = specialised(program, sizes)
    given, expected = small_numbers(one), evaluate(one, small_numbers(one))
    arrays = {n: given.get(n, np.zeros(one.tensor(n).shape, one.tensor(n).dtype.numpy)) for n in one.arrays}
    sized(executable, compiler.options(executable), sizes).run([arrays[n] for n in one.arrays])
    for output in one.outputs:
        np.testing.assert_array_equal(arrays[output], expected[output])
