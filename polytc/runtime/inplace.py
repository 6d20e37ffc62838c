"""Calls of programs that write some of their inputs in place (`inout`): which array stands for which tensor.

The array that the caller passes is written if it can be: writable, C-contiguous, aligned. Where it cannot, a copy is written
and returned, if it is among the results. `out=` names another array to write: it gets the input's contents first. Other inputs
that share memory with what is written are copied, so that every read finds what was passed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from polytc.program.program import Program
from polytc.runtime.arrays import allocate, argument_error, as_output, check_overlap


def arranged(program: Program, inputs: Mapping[str, np.ndarray], copied: Collection[str], returned: Collection[str],
             out: Mapping[str, object]) -> dict[str, np.ndarray]:
    """The array of each of `program.arrays`, in order.

    inputs: C-contiguous and aligned; copied: those of them that are copies already; returned: outputs that the call gives back;
    out: arrays that the caller gave for some outputs. Raises ArgumentError E407, E408.
    """
    arrays = dict(inputs)
    given = {n: as_output(n, a, program.tensor(n).shape, program.tensor(n).dtype.numpy) for n, a in out.items()}
    for name, array in given.items():
        others = [n for n in inputs if n != name]
        check_overlap([*others, *(f"out for {n}" for n in given if n != name)],
                      [*(inputs[n] for n in others), *(a for n, a in given.items() if n != name)], [name], [array])
    for name in program.inouts:
        if name in given:
            np.copyto(given[name], arrays[name])
            arrays[name] = given[name]
        else:
            arrays[name] = _own(name, arrays[name], name in copied, name in returned)
    written = {n: arrays[n] for n in program.inouts}
    for name, array in written.items():
        check_overlap([n for n in written if n != name], [a for n, a in written.items() if n != name], [name], [array])
    for name, array in arrays.items():
        if name not in written and any(np.may_share_memory(array, a) for a in written.values()):
            arrays[name] = array.copy()
    for name in program.arrays:
        if name not in arrays:
            t = program.tensor(name)
            arrays[name] = given[name] if name in given else allocate(name, t.shape, t.dtype.numpy)
    return {n: arrays[n] for n in program.arrays}


def _own(name: str, array: np.ndarray, copied: bool, returned: bool) -> np.ndarray:
    """The caller's array, or a copy of it that the caller will get."""
    if array.flags.writeable and not copied:
        return array
    if not returned:
        why = "it is read-only" if not array.flags.writeable else "it is not C-contiguous and aligned"
        raise argument_error("E407", f"{name} is written in place, but {why}",
                             f"pass np.array({name}), or list {name} among the results: then a copy is returned")
    return array if copied else array.copy()
